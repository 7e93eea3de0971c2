"""``crfseq fit``: train the CRFs of a config on the whole corpus at once, without the steps of spaCy's loop."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Sequence
from contextlib import closing, nullcontext
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from spacy import util
from tqdm import tqdm

from ..corpora.layouts import corpus_block, reader_layout
from ..corpora.outputs import check_output_folder, locked_folder
from ..errors import ClusterError, ConfigError
from ..pipeline.clusters import Cluster, connected
from ..pipeline.cross_validation import Fold, each_fold
from ..pipeline.pipeline_training import BEST, CHECKPOINT, LAST, LOG, Outcome, PipelineTraining, set_up
from ..pipeline.select import start_from
from ..pipeline.spacy_train import LiveCurve, log_line
from ..prf import SEQUENCES
from . import options
from .app import command
from .console import INTERRUPTED, Rows, advise, cut, printer, say

if TYPE_CHECKING:
    from ..training.checkpoint import Checkpoint
    from ..training.fit import Progress

COMPARED, PARAGRAPH = 100 << 20, 60
"""Bytes of files that are compared, at most, and of their paragraphs, at least: short sentences occur twice."""
STOPPING = {f"training.{name}" for name in ("max_epochs", "max_steps", "patience", "eval_frequency")}


def fit(
    config_path: Path,
    output: Path,
    *,
    overrides: dict[str, Any] | None = None,
    evaluate_every: int | None = None,
    patience: int | None = None,
    force: bool = False,
    start: str | None = None,
    dask: Any = None,
    code: Path | None = None,
    resume: bool = False,
    checkpoint_every: float = 30.0,
) -> Outcome:
    """Train the CRFs of a config and save the pipeline.

    overrides (dict[str, Any] | None): Settings in place of those of the config, by their places as "training.seed".
    force (bool): Replace models that are in the folder; they stay until the new ones are complete.
    start (str | None): A trained pipeline, from whose components of the same names training continues.
    dask (str | Client | None): The address of a Dask cluster, or its client.
    code (Path | None): A Python file that workers import first.
    resume (bool): Continue from the checkpoint in the folder.
    checkpoint_every (float): Seconds between two checkpoints, at least.
    RAISES CrfError: If the config, the corpus or the combination of components cannot be trained.
    """
    if dask is not None and start is not None:
        raise ConfigError("--dask trains from scratch. Leave --from out, or --dask.")
    with nullcontext() if dask is None else connected(dask) as workers:
        training = set_up(config_path, output, overrides or {}, (BEST, LAST), force, say, _files_of(output))
        if start is not None:
            _begin_with(training, start, output, force)
        if overlaps(training.nlp.config.interpolate()):
            printer().warn(
                "Most sentences of the dev corpus are in the training corpus, too: its scores will be too good."
            )
        facts = {"--from": start or "none", "--dask": "no" if workers is None else "yes"}
        checkpoint = _checkpoint(training, output / CHECKPOINT, facts, resume, force, checkpoint_every)
        if workers is not None:
            training.refuse_trained("--dask")
            training = _distribute(training, workers, code, checkpoint)
        with locked_folder(output):  # before the corpus is read, which takes long
            if next(iter(training.read_dev()), None) is None:
                say("warn", "No dev corpus: training without scores; model-best will equal model-last")
            training.encode()
            if not resume:
                checkpoint.path.unlink(missing_ok=True)
            with closing(Reporter(output / LOG, checkpoint.n_iterations)) as reporter:
                try:
                    trained = training.train(reporter, evaluate_every, patience, checkpoint)
                except ClusterError as error:
                    raise ClusterError(f"{error} Give the command again with --resume to go on from here.") from error
            outcome = training.save_models(trained, output)
            checkpoint.path.unlink(missing_ok=True)
            return outcome


def cross_validate(
    config_path: Path,
    k: int,
    output: Path | None = None,
    *,
    overrides: dict[str, Any] | None = None,
    evaluate_every: int | None = None,
    patience: int | None = None,
    force: bool = False,
) -> list[Fold]:
    """Train k models of a config, each on all but a k-th of the training corpus, and return their scores on the rest.

    output (Path | None): A folder that `fit` is to write later; an error is raised now if it cannot.
    RAISES CrfError: As `fit` does.
    """
    training = set_up(config_path, output, overrides or {}, (BEST, LAST), force, say, _files_of(output))
    return list(each_fold(training, k, evaluate_every, patience))


def _files_of(output: Path | None) -> tuple[str, ...]:
    """Return the files that training writes anew: a killed run leaves the log to its checkpoint."""
    return () if output is not None and (output / CHECKPOINT).exists() else (LOG,)


@command("fit", "Train", "train", context_settings=options.OVERRIDES)
def fit_cli(
    ctx: typer.Context,
    config_path: options.Config,
    output: Annotated[Path | None, options.output("Folder for model-best, model-last and log.jsonl")] = None,
    code: options.Code = None,
    evaluate_every: options.Every = None,
    patience: options.Patience = None,
    force: options.Force = False,
    start: Annotated[
        str | None, typer.Option("--from", metavar="MODEL", help="Trained pipeline to continue from")
    ] = None,
    dask: options.Dask = None,
    folds: Annotated[
        int | None, typer.Option("--cross-validate", metavar="K", help="Cross-validate on K folds first")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue a killed run from its checkpoint")] = False,
    verbose: options.Verbose = False,
) -> None:
    """Train the CRF components of a config.

    It takes the configs and overrides of 'spacy train' and writes the same folders, but works on the whole encoded
    corpus instead of spaCy's batches, which is several times faster. Ctrl-C stops training and saves the best model
    so far. An earlier model in the folder is replaced only with --force, once the new one is complete.

    --cross-validate K trains K models, each on all but a K-th of the training corpus, and prints their scores on the
    rest, with mean and standard deviation. Folds are of whole documents (as the corpus reader makes them), drawn with
    [training] seed; copies of a text share one. The dev corpus, if any, only decides when training stops. The K models
    are not saved; with --output, one trained on the whole corpus is.

    --from MODEL continues from a trained pipeline: each component takes over labels, features and weights of the one of
    the same name, and learns how to change them. The config may name only new texts, or all: what these lack is kept,
    what they have in addition, such as new labels or templates, begins with weights of zero.

    A run of more than half a minute leaves a checkpoint in the output folder, and removes it when it is complete. After
    a power cut or a kill, the same command with --resume reads the corpus again and continues from there; the result is
    that of an uninterrupted run.

    --dask ADDRESS trains on the workers of a Dask cluster. Each reads, encodes and keeps a part of the corpora, so all
    must be able to read the files. Batch optimizers find the same optimum as in one process. Online ones train
    on each part alone, and their parameters are mixed eight times in an epoch. --dask local:2 uses two processes here.

    Example:
      python -m spacy crfseq fit config.cfg --output training/ \\
          --paths.train train.conll --paths.dev dev.conll
      python -m spacy crfseq fit config.cfg --output training2/ \\
          --from training/model-best --paths.train new.conll
      python -m spacy crfseq fit config.cfg --cross-validate 5 \\
          --paths.train train.conll
    """
    overrides = options.config_overrides(ctx, config_path)
    if output is None and folds is None:
        raise ConfigError("Give --output DIR for the models, or --cross-validate K to print scores only.")
    if folds is not None:
        for option, value in {"dask": dask, "from": start, "resume": resume or None}.items():
            if value is not None:
                raise ConfigError(
                    f"--cross-validate trains from scratch in this process. Leave --{option} out, or --cross-validate."
                )
        results = cross_validate(
            config_path,
            folds,
            output,
            overrides=overrides,
            evaluate_every=evaluate_every,
            patience=patience,
            force=force,
        )
        _print_folds(results, folds)
        if len(results) < folds:
            raise typer.Exit(INTERRUPTED)
    if output is not None:
        outcome = fit(
            config_path, output, overrides=overrides, evaluate_every=evaluate_every, patience=patience, force=force,
            start=start, dask=dask, code=code, resume=resume,
        )  # fmt: skip
        print_outcome(outcome)
        if outcome.interrupted:
            raise typer.Exit(INTERRUPTED)


# What it shows: a table on a terminal, plain lines in a pipe, and every iteration in a log file

COLUMNS = ("Component", "#", "Objective", "|Grad|", "Loss/token", "Active", "Score", "Seconds", "")
NAMES = ("", "iteration", "objective", "gradient", "loss/token", "active", "score", "seconds", "")
WIDTHS = (12, 4, 11, 9, 10, 8, 6, 7, 1)
ALIGNS = ("l", *"rrrrrrr", "l")


class Reporter:
    """Shows and logs the progress of one component after another; an instance is a callback of `fit`.

    kept (int): Lines of the log that stay, those of the run that continues.
    """

    def __init__(self, log: Path, kept: int = 0) -> None:
        self._path, self._kept = log, kept
        self._log: IO[str] | None = None  # that of an earlier training stays until there is something to say
        self._rows = Rows(COLUMNS, NAMES, WIDTHS, ALIGNS)
        self._curve = LiveCurve(sys.stderr)
        self._name, self._tokens, self._every, self._scored = "", 1, 1, False

    def start(self, name: str, tokens: int, every: int, scored: bool) -> None:
        """Begin with a component of `tokens` tokens; one iteration in `every` is shown."""
        self._name, self._tokens, self._every, self._scored = name, max(1, tokens), every, scored
        self._curve.hide()
        self._curve = LiveCurve(sys.stderr)
        self._rows.begin()

    def __call__(self, progress: Progress) -> None:
        """Take in one iteration."""
        report = progress.report
        figures = (progress.active, progress.score, progress.best)
        if self._log is None:
            lines = self._path.read_text("utf8").splitlines(True)[: self._kept] if self._path.exists() else []
            self._log = self._path.open("w", encoding="utf8")
            self._log.writelines(lines)
        self._log.write(log_line(self._name, progress.iteration, progress.seconds, report, *figures))
        self._log.flush()
        if math.isfinite(report.value):
            self._curve.add("objective", report.value, log=True)
        if progress.score is not None:
            self._curve.add("score", 100 * progress.score)
        due = progress.iteration % self._every == 0 or progress.report.converged
        if progress.score is not None or (due and not self._scored):
            self._curve.hide()
            self._rows.add(self._cells(progress))
        self._curve.show(f"{self._name} {progress.iteration}")

    def close(self) -> None:
        """Close the log and take the curves away."""
        self._curve.hide()
        if self._log is not None:
            self._log.close()

    def _cells(self, progress: Progress) -> list[str]:
        report, score, active = progress.report, progress.score, progress.active
        gradient = "-" if math.isnan(report.grad_norm) else f"{report.grad_norm:.4g}"
        figures = [f"{report.value:.2f}", gradient, f"{report.loss / self._tokens:.4f}"]
        figures += ["-" if active is None else str(active), "-" if score is None else f"{100 * score:.2f}"]
        name = cut(self._name, WIDTHS[0])
        return [name, str(progress.iteration), *figures, f"{progress.seconds:.2f}", "*" if progress.best else ""]


def overlaps(config: Any) -> bool:
    """Whether most of fifty paragraphs of a dev file are in the training file; False for folders and large files."""
    blocks = [corpus_block(config, name) for name in ("train_corpus", "dev_corpus")]
    train, dev = (Path(str(block.get("path"))) for block in blocks)
    if any(block.get("part", "all") != "all" for block in blocks) or not (train.is_file() and dev.is_file()):
        return False
    if max(train.stat().st_size, dev.stat().st_size) > COMPARED:
        return False
    paragraphs = [part for part in dev.read_bytes().split(b"\n\n") if len(part) > PARAGRAPH]
    sample, whole = paragraphs[:: len(paragraphs) // 50 + 1], train.read_bytes()
    return sum(part in whole for part in sample) > 0.5 * len(sample)


def _checkpoint(
    training: PipelineTraining, path: Path, facts: dict[str, str], resume: bool, force: bool, every: float
) -> Checkpoint:
    """Return the checkpoint of this run, that of an earlier one to resume."""
    from ..training.checkpoint import Checkpoint

    if resume:
        checkpoint = Checkpoint.load(path, every)
    elif path.exists() and not force:
        raise ConfigError(f"{path} is of a run that was killed. Continue it with --resume, or start over with --force.")
    else:
        checkpoint = Checkpoint(path, every)
    settings = {name: str(value) for name, value in util.dict_to_dot(training.nlp.config.interpolate()).items()}
    kept = {name: value for name, value in settings.items() if name not in STOPPING}
    checkpoint.check("the config", {**kept, **facts})
    return checkpoint


def _begin_with(training: PipelineTraining, start: str, output: Path, force: bool) -> None:
    """Let training continue from a trained pipeline.  RAISES ConfigError: If a component does so already."""
    check_output_folder(output, start, pipelines=(BEST, LAST), force=force)
    if training.resumed:
        what = ", ".join(map(repr, sorted(training.resumed)))
        raise ConfigError(f"--from: {what} comes from a trained pipeline already (source). Give its factory instead.")
    for name in start_from(training.to_train, start):
        printer().warn(f"{name} begins with weights of zero: {start} has no such component")


def _distribute(
    training: PipelineTraining, cluster: Cluster, code: Path | None, checkpoint: Checkpoint
) -> PipelineTraining:
    """Let the components train on a cluster, as a checkpoint tells of, if it does."""
    for name, pipe in training.to_train.items():
        bar = tqdm(desc="Encoding", disable=None, leave=False, file=sys.stderr, unit=" parts")
        facts = checkpoint.content.facts.get(name, {})
        pipe.training.set(remote=cluster.training(facts, code, partial(_show_parts, bar)))
    return training._replace(corpus=training.corpus.unkept(), distributed=True)


def _show_parts(bar: Any, done: int, total: int) -> None:
    if not done:
        bar.reset(total)
    bar.update(done - bar.n)
    if done == total:
        bar.close()


def _print_folds(scored: Sequence[Fold], k: int) -> None:
    if len(scored) < k:
        printer().warn(f"Interrupted after {len(scored)} of {k} folds")
    if not scored:
        return
    weighted = scored[0].training.settings["score_weights"]
    names = [*weighted, *(name for name in scored[0].scores if name.endswith(SEQUENCES))]
    names = [name for name in names if all(isinstance(fold.scores.get(name), float) for fold in scored)]
    values = 100 * np.array([[fold.scores[name] for name in names] for fold in scored])
    rows = [
        (str(i + 1), f"{fold.n_documents - len(fold.numbers):,}", f"{len(fold.numbers):,}", *map("{:.2f}".format, row))
        for i, (fold, row) in enumerate(zip(scored, values.tolist(), strict=True))
    ]
    rows.append(("mean", "", "", *map("{:.2f}".format, values.mean(0))))
    if len(scored) > 1:
        rows.append(("sd", "", "", *map("{:.2f}".format, values.std(0, ddof=1))))
    header, aligns = ("fold", "trained on", "held out", *names), ("l", *"r" * (len(names) + 2))
    seconds = sum(fold.seconds for fold in scored)
    printer().table(rows, header=header, title=f"{k}-fold cross-validation, {seconds:.0f} s", aligns=aligns)


def print_outcome(outcome: Outcome) -> None:
    """Print scores and files, and what to do next."""
    msg = printer()
    if outcome.best is None:
        msg.warn("Interrupted before the first iteration: nothing was trained, nothing is saved")
        return
    print_scores(outcome.scores)
    if outcome.interrupted:
        msg.warn("Interrupted: the best parameters so far are saved")
    if outcome.untrained:
        msg.warn(f"Not trained yet, all weights zero: {', '.join(outcome.untrained)}")
    msg.good(f"Saved {outcome.best} and {outcome.last}")
    suggest_next(outcome.best)


def print_scores(scores: dict[str, Any]) -> None:
    """Print the scores of a model, if there are any."""
    numbers = {name: value for name, value in scores.items() if isinstance(value, float) and name != "speed"}
    if numbers:
        rows = {name: f"{100 * value:.2f}" for name, value in numbers.items()}
        printer().table(rows, title="Scores on the dev corpus", aligns=("l", "r"))


def suggest_next(model: Path) -> None:
    """Suggest commands that inspect and use a trained model."""
    config, name = util.load_config(model / "config.cfg").interpolate(), shlex.quote(str(model))
    block = corpus_block(config, "dev_corpus")
    dev = block.get("path") if reader_layout(block) else None
    advise(*([f"report {name} {shlex.quote(str(dev))}"] if dev else []), f"tag {name} texts.txt --output tagged/")
