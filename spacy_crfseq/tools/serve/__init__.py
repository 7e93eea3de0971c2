"""``crfseq serve``: a model for annotation tools: Label Studio's ML backend, INCEpTION's external recommender, JSON."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ...corpora.outputs import check_output_pipeline

if TYPE_CHECKING:
    from .service import Service

PORT, HOST = 9090, "127.0.0.1"


def serve(
    model: str | Path,
    component: str | None = None,
    output: Path | None = None,
    force: bool = False,
) -> Service:
    """Return the service that answers annotation tools with the predictions of a component.

    output (Path | None): Folder for the pipeline after each training; None saves none.
    force (bool): Replace a pipeline that is at `output`, unless it is `model`.

    RAISES CrfError: If there is no such pipeline, or it has no such component.
    """
    from .service import Service

    if output is not None:
        check_output_pipeline(output, model, force=force)
    return Service(str(model), component, output)
