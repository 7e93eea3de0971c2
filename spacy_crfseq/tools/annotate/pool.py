"""The texts to choose from: 100,000 of them in some tens of megabytes, and which of them are nearly the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from random import Random
from re import fullmatch
from sys import intern
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...corpora import Preset, Sentence
from ...corpora.lines import checked
from ...errors import DataError, FormatError
from ...pipeline.texts import Document, make_doc, read_documents
from .journal import Text

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc

HASHES, BAND = 16, 4
"""Smallest hashes of words of a text, and how many in a row two texts must share to count as nearly the same.  Texts
that have 80 % of their words in common do so with a probability of 0.88, those with 30 % with one of 0.03."""
_FACTORS = np.random.default_rng(0).integers(1, 2**63, HASHES, np.uint64) | np.uint64(1)


class Source(NamedTuple):
    """A file of texts, its layout, and its size and time when it was read last."""

    path: Path
    layout: Preset
    stamp: tuple[int, int] = (0, 0)


class Pool:
    """The texts of some files, each once, numbered from 0; new ones may come.

    RAISES CrfError: If a file cannot be read, or there is no text.
    """

    def __init__(self, nlp: Language, sources: Sequence[Source]) -> None:
        self._nlp, self._sources = nlp, list(sources)
        self._texts: list[str | tuple[tuple[str, ...], bytes | None]] = []
        self._numbers: dict[int, int] = {}
        if not self.refresh():
            raise DataError(f"{', '.join(str(source.path) for source in sources)}: no text in the file.")

    def __len__(self) -> int:
        return len(self._texts)

    def refresh(self) -> int:
        """Read files that have changed, and return the number of new texts."""
        before = len(self)
        for i, source in enumerate(self._sources):
            status = source.path.stat()
            stamp = status.st_size, status.st_mtime_ns
            if stamp != source.stamp:
                self._sources[i] = source._replace(stamp=stamp)
                for document in checked(read_documents(source.path, source.layout), source.path, empty=""):
                    self._add(source.path, document)
        return len(self) - before

    def _add(self, path: Path, document: Document) -> None:
        if document.sentences:
            words = tuple(intern(word) for sentence in document.sentences for word in sentence.words)
            spaces = [sentence.spaces for sentence in document.sentences]
            flags = None if spaces[0] is None else bytes(space for each in spaces for space in each or ())
            item: str | tuple[tuple[str, ...], bytes | None] = (words, flags)
            blank = all(map(str.isspace, words))
        else:
            item, blank = document.text, not document.text or document.text.isspace()
            if len(document.text) > self._nlp.max_length:
                most = f"a text of {len(document.text):,} characters; {self._nlp.max_length:,} are the most."
                raise FormatError(path, document.line, most)
        if not blank and self._numbers.setdefault(hash_of(item), len(self)) == len(self):
            self._texts.append(item)

    def key(self, number: int) -> str:
        """Return the hash of a text, which stays the same wherever the text is in a file."""
        return f"{hash_of(self._texts[number]):016x}"

    def number(self, key: str) -> int | None:
        """Return the number of the text with a hash; None if there is none."""
        return self._numbers.get(int(key, 16)) if fullmatch("[0-9a-f]{16}", key) else None

    def doc(self, number: int) -> Doc:
        """Return the tokens of a text."""
        item = self._texts[number]
        if isinstance(item, str):
            return self._nlp.make_doc(item)
        words, flags = item
        sentence = Sentence(list(words), {}, None if flags is None else list(map(bool, flags)), 0)
        return make_doc(self._nlp, Document(0, sentences=[sentence]))

    def draw(self, random: Random, without: set[int]) -> Iterator[int]:
        """Yield texts at random, each once, those `without` left out."""
        drawn = set(without)
        for _ in range(20 * len(self) if len(drawn) < len(self) // 2 else 0):
            number = random.randrange(len(self))
            if number not in drawn:
                drawn.add(number)
                yield number
        rest = [number for number in range(len(self)) if number not in drawn]
        random.shuffle(rest)
        yield from rest


def hash_of(item: str | tuple[tuple[str, ...], bytes | None]) -> int:
    """Return a number that a text, or its words, has in all files."""
    text = item if isinstance(item, str) else "\x1f".join(item[0])
    return int.from_bytes(blake2b(text.encode("utf8", "replace"), digest_size=8).digest(), "big")


def text_of(doc: Doc) -> Text:
    """Return the tokens of a Doc as values."""
    spaces = None if doc.has_unknown_spaces else tuple(bool(token.whitespace_) for token in doc)
    return Text(tuple(token.text for token in doc), spaces)


def bands(doc: Doc) -> frozenset[int]:
    """Return numbers of which two texts share one, most likely, if they have most words in common.

    Minwise hashing: Broder (1997), "On the resemblance and containment of documents".
    """
    words = np.unique(doc.to_array("LOWER").astype(np.uint64))
    if not len(words):
        return frozenset()
    least = (words[:, None] * _FACTORS).min(0) >> np.uint64(8)
    rows = least.reshape(-1, BAND) * np.arange(1, BAND + 1, dtype=np.uint64)
    return frozenset((rows.sum(1) * np.uint64(len(rows)) + np.arange(len(rows), dtype=np.uint64)).tolist())
