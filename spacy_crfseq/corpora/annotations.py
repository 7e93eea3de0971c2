"""Reads exports of annotation tools: Prodigy, doccano and Label Studio.  Each annotated text becomes one `Sentence`.

The keys of a record show which tool wrote it.  Character spans become IOB2 tags on the tokens of the caller's
tokenizer.  A span that does not match token boundaries is never moved: its tokens count as not annotated, and `Notes`
reports it.  Positions may count characters above U+FFFF once or, as JavaScript does, twice; the spans of a file that
come with their text show which, see `Counting`.

The formats are those of Prodigy's ``db-out`` (https://prodi.gy/docs/api-interfaces), doccano's JSONL with or without
relations (https://doccano.github.io/doccano/tutorial/) and Label Studio's JSON and JSON-MIN
(https://labelstud.io/guide/export).
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeAlias

from ..errors import DataError, FormatError
from .columns import MISSING_ENTITY
from .lines import OnError, Sentence, check_file, checked, lines_of
from .utf16 import units_of

INCORRECT = "incorrect"
"""The column of spans that are known to be wrong; only present where a text has one."""
LISTED = 5
"""Number of spans that a warning lists."""
_BINARY_VIEW = "ner"
"""Prodigy's interface for accepting or rejecting one span; the other interfaces annotate the whole text."""
_TOOL_KEYS = frozenset({"created_at", "updated_at", "annotator", "unique_id", "lead_time", "file_upload"})
_SURROGATE = re.compile(r"\\ud[89a-f]", re.IGNORECASE)
"""Halves of characters in JSON."""
Record: TypeAlias = tuple[int, dict[str, Any]]
"""An object in JSON, after its line."""
Tokenize: TypeAlias = Callable[[str], tuple[list[str], list[bool]]]
"""Returns the tokens of a text and whether a space follows each; joined, they give the text."""


class CharSpan(NamedTuple):
    """A labelled span of characters; `text` is its text according to the file, empty if the file does not say."""

    start: int
    end: int
    label: str
    text: str = ""


class Annotated(NamedTuple):
    """An annotated text.

    spans, wrong (Sequence[CharSpan]): Annotated spans, and spans known to be wrong.
    complete (bool): Whether the rest of the text is known to be outside any span; otherwise it is not annotated.
    weight (float): Its weight in training.
    in_utf16 (bool): Whether its tool counts characters in UTF-16, where the file does not show otherwise.
    """

    text: str
    spans: Sequence[CharSpan]
    wrong: Sequence[CharSpan] = ()
    complete: bool = True
    weight: float = 1.0
    in_utf16: bool = False


class Notes:
    """Texts and spans that were left out of a file, or are in doubt.

    skipped: The number of texts by reason.
    spans, doubtful: Spans with their line and what is wrong, and those that fit two places.
    """

    def __init__(self) -> None:
        self.skipped, self.spans, self.doubtful = Counter[str](), list[tuple[int, str]](), list[tuple[int, str]]()

    def messages(self, path: Path, listed: int = LISTED) -> list[tuple[str, list[str]]]:
        """Return messages, each with a list of places."""
        lines: list[tuple[str, list[str]]] = []
        if self.skipped:
            reasons = ", ".join(f"{count:,} {reason}" for reason, count in self.skipped.most_common())
            lines.append((f"{path}: texts left out: {reasons}.", []))
        for spans, text in (
            (self.spans, "cannot be used; the tokens there count as not annotated."),
            (
                self.doubtful,
                "may be at two places, because characters above U+FFFF count once or twice. Look whether these are "
                "right. A span behind such a character whose text occurs once decides for the whole file.",
            ),
        ):
            if spans:
                number = f"{len(spans):,} span{'s' * (len(spans) > 1)}"
                places = [f"{path}:{line}: {what}" for line, what in spans[:listed]]
                lines.append((f"{path}: {number} {text}", [*places, *(["..."] if len(spans) > listed else [])]))
        return lines


class _SkippedError(Exception):
    """A text to leave out, with the reason."""


def read_annotations(
    path: Path | str,
    tokenize: Tokenize,
    notes: Notes | None = None,
    on_error: OnError | None = None,
    *,
    encoding: str = "utf8",
) -> Iterator[Sentence]:
    """Yield the annotated texts of an export, with IOB2 tags in the column "ent" and, where known, in `INCORRECT`.

    Tokens that are not annotated have the tag "-".  The column "weight" has that of a record, see `_weight`.
    notes (Notes | None): Receives what was left out.
    on_error (OnError | None): Receives the error of each unreadable record, which is then left out.
    RAISES FormatError: On a record that cannot be read, and on a file without an annotated text.
    """
    path = check_file(path)
    return checked(_sentences(path, tokenize, notes or Notes(), encoding), path, on_error, empty="")


