"""Rows of the page's tables: Altun, Hofmann & Johnson (2002) and Altun, Johnson & Hofmann (2003)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import product
from typing import Any

from scripts.papers._harness import Results, Row
from scripts.papers.runs.altun import BOUNDS, CAPPED, FEATURES, LOSSES
from scripts.papers.tables import Section, by, paper_rows, section, stored

GRADIENTS = {"L-BFGS": "L-BFGS", "conjugate": "conjugate gradients"}
NEAR = {"percent": 1.0, "tenth": 0.1}
"""Per cent that an objective may be above the least."""


def _of_features(rows: list[Row]) -> list[Row]:
    """Return rows with their features, the end of the name of their run."""
    return [{**row, "features": row["run"].rpartition("-")[2]} for row in rows]


def _plain(row: Row) -> str:
    """Return the published method: the papers' exponential losses have no cap, and its dictionary is another."""
    name = str(row["method"])
    return "" if name.endswith("Exp") or row.get("dictionary") else name.removesuffix("-30")


def _title(row: Row) -> str:
    name = str(row["method"])
    if name in BOUNDS:
        return f"boosting, {name} bound"
    cap = ", cap 30" if name.endswith("-30") else ", cap 1" if name.endswith("Exp") else ""
    return f"{name.removesuffix('-30')}{cap}{', tag dictionary' if row.get('dictionary') else ''}"


def _score(results: Results, name: str, features: str, method: str, key: str = "test") -> Any:
    """Return a score of a method without a tag dictionary, None where there is none."""
    rows = [row for row in stored(results, f"{name}-{features}") if not row.get("dictionary")]
    return next((row.get(key) for row in rows if row["method"] == method), None)


def spread(score: Any, features: str) -> float:
    """Return by how much the best loss on a feature set is better than the worst."""
    scores = [score(features, loss) for loss in LOSSES]
    return float(max(scores) - min(scores))


NAMES = {"LOSSES": LOSSES, "CAPPED": CAPPED, "FEATURES": FEATURES, "spread": spread}
"""Those that several lists of expectations use."""


def _losses(name: str, rows: list[Row], results: Results) -> Section:
    published, rows = paper_rows(name), _of_features(rows)
    inside = [row["grid"][0] < row["rho"] < row["grid"][-1] for row in rows if "grid" in row]
    lines = [
        {**row, "title": _title(row), "published": published.get(_plain(row), {}).get(row["features"])} for row in rows
    ]
    score = partial(_score, results, name)
    return Section(lines, {**NAMES, "score": score, "inside": inside, "settings": len(inside)})


def _errors(name: str, bounds: str, _: list[Row], results: Results) -> Section:
    """Return the rows of table 1 or 2 of the 2002 paper; boosting is that of the experiment `bounds`."""
    published, rows = paper_rows(f"{name}-errors"), []
    for features in FEATURES if name == "entities" else FEATURES[:2]:
        for kind, title in (("Sequential", "H, sequential"), ("Pointwise", "F, pointwise")):
            theirs = {loss.lower(): published[f"{kind}{loss}"][features] for loss in ("Log", "Exp")}
            ours = {
                "log": _score(results, name, features, f"{kind}Log", "error"),
                "exp": _score(results, name, features, f"{kind}Exp-30", "error"),
            }
            if kind == "Sequential":
                theirs["boost"] = published["Boosting"][features]
                ours |= {bound: _score(results, bounds, features, bound, "error") for bound in ("tight", "exact")}
            rows.append({"features": features, "loss": title, "published": theirs, "ours": ours})
    return Section(rows)


def _bounds(name: str, features: tuple[str, ...], rows: list[Row], results: Results) -> Section:
    rows = [{**row, "title": _title(row)} for row in _of_features(rows)]
    share = {row["features"]: row["active"]["all"] / row["size"] for row in rows if row["method"] == "tight"}
    names = {"BOUNDS": BOUNDS, "features": features, "order": " < ".join(features), "share": share}
    return Section(rows, {**names, "score": partial(_score, results, name)})


for _name, _boosted, _features in (("entities", "boosting", FEATURES), ("tags", "tag-boosting", FEATURES[:2])):
    section(_name)(partial(_losses, _name))
    section(_boosted)(partial(_bounds, _boosted, _features))
    section(f"{_boosted}-errors")(partial(_errors, _name, _boosted))


@section("tag-boosting-published")
def boosted(_: list[Row], results: Results) -> Section:
    """Return the accuracies of boosting, and of the gradient method on the same loss."""
    score, published = partial(_score, results, "tag-boosting"), paper_rows("tags")
    theirs = {"exp": published["SequentialExp"], "boost": published["Boosting"]}
    ours = {"exp": "SequentialExp-30", "loose": "loose", "tight": "tight"}
    rows = [
        {"features": features, "published": {name: of[features] for name, of in theirs.items()},
         "ours": {name: score(features, method) for name, method in ours.items()}}
        for features in FEATURES[:2]
    ]  # fmt: skip
    return Section(rows, {"gain": lambda method: score("S2", method) - score("S1", method)})


@section("gradients")
def gradients(rows: list[Row], _: Results) -> Section:
    """Return when each method was near the least objective."""
    runs = by(rows, "features", "method")

    def lines() -> Any:
        for (features, method), row in runs.items():
            near = {name: _near(runs, features, method, share) for name, share in NEAR.items()}
            cells = {name: {"iterations": at[0], "seconds": at[1]} for name, at in near.items()}
            yield {**row, "title": GRADIENTS[method], **cells}

    return Section(lines(), {**NAMES, "NEAR": tuple(NEAR.values()), "near": partial(_near, runs)})


def _near(rows: Mapping[Any, Row], features: str, method: str, share: float, never: Any = None) -> tuple[Any, Any]:
    """Return the iterations and seconds until the objective is within `share` per cent of the least that any found."""
    least = min(row["objective"] for (its_features, _), row in rows.items() if its_features == features)
    for note in rows[features, method]["trace"]:
        if note["objective"] <= (1 + share / 100) * least:
            return note["iteration"], note["seconds"]
    return never, never


@section("curve")
def curve(rows: list[Row], results: Results) -> Section:
    """Return learning curves."""
    rows = _of_features(rows)
    sizes = sorted({row["sentences"] for row in rows})
    test = {(row["method"], row["features"], row["sentences"]): row["test"] for row in rows}
    lines = []
    for features, loss in product(FEATURES, LOSSES):
        of_size: Row = {str(size): test.get((loss, features, size)) for size in sizes}
        of_size["all"] = _score(results, "entities", features, loss)
        lines.append({"method": loss, "features": features, "sentences": of_size})

    def scores(features: str, size: int) -> list[float]:
        return [test[loss, features, size] for loss in LOSSES]

    return Section(lines, {**NAMES, "scores": scores, "sizes": sizes})


@section("dual")
def dual(rows: list[Row], _: Results) -> Section:
    """Return the rows by method, features and degree."""
    return Section(rows, {**NAMES, "run": by(rows, "method", "features", "degree")})
