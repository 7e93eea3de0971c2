"""Cost of the losses, compared with the log-likelihood."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from bench import corpora, ours
from bench._harness import Options, Row, benchmark, in_turn, one_thread, timed

NAMES = ("SequentialLog", "SequentialExp", "PointwiseLog", "PointwiseExp")
PAIRS = (
    ("PointwiseLog", "SequentialLog", 3.0),
    ("PointwiseExp", "SequentialExp", 3.0),
    ("SequentialExp", "SequentialLog", 1.3),
    ("PointwiseExp", "PointwiseLog", 1.3),
)
"""Losses, what they are compared with, and the most that they may cost of its time."""
ITERATIONS = 15
"""Of L-BFGS on the log-loss before passes are timed: far from zero, and not yet at an optimum."""


@benchmark("losses", "training", minutes=3)
def losses(options: Options) -> list[Row]:
    """One pass of each loss, the objective and its gradient over all training data, at the weights after some
    iterations of L-BFGS on the log-loss; one thread. The data are CoNLL-2000 with CRF++'s template (22 labels,
    weights for all pairs of attribute and label, then for observed pairs) and XPOS tags of UD English EWT (49
    labels)."""
    nlp = ours.blank()
    chunks = corpora.chunks(options, nlp, "train", options.limit(200))
    tags = corpora.xpos(options, nlp, "train", options.limit(200))
    rows = []
    with one_thread():
        rows += _passes(options, "chunks, all", nlp, ours.chunker, chunks.examples, "all")
        rows += _passes(options, "chunks, observed", nlp, ours.chunker, chunks.examples, "observed")
        rows += _passes(options, "XPOS", nlp, ours.tagger, tags.examples, "observed")
    return rows


def _passes(
    options: Options, label: str, nlp: Any, build: Callable[..., Any], examples: Any, support: str
) -> list[Row]:
    """Return the ratios of one task; contenders take turns five times as often, since a pass is short."""
    iterations = 2 if options.quick else ITERATIONS
    pipe = build(nlp, **ours.matched({**ours.LBFGS, "max_iterations": iterations}, support))
    ours.train(pipe, examples)
    contenders = {
        name: timed(partial(objective.value_and_grad, pipe.crf.theta))
        for name, objective in ours.objectives(pipe, examples, NAMES).items()
    }
    figures = in_turn(options.rounds if options.quick else 5 * options.rounds, contenders, warm=contenders)
    rows = [Row(f"{label}: a pass with {NAMES[0]}", "s", figures[NAMES[0]], kind="value")]
    for name, other, target in PAIRS:
        ratios = [a / b for a, b in zip(figures[name], figures[other], strict=True)]
        rows.append(Row(f"{label}: {name} in passes of {other}", "passes", ratios, kind="value", target=target))
    return rows
