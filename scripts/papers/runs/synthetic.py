"""Sokolovska (2010), table 7.1 and figures 7.2 to 7.6: few sequences from a hidden Markov model, many weights."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from scripts.papers._harness import Options, Row, config
from scripts.papers.corpora import as_examples
from scripts.papers.hidden_markov import LETTERS, as_texts, make_hmm
from scripts.papers.task import Task, Trained, changed
from scripts.papers.weights import compact, weights_of

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.training import Example

TUNING = 10_000
"""Number of the first draw on which settings are chosen."""
BOXES = ((0, "train"), (1, "test"))
"""Columns of `_measured` that are drawn as boxes."""


def _prepared(options: Options) -> tuple[dict[str, Any], Language]:
    """Return the settings and a blank pipeline, after a first run, which loads everything.

    What is loaded is left out of collections of garbage: one precedes each of a thousand short runs.
    """
    import spacy

    settings, nlp = config("synthetic"), spacy.blank("en")
    task = _task(settings, nlp, "both", _draw_data(options, settings, nlp, TUNING - 1))
    for method in settings["methods"].values():
        task.fit(method)
    gc.freeze()
    return settings, nlp


class Draw(NamedTuple):
    """Training and test sequences, and the error in per cent of the best possible labels of the latter."""

    train: list[Example]
    test: list[Example]
    best: float


def _draw_data(options: Options, settings: dict[str, Any], nlp: Language, number: int) -> Draw:
    hmm, sizes = make_hmm(**settings["hmm"]), settings["data"]
    rng = np.random.default_rng([options.seed, number])
    train, test = (hmm.sample(rng, sizes[part], sizes["length"]) for part in ("train", "test"))
    wrong = float((hmm.best_labels(test[1]) != test[0]).mean())
    return Draw(as_examples(nlp, as_texts(*train)), as_examples(nlp, as_texts(*test)), 100 * wrong)


def _task(settings: dict[str, Any], nlp: Language, features: str, draw: Draw) -> Task:
    parts = {"train": draw.train, "test": draw.test}
    return Task(nlp, settings["component"], settings["features"][features], draw.train, parts)


def _errors(task: Task, theta: Any) -> tuple[float, float]:
    return 100 - task.score("train", theta), 100 - task.score("test", theta)


def models(options: Options) -> list[Row]:
    """Return a row for each model, with means over the replications and what a box plot shows, and the Bayes error."""
    settings, nlp = _prepared(options)
    dense, sparse = dict(settings["dense"]), settings["sparse"]
    grid = dense.pop("rho")
    chosen = _chosen(options, settings, nlp, dense, grid)
    runs: dict[str, list[list[float]]] = {}
    best = []
    for number in range(options.few(2, settings["data"]["replications"])):
        draw = _draw_data(options, settings, nlp, number)
        best.append(draw.best)
        for model, features in dense.items():
            task = _task(settings, nlp, features, draw)
            method = changed(settings["methods"]["L-BFGS"], regularizer={"rho": chosen[model]})
            runs.setdefault(model, []).append(_measured(task, method))
            if model == "M1":
                for name, rho1 in sparse.items():
                    method = changed(settings["methods"]["SBCD"], regularizer={"rho1": rho1})
                    runs.setdefault(name, []).append(_measured(task, method))
    rows: list[Row] = [{"model": "Bayes", "test error": round(float(np.mean(best)), 2)}]
    for model, figures in sorted(runs.items()):
        table = np.array(figures)
        names = ("train error", "test error", "unigrams", "bigrams", "seconds")
        means = {name: round(float(mean), 4) for name, mean in zip(names, table.mean(axis=0), strict=True)}
        boxes = {name: np.percentile(table[:, k], (5, 25, 50, 75, 95)).round(2).tolist() for k, name in BOXES}
        setting = {"rho2": chosen[model]} if model in chosen else {"rho1": sparse[model]}
        rows.append({"model": model, **setting, "runs": len(figures), **means, "boxes": boxes})
    return rows


def _chosen(
    options: Options, settings: dict[str, Any], nlp: Language, dense: dict[str, str], grid: list[float]
) -> dict[str, float]:
    """Return the strength of the L2 norm with the lowest error on draws of their own, for each dense model."""
    errors: dict[str, list[list[float]]] = {model: [] for model in dense}
    for number in range(options.few(1, settings["data"]["tuning"])):
        draw = _draw_data(options, settings, nlp, TUNING + number)
        for model, features in dense.items():
            task = _task(settings, nlp, features, draw)
            methods = [changed(settings["methods"]["L-BFGS"], regularizer={"rho": rho}) for rho in grid]
            errors[model].append([_measured(task, method)[1] for method in methods])
    return {model: grid[int(np.mean(those, axis=0).argmin())] for model, those in errors.items()}


def _measured(task: Task, method: dict[str, Any]) -> list[float]:
    """Return errors on the training and the test part, kept weights of both kinds, and seconds."""
    trained = task.fit(method)
    active = task.active(trained.theta)
    return [*_errors(task, trained.theta), active["state"], active["pair"], trained.seconds]


def selection(options: Options) -> list[Row]:
    """Return rows with the share of replications that keep each weight, and with the mean of the weights of (y,x)."""
    settings, nlp = _prepared(options)
    block, sizes = settings["selection"], settings["hmm"]
    symbols, labels = LETTERS[: sizes["symbols"]], LETTERS[: sizes["labels"]].upper()
    method = changed(settings["methods"]["SBCD"], regularizer={"rho1": block["rho1"]})
    unigrams, bigrams = [], []
    for number in range(options.few(2, block["replications"])):
        task = _task(settings, nlp, "both", _draw_data(options, settings, nlp, number))
        learned = weights_of(task, task.fit(method).theta, symbols)
        order = [task.labels.index(label) if label in task.labels else -1 for label in labels]
        padded = np.pad(learned.unigrams, ((0, 0), (0, 1))), np.pad(learned.bigrams, ((0, 0), (0, 1), (0, 1)))
        unigrams.append(padded[0][:, order])
        bigrams.append(padded[1][:, order][:, :, order])
    kept = np.mean(np.array(bigrams) != 0, axis=0)
    rows: list[Row] = [
        {"map": "unigrams kept", "rows": compact(symbols, np.mean(np.array(unigrams) != 0, axis=0))},
        {"map": "unigrams", "rows": compact(symbols, np.mean(unigrams, axis=0))},
        *({"map": f"bigrams kept, {x}", "rows": compact(labels, kept[k])} for k, x in enumerate(symbols)),
    ]
    return [{**row, "rho1": block["rho1"], "runs": len(unigrams)} for row in rows]


def descent(options: Options) -> list[Row]:
    """Return a row for each method: mean errors and objective after each iteration, and mean seconds of all."""
    settings, nlp = _prepared(options)
    block, runs = settings["descent"], dict[str, list[Trained]]()
    for number in range(options.few(1, block["replications"])):
        task = _task(settings, nlp, "both", _draw_data(options, settings, nlp, number))
        for name, optimizer in settings["course"].items():
            method = changed(settings["methods"]["SBCD"], regularizer={"rho1": block["rho1"]})
            method["optimizer"] = {**optimizer, "max_iterations": block["iterations"]}
            watch = lambda theta: dict(zip(("train", "test"), _errors(task, theta), strict=True))  # noqa: B023, E731
            runs.setdefault(name, []).append(task.fit(method, watch=watch))
    rows = []
    for name, those in runs.items():
        course = {
            part: np.mean([[note[part] for note in run.trace] for run in those], axis=0).round(3).tolist()
            for part in ("train", "test", "objective")
        }
        seconds = round(float(np.mean([run.seconds for run in those])), 5)
        rows.append({"method": name, "runs": len(those), "seconds": seconds, **course})
    return rows
