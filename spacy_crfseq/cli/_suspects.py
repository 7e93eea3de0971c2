"""Likely annotation errors, found by cross-validation, for ``crfseq debug-data``."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from spacy.util import minibatch
from tqdm import tqdm

from ..evaluation.judged import spans_of_tags
from ..evaluation.label_errors import Stretch, Suspect, context, shown, stretches, worst
from ..pipeline.project import each_fold
from ._prospects import aside, set_up_on
from .judging import gold_tags_of

if TYPE_CHECKING:
    from spacy.training import Example

    from ..pipeline.component import CRFComponent
    from ..pipeline.doc_posterior import DocPosterior

BATCH = 500


class Suspects(NamedTuple):
    """The most suspicious places of each component, how many places there are, the number of folds, and the time."""

    worst: dict[str, list[Suspect]]
    counts: dict[str, int]
    folds: int
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        shown = {name: [one.as_json() for one in found] for name, found in self.worst.items()}
        return {"folds": self.folds, "seconds": self.seconds, "contradicted": self.counts, "worst": shown}


def find_suspects(
    config: Path,
    overrides: dict[str, Any] | None,
    file: Path,
    dev: Path | None,
    k: int,
    number: int,
    places: Sequence[str],
) -> Suspects | None:
    """Train on all folds but one, in turn, and compare the annotation of the held-out fold with the predictions.

    number: How many places to return for each component.
    places: The file and line of each token of the corpus.
    RAISES CrfError: As `project.each_fold`; if the models have no probabilities.
    """
    started = perf_counter()
    found: dict[str, list[Suspect]] = {}
    done = 0
    with aside():
        setup = set_up_on(config, overrides, file, dev)
        sizes = [len(example.reference) for example in setup.train]
        starts = np.concatenate([[0], np.cumsum(sizes)])[:-1].tolist()
        with closing(each_fold(setup, k, scored=False)) as each:
            for fold in tqdm(each, total=k, unit=" folds", disable=None, leave=False, file=sys.stderr):
                done += 1
                numbered = list(zip(fold.numbers.tolist(), fold.held_out, strict=True))
                for name, pipe in setup.nlp.pipeline:
                    if name in setup.to_train:
                        crf, suspects = setup.to_train[name], found.setdefault(name, [])
                        for batch in minibatch(((example, starts[i]) for i, example in numbered), BATCH):
                            answers = crf.posterior([example.predicted for example, _ in batch], preset=True)
                            suspects.extend(_of_batch(crf, batch, answers, places))
                    for _, example in numbered if name in setup.training["annotating_components"] else ():
                        example.predicted = pipe(example.predicted)
    counts = {name: sum(one.log_odds > 0 for one in suspects) for name, suspects in found.items()}
    return Suspects({name: worst(all_, number) for name, all_ in found.items()}, counts, done, perf_counter() - started)


def _of_batch(
    pipe: CRFComponent, batch: Sequence[tuple[Example, int]], answers: DocPosterior, places: Sequence[str]
) -> Iterator[Suspect]:
    plain, number_of = pipe.annotation.scheme is None, {tag: i for i, tag in enumerate(answers.tags)}
    gold = [gold_tags_of(pipe, example) for example, _ in batch]
    predicted = [[answers.tags[label] for label in labels.tolist()] for labels in answers.labels]
    found: list[tuple[int, Stretch]] = []
    for doc, (right, guessed) in enumerate(zip(gold, predicted, strict=True)):
        spans = spans_of_tags(right, plain=plain), spans_of_tags(guessed, plain=plain)
        found += [(doc, one) for one in stretches(*spans, [tag in number_of for tag in right])]
    begins = np.array([answers.doc_offsets[doc] + one.start for doc, one in found], np.int64)
    ends = np.array([answers.doc_offsets[doc] + one.end for doc, one in found], np.int64)
    labels = np.array([number_of.get(str(tag), 0) for tags in gold for tag in tags], np.int32)
    p_gold = answers.distribution.span_probabilities(labels, begins, ends)
    p_predicted = answers.distribution.span_probabilities(answers.all_labels, begins, ends)
    for (doc, one), p, q in zip(found, p_gold.tolist(), p_predicted.tolist(), strict=True):
        example, start = batch[doc]
        words = [token.text for token in example.predicted]
        place = places[min(start + min(one.start, len(example.reference) - 1), len(places) - 1)]
        annotated, instead = shown(one.gold, words), shown(one.predicted, words)
        yield Suspect(place, context(words, one), annotated, instead, p, q, one.end - one.start)
