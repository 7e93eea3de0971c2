"""Tables of the page: Tsuboi et al. (2008), on substitute data."""

from __future__ import annotations

from scripts.papers._harness import Results
from scripts.papers.page import Section, by, columns, found, section
from scripts.papers.runs.partial import MISSING, OUTSIDE


@section("partial")
def partial_section(results: Results) -> Section:
    """F1 and time against the share of labels that were removed."""
    rows = found(results, "partial")
    text = columns(rows, {
        "labels removed": lambda row: f"{row['removed']:.0%}",
        "treated as": lambda row: row["treatment"] if row["removed"] else "",
        "test F1": "test", "seconds": "seconds", "epochs": "iterations",
    })  # fmt: skip
    return Section(text, {"MISSING": MISSING, "OUTSIDE": OUTSIDE, "run": by(rows, "removed", "treatment")})
