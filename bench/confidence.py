"""Cost of scores and alternatives, compared with plain tagging."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from bench import corpora, ours
from bench._harness import Options, Row, benchmark, in_turn, one_thread, say, seconds
from bench.corpora import Task

if TYPE_CHECKING:
    from spacy.tokens import Doc

BATCH = 128
"""Docs at a time, as many as `pipe` takes."""
ALTERNATIVES = 10


@benchmark("confidence", minutes=0.6)
def confidence(options: Options) -> list[Row]:
    """Docs of the test parts of UD English EWT, CoNLL-2000 and CoNLL-2002 (Spanish), tagged on one thread in three
    ways. The first is plain tagging. The second, `scores = true`, stores the exact probability of every tag or
    span. The third, `pipe.posterior(docs).nbest(10)`, computes the ten most probable labellings of every Doc with
    their probabilities. Times are from Docs, including features, as shares of the speed of plain tagging."""
    with one_thread():
        return [
            *_against_plain(options, "crf_tagger", corpora.xpos, "test", ours.tagger),
            *_against_plain(options, "crf_chunker", corpora.chunks, "test", ours.chunker),
            *_against_plain(options, "crf_ner", corpora.entities, "testb", _recognizer),
        ]


def _recognizer(nlp: Any, **config: Any) -> Any:
    return ours.add(nlp, "crf_ner", **config)


def _against_plain(
    options: Options, factory: str, read: Callable[..., Task], test_part: str, make: Callable[..., Any]
) -> list[Row]:
    nlp = ours.blank()
    train, test = (read(options, nlp, part, options.few(200)) for part in ("train", test_part))
    say(f"    training {factory}")
    pipe = make(nlp, optimizer=ours.default_optimizer(factory, 3))
    ours.train(pipe, train.examples)
    passes = 1 if options.quick else 3

    def rate(work: Callable[[list[Doc]], None]) -> float:
        docs = [doc for _ in range(passes) for doc in ours.copies(test.examples)]  # a second time, entities are decided
        return sum(len(doc) for doc in docs) / seconds(lambda: work(docs))

    works = {
        "plain": partial(_tag, pipe, False),
        "scores": partial(_tag, pipe, True),
        "alternatives": partial(_alternatives, pipe),
    }
    contenders = {name: partial(rate, work) for name, work in works.items()}
    figures = in_turn(options.rounds, contenders, warm=contenders)
    what, against = f"{factory}, {len(pipe.tags)} labels", "without"
    return [
        Row(f"{what}, with scores", "tokens/s", figures["scores"], figures["plain"], against, "share", 50),
        Row(
            f"{what}, {ALTERNATIVES} best labellings",
            "tokens/s", figures["alternatives"], figures["plain"], "plain tagging", "share", 20,
        ),
    ]  # fmt: skip


def _tag(pipe: Any, scores: bool, docs: list[Doc]) -> None:
    pipe.cfg["scores"] = scores
    for _ in pipe.pipe(docs, batch_size=BATCH):
        pass


def _alternatives(pipe: Any, docs: list[Doc]) -> None:
    for first in range(0, len(docs), BATCH):
        pipe.posterior(docs[first : first + BATCH]).nbest(ALTERNATIVES)
