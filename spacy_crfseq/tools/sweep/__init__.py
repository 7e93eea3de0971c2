"""``crfseq sweep``: train one component with combinations of some settings and rank the results.

The corpus is read and encoded once for all combinations that differ only in how the component learns and decodes.
Without a sample, all combinations are trained; Optuna chooses a sample, at random or by what earlier ones scored.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
import typer
from spacy import util
from thinc.api import ConfigValidationError
from tqdm import tqdm

from ...cli import options
from ...cli.app import command
from ...cli.console import FAILED, INTERRUPTED, printer, say
from ...cli.fit import suggest_next
from ...corpora.layouts import check_choice
from ...corpora.outputs import check_output_folder, check_page, locked
from ...errors import ConfigError, CrfError, DataError
from ...files import digest, move, replace_folder, write_text
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
from .jobs import Call, at_once, end_with_parent, run_calls
from .search import (
    IMPORTANCE,
    Combination,
    GridFile,
    Place,
    Result,
    Space,
    add_result,
    changed,
    importance_rows,
    is_number,
    load_optuna,
    make_page,
    read_grid,
    read_results,
    result_rows,
)

if TYPE_CHECKING:
    from spacy.training import Example

    from ...training.fit import FitResult

RESULTS, PAGE, RUNS = "sweep.jsonl", "sweep.html", ".runs"
SAMPLERS = ("random", "tpe")
METHOD = ("loss", "regularizer", "optimizer", "decoder")
"""Blocks of a component that change neither how its corpus is encoded nor which weights it has."""
BUILDING = ("support", "min_count", "max_features", "boundaries", "transitions", "precision", "inner_iterations")
"""Settings of a component that change its weights, but not how its corpus is encoded."""
SEEDS: tuple[Place, ...] = (("training", "seed"), ("system", "seed"))
TRIES = 100
"""How many times as many combinations as are to be trained a sampler is asked for: it may repeat itself."""


def sweep(
    config_path: Annotated[Path, typer.Argument(metavar="CONFIG", help="Config file with a section [sweep]")],
    output: Annotated[Path, options.output(f"Folder for {RESULTS}, {PAGE} and {BEST}")],
    component: Annotated[
        str | None,
        typer.Option("--component", "-p", help="CRF component to train [what [sweep] says, or the only one]"),
    ] = None,
    evaluate_every: options.Every = None,
    patience: options.Patience = None,
    force: options.Force = False,
    sample: Annotated[int | None, typer.Option("--sample", min=1, help="Train this many combinations [all]")] = None,
    sampler: Annotated[
        str, typer.Option(help="How --sample chooses: random, or tpe, which learns from earlier scores")
    ] = SAMPLERS[0],
    seed: Annotated[
        int, typer.Option("--seed", min=0, help="Seed of --sample; a larger sample includes the smaller ones")
    ] = 0,
    jobs: Annotated[
        int, typer.Option("--jobs", min=0, help="Combinations to train at once [0: two where there are two cores]")
    ] = 0,
    *,
    overrides: dict[str, Any] | None = None,
) -> Sweep:
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
    name, LBFGS or Entities.v2 (without a version v1), or as a block: {"@crf_optimizers": "LBFGS", "history": 10}.
    Combinations that cannot work are listed before training starts. Results are saved as they come: after Ctrl-C or a
    crash, run the same command again to continue; failed combinations are retried. A last table shows how much of the
    variance of the dev score each setting explains.

    Where there are too many combinations, --sample N trains N of them, chosen by Optuna. With --sampler tpe, which
    settings come next depends on the scores before (with --jobs 1, so do not on the time that each takes).

    \b
    Example:
      python -m spacy crfseq sweep sweep.cfg --output grid/ \\
          --paths.train train.conll --paths.dev dev.conll
    \f
    Train every combination that has no result yet and keep the best model.

    force (bool): Replace a model that no sweep has written.
    RAISES CrfError: On a grid, a config or a corpus that it cannot work with, and while another sweep writes there.
    """
    load_optuna()
    check_choice("--sampler", sampler, SAMPLERS)
    own = (output / RESULTS).exists()
    check_output_folder(output, pipelines=[BEST], files=() if own else (PAGE, RUNS), force=force or own)
    if own:
        check_page(output / PAGE)
    source = read_grid(config_path, overrides or {}, load_config)
    if component is not None:
        source = source._replace(component=component)
    done = Sweep(source, output, How(evaluate_every, patience, sample, sampler, seed, jobs))
    output.mkdir(parents=True, exist_ok=True)
    with locked(output / RESULTS, output):
        done.run()
        write_text(output / PAGE, make_page(done))
    return done


