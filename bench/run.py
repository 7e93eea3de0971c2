"""One command for all benchmarks: us, the peers and the machine's limits, in turn, in one run.

    CRFSEQ_DATA=... python bench/run.py [--only NAME ...] [--rounds 3] [--quick]
    python bench/run.py --list
    python bench/run.py --report

A JSON file keeps the results, one entry per benchmark, so that a run can be done in parts.  Each part rewrites
the pages of docs/ from all results.  A benchmark whose corpus, peer or binary is missing is skipped with a message; if
none can run, nothing is written and the exit code is 1.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:1] = [str(ROOT)]  # so that this checkout is measured, and `bench` is a package

from bench import _harness  # noqa: E402

MODULES = (
    "machine",
    "lattice",
    "losses",
    "training",
    "tagging",
    "confidence",
    "occurrences",
    "token_functions",
    "tokenizer",
    "estimator",
    "documents",
    "memory",
    "startup",
    "stages",
    "vocabulary",
    "scaling",
    "cluster",
    "annotate",
)
PAGES = ("performance", "scaling", "annotate")
"""Pages of docs/ that are made of the results, and of a text in bench/."""


def main(arguments: list[str] | None = None) -> None:
    """Parse the command line and do what it asks."""
    options = _parser().parse_args(arguments)
    if options.worker:
        _work(*options.worker)
        return
    os.environ.update({**_harness.ONE_THREAD, _harness.CLOCK: options.clock})  # before numpy is imported
    for module in MODULES:
        importlib.import_module(f"bench.{module}")
    if options.list:
        _list()
    elif options.report:
        _report(options)
    else:
        _run(options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", metavar="NAME", default=[], help="benchmarks to run; all if not given")
    parser.add_argument("--rounds", type=int, default=3, help="how often contenders take turns [3]")
    parser.add_argument("--threads", type=int, default=2, help="threads to compare with one [2]")
    parser.add_argument("--quick", action="store_true", help="small parts of the data: to see that everything works")
    parser.add_argument(
        "--clock", choices=["wall", "cpu"], default="wall", help="cpu on a machine that others use [wall]"
    )
    parser.add_argument("--list", action="store_true", help="list the benchmarks and stop")
    parser.add_argument("--report", action="store_true", help="only write the report from the results")
    parser.add_argument("--output", type=Path, default=ROOT / "bench" / "results.json", help="file of results")
    parser.add_argument("--pages", type=Path, help="folder of the report [docs; none if --output or --quick is given]")
    parser.add_argument("--worker", nargs=2, metavar=("WORK", "ARGUMENTS"), help=argparse.SUPPRESS)
    return parser


def _work(work: str, arguments: str) -> None:
    module, _, function = work.partition(":")
    print(json.dumps(getattr(importlib.import_module(f"bench.{module}"), function)(*json.loads(arguments))))


def _list() -> None:
    for one in _harness.REGISTRY.values():
        print(f"{one.name:16} {one.subject:10} about {one.minutes:g} min\n    {one.about}")


def _chosen(names: list[str]) -> list[_harness.Benchmark]:
    unknown = [name for name in names if name not in _harness.REGISTRY]
    if unknown:
        sys.exit(f"No benchmark is called {', '.join(unknown)}; there are {', '.join(_harness.REGISTRY)}.")
    return [one for name, one in _harness.REGISTRY.items() if not names or name in names]


def _run(options: argparse.Namespace) -> None:
    from bench import report

    if options.quick and options.output == _parser().get_default("output"):
        options.output = options.output.with_name("quick.json")  # these figures are not to be kept
    settings = _harness.Options(_harness.data_folder(), options.rounds, options.threads, options.quick)
    done = False
    for one in _chosen(options.only):
        _harness.say(f"{one.name}: about {one.minutes:g} minutes")
        try:
            entry = _harness.run(one, settings)
        except _harness.Skip as reason:
            print(f"{one.name} is skipped: {reason}", file=sys.stderr, flush=True)
            continue
        _harness.save(options.output, one.name, entry)
        print(report.summary(one.name, entry), flush=True)
        done = True
    if not done:
        sys.exit("Nothing was run, and nothing is written.")
    if not options.quick:
        _report(options)


def _report(options: argparse.Namespace) -> None:
    from bench import report

    default = options.output == _parser().get_default("output")
    folder = options.pages or (ROOT / "docs" if default else None)
    results = _harness.load(options.output)
    for name in PAGES if folder else ():
        text = (ROOT / "bench" / f"{name}.md.in").read_text(encoding="utf8")
        (folder / f"{name}.md").write_text(report.render(text, results), encoding="utf8")


if __name__ == "__main__":
    main()
