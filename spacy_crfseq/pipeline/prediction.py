"""The path of a prediction: Docs -> columns of hashes -> ids -> scores -> labels.

A component hands out the model as a prediction needs it as one value, `Trained`, which takes some Docs to the
distribution of the labels of their words.  Word hashes and token columns are read by a `DocReader`, which training
uses, too.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import compress, pairwise
from operator import attrgetter
from threading import RLock
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from spacy.attrs import IDS
from spacy.strings import get_string_id, hash_string  # type: ignore[attr-defined]
from spacy.tokens import Doc, Token
from spacy.vocab import Vocab

from ..errors import ConfigError, DataError
from ..features.attributes import LEXEME_FLAGS, LEXEME_HASHES
from ..features.encoder import CacheLimits, Columns, FrozenEncoder, LexemeValues
from ..features.entries import names_in
from ..features.items import TEXT_FUNCTIONS
from ..features.protocol import DocAttributes, LabelAttributes
from ..features.sets import FeatureSet
from ..features.token_sets import TokenSets, make_token_sets
from ..inference.posterior import Posterior
from ..model import LinearChainCRF
from ..types import (
    MISSING,
    Bools,
    Hashes,
    Ints,
    LexemeFunction,
    NetworkPotential,
    Offsets,
    TokenFunction,
)  # fmt: skip
from .evidence import KEY, NO_EVIDENCE, DocEvidence, read_evidence
from .labels import LabelSet
from .settings import Method
from .structs import Texts, read_tokens
from .white_space import Gaps

PORTION_TOKENS = 1 << 15
"""Tokens that `CRFComponent.pipe` processes at a time; Docs should still be in the processor's cache when read."""
ZONE_BYTES = 8_000_000
"""The largest size of each cache of a component inside of ``nlp.memory_zone()``, where users count on little memory."""
T = TypeVar("T")
ALWAYS = ("ORTH", "SENT_START", "IS_SPACE")
"""The token attributes that are read first."""


