"""From files to a scored chunker: ``crfseq fit`` with SGD against sklearn-crfsuite, in turn, whole processes.

    CRFSEQ_DATA=... python bench/chunking.py [--rounds 3] [--iterations N]

Both read CoNLL-2000, use the 19 attributes a token of CRF++'s template, train on one thread and are scored on the test
part by the same function.  sklearn-crfsuite runs L-BFGS with c2 = 1 until it converges; its time begins with files and
ends with predictions.  Ours is the whole command: importing spaCy, reading, four epochs, scoring, writing two models;
kernels are compiled before the clock starts.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

EPOCHS = 4
ROOT = Path(__file__).resolve().parent.parent
THREADS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")


def run(command: list[str]) -> tuple[float, str]:
    """Return the wall time of a command and what it printed."""
    started = perf_counter()
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **THREADS}, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}\n{done.stderr}")
    return perf_counter() - started, done.stdout


def ours(data: Path, out: Path) -> tuple[float, float]:
    """Return seconds of ``crfseq fit`` and the F1 of its last model."""
    command = [sys.executable, "-m", "spacy", "crfseq", "fit", "configs/chunk_conll2000.cfg", "--output", str(out)]
    command += ["--paths.train", str(data / "train.txt"), "--paths.dev", str(data / "test.txt")]
    command += ["--components.crf_chunker.optimizer.@crf_optimizers", "spacy_crfseq.SGD.v1"]
    command += ["--components.crf_chunker.optimizer.max_iterations", str(EPOCHS)]
    seconds, _ = run(command)
    score = [sys.executable, "-m", "spacy", "crfseq", "evaluate", str(out / "model-last"), str(data / "test.txt")]
    run([*score, "--format", "conll2000", "--output", str(out / "metrics.json")])
    return seconds, json.loads((out / "metrics.json").read_text())["spans_chunks_f"]


def peer(data: Path, iterations: int) -> tuple[float, float]:
    """Return seconds of sklearn-crfsuite from files to predictions, and its F1."""
    seconds, printed = run([sys.executable, __file__, "--peer", str(data), "--iterations", str(iterations)])
    return seconds, float(printed.split()[-1])


def peer_process(data: Path, iterations: int) -> None:
    """Train and predict with sklearn-crfsuite, print the F1."""
    import sklearn_crfsuite

    train, test = read(data / "train.txt"), read(data / "test.txt")
    crf = sklearn_crfsuite.CRF(algorithm="lbfgs", c1=0.0, c2=1.0, max_iterations=iterations or None)
    crf.fit([features(s) for s in train], [[token[2] for token in s] for s in train])
    predicted = crf.predict([features(s) for s in test])
    from spacy_crfseq.schemes import decode_lenient

    pairs = [
        (set(decode_lenient([token[2] for token in s])), set(decode_lenient(p)))
        for s, p in zip(test, predicted, strict=True)
    ]
    hits = sum(len(g & p) for g, p in pairs)
    print(2 * hits / sum(len(g) + len(p) for g, p in pairs))


def read(path: Path) -> list[list[list[str]]]:
    """Return the sentences of a column file."""
    blocks = path.read_text(encoding="utf8").split("\n\n")
    return [[line.split() for line in block.splitlines()] for block in blocks if block.strip()]


def features(sentence: list[list[str]]) -> list[dict[str, str]]:
    """Return the attributes of CRF++'s chunking template as one dictionary a token."""
    n = len(sentence)

    def at(column: int, i: int) -> str:
        return sentence[i][column] if 0 <= i < n else f"_B{i if i < 0 else i - n + 1:+d}"

    rows = []
    for i in range(n):
        row = {f"w{d}": at(0, i + d) for d in (-2, -1, 0, 1, 2)}
        row |= {f"ww{d}": at(0, i + d) + "|" + at(0, i + d + 1) for d in (-1, 0)}
        row |= {f"p{d}": at(1, i + d) for d in (-2, -1, 0, 1, 2)}
        row |= {f"pp{d}": at(1, i + d) + "|" + at(1, i + d + 1) for d in (-2, -1, 0, 1)}
        row |= {f"ppp{d}": "|".join(at(1, i + d + k) for k in (0, 1, 2)) for d in (-2, -1, 0)}
        rows.append(row)
    return rows


def main() -> None:
    """Run the rounds and print the median ratio."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--iterations", type=int, default=0, help="bound on sklearn-crfsuite's iterations, 0 for none")
    parser.add_argument("--peer", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer:
        peer_process(options.peer, options.iterations)
        return
    if "CRFSEQ_DATA" not in os.environ:
        sys.exit("Set CRFSEQ_DATA to a folder that holds conll2000/train.txt and test.txt.")
    data = Path(os.environ["CRFSEQ_DATA"]) / "conll2000"
    out = Path(tempfile.mkdtemp())
    ours(data, out)
    ratios = []
    for number in range(options.rounds):
        mine, my_f1 = ours(data, out)
        theirs, their_f1 = peer(data, options.iterations)
        ratios.append(theirs / mine)
        print(
            f"round {number + 1}: crfseq fit {mine:.1f} s, F1 {100 * my_f1:.2f}; "
            f"sklearn-crfsuite {theirs:.1f} s, F1 {100 * their_f1:.2f}; {ratios[-1]:.1f} times",
            flush=True,
        )
    print(f"median: {statistics.median(ratios):.1f} times faster")
    shutil.rmtree(out)


if __name__ == "__main__":
    main()
