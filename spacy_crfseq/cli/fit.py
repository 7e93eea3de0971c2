"""``crfseq fit``: train the CRFs of a config on the whole corpus at once, without the steps of spaCy's loop."""

from __future__ import annotations

import shutil
import sys
from contextlib import closing, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from spacy import util
from tqdm import tqdm

from ..corpora.layouts import corpus_block, corpus_place
from ..corpora.outputs import check_output_folder, locked_folder
from ..errors import ClusterError, ConfigError
from ..pipeline.clusters import Cluster, Workers, connected
from ..pipeline.configs import load_config
from ..pipeline.corpus import Corpus
from ..pipeline.cross_validation import Fold, each_fold
from ..pipeline.pipeline_training import (
    BEST,
    CHECKPOINT,
    LAST,
    LOG,
    REFIT,
    Outcome,
    PipelineTraining,
    TrainingResults,
    set_up,
)
from ..pipeline.refit import dev_to_learn_from
from ..pipeline.refit import refit as train_on_both
from ..pipeline.select import start_from
from ..types import BY_OPTIMIZER, Schedule
from . import options
from .app import command
from .console import INTERRUPTED, printer, say
from .fit_output import Reporter, print_folds, print_outcome

if TYPE_CHECKING:
    from ..training.checkpoint import Checkpoint

CHECKPOINT_EVERY = 30.0
"""Seconds between two checkpoints, at least."""
MODELS = BEST, LAST, REFIT
"""Pipelines that a run may write."""
STOPPING = {f"training.{name}" for name in ("max_epochs", "max_steps", "patience", "eval_frequency")}


def fit(
    config_path: Path,
    output: Path,
    *,
    overrides: dict[str, Any] | None = None,
    schedule: Schedule = BY_OPTIMIZER,
    force: bool = False,
    start: str | None = None,
    workers: Workers | None = None,
    resume: bool = False,
    refit: bool = False,
) -> Outcome:
    """Train the CRFs of a config and save the pipeline.

    overrides (dict[str, Any] | None): Settings in place of those of the config, by their places as "training.seed".
    force (bool): Replace models that are in the folder; they stay until the new ones are complete.  A run that is
        resumed replaces them, too: they are its own, or it began with `force`.
    start (str | None): A trained pipeline, from whose components of the same names training continues.
    workers (Workers | None): The workers of a cluster, which train; None for this process.
    resume (bool): Continue from the checkpoint in the folder.
    refit (bool): Train a third model on the training and the dev corpus, see `pipeline.refit`.
    RAISES CrfError: If the config, the corpus or the combination of components cannot be trained.
    """
    if workers is not None and start is not None:
        raise ConfigError("--dask trains from scratch. Leave --from out, or --dask.")
    if workers is not None and refit:
        raise ConfigError("--refit trains in this process. Leave it out, or --dask.")
    if resume and not (output / CHECKPOINT).exists():
        if (output / LAST).exists():
            raise ConfigError(
                f"{output} has the models of a run that has ended, and no checkpoint to resume. To train again, give "
                "--force instead of --resume."
            )
        _open_checkpoint(output / CHECKPOINT)
    with nullcontext() if workers is None else connected(workers.where) as cluster:
        replaces, dev = force or resume, None
        training = set_up(config_path, output, overrides or {}, MODELS, replaces, say, _files_of(output))
        if refit:
            training.refuse_trained("--refit")
        if start is not None:
            _begin_with(training, start, output, replaces)
        training = training.calibrating()
        facts = {"--from": start or "none", "--dask": "no" if cluster is None else "yes"}
        checkpoint = _checkpoint(training, output / CHECKPOINT, facts, resume, force)
        if workers is not None and cluster is not None:
            training.refuse_trained("--dask")
            training = _distribute(training, cluster, workers.code, checkpoint)
        with locked_folder(output):  # before the corpus is read, which takes long
            try:
                if not training.has_dev():
                    if refit:
                        raise ConfigError(
                            "--refit trains on the dev corpus, too, once that has chosen the number of iterations, "
                            "but there is none. Give --paths.dev, or leave --refit out."
                        )
                    say("warn", "No dev corpus: training without scores; model-best will equal model-last")
                    training.without_dev()
                if refit:
                    dev = dev_to_learn_from(training)
                training.encode()
                if training.warn_of_leak() and refit:
                    raise ConfigError("--refit trains on the dev corpus, but most of it is in the training corpus.")
            except KeyboardInterrupt:
                return Outcome(None, None, {}, {}, [*training.to_train], interrupted=True)
            if not resume:
                checkpoint.path.unlink(missing_ok=True)
            with closing(Reporter(output / LOG, checkpoint.n_iterations)) as reporter:
                try:
                    trained = training.train(reporter, schedule, checkpoint)
                except ClusterError as error:
                    raise ClusterError(f"{error} Give the command again with --resume to go on from here.") from error
            outcome = training.save_models(trained, output)
            if outcome.best is not None and (output / REFIT).exists():
                shutil.rmtree(output / REFIT, ignore_errors=True)
                say("text", f"Removed {output / REFIT}, which learned from the dev corpus in an earlier training")
            if dev is not None and outcome.interrupted:
                outcome = outcome._replace(kept=f"{outcome.kept}; {REFIT} was not made")
            elif dev is not None:
                outcome = _refit(training, trained, dev, outcome, output)
                if outcome.interrupted and checkpoint.path.exists():
                    return outcome  # --resume makes that model
            checkpoint.path.unlink(missing_ok=True)
            return outcome


