"""Cost of the setting `once`, compared with plain tagging."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from bench import corpora, ours
from bench._harness import Measure, Options, Row, benchmark, in_turn, one_thread, seconds


@benchmark("once", minutes=0.6)
def once(options: Options) -> list[Row]:
    """Addresses of usaddress (MIT), every fifth one, tagged by a tagger that has learned from the others. With
    `once = ["*"]`, each of the 29 labels may occur once. Labels are found from sums of weights in the cache, by
    `posterior(docs)`; Docs are tagged by `nlp.pipe`; probabilities are those of all tags. Times are compared with
    those without the setting."""
    nlp = ours.blank()
    examples = corpora.read_examples(nlp, "XMLReader", options.corpus("usaddress", "labeled.xml"))
    with one_thread():
        pipe = ours.add(nlp, "crf_tagger")
        ours.train(pipe, [example for number, example in enumerate(examples) if number % 5])
        docs = ours.copies(examples[::5])
        times = 2 if options.quick else 20
        contenders: dict[str, Measure] = {}
        for name, names in (("plain", []), ("once", ["*"])):
            answers = pipe.posterior(docs, once=names)
            contenders[f"labels, {name}"] = partial(_decode, answers, pipe.method.decoder, times)
            contenders[f"docs, {name}"] = partial(_tag, pipe, names, docs, times // 2)
            contenders[f"marginals, {name}"] = partial(seconds, answers.marginals)
        figures = in_turn(options.rounds, contenders, warm=contenders)
    note = f"{len(docs)} addresses; exact labels of {int(answers.exact.sum())}; repeated labels in {_repeated(answers)}"
    return [
        Row(what, unit, figures[f"{key}, once"], figures[f"{key}, plain"], "plain", "share", target, note)
        for what, key, unit, target, note in (
            ("labels from scores", "labels", "s", 33, note),
            ("tags of Docs", "docs", "s", 33, ""),
            ("probabilities", "marginals", "s", None, f"at most {np.median(answers.missing()):.1%} missing (median)"),
        )
    ]


def _decode(answers: Any, decoder: Any, times: int) -> float:
    return seconds(lambda: [answers.distribution.decode(decoder) for _ in range(times)])


def _tag(pipe: Any, names: list[str], docs: list[Any], times: int) -> float:
    copies = [doc.copy() for _ in range(times) for doc in docs]
    pipe.method = pipe.method._replace(once=names)
    return seconds(lambda: list(pipe.pipe(copies)))


def _repeated(answers: Any) -> int:
    """Return the number of addresses with a label that occurs twice, not counting equal neighbours."""
    runs = [[k for j, k in pairwise([-1, *labels.tolist()]) if j != k] for labels in answers.labels]
    return sum(len(set(run)) < len(run) for run in runs)
