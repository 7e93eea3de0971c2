"""Sokolovska (2010) on NetTalk: feature patterns, training methods, thresholds, and block descent along rho1."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise, zip_longest
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scripts.papers import _harness
from scripts.papers._harness import Options, Results, Row, Skip, experiment
from scripts.papers.figures import draw_map, drawn
from scripts.papers.page import (
    Check,
    Table,
    against,
    checks,
    compact,
    expanded,
    figure,
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
def patterns_section(results: Results) -> str:
    """Table 3.2."""
    rows = found(results, "nettalk-patterns")
    published = paper_rows("nettalk")
    ours = {row["pattern"]: row for row in rows if "size" in row}
    test = {name: row["test error"] for name, row in ours.items()}
    head = ["pattern", "weights", "training error %", "test error %", "ours, dev", "seconds", "optimality"]
    content = [
        [row["pattern"], f"not run: {row['skipped']}"]
        if "skipped" in row
        else [
            row["pattern"], *map(against, published.get(row["pattern"], (None,) * 3), _figures(row)),
            row["dev error"], row["seconds"], row["optimality"],
        ]
        for row in rows
    ]  # fmt: skip
    both = [name for name in published if name in test]
    ratios = sorted(test[name] / published[name][2] for name in both)
    levels = f"Our test errors are {ratios[0]:.2f} to {ratios[-1]:.2f} times the published ones.\n\n" if ratios else ""
    shown = f"{table(Table(head, content))}\n\n{levels}"
    return shown + checks(_pattern_checks(ours, test, [(published[name][2], test[name]) for name in both]))


def _figures(row: Row) -> tuple[Any, ...]:
    return row["size"], row["train error"], row["test error"]


def _pattern_checks(
    ours: Mapping[str, Row], test: Mapping[str, float], pairs: list[tuple[float, float]]
) -> list[Check]:
    """Return what the thesis says of its table as orders and ratios."""
    c, last = "C = (y, x-2 x-1 x x+1 x+2)", "D + E + (y,x) + (y',y,x)"
    starred = ("(y,x)", "(y',y,x)", "(y,x) + (y',y,x)")

    def overfits(name: str) -> float:
        return test[name] / float(ours[name]["train error"])

    return [
        Check(
            "the patterns have the published order (rank correlation of the test errors above 0.9)",
            lambda: rank_correlation(*zip(*pairs, strict=True)) > 0.9,
        ),
        Check(
            "(y,x) + (y',y,x) has a lower error than (y',y,x), and this a lower one than (y,x)",
            lambda: test[starred[2]] < test[starred[1]] < test[starred[0]],
        ),
        Check(
            "(y',y,x) without y0 costs at least 5 points (published 9.3)",
            lambda: test["(y',y,x) without y0"] >= test["(y',y,x)"] + 5,
        ),
        Check(
            "B has a lower error than A",
            lambda: test["B = (y',y, x-1 x x+1)"] < test["A = (y, x-1 x x+1)"],
        ),
        Check(
            "C overfits: its test error is at least three times its training error (published 6.6 times)",
            lambda: overfits(c) >= 3,
        ),
        Check(
            "adding A and (y,x) to C at least halves its test error, as published",
            lambda: test["C + A + (y,x)"] <= test[c] / 2,
        ),
        Check(
            "the same five letters one by one have a lower error than C, with less than 1 % of its weights",
            lambda: (
                test["five single letters"] < test[c] and ours["five single letters"]["size"] < ours[c]["size"] / 100
            ),
        ),
        Check(
            "the largest model overfits more than the last one and has a higher error, as published",
            lambda: overfits("C + D + B + E") > overfits(last) and test["C + D + B + E"] > test[last],
        ),
        Check(
            "the first three have 0.9 to 1 times the published number of weights: 51 symbols instead of 53",
            lambda: all(0.9 <= ours[name]["size"] / paper_rows("nettalk")[name][0] <= 1 for name in starred),
        ),
    ]


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
def mistakes_section(results: Results) -> str:
    """Tables 3.3 and 3.4."""
    rows = {row["pattern"]: row for row in found(results, "nettalk-patterns") if "confusions" in row}
    lists = [paper_rows("confusions")[name].split(", ") for name in CONFUSED]
    for place, name in ((1, CONFUSED[0]), (3, CONFUSED[1])):
        lists.insert(place, [f"{found}-{gold} {n}" for found, gold, n in _confusions(rows, name)])
    head = [f"{name}, {whose}" for name in CONFUSED for whose in ("published", "ours")]
    confusions = table(Table(head, list(zip_longest(*lists, fillvalue=""))))
    schwas = [sum("ə" in entry.split()[0].split("-") for entry in entries) for entries in lists]
    wanted = [
        Check(
            f"at least half of the 20 involve ə (published {schwas[2]}, ours {schwas[3]})",
            lambda: 2 * schwas[3] >= len(lists[3]) > 0,
        ),
        Check(
            "the vowels æ and ə are among the three most frequent confusions, as published",
            lambda: any({"æ", "ə"} == set(entry.split()[0].split("-")) for entry in lists[3][:3]),
        ),
        Check(
            "(y,x) lowers the count of the most frequent confusion, as published",
            lambda: int(lists[3][0].split()[1]) < int(lists[1][0].split()[1]),
        ),
    ]
    return f"{confusions}\n\n{checks(wanted)}\n\n{_words_by_errors(rows)}\n\n{_worst_words(rows)}"


def _confusions(rows: Mapping[str, Row], name: str) -> list[tuple[str, str, int]]:
    return [(IPA.get(a, a), IPA.get(b, b), count) for a, b, count in rows.get(name, {}).get("confusions", [])]


def _words_by_errors(rows: Mapping[str, Row]) -> str:
    published, ours = paper_rows("words"), rows.get(CONFUSED[1], {})
    errors = {int(count): words for count, words in ours.get("words by errors", {}).items()}
    margins, whole = ours.get("words by margin", {}), sum(errors.values())
    content = [
        [
            most,
            against(published[most], sum(words for count, words in errors.items() if count > most)),
            against(published[most], margins.get(str(most))),
            against(100 * published[most] / published["all"], 100 * margins.get(str(most), 0) / max(1, whole)),
        ]
        for most in MARGINS
    ]
    head = ["above", "words, by wrong symbols", "words, by difference in score", "% of words, by difference"]
    return table(Table(head, content))


def _worst_words(rows: Mapping[str, Row]) -> str:
    published = sorted(paper_rows("worst-words").items(), key=lambda item: -item[1])
    ours = rows.get(CONFUSED[1], {}).get("worst words", [])

    def symbols(text: str) -> str:
        return " ".join(IPA.get(symbol, symbol) for symbol in text)

    content = [
        [*left, *([right[0], symbols(right[1]), symbols(right[2]), right[3]] if right else [])]
        for left, right in zip_longest(published, ours, fillvalue=())
    ]
    head = ["published", "difference", "ours", "correct", "predicted", "difference"]
    return table(Table(head, content))


@section("nettalk-methods")
def methods_section(results: Results) -> str:
    """Table 7.2."""
    path = [row for row in reversed(found(results, "nettalk-path")) if "rho1" in row]
    others = [row for row in found(results, "nettalk-methods") if row.get("method") not in ("threshold", "map")]
    ours = {**{row["rho1"]: row for row in path}, **{row["method"]: row for row in others}}
    head = ["method", "iterations", "minutes, published", "seconds, ours", "training error %", "test error %"]
    head += ["weights of (y,x)", "weights of (y',y,x)", "objective", "optimality"]
    content = []
    for name, row in ours.items():
        text = f"SBCD, rho1 = {name:g}" if isinstance(name, float) else name
        if "skipped" in row:
            content.append([text, f"not run: {row['skipped']}"])
            continue
        iterations, minutes, *figures = paper_rows("sparse").get(name, (None,) * 6)
        active = row["active"]
        pairs = zip(figures, (row["train error"], row["test error"], active["state"], active["pair"]), strict=True)
        content.append(
            [text, against(iterations, row["iterations"]), minutes, row["seconds"], *(against(*pair) for pair in pairs),
             row["objective"], row["optimality"]]
        )  # fmt: skip
    picture = figure("nettalk-methods", "Test error of three methods against processor time")
    return f"{table(Table(head, content))}\n\n{checks(_method_checks(ours))}\n\n{picture}"


def _method_checks(ours: Mapping[Any, Row]) -> list[Check]:
    """Return what the thesis says of its table as orders, ratios and numbers of weights."""

    def test(name: Any) -> float:
        return float(ours[name]["test error"])

    rhos = [name for name in paper_rows("sparse") if isinstance(name, float)]
    return [
        Check("the error of SBCD with rho1 = 0.1 and 0.2 is that of dense models, within 0.3 points (published 0.2)",
              lambda: all(abs(test(rho1) - test(dense)) <= 0.3 for rho1 in (0.1, 0.2) for dense in (0.0, "L-BFGS"))),
        Check("from rho1 = 0.5 to 10 the error rises by at least a tenth (published by a fourth)",
              lambda: test(10.0) >= 1.1 * test(0.5)),
        Check("rho1 = 0.1 keeps 4 to 8 % of the weights of (y',y,x) (published 5.7 %)",
              lambda: 0.04 <= ours[0.1]["active"]["pair"] / ours[0.0]["active"]["pair"] <= 0.08),
        Check("rho1 = 10 keeps fewer of (y',y,x) than a third of what rho1 = 0.1 keeps (published 24 %)",
              lambda: 3 * ours[10.0]["active"]["pair"] < ours[0.1]["active"]["pair"]),
        Check("a larger rho1 keeps fewer weights of both kinds",
              lambda: all(ours[a]["active"][kind] >= ours[b]["active"][kind]
                          for a, b in pairwise(rhos) for kind in ("state", "pair"))),
        Check("OWL-QN and SBCD with rho1 = 0.1 have the same error, within 0.3 points (published 0)",
              lambda: abs(test("OWL-QN") - test(0.1)) <= 0.3),
        Check("their objectives, which differ by the small L2 norm alone, agree within 1 %",
              lambda: abs(ours["OWL-QN"]["objective"] / ours[0.1]["objective"] - 1) <= 0.01),
        Check("an iteration of OWL-QN takes longer than a sweep of SBCD with rho1 = 0.1 (published 1.3 times)",
              lambda: ours["OWL-QN"]["seconds"] / ours["OWL-QN"]["iterations"] > ours[0.1]["sweep"]),
        Check("SGD is the fastest of all, as published",
              lambda: ours["SGD"]["seconds"] < min(row["seconds"] for name, row in ours.items() if name != "SGD")),
        Check("SGD has a higher error than L-BFGS, by at least 2 points, as published",
              lambda: test("SGD") >= test("L-BFGS") + 2),
    ]  # fmt: skip


@drawn("nettalk-methods")
def draw_methods(axes: Any, results: Results) -> bool:
    """Draw error against time."""
    rows = [row for row in found(results, "nettalk-methods") if row.get("trace")]
    for row in rows:
        seconds, errors = zip(*((note["seconds"], note["test error"]) for note in row["trace"]), strict=True)
        axes.plot(seconds, errors, label=row["method"])
    axes.set(xscale="log", xlabel="processor time, seconds", ylabel="test error, %")
    if rows:
        axes.set_ylim(top=min(60, axes.get_ylim()[1]))
        axes.legend()
    return bool(rows)


@section("nettalk-norms")
def norms_section(results: Results) -> str:
    """Return the errors of SGD under two norms."""
    rows = found(results, "nettalk-norms")
    parts = [f"{part} error" for part in ("train", "dev", "test")]
    head = ["rho of SGD", "training error %", "dev error %", "test error %", "optimality"]
    return table(Table(head, [[row["rho"], *(row[part] for part in parts), row["optimality"]] for row in rows]))


@section("nettalk-path")
def path_section(results: Results) -> str:
    """Figure 7.8."""
    rows = [row for row in found(results, "nettalk-path") if "rho1" in row]
    dense = next((row["sweep"] for row in rows if row["rho1"] == 0), None)
    minutes = {rho1: figures[1] for rho1, figures in paper_rows("sparse").items()}
    head = ["rho1", "active features", "minutes of 30 sweeps, published", "seconds of a sweep, ours"]
    head += ["share of the time of rho1 = 0"]
    content = [
        [
            row["rho1"], against(sum(paper_rows("sparse")[row["rho1"]][-2:]), row["active"]["all"]),
            minutes[row["rho1"]], row["sweep"],
            against(minutes[row["rho1"]] / minutes[0.0], row["sweep"] / dense if dense else None),
        ]
        for row in rows
    ]  # fmt: skip
    times = {row["rho1"]: row["sweep"] for row in rows}
    wanted = [
        Check(
            "fewer active features mean a shorter sweep (rank correlation above 0.8)",
            lambda: rank_correlation([row["active"]["all"] for row in rows], [row["sweep"] for row in rows]) > 0.8,
        ),
        Check(
            "a sweep with rho1 = 10 takes at most 0.3 of the time of one with rho1 = 0 (published 0.2)",
            lambda: times[10.0] <= 0.3 * times[0.0],
        ),
        Check(
            "a sweep with rho1 = 0.1 takes at most 0.7 of the time of one with rho1 = 0 (published 0.61)",
            lambda: times[0.1] <= 0.7 * times[0.0],
        ),
        Check(
            "a sweep with rho1 = 10 takes at most half of the time of one with rho1 = 0.1 (published a third)",
            lambda: times[10.0] <= times[0.1] / 2,
        ),
    ]
    picture = figure("nettalk-path", "Seconds of a sweep against active features")
    return f"{table(Table(head, content))}\n\n{checks(wanted)}\n\n{picture}"


@drawn("nettalk-path")
def draw_path(axes: Any, results: Results) -> bool:
    """Draw the time of a sweep against active features."""
    rows = [row for row in found(results, "nettalk-path") if "rho1" in row]
    active = [row["active"]["all"] for row in rows]
    axes.plot(active, [row["sweep"] for row in rows], "o-")
    for count, row in zip(active, rows, strict=True):
        axes.annotate(f"{row['rho1']:g}", (count, row["sweep"]), xytext=(5, -9), textcoords="offset points")
    axes.set(xscale="log", xlabel="active features (beside the points: rho1)", ylabel="seconds of a sweep")
    axes.set_ylim(bottom=0)
    return bool(rows)


@section("nettalk-weights")
def weights_section(results: Results) -> str:
    """Figure 7.7."""
    rows = {row["map"]: row for row in found(results, "nettalk-weights")}
    vowels = [ALPHABET.index(letter) for letter in "aeiou"]

    def kept(name: str) -> NDArray[Any]:
        counts: NDArray[Any] = (expanded(rows[name]["rows"]) != 0).sum(axis=1)
        return counts

    wanted = [
        Check(
            "silence has positive weights of (y,x) with at least 13 of the 26 letters (published: almost all)",
            lambda: (expanded(rows["unigrams"]["rows"])[:, rows["unigrams"]["phonemes"].index("-")] > 0).sum() >= 13,
        ),
        Check(
            "vowels have, on average, at least twice as many phonemes with (y',y,x) as other letters",
            lambda: kept("bigrams")[vowels].mean() >= 2 * np.delete(kept("bigrams"), vowels).mean(),
        ),
    ]
    picture = figure("nettalk-weights", "The weights of each letter and phoneme under an L1 norm")
    return f"{checks(wanted)}\n\n{picture}"


@drawn("nettalk-weights", panels=2)
def draw_weights(axes: Any, results: Results) -> bool:
    """Draw the weights of (y,x), and the summed sizes of those of (y',y,x)."""
    rows = {row["map"]: row for row in found(results, "nettalk-weights")}
    titles = {"unigrams": "weight of (y,x)", "bigrams": "sum of the sizes of (y',y,x)"}
    for panel, (name, title) in zip(axes, titles.items(), strict=True):
        if name in rows:
            draw_map(panel, rows[name]["rows"], rows[name]["phonemes"], title, signed=name == "unigrams")
            panel.set(xlabel="phoneme", ylabel="letter")
    return bool(rows)
