"""Sokolovska (2010) on CoNLL-2003: patterns, thresholds, sparse models along rho1, and other ways to fewer features."""

from __future__ import annotations

from typing import Any

from scripts.papers._harness import Options, Results, Row, experiment
from scripts.papers.chunks import (
    LARGEST,
    Corpus,
    kept_checks,
    kept_table,
    pattern_checks,
    patterns_table,
    run_patterns,
    run_sparse,
    score_of,
    some,
    thresholds_table,
    words_text,
)
from scripts.papers.figures import drawn
from scripts.papers.page import Check, Table, checks, figure, found, section, table

CUT_OFF, INFORMATION = "count cut-off", "mutual information"


@experiment("names-patterns", "CoNLL-2003, patterns of features under an L2 norm, and thresholds", 5)
def patterns(options: Options) -> list[Row]:
    """Return the rows of tables 3.5, 3.8 and 6.2."""
    return run_patterns(Corpus("names", options))


@experiment("names-sparse", "CoNLL-2003, what an L1 norm leaves of each pattern, along rho1", 3)
def sparse(options: Options) -> list[Row]:
    """Return the rows of tables 7.4 and 7.6, and of figures 7.9 and 7.11."""
    return run_sparse(Corpus("names", options))


@experiment("names-selection", "CoNLL-2003, fewer features by count cut-offs and mutual information", 6)
def selection(options: Options) -> list[Row]:
    """Return the rows of figures 7.17 and 7.18 for models that are trained on a part of the features."""
    from spacy_crfseq.training.selection import most_informative

    corpus = Corpus("names", options)
    method, settings = corpus.settings["methods"]["chosen"], corpus.settings["selection"]
    rows = []
    for least in settings["counts"]:
        task = corpus.task(LARGEST, min_count=least)
        rows.append(corpus.row(task, task.fit(method), how=CUT_OFF, setting=least))
    task = corpus.task(LARGEST)
    for number in settings["information"]:
        part = most_informative(task.layout, task.data, options.few(number // 100, number))
        rows.append(corpus.row(task, task.fit(method, layout=part), how=INFORMATION, setting=number))
    return rows


# The page

PUBLISHED_RHO1 = 0.1
"""rho1 of table 7.4."""
THRESHOLD, NORM = "small weights dropped", "L1 norm"
Point = tuple[int, float, float]
"""Weights left, error and F1 on B."""


@section("names-patterns")
def patterns_section(results: Results) -> str:
    """Tables 3.5, 3.8 and 6.2."""
    errors = {row["pattern"]: row["errors"] for row in found(results, "names-patterns") if "pattern" in row}
    cut = {row["threshold"]: row for row in found(results, "names-patterns") if "threshold" in row}
    wanted = [
        *pattern_checks(results, "names"),
        Check(
            "single observations with label pairs do not generalize better than without, as published",
            lambda: all(errors["bigrams"][part] > errors["unigrams"][part] for part in ("A", "B")),
        ),
    ]
    dropped = [
        Check(
            "without the weights up to 0.25, F1 falls by less than a point on both parts",
            lambda: all(
                score_of(cut[0.25], f"{part} f1") > score_of(cut[0.0], f"{part} f1") - 1 for part in ("A", "B")
            ),
        ),
        Check(
            "without the weights up to 1, F1 is lower by one to four points",
            lambda: all(
                1 < score_of(cut[0.0], f"{part} f1") - score_of(cut[1.0], f"{part} f1") < 4 for part in ("A", "B")
            ),
        ),
    ]
    between = "Table 6.2: the weights of the last pattern up to a size are set to zero."
    parts = [patterns_table(results, "names"), checks(wanted), between, thresholds_table(results, "names")]
    return "\n\n".join([*parts, checks(dropped)])


@section("names-sparse")
def sparse_section(results: Results) -> str:
    """Tables 7.4 and 7.6, figures 7.9 and 7.11."""
    rows = found(results, "names-sparse")
    by_rho1 = {row["rho1"]: row for row in rows}
    head = [
        "rho1",
        "A error %",
        "B error %",
        "A F1",
        "B F1",
        "left in all",
        "left, of words",
        "iterations",
        "optimality",
    ]
    content = [
        [row["rho1"], *(row["errors"][part] for part in "AB"), *(row["f1"][part] for part in "AB"),
         row["active"]["all"], _of_words(row), row["iterations"], row["optimality"]]
        for row in rows
    ]  # fmt: skip
    wanted = [
        Check(
            "from rho1 = 0.5 downwards, the error on A stays within half a point of the best",
            lambda: all(row["errors"]["A"] <= min(_errors(rows)) + 0.5 for row in some(rows) if row["rho1"] <= 0.5),
        ),
        Check(
            "at rho1 = 2.5 it is more than half a point above the best",
            lambda: by_rho1[2.5]["errors"]["A"] > min(_errors(rows)) + 0.5,
        ),
        Check(
            "from rho1 = 0.5 to 0.01, most of the weights that come back are those of words",
            lambda: (
                2 * (_of_words(by_rho1[0.01]) - _of_words(by_rho1[0.5]))
                > by_rho1[0.01]["active"]["all"] - by_rho1[0.5]["active"]["all"]
            ),
        ),
    ]
    published = by_rho1[PUBLISHED_RHO1]
    picture = figure("names-path", "Error, and weights left of each observation, along rho1")
    parts = [kept_table(published, "names"), checks(kept_checks(published, "names")), words_text(published, "names")]
    return "\n\n".join([*parts, table(Table(head, content)), checks(wanted), picture])


def _of_words(row: Row) -> int:
    return sum(left for pattern, (_, left) in row["kept"].items() if "x1" in pattern)


def _errors(rows: list[Row]) -> list[float]:
    return [row["errors"]["A"] for row in rows]


def _points(results: Results) -> dict[str, list[Point]]:
    """Return, for each way to fewer features, the models that it leads to."""
    points: dict[str, list[Point]] = {
        NORM: [_point(row) for row in found(results, "names-sparse")],
        THRESHOLD: [
            (row["active"]["all"], 100 - score_of(row, "B accuracy"), score_of(row, "B f1"))
            for row in found(results, "names-patterns")
            if "threshold" in row
        ],
    }
    for how in (CUT_OFF, INFORMATION):
        points[how] = [_point(row) for row in found(results, "names-selection") if row["how"] == how]
    return {how: sorted(each) for how, each in points.items()}


def _point(row: Row) -> Point:
    return row["active"]["all"], row["errors"]["B"], row["f1"]["B"]


@section("names-selection")
def selection_section(results: Results) -> str:
    """Figures 7.17 and 7.18."""
    points = _points(results)
    content = [[how, *point] for how, each in points.items() for point in each]

    def best(how: str, most: int) -> float:
        return max(f1 for left, _, f1 in points[how] if left <= most)

    wanted = [
        Check(
            "with at most 30,000 weights, an L1 norm is better than dropping small weights",
            lambda: best(NORM, 30_000) > best(THRESHOLD, 30_000),
        ),
        Check(
            "with at most 30,000 weights, an L1 norm is better than mutual information",
            lambda: best(NORM, 30_000) > best(INFORMATION, 30_000),
        ),
        Check(
            "the sparsest model by a count cut-off has more weights than the densest one by an L1 norm",
            lambda: min(left for left, *_ in points[CUT_OFF]) > max(left for left, *_ in points[NORM]),
        ),
        Check(
            "even so, every cut-off has a higher error on B than the L1 norm at its best",
            lambda: min(error for _, error, _ in points[CUT_OFF]) > min(error for _, error, _ in points[NORM]),
        ),
    ]
    picture = figure("names-selection", "Error and F1 on B against the number of weights left")
    head = ["features left out by", "weights left", "B error %", "B F1"]
    return "\n\n".join([table(Table(head, content)), checks(wanted), picture])


@drawn("names-path", panels=2)
def draw_path(axes: Any, results: Results) -> bool:
    """Draw errors, and what is left of each observation, along rho1."""
    rows = found(results, "names-sparse")
    rho1 = [row["rho1"] for row in rows]
    for part in ("train", "A", "B"):
        axes[0].plot(rho1, [row["errors"][part] for row in rows], "o-", label=part)
    for one, name in (("x1", "words"), ("x2", "parts of speech"), ("x3", "chunks")):
        left = [sum(kept for pattern, (_, kept) in row["kept"].items() if one in pattern) for row in rows]
        axes[1].plot(rho1, left, "o-", label=name)
    axes[0].set(xscale="log", xlabel="rho1", ylabel="error, %")
    axes[1].set(xscale="log", yscale="log", xlabel="rho1", ylabel="weights left")
    if rows:
        axes[0].legend()
        axes[1].legend()
    return bool(rows)


@drawn("names-selection", panels=2)
def draw_selection(axes: Any, results: Results) -> bool:
    """Draw error and F1 against weights left."""
    points = {how: each for how, each in _points(results).items() if each}
    for how, each in points.items():
        for axis, column in ((axes[0], 1), (axes[1], 2)):
            axis.plot([point[0] for point in each], [point[column] for point in each], "o-", label=how)
    axes[0].set(xscale="log", xlabel="weights left", ylabel="error on B, %")
    axes[1].set(xscale="log", xlabel="weights left", ylabel="F1 on B")
    if points:
        axes[0].legend()
    return bool(points)
