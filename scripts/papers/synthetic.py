"""Sokolovska (2010), table 7.1 and figures 7.2 to 7.6: few sequences from a hidden Markov model, many weights."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from scripts.papers import _harness
from scripts.papers._harness import Options, Results, Row, experiment
from scripts.papers.figures import COLOURS, draw_lines, draw_maps, drawn
from scripts.papers.nettalk import weights_of
from scripts.papers.page import Section, against, by, columns, compact, expanded, found, paper_rows, section
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

    What is loaded is left out of collections of garbage: one precedes each of a thousand short runs.
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


@section("synthetic-models")
def models_section(results: Results) -> Section:
    """Table 7.1 and figure 7.2."""
    rows, nothing = by(found(results, "synthetic-models"), "model"), (None, None)
    best = rows.pop("Bayes", {}).get("test error", float("nan"))
    kept, errors = paper_rows("synthetic"), paper_rows("synthetic-errors")

    def beside(published: dict[str, Any], place: int, key: str) -> Any:
        return lambda row: against(published.get(row["model"], nothing)[place], row[key])

    text = columns(rows.values(), {
        "model": "model", "rho": lambda row: row.get("rho1", row.get("rho2")),
        "weights of (y,x)": beside(kept, 0, "unigrams"), "weights of (y',y,x)": beside(kept, 1, "bigrams"),
        "training error %": beside(errors, 0, "train error"), "test error %": beside(errors, 1, "test error"),
        "ms": lambda row: 1000 * row["seconds"],
    })  # fmt: skip
    text += f"\n\nThe Bayes error on these test sequences is {best:.2f} % (published: about 15)."
    test = {model: row["test error"] for model, row in rows.items()}
    gap = {model: row["test error"] - row["train error"] for model, row in rows.items()}

    def near(model: str) -> bool:
        """Return whether mean numbers of kept weights are within a quarter of those published, or within one."""
        pairs = zip(kept[model], (rows[model]["unigrams"], rows[model]["bigrams"]), strict=True)
        return all(abs(ours - published) <= max(1.0, published / 4) for published, ours in pairs)

    return Section(text, {"test": test, "gap": gap, "kept": kept, "near": near, "best": best})


@drawn("synthetic-models", panels=2)
def draw_models(axes: Any, results: Results) -> bool:
    """Draw box plots, a panel for each part; whiskers end at the 5th and the 95th percentile."""
    rows = [row for row in found(results, "synthetic-models") if "boxes" in row]
    names = ("whislo", "q1", "med", "q3", "whishi")
    for panel, (_, part) in zip(axes, BOXES, strict=True):
        boxes = [{"label": row["model"], **dict(zip(names, row["boxes"][part], strict=True))} for row in rows]
        if boxes:
            panel.bxp(boxes, showfliers=False, medianprops={"color": COLOURS[1]})
        panel.set(ylabel=f"{'training' if part == 'train' else part} error, %")
    return bool(rows)


@section("synthetic-selection")
def selection_section(results: Results) -> Section:
    """Figures 7.3 and 7.4."""
    maps = {row["map"]: expanded(row["rows"]) for row in found(results, "synthetic-selection")}
    hmm = make_hmm(**_harness.config("synthetic")["hmm"])
    strong = {tuple(place) for place in np.argwhere(hmm.step > 1 / 2).tolist()}
    last = f"bigrams kept, {LETTERS[len(hmm.emit.T) - 1]}"
    names = {
        "kept": maps["unigrams kept"],
        "own": hmm.emit.T > 1 / 2,
        "most": _most(maps, len(strong)),
        "expected": {(last, *pair) for pair in strong},
    }
    return Section("", names)


def _most(maps: dict[str, NDArray[Any]], count: int) -> set[tuple[str, int, int]]:
    """Return the label pairs that are kept most often: map, previous label and label."""
    kept = [
        (-share, name, *place)
        for name, values in maps.items()
        if name.startswith("bigrams")
        for place, share in np.ndenumerate(values)
    ]
    return {(name, previous, label) for _, name, previous, label in sorted(kept)[:count]}


@drawn("synthetic-unigrams", panels=2)
def draw_unigrams(axes: Any, results: Results) -> bool:
    """Draw shares and means, a panel each."""
    rows = by(found(results, "synthetic-selection"), "map")
    titles = {"unigrams kept": "share kept", "unigrams": "mean weight"}
    maps = {title: (rows[name]["rows"], LETTERS[:6].upper()) for name, title in titles.items() if name in rows}
    return draw_maps(axes, maps, "label", "symbol")


@drawn("synthetic-bigrams", panels=5)
def draw_bigrams(axes: Any, results: Results) -> bool:
    """Draw shares, a panel for each symbol."""
    rows = [row for row in found(results, "synthetic-selection") if row["map"].startswith("bigrams")]
    maps = {f"share kept, symbol {row['map'][-1]}": (row["rows"], "".join(row["rows"])) for row in rows}
    return draw_maps(axes, maps, "label", "previous label")


@section("synthetic-descent")
def descent_section(results: Results) -> Section:
    """Figures 7.5 and 7.6."""
    rows, published = by(found(results, "synthetic-descent"), "method"), paper_rows("descent")
    seconds = {name: row["seconds"] for name, row in rows.items()}
    block = seconds.get("block", float("nan"))

    def times(row: Row) -> str:
        return against(published[row["method"]] / published["block"], row["seconds"] / block)

    text = columns(rows.values(), {
        "method": lambda row: NAMES[row["method"]], "seconds, published": lambda row: published[row["method"]],
        "ms, ours": lambda row: 1000 * row["seconds"], "times the block-wise method's": times,
        "training error %": lambda row: row["train"][-1], "test error %": lambda row: row["test"][-1],
        "objective": lambda row: row["objective"][-1],
    })  # fmt: skip
    order = [sorted(of, key=of.__getitem__) for of in (seconds, published)]
    last = {part: [row[part][-1] for row in rows.values()] for part in ("test", "objective")}
    return Section(text, {"seconds": seconds, "order": order, "last": last})


NAMES = {"block": "all weights of a symbol at a time", "coordinate": "one weight", "active": "one active weight"}


@drawn("synthetic-descent", panels=3)
def draw_descent(axes: Any, results: Results) -> bool:
    """Draw errors and objective, one panel each."""
    rows = found(results, "synthetic-descent")
    titles = {"train": "training error, %", "test": "test error, %", "objective": "objective"}
    for panel, (part, title) in zip(axes, titles.items(), strict=True):
        lines = {NAMES[row["method"]]: [*enumerate(row[part], 1)] for row in rows}
        draw_lines(panel, lines, legend=part == "train", xlabel="iteration", ylabel=title)
    return bool(rows)
