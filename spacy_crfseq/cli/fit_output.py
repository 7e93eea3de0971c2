"""The output of ``crfseq fit``: a table on a terminal, plain lines in a pipe, and every iteration in a log file."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from spacy import util

from ..corpora.layouts import corpus_block, reader_layout
from ..pipeline.cross_validation import Fold
from ..pipeline.pipeline_training import Outcome
from ..pipeline.run_log import LiveCurve, log_line
from ..prf import SEQUENCES
from .console import Rows, advise, cut, printer

if TYPE_CHECKING:
    from ..training.fit import Progress

COLUMNS = ("Component", "#", "Objective", "|Grad|", "Loss/token", "Active", "Score", "Seconds", "")
NAMES = ("", "iteration", "objective", "gradient", "loss/token", "active", "score", "seconds", "")
WIDTHS = (12, 4, 11, 9, 10, 8, 6, 7, 1)
ALIGNS = ("l", *"rrrrrrr", "l")


class Reporter:
    """Shows and logs the progress of one component after another; an instance is a callback of `fit`.

    kept (int): Lines of the log that stay, those of the run that continues.
    """

    def __init__(self, log: Path, kept: int = 0) -> None:
        self._path, self._kept = log, kept
        self._log: IO[str] | None = None  # that of an earlier training stays until there is something to say
        self._rows = Rows(COLUMNS, NAMES, WIDTHS, ALIGNS)
        self._curve = LiveCurve(sys.stderr)
        self._name, self._tokens, self._every, self._scored = "", 1, 1, False

    def start(self, name: str, tokens: int, every: int, scored: bool) -> None:
        """Begin with a component of `tokens` tokens; one iteration in `every` is shown."""
        self._name, self._tokens, self._every, self._scored = name, max(1, tokens), every, scored
        self._curve.hide()
        self._curve = LiveCurve(sys.stderr)
        self._rows.begin()

    def __call__(self, progress: Progress) -> None:
        """Take in one iteration."""
        report = progress.report
        figures = (progress.active, progress.score, progress.best)
        if self._log is None:
            lines = self._path.read_text("utf8").splitlines(True)[: self._kept] if self._path.exists() else []
            self._log = self._path.open("w", encoding="utf8")
            self._log.writelines(lines)
        self._log.write(log_line(self._name, progress.iteration, progress.seconds, report, *figures))
        self._log.flush()
        if math.isfinite(report.value):
            self._curve.add("objective", report.value, log=True)
        if progress.score is not None:
            self._curve.add("score", 100 * progress.score)
        due = progress.iteration % self._every == 0 or progress.report.converged
        if progress.score is not None or (due and not self._scored):
            self._curve.hide()
            self._rows.add(self._cells(progress))
        self._curve.show(f"{self._name} {progress.iteration}")

    def close(self) -> None:
        """Close the log and take the curves away."""
        self._curve.hide()
        if self._log is not None:
            self._log.close()

    def _cells(self, progress: Progress) -> list[str]:
        report, score, active = progress.report, progress.score, progress.active
        gradient = "-" if math.isnan(report.grad_norm) else f"{report.grad_norm:.4g}"
        figures = [f"{report.value:.2f}", gradient, f"{report.loss / self._tokens:.4f}"]
        figures += ["-" if active is None else str(active), "-" if score is None else f"{100 * score:.2f}"]
        name = cut(self._name, WIDTHS[0])
        return [name, str(progress.iteration), *figures, f"{progress.seconds:.2f}", "*" if progress.best else ""]


def print_folds(scored: Sequence[Fold], k: int) -> None:
    """Print the scores of the folds of a cross-validation, with mean and standard deviation."""
    if len(scored) < k:
        printer().warn(f"Interrupted after {len(scored)} of {k} folds")
    if not scored:
        return
    weighted = scored[0].training.settings["score_weights"]
    names = [*weighted, *(name for name in scored[0].scores if name.endswith(SEQUENCES))]
    names = [name for name in names if all(isinstance(fold.scores.get(name), float) for fold in scored)]
    values = 100 * np.array([[fold.scores[name] for name in names] for fold in scored])
    rows = [
        (str(i + 1), f"{fold.n_documents - len(fold.numbers):,}", f"{len(fold.numbers):,}", *map("{:.2f}".format, row))
        for i, (fold, row) in enumerate(zip(scored, values.tolist(), strict=True))
    ]
    rows.append(("mean", "", "", *map("{:.2f}".format, values.mean(0))))
    if len(scored) > 1:
        rows.append(("sd", "", "", *map("{:.2f}".format, values.std(0, ddof=1))))
    header, aligns = ("fold", "trained on", "held out", *names), ("l", *"r" * (len(names) + 2))
    seconds = sum(fold.seconds for fold in scored)
    printer().table(rows, header=header, title=f"{k}-fold cross-validation, {seconds:.0f} s", aligns=aligns)


def print_outcome(outcome: Outcome) -> None:
    """Print scores and files, and what to do next."""
    msg = printer()
    if outcome.best is None:
        msg.warn("Interrupted before the first iteration: nothing was trained or saved, and earlier models stay")
        return
    print_scores(outcome.scores)
    if outcome.interrupted:
        msg.warn(f"Interrupted: {outcome.kept}")
    if outcome.untrained:
        msg.warn(f"Not trained yet, all weights zero: {', '.join(outcome.untrained)}")
    msg.good(f"Saved {outcome.best} and {outcome.last}")
    if outcome.refit is not None:
        msg.good(f"Saved {outcome.refit}, which learned from the dev corpus, too: the scores are of {outcome.best}")
    suggest_next(outcome.best, outcome.refit)


def print_scores(scores: dict[str, Any]) -> None:
    """Print the scores of a model, if there are any."""
    numbers = {name: value for name, value in scores.items() if isinstance(value, float) and name != "speed"}
    if numbers:
        rows = {name: f"{100 * value:.2f}" for name, value in numbers.items()}
        printer().table(rows, title="Scores on the dev corpus", aligns=("l", "r"))


def suggest_next(model: Path, refit: Path | None = None) -> None:
    """Suggest commands that inspect a trained model, and use it or that of a refit."""
    config, name = util.load_config(model / "config.cfg").interpolate(), shlex.quote(str(model))
    used = name if refit is None else shlex.quote(str(refit))
    block = corpus_block(config, "dev_corpus")
    dev = block.get("path") if reader_layout(block) else None
    advise(*([f"report {name} {shlex.quote(str(dev))}"] if dev else []), f"tag {used} texts.txt --output tagged/")
