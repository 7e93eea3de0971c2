"""The results of a sweep: on disk, as a table, and how much each setting matters."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ...corpora.outputs import cut_line
from ...errors import ConfigError, FormatError
from .search import Combination, is_number, show, varying

IMPORTANCE = (
    "Importance: the share of the variance of the dev score that a setting explains, by a functional analysis of "
    "variance (Hutter, Hoos & Leyton-Brown 2014)."
)


class Result(NamedTuple):
    """The result of one combination.

    key, settings: A hash of everything that the result depends on; the combination, as in the grid.
    error: The reason for a missing score.
    score: The best dev score; the other figures are those of its parameters.
    objective, loss: Values on the training set, summed over its sequences.
    active, weights, n_bytes: Number of non-zero weights, and of all; the size of the model's file without zeros.
    iterations, seconds, reason: Figures of the whole run, including scores; why it ended.
    """

    key: str
    settings: dict[str, Any]
    error: str | None = None
    score: float | None = None
    objective: float | None = None
    loss: float | None = None
    active: int = 0
    weights: int = 0
    n_bytes: int = 0
    iterations: int = 0
    seconds: float = 0.0
    reason: str = ""

    def shown(self, key: str) -> str:
        """Return the value of a setting for people, "-" if the combination has no such setting."""
        return show(self.settings[key]) if key in self.settings else "-"


def read_results(file: Path) -> dict[str, Result]:
    """Return all results of a file by key; a line that a crash cut short is dropped from it.

    RAISES FormatError: If the file has other contents.
    """
    results: dict[str, Result] = {}
    if file.exists():
        cut_line(file)
        for number, line in enumerate(file.read_bytes().splitlines(), start=1):
            try:
                result = Result(**json.loads(line))
            except (ValueError, TypeError) as error:
                message = f"this is no result of a sweep ({error}). Give another --output, or move the file away."
                raise FormatError(file, number, message) from error
            results[result.key] = result
    return results


def add_result(file: Path, result: Result) -> None:
    """Append a result to a file, a JSON object in a line, and flush it to disk."""
    with file.open("a", encoding="utf8") as lines:
        lines.write(json.dumps(result._asdict(), allow_nan=False) + "\n")
        lines.flush()
        os.fsync(lines.fileno())


def result_rows(results: Sequence[Result]) -> tuple[list[str], list[list[str]]]:
    """Return the table of results: its header and its rows."""
    keys = list(varying([result.settings for result in results]))
    rows = []
    for number, result in enumerate(results, start=1):
        settings = [result.shown(key) for key in keys]
        if result.score is None:
            rows.append(["-", "failed", *settings, *["-"] * 5])
            continue
        objective = "-" if result.objective is None else f"{result.objective:,.1f}"
        figures = [objective, f"{result.active:,}", str(result.iterations)]
        size = f"{result.n_bytes / 1e3:,.0f}"
        rows.append([str(number), f"{100 * result.score:.2f}", *settings, *figures, f"{result.seconds:.2f}", size])
    return ["#", "Dev score", *keys, "Objective", "Active", "Iterations", "Seconds", "KB"], rows


def load_optuna() -> Any:
    """Return Optuna, silent.  RAISES ConfigError: If it is not installed."""
    try:
        import optuna
    except ImportError:
        raise ConfigError("sweep needs Optuna. Install it: pip install 'spacy-crfseq[sweep]'") from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def importance_rows(results: Sequence[Result]) -> tuple[list[str], list[list[str]]]:
    """Return how much each varying setting matters, the one that matters most first; no rows if all scores are equal.

    Where a combination has no such setting, that counts as a value of its own.
    """
    optuna, scored = load_optuna(), [result for result in results if result.score is not None]
    header = ["Setting", "Importance", "Best value", "Mean score", "Worst value", "Mean score"]
    keys = list(varying([result.settings for result in scored]))
    if not keys or len({result.score for result in scored}) < 2:
        return header, []
    choices = {key: sorted({result.shown(key) for result in scored}) for key in keys}
    spaces = {key: optuna.distributions.CategoricalDistribution(choices[key]) for key in keys}
    study = optuna.create_study(direction="maximize")
    for result in scored:
        values = {key: result.shown(key) for key in keys}
        study.add_trial(optuna.create_trial(params=values, distributions=spaces, value=result.score))
    evaluator = optuna.importance.FanovaImportanceEvaluator(seed=0)
    rows = []
    for key, share in optuna.importance.get_param_importances(study, evaluator=evaluator).items():
        scores = {
            value: [result.score or 0.0 for result in scored if result.shown(key) == value] for value in choices[key]
        }
        means = sorted((100 * sum(of_value) / len(of_value), value) for value, of_value in scores.items())
        (low, worst), (high, best) = means[0], means[-1]
        rows.append([key, f"{100 * share:.0f} %", best, f"{high:.2f}", worst, f"{low:.2f}"])
    return header, rows


def make_page(sweep: Any) -> str:
    """Return the page of a sweep: results, what matters, and the scores by the time of training."""
    from .._pages.html import render

    ranked, skipped = sweep.ranked, sweep.skipped.items()
    scored = [result for result in ranked if result.score is not None]
    return render(
        "tools/sweep/page.html", sweep=sweep, results=result_rows(ranked), importance=importance_rows(ranked),
        meaning=IMPORTANCE,
        keys=[
            key
            for key in varying([result.settings for result in scored])
            if not all(is_number(result.settings.get(key, 0)) for result in scored)
        ],
        failed=[(str(Combination(one.settings, {})), one.error or "") for one in ranked if one.score is None],
        skipped=[(str(combination), reason) for reason, several in skipped for combination in several],
    )  # fmt: skip
