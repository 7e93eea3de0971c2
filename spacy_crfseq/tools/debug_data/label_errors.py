"""Likely annotation errors, found by cross-validation: places where a model that was not trained on a text contradicts
its annotation.

Each place is a stretch of tokens where gold and predicted spans (or tags) differ.  It is scored by the exact
probabilities of both labellings under the model, following confident learning: Northcutt, Jiang & Chuang (2021),
"Confident Learning: Estimating Uncertainty in Dataset Labels", JAIR 70; for entities, Reiss et al. (2020), "Identifying
Incorrect Labels in the CoNLL-2003 Corpus".  Places are ranked by log odds per token, because long spans have low
probabilities whether they are right or wrong.  After 2 % of the entities of CoNLL-2002 Spanish had been corrupted at
random, 74 % of the first 200 places were corrupted ones, compared with 63 % when ranked by the difference of the
probabilities and 37 % when ranked by the probability of the annotation.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from spacy.util import minibatch
from tqdm import tqdm

from ...cli.options import gold_tags_of
from ...pipeline.project import Setup, each_fold
from ...schemes import Span
from .._pages.judged import spans_of_tags

if TYPE_CHECKING:
    from spacy.training import Example

    from ...pipeline.component import CRFComponent
    from ...pipeline.doc_posterior import DocPosterior

BATCH = 500
TINY = 1e-12  # instead of probabilities of 0


class Stretch(NamedTuple):
    """Tokens start..end-1 of a document, with the gold and the predicted spans among them."""

    start: int
    end: int
    gold: tuple[Span, ...]
    predicted: tuple[Span, ...]


class Suspect(NamedTuple):
    """An annotation that may be wrong.

    where (str): File and line.
    gold, predicted (str): Spans as text, "O" for none.
    p_gold, p_predicted (float): Probabilities of both labellings of the stretch.
    tokens (int): Length of the stretch.
    """

    where: str
    text: str
    gold: str
    predicted: str
    p_gold: float
    p_predicted: float
    tokens: int = 1

    @property
    def log_odds(self) -> float:
        """log(P(predicted) / P(gold)) per token, in nats; the higher, the more likely the annotation is wrong."""
        return math.log(max(self.p_predicted, TINY) / max(self.p_gold, TINY)) / self.tokens


class Suspects(NamedTuple):
    """The most suspicious places of each component, how many places there are, the number of folds, and the time."""

    worst: dict[str, list[Suspect]]
    counts: dict[str, int]
    folds: int
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        rows = {
            name: [{**suspect._asdict(), "log_odds": suspect.log_odds} for suspect in suspects]
            for name, suspects in self.worst.items()
        }
        return {"folds": self.folds, "seconds": self.seconds, "contradicted": self.counts, "worst": rows}


def find_suspects(setup: Setup, k: int, number: int, places: Sequence[str]) -> Suspects:
    """Train on all folds but one, in turn, and compare the annotation of the held-out fold with the predictions.

    number: How many places to return for each component.
    places: The file and line of each token of the corpus.
    RAISES CrfError: As `project.each_fold`; if the models have no probabilities.
    """
    started, done = perf_counter(), 0
    suspects: dict[str, list[Suspect]] = {name: [] for name in setup.to_train}
    sizes = [len(example.reference) for example in setup.train]
    starts = np.concatenate([[0], np.cumsum(sizes)])[:-1].tolist()
    with closing(each_fold(setup, k, scored=False)) as folds:
        for fold in tqdm(folds, total=k, unit=" folds", disable=None, leave=False, file=sys.stderr):
            done += 1
            numbered = list(zip(fold.numbers.tolist(), fold.held_out, strict=True))
            for name, pipe in setup.nlp.pipeline:
                if name in setup.to_train:
                    crf = setup.to_train[name]
                    for batch in minibatch(((example, starts[i]) for i, example in numbered), BATCH):
                        answers = crf.posterior([example.predicted for example, _ in batch], preset=True)
                        suspects[name].extend(_of_batch(crf, batch, answers, places))
                for _, example in numbered if name in setup.training["annotating_components"] else ():
                    example.predicted = pipe(example.predicted)
    contradicted = {name: sum(suspect.log_odds > 0 for suspect in of_pipe) for name, of_pipe in suspects.items()}
    first = {name: worst(of_pipe, number) for name, of_pipe in suspects.items()}
    return Suspects(first, contradicted, done, perf_counter() - started)


def _of_batch(
    pipe: CRFComponent, batch: Sequence[tuple[Example, int]], answers: DocPosterior, places: Sequence[str]
) -> Iterator[Suspect]:
    plain, number_of = pipe.annotation.scheme is None, {tag: i for i, tag in enumerate(answers.tags)}
    gold = [gold_tags_of(pipe, example) for example, _ in batch]
    predicted = [[answers.tags[label] for label in labels.tolist()] for labels in answers.labels]
    contradictions: list[tuple[int, Stretch]] = []
    for doc, (right, guessed) in enumerate(zip(gold, predicted, strict=True)):
        spans = spans_of_tags(right, plain=plain), spans_of_tags(guessed, plain=plain)
        annotated = [tag in number_of for tag in right]
        contradictions += [(doc, stretch) for stretch in stretches(*spans, annotated)]
    begins = np.array([answers.doc_offsets[doc] + stretch.start for doc, stretch in contradictions], np.int64)
    ends = np.array([answers.doc_offsets[doc] + stretch.end for doc, stretch in contradictions], np.int64)
    labels = np.array([number_of.get(str(tag), 0) for tags in gold for tag in tags], np.int32)
    p_gold = answers.distribution.span_probabilities(labels, begins, ends)
    p_predicted = answers.distribution.span_probabilities(answers.all_labels, begins, ends)
    for (doc, stretch), p, q in zip(contradictions, p_gold.tolist(), p_predicted.tolist(), strict=True):
        example, start = batch[doc]
        words = [token.text for token in example.predicted]
        place = places[min(start + min(stretch.start, len(example.reference) - 1), len(places) - 1)]
        texts = context(words, stretch), shown(stretch.gold, words), shown(stretch.predicted, words)
        yield Suspect(place, *texts, p, q, stretch.end - stretch.start)


def stretches(gold: Sequence[Span], predicted: Sequence[Span], annotated: Sequence[bool]) -> list[Stretch]:
    """Return where the spans of a document differ, in order; stretches with unannotated tokens are left out.

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


def worst(suspects: Sequence[Suspect], number: int) -> list[Suspect]:
    """Return the most suspicious places, those where the predicted labelling is more probable than the gold one."""
    likely = (suspect for suspect in suspects if suspect.log_odds > 0)
    return sorted(likely, key=lambda suspect: -suspect.log_odds)[:number]


def shown(spans: Sequence[Span], words: Sequence[str]) -> str:
    """Return spans as text, such as ``[New York LOC]``; "O" if there are none."""
    return " ".join(f"[{' '.join(words[s:e])} {label}]" for s, e, label in spans) or "O"


def context(words: Sequence[str], stretch: Stretch, around: int = 6) -> str:
    """Return the words around a stretch."""
    begin, end = max(0, stretch.start - around), stretch.end + around
    return " ".join([*(["..."] if begin else []), *words[begin:end], *(["..."] if end < len(words) else [])])
