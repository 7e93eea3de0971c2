"""Accepted texts in the formats of other programs; `fit`, `evaluate` and `convert` read all of them.

Texts of which something is not known are in spaCy's format and in columns (as "-") with all that is known.  JSON for
Prodigy and Label Studio holds them as ignored and cancelled; doccano's has no place for them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from spacy.tokens import Doc, Span

from ...pipeline.texts import Document, chunks_key
from ...pipeline.written import COLUMNS, Form, make_write
from .journal import Decision
from .learning import Learner, missing_tokens

FORMATS = {"spacy": ".spacy", "prodigy": ".jsonl", "doccano": ".jsonl", "label-studio": ".json", "columns": ".conll"}
"""Formats and the endings of their files."""


def exported(learner: Learner, decisions: Iterable[Decision], name: str) -> bytes:
    """Return accepted texts in one of `FORMATS`."""
    if name == "spacy":
        return learner.docbin(decisions).to_bytes()
    if name == "columns":
        task = learner.pipe.annotation
        form = Form((task.column,), chunks_key(learner.nlp), (), {})
        write = make_write(COLUMNS, form, scores=False)
        return "".join(write(_columns(learner, decision), Document(0)) for decision in decisions).encode("utf8")
    pairs = [(decision, learner.doc(decision.text)) for decision in decisions]
    records = [record for pair in pairs for record in _RECORDS[name](*pair)]
    if name == "label-studio":
        return (json.dumps(records, ensure_ascii=False, indent=1) + "\n").encode("utf8")
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records).encode("utf8")


def _columns(learner: Learner, decision: Decision) -> Doc:
    gold = learner.gold(decision)
    if learner.pipe.annotation.column == "chunk":  # a group of spans cannot be missing in part
        spans = [Span(gold, start, end, label) for start, end, label in decision.pins.spans]
        gold.spans[chunks_key(learner.nlp)] = spans
    return gold


def _bounds(doc: Doc, start: int, end: int) -> tuple[int, int]:
    return doc[start].idx, doc[end - 1].idx + len(doc[end - 1])


def _prodigy(decision: Decision, doc: Doc) -> list[dict[str, Any]]:
    tokens = [
        {"text": t.text, "start": t.idx, "end": t.idx + len(t), "id": t.i, "ws": bool(t.whitespace_)} for t in doc
    ]
    spans = []
    for start, end, label in decision.pins.spans:
        first, last = _bounds(doc, start, end)
        spans.append({"start": first, "end": last, "token_start": start, "token_end": end - 1, "label": label})
    answer = "ignore" if missing_tokens(decision.pins) else "accept"
    meta = {"held_out": decision.held_out, "seconds": decision.seconds}
    return [{"text": doc.text, "tokens": tokens, "spans": spans, "answer": answer, "meta": meta}]


def _doccano(decision: Decision, doc: Doc) -> list[dict[str, Any]]:
    if missing_tokens(decision.pins):
        return []
    return [{"text": doc.text, "label": [[*_bounds(doc, s, e), label] for s, e, label in decision.pins.spans]}]


def _label_studio(decision: Decision, doc: Doc) -> list[dict[str, Any]]:
    text, regions = doc.text, []
    for number, (start, end, label) in enumerate(decision.pins.spans):
        regions.append(region(text, *_bounds(doc, start, end), label, f"s{number}"))
    annotation = {"result": regions, "was_cancelled": bool(missing_tokens(decision.pins))}
    return [{"data": {"text": text}, "annotations": [annotation]}]


def region(text: str, start: int, end: int, label: str, id_: str) -> dict[str, Any]:
    """Return a span as Label Studio has it, whose page counts characters above U+FFFF twice."""
    units = [len(text[:at].encode("utf-16-le")) // 2 for at in (start, end)]
    value = {"start": units[0], "end": units[1], "text": text[start:end], "labels": [label]}
    return {"id": id_, "from_name": "label", "to_name": "text", "type": "labels", "value": value}


_RECORDS = {"prodigy": _prodigy, "doccano": _doccano, "label-studio": _label_studio}
