"""The tasks: where labels come from in gold Docs, and where predictions go.

`TokenTags` are the labels of `crf_tagger`, `SpanGroups` those of `crf_chunker`, `Entities` those of `crf_ner`.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.attrs import ENT_IOB, ENT_TYPE, IDS
from spacy.parts_of_speech import IDS as POS_IDS
from spacy.tokens import Doc, Span, Token
from spacy.training import Example
from spacy.vocab import Vocab

from ..errors import ConfigError, DataError, suggest
from ..schemes import (
    LETTERS,
    MODEL_SCHEMES,
    SpanArrays,
    TagSpan,
    encode,
    spans_of,
    split_tag,
    tag_table,
    tags_of,
    transition_table,
)
from ..types import Bools, Constraints, Floats, Hashes, Ints, Offsets
from .evidence import DocEvidence, GivenSpan, Partial, SpanLike, Tags, about, crosses_sentences, store_token_scores
from .structs import write_spans, write_tokens

ATTRIBUTES = ("tag", "pos", "morph")
"""Token attributes that `crf_tagger` can predict."""
VOCAB = attrgetter("vocab")
"""Returns the vocab of a Doc; Docs of one batch may have different vocabs."""
_POS_NAMES: dict[int, str] = {int(number): name for name, number in POS_IDS.items()}


class Prediction(NamedTuple):
    """The labels that a component predicts for some Docs.

    name (str): The component; scores are stored under its name if a task has no other place for them.
    labels (Ints): [T] the numbers of the tags.
    offsets (Offsets): [N + 1] starts of the sequences.
    doc_offsets (Offsets): [docs + 1] starts of the Docs.
    state (Hashes): [T, S] the columns of `Annotation.reads`, as they were before the prediction.
    spaces (Bools | None): [T] which tokens are white space; None if none are.
    preset (Mapping[int, DocEvidence]): Decisions of earlier components about Docs, by number.
    keep (Bools | None): [spans] which spans are probable enough; None for all.
    scores (Floats | None): [spans] probabilities to store, of tokens for a tagger; None to store none.
    """

    name: str
    labels: Ints
    offsets: Offsets
    doc_offsets: Offsets
    state: Hashes
    spaces: Bools | None = None
    preset: Mapping[int, DocEvidence] = MappingProxyType({})
    keep: Bools | None = None
    scores: Floats | None = None


class Annotation(ABC):
    """A task; without a scheme, each token has a tag of its own, which is also what users call a label.

    scheme (str | None): How tags make up spans; None if each token has its own label.
    column (str): The column of corpus files that has the answers.
    score_name (str): The score of `nlp.evaluate` that counts, such as "ents_f".
    writes (frozenset[str]): Token attributes that hold the answers.
    reads (tuple[str, ...]): Token attributes that `preset` and `write` need; read with the text, once.
    """

    scheme: str | None = None
    column: str
    score_name: str
    writes: frozenset[str] = frozenset()
    reads: tuple[str, ...] = ()

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Return settings that scorers and configs know, to be kept in ``pipe.cfg``."""

    def check_gold(self, reference: Doc) -> None:
        """Prepare the gold annotation of a Doc for scorers."""
        return

    @abstractmethod
    def gold_tags(self, example: Example, same_words: bool) -> Tags:
        """Return the gold tag of each predicted token: None if missing, a `Partial` if known in part."""

    @abstractmethod
    def gold_content(self, reference: Doc) -> object:
        """Return something hashable that is equal for Docs with equal gold annotation."""

    @abstractmethod
    def write(self, docs: Sequence[Doc], prediction: Prediction, tags: Sequence[str]) -> None:
        """Write predictions to `docs`."""

    def mark_outside(self, doc: Doc) -> None:
        """Mark all tokens of a gold Doc as outside of spans, if tags mark spans."""
        return

    def all_tags(self, labels: Iterable[str]) -> list[str]:
        """Return the tags of a user's list of labels: types or tags."""
        return list(dict.fromkeys(labels))

    def tags_of_types(self, types: Iterable[str]) -> list[str]:
        """Return all tags of types, whatever these are called."""
        return list(dict.fromkeys(types))

    def is_tag(self, label: str) -> bool:
        """Whether a label is a tag, not a type with several tags."""
        return True

    def found_tags(self, tags: Iterable[str]) -> list[str]:
        """Return the tags of a model for the tags found in gold data."""
        return sorted(tags)

    def public_labels(self, tags: Sequence[str]) -> tuple[str, ...]:
        """Return the labels that users see."""
        return tuple(tags)

    def tags_of_span(self, length: int, label: str) -> list[str]:
        """Return the tags of a span's tokens."""
        return [label] * length

    @abstractmethod
    def prepare(self, vocab: Vocab, tags: Sequence[str]) -> None:
        """Add the labels to the vocab."""

    def constraints(self, tags: Sequence[str]) -> Constraints:
        """Return which tags may follow each other."""
        return transition_table(tags, self.scheme or "plain")

    def incorrect_spans(self, example: Example, same_words: bool) -> list[SpanLike]:
        """Return spans of predicted tokens that the gold Doc says are not there."""
        return []

    def preset(
        self, docs: Sequence[Doc], state: Hashes, doc_offsets: Offsets, tags: Sequence[str]
    ) -> dict[int, DocEvidence]:
        """Return the decisions of earlier components about Docs, by number.

        state, doc_offsets: Of all tokens of the Docs.
        """
        return {}

    def spans_in(self, doc: Doc) -> Iterable[Span]:
        """Return the spans of a Doc that this task is about."""
        return []

    def tag_of(self, token: Token) -> str:
        """Return the tag of a token, for tasks whose `scheme` is None."""
        return ""


