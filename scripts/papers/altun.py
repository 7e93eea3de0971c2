"""Altun, Johnson & Hofmann (2003): losses, the averaged perceptron and boosting."""

from __future__ import annotations

from functools import partial
from typing import Any

from scripts.papers._harness import Options, Results, Row, Skip, config, experiment
from scripts.papers.page import PUBLISHED, Check, Table, checks, found, section, table
from scripts.papers.tasks import Task, Trained, read, tuned

LOSSES = ("SequentialLog", "SequentialExp", "PointwiseLog", "PointwiseExp")
FEATURES = ("S1", "S2", "S3")


def _rows(name: str, features: str, language: str, options: Options) -> list[Row]:
    import spacy

    settings = config(name)
    nlp = spacy.blank(language)
    limit = options.few(300)
    parts = {part: read(nlp, options, settings, part, limit) for part in ("train", "dev", "test")}
    train = parts.pop("train")
    block = settings["features"][features]
    task = Task(nlp, settings["component"], block, train, parts, quick=options.quick)
    return [_row(task, name, method, settings["tuned"]) for name, method in settings["methods"].items()]


def _row(task: Task, name: str, method: dict[str, Any], grid: dict[str, list[float]]) -> Row:
    try:
        if "rho" in method["regularizer"]:
            best = tuned(task, method, "regularizer", "rho", grid["rho"])
            return _with_scores(task, name, best.trained, rho=best.value, **{"all seconds": round(best.seconds, 1)})
        return _with_scores(task, name, task.fit(method, patience_on="dev"))
    except Skip as reason:
        return {"method": name, "skipped": str(reason)}


def _with_scores(task: Task, name: str, trained: Trained, **more: Any) -> Row:
    scores = {part: round(task.score(part, trained.theta), 2) for part in ("dev", "test")}
    return task.row(trained, method=name, **scores, **more)


for _features, _minutes in zip(FEATURES, (5, 7, 9), strict=True):
    experiment(f"entities-{_features}", f"Spanish entities, features {_features}", _minutes)(
        partial(_rows, "entities", _features, "es")
    )
for _features, _minutes in zip(FEATURES[:2], (2, 3), strict=True):
    experiment(f"tags-{_features}", f"English tags, features {_features}", _minutes)(
        partial(_rows, "tags", _features, "en")
    )


# The page


def _methods(results: Results, name: str) -> Table:
    """Return one row per method and feature set, with the published score next to ours."""
    head = [
        "method",
        "features",
        "published",
        "ours, test",
        "ours, dev",
        "rho",
        "iterations",
        "seconds",
        "active",
        "optimality",
    ]
    rows = []
    for features in FEATURES:
        for row in found(results, f"{name}-{features}"):
            published = PUBLISHED[name].get((row["method"], features), "")
            rows.append([row["method"], features, published, *_figures(row)])
    return Table(head, rows)


def _figures(row: Row) -> list[Any]:
    if "skipped" in row:
        return [f"not run: {row['skipped']}"]
    return [
        row["test"],
        row["dev"],
        row.get("rho", ""),
        row["iterations"],
        row["seconds"],
        row["active"]["all"],
        row["optimality"],
    ]


def _score(results: Results, name: str, features: str, method: str) -> float | None:
    return next((row.get("test") for row in found(results, f"{name}-{features}") if row["method"] == method), None)


@section("entities")
def entities(results: Results) -> str:
    """Tables 2 and 3."""
    score = partial(_score, results, "entities")
    wanted = [
        Check("SequentialLog on S3 reaches 75.0", lambda: score("S3", "SequentialLog") >= 75.0),
        *(
            Check(
                f"{loss} on S3 is within 2.5 points of SequentialLog",
                lambda loss=loss: abs(score("S3", loss) - score("S3", "SequentialLog")) <= 2.5,
            )
            for loss in LOSSES[1:]
        ),
        *(
            Check(
                f"{method}: S1 < S2 < S3, as published",
                lambda method=method: score("S1", method) < score("S2", method) < score("S3", method),
            )
            for method in (*LOSSES, "Perceptron", "Boosting")
        ),
        Check(
            "features matter more than losses: S3 and S1 differ by more than the best and the worst loss on S3",
            lambda: (
                score("S3", "SequentialLog") - score("S1", "SequentialLog")
                > max(score("S3", loss) for loss in LOSSES) - min(score("S3", loss) for loss in LOSSES)
            ),
        ),
        Check(
            "the averaged perceptron on S3 is within 1.5 points of SequentialLog",
            lambda: abs(score("S3", "Perceptron") - score("S3", "SequentialLog")) <= 1.5,
        ),
        Check(
            "boosting on S3 is within 4 points of SequentialLog",
            lambda: score("S3", "SequentialLog") - score("S3", "Boosting") <= 4,
        ),
        Check("boosting on S3 uses at most 25 % of the features", lambda: _share(results) <= 0.25),
    ]
    return f"{table(_methods(results, 'entities'))}\n\n{checks(wanted)}"


def _share(results: Results) -> float:
    (row,) = (row for row in found(results, "entities-S3") if row["method"] == "Boosting")
    return float(row["active"]["all"]) / float(row["size"])


@section("tags")
def tags(results: Results) -> str:
    """Table 1, tags."""
    score = partial(_score, results, "tags")
    wanted = [
        *(
            Check(f"{loss}: S1 < S2, as published", lambda loss=loss: score("S1", loss) < score("S2", loss))
            for loss in LOSSES
        ),
        *(
            Check(
                f"on {features} the losses differ by less than S2 differs from S1",
                lambda features=features: (
                    max(score(features, loss) for loss in LOSSES) - min(score(features, loss) for loss in LOSSES)
                    < score("S2", "SequentialLog") - score("S1", "SequentialLog")
                ),
            )
            for features in FEATURES[:2]
        ),
        *(
            Check(
                f"on {features} the log losses are not worse than the exponential ones, as published",
                lambda features=features: (
                    min(score(features, "SequentialLog"), score(features, "PointwiseLog"))
                    >= max(score(features, "SequentialExp"), score(features, "PointwiseExp"))
                ),
            )
            for features in FEATURES[:2]
        ),
    ]
    return f"{table(_methods(results, 'tags'))}\n\n{checks(wanted)}"
