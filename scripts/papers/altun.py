"""Altun, Hofmann & Johnson (2002) and Altun, Johnson & Hofmann (2003): losses, the perceptron and boosting."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

from scripts.papers._harness import Options, Results, Row, Skip, config, experiment, say
from scripts.papers.page import Check, Table, against, checks, found, paper_cells, section, table
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

    def __init__(self, name: str, language: str, options: Options) -> None:
        import spacy

        self.settings, self.quick = config(name), options.quick
        self.nlp = spacy.blank(language)
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


def _losses(name: str, language: str, features: str, options: Options) -> list[Row]:
    corpus = Corpus(name, language, options)
    task, methods = corpus.task(features), corpus.settings["methods"]
    rows = [corpus.row(task, name, method) for name, method in methods.items()]
    if "dictionary" in corpus.settings:
        task = corpus.task(features, **corpus.settings["dictionary"])
        for row in [row for row in rows if row["method"] in LOSSES]:
            method = changed(methods[row["method"]], regularizer={"rho": row["rho"]})
            rows.append(corpus.row(task, row["method"], method, search=False, dictionary=True))
    return rows


def _bounds(name: str, language: str, features: str, options: Options) -> list[Row]:
    corpus = Corpus(name, language, options)
    task = corpus.task(features, corpus.settings["subset"]["sentences"])
    return [corpus.row(task, name, method) for name, method in corpus.settings["bounds"].items()]


def _curve(features: str, options: Options) -> list[Row]:
    corpus, rows = Corpus("entities", "es", options), []
    for sentences in corpus.settings["curve"]["sentences"]:
        task = corpus.task(features, sentences)
        methods = {name: corpus.settings["methods"][name] for name in LOSSES}
        rows += [corpus.row(task, name, method, sentences=sentences) for name, method in methods.items()]
    return rows


@experiment("gradients", "Spanish entities, L-BFGS and conjugate gradients", 4)
def _gradients(options: Options) -> list[Row]:
    corpus, rows = Corpus("entities", "es", options), []
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


for _features, _minutes in zip(FEATURES, (3, 5, 6), strict=True):
    experiment(f"entities-{_features}", f"Spanish entities, features {_features}", _minutes)(
        partial(_losses, "entities", "es", _features)
    )
    experiment(f"boosting-{_features}", f"Spanish entities, bounds of boosting, features {_features}", 1.5)(
        partial(_bounds, "entities", "es", _features)
    )
    experiment(f"curve-{_features}", f"Spanish entities, learning curves, features {_features}", 1)(
        partial(_curve, _features)
    )
for _features, _minutes in zip(FEATURES[:2], (4, 5), strict=True):
    experiment(f"tags-{_features}", f"English tags, features {_features}", _minutes)(
        partial(_losses, "tags", "en", _features)
    )
    experiment(f"tag-boosting-{_features}", f"English tags, bounds of boosting, features {_features}", 2)(
        partial(_bounds, "tags", "en", _features)
    )


# The page


def _methods(results: Results, name: str) -> Table:
    """Return one row per method and feature set, with the published score next to ours."""
    head = ["method", "features", "published", "ours, test", "ours, dev", "rho", "iterations", "seconds", "active"]
    rows = []
    for features in FEATURES:
        for row in found(results, f"{name}-{features}"):
            published = "" if row.get("dictionary") else paper_cells(name).get((_plain(row), features), "")
            title = f"{_title(row)}, tag dictionary" if row.get("dictionary") else _title(row)
            rows.append([title, features, published, *_figures(row)])
    return Table([*head, "optimality"], rows)


def _plain(row: Row) -> str:
    """Return the published method: the papers' exponential losses have no cap."""
    name = str(row["method"])
    if name.endswith("-30"):
        return name[:-3]
    return "" if name.endswith("Exp") else name


def _title(row: Row) -> str:
    name = str(row["method"])
    return f"{name[:-3]}, cap 30" if name.endswith("-30") else f"{name}, cap 1" if name.endswith("Exp") else name


def _figures(row: Row) -> list[Any]:
    if "skipped" in row:
        return [f"not run: {row['skipped']}"]
    keys = ("test", "dev", "rho", "iterations", "seconds")
    return [*(row.get(key, "") for key in keys), row["active"]["all"], row["optimality"]]


def _score(
    results: Results, name: str, features: str, method: str, key: str = "test", *, dictionary: bool = False
) -> float | None:
    rows = [row for row in found(results, f"{name}-{features}") if bool(row.get("dictionary")) == dictionary]
    return next((row.get(key) for row in rows if row["method"] == method), None)


