"""``crfseq calibrate``: fit the temperature of trained components, so that their probabilities are reliable."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray
from tqdm import tqdm

from ...cli import options
from ...cli.app import command
from ...cli.console import printer
from ...cli.judging import layout_of
from ...corpora.outputs import check_output_pipeline
from ...errors import ConfigError, DataError
from ...files import replace_folder, write_json
from ...pipeline.gold_files import read_gold
from ...pipeline.select import crfs_of, load_pipeline
from ...pipeline.texts import names_of
from .._pages.calibration import certainty
from .._pages.judged import for_each_component, judge
from . import Result, fit_temperature

if TYPE_CHECKING:
    from spacy.tokens import Doc
    from spacy.training import Example

    from ...pipeline.component import CRFComponent

FEW = 100
"""Fewer predictions leave a temperature uncertain: its standard error is a tenth of it or more."""


class Done(NamedTuple):
    """Results by component, and reasons for components that were skipped."""

    results: dict[str, Result]
    skipped: dict[str, str]


def calibrate(
    model: options.Model,
    file: options.GoldFile,
    layout: options.GoldLayout = None,
    output: Annotated[Path | None, options.output("Folder for a calibrated copy [store it in MODEL]")] = None,
    component: options.Components = None,
    bins: Annotated[int, typer.Option(min=1, help="Bins of the reliability table")] = 10,
    equal_mass: Annotated[
        bool, typer.Option("--equal-mass", help="Bins with equal numbers of predictions instead of equal width")
    ] = False,
    given: options.Given = None,
    force: options.Force = False,
) -> Done:
    """Calibrate probabilities: of the spans with probability 0.8, eight in ten should be correct.

    Scores are divided by a temperature, which is fitted on DEV and stored with the model; Viterbi predictions stay the
    same. The report compares, before and after, mean probability and share of correct predictions; ECE, the expected
    calibration error, is their mean distance, Brier the mean squared error of the probabilities. Without --output, the
    temperature is stored in MODEL itself: one small file per component changes.

    \b
    Example:
      python -m spacy crfseq calibrate training/model-best dev.conll \\
          --format conll2003
    \f
    Fit the temperature of components on an annotated file and store it with the model.

    force (bool): Replace a pipeline that is at `output`, unless it is `model`.
    RAISES CrfError: If a component cannot be calibrated, or a file cannot be read or written.
    """
    if output is None and not Path(model).is_dir():
        raise ConfigError(f"{model} is not a folder. Give --output DIR for the calibrated pipeline.")
    if output is not None:
        check_output_pipeline(output, model, force=force)
    nlp = load_pipeline(model)
    pipes = crfs_of(dict(nlp.pipeline), component or [], str(model))
    examples = read_gold(nlp, file, layout_of(file, layout, nlp), names_of(given)).examples

    def work(pipe: CRFComponent, docs: list[Doc]) -> Result:
        return _calibrated(pipe, examples, docs, bins, equal_mass)

    done = Done(*for_each_component(nlp, pipes, examples, work, required=bool(component)))
    if not done.results:
        raise ConfigError("\n".join(["No component can be calibrated.", *done.skipped.values()]))
    temperatures = {name: result.after.temperature for name, result in done.results.items()}
    if output is None:
        _store(nlp.path, nlp.path, temperatures)
    else:
        replace_folder(output, lambda folder: _store(nlp.path, folder, temperatures))
    return done


def _calibrated(
    pipe: CRFComponent, examples: Sequence[Example], docs: list[Doc], n_bins: int, equal_mass: bool
) -> Result:
    from ...training.compatibility import check_global

    check_global(pipe.name, pipe.method.loss, "a temperature")
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
    tables = [certainty(one, n_bins, equal_mass=equal_mass) for one in (judged, after)]
    return Result(judged.unit, *(table for table in tables if table is not None))


def _store(model: Path, folder: Path, temperatures: dict[str, float]) -> None:
    from ...pipeline.storage import read_settings

    if folder != model:
        shutil.copytree(model, folder)
    for name, temperature in temperatures.items():
        file = folder / name / "cfg"
        write_json(file, {**read_settings(file), "temperature": temperature})


@command("calibrate", "Use", calls=calibrate)
def _print(done: Done, model: str, output: Path | None, as_json: options.AsJson = False) -> None:
    for name, reason in done.skipped.items():
        print(f"{name} is unchanged. {reason}", file=sys.stderr)
    for name, (unit, before, _) in done.results.items():
        if before.whole.total < FEW:
            text = f"{name}: {before.whole.total} {unit} are few for a temperature and too few for figures by label"
            print(f"{text} or bin. Use a larger file if possible.", file=sys.stderr)
    if as_json:
        print(json.dumps({name: result.as_json() for name, result in done.results.items()}, indent=2))
        return
    say = printer()
    for name, result in done.results.items():
        unit, before, after = result
        change = f"{before.temperature:.3f} -> {after.temperature:.3f}"
        say.divider(name)
        say.text(f"Temperature {change}, fitted to {before.whole.total:,} {unit}")
        for when, side in (("before", before), ("after", after)):
            header = f"{when}: probability", unit, "mean", "right"
            say.table(side.rows(), header=header, aligns=("l", *"rrr"), divider=True)
        columns = "label", unit, "right", "mean", "", "ECE", "", "Brier", ""
        say.table(result.rows(), header=columns, aligns=("l", *"rrrlrlrl"), divider=True)
    say.good(f"Saved the temperature of {', '.join(done.results)} to {output or Path(model)}")
