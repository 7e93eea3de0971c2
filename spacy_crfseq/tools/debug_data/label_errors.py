"""Likely annotation errors of a corpus file, found by cross-validation, with their places in the file."""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import chain
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from spacy.training import Example
from tqdm import tqdm

from ...pipeline.cross_validation import each_fold
from ...pipeline.pipeline_training import PipelineTraining
from .._pages.label_errors import LabelError, Stretch, label_errors, shown
from .corpus import Unreadable
from .reading import CorpusReading, place_of, sentences_of

if TYPE_CHECKING:
    from pathlib import Path

    from spacy.tokens import Doc

    from ...corpora import Preset

AROUND = 6
"""Number of words shown on each side of a stretch."""


class Suspect(NamedTuple):
    """An annotation that may be wrong, as the report shows it.

    where (str): File and line.
    text (str): The words around it.
    gold, predicted (str): Spans as text, "O" for none.
    p_gold, p_predicted (float): Probabilities of both labellings of its tokens.
    tokens (int): Number of its tokens.
    log_odds (float): As `LabelError.log_odds`.
    """

    where: str
    text: str
    gold: str
    predicted: str
    p_gold: float
    p_predicted: float
    tokens: int
    log_odds: float


class Suspects(NamedTuple):
    """The most suspicious places of each component, their number in all, the number of folds, and the time.

    Those that sources show are of the column "ent", without folds.
    """

    worst: dict[str, list[Suspect]]
    counts: dict[str, int]
    folds: int
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        rows = {name: [suspect._asdict() for suspect in suspects] for name, suspects in self.worst.items()}
        return {"folds": self.folds, "seconds": self.seconds, "contradicted": self.counts, "worst": rows}


class TokensOfFile(NamedTuple):
    """The words [T] of a file and their places in it, and its name."""

    words: Sequence[str]
    places: Sequence[str]
    name: str

    def starts(self, docs: Iterable[Sequence[str]]) -> Iterator[int | None]:
        """Yield the number of the first token of each Doc in the file; None where the file does not have its words.

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
            start = next((i for i in candidates if words and self.words[i : i + len(words)] == words), None)
            if start is not None:
                last, at = start, start + len(words)
            yield start

    def place(self, start: int | None, token: int) -> str:
        """Return the place of a token of a Doc, which begins at token `start` of the file."""
        return self.name if start is None else self.places[start + token]


def tokens_of_file(path: Path, layout: Preset, reading: CorpusReading) -> TokensOfFile:
    """Return the words of a file with their places."""
    words, places = list[str](), list[str]()
    for sentence in sentences_of(path, layout, reading, Unreadable()):
        words += sentence.words
        places += [place_of(path, layout, sentence, i) for i in range(len(sentence.words))]
    return TokensOfFile(words, places, str(path))


def find_suspects(training: PipelineTraining, k: int, number: int, file: TokensOfFile) -> Suspects:
    """Train on all folds but one, in turn, and compare the annotation of the held-out fold with the predictions.

    number: Number of places to return for each component.
    file: The corpus as it is in its file.
    RAISES CrfError: As `each_fold`; if the models have no probabilities.
    """
    started, done = perf_counter(), 0
    suspects: dict[str, list[Suspect]] = {name: [] for name in training.to_train}
    starts = list(file.starts([token.text for token in example.reference] for example in training.corpus))
    with closing(each_fold(training, k, scored=False)) as folds:
        for fold in tqdm(folds, total=k, unit=" folds", disable=None, leave=False, file=sys.stderr):
            done += 1
            examples = fold.held_out
            for name, pipe in training.nlp.pipeline:
                if name in training.to_train:
                    for error in label_errors(training.to_train[name], examples):
                        doc, start = examples[error.text].predicted, starts[fold.numbers[error.text]]
                        suspects[name].append(suspect_of(error, doc, file.place(start, _first(error, examples))))
                if name in training.settings["annotating_components"]:
                    examples = [Example(pipe(example.predicted), example.reference) for example in examples]
    for of_component in suspects.values():
        of_component.sort(key=lambda suspect: -suspect.log_odds)
    counts = {name: len(of_component) for name, of_component in suspects.items()}
    worst = {name: of_component[:number] for name, of_component in suspects.items()}
    return Suspects(worst, counts, done, perf_counter() - started)


def _first(error: LabelError, examples: Sequence[Example]) -> int:
    """Return the first token of an error; the tokenizer may have made more tokens than the file has."""
    return min(error.stretch.start, len(examples[error.text].reference) - 1)


def suspect_of(error: LabelError, doc: Doc, where: str) -> Suspect:
    """Return an error as the report shows it."""
    words, stretch = [token.text for token in doc], error.stretch
    return Suspect(
        where,
        context(words, stretch, AROUND),
        shown(stretch.gold, words),
        shown(stretch.predicted, words),
        error.p_gold,
        error.p_predicted,
        stretch.end - stretch.start,
        error.log_odds,
    )


def context(words: Sequence[str], stretch: Stretch, around: int) -> str:
    """Return the words around a stretch."""
    begin, end = max(0, stretch.start - around), stretch.end + around
    return " ".join([*(["..."] if begin else []), *words[begin:end], *(["..."] if end < len(words) else [])])
