"""The study of the papers' experiments: its modules, configs, results and page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scripts.kit import ROOT, Entry, Options, Results, Row, Skip, Study, say

CONFIGS = ROOT / "configs" / "papers"

__all__ = ["CONFIGS", "ROOT", "STUDY", "Entry", "Options", "Results", "Row", "Skip", "config", "experiment", "say"]


def _write(results: Results, folder: Path) -> None:
    from scripts.papers import page

    page.write(results, folder)


MODULES = (
    *("altun", "dual", "nettalk", "chunks", "names", "synthetic", "sparsity", "partial", "questions", "tuned_tagger"),
    *("simulation", "documents", "shift", "raw_text"),
)
"""Of runs, in the order of the list."""
STUDY = Study(
    [f"scripts.papers.runs.{module}" for module in MODULES],
    ROOT / "scripts" / "papers" / "results",
    _write,
)
experiment = STUDY.run


def config(name: str) -> dict[str, Any]:
    """Return the settings of an experiment from its file in configs/papers."""
    from thinc.api import Config

    return dict(Config().from_disk(CONFIGS / f"{name}.cfg"))


def resolve(block: dict[str, Any]) -> dict[str, Any]:
    """Return the objects that the registered functions of a block make.  Raises Skip where one is not registered."""
    from catalogue import RegistryError
    from spacy.util import registry

    import spacy_crfseq.pipeline.factories  # noqa: F401  makes the registries known

    try:
        return dict(registry.resolve(block, validate=False))
    except RegistryError as error:
        name = next((word for word in str(error).split("'") if word.startswith("spacy_crfseq.")), str(error))
        raise Skip(f"{name} is not registered") from None


QUICK = {"max_iterations": 5, "rounds": 20}
"""Settings of optimizers that are at most so large in a quick run."""


def shortened(optimizer: Mapping[str, Any]) -> dict[str, Any]:
    """Return the block of an optimizer for a quick run."""
    return {key: min(QUICK[key], value) if key in QUICK else value for key, value in optimizer.items()}
