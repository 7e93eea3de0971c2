"""Corpus readers for spaCy's training configs: CoNLL column files and CoNLL-U without a detour over DocBin.

A reader turns its file into reference docs once for each vocabulary.  Every call then yields the same
reference docs with fresh predicted ones, so that an epoch or an evaluation does not pay for parsing again.
Its `stream` keeps nothing: a large corpus that is read once or twice needs memory for one doc at a time.
"""

# No `from __future__ import annotations`: spaCy checks a config against the annotations as they are.

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.attrs import DEP, ENT_IOB, ENT_TYPE, HEAD, LEMMA, MORPH, POS, SENT_START, TAG
from spacy.language import Language
from spacy.parts_of_speech import IDS
from spacy.tokens import Doc
from spacy.tokens import Span as DocSpan
from spacy.training import Example
from spacy.vocab import Vocab

from ..corpora import UPOS, Sentence, check_columns, check_scheme, get_preset, read_columns, read_conllu
from ..errors import ConfigError, DataError, FormatError, suggest
from ..schemes import OUTSIDE, READABLE_SCHEMES, Span, decode_lenient, find_invalid, split_tag

_ATTRIBUTES = {"tag": TAG, "pos": POS, "lemma": LEMMA, "morph": MORPH}
_SPANS = ("ent", "chunk")
_COLUMNS = ("word", *_ATTRIBUTES, *_SPANS, "_")
_UNITS = ("sentence", "document")
_ON_INVALID = ("error", "conlleval")
_MISSING_ENTITY = "-"
_HINTS = {
    "pos": f"give one of {', '.join(sorted(UPOS))}, or call the column 'tag'.",
    "morph": "features look like Case=Nom|Number=Sing, '_' is none.",
}
# Token.ent_iob of spaCy.
_ENT_MISSING, _ENT_INSIDE, _ENT_OUTSIDE, _ENT_BEGIN = range(4)


@dataclass(frozen=True)
class Layout:
    """How a corpus file becomes docs; see `create_conll_reader` for the fields."""

    path: Path
    columns: tuple[str, ...]
    scheme: str
    given: tuple[str, ...]
    unit: str
    chunks_key: str
    on_invalid: str
    limit: int


def create_conll_reader(
    path: Path | None,
    columns: list[str] = ["word", "tag", "chunk"],  # noqa: B006
    scheme: str = "IOB2",
    given: list[str] = [],  # noqa: B006
    unit: str = "sentence",
    chunks_key: str = "chunks",
    on_invalid: str = "error",
    encoding: str = "utf8",
    limit: int = 0,
) -> "CorpusReader":
    """Create a reader of a column file (``spacy_crfseq.ConllReader.v1``).

    path (Path): The file.
    columns (list[str]): What each column holds: word, tag, pos (a UPOS tag, "_" is missing), lemma, morph ("_" is
        no features), ent (into doc.ents, "-" is missing), chunk (into doc.spans), or "_" to leave it out.
    scheme (str): How ent and chunk are tagged: IOB2, BILUO or IOB1.
    given (list[str]): Columns that the predicted doc gets too, because they are an input of the task: the automatic
        part-of-speech tags of CoNLL-2000.
    unit (str): "sentence" makes each a doc, "document" all up to the next -DOCSTART- line, with sentence starts on
        both docs; a file without such lines is one doc.
    chunks_key (str): The key of the chunks in doc.spans.
    on_invalid (str): On tags that break the scheme: "error", or "conlleval" to read them as the CoNLL scorer does,
        with one warning for the file.
    encoding (str): The encoding of the file.
    limit (int): The most docs to read, 0 for all.

    Raises ConfigError on settings that cannot work; the reader raises FormatError naming file and line.
    """
    _check_columns(columns, scheme)
    layout = _layout(path, columns, scheme, given, unit, chunks_key, on_invalid, limit)
    return CorpusReader(lambda: read_columns(layout.path, columns, encoding=encoding), layout)


def create_conllu_reader(
    path: Path | None,
    given: list[str] = [],  # noqa: B006
    unit: str = "sentence",
    limit: int = 0,
) -> "CorpusReader":
    """Create a reader of a CoNLL-U file (``spacy_crfseq.ConlluReader.v1``).

    Sets tag, pos, morph and lemma, and head and dep in docs where each sentence's heads make a tree.

    path (Path): The file.
    given (list[str]): Columns that the predicted doc gets too, because they are an input of the task.
    unit (str): "sentence" makes each a doc, "document" all up to the next ``# newdoc``.
    limit (int): The most docs to read, 0 for all.

    Raises ConfigError on settings that cannot work; the reader raises FormatError naming file and line.
    """
    layout = _layout(path, list(_ATTRIBUTES), "plain", given, unit, "chunks", "error", limit)
    return CorpusReader(lambda: read_conllu(layout.path), layout)


