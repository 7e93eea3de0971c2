"""The command ``crfseq find-regularization``: train along a path of L1 strengths, and keep the model to use.

The config is the one that ``crfseq fit`` takes.  An elastic net replaces its regularizer; its rho1 decreases.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
import typer
from spacy import util
from tqdm import tqdm

from ...cli import options
from ...cli.app import command
from ...cli.console import INTERRUPTED, Rows, printer, say
from ...cli.fit_output import suggest_next
from ...corpora.outputs import locked_folder
from ...errors import ConfigError, DataError
from ...files import write_text
from ...pipeline.pipeline_training import BEST, PipelineTraining, Say, log, set_up, set_up_from
from ...types import Floats
from . import PathStep, choose, follow, has_passed_its_best, schedule, sparse_start

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ...training.fit import Progress

LOG, PAGE = "path.jsonl", "path.html"
FACTOR = 3.0
"""Between the strengths of two models, where no end is given."""
OWLQN: dict[str, Any] = {"@crf_optimizers": "spacy_crfseq.OWLQN.v1", "tolerance": 0.001, "period": 5}
"""When OWL-QN is near enough to a minimum: what is gained beyond changes no score by more than noise."""
COLUMNS = ("rho1", "Objective", "Unigrams", "Label pairs", "Dev score", "Iterations", "Seconds", "")
NAMES = ("rho1", "objective", "unigrams", "pairs", "score", "iterations", "seconds", "")
WIDTHS = (9, 12, 9, 11, 9, 10, 8, 1)
ALIGNS = (*"rrrrrrr", "l")


class PathResult(NamedTuple):
    """The finished models of a path, the number of the chosen one, its weights [D], and whether Ctrl-C came.

    untrained (list[str]): Other components, whose weights are zero.
    """

    steps: Sequence[PathStep]
    chosen: int
    theta: Floats
    interrupted: bool
    untrained: list[str]


class PathSettings(NamedTuple):
    """The strengths of a path, and the choice among its models.

    first, last (float | None): The largest and the smallest rho1; None for `sparse_start`, and until the score falls.
    steps (int): Models to train, at most.
    rho2 (float | None): Strength of the squared norm; None for that of the config.
    within (float): Points below the best score that the chosen model may have.
    """

    first: float | None = None
    last: float | None = None
    steps: int = 12
    rho2: float | None = None
    within: float = 0.0

    def check(self) -> None:
        """Raise ConfigError on settings that no path can have."""
        if not all(map(isfinite, (self.first or 0.0, self.last or 0.0, self.rho2 or 0.0, self.within))):
            raise ConfigError("--from, --to, --rho2 and --within must be finite numbers.")
        if self.first is not None and self.last is not None:
            schedule(self.first, self.last, self.steps)
        ends = (1.0 if end is None else end for end in (self.first, self.last))
        if min(ends) <= 0 or (self.rho2 or 0.0) < 0 or self.within < 0:
            raise ConfigError("--from and --to must be above 0, --rho2 and --within 0 or more.")


WHOLE_PATH = PathSettings()


def find_regularization(
    config_path: Path,
    output: Path,
    component: str | None = None,
    path: PathSettings = WHOLE_PATH,
    *,
    force: bool = False,
    overrides: Mapping[str, Any] | None = None,
    say: Say = log,
    show: Callable[[Sequence[PathStep], int], None] = lambda steps, chosen: None,
) -> PathResult | None:
    """Follow a path, save the chosen model and a table of all; None if interrupted before there was a model.

    component (str | None): None for the only one that is to be trained.
    path (PathSettings): The strengths, and the choice among the models.
    force (bool): Replace a model that is in the folder.
    show (Callable): Called with the models so far, and the number of the one that would be chosen now.
    RAISES CrfError: On settings, a config or a corpus that it cannot work with.
    """
    path.check()
    training = set_up(config_path, output, dict(overrides or {}), [BEST], force, say, (LOG, PAGE))
    name = training.one_to_train(component)
    untrained = [other for other in training.to_train if other not in {name, *training.resumed}]
    _check_inputs(training, name, untrained)
    training, rho2 = _with_method(training, name, path.rho2, say)
    if not training.has_dev():
        raise DataError("A path chooses by the score on a dev corpus, but there is none. Give --paths.dev FILE.")
    training.encode()
    steps, solutions, interrupted = list[PathStep](), list[_Solution](), False
    with locked_folder(output), _PathBar(path.steps) as bar:
        try:
            for step, theta in _models(training, name, path, rho2, bar):
                steps.append(step)
                solutions.append(_Solution.of(theta))
                chosen = choose(steps, path.within / 100)
                show(steps, chosen)
                _write_table(output / LOG, steps, chosen)
        except KeyboardInterrupt:
            interrupted = True
        if not steps:
            return None
        chosen = choose(steps, path.within / 100)
        result = PathResult(steps, chosen, solutions[chosen].theta(), interrupted, untrained)
        _save(training, name, result, rho2, output)
    return result


class _Solution(NamedTuple):
    """The weights of a model, most of which are zero: their number, and places and values of the others."""

    size: int
    places: NDArray[np.intp]
    values: Floats

    @classmethod
    def of(cls, theta: Floats) -> _Solution:
        places = np.flatnonzero(theta)
        return cls(len(theta), places, theta[places])

    def theta(self) -> Floats:
        theta = np.zeros(self.size, self.values.dtype)
        theta[self.places] = self.values
        return theta


def _models(
    training: PipelineTraining, name: str, path: PathSettings, rho2: float, bar: _PathBar
) -> Iterator[tuple[PathStep, Floats]]:
    """Yield the models of a path and their weights [D], to its end or until the dev score has passed its best."""
    (turn,) = islice(training._replace(to_train={name: training.to_train[name]}).turns(), 1)
    optimizer = turn.pipe.training.optimizer(training.settings["seed"])
    with turn.pipe.training.training_on(turn.examples, turn.dev) as (objective, evaluate):
        assert evaluate is not None
        first, start = path.first, np.zeros_like(turn.pipe.crf.theta)
        if first is None:
            first, start = sparse_start(objective, optimizer, start, rho2=rho2, watch=bar.watch)
        last = path.last or first / FACTOR ** (path.steps - 1)
        strengths, steps = schedule(max(first, last), last, path.steps), list[PathStep]()
        for step, theta in follow(objective, optimizer, strengths, start, evaluate, rho2=rho2, watch=bar.watch):
            bar.add(step)
            steps.append(step)
            yield step, theta
            if path.last is None and has_passed_its_best(steps):
                return


def _check_inputs(training: PipelineTraining, name: str, untrained: list[str]) -> None:
    """Check that no component without training writes what the features of the one to train look at."""
    if name in training.resumed:
        training.refuse_trained("A path")
    before = training.nlp.pipe_names[: training.nlp.pipe_names.index(name)]
    annotating = set(training.settings["annotating_components"]) & set(before)
    blind = [other for other in untrained if other in annotating]
    columns = sorted(training.to_train[name].reads - {"NORM", "SPACY"})
    if blind and columns:
        raise ConfigError(
            f"{name} reads {', '.join(columns)}, but {', '.join(blind)}, which [training] annotating_components lists, "
            "is not trained by a path. Train it first and take it from there (source = FOLDER), or take it out of "
            "annotating_components and list the columns under `given` of the corpus readers."
        )


def _penalty(rho1: float, rho2: float) -> dict[str, Any]:
    return {"@crf_regularizers": "spacy_crfseq.ElasticNet.v1", "rho1": rho1, "rho2": rho2}


def _with_method(training: PipelineTraining, name: str, rho2: float | None, say: Say) -> tuple[PipelineTraining, float]:
    """Return a training whose component has the penalty of a path, and OWL-QN if its own optimizer cannot follow one.

    rho2 (float | None): Strength of the squared norm, None for that of the config; it is returned, too.
    """
    method, blocks = training.to_train[name].method, dict[str, Any]()
    optimizer, strengths = method.optimizer, method.regularizer.strengths
    if rho2 is None:
        rho2 = strengths.l2 if strengths is not None else 0.0
    if optimizer.online or not optimizer.penalties & {"elastic", "prox"}:
        say("info", f"{type(optimizer).__name__} cannot follow a path: using OWLQN instead")
        blocks["optimizer"] = OWLQN
    return set_up_from(_changed(training, name, {**blocks, "regularizer": _penalty(1.0, rho2)}), say), rho2


def _changed(training: PipelineTraining, name: str, blocks: Mapping[str, Any]) -> Any:
    """Return the config of a pipeline with other blocks of a component."""
    config = training.nlp.config.copy()
    config["components"][name] = {**config["components"][name], **blocks}
    return config


def _save(training: PipelineTraining, name: str, result: PathResult, rho2: float, output: Path) -> None:
    """Save the pipeline with the chosen model, and the page."""
    from ...tools._pages.html import render

    step = result.steps[result.chosen]
    config = _changed(training, name, {"regularizer": _penalty(step.rho1, rho2)})
    training.to_train[name].set_parameters(result.theta)
    nlp = util.load_model_from_config(config, vocab=training.nlp.vocab)
    nlp.from_bytes(training.nlp.to_bytes(), exclude=["config.cfg", "vocab"])
    pipes: Any = {other: nlp.get_pipe(other) for other in training.to_train}
    training = training._replace(nlp=nlp, to_train=pipes)
    training.score({name: step.loss / max(1, training.corpus.n_tokens)})
    training.save(output / BEST)
    rows = [_cells(step, number == result.chosen) for number, step in enumerate(result.steps)]
    about = {"name": name, "steps": result.steps, "step": step, "columns": COLUMNS, "rows": rows}
    write_text(output / PAGE, render("papers/path/page.html", **about))


def _write_table(path: Path, steps: Sequence[PathStep], chosen: int) -> None:
    """Write the models, one JSON object per line."""
    lines = [{**step._asdict(), "chosen": number == chosen} for number, step in enumerate(steps)]
    write_text(path, "".join(json.dumps(line, allow_nan=False) + "\n" for line in lines))


def _cells(step: PathStep, chosen: bool) -> list[str]:
    numbers = [f"{step.rho1:.4g}", f"{step.objective:.2f}", str(step.unigrams), str(step.pairs)]
    return [*numbers, f"{100 * step.score:.2f}", str(step.iterations), f"{step.seconds:.2f}", "*" if chosen else ""]


class _PathBar:
    """A line about the fit in progress, on terminals only."""

    def __init__(self, most: int) -> None:
        self._bar = tqdm(disable=None, leave=False, file=sys.stderr, bar_format="{desc}")
        self._most, self._done, self._seconds = most, 0, 0.0

    def __enter__(self) -> _PathBar:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def watch(self, progress: Progress) -> None:
        """Take in an iteration."""
        self._bar.set_description_str(self.words(progress.iteration, progress.report.value))

    def add(self, step: PathStep) -> None:
        """Take in a model that is finished."""
        self._bar.clear()
        self._done, self._seconds = self._done + 1, step.seconds

    def words(self, iteration: int, objective: float) -> str:
        """Return a description of the fit, with the longest time to go once there is a model."""
        words = f"model {self._done + 1}, iteration {iteration}, objective {objective:,.2f}"
        if not self._done:
            return words
        left = self._seconds / self._done * (self._most - self._done)
        return words + (f", at most {left / 60:.0f} min to go" if left > 90 else f", at most {left:.0f} s to go")


@command("find-regularization", "Train", "path", context_settings=options.OVERRIDES)
def find_regularization_cli(
    ctx: typer.Context,
    config_path: options.Config,
    output: Annotated[Path, options.output(f"Folder for {BEST}, {LOG} and {PAGE}")],
    component: Annotated[
        str | None,
        typer.Option(
            "--component", "-p", help="CRF component to train", show_default="the only one that is to be trained"
        ),
    ] = None,
    first: Annotated[
        float | None,
        typer.Option(
            "--from", help="Largest rho1", show_default="one that leaves 1 percent of the weights other than zero"
        ),
    ] = None,
    last: Annotated[
        float | None,
        typer.Option("--to", help="Smallest rho1", show_default="where the dev score has passed its best"),
    ] = None,
    steps: Annotated[
        int, typer.Option(min=1, help="Most models to train; rho1 falls by the same factor, without --to by 3")
    ] = 12,
    rho2: Annotated[
        float | None,
        typer.Option(help="Strength of the squared norm, the same for all", show_default="that of the config"),
    ] = None,
    within: Annotated[float, typer.Option(help="Choose the smallest model within this many points of the best")] = 0.0,
    force: options.Force = False,
    code: options.Code = None,
    verbose: options.Verbose = False,
) -> None:
    """Find a small model: train along a path of L1 strengths and choose by the dev score.

    The penalty is rho1 ||w||_1 + rho2/2 ||w||^2. A large rho1 leaves most weights zero. It decreases step by step, and
    each model starts from the previous one, until two models in a row gain less than 0.1 points on the dev corpus.
    Each row shows rho1, the minimum of the objective, the number of nonzero weights (unigrams: attributes with labels;
    label pairs: transitions and pair templates), the dev score and the seconds so far; * marks the current choice.
    Takes the config and overrides of 'crfseq fit'. Ctrl-C stops and saves the current choice. The table is saved as
    path.jsonl, a chart of score and size as path.html.

    Example: the smallest entity recognizer within half a point of the best
      python -m spacy crfseq find-regularization config.cfg --output small/ \\
          --component crf_ner --within 0.5 --from 20 --to 2 --steps 4 \\
          --paths.train train.conll --paths.dev dev.conll
    """
    rows = Rows(COLUMNS, NAMES, WIDTHS, ALIGNS)

    def show(steps: Sequence[PathStep], chosen: int) -> None:
        if len(steps) == 1:
            rows.begin()
        rows.add(_cells(steps[-1], chosen == len(steps) - 1))

    result = find_regularization(
        config_path, output, component, PathSettings(first, last, steps, rho2, within), force=force,
        overrides=options.config_overrides(ctx, config_path), say=say, show=show,
    )  # fmt: skip
    msg = printer()
    if result is None:
        msg.warn("Interrupted before the first model: nothing is saved")
        raise typer.Exit(INTERRUPTED)
    passed, chosen = result.steps, result.steps[result.chosen]
    rho1, best = chosen.rho1, max(other.score for other in passed)
    msg.info(
        f"Chosen: rho1 = {rho1:.4g}, {chosen.active:,} weights other than zero, dev score {100 * chosen.score:.2f} "
        f"(best {100 * best:.2f})"
    )
    if chosen is passed[-1] and not has_passed_its_best(passed):
        msg.warn(
            "The chosen model is the last of the path, so a weaker penalty may do better: go on with "
            f"--from {rho1:.3g} --to {rho1 / 10:.3g}"
        )
    elif chosen is passed[0]:
        msg.warn(
            "The chosen model is the first of the path, so a smaller one may do as well: look there with "
            f"--from {10 * rho1:.3g} --to {rho1:.3g}"
        )
    if result.interrupted:
        msg.warn("Interrupted: the choice among the models so far is saved")
    if result.untrained:
        msg.warn(f"Not trained, all weights zero: {', '.join(result.untrained)}")
    msg.good(f"Saved {output / BEST}, {output / PAGE}")
    suggest_next(output / BEST)
    if result.interrupted:
        raise typer.Exit(INTERRUPTED)
