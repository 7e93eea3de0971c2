"""``crfseq prune``: shrink a trained pipeline by removing weights that are zero or small."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...corpora.outputs import check_output_pipeline
from ...files import replace_folder
from ...pipeline.select import crfs_of, load_pipeline

if TYPE_CHECKING:
    from ...pipeline.component import Pruned


def prune(
    model: str | Path,
    output: Path,
    threshold: float = 0.0,
    component: Sequence[str] = (),
    *,
    bits: int | None = None,
    force: bool = False,
) -> dict[str, Pruned]:
    """Write a pipeline without small weights; return the sizes of each component before and after.

    threshold (float): Weights up to this absolute value are removed.
    bits (int | None): Before that, weights are rounded to multiples of 1 / 2**bits.
    component (Sequence[str]): Names of components; all CRF components if there is none.
    force (bool): Replace a pipeline that is at `output`, unless it is `model`.
    RAISES ConfigError: If there is no such component, or `output` is in use.
    """
    from ...pipeline.model_card import fill_card

    check_output_pipeline(output, model, force=force)
    nlp = load_pipeline(model)
    pipes = crfs_of(dict(nlp.pipeline), component, str(model))
    reports = {name: pipe.prune(threshold, bits) for name, pipe in pipes.items()}
    replace_folder(output, fill_card(nlp).to_disk)
    return reports
