"""Scores on raw text: spaces between words, and comparison by characters."""

import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Doc, Span

from spacy_crfseq.tools.evaluate import guess_spaces, score_raw


@pytest.mark.parametrize("text", [
    'He said : " I do n\'t know ( yet ) . " -> He said: "I don\'t know (yet)."',
    "It cost $ 5 , or 3 % of Ann 's pay ! -> It cost $5, or 3% of Ann's pay!",
    "\u00bf Qu\u00e9 ? L' eau -> \u00bfQu\u00e9? L'eau",
    "`` So - called '' ... -> ``So - called''...",
])  # fmt: skip
def test_spaces_are_those_of_print(text: str) -> None:
    words, printed = text.split(" -> ")
    parts = zip(words.split(), guess_spaces(words.split()), strict=True)
    assert "".join(word + " " * space for word, space in parts).strip() == printed


@Language.component("raw_text_test")
def _annotate(doc: Doc) -> Doc:
    doc.ents = [Span(doc, 0, 1, "X"), Span(doc, len(doc) - 1, len(doc), "X")]
    for token in doc:
        token.tag_ = "T"
    return doc


def test_characters_are_compared() -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("raw_text_test")
    ents = ["B-X", "O", "B-X", "I-X"]
    gold = Doc(nlp.vocab, words=["A-b", "in", "New", "York"], tags=["T", "U", "T", "T"], ents=ents)
    other = Doc(nlp.vocab, words=["Oh", "!"], tags=["", "T"])  # nothing is known of its first tag, nor of entities
    scores, tokens, _ = score_raw(nlp, [gold, other], ["tag", "ent"], "chunks")
    assert tokens == 8  # A - b in New York / Oh !
    assert scores["token"] == pytest.approx((5 / 8, 5 / 6, 10 / 14))
    assert scores["tag"] == pytest.approx((3 / 7, 3 / 5, 6 / 12))
    assert scores["ent"] == (0, 0, 0)
    gold = Doc(nlp.vocab, words=["A", "York"], ents=["B-X", "B-X"])
    assert score_raw(nlp, [gold], ["ent"], "chunks").scores["ent"] == (1, 1, 1)
