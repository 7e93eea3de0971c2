"""Likely annotation errors: stretches of tokens where a model that has not seen a text contradicts its annotation.

A stretch is scored by the exact probabilities of both labellings under the model, following confident learning:
Northcutt, Jiang & Chuang (2021), "Confident Learning: Estimating Uncertainty in Dataset Labels", JAIR 70; for
entities, Reiss et al. (2020), "Identifying Incorrect Labels in the CoNLL-2003 Corpus".  Stretches are ranked by log
odds per token, because long spans have low probabilities whether they are right or wrong.  After 2 % of the entities of
CoNLL-2002 Spanish had been corrupted at random, 74 % of the first 200 stretches were corrupted ones, compared with 63 %
when ranked by the difference of the probabilities and 37 % when ranked by the probability of the annotation.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from spacy.util import minibatch

from ...schemes import TagSpan
from .judged import spans_of_tags

if TYPE_CHECKING:
    from spacy.training import Example

    from ...pipeline.component import CRFComponent

BATCH = 500
"""Number of texts whose posterior is computed at once."""
TINY = 1e-12
"""Replaces probabilities of 0."""


class Stretch(NamedTuple):
    """Tokens start..end-1 of a document, with the gold and the predicted spans among them."""

    start: int
    end: int
    gold: tuple[TagSpan, ...]
    predicted: tuple[TagSpan, ...]


class LabelError(NamedTuple):
    """A stretch whose annotation is less probable than the prediction.

    text (int): Number of the text.
    stretch (Stretch): Its tokens and both labellings.
    p_gold, p_predicted (float): Probabilities of both labellings.
    """

    text: int
    stretch: Stretch
    p_gold: float
    p_predicted: float

    @property
    def log_odds(self) -> float:
        """log(P(predicted) / P(gold)) per token, in nats; the higher, the more likely the annotation is wrong."""
        ratio = max(self.p_predicted, TINY) / max(self.p_gold, TINY)
        return math.log(ratio) / (self.stretch.end - self.stretch.start)


def label_errors(pipe: CRFComponent, examples: Iterable[Example]) -> Iterator[LabelError]:
    """Yield the likely annotation errors of texts, in their order.

    pipe: A component that was not trained on these texts.
    examples: Their gold annotation, and predicted Docs as the component reads them, whose presets it respects.
    RAISES CrfError: If the component has no probabilities.
    """
    done = 0
    for batch in minibatch(examples, BATCH):
        for error in _contradictions(pipe, batch):
            if error.log_odds > 0:
                yield error._replace(text=done + error.text)
        done += len(batch)


def _contradictions(pipe: CRFComponent, examples: Sequence[Example]) -> Iterator[LabelError]:
    """Yield all stretches of a batch where prediction and annotation differ."""
    from ...cli.inputs import gold_tags_of

    answers = pipe.posterior([example.predicted for example in examples], preset=True)
    plain, number_of = pipe.annotation.scheme is None, {tag: i for i, tag in enumerate(answers.tags)}
    gold = [gold_tags_of(pipe, example) for example in examples]
    predicted = [[answers.tags[label] for label in labels.tolist()] for labels in answers.labels]
    places: list[tuple[int, Stretch]] = []
    for text, (right, guessed) in enumerate(zip(gold, predicted, strict=True)):
        spans = spans_of_tags(right, plain=plain), spans_of_tags(guessed, plain=plain)
        annotated = [tag in number_of for tag in right]
        places += [(text, stretch) for stretch in stretches(*spans, annotated)]
    begins = np.array([answers.doc_offsets[text] + stretch.start for text, stretch in places], np.int64)
    ends = np.array([answers.doc_offsets[text] + stretch.end for text, stretch in places], np.int64)
    labels = np.array([number_of.get(str(tag), 0) for tags in gold for tag in tags], np.int32)
    p_gold = answers.distribution.span_probabilities(labels, begins, ends)
    p_predicted = answers.distribution.span_probabilities(answers.all_labels, begins, ends)
    for (text, stretch), p, q in zip(places, p_gold.tolist(), p_predicted.tolist(), strict=True):
        yield LabelError(text, stretch, p, q)


def stretches(gold: Sequence[TagSpan], predicted: Sequence[TagSpan], annotated: Sequence[bool]) -> list[Stretch]:
    """Return where the spans of a document differ, in order, without stretches that contain unannotated tokens.

    annotated [tokens]: Whether a token is annotated.
    """
    only_gold, only_predicted = set(gold) - set(predicted), set(predicted) - set(gold)
    merged: list[Stretch] = []
    for span in sorted(only_gold | only_predicted):
        if not merged or span.start >= merged[-1].end:
            merged.append(Stretch(span.start, span.end, (), ()))
        last = merged[-1]
        merged[-1] = Stretch(
            last.start,
            max(last.end, span.end),
            (*last.gold, span) if span in only_gold else last.gold,
            (*last.predicted, span) if span in only_predicted else last.predicted,
        )
    return [stretch for stretch in merged if all(annotated[stretch.start : stretch.end])]


def shown(spans: Sequence[TagSpan], words: Sequence[str]) -> str:
    """Return spans as text, such as ``[New York LOC]``; "O" if there are none."""
    return " ".join(f"[{' '.join(words[start:end])} {label}]" for start, end, label in spans) or "O"
