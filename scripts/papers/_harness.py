"""The study of the papers' experiments: the data file that describes them, their configs, results and page."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from scripts.kit import ROOT, Entry, Options, Results, Row, Skip, Study, say

CONFIGS = ROOT / "configs" / "papers"
EXPERIMENTS = ROOT / "scripts" / "papers" / "experiments.yml"

__all__ = ["CONFIGS", "ROOT", "STUDY", "Entry", "Options", "Results", "Row", "Skip", "config", "say"]


def _write(results: Results, folder: Path) -> None:
    from scripts.papers import page

    page.write(results, folder)


def _rows(run: str, settings: Mapping[str, Any], options: Options) -> list[Row]:
    """Return the rows of an experiment from its function, such as "chunks.patterns"."""
    module, _, function = run.partition(".")
    rows: list[Row] = getattr(import_module(f"scripts.papers.runs.{module}"), function)(options, **settings)
    return rows


def _study() -> Study:
    """Return the study of the experiments that the data file describes."""
    from srsly import read_yaml

    study = Study((), ROOT / "scripts" / "papers" / "results", _write)
    for name, block in read_yaml(EXPERIMENTS).items():
        study.run(name, block["about"], block["minutes"])(partial(_rows, block["run"], block.get("settings", {})))
    return study


STUDY = _study()


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
