"""The study of the papers' experiments: its modules, configs, results and page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scripts.kit import ROOT, Entry, Options, Results, Row, Skip, Study, say

CONFIGS = ROOT / "configs" / "papers"

__all__ = ["CONFIGS", "ROOT", "STUDY", "Entry", "Options", "Results", "Row", "Skip", "config", "experiment", "say"]


def _write(results: Results, folder: Path) -> None:
    from scripts.papers import page

    page.write(results, folder)


STUDY = Study(
    [
        f"scripts.papers.{module}"
        for module in (
            "altun",
            "nettalk",
            "chunks",
            "names",
            "synthetic",
            "sparsity",
            "partial",
            "questions",
            "tuned_tagger",
            "semi",
            "documents",
            "shift",
            "raw_text",
        )
    ],
    ROOT / "scripts" / "papers" / "results",
    _write,
)
experiment = STUDY.run


def config(name: str) -> dict[str, Any]:
    """Return the settings of an experiment from its file in configs/papers."""
    from thinc.api import Config

    return dict(Config().from_disk(CONFIGS / f"{name}.cfg"))
