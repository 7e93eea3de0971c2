"""``crfseq calibrate``: fit the temperature of trained components, so that their probabilities are as good as they say.

Guo, Pleiss, Sun & Weinberger (2017), "On calibration of modern neural networks", for the spans and tags of a CRF.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
import spacy
import typer
from numpy.typing import NDArray
from tqdm import tqdm

from ..corpora.layouts import FORMAT_HELP
from ..corpora.outputs import check_output_pipeline
from ..errors import ConfigError, CrfError, DataError
from ..files import replace_folder, write_json
from ..pipeline.gold_files import GIVEN_HELP, names_of, read_gold
from ..pipeline.select import crfs_of, run_between
from ._app import crfseq_cli
from ._console import CodeOption, load_code, printer, reported_errors

if TYPE_CHECKING:
    from spacy.training import Example

    from ..pipeline.answers import Answers
    from ..pipeline.component import CRFComponent
    from ..training.calibration import Bin, Calibration

FEW = 100
"""Predictions below which a temperature is a guess: its standard error is then near a tenth of it, or more."""


@crfseq_cli.command("calibrate")
def calibrate_cli(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Folder or package name of a trained pipeline")],
    file: Annotated[Path, typer.Argument(metavar="DEV", help="Annotated file that the model was not trained on")],
    format_: Annotated[str | None, typer.Option("--format", "-f", help=FORMAT_HELP)] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for the calibrated pipeline [MODEL itself]")
    ] = None,
    component: Annotated[
        list[str] | None,
        typer.Option("--component", "-p", help="Component to calibrate, may be given more than once [all it can]"),
    ] = None,
    bins: Annotated[int, typer.Option(min=1, help="Bins of the reliability table")] = 10,
    equal_mass: Annotated[
        bool, typer.Option("--equal-mass", help="Bins of equally many predictions instead of equal width")
    ] = False,
    given: Annotated[str | None, typer.Option(help=GIVEN_HELP)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON instead of the report")] = False,
    code: CodeOption = None,
) -> None:
    """Let probabilities mean what they say: of the spans with probability 0.8, eight in ten should be right.

    Scores are divided by a temperature, fitted to the predictions on DEV and stored with the model; predictions stay
    the same under Viterbi decoding. The report shows, before and after, how probable predictions are and how many of
    them are right; ECE, the expected calibration error, is the mean distance of the two, Brier the mean squared error
    of the probabilities. Without --output, MODEL changes: one small file of each component is replaced.

    \b
    Example:
      python -m spacy crfseq calibrate training/model-best dev.conll \\
          --format conll2003
    """
    with reported_errors():
        load_code(code)
        table, names = Table(bins, equal_mass), names_of(given)
        done = calibrate(model, file, format_, output=output, components=component or [], table=table, given=names)
        for name, reason in done.skipped.items():
            print(f"{name} is left as it is. {reason}", file=sys.stderr)
        for name, result in done.results.items():
            if result.before.whole.total < FEW:
                print(
                    f"{name}: {result.before.whole.total} {result.unit} are few to fit a temperature to, and too few "
                    "for the figures of single labels and bins. Give a larger file if there is one.",
                    file=sys.stderr,
                )
        if as_json:
            print(json.dumps({name: result.as_json() for name, result in done.results.items()}, indent=2))
        else:
            _tell(done, output or Path(model))


class Table(NamedTuple):
    """How to make reliability tables."""

    n_bins: int = 10
    equal_mass: bool = False


DEFAULT_TABLE = Table()


class Section(NamedTuple):
    """How well probabilities fit at a temperature.

    bins (list[Bin]): The reliability table.
    whole (Calibration): Of all predictions.
    labels (dict[str, Calibration]): Of the predictions of each label.
    """

    temperature: float
    bins: list[Bin]
    whole: Calibration
    labels: dict[str, Calibration]

    def as_json(self) -> dict[str, Any]:
        """Return the figures in a form that JSON knows."""
        return {
            "temperature": self.temperature,
            **self.whole._asdict(),
            "bins": [part._asdict() for part in self.bins],
            "labels": {label: figures._asdict() for label, figures in self.labels.items()},
        }


class Result(NamedTuple):
    """What calibrating a component did.

    unit (str): What was judged, "spans" or "tokens".
    """

    unit: str
    before: Section
    after: Section

    def as_json(self) -> dict[str, Any]:
        """Return the figures in a form that JSON knows."""
        return {"unit": self.unit, "before": self.before.as_json(), "after": self.after.as_json()}


class Done(NamedTuple):
    """What `calibrate` did.

    results (dict[str, Result]): Of each component.
    skipped (dict[str, str]): Why components were left as they are.
    """

    results: dict[str, Result]
    skipped: dict[str, str]


def calibrate(
    model: str | Path,
    file: Path,
    format_name: str | None = None,
    *,
    output: Path | None = None,
    components: Sequence[str] = (),
    table: Table = DEFAULT_TABLE,
    given: Sequence[str] | None = None,
) -> Done:
    """Fit the temperature of components on an annotated file and store it with the model.

    output (Path | None): Folder for the pipeline; None to replace the settings of the components in `model`.
    components (Sequence[str]): Names; if there are none, all CRFs that have probabilities and gold annotation.
    format_name, given: As `read_gold` has them.
    RAISES CrfError: If a component cannot be calibrated, or a file cannot be read or written.
    """
    if output is None and not Path(model).is_dir():
        raise ConfigError(f"{model} is no folder. Give --output DIR for the calibrated pipeline.")
    if output is not None:
        check_output_pipeline(output)
    nlp = spacy.load(model)
    pipes = crfs_of(dict(nlp.pipeline), components, str(model))
    examples = read_gold(nlp, file, format_name, given).examples
    done = Done({}, {})
    before: str | None = None
    for name, pipe in pipes.items():
        for example, doc in zip(examples, run_between(nlp, [e.predicted for e in examples], before, name), strict=True):
            example.predicted = doc
        before = name
        try:
            done.results[name] = _calibrated(pipe, examples, table)
        except CrfError as error:
            if components or len(pipes) == 1:
                raise
            done.skipped[name] = str(error)
    if not done.results:
        raise ConfigError("\n".join(["No component can be calibrated.", *done.skipped.values()]))
    _store(nlp.path, output, {name: result.after.temperature for name, result in done.results.items()})
    return done


def _calibrated(pipe: CRFComponent, examples: Sequence[Example], table: Table) -> Result:
    """Fit the temperature of a component and return what it does, without changing anything.

    RAISES CrfError: If the component has no probabilities, or there is nothing to judge its predictions by.
    """
    from ..training.calibration import fit_temperature
    from ..training.compatibility import check_global

    check_global(pipe.name, pipe.method.loss, "a temperature")
    docs = [example.predicted for example in examples]
    answers = pipe.ask(docs, preset=True)
    judged = _judge(pipe, answers, examples)
    with tqdm(disable=None, leave=False, file=sys.stderr, desc=f"{pipe.name}: temperatures") as bar:

        def probabilities_at(temperature: float) -> NDArray[np.float64]:
            bar.update()
            return answers.probabilities_at(temperature)[judged.known]

        temperature = round(fit_temperature(probabilities_at, judged.right), 4)
    after = pipe.ask(docs, preset=True, temperature=temperature)
    sections = (
        _section(judged, answers, table),
        _section(_judge(pipe, after, examples), after, table),
    )
    return Result("tokens" if pipe.annotation.scheme is None else "spans", *sections)


class Judged(NamedTuple):
    """Predictions of a component [S], and which of them are right.

    known (bool [S]): Whether gold annotation tells of them; the others are left out of the following.
    right (bool [known]): Whether they are right.
    labels (str [known]): Their labels.
    """

    known: NDArray[np.bool_]
    right: NDArray[np.bool_]
    labels: NDArray[np.str_]


def _judge(pipe: CRFComponent, answers: Answers, examples: Sequence[Example]) -> Judged:
    """Compare predicted spans, or the tags of a tagger, with gold ones.

    RAISES DataError: If there are none, or no gold annotation.
    """
    from ._judged import gold_spans, known_gold_tags, no_gold

    known, right, labels = [], [], []
    some_gold = False
    for scored, example in zip(answers.spans(), examples, strict=True):
        tags = known_gold_tags(pipe, example)
        some_gold = some_gold or any(tag is not None for tag in tags)
        gold = set(gold_spans(tags, plain=pipe.annotation.scheme is None))
        for start, end, label, _ in scored:
            known.append(None not in tags[start:end])
            if known[-1]:
                right.append((start, end, label) in gold)
                labels.append(label)
    if not some_gold:
        raise no_gold(pipe)
    if not right:
        raise DataError(
            f"Component {pipe.name!r} predicts no spans in the {len(examples)} documents of the file, so nothing tells "
            "how good its probabilities are. Check that it is trained for such texts, or give more of them."
        )
    return Judged(np.array(known, np.bool_), np.array(right, np.bool_), np.array(labels, np.str_))


def _section(judged: Judged, answers: Answers, table: Table) -> Section:
    from ..training.calibration import calibration, reliability

    p = answers.all_probabilities[judged.known]
    n_bins, options = table.n_bins, {"equal_mass": table.equal_mass}

    def of(label: str) -> Calibration:
        here = judged.labels == label
        return calibration(p[here], judged.right[here], n_bins, **options)

    return Section(
        answers.posterior.temperature,
        reliability(p, judged.right, n_bins, **options),
        calibration(p, judged.right, n_bins, **options),
        {str(label): of(label) for label in np.unique(judged.labels)},
    )


def _store(model: Path, output: Path | None, temperatures: dict[str, float]) -> None:
    """Write the temperatures to the settings of components, in a copy of the pipeline if `output` is given."""
    if output is None:
        _set(model, temperatures)
        return

    def copy(folder: Path) -> None:
        shutil.copytree(model, folder)
        _set(folder, temperatures)

    replace_folder(output, copy)


def _set(model: Path, temperatures: dict[str, float]) -> None:
    from ..pipeline.storage import read_settings

    for name, temperature in temperatures.items():
        file = model / name / "cfg"
        write_json(file, {**read_settings(file), "temperature": temperature})


# The report


def _tell(done: Done, target: Path) -> None:
    """Say what `calibrate` did."""
    say = printer()
    for name, (unit, before, after) in done.results.items():
        change = f"{before.temperature:.3f} -> {after.temperature:.3f}"
        say.divider(name)
        say.text(f"Temperature {change}, fitted to {before.whole.total:,} {unit}")
        for when, section in (("before", before), ("after", after)):
            say.table(
                [_bin_cells(part) for part in section.bins],
                header=(f"{when}: probability", unit, "mean", "right"),
                aligns=("l", *"rrr"),
                divider=True,
            )
        say.table(
            [_label_cells(*row) for row in _label_rows(before, after)],
            header=("label", unit, "right", "mean", "", "ECE", "", "Brier", ""),
            aligns=("l", *"rrrlrlrl"),
            divider=True,
        )
    say.good(f"Saved the temperature of {', '.join(done.results)} to {target}")


def _bin_cells(part: Bin) -> tuple[str, ...]:
    return f"{part.low:.3f} to {part.high:.3f}", f"{part.total:,}", f"{part.predicted:.3f}", f"{part.correct:.3f}"


def _label_rows(before: Section, after: Section) -> Iterator[tuple[str, Calibration, Calibration]]:
    from ..training.calibration import calibration

    none = calibration([], [])
    for label in sorted({*before.labels, *after.labels}):
        yield label, before.labels.get(label, none), after.labels.get(label, none)
    yield "all", before.whole, after.whole


def _label_cells(label: str, before: Calibration, after: Calibration) -> list[str]:
    pairs = [(getattr(before, name), getattr(after, name)) for name in ("predicted", "error", "brier")]
    changes = [cell for old, new in pairs for cell in (f"{old:.3f}", f"-> {new:.3f}")]
    return [label, f"{before.total:,}", f"{before.correct:.3f}", *changes]
