"""Components that are initialized without training data and meet their examples one by one, as in spaCy's tutorials."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Span
from spacy.training import Example

from spacy_crfseq.errors import DataError
from spacy_crfseq.pipeline import steps
from tests.pipeline.helpers import FACTORIES, SCORES, examples, pipe_of, trained

TEXTS = [
    ("Who is Shaka Khan?", [(7, 17, "PERSON")]),
    ("I like London and Berlin.", [(7, 13, "LOC"), (18, 24, "LOC")]),
    ("hello there", []),
]


def tutorial_example(nlp: Language, text: str, entities: list[tuple[int, int, str]]) -> Example:
    return Example.from_dict(nlp.make_doc(text), {"entities": entities})


@pytest.mark.parametrize("optimizer", ["AdaGrad", "SGD", "LBFGS"])
@pytest.mark.parametrize("settings", [{}, {"support": "observed"}, {"min_count": 2}, {"keep_names": True}])
def test_the_loop_of_the_tutorials(optimizer: str, settings: dict[str, Any]) -> None:
    nlp = spacy.blank("en")
    block = {"@crf_optimizers": f"spacy_crfseq.{optimizer}.v1"}
    ner: Any = nlp.add_pipe("crf_ner", config={"optimizer": block, **settings})
    ner.add_label("PERSON")
    nlp.initialize()
    assert [token.ent_iob_ for token in nlp("I like London")] == ["O"] * 3
    texts = [*TEXTS]
    for seed in range(12):
        random.Random(seed).shuffle(texts)
        for text, entities in texts:
            nlp.update([tutorial_example(nlp, text, entities)])
    assert ner.labels == ("LOC", "PERSON"), "labels of spans come with the examples"
    for text, entities in TEXTS:
        assert [(ent.start_char, ent.end_char, ent.label_) for ent in nlp(text).ents] == entities
    names = ner.doc_model.feature_names
    assert len(names) == (sum(map(len, ner.crf.keys)) if settings.get("keep_names") else 0)


@pytest.mark.parametrize("factory", FACTORIES)
def test_the_model_becomes_that_of_the_whole_corpus(factory: str) -> None:
    known, open_ = trained(factory), spacy.blank("xx")
    pipe: Any = open_.add_pipe(factory)
    for label in pipe_of(known).labels:
        pipe.add_label(label)
    open_.initialize()
    batches = [[example] for example in examples(open_, factory)]
    for batch in [*batches, *batches, *batches]:
        open_.update(batch)
    for keys, wanted in zip(pipe.crf.keys, pipe_of(known).crf.keys, strict=True):
        assert set(keys) == set(wanted)
    assert open_.evaluate(examples(open_, factory))[SCORES[factory]] > 0.9


def test_weights_are_carried_over() -> None:
    nlp = spacy.blank("en")
    ner: Any = nlp.add_pipe("crf_ner")
    nlp.initialize()
    first, second = (tutorial_example(nlp, *each) for each in TEXTS[:2])
    for _ in range(10):
        nlp.update([first])
    doc, tags = nlp.make_doc(TEXTS[0][0]), ner.tags
    [before], transitions = ner.model.predict([doc]), ner.crf.views.transitions.copy()
    assert before.any()
    steps.update(ner.training, [second], {})  # features and labels come; the optimizer has not worked on them yet
    [after] = ner.model.predict([doc])
    assert len(ner.tags) > len(tags) == before.shape[1]
    np.testing.assert_allclose(after[:, : len(tags)], before, atol=1e-6)
    np.testing.assert_array_equal(ner.crf.views.transitions[: len(tags), : len(tags)], transitions)


@pytest.mark.parametrize("given", [True, False])
def test_fit_after_it(given: bool) -> None:
    nlp = spacy.blank("xx")
    ner: Any = nlp.add_pipe("crf_ner")
    nlp.initialize()
    if not given:
        with pytest.raises(DataError, match="give examples to fit"):
            ner.fit()
        return
    ner.fit(examples(nlp))
    assert nlp.evaluate(examples(nlp))["ents_f"] == 1.0


def test_a_tagger_needs_labels() -> None:
    nlp = spacy.blank("xx")
    nlp.add_pipe("crf_tagger")
    with pytest.raises(DataError, match="add_label before"):
        nlp.initialize()


def test_a_model_that_is_loaded_does_not_grow() -> None:
    nlp, other = trained("crf_ner"), spacy.blank("xx")
    ner: Any = other.add_pipe("crf_ner")
    other.initialize()
    ner.from_bytes(pipe_of(nlp).to_bytes())
    keys = [set(keys) for keys in ner.crf.keys]
    other.update(examples(other)[:1])
    assert [set(keys) for keys in ner.crf.keys] == keys


def test_labels_of_a_trained_model_stay() -> None:
    nlp = trained("crf_ner")
    labels = pipe_of(nlp).labels
    nlp.initialize()
    assert pipe_of(nlp).labels == labels


def test_negative_labels() -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("crf_ner")
    with pytest.raises(DataError, match=r"'!PERSON' begins with '!'.*incorrect_spans_key"):
        nlp.initialize(lambda: [tutorial_example(nlp, "Who is Shaka Khan?", [(7, 17, "!PERSON")])])


def test_negative_tags_of_a_tagger() -> None:
    nlp = trained("crf_tagger")
    doc = nlp("Anna saw Oslo")
    tag = doc[0].tag_
    wrong = Example.from_dict(nlp.make_doc(doc.text), {"tags": [f"!{tag}", doc[1].tag_, doc[2].tag_]})
    for _ in range(30):
        nlp.update([wrong])
    found = nlp(doc.text)
    assert found[0].tag_ != tag
    assert f"!{tag}" not in pipe_of(nlp).labels


def test_a_second_recognizer_adds_to_what_the_first_left_outside() -> None:
    nlp = spacy.blank("xx")
    nlp.add_pipe("crf_ner", name="first")
    nlp.initialize()
    second = trained("crf_ner")
    doc = nlp("Anna saw Oslo")
    assert not doc.ents
    doc.set_ents([], blocked=[Span(doc, 2, 3)], default="unmodified")
    assert [ent.text for ent in pipe_of(second)(doc).ents] == ["Anna"]
    assert doc[2].ent_iob_ == "B", "blocked, as it was"
    assert not doc[2].ent_type_


def test_a_model_stored_early_has_all_features() -> None:
    nlp = spacy.blank("en")
    block = {"@crf_optimizers": "spacy_crfseq.AveragedPerceptron.v1"}
    methods = {"optimizer": block, "loss": {"@crf_losses": "spacy_crfseq.Perceptron.v1"}}
    none = {"@crf_regularizers": "spacy_crfseq.NoRegularizer.v1"}
    config = {**methods, "regularizer": none}
    ner: Any = nlp.add_pipe("crf_ner", config=config)
    nlp.initialize()
    nlp.update([tutorial_example(nlp, *TEXTS[0])])
    new = [tutorial_example(nlp, *text) for text in TEXTS[1:]]
    steps.update(ner.training, new, {})
    again: Any = spacy.blank("en").add_pipe("crf_ner", config=config).from_bytes(ner.to_bytes())
    assert again.crf.layout.size == ner.crf.layout.size
