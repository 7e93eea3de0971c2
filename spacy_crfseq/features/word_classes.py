"""The class of each word, learned from raw text: an attribute plug-in.

Words that are used alike have the same class, so a model knows something about a word that the training corpus lacks.
The classes of Brown et al. (1992), "Class-based n-gram models of natural language", are paths in a binary tree, whose
prefixes are coarser classes; Miller, Guinness & Zamanian (2004), "Name tagging with word clusters and discriminative
training", use several prefixes at once::

    [components.crf_ner.attributes]

    [components.crf_ner.attributes.classes]
    @crf_attributes = "spacy_crfseq.WordClasses.v1"
    lookups = "en"
"""

from __future__ import annotations

import zlib
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..corpora.word_classes import CLUSTERS, TABLES, read_classes, read_lookups
from ..errors import ConfigError
from ..packing import pack, unpack
from ..types import LexemeFunction
from .templates import MAX_OFFSET

Ids: TypeAlias = NDArray[np.uint32]
KEEP = ("all", "seen")
MAX_FOUND = 1 << 14
"""Words whose classes are cached."""
MOST = 8
"""Words for each byte of their packed hashes, at most: differences of sorted hashes hardly compress."""


class ClassTable:
    """The classes of n words, found by a hash of 32 bits.

    hashes [n]: CRC-32 of the words in UTF-8, sorted.  One unknown word in 2**32 / n is taken for a known one.
    numbers [n]: The class of each.
    names (list[str]): The name of each class, a path of bits or any text.
    """

    def __init__(self, hashes: Ids, numbers: Ids, names: list[str]) -> None:
        # arrays of Python's, whose items are found faster than those of NumPy's
        self.hashes, self.numbers, self.names = array("I", hashes.tobytes()), array("I", numbers.tobytes()), names
        self.are_paths = not any(name.strip("01") for name in names)

    @classmethod
    def of(cls, classes: Mapping[str, str]) -> ClassTable:
        """Return the table of some words and their classes."""
        names = sorted(set(classes.values()))
        number_of = {name: number for number, name in enumerate(names)}
        hashes = np.fromiter(map(hash_of, classes), np.uint32, len(classes))
        hashes, first = np.unique(hashes, return_index=True)
        return cls(hashes, np.array([number_of[name] for name in classes.values()], np.uint32)[first], names)

    def find(self, word: str) -> str | None:
        """Return the class of a word, if it has one."""
        key = hash_of(word)
        place = bisect_left(self.hashes, key)
        has_class = place < len(self.hashes) and self.hashes[place] == key
        return self.names[self.numbers[place]] if has_class else None

    def look_up(self, word: str) -> tuple[str | None, str]:
        """Return the class of a word, else of its lower-cased form, None if both lack one, and the form."""
        name = self.find(word)  # the commonest class of the same shape loses F1 on dev parts
        return (name, word) if name is not None else (self.find(lower := word.lower()), lower)

    def part(self, hashes: Iterable[int]) -> ClassTable:
        """Return the table of the words with these hashes."""
        own = np.array(self.hashes)
        kept = np.isin(own, np.fromiter(hashes, np.uint32))
        return ClassTable(own[kept], np.array(self.numbers)[kept], self.names)

    def to_state(self) -> dict[str, Any]:
        """Return the table as few bytes: about 3 for a word of a thousand classes."""
        gaps = np.diff(np.array(self.hashes), prepend=np.uint32(0))
        return {"n": len(gaps), "gaps": pack(gaps), "numbers": pack(np.array(self.numbers)), "names": self.names}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> ClassTable:
        """Return the table that `to_state` stored.  RAISES ValueError, TypeError or KeyError: If it is damaged."""
        n, names = int(state["n"]), [str(name) for name in state["names"]]
        if not 0 <= n <= MOST * len(state["gaps"]):
            raise ValueError(f"{n} words in {len(state['gaps'])} bytes, of which each has at most {MOST}")
        gaps, numbers = (unpack(state[name], np.uint32, n) for name in ("gaps", "numbers"))
        if n and numbers.max() >= len(names):
            raise ValueError("a word has a class that is not there")
        return cls(np.cumsum(gaps, dtype=np.uint32), numbers, names)


@lru_cache(maxsize=4)
def _of_lookups(language: str, table: str) -> ClassTable:
    """Return the classes of a language, read once for all components and trainings."""
    return ClassTable.of(read_lookups(language, table))


def hash_of(word: str) -> int:
    """Return the number that stands for a word in a table."""
    return zlib.crc32(word.encode("utf8", "surrogatepass"))


