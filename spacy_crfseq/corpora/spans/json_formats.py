"""Records in JSON: exports of annotation tools, answers of models, data sets for neural networks.

The keys of a record show who wrote it.  The formats are those of Prodigy's ``db-out``
(https://prodi.gy/docs/api-interfaces), doccano's JSONL with or without relations
(https://doccano.github.io/doccano/tutorial/), Label Studio's JSON and JSON-MIN (https://labelstud.io/guide/export),
Argilla's records (https://docs.argilla.io, "Record"), spaCy's training data and `Doc.to_json`, Transformers'
``pipeline("ner")``, GLiNER's training data, INCEpTION's UIMA CAS in JSON, and lists of tokens with tags as in the data
sets of Hugging Face.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from ...errors import DataError, FormatError
from .html_text import HtmlText, begins_as_html
from .inception import is_cas, of_cas
from .json_values import is_pair, json_values, no_text
from .records import Annotated, CharSpan, Item, Skipped, SkippedError
from .span_values import ENDS, LABELS, STARTS, listed, spans_of, token_spans
from .tagged import TagColumns

SPANS = ("label", "labels", "entities", "ents", "annotation", "annotations", "ner")
"""Keys of spans; tasks that doccano received with "spans" keep these as well, beside "label"."""
OF_TEXTS = ("label", "labels")
"""Those that may be labels of the text, and say nothing of spans where they are empty."""
PREDICTED = ("spans", "prediction", "predictions", "predicted")
WORDS = ("tokens", "tokenized_text", "words")
_BINARY_VIEW = "ner"
"""Prodigy's interface for accepting or rejecting one span; the other interfaces annotate the whole text."""
_JSON_SPANS = re.compile(r"\s*(```(json)?)?\s*[\[{]")
_TOOL_KEYS = frozenset({"created_at", "updated_at", "annotator", "unique_id", "lead_time", "file_upload"})


class Format(NamedTuple):
    """A way in which records are written: how to recognise it, to read it, and to read its text or words alone."""

    fits: Callable[[Mapping[str, Any]], bool]
    read: Callable[[Mapping[str, Any], TagColumns], Annotated]
    text: Callable[[Mapping[str, Any]], str | list[str]]


def read_json(path: Path, encoding: str) -> Iterator[Item]:
    """Yield the annotated texts of JSON Lines, or of JSON."""
    return read_values(path, json_values(path, encoding), TagColumns(path))


def read_values(path: Path, values: Iterator[tuple[int, Any] | FormatError], columns: TagColumns) -> Iterator[Item]:
    """Yield the annotated texts of records."""
    for item in values:
        if isinstance(item, FormatError):
            yield item
            continue
        line, value = item
        try:
            yield line, annotated(value, columns)
        except SkippedError as reason:
            yield Skipped(str(reason))
        except DataError as error:
            yield FormatError(path, line, str(error))


def annotated(value: Any, columns: TagColumns) -> Annotated:
    """Return a record as an annotated text.  RAISES DataError: If it is malformed; SkippedError: To leave it out."""
    if value is None:  # as spaCy's annotators write texts that were left out
        raise SkippedError("not annotated")
    entry = {"text": value[0], **value[1]} if is_pair(value) else value
    spans = entry if isinstance(entry, list) else [entry]
    if any(isinstance(span, dict) and _is_span(span) for span in spans):
        raise DataError('this is a span without its text. Give an object with a string under "text" and the spans.')
    if not isinstance(entry, dict):
        raise DataError(no_text(entry))
    read = next(format.read for format in FORMATS if format.fits(entry))
    return read(entry, columns)._replace(weight=_weight(entry), keys=_keys_of(entry))


def text_of(value: Any) -> str | list[str]:
    """Return the text of a record of any format, annotated or not, or its words where there is no text.

    RAISES DataError: If there is neither.
    """
    if is_pair(value):
        return str(value[0])
    if not isinstance(value, dict):
        raise DataError(no_text(value))
    if isinstance(value.get("text"), str):
        return str(value["text"])
    return next(format.text for format in FORMATS if format.fits(value))(value)


