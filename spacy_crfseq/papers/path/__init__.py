"""``crfseq find-regularization``: train ever larger models along a path of L1 strengths, and keep the one to use.

The config is the one that ``crfseq fit`` takes.  An elastic net replaces its regularizer; its rho1 decreases.

Regularization path: models of growing size, each started from the one before.

The minimum for one L1 strength rho1 is close to that for the next smaller one, so that a whole path costs only slightly
more than its last model (Friedman, Hastie & Tibshirani 2010, section 2.5, "pathwise coordinate descent"; Lavergne,
Cappe & Yvon 2010 for CRFs).  A development score chooses among the models.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from math import isfinite
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
import typer
from tqdm import tqdm

from ...cli import options
from ...cli.app import command
from ...cli.console import INTERRUPTED, Rows, printer, say
from ...cli.fit import suggest_next
from ...corpora.outputs import locked_folder
from ...errors import ConfigError, DataError
from ...files import write_text
from ...pipeline.project import BEST, Setup, each_component, encode, one_to_train, score, set_up
from ...regularizers.elastic_net import ElasticNet
from ...types import Floats, Optimizer, StepReport

if TYPE_CHECKING:
    from ...training.objective import Objective
    from ...types import Offsets

LOG, PAGE = "path.jsonl", "path.html"
FACTOR = 3.0
"""Between the strengths of two models, where no end is given."""
NEAR: dict[str, Any] = {"tolerance": 0.001, "period": 5}
"""When OWL-QN is near enough to a minimum: what is gained beyond changes no score by more than noise."""
COLUMNS = ("rho1", "Objective", "Unigrams", "Label pairs", "Dev score", "Iterations", "Seconds", "")
NAMES = ("rho1", "objective", "unigrams", "pairs", "score", "iterations", "seconds", "")
WIDTHS = (9, 12, 9, 11, 9, 10, 8, 1)
ALIGNS = (*"rrrrrrr", "l")


class Settings(NamedTuple):
    """Which path to follow; see the help of the command."""

    first: float | None
    last: float | None
    steps: int
    rho2: float | None
    within: float


def find_regularization(
    config_path: options.Config,
    output: Annotated[Path, typer.Option("--output", "-o", help=f"Folder for {BEST}, {LOG} and {PAGE}")],
    component: Annotated[
        str | None,
        typer.Option("--component", "-p", help="CRF component to train [the only one that is to be trained]"),
    ] = None,
    first: Annotated[
        float | None, typer.Option("--from", help="Largest rho1 [one that leaves 1 % of the weights other than zero]")
    ] = None,
    last: Annotated[
        float | None, typer.Option("--to", help="Smallest rho1 [where the dev score has passed its best]")
    ] = None,
    steps: Annotated[
        int, typer.Option(min=1, help="Most models to train; rho1 falls by the same factor, without --to by 3")
    ] = 12,
    rho2: Annotated[
        float | None, typer.Option(help="Strength of the squared norm, the same for all [that of the config]")
    ] = None,
    within: Annotated[float, typer.Option(help="Choose the smallest model within this many points of the best")] = 0.0,
    force: options.Force = False,
    *,
    overrides: dict[str, Any] | None = None,
) -> PathResult | None:
    """Find a small model: train along a path of L1 strengths and choose by the dev score.

    The penalty is rho1 ||w||_1 + rho2/2 ||w||^2. A large rho1 leaves most weights zero. It decreases step by step, and
    each model starts from the previous one, until two models in a row gain less than 0.1 points on the dev corpus.
    Each row shows rho1, the minimum of the objective, the number of nonzero weights (unigrams: attributes with labels;
    label pairs: transitions and pair templates), the dev score and the seconds so far; * marks the current choice.
    Takes the config and overrides of 'crfseq fit'. Ctrl-C stops and saves the current choice. The table is saved as
    path.jsonl, a chart of score and size as path.html.

    \b
    Example: the smallest entity recognizer within half a point of the best
      python -m spacy crfseq find-regularization config.cfg --output small/ \\
          --component crf_ner --within 0.5 --from 20 --to 2 --steps 4 \\
          --paths.train train.conll --paths.dev dev.conll
    \f
    Follow a path, save the chosen model and a table of all; None if interrupted before there was a model.

    force (bool): Replace a model that is in the folder.
    RAISES CrfError: On settings, a config or a corpus that it cannot work with.
    """
    settings = Settings(first, last, steps, rho2, within)
    _check(settings)
    setup = set_up(config_path, output, overrides or {}, [BEST], force, say, (LOG, PAGE))
    name = one_to_train(setup, component)
    untrained = [other for other in setup.to_train if other not in {name, *setup.resumed}]
    _check_inputs(setup, name, untrained)
    settings = settings._replace(rho2=_choose_method(setup, name, settings.rho2))
    if next(iter(setup.read_dev()), None) is None:
        raise DataError("A path chooses by the score on a dev corpus, but there is none. Give --paths.dev FILE.")
    encode(setup)
    with locked_folder(output):
        result = _follow(setup._replace(to_train={name: setup.to_train[name]}), settings, PathReporter(output / LOG))
        if result is None:
            printer().warn("Interrupted before the first model: nothing is saved")
            return None
        _save(setup, name, result, settings.rho2, output)
    _print_choice(result)
    if untrained:
        printer().warn(f"Not trained, all weights zero: {', '.join(untrained)}")
    printer().good(f"Saved {output / BEST}, {output / PAGE}")
    suggest_next(output / BEST)
    return result


def _check(settings: Settings) -> None:
    """Refuse settings that are out of range before anything is read."""
    first, last, steps, rho2, within = settings
    if not all(map(isfinite, (first or 0.0, last or 0.0, rho2 or 0.0, within))):
        raise ConfigError("--from, --to, --rho2 and --within must be finite numbers.")
    if first is not None and last is not None:
        schedule(first, last, steps)
    ends = [strength for strength in (first, last) if strength is not None]
    if not (all(strength > 0 for strength in ends) and (rho2 or 0.0) >= 0 and within >= 0):
        raise ConfigError("--from and --to must be above 0, --rho2 and --within 0 or more.")


def _check_inputs(setup: Setup, name: str, untrained: list[str]) -> None:
    """Check that no component without training writes what the features of the one to train look at."""
    before = setup.nlp.pipe_names[: setup.nlp.pipe_names.index(name)]
    annotating = set(setup.training["annotating_components"]) & set(before)
    blind = [other for other in untrained if other in annotating]
    columns = sorted(setup.to_train[name].reads - {"NORM", "SPACY"})
    if blind and columns:
        raise ConfigError(
            f"{name} reads {', '.join(columns)}, but {', '.join(blind)}, which [training] annotating_components lists, "
            "is not trained by a path. Train it first and take it from there (source = FOLDER), or take it out of "
            "annotating_components and list the columns under `given` of the corpus readers."
        )


class PathResult(NamedTuple):
    """The finished models of a path, the number of the chosen one, its parameters [D], and whether Ctrl-C came."""

    steps: list[PathStep]
    chosen: int
    theta: Floats
    interrupted: bool


def _follow(setup: Setup, settings: Settings, reporter: PathReporter) -> PathResult | None:
    """Follow the path of the only component to train; None if Ctrl-C came before the first model."""
    steps: list[PathStep] = []
    solutions: list[tuple[Offsets, Floats]] = []
    interrupted, theta = False, np.zeros(0)
    try:
        (turn,) = islice(each_component(setup), 1)
        optimizer = turn.pipe.training.optimizer(setup.training["seed"])
        with turn.pipe.training.training_on(turn.examples, turn.dev) as (objective, evaluate):
            assert evaluate is not None
            rho2, last, most, theta = settings.rho2 or 0.0, settings.last, settings.steps, 0 * turn.pipe.crf.theta
            reporter.begin(settings.within / 100, most)
            first = settings.first or sparse_start(objective, optimizer, theta, rho2=rho2, watch=reporter.watch)
            end = last or first / FACTOR ** (most - 1)
            strengths = schedule(max(first, end), end, most)
            path = follow(objective, optimizer, strengths, theta, evaluate, rho2=rho2, watch=reporter.watch)
            for step, solution in path:
                places = np.flatnonzero(solution)  # most parameters are zero
                solutions.append((places, solution[places]))
                steps.append(step)
                reporter.show(steps)
                if not last and has_passed_its_best(steps):
                    break
    except KeyboardInterrupt:
        interrupted = True
    finally:
        reporter.close()
    if not steps:
        return None
    chosen, best = choose(steps, settings.within / 100), np.zeros_like(theta)
    best[solutions[chosen][0]] = solutions[chosen][1]
    return PathResult(steps, chosen, best, interrupted)


def _choose_method(setup: Setup, name: str, rho2: float | None) -> float:
    """Give a component the penalty of a path, and OWL-QN, in its config too, if its own optimizer cannot follow one.

    rho2 (float | None): Strength of the squared norm, None for that of the config.
    RETURNS (float): This strength.
    """
    from ...optimizers.lbfgs import OWLQN

    pipe = setup.to_train[name]
    optimizer, strengths = pipe.method.optimizer, pipe.method.regularizer.strengths
    if rho2 is None:
        rho2 = strengths.l2 if strengths is not None else 0.0
    if optimizer.online or not optimizer.penalties & {"elastic", "prox"}:
        printer().info(f"{type(optimizer).__name__} cannot follow a path: using OWLQN instead")
        optimizer = OWLQN(**NEAR)
        setup.nlp.get_pipe_config(name)["optimizer"] = {"@crf_optimizers": "spacy_crfseq.OWLQN.v1", **NEAR}
    pipe.method = pipe.method._replace(regularizer=ElasticNet(1.0, rho2), optimizer=optimizer)
    return rho2


def _save(setup: Setup, name: str, result: PathResult, rho2: float | None, output: Path) -> None:
    """Save the pipeline with the chosen model, and the page."""
    from ...tools._pages.html import render

    step, pipe = result.steps[result.chosen], setup.to_train[name]
    pipe.set_parameters(result.theta)
    pipe.method = pipe.method._replace(regularizer=ElasticNet(step.rho1, rho2 or 0.0))
    block = {"@crf_regularizers": "spacy_crfseq.ElasticNet.v1", "rho1": step.rho1, "rho2": rho2}
    setup.nlp.get_pipe_config(name)["regularizer"] = block
    score(setup, {name: step.loss / max(1, setup.train.n_tokens)})
    setup.save(output / BEST)
    rows = [_cells(one, number == result.chosen) for number, one in enumerate(result.steps)]
    about = {"name": name, "steps": result.steps, "step": step, "columns": COLUMNS, "rows": rows}
    write_text(output / PAGE, render("papers/path/page.html", **about))


class PathReporter:
    """Shows the progress of a path and saves its table in a file, one JSON object per line."""

    def __init__(self, log: Path) -> None:
        self._log, self._rows = log, Rows(COLUMNS, NAMES, WIDTHS, ALIGNS)
        self._bar: Any = None
        self._within, self._most, self._iteration = 0.0, 0, 0
        self._steps: Sequence[PathStep] = ()

    def begin(self, within: float, most: int) -> None:
        """Begin a path of `most` models or fewer; a model at most `within` below the best score is chosen."""
        self._within, self._most = within, most
        self._rows.begin()

    def watch(self, report: StepReport) -> None:
        """Take in an iteration; the bar is there on terminals only."""
        if self._bar is None:
            self._iteration = 0
            self._bar = tqdm(disable=None, leave=False, file=sys.stderr, bar_format="{desc}")
        self._iteration += 1
        self._bar.set_description_str(self.words(report), refresh=False)
        self._bar.update()

    def words(self, report: StepReport) -> str:
        """Return what the bar says after an iteration, with the longest time to go once there is a model."""
        done = len(self._steps)
        words = f"model {done + 1}, iteration {self._iteration}, objective {report.value:,.2f}"
        if not done:
            return words
        left = self._steps[-1].seconds / done * (self._most - done)
        return words + (f", at most {left / 60:.0f} min to go" if left > 90 else f", at most {left:.0f} s to go")

    def show(self, steps: Sequence[PathStep]) -> None:
        """Take in the models so far, the last of them new."""
        self.close()
        self._steps = steps
        chosen = choose(steps, self._within)
        self._rows.add(_cells(steps[-1], chosen == len(steps) - 1))
        lines = [{**step._asdict(), "chosen": number == chosen} for number, step in enumerate(steps)]
        write_text(self._log, "".join(json.dumps(line, allow_nan=False) + "\n" for line in lines))

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def _cells(step: PathStep, chosen: bool) -> list[str]:
    numbers = [f"{step.rho1:.4g}", f"{step.objective:.2f}", str(step.unigrams), str(step.pairs)]
    return [*numbers, f"{100 * step.score:.2f}", str(step.iterations), f"{step.seconds:.2f}", "*" if chosen else ""]


def _print_choice(result: PathResult) -> None:
    """Say which model is chosen; where it is the first or the last, how to go on beyond it."""
    msg, steps, step = printer(), result.steps, result.steps[result.chosen]
    rho1, best = step.rho1, max(other.score for other in steps)
    msg.info(
        f"Chosen: rho1 = {rho1:.4g}, {step.active:,} weights other than zero, dev score {100 * step.score:.2f} "
        f"(best {100 * best:.2f})"
    )
    if result.chosen == len(steps) - 1 and not has_passed_its_best(steps):
        msg.warn(
            "The chosen model is the last of the path, so a weaker penalty may do better: go on with "
            f"--from {rho1:.3g} --to {rho1 / 10:.3g}"
        )
    elif result.chosen == 0:
        msg.warn(
            "The chosen model is the first of the path, so a smaller one may do as well: look there with "
            f"--from {10 * rho1:.3g} --to {rho1:.3g}"
        )
    if result.interrupted:
        msg.warn("Interrupted: the choice among the models so far is saved")


@command("find-regularization", "Train", "path", calls=find_regularization)
def _exit_code(result: PathResult | None) -> int:
    return INTERRUPTED if result is None or result.interrupted else 0


class PathStep(NamedTuple):
    """A model of the path.

    rho1 (float): Strength of its L1 norm.
    objective, loss (float): Minimum of the objective, and the loss alone, summed over the sequences.
    unigrams, pairs (int): Weights other than zero that score one label, and those that score two.
    score (float): Development score.
    iterations (int): Iterations of the optimizer, from the model before.
    seconds (float): Wall time from the start of the path, the score included.
    """

    rho1: float
    objective: float
    loss: float
    unigrams: int
    pairs: int
    score: float
    iterations: int
    seconds: float

    @property
    def active(self) -> int:
        """All weights other than zero."""
        return self.unigrams + self.pairs


SHARE = 0.01
"""Share of the weights that are not zero where a path begins."""
ROUGH_ITERATIONS = 10
GAIN, PATIENCE = 0.001, 2
"""A path has passed its best score when so many models in a row were not better by so much."""


def sparse_start(
    objective: Objective,
    optimizer: Optimizer,
    theta: Floats,
    *,
    rho2: float = 0.0,
    watch: Callable[[StepReport], None] | None = None,
) -> float:
    """Return a rho1 that leaves about `SHARE` of the weights other than zero; theta [D] of zeros gets near its minimum.

    A weight is taken to stay zero where its gradient is smaller than rho1: at zero, then after a few iterations with
    the rho1 found there (the "strong rule" of Tibshirani et al. 2012, for one step of a path).
    """
    smooth, rho1 = objective.under(ElasticNet(0.0, rho2)), 0.0
    for last in (False, True):
        gradient = abs(smooth.value_and_grad(theta)[2])
        gradient[theta != 0] = np.inf
        place = -1 - int(SHARE * (len(gradient) - 1))
        limit = float(np.partition(gradient, place)[place])
        rho1 = limit if np.isfinite(limit) else rho1
        if not last and rho1 > 0:
            _minimise(objective.under(ElasticNet(rho1, rho2)), optimizer, theta, watch, ROUGH_ITERATIONS)
    return rho1 or 1.0


def has_passed_its_best(steps: Sequence[PathStep]) -> bool:
    """Return whether the last `PATIENCE` models are not better than one before by `GAIN` or more."""
    before = max((step.score for step in steps[:-PATIENCE]), default=0.0)
    return before > 0 and all(step.score < before + GAIN for step in steps[-PATIENCE:])


def schedule(first: float, last: float, steps: int) -> list[float]:
    """Return strengths from `first` down to `last` in geometric progression; one if they are equal.

    RAISES ConfigError: If they do not go down, the last is not positive, or there is no step.
    """
    if steps < 1:
        raise ConfigError(f"A path needs at least 1 step, but {steps} was given.")
    if not 0 < last <= first:
        raise ConfigError(
            f"A path goes from a larger strength down to a smaller one above 0, but not from {first:g} to {last:g}."
        )
    return [first] if steps == 1 or first == last else [float(rho) for rho in np.geomspace(first, last, steps)]


def choose(steps: Sequence[PathStep], within: float = 0.0) -> int:
    """Return the number of the smallest model whose score is at most `within` below the best."""
    best = max(step.score for step in steps)
    return min(
        (number for number, step in enumerate(steps) if step.score >= best - within - 1e-12),
        key=lambda number: (steps[number].active, -steps[number].score),
    )


def follow(
    objective: Objective,
    optimizer: Optimizer,
    strengths: Iterable[float],
    theta: Floats,
    evaluate: Callable[[Floats], float],
    *,
    rho2: float = 0.0,
    watch: Callable[[StepReport], None] | None = None,
) -> Iterator[tuple[PathStep, Floats]]:
    """Minimise loss + rho1 ||w||_1 + rho2/2 ||w||^2 for each rho1 in turn, beginning at `theta` [D].

    evaluate (Callable): Maps parameters to a development score.
    watch (Callable): Called after every iteration of the optimizer.
    YIELDS: Each model and its parameters [D], in an array that the next model overwrites.
    """
    began, theta = perf_counter(), theta.copy()
    for rho1 in strengths:
        report, iterations = _minimise(objective.under(ElasticNet(rho1, rho2)), optimizer, theta, watch)
        figures = *_sizes(objective, theta), evaluate(theta), iterations, perf_counter() - began
        yield PathStep(rho1, report.value, report.loss, *figures), theta


def _minimise(
    objective: Objective,
    optimizer: Optimizer,
    theta: Floats,
    watch: Callable[[StepReport], None] | None,
    most: float = np.inf,
) -> tuple[StepReport, int]:
    """Minimise from `theta` [D] and write the minimum there; return the last report and the number of iterations.

    most (float): Iterations after which the run ends in any case.
    """
    state, iterations = optimizer.start(theta), 0
    while True:
        report, iterations = optimizer.iterate(objective, state), iterations + 1
        if watch is not None:
            watch(report)
        if report.converged or iterations >= most:
            optimizer.export(state, theta)
            return report, iterations


def _sizes(objective: Objective, theta: Floats) -> tuple[int, int]:
    """Return how many weights score one label, and how many two."""
    views = objective.layout.views(theta)
    unigrams, bigrams, transitions, start, end = (np.count_nonzero(group) for group in views)
    return int(unigrams + start + end), int(bigrams + transitions)
