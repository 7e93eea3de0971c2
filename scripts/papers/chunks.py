"""Sokolovska (2010) on CoNLL-2000: patterns, thresholds, feature selection, and active features along rho1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from scripts.papers import _harness
from scripts.papers._harness import Options, Results, Row, Skip, experiment
from scripts.papers.figures import drawn
from scripts.papers.nettalk import cut
from scripts.papers.page import Check, Table, checks, figure, found, section, table
from scripts.papers.tasks import Examples, Task, changed, read

if TYPE_CHECKING:
    from spacy_crfseq.potentials.layout import Layout

RETRAINED = "small weights dropped, retrained"
SHARES = (1.0, 0.7, 0.5, 0.3, 0.2, 0.15, 0.1, 0.07, 0.05, 0.03, 0.02)
"""Parts of the weights that are kept, the largest first."""


class _Corpus:
    """CoNLL-2000: everything to train on or, where a setting is chosen, nine sentences in ten, and the rest as dev."""

    def __init__(self, options: Options) -> None:
        import spacy

        self.settings = _harness.config("chunks")
        self.quick = options.quick
        self._nlp = spacy.blank("en")
        self.train = read(self._nlp, options, self.settings, "train", options.few(300))
        self.test = read(self._nlp, options, self.settings, "test", options.few(200))

    def task(self, pattern: str, *, dev: bool = False, **component: Any) -> Task:
        """Return a task for a pattern of features, some settings of the component changed."""
        chosen = {key: value for key, value in self.settings["patterns"][pattern].items() if key != "name"}
        block = {**self.settings["component"], **chosen, **component}
        train: Examples = self.train
        parts: dict[str, Examples] = {"test": self.test}
        if dev:
            train = [example for number, example in enumerate(self.train) if number % 10 != 9]
            parts["dev"] = self.train[9::10]
        return Task(self._nlp, block, block.pop("features"), train, parts, quick=self.quick)


def _f1(task: Task, theta: Any, part: str = "test") -> float:
    return round(task.score(part, theta), 2)


@experiment("chunks-patterns", "CoNLL-2000, patterns of features under an L2 norm", 5)
def patterns(options: Options) -> list[Row]:
    """Return a row for each pattern."""
    corpus = _Corpus(options)
    rows = []
    for pattern, block in corpus.settings["patterns"].items():
        try:
            task = corpus.task(pattern)
            trained = task.fit(corpus.settings["methods"]["L2"])
            rows.append(task.row(trained, pattern=block["name"], test=_f1(task, trained.theta)))
        except Skip as reason:
            rows.append({"pattern": block["name"], "skipped": str(reason)})
    return rows


@experiment("chunks-selection", "CoNLL-2000, fewer features by thresholds, count cut-offs and mutual information", 2)
def selection(options: Options) -> list[Row]:
    """Return a row for each way and strength of leaving features out."""
    from spacy_crfseq.training.selection import most_informative

    corpus = _Corpus(options)
    method = corpus.settings["methods"]["L2"]
    task = corpus.task("full")
    trained = task.fit(method)
    rows = [
        task.row(trained, how="all features", kept=task.active(trained.theta)["all"], test=_f1(task, trained.theta))
    ]
    rows += [
        {"how": "small weights dropped", "kept": count, "test": _f1(task, theta)}
        for count, theta in cut(trained.theta, SHARES)
    ]
    rows += [
        _fewer(task, method, _largest(task, trained.theta, count), trained.theta, RETRAINED)
        for count in corpus.settings["selection"]["thresholded"]
    ]
    for count in corpus.settings["selection"]["information"]:
        part = most_informative(task.layout, task.data, options.few(count // 100, count))
        rows.append(_fewer(task, method, part, None, "mutual information"))
    for least in corpus.settings["selection"]["counts"]:
        small = corpus.task("full", min_count=least)
        rows.append({**_fewer(small, method, small.layout, None, "count cut-off"), "setting": f"at least {least}"})
    return rows


def _largest(task: Task, theta: Any, count: int) -> Layout:
    """Return the layout of the largest weights: `count` of them, or fewer where that leaves out equal ones."""
    from spacy_crfseq.training.selection import thresholded

    sizes = np.sort(np.abs(theta))[::-1]
    return thresholded(task.layout, theta, float(sizes[min(count, len(sizes) - 1)]))[0]


def _fewer(task: Task, method: Mapping[str, Any], part: Layout, start: Any, how: str) -> Row:
    """Train a part of the weights."""
    trained = task.fit(method, layout=part, start=start)
    kept = task.active(trained.theta)["all"]
    return task.row(trained, how=how, kept=kept, test=_f1(task, trained.theta))


@experiment("chunks-path", "CoNLL-2000, active features along rho1", 25)
def path(options: Options) -> list[Row]:
    """Return a row for each rho1, from the largest on, each run begun where the last one ended; and the L2 model."""
    corpus = _Corpus(options)
    task = corpus.task("rich", dev=True)
    methods = corpus.settings["methods"]
    rows = []
    theta = None
    for rho1 in corpus.settings["path"]["rho1"]:
        trained = task.fit(changed(methods["L1"], regularizer={"rho1": rho1}), start=theta)
        theta = trained.theta
        rows.append(task.row(trained, rho1=rho1, dev=_f1(task, theta, "dev"), test=_f1(task, theta)))
    trained = task.fit(methods["L2"])
    scores = {part: _f1(task, trained.theta, part) for part in ("dev", "test")}
    rows.append(task.row(trained, dense=True, **scores))
    return rows


# The page


@section("chunks-patterns")
def patterns_section(results: Results) -> str:
    """Table 3.7."""
    rows = found(results, "chunks-patterns")
    f1 = {row["pattern"]: row["test"] for row in rows if "test" in row}
    names = list(f1)
    head = ["pattern", "ours, F1", "weights", "iterations", "seconds", "optimality"]
    content = [
        [row["pattern"], f"not run: {row['skipped']}"]
        if "skipped" in row
        else [row["pattern"], row["test"], row["size"], row["iterations"], row["seconds"], row["optimality"]]
        for row in rows
    ]
    wanted = [
        Check("label pairs help: (y',y) + (y,x) is better than (y,x)", lambda: f1[names[1]] > f1[names[0]]),
        Check("label pairs with the tag help more: (y',y,x)", lambda: f1[names[2]] > f1[names[1]]),
        Check(
            "neighbouring words and tags help more than label pairs with the tag", lambda: f1[names[3]] > f1[names[2]]
        ),
        Check(
            "with the whole template file, label pairs with the tag add less than half a point",
            lambda: f1[names[5]] - f1[names[4]] < 0.5,
        ),
    ]
    return f"{table(Table(head, content))}\n\n{checks(wanted)}"


def _best_at(rows: list[Row], how: str, most: int) -> float:
    """Return the best F1 that a way of selection reaches with at most so many features."""
    return max(row["test"] for row in rows if row["how"] == how and row["kept"] <= most)


@section("chunks-selection")
def selection_section(results: Results) -> str:
    """Tables 6.1 and 6.3."""
    rows = found(results, "chunks-selection")
    head = ["features left out", "setting", "features kept", "ours, F1"]
    content = [
        [row["how"], f"not run: {row['skipped']}"]
        if "skipped" in row
        else [row["how"], row.get("setting", ""), row["kept"], row["test"]]
        for row in rows
    ]
    dense = rows[0] if rows else {}
    wanted = [
        Check(
            "dropping the smaller half of the weights costs less than 0.2 points",
            lambda: dense["test"] - _best_at(rows, "small weights dropped", dense["kept"] // 2) < 0.2,
        ),
        Check(
            "retraining after dropping weights never costs more than 0.1 points",
            lambda: all(
                row["test"] >= _best_at(rows, "small weights dropped", row["kept"]) - 0.1
                for row in _some([row for row in rows if row["how"] == RETRAINED])
            ),
        ),
        Check(
            "with a tenth of the features, weights chosen after training beat those chosen by mutual information",
            lambda: (
                _best_at(rows, RETRAINED, dense["kept"] // 10)
                > _best_at(rows, "mutual information", dense["kept"] // 10)
            ),
        ),
        Check(
            "with a tenth of the features, dropping small weights is better than a count cut-off",
            lambda: (
                _best_at(rows, "small weights dropped", dense["kept"] // 10)
                > _best_at(rows, "count cut-off", dense["kept"] // 10)
            ),
        ),
    ]
    picture = figure("selection", "F1 and error against the number of features kept")
    letters = found(results, "nettalk-methods")
    kept = [[row["active"], row["test error"], row["dev error"]] for row in letters if row["method"] == "threshold"]
    thresholds = table(Table(["features kept", "test error %", "dev error %"], kept))
    between = "NetTalk, (y,x) + (y',y,x), small weights dropped:"
    return "\n\n".join([table(Table(head, content)), between, thresholds, checks(wanted), picture])


@drawn("selection", panels=2)
def draw_selection(axes: Any, results: Results) -> bool:
    """Draw scores against features kept."""
    rows = [row for row in found(results, "chunks-selection") if "kept" in row]
    for how in dict.fromkeys(row["how"] for row in rows):
        points = sorted((row["kept"], row["test"]) for row in rows if row["how"] == how)
        axes[0].plot(*zip(*points, strict=True), "o-" if len(points) > 1 else "k*", label=how)
    letters = [row for row in found(results, "nettalk-methods") if row["method"] == "threshold"]
    axes[1].plot([row["active"] for row in letters], [row["test error"] for row in letters], "o-")
    axes[0].set(xscale="log", xlabel="features kept", ylabel="F1", title="CoNLL-2000")
    axes[1].set(xscale="log", xlabel="features kept", ylabel="test error, %", title="NetTalk, small weights dropped")
    if rows:
        axes[0].legend()
    return bool(rows or letters)


@section("chunks-path")
def path_section(results: Results) -> str:
    """Table 7.3."""
    rows = found(results, "chunks-path")
    head = [
        "rho1",
        "active (y,x)",
        "active (y',y,x)",
        "active (y',y)",
        "dev F1",
        "test F1",
        "iterations",
        "seconds",
        "optimality",
    ]
    content = [
        [
            "L2, rho = 1" if row.get("dense") else row["rho1"], row["active"]["state"], row["active"]["pair"],
            row["active"]["shared"], row["dev"], row["test"], row["iterations"], row["seconds"], row["optimality"],
        ]
        for row in rows
    ]  # fmt: skip
    steps = [row for row in rows if not row.get("dense")]
    dense = next((row for row in rows if row.get("dense")), {})
    wanted = [
        Check(
            "the number of active features increases as rho1 decreases",
            lambda: all(a["active"]["all"] < b["active"]["all"] for a, b in zip(_some(steps), steps[1:], strict=False)),
        ),
        Check(
            "a model with at most 25,000 active features is within 0.6 points of the L2 model",
            lambda: max(row["test"] for row in steps if row["active"]["all"] <= 25_000) >= dense["test"] - 0.6,
        ),
        Check(
            "the best rho1 by dev has fewer than half of the L2 model's features",
            lambda: max(steps, key=lambda row: row["dev"])["active"]["all"] < dense["active"]["all"] / 2,
        ),
    ]
    picture = figure("path", "Active features and F1 along rho1")
    return f"{table(Table(head, content))}\n\n{checks(wanted)}\n\n{picture}"


def _some(rows: list[Row]) -> list[Row]:
    """Return rows.  Raises ValueError where there are none."""
    if not rows:
        raise ValueError("no rows")
    return rows


@drawn("path", panels=2)
def draw_path(axes: Any, results: Results) -> bool:
    """Draw active features and F1 along rho1."""
    rows = [row for row in found(results, "chunks-path") if "rho1" in row]
    rho1 = [row["rho1"] for row in rows]
    for group, label in (("state", "(y,x)"), ("pair", "(y',y,x)"), ("shared", "(y',y)")):
        axes[0].plot(rho1, [row["active"][group] for row in rows], "o-", label=label)
    for part in ("dev", "test"):
        axes[1].plot(rho1, [row[part] for row in rows], "o-", label=part)
    for row in found(results, "chunks-path"):
        if row.get("dense"):
            axes[1].axhline(row["test"], color="#888888", linestyle=":", label="test, L2")
    axes[0].set(xscale="log", yscale="log", xlabel="rho1", ylabel="active features")
    axes[1].set(xscale="log", xlabel="rho1", ylabel="F1")
    if rows:
        axes[0].legend()
        axes[1].legend()
    return bool(rows)