def add_strings(vocabs: Iterable[Vocab], texts: Sequence[str]) -> Hashes:
    """Add texts to vocabs, so that they survive memory zones, and return their keys."""
    keys = np.zeros(len(texts), np.uint64)
    for vocab in vocabs:
        add: Any = vocab.strings.add  # spaCy's stub does not know of zones
        for number, text in enumerate(texts):
            keys[number] = add(text, allow_transient=False)
    return keys


class TokenTags(Annotation):
    """Tags are the values of ``token.tag``, ``token.pos`` or ``token.morph``."""

    def __init__(self, attr: str, overwrite: bool) -> None:
        if attr not in ATTRIBUTES:
            raise ConfigError(f"crf_tagger: attr {attr!r} is not supported. {suggest(str(attr), ATTRIBUTES)}")
        self.attr, self.column, self.overwrite, self.score_name = attr, attr, overwrite, f"{attr}_acc"
        self.writes = frozenset({attr.upper()})
        self.reads = () if overwrite else (attr.upper(),)
        self._id = IDS[attr.upper()]

    def settings(self) -> dict[str, Any]:
        return {"attr": self.attr, "overwrite": self.overwrite}

    def gold_tags(self, example: Example, same_words: bool) -> Tags:
        reference = example.reference
        values = reference.to_array([self._id]).tolist() if same_words else example.get_aligned(self.attr.upper())
        text_of = (_POS_NAMES if self.attr == "pos" else reference.vocab.strings).__getitem__
        texts = {value: _known(text_of(value)) if value else None for value in set(values)}
        return [texts[value] for value in values]

    def gold_content(self, reference: Doc) -> object:
        return reference.to_array([self._id]).tobytes()

    def prepare(self, vocab: Vocab, tags: Sequence[str]) -> None:
        self._values(vocab, tags)

    def _values(self, vocab: Vocab, tags: Sequence[str]) -> NDArray[np.uint64]:
        if self.attr == "tag":
            return add_strings([vocab], tags)
        if self.attr == "morph":
            return np.array([vocab.morphology.add(tag) for tag in tags], np.uint64)
        unknown = [tag for tag in tags if tag not in POS_IDS]
        if unknown:
            raise DataError(f"crf_tagger: {unknown[0]!r} is not a universal part of speech: use attr = 'tag'.")
        return np.array([POS_IDS[tag] for tag in tags], np.uint64)

    def write(self, docs: Sequence[Doc], prediction: Prediction, tags: Sequence[str]) -> None:
        keys = np.zeros(len(tags), np.uint64)
        for vocab in set(map(VOCAB, docs)):
            keys = self._values(vocab, tags)
        values, scores, spaces = keys[prediction.labels], prediction.scores, prediction.spaces
        if spaces is not None:
            values[spaces] = self._of_space(docs)
            scores = None if scores is None else np.where(spaces, np.nan, scores)
        if not self.overwrite:
            old = prediction.state[:, 0]
            kept = (old != 0) & (old != values)
            values = np.where(kept, old, values)
            scores = None if scores is None else np.where(kept, np.nan, scores)
        write_tokens(docs, [self.attr.upper()], values[:, None])
        if scores is not None:
            for doc, (begin, end) in zip(docs, pairwise(prediction.doc_offsets.tolist()), strict=True):
                store_token_scores(doc, prediction.name, scores[begin:end])

    def _of_space(self, docs: Sequence[Doc]) -> int:
        """Return spaCy's value for white space: the tag "_SP", the part of speech SPACE, no morphological features."""
        value = POS_IDS["SPACE"]
        for vocab in set(map(VOCAB, docs)) if self.attr != "pos" else ():
            value = add_strings([vocab], ["_SP"])[0] if self.attr == "tag" else vocab.morphology.add("")
        return int(value)

    def tag_of(self, token: Token) -> str:
        return str(getattr(token, "morph" if self.attr == "morph" else f"{self.attr}_"))


