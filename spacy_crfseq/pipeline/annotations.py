"""Annotation adapters: where a task's labels come from in a gold Doc, and where predictions go.

The component is the same for all tasks; an adapter turns an `Example` into one tag a token (None where the gold
annotation is missing) and writes predicted tags to Docs.  Tags of span tasks follow a scheme, so that only valid
sequences can be predicted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from spacy.attrs import ENT_IOB, ENT_TYPE, IDS
from spacy.parts_of_speech import IDS as POS_IDS
from spacy.tokens import Doc, Span, Token
from spacy.training import Example
from spacy.vocab import Vocab

from ..errors import ConfigError, DataError, suggest
from ..schemes import Span as TagSpan
from ..schemes import SpanArrays, TagTable, encode, spans_of, split_tag, tags_of, transition_table
from ..types import Bools, Constraints, Floats, Hashes, Ints, Offsets
from .confidence import store_token_scores
from .given import Given, SpanLike, crosses_sentences
from .partial import Partial

Tags = list["str | Partial | None"]


class Prediction(NamedTuple):
    """Predicted labels of some Docs.

    labels (Ints): [T] label numbers.
    offsets (Offsets): [N + 1] sequences.
    doc_offsets (Offsets): [docs + 1] Docs.
    state (Hashes): [T, S] what `Annotation.reads` names, as it was before the prediction.
    keep (Bools | None): [spans] which spans are sure enough; None for all.
    scores (Floats | None): [spans] probabilities to store, of a tagger those of the tokens; None for none.
    name (str): The component, under whose name scores are stored where a task has no place of its own for them.
    """

    labels: Ints
    offsets: Offsets
    doc_offsets: Offsets
    state: Hashes
    keep: Bools | None = None
    scores: Floats | None = None
    name: str = ""


class Annotation(Protocol):
    """What a task adds to the component.

    writes (frozenset[str]): Token attributes that hold the answers.
    reads (tuple[str, ...]): Token attributes that `allowed` and `write` look at; read with the text, once.
    scheme (str | None): How tags make up spans; None where each token has a label of its own.
    score_name (str): The score of `nlp.evaluate` that counts, such as "ents_f".
    """

    @property
    def writes(self) -> frozenset[str]: ...
    @property
    def reads(self) -> tuple[str, ...]: ...
    @property
    def scheme(self) -> str | None: ...
    @property
    def score_name(self) -> str: ...

    def settings(self) -> dict[str, Any]:
        """Return settings that scorers and configs know, to be kept in ``pipe.cfg``."""
        ...

    def gold_tags(self, example: Example, same_words: bool) -> Tags:
        """Return the gold tag of each predicted token, None where missing, what is known of it where that is less."""
        ...

    def incorrect_spans(self, example: Example, same_words: bool) -> list[SpanLike]:
        """Return spans of predicted tokens that the gold Doc says are not there."""
        ...

    def gold_content(self, reference: Doc) -> object:
        """Return something hashable that is equal for Docs with equal gold annotation."""
        ...

    def all_tags(self, labels: Iterable[str]) -> list[str]:
        """Return the tags that stand for labels given by a user: types or tags."""
        ...

    def is_tag(self, label: str) -> bool:
        """Whether a label is a tag, and not a type that stands for several."""
        ...

    def found_tags(self, tags: Iterable[str]) -> list[str]:
        """Return the tags of a model for the tags found in gold data."""
        ...

    def public_labels(self, tags: Sequence[str]) -> tuple[str, ...]:
        """Return the labels a user sees."""
        ...

    def constraints(self, tags: Sequence[str]) -> Constraints:
        """Return which tags may follow each other."""
        ...

    def tags_of_span(self, length: int, label: str) -> list[str]:
        """Return the tags of a span's tokens."""
        ...

    def allowed(self, state: Hashes, tags: Sequence[str]) -> Bools | None:
        """Return [T, L] which tags tokens may have by what they are, None where all may have all.

        state (Hashes): [T, S] values of what `reads` names.
        """
        ...

    def preset(self, docs: Sequence[Doc], state: Hashes, doc_offsets: Offsets, tags: Sequence[str]) -> dict[int, Given]:
        """Return what earlier components have decided about Docs, by their numbers."""
        ...

    def prepare(self, vocab: Vocab, tags: Sequence[str]) -> None:
        """Make the labels known to the vocab."""
        ...

    def write(self, docs: Sequence[Doc], prediction: Prediction, tags: Sequence[str]) -> None:
        """Write predictions to `docs`."""
        ...

    def spans_in(self, doc: Doc) -> Iterable[Span]:
        """Return the spans of a Doc that this task is about."""
        ...

    def tag_of(self, token: Token) -> str:
        """Return the tag that a token has, of tasks whose `scheme` is None."""
        ...


