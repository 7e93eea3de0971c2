"""Reads the annotated texts of a file, in any format of spans: JSON, brat, INCEpTION's, tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

from ...errors import DataError, FormatError, count_of
from ..lines import OnError, Sentence, check_file, checked
from .brat import read_brat
from .counting import Counting
from .inception import read_webanno
from .json_formats import read_json
from .matching import with_places
from .placing import bounds_of_words, sentence_of, tokens_of
from .records import Item, Notes, Skipped, failed
from .rules import DEFAULT, SpanRules
from .span_values import SCORES
from .tables import read_table

Tokenize: TypeAlias = Callable[[str], tuple[list[str], list[bool]]]
"""Returns the tokens of a text and whether a space follows each; joined, they give the text."""
FORMATS: Mapping[str, Callable[[Path, str], Iterator[Item]]] = {
    "jsonl": read_json, "brat": read_brat, "webanno": read_webanno, "parquet": read_table,
}  # fmt: skip
"""Readers of a file in an encoding, by the names of their layouts."""


def read_annotations(
    path: Path | str,
    tokenize: Tokenize,
    notes: Notes | None = None,
    on_error: OnError | None = None,
    *,
    format: str = "jsonl",
    encoding: str = "utf8",
    rules: SpanRules = DEFAULT,
) -> Iterator[Sentence]:
    """Yield the annotated texts of a file, with IOB2 tags in the column "ent" and, where known, in `INCORRECT`.

    Tokens that are not annotated have the tag "-".  The column "weight" has that of a record.
    tokenize: Makes tokens of texts that come without.
    notes (Notes | None): Receives what was left out.
    on_error (OnError | None): Receives the error of each unreadable record, which is then left out.
    format (str): One of `FORMATS`.
    RAISES FormatError: On a record that cannot be read, on a file without an annotated text, and on one of whose
        spans most are of no use.
    """
    path, notes = check_file(path), notes or Notes()
    items = _sentences(path, tokenize, notes, lambda: FORMATS[format](path, encoding), rules)
    return checked(items, path, on_error, empty="")


def _sentences(
    path: Path, tokenize: Tokenize, notes: Notes, items: Callable[[], Iterator[Item]], rules: SpanRules
) -> Iterator[Sentence | FormatError]:
    empty, counting, before = True, Counting(items), (len(notes.spans), len(notes.unmatched), notes.total)
    n_spans, n_scored = 0, notes.n_scored
    for number, item in enumerate(items()):
        if isinstance(item, FormatError):
            yield item
            empty = False
            continue
        reason = item.reason if isinstance(item, Skipped) else "" if item[1].text.strip() else "empty"
        if isinstance(item, Skipped) or reason:
            notes.skipped[reason] += 1
            continue
        line, text = item
        n_spans += len(text.spans)
        notes.predicted += text.predicted
        for span in text.spans:
            notes.score(span)
        try:
            tokens = tokens_of(*tokenize(text.text)) if text.words is None else bounds_of_words(text.words)
            placed = with_places(counting.placed(text, line, notes), rules.match, line, notes)
            yield sentence_of(placed, tokens, rules, (line, number), notes)
        except DataError as error:
            yield FormatError(path, line, str(error))
        empty = False
    if empty:
        said = "; ".join(text.removeprefix(f"{path}: ") for text, _ in notes.messages(path))
        yield FormatError(path, 0, f"no annotated text in the file. {said}".strip())
    lost, total = len(notes.spans) - before[0], notes.total - before[2]
    strange = [(line, f"{span.text!r} is {why}") for line, span, why in notes.unmatched[before[1] :]]
    if failed(lost, total):
        examples = "; ".join(f"line {line}: {what}" for line, what in notes.spans[before[0] : before[0] + 2])
        yield FormatError(
            path,
            0,
            f"{lost:,} of {total:,} spans cannot be used, such as {examples}."
            f"{notes.short_ends() or ' Are positions those of characters?'}",
        )
    elif failed(len(strange), total):
        examples = "; ".join(f"line {line}: {what}" for line, what in strange[:2])
        yield FormatError(
            path, 0, f"{len(strange):,} of {total:,} spans that came as texts have no place, such as {examples}."
        )
    if rules.min_score:
        notes.unscored += n_spans - (notes.n_scored - n_scored)


def without_scores(path: Path, min_score: float, notes: Iterable[Notes]) -> FormatError | None:
    """Return an error if a least score is asked for in files none of whose spans has a score; else None."""
    notes = list(notes)
    total, n_scored = sum(of_file.total for of_file in notes), sum(of_file.n_scored for of_file in notes)
    if not min_score or n_scored or not total:
        return None
    what = (
        f"min_score = {min_score:g} is set, but none of the {count_of(total, 'span')} has a score, so it has no effect"
    )
    keys = ", ".join(SCORES)
    return FormatError(path, 0, f"{what}. Leave it out here, or write the scores under one of the keys {keys}.")
