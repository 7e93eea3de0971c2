"""Registering benchmarks, timing contenders in turn, workers in processes of their own, and the file of results.

Nothing here imports numpy or spaCy, so that workers that measure memory or start-up begin empty.
"""

from __future__ import annotations

import functools
import gc
import importlib
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, Literal, TypeAlias

ROOT = Path(__file__).resolve().parent.parent
CLOCK = "CRFSEQ_BENCH_CLOCK"
"""Environment variable that sets the clock for a run and its workers."""
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "RAYON_NUM_THREADS"), "1"
)
PACKAGES = (
    "spacy-crfseq", "spacy", "thinc", "numpy", "numba", "scipy",
    "python-crfsuite", "sklearn-crfsuite", "crfs", "underthesea_core",
)  # fmt: skip

Measure: TypeAlias = Callable[[], float]
"""Does a piece of work and returns what was measured: seconds, or a rate."""
Kind: TypeAlias = Literal["times", "share", "value"]


class Skip(Exception):  # noqa: N818
    """Something cannot run here; the text says why."""


def data_folder() -> Path | None:
    """Return the folder of the corpora, which the environment names; None if it does not."""
    name = os.environ.get("CRFSEQ_DATA")
    return Path(name) if name else None


def corpus_file(data: Path | None, name: str) -> Path:
    """Return a file of the corpora.  Raises Skip where it is missing."""
    if data is None:
        raise Skip("CRFSEQ_DATA is not set to the folder of the corpora")
    path = data / name
    if not path.exists():
        raise Skip(f"{name} is not in the folder of the corpora, {data}")
    return path


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


@dataclass(frozen=True)
class Options:
    """How a run was asked for.

    data (Path | None): Folder of the corpora.
    rounds (int): How often contenders take turns.
    threads (int): Threads to compare with one.
    quick (bool): Use a small part of the data: shows that everything works, figures mean nothing.
    """

    data: Path | None
    rounds: int
    threads: int
    quick: bool

    def corpus(self, *parts: str) -> Path:
        """Return a file of the corpora.  Raises Skip where it is missing."""
        return corpus_file(self.data, "/".join(parts))

    def limit(self, quick: int, full: int = 0) -> int:
        """Return how much data to use."""
        return quick if self.quick else full


@dataclass(frozen=True)
class Benchmark:
    """A function that measures something and returns the rows of its table."""

    name: str
    subject: str
    about: str
    minutes: float
    work: Callable[[Options], list[Row]]


REGISTRY: dict[str, Benchmark] = {}


def benchmark(name: str, subject: str, minutes: float) -> Callable[[Callable[[Options], list[Row]]], Any]:
    """Register a benchmark; its docstring says what it measures, `minutes` about how long three rounds take."""

    def register(work: Callable[[Options], list[Row]]) -> Callable[[Options], list[Row]]:
        about = " ".join((work.__doc__ or "").split())
        REGISTRY[name] = Benchmark(name, subject, about, minutes, work)
        return work

    return register


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

    warm (Iterable[str]): Contenders that run once before, unmeasured.
    """
    for name in warm:
        say(f"    {name}: warming up")
        contenders[name]()
    figures: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds):
        for name, measure in contenders.items():
            figures[name].append(measure())
            say(f"    round {number + 1} of {rounds}, {name}: {figures[name][-1]:.4g}")
    return figures


def say(text: str) -> None:
    """Show progress on a terminal; say nothing into a pipe."""
    if sys.stderr.isatty():
        print(text, file=sys.stderr, flush=True)


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
    found = optional(module)
    if found is None:
        raise Skip(f"{module} is not installed (pip install -e '.[bench]')")
    return found


# Workers


def in_process(work: str, *args: Any, env: Mapping[str, str] | None = None) -> Any:
    """Run a function of a benchmark module in a fresh process with one thread; return its (JSON) result.

    work (str): "module:function", such as "memory:bare".
    """
    command = [sys.executable, str(ROOT / "bench" / "run.py"), "--worker", work, json.dumps(args)]
    return json.loads(run_command(command, env).splitlines()[-1])


def run_command(command: list[str], env: Mapping[str, str] | None = None) -> str:
    """Return what a command printed.  Raises Skip with its last words where it fails."""
    full_env = {**os.environ, **ONE_THREAD, **(env or {})}
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


# Results


def machine() -> dict[str, Any]:
    """Return what a reader must know of the machine and the software."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "usable cores": usable,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "packages": {name: version for name in PACKAGES if (version := _version(name))},
    }


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown"


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def run(one: Benchmark, options: Options) -> dict[str, Any]:
    """Run one benchmark; return its entry in the results.  Raises Skip where it cannot run."""
    started, used = perf_counter(), _cpu_seconds()
    entry: dict[str, Any] = {
        "subject": one.subject,
        "about": one.about,
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "quick": options.quick,
        "clock": os.environ.get(CLOCK, "wall"),
        "machine": machine(),
    }
    entry["rows"] = [asdict(row) for row in one.work(options)]
    elapsed = perf_counter() - started
    entry["seconds"] = round(elapsed, 1)
    entry["cpu share"] = round((_cpu_seconds() - used) / elapsed, 2)  # well below 1 where others used the core too
    return entry


def _cpu_seconds() -> float:
    """Return the processor time of this process and of the workers that have ended."""
    return sum(os.times()[:4])


def load(path: Path) -> dict[str, Any]:
    """Return the results kept so far, by the name of the benchmark."""
    return json.loads(path.read_text(encoding="utf8")) if path.exists() else {}


def save(path: Path, name: str, entry: dict[str, Any]) -> None:
    """Put one entry into the file."""
    results = load(path) | {name: entry}
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf8")
    temporary.replace(path)
