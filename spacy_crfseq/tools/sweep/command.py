"""The command ``crfseq sweep``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...cli import options
from ...cli.app import command
from ...cli.console import FAILED, INTERRUPTED, printer, say
from ...cli.fit_output import suggest_next
from ...pipeline.pipeline_training import BEST
from ...types import Schedule
from . import PAGE, ResultFiles, SweepSettings, sweep
from .results import FIGURES, result_rows
from .study import IMPORTANCE, JOURNAL

_CHOICE = "What to train"


@command("sweep", "Train", "grid", "search", context_settings=options.OVERRIDES)
def sweep_cli(
    ctx: typer.Context,
    config_path: Annotated[Path, typer.Argument(metavar="CONFIG", help="Config file with a section sweep")],
    output: Annotated[Path, options.output(f"Folder for {BEST}, {PAGE} and {JOURNAL}")],
    component: Annotated[
        str | None,
        typer.Option(
            "--component",
            "-p",
            help="CRF component to train",
            show_default="that of the section, or the only one",
        ),
    ] = None,
    sampler: Annotated[
        str,
        typer.Option(help="All of the grid, or what Optuna chooses: random, tpe or gp", rich_help_panel=_CHOICE),
    ] = "grid",
    trials: Annotated[
        int | None,
        typer.Option(min=1, help="Combinations that random, tpe or gp choose, in all", rich_help_panel=_CHOICE),
    ] = None,
    seeds: Annotated[
        int, typer.Option(min=1, help="Train each combination with this many seeds", rich_help_panel=_CHOICE)
    ] = 1,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the sampler", rich_help_panel=_CHOICE)] = 0,
    jobs: Annotated[
        int,
        typer.Option(min=0, help="Combinations to train at once", show_default="two where there are two cores"),
    ] = 0,
    csv: Annotated[Path | None, typer.Option(help="Write all results to this file, as comma-separated values")] = None,
    latex: Annotated[Path | None, typer.Option(help="Write the table to this file, in LaTeX")] = None,
    evaluate_every: options.Every = None,
    patience: options.Patience = None,
    force: options.Force = False,
    code: options.Code = None,
    verbose: options.Verbose = False,
) -> None:
    """Train with every combination of some settings and rank them by the dev score.

    The file is a config of 'crfseq fit' with two more sections, or these alone:
      [sweep]
      config = "config.cfg"
      component = "crf_ner"
      [sweep.grid]
      loss = ["SequentialLog", "PointwiseLog"]
      regularizer.rho = [0.1, 1, 10]

    A setting is one of the component, or starts with a section, such as corpora.train.limit. Name a function by its
    short name, LBFGS or Entities.v1, or as a block: {"@crf_optimizers": "LBFGS", "history": 10}. Combinations that
    cannot work are listed before training starts.

    With --seeds 5, each combination is trained with five seeds, [training] seed and those that follow, and ranked by
    its mean score, shown with the standard deviation and a 95 % interval of the mean. The saved model is the best
    repetition of the best combination.

    Where there are too many combinations, --sampler tpe --trials 50 lets Optuna choose 50, each by the scores before.
    Settings may then have ranges, in a section [sweep.ranges]: regularizer.rho = [0.01, 10.0, "log"].

    Ctrl-C keeps what is finished. Where Optuna is installed (pip install "spacy-crfseq[sweep]"), results are kept in
    study.log: run the same command again to continue. Failed combinations of a grid are tried again. A last table
    shows how much of the variance of the dev score each setting explains.

    Example:
      python -m spacy crfseq sweep sweep.cfg --output grid/ --seeds 3 --csv grid.csv \\
          --paths.train train.conll --paths.dev dev.conll
    """
    done = sweep(
        config_path, output, SweepSettings(component, sampler, trials, seeds, seed, jobs),
        schedule=Schedule(evaluate_every, patience), tables=ResultFiles(csv, latex), force=force,
        overrides=options.config_overrides(ctx, config_path), say=say,
    )  # fmt: skip
    msg, results = printer(), done.ranked
    if results:
        header, rows = result_rows(results)
        n_left = len(header) - 2 - len(FIGURES)
        msg.table(rows, header=header, divider=True, aligns=["r", "r", *"l" * n_left, *"r" * len(FIGURES)])
        header, rows = done.importance
        if rows:
            msg.table(rows, header=header, divider=True, aligns=["l", "r", "l", "r", "l", "r"])
            msg.text(IMPORTANCE)
    if done.interrupted and done.goes_on:
        msg.warn("Interrupted: run the same command again to continue")
    elif done.interrupted:
        msg.warn("Interrupted: without Optuna (pip install 'spacy-crfseq[sweep]'), the same command begins anew")
    if done.best is None:
        msg.warn("No combination has a score yet, no model is saved")
    else:
        if done.untrained:
            msg.warn(f"Not trained, all weights zero: {', '.join(done.untrained)}")
        msg.good(f"Saved {done.best}, {done.output / PAGE}")
        suggest_next(done.best)
    if done.interrupted:
        raise typer.Exit(INTERRUPTED)
    if not any(result.repetitions for result in results):
        raise typer.Exit(FAILED)
