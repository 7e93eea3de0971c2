"""Parse addresses with the model of usaddress, many at once, on arrays.

    python scripts/usaddress_model.py addresses.txt parsed.tsv

Words and labels are those of `usaddress.parse`.  The features of usaddress are those of a word and its two neighbours,
so each distinct word has three rows of scores: as itself, as the word before and as the word after.  The scores of an
address are sums of such rows, and `spacy_crfseq.Chain` finds the best labels, or the probability of each.
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
from spacy_crfseq.features.entries import attribute_of, entries_in
from spacy_crfseq.features.index import Growable

Table = np.ndarray[Any, Any]
WORD = re.compile(r"\(*\b[^\s,;#&()]+[.,;)\n]*|[#&]")
PORTION = 2000
"""Addresses that are parsed at a time."""
END = "\0"
"""After each address."""
PLACES = ("", "previous:", "next:")
"""What the names of features of a word, of the one before and of the one after begin with."""


class Parser:
    """Parses lists of addresses; it keeps what it knows of words, for the next ones.

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
        self._numbers: dict[str, int] = {}
        self._scores = [Growable(np.float64, len(self.labels)) for _ in PLACES]
        for scores in self._scores:
            scores.resize(1)  # beyond the ends of an address
        self._pieces = _Pieces(self._number)

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
        before, after = np.append(0, numbers[:-1]), np.append(numbers[1:], 0)
        before[begins] = after[lasts] = 0
        here, of_before, of_after = (scores.array for scores in self._scores)
        emissions = here.take(numbers, axis=0)
        emissions += of_before.take(before, axis=0)
        emissions += of_after.take(after, axis=0)
        several = lasts > begins
        for name, places in (
            ("address.start", begins), ("address.end", lasts),
            ("previous:address.start", begins[several] + 1), ("next:address.end", lasts[several] - 1),
        ):  # fmt: skip
            emissions[places] += self._weights[self._rows.get(name, -1)]
        return emissions

    def _number(self, word: str) -> int:
        """Return the number of a word, whose features are computed when it is met."""
        number = self._numbers.setdefault(word, len(self._numbers) + 1)
        if number == self._scores[0].size:
            features = [attribute_of(entry) for entry in entries_in(token_features(word))]
            for prefix, scores in zip(PLACES, self._scores, strict=True):
                rows = [self._rows.get(prefix + name, -1) for name, _ in features]
                scores.append(np.array([[value for _, value in features]]) @ self._weights[rows])
        return number


class _Pieces(dict[str, int]):
    """Numbers of the pieces between white space, each of which is split into words once."""

    def __init__(self, number_of: Any) -> None:
        self._number_of = number_of
        self._words, self._numbers, self._first = list[str](), array("q"), array("q", [0, 0])
        self[END] = 0

    def __missing__(self, piece: str) -> int:
        words = WORD.findall(re.sub("&#38;|&amp;", "&", piece))
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
