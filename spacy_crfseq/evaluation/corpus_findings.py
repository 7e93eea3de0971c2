"""What in a corpus will make trouble in training, from its counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from .corpus import COMPARED, PLAIN, Column, Overlap, Part, Places, lengths_of

RARE = 5
"""Labels on fewer tokens, or spans, are rare: about as many as it takes to be met in both parts."""
LONG_SEQUENCE = 200
"""Tokens; longer sequences are mostly documents whose sentences were lost."""
LEAK = 0.01
"""Share of development sentences that are in the training part, from which scores cannot be trusted."""
INVALID = 0.05
"""Share of sentences with invalid tags, from which the scheme is the wrong one."""

Where = Callable[[int], str]
"""Names a place in a file: "train.conll:12"."""


class Finding(NamedTuple):
    """Something to know or to mend.

    severity (str): "good", "warn" (training works, but), or "fail" (training cannot work).
    text (str): What it is and what to do.
    places (tuple[str, ...]): The first few places, and what is there.
    """

    severity: Literal["good", "warn", "fail"]
    text: str
    places: tuple[str, ...] = ()


def findings_of(part: Part, where: Where, *, strict: bool = False, learnt: bool = True) -> list[Finding]:
    """Return what is to be known and mended about a part that holds sentences.

    strict (bool): Whether the corpus reader refuses invalid tags.
    learnt (bool): Whether it is the one that is trained on.
    """
    found = _of_text(part, where)
    for name, column in part.columns.items():
        found += _of_column(name, column, where, strict)
        if learnt:
            found += _of_labels(name, column, where)
    return found


def _of_text(part: Part, where: Where) -> list[Finding]:
    found = []
    lengths = lengths_of(part)
    text = ""
    if lengths.most > LONG_SEQUENCE:
        text = (
            f"sequences are long, 5 % of them have {lengths.most:.0f} tokens or more. Are sentences marked? A CRF "
            "learns from sentences, and a Doc without sentence starts counts as one."
        )
    elif lengths.longest > LONG_SEQUENCE:
        text = f"a sequence of {lengths.longest} tokens. Is it a sentence?"
    if text:
        found.append(Finding("warn", f"{where(lengths.where)}: {text}"))
    if part.odd.count:
        text = f"{_number(part.odd.count, 'odd token')}. Is the file in the right encoding, with the right columns?"
        found.append(Finding("warn", text, _listed(part.odd, where)))
    return found


def _of_column(name: str, column: Column, where: Where, strict: bool) -> list[Finding]:
    found = []
    if column.unreadable.count:
        number = _number(column.unreadable.count, "sequence")
        text = f"{name}: {number} with tags that are none of {column.scheme}. Check which column is {name!r}."
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
    """Return what a column is worth to learn from."""
    found = []
    if not column.labels:
        return [Finding("fail", f"{name}: nothing is annotated, so nothing can be learnt. Check the columns.")]
    if column.scheme == PLAIN and len(column.labels) < 2:
        (only,) = column.labels
        found.append(Finding("warn", f"{name}: all tokens have the label {only!r}; there is nothing to tell apart."))
    rare = [f"{label} ({n})" for label, n in column.labels.most_common() if n < RARE]
    if rare:
        number = _number(len(rare), "label")
        text = f"{name}: {number} on fewer than {RARE} {column.unit}: {_some(rare)}. Annotate more, or merge."
        found.append(Finding("warn", text))
    folded = Counter(label.casefold() for label in column.labels)
    twins = sorted(label for label in column.labels if folded[label.casefold()] > 1)
    if twins:
        found.append(Finding("warn", f"{name}: labels differ by case only: {_some(twins)}. Write them alike."))
    if column.conflicts.count:
        number = _number(column.conflicts.count, "repeated sentence")
        text = f"{name}: {number} labelled differently. Make them agree."
        found.append(Finding("warn", text, _listed(column.conflicts, where)))
    if not found:
        found.append(Finding("good", f"{name}: {len(column.labels)} labels, all on {RARE} {column.unit} or more"))
    return found


def overlap_findings(shared: Overlap) -> list[Finding]:
    """Return what is to be known about the two parts together."""
    found = []
    share = shared.same / max(1, shared.compared)
    text = f"{shared.same:,} of {shared.compared:,} dev sentences of {COMPARED} tokens or more are in train, too"
    if share > LEAK:
        found.append(Finding("warn", f"{text} ({100 * share:.1f} %): scores will be too good. Take them out of one."))
    else:
        found.append(Finding("good", text))
    for name, labels in shared.new_labels.items():
        if labels:
            number = _number(len(labels), "label")
            text = f"{name}: {number} in dev only, which can never be predicted: {_some(labels)}."
            found.append(Finding("warn", text))
    for name, count in shared.conflicts.items():
        if count:
            number = _number(count, "shared sentence")
            found.append(Finding("warn", f"{name}: {number} labelled differently. Make them agree."))
    return found


def _listed(places: Places, where: Where, limit: int = 3) -> tuple[str, ...]:
    shown = tuple(f"{where(line)}: {text}" for line, text in places.first[:limit])
    return (*shown, "...") if places.count > limit else shown


def _number(count: int, thing: str) -> str:
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"


def _some(names: Sequence[str], limit: int = 12) -> str:
    return ", ".join(names[:limit]) + (", ..." if len(names) > limit else "")
