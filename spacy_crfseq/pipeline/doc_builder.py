"""Sentences of a corpus as the Docs of spaCy's examples, or as arrays where no Doc is needed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from spacy.attrs import DEP, ENT_IOB, ENT_TYPE, HEAD, LEMMA, MORPH, POS, SENT_START, TAG
from spacy.parts_of_speech import IDS
from spacy.tokens import Doc, Span
from spacy.vocab import Vocab

from ..corpora import UPOS, Preset, Sentence, check_scheme
from ..corpora.columns import MISSING_ENTITY
from ..corpora.groups import group_of
from ..corpora.spans import INCORRECT
from ..errors import ConfigError, FormatError, suggest
from ..registry import check_types
from ..schemes import OUTSIDE, TagSpan, decode_lenient, find_invalid, is_tag, recoded
from .multiword import MULTIWORD_KEY, multiword_tokens

ATTRIBUTES = {"tag": TAG, "pos": POS, "lemma": LEMMA, "morph": MORPH}
if TYPE_CHECKING:
    from ..features.encoder import Columns
    from .evidence import GivenSpan
    from .tasks import Annotation

SPANS = ("ent", "chunk")
_UNITS = ("sentence", "passage", "document")
_ON_INVALID = ("error", "conlleval")
_HINTS = {
    "pos": f"give one of {', '.join(sorted(UPOS))}, or call the column 'tag'.",
    "morph": "write features as Case=Nom|Number=Sing, or '_' for none.",
}
# Token.ent_iob of spaCy.
_ENT_MISSING, _ENT_INSIDE, _ENT_OUTSIDE, _ENT_BEGIN = range(4)
_Block: TypeAlias = dict[int, list[int]]
"""Token attributes by their ids, [T] values of each."""
Starts: TypeAlias = list[bool] | None
"""Which sentences of a doc have a sentence start; None if no starts are set."""
Gold: TypeAlias = tuple[Doc, Callable[[], Doc]]
"""A reference doc, and a function that makes a new predicted doc for it."""


@dataclass(frozen=True)
class CorpusSettings:
    """How a corpus file becomes docs; see `readers.create_conll_reader`.  RAISES ConfigError: If it cannot."""

    path: Path
    layout: Preset
    given: tuple[str, ...] = ()
    unit: str = "sentence"
    chunks_key: str = "chunks"
    on_invalid: str = "error"
    limit: int = 0
    weight: float = 1.0
    joined: float = 0.0
    twice: bool = False
    apart: float = 0.0
    group: str = ""

    def __post_init__(self) -> None:
        check_types("corpus reader", self.__annotations__, vars(self))
        check_setting("unit", self.unit, _UNITS)
        check_setting("on_invalid", self.on_invalid, _ON_INVALID)
        for name in self.given:
            check_setting("given", name, [c for c in self.layout.columns if c in (*ATTRIBUTES, *SPANS)])
        if self.limit < 0:
            raise ConfigError(f"limit = {self.limit} must be 0 (all) or a number of docs.")
        if not 0 <= self.weight < math.inf:
            raise ConfigError(f"weight = {self.weight} must be a number of at least 0.")
        if not 0 <= self.joined <= 1:
            raise ConfigError(f"joined = {self.joined} must be a share of the sentences, from 0 to 1.")
        if not 0 <= self.apart <= 1:
            raise ConfigError(f"apart = {self.apart} must be a share of the docs, from 0 to 1.")


class LabelledText(NamedTuple):
    """Some sentences as the text, the gold tags [T] and the weights [N] that docs of them would have.

    spaced (bool): Whether it is known of a sentence where its spaces are.
    """

    text: Columns
    tags: list[str | None]
    weights: NDArray[np.float64]
    spaced: bool


def join(parts: Sequence[LabelledText]) -> LabelledText:
    """Return the sentences of at least one text as one."""
    lengths = np.concatenate([np.diff(part.text.offsets) for part in parts])
    text = parts[0].text._replace(
        orths=np.concatenate([part.text.orths for part in parts]),
        context=np.concatenate([part.text.context for part in parts]),
        offsets=np.append(0, np.cumsum(lengths)),
    )
    tags = [*chain.from_iterable(part.tags for part in parts)]
    return LabelledText(text, tags, np.concatenate([part.weights for part in parts]), any(p.spaced for p in parts))


class _Keys(dict[str, int]):
    """A cache of the keys that a function returns for strings: `StringStore.add` is slow."""

    def __init__(self, add: Callable[[str], int]) -> None:
        super().__init__()
        self._add = add

    def __missing__(self, text: str) -> int:
        key = self[text] = self._add(text)
        return key


class DocBuilder:
    """Turns sentences into docs that share a vocab, or into arrays.

    invalid: The number of sentences whose tags break the scheme; and the line of the first one.
    """

    def __init__(self, vocab: Vocab, settings: CorpusSettings) -> None:
        self._vocab, self._settings, self._columns = vocab, settings, settings.layout.columns
        self._strings = strings = _Keys(vocab.strings.add)
        self._words, self._spaces = _Keys(self._word_key), set[int]()
        self._keys = {"tag": strings, "lemma": strings, "pos": _Keys(_pos_key), "morph": _Keys(vocab.morphology.add)}
        self.invalid = self.first_invalid = 0
        self._draw = Random(1).random

    @property
    def path(self) -> Path:
        """The file that it reads."""
        return Path(self._settings.path)

    def gold(self, sentences: list[Sentence], forms: Iterable[Starts]) -> Iterator[Gold]:
        """Yield a gold doc for each form of a doc made of these sentences."""
        settings = self._settings
        # keys are almost twice as fast as strings, and the garbage collector does not track tuples of numbers
        orths = tuple(self._words[word] for sentence in sentences for word in sentence.words)
        blocks = {c: self._block(c, sentences) for c in self._columns if c in ATTRIBUTES or c == "ent"}
        given = [block for name, block in blocks.items() if name in settings.given]
        tree = self._tree(sentences)
        gold = [*blocks.values(), *([] if tree is None else [tree])]
        groups = {settings.chunks_key: self._group(sentences, "chunk")} if "chunk" in self._columns else {}
        spaced = [sentence.spaces for sentence in sentences if sentence.spaces is not None]
        spaces = [*chain.from_iterable(spaced)] if len(spaced) == len(sentences) else None
        noted = [names for sentence in sentences for names in sentence.attributes or ()]
        make = partial(_doc, self._vocab, orths, spaces, noted)
        given_groups = groups if "chunk" in settings.given else {}
        if any(INCORRECT in sentence.columns for sentence in sentences):
            groups = {**groups, INCORRECT: self._group(sentences, INCORRECT)}
        weight = settings.weight * self._weight(sentences)
        for begins in forms:
            starts = [] if begins is None else [_sentence_starts(sentences, begins)]
            # a tree sets sentence starts of its own
            reference = make(groups, *_stack([*gold, *(starts if tree is None else [])]))
            if multiword := multiword_tokens(sentences):
                reference.user_data[MULTIWORD_KEY] = multiword
            if any(sentence.alternatives for sentence in sentences):
                from .evidence import ENTITIES, DocEvidence, write_evidence

                write_evidence(reference, ENTITIES, DocEvidence(_alternatives(sentences), {}))
            if settings.group:
                from .evidence import GROUP_KEY

                reference.user_data[GROUP_KEY] = group_of(sentences[0], settings.group, settings.path)
            if weight != 1:
                from .evidence import WEIGHT_KEY

                reference.user_data[WEIGHT_KEY] = weight
            yield reference, partial(make, given_groups, *_stack([*given, *starts]), self._draw() < settings.apart)

    def check(self, sentence: Sentence) -> None:
        """RAISES FormatError: On a value in a column of tokens, or a weight, that cannot be read."""
        for name in self._columns:
            if name in ATTRIBUTES:
                self._column(name, sentence)
        self._weight([sentence])

    def suits(self, inputs: Sequence[str], annotation: Annotation) -> bool:
        """Whether `labelled` can make arrays of sentences, each a doc.

        inputs (Sequence[str]): Token attributes of the predicted docs, such as "tag".
        annotation (Annotation): The task whose tags are wanted.
        """
        settings, name = self._settings, annotation.column
        of_docs = settings.unit != "sentence" or settings.joined or settings.twice
        same_key = getattr(annotation, "spans_key", settings.chunks_key) == settings.chunks_key
        learns_wrong = getattr(annotation, "incorrect_spans_key", None) is not None
        # docs have the features of a morph in another order; given answers restrict predictions
        held = name in self._columns and name not in {"morph", *settings.given}
        held = held and {*inputs} <= {*settings.given} & {*ATTRIBUTES}
        return held and same_key and not of_docs and not learns_wrong

    def labelled(self, sentences: list[Sentence], inputs: Sequence[str], annotation: Annotation) -> LabelledText | None:
        """Return sentences as arrays, for arguments that `suits` has approved of; None where docs are needed.

        These are needed for tags that are missing or negated, for inputs that no sentence has, but gold docs may, and
        for words that are white space.
        """
        name = annotation.column
        tags = {tag for c in {name, "ent"} for sentence in sentences for tag in sentence.columns.get(c, ())}
        unclear = any(tag == MISSING_ENTITY or tag[:1] == "!" for tag in tags)
        if unclear or any(INCORRECT in sentence.columns for sentence in sentences):
            return None
        keys = {c: [k for s in sentences for k in self._column(c, s)] for c in self._columns if c in ATTRIBUTES}
        if not all(any(keys[column]) for column in inputs):
            return None
        for column in self._columns:
            for sentence in sentences if column in SPANS else ():
                self._check_tags(sentence, column)
        read = [sentence.columns[name] for sentence in sentences]
        gold: list[str | None] = [*chain.from_iterable(read)]
        if annotation.scheme is None:
            gold = [tag if key else None for tag, key in zip(gold, keys[name], strict=True)]
        else:
            gold = [*chain.from_iterable(recoded(tags, annotation.scheme) for tags in read)]
        orths = np.array([self._words[word] for sentence in sentences for word in sentence.words], np.uint64)
        if self._spaces and np.isin(orths, [*self._spaces]).any():
            return None
        context = np.array([keys[column] for column in inputs], np.uint64).reshape(len(inputs), len(orths)).T
        offsets = np.cumsum([0, *(len(sentence.words) for sentence in sentences)])
        weights = np.array([self._settings.weight * self._weight([sentence]) for sentence in sentences])
        from ..features.encoder import Columns

        spaced = any(sentence.spaces is not None for sentence in sentences)
        return LabelledText(Columns(orths, np.ascontiguousarray(context), offsets, {}), gold, weights, spaced)

    def _word_key(self, word: str) -> int:
        key = self._strings[word]
        if word.isspace():
            self._spaces.add(key)
        return key

    def _weight(self, sentences: list[Sentence]) -> float:
        first = None
        for sentence in sentences:
            for i, value in enumerate(sentence.columns.get("weight", [])):
                weight = _number(value)
                if i and value == "_":
                    continue
                first = weight if first is None else first
                message = f"{value!r} in column 'weight' is not a weight. Give a number of at least 0."
                if weight is not None:
                    message = (
                        f"the weight {value} differs from the {first:g} before it. Give a sentence (or document) one "
                        "weight: on its first token, with '_' on the others, or the same on all."
                    )
                if weight is None or weight != first:
                    raise FormatError(self._settings.path, sentence.line_of(i), message)
        return 1.0 if first is None else first

    def _block(self, name: str, sentences: list[Sentence]) -> _Block:
        if name == "ent":
            rows = [self._entities(sentence) for sentence in sentences]
            iob, types = [i for row, _ in rows for i in row], [key for _, row in rows for key in row]
            return {ENT_IOB: iob, ENT_TYPE: types}
        return {ATTRIBUTES[name]: [key for s in sentences for key in self._column(name, s)]}

    def _column(self, name: str, sentence: Sentence) -> list[int]:
        keys = self._keys[name]
        values = sentence.columns[name]
        try:
            return [keys[value] for value in values]
        except ValueError as error:
            index = next(i for i, value in enumerate(values) if value not in keys)
            message = f"{values[index]!r} in column {name!r} cannot be read: {_HINTS[name]}"
            raise FormatError(self._settings.path, sentence.line_of(index), message) from error

    def _entities(self, sentence: Sentence) -> tuple[list[int], list[int]]:
        tags = sentence.columns["ent"]
        iob = [_ENT_MISSING if tag == MISSING_ENTITY else _ENT_OUTSIDE for tag in tags]
        types = [0] * len(tags)
        if MISSING_ENTITY in tags:
            whole = [OUTSIDE if tag == MISSING_ENTITY else tag for tag in tags]
            sentence = sentence._replace(columns={**sentence.columns, "ent": whole})
        for start, end, label in self._spans(sentence, "ent"):
            iob[start:end] = [_ENT_BEGIN] + [_ENT_INSIDE] * (end - start - 1)
            types[start:end] = [self._strings[label]] * (end - start)
        return iob, types

    def _group(self, sentences: list[Sentence], column: str) -> list[TagSpan]:
        spans, base = [], 0
        for sentence in sentences:
            spans_of_sentence = self._spans(sentence, column) if column in sentence.columns else []
            spans += [TagSpan(base + s, base + e, label) for s, e, label in spans_of_sentence]
            base += len(sentence.words)
        return spans

    def _spans(self, sentence: Sentence, column: str) -> list[TagSpan]:
        self._check_tags(sentence, column)
        return decode_lenient(sentence.columns[column])

    def _check_tags(self, sentence: Sentence, column: str) -> None:
        """Count a sentence whose tags of spans break the scheme.  RAISES FormatError: If they may not."""
        tags = sentence.columns[column]
        index = find_invalid(tags, self._settings.layout.scheme)
        if index is None:
            return
        if self._settings.on_invalid == "error" or not all(map(is_tag, tags)):
            check_scheme(sentence, column, self._settings.layout.scheme, self._settings.path)
        self.invalid += 1
        self.first_invalid = self.first_invalid or sentence.line_of(index)

    def _tree(self, sentences: list[Sentence]) -> _Block | None:
        heads: list[int] = []
        deps: list[int] = []
        for sentence in sentences:
            tree = _relative_heads(sentence.columns.get("head", [""]))
            if tree is None or "" in sentence.columns["dep"]:
                return None
            heads += tree
            deps += [self._strings[dep] for dep in sentence.columns["dep"]]
        return {HEAD: heads, DEP: deps}


def _alternatives(sentences: Iterable[Sentence]) -> list[GivenSpan]:
    """Return the spans with several labels of the sentences of a Doc."""
    from .evidence import GivenSpan

    spans, base = list[GivenSpan](), 0
    for sentence in sentences:
        spans += [GivenSpan(base + start, base + end, labels) for start, end, labels in sentence.alternatives]
        base += len(sentence.words)
    return spans


def _sentence_starts(sentences: Sequence[Sentence], begins: Sequence[bool]) -> _Block:
    marks = ([1 if begin else -1] + [-1] * (len(s.words) - 1) for s, begin in zip(sentences, begins, strict=True))
    return {SENT_START: [mark for of_sentence in marks for mark in of_sentence]}


def _doc(
    vocab: Vocab,
    orths: Any,
    spaces: list[bool] | None,
    noted: list[Any],
    groups: dict[str, list[TagSpan]],
    attributes: list[int],
    values: Any,
    apart: bool = False,
) -> Doc:
    """Return a doc of [T] words, attributes [A] with values uint64 [T, A], and groups of spans by their keys.

    apart (bool): Whether attributes of documents read its sentences apart.
    """
    doc = Doc(vocab, words=orths, spaces=spaces)
    if attributes:
        doc.from_array([*attributes], values)
    if noted:
        from ..features.noted import KEY

        doc.user_data[KEY] = noted
    if apart:
        from ..features.documents import APART

        doc.user_data[APART] = True
    for key, spans in groups.items():
        doc.spans[key] = [Span(doc, *span) for span in spans]
    return doc


def _stack(blocks: Iterable[_Block]) -> tuple[list[int], NDArray[np.uint64] | None]:
    """Return the ids of all A attributes and their values, uint64 [T, A], or None if there are no attributes."""
    columns = {attribute: values for block in blocks for attribute, values in block.items()}
    # relative heads and sentence starts may be negative, and are stored in two's complement
    arrays = [np.array(v, np.int64 if min(v) < 0 else np.uint64).view(np.uint64) for v in columns.values()]
    return list(columns), np.stack(arrays, axis=1) if arrays else None


def _relative_heads(column: list[str]) -> list[int] | None:
    """Return each head relative to its token, or None if the ids do not form a tree with one root."""
    size = len(column)
    if not all(value.isdecimal() and int(value) <= size for value in column) or column.count("0") != 1:
        return None
    heads = [int(value) - 1 for value in column]
    rooted, n_rooted = {-1}, 0  # tokens whose path of heads ends at the root
    while len(rooted) > n_rooted:
        n_rooted = len(rooted)
        rooted.update(i for i, head in enumerate(heads) if head in rooted)
    return None if n_rooted <= size else [0 if head < 0 else head - i for i, head in enumerate(heads)]


def _number(value: str) -> float | None:
    try:
        number = float(value)
    except ValueError:
        return None
    return number if 0 <= number < math.inf else None


def _pos_key(value: str) -> int:
    """Return the key of a UPOS tag, 0 for a missing one.  Raises ValueError for any other string."""
    if value in ("", "_"):
        return 0
    if value not in UPOS and value != "SPACE":
        raise ValueError(value)
    key: int = IDS[value]
    return key


def check_setting(setting: str, value: Any, values: Sequence[str]) -> None:
    """RAISES ConfigError: Unless the value of a setting is one of these."""
    if value not in values:
        raise ConfigError(f"{setting}: {value!r} is not known. {suggest(str(value), values)}")


def bare(doc: Doc, columns: Sequence[str] = ()) -> Doc:
    """Return the tokens and sentences of a Doc, its noted attributes, and the columns asked for, such as "tag"."""
    from ..features.noted import KEY

    starts: Any = [token.is_sent_start for token in doc] if doc.has_annotation("SENT_START") else None
    words, spaces = [token.text for token in doc], [bool(token.whitespace_) for token in doc]
    result = Doc(doc.vocab, words=words, spaces=spaces, sent_starts=starts)
    if columns:
        names: Any = [column.upper() for column in columns]
        values: Any = doc.to_array(names).reshape(len(doc), len(names))
        result.from_array(names, values)
    if KEY in doc.user_data:
        result.user_data[KEY] = doc.user_data[KEY]
    return result
