"""Tables of the page: Sokolovska (2010) on CoNLL-2000, and those that CoNLL-2003 has, too."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from scripts.papers._harness import Results, Row, config
from scripts.papers.figures import draw_lines, drawn
from scripts.papers.page import Section, against, by, columns, found, paper_cells, paper_rows, section, shown, table


def patterns_section(name: str, results: Results) -> Section:
    """Return errors and weights of each pattern, beside the published errors."""
    rows, published = by(found(results, f"{name}-patterns"), "pattern"), paper_cells(name)
    settings = config(name)

    def beside(part: str) -> dict[str, Any]:
        return {
            f"{part} error %, published": lambda row: published[row["pattern"], part],
            f"{part} error %, ours": f"errors.{part}",
        }

    chosen: dict[str, Any] = {"pattern": lambda row: settings["patterns"][row["pattern"]]["name"], "weights": "weights"}
    for part in settings["files"]:
        chosen |= beside(part)
    chosen |= {f"{part} F1": f"f1.{part}" for part in settings["files"] if part != "train"}
    text = columns(rows.values(), {**chosen, "iterations": "iterations", "optimality": "optimality"})
    errors = {pattern: row["errors"] for pattern, row in rows.items()}
    far = [abs(errors[pattern][part] - theirs) for (pattern, part), theirs in published.items() if pattern in errors]

    def in_order(part: str) -> bool:
        theirs = [published[pattern, part] for pattern in sorted(errors, key=lambda pattern: errors[pattern][part])]
        return theirs == sorted(theirs)

    return Section(text, {"rows": rows, "errors": errors, "far": far, "in_order": in_order})


def thresholds_section(name: str, results: Results) -> Section:
    """Return the scores without the weights up to a size, beside the published ones."""
    rows, published = by(found(results, f"{name}-patterns"), "threshold"), paper_cells(f"{name}-thresholds")
    scores = [column for size, column in published if size == 0.0 and column != "active"]
    titles = ["weights left", *(score.replace("f1", "F1") for score in scores)]
    lines = []
    for size, row in rows.items():
        both = [int(published[size, "active"]), row["active"]["all"]]
        both += [figure for score in scores for figure in (published[size, score], score_of(row, score))]
        lines.append([f"up to {size:g}" if size else "none", *both])
    text = table(["set to zero", *(f"{title}, {whose}" for title in titles for whose in ("published", "ours"))], lines)

    def score(size: float, name: str) -> float:
        return score_of(rows[size], name)

    return Section(text, {"score": score, "active": {size: row["active"]["all"] for size, row in rows.items()}})


def score_of(row: Row, name: str) -> float:
    """Return a score of a row by part and kind, such as "test f1"."""
    part, kind = name.split()
    return float(row["scores"][part][kind])


def kept_section(name: str, choose: Callable[[list[Row]], Row], results: Results) -> Section:
    """Return the weights that an L1 norm leaves of each pattern of features, beside the published numbers."""
    row, published = choose(found(results, f"{name}-sparse")), paper_cells(f"{name}-sparse")
    titles = ("weights", "left", "share left")
    head = ["pattern", *(f"{title}, {whose}" for title in titles for whose in ("published", "ours"))]
    lines = []
    for pattern, (all_, left) in row["kept"].items():
        theirs = [int(published[pattern, column]) for column in ("all", "left")]
        share = [f"{100 * part:.2f} %" for part in (theirs[1] / theirs[0], left / all_)]
        lines.append([pattern, theirs[0], all_, theirs[1], left, *share])
    names = {
        "ratios": [left / published[pattern, "left"] for pattern, (_, left) in row["kept"].items()],
        "order": sorted(row["kept"], key=lambda pattern: row["kept"][pattern][1] / row["kept"][pattern][0]),
        "published_order": sorted(
            row["kept"], key=lambda pattern: published[pattern, "left"] / published[pattern, "all"]
        ),
        "common": _published_words(name) & set(row["words"]),
        "row": row,
    }
    return Section(table(head, lines), names)


def words_section(name: str, choose: Callable[[list[Row]], Row], results: Results) -> Section:
    """Return the words with the heaviest weights; bold are those that the thesis lists."""
    words, theirs = choose(found(results, f"{name}-sparse"))["words"], _published_words(name)
    ours = ", ".join(f"**{word}**" if word in theirs else word for word in words)
    both = len(theirs & set(words))
    head = f"the {len(words)} heaviest words, {both} of them (bold) among the {len(theirs)} of the thesis"
    return Section(table([head], [[ours]]))


def _published_words(name: str) -> set[str]:
    return set(paper_rows("heaviest-words")[name].split())


PUBLISHED_RHO1 = 0.1
"""rho1 of table 7.4, on CoNLL-2003."""

for _name, _choose in (
    ("chunks", lambda rows: rows[0]),
    ("names", lambda rows: by(rows, "rho1")[PUBLISHED_RHO1]),
):
    section(f"{_name}-patterns")(partial(patterns_section, _name))
    section(f"{_name}-thresholds", f"{_name}-patterns")(partial(thresholds_section, _name))
    section(f"{_name}-sparse")(partial(kept_section, _name, _choose))
    section(f"{_name}-words", f"{_name}-sparse")(partial(words_section, _name, _choose))


@section("chunks-scores", "chunks-sparse")
def scores_section(results: Results) -> Section:
    """Figure 7.10."""
    row = found(results, "chunks-sparse")[0]
    text = (
        f"The error on the test part is {shown(row['errors']['test'])} %, the F1 {shown(row['f1']['test'])}. "
        f"OWL-QN stopped after {row['iterations']} iterations, optimality {shown(row['optimality'])}."
    )
    trace = row.get("trace", [])
    return Section(text, {"trace": trace, "course": [note["error"] for note in trace]})


@drawn("chunks-convergence", panels=2)
def draw_convergence(axes: Any, results: Results) -> bool:
    """Draw the error and the weights left after each iteration (figure 7.10)."""
    (trace, *_) = [*(row["trace"] for row in found(results, "chunks-sparse") if "trace" in row), []]
    for panel, key, title in zip(axes, ("error", "active"), ("test error, %", "weights left"), strict=True):
        points = [(note["iteration"], note[key]) for note in trace]
        draw_lines(panel, {key: points}, yscale="log", xlabel="iteration", ylabel=title)
    return bool(trace)


@section("product")
def product_section(results: Results) -> Section:
    """The first experiment of section 7.3.3."""
    lines, least = [], dict[tuple[str, str], tuple[float, float, float]]()
    for name, title in (("chunks", "CoNLL-2000"), ("names", "CoNLL-2003")):
        rows, sparse = found(results, f"product-{name}"), found(results, f"{name}-sparse")
        parts = [part for part in config(name)["files"] if part != "train"]
        published = {part: paper_cells("product")[name, part] for part in parts}
        lines += [
            [title, row["rho1"], part, against(published[part], row["errors"][part]), row["f1"][part],
             row["errors"]["train"], row["active"]["all"], row["size"], row["iterations"], row["optimality"]]
            for row in rows for part in parts
        ]  # fmt: skip
        for part in parts:
            ours, single = (min((row["errors"][part] for row in of), default=math.nan) for of in (rows, sparse))
            least[title, part] = ours, single, published[part]
    head = ["corpus", "rho1", "part", "error %", "F1", "training error %", "weights left", "weights"]
    return Section(table([*head, "iterations", "optimality"], lines), {"least": least})