def _sentences(path: Path, tokenize: Tokenize, notes: Notes, encoding: str) -> Iterator[Sentence | FormatError]:
    empty, counting = True, Counting(path, encoding)
    for number, record in enumerate(json_records(path, encoding)):
        try:
            if isinstance(record, FormatError):
                raise record
            line, entry = record
            text = _annotated(entry)._replace(weight=_weight(entry))
            if not text.text.strip():
                raise _SkippedError("empty")
            placed = counting.placed(text, line, notes)
            sentence = _sentence(placed, *tokenize(text.text), line, number, notes)
            yield sentence._replace(comments=_keys_of(entry))
            empty = False
        except _SkippedError as reason:
            notes.skipped[str(reason)] += 1
        except DataError as error:
            yield error if isinstance(error, FormatError) else FormatError(path, line, str(error))
            empty = False
    if empty:
        said = "; ".join(text for text, _ in notes.messages(path))
        yield FormatError(path, 0, f"no annotated text in the file. {said}".strip())


def _keys_of(entry: Mapping[str, Any]) -> dict[str, str]:
    """Return the names and numbers in a record and in its "meta", which may be groups of texts."""
    meta = entry.get("meta")
    values = {**(meta if isinstance(meta, dict) else {}), **entry}
    return {key: str(value) for key, value in values.items() if isinstance(value, (str, int)) and key != "text"}


def json_records(path: Path, encoding: str, stream: IO[bytes] | None = None) -> Iterator[Record | FormatError]:
    """Yield the objects of JSON Lines, or of one array, with the line on which each begins, and errors."""
    lines, first = lines_of(path, encoding, stream, returns=True), True
    for line in lines:
        if isinstance(line, FormatError):
            yield line
        elif first and line[1].lstrip().startswith("["):
            rest = (item[1] for item in lines if not isinstance(item, FormatError))
            yield from _of_array(path, "\n".join([*[""] * (line[0] - 1), line[1], *rest]))
        elif line[1] and not line[1].isspace():
            first = False
            try:
                yield line[0], parse_object(path, *line)
            except FormatError as error:
                yield error


def _of_array(path: Path, text: str) -> Iterator[Record | FormatError]:
    decoder, at, line, counted = json.JSONDecoder(), text.index("[") + 1, 1, 0
    while True:
        while at < len(text) and text[at] in " \t\n,":
            at += 1
        if text[at : at + 1] == "]":
            return
        line, counted = line + text.count("\n", counted, at), at
        try:
            end = decoder.raw_decode(text, at)[1]
        except (ValueError, RecursionError) as error:
            yield FormatError(path, line, f"no JSON ({error}).")
            return
        try:
            yield line, parse_object(path, line, text[at:end])
        except FormatError as error:
            yield error
        at = end


