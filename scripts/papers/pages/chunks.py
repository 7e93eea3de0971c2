"""Rows of the page's tables: Sokolovska (2010) on CoNLL-2000, and those that CoNLL-2003 has, too."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from scripts.papers._harness import Results, Row, config
from scripts.papers.figures import draw_lines, drawn
from scripts.papers.tables import Section, by, paper_column, paper_rows, section, shown, stored


def _patterns(name: str, rows: list[Row], _: Results) -> Section:
    """Return errors and weights of each pattern."""
    runs, patterns, published = by(rows, "pattern"), config(name)["patterns"], paper_rows(name)
    errors = {pattern: row["errors"] for pattern, row in runs.items()}
    far = [
        abs(errors[pattern][part] - error)
        for pattern, theirs in published.items() if pattern in errors
        for part, error in theirs.items()
    ]  # fmt: skip

    def in_order(part: str) -> bool:
        theirs = [published[pattern][part] for pattern in sorted(errors, key=lambda pattern: errors[pattern][part])]
        return theirs == sorted(theirs)

    lines = [{**row, "name": patterns[pattern]["name"]} for pattern, row in runs.items()]
    return Section(lines, {"rows": runs, "far": far, "in_order": in_order})


def _thresholds(rows: list[Row], _: Results) -> Section:
    """Return the scores without the weights up to a size."""
    runs = by(rows, "threshold")

    def score(size: float, name: str) -> float:
        return score_of(runs[size], name)

    lines = [{**row, "title": f"up to {size:g}" if size else "none"} for size, row in runs.items()]
    return Section(lines, {"score": score})


def score_of(row: Row, name: str) -> float:
    """Return a score of a row by part and kind, such as "test f1"."""
    part, kind = name.split()
    return float(row["scores"][part][kind])


def _sparse(name: str, choose: Callable[[list[Row]], Row], rows: list[Row], _: Results) -> Section:
    """Return the weights that an L1 norm leaves of each pattern of features."""
    row, published = choose(rows), paper_rows(f"{name}-sparse")
    kept = {pattern: {"all": all_, "left": left} for pattern, (all_, left) in row["kept"].items()}

    def share(numbers: Row) -> float:
        return float(numbers["left"] / numbers["all"])

    names = {
        "ratios": [numbers["left"] / published[pattern]["left"] for pattern, numbers in kept.items()],
        "order": sorted(kept, key=lambda pattern: share(kept[pattern])),
        "published_order": sorted(kept, key=lambda pattern: share(published[pattern])),
        "common": _published_words(name) & set(row["words"]),
        "row": row,
    }
    lines = (
        {"pattern": pattern, **numbers, "share": f"{share(numbers):.2%}".replace("%", " %"),
         "published": published[pattern], "published share": f"{share(published[pattern]):.2%}".replace("%", " %")}
        for pattern, numbers in kept.items()
    )  # fmt: skip
    return Section(lines, names)


def _words(name: str, choose: Callable[[list[Row]], Row], rows: list[Row], _: Results) -> Section:
    """Return the words with the heaviest weights; bold are those that the thesis lists."""
    words, theirs = choose(rows)["words"], _published_words(name)
    ours = ", ".join(f"**{word}**" if word in theirs else word for word in words)
    counts = {"n_words": len(words), "n_common": len(theirs & set(words)), "n_published": len(theirs)}
    return Section([{"words": ours}], counts)


def _published_words(name: str) -> set[str]:
    return set(paper_column("heaviest-words", "words")[name].split())


PUBLISHED_RHO1 = 0.1
"""rho1 of table 7.4, on CoNLL-2003."""

for _name, _choose in (
    ("chunks", lambda rows: rows[0]),
    ("names", lambda rows: by(rows, "rho1")[PUBLISHED_RHO1]),
):
    section(f"{_name}-patterns")(partial(_patterns, _name))
    section(f"{_name}-sparse")(partial(_sparse, _name, _choose))
    section(f"{_name}-words")(partial(_words, _name, _choose))
section("chunks-thresholds", "names-thresholds")(_thresholds)


@section("chunks-scores")
def scores(rows: list[Row], _: Results) -> Section:
    """Return a sentence on the sparse model, and its course."""
    row = rows[0]
    text = (
        f"The error on the test part is {shown(row['errors']['test'])} %, the F1 {shown(row['f1']['test'])}. "
        f"OWL-QN stopped after {row['iterations']} iterations, optimality {shown(row['optimality'])}."
    )
    trace = row.get("trace", [])
    return Section([], {"trace": trace, "course": [note["error"] for note in trace]}, text)


@drawn("chunks-convergence", panels=2)
def draw_convergence(axes: Any, results: Results) -> bool:
    """Draw the error and the weights left after each iteration (figure 7.10)."""
    (trace, *_) = [*(row["trace"] for row in stored(results, "chunks-sparse") if "trace" in row), []]
    for panel, key, title in zip(axes, ("error", "active"), ("test error, %", "weights left"), strict=True):
        points = [(note["iteration"], note[key]) for note in trace]
        draw_lines(panel, {key: points}, yscale="log", xlabel="iteration", ylabel=title)
    return bool(trace)


@section("product")
def product(_: list[Row], results: Results) -> Section:
    """Return a row for each model and part, and the least error beside that of single observations."""
    lines, least = list[Row](), dict[tuple[str, str], tuple[float, float, float]]()
    for name, title in (("chunks", "CoNLL-2000"), ("names", "CoNLL-2003")):
        rows, sparse = stored(results, f"product-{name}"), stored(results, f"{name}-sparse")
        published = {part: paper_rows("product")[name][part] for part in config(name)["files"] if part != "train"}
        for row in rows:
            shared = {**row, "corpus": title}
            lines += [
                {**shared, "part": part, "published": theirs, "error": row["errors"][part], "f1": row["f1"][part]}
                for part, theirs in published.items()
            ]
        for part, theirs in published.items():
            ours, single = (min((row["errors"][part] for row in of), default=math.nan) for of in (rows, sparse))
            least[title, part] = ours, single, theirs
    return Section(lines, {"least": least})