ATTRIBUTES = ("tag", "pos", "morph")


class TokenTags:
    """One value of a token attribute a token, for `crf_tagger`."""

    scheme = None

    def __init__(self, attr: str, overwrite: bool) -> None:
        if attr not in ATTRIBUTES:
            raise ConfigError(f"crf_tagger: attr {attr!r} is not supported. {suggest(str(attr), ATTRIBUTES)}")
        self.attr, self.overwrite = attr, overwrite
        self.writes = frozenset({attr.upper()})
        self._id = IDS[attr.upper()]
        self.score_name = f"{attr}_acc"

    @property
    def reads(self) -> tuple[str, ...]:
        return () if self.overwrite else (self.attr.upper(),)

    def settings(self) -> dict[str, Any]:
        return {"attr": self.attr, "overwrite": self.overwrite}

    def gold_tags(self, example: Example, same_words: bool) -> Tags:
        reference = example.reference
        values = reference.to_array([self._id]).tolist() if same_words else example.get_aligned(self.attr.upper())
        text_of = _position_of if self.attr == "pos" else reference.vocab.strings.__getitem__
        texts = {value: text_of(value) if value else None for value in set(values)}
        return [texts[value] for value in values]

    def gold_content(self, reference: Doc) -> object:
        return reference.to_array([self._id]).tobytes()

    def all_tags(self, labels: Iterable[str]) -> list[str]:
        return list(dict.fromkeys(labels))

    def incorrect_spans(self, example: Example, same_words: bool) -> list[SpanLike]:
        return []

    def is_tag(self, label: str) -> bool:
        return True

    def found_tags(self, tags: Iterable[str]) -> list[str]:
        return sorted(tags)

    def public_labels(self, tags: Sequence[str]) -> tuple[str, ...]:
        return tuple(tags)

    def constraints(self, tags: Sequence[str]) -> Constraints:
        return transition_table(tags, "plain")

    def tags_of_span(self, length: int, label: str) -> list[str]:
        return [label] * length

    def allowed(self, state: Hashes, tags: Sequence[str]) -> Bools | None:
        return None

    def preset(self, docs: Sequence[Doc], state: Hashes, doc_offsets: Offsets, tags: Sequence[str]) -> dict[int, Given]:
        return {}

    def prepare(self, vocab: Vocab, tags: Sequence[str]) -> None:
        self._values(vocab, tags)

    def _values(self, vocab: Vocab, tags: Sequence[str]) -> NDArray[np.uint64]:
        if self.attr == "pos":
            unknown = [tag for tag in tags if tag not in POS_IDS]
            if unknown:
                raise DataError(f"crf_tagger: {unknown[0]!r} is no universal part of speech; use attr = 'tag' for it.")
            return np.array([POS_IDS[tag] for tag in tags], np.uint64)
        add = vocab.morphology.add if self.attr == "morph" else partial(_keep, vocab)
        return np.array([add(tag) for tag in tags], np.uint64)

    def write(self, docs: Sequence[Doc], prediction: Prediction, tags: Sequence[str]) -> None:
        if not docs:
            return
        values = self._values(docs[0].vocab, tags)[prediction.labels]
        scores = prediction.scores
        if not self.overwrite:
            old = prediction.state[:, 0]
            kept = (old != 0) & (old != values)
            values = np.where(kept, old, values)
            scores = None if scores is None else np.where(kept, np.nan, scores)
        attributes: list[Any] = [int(self._id)]
        column: Any = values[:, None]
        for doc, begin, end in _ranges(docs, prediction.doc_offsets):
            doc.from_array(attributes, column[begin:end])
            if scores is not None:
                store_token_scores(doc, prediction.name, scores[begin:end])

    def spans_in(self, doc: Doc) -> Iterable[Span]:
        return []

    def tag_of(self, token: Token) -> str:
        return str(getattr(token, "morph" if self.attr == "morph" else f"{self.attr}_"))


