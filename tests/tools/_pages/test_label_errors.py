"""Likely annotation errors: where annotation and prediction differ, and the errors of a component on real Docs."""

import math

import pytest
from spacy.tokens import Span

from spacy_crfseq.schemes import TagSpan
from spacy_crfseq.tools._pages import label_errors
from spacy_crfseq.tools._pages.label_errors import LabelError, Stretch, shown, stretches
from tests.pipeline import helpers

PER, LOC = TagSpan(0, 2, "PER"), TagSpan(4, 5, "LOC")


@pytest.mark.parametrize(
    ("gold", "predicted", "expected"),
    [
        ([PER, LOC], [PER, LOC], []),
        ([PER, LOC], [PER], [Stretch(4, 5, (LOC,), ())]),
        ([], [LOC], [Stretch(4, 5, (), (LOC,))]),
        ([PER], [TagSpan(0, 2, "ORG")], [Stretch(0, 2, (PER,), (TagSpan(0, 2, "ORG"),))]),
        ([PER, TagSpan(2, 3, "LOC")], [TagSpan(1, 4, "ORG")],
         [Stretch(0, 4, (PER, TagSpan(2, 3, "LOC")), (TagSpan(1, 4, "ORG"),))]),
        ([TagSpan(0, 1, "A"), TagSpan(1, 2, "A")], [], [Stretch(0, 1, (TagSpan(0, 1, "A"),), ()),
                                                 Stretch(1, 2, (TagSpan(1, 2, "A"),), ())]),
    ],
)  # fmt: skip
def test_spans_that_overlap_and_differ_are_one_stretch(
    gold: list[TagSpan], predicted: list[TagSpan], expected: list[Stretch]
) -> None:
    assert stretches(gold, predicted, [True] * 6) == expected


def test_a_stretch_with_a_token_without_annotation_is_left_out() -> None:
    assert stretches([LOC], [PER], [True, False, True, True, True]) == [Stretch(4, 5, (LOC,), ())]


@pytest.mark.parametrize(
    ("p_gold", "p_predicted", "tokens", "odds"),
    [
        (0.01, 0.9, 2, math.log(90) / 2),
        (0.3, 0.3, 1, 0.0),
        (0.0, 1.0, 1, math.log(1e12)),
        (1.0, 0.0, 1, -math.log(1e12)),
    ],
)
def test_log_odds_are_per_token_and_finite(p_gold: float, p_predicted: float, tokens: int, odds: float) -> None:
    assert LabelError(0, Stretch(3, 3 + tokens, (), ()), p_gold, p_predicted).log_odds == pytest.approx(odds)


def test_spans_are_shown_with_their_words_and_labels() -> None:
    assert (shown([PER, LOC], list("abcde")), shown([], ["a"])) == ("[a b PER] [e LOC]", "O")


def test_errors_of_all_batches_are_found_in_the_texts_that_were_relabelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(label_errors, "BATCH", 2)
    nlp = helpers.trained()
    texts = helpers.examples(nlp, "crf_ner")
    relabelled = {}
    for i, label in ((1, "LOC"), (2, "PER")):  # of the first and the second batch
        (ent,) = texts[i].reference.ents
        texts[i].reference.ents = [Span(texts[i].reference, ent.start, ent.end, label)]
        relabelled[i] = TagSpan(ent.start, ent.end, label), TagSpan(ent.start, ent.end, ent.label_)
    result = [*label_errors.label_errors(helpers.pipe_of(nlp), texts)]
    assert {error.text: (error.stretch.gold[0], error.stretch.predicted[0]) for error in result} == relabelled
    assert all(error.log_odds > 0 and error.p_predicted > error.p_gold for error in result)
