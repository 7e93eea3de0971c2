"""The texts to choose from: 100,000 of them in some tens of megabytes, and which of them are nearly the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from random import Random
from re import fullmatch
from sys import intern
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...corpora import DOCBIN, Preset, Sentence
from ...corpora.layouts import RAW
from ...corpora.lines import ZIPPED, checked
from ...errors import DataError, FormatError
from ...pipeline.texts import Document, make_doc, read_documents
from .journal import TextTokens

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc

HASHES, BAND = 16, 4
"""Smallest hashes of words of a text, and how many in a row two texts must share to count as nearly the same.  Texts
that have 80 % of their words in common do so with a probability of 0.88, those with 30 % with one of 0.03."""
_FACTORS = np.random.default_rng(0).integers(1, 2**63, HASHES, np.uint64) | np.uint64(1)


class TextFile(NamedTuple):
    """A file of texts, its layout, and what was there when it was read last.

    stamp: Its size and time; None before it was read.
    waits: Whether its last text was left out, as half of it may be missing.
    texts: The numbers of its texts.
    """

    path: Path
    layout: Preset
    stamp: tuple[int, int] | None = None
    waits: bool = False
    texts: frozenset[int] = frozenset()


class Pool:
    """The texts of some files, each once, numbered from 0; new ones may come, and others leave their file.

    RAISES CrfError: If a file cannot be read, or there is no text.
    """

    def __init__(self, nlp: Language, sources: Sequence[TextFile]) -> None:
        self._nlp, self._sources = nlp, list(sources)
        self._texts: list[str | tuple[tuple[str, ...], bytes | None]] = []
        self._numbers: dict[int, int] = {}
        self._present: frozenset[int] = frozenset()
        self._reading = Lock()
        if not self.refresh():
            raise DataError(f"{', '.join(str(source.path) for source in sources)}: no text in the file.")

    def __len__(self) -> int:
        return len(self._present)

    def __contains__(self, number: int) -> bool:
        return number in self._present

    def refresh(self) -> int:
        """Read files that have changed, and return the number of new texts.

        While a file grows, its last text waits until it has an end, or the file has stayed the same between two looks.
        """
        with self._reading:
            before = len(self._texts)
            for i, source in enumerate(self._sources):
                stamp = _stamp(source.path)
                if stamp != source.stamp or source.waits:
                    self._sources[i] = self._read(source, stamp)
            self._present = frozenset[int]().union(*(source.texts for source in self._sources))
            return len(self._texts) - before

    def _read(self, source: TextFile, stamp: tuple[int, int]) -> TextFile:
        grows, ended = source.stamp not in (None, stamp), _is_ended(source)
        numbers, last = set[int](), Document(0)
        for document in checked(read_documents(source.path, source.layout), source.path, empty=""):
            numbers |= self._add(source.path, last)
            last = document
        waits = grows and not (ended and _stamp(source.path) == stamp)
        if not waits:
            numbers |= self._add(source.path, last)
        return source._replace(stamp=stamp, waits=waits, texts=frozenset(numbers))

    def _add(self, path: Path, document: Document) -> set[int]:
        """Add a text and return its number, or nothing if it is blank."""
        if document.sentences:
            words = tuple(intern(word) for sentence in document.sentences for word in sentence.words)
            spaces = [sentence.spaces for sentence in document.sentences]
            flags = None if spaces[0] is None else bytes(space for of_sentence in spaces for space in of_sentence or ())
            item: str | tuple[tuple[str, ...], bytes | None] = (words, flags)
            blank = all(map(str.isspace, words))
        else:
            item, blank = document.text, not document.text or document.text.isspace()
            if len(document.text) > self._nlp.max_length:
                most = f"a text of {len(document.text):,} characters; {self._nlp.max_length:,} are the most."
                raise FormatError(path, document.line, most)
        if blank:
            return set()
        number = self._numbers.setdefault(hash_of(item), len(self._texts))
        if number == len(self._texts):
            self._texts.append(item)
        return {number}

    def key(self, number: int) -> str:
        """Return the hash of a text, which stays the same wherever the text is in a file."""
        return f"{hash_of(self._texts[number]):016x}"

    def number(self, key: str) -> int | None:
        """Return the number of the text with a hash; None if there is none, or none any more."""
        number = self._numbers.get(int(key, 16)) if fullmatch("[0-9a-f]{16}", key) else None
        return number if number in self._present else None

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
        drawn, size, present = set(without), len(self._texts), self._present
        for _ in range(20 * size if len(drawn) < len(present) // 2 else 0):
            number = random.randrange(size)
            if number not in drawn and number in present:
                drawn.add(number)
                yield number
        rest = sorted(present - drawn)
        random.shuffle(rest)
        yield from rest


def _stamp(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def _is_ended(source: TextFile) -> bool:
    """Whether a file ends behind a text: with a line feed, or in a corpus a blank line; packed files are complete."""
    path, name = source.path, source.layout.name
    if path.suffix == ZIPPED or name == DOCBIN or source.layout.form is not None:
        return True
    with path.open("rb") as file:
        file.seek(max(path.stat().st_size - 16, 0))
        end = file.read().replace(b"\0", b"").replace(b"\r", b"")
    return end.endswith(b"\n" if name in RAW else b"\n\n")


def hash_of(item: str | tuple[tuple[str, ...], bytes | None]) -> int:
    """Return a number that a text, or its words, has in all files."""
    text = item if isinstance(item, str) else "\x1f".join(item[0])
    return int.from_bytes(blake2b(text.encode("utf8", "replace"), digest_size=8).digest(), "big")


def text_of(doc: Doc) -> TextTokens:
    """Return the tokens of a Doc as values."""
    spaces = None if doc.has_unknown_spaces else tuple(bool(token.whitespace_) for token in doc)
    return TextTokens(tuple(token.text for token in doc), spaces)


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
