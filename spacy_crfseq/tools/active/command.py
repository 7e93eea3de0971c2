"""``crfseq active``: choose the texts whose annotation would teach a model most, for an annotation tool."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ...cli import options
from ...cli.app import command
from ...cli.console import INTERRUPTED, printer
from ...corpora.layouts import Asked
from ...corpora.outputs import STDOUT, check_output_file
from ...corpora.paths import joined
from ...files import write_text
from . import active, as_lines


@command("active", "Use")
def active_cli(
    model: options.Model,
    files: Annotated[list[Path], typer.Argument(metavar="TEXTS", help=options.TEXTS_FILE)],
    format: options.TextFormat = None,
    columns: options.Columns = None,
    scheme: options.Scheme = None,
    encoding: options.Encoding = None,
    skip_invalid: options.SkipInvalid = False,
    by: Annotated[
        str,
        typer.Option(
            help="Measure: entropy (of the labelling), least-confidence, margin, token-entropy (mean), "
            "total-token-entropy, nbest-entropy"
        ),
    ] = "entropy",
    component: options.OneComponent = None,
    number: Annotated[int, options.number("Texts to keep")] = 100,
    diversity: Annotated[
        float, typer.Option(min=0, help="How strongly to avoid texts that resemble those chosen before; 0 is off")
    ] = 0.0,
    nbest: Annotated[int, typer.Option(min=2, help="Number of labellings for nbest-entropy")] = 10,
    output: Annotated[str, options.output("JSONL file, or - for stdout")] = STDOUT,
    force: options.Force = False,
    code: options.Code = None,
) -> None:
    """Choose the most informative texts to annotate.

    Writes them, the most useful first, as JSONL that Prodigy and doccano import (for Label Studio, as a JSON array):
    text, tokens, predicted spans with their probabilities as "score", and under "meta" the line of the text, the
    measure and its value. 'fit', 'evaluate', 'debug-data' and 'convert' read what these tools export.

    Only token-entropy, a mean over tokens, does not favour long texts. --diversity D avoids near duplicates: out of
    ten times -n candidates, it repeatedly takes the text with the largest value * (1 - similarity)^D, where similarity
    is the largest cosine between its words and those of a text already chosen (maximal marginal relevance, Carbonell &
    Goldstein 1998). 1 is a good start. Memory use depends on -n only. Ctrl-C writes the best texts so far.

    Example:
      python -m spacy crfseq active training/model-best news.txt -p crf_ner \\
          --by margin -n 200 --output to_annotate.jsonl
    """
    texts = joined(files)
    check_output_file(output, texts, force=force)
    chosen = active(
        model,
        texts,
        layout=Asked(format, columns, scheme, encoding, skip_invalid=skip_invalid),
        by=by,
        component=component,
        number=number,
        diversity=diversity,
        nbest=nbest,
    )
    if output == STDOUT:
        sys.stdout.write(as_lines(chosen.tasks))
    else:
        write_text(Path(output), as_lines(chosen.tasks))
        printer().good(f"Saved {len(chosen.tasks):,} of {chosen.seen:,} texts to {output}")
    if chosen.interrupted:
        print(f"\nInterrupted: the choice is among the first {chosen.seen:,} texts.", file=sys.stderr)
        raise typer.Exit(INTERRUPTED)
