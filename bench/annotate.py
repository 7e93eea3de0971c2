"""Annotation replayed: how many actions and seconds a gold annotator needs with `crfseq annotate` up to a score."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from spacy_crfseq.pipeline.component import CRFComponent
    from spacy_crfseq.schemes import Span
    from spacy_crfseq.tools.annotate.journal import Decision
    from spacy_crfseq.tools.annotate.learning import Learner

READ, DECIDE, ACT = 0.25, 1.0, 2.5
"""Simulated seconds: for a token that is read, a span that is judged, and an action beyond accepting."""
EVERY, SAMPLE = 5, 400
"""Texts between two trainings, and texts that are ranked."""


class Gold(NamedTuple):
    """A text and its spans."""

    words: list[str]
    spans: list[Span]


class How(NamedTuple):
    """A way to annotate.

    order (str): "random", "entropy", or "value", which is entropy for each simulated second.
    predictions (bool): Whether the spans of the model are shown.
    anew (bool): Whether the rest of a text is decoded anew after each correction.
    offers (bool): Whether a span that is offered takes one action, not two.
    doubtful (bool): Whether what is least sure is corrected first, instead of from left to right.
    """

    order: str = "random"
    predictions: bool = True
    anew: bool = False
    offers: bool = False
    doubtful: bool = False


class Point(NamedTuple):
    """How far an annotation has come."""

    texts: int
    actions: int
    seconds: float
    f1: float


def corrections(pipe: CRFComponent | None, learner: Learner, gold: Gold, how: How) -> int:
    """Return the actions that make predictions the gold annotation, and accept it."""
    from spacy_crfseq.tools.annotate.decoding import decode
    from spacy_crfseq.tools.annotate.journal import Pins, Text

    doc, wanted = learner.doc(Text(tuple(gold.words))), set(gold.spans)
    if pipe is None or not how.predictions:
        return 1 + sum(1 if learner.runs else 2 for _ in wanted)
    spans, outside, actions = list[Any](), list[int](), 1
    decoding = decode(pipe, doc, Pins(), runs=learner.runs)
    shown = {span[:3]: span[3] for span in decoding.spans}
    offered = {span[:3] for span in decoding.offers}
    while wrong := sorted((shown.keys() - wanted) | (wanted - shown.keys())):
        if how.doubtful:
            wrong.sort(key=lambda span: abs(shown.get(span, 0.0) - (span not in wanted)), reverse=True)
        done, cost, removed, added = act(wrong[0], shown, wanted, offered if how.offers else set(), learner.plain)
        actions += cost
        for span in removed:
            shown.pop(span)
            outside += range(span[0], span[1])
        for span in added:
            shown[span] = 1.0
            spans.append(span)
            outside = [t for t in outside if not span[0] <= t < span[1]]
        if how.anew:
            if not learner.plain:
                outside = sorted(set(outside))
            decoding = decode(pipe, doc, Pins(tuple(sorted(spans)), tuple(outside)), runs=learner.runs)
            shown = {span[:3]: span[3] for span in decoding.spans}
            offered = {span[:3] for span in decoding.offers}
    return actions


def act(span: Any, shown: Any, wanted: Any, offered: Any, plain: bool) -> tuple[Any, int, list[Any], list[Any]]:
    """Return an action on a wrong or missing span: its target, its cost, spans that go and spans that come."""
    if span in wanted:
        target = span
    else:
        over = [gold for gold in wanted - shown.keys() if gold[0] < span[1] and span[0] < gold[1]]
        if not over:
            return None, 1, [span], []
        target = over[0]
    hit = [other for other in shown if other[0] < target[1] and target[0] < other[1]]
    cost = 1 if plain else 2
    if target in offered:
        cost = 1
    for other in hit:
        moved = (other[0] != target[0]) + (other[1] != target[1]) + (other[2] != target[2])
        cost = min(cost, moved)
    return target, cost, hit, [target]


def replay(
    learner: Learner,
    pool: Sequence[Gold],
    dev: Sequence[Decision],
    labels: Sequence[str],
    how: How,
    goal: float,
    most: int = 400,
    seed: int = 0,
) -> Iterator[Point]:
    """Yield how far an annotation has come, after every training, until the goal or so many texts."""
    import numpy as np

    from spacy_crfseq.tools.annotate.decoding import worth
    from spacy_crfseq.tools.annotate.journal import Decision, Pins, Text
    from spacy_crfseq.tools.annotate.pool import bands

    random, left, seen = Random(seed), list(range(len(pool))), set[int]()
    random.shuffle(left)
    pipe, decisions, actions, seconds, queue = None, list[Decision](), 0, 0.0, list[int]()
    while len(decisions) < most and left:
        for _ in range(EVERY):
            number = None
            while queue and number is None:
                first = queue.pop(0)
                found = bands(learner.doc(Text(tuple(pool[first].words))))
                number = None if found & seen else first
            number = left[-1] if number is None else number
            left.remove(number)
            gold = pool[number]
            seen |= bands(learner.doc(Text(tuple(gold.words))))
            cost = corrections(pipe, learner, gold, how)
            actions += cost
            seconds += READ * len(gold.words) + DECIDE * len(gold.spans) + ACT * (cost - 1)
            decisions.append(Decision("", Text(tuple(gold.words)), Pins(tuple(gold.spans))))
        pipe = learner.train(decisions, labels)
        yield Point(len(decisions), actions, seconds, learner.scored(pipe, dev, labels).f1 or 0.0)
        if how.order != "random":
            numbers = random.sample(left, min(SAMPLE, len(left)))
            docs = [learner.doc(Text(tuple(pool[n].words))) for n in numbers]
            found = worth(pipe, docs)
            value = VALUES[how.order](found)
            queue = [numbers[i] for i in np.argsort(-value, kind="stable").tolist()][:40]


VALUES: dict[str, Callable[[Any], Any]] = {
    "entropy": lambda w: w.entropy,
    "value": lambda w: w.entropy / (READ * w.tokens + DECIDE * w.spans + ACT * (w.wrong + 2 * w.missed)),
    "action": lambda w: w.entropy / (1 + w.wrong + 2 * w.missed),
    "action2": lambda w: w.entropy / (2 + w.wrong + 2 * w.missed),
    "token": lambda w: w.entropy / w.tokens,
    "sqrt": lambda w: w.entropy / w.tokens**0.5,
    "actsqrt": lambda w: w.entropy / (1 + w.wrong + 2 * w.missed) ** 0.5,
}
