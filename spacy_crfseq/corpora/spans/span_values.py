"""Spans as programs write them: objects and lists, under many names, and the word pieces of neural networks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...errors import DataError
from .placing import bounds_of_words
from .records import NOWHERE, CharSpan
from .rules import LOOK_UP

STARTS = ("start", "start_char", "start_offset", "startOffset", "char_start", "begin", "offset")
ENDS = ("end", "end_char", "end_offset", "endOffset", "char_end", "stop")
LABELS = ("label", "type", "entity_type", "entity_group", "entity", "label_", "tag", "category", "labels")
TEXTS = ("text", "span")
"""Keys of the text of a span; that of a neural network's word pieces, or a normal form, may be another."""
PHRASES = (*TEXTS, "word", "value", "mention", "name")
SCORES = ("score", "confidence", "probability", "prob")


def listed(entry: Mapping[str, Any], key: str) -> list[Any]:
    """Return the list of spans under a key, also of lists of texts by label.

    RAISES DataError: If there is something else.
    """
    value = entry.get(key)
    if value is None or value in ("", {}):
        return []
    if isinstance(value, dict) and all(
        isinstance(texts, list) and all(map(_is_text, texts)) for texts in value.values()
    ):
        return [{"text": text, "label": label} for label, texts in value.items() for text in texts]
    if not isinstance(value, list):
        raise DataError(f'expected a list of spans under "{key}", but found {_shown(value)}.{_advice(value)}')
    return value


def spans_of(items: Iterable[Any]) -> list[CharSpan]:
    """Return spans, of which word pieces are joined; RAISES DataError: If one is malformed."""
    items = list(items)
    pieces = [item for item in items if _is_piece(item)]
    return (
        _joined(pieces) if pieces and len(pieces) == len(items) else [span for item in items for span in _spans(item)]
    )


def token_spans(items: Iterable[Any], words: Sequence[str], *, inclusive: bool) -> list[CharSpan]:
    """Return spans given by numbers of words, in characters of the words with one space between them.

    Those that come as texts have no position yet.

    inclusive: Whether the second number is that of the last word, rather than that of the word after it.
    """
    *_, starts, ends = bounds_of_words(words)
    spans = []
    for span in (span for item in items for span in _spans(item)):
        if not span.placed:
            spans.append(span)
            continue
        end = span.end + inclusive
        if not 0 <= span.start < end <= len(words):
            raise DataError(f"the words {span.start} to {span.end} of a span are not among the {len(words)} words.")
        spans.append(span._replace(start=starts[span.start], end=ends[end - 1]))
    return spans


def _spans(item: Any) -> list[CharSpan]:
    """Return the span that an object or a list [start, end, label] describes, once for each of its labels."""
    start, end, label, text, score = _fields(item)
    if start is None and end is None and _is_text(phrase := _phrase(item)):
        start, end, text = NOWHERE, NOWHERE, phrase
    labels = label if isinstance(label, list) and label else [label]
    is_label = all(type(name) is str and name and name == name.strip() for name in labels)
    if type(start) is not int or type(end) is not int or not is_label:
        advice = _advice([item])
        if start is not None and end is not None:
            is_placed = type(start) is type(end) is int
            advice = (
                " A label must be a string, not empty, without space around it."
                if is_placed
                else " Start and end must be whole numbers, without quotation marks and decimal points."
            )
        raise DataError(
            f"expected a span with two numbers of characters and a label, but found {_shown(item)}.{advice}"
        )
    if score is not None and (type(score) not in (int, float) or not math.isfinite(score)):
        raise DataError(f"expected a number as the score of a span, but found {_shown(item)}.")
    text = text if isinstance(text, str) else ""
    return [CharSpan(start, end, name, text, None if score is None else float(score)) for name in labels]


def _fields(item: Any) -> tuple[Any, Any, Any, Any, Any]:
    """Return start, end, label, text and score of a span; None for what is missing."""
    if isinstance(item, (list, tuple)) and len(item) >= 3:
        return item[0], item[1], item[2], None, next((value for value in item[3:] if type(value) is float), None)
    if not isinstance(item, dict):
        return None, None, None, None, None
    start, end, label = (_first(item, names) for names in (STARTS, ENDS, LABELS))
    if end is None and type(start) is int and type(item.get("length")) is int:
        end = start + item["length"]
    return start, end, label, _first(item, TEXTS), _first(item, SCORES)


def _phrase(item: Any) -> Any:
    """Return the text of a span without positions, None if there is none."""
    if not isinstance(item, dict) or _is_piece(item):
        return None
    phrase, entity = _first(item, PHRASES), item.get("entity")
    return entity if phrase is None and _first(item, LABELS) != entity else phrase


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _first(item: Mapping[str, Any], names: Iterable[str]) -> Any:
    return next((item[name] for name in names if item.get(name) is not None), None)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."


def _advice(value: Any) -> str:
    """Return the fault of texts of spans without positions, else with labels of whole texts."""
    items = [*value.values()] if isinstance(value, dict) else value if isinstance(value, list) else []
    texts = [_first(item, PHRASES) if isinstance(item, dict) else item for item in items]
    if items and all(isinstance(item, (str, list)) for item in items):
        return " Positions are missing: give start, end and label of each span. Labels of whole texts cannot be learnt."
    labelled = isinstance(value, dict) or any(isinstance(item, dict) and _first(item, LABELS) for item in items)
    if labelled and texts and all(isinstance(text, (str, list)) for text in texts):
        return f" The positions are missing: give start and end in characters, or texts with labels and {LOOK_UP}."
    return " Labels of whole texts and of HTML cannot be learnt."


# Word pieces


def _is_piece(item: Any) -> bool:
    """Whether an item is a word piece of ``pipeline("ner")`` of Transformers without an aggregation strategy."""
    return isinstance(item, dict) and {"entity", "word", "index"} <= item.keys() and isinstance(item["entity"], str)


def _joined(pieces: Sequence[Mapping[str, Any]]) -> list[CharSpan]:
    """Return the spans of word pieces: tags in IOB, of which the first piece of a word decides, as the lowest score."""
    spans: list[CharSpan] = []
    before: Any = None  # the number of the piece before
    for piece in pieces:
        (span,) = _spans(piece)
        prefix, _, label = span.label.partition("-")
        prefix, label = (prefix, label) if label and prefix in ("B", "I") else ("", span.label)
        follows = type(before) is int and piece["index"] == before + 1
        last = spans[-1] if spans and follows else None
        inside_word = last is not None and span.start == last.end and str(piece["word"]).startswith("##")
        if last is not None and (inside_word or (prefix == "I" and label == last.label)):
            scores = [score for score in (last.score, span.score) if score is not None]
            spans[-1] = last._replace(end=span.end, score=min(scores, default=None))
        else:
            spans.append(span._replace(label=label))
        before = piece["index"]
    return spans