def _known(tag: str) -> str | Partial:
    """Return the meaning of a gold tag: "!NN" is any tag but NN, as for spaCy's tagger."""
    return Partial(barred=(tag[1:],)) if tag[:1] == "!" and len(tag) > 1 else tag


class Spans(Annotation):
    """Labelled spans; the group `incorrect_spans_key` of gold Docs contains spans that are known to be wrong."""

    scheme: str

    def __init__(self, scheme: str, incorrect_spans_key: str | None = None) -> None:
        if scheme not in MODEL_SCHEMES:
            raise ConfigError(
                f"scheme must be {', '.join(MODEL_SCHEMES)}, but {scheme!r} was given. {suggest(scheme, MODEL_SCHEMES)}"
            )
        self.scheme, self.incorrect_spans_key = scheme, incorrect_spans_key

    def settings(self) -> dict[str, Any]:
        return {"scheme": self.scheme}

    def all_tags(self, labels: Iterable[str]) -> list[str]:
        """Return given tags with "O" first, or all tags of given types."""
        given = list(dict.fromkeys(labels))
        are_tags = "O" in given and find_unreadable(given, self.scheme) is None
        return self.found_tags(given) if are_tags else self.tags_of_types(given)

    def tags_of_types(self, types: Iterable[str]) -> list[str]:
        return tags_of(dict.fromkeys(types), self.scheme)

    def incorrect_spans(self, example: Example, same_words: bool) -> list[SpanLike]:
        """Return the spans of ``doc.spans[incorrect_spans_key]`` of the gold Doc, in predicted tokens."""
        reference, key = example.reference, self.incorrect_spans_key
        if key is None or key not in reference.spans:
            return []
        spans: Iterable[Span] = reference.spans[key]
        if not same_words:
            spans = example.get_aligned_spans_y2x(list(spans), allow_overlap=True)
        return [SpanLike(span.start, span.end, span.label_) for span in spans]

    def gold_content(self, reference: Doc) -> object:
        return group_content(reference, self.incorrect_spans_key)

    def is_tag(self, label: str) -> bool:
        return find_unreadable([label], self.scheme) is None

    def found_tags(self, tags: Iterable[str]) -> list[str]:
        """Return the tags with "O" first, even if the data did not have it."""
        return ["O", *[tag for tag in tags if tag != "O"]]

    def public_labels(self, tags: Sequence[str]) -> tuple[str, ...]:
        return tuple(sorted({split_tag(tag)[1] for tag in tags if tag != "O"}))

    def tags_of_span(self, length: int, label: str) -> list[str]:
        return encode([TagSpan(0, length, label)], length, self.scheme)

    def prepare(self, vocab: Vocab, tags: Sequence[str]) -> None:
        add_strings([vocab], self.public_labels(tags))

    def predicted(
        self, prediction: Prediction, docs: Sequence[Doc], tags: Sequence[str]
    ) -> tuple[SpanArrays, Hashes, Floats | None]:
        """Return the S spans that are probable enough, their labels [S] as strings of `docs`, and scores to store."""
        table = tag_table(tuple(tags), self.scheme)
        spans, scores = spans_of(prediction.labels, prediction.offsets, table), prediction.scores
        if prediction.keep is not None:
            spans = SpanArrays(*(values[prediction.keep] for values in spans))
            scores = None if scores is None else scores[prediction.keep]
        return spans, add_strings(set(map(VOCAB, docs)), table.types)[spans.type], scores

    def store(self, prediction: Prediction, docs: Sequence[Doc], tags: Sequence[str], key: str) -> None:
        """Write the spans to ``doc.spans[key]``, with their scores if these are to be stored."""
        spans, labels, scores = self.predicted(prediction, docs, tags)
        write_spans(docs, key, prediction.doc_offsets, spans, labels)
        if scores is not None:
            bounds = np.searchsorted(spans.start, prediction.doc_offsets)
            for doc, (first, last) in zip(docs, pairwise(bounds.tolist()), strict=True):
                doc.spans[key].attrs["scores"] = scores[first:last]


