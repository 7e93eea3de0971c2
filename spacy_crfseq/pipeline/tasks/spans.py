"""The common part of chunks and named entities: spans that do not overlap, as tags of a scheme."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.vocab import Vocab

from ...errors import ConfigError, suggest
from ...schemes import Span as TagSpan
from ...schemes import SpanArrays, TagTable, encode, spans_of, split_tag, tags_of
from ...types import Floats, Hashes
from ..evidence import SpanLike
from ..structs import write_spans
from .base import Annotation, Prediction, keep_string, vocabs_of


class Spans(Annotation):
    """Labelled spans; the group `incorrect_spans_key` of gold Docs contains spans that are known to be wrong."""

    scheme: str

    def __init__(self, scheme: str, incorrect_spans_key: str | None = None) -> None:
        if scheme not in ("IOB2", "BILUO"):
            raise ConfigError(f"scheme {scheme!r} cannot be used inside. {suggest(str(scheme), ('IOB2', 'BILUO'))}")
        self.scheme, self.incorrect_spans_key = scheme, incorrect_spans_key

    def settings(self) -> dict[str, Any]:
        return {"scheme": self.scheme}

    def all_tags(self, labels: Iterable[str]) -> list[str]:
        """Return given tags with "O" first, or all tags of given types."""
        given = list(dict.fromkeys(labels))
        are_tags = "O" in given and find_unreadable(given, self.scheme) is None
        return self.found_tags(given if are_tags else tags_of(given, self.scheme))

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
        return ["O", *(tag for tag in tags if tag != "O")]

    def public_labels(self, tags: Sequence[str]) -> tuple[str, ...]:
        return tuple(sorted({split_tag(tag)[1] for tag in tags if tag != "O"}))

    def tags_of_span(self, length: int, label: str) -> list[str]:
        return encode([TagSpan(0, length, label)], length, self.scheme)

    def prepare(self, vocab: Vocab, tags: Sequence[str]) -> None:
        for label in self.public_labels(tags):
            keep_string(vocab, label)

    def found(self, prediction: Prediction, tags: Sequence[str]) -> tuple[SpanArrays, list[str], Floats | None]:
        """Return the predicted spans that are probable enough, the names of all types, and scores to store."""
        table = tag_table(tuple(tags), self.scheme)
        spans, scores = spans_of(prediction.labels, prediction.offsets, table), prediction.scores
        if prediction.keep is not None:
            spans = SpanArrays(*(values[prediction.keep] for values in spans))
            scores = None if scores is None else scores[prediction.keep]
        return spans, list(table.types), scores

    def store(self, prediction: Prediction, docs: Sequence[Doc], tags: Sequence[str], key: str) -> None:
        """Write the spans to ``doc.spans[key]``, with their scores if these are to be stored."""
        spans, types, scores = self.found(prediction, tags)
        write_spans(docs, key, prediction.doc_offsets, spans, type_hashes(types, docs)[spans.type])
        if scores is not None:
            bounds = np.searchsorted(spans.start, prediction.doc_offsets)
            for doc, (first, last) in zip(docs, pairwise(bounds.tolist()), strict=True):
                doc.spans[key].attrs["scores"] = scores[first:last]


def group_content(doc: Doc, key: str | None) -> object:
    """Return something hashable that is equal for Docs with equal spans in a group, None if there is no such group."""
    if key is None or key not in doc.spans:
        return None
    return tuple((span.start, span.end, span.label) for span in doc.spans[key])


@lru_cache(maxsize=16)
def tag_table(tags: tuple[str, ...], scheme: str) -> TagTable:
    """Return the parsed tags, cached for many predictions."""
    return TagTable(tags, scheme)


def find_unreadable(tags: Sequence[str], scheme: str) -> str | None:
    """Return the first string that is not a tag of the scheme, None if all are."""
    prefixes = {"IOB2": "BI", "BILUO": "BILU"}[scheme]
    return next((tag for tag in tags if tag != "O" and not (tag[:1] in prefixes and tag[1:2] == "-")), None)


def type_hashes(types: Sequence[str], docs: Sequence[Doc]) -> Hashes:
    """Add the types to the vocabs of `docs` and return their hashes."""
    found = [[keep_string(vocab, name) for name in types] for vocab in vocabs_of(docs)]
    return np.array(found[0] if found else [], np.uint64)
