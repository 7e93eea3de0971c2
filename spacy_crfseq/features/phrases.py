"""An attribute for lists of phrases, such as names of places: which list a token is in, and where in the phrase.

A phrase matches consecutive tokens whose texts, joined, are the phrase without its white space.  So it does not matter
how a tokenizer splits "U.S.", "O'Neill" or "New York-based".  A match begins and ends with a token, and has at least as
many tokens as the phrase has words: "a part" is not found in "apart".

The table of phrases holds 64-bit hashes: about 30 bytes for each phrase in memory, 25 in a model.  The PhraseMatcher of
spaCy finds phrases that the tokenizer splits as it splits the text, and takes some 4 kilobytes and 90 microseconds to
add one, so that lists of a hundred thousand names do not fit beside a model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from .. import kernels
from ..corpora import check_file, read_lines
from ..errors import ConfigError, FormatError
from ..schemes import TagSpan
from ..threads import cached_property, surviving
from ..types import Hashes, Ints, Offsets
from .documents import read_columns
from .index import Growable, HashIndex, hash_of_name
from .templates import MAX_OFFSET
from .token_sets import TokenSets

PLACES = "BIES"
"""Ends of the values, begin, inside, end and single: "GPE-B" at the first token of a phrase of the list GPE."""
PATTERNS = ".jsonl"
"""Ending of files with the patterns of an entity ruler."""
LITERALS = ("LOWER", "ORTH", "TEXT")
PORTION = 1 << 16
"""Phrases that are hashed at a time."""
BITMAP = 1 << 21
"""Words of 64 bits of a bitmap that is filled; it is then folded."""
MAX_WORDS = 1 << 17
"""Words whose hashes are cached."""
_LOCK = surviving(Lock())


class PhraseTable(NamedTuple):
    """Phrases by their keys; see `kernels.hashing`.

    names (list[str]): The lists.
    bits (Hashes): Bitmap of the keys of all beginnings.
    keys (Hashes): [P], sorted; a phrase of several lists occurs several times.
    entries (Ints): [P, 2] the list, and twice the fewest tokens of a match, plus 1 if the next entry has the same key.
    """

    names: list[str]
    bits: Hashes
    keys: Hashes
    entries: Ints


class Phrases:
    """Lists of phrases of any number of words; values such as "GPE-B" for begin, inside, end, and single.

    In each list, the longest phrases count, from left to right; phrases of different lists may overlap.  A trained
    pipeline contains the phrases and does not need the files.

    path (Path | str | list): Files or folders of files.  A text file has one phrase per line, and its name without its
        ending is the name of its list.  A file .jsonl has patterns of an entity ruler, whose label is the name:
        {"label": "GPE", "pattern": "New York"}, or a pattern of {"LOWER": ...}, {"ORTH": ...} and {"TEXT": ...}.
    lists (dict): Further lists by their names: a text file, or the phrases themselves.
    lower (bool): Compare lower-cased.
    window (int): Tokens on each side whose values are used, too.
    encoding (str): Of the files.
    RAISES ConfigError: If there is no list, or a setting is of the wrong kind.  A file is read, and an error in it
        raised, when training begins.
    """

    def __init__(
        self,
        path: Path | str | list[str] | None = None,
        lists: dict[str, Any] | None = None,
        lower: bool = True,
        window: int = 0,
        encoding: str = "utf8",
    ) -> None:
        if not 0 <= window <= MAX_OFFSET:
            raise ConfigError(f"Phrases: window must be from 0 to {MAX_OFFSET}, but {window} was given.")
        paths, lists = path if isinstance(path, list) else [path] if path else [], lists or {}
        if not isinstance(lists, dict) or not all(isinstance(name, str | Path) for name in paths):
            raise ConfigError("Phrases: path must be a file, a folder or a list of them, and lists a block of lists.")
        self._paths, self._lists, self._encoding = [Path(name) for name in paths], lists, encoding
        self.lower, self.window = lower, window
        if not paths and not lists:
            raise ConfigError("Phrases: give path, a file or folder of phrases, or lists.")
        for name, given in self._lists.items():
            texts = given if isinstance(given, list | tuple) else [given]
            if not name or not all(isinstance(text, str | Path) for text in texts):
                raise ConfigError(f"Phrases: the list {name!r} must be a file or a list of phrases, not {given!r}.")
        self._forget()

    @classmethod
    def of(cls, source: Any, lower: bool = True, window: int = 0) -> Phrases:
        """Return the phrases of an entity ruler, a span ruler or a phrase matcher of spaCy.

        RAISES ConfigError: If a pattern is more than a text, or the matcher compares something else than texts.
        """
        lists: dict[str, list[str]] = {}
        if hasattr(source, "patterns"):
            for number, entry in enumerate(source.patterns, start=1):
                name, phrase = _read_pattern(entry, f"pattern {number}", lower)
                lists.setdefault(name, []).append(phrase)
            return cls(None, lists, lower, window)
        vocab, phrases, _, attribute = source.__reduce__()[1]  # what a pickled matcher consists of
        kind = vocab.strings[attribute] if isinstance(attribute, int) else attribute
        if kind not in LITERALS or (kind == "LOWER" and not lower):
            raise ConfigError(f"Phrases: the matcher compares {kind}; with lower = {lower}, that cannot be done.")
        for name, hashes in phrases.items():
            lists[name] = [_joined(vocab.strings[word] for word in words) for words in hashes]
        return cls(None, lists, lower, window)

    def templates(self, block: str) -> Sequence[str]:
        """Return a window of the attribute."""
        return [f"{block}[-{self.window}..{self.window}]" if self.window else f"{block}[0]"]

    def names(self, block: str) -> Sequence[str]:
        """Return the name of the attribute, that of the block."""
        return [block]

    @cached_property
    def table(self) -> PhraseTable:
        """The phrases; errors as of `read_table`."""
        return self.read_table()

    def read_table(self) -> PhraseTable:
        """Return the phrases of all lists.

        RAISES FormatError: At a line that cannot be read.
        RAISES ConfigError: If there is no phrase.
        """
        table = make_table(self.entries(), self.lower)
        if not len(table.keys):
            raise ConfigError(f"Phrases: there is no phrase in {', '.join(map(str, self._paths)) or 'lists'}.")
        return table

    @cached_property
    def _slots(self) -> Ints:
        keys = self.table.keys
        slots = np.zeros(1 << (2 * len(keys)).bit_length(), np.int32)
        kernels.hashing.rehash(len(keys), keys, slots)
        return slots

    @cached_property
    def _values(self) -> dict[int, str]:
        # by list, then by place
        texts = [f"{name}-{place}" for name in self.table.names for place in PLACES]
        return {hash_of_name(text): text for text in texts}

    def entries(self) -> Iterator[tuple[str, str]]:
        """Yield all phrases, each after the name of its list.  RAISES FormatError: If a line cannot be read."""
        for path in self._paths:
            inside = sorted(file for file in path.glob("[!.]*") if file.is_file()) if path.is_dir() else [path]
            for file in inside:
                yield from self._read(file, file.stem)
        for name, given in self._lists.items():
            if isinstance(given, str | Path):
                yield from self._read(Path(given), name)
            else:
                yield from ((name, str(phrase)) for phrase in given)

    def _read(self, file: Path, name: str) -> Iterator[tuple[str, str]]:
        for number, line in read_lines(check_file(file), self._encoding):
            if not line.strip():
                continue
            if file.suffix != PATTERNS:
                yield name, line
                continue
            try:
                phrase = _read_pattern(json.loads(line), "the line", self.lower)
            except ConfigError as error:
                raise FormatError(file, number, str(error)) from None
            except (ValueError, RecursionError) as error:
                raise FormatError(file, number, f"not JSON ({error}).") from error
            yield phrase

    def read(self, block: str, docs: Sequence[Any], strings: dict[int, str] | None = None) -> Mapping[str, TokenSets]:
        """Return the values at all tokens; a phrase may go beyond a sentence, but not beyond a Doc."""
        if strings is not None:
            strings.update(self._values)
        table = self.table
        with _LOCK:  # threads share the table of words
            words = self._words(docs)
            hashes, powers, first = (column.array for column in self._columns)
        offsets, ptr = np.zeros(len(docs) + 1, np.int64), np.zeros(len(words) + 1, np.int64)
        np.cumsum([len(doc) for doc in docs], out=offsets[1:])
        search = hashes, powers, first, table.bits, self._slots, table.keys, table.entries
        values, sums = np.array(list(self._values), np.uint64), np.empty(len(words), np.uint64)
        room = len(words) + 64
        while True:
            state, matches = np.zeros((5, len(table.names)), np.int64), np.empty(room, np.uint64)
            n = kernels.hashing.longest_phrases(words, offsets, search, values, state, (sums, ptr, matches))
            if n <= room:
                return {block: TokenSets(sums, ptr, matches[:n])}
            room = n

    def places(self, doc: Any) -> list[TagSpan]:
        """Return the phrases in a Doc with the names of their lists; those of different lists may overlap."""
        strings: dict[int, str] = {}
        (sets,) = self.read("", [doc], strings).values()
        spans, begun = list[TagSpan](), dict[str, int]()
        for token, (first, last) in enumerate(pairwise(sets.ptr.tolist())):
            for value in sets.values[first:last].tolist():
                name, _, place = strings[value].rpartition("-")
                if place in "BS":
                    begun[name] = token
                if place in "ES":
                    spans.append(TagSpan(begun[name], token + 1, name))
        return spans

    def _words(self, docs: Sequence[Any]) -> Ints:
        """Return the rows [T] of the words in the columns of hashes, adding new words."""
        (orths,) = read_columns(docs, ["ORTH"])
        rows, unknown = self._index.find(orths)
        if not unknown:
            return rows
        if self._index.size > MAX_WORDS:
            self._forget()
        try:
            rows, new = self._index.add(orths)
            texts = [docs[0].vocab.strings[orth] for orth in orths[new].tolist()]
            hashes, powers, first = (column.resize(self._index.size)[-len(texts) :] for column in self._columns)
            kernels.hashing.hash_texts(*_characters(texts, self.lower), hashes, powers)
            kernels.hashing.first_words(hashes, powers, self.table.bits, self._slots, self.table.keys, first)
        except BaseException:  # words and their hashes must stay in step
            self._forget()
            raise
        return rows

    def _forget(self) -> None:
        # of each word: its hash, B**length, and what `first_words` finds
        self._index = HashIndex()
        self._columns = Growable(np.uint64), Growable(np.uint64), Growable(np.int32)

    def to_state(self) -> Any:
        """Return the data that a model stores."""
        return {"lower": self.lower, **self.table._asdict()}

    def from_state(self, state: Any) -> None:
        """Use the phrases that a model has stored.  RAISES ValueError, TypeError or KeyError: If they are damaged."""
        kinds = {"bits": np.uint64, "keys": np.uint64, "entries": np.int32}
        names = [str(name) for name in state["names"]]
        # copies, since those of a file cannot be written, for which numba would compile all kernels once more
        bits, keys, entries = (np.array(state[name]).astype(kind, casting="same_kind") for name, kind in kinds.items())
        if bits.ndim != 1 or len(bits).bit_count() != 1 or keys.ndim != 1 or entries.shape != (len(keys), 2):
            raise ValueError("arrays of wrong shapes")
        if not len(keys) or entries.min() < 0 or entries[:, 0].max() >= len(names) or entries[-1, 1] % 2:
            raise ValueError("phrases of unknown lists")
        for name in ("table", "_slots", "_values"):
            vars(self).pop(name, None)
        self._forget()
        self.lower, self.table = bool(state["lower"]), PhraseTable(names, bits, keys, entries)


def make_table(phrases: Iterator[tuple[str, str]], lower: bool) -> PhraseTable:
    """Return the table of phrases, given with the names of their lists."""
    numbers: dict[str, int] = {}
    bits, n_set = np.zeros(BITMAP, np.uint64), 0
    all_keys, all_entries = Growable(np.uint64), Growable(np.int32, 2)
    while portion := list(islice(phrases, PORTION)):
        texts = [text for _, text in portion]
        codes, ptr = _characters(texts, lower)
        keys = np.empty(len(texts), np.uint64)
        n_set += kernels.hashing.add_phrases(codes, ptr, bits, keys)
        lists = np.array([numbers.setdefault(name, len(numbers)) for name, _ in portion], np.int32)
        n_words = np.array([1 + len(_BETWEEN_WORDS.findall(text.strip())) for text in texts], np.int32)
        all_keys.append(keys[keys != 0])  # that of an empty phrase is 0
        all_entries.append(np.stack([lists, 2 * n_words], axis=1)[keys != 0])
    while len(bits) > 1 and 8 * n_set < 64 * len(bits):  # at most a quarter of the bits are set
        bits = bits[: len(bits) // 2] | bits[len(bits) // 2 :]
    keys, entries = all_keys.array, all_entries.array
    order = np.lexsort((entries[:, 1], entries[:, 0], keys))
    keys, entries = keys[order], entries[order]
    kept = np.append(True, (np.diff(keys) != 0) | (np.diff(entries[:, 0]) != 0))[: len(keys)]
    keys, entries = keys[kept], entries[kept]
    entries[:-1, 1] += keys[1:] == keys[:-1]
    return PhraseTable(list(numbers), bits, keys, entries)


def _characters(texts: Sequence[str], lower: bool) -> tuple[Any, Offsets]:
    """Return the characters of N texts but white space, lower-cased if asked for, and where each begins [N + 1]."""
    bare = ["".join((text.lower() if lower else text).split()) for text in texts]
    ptr = np.zeros(len(bare) + 1, np.int64)
    np.cumsum([len(text) for text in bare], out=ptr[1:])
    return np.frombuffer("".join(bare).encode("utf-32-le", "surrogatepass"), np.uint32), ptr


_BETWEEN_WORDS = re.compile(r"(?<=\w)\s+(?=\w)")
_BESIDE_SIGNS = re.compile(r"\s*([^\w\s])\s*")


def _joined(words: Iterable[str]) -> str:
    """Return the tokens of a phrase as a text, without spaces that a tokenizer may have made."""
    return _BESIDE_SIGNS.sub(r"\1", " ".join(words))


def _read_pattern(entry: Any, where: str, lower: bool) -> tuple[str, str]:
    """Return the label and the text of an entity ruler's pattern; ConfigError if it is not a text."""
    if not isinstance(entry, dict) or not isinstance(entry.get("label"), str) or "pattern" not in entry:
        raise ConfigError(f'{where} is no pattern; write {{"label": "GPE", "pattern": "New York"}}.')
    label, pattern = entry["label"], entry["pattern"]
    if isinstance(pattern, str):
        return label, pattern
    are_tokens = isinstance(pattern, list) and all(isinstance(token, dict) and len(token) == 1 for token in pattern)
    parts = [part for token in pattern for part in token.items()] if are_tokens else []
    if not parts or any(key.upper() not in LITERALS or not isinstance(value, str) for key, value in parts):
        raise ConfigError(
            f"{where}: the pattern {pattern!r} is more than a text; each token must be one of "
            f"{', '.join(LITERALS)} with a text."
        )
    if not lower and any(key.upper() == "LOWER" for key, _ in parts):
        raise ConfigError(f"{where}: the pattern {pattern!r} compares LOWER, but lower = false.")
    return label, _joined(value for _, value in parts)
