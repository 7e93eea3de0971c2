"""Timing contenders in turn, workers in processes of their own, and the rows of tables.

Nothing here imports numpy or spaCy, so that workers that measure memory or start-up begin empty.
"""

from __future__ import annotations

import functools
import gc
import importlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, Literal, TypeAlias

from scripts.kit import CLOCK, ONE_THREAD, ROOT, Options, Results, Skip, Study, say

__all__ = ["CLOCK", "Measure", "Options", "Row", "Skip", "benchmark", "say"]

Measure: TypeAlias = Callable[[], float]
"""Does a piece of work and returns what was measured: seconds, or a rate."""
Kind: TypeAlias = Literal["times", "share", "value"]
PATIENCE = 30.0
"""Seconds after which no further round begins, so that all runs of docs/performance.md take half an hour."""
PAGES = ("performance", "scaling", "annotate")
"""Pages of docs/ that are made of the results."""


@dataclass
class Row:
    """One line of a table: what was measured of us, of a peer or limit, and what is aimed at.

    label (str): What was done.
    unit (str): Unit of all figures; a rate if it ends in "/s", where more is better, else less is better.
    ours (list[float]): One figure a round.
    peer (list[float]): The peer's, round by round; empty where there is none.
    against (str): Name of the peer or of the limit.
    kind (Kind): "times" for how many times faster than the peer, "share" for per cent of the peer's rate, "value" for
        the figure itself.
    target (float | None): Aim of the ratio, the share or the figure; None where there is no aim.
    note (str): Scores, objectives and whatever else a reader needs.
    """

    label: str
    unit: str
    ours: list[float]
    peer: list[float] = field(default_factory=list)
    against: str = ""
    kind: Kind = "times"
    target: float | None = None
    note: str = ""


def _runs_of(page: str) -> list[str]:
    return re.findall(r"<!-- table: ([\w-]+) -->", (ROOT / "bench" / f"{page}.md.in").read_text(encoding="utf8"))


def _write(results: Results, folder: Path) -> None:
    from bench import report

    report.write(results, folder)


STUDY = Study(
    [
        f"bench.{module}"
        for module in (
            "machine",
            "lattice",
            "chain",
            "losses",
            "training",
            "tagging",
            "confidence",
            "occurrences",
            "token_functions",
            "tokenizer",
            "addresses",
            "estimator",
            "documents",
            "memory",
            "startup",
            "stages",
            "vocabulary",
            "scaling",
            "cluster",
            "annotate",
            "label_models",
        )
    ],
    ROOT / "bench" / "results",
    _write,
    {page: _runs_of(page) for page in PAGES},
)
benchmark = STUDY.run


# Timing


def clock() -> float:
    """Return the time in seconds: of the wall, or what this process and its ended children have used of processors."""
    if os.environ.get(CLOCK) != "cpu":
        return perf_counter()
    import resource

    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return process_time() + children.ru_utime + children.ru_stime


def seconds(work: Callable[[], object]) -> float:
    """Return the time of `work`, the garbage of earlier work collected before."""
    gc.collect()
    started = clock()
    work()
    return clock() - started


def timed(work: Callable[[], object]) -> Measure:
    """Return a contender that measures the seconds of `work`."""
    return functools.partial(seconds, work)


def in_turn(rounds: int, contenders: Mapping[str, Measure], *, warm: Iterable[str] = ()) -> dict[str, list[float]]:
    """Let the contenders take turns; return the figures of each, round by round.

    rounds (int): At most; the last one is that in which `PATIENCE` ends.
    warm (Iterable[str]): Contenders that run once before, unmeasured.
    """
    for name in warm:
        say(f"    {name}: warming up")
        contenders[name]()
    figures: dict[str, list[float]] = {name: [] for name in contenders}
    started = clock()
    for number in range(rounds):
        if number and clock() - started > PATIENCE:
            break
        for name, measure in contenders.items():
            figures[name].append(measure())
            say(f"    round {number + 1} of {rounds}, {name}: {figures[name][-1]:.4g}")
    return figures


def one_thread() -> Any:
    """Return a context in which BLAS uses one thread.  Raises Skip without threadpoolctl."""
    return need("threadpoolctl").threadpool_limits(1)


def optional(module: str) -> Any:
    """Import a module that not everybody has; return None without it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        return None


def need(module: str) -> Any:
    """Import a module that not everybody has.  Raises Skip without it."""
    loaded = optional(module)
    if loaded is None:
        raise Skip(f"{module} is not installed (pip install -e '.[bench]')")
    return loaded


# Workers


def in_process(work: str, *args: Any, env: Mapping[str, str] | None = None) -> Any:
    """Run a function of a benchmark module in a fresh process with one thread; return its (JSON) result.

    work (str): "module:function", such as "memory:bare".
    """
    command = [sys.executable, "-m", "bench.worker", work, json.dumps(args)]
    return json.loads(run_command(command, env).splitlines()[-1])


def run_command(command: list[str], env: Mapping[str, str] | None = None) -> str:
    """Return the output of a command.  Raises Skip with its last words where it fails.

    Python keeps the bytecode of this checkout, as it does of packages that are installed.
    """
    full_env = {**os.environ, **ONE_THREAD, "PYTHONDONTWRITEBYTECODE": "", **(env or {})}
    done = subprocess.run(command, cwd=ROOT, env=full_env, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise Skip(f"{Path(command[0]).name} {' '.join(command[1:4])} failed: {' '.join(last)}")
    return done.stdout


@contextmanager
def scratch() -> Iterator[Path]:
    """Give a folder that is deleted afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)