class How(NamedTuple):
    """How to sweep; see the help of the command."""

    every: int | None
    patience: int | None
    sample: int | None
    sampler: str
    seed: int
    jobs: int


class Run(NamedTuple):
    """A combination that can be trained.

    method (dict[str, Any]): The settings of the component, `METHOD` and `BUILDING`, with all defaults.
    parts (dict[str, Any]): The same as objects.
    seed (int | None): ``training.seed``.
    shared (dict): The changes of the config on which the encoded corpus depends.
    """

    key: str
    combination: Combination
    method: dict[str, Any]
    parts: dict[str, Any]
    seed: int | None
    shared: dict[Place, Any]


class Sweep:
    """A sweep: its `runs` by their keys, the `skipped` combinations by the reason, the `results` by the key of the run.

    RAISES ConfigError: If a setting does not exist or has a value that nothing takes, or nothing is left to train.
    """

    def __init__(self, source: GridFile, output: Path, how: How) -> None:
        _contents.cache_clear()  # files may have changed since the last sweep of this process
        setup = set_up_from(source.config, say)
        if next(iter(setup.read_dev()), None) is None:
            raise DataError("A sweep ranks by the score on a dev corpus, but there is none. Give --paths.dev FILE.")
        self.source, self.output, self.how = source, output, how
        self.component = one_to_train(setup, source.component)
        self.filled = dict(setup.nlp.config.interpolate())
        self.runs: dict[str, Run] = {}
        self.skipped: dict[str, list[Combination]] = {}
        self.results: dict[str, Result] = {}
        self.untrained: list[str] = []
        self.interrupted, self._alone = False, not needed_before(setup, self.component)
        self._space = Space(source, self.filled, self.component)
        self._stored: dict[str, Result] = {}
        self._bench: tuple[dict[Place, Any], Bench | Exception] | None = None
        self._study: Any = None
        if how.sample is not None and how.sampler == "tpe":
            optuna = load_optuna()
            self._study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=how.seed))
            return
        for combination in self._space.all():
            self._add(combination)
        if not self.runs:
            reasons = "\n".join(self.skipped)
            raise ConfigError(f"{source.file}: no combination of [sweep.grid] can be trained.\n{reasons}")
        runs = list(self.runs.values())
        if how.sample is not None:
            drawn = np.random.default_rng(how.seed).permutation(len(runs))[: how.sample]
            runs = [runs[i] for i in sorted(drawn.tolist())]
        groups = list(dict.fromkeys(json.dumps(list(run.shared.items())) for run in runs))
        order = {run.key: groups.index(json.dumps(list(run.shared.items()))) for run in runs}
        self.runs = {run.key: run for run in sorted(runs, key=lambda run: order[run.key])}

    def _add(self, combination: Combination) -> Run | None:
        """Add a combination to the runs, or to what is skipped."""
        try:
            config = changed(self.source.config, combination.changes, self.filled)
            nlp = util.load_model_from_config(config, auto_fill=True)
            pipe: Any = nlp.get_pipe(self.component)
            pipe.method.check(self.component)
        except ConfigError as error:
            reason = str(error).replace(f"[components.{self.component}]: ", "")
            if combination not in self.skipped.setdefault(reason, []):
                self.skipped[reason].append(combination)
            return None
        except ConfigValidationError as error:
            lines = [line for line in str(error).splitlines() if line.strip()]
            raise ConfigError("\n".join([f"{self.source.file}: [sweep.grid] with {combination}:", *lines])) from error
        filled = nlp.config.interpolate()
        method = {part: filled["components"][self.component][part] for part in (*METHOD, *BUILDING)}
        parts = {part: getattr(pipe.method, part) for part in method}
        shared = dict(combination.changes)
        if not pipe.method.first_stage():  # which depends on all settings
            free: list[Place] = [("components", self.component, part) for part in (*METHOD, *BUILDING)]
            if isinstance(pipe.method.loss, TextLoss):  # it reads texts as they are encoded
                free.remove(("components", self.component, "loss"))
            free += SEEDS if self._alone else ()
            shared = {place: value for place, value in shared.items() if place not in free and place[:3] not in free}
        key = _key(filled, self.component, [self.how.every, self.how.patience])
        return self.runs.setdefault(key, Run(key, combination, method, parts, filled["training"]["seed"], shared))

    @property
    def best(self) -> Path | None:
        """The folder of the best model, if there is one."""
        return self.output / BEST if (self.output / BEST).is_dir() else None

    @property
    def ranked(self) -> list[Result]:
        """The results, best first."""
        return sorted(self.results.values(), key=self._rank, reverse=True)

    def _rank(self, result: Result) -> tuple[float, int]:
        """Return what orders results: the score, and among equal ones the place in the grid."""
        return -math.inf if result.score is None else result.score, -list(self.runs).index(result.key)

    def _is_best(self, result: Result) -> bool:
        stored = self.results.get(_key_of(self.output / BEST))
        return stored is None or self._rank(result) > self._rank(stored)

    def run(self) -> None:
        """Train what has no result yet; keep each result, and the model of the best."""
        shutil.rmtree(self.output / RUNS, ignore_errors=True)  # what a crash has left
        stored = read_results(self.output / RESULTS)
        self._stored = {key: result for key, result in stored.items() if result.score is not None}
        self.results = {key: self._stored[key] for key in self.runs if key in self._stored}
        best = max(self.results.values(), key=self._rank, default=None)
        if best is not None and _key_of(self.output / BEST) != best.key:
            printer().info(f"{self.output / BEST} is not the best model that {RESULTS} lists: training that one again")
            del self.results[best.key], self._stored[best.key]
        self._announce()
        total = (len(self.runs) or self.how.sample or 0) - len(self.results)
        try:
            with (
                tqdm(total=total, disable=None, leave=False, file=sys.stderr, unit=" combinations") as bar,
                closing(run_calls(self._calls(), at_once(self.how.jobs))) as done,
            ):
                for (run, trial), result in done:
                    bar.clear()
                    self._tell(trial, self._note(run, result))
                    bar.update()
        except KeyboardInterrupt:
            self.interrupted = True
        finally:
            shutil.rmtree(self.output / RUNS, ignore_errors=True)

    def _announce(self) -> None:
        for reason, skipped in self.skipped.items():
            more = f" and {len(skipped) - 3} more" if len(skipped) > 3 else ""
            printer().warn(f"Skipped: {'; '.join(map(str, skipped[:3]))}{more}", reason)
        n_skipped, n_done = sum(map(len, self.skipped.values())), len(self.results)
        if self.runs:
            printer().info(
                f"{len(self.runs) + n_skipped} combinations: {len(self.runs) - n_done} to train, {n_done} done before, "
                f"{n_skipped} skipped"
            )

    def _chosen(self) -> Iterator[tuple[Run, Any]]:
        """Yield the runs, each with the trial of Optuna whose score it will have, if there is one."""
        if self._study is None:
            yield from ((run, None) for run in self.runs.values())
            return
        assert self.how.sample is not None
        for _ in range(TRIES * self.how.sample):
            if len(self.runs) == self.how.sample:
                return
            trial, before = self._study.ask(), len(self.runs)
            run = self._add(self._space.choose(partial(_suggest, trial)))
            if run is not None and len(self.runs) > before:
                yield run, trial
            else:
                self._tell(trial, None if run is None else self.results.get(run.key))

    def _tell(self, trial: Any, result: Result | None) -> None:
        """Tell the sampler the score of a trial."""
        if trial is not None:
            score, state = None if result is None else result.score, load_optuna().trial.TrialState
            self._study.tell(trial, score, state.FAIL if score is None else state.COMPLETE)

    def _calls(self) -> Iterator[tuple[tuple[Run, Any], Call]]:
        """Yield the runs that are to be trained, each when its turn has come; the corpus is then encoded for it."""
        for run, trial in self._chosen():
            if run.key in self._stored:
                self.results[run.key] = self._stored[run.key]
                self._tell(trial, self._stored[run.key])
                continue
            if self._bench is None or self._bench[0] != run.shared:
                try:
                    self._bench = run.shared, (bench := Bench(self, run))
                    self.untrained = bench.untrained
                except Exception as error:  # whatever it is, the others may work
                    self._bench = run.shared, error
            yield (run, trial), partial(self._train, self._bench[1], run, os.getpid())

    def _train(self, bench: Bench | Exception, run: Run, parent: int) -> Result:
        """Return the result of a run; store its model if it may be the best."""
        if isinstance(bench, Exception):
            raise bench
        result = bench.train(run, parent)
        if self._is_best(result):
            bench.save(run, result, self.output / RUNS / run.key)
        return result

    def _note(self, run: Run, result: Result | Exception) -> Result:
        """Record the result of a run, and keep its model if it is the best."""
        if isinstance(result, Exception):
            text = str(result) if isinstance(result, CrfError) else f"{type(result).__name__}: {result}"
            result = Result(run.key, run.combination.settings, error=text)
        elif self._is_best(result):  # before the result, so that no result refers to a model that does not exist
            replace_folder(self.output / BEST, partial(move, self.output / RUNS / run.key))
        add_result(self.output / RESULTS, result)
        self.results[run.key] = result
        if result.score is None:
            printer().fail(f"{run.combination}: {result.error}")
        else:
            figures = f"score={100 * result.score:.2f} objective={result.objective:.2f} active={result.active}"
            print(f"{run.combination} {figures} seconds={result.seconds:.2f}", flush=True)
        return result


