"""Tables of the page: Sokolovska (2010), section 5.2, on CoNLL-2003."""

from __future__ import annotations

from scripts.papers._harness import Results
from scripts.papers.cells import ORDINARY, WEIGHTED
from scripts.papers.page import Section, by, columns, found, section
from scripts.papers.runs.documents import DRAWN


@section("documents")
def documents_section(results: Results) -> Section:
    """Figure 5.6."""
    rows = found(results, "documents")
    text = columns(rows, {"estimator": "estimator", "n": "n", "rho n": "rho n", "error %": "mean", "+/-": "deviation"})
    return Section(
        text, {"DRAWN": DRAWN, "ORDINARY": ORDINARY, "WEIGHTED": WEIGHTED, "run": by(rows, "estimator", "n")}
    )
