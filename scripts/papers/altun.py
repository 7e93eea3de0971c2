"""Altun, Hofmann & Johnson (2002) and Altun, Johnson & Hofmann (2003): losses, the perceptron and boosting."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import product
from typing import Any

from scripts.papers._harness import Options, Results, Row, Skip, config, experiment, say
from scripts.papers.page import Section, against, by, columns, found, paper_cells, section, table
from scripts.papers.tasks import Examples, Task, Trained, changed, read

LOSSES = ("SequentialLog", "SequentialExp", "PointwiseLog", "PointwiseExp")
CAPPED = ("SequentialExp-30", "PointwiseExp-30")
BOUNDS = ("loose", "tight", "exact")
FEATURES = ("S1", "S2", "S3")
GRADIENTS = {"L-BFGS": "L-BFGS", "conjugate": "conjugate gradients"}
NEAR = (1.0, 0.1)
"""Per cent that an objective may be above the least."""


class Corpus:
    """The parts of a corpus and the settings of its experiments."""

    def __init__(self, name: str, options: Options) -> None:
        import spacy

        self.settings, self.quick = config(name), options.quick
        self.nlp = spacy.blank(self.settings["setting"]["lang"])
        self.parts: dict[str, Examples] = {
            part: read(self.nlp, options, self.settings, part, options.few(300)) for part in ("train", "dev", "test")
        }
        self._solved: dict[str, Trained] = {}

    def task(self, features: str, sentences: int | None = None, **component: Any) -> Task:
        """Return the task of a feature set on the first sentences of the training part, all for None."""
        parts = {part: self.parts[part] for part in ("dev", "test")}
        train = self.parts["train"][:sentences]
        chosen = {**self.settings["component"], **component}
        self._solved.clear()
        return Task(self.nlp, chosen, self.settings["features"][features], train, parts, quick=self.quick)

    def row(self, task: Task, name: str, method: Mapping[str, Any], *, search: bool = True, **more: Any) -> Row:
        """Train by a method, with the best rho on the dev part if it has one; return scores and token errors.

        A method with `begin` starts from the solution of another one on the same task.
        """
        try:
            rho = method["regularizer"].get("rho")
            if rho is None or not search:
                trained = task.fit(method, patience_on=None if rho else "dev")
                more |= {"rho": rho} if rho else {}
            else:
                trained, found = self._best(task, method, float(rho))
                more |= found
        except Skip as reason:
            return {"method": name, "skipped": str(reason)}
        self._solved[name] = trained
        scores = {part: round(task.score(part, trained.theta), 2) for part in ("dev", "test")}
        return task.row(trained, method=name, **scores, error=self._error(task, trained.theta), **more)

    def _best(self, task: Task, method: Mapping[str, Any], rho: float) -> tuple[Trained, Row]:
        """Return the run with the best rho, where smaller and larger values are worse, unless `most` is reached."""
        factor, most = self.settings["search"]["factor"], 2 if self.quick else self.settings["search"]["most"]
        runs: dict[float, tuple[float, Trained]] = {}

        def at(value: float, start: Trained | None = None) -> None:
            trained = task.fit(changed(method, regularizer={"rho": value}), start=start and start.theta)
            runs[value] = task.score("dev", trained.theta), trained
            say(f"        rho {value:g}: {runs[value][0]:.2f} on dev, {trained.seconds:.1f} s")

        def best() -> float:
            return max(runs, key=lambda value: runs[value][0])

        at(rho, self._solved.get(method.get("begin", "")))
        while len(runs) < most:
            if best() == min(runs):
                at(min(runs) / factor, runs[min(runs)][1])
            elif best() == max(runs):
                at(max(runs) * factor, runs[max(runs)][1])
            else:
                break
        seconds = round(sum(trained.seconds for _, trained in runs.values()), 1)
        return runs[best()][1], {"rho": best(), "grid": sorted(runs), "all seconds": seconds}

    def _error(self, task: Task, theta: Any) -> float:
        """Return the per cent of wrong labels of tokens of the test part."""
        from spacy.training import Example

        from spacy_crfseq.pipeline.labels import gold_tags

        pipe, examples = task.pipe, self.parts["test"]
        pipe.set_parameters(theta)
        docs = pipe.pipe(example.predicted.copy() for example in examples)
        pairs = [
            (own, gold)
            for doc, example in zip(docs, examples, strict=True)
            for own, gold in zip(
                gold_tags(pipe.annotation, Example(doc, doc), pipe.name),
                gold_tags(pipe.annotation, example, pipe.name),
                strict=True,
            )
            if gold is not None
        ]
        return round(100 * sum(own != gold for own, gold in pairs) / len(pairs), 2)


def _rows(name: str, run: str, features: str, options: Options) -> list[Row]:
    """Return a row for each method of a run and each number of sentences, and rows with a tag dictionary."""
    corpus, rows = Corpus(name, options), list[Row]()
    block = corpus.settings["runs"][run]
    methods = corpus.settings[block["methods"]]
    for sentences in block.get("sentences", [None]):
        task = corpus.task(features, sentences)
        of = {"sentences": sentences} if sentences else {}
        rows += [corpus.row(task, method, methods[method], **of) for method in block.get("only", methods)]
    if "dictionary" in block:
        task = corpus.task(features, **block["dictionary"])
        for row in [row for row in rows if row["method"] in LOSSES]:
            method = changed(methods[row["method"]], regularizer={"rho": row["rho"]})
            rows.append(corpus.row(task, row["method"], method, search=False, dictionary=True))
    return rows


@experiment("gradients", "Spanish entities, L-BFGS and conjugate gradients", 4)
def _gradients(options: Options) -> list[Row]:
    corpus, rows = Corpus("entities", options), []
    for features in FEATURES:
        task = corpus.task(features)
        for name, optimizer in corpus.settings["gradients"].items():
            trained = task.fit(
                {**corpus.settings["methods"]["SequentialLog"], "optimizer": optimizer}, watch=lambda _: {}
            )
            test = round(task.score("test", trained.theta), 2)
            rows.append(task.row(trained, features=features, method=name, test=test) | {"trace": trained.trace})
    return rows


@experiment("dual", "Spanish entities, dual perceptron", 4)
def _dual(options: Options) -> list[Row]:
    settings, sizes = config("dual"), config("dual")["subset"]
    sizes = {part: options.few(50, sizes.get(part, 0)) for part in ("train", "dev", "test")}
    _perceptron(options, settings, "S1", 1, dict.fromkeys(sizes, 20))  # compiles kernels, which is not to be timed
    return [_perceptron(options, settings, features, degree, sizes) for features in FEATURES for degree in (0, 1, 2, 3)]


def _perceptron(options: Options, settings: dict[str, Any], features: str, degree: int, sizes: dict[str, int]) -> Row:
    """Train a dual perceptron, or the primal one for degree 0."""
    from time import process_time

    import spacy

    from bench.ours import add
    from spacy_crfseq.pipeline.evaluator import Evaluator

    nlp = spacy.blank("es")
    train, dev, test = (read(nlp, options, settings, part, size) for part, size in sizes.items())
    kernel = {"potentials": {"kernel": {**settings["kernel"], "degree": degree}}} if degree else {}
    blocks = {**settings["component"], **settings["methods"]["dual" if degree else "primal"], **kernel}
    pipe = add(nlp, blocks.pop("factory"), **blocks, features=settings["features"][features])
    pipe.initialize(lambda: train)
    begun = process_time()
    result = pipe.fit(dev=dev)
    fitted = process_time()
    score = Evaluator(pipe.doc_model, test)(pipe.crf.theta)
    coefs = pipe.crf.theta[pipe.crf.layout.size :].reshape(-1, len(pipe.tags))
    row = {
        "method": "dual" if degree else "primal",
        "features": features,
        "degree": degree or 1,
        "dev": round(100 * (result.best_score or 0.0), 2),
        "test": round(100 * score, 2),
        "epochs": len(result.history),
        "seconds": round(fitted - begun, 1),
        "test seconds": round(process_time() - fitted, 1),
        "supports": int(coefs.any(1).sum()),
        "megabytes": round(len(pipe.to_bytes()) / 1e6, 2),
    }
    say(f"    {row}")
    return row


for _corpus in ("entities", "tags"):
    for _run, _block in config(_corpus)["runs"].items():
        for _features, _minutes in zip(FEATURES, _block["minutes"], strict=False):
            experiment(f"{_run}-{_features}", f"{_block['about']}, features {_features}", _minutes)(
                partial(_rows, _corpus, _run, _features)
            )


# The page

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


def _losses_section(name: str, results: Results) -> Section:
    inside = [row["grid"][0] < row["rho"] < row["grid"][-1] for row in _of_features(results, name) if "grid" in row]
    score = partial(_score, results, name)
    return Section(_methods(results, name), {"score": score, "inside": inside, "settings": len(inside)})


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
    names = {"features": features, "order": " < ".join(features), "share": share}
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
    return Section(table([*head, "test F1"], lines), {"near": partial(_near, rows)})


def _near(rows: Mapping[Any, Row], features: str, method: str, share: float, never: Any = None) -> tuple[Any, Any]:
    """Return the iterations and seconds until the objective is within `share` per cent of the least that any found."""
    least = min(row["objective"] for (one, _), row in rows.items() if one == features)
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

    return Section(table(head, lines), {"scores": scores, "sizes": sizes})


@section("dual")
def dual(results: Results) -> Section:
    """Section 6 of the 2003 paper: the dual perceptron."""
    keys = ("method", "features", "degree", "dev", "test", "epochs", "seconds", "test seconds", "supports", "megabytes")
    rows = found(results, "dual")
    return Section(columns(rows, {key: key for key in keys}), {"run": by(rows, "method", "features", "degree")})
