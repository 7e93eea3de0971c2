"""``crfseq evaluate``: score a pipeline on a corpus file as the CoNLL shared tasks do, and time it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ...cli import options
from ...cli.app import command
from ...cli.console import print_json, printer
from ...corpora.layouts import Asked
from ...corpora.outputs import check_own_file, check_page
from ...corpora.paths import joined
from ...errors import ConfigError
from ...files import write_json, write_text
from . import SPEED, Rival, evaluate
from .against import SAMPLES, SHOWN, comparison_lines


@command("evaluate", "Look", "score", "test", "benchmark", "compare")
def evaluate_cli(
    model: options.Model,
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help=f"Corpus file{options.PATHS}")],
    format: options.GoldFormat = None,
    columns: options.Columns = None,
    scheme: options.Scheme = None,
    encoding: options.Encoding = None,
    outside: options.Outside = None,
    min_score: options.MinScore = None,
    match: options.Match = None,
    alternatives: options.Alternatives = None,
    skip_invalid: options.SkipInvalid = False,
    corpus: Annotated[
        Path | None, typer.Option(help="Training corpus, to score seen and unseen spans or words separately")
    ] = None,
    output: Annotated[Path | None, options.output("JSON file for the scores")] = None,
    given: options.Given = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="Also score the texts in the tokens of the pipeline, without sentences")
    ] = False,
    against: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Another pipeline, to test whether their difference is chance")
    ] = None,
    component: options.Components = None,
    number: Annotated[
        int | None, options.number("Texts to show that got better, and that got worse", default=f"{SHOWN}", least=0)
    ] = None,
    samples: Annotated[
        int | None, typer.Option(min=1, help="Bootstrap samples for intervals and p values", show_default=f"{SAMPLES}")
    ] = None,
    html: Annotated[Path | None, typer.Option(help="HTML file for the comparison")] = None,
    as_json: options.AsJson = False,
    code: options.Code = None,
) -> None:
    """Score a pipeline on a corpus file as conlleval does, and measure its speed.

    A span is correct if its type and both boundaries are; tags are scored by accuracy and label, and whole sequences
    (sentences) by accuracy. Tokens and sentences are those of the file; white space is not scored. Speed covers the
    components of the pipeline, with compiled kernels loaded. Annotated spans that do not match the tokens are not
    scored; a line says how many, and the recall that counts them as missed.

    Of a pipeline with thresholds for recall ('calibrate --recall'), it also shows how many spans are covered: all their
    words are in predicted spans.

    --raw also prints scores on whole documents (on sentences, if the file marks no documents): with the tokens
    of the file, but without sentence starts; and as raw text. The text is joined from the words, with spaces as the
    file says or as usual in print. Tokens and spans are compared by their characters. Without --raw, a line says how
    many tokens of the file the tokenizer does not make.

    --against compares the components with those of another pipeline on the same texts: scores side by side (A is the
    other pipeline, B this one), the interval of the difference (the middle 95 % of samples of the texts), p (the
    probability of a difference at least as large by chance: paired bootstrap, not corrected for the number of labels),
    and texts that got better or worse.

    Example:
      python -m spacy crfseq evaluate training/model-best test.conll \\
          --format conll2003 --raw --output metrics.json
      python -m spacy crfseq evaluate training/model-best dev.conll \\
          --against other/model-best --html comparison.html
    """
    from .._pages.html import render

    file = joined(files)
    check_own_file(output, file, corpus, own=lambda first: SPEED.encode() in first, what="an output")
    check_page(html, file, corpus, output)
    rival = None if against is None else Rival(against, component or (), samples or SAMPLES)
    if rival is None:
        for name, value in {"component": component, "number": number, "samples": samples, "html": html}.items():
            if value is not None:
                raise ConfigError(f"--{name} is for a comparison: give --against MODEL.")
    layout, shown = (
        Asked(format, columns, scheme, encoding, None, outside, min_score, match, alternatives, skip_invalid),
        SHOWN if number is None else number,
    )
    metrics, report, comparison = evaluate(model, file, layout, corpus=corpus, given=given, raw=raw, rival=rival)
    if comparison is not None:
        metrics["against"] = comparison.to_json(shown)
    if output is not None:
        write_json(output, metrics)
    if html is not None:
        page = render("tools/evaluate/against.html", done=comparison, file=str(file), n_shown=shown)
        write_text(html, page)
    if as_json:
        print_json(metrics)
        return
    if comparison is not None:
        for doubt in comparison.doubts:
            print(f"Warning: {doubt}", file=sys.stderr)
    print(report)
    if comparison is not None:
        print("", *comparison_lines(comparison, shown), sep="\n")
    if output is not None:
        printer().good(f"Saved the scores to {output}")
    if html is not None:
        printer().good(f"Saved {html}")
