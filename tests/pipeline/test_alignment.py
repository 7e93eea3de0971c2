"""Gold annotation that the tokens of a pipeline cannot hold: it is missing, counted by label and named."""

import warnings
from itertools import accumulate, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example

from spacy_crfseq.pipeline.alignment import Unaligned
from spacy_crfseq.pipeline.labels import gold_tags
from tests.pipeline.helpers import blank, initialize, pipe_of

MESSAGE = {
    "crf_tagger": "SYM 1, CD 1. Nothing is left of 'SYM', 'CD', which cannot be learned. In '-200 Ada', '-' (SYM)",
    "crf_chunker": "MONEY 1. Nothing is left of 'MONEY', which cannot be learned. In '-200 Ada', '200' (MONEY)",
    "crf_ner": "MONEY 1. Nothing is left of 'MONEY', which cannot be learned. In '-200 Ada', '200' (MONEY)",
}


def money(nlp: Language, predicted: list[str]) -> Example:
    """Return an example with the gold tokens - 200 Ada."""
    gold = Doc(nlp.vocab, words=["-", "200", "Ada"], spaces=[False, True, False], tags=["SYM", "CD", "NNP"])
    spans = [Span(gold, 1, 2, "MONEY"), Span(gold, 2, 3, "PER")]
    gold.ents = spans
    gold.spans["chunks"] = spans
    return Example(Doc(nlp.vocab, words=predicted), gold)


def test_words_that_the_tokenizer_joins_are_missing_and_named_in_training(factory: str) -> None:
    nlp = blank(factory)
    with pytest.warns(UserWarning, match="joins or cuts tokens") as caught:
        initialize(nlp, [money(nlp, ["-200", "Ada"])])
    [said] = {str(warning.message) for warning in caught}
    assert f"Component '{factory}'" in said
    assert MESSAGE[factory] in said
    assert "is not a sequence of the tokens '-200'" in said
    assert "gold_preproc = true" in said
    pipe = pipe_of(nlp)
    tags = gold_tags(pipe.annotation, money(nlp, ["-200", "Ada"]), pipe.name)
    assert tags[0] is None  # not "O", which says that nothing is there
    assert tags[1] in ("NNP", "B-PER", "U-PER")


def test_labels_of_which_something_is_left_are_counted_alone(factory: str) -> None:
    nlp = blank(factory)
    with pytest.warns(UserWarning, match=r"MONEY 1\. In|SYM 1, CD 1\. In"):
        initialize(nlp, [money(nlp, ["-200", "Ada"]), money(nlp, ["-", "200", "Ada"])])


def test_tokens_that_are_cut_inside_a_span_lose_nothing(factory: str) -> None:
    nlp = blank(factory)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        initialize(nlp, [money(nlp, ["-", "2", "00", "A", "da"])])


@st.composite
def tokenizations(draw: st.DrawFn) -> tuple[list[str], list[str], list[tuple[int, int]]]:
    """Draw two ways to cut a text, and spans of the first."""
    text = "abcdefghijkl"
    ways = []
    for _ in range(2):
        cuts = sorted(draw(st.sets(st.integers(1, len(text) - 1))))
        ways.append([text[a:b] for a, b in pairwise([0, *cuts, len(text)])])
    ends = sorted(draw(st.sets(st.integers(0, len(ways[0])))))
    return ways[0], ways[1], list(pairwise(ends))[::2]


@pytest.mark.parametrize("factory", ["crf_ner", "crf_chunker"])
@given(drawn=tokenizations())
def test_a_span_is_learnt_or_counted(factory: str, drawn: Any) -> None:
    words, others, bounds = drawn
    nlp = blank(factory, scheme="IOB2")
    gold, no_spaces = Doc(nlp.vocab, words=words, spaces=[False] * len(words)), [False] * len(others)
    gold.set_ents([Span(gold, *span, "X") for span in bounds], default="outside")
    gold.spans["chunks"] = list(gold.ents)
    pipe, unaligned = pipe_of(nlp), Unaligned()
    tags = gold_tags(pipe.annotation, Example(Doc(nlp.vocab, others, no_spaces), gold), pipe.name, unaligned)
    starts = [0, *accumulate(map(len, words))]
    borders = {0, *accumulate(map(len, others))}
    wanted = sum(starts[start] in borders and starts[end] in borders for start, end in bounds)
    assert tags.count("B-X") == wanted
    assert unaligned.counts["X"] == len(bounds) - wanted