def _keys_of(entry: Mapping[str, Any]) -> dict[str, str]:
    """Return the names and numbers in a record, and in what tools keep of a task: "meta" or "data"."""
    kept = [value for key in ("meta", "data") if isinstance(value := entry.get(key), dict)]
    values = {key: value for part in (*kept, entry) for key, value in part.items()}
    return {key: str(value) for key, value in values.items() if isinstance(value, (str, int)) and key != "text"}


def _weight(entry: Mapping[str, Any]) -> float:
    """Return the weight of a record: under "weight", or a number under "meta", "weight"; 1 if it has neither."""
    meta = entry.get("meta")
    noted = meta.get("weight") if isinstance(meta, dict) else None  # in a text, it is the user's own
    weight = entry.get("weight", noted if type(noted) in (int, float) else 1.0)
    if type(weight) not in (int, float) or not 0 <= weight < math.inf:
        raise DataError(f'"weight" must be a number of at least 0, but it is {weight!r}.')
    return float(weight)


# Texts with spans of characters


def _of_spans(entry: Mapping[str, Any], _: TagColumns) -> Annotated:
    text, meta = _text_of(entry), entry.get("meta")
    keys = [key for key in SPANS if entry.get(key) is not None]
    if keys:
        lists = {key: listed(entry, key) for key in keys if not _is_of_text(entry[key]) or len(keys) == 1}
        return Annotated(text, _agreed({key: spans_of(items) for key, items in lists.items()}))
    keys = [key for key in PREDICTED if entry.get(key) is not None]
    if not keys or (isinstance(meta, dict) and "measure" in meta):  # chosen by `active`, and predicted
        raise SkippedError(_unannotated(entry))
    return Annotated(text, spans_of(listed(entry, keys[0])), predicted="annotation" in entry)


def _unannotated(entry: Mapping[str, Any]) -> str:
    """Return why a record without spans is left out, with its keys under which there may be some."""
    others = [key for key, value in entry.items() if key not in (*WORDS, "text", "meta") and _may_be_spans(value)]
    if not others:
        return "not annotated"
    keys = " and ".join(f'"{key}"' for key in others)
    return f'not annotated, with {keys}, which are not read (rename what has spans to "entities")'


def _may_be_spans(value: Any) -> bool:
    """Whether a value, perhaps in JSON itself, holds objects or lists that begin as a span does."""
    if isinstance(value, str):
        return bool(_JSON_SPANS.match(value))
    if isinstance(value, dict):
        return not value.keys().isdisjoint((*STARTS, *LABELS)) or any(map(_may_be_spans, value.values()))
    items = value if isinstance(value, list) else []
    is_span = len(items) >= 3 and type(items[0]) is type(items[1]) is int and isinstance(items[2], str)
    return is_span or any(_may_be_spans(item) for item in items if isinstance(item, (dict, list)))


def _agreed(lists: Mapping[str, list[CharSpan]]) -> list[CharSpan]:
    """Return the spans of a record; RAISES DataError: If two of its keys have other ones."""
    lists = {key: spans for key, spans in lists.items() if spans or key not in OF_TEXTS}
    places = {key: {span[: 3 if span.end > span.start else 4] for span in spans} for key, spans in lists.items()}
    if any(other != next(iter(places.values())) for other in places.values()):
        keys = " and ".join(f'"{key}"' for key in lists)
        raise DataError(f"there are different spans under {keys}. Keep those to read, and remove the others.")
    return next(iter(lists.values()), [])


def _is_span(entry: Mapping[str, Any]) -> bool:
    """Whether an object is a span rather than a text, which may have a start and an end, too, such as in seconds."""
    has_spans = any(isinstance(entry.get(key), list) for key in (*SPANS, *PREDICTED))
    return type(entry.get("start")) is type(entry.get("end")) is int and not has_spans


def _is_of_text(value: Any) -> bool:
    """Whether a value is the label of a text, which may stand beside spans."""
    return isinstance(value, str) or (isinstance(value, list) and bool(value) and isinstance(value[0], str))


def _of_prodigy(entry: Mapping[str, Any], _: TagColumns) -> Annotated:
    text, spans, answer = _text_of(entry), spans_of(listed(entry, "spans")), entry["answer"]
    binary = entry.get("_is_binary") is True or entry.get("_view_id") == _BINARY_VIEW
    if answer == "accept":
        return Annotated(text, spans, complete=not binary)
    if answer == "reject" and binary and len(spans) == 1:
        return Annotated(text, [], spans, complete=False)
    raise SkippedError({"reject": "rejected", "ignore": "ignored"}.get(str(answer), "not annotated"))


