"""Registering experiments, reading their configs, running them, and the files of results.

An experiment returns rows, dictionaries of plain numbers and texts, which are kept in a JSON file of its own.  Sections
of the page are made from these files, so that a page can be rewritten without running anything.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, TypeAlias

from bench._harness import Skip, corpus_file, machine, say

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = ROOT / "configs" / "papers"
MODULES = (
    "altun",
    "nettalk",
    "chunks",
    "names",
    "synthetic",
    "sparsity",
    "partial",
    "hall",
    "proper_nouns",
    "semi",
    "shift",
    "raw_text",
)

Row: TypeAlias = dict[str, Any]
Entry: TypeAlias = dict[str, Any]
Results: TypeAlias = dict[str, Entry]

__all__ = ["CONFIGS", "ROOT", "Entry", "Options", "Results", "Row", "Skip", "experiment", "load", "run", "save", "say"]


@dataclass(frozen=True)
class Options:
    """How a run was asked for.

    data (Path | None): Folder of the corpora.
    quick (bool): Small parts of the data and few iterations: shows that everything works, figures mean nothing.
    seed (int): Of splits, shuffles and synthetic data.
    """

    data: Path | None
    quick: bool = False
    seed: int = 0

    def corpus(self, name: str) -> Path:
        """Return a file of the corpora.  Raises Skip where it is missing."""
        return corpus_file(self.data, name)

    def few(self, quick: int, full: int = 0) -> int:
        """Return how much of something to use."""
        return quick if self.quick else full


@dataclass(frozen=True)
class Experiment:
    """A function that trains models and returns rows.

    minutes (float): About how long it takes on one core.
    """

    name: str
    about: str
    minutes: float
    work: Callable[[Options], list[Row]]


REGISTRY: dict[str, Experiment] = {}


def experiment(name: str, about: str, minutes: float) -> Callable[[Callable[[Options], list[Row]]], Any]:
    """Register an experiment."""

    def register(work: Callable[[Options], list[Row]]) -> Callable[[Options], list[Row]]:
        REGISTRY[name] = Experiment(name, about, minutes, work)
        return work

    return register


def config(name: str) -> dict[str, Any]:
    """Return the settings of an experiment from its file in configs/papers."""
    from thinc.api import Config

    return dict(Config().from_disk(CONFIGS / f"{name}.cfg"))


def run(one: Experiment, options: Options) -> Entry:
    """Run one experiment; return its entry in the results.  Raises Skip where it cannot run."""
    started, used = perf_counter(), process_time()
    entry: Entry = {
        "about": one.about,
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "quick": options.quick,
        "seed": options.seed,
        "machine": machine(),
    }
    entry["rows"] = one.work(options)
    entry["seconds"] = round(perf_counter() - started, 1)
    entry["processor seconds"] = round(process_time() - used, 1)
    return entry


def load(folder: Path) -> Results:
    """Return the results kept in a folder, by the names of experiments."""
    return {path.stem: json.loads(path.read_text(encoding="utf8")) for path in sorted(folder.glob("*.json"))}


def save(folder: Path, name: str, entry: Entry) -> None:
    """Write the results of one experiment."""
    path = folder / f"{name}.json"
    folder.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(entry, indent=1, ensure_ascii=False) + "\n", encoding="utf8")
    temporary.replace(path)