class Bench:
    """A component that is trained again and again on a corpus that was encoded for the first of some runs."""

    def __init__(self, plan: Sweep, run: Run) -> None:
        setup = set_up_from(changed(plan.source.config, run.shared, plan.filled), say)
        self.name, self._how = plan.component, plan.how
        needed = needed_before(setup, self.name)
        self.untrained = [other for other in setup.to_train if other not in {self.name, *needed, *setup.resumed}]
        self.pipe = setup.to_train[self.name]
        self.pipe.training.set(keeps=True)
        n_threads = self.pipe.method.n_threads or available()  # in processes as here, since sums depend on it
        self.pipe.method = self.pipe.method._replace(**run.parts, n_threads=n_threads)
        encode(setup)
        to_train = {name: pipe for name, pipe in setup.to_train.items() if name in {self.name, *needed}}
        self._setup = setup._replace(to_train=to_train)
        for turn in each_component(self._setup):
            if turn.name == self.name:
                self._turn, self._dev, self._start = turn, list(turn.dev or ()), self.pipe.crf.theta.copy()
                break
            self._fit(turn, turn.dev, setup.training["seed"])

    def _fit(self, turn: Turn, dev: Iterable[Example] | None, seed: int | None, callback: Any = None) -> FitResult:
        result = turn.pipe.fit(
            turn.examples, dev=dev, patience=self._how.patience, callback=callback, seed=seed,
            evaluate_every=scores_every(turn.pipe, self._how.every),
        )  # fmt: skip
        if result.reason == "interrupted":
            raise KeyboardInterrupt
        return result

    def train(self, run: Run, parent: int) -> Result:
        """Train the component from the beginning with the settings of a run.

        RAISES DataError: If there is no score.
        RAISES KeyboardInterrupt: If training was interrupted.
        """
        loss = self.pipe.method.loss  # one that reads texts has read them
        loss = loss if isinstance(loss, TextLoss) else run.parts["loss"]
        self.pipe.method = self.pipe.method._replace(**{**run.parts, "loss": loss})
        if self.name in self._setup.resumed:
            self.pipe.set_parameters(self._start)
        else:
            self.pipe.training.begin()
        trained = self._fit(self._turn, self._dev, run.seed, lambda _: end_with_parent(parent))
        best = next((progress for progress in reversed(trained.history) if progress.best), None)
        if best is None:
            raise DataError(f"no score: the objective is {trained.history[-1].report.value}")
        theta, report = self.pipe.crf.theta, best.report
        return Result(
            run.key, run.combination.settings, None, best.score, finite(report.value), finite(report.loss),
            int(np.count_nonzero(theta)), theta.size, len(self.pipe.doc_model.pack() or b""),
            len(trained.history), round(trained.history[-1].seconds, 3), trained.reason,
        )  # fmt: skip

    def save(self, run: Run, result: Result, folder: Path) -> None:
        """Save the pipeline after `train`, with its scores."""
        setup = self._setup
        setup.nlp.get_pipe_config(self.name).update(run.method)
        score(setup, {self.name: (result.loss or 0.0) / max(1, setup.train.n_tokens)})
        setup.nlp.config["training"]["seed"] = run.seed
        setup.nlp.meta["sweep"] = run.key
        setup.save(folder)