def cross_validate(
    config_path: Path,
    k: int,
    output: Path | None = None,
    *,
    overrides: dict[str, Any] | None = None,
    schedule: Schedule = BY_OPTIMIZER,
    force: bool = False,
    group: str | None = None,
) -> list[Fold]:
    """Train k models of a config, each on all but a k-th of the training corpus, and return their scores on the rest.

    output (Path | None): A folder that `fit` is to write later; an error is raised now if it cannot.
    group (str | None): What no two folds share, see `groups.group_of`; None for copies of a text.
    RAISES CrfError: As `fit` does.
    """
    from ..training.dataset import check_folds

    check_folds(k)
    changes = {**(overrides or {}), **_noting(config_path, overrides or {}, group)}
    training = set_up(config_path, output, changes, MODELS, force, say, _files_of(output))
    return list(each_fold(training, k, schedule=schedule, group=group))


def _noting(config_path: Path, overrides: dict[str, Any], group: str | None) -> dict[str, str]:
    """Return the override that makes the reader of the training corpus note the groups of texts.

    RAISES ConfigError: If the reader cannot; spaCy's own reads them from the Docs.
    """
    config = load_config(config_path, overrides).interpolate() if group is not None else {}
    reader = str(corpus_block(config, "train_corpus").get("@readers", ""))
    if group is None or reader == "spacy.Corpus.v1":
        return {}
    if not reader.startswith("spacy_crfseq."):
        raise ConfigError(f"--group {group}: the training corpus has a reader that knows no groups, {reader}.")
    return {f"{corpus_place(config, 'train_corpus')}.group": group}


def _files_of(output: Path | None) -> tuple[str, ...]:
    """Return the files that training replaces; the log of a killed run stays for its checkpoint."""
    return () if output is not None and (output / CHECKPOINT).exists() else (LOG,)