_POS_NAMES: dict[int, str] = {int(number): name for name, number in POS_IDS.items()}


def _position_of(value: int) -> str:
    return _POS_NAMES[value]


class _Spans:
    """What `doc.ents` and `doc.spans` have in common.

    incorrect_spans_key (str | None): Group of ``doc.spans`` that on gold Docs holds spans that are known to be wrong.
    """

    def __init__(self, scheme: str, incorrect_spans_key: str | None = None) -> None:
        if scheme not in ("IOB2", "BILUO"):
            raise ConfigError(f"scheme {scheme!r} cannot be used inside. {suggest(str(scheme), ('IOB2', 'BILUO'))}")
        self.scheme, self.incorrect_spans_key = scheme, incorrect_spans_key

    def all_tags(self, labels: Iterable[str]) -> list[str]:
        """Return tags as they are, with "O" first; types as all their tags."""
        given = list(dict.fromkeys(labels))
        are_tags = "O" in given and find_unreadable(given, self.scheme) is None
        tags = given if are_tags else tags_of(given, self.scheme)
        return self.found_tags(tags)

    def incorrect_spans(self, example: Example, same_words: bool) -> list[SpanLike]:
        """Return the spans of ``doc.spans[incorrect_spans_key]`` of the gold Doc, in predicted tokens."""
        reference, key = example.reference, self.incorrect_spans_key
        if key is None or key not in reference.spans:
            return []
        spans: Iterable[Span] = reference.spans[key]
        if not same_words:
            spans = example.get_aligned_spans_y2x(list(spans), allow_overlap=True)
        return [SpanLike(span.start, span.end, span.label_) for span in spans]

    def _incorrect_content(self, reference: Doc) -> object:
        key = self.incorrect_spans_key
        return _content(reference, key) if key is not None else None

    def is_tag(self, label: str) -> bool:
        """Whether a label is a tag of the scheme, and not a type."""
        return find_unreadable([label], self.scheme) is None

    def found_tags(self, tags: Iterable[str]) -> list[str]:
        """Return the tags with "O" first, whether data had it or not."""
        return ["O", *(tag for tag in tags if tag != "O")]

    def public_labels(self, tags: Sequence[str]) -> tuple[str, ...]:
        return tuple(sorted({split_tag(tag)[1] for tag in tags if tag != "O"}))

    def constraints(self, tags: Sequence[str]) -> Constraints:
        return transition_table(tags, self.scheme)

    def tags_of_span(self, length: int, label: str) -> list[str]:
        """Return the tags of a span's tokens."""
        return encode([TagSpan(0, length, label)], length, self.scheme)

    def allowed(self, state: Hashes, tags: Sequence[str]) -> Bools | None:
        """Return None: all tokens may have all tags."""
        return None

    def preset(self, docs: Sequence[Doc], state: Hashes, doc_offsets: Offsets, tags: Sequence[str]) -> dict[int, Given]:
        """Return nothing: spans that are there already are not looked at."""
        return {}

    def prepare(self, vocab: Vocab, tags: Sequence[str]) -> None:
        for label in self.public_labels(tags):
            _keep(vocab, label)

    def found(self, prediction: Prediction, tags: Sequence[str]) -> tuple[SpanArrays, list[str], Floats | None]:
        """Return the predicted spans that are sure enough, the names of their types, and scores to store."""
        table = tag_table(tuple(tags), self.scheme)
        spans, scores = spans_of(prediction.labels, prediction.offsets, table), prediction.scores
        if prediction.keep is not None:
            spans = SpanArrays(*(values[prediction.keep] for values in spans))
            scores = None if scores is None else scores[prediction.keep]
        return spans, list(table.types), scores

    def tag_of(self, token: Token) -> str:
        """Return nothing: tags are not what these tasks write to tokens."""
        return ""

    def store(self, prediction: Prediction, docs: Sequence[Doc], tags: Sequence[str], key: str) -> None:
        """Write the spans to ``doc.spans[key]``, with their scores where they are to be stored."""
        spans, types, scores = self.found(prediction, tags)
        bounds = np.searchsorted(spans.start, prediction.doc_offsets).tolist()
        home = np.repeat(prediction.doc_offsets[:-1], np.diff(bounds))
        starts, ends = (spans.start - home).tolist(), (spans.end - home).tolist()
        labels = _hashes(types, docs)[spans.type].tolist()
        for doc, first, last in zip(docs, bounds, bounds[1:], strict=False):
            found = zip(starts[first:last], ends[first:last], labels[first:last], strict=True)
            doc.spans[key] = [Span(doc, start, end, label) for start, end, label in found]
            if scores is not None:
                doc.spans[key].attrs["scores"] = scores[first:last]


