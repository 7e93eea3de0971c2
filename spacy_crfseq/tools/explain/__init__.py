"""Explanations of predictions: the score of a labelling as a sum of weights, for each label and against its rival.

The addends of a token are the weights of its features for its label, those of its bigram features and the transition
from the previous label, start and end scores, and the scores of added potentials.  The rival of a token's label is its
second most probable one, or a given one, in the best labelling of the sentence that has it: neighbours may change with
it, as they must in a span.  The margin is the score of the predicted labelling minus that of the rival one, and the
contributions are the addends in which the two differ.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from math import exp, inf
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...errors import DataError
from ...prf import finite
from ...types import Ints, Offsets, Scores

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from ...pipeline.component import CRFComponent
    from ...pipeline.doc_posterior import DocPosterior

TokenAddend = tuple[str, str, float]
"""An addend of a token's score: its kind, its name and its amount."""
Place = tuple[str, tuple[int, ...]]
"""A place in scores: the array and the indices."""
MOST_UNKNOWN = 6
"""Number of features listed that the model does not have."""


class Contribution(NamedTuple):
    """An addend of the score of a labelling.

    token (int): The token whose score it is a part of: the one explained, or one whose label would change with it.
    kind (str): "unigram" or "bigram" for a feature, "transition", "start", "end" or "added".
    name (str): The feature, such as ``LOWER[-1]=the``, or the labels of a transition.
    weight, rival_weight (float): Its value in the predicted and in the rival labelling; 0 without a rival.
    """

    token: int
    kind: str
    name: str
    weight: float
    rival_weight: float

    @property
    def difference(self) -> float:
        """Its contribution to the margin."""
        return self.weight - self.rival_weight


class TokenExplanation(NamedTuple):
    """The explanation of a token's label.

    token (int): Its number in the Doc.
    score (float): Its part of the labelling's score: the weights of all contributions of this token.
    rival (str | None): The label that it is compared with; None where no other is possible.
    margin (float): The sum of all differences, infinite where the rival is impossible or there is none.
    impossible (str): Why the rival is impossible, empty where it is not.
    changes (dict[int, str]): Labels that other tokens would have with the rival, by index.
    contributions (list[Contribution]): The largest differences first.
    unknown (list[str]): Features of the token that have no weight in the model.
    """

    token: int
    text: str
    label: str
    probability: float
    score: float
    rival: str | None
    rival_probability: float
    margin: float
    impossible: str
    changes: dict[int, str]
    contributions: list[Contribution]
    unknown: list[str]

    def against_rival(self) -> str:
        """Return the rival and the margin over it, in words."""
        if self.rival is None:
            return "no other label is possible"
        if self.impossible:
            return f"{self.rival} is impossible: {self.impossible}"
        how = f"margin {self.margin:.2f} over {self.rival} {probability_words(self.rival_probability)}"
        return how if self.margin >= 0 else f"{how}, whose best labelling has a higher score"

    def with_rival(self, words: list[str]) -> str:
        """Return the labels of other tokens that would change with the label, in words; `words` are the text's."""
        changed = [f"{words[token]} {label}" for token, label in self.changes.items()]
        return f"with {self.rival}: {', '.join(changed)}" if changed else ""

    def without_weight(self) -> str:
        """Return the features that the model does not have, in words."""
        more = f" and {len(self.unknown) - MOST_UNKNOWN} more" if len(self.unknown) > MOST_UNKNOWN else ""
        return f"features without weight: {', '.join(self.unknown[:MOST_UNKNOWN])}{more}" if self.unknown else ""

    def rows(self, words: list[str], number: int) -> list[tuple[str, Contribution]]:
        """Return the names of the first contributions, with the token if it is another one, and these."""
        rows = []
        for addend in self.contributions[:number]:
            name = f"{addend.name} (with the label before)" if addend.kind == "bigram" else addend.name
            rows.append((name if addend.token == self.token else f"{words[addend.token]}: {name}", addend))
        return rows

    def rest(self, number: int) -> tuple[int, float]:
        """Return how many contributions come after the first ones, and the sum of their differences."""
        rest = self.contributions[number:]
        return len(rest), sum(addend.difference for addend in rest)


class Explanation(NamedTuple):
    """The explanation of a Doc's labels.

    labels, probabilities (list): Of all tokens, as predicted.
    score, probability (float): Of the labelling as a whole; its score is the sum of its tokens' scores.
    tokens (list[TokenExplanation]): Those to be explained.
    """

    component: str
    words: list[str]
    labels: list[str]
    probabilities: list[float]
    score: float
    probability: float
    tokens: list[TokenExplanation]

    def to_json(self, number: int | None = None) -> dict[str, Any]:
        """Return lists and dictionaries for JSON, with the first contributions; an infinite margin is None."""
        tokens = []
        for token in self.tokens:
            parts = [{**addend._asdict(), "difference": addend.difference} for addend in token.contributions[:number]]
            tokens.append({**token._asdict(), "margin": finite(token.margin), "contributions": parts})
        return {**self._asdict(), "tokens": tokens}