@command("fit", "Train", "train", context_settings=options.OVERRIDES)
def fit_cli(
    ctx: typer.Context,
    config_path: options.Config,
    output: Annotated[
        Path | None, options.output("Folder for model-best, model-last (and -refit) and log.jsonl")
    ] = None,
    code: options.Code = None,
    evaluate_every: options.Every = None,
    patience: options.Patience = None,
    force: options.Force = False,
    start: Annotated[
        str | None, typer.Option("--from", metavar="MODEL", help="Trained pipeline to continue from")
    ] = None,
    teacher: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Trained pipeline to learn from on raw texts, with --raw")
    ] = None,
    raw: Annotated[
        str | None, typer.Option(metavar="TEXTS", help="Raw texts for --teacher to label, as those of tag")
    ] = None,
    dask: options.Dask = None,
    folds: Annotated[
        int | None, typer.Option("--cross-validate", metavar="K", help="Cross-validate on K folds first")
    ] = None,
    group: Annotated[str | None, options.group("--cross-validate")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue a killed run from its checkpoint")] = False,
    refit: Annotated[bool, typer.Option("--refit", help="Then train once more, on the dev corpus, too")] = False,
    verbose: options.Verbose = False,
) -> None:
    """Train the CRF components of a config.

    It takes the configs and overrides of 'spacy train' and writes the same folders, but works on the whole encoded
    corpus instead of spaCy's batches, which is several times faster. Ctrl-C stops training and saves the best model
    so far. An earlier model in the folder is replaced only with --force, once the new one is complete.

    --cross-validate K trains K models, each on all but a K-th of the training corpus, and prints their scores on the
    rest, with mean and standard deviation. Folds are of whole documents (as the corpus reader makes them), drawn with
    [training] seed; copies of a text share one. With --group, all texts of a source, bank or patient share one: their
    scores are then those to expect on others. The dev corpus, if any, only decides when training stops. The K models
    are not saved; with --output, one trained on the whole corpus is.

    --from MODEL continues from a trained pipeline: each component takes over labels, features and weights of the one of
    the same name, and learns how to change them. The config may name only new texts, or all: what these lack is kept,
    what they have in addition, such as new labels or templates, begins with weights of zero.

    --teacher MODEL --raw TEXTS also learns from a larger trained pipeline what it makes of raw texts: the probabilities
    of its labels, instead of gold labels. The components have a term named teacher for that, and the config a corpus of
    that name, with settings of their own: --components.NAME.terms.teacher.weight 0.3, --corpora.teacher.temperature 2.
    The teacher is not needed afterwards.

    --refit, which needs a dev corpus, trains once more, on both corpora together, and saves a third model, model-refit.
    By then, the dev corpus has chosen the number of iterations and calibrated the probabilities; both are taken over.
    No text is left to score this model: the scores in its meta.json are those of model-best. It takes about as long as
    the first training. Ctrl-C during it keeps the other two models. Any later training in this folder removes
    model-refit, or replaces it.

    A run of more than half a minute leaves a checkpoint in the output folder, and removes it when it is complete. After
    a power cut, a kill, or Ctrl-C in the second training of --refit, the same command with --resume reads the corpus
    again and continues from there; the result is that of an uninterrupted run. That second training begins again.

    --dask ADDRESS trains on the workers of a Dask cluster. Each reads, encodes and keeps a part of the corpora, so all
    must be able to read the files. Batch optimizers find the same optimum as in one process. Online ones train
    on each part alone, and their parameters are mixed eight times in an epoch. --dask local:2 uses two processes here.

    Example:
      python -m spacy crfseq fit config.cfg --output training/ \\
          --paths.train train.conll --paths.dev dev.conll --refit
      python -m spacy crfseq fit small.cfg --output small/ \\
          --paths.train train.conll --teacher training/model-best --raw texts.txt
      python -m spacy crfseq fit config.cfg --output training2/ \\
          --from training/model-best --paths.train new.conll
      python -m spacy crfseq fit config.cfg --cross-validate 5 \\
          --paths.train train.conll
    """
    overrides, schedule = options.config_overrides(ctx, config_path), Schedule(evaluate_every, patience)
    if (teacher is None) != (raw is None):
        raise ConfigError("--teacher labels raw texts: give both, --teacher MODEL and --raw TEXTS.")
    if teacher is not None and raw is not None:
        from ..pipeline.teacher import with_teacher

        overrides = with_teacher(config_path, overrides, teacher, raw)
    if refit and output is None:
        raise ConfigError("--refit writes a model: give --output DIR, too.")
    if group is not None and folds is None:
        raise ConfigError("--group keeps texts together in folds: give --cross-validate K, too.")
    if output is None and folds is None:
        raise ConfigError("Give --output DIR for the models, or --cross-validate K to print scores only.")
    if folds is not None:
        for option, value in {"dask": dask, "from": start, "resume": resume or None}.items():
            if value is not None:
                raise ConfigError(
                    f"--cross-validate trains from scratch in this process. Leave --{option} out, or --cross-validate."
                )
        results = cross_validate(
            config_path, folds, output, overrides=overrides, schedule=schedule, force=force, group=group
        )
        print_folds(results, folds)
        if len(results) < folds:
            raise typer.Exit(INTERRUPTED)
    if output is not None:
        outcome = fit(
            config_path, output, overrides=overrides, schedule=schedule, force=force, start=start,
            workers=None if dask is None else Workers(dask, code), resume=resume, refit=refit,
        )  # fmt: skip
        print_outcome(outcome)
        if outcome.interrupted:
            raise typer.Exit(INTERRUPTED)


