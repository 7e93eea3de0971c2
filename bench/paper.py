"""Distributed training on paper: time and bytes of an iteration, from the measured constants in the file of results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import ceil, log2
from statistics import median
from typing import Any, NamedTuple

from bench.report import number
from spacy_crfseq.tools.cluster.objective import ROUNDS

TOKENS = tuple(10.0**n for n in range(8, 13))
WORKERS = (10, 100, 1000)
WEIGHTS = tuple(10.0**n for n in range(6, 10))
GBITS = (1, 10, 100)
"""Assumed speeds of networks, in Gbit/s."""
VECTORS = 15
"""Vectors as long as the weights that the driver holds: 9 of the history, two points of two each, two for work."""
SHARD = 2.4e6
"""Tokens of a shard at most, which is 32 MiB of text."""
ITERATIONS, EPOCHS = 100, 10
"""Of L-BFGS, and of AdaGrad, in one training."""
MACHINES = ((16, 64), (64, 512), (128, 2048))
"""Machines for comparison: cores, memory in GB."""
EFFICIENCY = 0.6
"""Assumed speed of a thread among many, relative to one alone."""
BYTES = 4
"""Of a weight."""
MOST = 1e9
"""Weights at most, by a larger `min_count`."""


class Constants(NamedTuple):
    """Measured: seconds and bytes per token; seconds a weight and a task; bytes a second.

    features (dict): By the `min_count`, features of English text, at a number of tokens, and the exponent of growth.
    ratio (float): Weights a feature.
    """

    passes: dict[int, float]
    memory: float
    encoding: float
    epoch: float
    arithmetic: float
    task: float
    rate: float
    features: dict[int, tuple[float, float, float]]
    ratio: float


def constants(results: dict[str, Any]) -> Constants:
    """Read the constants from the results."""
    found = {(name, row["label"]): median(row["ours"]) for name, entry in results.items() for row in entry["rows"]}
    labels = {9: "9 labels", 22: "22 labels, large", 49: "49 labels"}
    features, pairs = {}, []
    for (name, label), value in found.items():
        if name != "vocabulary":
            continue
        text, _, what = label.rpartition(": ")
        if text.startswith("English"):
            features.setdefault(int(text.split()[-1]), {})[what] = value
            features[int(text.split()[-1])]["tokens"] = 1e6 * float(text.split()[1])
        elif what == "weights a feature":
            pairs.append(value)
    return Constants(
        {n: 1e-9 * found["scaling", f"{label}: a pass"] for n, label in labels.items()},
        found["scaling", "22 labels, large: memory"],
        1e-9 * found["scaling", "22 labels, large: encoding of a file"],
        1e-9 * found["scaling", "22 labels, large: an epoch of AdaGrad"],
        1e-9 * found["scaling", "L-BFGS: arithmetic"],
        1e-3 * found["transfers", "a task of many"],
        1e9 * found["transfers", "a vector of 100 MB from worker to worker"],
        {count: (each["tokens"], each["features"], each["exponent"]) for count, each in features.items()},
        median(pairs),
    )


def weights(known: Constants, tokens: float, min_count: int) -> float:
    """Return the weights D of a corpus, if it goes on growing as it does at the end of what was measured."""
    at, features, exponent = known.features[min_count]
    return known.ratio * features * (tokens / at) ** exponent


def usual(known: Constants, tokens: float) -> float:
    """Return the weights of a corpus with a `min_count` of 5, or a larger one that leaves `MOST`."""
    return min(weights(known, tokens, 5), MOST)


def bandwidth(known: Constants, gbits: float) -> float:
    """Return the bytes a second of a link: the network's, or Dask's if it is slower."""
    return min(gbits * 1e9 / 8, known.rate)


def exchange(known: Constants, size: float, workers: float, gbits: float = 10) -> float:
    """Return the seconds in which a vector reaches all workers, and the sum of theirs the driver."""
    return 2 * ceil(log2(workers + 1)) * BYTES * size / bandwidth(known, gbits)


def scheduling(known: Constants, tokens: float, workers: float) -> float:
    """Return the seconds that the scheduler needs for a task of each shard, and for the copies and sums of workers."""
    return (max(workers, tokens / SHARD) + 2 * workers) * known.task


def computing(known: Constants, tokens: float, size: float, workers: float, labels: int = 22) -> float:
    """Return the seconds of a pass of the workers, and of the driver's arithmetic."""
    return tokens / workers * known.passes[labels] + size * known.arithmetic


