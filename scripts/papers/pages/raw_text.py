"""Tables of the page: Learning from a few labelled and many raw texts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from scripts.papers._harness import Results, config
from scripts.papers.page import Section, by, found, section, table

WITH_RAW = ("hmm_em", "weights", "self_training", "entropy", "expectation", "derived", "knowledge")


def _section(names: Sequence[str], results: Results) -> Section:
    """Return one row for each method, with the columns of several experiments next to each other."""
    runs = {name: by(found(results, name), "method") for name in names}
    head, lines = ["method"], []
    for rows in runs.values():
        labelled = next(iter(rows.values()), {}).get("labelled", "")
        head += [f"{labelled} labelled: setting", "dev", "test", "sd", "seconds"]
    for key, method in config("raw-text")["methods"].items():
        cells: list[Any] = [method["name"]]
        for rows in runs.values():
            row = rows.get(key, {})
            chosen = f"{row['setting']} {row['value']:g}" if row.get("setting") else ""
            cells += [chosen, *(row.get(column) for column in ("dev", "test", "test sd", "seconds"))]
        lines.append(cells)

    def test(name: str, method: str) -> float:
        return float(runs[name][method]["test"])

    def best(name: str, methods: Sequence[str]) -> float:
        """Return the test score of the method with the best dev score."""
        rows = [row for method, row in runs[name].items() if method in methods and "dev" in row]
        return float(max(rows, key=lambda row: row["dev"])["test"])

    return Section(table(head, lines), {"WITH_RAW": WITH_RAW, "test": test, "best": best})


section("cora")(partial(_section, ("cora-25", "cora-300")))
section("spanish-500")(partial(_section, ("spanish-500",)))
