"""``crfseq report``: a page on what a trained component gets right and wrong, and why."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...cli import options
from ...cli.app import command
from ...cli.console import print_json, printer
from ...corpora.layouts import Asked
from ...corpora.paths import joined
from . import LOG, ReportSettings, TrainedOn, report


@command("report", "Look")
def report_cli(
    model: options.Model,
    files: options.GoldFiles,
    output: Annotated[Path, options.output("HTML file to write")] = Path("report.html"),
    format: options.GoldFormat = None,
    columns: options.Columns = None,
    scheme: options.Scheme = None,
    encoding: options.Encoding = None,
    outside: options.Outside = None,
    min_score: options.MinScore = None,
    match: options.Match = None,
    alternatives: options.Alternatives = None,
    skip_invalid: options.SkipInvalid = False,
    train: Annotated[
        Path | None,
        typer.Option("--train", help="Log of the training", show_default=f"{LOG} in the folder that holds MODEL"),
    ] = None,
    corpus: Annotated[
        Path | None, typer.Option(help="Training corpus, to score seen and unseen spans or words separately")
    ] = None,
    component: options.Components = None,
    number: Annotated[int, options.number("Sentences to show", least=0)] = 30,
    samples: options.Samples = 1000,
    given: options.Given = None,
    card: Annotated[
        bool, typer.Option("--card", help="Also write scores with intervals to the model card of MODEL, its meta.json")
    ] = False,
    as_json: options.AsJson = False,
    code: options.Code = None,
) -> None:
    """Make a page on what a model gets right and wrong on DEV: scores, errors, probabilities, weights, sentences.

    The page is one file without external requests. Each score has an interval, which shows how much it would vary on
    other texts of the same kind.

    Example:
      python -m spacy crfseq report training/model-best dev.conll \\
          --format conll2003 \\
          --corpus train.conll --output report.html
    """
    every = report(
        model,
        joined(files),
        output,
        Asked(format, columns, scheme, encoding, None, outside, min_score, match, alternatives, skip_invalid),
        trained_on=TrainedOn(train, corpus),
        component=component,
        given=given,
        settings=ReportSettings(number, samples, card),
    )
    if as_json:
        print_json({findings.name: findings.as_json() for findings in every})
        return
    for findings in every:
        (value, *ends), what = findings.main_score
        interval = " to ".join(f"{100 * end:.2f}" for end in ends if end is not None)
        text = "no score" if value is None else f"{what} {100 * value:.2f}" + (f" ({interval})" if interval else "")
        print(f"{findings.name}: {text}")
    printer().good(f"Saved {output}")