def _content(doc: Doc, key: str) -> object:
    """Return something hashable that is equal for Docs with equal spans in a group, None without it."""
    return tuple((span.start, span.end, span.label) for span in doc.spans[key]) if key in doc.spans else None


@lru_cache(maxsize=16)
def tag_table(tags: tuple[str, ...], scheme: str) -> TagTable:
    """Return the tags taken apart, once for many predictions."""
    return TagTable(tags, scheme)


def find_unreadable(tags: Sequence[str], scheme: str) -> str | None:
    """Return the first string that is no tag of the scheme, None if all are."""
    prefixes = {"IOB2": "BI", "BILUO": "BILU"}[scheme]
    return next((tag for tag in tags if tag != "O" and not (tag[:1] in prefixes and tag[1:2] == "-")), None)


class SpanGroups(_Spans):
    """Non-overlapping spans in ``doc.spans[spans_key]``, for `crf_chunker`."""

    def __init__(self, spans_key: str, scheme: str, incorrect_spans_key: str | None = None) -> None:
        super().__init__(scheme, incorrect_spans_key)
        if spans_key == incorrect_spans_key:
            raise ConfigError(f"crf_chunker: incorrect_spans_key must differ from spans_key, which is {spans_key!r}.")
        self.spans_key, self.score_name = spans_key, f"spans_{spans_key}_f"
        self.writes: frozenset[str] = frozenset()
        self.reads: tuple[str, ...] = ()

    def settings(self) -> dict[str, Any]:
        return {"spans_key": self.spans_key, "scheme": self.scheme}

    def gold_tags(self, example: Example, same_words: bool) -> Tags:
        reference = example.reference
        if self.spans_key not in reference.spans:
            return [None] * len(example.predicted)
        spans: Iterable[Span] = reference.spans[self.spans_key]
        if not same_words:
            spans = example.get_aligned_spans_y2x(list(spans))
        found = [(span.start, span.end, span.label_) for span in spans]
        try:
            tags: Tags = list(encode(found, len(example.predicted), self.scheme))
        except DataError as error:
            text = example.reference.text[:60]
            raise DataError(f"doc.spans[{self.spans_key!r}] of the gold document {text!r}...: {error}") from None
        return tags

    def gold_content(self, reference: Doc) -> object:
        return _content(reference, self.spans_key), self._incorrect_content(reference)

    def write(self, docs: Sequence[Doc], prediction: Prediction, tags: Sequence[str]) -> None:
        self.store(prediction, docs, tags, self.spans_key)

    def spans_in(self, doc: Doc) -> Iterable[Span]:
        spans: Iterable[Span] = doc.spans.get(self.spans_key, [])
        return spans


