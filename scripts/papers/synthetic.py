"""Sokolovska (2010), figures 7.2 to 7.4: sequences from a hidden Markov model and models of growing context."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from scripts.papers import _harness
from scripts.papers._harness import Options, Results, Row, Skip, experiment
from scripts.papers.figures import drawn
from scripts.papers.page import Check, Table, checks, figure, found, section, table
from scripts.papers.tasks import Task, as_examples

if TYPE_CHECKING:
    from numpy.typing import NDArray

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


def make_hmm(labels: int, symbols: int, stay: float, onward: float, clear: float) -> HiddenMarkov:
    """Return a model whose labels go round: a label stays, moves on to the next, or jumps; it emits one clear symbol.

    stay, onward (float): Probabilities of the same and of the next label; the others share the rest.
    clear (float): Probability of a label's own symbol; the others share the rest.  Labels beyond the number of symbols
        have the last symbol, too: only their neighbours distinguish them.
    """
    step = np.full((labels, labels), (1 - stay - onward) / (labels - 2))
    step[np.arange(labels), np.arange(labels)] = stay
    step[np.arange(labels), (np.arange(labels) + 1) % labels] = onward
    emit = np.full((labels, symbols), (1 - clear) / (symbols - 1))
    emit[np.arange(labels), np.minimum(np.arange(labels), symbols - 1)] = clear
    return HiddenMarkov(np.full(labels, 1 / labels), step, emit)


def as_texts(labels: NDArray[Any], symbols: NDArray[Any]) -> list[tuple[list[str], list[str]]]:
    """Return sequences as symbols and labels, both named by letters."""
    return [
        ([LETTERS[symbol] for symbol in row], [LETTERS[label].upper() for label in gold])
        for gold, row in zip(labels, symbols, strict=True)
    ]


@experiment("synthetic", "Synthetic HMM data: error, active features and time of M1 to M8, L2 against L1", 1)
def synthetic(options: Options) -> list[Row]:
    """Return a row for each repetition, model and penalty, and one for the best possible result."""
    settings = _harness.config("synthetic")
    hmm = make_hmm(**settings["hmm"])
    sizes = settings["data"]
    rows = []
    for repetition in range(options.few(1, sizes["repetitions"])):
        rng = np.random.default_rng([options.seed, repetition])
        train = hmm.sample(rng, options.few(50, sizes["train"]), sizes["length"])
        test = hmm.sample(rng, options.few(100, sizes["test"]), sizes["length"])
        wrong = float((hmm.best_labels(test[1]) != test[0]).mean())
        rows.append({"repetition": repetition, "model": "best possible", "test error": round(100 * wrong, 2)})
        rows += _models(options, settings, as_texts(*train), as_texts(*test), repetition)
    return rows


def _models(options: Options, settings: dict[str, Any], train: Any, test: Any, repetition: int) -> list[Row]:
    import spacy

    nlp = spacy.blank("en")
    examples, parts = as_examples(nlp, train), {"test": as_examples(nlp, test)}
    rows: list[Row] = []
    for model, block in settings["models"].items():
        component = {**settings["component"], "transitions": block.get("transitions", True)}
        try:
            task = Task(nlp, component, block["features"], examples, parts, quick=options.quick)
        except Skip as reason:
            rows.append({"repetition": repetition, "model": model, "skipped": str(reason)})
            continue
        for name, method in settings["methods"].items():
            about = {"repetition": repetition, "model": model, "method": name}
            try:
                trained = task.fit(method)
                error = round(100 - task.score("test", trained.theta), 2)
                rows.append(task.row(trained, **about, **{"test error": error}))
            except Skip as reason:
                rows.append({**about, "skipped": str(reason)})
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