def group_content(doc: Doc, key: str | None) -> object:
    """Return something hashable that is equal for Docs with equal spans in a group, None if there is no such group."""
    if key is None or key not in doc.spans:
        return None
    return tuple((span.start, span.end, span.label) for span in doc.spans[key])


def find_unreadable(tags: Sequence[str], scheme: str) -> str | None:
    """Return the first string that is not a tag of the scheme, None if all are."""
    prefixes = LETTERS[scheme][1:]
    return next((tag for tag in tags if tag != "O" and not (tag[:1] in prefixes and tag[1:2] == "-")), None)


class SpanGroups(Spans):
    """The spans of one group of ``doc.spans``."""

    column = "chunk"

    def __init__(self, spans_key: str, scheme: str, incorrect_spans_key: str | None = None) -> None:
        super().__init__(scheme, incorrect_spans_key)
        if spans_key == incorrect_spans_key:
            raise ConfigError(f"crf_chunker: incorrect_spans_key must differ from spans_key, which is {spans_key!r}.")
        self.spans_key, self.score_name = spans_key, f"spans_{spans_key}_f"

    def settings(self) -> dict[str, Any]:
        return {"spans_key": self.spans_key, **super().settings()}

    def gold_tags(self, example: Example, same_words: bool) -> Tags:
        reference = example.reference
        if self.spans_key not in reference.spans:
            return [None] * len(example.predicted)
        gold = list(reference.spans[self.spans_key])
        spans = gold if same_words else example.get_aligned_spans_y2x(gold)
        triples = [(span.start, span.end, span.label_) for span in spans]
        try:
            tags: Tags = list(encode(triples, len(example.predicted), self.scheme))
        except DataError as error:
            text = example.reference.text[:60]
            raise DataError(f"doc.spans[{self.spans_key!r}] of the gold document {text!r}...: {error}") from None
        if len(spans) < len(gold):  # annotation is missing in a span that no predicted tokens can hold
            for span in gold:
                for place in example.alignment.y2x[span.start : span.end]:
                    tags[place] = None if tags[place] == "O" else tags[place]
        return tags

    def gold_content(self, reference: Doc) -> object:
        return group_content(reference, self.spans_key), super().gold_content(reference)

    def write(self, docs: Sequence[Doc], prediction: Prediction, tags: Sequence[str]) -> None:
        self.store(prediction, docs, tags, self.spans_key)

    def mark_outside(self, doc: Doc) -> None:
        doc.spans[self.spans_key] = []

    def spans_in(self, doc: Doc) -> Iterable[Span]:
        spans: Iterable[Span] = doc.spans.get(self.spans_key, [])
        return spans


