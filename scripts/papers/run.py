"""Run the papers' experiments and write a page that compares published numbers with ours.

    CRFSEQ_DATA=... python scripts/papers/run.py [--only NAME ...] [--quick]
    python scripts/papers/run.py --list
    python scripts/papers/run.py --report

Settings are config files in configs/papers.  Results are kept in a folder, one JSON file per experiment, so that a run
can be done in parts; each part rewrites docs/papers.md and its figures from all results.  Experiments that lack a
corpus or a plug-in are skipped with a message; if none can run, nothing is written and the exit code is 1.  Two run in
parallel, each on one thread.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Annotated

ROOT = Path(__file__).resolve().parents[2]
sys.path[:1] = [str(ROOT)]  # so that this checkout is run, and scripts.papers and bench are packages

import typer  # noqa: E402

from bench._harness import data_folder  # noqa: E402
from scripts.papers import _harness  # noqa: E402

RESULTS = ROOT / "scripts" / "papers" / "results"
PAGE = ROOT / "docs" / "papers.md"
QUICK = ROOT / "output" / "papers"
"""Where a quick run leaves its results and its page."""
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")


def papers(
    only: Annotated[list[str] | None, typer.Option(help="Experiment, or a prefix of names; may be repeated.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Use small parts of the data, to check that everything works.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of splits, shuffles and synthetic data.")] = 0,
    jobs: Annotated[int, typer.Option(min=1, help="Number of experiments in parallel.")] = 2,
    list_: Annotated[bool, typer.Option("--list", help="List the experiments and stop.")] = False,
    report: Annotated[bool, typer.Option("--report", help="Only write the page from the results.")] = False,
    output: Annotated[Path | None, typer.Option(help="Folder of results [scripts/papers/results].")] = None,
    page: Annotated[Path | None, typer.Option(help="Page to write [docs/papers.md].")] = None,
) -> None:
    """Run the papers' experiments and write the page that compares published numbers with ours."""
    _load_all()
    output = output or (QUICK / "results" if quick else RESULTS)
    page = page or (QUICK / "papers.md" if quick else PAGE)
    if list_:
        for one in _harness.REGISTRY.values():
            typer.echo(f"{one.name:20} about {one.minutes:g} min  {one.about}")
        return
    if not report:
        options = _harness.Options(data_folder(), quick, seed)
        if not _run(_chosen(only or []), options, jobs, output):
            typer.echo("Nothing was run, and nothing is written.", err=True)
            raise typer.Exit(1)
    from scripts.papers.page import write

    write(page, _harness.load(output))
    typer.echo(f"Wrote {page}")


def _load_all() -> None:
    for module in _harness.MODULES:
        importlib.import_module(f"scripts.papers.{module}")


def _chosen(names: list[str]) -> list[str]:
    """Return the experiments whose names begin with one of `names`, all if there are none."""
    known = list(_harness.REGISTRY)
    unknown = [name for name in names if not any(one.startswith(name) for one in known)]
    if unknown:
        raise typer.BadParameter(f"No experiment is called {', '.join(unknown)}; there are {', '.join(known)}.")
    return [one for one in known if not names or one.startswith(tuple(names))]


def _run(names: list[str], options: _harness.Options, jobs: int, output: Path) -> bool:
    """Run experiments, the longest first, and save each when it is done; return whether any could run."""
    os.environ.update(ONE_THREAD)  # read by the workers when they import numpy
    names = sorted(names, key=lambda name: -_harness.REGISTRY[name].minutes)
    done = False
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context, max_tasks_per_child=1) as pool:
        futures = {pool.submit(_work, name, options): name for name in names}
        for future in as_completed(futures):
            name = futures[future]
            try:
                entry = future.result()
            except _harness.Skip as reason:
                typer.echo(f"{name} is skipped: {reason}", err=True)
                continue
            _harness.save(output, name, entry)
            typer.echo(f"{name}: {entry['seconds']:.0f} s")
            done = True
    return done


def _work(name: str, options: _harness.Options) -> _harness.Entry:
    """Run an experiment in a worker."""
    _load_all()
    _harness.say(f"{name}: about {_harness.REGISTRY[name].minutes:g} minutes")
    return _harness.run(_harness.REGISTRY[name], options)


if __name__ == "__main__":
    typer.run(papers)
