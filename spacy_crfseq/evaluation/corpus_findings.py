"""Problems of a corpus for training, from its counts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from .corpus import COMPARED, PLAIN, Column, Part, Places, lengths_of, overlap

RARE = 5
"""Labels on fewer tokens or spans are rare: they may be missing in one of the parts."""
LONG_SEQUENCE = 200
"""Number of tokens; longer sequences are mostly documents without sentence boundaries."""
LEAK = 0.01
"""Share of development sentences in the training part from which scores are unreliable."""
INVALID = 0.05
"""Share of sentences with invalid tags from which the scheme is probably wrong."""

IOBES = re.compile(r"\b[SE]-\w")
"""Tags of another alphabet of BILUO."""

Where = Callable[[int, str], str]
"""Formats a line, and its file if a corpus has several: "train.conll:12"."""


class Finding(NamedTuple):
    """A finding: "warn" if training works, "fail" if it cannot; with the first few positions."""

    severity: Literal["good", "warn", "fail"]
    text: str
    places: tuple[str, ...] = ()


def findings_of(part: Part, where: Where, *, strict: bool = False, trainable: bool = True) -> list[Finding]:
    """Return the findings about a part that has sentences.

    strict: Whether the corpus reader rejects invalid tags.
    trainable: Whether it is the training part.
    """
    found = _of_text(part, where)
    for name, column in part.columns.items():
        found += _of_column(name, column, where, strict)
        if trainable:
            found += _of_labels(name, column, where)
    return found


def _of_text(part: Part, where: Where) -> list[Finding]:
    found, lengths, text = [], lengths_of(part), ""
    if lengths.most > LONG_SEQUENCE:
        text = (
            f"sequences are long, 5 % of them have {lengths.most:.0f} tokens or more. Are sentences marked? A CRF "
            "learns from sentences, and a Doc without sentence starts counts as one."
        )
    elif lengths.longest > LONG_SEQUENCE:
        text = f"a sequence of {lengths.longest} tokens. Is it a sentence?"
    if text:
        found.append(Finding("warn", f"{where(lengths.where, lengths.file)}: {text}"))
    if part.odd.count:
        text = f"{_number(part.odd.count, 'odd token')}. Is the file in the right encoding, with the right columns?"
        found.append(Finding("warn", text, _listed(part.odd, where)))
    return found


def _of_column(name: str, column: Column, where: Where, strict: bool) -> list[Finding]:
    found = []
    if column.unreadable.count:
        number = _number(column.unreadable.count, "sequence")
        advice = f"Check which column is {name!r}."
        if any(IOBES.search(place.text) for place in column.unreadable.first):
            advice = "They look like IOBES: write U- for S-, L- for E-, and give --scheme BILUO."
        text = f"{name}: {number} with tags that are none of {column.scheme}. {advice}"
        found.append(Finding("fail", text, _listed(column.unreadable, where)))
    broken = column.invalid.count - column.unreadable.count
    if broken > 0:
        advice = "They are read as the CoNLL scorer does; mend them."
        if broken / column.sequences > INVALID:
            advice = "Most likely the corpus is in another scheme."
        elif strict:
            advice = 'Mend them, or set on_invalid = "conlleval".'
        text = f"{name}: {broken:,} of {column.sequences:,} sequences have tags that are not valid {column.scheme}."
        found.append(Finding("fail" if strict else "warn", f"{text} {advice}", _listed(column.invalid, where)))
    return found


def _of_labels(name: str, column: Column, where: Where) -> list[Finding]:
    if not column.labels:
        return [Finding("fail", f"{name}: nothing is annotated, so nothing can be learned. Check the columns.")]
    found: list[Finding] = []

    def warn(text: str, places: tuple[str, ...] = ()) -> None:
        found.append(Finding("warn", f"{name}: {text}", places))

    if column.scheme == PLAIN and len(column.labels) < 2:
        (only,) = column.labels
        warn(f"all tokens have the label {only!r}; there is nothing to tell apart.")
    if rare := [f"{label} ({n})" for label, n in column.labels.most_common() if n < RARE]:
        number = _number(len(rare), "label")
        warn(f"{number} on fewer than {RARE} {column.unit}: {_some(rare)}. Annotate more, or merge.")
    folded = Counter(label.casefold() for label in column.labels)
    if twins := sorted(label for label in column.labels if folded[label.casefold()] > 1):
        warn(f"labels differ by case only: {_some(twins)}. Write them alike.")
    if column.conflicts.count:
        number = _number(column.conflicts.count, "repeated sentence")
        warn(f"{number} labelled differently. Make them agree.", _listed(column.conflicts, where))
    return found or [
        Finding("good", f"{name}: {_number(len(column.labels), 'label')}, all on {RARE} {column.unit} or more")
    ]


def overlap_findings(train: Part, dev: Part) -> list[Finding]:
    """Return the findings about the two parts together."""
    shared = overlap(train, dev)
    share = shared.same / max(1, shared.compared)
    text = f"{shared.same:,} of {shared.compared:,} dev sentences of {COMPARED} tokens or more are in train, too"
    if share > LEAK:
        first = Finding("warn", f"{text} ({100 * share:.1f} %): scores will be too good. Take them out of one.")
    else:
        first = Finding("good", text)
    larger = len(dev.lengths) > len(train.lengths)
    warnings = ["dev has more sentences than train. Are the files swapped?"] if larger else []
    warnings += [
        f"{name}: {_number(len(labels), 'label')} in dev only, which can never be predicted: {_some(labels)}."
        for name, labels in shared.new_labels.items()
        if labels
    ]
    warnings += [
        f"{name}: {_number(count, 'shared sentence')} labelled differently. Make them agree."
        for name, count in shared.conflicts.items()
        if count
    ]
    return [first, *(Finding("warn", text) for text in warnings)]


def _listed(places: Places, where: Where, limit: int = 3) -> tuple[str, ...]:
    shown = tuple(f"{where(line, file)}: {text}" for line, text, file in places.first[:limit])
    return (*shown, "...") if places.count > limit else shown


def _number(count: int, thing: str) -> str:
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"


def _some(names: Sequence[str], limit: int = 12) -> str:
    return ", ".join(names[:limit]) + (", ..." if len(names) > limit else "")