class Entities(Spans):
    """Entities as in spaCy: earlier entities and blocked tokens are kept."""

    writes = frozenset({"ENT_IOB", "ENT_TYPE"})
    reads = ("ENT_IOB",)
    column, score_name = "ent", "ents_f"
    _warned = False

    def check_gold(self, reference: Doc) -> None:
        """Read tags I- that continue no entity as conlleval does; warn of the first."""
        stray = begin_stray_entities(reference)
        if stray and not self._warned:
            self._warned = True
            warnings.warn(f"{describe_stray(reference, stray[0])} All such tags are read so.", stacklevel=2)

    def gold_tags(self, example: Example, same_words: bool) -> Tags:
        reference = example.reference
        if not same_words:
            try:
                return self._from_biluo(list(example.get_aligned_ner()))
            except ValueError as error:
                text = reference.text.strip()[:60]
                raise DataError(f"The entities of the gold document {text!r} cannot be read: {error}") from None
        strings = reference.vocab.strings
        iobs, labels = reference.to_array([ENT_IOB, ENT_TYPE]).T.tolist()
        behind = [*iobs[1:], 2][: len(iobs)]
        torn = self.scheme != "IOB2" and (0, 1) in zip(iobs, behind, strict=True)
        biluo: Tags = []
        for iob, label, after in zip(iobs, labels, behind, strict=True):
            if iob == 0:
                biluo.append(None)
            elif iob == 2 or not label:
                biluo.append("O")
            elif torn and after == 0:  # it borders on a missing token: it may go on there
                biluo.append(Partial(tuple(f"{prefix}-{strings[label]}" for prefix in ("BU" if iob == 3 else "IL"))))
            else:
                prefix = ("B" if after == 1 else "U") if iob == 3 else ("I" if after == 1 else "L")
                biluo.append(f"{prefix}-{strings[label]}")
        return self._from_biluo(biluo)

    def prepare(self, vocab: Vocab, tags: Sequence[str]) -> None:
        negative = [label for label in self.public_labels(tags) if label.startswith("!")]
        if negative:
            raise DataError(
                f"The entity label {negative[0]!r} begins with '!'. To say that a span is no {negative[0][1:]}, put it "
                "into a group of doc.spans, and name the group in the setting incorrect_spans_key."
            )
        super().prepare(vocab, tags)

    def gold_content(self, reference: Doc) -> object:
        return reference.to_array([ENT_IOB, ENT_TYPE]).tobytes(), super().gold_content(reference)

    def _from_biluo(self, tags: Tags) -> Tags:
        """Return BILUO tags in the scheme; tags without a type, such as "U-", mean that nothing is known."""
        labelled: Tags = [tag if not isinstance(tag, str) or tag == "O" or tag[2:] else None for tag in tags]
        if self.scheme == "BILUO":
            return labelled
        letters = LETTERS[self.scheme] if self.scheme != "IOB2" else "OBIIB"
        table = dict(zip(LETTERS["BILUO"], letters, strict=True))

        def written(tag: str) -> str:
            return table[tag[0]] + tag[1:]

        return [
            written(tag) if isinstance(tag, str) else tag and replace(tag, labels=tuple(map(written, tag.labels or ())))
            for tag in labelled
        ]

    def preset(
        self, docs: Sequence[Doc], state: Hashes, doc_offsets: Offsets, tags: Sequence[str]
    ) -> dict[int, DocEvidence]:
        begins = np.flatnonzero(state[:, 0] == 3)
        if not len(begins):  # the common case
            return {}
        numbers = np.unique(np.searchsorted(doc_offsets, begins, side="right") - 1).tolist()
        return {number: self._preset(docs[number], tags) for number in numbers}

    def _preset(self, doc: Doc, tags: Sequence[str]) -> DocEvidence:
        outside, entities = _blocked(doc), []
        for entity in doc.ents:
            n_words = sum(not token.is_space for token in entity)
            has_tags = n_words > 0 and set(self.tags_of_span(n_words, entity.label_)) <= set(tags)
            if has_tags and not crosses_sentences(doc, entity.start, entity.end):
                entities.append(GivenSpan(entity.start, entity.end, (entity.label_,)))
            else:  # predicted spans must not overlap with it
                outside += range(entity.start, entity.end)
        return DocEvidence(entities, {token: ["O"] for token in outside})

    def write(self, docs: Sequence[Doc], prediction: Prediction, tags: Sequence[str]) -> None:
        spans, labels, scores = self.predicted(prediction, docs, tags)
        table: Any = np.zeros((len(prediction.labels), 2), np.uint64)
        table[:, 0] = 2
        sizes = spans.end - spans.start
        inside = np.repeat(spans.start - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())
        if len(inside):
            table[inside, 0] = 1
            table[spans.start, 0] = 3
            table[inside, 1] = np.repeat(labels, sizes)
        bounds, preset, every = prediction.doc_offsets, prediction.preset, docs
        if preset:
            for number in preset:
                self._add_entities(docs[number], table[bounds[number] : bounds[number + 1]])
            free = np.isin(np.arange(len(docs)), list(preset), invert=True)
            table = table[np.repeat(free, np.diff(bounds))]
            docs = [docs[number] for number in np.flatnonzero(free).tolist()]
        write_tokens(docs, ["ENT_IOB", "ENT_TYPE"], table)
        if scores is not None:
            self.store(prediction, every, tags, prediction.name)

    def mark_outside(self, doc: Doc) -> None:
        doc.set_ents([], default="outside")

    def spans_in(self, doc: Doc) -> Iterable[Span]:
        return doc.ents

    def _add_entities(self, doc: Doc, table: NDArray[np.uint64]) -> None:
        """Add predicted entities to those that are set; the constraints keep them apart."""
        taken = doc.to_array([ENT_TYPE]) != 0
        new = []
        for start in np.flatnonzero(table[:, 0] == 3).tolist():
            end = start + 1
            while end < len(doc) and table[end, 0] == 1:
                end += 1
            if not taken[start:end].any():
                new.append(Span(doc, start, end, int(table[start, 1])))
        blocked = [Span(doc, i, i + 1) for i in _blocked(doc)]
        doc.set_ents([*doc.ents, *new], blocked=blocked, default="outside")


