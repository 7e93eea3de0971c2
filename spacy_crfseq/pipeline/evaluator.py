"""The scores of parameters on a development corpus, counted on arrays of labels.

They are those of `nlp.evaluate`, which makes Docs of predictions.  The score of an iteration takes 0.02 instead of
0.33 seconds for 3,250 sentences (CoNLL-2003), less than an epoch of AdaGrad; the scores of the two models that
``crfseq fit`` saves, 1.4 seconds less of 16 (CoNLL-2002, L-BFGS).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import NamedTuple

import numpy as np
from spacy.scorer import PRFScore
from spacy.training import Example

from ..features.encoded import Encoded
from ..inference.posterior import Posterior
from ..prf import SEQUENCES
from ..schemes import TagTable, count_spans, span_f1, spans_of
from ..training.compatibility import is_local
from ..training.fit import DevScores
from ..training.progress import shown
from ..types import MISSING, Bools, Floats, Ints, LearnedDecoder, Offsets
from .calibration import CalibrationFit, JudgedPart, fit_to_parts
from .corpus import Corpus
from .doc_builder import LabelledText
from .doc_model import DocModel
from .labels import gold_tags, known_tags, same_words
from .prediction import allowed_labels


class _DevTexts(NamedTuple):
    """A development corpus as a model reads it.

    doc_offsets (Offsets): [docs + 1] starts of the Docs' words.
    allowed (Bools | None): [W, L] the labels that words may have, None if all may have all.
    tags (list): [W] gold tags, None where they are unknown.
    alike (bool): Whether nothing is decided before, and predicted and gold Docs have the same words, none of which is
        white space, and the same sentences.
    spaced (bool): Whether it is known of a Doc where its spaces are.
    """

    encoded: Encoded
    doc_offsets: Offsets
    allowed: Bools | None
    tags: list[str | None]
    alike: bool
    spaced: bool


class Evaluator:
    """A function from parameters [D] to the F1 of spans on `dev`, or the accuracy of known tags."""

    def __init__(self, model: DocModel, dev: Iterable[Example]) -> None:
        (self._crf, encoder), self._model, self._rules = model.trained(), model, model.rules
        labelled = labelled_texts(model, dev)
        if labelled is None:
            texts = _of_docs(model, list(dev))
        else:
            encoded = encoder.encode(labelled.text)
            texts = _DevTexts(encoded, encoded.offsets, None, labelled.tags, alike=True, spaced=labelled.spaced)
        self._encoded, self._doc_offsets, self._allowed, tags, alike, self._spaced = texts
        names = [*self._crf.labels, *sorted({tag for tag in tags if tag is not None} - set(self._crf.labels))]
        numbers: dict[str | None, int] = {tag: number for number, tag in enumerate(names)}
        self._gold = np.array([numbers.get(tag, MISSING) for tag in tags], np.int32)
        self._known, scheme = self._gold >= 0, model.annotation.scheme
        self._table = None if scheme is None else TagTable(names, scheme)
        self._plain = alike and self._is_plain()

    def __call__(self, theta: Floats) -> float:
        """Return the score of parameters."""
        predicted, gold, is_known = self._decode(theta), self._gold, self._known
        if self._table is None:
            return float((predicted == gold)[is_known].mean()) if is_known.any() else 0.0
        return span_f1(np.where(is_known, predicted, MISSING), gold, self._encoded.offsets, self._table).f1

    def scores(self, theta: Floats) -> DevScores:
        """Return the scores that `nlp.evaluate` finds on the Docs, None where they are not plain (`_is_plain`)."""
        if not self._plain:
            return None
        predicted, gold, offsets = self._decode(theta), self._gold, self._encoded.offsets
        name = self._model.annotation.score_name  # tag_acc or ents_f
        prefix = name.rpartition("_")[0]
        right = ~np.logical_or.reduceat(predicted != gold, offsets[:-1])
        sequences = {f"{prefix}_{SEQUENCES}": int(right.sum()) / len(right)}
        of_tokens = dict.fromkeys(("token_acc", "token_p", "token_r", "token_f"), 1.0 if self._spaced else None)
        if self._table is None:
            n_right = int((predicted == gold).sum())
            n_wrong = len(gold) - n_right
            return {**of_tokens, name: PRFScore(tp=n_right, fp=n_wrong, fn=n_wrong).fscore, **sequences}
        counts = count_spans(predicted, gold, offsets, self._table).tolist()
        of_type = {
            kind: PRFScore(tp=tp, fp=n_found - tp, fn=n_gold - tp)
            for kind, (tp, n_found, n_gold) in zip(self._table.types, counts, strict=True)
            if n_found or n_gold
        }
        total = sum(of_type.values(), PRFScore())
        values = (
            total.precision,
            total.recall,
            total.fscore,
            {kind: types.to_dict() for kind, types in of_type.items()},
        )
        names = (f"{prefix}_{what}" for what in ("p", "r", "f", "per_type"))
        return {**of_tokens, **dict(zip(names, values if of_type else [None] * 4, strict=True)), **sequences}

    def posterior(self, theta: Floats) -> Posterior:
        """Return the distribution of the labels of the words by parameters."""
        labels = self._model.labels
        return self._crf.at(theta).posterior(self._encoded, labels.constraints, self._allowed, rules=self._rules)

    def adapt(self, words: Posterior) -> None:
        """Let a decoder that learns take in what the corpus shows; `words` as of `calibration`.

        Labels that the model lacks count as unknown.
        """
        decoder = self._model.method.decoder
        if isinstance(decoder, LearnedDecoder):
            decoder.adapt(decoder.observe(words, np.where(self._gold < len(self._crf.labels), self._gold, MISSING)))

    def calibration(self, words: Posterior) -> CalibrationFit | None:
        """Return the calibration of probabilities, None if sequences have no probabilities.

        words (Posterior): The distribution of the labels of the words.
        """
        if is_local(self._model.method.loss):
            return None
        text = np.searchsorted(self._doc_offsets, np.arange(len(self._gold)), side="right").astype(np.int32) - 1
        return fit_to_parts([JudgedPart(words, self._gold, text)], self._model.method.decoder, self._table)

    def _decode(self, theta: Floats) -> Ints:
        trial = self.posterior(theta)
        return trial.decode(self._model.method.decoder, watched=lambda parts: shown(parts, len(parts), "Score"))

    def _is_plain(self) -> bool:
        """Whether scores of Docs that are alike are those of labels: all are known, and no span crosses sentences."""
        offsets = self._encoded.offsets
        return (
            bool(self._known.all()) and not self._model.cfg.get("threshold")
            and self._n_spans(offsets) == self._n_spans(self._doc_offsets)
        )  # fmt: skip

    def _n_spans(self, offsets: Offsets) -> int:
        return 0 if self._table is None else len(spans_of(self._gold, offsets, self._table).start)


def labelled_texts(model: DocModel, dev: Iterable[Example]) -> LabelledText | None:
    """Return a dev corpus as a model reads it, None where it reads Docs, or if there are no texts.

    RAISES FormatError: On a line that cannot be read.
    """
    if model.reads_docs or not isinstance(dev, Corpus):
        return None
    return dev.labelled(model.columns, model.annotation)


def _of_docs(model: DocModel, dev: list[Example]) -> _DevTexts:
    """Return examples as a model reads them."""
    docs, annotated = [example.predicted for example in dev], [e.reference for e in dev if len(e.reference)]
    encoded, columns = model.encode(docs)
    allowed, _ = allowed_labels(model.labels, docs, columns)
    tags = known_tags(
        [*columns.only_words(chain.from_iterable(gold_tags(model.annotation, e, model.name) for e in dev))]
    )
    starts = [np.append(1, doc.to_array(["SENT_START"])[1:]) == 1 for doc in annotated]
    alike = (
        bool(starts) and not columns.state.any() and all(map(same_words, dev)) and columns.gaps is None
        and np.array_equal(np.flatnonzero(np.concatenate(starts)), encoded.offsets[:-1])
    )  # fmt: skip
    spaced = any(not doc.has_unknown_spaces for doc in annotated)
    return _DevTexts(encoded, columns.doc_offsets, allowed, tags, alike, spaced)
