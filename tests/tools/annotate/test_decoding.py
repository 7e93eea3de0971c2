"""Decoding under what a user says: exact probabilities, by enumeration of all labellings."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc, Span

from spacy_crfseq.pipeline.component import CRFComponent
from spacy_crfseq.schemes import TagSpan
from spacy_crfseq.tools.annotate.decoding import LEAST, decode, worth
from spacy_crfseq.tools.annotate.journal import Pins
from spacy_crfseq.tools.annotate.learning import Learner, blank
from tests.tools.annotate.test_learning import decisions


def model(task: str) -> CRFComponent:
    learner = Learner(blank(task, "xx"), runs=task == "fields")
    learner._block["precision"] = "float64"
    learner._block["regularizer"] = {"@crf_regularizers": "spacy_crfseq.L2.v1", "rho": 4.0}
    return learner.train(decisions(12, task), ["PER", "LOC", *(["X"] if learner.plain else [])])


@pytest.mark.parametrize("task", ["entities", "chunks"])
@pytest.mark.parametrize("pins", [Pins(), Pins((TagSpan(2, 4, "PER"),), (0,)), Pins(choices={1: ("LOC",)})])
def test_offers_have_the_probabilities_that_all_labellings_sum_to(task: str, pins: Pins) -> None:
    pipe = model(task)
    doc = Doc(spacy.blank("xx").vocab, words=["Ada", "met", "Bo", "Rome", "."])
    result = decode(pipe, doc, pins)
    allowed = {**{t: ["O"] for t in pins.outside}, **{t: list(v) for t, v in pins.choices.items()}}
    answers = pipe.posterior([doc], spans=[Span(doc, *span) for span in pins.spans], allowed=allowed)
    sums: dict[tuple[int, int, str], float] = defaultdict(float)
    for labelling in answers.nbest(100_000)[0]:
        item = answers.alternative(doc, labelling)
        for span in item.spans:
            sums[span.start, span.end, span.label_] += item.probability
    for start, end, label, p in (*result.spans, *result.offers):
        assert p == pytest.approx(sums[start, end, label], abs=1e-9)
    shown = {tuple(span[:3]) for span in (*result.spans, *result.offers)}
    # a candidate is missed only if one of its tags is unlikely
    assert {span for span, p in sums.items() if p >= 2 * LEAST and span[1] - span[0] <= 3} <= shown
    for span in pins.spans:
        assert span in shown


def test_a_correction_moves_the_rest() -> None:
    pipe = model("entities")
    doc = Doc(spacy.blank("xx").vocab, words=["Ada", "met", "Bo", "in", "Rome", "."])
    free = decode(pipe, doc, Pins())
    bound = decode(pipe, doc, Pins(outside=(0,), wrong=(TagSpan(2, 3, "PER"),)))
    assert TagSpan(2, 3, "PER") not in [span[:3] for span in (*bound.spans, *bound.offers)]
    assert all(span.start != 0 for span in bound.spans)
    assert [span.probability for span in free.spans] != [span.probability for span in bound.spans]


def test_fields_are_runs_of_tags() -> None:
    pipe = model("fields")
    doc = Doc(spacy.blank("xx").vocab, words=["Ada", "met", "Bo", "in", "Rome", "."])
    single, runs = decode(pipe, doc, Pins()), decode(pipe, doc, Pins(), runs=True)
    assert [span[:2] for span in single.spans] == [(i, i + 1) for i in range(6)]
    assert [span.start for span in runs.spans] == [0, *(span.end for span in runs.spans[:-1])]
    assert all(a.label != b.label for a, b in zip(runs.spans, runs.spans[1:], strict=False))
    pinned = decode(pipe, doc, Pins((TagSpan(1, 3, "LOC"),)), runs=True)
    assert any(span.label == "LOC" and span.start <= 1 and span.end >= 3 for span in pinned.spans)
    marginals = pipe.posterior([doc]).marginals()[0]
    for start, _, label, p in single.offers:
        assert p == pytest.approx(float(marginals[start, pipe.tags.index(label)]))


def test_the_worth_of_a_text_is_that_of_its_enumerated_labellings() -> None:
    pipe = model("entities")
    vocab = spacy.blank("xx").vocab
    docs = [Doc(vocab, words=text.split()) for text in ("Ada met Bo in Rome .", "is late .", "Zed")]
    actual = worth(pipe, docs)
    assert actual.tokens.tolist() == [6, 3, 1]
    answers = pipe.posterior(docs)
    expected = []
    for i, doc in enumerate(docs):
        alternatives = [answers.alternative(doc, alternative) for alternative in answers.nbest(50_000)[i]]
        expected.append(-sum(alternative.probability * np.log(alternative.probability) for alternative in alternatives))
        best = {(s.start, s.end, s.label_) for s in alternatives[0].spans}
        wrong = sum(
            alternative.probability * len(best - {(s.start, s.end, s.label_) for s in alternative.spans})
            for alternative in alternatives
        )
        assert actual.wrong[i] == pytest.approx(wrong, abs=1e-5)
        there = sum(alternative.probability * len(alternative.spans) for alternative in alternatives)
        assert actual.missed[i] == pytest.approx(max(0, there - len(best)), abs=1e-5)
    assert actual.entropy == pytest.approx(expected, abs=1e-4)