def probability_words(value: float) -> str:
    """Return a probability with two digits, never 0.00 or 1.00."""
    return f"{value:.2f}" if 0.005 <= value < 0.995 else ">0.99" if value > 0.5 else "<0.01"


def explain(pipe: CRFComponent, doc: Doc, **how: Any) -> Explanation:
    """Return the weights behind the labels of a Doc, as `Explainer.explain` does; for many Docs, make one of these."""
    return Explainer(pipe).explain(doc, **how)


class Explainer:
    """Explains predictions of the present weights of a component, for any number of Docs."""

    def __init__(self, pipe: CRFComponent) -> None:
        self.pipe, self.crf = pipe, pipe.crf.without_unused()  # in its stored form
        self.reader = pipe.doc_model.feature_reader(self.crf)
        from .._pages.weights import entries

        self.weights = entries(self.crf)

    def explain(
        self, doc: Doc, *, tokens: Iterable[int] | None = None, against: str | None = None, preset: bool = False
    ) -> Explanation:
        """Return the weights behind the labels of a Doc, compared with those of the second most probable labels.

        tokens (Iterable[int] | None): The tokens to explain; None for all words.
        against (str | None): Another label to compare with, a tag or the type of several tags: why not this one?
        preset (bool): As in `CRFComponent.posterior`.
        RAISES ConfigError: If the component has no model, or none of whole labellings.
        RAISES DataError: If the model has no such label, or the Doc no such token, or it is white space.
        """
        wanted = None if tokens is None else sorted(set(tokens))
        answers = self.pipe.posterior([doc], preset=preset)
        if missing := [token for token in wanted or () if not 0 <= token < len(doc)]:
            raise DataError(f"There is no token {missing[0]}: the document has {len(doc)} tokens, counted from 0.")
        if spaces := [token for token in wanted or () if doc[token].is_space]:
            raise DataError(f"Token {spaces[0]} is white space, which has no label of its own. Ask for a word.")
        from ...pipeline.labels import numbers_of

        rivals = None if against is None else numbers_of([against], self.pipe.annotation, answers.tags)
        text = _Text(self, doc, answers, preset)
        labels = answers.all_labels
        return Explanation(
            self.pipe.name,
            [token.text for token in doc],
            [answers.tags[label] for label in labels.tolist()],
            answers.distribution.label_probabilities(labels).tolist(),
            float(sum(amount for addends in text.predicted for _, _, amount in addends)),
            exp(min(0.0, float(answers.log_probabilities()[0]))),
            [text.explain(text.places.index(token), rivals) for token in (text.places if wanted is None else wanted)],
        )


