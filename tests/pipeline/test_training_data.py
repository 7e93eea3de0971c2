"""Training on examples that change, are cut short or refused: the corpus and the component stay usable."""

import numpy as np
import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example

from spacy_crfseq.features.encoder import FrozenEncoder
from spacy_crfseq.features.index import BagStore
from tests.pipeline.helpers import (
    bare_doc,
    blank,
    entities,
    examples,
    gold_doc,
    initialize,
    initialized,
    pipe_of,
    registered,
    templates,
    texts,
    with_all_tags,
)

TEXT = "Anna lives in New York ."


OPTIMIZERS = pytest.mark.parametrize("optimizer", ["AdaGrad", "SGD", "LBFGS"])


def test_an_interrupt_leaves_prediction_working(monkeypatch: pytest.MonkeyPatch) -> None:
    nlp, pipe = with_all_tags(features=templates("LOWER", "SUFFIX2", "TAG[-1..0]", "TAG[-1]|TAG[0]"))
    unseen = bare_doc(nlp, ["Somebody", "went", "home"], ["NN", "VBD", "RB"])
    expected = entities(nlp, "Anna saw New York")
    add, calls = BagStore.add, iter(range(10**6))

    def interrupted(self: BagStore, members: np.ndarray) -> np.ndarray:
        if next(calls) == 0:
            raise KeyboardInterrupt
        return add(self, members)

    monkeypatch.setattr(BagStore, "add", interrupted)
    with pytest.raises(KeyboardInterrupt):
        pipe.predict([unseen])
    monkeypatch.undo()
    pipe.predict([unseen])
    assert entities(nlp, "Anna saw New York") == expected


def test_examples_made_anew_in_every_iteration_are_the_same_examples() -> None:
    nlp = initialized()
    pipe = pipe_of(nlp)
    for _ in range(30):
        nlp.update(examples(nlp), sgd=nlp.create_optimizer())
    assert pipe.doc_model.n_sequences == len(examples(nlp))
    assert entities(nlp, TEXT) == [("Anna", "PER"), ("New York", "LOC")]


def swapped(nlp: Language) -> list[Example]:
    """Return the corpus with persons called places and the other way round."""
    corpus = examples(nlp)
    names = {"PER": "LOC", "LOC": "PER", "ORG": "ORG"}
    for example in corpus:
        tags = [f"{t.ent_iob_}-{names[t.ent_type_]}" if t.ent_type_ else "O" for t in example.reference]
        example.reference = Doc(nlp.vocab, words=[t.text for t in example.reference], ents=tags)
    return corpus


@OPTIMIZERS
def test_gold_labels_changed_in_place_are_seen(optimizer: str) -> None:
    nlp = blank(optimizer=registered("optimizers", optimizer))
    for label in ("PER", "LOC"):
        pipe_of(nlp).add_label(label)
    corpus = examples(nlp)
    initialize(nlp, corpus)
    for _ in range(20):
        nlp.update(corpus, sgd=nlp.create_optimizer())
    for old, new in zip(corpus, swapped(nlp), strict=True):
        old.reference.ents = [Span(old.reference, s.start, s.end, s.label) for s in new.reference.ents]
    for _ in range(60):
        nlp.update(corpus, sgd=nlp.create_optimizer())
    assert entities(nlp, TEXT) == [("Anna", "LOC"), ("New York", "PER")]


def test_data_and_unbounded_caches_are_let_go_after_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    nlp, pipe = with_all_tags()
    assert (pipe.training.corpus, pipe.training.terms, pipe.training.run) == (None, {}, None)
    monkeypatch.setattr(FrozenEncoder, "MAX_CACHED", 200)
    for text in texts(400):
        nlp(text)
    assert pipe.doc_model.encoder._lexicon.size < 300


def test_a_label_that_is_refused_is_not_added() -> None:
    pipe = spacy.blank("xx").add_pipe("crf_tagger", config={"attr": "pos"})
    with pytest.raises(ValueError, match="FOO"):
        pipe.add_label("FOO")
    assert pipe.labels == ()


def test_gold_docs_of_the_corpus_are_not_changed() -> None:
    nlp = initialized()
    doc = gold_doc(nlp, [["Anna", "NNP", "PROPN", "_", "B-NP", "U-PER"]])
    before = doc.to_bytes()
    initialize(nlp, [Example(bare_doc(nlp, ["Anna"]), doc)], fit=True)
    assert doc.to_bytes() == before
