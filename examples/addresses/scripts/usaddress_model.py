"""Parse addresses with the model of usaddress, many at once on arrays, or one at a time.

    python scripts/usaddress_model.py addresses.txt parsed.tsv

Words and labels are those of `usaddress.parse`.  The features of usaddress are those of a word and its two neighbours,
so each distinct word has rows of scores: as itself, as the word before and as the word after, and as these where it is
the first or the last word.  The scores of an address are sums of such rows, and `spacy_crfseq.Chain` finds the best
labels, or the probability of each.  A single address needs none of the arrays that tell many apart.
"""

from __future__ import annotations

import argparse
import re
from array import array
from collections.abc import Iterator, Sequence
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from address_code import token_features

from spacy_crfseq import Chain
from spacy_crfseq.corpora.saved_models import read_crfsuite_model
from spacy_crfseq.decoders.viterbi import best_labels
from spacy_crfseq.features.entries import attribute_of, entries_in
from spacy_crfseq.features.index import Growable
from spacy_crfseq.types import Scores

Table = np.ndarray[Any, Any]
WORD = re.compile(r"\(*\b[^\s,;#&()]+[.,;)\n]*|[#&]")
AMPERSAND = re.compile("&#38;|&amp;")
PORTION = 2000
"""Addresses that are parsed at a time."""
END = "\0"
"""After each address."""
PLACES = ("", "previous:", "next:")
"""What the names of features of a word, of the one before and of the one after begin with."""
OF_ENDS = "address.start", "address.end", "previous:address.start", "next:address.end"
"""Features of the first and of the last word, and of their neighbours."""
ROWS, AT_END = 5, 2
"""Rows of a word, and how far behind those of a neighbour those are of the first or last word as a neighbour."""


class Parser:
    """Parses addresses; it keeps what it knows of words, for the next ones.

    path: The model of usaddress; None for that of the package.
    """

    def __init__(self, path: Path | str | None = None) -> None:
        if path is None:
            import usaddress

            path = usaddress.MODEL_PATH
        model = read_crfsuite_model(path)
        self.labels, self._transitions = model.labels, model.transitions
        self._rows = {name: number for number, name in enumerate(model.attributes.names)}
        self._weights = np.zeros((len(self._rows) + 1, len(self.labels)))  # the last row is of unknown features
        self._weights[model.attributes.rows, model.attributes.columns] = model.attributes.values
        first, last, *self._of_neighbours = (self._weights[[self._rows.get(name, -1)]] for name in OF_ENDS)
        self._numbers: dict[str, int] = {}
        # rows of a word: as itself, before another, after another
        self._scores = Growable(np.float64, len(self.labels))
        self._scores.append(np.concatenate([0 * first, first, last, 0 * first, 0 * first]))  # beyond the ends
        self._pieces, self._words_of = _Pieces(self._number), dict[str, tuple[list[str], list[int]]]()
        steps, nothing = np.ascontiguousarray(self._transitions, np.float64), np.zeros(len(self.labels))
        self._shared = steps[None], nothing, nothing

    def parse(self, text: str) -> list[tuple[str, str]]:
        """Return the words of an address with their labels."""
        words: list[str] = []
        here: list[int] = []
        for piece in [text] if "\n" in text else text.split():
            of_piece, rows = self._words_of.get(piece) or self._met(piece)
            words += of_piece
            here += rows
        if not words:
            return []
        before, after = [1, *[row + 1 for row in here[:-1]]], [*[row + 2 for row in here[1:]], 2]
        if len(here) > 1:
            before[1] += AT_END
            after[-2] += AT_END
        emissions = np.add.reduce(self._scores.room.take([here, before, after], axis=0), axis=0)
        best = best_labels(Scores(emissions, *self._shared), np.array([0, len(here)]))
        return list(zip(words, map(self.labels.__getitem__, best.tolist()), strict=True))

    def parse_all(self, texts: Sequence[str]) -> Iterator[list[tuple[str, str]]]:
        """Yield the words of each address with their labels."""
        for words, ends, scores in self._chains(texts):
            labels = map(self.labels.__getitem__, scores.viterbi().tolist())
            pairs = list(zip(words, labels, strict=True))
            yield from (pairs[begin:end] for begin, end in pairwise(ends))

    def marginals(self, texts: Sequence[str]) -> Iterator[Table]:
        """Yield the probabilities [words, labels] of each address, in the order of `labels`."""
        for _, ends, scores in self._chains(texts):
            table = scores.marginals()
            yield from (table[begin:end] for begin, end in pairwise(ends))

    def _chains(self, texts: Sequence[str]) -> Iterator[tuple[list[str], list[int], Chain]]:
        """Yield the words of a portion of addresses, where each address begins and the last ends, and their scores."""
        for first in range(0, len(texts), PORTION):
            words, numbers, offsets = self._pieces.words_of(texts[first : first + PORTION])
            yield words, offsets.tolist(), Chain(self._emissions(numbers, offsets), self._transitions, offsets=offsets)

    def _emissions(self, numbers: Table, offsets: Table) -> Table:
        """Return the scores [T, L] of the labels of words, given their numbers [T] and the ends of addresses."""
        begins, lasts = (bounds[np.diff(offsets) > 0] for bounds in (offsets[:-1], offsets[1:] - 1))
        here = ROWS * numbers
        before, after = np.append(0, here[:-1]), np.append(here[1:], 0)
        before[begins] = after[lasts] = 0
        before += 1
        after += 2
        several = lasts > begins
        before[begins[several] + 1] += AT_END
        after[lasts[several] - 1] += AT_END
        emissions = self._scores.array.take(here, axis=0)
        emissions += self._scores.array.take(before, axis=0)
        emissions += self._scores.array.take(after, axis=0)
        return emissions

    def _number(self, word: str) -> int:
        """Return the number of a word, whose features are computed when it is met."""
        number = self._numbers.setdefault(word, len(self._numbers) + 1)
        if number * ROWS == self._scores.size:
            features = [attribute_of(entry) for entry in entries_in(token_features(word))]
            values = np.array([[value for _, value in features]])
            here, before, after = (
                values @ self._weights[[self._rows.get(prefix + name, -1) for name, _ in features]] for prefix in PLACES
            )
            at_ends = before + self._of_neighbours[0], after + self._of_neighbours[1]
            self._scores.append(np.concatenate([here, before, after, *at_ends]))
        return number

    def _met(self, piece: str) -> tuple[list[str], list[int]]:
        """Note and return the words of a piece of an address, and the first row of each."""
        words = words_in(piece)
        self._words_of[piece] = words, [ROWS * self._number(word) for word in words]
        return self._words_of[piece]


