"""Tag a file of addresses, one a line, and write a line of words and labels for each, without a Doc for each.

    python scripts/tag_in_bulk.py training/model-best addresses.txt tagged.tsv [--processes 2]

Most of the time of tagging short texts is spent on making Docs and words.  Here, many addresses are the sentences of
one Doc, and each distinct piece of text between white space is split into words once.
"""

from __future__ import annotations

import argparse
import gc
import os
from array import array
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from itertools import islice, pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import address_code  # noqa: F401 - registers the functions of the config
import numpy as np
import spacy
from spacy.attrs import LOWER, PREFIX, SENT_START, SHAPE, SUFFIX
from spacy.tokens import Doc

Tagged = list[tuple[list[str], list[str]]]
"""The words and the labels of each address."""

PORTION = 4000
"""Addresses in a Doc."""
FIRST = 4
"""Portions that are tagged before processes are forked, which then know common words and have loaded the kernels."""
AHEAD = 4
"""Portions for each process that wait for it or for their turn in the output."""
READ = (LOWER, SHAPE, PREFIX, SUFFIX)
"""The attributes of new words that templates can read; spaCy has many more, such as whether a word is like a number."""
END = "\0"
"""After each address."""
_tagger: Tagger


class Pieces(dict[str, int]):
    """Numbers of pieces of text, with their words."""

    def __init__(self, nlp: Any) -> None:
        self._split, self._strings = nlp.tokenizer.split, nlp.vocab.strings
        self.words: list[str] = []
        self.orths, self.first = array("Q"), array("q", [0, 0])
        self[END] = 0

    def __missing__(self, piece: str) -> int:
        words, _ = self._split(piece)
        self.words += words
        self.orths.extend(map(self._strings.add, words))
        self.first.append(len(self.words))
        self[piece] = number = len(self)
        return number


class Tagger:
    """Tags lists of addresses with a pipeline, which it changes; it keeps what it knows of words, for the next ones."""

    def __init__(self, nlp: Any) -> None:
        self._nlp, self._pieces = nlp, Pieces(nlp)
        getters = nlp.vocab.lex_attr_getters
        nlp.vocab.lex_attr_getters = {name: getters[name] for name in READ}
        ((_, self._pipe),) = nlp.pipeline
        self._pipe.method = self._pipe.method._replace(n_threads=1)
        gc.freeze()  # garbage collections pass over the pipeline

    def __call__(self, texts: list[str]) -> Tagged:
        """Return the words and the labels of each text."""
        known, pieces = self._pieces, f" {END} ".join([*texts, ""]).split()
        numbers = np.fromiter(map(known.__getitem__, pieces), np.int64, len(pieces))
        first = np.frombuffer(known.first, np.int64)
        sizes = first[numbers + 1] - first[numbers]
        ends = np.cumsum(sizes)
        places = np.arange(ends[-1]) + np.repeat(first[numbers] - ends + sizes, sizes)
        bounds = ends[numbers == 0]
        if len(bounds) != len(texts):
            raise ValueError("An address has the character NUL between spaces, which stands between addresses here.")
        labels = self._labels(np.frombuffer(known.orths, np.uint64)[places], bounds)
        words = [known.words[place] for place in places.tolist()]
        return [(words[begin:end], labels[begin:end]) for begin, end in pairwise([0, *bounds.tolist()])]

    def _labels(self, orths: np.ndarray[Any, Any], ends: np.ndarray[Any, Any]) -> list[str]:
        """Return the labels of the words of texts that end there; each text is a sentence of a Doc."""
        doc = Doc(self._nlp.vocab, words=orths.tolist())
        starts = np.full(len(doc) + 1, -1, np.int64)
        starts[ends] = starts[0] = 1
        doc.from_array([SENT_START], starts[:-1, None].astype(np.uint64))
        tags = self._pipe.tags
        return [tags[number] for number in self._pipe.predict([doc]).labels.tolist()]


def tagged(nlp: Any, texts: Iterable[str]) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the words and the labels of each text; a text without words has none."""
    tag = Tagger(nlp)
    for portion in portions(texts):
        yield from tag(portion)


def portions(texts: Iterable[str]) -> Iterator[list[str]]:
    """Yield lists of texts."""
    texts = iter(texts)
    while portion := list(islice(texts, PORTION)):
        yield portion


def main(arguments: list[str] | None = None) -> None:
    """Tag a file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("source", type=Path, help="addresses, one a line")
    parser.add_argument("target", type=Path, help="the file to write")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="1 on Windows [one for each core]")
    options = parser.parse_args(arguments)
    nlp = spacy.load(options.model)
    with options.source.open(encoding="utf8") as lines, options.target.open("w", encoding="utf8") as out:
        out.writelines(written(nlp, lines, options.processes))


def written(nlp: Any, texts: Iterable[str], processes: int = 1) -> Iterator[str]:
    """Yield the lines of the output for portions of texts, in order."""
    global _tagger  # forked processes share the pipeline
    _tagger = Tagger(nlp)
    lists = portions(texts)
    yield from map(_lines, lists if processes == 1 else islice(lists, FIRST))
    if processes == 1:
        return
    waiting: deque[Future[str]] = deque()
    with ProcessPoolExecutor(processes, get_context("fork")) as pool:
        for portion in lists:
            waiting.append(pool.submit(_lines, portion))
            if len(waiting) > AHEAD * processes:
                yield waiting.popleft().result()
        yield from (future.result() for future in waiting)


def _lines(texts: list[str]) -> str:
    return "".join(["\t".join(map("/".join, zip(*pair, strict=True))) + "\n" for pair in _tagger(texts)])


if __name__ == "__main__":
    main()