def parse_object(path: Path, number: int, line: str) -> dict[str, Any]:
    """Return an object in JSON.  RAISES FormatError: If there is none, or a string that no file can hold."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise FormatError(path, number, f"no JSON ({error}). Each line must be an object with a text.") from None
    if not isinstance(entry, dict):
        raise FormatError(path, number, 'expected an object with a string under "text".')
    try:
        if _SURROGATE.search(line):
            json.dumps(entry, ensure_ascii=False).encode("utf8")
    except UnicodeEncodeError:
        raise FormatError(path, number, "half a character (\\ud800 to \\udfff, alone); no file can hold it.") from None
    return entry


# Records of the tools


def _annotated(entry: Mapping[str, Any]) -> Annotated:
    """Return a record as an annotated text.  Raises DataError if it is malformed, _SkippedError to leave it out."""
    if isinstance(entry.get("data"), dict):
        return Annotated(_text_of(entry["data"]), _of_label_studio(entry), in_utf16=True)
    text, meta = _text_of(entry), entry.get("meta")
    if "annotation_id" in entry or "annotator" in entry:  # JSON-MIN
        regions = [region for value in entry.values() if isinstance(value, list) for region in value]
        return Annotated(text, _of_regions(regions), in_utf16=True)
    if "answer" in entry:
        return _of_prodigy(text, entry)
    for key in ("label", "labels", "entities"):  # tasks that doccano received with "spans" keep these as well
        if key in entry:
            return Annotated(text, [_span(item, "start_offset", "end_offset") for item in _listed(entry, key)])
    if "spans" not in entry or (isinstance(meta, dict) and "measure" in meta):  # chosen by `active`, and predicted
        raise _SkippedError("not annotated")
    return Annotated(text, [_span(item) for item in _listed(entry, "spans")])


def _weight(entry: Mapping[str, Any]) -> float:
    """Return what a record has under "weight", or as a number under "meta", "weight"; 1 if it has neither."""
    meta = entry.get("meta")
    noted = meta.get("weight") if isinstance(meta, dict) else None  # in a text, it is the user's own
    weight = entry.get("weight", noted if type(noted) in (int, float) else 1.0)
    if type(weight) not in (int, float) or not 0 <= weight < math.inf:
        raise DataError(f'"weight" must be a number of at least 0, but it is {weight!r}.')
    return float(weight)


def _of_prodigy(text: str, entry: Mapping[str, Any]) -> Annotated:
    spans, answer = [_span(item) for item in _listed(entry, "spans")], entry["answer"]
    binary = entry.get("_is_binary") is True or entry.get("_view_id") == _BINARY_VIEW
    if answer == "accept":
        return Annotated(text, spans, complete=not binary)
    if answer == "reject" and binary and len(spans) == 1:
        return Annotated(text, [], spans, complete=False)
    raise _SkippedError({"reject": "rejected", "ignore": "ignored"}.get(str(answer), "not annotated"))


def _of_label_studio(task: Mapping[str, Any]) -> list[CharSpan]:
    annotations = [
        item for key in ("annotations", "completions") for item in _listed(task, key) if isinstance(item, dict)
    ]
    kept = [item for item in annotations if not item.get("was_cancelled")]
    if not kept:
        raise _SkippedError("cancelled" if annotations else "not annotated")
    chosen = next((item for item in kept if item.get("ground_truth")), kept[-1])  # several annotators
    return _of_regions([item.get("value") for item in _listed(chosen, "result") if isinstance(item, dict)])


def _of_regions(values: Sequence[Any]) -> list[CharSpan]:
    """Return the spans among Label Studio's values, which may also be choices or relations."""
    spans = []
    for value in values:
        if isinstance(value, dict) and ("labels" in value or "hypertextlabels" in value):
            labels = _listed(value, "labels" if "labels" in value else "hypertextlabels")
            spans += [_span({**value, "label": label}) for label in labels]
    return spans


def _span(item: Any, start: str = "start", end: str = "end") -> CharSpan:
    """Return the span that an object or a list [start, end, label] describes."""
    keys = (start, end, "label")
    values = [item.get(key) for key in keys] if isinstance(item, dict) else item[:3] if isinstance(item, list) else []
    if list(map(type, values)) != [int, int, str] or not values[2]:
        raise DataError(
            f"expected a span with two numbers of characters and a label, but found {item!r}. Labels of whole texts "
            "and of HTML cannot be learnt."
        )
    text = item.get("text") if isinstance(item, dict) else None
    return CharSpan(*values)._replace(text=text if isinstance(text, str) else "")


def _listed(entry: Mapping[str, Any], key: str) -> list[Any]:
    value = entry.get(key) or []
    if not isinstance(value, list):
        raise DataError(f'expected a list of spans under "{key}", but found {value!r}.')
    return value


def _text_of(data: Mapping[str, Any]) -> str:
    if isinstance(data.get("text"), str):
        return str(data["text"])
    texts = [value for key, value in data.items() if isinstance(value, str) and key not in _TOOL_KEYS]
    if len(texts) != 1:
        raise DataError(f'no string under "text"; there is {", ".join(map(repr, data)) or "nothing"}.')
    return texts[0]


# From positions in the file to characters, and to tokens


