"""Features without weight are not stored, unless training may have to visit them yet."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import srsly
from spacy.language import Language

from spacy_crfseq.errors import ModelFileError
from spacy_crfseq.pipeline import doc_model
from spacy_crfseq.tools.explain import explain
from tests.pipeline.helpers import FACTORIES, blank, examples, inputs, pipe_of, predictions

each_factory = pytest.mark.parametrize("factory", FACTORIES)
OWLQN = {
    "optimizer": {"@crf_optimizers": "spacy_crfseq.OWLQN.v1", "tolerance": 1e-9},
    "regularizer": {"@crf_regularizers": "spacy_crfseq.L1.v1", "rho": 0.3},
}
PERCEPTRON = {
    "optimizer": {"@crf_optimizers": "spacy_crfseq.AveragedPerceptron.v1"},
    "loss": {"@crf_losses": "spacy_crfseq.Perceptron.v1"},
    "regularizer": {"@crf_regularizers": "spacy_crfseq.NoRegularizer.v1"},
}
METHODS = {"L1": OWLQN, "perceptron": PERCEPTRON}


def initialized(factory: str, method: dict[str, Any] = OWLQN) -> Language:
    nlp = blank(factory, **method)
    nlp.initialize(lambda: examples(nlp, factory, repeat=2))
    return nlp


def copied(nlp: Language, factory: str, method: dict[str, Any] = OWLQN) -> Language:
    return blank(factory, **method).from_bytes(nlp.to_bytes())


def n_features(nlp: Language) -> int:
    return sum(map(len, pipe_of(nlp).crf.keys))


def with_weights(nlp: Language) -> int:
    layout, views = pipe_of(nlp).crf.layout, pipe_of(nlp).crf.views
    owner = np.repeat(np.arange(layout.unigrams.n_rows), np.diff(layout.unigrams.ptr))
    return len(np.unique(owner[views.unigrams != 0]))


@each_factory
@pytest.mark.parametrize("method", METHODS.values(), ids=list(METHODS))
def test_features_without_weight_are_not_stored(factory: str, method: dict[str, Any]) -> None:
    nlp = initialized(factory, method)
    pipe = pipe_of(nlp)
    pipe.fit()
    again = copied(nlp, factory, method)
    assert n_features(again) == with_weights(nlp) < n_features(nlp)
    assert pipe_of(again).doc_model.n_active == pipe.doc_model.n_active
    assert predictions(again, factory) == predictions(nlp, factory)
    docs, others = inputs(nlp, factory), inputs(again, factory)
    for one, other in zip(docs, others, strict=True):
        shown, same = (str(explain(p, doc).tokens) for p, doc in ((pipe, one), (pipe_of(again), other)))
        assert shown == same
    if method is OWLQN:
        found, wanted = pipe_of(again).posterior(others).marginals(), pipe.posterior(docs).marginals()
        np.testing.assert_array_equal(np.concatenate(found), np.concatenate(wanted))


@each_factory
@pytest.mark.parametrize("method", METHODS.values(), ids=list(METHODS))
def test_training_goes_on(factory: str, method: dict[str, Any]) -> None:
    nlp = initialized(factory, method)
    pipe_of(nlp).fit()
    again = copied(nlp, factory, method)
    for _ in range(5):
        losses = again.update(examples(again, factory), losses={})
    assert np.isfinite(losses[factory])
    assert method is PERCEPTRON or predictions(again, factory) == predictions(nlp, factory)
    result = pipe_of(again).fit(examples(again, factory))
    assert result.history
    again.initialize(lambda: examples(again, factory, repeat=2))
    pipe_of(again).fit()
    np.testing.assert_array_equal(pipe_of(again).crf.theta, pipe_of(nlp).crf.theta)


@each_factory
def test_nothing_is_dropped_before_training(factory: str) -> None:
    nlp = initialized(factory)
    again = copied(nlp, factory)
    assert n_features(again) == n_features(nlp)
    corpus = examples(nlp, factory, repeat=2)
    assert (pipe_of(again).fit(corpus).best == pipe_of(nlp).fit(corpus).best).all()


@each_factory
def test_nothing_is_dropped_in_the_first_epoch(factory: str) -> None:
    nlp = initialized(factory, PERCEPTRON)
    corpus = examples(nlp, factory, repeat=2)
    nlp.update(corpus[:3])
    again = copied(nlp, factory, PERCEPTRON)
    again = copied(again, factory, PERCEPTRON)  # nor when it is stored once more
    assert n_features(again) == n_features(nlp)
    again.update(corpus)
    assert n_features(copied(again, factory, PERCEPTRON)) == with_weights(again) < n_features(nlp)


@each_factory
def test_nothing_is_dropped_after_a_new_label(factory: str) -> None:
    nlp = initialized(factory)
    pipe_of(nlp).fit()
    pipe_of(nlp).add_label("NEW")
    again = copied(nlp, factory)
    assert n_features(again) == n_features(nlp)
    assert pipe_of(again).crf.layout.size == pipe_of(nlp).crf.layout.size


def stored_again(nlp: Any, **changed: Any) -> bytes:
    """Return the bytes of a recognizer with some entries of its model file changed, under a right digest."""
    stored = srsly.msgpack_loads(nlp.get_pipe("crf_ner").to_bytes(exclude=["vocab"]))
    head = {**srsly.msgpack_loads(stored["model"]), **changed, "digest": None}
    digest = changed.get("digest", doc_model._digest(head))
    return bytes(srsly.msgpack_dumps({**stored, "model": srsly.msgpack_dumps({**head, "digest": digest})}))


@pytest.mark.parametrize(("changed", "said"), [
    ({}, ""),
    ({"version": 99}, "newer release.*pip install --upgrade"),
    ({"digest": None}, "no model of spacy_crfseq, or it was cut short"),
    ({"digest": b"0" * 16}, "no model of spacy_crfseq, or it was cut short"),
    ({"templates": np.zeros(3)}, "templates are not what was written"),
    ({"n_sequences": np.zeros(3)}, "n_sequences are not what was written"),
    ({"version": np.zeros(3)}, "version are not what was written"),
    ({"model": srsly.msgpack_dumps({"format": "spacy_crfseq.LinearChainCRF", "version": 99})}, "newer release"),
    ({"model": srsly.msgpack_dumps({"format": np.zeros(3), "version": 1})}, "no spacy_crfseq model"),
    ({"functions": {"a": 1}}, "other feature templates"),
])  # fmt: skip
def test_a_model_file_with_other_entries(changed: dict[str, Any], said: str) -> None:
    nlp, other = initialized("crf_ner"), blank("crf_ner", **OWLQN)
    pipe_of(nlp).fit()
    data = stored_again(nlp, **changed)
    if said:
        with pytest.raises(ModelFileError, match=said):
            pipe_of(other).from_bytes(data)
    else:
        pipe_of(other).from_bytes(data)
        assert predictions(other, "crf_ner") == predictions(nlp, "crf_ner")


def test_a_new_label_has_to_be_seen_everywhere() -> None:
    nlp = initialized("crf_ner", PERCEPTRON)
    whole = examples(nlp, "crf_ner", repeat=2)
    nlp.update(whole)
    pipe_of(nlp).add_label("NEW")
    nlp.update(whole[:1])
    assert n_features(copied(nlp, "crf_ner", PERCEPTRON)) == n_features(nlp)
    nlp.update(whole)
    assert n_features(copied(nlp, "crf_ner", PERCEPTRON)) < n_features(nlp)