def _inside(results: Results, name: str) -> Check:
    rows = [row for features in FEATURES for row in found(results, f"{name}-{features}") if "grid" in row]
    inside = [row["grid"][0] < row["rho"] < row["grid"][-1] for row in rows]
    return Check(
        f"the best rho is inside the grid, not at its end, for all {len(rows)} settings",
        lambda: min(inside),
    )


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
            for loss in (*LOSSES[1:], *CAPPED)
        ),
        *(
            Check(
                f"{method}: S1 < S2 < S3, as published",
                lambda method=method: score("S1", method) < score("S2", method) < score("S3", method),
            )
            for method in (*LOSSES, *CAPPED, "Perceptron")
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
        _inside(results, "entities"),
    ]
    return f"{table(_methods(results, 'entities'))}\n\n{checks(wanted)}"


def _errors(results: Results, name: str, bounds: str) -> str:
    """Return table 1 or 2 of the 2002 paper; boosting is that of the experiment `bounds`."""
    head = ["features", "loss", "log, published", "log, ours", "exp, published", "exp, cap 30, ours"]
    rows = []
    for features in FEATURES:
        for kind in ("Sequential", "Pointwise") if found(results, f"{name}-{features}") else ():
            row: list[Any] = [features, "H, sequential" if kind == "Sequential" else "F, pointwise"]
            for loss, own in ((f"{kind}Log", f"{kind}Log"), (f"{kind}Exp", f"{kind}Exp-30")):
                row += [
                    paper_cells(f"{name}-errors")[loss, features],
                    _score(results, name, features, own, "error"),
                ]
            if kind == "Sequential":
                row.append(paper_cells(f"{name}-errors")["Boosting", features])
                row += [_score(results, bounds, features, bound, "error") for bound in ("tight", "exact")]
            rows.append(row)
    more = ["boost, published", "tight bound, first sentences", "exact bound, first sentences"]
    return table(Table([*head, *more], rows))


def _bounds_table(results: Results, name: str) -> str:
    head = ["method", "features", "ours, test", "ours, dev", "rho", "iterations", "seconds", "active", "token error %"]
    rows = []
    for features in FEATURES:
        for row in found(results, f"{name}-{features}"):
            title = f"boosting, {row['method']} bound" if row["method"] in BOUNDS else _title(row)
            rows.append([title, features, *_figures(row)[:-1], row.get("error", "")])
    return table(Table(head, rows))


def _bound_checks(results: Results, name: str, features: tuple[str, ...]) -> str:
    score = partial(_score, results, name)
    wanted = [
        *(
            Check(
                f"{bound} bound: {' < '.join(features)}, as published",
                lambda bound=bound: score(features[0], bound) < score(features[1], bound) <= score(features[-1], bound),
            )
            for bound in ("loose", "tight")
        ),
        *(
            Check(
                f"on {one}, the tight bound is not worse than the loose one",
                lambda one=one: score(one, "tight") >= score(one, "loose"),
            )
            for one in features
        ),
        Check(
            "on S1, boosting is worse than the gradient method, as published",
            lambda: score("S1", "tight") < score("S1", "SequentialExp-30"),
        ),
        *(
            Check(
                f"on {one}, the tight bound uses at most 10 % of the features, as published",
                lambda one=one: _part(results, f"{name}-{one}") <= 0.1,
            )
            for one in features[1:]
        ),
    ]
    return checks(wanted)


def _part(results: Results, name: str) -> float:
    (row,) = (row for row in found(results, name) if row["method"] == "tight")
    return float(row["active"]["all"]) / float(row["size"])


@section("boosting")
def boosting(results: Results) -> str:
    """Table 1 of the 2002 paper, and its bounds."""
    parts = [_bounds_table(results, "boosting"), _bound_checks(results, "boosting", FEATURES)]
    return "\n\n".join([*parts, "Per cent of wrong labels:", _errors(results, "entities", "boosting")])


@section("tag-boosting")
def tag_boosting(results: Results) -> str:
    """Table 2 of the 2002 paper."""
    parts = [_bounds_table(results, "tag-boosting"), _bound_checks(results, "tag-boosting", FEATURES[:2])]
    parts += ["Per cent of wrong labels:", _errors(results, "tags", "tag-boosting")]
    return "\n\n".join(
        [
            *parts,
            "Accuracies, the published ones from section 6 of the 2003 paper, ours from the first sentences:",
            _boosted(results),
        ]
    )


def _boosted(results: Results) -> str:
    """Return the accuracies of boosting in section 6 of the 2003 paper, and what they say."""
    score = partial(_score, results, "tag-boosting")
    rows = [
        [
            features,
            *(
                against(paper_cells("tags")[published, features], score(features, own))
                for published, own in (
                    ("SequentialExp", "SequentialExp-30"), ("Boosting", "loose"), ("Boosting", "tight"),
                )
            ),
        ]
        for features in FEATURES[:2]
    ]  # fmt: skip
    wanted = Check(
        "both bounds gain more from S2 than the gradient method, as published",
        lambda: all(
            score("S2", bound) - score("S1", bound) > score("S2", "SequentialExp-30") - score("S1", "SequentialExp-30")
            for bound in BOUNDS[:2]
        ),
    )
    head = ["features", "gradient method", "boosting, loose bound", "boosting, tight bound"]
    return f"{table(Table(head, rows))}\n\n{checks([wanted])}"


