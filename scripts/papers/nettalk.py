"""Sokolovska (2010) on NetTalk: feature patterns, training methods, thresholds, and block descent along rho1."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scripts.papers import _harness
from scripts.papers._harness import Options, Row, Skip, experiment
from scripts.papers.figures import drawn
from scripts.papers.page import PUBLISHED, Check, Table, checks, figure, found, section, table
from scripts.papers.tasks import Task, as_examples, changed, read_nettalk, split_words

CONFUSED = ("(y',y,x)", "(y,x) + (y',y,x)")
"""Patterns whose errors are listed."""
MOST = 20
"""Number of confusions and words that are listed."""
THRESHOLDS = (0.0, 0.25, 0.5, 1.0, 2.0)
MAPPED = (0.25, 2.0)
"""Thresholds at which the kept weights of each phoneme and letter are counted."""


def _task(options: Options, settings: Mapping[str, Any], model: Mapping[str, Any]) -> Task:
    import spacy

    pairs = read_nettalk(options.corpus(settings["files"]["all"]))
    if options.quick:
        pairs = pairs[::80]
    nlp = spacy.blank("en")
    train, dev, test = (
        as_examples(nlp, part)
        for part in split_words(pairs, (settings["split"]["train"], settings["split"]["dev"]), options.seed)
    )
    chosen = {key: value for key, value in model.items() if key != "name"}
    component = {**settings["component"], **chosen}
    parts = {"train": train, "dev": dev, "test": test}
    return Task(nlp, component, component.pop("features"), train, parts, quick=options.quick)


def _errors(task: Task, theta: Any, parts: Sequence[str] = ("train", "dev", "test")) -> Row:
    return {f"{part} error": round(100 - task.score(part, theta), 2) for part in parts}


@experiment("nettalk-patterns", "NetTalk, patterns of features under an L2 norm, and the errors of two", 9)
def patterns(options: Options) -> list[Row]:
    """Return a row for each pattern."""
    settings = _harness.config("nettalk")
    options.corpus(settings["files"]["all"])
    rows = []
    for pattern in settings["patterns"].values():
        name = pattern["name"]
        try:
            task = _task(options, settings, pattern)
            trained = task.fit(settings["training"])
            row = task.row(trained, pattern=name, **_errors(task, trained.theta))
            rows.append({**row, **(_mistakes(task, trained.theta) if name in CONFUSED else {})})
        except Skip as reason:
            rows.append({"pattern": name, "skipped": str(reason)})
    return rows


def _mistakes(task: Task, theta: Any) -> Row:
    """Return the most frequent confusions on the test part, words by their errors, and the worst words."""
    words = task.labelled("test", theta)
    confusions = Counter(
        (found, gold)
        for word in words
        for found, gold in zip(word.found, word.gold, strict=True)
        if found != gold
    )
    wrong = Counter(sum(a != b for a, b in zip(word.found, word.gold, strict=True)) for word in words)
    worst = sorted(words, key=lambda word: -word.margin if word.margin > 0 else 0.0)[:MOST]
    return {
        "confusions": [[*pair, count] for pair, count in confusions.most_common(MOST)],
        "words by errors": {str(count): words for count, words in sorted(wrong.items())},
        "worst words": [
            ["".join(part) for part in (word.symbols, word.gold, word.found)] + [round(word.margin, 2)]
            for word in worst
        ],
    }


@experiment("nettalk-methods", "NetTalk, (y,x) + (y',y,x): three methods, and the L2 model cut down", 10)
def methods(options: Options) -> list[Row]:
    """Return a row for each method, with its course, and rows for the L2 model without its smallest weights."""
    settings = _harness.config("nettalk")
    task = _task(options, settings, settings["model"])
    rows = []
    for name, method in settings["methods"].items():
        try:
            trained = task.fit(method, watch=lambda theta: _errors(task, theta, ("test",)))
        except Skip as reason:
            rows.append({"method": name, "skipped": str(reason)})
            continue
        rows.append(task.row(trained, method=name, **_errors(task, trained.theta), trace=trained.trace))
        if name == "L-BFGS":
            rows += _screened(task, trained.theta)
    return rows


def cut(theta: Any, shares: Sequence[float]) -> list[tuple[int, Any]]:
    """Return the weights with only the largest left, for some shares of those that are not zero, and their number."""
    active = int(np.count_nonzero(theta))
    order = np.argsort(-np.abs(theta), kind="stable")
    kept = []
    for share in shares:
        count = max(1, round(share * active))
        smaller = np.zeros_like(theta)
        smaller[order[:count]] = theta[order[:count]]
        kept.append((count, smaller))
    return kept


class Weights(NamedTuple):
    """The weights of (y,x) + (y',y,x).

    unigrams (NDArray): [X, L] of letter and phoneme.
    bigrams (NDArray): [X, L, L] of letter, previous phoneme and phoneme.
    """

    unigrams: NDArray[Any]
    bigrams: NDArray[Any]

    def kept(self, threshold: float) -> Weights:
        """Return 1 for each weight of a greater absolute value, 0 for the others."""
        return Weights(*((np.abs(part) > threshold).astype(np.int64) for part in self))

    def orphans(self) -> NDArray[Any]:
        """Return where there are weights of label pairs without that of the label [X, L]."""
        found: NDArray[Any] = self.bigrams.any(axis=1) & (self.unigrams == 0)
        return found


def weights_of(task: Task, theta: Any, symbols: Sequence[str]) -> Weights:
    """Return the weights of a model with one template per block, in the order of the symbols."""
    unigrams, bigrams = task.rows_of(symbols)
    n, views = len(task.labels), task.layout.views(theta)
    found = views.unigrams.reshape(-1, n)[unigrams], views.bigrams.reshape(-1, n, n)[bigrams]
    found[0][unigrams < 0], found[1][bigrams < 0] = 0, 0
    return Weights(*found)


def _screened(task: Task, theta: Any) -> list[Row]:
    """Return rows for the weights above some thresholds, for the positive ones, and for sizes by phoneme and letter."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    rows: list[Row] = []
    kept = [(threshold, np.where(np.abs(theta) > threshold, theta, 0)) for threshold in THRESHOLDS]
    for threshold, smaller in [*kept, ("positive", np.maximum(theta, 0))]:
        weights = weights_of(task, smaller, letters)
        orphans = int(np.count_nonzero(weights.bigrams * weights.orphans()[:, None]))
        rows.append({"method": "threshold", "threshold": threshold, "active": task.active(smaller)})
        rows[-1] |= {"orphans": orphans, **_errors(task, smaller)}
    whole = weights_of(task, theta, letters)
    maps = {"unigrams": np.abs(whole.unigrams), "bigrams": np.abs(whole.bigrams).sum(axis=1)}
    for threshold in MAPPED:
        counts = whole.kept(threshold)
        orphan = np.where(counts.unigrams == 0, -1, 1)  # negative where the weight of the label is not kept
        maps[f"kept {threshold:g}"] = counts.bigrams.sum(axis=1) * orphan
    for name, values in maps.items():
        rows.append({"method": "map", "map": name, "phonemes": "".join(task.labels), "rows": compact(letters, values)})
    return rows


def compact(names: str, values: NDArray[Any]) -> dict[str, str]:
    """Return a table of numbers as texts, one a row, so that it takes few lines in a file of results."""
    return {name: " ".join(f"{value:.3g}" for value in row) for name, row in zip(names, values, strict=True)}


@experiment("nettalk-path", "NetTalk, block coordinate descent along rho1: error, features, time of a sweep", 5)
def path(options: Options) -> list[Row]:
    """Return a row for each value of a falling rho1, begun where the last one ended, with the time of its sweeps.

    The first sweep builds the method's tables, and the optimality is measured after the last one: neither is timed.
    """
    settings = _harness.config("nettalk")
    task = _task(options, settings, settings["model"])
    theta, rows = None, []
    for rho1 in settings["path"]["rho1"]:
        method = changed(settings["path"]["method"], regularizer={"rho1": rho1})
        trained = task.fit(method, start=theta, watch=lambda weights: {})
        theta = trained.theta
        sweeps = np.diff([note["seconds"] for note in trained.trace])[:-1]
        sweep = round(float(np.median(sweeps)), 3) if len(sweeps) else None
        rows.append(task.row(trained, rho1=rho1, sweep=sweep, **_errors(task, theta)))
    return rows


# The page


def _pattern_rows(results: Results) -> list[Row]:
    """Return the rows of the patterns, that of the largest model before those that are not in the thesis."""
    rows = found(results, "nettalk-patterns")
    methods = found(results, "nettalk-methods")
    largest = [{**row, "pattern": LARGEST} for row in methods if row["method"] == "L-BFGS"]
    return [
        *(row for row in rows if row["pattern"] in PUBLISHED["nettalk"]),
        *largest,
        *(row for row in rows if row["pattern"] not in PUBLISHED["nettalk"]),
    ]


@section("nettalk-patterns")
def patterns_section(results: Results) -> str:
    """Table 3.2."""
    rows = _pattern_rows(results)
    error = {row["pattern"]: row["test error"] for row in rows if "test error" in row}
    published = PUBLISHED["nettalk"]
    head = [
        "pattern",
        "published, error %",
        "ours, test error %",
        "ours, dev",
        "weights",
        "iterations",
        "seconds",
        "optimality",
    ]
    content = [
        [row["pattern"], published.get(row["pattern"], ""), f"not run: {row['skipped']}"]
        if "skipped" in row
        else [
            row["pattern"], published.get(row["pattern"], ""), row["test error"], row["dev error"], row["size"],
            row["iterations"], row["seconds"], row["optimality"],
        ]
        for row in rows
    ]  # fmt: skip
    wanted = [
        Check(
            "each pattern improves on the one before, as published",
            lambda: error["(y,x)"] > error["(y',y) + (y,x)"] > error["(y',y,x)"] >= error["(y,x) + (y',y,x)"],
        ),
        *(
            Check(
                f"{name} within 2 points of the published error",
                lambda name=name: abs(error[name] - published[name]) <= 2,
            )
            for name in published
        ),
        Check("(y,x) + (y',y,x) has an error of at most 14.5 %", lambda: error["(y,x) + (y',y,x)"] <= 14.5),
    ]
    return f"{table(Table(head, content))}\n\n{checks(wanted)}"


def _to_error(row: Row, goal: float) -> float:
    """Return the time after which a method was first at an error or below; infinite where it never was."""
    return next((note["seconds"] for note in row["trace"] if note["test error"] <= goal), float("inf"))


@section("nettalk-methods")
def methods_section(results: Results) -> str:
    """Table 7.2."""
    rows = {row["method"]: row for row in found(results, "nettalk-methods") if row["method"] != "threshold"}
    goal = 0.5 + rows["L-BFGS"]["test error"] if "test error" in rows.get("L-BFGS", {}) else float("nan")
    reached = f"seconds to {goal:.2f} %"
    head = [
        "method",
        "test error %",
        "active features",
        "of",
        "iterations",
        "seconds",
        reached,
        "objective",
        "optimality",
    ]
    content = [
        [name, f"not run: {row['skipped']}"]
        if "skipped" in row
        else [
            name, row["test error"], row["active"]["all"], row["size"], row["iterations"], row["seconds"],
            _or_never(_to_error(row, goal)), row["objective"], row["optimality"],
        ]
        for name, row in rows.items()
    ]  # fmt: skip
    wanted = [
        Check(
            "SBCD with rho1 = 0.2 is within 0.5 points of the L2 model",
            lambda: rows["SBCD"]["test error"] <= rows["L-BFGS"]["test error"] + 0.5,
        ),
        Check("SBCD keeps at most 6,000 active features", lambda: rows["SBCD"]["active"]["all"] <= 6000),
        Check(
            "SBCD reaches that error before OWL-QN",
            lambda: _to_error(rows["SBCD"], goal) < _to_error(rows["OWL-QN"], goal),
        ),
        Check(
            "SBCD and OWL-QN, which minimise the same objective, end within 1 % of each other",
            lambda: abs(rows["SBCD"]["objective"] / rows["OWL-QN"]["objective"] - 1) <= 0.01,
        ),
        Check(
            "the L1 models have fewer than a tenth of the L2 model's features",
            lambda: (
                max(rows[name]["active"]["all"] for name in ("SBCD", "OWL-QN")) < rows["L-BFGS"]["active"]["all"] / 10
            ),
        ),
    ]
    picture = figure("nettalk-methods", "Test error of the four methods against processor time")
    return f"{table(Table(head, content))}\n\n{checks(wanted)}\n\n{picture}"


def _or_never(seconds: float) -> Any:
    return "never" if seconds == float("inf") else seconds


@drawn("nettalk-methods")
def draw_methods(axes: Any, results: Results) -> bool:
    """Draw error against time."""
    rows = [row for row in found(results, "nettalk-methods") if row.get("trace")]
    for row in rows:
        seconds, errors = zip(*((note["seconds"], note["test error"]) for note in row["trace"]), strict=True)
        axes.plot(seconds, errors, label=row["method"])
    axes.set(xscale="log", xlabel="processor time, seconds", ylabel="test error, %")
    if rows:
        axes.set_ylim(top=min(60, axes.get_ylim()[1]))
        axes.legend()
    return bool(rows)


@section("nettalk-sweeps")
def sweeps_section(results: Results) -> str:
    """Figure 7.8."""
    rows = found(results, "nettalk-sweeps")
    head = ["rho1", "active features", "seconds of the sweep", "test error %"]
    content = [[row["rho1"], row["active"], row["seconds"], row["test error"]] for row in rows]
    wanted = [
        Check(
            "fewer active features mean a shorter sweep (rank correlation above 0.8)",
            lambda: _rank_correlation([row["active"] for row in rows], [row["seconds"] for row in rows]) > 0.8,
        ),
        Check(
            "a sweep of the sparsest model takes less than half the time of the densest",
            lambda: rows[0]["seconds"] < rows[-1]["seconds"] / 2,
        ),
    ]
    picture = figure("nettalk-sweeps", "Seconds of a sweep against active features")
    return f"{table(Table(head, content))}\n\n{checks(wanted)}\n\n{picture}"


def _rank_correlation(a: Sequence[float], b: Sequence[float]) -> float:
    """Return Spearman's rank correlation of numbers without ties.  Raises ValueError on fewer than three."""
    if len(a) < 3:
        raise ValueError(len(a))
    ranks = [np.argsort(np.argsort(values)).astype(float) for values in (a, b)]
    return float(np.corrcoef(*ranks)[0, 1])


@drawn("nettalk-sweeps")
def draw_sweeps(axes: Any, results: Results) -> bool:
    """Draw the time of a sweep against active features."""
    rows = found(results, "nettalk-sweeps")
    axes.plot([row["active"] for row in rows], [row["seconds"] for row in rows], "o-")
    for row in rows:
        axes.annotate(f"{row['rho1']:g}", (row["active"], row["seconds"]), xytext=(5, -9), textcoords="offset points")
    axes.set(xlabel="active features (beside the points: rho1)", ylabel="seconds of a sweep")
    axes.set_ylim(bottom=0)
    return bool(rows)
