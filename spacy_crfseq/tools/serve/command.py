"""``crfseq serve``: a model for annotation tools: Label Studio's ML backend, INCEpTION's external recommender, JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...cli import options
from ...cli.app import command
from ...cli.console import printer
from ...errors import ConfigError
from . import HOST, PORT, serve


@command("serve", "Use")
def serve_cli(
    model: options.Model,
    component: options.OneComponent = None,
    output: Annotated[
        Path | None, options.output("Folder for the pipeline after each training", default="not saved")
    ] = None,
    force: options.Force = False,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 for all of this machine")] = HOST,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port")] = PORT,
    code: options.Code = None,
) -> None:
    """Answer annotation tools with the predictions of a pipeline, and let them train it.

    Label Studio: add the address as a model (Settings, Model). Predictions carry probabilities as scores; annotations
    that are created, updated or deleted train the model on all that have come so far, those that come during a training
    right after it. Its webhook must send payloads. INCEpTION: add an external recommender with the address, for a layer
    of spans or of tokens. Both train from the weights of MODEL, whose files do not change. What cannot be learned is
    refused, logged here, and changes nothing.

    Other programs send {"text": "..."} or {"texts": ["...", "..."]} to /annotate and get the spans of each text with
    their probabilities. Anybody who reaches the port can ask and train: it is this machine only unless --host says so.

    Example:
      python -m spacy crfseq serve training/model-best -p crf_ner
      curl -H "Content-Type: application/json" http://127.0.0.1:9090/annotate \\
          -d '{"text": "Ada Lovelace was born in London."}'
    """
    service = serve(model, component=component, output=output, force=force)
    try:
        import uvicorn

        from .server import make_app
    except ImportError as error:
        raise ConfigError(f"{error}: run pip install 'spacy-crfseq[annotate]'.") from None

    printer().good(f"Listening on http://{host}:{port}/  (Ctrl-C ends)")
    uvicorn.run(make_app(service, host), host=host, port=port, log_level="warning", lifespan="off")
