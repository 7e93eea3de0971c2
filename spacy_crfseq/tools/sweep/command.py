"""``crfseq sweep``: train one component with every combination of some settings and rank the results.

The corpus is read and encoded once for all combinations that differ only in how the component learns and decodes.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
import typer
from spacy import util
from thinc.api import ConfigValidationError

from ...cli import options
from ...cli.app import command
from ...cli.console import INTERRUPTED, cut, printer, say
from ...cli.fit import suggest_next
from ...cli.options import OVERRIDES, training
from ...cli.progress import add_to
from ...corpora.outputs import check_output_folder, locked
from ...errors import ConfigError, CrfError, DataError
from ...files import digest, replace_folder, write_text
from ...pipeline.curve import LiveCurve
from ...pipeline.project import (
    BEST,
    Setup,
    Turn,
    each_component,
    encode,
    load_config,
    one_to_train,
    score,
    scores_every,
    set_up_from,
)
from ...prf import finite
from ...threads import available
from ...types import TextLoss
from .jobs import Task, at_once, run_tasks
from .results import EFFECTS, Journal, Result, cells, effect_cells, effects
from .search import BUILDING, METHOD, SEEDS, Combination, GridFile, Place, changed, combinations, read_grid, show

if TYPE_CHECKING:
    from spacy.language import Language

    from ...pipeline.component import CRFComponent
    from ...training.fit import FitResult, Progress
    from ...training.objective import Objective
    from ...types import Floats

RESULTS, PAGE, RUNS = "sweep.jsonl", "sweep.html", ".runs"
LONGEST = 50
"""Maximum length of the name of a combination next to its curves."""


@command("sweep", "Train", "grid", "search", context_settings=OVERRIDES)
def sweep_cli(
    ctx: typer.Context,
    config_path: Annotated[Path, typer.Argument(metavar="CONFIG", help="Config file with a section [sweep]")],
    output: Annotated[Path, typer.Option("--output", "-o", help=f"Folder for {RESULTS}, {PAGE} and {BEST}")],
    component: Annotated[
        str | None,
        typer.Option("--component", "-p", help="CRF component to train [what [sweep] says, or the only one]"),
    ] = None,
    evaluate_every: options.Every = None,
    patience: options.Patience = None,
    force: options.Force = False,
    sample: Annotated[
        int | None, typer.Option("--sample", min=1, help="Train this many combinations, chosen at random [all]")
    ] = None,
    seed: Annotated[
        int, typer.Option("--seed", min=0, help="Seed of --sample; a larger sample includes the smaller ones")
    ] = 0,
    jobs: Annotated[
        int, typer.Option("--jobs", min=0, help="Combinations to train at once [0: two where there are two cores]")
    ] = 0,
    code: options.Code = None,
    verbose: options.Verbose = False,
) -> None:
    """Train with every combination of some settings and rank them by the dev score.

    \b
    The file is a config of 'crfseq fit' with two more sections, or these alone:
      [sweep]
      config = "config.cfg"
      component = "crf_ner"
      [sweep.grid]
      loss = ["SequentialLog", "PointwiseLog"]
      regularizer.rho = [0.1, 1, 10]

    A setting is one of the component, or starts with a section, such as training.seed. Name a function by its short
    name or as a block: {"@crf_optimizers": "LBFGS", "history": 10}. Combinations that cannot work are listed before
    training starts. Results are saved as they come: after Ctrl-C or a crash, run the same command again to continue;
    failed combinations are retried. A last table shows how much of the variance of the dev score each setting explains.

    \b
    Example:
      python -m spacy crfseq sweep sweep.cfg --output grid/ \\
          --paths.train train.conll --paths.dev dev.conll
    """
    with training(ctx, config_path, code, verbose) as overrides:
        stopping, sampled = Stopping(evaluate_every, patience), None if sample is None else Sample(sample, seed)
        choice: dict[str, Any] = {"component": component, "sample": sampled, "jobs": jobs}
        outcome = sweep(config_path, output, overrides=overrides, stopping=stopping, force=force, **choice)
        _print_outcome(outcome)
    if outcome.interrupted:
        raise typer.Exit(INTERRUPTED)
    if not any(result.score is not None for result in outcome.results):
        raise typer.Exit(1)


class Stopping(NamedTuple):
    """When runs are scored and end, as the arguments of `fit`."""

    evaluate_every: int | None = None
    patience: int | None = None


class Sample(NamedTuple):
    """How many combinations are trained, and the seed by which they are chosen."""

    size: int
    seed: int = 0


class SweepOutcome(NamedTuple):
    """What `sweep` did."""

    best: Path | None
    results: list[Result]
    untrained: list[str]
    page: Path
    interrupted: bool


class Run(NamedTuple):
    """A combination that can be trained.

    method, parts (dict[str, Any]): Its method as settings of the component with all defaults, and as objects.
    seed (int | None): ``training.seed``.
    """

    key: str
    combination: Combination
    method: dict[str, Any]
    parts: dict[str, Any]
    seed: int | None

    @property
    def build(self) -> dict[str, Any]:
        """The settings on which the weights of the model depend."""
        return {setting: self.parts[setting] for setting in BUILDING}


class Group(NamedTuple):
    """Runs that share a corpus and its encoding, and the changes of the config that they have in common."""

    changes: dict[Place, Any]
    runs: list[Run]


def sweep(
    config_path: Path,
    output: Path,
    *,
    overrides: dict[str, Any] | None = None,
    component: str | None = None,
    stopping: Stopping | None = None,
    force: bool = False,
    sample: Sample | None = None,
    jobs: int = 0,
) -> SweepOutcome:
    """Train every combination that has no result yet and keep the best model.

    force (bool): Replace a model that no sweep has written.
    sample (Sample | None): Which of the combinations; None for all.
    jobs (int): Combinations to train at once; 0 for two where there are two cores.

    RAISES CrfError: On a grid, a config or a corpus that it cannot work with, and while another sweep writes there.
    """
    check_output_folder(output, pipelines=[BEST], force=force or (output / RESULTS).exists())
    source = read_grid(config_path, overrides or {}, load_config)
    if component is not None:
        source = source._replace(component=component)
    plan = Plan(source, stopping or Stopping(), sample)
    output.mkdir(parents=True, exist_ok=True)
    with locked(output / RESULTS, output):
        return _carry_out(plan, output, at_once(jobs, available()))


def _carry_out(plan: Plan, output: Path, jobs: int) -> SweepOutcome:
    from .page import make_page

    journal = Journal(output / RESULTS)
    keys = {run.key for run in plan.runs}
    found = {key: result for key, result in journal.read().items() if key in keys and result.score is not None}
    best = max(found.values(), key=lambda result: result.score or 0.0, default=None)
    if best is not None and _key_of(output / BEST) != best.key:
        printer().info(f"{output / BEST} is not the best model that {RESULTS} lists: training that one again")
        del found[best.key]
    _announce(plan, found)
    worker = Worker(plan, found, journal, output, jobs)
    worker.run()
    known = [worker.results[run.key] for run in plan.runs if run.key in worker.results]
    results = sorted(known, key=lambda result: (result.score is None, -(result.score or 0.0)))
    write_text(output / PAGE, make_page(plan.component, plan.source.file.name, results, plan.skipped))
    there = output / BEST if (output / BEST).is_dir() else None
    return SweepOutcome(there, results, worker.untrained, output / PAGE, worker.interrupted)


def functions(registry: str) -> Mapping[str, Any]:
    """Return the functions of a registry by their names."""
    found: Mapping[str, Any] = getattr(util.registry, registry).get_all()
    return found


class Plan:
    """What a sweep trains, and by the reason the combinations that cannot work.

    RAISES ConfigError: If a setting is not known or has a value that nothing takes, or nothing is left to train.
    """

    def __init__(self, source: GridFile, stopping: Stopping, sample: Sample | None = None) -> None:
        _contents.cache_clear()  # files may have changed since the last sweep of this process
        setup = set_up_from(source.config, say)
        if next(iter(setup.read_dev()), None) is None:
            raise DataError("A sweep ranks by the score on a dev corpus, but there is none. Give --paths.dev FILE.")
        self.source, self.stopping = source, stopping
        self.component = one_to_train(setup, source.component)
        self.filled = dict(setup.nlp.config.interpolate())
        self.skipped: dict[str, list[Combination]] = {}
        alone = not needed_before(setup, self.component)
        found: list[tuple[dict[Place, Any], Run]] = []
        pipelines: dict[str, Language | str] = {json.dumps([]): setup.nlp}
        for combination in combinations(source, self.filled, self.component, functions):
            own = {p: value for p, value in combination.changes.items() if not self._is_setting(p, METHOD)}
            code = json.dumps(list(own.items()), sort_keys=True)
            if code not in pipelines:
                pipelines[code] = self._pipeline(combination, own)
            nlp = pipelines[code]
            run = nlp if isinstance(nlp, str) else self._run(nlp, combination)
            if isinstance(nlp, str) or isinstance(run, str):
                self.skipped.setdefault(str(run), []).append(combination)
            elif nlp.get_pipe(self.component).method.first_stage():  # type: ignore[attr-defined]  # depends on all settings
                found.append((dict(combination.changes), run))
            else:
                found.append((self._encoding(own | self._of_texts(run), alone), run))
        if sample is not None:
            order = np.random.default_rng(sample.seed).permutation(len(found))
            found = [found[i] for i in sorted(order[: sample.size].tolist())]
        groups: dict[str, Group] = {}
        for changes, run in found:
            groups.setdefault(json.dumps(list(changes.items()), sort_keys=True), Group(changes, [])).runs.append(run)
        if not groups:
            reasons = "\n".join(self.skipped)
            raise ConfigError(f"{source.file}: no combination of [sweep.grid] can be trained.\n{reasons}")
        self.groups = list(groups.values())
        self.runs = [run for group in self.groups for run in group.runs]

    def _is_setting(self, place: Place, settings: Sequence[str]) -> bool:
        return len(place) > 2 and place[:2] == ("components", self.component) and place[2] in settings

    def _of_texts(self, run: Run) -> dict[Place, Any]:
        """Return the changes of a loss that reads texts."""
        if not isinstance(run.parts["loss"], TextLoss):
            return {}
        return {place: value for place, value in run.combination.changes.items() if self._is_setting(place, ("loss",))}

    def _encoding(self, changes: Mapping[Place, Any], alone: bool) -> dict[Place, Any]:
        """Return the changes on which the encoded corpus depends; alone: No other component is trained before."""
        dropped = SEEDS if alone else ()
        return {p: v for p, v in changes.items() if p not in dropped and not self._is_setting(p, BUILDING)}

    def _pipeline(self, combination: Combination, changes: Mapping[Place, Any]) -> Language | str:
        try:
            return util.load_model_from_config(changed(self.source.config, changes, self.filled), auto_fill=True)
        except ConfigError as error:
            return str(error)
        except ConfigValidationError as error:
            raise self._no_such_value(combination, error) from error

    def _run(self, nlp: Language, combination: Combination) -> Run | str:
        name, pipe = self.component, nlp.get_pipe(self.component)
        own = {place: value for place, value in combination.changes.items() if self._is_setting(place, METHOD)}
        now = nlp.config.interpolate()
        blocks = changed(now, own, now)["components"][name]
        try:
            method = {part: util.registry.fill({part: blocks[part]})[part] for part in METHOD}
            parts = {part: util.registry.resolve({part: blocks[part]})[part] for part in METHOD}
            built: Any = pipe
            built.method._replace(**parts).check(name)
        except ConfigError as error:
            return str(error).replace(f"[components.{name}]: ", "")
        except ConfigValidationError as error:
            raise self._no_such_value(combination, error) from error
        config = changed(now, {("components", name, part): block for part, block in method.items()}, now)
        building = {setting: getattr(built.method, setting) for setting in BUILDING}
        key = _key(config, name, self.stopping)
        return Run(key, combination, {**method, **building}, {**parts, **building}, now["training"]["seed"])

    def _no_such_value(self, combination: Combination, error: ConfigValidationError) -> ConfigError:
        lines = [line for line in str(error).splitlines() if line.strip()]
        return ConfigError("\n".join([f"{self.source.file}: [sweep.grid] with {combination}:", *lines]))


def needed_before(setup: Setup, name: str) -> set[str]:
    """Return the components whose predictions the features of another one may look at."""
    before = set(setup.nlp.pipe_names[: setup.nlp.pipe_names.index(name)])
    return before & set(setup.training["annotating_components"]) if setup.to_train[name].reads else set()


def _key(config: Mapping[str, Any], component: str, stopping: Stopping) -> str:
    """Return a hash of all that a result depends on: settings, and the contents of files that they name."""

    def with_contents(block: Any) -> Any:
        if not isinstance(block, dict):
            return block
        files = {key: _contents(value) for key in ("path", "source") if isinstance(value := block.get(key), str)}
        return {key: files.get(key) or with_contents(value) for key, value in block.items()}

    kept = {section: block for section, block in config.items() if section not in ("paths", "system")}
    text = json.dumps([with_contents(kept), component, stopping], sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


@lru_cache
def _contents(path: str) -> str:
    return digest(Path(path)) if Path(path).exists() else path


def _announce(plan: Plan, found: Mapping[str, Result]) -> None:
    msg = printer()
    for reason, skipped in plan.skipped.items():
        more = f" and {len(skipped) - 3} more" if len(skipped) > 3 else ""
        msg.warn(f"Skipped: {'; '.join(map(str, skipped[:3]))}{more}", reason)
    n_skipped = sum(map(len, plan.skipped.values()))
    msg.info(
        f"{len(plan.runs) + n_skipped} combinations: {len(plan.runs) - len(found)} to train, {len(found)} done before, "
        f"{n_skipped} skipped"
    )


def _key_of(model: Path) -> str | None:
    try:
        key = json.loads((model / "meta.json").read_text(encoding="utf8"))["sweep"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return key if isinstance(key, str) else None


class Worker:
    """Trains the runs of a plan, a group after another, and keeps what is known of each by its key."""

    def __init__(self, plan: Plan, found: Mapping[str, Result], journal: Journal, output: Path, jobs: int) -> None:
        self.results: dict[str, Result] = dict(found)
        self.untrained: list[str] = []
        self.interrupted = False
        self.plan, self.jobs, self._journal, self._output = plan, jobs, journal, output
        self._titles: dict[str, str] = {}  # of the runs at work, by their keys
        self._curve = LiveCurve(sys.stderr)
        self._number, self._total = 0, len(plan.runs) - len(found)

    def run(self) -> None:
        """Train what has no result yet."""
        shutil.rmtree(self._output / RUNS, ignore_errors=True)  # what a crash has left
        try:
            for group in self.plan.groups:
                left = [run for run in group.runs if run.key not in self.results]
                if left and not self.interrupted:
                    self._train(group.changes, left)
        finally:
            self._curve.hide()
            shutil.rmtree(self._output / RUNS, ignore_errors=True)

    def _train(self, changes: Mapping[Place, Any], runs: list[Run]) -> None:
        """Train the runs of a group; where it cannot even be begun, all of them have failed."""
        name = self.plan.component
        try:
            setup = set_up_from(changed(self.plan.source.config, changes, self.plan.filled), say)
            needed = needed_before(setup, name)
            self.untrained = [other for other in setup.to_train if other not in {name, *needed, *setup.resumed}]
            pipe = setup.to_train[name]
            pipe.method = pipe.method._replace(**runs[0].build)  # the groups' changes leave these settings out
            pipe.training.keeps = any(run.build != runs[0].build for run in runs)
            encode(setup)
            setup = setup._replace(to_train={key: p for key, p in setup.to_train.items() if key in {name, *needed}})
            group = GroupTraining(setup, runs, self)
            for turn in each_component(setup):
                if turn.name == name:
                    group.train(turn)
                elif group.train_before(turn):
                    self.interrupted = True
                    return
        except KeyboardInterrupt:
            self.interrupted = True
        except Exception as error:  # whatever it is, the others may work
            for run in runs:
                if run.key not in self.results:
                    self.begin(run)
                    self.failed(run, error)

    def begin(self, run: Run) -> None:
        """Announce a run."""
        self._number += 1
        values = cut(" ".join(map(show, run.combination.settings.values())), LONGEST)
        self._titles[run.key] = f"{self._number} of {self._total}: {values}"

    def watch(self, run: Run, progress: Progress) -> None:
        """Note an iteration; of runs at the same time, the curve is that of the first."""
        if run.key == next(iter(self._titles)):
            if progress.iteration == 1:
                self._curve.clear()
            add_to(self._curve, progress)
            self._curve.show(f"{self._titles[run.key]}, iteration {progress.iteration}")

    def failed(self, run: Run, error: Exception) -> None:
        """Record that a run failed."""
        text = str(error) if isinstance(error, CrfError) else f"{type(error).__name__}: {error}"
        self._note(run, Result(run.key, run.combination.settings, error=text))

    def outcome(self, run: Run, result: FitResult, setup: Setup) -> Result:
        """Return the result of a run whose parameters the pipeline has; store the model if it may be the best.

        RAISES DataError: If there is no score.
        """
        pipe = setup.to_train[self.plan.component]
        best = next((progress for progress in reversed(result.history) if progress.best), None)
        if best is None:
            raise DataError(f"no score: the objective is {result.history[-1].report.value}")
        crf = pipe.crf
        n_bytes = len(pipe.doc_model.pack() or b"")
        outcome = Result(
            run.key, run.combination.settings, None, best.score, finite(best.report.value), finite(best.report.loss),
            int(np.count_nonzero(crf.theta)), crf.theta.size, n_bytes, len(result.history),
            round(result.history[-1].seconds, 3), result.reason,
        )  # fmt: skip
        if self._is_best(outcome):
            setup.nlp.get_pipe_config(self.plan.component).update(run.method)
            score(setup, {self.plan.component: best.report.loss / max(1, setup.train.n_tokens)})
            setup.nlp.config["training"]["seed"] = run.seed
            setup.nlp.meta["sweep"] = run.key
            setup.save(self._output / RUNS / run.key)
        return outcome

    def _is_best(self, result: Result) -> bool:
        kept = self.results.get(_key_of(self._output / BEST) or "")  # not all results: one may have an equal score
        least = -math.inf if kept is None or kept.score is None else kept.score
        return result.score is not None and result.score > least

    def done(self, run: Run, found: Result | Exception | None) -> None:
        """Record the result of a run, and keep its model if it is the best.

        RAISES KeyboardInterrupt: If it was interrupted.
        """
        if found is None:
            raise KeyboardInterrupt
        if isinstance(found, Exception):
            self.failed(run, found)
            return
        model = self._output / RUNS / run.key
        if self._is_best(found):  # before the result, so that no result refers to a model that does not exist
            replace_folder(self._output / BEST, partial(_move, model))
        else:
            shutil.rmtree(model, ignore_errors=True)
        self._note(run, found)

    def _note(self, run: Run, result: Result) -> None:
        self._journal.add(result)
        self._titles.pop(run.key, None)
        self.results[run.key] = result
        self._curve.hide()
        if result.score is None:
            printer().fail(f"{run.combination}: {result.error}")
        else:
            figures = f"score={100 * result.score:.2f} objective={result.objective:.2f} active={result.active}"
            print(f"{run.combination} {figures} seconds={result.seconds:.2f}", flush=True)


class GroupTraining:
    """Trains what must be trained before the component, then the component once for each run."""

    def __init__(self, setup: Setup, runs: list[Run], worker: Worker) -> None:
        self._setup, self._runs, self._worker = setup, runs, worker
        self._every, self._patience = worker.plan.stopping

    def train_before(self, turn: Turn) -> bool:
        """Train an earlier component; return whether Ctrl-C has ended that."""
        _, pipe, examples, dev = turn
        every, seed = scores_every(pipe, self._every), self._setup.training["seed"]
        result = pipe.fit(examples, dev=dev, patience=self._patience, evaluate_every=every, seed=seed)
        return result.reason == "interrupted"

    def train(self, turn: Turn) -> None:
        """Train the component once for each run."""
        pipe = turn.pipe
        by_build: dict[str, list[Run]] = {}
        for run in self._runs:
            by_build.setdefault(json.dumps(run.build), []).append(run)
        for runs in by_build.values():
            if pipe.training.keeps:
                pipe.method = pipe.method._replace(**runs[0].build)
                pipe.training.begin_anew()
            self._train_equal(turn, runs)

    def _train_equal(self, turn: Turn, runs: list[Run]) -> None:
        """Train the runs whose models have the same weights."""
        worker, pipe, dev = self._worker, turn.pipe, list(turn.dev or ())
        with pipe.training.training_on(turn.examples) as (objective, _):
            start = pipe.crf.theta.copy()
            evaluators: dict[str, Any] = {}

            def tasks() -> Iterator[Task]:
                for run in runs:
                    worker.begin(run)
                    loss = pipe.method.loss if isinstance(pipe.method.loss, TextLoss) else run.parts["loss"]
                    pipe.method = pipe.method._replace(**{**run.parts, "loss": loss})  # the one that has read the texts
                    decoder = json.dumps(run.method["decoder"], sort_keys=True)
                    if decoder not in evaluators:
                        evaluators[decoder] = pipe.training.evaluator(dev)
                    work = partial(self._train_run, run, pipe, objective, start, evaluators[decoder])
                    yield Task(work, partial(worker.watch, run), partial(worker.done, run))

            run_tasks(tasks(), worker.jobs)

    def _train_run(
        self, run: Run, pipe: CRFComponent, objective: Objective, start: Floats, evaluate: Any, watch: Any
    ) -> Result | None:
        """Train the component and return the result, None if interrupted."""
        from ...training.fit import fit

        result = fit(
            objective.under(pipe.method.regularizer, pipe.training.bound(pipe.method.loss)),
            pipe.training.optimizer(run.seed), start.copy(), evaluate=evaluate,
            evaluate_every=scores_every(pipe, self._every), patience=self._patience, callback=watch,
        )  # fmt: skip
        if result.reason == "interrupted":
            return None
        pipe.set_parameters(result.best)
        return self._worker.outcome(run, result, self._setup)


def _move(source: Path, target: Path) -> None:
    source.rename(target)


def _print_effects(results: Sequence[Result]) -> None:
    header, rows = effect_cells(effects(results))
    if rows:
        printer().table(rows, header=header, divider=True, aligns=["l", "r", "r", "l", "r", "l", "r"])
        printer().text(EFFECTS)


def _print_outcome(outcome: SweepOutcome) -> None:
    msg = printer()
    if outcome.results:
        header, rows = cells(outcome.results)
        msg.table(rows, header=header, divider=True, aligns=["r", "r", *"l" * (len(header) - 7), *"rrrrr"])
        _print_effects(outcome.results)
    if outcome.interrupted:
        msg.warn("Interrupted: run the same command again to continue")
    if outcome.best is None:
        msg.warn("No combination has a score yet, no model is saved")
        return
    if outcome.untrained:
        msg.warn(f"Not trained, all weights zero: {', '.join(outcome.untrained)}")
    msg.good(f"Saved {outcome.best}, {outcome.page}")
    suggest_next(outcome.best)
