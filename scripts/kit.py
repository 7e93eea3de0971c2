"""A kit for figures that a command makes: registered runs, their results as data files, and pages made of these.

A `Study` is a set of runs: functions that measure something and return rows, dictionaries of plain numbers and texts.
Each run has a JSON file of its own in the folder of results.  A page is a template whose markers, such as
``<!-- table: machine -->``, are filled from these files, so that it can be written again without running anything.

Nothing here imports numpy or spaCy, so that workers that measure memory or start-up begin empty.
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import platform
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from dataclasses import KW_ONLY, asdict, dataclass, field
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any, TypeAlias

import typer

ROOT = Path(__file__).resolve().parents[1]
CLOCK = "CRFSEQ_BENCH_CLOCK"
"""Environment variable that sets the clock for a run and its workers: "wall" or "cpu"."""
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "RAYON_NUM_THREADS"), "1"
)
PACKAGES = (
    "spacy-crfseq", "spacy", "thinc", "numpy", "numba", "scipy",
    "python-crfsuite", "sklearn-crfsuite", "crfs", "underthesea_core", "usaddress", "fastaddress",
    "torch", "pytorch-crf", "torch-struct", "hmmlearn",
)  # fmt: skip
NOT_RUN = "Not run yet."
_MARKER = re.compile(r"<!-- (\w+): ([\w-]+) -->")

Row: TypeAlias = dict[str, Any]
Entry: TypeAlias = dict[str, Any]
"""The file of a run: its rows, and how they were made."""
Results: TypeAlias = dict[str, Entry]


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


def say(text: str) -> None:
    """Show progress on a terminal; say nothing into a pipe."""
    if sys.stderr.isatty():
        print(text, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Options:
    """Settings of a run.

    data (Path | None): Folder of the corpora.
    quick (bool): Small parts of the data and few iterations: shows that everything works, figures mean nothing.
    seed (int): Of splits, shuffles and synthetic data.
    rounds (int): How often contenders take turns.
    threads (int): Threads to compare with one.
    """

    data: Path | None
    _: KW_ONLY
    quick: bool = False
    seed: int = 0
    rounds: int = 3
    threads: int = 2

    def corpus(self, *parts: str) -> Path:
        """Return a file of the corpora.  Raises Skip where it is missing."""
        return corpus_file(self.data, "/".join(parts))

    def few(self, quick: int, full: int = 0) -> int:
        """Return the number of things to use, such as sentences."""
        return quick if self.quick else full


Work: TypeAlias = Callable[[Options], Sequence[Any]]


@dataclass(frozen=True)
class Run:
    """A function that returns rows, or dataclasses that become rows.

    about (str): A sentence for lists and pages.
    minutes (float): About how long it takes.
    """

    name: str
    about: str
    minutes: float
    work: Work


@dataclass(frozen=True)
class Study:
    """A set of runs, their results and their pages.

    modules: Those that register the runs.
    folder: Of results, one file each.
    write: Writes the pages of some results to a folder.
    pages: The names of the runs of a page.
    """

    modules: Sequence[str]
    folder: Path
    write: Callable[[Results, Path], None]
    pages: Mapping[str, Sequence[str]] = field(default_factory=dict)
    runs: dict[str, Run] = field(default_factory=dict)

    def run(self, name: str, about: str = "", minutes: float = 1.0) -> Callable[[Work], Work]:
        """Register a function as a run; without `about`, its docstring says what it measures."""

        def register(work: Work) -> Work:
            self.runs[name] = Run(name, about or " ".join((work.__doc__ or "").split()), minutes, work)
            return work

        return register

    def load(self) -> dict[str, Run]:
        """Import the modules; return the runs by name."""
        for module in self.modules:
            importlib.import_module(module)
        return self.runs

    def named(self, name: str) -> list[str]:
        """Return the run of a name, or those of a page, or those whose names begin with the name and a hyphen."""
        of_page = [run for run in self.pages.get(name, ()) if run in self.runs]
        return [name] if name in self.runs else of_page or [run for run in self.runs if run.startswith(f"{name}-")]


def execute(run: Run, options: Options) -> Entry:
    """Execute a run; return its entry in the results.  Raises Skip where it cannot run."""
    started, used = perf_counter(), _processor_seconds()
    entry: Entry = {
        "about": run.about,
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "quick": options.quick,
        "seed": options.seed,
        "clock": os.environ.get(CLOCK, "wall"),
        "machine": machine(),
    }
    entry["rows"] = [row if isinstance(row, dict) else asdict(row) for row in run.work(options)]
    entry["seconds"] = round(perf_counter() - started, 1)
    entry["processor seconds"] = round(_processor_seconds() - used, 1)
    return entry


def _processor_seconds() -> float:
    """Return the processor time of this process and of its children that have ended."""
    return sum(os.times()[:4])


# Results


def load(folder: Path) -> Results:
    """Return the results kept in a folder, by the names of runs."""
    return {path.stem: json.loads(path.read_text(encoding="utf8")) for path in sorted(folder.glob("*.json"))}


def save(folder: Path, name: str, entry: Mapping[str, Any]) -> None:
    """Write the results of a run."""
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / f"{name}.tmp"
    temporary.write_text(json.dumps(entry, indent=1, ensure_ascii=False) + "\n", encoding="utf8")
    temporary.replace(folder / f"{name}.json")


def machine() -> dict[str, Any]:
    """Return a description of the machine and the software."""
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


# Pages


def fill(template: str, kinds: Mapping[str, Callable[[str], str]]) -> str:
    """Return a page: a marker ``<!-- KIND: NAME -->`` becomes what the function of its kind makes of the name.

    RAISES KeyError: If there is no such kind.
    """
    return _MARKER.sub(lambda match: kinds[match[1]](match[2]), template)


def table(head: Sequence[str], rows: Iterable[Sequence[str]], align: str = "") -> str:
    """Return a Markdown table; short rows are filled up.

    align (str): "r" for each column whose cells stand at the right, any other letter for the left.
    RAISES ValueError: If a row is longer than the head.
    """
    rules = ["---:" if side == "r" else "---" for side in align.ljust(len(head), "l")]
    lines = [list(head), rules]
    for row in rows:
        if len(row) > len(head):
            raise ValueError(f"{len(row)} cells under {len(head)} headers: {row}")
        lines.append([*row, *[""] * (len(head) - len(row))])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) if lines[2:] else NOT_RUN


def machines(results: Results) -> str:
    """Return a table with a line for each machine and set of packages that figures come from."""
    groups: dict[str, list[str]] = {}
    for name, entry in results.items():
        described = _described(entry["machine"], entry.get("clock", "wall"))
        groups.setdefault(described, []).append(f"{name} ({entry['date'][:10]})")
    return table(["machine and versions", "runs"], [[text, ", ".join(names)] for text, names in groups.items()])


def _described(machine: Mapping[str, Any], clock: str) -> str:
    packages = ", ".join(f"{name} {version}" for name, version in machine["packages"].items())
    text = f"{machine['cpu']}, {machine['cores']} cores, {machine['system']}, Python {machine['python']}, {packages}"
    return text if clock == "wall" else f"{text}; processor time, not wall time"


# The command


def command(study: Study, summary: Callable[[str, Entry], str], jobs: int = 1) -> Callable[..., None]:
    """Return the command of a study.

    summary: Returns a few lines on a run and its entry, for the terminal.
    jobs: Default of the number of runs in parallel.
    """

    def main(
        only: Annotated[list[str] | None, typer.Option(help="Run, page, or begin of names; may be repeated.")] = None,
        quick: Annotated[bool, typer.Option("--quick", help="Use small parts of the data.")] = False,
        seed: Annotated[int, typer.Option(help="Seed of splits, shuffles and synthetic data.")] = 0,
        rounds: Annotated[int, typer.Option(help="Number of turns of contenders.")] = 3,
        threads: Annotated[int, typer.Option(help="Number of threads to compare with one.")] = 2,
        clock: Annotated[str, typer.Option(help="wall, or cpu on a machine that others use.")] = "wall",
        jobs: Annotated[int, typer.Option(min=1, help="Number of runs in parallel.")] = jobs,
        list_: Annotated[bool, typer.Option("--list", help="List the runs and stop.")] = False,
        report: Annotated[bool, typer.Option("--report", help="Only write the pages from the results.")] = False,
        output: Annotated[Path | None, typer.Option(help="Folder of results.")] = None,
        pages: Annotated[Path | None, typer.Option(help="Folder of the pages [docs].")] = None,
    ) -> None:
        os.environ.update({**ONE_THREAD, CLOCK: clock})  # before anything imports numpy
        study.load()
        if list_:
            for run in _chosen(study, only or [], by_length=False):
                typer.echo(f"{run.name:20} about {run.minutes:g} min  {run.about}")
            return
        elsewhere = ROOT / "output" / study.folder.relative_to(ROOT) if quick else study.folder
        output, left = output or elsewhere, dict[str, str]()
        if not report:
            options = Options(data_folder(), quick=quick, seed=seed, rounds=rounds, threads=threads)
            runs = _chosen(study, only or [])
            left = execute_all(runs, options, jobs, output, summary)
            if len(left) == len(runs):
                typer.echo("Nothing was run, and nothing is written.", err=True)
                raise typer.Exit(1)
        pages = pages or (ROOT / "docs" if output == study.folder else output / "pages")
        study.write(load(output), pages)
        typer.echo(f"Wrote {pages}")
        if left:
            typer.echo(f"Without results: {', '.join(f'{name} ({why})' for name, why in left.items())}", err=True)
            raise typer.Exit(1)

    return main


def _chosen(study: Study, names: Sequence[str], by_length: bool = True) -> list[Run]:
    """Return the runs of these names, all if there are none, the longest first or in the order of the study."""
    if unknown := [name for name in names if not study.named(name)]:
        raise typer.BadParameter(f"No run is called {', '.join(unknown)}; there are {', '.join(study.runs)}.")
    chosen = {run for name in names for run in study.named(name)} or set(study.runs)
    runs = [run for name, run in study.runs.items() if name in chosen]
    return sorted(runs, key=lambda run: -run.minutes) if by_length else runs


def execute_all(
    runs: Sequence[Run], options: Options, jobs: int, output: Path, summary: Callable[[str, Entry], str]
) -> dict[str, str]:
    """Execute runs, each in a process of its own, and save each when it is done; return which have no result, and why.

    One that fails, or whose process dies, leaves the others as they are.
    """
    left = dict[str, str]()
    with ThreadPoolExecutor(jobs) as threads:
        futures = {threads.submit(_in_process, run, options): run.name for run in runs}
        for future in as_completed(futures):
            name = futures[future]
            try:
                entry = future.result()
                save(output, name, entry)
                typer.echo(summary(name, entry))
            except Skip as reason:
                typer.echo(f"{name} is skipped: {reason}", err=True)
                left[name] = "skipped"
            except Exception as error:
                typer.echo(f"{name} has failed:\n{''.join(traceback.format_exception(error))}", err=True)
                left[name] = f"failed: {type(error).__name__}"
    return left


def _in_process(run: Run, options: Options) -> Entry:
    """Execute a run in a new process, and wait for it."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_work, run, options).result()


def _work(run: Run, options: Options) -> Entry:
    """Execute a run in a worker."""
    say(f"{run.name}: about {run.minutes:g} minutes")
    return execute(run, options)
