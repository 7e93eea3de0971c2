"""Forward-backward alone, against the machine's own matrix products."""

from __future__ import annotations

import numpy as np

from bench import corpora
from bench._harness import Measure, Options, Row, benchmark, in_turn, one_thread, seconds
from bench.machine import LABELS, ROWS
from spacy_crfseq.losses.sequential_log import SequentialLog
from spacy_crfseq.types import Batch, Scores

SHARD = 1 << 18
"""Numbers of one array of scores, about as many as training holds at a time."""


@benchmark("forward-backward", minutes=0.1)
def forward_backward(options: Options) -> list[Row]:
    """The log-loss with its gradient on random scores with the sentence lengths of CoNLL-2000, compared with BLAS
    computing only the three products of T x L x L that it contains; float32, one thread."""
    sentences = corpora.read_columns(options.corpus("conll2000", "train.txt"), 4000)
    lengths = np.array([len(sentence.words) for sentence in sentences])
    contenders: dict[str, Measure] = {}
    for n in LABELS:
        ends = np.cumsum(lengths)
        offsets = np.concatenate([[0], ends[ends <= SHARD // n]]).astype(np.int64)
        contenders[f"ours, {n} labels"] = _ours(offsets, n, 2 if options.quick else 40)
        contenders[f"sgemm, {n} labels"] = _products(int(offsets[-1]), n, 2 if options.quick else 40)
    with one_thread():
        figures = in_turn(options.rounds, contenders, warm=contenders)
    return [
        Row(
            f"log-loss and gradient, {n} labels",
            "ns/token",
            figures[f"ours, {n} labels"],
            figures[f"sgemm, {n} labels"],
            "sgemm on the same flops",
            "share",
            75,
        )
        for n in LABELS
    ]


def _ours(offsets: np.ndarray, n: int, repeat: int) -> Measure:
    rng = np.random.default_rng(0)
    length = int(offsets[-1])
    shapes = (length, n), (1, n, n), (n,), (n,)
    scores = Scores(*(rng.standard_normal(shape).astype(np.float32) for shape in shapes))
    gold = rng.integers(0, n, length).astype(np.int32)
    batch = Batch(offsets, gold, np.ones(len(offsets) - 1))
    grad, loss = scores.zeros_like(), SequentialLog()

    def work() -> None:
        for _ in range(repeat):
            loss(scores, batch, grad)

    return lambda: seconds(work) / (repeat * length) * 1e9


def _products(length: int, n: int, repeat: int) -> Measure:
    """Return a contender that multiplies as forward-backward must: alpha, beta and the expected transitions."""
    rng = np.random.default_rng(0)
    blocks = length // ROWS
    x, y, square = (rng.random(shape, np.float32) for shape in ((ROWS, n), (ROWS, n), (n, n)))
    tall, counts = np.empty((ROWS, n), np.float32), np.empty((n, n), np.float32)
    turned = np.ascontiguousarray(x.T)

    def work() -> None:
        for _ in range(repeat * blocks):
            np.dot(x, square, out=tall)
            np.dot(y, square, out=tall)
            np.dot(turned, y, out=counts)

    return lambda: seconds(work) / (repeat * blocks * ROWS) * 1e9
