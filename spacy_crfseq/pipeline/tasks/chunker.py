"""Non-overlapping spans in ``doc.spans[spans_key]``, for `crf_chunker`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from spacy.tokens import Doc, Span
from spacy.training import Example

from ...errors import ConfigError, DataError
from ...schemes import encode
from ..evidence import Tags
from .base import Prediction
from .spans import Spans, group_content


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
        spans: Iterable[Span] = reference.spans[self.spans_key]
        if not same_words:
            spans = example.get_aligned_spans_y2x(list(spans))
        found = [(span.start, span.end, span.label_) for span in spans]
        try:
            return list(encode(found, len(example.predicted), self.scheme))
        except DataError as error:
            text = example.reference.text[:60]
            raise DataError(f"doc.spans[{self.spans_key!r}] of the gold document {text!r}...: {error}") from None

    def gold_content(self, reference: Doc) -> object:
        return group_content(reference, self.spans_key), super().gold_content(reference)

    def write(self, docs: Sequence[Doc], prediction: Prediction, tags: Sequence[str]) -> None:
        self.store(prediction, docs, tags, self.spans_key)

    def spans_in(self, doc: Doc) -> Iterable[Span]:
        spans: Iterable[Span] = doc.spans.get(self.spans_key, [])
        return spans