def read_examples(
    nlp: Language,
    path: Path,
    preset_name: str,
    *,
    given: Sequence[str] = (),
    unit: str = "sentence",
    chunks_key: str = "chunks",
    on_invalid: str = "conlleval",
    limit: int = 0,
) -> Iterator[Example]:
    """Return an iterator over the examples of a file in the layout of a preset, such as "conll2000" or "conllu".

    The file is read as examples are taken, and none is kept.

    Raises ConfigError on an unknown preset and what the readers raise.
    """
    preset = get_preset(preset_name)
    if preset_name == "conllu":
        return create_conllu_reader(path, list(given), unit, limit).stream(nlp)
    columns = list(preset.columns)
    reader = create_conll_reader(
        path, columns, preset.scheme, list(given), unit, chunks_key, on_invalid, preset.encoding, limit
    )
    return reader.stream(nlp)


class CorpusReader:
    """A corpus file as examples.

    read (Callable): Opens the file anew and yields its sentences.
    layout (Layout): How they become docs.

    The docs of a vocabulary are kept, and with them the vocabulary, as long as the reader lives.
    """

    def __init__(self, read: Callable[[], Iterator[Sentence]], layout: Layout) -> None:
        self._read = read
        self._layout = layout
        self._warned = False
        # A Vocab takes no weak references; the stored one keeps its id from being used again.
        self._built: dict[int, tuple[Vocab, list[_Entry]]] = {}

    def __call__(self, nlp: Language) -> Iterator[Example]:
        """Return an iterator over the examples; reference docs are the same objects in every call.

        Raises FormatError, at once, on a line that cannot be read.
        """
        vocab = nlp.vocab
        if id(vocab) not in self._built:
            self._built[id(vocab)] = vocab, list(self._entries(vocab))
        return map(_example, self._built[id(vocab)][1])

    def stream(self, nlp: Language) -> Iterator[Example]:
        """Return an iterator over the examples that reads the file as it goes and keeps none of them.

        Raises FormatError when it comes to a line that cannot be read.
        """
        return map(_example, self._entries(nlp.vocab))

    def _entries(self, vocab: Vocab) -> "Iterator[_Entry]":
        """Read the file, and warn of broken tags at its end."""
        builder = _Builder(vocab, self._layout)
        for group in islice(self._groups(), self._layout.limit or None):
            yield builder.entry(group)
        if builder.invalid and not self._warned:
            self._warned = True
            warnings.warn(builder.warning(), stacklevel=3)

    def _groups(self) -> Iterator[list[Sentence]]:
        """Yield the sentences of each doc."""
        if self._layout.unit == "sentence":
            return ([sentence] for sentence in self._read())
        return (list(group) for _, group in groupby(self._read(), key=lambda sentence: sentence.document))


class _Block(NamedTuple):
    """Attributes of T tokens, ready for `Doc.from_array`: their ids and, for each, T values."""

    attributes: tuple[int, ...]
    values: list[list[int]]


class _Parts(NamedTuple):
    """What a doc of T tokens is made of.

    orths (tuple[int, ...]): [T], the keys of the words; a tuple, since the garbage collector forgets tuples of numbers.
    spaces (list[bool] | None): [T], None where they are not known.
    attributes (list[int]): [A], ids of token attributes.
    values (uint64 [T, A] | None): Their values, None where A is 0.
    chunks (list[Span] | None): Spans under `chunks_key`, None where there is to be no such key.
    """

    orths: tuple[int, ...]
    spaces: list[bool] | None
    attributes: list[int]
    values: NDArray[np.uint64] | None
    chunks: list[Span] | None
    chunks_key: str


class _Entry(NamedTuple):
    """A reference doc and the parts of its predicted doc."""

    reference: Doc
    predicted: _Parts


class _Keys(dict[str, int]):
    """A cache from strings to the keys that a function gives them: `StringStore.add` is slow."""

    def __init__(self, add: Callable[[str], int]) -> None:
        super().__init__()
        self._add = add

    def __missing__(self, text: str) -> int:
        key = self[text] = self._add(text)
        return key


