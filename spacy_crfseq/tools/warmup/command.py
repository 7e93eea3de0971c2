"""``crfseq warmup``: compile all kernels now, for instance when an image is built."""

from __future__ import annotations

from typing import Annotated

import typer

from ...cli import options
from ...cli.app import command
from ...cli.console import print_json, printer
from . import warmup


@command("warmup", "Begin")
def warmup_cli(
    lang: options.Lang = "en",
    everything: Annotated[
        bool, typer.Option("--all", "-a", help="Also for SGD and L-BFGS, probabilities and alternatives")
    ] = False,
    as_json: options.AsJson = False,
    code: options.Code = None,
) -> None:
    """Compile the kernels of the three components with their default settings and keep them on disk.

    Trains and runs each component on a few sentences. The first time takes fifteen seconds, half a minute more with
    --all; later ones take seconds. Kernels are compiled once for each installation of the package, kind of processor,
    Python and numba; set NUMBA_CACHE_DIR to choose where they are kept.

    Example, in a Dockerfile:
      ENV NUMBA_CACHE_DIR=/opt/numba
      RUN python -m spacy crfseq warmup --all
    """
    result = warmup(lang=lang, everything=everything)
    if as_json:
        print_json(result._asdict())
        return
    folder = result.cache or "this process only: no folder can be written; set NUMBA_CACHE_DIR"
    msg = printer()
    msg.good(f"Ready in {result.seconds:.1f} s: {result.compiled} kernels compiled, {result.loaded} loaded")
    msg.text(f"Kept in {folder}" if result.cache else f"Kept for {folder}")