def _refit(
    training: PipelineTraining, trained: TrainingResults, dev: Corpus, outcome: Outcome, output: Path
) -> Outcome:
    """Train again, on both corpora, and save that model with those of an outcome, which stay if this fails.

    Ctrl-C ends it, and errors are raised after the outcome was printed.
    """
    say("text", "Training again, on the training and the dev corpus")
    n_iterations = sum(len(result.history) for result in trained.results.values())
    try:
        with closing(Reporter(output / LOG, n_iterations)) as reporter:
            train_on_both(training, trained, dev, reporter)
        training.save(output / REFIT)
    except KeyboardInterrupt:
        cure = "--resume makes it" if (output / CHECKPOINT).exists() else "--force trains both times"
        kept = f"{BEST} and {LAST} are complete; {REFIT} was not made. The same command with {cure}"
        return outcome._replace(interrupted=True, kept=kept)
    except Exception:
        print_outcome(outcome)
        say("warn", f"There is no {REFIT}: the training that learns from the dev corpus, too, has failed")
        raise
    return outcome._replace(refit=output / REFIT)


def _checkpoint(training: PipelineTraining, path: Path, facts: dict[str, str], resume: bool, force: bool) -> Checkpoint:
    """Return the checkpoint of this run, that of an earlier one to resume."""
    from ..training.checkpoint import Checkpoint

    if resume:
        checkpoint = _open_checkpoint(path)
    elif path.exists() and not force:
        raise ConfigError(
            f"{path} is of a run that was not completed. Continue it with --resume, or start over with --force."
        )
    else:
        checkpoint = Checkpoint(path, CHECKPOINT_EVERY)
    settings = {name: str(value) for name, value in util.dict_to_dot(training.nlp.config.interpolate()).items()}
    kept = {name: value for name, value in settings.items() if name not in STOPPING}
    checkpoint.check("the config", {**kept, **facts})
    return checkpoint


def _open_checkpoint(path: Path) -> Checkpoint:
    from ..training.checkpoint import Checkpoint

    return Checkpoint.load(path, CHECKPOINT_EVERY)


def _begin_with(training: PipelineTraining, start: str, output: Path, force: bool) -> None:
    """Let training continue from a trained pipeline.  RAISES ConfigError: If a component does so already."""
    check_output_folder(output, start, pipelines=MODELS, force=force)
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
    return training._replace(corpus=training.corpus.kept(False), dev=training.dev.kept(True), distributed=True)


def _show_parts(bar: Any, done: int, total: int) -> None:
    if bar.total is None:
        bar.reset(total)
    bar.update(done - bar.n)
    if done == total:
        bar.close()