def _text_of(data: Mapping[str, Any]) -> str:
    """Return the text of a record; RAISES DataError: If it has none, whatever other strings it has."""
    if not isinstance(data.get("text"), str):
        raise DataError(no_text(data))
    return str(data["text"])


# Label Studio


def _named_text_of(data: Mapping[str, Any]) -> str:
    """Return the text of a task, for which the user's labelling interface may have any name."""
    texts = [value for key, value in data.items() if isinstance(value, str) and key not in _TOOL_KEYS]
    return _text_of(data) if "text" in data or len(texts) != 1 else texts[0]


def _of_label_studio(task: Mapping[str, Any], _: TagColumns) -> Annotated:
    annotations, predictions = _annotations_of(task), _dicts(task, "predictions")
    kept = [item for item in annotations if not item.get("was_cancelled")] if annotations else predictions
    if not kept:
        raise SkippedError("cancelled" if annotations else "not annotated")
    chosen = next((item for item in kept if item.get("ground_truth")), kept[-1])  # several annotators, or models
    usual = None if annotations else chosen.get("score")
    return _of_regions(_named_text_of(task["data"]), _values_of(chosen, usual))._replace(predicted=not annotations)


def _text_of_task(task: Mapping[str, Any]) -> str:
    """Return the text of a task, annotated or not."""
    items = (*_annotations_of(task), *_dicts(task, "predictions"))
    return _seen(_named_text_of(task["data"]), [value for item in items for value in _values_of(item)])


