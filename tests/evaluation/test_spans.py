"""Counts of spans by label, and by whether they were seen."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spacy_crfseq.evaluation import NEW, OTHER, SEEN, UNSEEN, Familiarity, span_counts
from spacy_crfseq.schemes import Span


@st.composite
def span_lists(draw):
    """Return spans that do not overlap, in the order of the text."""
    spans, at = [], 0
    for gap, size, label in draw(
        st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4), st.sampled_from("AB")), max_size=5)
    ):
        spans.append(Span(at + gap, at + gap + size, label))
        at += gap + size
    return spans


@given(st.lists(st.tuples(span_lists(), span_lists()), max_size=4))
def test_counts_by_label(texts):
    counts = span_counts([gold for gold, _ in texts], [found for _, found in texts], "AB")
    for i, (gold, found) in enumerate(texts):
        for j, label in enumerate("AB"):
            of_gold, of_found = ([span for span in spans if span.label == label] for spans in (gold, found))
            right = sum(span in of_found for span in of_gold)
            assert counts[i, j].tolist() == [right, len(of_found), len(of_gold)]


def test_what_is_familiar():
    known = Familiarity.of([("Oslo", "LOC"), ("Oslo", "ORG"), ("Ada", "PER")], ["Bank", "of"])
    assert known.status("Oslo", "ORG") == known.status("Ada", "PER") == SEEN
    assert known.status("Ada", "LOC") == OTHER
    assert known.status("Bank of Oslo", "ORG") == NEW
    assert known.status("Bank of Rome", "LOC") == UNSEEN
    words, gold, found = [["Rome", "of", "Ada"]], [[Span(0, 1, "LOC"), Span(2, 3, "PER")]], [[Span(2, 3, "PER")]]
    assert known.counts(words, gold, found).tolist() == [[[1, 1, 1], [0, 0, 0], [0, 0, 0], [0, 0, 1]]]
