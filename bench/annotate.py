"""Annotation replayed: how many actions and seconds a gold annotator needs with `crfseq annotate` up to a score."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import groupby, islice
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from bench._harness import Options, Row, benchmark, say

if TYPE_CHECKING:
    from spacy_crfseq.pipeline.component import CRFComponent
    from spacy_crfseq.schemes import TagSpan
    from spacy_crfseq.tools.annotate.journal import Decision
    from spacy_crfseq.tools.annotate.learning import Learner

TIME = (0.0, 0.25, 1.0, 2.5)
"""Simulated seconds for a text, a token that is read, a span that is judged, and an action."""
ACTIONS = (0.0, 0.0, 0.0, 1.0)
"""The same of somebody for whom only actions count."""
EVERY, SAMPLE, MOST = 5, 400, 400
"""Texts between two trainings, texts that are ranked, and texts at most."""


class Gold(NamedTuple):
    """A text and its spans."""

    words: list[str]
    spans: list[TagSpan]


class How(NamedTuple):
    """A way to annotate.

    order (tuple | None): The seconds of `value_for_time`, () for the entropy alone, None for random texts.
    predictions, anew, offers: Whether spans of the model are shown; the rest of a text is predicted again after each
        correction; a span that is offered takes one action, not two.
    """

    order: tuple[float, ...] | None = None
    predictions: bool = True
    anew: bool = False
    offers: bool = False


class Point(NamedTuple):
    """How far an annotation has come."""

    texts: int
    actions: int
    seconds: float
    f1: float


UNASSISTED = How(None, predictions=False)
WAYS = {
    "unassisted, random texts": UNASSISTED,
    "predictions, random texts": How(None),
    "predictions, entropy": How(()),
    "annotate without offers": How(ACTIONS, anew=True),
    "annotate": How(ACTIONS, anew=True, offers=True),
}
CORPORA = {
    "CoNLL-2003": ("conll2003", "eng.train", "eng.testa", 0.64, 550),
    "CoNLL-2002 Spanish": ("conll2002", "esp.train", "esp.testa", 0.57, 600),
}
"""Layout, pool, dev part, score to reach, and the actions that are aimed at."""


@benchmark("annotate", minutes=12)
def annotate(options: Options) -> list[Row]:
    """A gold annotator corrects what is shown: one action for a deletion, a new label, a moved edge, an acceptance, and
    a span that is offered; two for a new span. The model is trained again after every five texts, and scored on 1,500
    sentences of the dev part. Classes of words are learned from the words of the pool, as the command does. Each figure
    is the number of actions, or of simulated seconds (0.25 for a token, 1 for a span, 2.5 for an action), up to the
    score; rounds draw other texts first. The settings were chosen on CoNLL-2003. For addresses and references, a model
    of 100 or 400 sequences is corrected from left to right, one action for each segment."""
    rows = []
    for name in CORPORA:
        rows += _to_a_score(options, name)
    for corpus, path in (("usaddress", "labeled.xml"), ("anystyle", "core.xml")):
        rows += _fields(options, corpus, path)
    return rows


def _to_a_score(options: Options, name: str) -> list[Row]:
    from spacy_crfseq.tools.annotate.journal import Decision, Pins, TextTokens
    from spacy_crfseq.tools.annotate.learning import Learner, blank

    layout, train, test, goal, target = CORPORA[name]
    most = options.few(20, MOST)
    pool = list(_sentences(options.corpus(layout, train), layout, options.few(400)))
    some = _sentences(options.corpus(layout, test), layout, options.few(100, 1500))
    dev = [Decision("", TextTokens(tuple(gold.words)), Pins(tuple(gold.spans))) for gold in some]
    labels, rows = sorted({span.label for gold in pool for span in gold.spans}), []
    with tempfile.TemporaryDirectory() as folder:
        classes = _classes(options.corpus(layout, train), layout, Path(folder) / "classes.tsv")
        for words, ways in (("", WAYS), (", no classes of words", {"annotate": WAYS["annotate"]})):
            for way, how in ways.items():
                learner = Learner(blank("entities", "xx"))
                if not words and way != "unassisted, random texts":
                    learner.use_classes(classes)
                points = [_last(learner, pool, dev, labels, how, goal, seed, most) for seed in range(options.rounds)]
                note = f"texts: {', '.join(str(point.texts) for point in points)}"
                note += "" if all(point.f1 >= goal for point in points) else "; not all reached the score"
                figures = [float(point.actions) for point in points]
                aim = float(target) if way == "annotate" and not words else None
                rows.append(
                    Row(f"{name}, F1 {100 * goal:g}: {way}{words}", "actions", figures, [], "", "value", aim, note)
                )
        for way, order in (("entropy", ()), ("entropy for the time", TIME)):
            learner = Learner(blank("entities", "xx"))
            learner.use_classes(classes)
            how = How(order, anew=True, offers=True)
            points = [_last(learner, pool, dev, labels, how, goal, seed, most) for seed in range(options.rounds)]
            figures = [point.seconds for point in points]
            rows.append(Row(f"{name}, F1 {100 * goal:g}: texts by {way}", "simulated s", figures, [], "", "value"))
    return rows


def _last(learner: Learner, pool: Any, dev: Any, labels: Any, how: How, goal: float, seed: int, most: int) -> Point:
    last = Point(0, 0, 0.0, 0.0)
    for last in replay(learner, pool, dev, labels, how, seed, most):
        if last.f1 >= goal:
            break
    say(f"    {how}: {last}")
    return last


def _sentences(path: Path, layout: str, limit: int) -> Iterator[Gold]:
    from spacy_crfseq.corpora.layouts import read_preset
    from spacy_crfseq.schemes import decode_lenient

    texts = (Gold(sentence.words, decode_lenient(sentence.columns["ent"])) for sentence in read_preset(path, layout))
    return islice(texts, limit or None)


def _classes(corpus: Path, layout: str, output: Path) -> Path:
    command = [sys.executable, "-m", "spacy", "crfseq", "word-classes", corpus, "--format", layout, "--output", output]
    settings = ["--sizes", "200", "--min-count", "3", "--n-threads", "1"]
    subprocess.run([*command, *settings], check=True, capture_output=True)
    return output


def replay(
    learner: Learner,
    pool: Sequence[Gold],
    dev: Sequence[Decision],
    labels: Sequence[str],
    how: How,
    seed: int,
    most: int = MOST,
) -> Iterator[Point]:
    """Yield how far an annotation has come, after every training."""
    import numpy as np

    from spacy_crfseq.tools.annotate.decoding import worth
    from spacy_crfseq.tools.annotate.journal import Decision, Pins, TextTokens
    from spacy_crfseq.tools.annotate.pool import bands
    from spacy_crfseq.tools.annotate.project import value_for_time

    random, left, seen = Random(seed), list(range(len(pool))), set[int]()
    random.shuffle(left)
    texts = [TextTokens(tuple(gold.words)) for gold in pool]
    pipe, decisions, actions, seconds, queue = None, list[Decision](), 0, 0.0, list[int]()
    while len(decisions) < most and len(left) >= EVERY:
        for _ in range(EVERY):
            number = next((n for n in queue if n in left and not bands(learner.doc(texts[n])) & seen), left[-1])
            left.remove(number)
            gold = pool[number]
            seen |= bands(learner.doc(texts[number]))
            cost = corrections(pipe, learner, gold, how)
            actions += cost
            seconds += float(np.dot(TIME, [1, len(gold.words), len(gold.spans), cost]))
            decisions.append(Decision("", texts[number], Pins(tuple(gold.spans))))
        pipe = learner.train(decisions, labels)
        yield Point(len(decisions), actions, seconds, learner.scored(pipe, dev, labels).f1 or 0.0)
        if how.order is not None:
            numbers = random.sample(left, min(SAMPLE, len(left)))
            values = worth(pipe, [learner.doc(texts[n]) for n in numbers])
            value = value_for_time(values, np.array(how.order)) if how.order else values.entropy
            queue = [numbers[i] for i in np.argsort(-value, kind="stable").tolist()][:40]


def corrections(pipe: CRFComponent | None, learner: Learner, gold: Gold, how: How) -> int:
    """Return the actions that make predictions the gold annotation, from left to right, and accept it."""
    from spacy_crfseq.tools.annotate.decoding import decode
    from spacy_crfseq.tools.annotate.journal import Pins, TextTokens

    doc, wanted = learner.doc(TextTokens(tuple(gold.words))), set(gold.spans)
    if learner.runs:
        return 1 + (segments(pipe, learner, gold, how.anew) if pipe and how.predictions else len(wanted))
    if pipe is None or not how.predictions:
        return 1 + 2 * len(wanted)
    spans, outside, actions = list[Any](), set[int](), 1
    decoding = decode(pipe, doc, Pins())
    shown, offered = {span[:3] for span in decoding.spans}, {span[:3] for span in decoding.offers}
    while wrong := sorted(shown ^ wanted):
        cost, removed, added = act(wrong[0], shown, wanted, offered if how.offers else set())
        actions += cost
        shown = (shown - set(removed)) | set(added)
        outside |= {t for span in removed for t in range(span[0], span[1])}
        for span in added:
            spans = [other for other in spans if not (other[0] < span[1] and span[0] < other[1])] + [span]
            outside -= set(range(span[0], span[1]))
        if how.anew:
            decoding = decode(pipe, doc, Pins(tuple(sorted(spans)), tuple(sorted(outside))))
            shown, offered = {span[:3] for span in decoding.spans}, {span[:3] for span in decoding.offers}
    return actions


def act(span: Any, shown: Any, wanted: Any, offered: Any) -> tuple[int, list[Any], list[Any]]:
    """Return the cost of correcting a wrong or missing span, spans that go and spans that come."""
    over = [gold for gold in sorted(wanted - shown) if gold[0] < span[1] and span[0] < gold[1]]
    if span not in wanted and not over:
        return 1, [span], []
    target = span if span in wanted else over[0]
    hit = [other for other in shown if other[0] < target[1] and target[0] < other[1]]
    moves = [sum(a != b for a, b in zip(other, target, strict=True)) for other in hit]
    return min([1 if target in offered else 2, *moves]), hit, [target]


def segments(pipe: CRFComponent, learner: Learner, gold: Gold, anew: bool) -> int:
    """Return the segments that must be labelled, from left to right, until all tags of tokens are right."""
    from spacy_crfseq.tools.annotate.decoding import decode
    from spacy_crfseq.tools.annotate.journal import Pins, TextTokens

    doc, pinned = learner.doc(TextTokens(tuple(gold.words))), list[Any]()
    tags = _tags(decode(pipe, doc, Pins()).spans)
    while wrong := [span for span in gold.spans if set(tags[span.start : span.end]) != {span.label}]:
        pinned.append(wrong[0])
        if anew:
            tags = _tags(decode(pipe, doc, Pins(tuple(pinned))).spans)
        else:
            tags[wrong[0].start : wrong[0].end] = [wrong[0].label] * (wrong[0].end - wrong[0].start)
    return len(pinned)


def _tags(spans: Sequence[Any]) -> list[str]:
    return [label for start, end, label, _ in spans for _ in range(start, end)]


def _fields(options: Options, corpus: str, file: str) -> list[Row]:
    from spacy_crfseq.tools.annotate.journal import Decision, Pins, TextTokens
    from spacy_crfseq.tools.annotate.learning import Learner, blank

    texts = _sequences(options.corpus(corpus, file))
    labels, rows = sorted({span.label for gold in texts for span in gold.spans}), []
    for n in (100, 400):
        learner, test = Learner(blank("fields", "xx"), runs=True), texts[400 : 450 if options.quick else 900]
        pipe = learner.train(
            [Decision("", TextTokens(tuple(g.words)), Pins(tuple(g.spans))) for g in texts[:n]], labels
        )
        totals = [sum(segments(pipe, learner, gold, anew) for gold in test) for anew in (False, True)]
        saved = f"{100 * (1 - totals[1] / totals[0]):.1f} % fewer"
        label = f"{corpus}, {n} sequences to train on, {len(test)} corrected, the rest predicted again"
        rows.append(Row(label, "actions", [float(totals[1])], [float(totals[0])], "kept", "times", None, saved))
    return rows


def _sequences(path: Path) -> list[Gold]:
    """Return the sequences of a file with tags, shuffled; runs of a tag are spans."""
    from spacy_crfseq.corpora.guessing import find_layout
    from spacy_crfseq.corpora.layouts import read_layout
    from spacy_crfseq.schemes import TagSpan

    texts = []
    for sentence in read_layout(path, find_layout(path, None).layout):
        at, spans = 0, list[TagSpan]()
        for label, group in groupby(sentence.columns["tag"]):
            size = len(list(group))
            spans.append(TagSpan(at, at + size, label))
            at += size
        texts.append(Gold(sentence.words, spans))
    Random(0).shuffle(texts)
    return texts


FIELDS = {"usaddress": ("labeled.xml", 0.8), "anystyle": ("core.xml", 0.6)}
"""Files of sequences of fields, and the scores to reach."""


@benchmark("annotate-fields", minutes=6)
def annotate_fields(options: Options) -> list[Row]:
    """Addresses and references from the first text on, up to an F1 of segments on 500 others. A gold annotator labels
    from left to right: one action for each segment that is not as shown, and one to accept. Unassisted, nothing is
    shown. The model is trained again after every five texts; rounds draw other texts first."""
    from spacy_crfseq.tools.annotate.journal import Decision, Pins, TextTokens
    from spacy_crfseq.tools.annotate.learning import Learner, blank

    rows = []
    for corpus, (file, goal) in FIELDS.items():
        texts = _sequences(options.corpus(corpus, file))
        dev = [Decision("", TextTokens(tuple(gold.words)), Pins(tuple(gold.spans))) for gold in texts[:500]]
        pool, labels = texts[500:], sorted({span.label for gold in texts for span in gold.spans})
        learner, most = Learner(blank("fields", "xx"), runs=True), options.few(20, MOST)
        for way in ("unassisted, random texts", "predictions, random texts", "annotate"):
            points = [_last(learner, pool, dev, labels, WAYS[way], goal, seed, most) for seed in range(options.rounds)]
            note = f"texts: {', '.join(str(point.texts) for point in points)}"
            note += "" if all(point.f1 >= goal for point in points) else "; not all reached the score"
            figures = [float(point.actions) for point in points]
            rows.append(Row(f"{corpus}, F1 {100 * goal:g}: {way}", "actions", figures, [], "", "value", None, note))
    return rows
