"""The report of ``crfseq debug-data`` as JSON and as tables: counts, templates and cost, then what to fix."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NamedTuple

from ..corpora import Preset
from ..errors import CrfError
from ..evaluation.corpus import Part, lengths_of, overlap
from ..evaluation.corpus_findings import Finding
from ._prospects import Component, Expense
from ._suspects import Suspects
from .console import cut, printer

SHOWN = 10
"""Errors of a file that are shown."""
LABEL_ROWS = 50
CORPUS_ROWS = (
    "sequences", "tokens", "distinct words", "tokens of a sentence, median", "95 % have at most", "longest",
    "repeated sentences",
)  # fmt: skip
TEMPLATE = 32
"""Characters of a template's name, so that the table fits into a terminal."""
MARKS = {"good": "ok  ", "warn": "warn", "fail": "FAIL"}
"""Plain marks for output that is not a terminal."""


class Errors:
    """Errors in the lines of a file: their number, and the first ones."""

    def __init__(self) -> None:
        self.count, self.first = 0, list[str]()

    def __call__(self, error: CrfError) -> None:
        self.count += 1
        self.first += [str(error)] * (len(self.first) < SHOWN)


class Report(NamedTuple):
    """All findings."""

    layout: Preset
    files: dict[str, Path]
    parts: dict[str, Part]
    errors: dict[str, Errors]
    components: dict[str, Component]
    expense: Expense | None
    findings: list[Finding]
    suspects: Suspects | None = None

    @property
    def failed(self) -> bool:
        """Whether training cannot work."""
        return any(finding.severity == "fail" for finding in self.findings)

    def as_json(self) -> dict[str, Any]:
        """Return the report as values for JSON."""
        return {
            "layout": {"name": self.layout.name, "columns": self.layout.columns, "scheme": self.layout.scheme},
            "files": {name: str(path) for name, path in self.files.items()},
            "parts": {name: part.as_json() for name, part in self.parts.items()},
            "errors": {name: {"count": one.count, "first": one.first} for name, one in self.errors.items()},
            "components": {name: component.as_json() for name, component in self.components.items()},
            "cost": self.expense and self.expense._asdict(),
            "label_errors": self.suspects and self.suspects.as_json(),
            "findings": [finding._asdict() for finding in self.findings],
            "ok": not self.failed,
        }


def print_report(report: Report) -> None:
    """Print a report."""
    say = printer()
    _print_corpus(say, report)
    for name in report.parts["train"].columns:
        _print_labels(say, report, name)
    for name, component in report.components.items():
        _print_component(say, name, component)
    if report.expense is not None:
        _print_cost(say, report)
    if report.suspects is not None:
        _print_suspects(say, report.suspects)
    for name, errors in report.errors.items():
        if errors.count > 1:
            say.divider(f"{report.files[name]}: {errors.count:,} lines cannot be read")
            print(*errors.first, *(["..."] if errors.count > len(errors.first) else []), sep="\n")
    say.divider("What to fix")
    for severity in ("fail", "warn", "good"):
        for finding in report.findings:
            if finding.severity == severity:
                if sys.stdout.isatty():
                    getattr(say, severity)(finding.text)
                else:
                    print(MARKS[severity], finding.text)
                print(*(f"       {place}\n" for place in finding.places), sep="", end="")


def _print_corpus(say: Any, report: Report) -> None:
    whole = {name: part for name, part in report.parts.items() if part.lengths}
    if not whole:
        return
    say.divider("Corpus")
    each = [(part, lengths_of(part)) for part in whole.values()]
    cells = [
        (
            f"{len(part.lengths):,}", f"{part.tokens:,}", f"{len(part.words):,}", f"{lengths.median:.0f}",
            f"{lengths.most:.0f}", f"{lengths.longest:,}", f"{part.repeated:,}",
        )
        for part, lengths in each
    ]  # fmt: skip
    rows: list[tuple[str, ...]] = list(zip(CORPUS_ROWS, *cells, strict=True))
    if len(whole) == 2:
        shared = overlap(whole["train"], whole["dev"])
        rows.append(("tokens of words not in train", "", f"{100 * shared.unseen_words:.1f} %"))
        for name, (same, other, never) in shared.seen_spans.items():
            total = max(1, same + other + never)
            for text, number in ((f"{name} spans seen in train", same), ("seen as another type only", other)):
                rows.append((text, "", f"{100 * number / total:.0f} %"))
    say.table(rows, header=("", *whole), aligns=("l", *"r" * len(whole)), divider=True)


def _print_labels(say: Any, report: Report, name: str) -> None:
    columns = {part: counts.columns[name] for part, counts in report.parts.items() if name in counts.columns}
    train = columns["train"]
    labels = list(dict.fromkeys(label for column in columns.values() for label, _ in column.labels.most_common()))
    say.divider(f"{name}: {len(labels)} labels")
    rows = [(label, *(f"{column.labels[label]:,}" for column in columns.values())) for label in labels[:LABEL_ROWS]]
    say.table(rows, header=(train.unit, *columns), aligns=("l", *"r" * len(columns)), divider=True)
    if len(labels) > LABEL_ROWS:
        print(f"... and {len(labels) - LABEL_ROWS} more")


def _print_component(say: Any, name: str, component: Component) -> None:
    say.divider(f"{name}: {len(component.templates)} templates, {component.attributes:,} attributes")
    dead, room = set(component.dead()), TEMPLATE if sys.stdout.isatty() else sys.maxsize
    rows = [
        (
            cut(use.name, room),
            f"{use.features:,}",
            f"{100 * use.once / max(1, use.features):.0f} %",
            f"{100 * use.tokens / max(1, component.n_tokens):.0f} %",
            "no effect" if use.name in dead else "",
        )
        for use in component.templates
    ]
    header = ("template", "attributes", "on one token", "fires on", "")
    say.table(rows, header=header, aligns=("l", "r", "r", "r", "l"), divider=True)
    for term in component.terms:
        counts = f"{term.sentences:,} sentences, {term.tokens:,} tokens, {100 * term.unknown:.1f} % not in train"
        print(f"Term {term.name} ({term.corpus}, {term.weight:g} * {term.loss}): {counts}")


def _print_cost(say: Any, report: Report) -> None:
    assert report.expense is not None
    say.divider("Cost of crfseq fit here")
    rows = [("reading and encoding", "", "", f"{report.expense.encoding:.1f} s")]
    for name, component in report.components.items():
        cost = component.cost
        if cost is not None:
            count = f"{'at most' if cost.bounded else 'about'} {cost.iterations:,} iterations"
            times = f"{cost.iteration_seconds:.2f} s", f"{cost.seconds:.1f} s"
            rows.append((f"{name}, {cost.n_parameters:,} weights", count, *times))
    memory = "" if report.expense.megabytes is None else f"{report.expense.megabytes:,.0f} MB of memory"
    rows.append(("together", memory, "", f"{report.expense.encoding + report.expense.training:.0f} s"))
    say.table(rows, aligns=("l", "r", "r", "r"))


def _print_suspects(say: Any, suspects: Suspects) -> None:
    for name, found in suspects.worst.items():
        say.divider(f"{name}: likely annotation errors, most suspicious first")
        for one in found:
            odds = f"({one.p_gold:.2g}), predicted {one.predicted} ({one.p_predicted:.2f})"
            print(f"{one.where}: annotated {one.gold} {odds}", f"    {one.text}", sep="\n")
        count, took = suspects.counts[name], f"{suspects.folds} trainings, {suspects.seconds:.0f} s"
        print(f"{len(found):,} of {count:,} places where a model that was not trained on them disagrees ({took}).")