def _suggest(trial: Any, key: str, values: Sequence[Any]) -> int:
    """Return the number of the value that a trial of Optuna has for a setting."""
    if all(map(is_number, values)) and list(values) == sorted(values):
        return int(trial.suggest_int(key, 0, len(values) - 1))
    return int(trial.suggest_categorical(key, range(len(values))))


def needed_before(setup: Setup, name: str) -> set[str]:
    """Return the components whose predictions the features of another one may look at."""
    before = set(setup.nlp.pipe_names[: setup.nlp.pipe_names.index(name)])
    return before & set(setup.training["annotating_components"]) if setup.to_train[name].reads else set()


def _key(config: Mapping[str, Any], component: str, stopping: Sequence[int | None]) -> str:
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


def _key_of(model: Path) -> str:
    """Return the key of the run whose model is in a folder, empty if there is none."""
    meta = model / "meta.json"
    return str(json.loads(meta.read_text(encoding="utf8")).get("sweep", "")) if meta.is_file() else ""


@command("sweep", "Train", "grid", "search", calls=sweep)
def _print(done: Sweep) -> int:
    msg, results = printer(), done.ranked
    if results:
        header, rows = result_rows(results)
        msg.table(rows, header=header, divider=True, aligns=["r", "r", *"l" * (len(header) - 7), *"rrrrr"])
        header, rows = importance_rows(results)
        if rows:
            msg.table(rows, header=header, divider=True, aligns=["l", "r", "l", "r", "l", "r"])
            msg.text(IMPORTANCE)
    if done.interrupted:
        msg.warn("Interrupted: run the same command again to continue")
    if done.best is None:
        msg.warn("No combination has a score yet, no model is saved")
    else:
        if done.untrained:
            msg.warn(f"Not trained, all weights zero: {', '.join(done.untrained)}")
        msg.good(f"Saved {done.best}, {done.output / PAGE}")
        suggest_next(done.best)
    if done.interrupted:
        return INTERRUPTED
    return 0 if any(result.score is not None for result in results) else FAILED