class Counting:
    """Whether a file counts characters above U+FFFF once, as Python does, or twice, as JavaScript does in UTF-16.

    All spans that come with their text decide, so the file is read at the first one for which it matters.
    """

    def __init__(self, path: Path, encoding: str) -> None:
        self._path, self._encoding = path, encoding

    @cached_property
    def in_utf16(self) -> bool | None:
        """Whether the file counts in UTF-16; None if its spans fit both ways, or some only one and some the other."""
        python = utf16 = False
        for record in json_records(self._path, self._encoding):
            try:
                text = None if isinstance(record, FormatError) else _annotated(record[1])
            except (_SkippedError, DataError):
                continue
            if text is not None and not isinstance(units := units_of(text.text), range):
                for span in (*text.spans, *text.wrong):
                    plain, double = _fits(text.text, span), _fits(text.text, _from_utf16(span, units))
                    python, utf16 = python or plain > double, utf16 or double > plain
        return None if python == utf16 else utf16

    def placed(self, text: Annotated, line: int, notes: Notes) -> Annotated:
        """Return a text with its spans counted in Python's characters; `notes` receives spans that are in doubt."""
        units = units_of(text.text)
        if isinstance(units, range) or not (text.spans or text.wrong):
            return text

        def place(span: CharSpan) -> CharSpan:
            double = _from_utf16(span, units)
            fits, in_utf16 = (_fits(text.text, span), _fits(text.text, double)), self.in_utf16
            if in_utf16 is None and fits[0] != fits[1]:
                in_utf16 = fits[1]
            elif in_utf16 is None:
                in_utf16 = text.in_utf16
                if all(fits) and span != double:
                    taken, other = (double, span) if in_utf16 else (span, double)
                    where = f"is read at {taken.start}-{taken.end}, but may be at {other.start}-{other.end}"
                    notes.doubtful.append((line, _described(taken, text.text, where)))
            return double if in_utf16 else span

        return text._replace(spans=[*map(place, text.spans)], wrong=[*map(place, text.wrong)])


def _fits(text: str, span: CharSpan) -> bool:
    """Whether a span comes with its text, and this is there."""
    return bool(span.text) and 0 <= span.start < span.end and text[span.start : span.end] == span.text


def _from_utf16(span: CharSpan, units: Sequence[int]) -> CharSpan:
    """Return a span in Python's characters; one that is outside of the text stays so."""
    if not 0 <= span.start < span.end <= units[-1]:
        return span
    return span._replace(start=bisect_right(units, span.start) - 1, end=bisect_left(units, span.end))


def _sentence(text: Annotated, words: list[str], spaces: list[bool], line: int, number: int, notes: Notes) -> Sentence:
    sizes = [len(word) + space for word, space in zip(words, spaces, strict=True)]
    starts = [0, *accumulate(sizes)][:-1]
    tokens = starts, [start + len(word) for start, word in zip(starts, words, strict=True)]
    spans = list(dict.fromkeys(text.spans))
    tags = ["O" if text.complete else MISSING_ENTITY] * len(words)
    bad = _overlapping(spans)
    for span in spans:
        place, reason = _place(span, tokens, words, text.text)
        reason = "overlaps another span" if span in bad else reason
        if reason:
            notes.spans.append((line, _described(span, text.text, reason)))
        for i in place:
            tags[i] = MISSING_ENTITY if reason else f"{'B' if i == place.start else 'I'}-{span.label}"
    columns = {"ent": tags}
    for span in text.wrong:
        place, reason = _place(span, tokens, words, text.text)
        if reason:
            notes.spans.append((line, _described(span, text.text, reason)))
        else:
            marks = [f"{'B' if i == place.start else 'I'}-{span.label}" for i in place]
            columns[INCORRECT] = ["O"] * place.start + marks + ["O"] * (len(words) - place.stop)
    if text.weight != 1:
        columns["weight"] = [str(text.weight), *["_"] * (len(words) - 1)]
    return Sentence(words, columns, spaces, line, number, on_one_line=True)


def _place(
    span: CharSpan, tokens: tuple[Sequence[int], Sequence[int]], words: Sequence[str], text: str
) -> tuple[range, str]:
    """Return the tokens that a span touches, and what is wrong with the span, if anything.

    tokens: Where they start and end [T] each.
    """
    starts, ends = tokens
    first, last = bisect_right(ends, span.start), bisect_left(starts, span.end)
    place = range(first, max(first, last))
    if not 0 <= span.start < span.end <= len(text):
        return place, f"is outside the {len(text)} characters of the text"
    if span.text and text[span.start : span.end] != span.text:
        return place, f"should be {span.text!r} according to the file"
    fits = place and starts[place.start] == span.start and ends[place.stop - 1] == span.end
    if not fits or words[place.start].isspace() or words[place.stop - 1].isspace():
        return place, f"does not match the tokens {' '.join(words[i] for i in place)!r}"
    return place, ""


def _overlapping(spans: Sequence[CharSpan]) -> set[CharSpan]:
    overlapping: set[CharSpan] = set()
    last: CharSpan | None = None  # the one that reaches farthest
    for span in sorted(spans):
        if last is not None and span.start < last.end:
            overlapping |= {last, span}
        if last is None or span.end > last.end:
            last = span
    return overlapping


def _described(span: CharSpan, text: str, reason: str) -> str:
    context = text[max(0, span.start - 20) : span.end + 20].replace("\n", " ")
    return f"{text[span.start : span.end]!r} ({span.start}-{span.end}, {span.label}) {reason}, in {context!r}"
