"""Rows of the page's table: Tsuboi et al. (2008), on substitute data."""

from __future__ import annotations

from scripts.papers._harness import Results, Row
from scripts.papers.tables import Section, section


@section("partial")
def partial(rows: list[Row], _: Results) -> Section:
    """Return the rows with the treatment of labels, where some were removed."""
    return Section({**row, "treated": row["treatment"] if row["removed"] else ""} for row in rows)