def _blocked(doc: Doc) -> list[int]:
    table = doc.to_array([ENT_IOB, ENT_TYPE])
    return np.flatnonzero((table[:, 0] == 3) & (table[:, 1] == 0)).tolist()


def begin_stray_entities(doc: Doc) -> list[int]:
    """Let tags I- that continue no entity begin one, as conlleval does; return their tokens.

    spaCy makes Docs of such tags and then cannot read their entities (its error E093).  A tag after a missing tag may
    continue an entity that is not annotated, and is kept.
    """
    attributes: Any = [ENT_IOB, ENT_TYPE]
    table: Any = doc.to_array(attributes)
    iob, types = table[:, 0], table[:, 1]
    inside = np.flatnonzero((iob == 1) & (types != 0))
    if not len(inside):
        return []
    # in front of the first token is one outside
    before, same = np.append(2, iob)[inside], np.append(0, types)[inside] == types[inside]
    stray = inside[(before != 0) & ~(((before == 1) | (before == 3)) & same)]
    if len(stray):
        table[stray, 0] = 3
        doc.from_array(attributes, table)
    return [int(token) for token in stray]


def describe_stray(doc: Doc, token: int) -> str:
    """Say in a sentence how one of the tokens that `begin_stray_entities` returns was read."""
    tag = f"I-{doc[token].ent_type_}"
    return (
        f"{about(doc, 'The gold document')}, token {token} ({doc[token].text!r}): {tag} continues no entity; it is "
        "read as the beginning of one, as conlleval does."
    )
