"""``crfseq calibrate``: fit the temperature of trained components, so that their probabilities are reliable.

Probabilities that agree with frequencies, by a temperature: it divides the scores of a trained component.

Guo, Pleiss, Sun & Weinberger (2017), "On calibration of modern neural networks", section 4.2, for the spans and tags of
a CRF.  A temperature above 1 makes probabilities less extreme, and the best labelling stays the same.

The spans of some types may be right more often than those of others with the same probability.  Types with enough spans
then get curves of their own, ``a + b`` times the log-odds: Platt (1999), "Probabilistic outputs for support vector
machines".  Names recur in a text, so spans are no independent samples.  Hence cross-validation by texts decides between
the curves and none, for all types together, by two standard errors, and a prior keeps a and b near 0 and 1.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from tqdm import tqdm

from ...cli.inputs import layout_of
from ...corpora.layouts import Format
from ...corpora.outputs import check_output_pipeline
from ...errors import ConfigError, DataError
from ...files import replace_folder, write_json
from ...pipeline.select import crfs_of, load_pipeline, model_folder
from ...pipeline.texts import names_of
from ...types import Bools
from .._pages.calibration import SMALLEST, Certainty, Values, calibration, certainty, log_losses
from .._pages.coverage import SpanCoverage, coverage
from .._pages.judged import Judged, for_each_component, judge
from .recall import fit_cover, read_recalls

if TYPE_CHECKING:
    from spacy.tokens import Doc
    from spacy.training import Example

    from ...pipeline.component import CRFComponent

Curve: TypeAlias = tuple[float, float]
"""The numbers a and b of `calibrated`."""
FEW = 100
"""Fewer predictions leave a temperature uncertain: its standard error is a tenth of it or more."""


class ByType(NamedTuple):
    """The curves of types, none if they do not do clearly better.

    gain, error (float): By how many nats all held-out spans became more likely, and its standard error.
    tried (int): Number of types with enough spans for a curve.
    held_out [S]: Probabilities of all spans by curves that were fitted to other texts; None without curves.
    """

    curves: dict[str, Curve]
    gain: float
    error: float
    tried: int
    held_out: NDArray[np.float64] | None = None


class Calibrations(NamedTuple):
    """Results by component, and reasons for components that were skipped."""

    results: dict[str, ComponentCalibration]
    skipped: dict[str, str]


def calibrate(
    model: str | Path,
    file: Path,
    layout: Format = None,
    output: Path | None = None,
    component: list[str] | None = None,
    bins: int = 10,
    equal_mass: bool = False,
    by_type: bool = False,
    recall: Sequence[str] = (),
    given: str | None = None,
    force: bool = False,
) -> Calibrations:
    """Fit the calibration of components on an annotated file and store it with the model.

    recall (Sequence[str]): Wanted shares of covered spans, see `recall.read_recalls`.
    force (bool): Replace a pipeline that is at `output`, unless it is `model`.
    RAISES CrfError: If a component cannot be calibrated, or a file cannot be read or written.
    """
    from ...pipeline.readers import read_gold

    wanted = read_recalls(recall)
    if output is None and model_folder(model) != Path(model):
        raise ConfigError(f"{model} is a package. Give --output DIR for the calibrated pipeline.")
    if output is not None:
        check_output_pipeline(output, model, force=force)
    nlp = load_pipeline(model)
    pipes = crfs_of(dict(nlp.pipeline), component or [], str(model))
    examples = read_gold(nlp, file, layout_of(file, layout, nlp), names_of(given)).examples

    def work(pipe: CRFComponent, docs: list[Doc]) -> ComponentCalibration:
        return _calibrated(pipe, examples, docs, bins, equal_mass, by_type, wanted)

    done = Calibrations(*for_each_component(nlp, pipes, examples, work, required=bool(component)))
    if not done.results:
        raise ConfigError("\n".join(["No component can be calibrated.", *done.skipped.values()]))
    if output is None:
        _store(nlp.path, nlp.path, done.results)
    else:
        replace_folder(output, lambda folder: _store(nlp.path, folder, done.results))
    return done


def _calibrated(
    pipe: CRFComponent,
    examples: Sequence[Example],
    docs: list[Doc],
    n_bins: int,
    equal_mass: bool,
    by_type: bool,
    wanted: Mapping[str, float],
) -> ComponentCalibration:
    from ...training.compatibility import check_global

    check_global(pipe.name, pipe.method.loss, "a temperature")
    pipe.cfg["cover"] = {}  # of what is predicted without it
    judged, answers = judge(pipe, examples, docs)
    if not judged.known.any():
        raise DataError(
            f"Component {pipe.name!r} predicts no spans in the {len(examples)} documents of the file, so its "
            "probabilities cannot be judged. Check that it was trained on such texts, or use a larger file."
        )
    with tqdm(disable=None, leave=False, file=sys.stderr, desc=f"{pipe.name}: temperatures") as bar:

        def probabilities_at(temperature: float) -> NDArray[np.float64]:
            bar.update()
            return answers.probabilities_at(temperature)[judged.known]

        temperature = round(fit_temperature(probabilities_at, judged.certainties()[1]), 4)
    after, _ = judge(pipe, examples, docs, pipe.posterior(docs, preset=True, temperature=temperature))
    types = fit_types(after) if by_type and not after.plain else None
    if types is not None and types.held_out is not None:
        after = after.with_probabilities(types.held_out)
    tables = [certainty(one, n_bins, equal_mass=equal_mass) for one in (judged, after)]
    recalls = _covered(pipe, examples, docs, temperature, wanted) if wanted else None
    first, last = (table for table in tables if table is not None)
    return ComponentCalibration(judged.unit, types, first, last, recalls)


def _covered(
    pipe: CRFComponent, examples: Sequence[Example], docs: list[Doc], temperature: float, wanted: Mapping[str, float]
) -> Recalls:
    """Fit thresholds for recall with a temperature, and measure what they bring."""
    if threshold := pipe.cfg.get("threshold"):
        raise ConfigError(f"{pipe.name}: --recall adds spans, but threshold = {threshold} drops them. Set it to 0.")
    if pipe.annotation.scheme is None or pipe.method.once or pipe.method.order:
        reason = "its tags mark no spans" if pipe.annotation.scheme is None else "once and order limit its labels"
        raise ConfigError(f"{pipe.name}: --recall is not possible: {reason}.")
    judged, answers = judge(pipe, examples, docs, pipe.posterior(docs, preset=True, temperature=temperature))
    before = coverage(judged.gold, judged.found)
    pipe.cfg["cover"] = fit_cover(answers, judged.gold, wanted)
    judged, _ = judge(pipe, examples, docs, pipe.posterior(docs, preset=True, temperature=temperature))
    return Recalls(pipe.cfg["cover"], before, coverage(judged.gold, judged.found))


def fit_types(judged: Judged) -> ByType:
    """Fit curves to all types with enough spans, and keep them if they clearly do better on texts not fitted to."""
    from ...pipeline.doc_posterior import calibrated

    p, right = judged.certainties()
    n_texts, n_spans = len(judged.found), [len(spans) for spans in judged.found]
    fold = np.repeat(np.arange(n_texts) * FOLDS // n_texts, n_spans)
    labels = np.array([span.label for spans in judged.found for span in spans], np.str_)
    curves, held_out = {}, p.copy()
    for label, total in zip(*np.unique(labels, return_counts=True), strict=True):
        if total < FEW:
            continue
        curves[str(label)] = fit_curve(p[labels == label], right[labels == label])
        for number in range(FOLDS):
            own = (labels == label) & (fold == number)
            rest = (labels == label) & (fold != number)
            held_out[own] = calibrated(p[own], *fit_curve(p[rest], right[rest]))
    gains = np.bincount(fold, log_losses(p, right) - log_losses(held_out, right), FOLDS)
    gain, error = float(gains.sum()), float(gains.std(ddof=1)) * FOLDS**0.5
    if gain <= CLEAR * error:
        return ByType({}, gain, error, len(curves))
    return ByType(curves, gain, error, len(curves), held_out)


def _store(model: Path, folder: Path, results: dict[str, ComponentCalibration]) -> None:
    from ...pipeline.model_file import read_settings

    if folder != model:
        shutil.copytree(model, folder)
    for name, result in results.items():
        file = folder / name / "cfg"
        settings = {**read_settings(file), "temperature": result.after.temperature}
        settings.pop("calibration", None)
        settings.pop("cover", None)
        curves = {"calibration": result.types.curves} if result.types and result.types.curves else {}
        cover = {"cover": result.recalls.thresholds} if result.recalls and result.recalls.thresholds else {}
        write_json(file, {**settings, **curves, **cover})


SPREAD = 1.0
"""Standard deviation of the normal prior on log T.  It has less weight than one prediction, and keeps the temperature
of a small sample finite if all predictions are correct or all are wrong."""
HOTTEST = 3.0
"""Temperatures are between exp(-3) and exp(3)."""
GRID = 13
"""Number of initial temperatures, equidistant in log T, because the loss may have several minima."""
TOLERANCE = 1e-3
"""Tolerance of log T."""
FOLDS = 20
"""Parts of a file for the choice between curves and none."""
CLEAR = 2
"""Standard errors by which curves must do better."""
CENTER, SPREADS = np.array([0.0, 1.0]), np.array([0.25, 0.15])
"""Means and standard deviations of the normal prior on the a and b of a curve."""
FLATTEST = 0.05
"""The least b: curves rise."""
STEPS = 300
"""Most iterations for a curve; they end when a and b change by less than 1e-6."""


def fit_temperature(probabilities_at: Callable[[float], ArrayLike], correct: ArrayLike) -> float:
    """Return the temperature that minimises the log loss of S predictions.

    probabilities_at (Callable): Maps a temperature to their probabilities [S].
    correct: [S] whether they are correct.
    RAISES DataError: If there are no predictions.
    """
    if not np.size(correct):
        raise DataError("There are no predictions to fit a temperature to.")

    def cost(log_temperature: float) -> float:
        losses = log_losses(probabilities_at(float(np.exp(log_temperature))), correct)
        return float(losses.sum() + 0.5 * (log_temperature / SPREAD) ** 2)

    grid = np.linspace(-HOTTEST, HOTTEST, GRID)
    best = int(np.argmin([cost(float(point)) for point in grid]))
    around = grid[max(best - 1, 0)], grid[min(best + 1, GRID - 1)]
    return float(np.exp(golden_section(cost, float(around[0]), float(around[1]), TOLERANCE)))


def fit_curve(probabilities: Values, correct: Bools) -> Curve:
    """Return the a and b of `calibrated` that minimise the log loss of S predictions.

    Steps with an upper bound of the curvature never overshoot: Boehning & Lindsay (1988), "Monotonicity of
    quadratic-approximation algorithms".
    """
    p = np.clip(probabilities, SMALLEST, 1 - SMALLEST)
    inputs, curve = np.stack([np.ones(len(p)), np.log(p / (1 - p))], axis=1), CENTER
    inverse = np.linalg.inv(inputs.T @ inputs / 4 + np.diag(SPREADS**-2))
    for _ in range(STEPS):
        errors = correct - 1 / (1 + np.exp(-inputs @ curve))
        step = inverse @ (inputs.T @ errors - (curve - CENTER) / SPREADS**2)
        curve = curve + step
        if np.abs(step).max() < 1e-6:
            break
    return round(float(curve[0]), 4), round(max(float(curve[1]), FLATTEST), 4)


def golden_section(function: Callable[[float], float], low: float, high: float, tolerance: float) -> float:
    """Return the minimum of a unimodal function between `low` and `high` (Kiefer 1953)."""
    share = (5**0.5 - 1) / 2
    left, right = high - share * (high - low), low + share * (high - low)
    at_left, at_right = function(left), function(right)
    while high - low > tolerance:
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            at_left = function(left := high - share * (high - low))
        else:
            low, left, at_left = left, right, at_right
            at_right = function(right := low + share * (high - low))
    return (low + high) / 2


class Recalls(NamedTuple):
    """Thresholds for recall by label, and how many gold spans are covered before and after."""

    thresholds: dict[str, float]
    before: SpanCoverage
    after: SpanCoverage


class ComponentCalibration(NamedTuple):
    """Calibration of a component before and after, over its "spans" or "tokens".

    types (ByType | None): None without `--by-type`.
    recalls (Recalls | None): None without `--recall`.
    """

    unit: str
    types: ByType | None
    before: Certainty
    after: Certainty
    recalls: Recalls | None = None

    def rows(self) -> list[list[str]]:
        """Return the cells of each label, then of all: its number, share correct, and means before and after."""
        none = calibration([], [])
        labels = sorted({*self.before.labels, *self.after.labels})
        before, after = (
            [*(side.labels.get(label, none) for label in labels), side.whole] for side in (self.before, self.after)
        )
        rows = []
        for label, old, new in zip([*labels, "all"], before, after, strict=True):
            numbers = ((getattr(old, name), getattr(new, name)) for name in ("predicted", "error", "brier"))
            changes = [cell for a, b in numbers for cell in (f"{a:.3f}", f"-> {b:.3f}")]
            rows.append([label, f"{old.total:,}", f"{old.correct:.3f}", *changes])
        return rows

    def as_json(self) -> dict[str, Any]:
        """Return the figures as values for JSON."""
        sides: dict[str, Any] = {}
        for name, side in (("before", self.before), ("after", self.after)):
            labels = {label: figures._asdict() for label, figures in side.labels.items()}
            sides[name] = {**side.as_json(), "labels": labels}
        by_type = self.types and {name: getattr(self.types, name) for name in ("curves", "gain", "error", "tried")}
        recall = self.recalls and {
            "thresholds": self.recalls.thresholds,
            "before": self.recalls.before.as_json(),
            "after": self.recalls.after.as_json(),
        }
        return {"unit": self.unit, **sides, "by_type": by_type, "recall": recall}
