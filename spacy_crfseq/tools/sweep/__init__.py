"""``crfseq sweep``: train one component with combinations of some settings, repeated with several seeds, and rank them.

The corpus is read and encoded once for all combinations that differ only in how the component learns and decodes.  A
plain grid is trained from its first combination to its last.  Where Optuna is installed, it keeps what is finished in a
journal, from which an interrupted sweep goes on, and its samplers can choose what to train next.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

from spacy import util
from thinc.api import ConfigValidationError
from tqdm import tqdm

from ...corpora.layouts import check_choice
from ...corpora.outputs import check_output_file, check_output_folder, check_page, locked_folder
from ...corpora.paths import resolve
from ...errors import ConfigError, CrfError, DataError
from ...files import digest, write_text
from ...pipeline.configs import load_config
from ...pipeline.pipeline_training import BEST, Say, log, set_up_from
from ...types import BY_OPTIMIZER, Schedule
from .bench import Bench, Candidate, encoding_of
from .grid import Combination, GridFile, Space, changed, is_number, read_grid
from .jobs import Call, at_once, run_calls
from .results import FIGURES, CombinationResult, as_csv, as_latex, result_rows, varying
from .study import (
    IMPORTANCE,
    JOURNAL,
    SAMPLERS,
    importance_rows,
    open_study,
    queue,
    stored_results,
    suggest,
    tell,
)

PAGE = "sweep.html"


class SweepSettings(NamedTuple):
    """The models that a sweep trains.

    component (str | None): The component whose settings change; None for that of [sweep], or the only one.
    sampler, trials: One of `SAMPLERS`, and the number of combinations that it chooses; None for all of a grid.
    seeds (int): Repetitions of each combination, which begin with ``training.seed``.
    seed (int): Of the sampler.
    jobs (int): Combinations to train at once; 0 for two where there are two cores.
    """

    component: str | None = None
    sampler: str = "grid"
    trials: int | None = None
    seeds: int = 1
    seed: int = 0
    jobs: int = 0

    def check(self) -> None:
        """Raise ConfigError on a sampler that there is not, and on trials without one."""
        check_choice("--sampler", self.sampler, tuple(SAMPLERS))
        if (self.trials is None) != (self.sampler == "grid"):
            few = f"--sampler {self.sampler}: how many?"
            given = "--trials N is for a sampler, such as --sampler tpe." if self.trials else few
            raise ConfigError(f"{given} Give both, or neither to train the whole grid.")


class ResultFiles(NamedTuple):
    """Files for the table of results, written after each combination; None for none."""

    csv: Path | None = None
    latex: Path | None = None


WHOLE_GRID, NO_FILES = SweepSettings(), ResultFiles()


def sweep(
    config_path: Path,
    output: Path,
    settings: SweepSettings = WHOLE_GRID,
    *,
    schedule: Schedule = BY_OPTIMIZER,
    tables: ResultFiles = NO_FILES,
    force: bool = False,
    overrides: Mapping[str, Any] | None = None,
    say: Say = log,
) -> Sweep:
    """Train every combination that has no result yet and keep the best model.

    settings (SweepSettings): What to train.
    schedule (Schedule): When a model is scored, and when its training stops.
    tables (ResultFiles): Files for the results.
    force (bool): Replace the output of another sweep, or a model that no sweep has written.
    overrides (Mapping[str, Any] | None): Of the training config.
    say (Say): Shows progress.
    RAISES CrfError: On a grid, a config or a corpus that it cannot work with, and while another sweep writes there.
    """
    settings.check()
    goes_on = (output / JOURNAL).exists() and not force
    check_output_folder(output, pipelines=[BEST], files=() if goes_on else (JOURNAL,), force=force or goes_on)
    check_page(output / PAGE)
    for table in tables:
        check_output_file(table, config_path, force=force or goes_on)
    source = read_grid(config_path, dict(overrides or {}), load_config)
    if settings.component is not None:
        source = source._replace(component=settings.component)
    done = Sweep(source, output, settings.seeds, schedule, tables, say)
    candidates = done.check_grid() if settings.sampler == "grid" else []
    with locked_folder(output):
        if not goes_on:
            (output / JOURNAL).unlink(missing_ok=True)
        study = open_study(output / JOURNAL, done.name, done.facts(), settings.sampler, settings.seed)
        done.run(study, candidates, settings.trials or 0, settings.jobs)
        write_text(output / PAGE, done.page())
    return done


class Sweep:
    """A sweep: its `results` by the keys of their combinations, and the `skipped` combinations by the reason.

    RAISES ConfigError: If a setting does not exist or has a value that nothing takes.
    """

    def __init__(
        self, source: GridFile, output: Path, seeds: int, schedule: Schedule, tables: ResultFiles, say: Say
    ) -> None:
        training = set_up_from(source.config, say)
        if not training.has_dev():
            raise DataError("A sweep ranks by the score on a dev corpus, but there is none. Give --paths.dev FILE.")
        self.source, self.output, self._say = source, output, say
        self.component = training.one_to_train(source.component)
        if self.component in training.resumed:
            training.refuse_trained("A sweep")
        self.results: dict[str, CombinationResult] = {}
        self.skipped: dict[str, list[Combination]] = {}
        self.untrained: list[str] = []
        self.interrupted = False
        self._schedule, self._tables = schedule, tables
        self._filled = dict(training.nlp.config.interpolate())
        first = self._filled["training"]["seed"] or 0
        self._seeds = range(first, first + seeds)
        self._space = Space(source, self._filled, self.component)
        self._order: dict[str, int] = {}
        self._bench: tuple[dict[Any, Any], Bench | Exception] | None = None

    @property
    def goes_on(self) -> bool:
        """Whether the same command would continue this sweep."""
        return (self.output / JOURNAL).exists()

    @property
    def best(self) -> Path | None:
        """The folder of the best model, if there is one."""
        return self.output / BEST if (self.output / BEST).is_dir() else None

    @property
    def ranked(self) -> list[CombinationResult]:
        """The results, best first."""
        return sorted(self.results.values(), key=self._rank, reverse=True)

    def _rank(self, result: CombinationResult) -> tuple[float, int]:
        """Return the key that orders results: the mean score, and among equal ones the place in the grid."""
        return result.score, -self._order.setdefault(result.key, len(self._order))

    @property
    def name(self) -> str:
        """A name for the study of this grid."""
        return _digest(self.source.grid)

    def facts(self) -> dict[str, str]:
        """Return all that the results depend on: settings, and the contents of files that they name."""

        def with_contents(block: Any) -> Any:
            if not isinstance(block, dict):
                return block
            paths = {key: Path(block[key]) for key in ("path", "source") if isinstance(block.get(key), str)}
            files = {key: _contents(path) for key, path in paths.items()}
            return {key: files.get(key) or with_contents(value) for key, value in block.items()}

        kept = {section: block for section, block in self._filled.items() if section not in ("paths", "system")}
        every, patience, _ = self._schedule
        stopping = {"--evaluate-every": every, "--patience": patience, "--seeds": len(self._seeds)}
        facts = {"config or corpus": with_contents(kept), "component": self.component, **stopping}
        return {name: _digest(fact) for name, fact in facts.items()}

    def check_grid(self) -> list[Candidate]:
        """Return all combinations that can be trained; those with the same encoded corpus follow each other.

        RAISES ConfigError: If there are none, or a setting has a range.
        """
        candidates = [
            candidate for combination in self._space.all() if (candidate := self._candidate(combination)) is not None
        ]
        if not candidates:
            reasons = "\n".join(self.skipped)
            raise ConfigError(f"{self.source.file}: no combination of [sweep.grid] can be trained.\n{reasons}")
        self._order = {candidate.combination.key: number for number, candidate in enumerate(candidates)}
        groups = list(dict.fromkeys(_digest(list(candidate.encoding.items())) for candidate in candidates))
        return sorted(candidates, key=lambda candidate: groups.index(_digest(list(candidate.encoding.items()))))

    def _candidate(self, combination: Combination) -> Candidate | None:
        """Return a combination ready for training; None if it cannot work, which `skipped` then says."""
        config = changed(self.source.config, combination.changes, self._filled)
        try:
            nlp = util.load_model_from_config(config, auto_fill=True)
            pipe: Any = nlp.get_pipe(self.component)
            pipe.method.check(self.component)
        except ConfigError as error:
            reason = str(error).replace(f"[components.{self.component}]: ", "")
            if combination not in (skipped := self.skipped.setdefault(reason, [])):
                skipped.append(combination)
            return None
        except ConfigValidationError as error:
            lines = [line for line in str(error).splitlines() if line.strip()]
            raise ConfigError("\n".join([f"{self.source.file}: [sweep.grid] with {combination}:", *lines])) from error
        return Candidate(combination, config, encoding_of(combination, pipe))

    def run(self, study: Any, candidates: list[Candidate], trials: int, jobs: int) -> None:
        """Train the candidates without a result; keep each result, and the model of the best.

        candidates (list[Candidate]): The grid; if it is empty, the study samples until it has as many `trials`.
        jobs (int): Combinations to train at once, see `at_once`.
        """
        stored = stored_results(self.output / JOURNAL, study, everywhere=bool(candidates))
        self.results = {result.key: result for result in stored if not candidates or result.key in self._order}
        best = max(self.results.values(), key=self._rank, default=None)
        if best is not None and _key_of(self.output / BEST) != best.key:
            lost = f"{self.output / BEST} is not the best model that {JOURNAL} lists"
            if not candidates:
                raise ConfigError(f"{lost}. Give --force to begin anew, or another --output.")
            self._say("info", f"{lost}: training that one again")
            del self.results[best.key]
        todo = [candidate for candidate in candidates if candidate.combination.key not in self.results]
        left = len(todo) if candidates else trials - sum(trial.state.is_finished() for trial in study.trials)
        self._announce(len(candidates), left)
        proposed = self._of_grid(study, todo) if candidates else self._sampled(study, left)
        calls = (self._call(candidate, trial) for candidate, trial in proposed)
        with tqdm(total=left, disable=None, leave=False, file=sys.stderr, unit=" combinations") as bar:
            try:
                with closing(run_calls(calls, at_once(jobs))) as done:
                    for (candidate, trial, bench), outcome in done:
                        bar.clear()
                        result = self._note(candidate, bench, outcome)
                        if study is not None:
                            tell(study, trial, result)
                        bar.update()
            except KeyboardInterrupt:
                self.interrupted = True

    def _announce(self, n_candidates: int, left: int) -> None:
        for reason, skipped in self.skipped.items():
            more = f" and {len(skipped) - 3} more" if len(skipped) > 3 else ""
            self._say("warn", f"Skipped: {'; '.join(map(str, skipped[:3]))}{more}: {reason}")
        n_skipped, n_done = sum(map(len, self.skipped.values())), len(self.results)
        of_all = f"{n_candidates + n_skipped} combinations: " if n_candidates else ""
        skipped_too = f", {n_skipped} skipped" if n_candidates else ""
        self._say("info", f"{of_all}{max(0, left)} to train, {n_done} done before{skipped_too}")

    def _of_grid(self, study: Any, candidates: list[Candidate]) -> Iterator[tuple[Candidate, Any]]:
        """Yield candidates, each with its trial of a study if there is one."""
        for candidate in candidates:
            if study is None:
                yield candidate, None
            else:
                trial = queue(study, candidate.combination)
                self._space.choose(partial(suggest, trial))
                yield candidate, trial

    def _sampled(self, study: Any, number: int) -> Iterator[tuple[Candidate, Any]]:
        """Yield new combinations that a study asks for, each when its turn has come; number counts all it asks for."""
        for _ in range(number):
            trial = study.ask()
            combination = self._space.choose(partial(suggest, trial))
            candidate, result = self._candidate(combination), self.results.get(combination.key)
            if candidate is not None and result is None:
                yield candidate, trial
                continue
            tell(study, trial, result)
            if candidate is None:
                reason = next(reason for reason, skipped in self.skipped.items() if combination in skipped)
                self._say("warn", f"Skipped: {combination}: {reason}")

    def _call(self, candidate: Candidate, trial: Any) -> tuple[tuple[Candidate, Any, Any], Call]:
        """Return a candidate, its trial and its bench, which is made where it has to be, and a call that trains it."""
        if self._bench is None or self._bench[0] != candidate.encoding:
            try:
                made = Bench(candidate, self.component, self._schedule, self._say)
                self._bench, self.untrained = (candidate.encoding, made), made.untrained
            except Exception as error:  # whatever it is, other combinations may work
                self._bench = candidate.encoding, error
        bench = self._bench[1]
        return (candidate, trial, bench), partial(_train, bench, candidate, self._seeds, os.getpid())

    def _note(self, candidate: Candidate, bench: Any, outcome: Any) -> CombinationResult:
        """Record the result of training a candidate, and keep its model if it is the best."""
        settings = candidate.combination.settings
        if isinstance(outcome, Exception):
            text = str(outcome) if isinstance(outcome, CrfError) else f"{type(outcome).__name__}: {outcome}"
            result = CombinationResult(settings, error=text)
            self._say("fail", f"{candidate.combination}: {text}")
        else:
            result, theta = outcome
            if self._rank(result) > max(map(self._rank, self.results.values()), default=(float("-inf"), 0)):
                best = max(result.repetitions, key=lambda repetition: repetition.score)
                bench.save(candidate, best, theta, self.output / BEST)  # before a study is told of it
            spread = f" sd={100 * result.deviation:.2f}" if len(self._seeds) > 1 else ""
            figures = f"objective={result.mean('objective'):.2f} active={result.mean('active'):.0f}"
            seconds = f"seconds={sum(repetition.seconds for repetition in result.repetitions):.2f}"
            print(f"{candidate.combination} score={100 * result.score:.2f}{spread} {figures} {seconds}", flush=True)
        self.results[result.key] = result
        for path, write in zip(self._tables, (as_csv, as_latex), strict=True):
            if path is not None:
                write_text(path, write(self.ranked))
        return result

    @cached_property
    def importance(self) -> tuple[list[str], list[list[str]]]:
        """The rows of `importance_rows` once all results are there: page and terminal show them."""
        return importance_rows(self.ranked)

    def page(self) -> str:
        """Return the page: results, what matters, and the scores by the time of training."""
        from .._pages.html import render

        ranked, scored = self.ranked, [result for result in self.ranked if result.repetitions]
        settings = [result.settings for result in scored]
        return render(
            "tools/sweep/page.html", sweep=self, scored=scored, results=result_rows(ranked),
            importance=self.importance, meaning=IMPORTANCE,
            seconds=[result.mean("seconds") for result in scored], n_figures=len(FIGURES),
            keys=[key for key in varying(settings) if not all(is_number(chosen.get(key, 0)) for chosen in settings)],
            failed=[(str(Combination(result.settings, {}, {})), result.error) for result in ranked if result.error],
            skipped=[(str(combination), reason) for reason, several in self.skipped.items() for combination in several],
        )  # fmt: skip


def _train(bench: Bench | Exception, candidate: Candidate, seeds: range, parent: int) -> tuple[CombinationResult, Any]:
    """Return the result of a candidate and the parameters of its best repetition."""
    if isinstance(bench, Exception):
        raise bench
    return bench.train(candidate, seeds, parent)


def _contents(path: Path) -> str:
    """Return a hash of the files of a path, or of a folder with what it holds; empty if there is none."""
    if path.exists():
        return digest(path)
    with suppress(CrfError):
        return _digest([digest(file) for file in resolve(path)])
    return ""


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def _key_of(model: Path) -> str:
    """Return the key of the combination whose model is in a folder, empty if there is none."""
    meta = model / "meta.json"
    return str(json.loads(meta.read_text(encoding="utf8")).get("sweep", "")) if meta.is_file() else ""
