"""What ``crfseq debug-data`` prints: tables of counts, of templates and of costs, then what to fix."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from ._console import cut, printer

if TYPE_CHECKING:
    from ..analysis.corpus import Finding
    from ._prospects import Component
    from .debug_data import Report

LABEL_ROWS = 50
TEMPLATE = 32
"""Characters of a template's name, so that the table fits into a terminal."""
MARKS = {"good": "ok  ", "warn": "warn", "fail": "FAIL"}
"""In the place of wasabi's colours and marks, where there is no terminal."""


def tell(report: Report) -> None:
    """Print a report."""
    say = printer()
    _tell_corpus(say, report)
    for name in report.parts["train"].columns:
        _tell_labels(say, report, name)
    for name, component in report.components.items():
        _tell_component(say, name, component)
    if report.expense is not None:
        _tell_cost(say, report)
    for name, lines in report.errors.items():
        if report.n_errors[name] > 1:
            say.divider(f"{report.files[name]}: {report.n_errors[name]:,} lines cannot be read")
            print(*lines, *(["..."] if report.n_errors[name] > len(lines) else []), sep="\n")
    say.divider("What to fix")
    for severity in ("fail", "warn", "good"):
        for finding in report.findings:
            if finding.severity == severity:
                _tell_finding(finding)


def _tell_finding(finding: Finding) -> None:
    if sys.stdout.isatty():
        getattr(printer(), finding.severity)(finding.text)
    else:
        print(MARKS[finding.severity], finding.text)
    for place in finding.places:
        print(f"       {place}")


def _tell_corpus(say: Any, report: Report) -> None:
    from ..analysis.corpus import lengths_of, overlap

    whole = {name: part for name, part in report.parts.items() if part.lengths}
    if not whole:
        return
    say.divider("Corpus")
    lengths = {name: lengths_of(part) for name, part in whole.items()}
    rows = [
        ("sequences", *(f"{len(part.lengths):,}" for part in whole.values())),
        ("tokens", *(f"{part.tokens:,}" for part in whole.values())),
        ("distinct words", *(f"{len(part.words):,}" for part in whole.values())),
        ("tokens of a sequence, median", *(f"{length.median:.0f}" for length in lengths.values())),
        ("95 % have at most", *(f"{length.most:.0f}" for length in lengths.values())),
        ("longest", *(f"{length.longest:,}" for length in lengths.values())),
        ("repeated sentences", *(f"{part.repeated:,}" for part in whole.values())),
    ]
    if len(whole) == 2:
        shared = overlap(whole["train"], whole["dev"])
        rows.append(("tokens of words not in train", "", f"{100 * shared.unseen_words:.1f} %"))
        for name, (same, other, never) in shared.seen_spans.items():
            total = max(1, same + other + never)
            for text, number in ((f"{name} spans seen in train", same), ("seen as another type only", other)):
                rows.append((text, "", f"{100 * number / total:.0f} %"))
    say.table(rows, header=("", *whole), aligns=("l", *"r" * len(whole)), divider=True)


def _tell_labels(say: Any, report: Report, name: str) -> None:
    columns = {part: counts.columns[name] for part, counts in report.parts.items() if name in counts.columns}
    train = columns["train"]
    what = "tokens" if train.scheme == "plain" else "spans"
    labels = list(dict.fromkeys(label for column in columns.values() for label, _ in column.labels.most_common()))
    say.divider(f"{name}: {len(labels)} labels")
    rows = [(label, *(f"{column.labels[label]:,}" for column in columns.values())) for label in labels[:LABEL_ROWS]]
    header = (what, *columns)
    say.table(rows, header=header, aligns=("l", *"r" * len(columns)), divider=True)
    if len(labels) > LABEL_ROWS:
        print(f"... and {len(labels) - LABEL_ROWS} more")


def _tell_component(say: Any, name: str, component: Component) -> None:
    attributes = sum(use.attributes for use in component.templates)
    say.divider(f"{name}: {len(component.templates)} templates, {attributes:,} attributes")
    dead = set(component.dead())
    rows = [
        (
            cut(use.name, TEMPLATE) if sys.stdout.isatty() else use.name,
            f"{use.attributes:,}",
            f"{100 * use.once / max(1, use.attributes):.0f} %",
            f"{100 * use.tokens / max(1, component.n_tokens):.0f} %",
            "tells nothing" if use.name in dead else "",
        )
        for use in component.templates
    ]
    header = ("template", "attributes", "on one token", "fires on", "")
    say.table(rows, header=header, aligns=("l", "r", "r", "r", "l"), divider=True)


def _tell_cost(say: Any, report: Report) -> None:
    assert report.expense is not None
    say.divider("Cost of crfseq fit here")
    rows = [("reading and encoding", "", "", f"{report.expense.encoding:.1f} s")]
    for name, component in report.components.items():
        cost = component.cost
        if cost is not None:
            count = f"{'at most' if cost.bounded else 'about'} {cost.iterations:,} iterations"
            rows.append(
                (
                    f"{name}, {cost.n_parameters:,} weights",
                    count,
                    f"{cost.iteration_seconds:.2f} s",
                    f"{cost.seconds:.1f} s",
                )
            )
    memory = "" if report.expense.megabytes is None else f"{report.expense.megabytes:,.0f} MB of memory"
    rows.append(("together", memory, "", f"{report.expense.encoding + report.expense.training:.0f} s"))
    say.table(rows, aligns=("l", "r", "r", "r"))