@section("gradients")
def gradients(results: Results) -> str:
    """Section 4.3 of the 2003 paper: L-BFGS and conjugate gradients."""
    rows = {(row["features"], row["method"]): row for row in found(results, "gradients")}
    head = ["features", "method", *(f"{what} to {share:g} %" for share in NEAR for what in ("iterations", "seconds"))]
    content = [
        [
            features, GRADIENTS[method],
            *(cell for share in NEAR for cell in _near(rows, features, method, share)), row["test"],
        ]
        for (features, method), row in rows.items()
    ]  # fmt: skip
    wanted = [
        Check(
            f"{features}: L-BFGS is within {share:g} % of the least objective before conjugate gradients, as published",
            lambda features=features, share=share: (
                _near(rows, features, "L-BFGS", share)[1] < _near(rows, features, "conjugate", share, math.inf)[1]
            ),
        )
        for features in FEATURES
        for share in NEAR
    ]
    return f"{table(Table([*head, 'test F1'], content))}\n\n{checks(wanted)}"


def _near(rows: Mapping[Any, Row], features: str, method: str, share: float, never: Any = None) -> tuple[Any, Any]:
    """Return the iterations and seconds until the objective is within `share` per cent of the least that any found."""
    least = min(row["objective"] for (one, _), row in rows.items() if one == features)
    for note in rows[features, method]["trace"]:
        if note["objective"] <= (1 + share / 100) * least:
            return note["iteration"], note["seconds"]
    return never, never


@section("curve")
def curve(results: Results) -> str:
    """Learning curves."""
    sizes = sorted({row["sentences"] for features in FEATURES for row in found(results, f"curve-{features}")})
    rows = []
    for features in FEATURES:
        for loss in LOSSES:
            few = [row for row in found(results, f"curve-{features}") if row["method"] == loss]
            full = _score(results, "entities", features, loss)
            rows.append([loss, features, *(row["test"] for row in few), full])
    spread = {
        (features, size): [row["test"] for row in found(results, f"curve-{features}") if row["sentences"] == size]
        for features in FEATURES
        for size in sizes
    }
    wanted = [
        Check(
            f"{size} sentences: the losses differ by less than S3 differs from S1, as published",
            lambda size=size: (
                max(max(spread[features, size]) - min(spread[features, size]) for features in FEATURES)
                < min(spread["S3", size]) - max(spread["S1", size])
            ),
        )
        for size in sizes
    ]
    head = ["method", "features", *(f"{size:,} sentences" for size in sizes), "all"]
    return f"{table(Table(head, rows))}\n\n{checks(wanted)}"


@section("tags")
def tags(results: Results) -> str:
    """Table 1, tags."""
    score = partial(_score, results, "tags")
    exponential = (*LOSSES[1::2], *CAPPED)
    wanted = [
        *(
            Check(f"{loss}: S1 < S2, as published", lambda loss=loss: score("S1", loss) < score("S2", loss))
            for loss in (*LOSSES, *CAPPED)
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
                    >= max(score(features, loss) for loss in exponential)
                ),
            )
            for features in FEATURES[:2]
        ),
        _inside(results, "tags"),
    ]
    return f"{table(_methods(results, 'tags'))}\n\n{checks(wanted)}"


@section("dual")
def dual(results: Results) -> str:
    """Section 6 of the 2003 paper: the dual perceptron."""
    keys = ("method", "features", "degree", "dev", "test", "epochs", "seconds", "test seconds", "supports", "megabytes")
    rows = {(row["method"], row["features"], row["degree"]): row for row in found(results, "dual")}
    wanted = [
        *(
            Check(
                f"{features}: the dual perceptron of degree 1 scores like the primal one (within 0.1 points)",
                lambda features=features: (
                    abs(rows["dual", features, 1]["test"] - rows["primal", features, 1]["test"]) <= 0.1
                ),
            )
            for features in FEATURES
        ),
        *(
            Check(
                f"{features}: the degree that is best on the dev part improves on the primal perceptron",
                lambda features=features: (
                    max((rows["dual", features, degree] for degree in (1, 2, 3)), key=lambda row: row["dev"])["test"]
                    > rows["primal", features, 1]["test"]
                ),
            )
            for features in FEATURES[1:]
        ),
    ]
    lines = [[row["method"], row["features"], *(row[key] for key in keys[2:])] for row in rows.values()]
    return f"{table(Table(keys, lines))}\n\n{checks(wanted)}"
