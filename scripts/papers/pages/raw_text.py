"""Rows of the page's tables: learning from a few labelled and many raw texts."""

from __future__ import annotations

from collections.abc import Sequence

from scripts.papers._harness import Results, Row, config
from scripts.papers.tables import Section, section

WITH_RAW = ("hmm_em", "weights", "self_training", "entropy", "expectation", "derived", "knowledge")


@section("cora", "spanish-500")
def compared(rows: list[Row], _: Results) -> Section:
    """Return a row for each method, with its figures in several experiments."""
    runs: dict[str, dict[str, Row]] = {}
    for row in rows:
        runs.setdefault(row["run"], {})[row["method"]] = row

    def line(key: str, name: str) -> Row:
        of_runs = {run: _with_choice(methods[key]) for run, methods in runs.items() if key in methods}
        return {"name": name, **of_runs}

    def test(run: str, method: str) -> float:
        return float(runs[run][method]["test"])

    def best(run: str, methods: Sequence[str]) -> float:
        """Return the test score of the method with the best dev score."""
        scored = [row for method, row in runs[run].items() if method in methods and "dev" in row]
        return float(max(scored, key=lambda row: row["dev"])["test"])

    lines = [line(key, method["name"]) for key, method in config("raw-text")["methods"].items()]
    return Section(lines, {"WITH_RAW": WITH_RAW, "test": test, "best": best})


def _with_choice(row: Row) -> Row:
    """Return a row with the chosen value of its setting."""
    return {**row, "chosen": f"{row['setting']} {row['value']:g}" if row.get("setting") else ""}
