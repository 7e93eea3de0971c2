"""Tables of the page: Altun, Hofmann & Johnson (2002) and Altun, Johnson & Hofmann (2003)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import product
from typing import Any

from scripts.papers._harness import Results, Row
from scripts.papers.page import Section, against, by, columns, found, paper_cells, section, table
from scripts.papers.runs.altun import BOUNDS, CAPPED, FEATURES, LOSSES

GRADIENTS = {"L-BFGS": "L-BFGS", "conjugate": "conjugate gradients"}
NEAR = (1.0, 0.1)
"""Per cent that an objective may be above the least."""

FIGURES: dict[str, Any] = {
    "ours, test": "test", "ours, dev": "dev", "rho": "rho", "iterations": "iterations", "seconds": "seconds",
    "active": "active.all",
}  # fmt: skip
"""Columns of all tables of methods."""


def _of_features(results: Results, name: str) -> list[Row]:
    """Return the rows of all feature sets, with their features."""
    return [{**row, "features": features} for features in FEATURES for row in found(results, f"{name}-{features}")]


def _methods(results: Results, name: str) -> str:
    """Return one row per method and feature set, with the published score next to ours."""

    def published(row: Row) -> Any:
        return paper_cells(name).get((_plain(row), row["features"]))

    start = {"method": _title, "features": "features", "published": published}
    return columns(_of_features(results, name), {**start, **FIGURES, "optimality": "optimality"})


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
    rows = [row for row in found(results, f"{name}-{features}") if not row.get("dictionary")]
    return next((row.get(key) for row in rows if row["method"] == method), None)


def spread(score: Any, features: str) -> float:
    """Return by how much the best loss on a feature set is better than the worst."""
    scores = [score(features, loss) for loss in LOSSES]
    return float(max(scores) - min(scores))


NAMES = {"LOSSES": LOSSES, "CAPPED": CAPPED, "FEATURES": FEATURES, "spread": spread}
"""Those that several lists of expectations use."""


def _losses_section(name: str, results: Results) -> Section:
    inside = [row["grid"][0] < row["rho"] < row["grid"][-1] for row in _of_features(results, name) if "grid" in row]
    score = partial(_score, results, name)
    return Section(_methods(results, name), {**NAMES, "score": score, "inside": inside, "settings": len(inside)})


def _errors_section(name: str, bounds: str, results: Results) -> Section:
    """Return table 1 or 2 of the 2002 paper; boosting is that of the experiment `bounds`."""
    head = [
        "features", "loss", "log, published", "log, ours", "exp, published", "exp, cap 30, ours", "boost, published",
        "tight bound, first sentences", "exact bound, first sentences",
    ]  # fmt: skip
    published, rows = paper_cells(f"{name}-errors"), []
    for features in FEATURES if name == "entities" else FEATURES[:2]:
        for kind, title in (("Sequential", "H, sequential"), ("Pointwise", "F, pointwise")):
            row: list[Any] = [features, title]
            for loss, own in ((f"{kind}Log", f"{kind}Log"), (f"{kind}Exp", f"{kind}Exp-30")):
                row += [published[loss, features], _score(results, name, features, own, "error")]
            if kind == "Sequential":
                row.append(published["Boosting", features])
                row += [_score(results, bounds, features, bound, "error") for bound in ("tight", "exact")]
            rows.append(row)
    return Section(table(head, rows))


def _bounds_section(name: str, features: tuple[str, ...], results: Results) -> Section:
    rows = _of_features(results, name)
    text = columns(rows, {"method": _title, "features": "features", **FIGURES, "token error %": "error"})
    share = {row["features"]: row["active"]["all"] / row["size"] for row in rows if row["method"] == "tight"}
    names = {"BOUNDS": BOUNDS, "features": features, "order": " < ".join(features), "share": share}
    return Section(text, {**names, "score": partial(_score, results, name)})


for _name, _parts in (("entities", ("boosting", FEATURES)), ("tags", ("tag-boosting", FEATURES[:2]))):
    _bounds_name, _tested = _parts
    section(_name)(partial(_losses_section, _name))
    section(_bounds_name)(partial(_bounds_section, _bounds_name, _tested))
    section(f"{_bounds_name}-errors", _bounds_name)(partial(_errors_section, _name, _bounds_name))


@section("tag-boosting-published", "tag-boosting")
def boosted(results: Results) -> Section:
    """Section 6 of the 2003 paper: accuracies of boosting."""
    score, published = partial(_score, results, "tag-boosting"), paper_cells("tags")
    pairs = (("SequentialExp", "SequentialExp-30"), ("Boosting", "loose"), ("Boosting", "tight"))
    rows = [
        [features, *(against(published[theirs, features], score(features, own)) for theirs, own in pairs)]
        for features in FEATURES[:2]
    ]
    head = ["features", "gradient method", "boosting, loose bound", "boosting, tight bound"]
    return Section(table(head, rows), {"gain": lambda method: score("S2", method) - score("S1", method)})


@section("gradients")
def gradients(results: Results) -> Section:
    """Section 4.3 of the 2003 paper: L-BFGS and conjugate gradients."""
    rows = by(found(results, "gradients"), "features", "method")
    head = ["features", "method", *(f"{unit} to {share:g} %" for share in NEAR for unit in ("iterations", "seconds"))]
    lines = [
        [features, GRADIENTS[method], *(cell for share in NEAR for cell in _near(rows, features, method, share)),
         row["test"]]
        for (features, method), row in rows.items()
    ]  # fmt: skip
    return Section(table([*head, "test F1"], lines), {**NAMES, "NEAR": NEAR, "near": partial(_near, rows)})


def _near(rows: Mapping[Any, Row], features: str, method: str, share: float, never: Any = None) -> tuple[Any, Any]:
    """Return the iterations and seconds until the objective is within `share` per cent of the least that any found."""
    least = min(row["objective"] for (its_features, _), row in rows.items() if its_features == features)
    for note in rows[features, method]["trace"]:
        if note["objective"] <= (1 + share / 100) * least:
            return note["iteration"], note["seconds"]
    return never, never


@section("curve")
def curve(results: Results) -> Section:
    """Learning curves."""
    rows = _of_features(results, "curve")
    sizes = sorted({row["sentences"] for row in rows})
    test = {(row["method"], row["features"], row["sentences"]): row["test"] for row in rows}
    lines = []
    for features, loss in product(FEATURES, LOSSES):
        full = _score(results, "entities", features, loss)
        lines.append([loss, features, *(test.get((loss, features, size)) for size in sizes), full])
    head = ["method", "features", *(f"{size:,} sentences" for size in sizes), "all"]

    def scores(features: str, size: int) -> list[float]:
        return [test[loss, features, size] for loss in LOSSES]

    return Section(table(head, lines), {**NAMES, "scores": scores, "sizes": sizes})


@section("dual")
def dual(results: Results) -> Section:
    """Section 6 of the 2003 paper: the dual perceptron."""
    keys = ("method", "features", "degree", "dev", "test", "epochs", "seconds", "test seconds", "supports", "megabytes")
    rows = found(results, "dual")
    return Section(
        columns(rows, {key: key for key in keys}), {**NAMES, "run": by(rows, "method", "features", "degree")}
    )
