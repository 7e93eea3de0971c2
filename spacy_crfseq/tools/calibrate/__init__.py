"""``crfseq calibrate``: fit temperature and curves of trained components, so that their probabilities are reliable.

The numbers are fitted by `reliability`, as those of ``crfseq fit`` are; here to any corpus, and on request to
types of spans, and for a wanted recall.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from ...cli.inputs import layout_of
from ...corpora.layouts import Format
from ...corpora.outputs import check_output_pipeline
from ...errors import ConfigError, DataError
from ...files import replace_folder, write_json
from ...pipeline.select import crfs_of, load_pipeline, model_folder
from ...pipeline.texts import names_of
from ...reliability import LOOSE, STIFF, Curve, Curves, fit_curves, fit_temperature, folds_of
from ...schemes import ANY
from .._pages.calibration import Certainty, calibration, certainty
from .._pages.coverage import SpanCoverage, coverage
from .._pages.judged import Judged, for_each_component, judge
from .recall import fit_cover, read_recalls

if TYPE_CHECKING:
    from spacy.tokens import Doc
    from spacy.training import Example

    from ...pipeline.component import CRFComponent
    from ...pipeline.doc_posterior import DocPosterior


class Calibrations(NamedTuple):
    """Results by component, and reasons for components that were skipped."""

    results: dict[str, ComponentCalibration]
    skipped: dict[str, str]


class CalibrationSettings(NamedTuple):
    """Settings of the fit and of the table.

    bins (int): Bins of the reliability table.
    equal_mass (bool): With equal numbers of predictions, instead of equal width.
    by_type (bool): Also fit a curve to the spans of each type, if they help.
    recall (Sequence[str]): Wanted shares of covered spans, see `recall.read_recalls`.
    """

    bins: int = 10
    equal_mass: bool = False
    by_type: bool = False
    recall: Sequence[str] = ()


USUAL = CalibrationSettings()


def calibrate(
    model: str | Path,
    file: Path,
    layout: Format = None,
    output: Path | None = None,
    *,
    component: list[str] | None = None,
    given: str | None = None,
    settings: CalibrationSettings = USUAL,
    force: bool = False,
) -> Calibrations:
    """Fit the calibration of components on an annotated file and store it with the model.

    force (bool): Replace a pipeline that is at `output`, unless it is `model`.
    RAISES CrfError: If a component cannot be calibrated, or a file cannot be read or written.
    """
    from ...pipeline.gold_file import read_gold

    wanted = read_recalls(settings.recall)
    if output is None and model_folder(model) != Path(model):
        raise ConfigError(f"{model} is a package. Give --output DIR for the calibrated pipeline.")
    if output is not None:
        check_output_pipeline(output, model, force=force)
    nlp = load_pipeline(model)
    pipes = crfs_of(dict(nlp.pipeline), component or [], str(model))
    examples = read_gold(nlp, file, layout_of(file, layout, nlp), names_of(given)).examples

    def work(pipe: CRFComponent, docs: list[Doc]) -> ComponentCalibration:
        return _calibrated(pipe, examples, docs, settings, wanted)

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
    settings: CalibrationSettings,
    wanted: Mapping[str, float],
) -> ComponentCalibration:
    from ...pipeline.calibration import too_few
    from ...training.compatibility import check_global

    check_global(pipe.name, pipe.method.loss, "a temperature")
    earlier, pipe.cfg["cover"] = pipe.cfg["cover"], {}  # of what is predicted without it
    judged, answers = judge(pipe, examples, docs)
    if not (wanted or judged.known.any()):
        raise DataError(
            f"Component {pipe.name!r} predicts no spans in the {len(examples)} documents of the file, so its "
            "probabilities cannot be judged. Check that it was trained on such texts, or use a larger file."
        )
    right = judged.certainties()[1]
    lacks = too_few(len(right), int((~right).sum()), judged.unit)
    if lacks and not wanted:
        raise DataError(f"Component {pipe.name!r}: {lacks}. Use a larger file.")
    temperature, after, curve, types = answers.distribution.temperature, judged, None, None
    if not lacks:
        temperature = _fit_temperature(pipe, judged, answers)
        after, _ = judge(pipe, examples, docs, pipe.posterior(docs, preset=True, temperature=temperature))
        if not after.plain:
            curve, types, after = fit_types(after, by_type=settings.by_type)
    tables = [certainty(side, settings.bins, equal_mass=settings.equal_mass) for side in (judged, after)]
    recalls = _covered(pipe, examples, docs, temperature, wanted) if wanted else None
    first, last = (table for table in tables if table is not None)
    dropped = {label: share for label, share in earlier.items() if share < 1 and label not in wanted}
    return ComponentCalibration(judged.unit, curve, types, first, last, recalls, lacks, dropped)


def _fit_temperature(pipe: CRFComponent, judged: Judged, answers: DocPosterior) -> float:
    right = judged.certainties()[1]
    with tqdm(disable=None, leave=False, file=sys.stderr, desc=f"{pipe.name}: temperatures") as bar:

        def probabilities_at(temperature: float) -> NDArray[np.float64]:
            bar.update()
            return answers.probabilities_at(temperature)[judged.known]

        return round(fit_temperature(probabilities_at, right, np.zeros(len(right))).value, 4)


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


def fit_types(judged: Judged, *, by_type: bool) -> tuple[Curves, Curves | None, Judged]:
    """Fit a curve to the spans of all types, and if asked to, those of types with enough spans, which must do better.

    Returns both, each with no curves where these do not do better on texts not fitted to, those of types clearly, and
    the predictions with the probabilities on such texts.
    """
    p, right = judged.certainties()
    labels = np.array([span.label for spans in judged.found for span in spans], np.str_)
    n_texts = len(judged.found)
    fold = folds_of(np.repeat(np.arange(n_texts), [len(spans) for spans in judged.found]), n_texts)
    whole, held_out = fit_curves(p, right, fold, np.full(len(p), ANY), kinds=(STIFF, LOOSE))
    types = None
    if by_type:
        types, held_out = fit_curves(p, right, fold, labels, held_out)
    return whole, types, judged.with_probabilities(held_out)


def _store(model: Path, folder: Path, results: dict[str, ComponentCalibration]) -> None:
    from ...pipeline.model_file import read_settings

    if folder != model:
        shutil.copytree(model, folder)
    for name, result in results.items():
        file = folder / name / "cfg"
        settings = {**read_settings(file), "temperature": result.after.temperature}
        settings.pop("cover", None)
        if not result.too_few:
            settings.pop("calibration", None)
        curves = {"calibration": result.curves} if result.curves else {}
        cover = {"cover": result.recalls.thresholds} if result.recalls and result.recalls.thresholds else {}
        write_json(file, {**settings, **curves, **cover})


class Recalls(NamedTuple):
    """Thresholds for recall by label, 1 where none is needed, and how many gold spans are covered before and after."""

    thresholds: dict[str, float]
    before: SpanCoverage
    after: SpanCoverage

    @property
    def needed(self) -> dict[str, float]:
        """The thresholds that add words."""
        return {label: share for label, share in self.thresholds.items() if share < 1}


class ComponentCalibration(NamedTuple):
    """Calibration of a component before and after, over its "spans" or "tokens".

    curve (Curves | None): For spans of all types; None for tokens.
    types (Curves | None): For types with enough spans; None without `--by-type`.
    recalls (Recalls | None): None without `--recall`.
    too_few (str): Why the temperature and the curves stay as they were; empty if they were fitted.
    dropped (Mapping[str, float]): Thresholds for recall by label that the component had, and that were not asked for
        again: they were fitted with another temperature.
    """

    unit: str
    curve: Curves | None
    types: Curves | None
    before: Certainty
    after: Certainty
    recalls: Recalls | None = None
    too_few: str = ""
    dropped: Mapping[str, float] = {}

    @property
    def curves(self) -> dict[str, Curve]:
        """The curves of types, and under "*" that for spans of other types."""
        return {name: curve for side in (self.curve, self.types) if side for name, curve in side.curves.items()}

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
        curve, by_type = (
            side and {name: getattr(side, name) for name in ("curves", "gain", "error", "tried")}
            for side in (self.curve, self.types)
        )
        recall = self.recalls and {
            "thresholds": self.recalls.thresholds,
            "before": self.recalls.before.as_json(),
            "after": self.recalls.after.as_json(),
        }
        figures = {"unit": self.unit, "too_few": self.too_few or None, **sides}
        return {**figures, "curve": curve, "by_type": by_type, "recall": recall}