class Entities(_Spans):
    """Named entities in ``doc.ents``, for `crf_ner`, with the manners of spaCy's own ``ner``.

    Entities set by earlier components are kept, blocked tokens stay outside, no entity begins or ends on whitespace.
    """

    writes = frozenset({"ENT_IOB", "ENT_TYPE"})
    reads = ("IS_SPACE", "ENT_IOB")
    score_name = "ents_f"

    def settings(self) -> dict[str, Any]:
        return {"scheme": self.scheme}

    def gold_tags(self, example: Example, same_words: bool) -> Tags:
        if not same_words:
            return self._from_biluo(self._aligned(example))
        reference = example.reference
        strings = reference.vocab.strings
        pairs = reference.to_array([ENT_IOB, ENT_TYPE]).tolist()
        behind = [*(iob for iob, _ in pairs[1:]), 2][: len(pairs)]
        torn = self.scheme == "BILUO" and any(
            iob == 0 and after == 1 for (iob, _), after in zip(pairs, behind, strict=True)
        )
        biluo: Tags = []
        for (iob, label), after in zip(pairs, behind, strict=True):
            if iob == 0:
                biluo.append(None)
            elif iob == 2 or not label:
                biluo.append("O")
            elif torn and after == 0:  # entities begin before or go on behind missing tokens here; does this one end?
                biluo.append(Partial(tuple(f"{prefix}-{strings[label]}" for prefix in ("BU" if iob == 3 else "IL"))))
            else:
                prefix = ("B" if after == 1 else "U") if iob == 3 else ("I" if after == 1 else "L")
                biluo.append(f"{prefix}-{strings[label]}")
        return self._from_biluo(biluo)

    def _aligned(self, example: Example) -> Tags:
        """Return the gold tags of predicted tokens that the gold Doc does not have."""
        try:
            return list(example.get_aligned_ner())
        except ValueError as error:
            text = example.reference.text.strip()[:60]
            raise DataError(f"The entities of the gold document {text!r} cannot be read: {error}") from None

    def gold_content(self, reference: Doc) -> object:
        return reference.to_array([ENT_IOB, ENT_TYPE]).tobytes(), self._incorrect_content(reference)

    def _from_biluo(self, tags: Tags) -> Tags:
        """Return the tags in the scheme; tags with a missing type, "U-", mean that nothing is known."""
        known: Tags = [None if isinstance(tag, str) and tag.endswith("-") else tag for tag in tags]
        if self.scheme == "BILUO":
            return known
        table = {"L": "I", "U": "B"}
        return [table.get(tag[0], tag[0]) + tag[1:] if isinstance(tag, str) else tag for tag in known]

    def allowed(self, state: Hashes, tags: Sequence[str]) -> Bools | None:
        spaces = state[:, 0] != 0
        if not spaces.any():
            return None
        allowed = np.ones((len(spaces), len(tags)), np.bool_)
        allowed[spaces] = [self._on_space(tag) for tag in tags]
        return allowed

    def _on_space(self, tag: str) -> bool:
        return tag == "O" or (self.scheme == "BILUO" and tag[0] == "I")

    def preset(self, docs: Sequence[Doc], state: Hashes, doc_offsets: Offsets, tags: Sequence[str]) -> dict[int, Given]:
        """Return entities that are set already and blocked tokens, by the numbers of their Docs.

        Around entities that the model could not have found, its own stay outside.
        """
        return {number: self._preset(docs[number], tags) for number in _preset_docs(state, doc_offsets)}

    def _preset(self, doc: Doc, tags: Sequence[str]) -> Given:
        outside, found = _blocked(doc), []
        for entity in doc.ents:
            known = set(self.tags_of_span(len(entity), entity.label_)) <= set(tags)
            if known and not crosses_sentences(doc, entity.start, entity.end):
                found.append(SpanLike(entity.start, entity.end, entity.label_))
            else:
                outside += range(entity.start, entity.end)
        return Given(found, {token: ["O"] for token in outside})

    def write(self, docs: Sequence[Doc], prediction: Prediction, tags: Sequence[str]) -> None:
        spans, types, scores = self.found(prediction, tags)
        table: Any = np.zeros((len(prediction.labels), 2), np.uint64)
        table[:, 0] = 2
        sizes = spans.end - spans.start
        inside = np.repeat(spans.start - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())
        if len(inside):
            table[inside, 0] = 1
            table[spans.start, 0] = 3
            table[inside, 1] = np.repeat(_hashes(types, docs)[spans.type], sizes)
        preset = {id(docs[number]) for number in _preset_docs(prediction.state, prediction.doc_offsets)}
        attributes: list[Any] = [int(ENT_IOB), int(ENT_TYPE)]
        for doc, begin, end in _ranges(docs, prediction.doc_offsets):
            if id(doc) in preset:
                self._add_entities(doc, table[begin:end])
            else:
                doc.from_array(attributes, table[begin:end])
        if scores is not None:
            self.store(prediction, docs, tags, prediction.name)

    def spans_in(self, doc: Doc) -> Iterable[Span]:
        return doc.ents

    def _add_entities(self, doc: Doc, table: NDArray[np.uint64]) -> None:
        """Add predicted entities to those that are set, which the constraints have kept apart."""
        taken = doc.to_array([ENT_TYPE]) != 0
        new = []
        starts = np.flatnonzero(table[:, 0] == 3).tolist()
        for start in starts:
            end = start + 1
            while end < len(doc) and table[end, 0] == 1:
                end += 1
            if not taken[start:end].any():
                new.append(Span(doc, start, end, int(table[start, 1])))
        blocked = [Span(doc, i, i + 1) for i in _blocked(doc)]
        old = list(doc.ents)
        doc.set_ents([*old, *new], blocked=blocked, default="outside")


