"""``crfseq prune``: shrink a trained pipeline by removing weights that are zero or small."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...cli import options
from ...cli.app import command
from ...cli.console import printer
from . import prune


@command("prune", "Use")
def prune_cli(
    model: options.Model,
    output: Annotated[Path, typer.Argument(metavar="OUTPUT", help="Folder for the pruned pipeline")],
    threshold: Annotated[
        float, typer.Option("--threshold", "-t", min=0.0, help="Remove weights up to this absolute value")
    ] = 0.0,
    bits: Annotated[
        int | None,
        typer.Option("--bits", "-b", min=0, help="Bits that weights keep after the binary point"),
    ] = None,
    component: options.Components = None,
    force: options.Force = False,
    code: options.Code = None,
) -> None:
    """Remove weights and features with little effect from a trained pipeline.

    The default threshold 0 removes only zero weights, of which an L1 penalty leaves many; predictions stay the same. A
    higher threshold, and rounded weights, which take about a byte instead of three, change predictions, so score the
    result with 'crfseq evaluate'. With --bits 5, weights are multiples of 1/32. The pruned pipeline can be trained
    further in Python with pipe.fit(examples).

    Example:
      python -m spacy crfseq prune training/model-best training/model-small \\
          --threshold 0.05 --bits 5
    """
    reports = prune(model, output, threshold, component or (), bits=bits, force=force)
    rows = []
    for name, (before, after) in reports.items():
        pairs = ((before.weights, after.weights), (before.features, after.features))
        cells = [cell for old, new in pairs for cell in (f"{old:,}", f"-> {new:,}")]
        rows.append((name, *cells, f"{before.n_bytes / 1e6:.2f}", f"-> {after.n_bytes / 1e6:.2f}"))
    say, header = printer(), ("component", "weights", "", "features", "", "MB on disk", "")
    say.table(rows, header=header, aligns=("l", *"rrrrrr"), divider=True)
    if bits is None and not any(before.weights > after.weights for before, after in reports.values()):
        say.info(f"No weight is {threshold:g} or less: give a higher --threshold, or train with an L1 penalty")
    say.good(f"Saved the pipeline to {output}")