class DocColumns(NamedTuple):
    """Token columns of the W words of some Docs, the tokens that are no white space.

    text (Columns): Input of the encoder; a sequence is a sentence if sentence starts are set, else a Doc.
    state (Hashes): [W, S] the columns in `Annotation.reads`.
    doc_offsets (Offsets): [docs + 1] starts of the Docs' words.
    gaps (Gaps | None): Where the words are among the tokens; None if all tokens are words.
    """

    text: Columns
    state: Hashes
    doc_offsets: Offsets
    gaps: Gaps | None = None

    def without_space(self, docs: Sequence[Doc]) -> Sequence[Doc]:
        """Return the Docs that were read, without white space."""
        return docs if self.gaps is None else self.gaps

    def of_words(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the values [W, ...] of words, given those of all tokens [T, ...]."""
        return values if self.gaps is None else values[self.gaps.places]

    def only_words(self, values: Iterable[T]) -> Iterable[T]:
        """Return the values [W] of words, given those of all tokens [T]."""
        return values if self.gaps is None else compress(values, (~self.gaps.spaces).tolist())

    def of_tokens(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return values [T, ...] of all tokens, zeros for white space, given those of words [W, ...]."""
        if self.gaps is None:
            return values
        out = np.zeros((len(self.gaps.spaces), *values.shape[1:]), values.dtype)
        out[self.gaps.places] = values
        return out


class Trained(NamedTuple):
    """The model of a component as a prediction needs it, as it was when the prediction began.

    method (Method): Its decoder, threads and rules on occurrences.
    temperature (float): Divides the scores.
    calibration (Mapping): Curves of types of spans, "*" for those without their own, see `reliability.Curve`.
    cover (Mapping): By type, the probability from which on a word is put into a span, see `inference.cover`; with 1,
        none is.
    vocab_in_use (VocabInUse): Where new words are looked up.
    lock (RLock): Held while tables of the encoder and of the weights grow, which threads share.
    """

    reader: DocReader
    method: Method
    crf: LinearChainCRF
    encoder: FrozenEncoder
    temperature: float
    calibration: Mapping[str, Sequence[float]]
    cover: Mapping[str, float]
    vocab_in_use: VocabInUse
    lock: RLock

    @property
    def labels(self) -> LabelSet:
        """The tags, and what they may follow and mean."""
        return self.reader.labels

    def posterior(self, docs: Sequence[Doc], columns: DocColumns, allowed: Bools | None = None) -> Posterior:
        """Return the distribution of the labels of the words of Docs.

        columns (DocColumns): Those of the Docs.
        allowed (Bools | None): [W, L] labels that each word may have; None for all.
        """
        crf, encoder, labels = self.crf, self.encoder, self.labels
        rules = labels.rules(self.method.once, self.method.order)
        with self.lock:
            in_zone = self.vocab_in_use.use(docs).in_memory_zone
            limits = CacheLimits(ZONE_BYTES, ZONE_BYTES - crf.cached_bytes) if in_zone else None
            encoded = encoder.encode(columns.text, limits)
            return crf.posterior(encoded, labels.constraints, allowed, self.temperature, rules)


class VocabInUse:
    """The vocab where words are looked up: that of the Docs read last, which may not be the component's own."""

    def __init__(self, vocab: Vocab) -> None:
        self.vocab = vocab

    def use(self, docs: Sequence[Doc]) -> Any:  # spaCy's stub does not know of zones
        """Look up words in the vocab of the first Doc from now on, and return it; it gets those of other vocabs."""
        if docs:
            self.vocab = docs[0].vocab
        for doc in docs:
            if doc.vocab is not self.vocab:
                for token in doc:
                    self.vocab.strings.add(token.text)
        return self.vocab


def allowed_labels(
    labels: LabelSet,
    docs: Sequence[Doc],
    columns: DocColumns,
    given: Mapping[int, DocEvidence] | None = None,
    preset: bool = True,
) -> tuple[Bools | None, dict[int, DocEvidence]]:
    """Return the labels that words may have [W, L], None for all, and decisions of earlier components, by Doc.

    given (Mapping[int, DocEvidence] | None): Knowledge about single Docs, besides what is noted on them.
    preset (bool): Whether to treat entities and blocked tokens on the Docs as decided; without, the notes about such
        decisions count.
    RAISES DataError: If the knowledge about a Doc contradicts itself.
    """
    annotation, tags = labels.annotation, labels.tags
    state, offsets = columns.state, columns.doc_offsets
    if preset and columns.gaps is not None and annotation.reads:  # white space alone may be an entity, too
        state, offsets = read_tokens(docs, annotation.reads), columns.gaps.doc_offsets
    decided = annotation.preset(docs, state, offsets, tags) if preset else {}
    evidence = dict(decided)
    for number, more in (given or {}).items():
        evidence[number] = evidence.get(number, NO_EVIDENCE).and_(more)
    for number, doc in enumerate(docs):
        if KEY in doc.user_data:
            notes = read_evidence(doc, labels.component, ("user",) if preset else ("user", "preset"))
            evidence[number] = evidence.get(number, NO_EVIDENCE).and_(notes)
    return labels.restricted(docs, columns.doc_offsets, evidence) if evidence else None, decided


def portions(stream: Iterable[Doc], size: int) -> Iterator[list[Doc]]:
    """Split a stream into lists of `size` Docs, or fewer if they have `PORTION_TOKENS` tokens."""
    docs: list[Doc] = []
    n_tokens = 0
    for doc in stream:
        docs.append(doc)
        n_tokens += len(doc)
        if len(docs) >= size or n_tokens >= PORTION_TOKENS:
            yield docs
            docs, n_tokens = [], 0
    if docs:
        yield docs


class DocReader(NamedTuple):
    """How a component turns Docs into columns; it needs no weights, so training reads with it, too.

    labels (LabelSet): The tags, the task, whose token attributes are read, and the name of the component, for messages.
    potentials (Mapping): Added potentials by their names; None instead of a potential whose inputs are zeros now.
    first (Trained | None): The first stage, whose labels attributes read; None if there is none, or without weights.
    held_out (Mapping[int, Ints]): Labels of some Docs, by `doc_key`, in place of those of the first stage.
    strings (dict[int, str] | None): Filled with the texts of values of features, where names are to be kept.
    """

    labels: LabelSet
    features: FeatureSet
    potentials: Mapping[str, Any]
    first: Trained | None = None
    held_out: Mapping[int, Ints] = {}
    strings: dict[int, str] | None = None

    def read(
        self,
        docs: Sequence[Doc],
        columns: Sequence[str],
        given: Mapping[int, DocEvidence] | None = None,
        preset: bool = True,
    ) -> DocColumns:
        """Return the columns of Docs, with the values of all plug-ins; a first stage respects `given` and `preset`."""
        text = read_docs(docs, columns, self.labels.annotation.reads, self.features, self.strings)
        if self.features.doc_attributes:
            texts = Texts(text.without_space(docs))
            text = with_docs(text, texts, self.features, self.strings)
            if self.features.by_labels:
                tags: Sequence[str] = () if self.first is None else self.first.labels.tags
                labels = self._first_labels(docs, text, given, preset)
                text = with_labels(text, texts, self.features, labels, tags, self.strings)
        return self.with_inputs(docs, text) if self.potentials else text

    def with_inputs(self, docs: Sequence[Doc], columns: DocColumns) -> DocColumns:
        """Add the inputs of the added potentials; a network reads white space, too, as spaCy's own do."""
        inputs: list[NDArray[Any]] = []
        for name, potential in self.potentials.items():
            if potential is None:
                inputs.append(np.zeros(len(columns.text.orths), np.int32))
                continue
            everything = isinstance(potential, NetworkPotential)
            texts = docs if everything else [*columns.without_space(docs)]
            read, component = potential.read(texts), self.labels.component
            what = f"{component}: the potential {name!r} ({type(potential).__name__})"
            check_rows(read, sum(map(len, texts)), what)
            inputs.append(columns.of_words(read) if everything else read)
        return columns._replace(text=columns.text._replace(inputs=tuple(inputs)))

    def _first_labels(
        self, docs: Sequence[Doc], columns: DocColumns, given: Mapping[int, DocEvidence] | None, preset: bool
    ) -> Ints:
        """Return the labels [T] of the first stage, or those that are held out, where these are possible."""
        first, n_tokens = self.first, len(columns.text.orths)
        if first is None:
            return np.full(n_tokens, MISSING, np.int32)
        allowed, _ = allowed_labels(first.labels, docs, columns, given, preset)
        held: list[Ints | None] = [None]
        if self.held_out:
            held = [self.held_out.get(doc_key(doc)) for doc in columns.without_space(docs)]
        if any(of_doc is None for of_doc in held):
            posterior, method = first.posterior(docs, first.reader.with_inputs(docs, columns), allowed), first.method
            predicted = posterior.decode(method.decoder, method.n_threads)
            if not self.held_out:
                return predicted
            by_doc = zip(held, np.split(predicted, columns.doc_offsets[1:-1]), strict=True)
            held = [new if of_doc is None else of_doc for of_doc, new in by_doc]
        labels = np.concatenate([np.zeros(0, np.int32), *(of_doc for of_doc in held if of_doc is not None)])
        if allowed is None:
            return labels
        possible = (labels == MISSING) | allowed[np.arange(n_tokens), labels]
        return np.where(possible, labels, allowed.argmax(1).astype(np.int32))


def doc_key(doc: Doc) -> int:
    """Return a hash of the words of a Doc."""
    return hash(doc.to_array(["ORTH"]).tobytes())


def check_rows(values: NDArray[Any], n_tokens: int, what: str) -> None:
    """RAISES ConfigError: If a plug-in, described by `what`, has not read a row for each token."""
    if len(values) != n_tokens:
        raise ConfigError(
            f"{what} read {len(values)} rows for {n_tokens} tokens; its function read(docs) must return one row a "
            "token."
        )


def read_docs(
    docs: Sequence[Doc],
    columns: Sequence[str],
    state: Sequence[str] = (),
    features: FeatureSet | None = None,
    strings: dict[int, str] | None = None,
) -> DocColumns:
    """Return the columns of `docs` without white space, read once.

    columns, state (Sequence[str]): Token attributes that templates use, and those that the task uses.
    features (FeatureSet | None): Its token functions are applied.
    strings (dict | None): Filled with the text behind each hash, where names of attributes are to be kept.
    RAISES DataError: If a token function returns something other than names.
    """
    doc_offsets = np.zeros(len(docs) + 1, np.int64)
    np.cumsum(list(map(len, docs)), out=doc_offsets[1:])
    names = (*ALWAYS, *state, *columns)
    table = read_tokens(docs, names)
    gaps = None
    if table[:, 2].any():
        gaps = Gaps(docs, table[:, 2] != 0)
        table, doc_offsets, docs = gaps.columns(table, names), gaps.word_offsets, gaps
    starts = table[:, 1] == 1
    starts[doc_offsets[:-1][np.diff(doc_offsets) > 0]] = True
    offsets = np.append(np.flatnonzero(starts), len(table)).astype(np.int64)
    first = len(ALWAYS) + len(state)
    text = Columns(np.ascontiguousarray(table[:, 0]), np.ascontiguousarray(table[:, first:]), offsets)
    if features is not None and features.token_functions:
        tokens = [token for doc in docs for token in doc]
        sets = {
            block: _token_sets(block, function, tokens, offsets, strings, features.numbers)
            for block, function in features.token_functions.items()
        }
        text = text._replace(sets=sets)
    return DocColumns(text, table[:, len(ALWAYS) : first], doc_offsets, gaps)


def with_docs(
    columns: DocColumns, docs: Sequence[Doc], features: FeatureSet, strings: dict[int, str] | None = None
) -> DocColumns:
    """Add the attributes that plug-ins read from Docs alone to their columns.

    RAISES ConfigError: If a plug-in does not return values for every token.
    """
    sets = dict(columns.text.sets)
    for block, plugin in features.by_docs.items():
        sets.update(_checked(block, plugin, plugin.read(block, docs, strings), len(columns.text.orths)))
    return columns._replace(text=columns.text._replace(sets=sets))


def with_labels(
    columns: DocColumns,
    docs: Sequence[Doc],
    features: FeatureSet,
    labels: Ints,
    names: Sequence[str],
    strings: dict[int, str] | None = None,
) -> DocColumns:
    """Add the attributes that depend on the labels of a first stage [T], numbers of `names`, to columns of Docs."""
    sets = dict(columns.text.sets)
    for block, plugin in features.by_labels.items():
        sets.update(_checked(block, plugin, plugin.read_labels(block, docs, labels, names, strings), len(labels)))
    return columns._replace(text=columns.text._replace(sets=sets))


def _checked(
    block: str, plugin: DocAttributes | LabelAttributes, sets: Mapping[str, TokenSets], n_tokens: int
) -> Mapping[str, TokenSets]:
    if sets.keys() != set(plugin.names(block)) or any(len(sets_of.keys) != n_tokens for sets_of in sets.values()):
        sizes = {name: len(sets_of.keys) for name, sets_of in sets.items()}
        raise ConfigError(
            f"The attributes {block.lower()!r} ({type(plugin).__name__}) have values for {sizes} tokens of "
            f"{n_tokens}; read must return a set for each token under each of {list(plugin.names(block))}."
        )
    return sets


def _token_sets(
    name: str, function: TokenFunction, tokens: list[Token], offsets: Offsets, strings: dict[int, str] | None,
    numbers: bool,
) -> TokenSets:  # fmt: skip
    sizes: list[int] = []
    values = array("Q")
    repeats = getattr(function, "repeats", False)  # a name that is returned twice counts twice
    for first, last in pairwise(offsets.tolist()):
        sequence = tokens[first:last]
        for i in range(last - first):
            try:
                names = names_in(function(sequence, i), {} if numbers else None)
            except DataError as error:
                raise DataError(f"Token function {name!r} at the token {sequence[i].text!r}: {error}") from None
            hashes = {_HASHES[name]: name for name in names}
            if strings is not None:
                strings.update(hashes)
            members = [_HASHES[name] for name in names] if repeats else hashes
            sizes.append(len(members))
            values.extend(members)
    if len(_HASHES) > MAX_HASHES:
        _HASHES.clear()
    return make_token_sets(sizes, values)


def lexeme_reader(
    vocab_in_use: VocabInUse,
    names: Sequence[str],
    functions: Mapping[str, LexemeFunction],
    strings: dict[int, str] | None = None,
) -> LexemeValues:
    """Return a function from hashes of words [W] to the values [W, A] of the attributes `names`, 0 for none.

    vocab_in_use (VocabInUse): Where the words are looked up.
    strings (dict | None): As in `read_docs`.
    """

    def values_of(orths: Sequence[int]) -> Hashes:
        vocab: Any = vocab_in_use.vocab
        size = len(orths)
        texts, table = list(map(vocab.strings.__getitem__, orths)), np.zeros((size, len(names)), np.uint64)
        met = np.fromiter((orth in vocab or not orth for orth in orths), np.bool_, size)
        lexemes, new = [vocab[orth] for orth in compress(orths, met)], [*compress(texts, ~met)]
        for i, name in enumerate(names):
            if name in LEXEME_HASHES or name in LEXEME_FLAGS:
                table[met, i] = np.fromiter(map(attrgetter(name.lower()), lexemes), np.uint64, len(lexemes))
                table[~met, i] = _lexical_values(vocab, name, new)
                continue
            values = list(map(functions[name] if name in functions else TEXT_FUNCTIONS[name], texts))
            # once for each value, because words share affixes and shapes
            keys: dict[Any, int] = {value: int(get_string_id(value)) if value else 0 for value in set(values)}
            table[:, i] = np.fromiter(map(keys.__getitem__, values), np.uint64, len(orths))
            if strings is not None:
                strings.update(zip(keys.values(), keys, strict=True))
                strings.pop(0, None)
        return table

    return values_of


def _lexical_values(vocab: Any, name: str, texts: list[str]) -> Hashes:
    """Return the values [W] of one of spaCy's attributes that words would have as lexemes.

    spaCy computes all attributes of a lexeme, about twenty, which takes longer than all else that is done with a word.
    """
    values: list[Any]
    if name == "ORTH":
        values = texts
    elif name == "IS_OOV":
        values = [vocab[text].is_oov for text in texts]
    else:
        compute = vocab.lex_attr_getters.get(IDS[name])
        values = list(map(compute, texts)) if compute else [0] * len(texts)
    keys = {value: vocab.strings.add(value) if isinstance(value, str) else int(value or 0) for value in set(values)}
    return np.fromiter(map(keys.__getitem__, values), np.uint64, len(texts))


class _Hashes(dict[str, int]):
    """Hashes of names; "IS_TITLE" and the like do not get the small numbers that spaCy reserves for them."""

    def __missing__(self, name: str) -> int:
        self[name] = key = int(hash_string(name))
        return key


_HASHES = _Hashes()
MAX_HASHES = 1 << 18
"""Names whose hashes are cached."""