class WordClasses:
    """Classes of words as attributes NAME4, NAME6 (prefixes of the path) and NAME (the whole class); NAME is the block.

    A word without a class has that of its lower-cased form.  A trained pipeline contains the classes and needs no file.

    path (Path | str): A Brown path file (path, word, count), or lines with a word and its class; gzip is allowed.
    lookups (str): Instead, a language with a table in the package `spacy-lookups-data`.
    prefixes (list[int]): Bits of the path for each attribute; 0 is the whole class.  Classes that are not paths have
        no prefixes.
    window (int): Tokens on each side whose classes are used.
    templates (list[str]): Templates to use instead of those of the window.  They may join classes with other
        attributes, such as "CLASSES4[0]|SHAPE[-1]" in a block named "classes".
    keep (str): What the model stores: "all" words, or those "seen" in texts that training reads, at any time, which
        gives smaller models that know no class for other words.
    table (str): The table of the package: "clusters" are classes learned from raw text, of en, de and es.
        "parts_of_speech" are those that a word can have by the tables of lemmas, such as "noun/verb", with the ending
        of an inflected form ("verb-ing"), of ca, el, en, es, fa, fr, mk and nl.  They have no prefixes.
    RAISES ConfigError: If a setting cannot work.  The classes are read when they are first needed; a FormatError then
        names the line of the file.
    """

    def __init__(
        self,
        path: Path | str = "",
        lookups: str = "",
        prefixes: list[int] | tuple[int, ...] = (4, 6, 10, 0),
        window: int = 1,
        templates: list[str] | tuple[str, ...] = (),
        keep: str = "all",
        table: str = CLUSTERS,
    ) -> None:
        if bool(path) == bool(lookups):
            raise ConfigError('WordClasses: give either path = "classes.txt" or lookups = "en".')
        if not (prefixes and isinstance(prefixes, list | tuple) and all(type(n) is int and n >= 0 for n in prefixes)):
            raise ConfigError(f"WordClasses: prefixes must be a list of numbers from 0, but {prefixes!r} was given.")
        if not 0 <= window <= MAX_OFFSET:
            raise ConfigError(f"WordClasses: window must be from 0 to {MAX_OFFSET}, but {window} was given.")
        if keep not in KEEP:
            raise ConfigError(f'WordClasses: keep must be "all" or "seen", but {keep!r} was given.')
        if table not in TABLES:
            raise ConfigError(f"WordClasses: table must be {' or '.join(map(repr, TABLES))}, but {table!r} was given.")
        self.path, self.lookups, self.keep, self._name = Path(path), lookups, keep, table
        # only clusters are paths
        self._prefixes = list(dict.fromkeys(prefixes if path or table == CLUSTERS else [0]))
        self._window, self._templates = window, tuple(templates)
        self._whole: ClassTable | None = None
        self._stored: frozenset[int] = frozenset()  # the words of a stored model
        self._seen: set[int] = set()
        self._noted: dict[str, str | None] = {}  # classes of words that were noted
        self._table: ClassTable | None = None  # what follows from the words seen
        self._found: dict[str, str | None] = {}
        self._state: dict[str, Any] | None = None

    @property
    def whole(self) -> ClassTable:
        """The classes of all words; errors as in the class."""
        if self._whole is None:
            of_file = not self.lookups
            self._whole = ClassTable.of(read_classes(self.path)) if of_file else _of_lookups(self.lookups, self._name)
        return self._whole

    @property
    def table(self) -> ClassTable:
        """The classes that predictions have, and the file of a model; errors as in the class."""
        if self._table is None:
            self._table = self.whole if self.keep == "all" else self.whole.part(self._seen)
        return self._table

    @property
    def seen(self) -> AbstractSet[int] | None:
        """Hashes of the words with a class that training has read; None if all are kept."""
        return self._seen if self.keep == "seen" else None

    def see(self, seen: AbstractSet[int]) -> None:
        """Keep the classes of these words, too."""
        if not seen <= self._seen:
            self._seen |= seen
            self._changed()

    def forget(self) -> None:
        """Keep the classes of a stored model alone."""
        self._seen, self._noted = set(self._stored), {}
        self._changed()

    def _changed(self) -> None:
        self._table, self._found, self._state = None, {}, None

    def templates(self, block: str) -> Sequence[str]:
        """Return the templates given, else a window for each prefix."""
        return self._templates or [f"{block}{n or ''}[{-self._window}..{self._window}]" for n in self._prefixes]

    def lengths(self, block: str) -> Mapping[str, int]:
        """Return the length of the prefix of each attribute, 0 for the whole class."""
        return {f"{block}{n or ''}": n for n in self._prefixes}

    def functions(self, block: str) -> Mapping[str, LexemeFunction]:
        """Return a function for each prefix."""
        return self._functions(block, self.class_of)

    def functions_of_training(self, block: str) -> Mapping[str, LexemeFunction]:
        """Return a function for each prefix, for words of texts to learn from."""
        return self._functions(block, self.class_of if self.keep == "all" else self._note)

    def _functions(self, block: str, find: LexemeFunction) -> Mapping[str, LexemeFunction]:
        return {name: partial(self._prefix, find, n) if n else find for name, n in self.lengths(block).items()}

    def _prefix(self, find: LexemeFunction, n: int, text: str) -> str | None:
        name = find(text)
        return name[:n] if name and self.whole.are_paths else None

    def class_of(self, text: str) -> str | None:
        """Return the class that a prediction has of a word, None if it has none; errors as in the class."""
        cache = self._found
        if text in cache:  # one function after another is called on the same words
            return cache[text]
        return _added(cache, text, self.table.look_up(text)[0])

    def _note(self, text: str) -> str | None:
        """Return the class of a word to learn from, and keep it."""
        cache = self._noted
        if text in cache:
            return cache[text]
        name, form = self.whole.look_up(text)
        if name is not None:
            self.see({hash_of(form)})
        return _added(cache, text, name)

    def to_state(self) -> dict[str, Any]:
        """Return the classes of all words, or of those kept."""
        if self._state is None:  # once, because training stores the model several times
            self._state = self.table.to_state()
        return self._state

    def from_state(self, state: dict[str, Any]) -> None:
        """Use the classes that a model has stored."""
        self._whole = ClassTable.from_state(state)
        self._stored = frozenset(self._whole.hashes) if self.keep == "seen" else frozenset()
        self.forget()


def _added(cache: dict[str, str | None], word: str, name: str | None) -> str | None:
    """Return the class of a word, and add it to a cache."""
    if len(cache) >= MAX_FOUND:
        cache.clear()
    cache[word] = name
    return name