def _annotations_of(task: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [*_dicts(task, "annotations"), *_dicts(task, "completions")]


def _dicts(entry: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    return [item for item in listed(entry, key) if isinstance(item, dict)]


def _values_of(annotation: Mapping[str, Any], score: Any = None) -> list[dict[str, Any]]:
    """Return the values of an annotation; score: That of regions without one."""
    return [
        {**item["value"], "score": score if item.get("score") is None else item["score"]}
        for item in _dicts(annotation, "result")
        if isinstance(item.get("value"), dict)
    ]


def _of_json_min(entry: Mapping[str, Any], _: TagColumns) -> Annotated:
    return _of_regions(_named_text_of(entry), _values_of_json_min(entry))


def _values_of_json_min(entry: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [region for key, value in entry.items() if isinstance(value, list) for region in _dicts(entry, key)]


def _of_regions(text: str, values: Sequence[Mapping[str, Any]]) -> Annotated:
    """Return the text and the spans among Label Studio's values, which may also be choices or relations."""
    html = _html_of(text, values)
    items = [
        {**(value if html is None else _in_text(html, value)), "label": label, "labels": None}
        for value in values
        if (key := _key_of_labels(value)) is not None
        for label in listed(value, key)
    ]
    return Annotated(text if html is None else html.text, spans_of(items), in_utf16=True)


def _seen(text: str, values: Sequence[Mapping[str, Any]]) -> str:
    """Return the text that was annotated: of HTML, what is between tags."""
    html = _html_of(text, values)
    return text if html is None else html.text


def _html_of(text: str, values: Sequence[Mapping[str, Any]]) -> HtmlText | None:
    """Return a text as HTML, None for another: HTML has places of spans, or begins as HTML and has no others."""
    is_html = any("globalOffsets" in value or str(value.get("start")).startswith("/") for value in values)
    is_text = any(type(value.get("start")) is int for value in values)
    return HtmlText(text) if is_html or (begins_as_html(text) and not is_text) else None


def _key_of_labels(value: Mapping[str, Any]) -> str | None:
    """Return the key of the labels of a span, None of what is none.

    RAISES DataError: If the span is not in one text, but in the turns of a dialogue.
    """
    if "paragraphlabels" in value:
        raise DataError('spans in the turns of a dialogue ("paragraphlabels") are not read. Use <Text> and <Labels>.')
    return next((key for key in ("labels", "hypertextlabels") if key in value), None)


def _in_text(html: HtmlText, value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the value of a span with its places in the text of HTML, without any if it has paths in their place."""
    places = value.get("globalOffsets")
    if not isinstance(places, dict):
        return {key: item for key, item in value.items() if key not in (*STARTS, *ENDS)}
    start, end = places.get("start"), places.get("end")
    if type(start) is not int or type(end) is not int:
        return {**value, "start": start, "end": end}
    shown = value.get("text")  # the page writes line feeds as a backslash and an n
    text = shown.replace("\\n", "\n") if isinstance(shown, str) else shown
    return {**value, "start": html.place(start), "end": html.place(end, is_end=True), "text": text}


# Argilla


def _of_argilla(record: Mapping[str, Any], _: TagColumns) -> Annotated:
    """Return the text and the spans of a record of Argilla 2: the last response, or else a suggestion."""
    responses, suggestions = (record.get(key) or {} for key in ("responses", "suggestions"))
    if not isinstance(responses, dict) or not isinstance(suggestions, dict):
        raise DataError('expected objects with the names of questions under "responses" and "suggestions".')
    given = [*_answers_with_spans(chain(*(answers for answers in responses.values() if isinstance(answers, list))))]
    answers = given or [*_answers_with_spans(suggestions.values())]
    if not answers:
        raise SkippedError("not annotated")
    values, scores = answers[-1]["value"], answers[-1].get("score")
    if not given and scores is not None:
        by_span = scores if isinstance(scores, list) and len(scores) == len(values) else [scores] * len(values)
        pairs = zip(values, by_span, strict=True)
        values = [{**value, "score": score} if isinstance(value, dict) else value for value, score in pairs]
    spans = spans_of(values)
    return Annotated(_named_text_of(record["fields"]), spans, predicted=not given)


def _answers_with_spans(answers: Iterable[Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the answers to questions for spans that nobody has discarded; other questions may have lists of names."""
    for answer in answers:
        if isinstance(answer, dict) and answer.get("status") != "discarded":
            values = answer.get("value")
            if isinstance(values, list) and not any(map(_is_choice, values)):
                yield answer


def _is_choice(value: Any) -> bool:
    """Whether a value answers a question for several labels or a ranking."""
    return isinstance(value, str | int | float) or (isinstance(value, dict) and "rank" in value)


# Tokens


def _words_of(entry: Mapping[str, Any]) -> tuple[str, list[str]] | None:
    """Return the key and the words of a record without a text; None for others."""
    for key in WORDS:
        value = entry.get(key)
        if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
            return None if isinstance(entry.get("text"), str) else (key, value)
    return None


def _of_words(entry: Mapping[str, Any], columns: TagColumns) -> Annotated:
    key, words = _words_of(entry) or ("", [])
    for i, word in enumerate(words):
        if not word or word != word.strip():
            raise DataError(f"word {i} under {key!r} is {word!r}. Words must not be empty, nor have space around them.")
    text = " ".join(words)
    if (column := columns.column_of(entry)) is not None:
        return columns.annotated(text, words, column, entry[column])
    keys = [name for name in (*SPANS, *PREDICTED) if entry.get(name) is not None]
    if not keys:
        raise SkippedError(_unannotated(entry))
    # GLiNER's "ner" counts to the last word, as Prodigy's "token_end" does; other programs to the word after it
    spans = token_spans(listed(entry, keys[0]), words, inclusive=keys[0] == "ner")
    return Annotated(text, spans, words=words)


FORMATS = (
    Format(is_cas, lambda entry, _: of_cas(entry), lambda entry: of_cas(entry).text),
    Format(lambda entry: isinstance(entry.get("data"), dict), _of_label_studio, _text_of_task),
    Format(
        lambda entry: isinstance(entry.get("fields"), dict), _of_argilla, lambda entry: _named_text_of(entry["fields"])
    ),
    Format(
        lambda entry: "annotation_id" in entry or "annotator" in entry,
        _of_json_min,
        lambda entry: _seen(_named_text_of(entry), _values_of_json_min(entry)),
    ),
    Format(lambda entry: "answer" in entry, _of_prodigy, _text_of),
    Format(lambda entry: _words_of(entry) is not None, _of_words, lambda entry: (_words_of(entry) or ("", []))[1]),
    Format(lambda _: True, _of_spans, _text_of),
)
"""The formats of records; the first that fits reads one."""
