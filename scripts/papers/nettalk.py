"""Sokolovska (2010) on NetTalk: feature patterns, training methods, thresholds, and block descent along rho1."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scripts.papers import _harness
from scripts.papers._harness import Options, Results, Row, Skip, experiment
from scripts.papers.figures import draw_lines, draw_maps, drawn
from scripts.papers.page import (
    Section,
    against,
    by,
    cell,
    columns,
    compact,
    expanded,
    found,
    paper_rows,
    section,
    table,
)
from scripts.papers.tasks import Task, as_examples, changed, read_nettalk, split_words

CONFUSED = ("(y',y,x)", "(y,x) + (y',y,x)")
"""Patterns whose errors are listed."""
ALPHABET = "abcdefghijklmnopqrstuvwxyz"
MOST = 20
"""Number of confusions and words that are listed."""
MARGINS = (0, 2, 5, 8, 10)
"""Wrong symbols of a word, or differences in score, above which words are counted."""
THRESHOLDS = (0.0, 0.25, 0.5, 1.0, 2.0)
MAPPED = (0.25, 2.0)
"""Thresholds at which the kept weights of each phoneme and letter are counted."""


def _task(options: Options, settings: Mapping[str, Any], model: Mapping[str, Any]) -> Task:
    import spacy

    pairs = read_nettalk(options.corpus(settings["files"]["all"]))
    if options.quick:
        pairs = pairs[::80]
    nlp = spacy.blank("en")
    train, dev, test = (
        as_examples(nlp, part)
        for part in split_words(pairs, (settings["split"]["train"], settings["split"]["dev"]), options.seed)
    )
    chosen = {key: value for key, value in model.items() if key != "name"}
    component = {**settings["component"], **chosen}
    parts = {"train": train, "dev": dev, "test": test}
    return Task(nlp, component, component.pop("features"), train, parts, quick=options.quick)


def _errors(task: Task, theta: Any, parts: Sequence[str] = ("train", "dev", "test")) -> Row:
    return {f"{part} error": round(100 - task.score(part, theta), 2) for part in parts}


@experiment("nettalk-patterns", "NetTalk, patterns of features under an L2 norm, and the errors of two", 6)
def patterns(options: Options) -> list[Row]:
    """Return a row for each pattern."""
    settings = _harness.config("nettalk")
    options.corpus(settings["files"]["all"])
    rows = []
    for pattern in settings["patterns"].values():
        name = pattern["name"]
        try:
            task = _task(options, settings, pattern)
            trained = task.fit(settings["training"])
            row = task.row(trained, pattern=name, **_errors(task, trained.theta))
            rows.append({**row, **(_mistakes(task, trained.theta) if name in CONFUSED else {})})
        except Skip as reason:
            rows.append({"pattern": name, "skipped": str(reason)})
    return rows


def _mistakes(task: Task, theta: Any, part: str = "test") -> Row:
    """Return the most frequent confusions on a part, words by their errors, and the worst words."""
    words = task.labelled(part, theta)
    confusions = Counter(
        (found, gold) for word in words for found, gold in zip(word.found, word.gold, strict=True) if found != gold
    )
    wrong = Counter(sum(a != b for a, b in zip(word.found, word.gold, strict=True)) for word in words)
    worst = sorted(words, key=lambda word: -word.margin if word.margin > 0 else 0.0)[:MOST]
    return {
        "confusions": [[*pair, count] for pair, count in confusions.most_common(MOST)],
        "words by margin": {str(least): sum(word.margin > least for word in words) for least in MARGINS},
        "words by errors": {str(errors): count for errors, count in sorted(wrong.items())},
        "worst words": [
            [*("".join(texts) for texts in (word.symbols, word.gold, word.found)), round(word.margin, 2)]
            for word in worst
        ],
    }


@experiment("nettalk-methods", "NetTalk, (y,x) + (y',y,x): three methods, and the L2 model cut down", 6)
def methods(options: Options) -> list[Row]:
    """Return a row for each method, with its course, and rows for the L2 model without its smallest weights."""
    settings = _harness.config("nettalk")
    task = _task(options, settings, settings["model"])
    rows = []
    for name, method in settings["methods"].items():
        try:
            trained = task.fit(method, watch=lambda theta: _errors(task, theta, ("test",)))
        except Skip as reason:
            rows.append({"method": name, "skipped": str(reason)})
            continue
        rows.append(task.row(trained, method=name, **_errors(task, trained.theta), trace=trained.trace))
        if name == "L-BFGS":
            rows += _screened(task, trained.theta)
    return rows


@experiment("nettalk-norms", "NetTalk, SGD with the L2 norm of table 3.2 and with that of the thesis", 1)
def norms(options: Options) -> list[Row]:
    """Return a row for each strength of the norm."""
    settings = _harness.config("nettalk")
    task = _task(options, settings, settings["model"])
    rows = []
    for rho in settings["norms"]["rho"]:
        trained = task.fit(changed(settings["methods"]["SGD"], regularizer={"rho": rho}))
        rows.append(task.row(trained, rho=rho, **_errors(task, trained.theta)))
    return rows


class Weights(NamedTuple):
    """The weights of (y,x) + (y',y,x).

    unigrams (NDArray): [X, L] of letter and phoneme.
    bigrams (NDArray): [X, L, L] of letter, previous phoneme and phoneme.
    """

    unigrams: NDArray[Any]
    bigrams: NDArray[Any]

    def kept(self, threshold: float) -> Weights:
        """Return 1 for each weight of a greater absolute value, 0 for the others."""
        return Weights(*((np.abs(part) > threshold).astype(np.int64) for part in self))

    def orphans(self) -> NDArray[Any]:
        """Return where there are weights of label pairs without that of the label [X, L]."""
        found: NDArray[Any] = self.bigrams.any(axis=1) & (self.unigrams == 0)
        return found


def weights_of(task: Task, theta: Any, symbols: Sequence[str]) -> Weights:
    """Return the weights of a model with one template per block, in the order of the symbols."""
    unigrams, bigrams = task.rows_of(symbols)
    n, views = len(task.labels), task.layout.views(theta)
    found = views.unigrams.reshape(-1, n)[unigrams], views.bigrams.reshape(-1, n, n)[bigrams]
    found[0][unigrams < 0], found[1][bigrams < 0] = 0, 0
    return Weights(*found)


def _screened(task: Task, theta: Any) -> list[Row]:
    """Return rows for the weights above some thresholds, for the positive ones, and for sizes by phoneme and letter."""
    rows: list[Row] = []
    kept = [(threshold, np.where(np.abs(theta) > threshold, theta, 0)) for threshold in THRESHOLDS]
    for threshold, smaller in [*kept, ("positive", np.maximum(theta, 0))]:
        weights = weights_of(task, smaller, ALPHABET)
        orphans = int(np.count_nonzero(weights.bigrams * weights.orphans()[:, None]))
        active = task.active(smaller)
        counts = {"active": active["all"], "unigrams": active["state"], "bigrams": active["pair"], "orphans": orphans}
        rows.append({"method": "threshold", "threshold": threshold, **counts, **_errors(task, smaller)})
    whole = weights_of(task, theta, ALPHABET)
    maps = {"unigrams": np.abs(whole.unigrams), "bigrams": np.abs(whole.bigrams).sum(axis=1)}
    for threshold in MAPPED:
        left = whole.kept(threshold)
        sign = np.where(left.unigrams == 0, -1, 1)  # negative where the weight of (y,x) is not kept
        maps[f"kept {threshold:g}"] = left.bigrams.sum(axis=1) * sign
    for name, values in maps.items():
        rows.append({"method": "map", "map": name, "phonemes": "".join(task.labels), "rows": compact(ALPHABET, values)})
    return rows


@experiment("nettalk-path", "NetTalk, block coordinate descent along rho1: error, features, time of a sweep", 3)
def path(options: Options) -> list[Row]:
    """Return a row for each value of a falling rho1, begun where the last one ended, with the time of its sweeps.

    The first sweep builds the method's tables, and the optimality is measured after the last one: neither is timed.
    """
    settings = _harness.config("nettalk")
    task = _task(options, settings, settings["model"])
    theta, rows = None, []
    for rho1 in settings["path"]["rho1"]:
        method = changed(settings["path"]["method"], regularizer={"rho1": rho1})
        trained = task.fit(method, start=theta, watch=lambda weights: {})
        theta = trained.theta
        sweeps = np.diff([note["seconds"] for note in trained.trace])[:-1]
        sweep = round(float(np.median(sweeps)), 3) if len(sweeps) else None
        rows.append(task.row(trained, rho1=rho1, sweep=sweep, **_errors(task, theta)))
    return rows


@experiment("nettalk-weights", "NetTalk, block coordinate descent: the weights of each letter and phoneme", 0.5)
def weights(options: Options) -> list[Row]:
    """Return rows for the weights of (y,x), and for the summed sizes of those of (y',y,x)."""
    settings = _harness.config("nettalk")
    task = _task(options, settings, settings["model"])
    strengths = settings["weights"]
    method = changed(settings["path"]["method"], regularizer=strengths)
    found = weights_of(task, task.fit(method).theta, ALPHABET)
    maps = {"unigrams": found.unigrams, "bigrams": np.abs(found.bigrams).sum(axis=1)}
    return [
        {"map": name, **strengths, "phonemes": "".join(task.labels), "rows": compact(ALPHABET, values)}
        for name, values in maps.items()
    ]


# The page


@section("nettalk-patterns")
def patterns_section(results: Results) -> Section:
    """Table 3.2."""
    rows, published = found(results, "nettalk-patterns"), paper_rows("nettalk")
    ours = by([row for row in rows if "size" in row], "pattern")
    test = {name: row["test error"] for name, row in ours.items()}

    def beside(place: int, key: str) -> Any:
        return lambda row: against(published.get(row["pattern"], (None,) * 3)[place], row[key])

    text = columns(rows, {
        "pattern": "pattern", "weights": beside(0, "size"), "training error %": beside(1, "train error"),
        "test error %": beside(2, "test error"), "ours, dev": "dev error", "seconds": "seconds",
        "optimality": "optimality",
    })  # fmt: skip
    pairs = [(published[name][2], test[name]) for name in published if name in test]
    if ratios := sorted(ours / theirs for theirs, ours in pairs):
        text += f"\n\nOur test errors are {ratios[0]:.2f} to {ratios[-1]:.2f} times the published ones."
    overfits = {name: test[name] / row["train error"] for name, row in ours.items()}
    size = {name: row["size"] for name, row in ours.items()}
    wide, last = "C = (y, x-2 x-1 x x+1 x+2)", "D + E + (y,x) + (y',y,x)"
    names = {"test": test, "size": size, "overfits": overfits, "published": published, "C": wide, "last": last}
    return Section(text, {**names, "pairs": pairs})


def rank_correlation(a: Sequence[float], b: Sequence[float]) -> float:
    """Return Spearman's rank correlation.  Raises ValueError on fewer than three pairs."""
    from scipy.stats import spearmanr

    if len(a) < 3:
        raise ValueError(len(a))
    return float(spearmanr(a, b).statistic)


IPA = {
    "a": "ɑ", "c": "ɔ", "e": "ei", "i": "i", "o": "oʊ", "u": "u", "x": "ə", "y": "j", "A": "ai", "C": "tʃ",
    "D": "ð", "E": "ɛ", "G": "ŋ", "I": "ɪ", "J": "dʒ", "K": "kʃ", "L": "əl", "M": "əm", "N": "ən", "O": "ɔi",
    "Q": "kw", "R": "ər", "S": "ʃ", "T": "θ", "U": "ʊ", "W": "au", "X": "ks", "Y": "ju", "Z": "ʒ", "@": "æ",
    "!": "ts", "#": "gz", "*": "hw", "^": "ʌ", "+": "wɑ", "-": ".",
}  # fmt: skip
"""NETtalk's symbols as the thesis writes them, those that are not letters of their own sound; silence is a dot."""


@section("nettalk-mistakes", "nettalk-patterns")
def confusions_section(results: Results) -> Section:
    """Table 3.3."""
    rows = by([row for row in found(results, "nettalk-patterns") if "confusions" in row], "pattern")
    lists: list[list[str]] = []
    for name in CONFUSED:
        pairs = [(IPA.get(a, a), IPA.get(b, b), count) for a, b, count in rows.get(name, {}).get("confusions", [])]
        lists += [paper_rows("confusions")[name].split(", "), [f"{a}-{b} {count}" for a, b, count in pairs]]
    head = [f"{name}, {whose}" for name in CONFUSED for whose in ("published", "ours")]
    symbols = [[entry.split()[0].split("-") for entry in entries] for entries in lists]
    counts = [[int(entry.split()[1]) for entry in entries] for entries in lists]
    schwas = [sum("ə" in pair for pair in entries) for entries in symbols]
    names = {"symbols": symbols, "counts": counts, "schwas": schwas}
    return Section(table(head, zip_longest(*lists, fillvalue="")), names)


def _of_both(results: Results) -> Row:
    return next((row for row in found(results, "nettalk-patterns") if row["pattern"] == CONFUSED[1]), {})


@section("nettalk-words", "nettalk-patterns")
def words_section(results: Results) -> Section:
    """Words by their errors."""
    published, ours = paper_rows("words"), _of_both(results)
    errors = {int(count): words for count, words in ours.get("words by errors", {}).items()}
    margins, whole = ours.get("words by margin", {}), sum(errors.values())
    lines = [
        [
            most,
            against(published[most], sum(words for count, words in errors.items() if count > most)),
            against(published[most], margins.get(str(most))),
            against(100 * published[most] / published["all"], 100 * margins.get(str(most), 0) / max(1, whole)),
        ]
        for most in MARGINS
    ]
    return Section(
        table(["above", "words, by wrong symbols", "words, by difference in score", "% of words, by difference"], lines)
    )


@section("nettalk-worst", "nettalk-patterns")
def worst_section(results: Results) -> Section:
    """Table 3.4."""
    published = sorted(paper_rows("worst-words").items(), key=lambda item: -item[1])
    ours = [
        [word, *(" ".join(IPA.get(symbol, symbol) for symbol in text) for text in texts), margin]
        for word, *texts, margin in _of_both(results).get("worst words", [])
    ]
    head = ["published", "difference", "ours", "correct", "predicted", "difference"]
    return Section(table(head, ([*theirs, *own] for theirs, own in zip_longest(published, ours, fillvalue=()))))


@section("nettalk-methods")
def methods_section(results: Results) -> Section:
    """Table 7.2."""
    path = by(reversed(found(results, "nettalk-path")), "rho1")
    others = [row for row in found(results, "nettalk-methods") if row["method"] not in ("threshold", "map")]
    ours = {**path, **by(others, "method")}
    published, nothing = paper_rows("sparse"), (None,) * 6

    def title(row: Row) -> str:
        return f"SBCD, rho1 = {row['rho1']:g}" if "rho1" in row else str(row["method"])

    def theirs(row: Row, place: int) -> Any:
        return published.get(row.get("rho1", row.get("method")), nothing)[place]

    def beside(place: int, key: str) -> Any:
        return lambda row: against(theirs(row, place), cell(row, key))

    text = columns(ours.values(), {
        "method": title, "iterations": beside(0, "iterations"), "minutes, published": lambda row: theirs(row, 1),
        "seconds, ours": "seconds", "training error %": beside(2, "train error"),
        "test error %": beside(3, "test error"), "weights of (y,x)": beside(4, "active.state"),
        "weights of (y',y,x)": beside(5, "active.pair"), "objective": "objective", "optimality": "optimality",
    })  # fmt: skip
    test = {name: row.get("test error") for name, row in ours.items()}
    active = {name: row.get("active") for name, row in ours.items()}
    rhos = [name for name in published if isinstance(name, float)]
    return Section(text, {"ours": ours, "test": test, "active": active, "rhos": rhos})


@drawn("nettalk-methods")
def draw_methods(axes: Any, results: Results) -> bool:
    """Draw error against time."""
    rows = [row for row in found(results, "nettalk-methods") if row.get("trace")]
    lines = {row["method"]: [(note["seconds"], note["test error"]) for note in row["trace"]] for row in rows}
    there = draw_lines(axes, lines, xscale="log", xlabel="processor time, seconds", ylabel="test error, %")
    if there:
        axes.set_ylim(top=min(60, axes.get_ylim()[1]))
    return there


@section("nettalk-norms")
def norms_section(results: Results) -> Section:
    """Return the errors of SGD under two norms."""
    chosen = {"rho of SGD": "rho", "training error %": "train error", "dev error %": "dev error"}
    rows = found(results, "nettalk-norms")
    return Section(columns(rows, {**chosen, "test error %": "test error", "optimality": "optimality"}))


@section("nettalk-path")
def path_section(results: Results) -> Section:
    """Figure 7.8."""
    rows, published = found(results, "nettalk-path"), paper_rows("sparse")
    seconds = {row["rho1"]: row["sweep"] for row in rows}
    minutes = {rho1: figures[1] for rho1, figures in published.items()}

    def share(row: Row) -> str:
        dense = seconds.get(0.0)
        return against(minutes[row["rho1"]] / minutes[0.0], row["sweep"] / dense if dense else None)

    text = columns(rows, {
        "rho1": "rho1",
        "active features": lambda row: against(sum(published[row["rho1"]][-2:]), row["active"]["all"]),
        "minutes of 30 sweeps, published": lambda row: minutes[row["rho1"]],
        "seconds of a sweep, ours": "sweep", "share of the time of rho1 = 0": share,
    })  # fmt: skip
    return Section(text, {"rows": rows, "seconds": seconds})


@drawn("nettalk-path")
def draw_path(axes: Any, results: Results) -> bool:
    """Draw the time of a sweep against active features."""
    rows = [row for row in found(results, "nettalk-path") if "rho1" in row]
    points = [(row["active"]["all"], row["sweep"]) for row in rows]
    x, y = "active features (beside the points: rho1)", "seconds of a sweep"
    draw_lines(axes, {"": points}, "o-", xscale="log", xlabel=x, ylabel=y)
    for point, row in zip(points, rows, strict=True):
        axes.annotate(f"{row['rho1']:g}", point, xytext=(5, -9), textcoords="offset points")
    axes.set_ylim(bottom=0)
    return bool(rows)


@section("nettalk-weights")
def weights_section(results: Results) -> Section:
    """Figure 7.7."""
    maps = by(found(results, "nettalk-weights"), "map")
    vowels = [ALPHABET.index(letter) for letter in "aeiou"]
    pairs = (expanded(maps["bigrams"]["rows"]) != 0).sum(axis=1)
    silence = expanded(maps["unigrams"]["rows"])[:, maps["unigrams"]["phonemes"].index("-")]
    names = {"silence": silence, "of_vowels": pairs[vowels].mean(), "of_others": np.delete(pairs, vowels).mean()}
    return Section("", names)


@drawn("nettalk-weights", panels=2)
def draw_weights(axes: Any, results: Results) -> bool:
    """Draw the weights of (y,x), and the summed sizes of those of (y',y,x)."""
    rows, values = by(found(results, "nettalk-weights"), "map"), "weight of (y,x)"
    titles = {"unigrams": values, "bigrams": "sum of the sizes of (y',y,x)"}
    maps = {titles[name]: (row["rows"], row["phonemes"]) for name, row in rows.items()}
    return draw_maps(axes, maps, "phoneme", "letter", signed=values)
