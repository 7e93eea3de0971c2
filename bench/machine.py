"""The machine's own limits, in the terms of a CRF's inner loops."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench._harness import Measure, Options, Row, benchmark, in_turn, one_thread, seconds

LABELS = (22, 49)
ROWS = 256
"""Rows of the L-shaped products: a shard of tokens that stays in the first cache."""


@benchmark("machine", minutes=0.2)
def machine(options: Options) -> list[Row]:
    """The limits of the machine on one thread: matrix products, memory traffic, random rows of 22 weights,
    look-ups."""
    million = 200_000 if options.quick else 4_000_000
    contenders: dict[str, tuple[str, Measure]] = {
        "sgemm, 1024 x 1024": ("GFLOP/s", _sgemm(1024, 1024, 1024)),
        **{f"sgemm, [{ROWS}, {n}] x [{n}, {n}]": ("GFLOP/s", _sgemm(ROWS, n, n)) for n in LABELS},
        **{f"sgemm, [{n}, {ROWS}] x [{ROWS}, {n}]": ("GFLOP/s", _sgemm(n, ROWS, n)) for n in LABELS},
        "stream triad, 3 arrays of 64 MB": ("GB/s", _triad(1 << 24)),
        "random rows of 22 float32 from 30 MB": ("M rows/s", _gather(million, 340_000)),
        "random rows of 22 float32 from 256 KB": ("M rows/s", _gather(million, 2_900)),
        "look-ups of 64-bit keys, table of 8 MB": ("M keys/s", _lookup(million, 1 << 19)),
    }
    with one_thread():
        measures = {name: measure for name, (_, measure) in contenders.items()}
        figures = in_turn(options.rounds, measures, warm=measures)
    return [Row(name, unit, figures[name], kind="value") for name, (unit, _) in contenders.items()]


def _sgemm(n: int, k: int, m: int) -> Measure:
    rng = np.random.default_rng(0)
    a, b = rng.random((n, k), np.float32), rng.random((k, m), np.float32)
    out = np.empty((n, m), np.float32)
    flops = 2 * n * k * m
    repeat = max(1, int(4e9 / flops))

    def work() -> None:
        for _ in range(repeat):
            np.dot(a, b, out=out)

    return lambda: repeat * flops / seconds(work) / 1e9


def _kernels() -> Any:
    """Compile the loops when they are first needed."""
    from numba import njit

    @njit(fastmath=True)
    def triad(a: NDArray[Any], b: NDArray[Any], c: NDArray[Any]) -> None:
        for i in range(a.shape[0]):
            a[i] = b[i] + np.float32(3) * c[i]

    @njit(fastmath=True)
    def gather(ids: NDArray[Any], table: NDArray[Any], out: NDArray[Any]) -> None:
        for i in range(ids.shape[0]):
            row = table[ids[i]]
            for k in range(22):
                out[k] += row[k]

    @njit
    def fill(keys: NDArray[Any], slots: NDArray[Any]) -> None:
        mask = np.uint64(slots.shape[0] - 1)
        for key in keys:
            place = key & mask
            while slots[place] != 0:
                place = (place + np.uint64(1)) & mask
            slots[place] = key

    @njit
    def find(keys: NDArray[Any], slots: NDArray[Any]) -> int:
        mask = np.uint64(slots.shape[0] - 1)
        total = 0
        for key in keys:
            place = key & mask
            while slots[place] != key:
                place = (place + np.uint64(1)) & mask
            total += place
        return total

    return triad, gather, fill, find


def _triad(size: int) -> Measure:
    triad = _kernels()[0]
    a, b, c = (np.ones(size, np.float32) for _ in range(3))
    return lambda: 3 * a.nbytes / seconds(lambda: triad(a, b, c)) / 1e9


def _gather(count: int, n_rows: int) -> Measure:
    gather = _kernels()[1]
    rng = np.random.default_rng(0)
    table, out = rng.random((n_rows, 22), np.float32), np.zeros(22, np.float32)
    ids = rng.integers(0, n_rows, count).astype(np.int32)
    return lambda: count / seconds(lambda: gather(ids, table, out)) / 1e6


def _lookup(count: int, n_keys: int) -> Measure:
    _, _, fill, find = _kernels()
    rng = np.random.default_rng(0)
    keys = rng.integers(1, 1 << 63, n_keys).astype(np.uint64)
    slots = np.zeros(2 * n_keys, np.uint64)
    fill(keys, slots)
    wanted = keys[rng.integers(0, n_keys, count)]
    return lambda: count / seconds(lambda: find(wanted, slots)) / 1e6