def _preset_docs(state: Hashes, doc_offsets: Offsets) -> list[int]:
    """Return the numbers of Docs where a component before has set entities or blocked tokens."""
    begins = np.flatnonzero(state[:, 1] == 3)
    if not len(begins):  # most often, and asked of each Doc
        return []
    return sorted(set((np.searchsorted(doc_offsets, begins, side="right") - 1).tolist()))


def _hashes(types: Sequence[str], docs: Sequence[Doc]) -> Hashes:
    """Return the hashes of the types, made known to the vocab of `docs`."""
    if not docs:
        return np.zeros(0, np.uint64)
    return np.array([_keep(docs[0].vocab, name) for name in types], np.uint64)


def _keep(vocab: Vocab, text: str) -> int:
    """Return the key of a text that the vocab holds for good, also when a memory zone ends."""
    add: Any = vocab.strings.add  # spaCy's stub does not know of zones
    return int(add(text, allow_transient=False))


def _blocked(doc: Doc) -> list[int]:
    table = doc.to_array([ENT_IOB, ENT_TYPE])
    return np.flatnonzero((table[:, 0] == 3) & (table[:, 1] == 0)).tolist()


def _ranges(docs: Sequence[Doc], doc_offsets: Offsets) -> list[tuple[Doc, int, int]]:
    bounds = doc_offsets.tolist()
    return [(doc, begin, end) for doc, begin, end in zip(docs, bounds, bounds[1:], strict=False) if end > begin]