# Tables


def _markdown(head: list[str], rows: Iterator[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))


def _power(value: float) -> str:
    return f"10^{round(log2(value) / log2(10))}"


def _scaled(value: float, unit: str = "") -> str:
    for size, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{number(value / size)} {prefix}{unit}".strip()
    return f"{number(value)} {unit}".strip()


def _seconds(value: float) -> str:
    for size, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if value >= 2 * size:
            return f"{number(float(f'{value / size:.2g}'))} {unit}"
    return f"{number(float(f'{value:.2g}'))} s" if value >= 1 else f"{1000 * value:.0f} ms"


def table_of_constants(known: Constants) -> str:
    rows = [
        *([f"a pass, {n} labels", f"{1e9 * each:.0f} ns per token"] for n, each in known.passes.items()),
        ["memory of a corpus in L-BFGS, 22 labels", f"{known.memory:.0f} bytes per token"],
        ["reading and encoding a file, 22 labels", f"{1e6 * known.encoding:.2g} us per token"],
        ["an epoch of AdaGrad", f"{1e6 * known.epoch:.2g} us per token"],
        ["the driver's arithmetic for L-BFGS, one thread", f"{1e9 * known.arithmetic:.2g} ns per weight"],
        ["a task of Dask, on the scheduler", f"{1e3 * known.task:.2g} ms"],
        ["a vector from worker to worker, without a network", _scaled(known.rate, "B/s")],
        ["weights for observed pairs, per feature", f"{known.ratio:.2g}"],
    ]
    return _markdown(["constant", "measured"], iter(rows))


def table_of_weights(known: Constants) -> str:
    head = ["tokens", *(f"`min_count` = {count}" for count in known.features), "vector at 5", "driver's memory at 5"]
    return _markdown(head, (_row_of_weights(known, tokens) for tokens in TOKENS))


def _row_of_weights(known: Constants, tokens: float) -> list[str]:
    sizes = [weights(known, tokens, count) for count in known.features]
    return [
        _power(tokens), *map(_scaled, sizes), _scaled(BYTES * sizes[-1], "B"), _scaled(VECTORS * BYTES * sizes[-1], "B")
    ]  # fmt: skip


def table_of_keys(known: Constants) -> str:
    def cell(tokens: float, workers: int) -> str:
        return _scaled(10 * workers * weights(known, tokens / workers, 1) / known.ratio, "B")

    return _markdown(
        ["tokens", *(f"{n:,} workers" for n in WORKERS)],
        ([_power(tokens), *(cell(tokens, workers) for workers in WORKERS)] for tokens in TOKENS),
    )


def table_of_iterations(known: Constants) -> str:
    def cell(tokens: float, workers: int) -> str:
        size = usual(known, tokens)
        work = computing(known, tokens, size, workers)
        rest = exchange(known, size, workers) + scheduling(known, tokens, workers)
        return f"{_seconds(work + rest)} ({100 * rest / (work + rest):.0f} %)"

    def row(tokens: float) -> list[str]:
        size = usual(known, tokens)
        alone = _seconds(tokens * known.passes[22] + size * known.arithmetic)
        return [_power(tokens), _scaled(size), alone, *(cell(tokens, workers) for workers in WORKERS)]

    return _markdown(
        ["tokens", "weights", "one process", *(f"{n:,} workers" for n in WORKERS)], (row(tokens) for tokens in TOKENS)
    )


