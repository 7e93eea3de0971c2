"""Run the papers' experiments and write a page that compares published numbers with ours.

    CRFSEQ_DATA=... python scripts/papers/run.py [--only NAME ...] [--quick]
    python scripts/papers/run.py --list
    python scripts/papers/run.py --report

Experiments are entries of experiments.yml, with config files in configs/papers.  Each has a JSON file of results in
scripts/papers/results, so that a run can be done in parts; each part rewrites docs/papers.md and its figures from all
results.  The text of the page, and the expectations with their conditions, are in papers.md.in.  Experiments that lack
a corpus or a plug-in are skipped with a message, and one that fails leaves the others as they are; the exit code is
then 1, and the last line names them.  Two run in parallel, each on one thread.
"""

import sys
from pathlib import Path

sys.path[:1] = [str(Path(__file__).resolve().parents[2])]  # so that this checkout is run

import typer  # noqa: E402

from scripts.kit import Entry, command  # noqa: E402
from scripts.papers._harness import STUDY  # noqa: E402


def summary(name: str, entry: Entry) -> str:
    """Return a line on an experiment."""
    return f"{name}: {entry['seconds']:.0f} s"


if __name__ == "__main__":
    typer.run(command(STUDY, summary, jobs=2))
