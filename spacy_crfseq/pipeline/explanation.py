"""Explanations of predictions: the weights for each label and against its rival.

The rival of a token's label is its second most probable one, or a given one, in the best labelling of the sentence that
has it: neighbours may change with it, as they must in a span.  The margin is the score of the predicted labelling minus
that of the rival one, and the contributions are the addends in which the two differ.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from math import exp, inf

import numpy as np
from spacy.tokens import Doc

from ..errors import DataError
from ..evaluation.contributions import (
    ADDED,
    BIGRAM,
    DICTIONARY,
    KINDS,
    START,
    TRANSITION,
    UNIGRAM,
    Addends,
    BestThrough,
)
from ..evaluation.explanation import Contribution, Explanation, TokenExplanation
from ..evaluation.weights import entries
from ..inference.posterior import Posterior
from ..model import LinearChainCRF
from ..potentials.sums import SumSource
from ..potentials.tag_dictionary import MaskedSource
from ..types import Ints
from .doc_posterior import DocPosterior
from .feature_names import FeatureReader
from .labels import numbers_of
from .tasks import Annotation


class Explainer:
    """Explains the predictions of a component with its present weights; `posterior_of` is `CRFComponent.posterior`."""

    def __init__(
        self,
        name: str,
        posterior_of: Callable[..., DocPosterior],
        annotation: Annotation,
        crf: LinearChainCRF,
        reader: FeatureReader,
    ) -> None:
        self._name, self._posterior_of, self._annotation = name, posterior_of, annotation
        self._crf, self._reader, self._weights = crf, reader, entries(crf)

    def explain(
        self, doc: Doc, *, tokens: Collection[int] | None = None, against: str | None = None, preset: bool = False
    ) -> Explanation:
        """Explain the labels of a Doc.

        tokens (Collection[int] | None): Those to be explained; None for all.
        against (str | None): The rival, a tag or the type of several tags.
        preset (bool): As in `CRFComponent.posterior`.
        RAISES ConfigError: If the component has no model, or none of whole labellings.
        RAISES DataError: If the model has no such label, or the Doc no such token.
        """
        missing = [token for token in tokens or () if not 0 <= token < len(doc)]
        if missing:
            raise DataError(f"There is no token {missing[0]}: the document has {len(doc)} tokens, counted from 0.")
        answers = self._posterior_of([doc], preset=preset)
        rivals = None if against is None else numbers_of([against], self._annotation, answers.tags)
        text = _Text(self, doc, answers, preset)
        wanted = range(len(doc)) if tokens is None else sorted(set(tokens))
        labels = answers.all_labels
        return Explanation(
            self._name,
            [token.text for token in doc],
            [answers.tags[label] for label in labels.tolist()],
            np.minimum(text.marginals[np.arange(len(doc)), labels], 1.0).tolist(),  # float32 leaves a rest
            float(text.addends.amounts(labels).sum()),
            exp(min(0.0, float(answers.log_probabilities()[0]))),
            [text.explain(token, rivals) for token in wanted],
        )


class _Text:
    """A Doc, the addends of its scores, and its best labellings."""

    def __init__(self, explainer: Explainer, doc: Doc, answers: DocPosterior, preset: bool) -> None:
        crf, reader = explainer._crf, explainer._reader
        self.distribution: Posterior = answers.distribution
        self.crf, self.doc, self.tags, self.labels = crf, doc, answers.tags, answers.all_labels
        self.marginals = self.distribution.marginals()
        active = reader.active([doc], preset)
        source, offsets = self.distribution.source, self.distribution.offsets
        self.words = source.words if isinstance(source, MaskedSource) else None
        whole = (0, len(offsets) - 1)
        bare = source.source if isinstance(source, MaskedSource) else source
        added = bare.rest(whole) if isinstance(bare, SumSource) else None
        self.addends = Addends(crf, active, offsets, self.words, explainer._weights, added)
        scores, _ = source.forward(whole)
        self.best = BestThrough(scores.constrained(self.distribution.constraints, self.distribution.allowed), offsets)
        self.names: dict[tuple[int, int], list[str]] = {}
        self.unknown: list[list[str]] = [[] for _ in doc]
        for block, (kind, found) in enumerate(zip((UNIGRAM, BIGRAM), active, strict=True)):
            for one in found:
                names = self.names[kind, one.template] = reader.names(block, one)
                for i in np.flatnonzero(one.features < 0).tolist():
                    self.unknown[one.tokens[i]].append(names[i])

    def explain(self, token: int, rivals: Collection[int] | None) -> TokenExplanation:
        label, tags = int(self.labels[token]), self.tags
        rival = self._rival(token, label, rivals)
        labels, changes = self.labels, {}
        impossible = "" if rival is None else self._objection(token, rival)
        compared = rival is not None and not impossible
        if rival is not None and compared:
            labels = self.best.labelling(token, rival, self.labels)
            others = np.flatnonzero(labels != self.labels)
            changes = {int(t): tags[labels[t]] for t in others if t != token}
        contributions = self._contributions(token, labels, compared)
        return TokenExplanation(
            token,
            self.doc[token].text,
            tags[label],
            min(1.0, float(self.marginals[token, label])),
            sum(one.weight for one in contributions if one.token == token),
            None if rival is None else tags[rival],
            0.0 if rival is None or impossible else min(1.0, float(self.marginals[token, rival])),
            sum(one.difference for one in contributions) if compared else inf,
            impossible,
            changes,
            contributions,
            self.unknown[token],
        )

    def _rival(self, token: int, label: int, wanted: Collection[int] | None) -> int | None:
        """Return the most probable of the `wanted` labels, or of all other possible ones."""
        marginals, best = self.marginals[token], self.best.scores[token]
        others = [k for k in wanted or () if k != label]
        if not others or label in (wanted or ()):
            others = [k for k in range(len(self.tags)) if k != label and best[k] > -inf]
        return max(others, key=lambda k: (marginals[k], best[k]), default=None)

    def _objection(self, token: int, rival: int) -> str:
        if self.best.scores[token, rival] > -inf:
            return ""
        allowed, words = self.distribution.allowed, self.words
        if allowed is not None and not allowed[token, rival]:
            return "ruled out by what is already known about the text"
        dictionary = self.crf.dictionary
        if dictionary is not None and words is not None and not dictionary.labels_of(words[[token]])[0, rival]:
            return "the tag dictionary does not have it for this word"
        return "no labelling of the sentence that keeps to the scheme has it here"

    def _contributions(self, token: int, rivals: Ints, compared: bool) -> list[Contribution]:
        changed = np.append(np.flatnonzero(rivals != self.labels), token)
        which = self.addends.of_tokens(int(changed.min()), int(changed.max()) + 2)  # the step to the next one, too
        amounts = self.addends.amounts(self.labels, which)
        others = self.addends.amounts(rivals, which) if compared else np.zeros_like(amounts)
        tokens, kinds = self.addends.tokens[which], self.addends.kinds[which]
        mine = tokens == token
        shown = (amounts != others if compared else mine) | (mine & (others != 0))
        shown &= (amounts != 0) | (others != 0)
        shown &= kinds != DICTIONARY
        found = []
        for i in np.flatnonzero(shown).tolist():
            t, kind = int(tokens[i]), int(kinds[i])
            name = self._name(which.start + i, t, kind, rivals)
            found.append(Contribution(t, KINDS[kind], name, float(amounts[i]), float(others[i])))
        return sorted(found, key=lambda one: -abs(one.difference))

    def _name(self, addend: int, token: int, kind: int, rivals: Ints) -> str:
        if kind in (UNIGRAM, BIGRAM):
            names = self.names[kind, int(self.addends.templates[addend])]
            return names[int(self.addends.places[addend])]
        if kind == ADDED:
            return "added potentials"
        here, there = (self._step(token, kind, labels) for labels in (self.labels, rivals))
        return here if here == there else f"{here}, not {there}"

    def _step(self, token: int, kind: int, labels: Ints) -> str:
        label = self.tags[labels[token]]
        if kind == TRANSITION:
            return f"{self.tags[labels[token - 1]]} -> {label}"
        return f"start -> {label}" if kind == START else f"{label} -> end"