class _Builder:
    """Turns sentences into entries of one vocabulary, and counts those with tags that break the scheme."""

    def __init__(self, vocab: Vocab, layout: Layout) -> None:
        self._vocab = vocab
        self._layout = layout
        self._strings = _Keys(vocab.strings.add)
        self._keys = {
            "tag": self._strings,
            "lemma": self._strings,
            "pos": _Keys(_pos_key),
            "morph": _Keys(vocab.morphology.add),
        }
        self.invalid = 0
        self._first_invalid = 0

    def warning(self) -> str:
        """Say how many sentences held tags that break the scheme."""
        one = self.invalid == 1
        how_many = "a sentence holds" if one else f"{self.invalid:,} sentences, the first at this line, hold"
        return (
            f"{self._layout.path}:{self._first_invalid}: {how_many} tags that are not valid {self._layout.scheme}; "
            f"{'it is' if one else 'they are'} read as conlleval does."
        )

    def entry(self, sentences: list[Sentence]) -> _Entry:
        """Return the entry of the sentences of one doc."""
        orths = tuple(self._strings[word] for sentence in sentences for word in sentence.words)
        spaces = _joined_spaces(sentences)
        blocks = {name: self._block(name, sentences) for name in self._token_columns()}
        given = {name: block for name, block in blocks.items() if name in self._layout.given}
        if self._layout.unit == "document":
            blocks["start"] = given["start"] = _sentence_starts(sentences)
        tree = self._tree(sentences)
        if tree is not None:
            blocks.pop("start", None)  # the tree sets the same ones
            blocks["tree"] = tree
        chunks = self._chunks(sentences) if "chunk" in self._layout.columns else None
        key = self._layout.chunks_key
        reference = _doc(self._vocab, _Parts(orths, spaces, *_stack(blocks), chunks, key))
        given_chunks = chunks if "chunk" in self._layout.given else None
        return _Entry(reference, _Parts(orths, spaces, *_stack(given), given_chunks, key))

    def _token_columns(self) -> list[str]:
        """Return the columns that are attributes of tokens."""
        return [name for name in self._layout.columns if name in _ATTRIBUTES or name == "ent"]

    def _block(self, name: str, sentences: list[Sentence]) -> _Block:
        """Return the attributes of a column."""
        if name == "ent":
            rows = [self._entities(sentence) for sentence in sentences]
            iob, types = [i for row, _ in rows for i in row], [key for _, row in rows for key in row]
            return _Block((ENT_IOB, ENT_TYPE), [iob, types])
        return _Block((_ATTRIBUTES[name],), [[key for s in sentences for key in self._column(name, s)]])

    def _column(self, name: str, sentence: Sentence) -> list[int]:
        """Return the keys of a column, [T]."""
        keys = self._keys[name]
        values = sentence.columns[name]
        try:
            return [keys[value] for value in values]
        except ValueError as error:
            index = next(i for i, value in enumerate(values) if value not in keys)
            message = f"{values[index]!r} in column {name!r} cannot be read: {_HINTS[name]}"
            raise FormatError(self._layout.path, sentence.line + index, message) from error

    def _entities(self, sentence: Sentence) -> tuple[list[int], list[int]]:
        """Return ent_iob [T] and ent_type [T]."""
        tags = sentence.columns["ent"]
        iob = [_ENT_MISSING if tag == _MISSING_ENTITY else _ENT_OUTSIDE for tag in tags]
        types = [0] * len(tags)
        if _MISSING_ENTITY in tags:
            known = [OUTSIDE if tag == _MISSING_ENTITY else tag for tag in tags]
            sentence = sentence._replace(columns={**sentence.columns, "ent": known})
        for start, end, label in self._spans(sentence, "ent"):
            iob[start:end] = [_ENT_BEGIN] + [_ENT_INSIDE] * (end - start - 1)
            types[start:end] = [self._strings[label]] * (end - start)
        return iob, types

    def _chunks(self, sentences: list[Sentence]) -> list[Span]:
        """Return the chunks of a doc."""
        spans, base = [], 0
        for sentence in sentences:
            spans += [Span(base + s, base + e, label) for s, e, label in self._spans(sentence, "chunk")]
            base += len(sentence.words)
        return spans

    def _spans(self, sentence: Sentence, column: str) -> list[Span]:
        """Return the spans of a column of tags.  Raises FormatError where they break the scheme and may not."""
        tags = sentence.columns[column]
        index = find_invalid(tags, self._layout.scheme)
        if index is None:
            return decode_lenient(tags)
        if self._layout.on_invalid == "error" or not all(map(_is_tag, tags)):
            check_scheme(sentence, column, self._layout.scheme, self._layout.path)
        self.invalid += 1
        self._first_invalid = self._first_invalid or sentence.line + index
        return decode_lenient(tags)

    def _tree(self, sentences: list[Sentence]) -> _Block | None:
        """Return heads (relative) and deps of a doc, or None where a sentence has no tree."""
        heads: list[int] = []
        deps: list[int] = []
        for sentence in sentences:
            tree = _relative_heads(sentence.columns.get("head", [""]))
            if tree is None or "" in sentence.columns["dep"]:
                return None
            heads += tree
            deps += [self._strings[dep] for dep in sentence.columns["dep"]]
        return _Block((HEAD, DEP), [heads, deps])


