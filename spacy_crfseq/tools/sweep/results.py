"""The results of a sweep: scores of repetitions with mean and interval, and their tables on paper and as files."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from math import sqrt
from statistics import fmean, stdev
from typing import Any, NamedTuple

from .grid import key_of, show

STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)
"""Quantiles 0.975 of Student's t for 1, 2, ... degrees of freedom."""
FIGURES = ("Objective", "Active", "Iterations", "Seconds", "KB")


class Repetition(NamedTuple):
    """One training of a combination; the figures are those of the parameters with the best dev score.

    objective, loss: Values on the training set, summed over its sequences.
    active, weights, n_bytes: Number of non-zero weights, and of all; the size of the model's file without zeros.
    iterations, seconds, reason: Of the whole run, including scores; why it ended.
    """

    seed: int | None
    score: float
    objective: float | None
    loss: float | None
    active: int
    weights: int
    n_bytes: int
    iterations: int
    seconds: float
    reason: str


class CombinationResult(NamedTuple):
    """The repetitions of a combination of `settings`, as in the grid; or the `error` that ended them."""

    settings: dict[str, Any]
    repetitions: Sequence[Repetition] = ()
    error: str = ""

    @property
    def key(self) -> str:
        """A text that is the same for equal settings."""
        return key_of(self.settings)

    @property
    def score(self) -> float:
        """The mean of the dev scores; minus infinity if it failed."""
        return fmean(repetition.score for repetition in self.repetitions) if self.repetitions else float("-inf")

    @property
    def deviation(self) -> float:
        """The standard deviation of the dev scores, 0 of a single one."""
        return stdev(repetition.score for repetition in self.repetitions) if len(self.repetitions) > 1 else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % confidence interval of the mean, by Student's t; the mean itself for one repetition."""
        n = len(self.repetitions)
        quantile = STUDENT[n - 2] if n - 2 < len(STUDENT) else 1.96 + 2.4 / (n - 1)  # exact to 0.005 from there on
        half = quantile * self.deviation / sqrt(n)
        return self.score - half, self.score + half

    def mean(self, figure: str) -> float:
        """Return the mean of a figure over the repetitions."""
        return fmean(getattr(repetition, figure) or 0 for repetition in self.repetitions)

    def shown(self, key: str) -> str:
        """Return the value of a setting for people, "-" if the combination has no such setting."""
        return show(self.settings[key]) if key in self.settings else "-"


def varying(settings: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the settings that are not the same in all combinations."""
    for key in dict.fromkeys(key for combination in settings for key in combination):
        if len({json.dumps(combination.get(key), sort_keys=True) for combination in settings}) > 1:
            yield key


def result_rows(results: Sequence[CombinationResult]) -> tuple[list[str], list[list[str]]]:
    """Return the table of results: its header and its rows."""
    keys, rows = list(varying([result.settings for result in results])), []
    repeated = any(len(result.repetitions) > 1 for result in results)
    scores = ["Dev score", *(["SD", "95 % interval"] if repeated else [])]
    for number, result in enumerate(results, start=1):
        settings = [result.shown(key) for key in keys]
        if not result.repetitions:
            rows.append(["-", "failed", *["-"] * (len(scores) - 1), *settings, *["-"] * len(FIGURES)])
            continue
        low, high = result.interval
        spread = [f"{100 * result.deviation:.2f}", f"{100 * low:.2f}-{100 * high:.2f}"] if repeated else []
        figures = [f"{result.mean('objective'):,.1f}", f"{result.mean('active'):,.0f}"]
        figures += [f"{result.mean('iterations'):.0f}", f"{result.mean('seconds'):.2f}"]
        figures += [f"{result.mean('n_bytes') / 1e3:,.0f}"]
        rows.append([str(number), f"{100 * result.score:.2f}", *spread, *settings, *figures])
    return ["#", *scores, *keys, *FIGURES], rows


def as_csv(results: Sequence[CombinationResult]) -> str:
    """Return a table for programs: a row for each combination, with all settings, unrounded scores and means."""
    keys, text = list(dict.fromkeys(key for result in results for key in result.settings)), StringIO()
    figures = ("objective", "loss", "active", "weights", "n_bytes", "iterations", "seconds")
    table = csv.writer(text, lineterminator="\n")
    names = [f"training {figure}" if figure == "loss" else figure for figure in figures]  # a setting may be called loss
    table.writerow([*keys, "repetitions", "mean", "sd", "low", "high", *names, "seeds", "scores", "error"])
    for result in results:
        row: list[Any] = [result.shown(key) if key in result.settings else "" for key in keys]
        if not result.repetitions:
            table.writerow([*row, 0, *[""] * (6 + len(figures)), result.error])
            continue
        seeds, scores = (
            " ".join(str(getattr(repetition, of)) for repetition in result.repetitions) for of in ("seed", "score")
        )
        row += [len(result.repetitions), result.score, result.deviation, *result.interval]
        table.writerow([*row, *map(result.mean, figures), seeds, scores, ""])
    return text.getvalue()


def as_latex(results: Sequence[CombinationResult]) -> str:
    """Return a table of the settings that vary and the scores in LaTeX, with the rules of the package booktabs."""
    scored = [result for result in results if result.repetitions]
    keys = list(varying([result.settings for result in scored]))
    lines = [f"\\begin{{tabular}}{{{'l' * len(keys)}r}}", "\\toprule"]
    lines += [" & ".join([*map(_escaped, keys), "score"]) + " \\\\", "\\midrule"]
    for result in scored:
        spread = f" $\\pm$ {100 * result.deviation:.2f}" if len(result.repetitions) > 1 else ""
        cells = [*(_escaped(result.shown(key)) for key in keys), f"{100 * result.score:.2f}{spread}"]
        lines.append(" & ".join(cells) + " \\\\")
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}", ""])


def _escaped(text: str) -> str:
    marks = {"\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}"}
    return "".join(marks.get(sign, f"\\{sign}" if sign in "&%$#_{}" else sign) for sign in text)