class _Text:
    """The words of a Doc, the addends of its predicted labelling by word, and its best labellings through other labels.

    places (list[int]): The tokens of the words.
    """

    def __init__(self, explainer: Explainer, doc: Doc, answers: DocPosterior, preset: bool) -> None:
        reader, distribution = explainer.reader, answers.word_posterior
        self.places = list(range(len(doc))) if answers.places is None else answers.places.tolist()
        self.crf, self.weights = explainer.crf, explainer.weights
        self.doc, self.tags, self.labels = doc, explainer.pipe.tags, answers.all_labels[self.places]
        self.marginals, self.allowed = distribution.marginals(), distribution.allowed
        source, offsets = distribution.source, distribution.offsets
        whole = (0, len(offsets) - 1)
        self.added_scores, self.scores = source.added_scores(whole), source.scores(whole)
        constrained = self.scores.constrained(distribution.constraints, distribution.allowed)
        self.best = BestThrough(constrained, offsets)
        self.firsts, self.lasts = set(offsets[:-1].tolist()), set((offsets[1:] - 1).tolist())
        self.features: list[list[list[tuple[str, int]]]] = [[[] for _ in self.places] for _ in range(2)]
        for number, block in enumerate(reader.active([doc], preset)):
            for active in block:
                entries = zip(
                    active.tokens.tolist(), reader.names(number, active), active.features.tolist(), strict=True
                )
                for token, name, feature in entries:
                    self.features[number][token].append((name, feature))
        self.predicted = [self.addends(token, self.labels) for token in range(len(self.places))]

    def addends(self, token: int, labels: Ints) -> list[TokenAddend]:
        """Return the addends of a token's score in a labelling."""
        tags, label, before = self.tags, int(labels[token]), int(labels[token - 1])
        steps: list[tuple[str, str, Place]] = []
        addends = self._weights(0, token, label)
        if token in self.firsts:
            steps.append(("start", f"start -> {tags[label]}", ("start", (label,))))
        else:
            addends += self._weights(1, token, before * len(tags) + label)
            steps.append(("transition", f"{tags[before]} -> {tags[label]}", ("transitions", (before, label))))
        if token in self.lasts:
            steps.append(("end", f"{tags[label]} -> end", ("end", (label,))))
        addends += [(kind, name, float(getattr(self.crf.views, array)[at])) for kind, name, (array, at) in steps]
        if self.added_scores is not None:
            amount = float(self.added_scores.emissions[token, label])
            for _, _, (array, at) in steps:
                values = getattr(self.added_scores, array)
                amount += float(values[token if len(values) > 1 else 0][at] if array == "transitions" else values[at])
            addends.append(("added", "added potentials", amount))
        return addends

    def _weights(self, number: int, token: int, column: int) -> list[TokenAddend]:
        active = self.features[number][token]
        features = np.array([feature for _, feature in active], np.int64)
        amounts = self.weights[number].look_up(features, column).tolist()
        kind = ("unigram", "bigram")[number]
        return [(kind, name, amount) for (name, _), amount in zip(active, amounts, strict=True)]

    def explain(self, token: int, rivals: Collection[int] | None) -> TokenExplanation:
        """Explain the label of a token; `rivals` are labels to compare with."""
        label, tags, others, changes = int(self.labels[token]), self.tags, self.labels, dict[int, str]()
        rival = self._rival(token, label, rivals)
        impossible = "" if rival is None else self._objection(token, rival)
        compared = rival is not None and not impossible
        if rival is not None and compared:
            others = self.best.labelling(token, rival, self.labels)
            changed = np.flatnonzero(others != self.labels).tolist()
            changes = {self.places[other]: tags[others[other]] for other in changed if other != token}
        contributions = self._contributions(token, others, compared)
        return TokenExplanation(
            self.places[token],
            self.doc[self.places[token]].text,
            tags[label],
            min(1.0, float(self.marginals[token, label])),
            sum(amount for _, _, amount in self.predicted[token]),
            None if rival is None else tags[rival],
            0.0 if rival is None or impossible else min(1.0, float(self.marginals[token, rival])),
            sum(addend.difference for addend in contributions) if compared else inf,
            impossible,
            changes,
            contributions,
            [name for block in self.features for name, feature in block[token] if feature < 0],
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
        if self.allowed is not None and not self.allowed[token, rival]:
            return "ruled out by what is already known about the text"
        if self.scores.emissions[token, rival] == -inf:
            return "the tag dictionary does not have it for this word"
        return "no labelling of the sentence that keeps to the scheme has it here"

    def _contributions(self, token: int, others: Ints, compared: bool) -> list[Contribution]:
        changed = {token, *np.flatnonzero(others != self.labels).tolist()}
        if compared:  # the steps to the next tokens change, too
            changed |= {t + 1 for t in changed if t + 1 < len(self.labels)}
        contributions = []
        for t in sorted(changed):
            predicted = self.predicted[t]
            rivals = self.addends(t, others) if compared else [(kind, name, 0.0) for kind, name, _ in predicted]
            for (kind, name, amount), (_, other, rival) in zip(predicted, rivals, strict=True):
                if amount != rival or (t == token and amount):
                    words = name if name == other else f"{name}, not {other}"
                    contributions.append(Contribution(self.places[t], kind, words, amount, rival))
        return sorted(contributions, key=lambda addend: -abs(addend.difference))


class BestThrough:
    """The best labelling with any given label of any given token, by Viterbi passes from both sides.

    scores (NDArray): [T, L] the score of the best labelling of a token's sequence with a given label of the token.
    """

    def __init__(self, scores: Scores, offsets: Offsets) -> None:
        """Take scores of T tokens, minus infinity for forbidden labels, and the ends of sequences [N + 1]."""
        emissions, transitions, start, end = (array.astype(np.float64) for array in scores)
        steps = np.broadcast_to(transitions, (len(emissions), *transitions.shape[1:]))
        self.scores, self._offsets = np.empty_like(emissions), offsets
        self._before, self._after = np.zeros(emissions.shape, np.int64), np.zeros(emissions.shape, np.int64)
        for first, last in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
            own, inner = emissions[first:last], steps[first + 1 : last]
            to, self._before[first:last] = _reach(own, inner, start)
            back, after = _reach(own[::-1], inner[::-1].transpose(0, 2, 1), end)
            self._after[first:last] = after[::-1]
            self.scores[first:last] = to + own + back[::-1]

    def labelling(self, token: int, label: int, labels: Ints) -> Ints:
        """Return labels [T], in which the token's sequence has its best labelling with that label."""
        sequence = int(np.searchsorted(self._offsets, token, side="right")) - 1
        first, last = self._offsets[sequence : sequence + 2].tolist()
        out = labels.copy()
        out[token] = label
        for t in range(token, first, -1):
            out[t - 1] = self._before[t, out[t]]
        for t in range(token, last - 1):
            out[t + 1] = self._after[t, out[t]]
        return out


def _reach(emissions: NDArray[Any], steps: NDArray[Any], start: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the score of the best labels before a label [T, L], and the last of them; steps [T - 1, L, L]."""
    reached, last = np.empty_like(emissions), np.zeros(emissions.shape, np.int64)
    for t in range(len(emissions)):
        if t == 0:
            reached[0] = start
            continue
        ways = (reached[t - 1] + emissions[t - 1])[:, None] + steps[t - 1]
        reached[t], last[t] = ways.max(0), ways.argmax(0)
    return reached, last
