"""The accuracy of whole sequences: sentences or Docs, partly annotated ones, spans with their boundaries."""

import pytest
import spacy
from spacy.tokens import Doc, Span
from spacy.training import Example

from spacy_crfseq.pipeline.spacy_train import chunker_score, ner_score, tagger_score

NLP = spacy.blank("en")


def example(gold, found, starts=None, words=None):
    """Return an example with tags such as B-A, also as entities, and, by their ends, as chunks."""
    docs = []
    for tags in (found, gold):
        ents = [tag if tag != "-" else None for tag in tags]
        doc = Doc(NLP.vocab, words=words or ["x"] * len(tags), tags=[tag.strip("-") for tag in tags], ents=ents)
        doc.spans["chunks"] = [Span(doc, ent.start, ent.end, ent.label_) for ent in doc.ents]
        docs.append(doc)
    if starts is not None:
        for token, start in zip(docs[1], starts, strict=True):
            token.is_sent_start = start
    return Example(*docs)


def scores(examples):
    return (
        tagger_score(examples)["tag_sequence_acc"],
        ner_score(examples)["ents_sequence_acc"],
        chunker_score(examples)["spans_chunks_sequence_acc"],
    )


def test_all_tokens_of_a_sequence_must_be_right():
    right, joined = example(["B-A", "I-A", "O"], ["B-A", "I-A", "O"]), example(["B-A", "B-A"], ["B-A", "I-A"])
    assert scores([right, right, joined]) == pytest.approx((2 / 3,) * 3)
    halves = example(["B-A", "O", "O"], ["O", "O", "O"], starts=[True, False, True])
    assert scores([halves]) == (0.5,) * 3
    partly = example(["-", "O", "B-A"], ["O", "O", "B-A"])
    assert scores([partly, joined])[:2] == (0.5, 0.5)
    unknown = example(["-", "-"], ["O", "B-A"])
    assert scores([unknown])[:2] == (None, None)
    assert scores([]) == (None,) * 3
    other = Example(
        Doc(NLP.vocab, words=["ab"]), Doc(NLP.vocab, words=["a", "b"], spaces=[False, False], tags=["X", "X"])
    )
    assert tagger_score([other])["tag_sequence_acc"] is None
