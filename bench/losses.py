"""Cost of the losses, compared with the log-likelihood."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from bench import corpora, ours
from bench._harness import Options, Row, benchmark, in_turn, one_thread, scratch, timed

NAMES = ("SequentialLog", "SequentialExp", "PointwiseLog", "PointwiseExp")
PAIRS = (
    ("PointwiseLog", "SequentialLog", 3.0),
    ("PointwiseExp", "SequentialExp", 3.0),
    ("SequentialExp", "SequentialLog", 1.3),
    ("PointwiseExp", "PointwiseLog", 1.3),
)
"""Losses, what they are compared with, and the most that they may cost of its time."""
UNLABELLED = ("Entropy", "Expectation", "GeneralizedExpectation")
MOST = 3.0
"""The most that losses on texts without labels may cost, in passes of the log-loss."""
ITERATIONS = 15
"""Of L-BFGS on the log-loss before passes are timed: far from zero, and not yet at an optimum."""


@benchmark("losses", minutes=1.5)
def losses(options: Options) -> list[Row]:
    """One pass of each loss, the objective and its gradient over all training data, at the weights after some
    iterations of L-BFGS on the log-loss; one thread. The data are CoNLL-2000 with CRF++'s template (22 labels,
    weights for all pairs of attribute and label, then for observed pairs) and XPOS tags of UD English EWT (49
    labels)."""
    nlp = ours.blank()
    chunks = corpora.chunks(options, nlp, "train", options.few(200))
    tags = corpora.xpos(options, nlp, "train", options.few(200))
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
    figures = in_turn(options.rounds if options.quick else 3 * options.rounds, contenders, warm=contenders)
    rows = [Row(f"{label}: a pass with {NAMES[0]}", "s", figures[NAMES[0]], kind="value")]
    for name, other, target in PAIRS:
        ratios = [a / b for a, b in zip(figures[name], figures[other], strict=True)]
        rows.append(Row(f"{label}: {name} in passes of {other}", "passes", ratios, kind="value", target=target))
    return rows


@benchmark("unlabelled", minutes=1)
def unlabelled(options: Options) -> list[Row]:
    """One pass of each loss on texts without labels, as above, in passes of the log-loss on the same sentences; one
    thread. The data are the Spanish sentences of CoNLL-2002 with 17 labels (entities, BILUO) and with 45 (the most
    frequent of its tags). Shares are known of two labels; labelled features are the 50 most frequent words."""
    nlp = ours.blank("es")
    rows = []
    with one_thread():
        examples = corpora.entities(options, nlp, "train", options.few(200)).examples
        pipe = ours.add(nlp, "crf_ner", optimizer=_optimizer(options))
        rows += _unlabelled(options, "17 labels", pipe, examples, "BILUO", ("PER", "O"))
        examples = corpora.frequent_tags(options, nlp, "train", 45, options.few(200)).examples
        pipe = ours.tagger(nlp, optimizer=_optimizer(options))
        rows += _unlabelled(options, "45 labels", pipe, examples, None, ("NC", "SP"))
    return rows


def _optimizer(options: Options) -> dict[str, Any]:
    return {**ours.LBFGS, "max_iterations": 2 if options.quick else ITERATIONS}


def _unlabelled(
    options: Options, label: str, pipe: Any, examples: Any, scheme: str | None, names: tuple[str, str]
) -> list[Row]:
    ours.train(pipe, examples)
    docs = [example.predicted for example in examples]
    words = Counter(token.lower_ for doc in docs for token in doc if token.is_alpha)
    with scratch() as folder:
        path = folder / "features.tsv"
        path.write_text("".join(f"{word}\t{names[0]}=0.1\n" for word, _ in words.most_common(50)), encoding="utf8")
        settings = {"Expectation": {"proportions": dict.fromkeys(names, 0.2)}, "GeneralizedExpectation": {"path": path}}
        objectives = ours.unlabelled(
            pipe, examples, docs, scheme, {name: settings.get(name, {}) for name in UNLABELLED}
        )
    contenders = {
        name: timed(partial(objective.value_and_grad, pipe.crf.theta)) for name, objective in objectives.items()
    }
    figures = in_turn(options.rounds if options.quick else 3 * options.rounds, contenders, warm=contenders)
    rows = [Row(f"{label}: a pass with {NAMES[0]}", "s", figures[NAMES[0]], kind="value")]
    for name in UNLABELLED:
        ratios = [a / b for a, b in zip(figures[name], figures[NAMES[0]], strict=True)]
        rows.append(Row(f"{label}: {name} in passes of {NAMES[0]}", "passes", ratios, kind="value", target=MOST))
    return rows
