"""Pruned components: smaller, the same predictions, and ready for more training; and selected features."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from spacy.language import Language

from spacy_crfseq.errors import ConfigError
from tests.pipeline.helpers import (
    FACTORIES,
    LBFGS,
    SCORES,
    blank,
    examples,
    inputs,
    pipe_of,
    predictions,
    templates,
    trained,
)

each_factory = pytest.mark.parametrize("factory", FACTORIES)
WITH_PAIRS = templates("LOWER[-1..1]", "SUFFIX2", bigram_templates=["LOWER[0]"])


def with_small_weights(factory: str, **config: Any) -> Language:
    """Return a trained pipeline in which half of the weights are zero."""
    nlp = trained(factory, optimizer=LBFGS, features=WITH_PAIRS, **config)
    pipe = pipe_of(nlp)
    theta = pipe.crf.theta.copy()
    theta[np.abs(theta) < np.median(np.abs(theta))] = 0
    pipe.set_parameters(theta)
    return nlp


@each_factory
@pytest.mark.parametrize("support", ["observed", "all"])
def test_without_zeros_predictions_are_the_same(factory: str, support: str) -> None:
    nlp = with_small_weights(factory, support=support, keep_names=True)
    pipe = pipe_of(nlp)
    before, marginals = predictions(nlp, factory), pipe.posterior(inputs(nlp, factory)).marginals()
    names = dict(zip(np.concatenate(pipe.crf.keys).tolist(), pipe.doc_model.feature_names, strict=True))
    with_zeros = len(pipe.crf.at(np.ones_like(pipe.crf.theta)).to_bytes())
    report = pipe.prune()
    assert predictions(nlp, factory) == before
    for found, wanted in zip(pipe.posterior(inputs(nlp, factory)).marginals(), marginals, strict=True):
        np.testing.assert_array_equal(found, wanted)
    assert all(after < before for after, before in zip(report.after[:2], report.before[:2], strict=True))
    assert len(pipe.crf.to_bytes()) < with_zeros  # files hold no zeros, before or after
    assert pipe.doc_model.feature_names == [names[key] for key in np.concatenate(pipe.crf.keys).tolist()]
    assert pipe.prune().after == report.after


@each_factory
def test_a_pruned_model_is_stored_and_loaded(factory: str) -> None:
    nlp = with_small_weights(factory, tag_dictionary_size=10, tag_dictionary_min_count=2)
    pipe_of(nlp).prune(0.05)
    again = blank(factory, features=WITH_PAIRS).from_bytes(nlp.to_bytes())
    assert predictions(again, factory) == predictions(nlp, factory)
    assert pipe_of(again).doc_model.size == pipe_of(nlp).doc_model.size


@each_factory
def test_training_goes_on_with_the_weights_that_are_left(factory: str) -> None:
    nlp = trained(factory, optimizer=LBFGS)
    pipe, corpus = pipe_of(nlp), examples(nlp, factory)
    largest = float(np.abs(pipe.crf.theta).max())
    size = pipe.prune(largest / 2).after.weights
    pipe.fit(corpus)
    assert pipe.doc_model.size.weights == size
    for _ in range(5):
        losses = nlp.update(corpus, losses={})
    assert np.isfinite(losses[factory])
    pipe.add_label("NEW")
    assert pipe.doc_model.size.weights > size


@pytest.mark.parametrize("threshold", [-1.0, 1e6])
def test_thresholds_out_of_range(threshold: float) -> None:
    nlp = trained("crf_ner", optimizer=LBFGS)
    before = predictions(nlp, "crf_ner")
    with pytest.raises(ConfigError, match="at least 0 and lower than the largest weight"):
        pipe_of(nlp).prune(threshold)
    assert predictions(nlp, "crf_ner") == before


@each_factory
@pytest.mark.parametrize("support", ["observed", "all"])
@pytest.mark.parametrize("features", [{}, {"features": WITH_PAIRS}])
def test_max_features(factory: str, support: str, features: dict[str, Any]) -> None:
    nlp = trained(factory, max_features=60, support=support, keep_names=True, optimizer=LBFGS, **features)
    corpus, pipe = examples(nlp, factory), pipe_of(nlp)
    layout = pipe.crf.layout
    assert layout.unigrams.size + layout.bigrams.size == 60
    assert len(pipe.doc_model.feature_names) == layout.unigrams.n_rows + layout.bigrams.n_rows <= 60
    assert nlp.evaluate(corpus)[SCORES[factory]] > 0.6
    nlp.update(corpus)  # examples are encoded anew, with the ids that are left
    again = blank(factory, **features).from_bytes(nlp.to_bytes())
    assert predictions(again, factory) == predictions(nlp, factory)