def table_of_bytes(known: Constants) -> str:
    def row(size: float, workers: int) -> list[str]:
        times = (_seconds(exchange(known, size, workers, gbits)) for gbits in GBITS)
        return [_power(size), f"{workers:,}", _scaled(2 * workers * BYTES * size, "B"), *times]

    return _markdown(
        ["weights", "workers", "moved", *(f"at {gbits} Gbit/s" for gbits in GBITS)],
        (row(size, workers) for size in WEIGHTS for workers in WORKERS),
    )


def table_of_balance(known: Constants) -> str:
    def cell(size: float, workers: int) -> str:
        rest = exchange(known, size, workers) + scheduling(known, 0, workers) + size * known.arithmetic
        return _scaled(rest / known.passes[22])

    return _markdown(
        ["weights", *(f"{n:,} workers" for n in WORKERS)],
        ([_power(size), *(cell(size, workers) for workers in WORKERS)] for size in WEIGHTS),
    )


def table_of_sparse(known: Constants) -> str:
    exponent = known.features[1][2]

    def row(workers: int) -> list[str]:
        own = workers**-exponent
        levels = range(ceil(log2(workers)))
        up = sum(workers / 2**k * (2**k / workers) ** exponent for k in levels)
        down = workers * own
        return [f"{workers:,}", f"{100 * own:.2g} %", f"{2 * workers:,} D", f"{number(down + up)} D"]

    return _markdown(
        ["workers", "weights of a worker", "elements moved, full vectors", "own features only"], map(row, WORKERS)
    )


def table_of_mixing(known: Constants) -> str:
    def row(tokens: float, workers: int) -> list[str]:
        size = usual(known, tokens)
        vectors, tasks = exchange(known, size, workers), scheduling(known, tokens, workers)
        rests = ITERATIONS * (vectors + tasks), EPOCHS * ROUNDS * (1.5 * vectors + tasks)  # two vectors for each one
        exact = ITERATIONS * computing(known, tokens, size, workers) + rests[0]
        mixed = EPOCHS * tokens / workers * known.epoch + rests[1]
        read = tokens / workers * known.encoding
        shares = (f"{100 * rest / all_:.0f} %" for rest, all_ in zip(rests, (exact, mixed), strict=True))
        each = (f"{_seconds(all_)} ({share})" for all_, share in zip((exact, mixed), shares, strict=True))
        return [_power(tokens), f"{workers:,}", _seconds(read), *each]

    return _markdown(
        ["tokens", "workers", "encoding", f"{ITERATIONS} iterations of L-BFGS", f"{EPOCHS} epochs of AdaGrad, mixed"],
        (row(tokens, workers) for tokens in TOKENS[1:] for workers in WORKERS),
    )


def table_of_machines(known: Constants) -> str:
    def row(cores: int, memory: int) -> list[str]:
        tokens = 1e9 * memory / known.memory
        size = usual(known, tokens)
        threads = cores * EFFICIENCY
        iteration = computing(known, tokens, 0, threads) + size * known.arithmetic / threads
        cluster = [
            computing(known, tokens, size, workers)
            + exchange(known, size, workers)
            + scheduling(known, tokens, workers)
            for workers in WORKERS
        ]
        return [f"{cores} cores, {memory} GB", _scaled(tokens), _seconds(iteration), *map(_seconds, cluster)]

    return _markdown(
        ["machine", "tokens that fit", "an iteration there", *(f"{n:,} workers" for n in WORKERS)],
        (row(*machine) for machine in MACHINES),
    )


TABLES: dict[str, Callable[[Constants], str]] = {
    "constants": table_of_constants,
    "weights": table_of_weights,
    "keys": table_of_keys,
    "iterations": table_of_iterations,
    "bytes": table_of_bytes,
    "balance": table_of_balance,
    "sparse": table_of_sparse,
    "mixing": table_of_mixing,
    "machines": table_of_machines,
}


def table(name: str, results: dict[str, Any]) -> str:
    """Return a table of the page, or what has to be measured before."""
    try:
        return TABLES[name](constants(results))
    except KeyError as missing:
        return f"Not reckoned: {missing} has not been measured."
