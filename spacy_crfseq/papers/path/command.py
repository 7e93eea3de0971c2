"""``crfseq find-regularization``: train ever larger models along a path of L1 strengths, and keep the one to use.

The config is the one that ``crfseq fit`` takes.  An elastic net replaces its regularizer; its rho1 decreases.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from itertools import islice
from math import isfinite
from pathlib import Path
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

if TYPE_CHECKING:
    from ...types import Floats, Offsets, StepReport
    from .path import PathStep

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
    setup = set_up(config_path, output, overrides or {}, [BEST], force, say)
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
    from .path import schedule

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
    from .path import choose, follow, has_passed_its_best, schedule, sparse_start

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
    from ...regularizers.elastic_net import ElasticNet

    pipe = setup.to_train[name]
    optimizer, strengths = pipe.method.optimizer, pipe.method.regularizer.strengths
    if rho2 is None:
        rho2 = strengths.l2 if strengths is not None else 0.0
    pipe.method = pipe.method._replace(regularizer=ElasticNet(1.0, rho2))
    if optimizer.online or not optimizer.penalties & {"elastic", "prox"}:
        printer().info(f"{type(optimizer).__name__} cannot follow a path: using OWLQN instead")
        pipe.method = pipe.method._replace(optimizer=OWLQN(**NEAR))
        setup.nlp.get_pipe_config(name)["optimizer"] = {"@crf_optimizers": "spacy_crfseq.OWLQN.v1", **NEAR}
    pipe.method.check(name)
    return rho2


def _save(setup: Setup, name: str, result: PathResult, rho2: float | None, output: Path) -> None:
    """Save the pipeline with the chosen model, and the page."""
    from ...regularizers.elastic_net import ElasticNet

    step, pipe = result.steps[result.chosen], setup.to_train[name]
    pipe.set_parameters(result.theta)
    pipe.method = pipe.method._replace(regularizer=ElasticNet(step.rho1, rho2 or 0.0))
    block = {"@crf_regularizers": "spacy_crfseq.ElasticNet.v1", "rho1": step.rho1, "rho2": rho2}
    setup.nlp.get_pipe_config(name)["regularizer"] = block
    score(setup, {name: step.loss / max(1, setup.train.n_tokens)})
    setup.save(output / BEST)
    write_text(output / PAGE, _page(name, result))


def _page(name: str, result: PathResult) -> str:
    from ...tools._pages.html import Series, figure, line_chart, page, section, table

    steps, step = result.steps, result.steps[result.chosen]
    scores = Series("dev score", [(one.rho1, 100 * one.score) for one in steps])
    weights = Series("weights other than zero", [(one.rho1, one.active) for one in steps], right=True)
    chosen = Series("chosen", [(step.rho1, 100 * end(one.score for one in steps)) for end in (min, max)])
    chart = line_chart([scores, weights, chosen], x="rho1", y="dev score", log_x=True)
    caption = "Score (left) and size (right) by the strength of the L1 penalty; the upright line marks the chosen model"
    rows = [_cells(one, number == result.chosen) for number, one in enumerate(steps)]
    body = section("The path", figure(chart, caption)) + section("Models", table(COLUMNS, rows, range(len(NAMES) - 1)))
    about = f"rho1 = {step.rho1:.4g} is chosen: {step.active:,} weights, dev score {100 * step.score:.2f}"
    return page(f"Regularization of {name}", body, about=about)


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
        from .path import choose

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
    from .path import has_passed_its_best

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
