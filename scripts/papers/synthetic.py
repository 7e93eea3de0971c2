"""Sokolovska (2010), table 7.1 and figures 7.2 to 7.6: few sequences from a hidden Markov model, many weights."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from scripts.papers import _harness
from scripts.papers._harness import Options, Results, Row, experiment
from scripts.papers.figures import drawn
from scripts.papers.nettalk import compact, weights_of
from scripts.papers.page import Check, Table, checks, figure, found, section, table
from scripts.papers.tasks import Task, Trained, as_examples, changed

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from spacy.language import Language
    from spacy.training import Example

TUNING = 10_000
"""Number of the first draw on which settings are chosen."""
BOXES = ((0, "train"), (1, "test"))
"""Columns of `_measured` that are drawn as boxes."""
LETTERS = "abcdefghijklmnopqrstuvwxyz"


class HiddenMarkov(NamedTuple):
    """A hidden Markov model: K labels, S symbols.

    start (NDArray): [K] probabilities of the first label.
    step (NDArray): [K, K] of the next label, given the one before.
    emit (NDArray): [K, S] of the symbol, given the label.
    """

    start: NDArray[np.float64]
    step: NDArray[np.float64]
    emit: NDArray[np.float64]

    def sample(self, rng: np.random.Generator, count: int, length: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return labels and symbols [count, length]."""
        labels = np.empty((count, length), np.int64)
        labels[:, 0] = _draw(rng, np.broadcast_to(self.start, (count, len(self.start))))
        for t in range(1, length):
            labels[:, t] = _draw(rng, self.step[labels[:, t - 1]])
        symbols = _draw(rng, self.emit[labels.ravel()]).reshape(labels.shape)
        return labels, symbols

    def best_labels(self, symbols: NDArray[Any]) -> NDArray[Any]:
        """Return the most probable label of each position [count, length]: no method has a lower error on average."""
        evidence = self.emit.T[symbols]
        forward = np.empty_like(evidence)
        forward[:, 0] = self.start * evidence[:, 0]
        for t in range(1, symbols.shape[1]):
            forward[:, t] = (forward[:, t - 1] @ self.step) * evidence[:, t]
        backward = np.ones_like(evidence)
        for t in range(symbols.shape[1] - 2, -1, -1):
            backward[:, t] = (evidence[:, t + 1] * backward[:, t + 1]) @ self.step.T
        best: NDArray[Any] = (forward * backward).argmax(axis=2)
        return best


def _draw(rng: np.random.Generator, probabilities: NDArray[Any]) -> NDArray[Any]:
    """Return one draw from each row of probabilities."""
    drawn_at = rng.random(len(probabilities))[:, None]
    picks: NDArray[Any] = (probabilities.cumsum(axis=1) < drawn_at).sum(axis=1)
    return np.minimum(picks, probabilities.shape[1] - 1)


def make_hmm(labels: int, symbols: int, strong: float, clear: float) -> HiddenMarkov:
    """Return a model where a label emits a symbol of its own, and only two transitions are not uniform.

    strong (float): Probability of the last label but one after the first, and of the last after the second; the others
        share the rest.  The other labels have uniform transitions.
    clear (float): Probability of a label's own symbol; the others share the rest.  Labels beyond the number of symbols
        have the last symbol, too: only the two transitions distinguish them.
    """
    step = np.full((labels, labels), 1 / labels)
    step[:2] = (1 - strong) / (labels - 1)
    step[[0, 1], [labels - 2, labels - 1]] = strong
    emit = np.full((labels, symbols), (1 - clear) / (symbols - 1))
    emit[np.arange(labels), np.minimum(np.arange(labels), symbols - 1)] = clear
    return HiddenMarkov(np.full(labels, 1 / labels), step, emit)


def as_texts(labels: NDArray[Any], symbols: NDArray[Any]) -> list[tuple[list[str], list[str]]]:
    """Return sequences as symbols and labels, both named by letters."""
    return [
        ([LETTERS[symbol] for symbol in row], [LETTERS[label].upper() for label in gold])
        for gold, row in zip(labels, symbols, strict=True)
    ]


def _prepared(options: Options) -> tuple[dict[str, Any], Language]:
    """Return the settings and a blank pipeline, after a first run, which loads everything.

    What is loaded is left out of collections of garbage: one before each of a thousand short runs takes most of the time.
    """
    import spacy

    settings, nlp = _harness.config("synthetic"), spacy.blank("en")
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


@experiment("synthetic-models", "Synthetic HMM data, 10 sequences: error and kept features of M1 to M8", 2)
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


