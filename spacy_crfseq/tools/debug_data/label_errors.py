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

import sys
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import chain
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from spacy.util import minibatch
from tqdm import tqdm

from ...pipeline.project import Setup, each_fold
from .._pages.judged import Stretch, contradictions, log_odds, shown

if TYPE_CHECKING:
    from spacy.training import Example

    from ...pipeline.component import CRFComponent
    from ...pipeline.doc_posterior import DocPosterior

BATCH = 500


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
        return log_odds(self.p_gold, self.p_predicted, self.tokens)


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


class TokensOfFile(NamedTuple):
    """The words [T] of a file and their places in it, and its name."""

    words: Sequence[str]
    places: Sequence[str]
    name: str

    def starts(self, docs: Iterable[Sequence[str]]) -> Iterator[int | None]:
        """Yield where the words of each Doc are in the file; None where it does not have them.

        Readers may leave out sentences, join them, and yield them twice, but keep their order.
        """
        index: dict[str, list[int]] = {}
        for i, word in enumerate(self.words):
            index.setdefault(word, []).append(i)
        last = at = 0
        for words in docs:
            places = index.get(words[0], []) if words else []
            first = bisect_left(places, at)
            candidates = chain((at, last), map(places.__getitem__, chain(range(first, len(places)), range(first))))
            found = next((i for i in candidates if words and self.words[i : i + len(words)] == words), None)
            if found is not None:
                last, at = found, found + len(words)
            yield found


def find_suspects(setup: Setup, k: int, number: int, file: TokensOfFile) -> Suspects:
    """Train on all folds but one, in turn, and compare the annotation of the held-out fold with the predictions.

    number: How many places to return for each component.
    file: The corpus as it is in its file.
    RAISES CrfError: As `project.each_fold`; if the models have no probabilities.
    """
    started, done = perf_counter(), 0
    suspects: dict[str, list[Suspect]] = {name: [] for name in setup.to_train}
    starts = list(file.starts([token.text for token in example.reference] for example in setup.train))
    with closing(each_fold(setup, k, scored=False)) as folds:
        for fold in tqdm(folds, total=k, unit=" folds", disable=None, leave=False, file=sys.stderr):
            done += 1
            numbered = list(zip(fold.numbers.tolist(), fold.held_out, strict=True))
            for name, pipe in setup.nlp.pipeline:
                if name in setup.to_train:
                    crf = setup.to_train[name]
                    for batch in minibatch(((example, starts[i]) for i, example in numbered), BATCH):
                        answers = crf.posterior([example.predicted for example, _ in batch], preset=True)
                        suspects[name].extend(_of_batch(crf, batch, answers, file))
                for _, example in numbered if name in setup.training["annotating_components"] else ():
                    example.predicted = pipe(example.predicted)
    contradicted = {name: sum(suspect.log_odds > 0 for suspect in of_pipe) for name, of_pipe in suspects.items()}
    first = {name: worst(of_pipe, number) for name, of_pipe in suspects.items()}
    return Suspects(first, contradicted, done, perf_counter() - started)


def _of_batch(
    pipe: CRFComponent, batch: Sequence[tuple[Example, int | None]], answers: DocPosterior, file: TokensOfFile
) -> Iterator[Suspect]:
    found = contradictions(pipe, [example for example, _ in batch], answers)
    for doc, stretch, p, q in found:
        example, start = batch[doc]
        words = [token.text for token in example.predicted]
        token = min(stretch.start, len(example.reference) - 1)
        place = file.name if start is None else file.places[start + token]
        texts = context(words, stretch), shown(stretch.gold, words), shown(stretch.predicted, words)
        yield Suspect(place, *texts, p, q, stretch.end - stretch.start)


def worst(suspects: Sequence[Suspect], number: int) -> list[Suspect]:
    """Return the most suspicious places, those where the predicted labelling is more probable than the gold one."""
    likely = (suspect for suspect in suspects if suspect.log_odds > 0)
    return sorted(likely, key=lambda suspect: -suspect.log_odds)[:number]


def context(words: Sequence[str], stretch: Stretch, around: int = 6) -> str:
    """Return the words around a stretch."""
    begin, end = max(0, stretch.start - around), stretch.end + around
    return " ".join([*(["..."] if begin else []), *words[begin:end], *(["..."] if end < len(words) else [])])