def words_in(piece: str) -> list[str]:
    """Return the words of an address, or of a piece of it between white space."""
    return WORD.findall(AMPERSAND.sub("&", piece))


class _Pieces(dict[str, int]):
    """Numbers of the pieces between white space, each of which is split into words once."""

    def __init__(self, number_of: Any) -> None:
        self._number_of = number_of
        self._words, self._numbers, self._first = list[str](), array("q"), array("q", [0, 0])
        self[END] = 0

    def __missing__(self, piece: str) -> int:
        words = words_in(piece)
        self._numbers.extend(map(self._number_of, words))
        self._words += words
        self._first.append(len(self._words))
        self[piece] = number = len(self)
        return number

    def words_of(self, texts: Sequence[str]) -> tuple[list[str], Table, Table]:
        """Return the words [T] of texts, their numbers [T] and the offsets of texts [N + 1].

        RAISES ValueError: If a text has the character that stands between texts here.
        """
        joined = f" {END} ".join([*texts, ""])
        if "\n" in joined:  # a line break behind a word belongs to it, so such a text is a piece
            pieces = [piece for text in texts for piece in [*([text] if "\n" in text else text.split()), END]]
        else:
            pieces = joined.split()
        numbers = np.fromiter(map(self.__getitem__, pieces), np.int64, len(pieces))
        first = np.frombuffer(self._first, np.int64)
        begins, sizes = first[numbers], first[numbers + 1] - first[numbers]
        ends = np.cumsum(sizes)
        places = np.arange(ends[-1]) + np.repeat(begins - ends + sizes, sizes)
        offsets = np.append(0, ends[numbers == 0])
        if len(offsets) != len(texts) + 1:
            raise ValueError("An address has the character NUL between spaces, which stands between addresses here.")
        words = list(map(self._words.__getitem__, places.tolist()))
        return words, np.array(self._numbers, np.int64)[places], offsets


def main(arguments: list[str] | None = None) -> None:
    """Parse a file of addresses."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("source", type=Path, help="addresses, one a line")
    parser.add_argument("target", type=Path, help="the file to write: word/label, separated by tabs")
    parser.add_argument("--model", help="model of usaddress [that of the package]")
    options = parser.parse_args(arguments)
    parse = Parser(options.model).parse_all
    with options.source.open(encoding="utf8") as lines, options.target.open("w", encoding="utf8") as out:
        portions = iter(lambda: [line.rstrip("\n") for line in islice(lines, PORTION)], [])
        for pairs in chain.from_iterable(map(parse, portions)):
            out.write("\t".join(map("/".join, pairs)) + "\n")


if __name__ == "__main__":
    main()