def _example(entry: _Entry) -> Example:
    """Return an example with a fresh predicted doc."""
    return Example(_doc(entry.reference.vocab, entry.predicted), entry.reference)


def _doc(vocab: Vocab, parts: _Parts) -> Doc:
    """Return a doc of its parts."""
    words: Any = parts.orths  # spaCy's stub knows no keys, which are almost twice as fast as strings
    doc = Doc(vocab, words=words, spaces=parts.spaces)
    if parts.values is not None:
        values: Any = parts.values
        doc.from_array([*parts.attributes], values)
    if parts.chunks is not None:
        doc.spans[parts.chunks_key] = [DocSpan(doc, *chunk) for chunk in parts.chunks]
    return doc


def _stack(blocks: dict[str, _Block]) -> tuple[list[int], NDArray[np.uint64] | None]:
    """Return the ids of all A attributes and their values uint64 [T, A], None where there are no attributes."""
    attributes = [attribute for block in blocks.values() for attribute in block.attributes]
    if not attributes:
        return [], None
    columns = [_unsigned(values) for block in blocks.values() for values in block.values]
    return attributes, np.stack(columns, axis=1)


def _unsigned(values: list[int]) -> NDArray[np.uint64]:
    """Return values as uint64; negative ones, relative heads and sentence starts, in two's complement."""
    if min(values) < 0:
        return np.array(values, dtype=np.int64).view(np.uint64)
    return np.array(values, dtype=np.uint64)


def _sentence_starts(sentences: list[Sentence]) -> _Block:
    """Return sent_start of the tokens of a doc: 1 at a start and -1 elsewhere."""
    return _Block((SENT_START,), [[1 if i == 0 else -1 for s in sentences for i in range(len(s.words))]])


def _joined_spaces(sentences: list[Sentence]) -> list[bool] | None:
    """Return the spaces of a doc, or None where the format does not tell."""
    spaces: list[bool] = []
    for sentence in sentences:
        if sentence.spaces is None:
            return None
        spaces += sentence.spaces
    return spaces


def _relative_heads(column: list[str]) -> list[int] | None:
    """Return each head relative to its token, or None where the ids make no tree with one root."""
    size = len(column)
    if not all(value.isdecimal() and int(value) <= size for value in column) or column.count("0") != 1:
        return None
    heads = [int(value) - 1 for value in column]
    reaches_root = [head < 0 for head in heads]
    for start in range(size):
        path: list[int] = []
        token = start
        while not reaches_root[token]:
            if len(path) > size:
                return None
            path.append(token)
            token = heads[token]
        for passed in path:
            reaches_root[passed] = True
    return [0 if head < 0 else head - i for i, head in enumerate(heads)]


def _pos_key(value: str) -> int:
    """Return the key of a UPOS tag, 0 of a missing one.  Raises ValueError on another string."""
    if value in ("", "_"):
        return 0
    if value not in UPOS and value != "SPACE":
        raise ValueError(value)
    key: int = IDS[value]
    return key


def _is_tag(tag: str) -> bool:
    """Whether a tag can be read at all, whatever its scheme."""
    try:
        split_tag(tag)
    except DataError:
        return False
    return True


def _layout(
    path: Path | None,
    columns: list[str],
    scheme: str,
    given: list[str],
    unit: str,
    chunks_key: str,
    on_invalid: str,
    limit: int,
) -> Layout:
    """Return the checked settings of a reader."""
    if path is None:
        raise ConfigError(
            "A corpus reader got no path. Give the file on the command line, --paths.train FILE or "
            "--paths.dev FILE, or under [paths] in the config."
        )
    check_setting("unit", unit, _UNITS)
    check_setting("on_invalid", on_invalid, _ON_INVALID)
    for name in given:
        check_setting("given", name, [column for column in columns if column not in ("word", "_")])
    if limit < 0:
        raise ConfigError(f"limit = {limit} must be 0 (all) or a number of docs.")
    return Layout(Path(path), tuple(columns), scheme, tuple(given), unit, chunks_key, on_invalid, limit)


def _check_columns(columns: list[str], scheme: str) -> None:
    """Raise ConfigError on a column without a meaning, no words, or spans without a scheme."""
    for name in columns:
        check_setting("columns", name, _COLUMNS)
    check_columns(columns)
    check_setting("scheme", scheme, READABLE_SCHEMES)
    if scheme == "plain" and not set(_SPANS).isdisjoint(columns):
        raise ConfigError("scheme = 'plain' marks no spans, but columns holds ent or chunk. Give IOB2 or BILUO.")


def check_setting(setting: str, value: Any, known: Sequence[str]) -> None:
    """Raise ConfigError unless a setting has one of the known values."""
    if value not in known:
        raise ConfigError(f"{setting}: {value!r} is not known. {suggest(str(value), known)}")