@experiment("synthetic-selection", "Synthetic HMM data: how often each weight is kept", 0.3)
def selection(options: Options) -> list[Row]:
    """Return rows with the share of replications that keep each weight, and with the mean of the weights of (y,x)."""
    settings, nlp = _prepared(options)
    block, sizes = settings["selection"], settings["hmm"]
    symbols, labels = LETTERS[: sizes["symbols"]], LETTERS[: sizes["labels"]].upper()
    method = changed(settings["methods"]["SBCD"], regularizer={"rho1": block["rho1"]})
    unigrams, bigrams = [], []
    for number in range(options.few(2, block["replications"])):
        task = _task(settings, nlp, "both", _draw_data(options, settings, nlp, number))
        found = weights_of(task, task.fit(method).theta, symbols)
        order = [task.labels.index(label) if label in task.labels else -1 for label in labels]
        padded = np.pad(found.unigrams, ((0, 0), (0, 1))), np.pad(found.bigrams, ((0, 0), (0, 1), (0, 1)))
        unigrams.append(padded[0][:, order])
        bigrams.append(padded[1][:, order][:, :, order])
    kept = np.mean(np.array(bigrams) != 0, axis=0)
    rows: list[Row] = [
        {"map": "unigrams kept", "rows": compact(symbols, np.mean(np.array(unigrams) != 0, axis=0))},
        {"map": "unigrams", "rows": compact(symbols, np.mean(unigrams, axis=0))},
        *({"map": f"bigrams kept, {x}", "rows": compact(labels, kept[k])} for k, x in enumerate(symbols)),
    ]
    return [{**row, "rho1": block["rho1"], "runs": len(unigrams)} for row in rows]


@experiment("synthetic-descent", "Synthetic HMM data: block-wise against coordinate-wise descent", 1)
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
            part: np.mean([[note[part] for note in one.trace] for one in those], axis=0).round(3).tolist()
            for part in ("train", "test", "objective")
        }
        seconds = round(float(np.mean([one.seconds for one in those])), 5)
        rows.append({"method": name, "runs": len(those), "seconds": seconds, **course})
    return rows


# The page


class _Means(NamedTuple):
    """Averages over the repetitions."""

    error: float
    active: float
    seconds: float
    size: int
    iterations: float


def _means(results: Results) -> dict[tuple[str, str], _Means]:
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in found(results, "synthetic"):
        if "iterations" in row:
            groups.setdefault((row["model"], row["method"]), []).append(row)
    return {
        key: _Means(
            float(np.mean([row["test error"] for row in rows])),
            float(np.mean([row["active"]["all"] for row in rows])),
            float(np.mean([row["seconds"] for row in rows])),
            rows[0]["size"],
            float(np.mean([row["iterations"] for row in rows])),
        )
        for key, rows in groups.items()
    }


def _best_possible(results: Results) -> float:
    return float(np.mean([row["test error"] for row in found(results, "synthetic") if row["model"] == "best possible"]))


def _loss_of(means: dict[tuple[str, str], _Means], method: str) -> float:
    """Return the difference in error between the largest model and the one that generated the data."""
    return means["M8", method].error - means["M2", method].error


@section("synthetic")
def synthetic_section(results: Results) -> str:
    """Figures 7.2 to 7.4."""
    means = _means(results)
    head = ["model", "method", "test error %", "active features", "of", "iterations", "seconds"]
    content = [
        [model, method, one.error, round(one.active), one.size, round(one.iterations), one.seconds]
        for (model, method), one in means.items()
    ]
    wanted = [
        Check(
            "M2, the model that generated the data, has a lower error than M1, which ignores neighbours",
            lambda: means["M2", "L-BFGS"].error < means["M1", "L-BFGS"].error - 5,
        ),
        Check(
            "M2 is within 1 point of the best possible result",
            lambda: means["M2", "L-BFGS"].error <= _best_possible(results) + 1,
        ),
        Check(
            "on the largest model, M8, L1 is closer to M2 than L2 is",
            lambda: _loss_of(means, "OWL-QN") < _loss_of(means, "L-BFGS"),
        ),
        Check(
            "from M5 on, L1 keeps less than half of the features that L2 keeps",
            lambda: all(means[f"M{n}", "OWL-QN"].active < means[f"M{n}", "L-BFGS"].active / 2 for n in range(5, 9)),
        ),
        Check(
            "the errors of OWL-QN and SBCD, which minimise the same objective, agree within 0.3 points",
            lambda: all(abs(means[f"M{n}", "OWL-QN"].error - means[f"M{n}", "SBCD"].error) <= 0.3 for n in range(1, 9)),
        ),
    ]
    pictures = figure("synthetic", "Test error, active features and time of the models M1 to M8")
    best = f"The best possible error on these test sequences is {_best_possible(results):.2f} %.\n\n" if means else ""
    return f"{table(Table(head, content))}\n\n{best}{checks(wanted)}\n\n{pictures}"


@drawn("synthetic", panels=3)
def draw_synthetic(axes: Any, results: Results) -> bool:
    """Draw error, active features and time, one panel each."""
    means = _means(results)
    names = list(dict.fromkeys(model for model, _ in means))
    for method in dict.fromkeys(method for _, method in means):
        here = [name for name in names if (name, method) in means]
        for panel, figures in zip(axes, zip(*(means[name, method][:3] for name in here), strict=True), strict=True):
            panel.plot(here, figures, "o-", label=method)
    if means:
        axes[0].axhline(_best_possible(results), color="#888888", linestyle=":", label="best possible")
    for panel, label in zip(axes, ("test error, %", "active features", "processor time, seconds"), strict=True):
        panel.set(xlabel="model", ylabel=label)
    axes[1].set_yscale("log")
    if means:
        axes[0].legend()
    return bool(means)
