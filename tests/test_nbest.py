"""The best labellings of a text as a posterior gives them, against the enumeration of all."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from spacy_crfseq.decoders.viterbi import Viterbi
from spacy_crfseq.errors import ConfigError, DataError
from spacy_crfseq.model import LinearChainCRF
from spacy_crfseq.potentials import layout
from spacy_crfseq.types import Scores
from tests import reference
from tests.problems import (
    BIGRAM_TEMPLATES,
    Problem,
    Training,
    all_allowed,
    plain_scores,
    random_constraints,
    training_problem,
)

FREE = all_allowed(3)
SHARED_AND_PER_POSITION = pytest.mark.parametrize("bigram_templates", [(), BIGRAM_TEMPLATES], ids=["shared", "pairs"])


def make_model(
    bigram_templates: tuple[str, ...] = (), dtype: type = np.float64, scale: float = 0.5
) -> tuple[LinearChainCRF, Training]:
    training = training_problem(7, n_sequences=10, bigram_templates=bigram_templates)
    theta = training.random_theta(np.random.default_rng(1), scale).astype(dtype)
    return training.model(theta), training


@SHARED_AND_PER_POSITION
@pytest.mark.parametrize("k", [1, 5, 800])
@pytest.mark.parametrize("seed", range(4))
def test_the_best_labellings_and_their_probabilities(bigram_templates: tuple[str, ...], k: int, seed: int) -> None:
    model, training = make_model(bigram_templates)
    encoded, temperature = training.encoded, (1.0, 2.5)[seed % 2]
    scores = plain_scores(model.layout, model.theta, encoded)
    problem = Problem(scores, training.objective.batch)
    constraints, allowed = random_constraints(np.random.default_rng(seed), problem, 0.3 * (seed < 3))
    posterior = model.posterior(encoded, constraints, allowed, temperature)
    labels, found = posterior.nbest(k)
    assert labels.dtype == np.int32
    assert labels.shape == (k, encoded.n_tokens)
    np.testing.assert_array_equal(labels[0], posterior.decode(Viterbi()))
    scores = Scores(*(array / temperature for array in scores)).constrained(constraints, allowed)
    assert not np.diff(encoded.offsets).all()  # an empty sequence has one labelling
    for n, (first, last) in enumerate(pairwise(encoded.offsets)):
        paths, expected = reference.ranked(reference.sequence(scores, first, last))
        count = min(k, len(paths))
        np.testing.assert_allclose(found[:count, n], expected[:count], rtol=1e-9, atol=1e-9)
        np.testing.assert_array_equal(labels[:count, first:last], paths[:count])
        assert np.isneginf(found[count:, n]).all()
        assert (labels[count:, first:last] == -1).all()


@SHARED_AND_PER_POSITION
def test_shards_of_any_size_give_the_same(bigram_templates: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    model, training = make_model(bigram_templates)
    expected = model.posterior(training.encoded, FREE).nbest(4)
    monkeypatch.setattr(layout, "SHARD_FLOATS", 20)
    found = model.posterior(training.encoded, FREE).nbest(4)
    np.testing.assert_array_equal(found.labels, expected.labels)
    np.testing.assert_array_equal(found.log_probabilities, expected.log_probabilities)


@pytest.mark.parametrize("scale", [0.5, 5.0, 100.0, 3000.0])
def test_all_probabilities_sum_to_one_whatever_the_precision_of_the_weights(scale: float) -> None:
    model, training = make_model(dtype=np.float32, scale=scale)
    found = model.posterior(training.encoded, FREE).nbest(3**6).log_probabilities
    np.testing.assert_allclose(np.exp(found).sum(0), 1, atol=1e-9)
    assert (found <= 0).all()


@pytest.mark.parametrize("shard", [1 << 18, 20])
def test_a_sequence_without_labelling_is_told(shard: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "SHARD_FLOATS", shard)
    model, training = make_model()
    number = int(np.flatnonzero(np.diff(training.encoded.offsets))[-1])
    allowed = np.ones((training.encoded.n_tokens, 3), np.bool_)
    allowed[training.encoded.offsets[number]] = False
    with pytest.raises(DataError, match=f"Sequence {number} of the batch has no labelling"):
        model.posterior(training.encoded, FREE, allowed).nbest(2)


@pytest.mark.parametrize("k", [0, -3])
def test_a_list_has_at_least_one_labelling(k: int) -> None:
    model, training = make_model()
    with pytest.raises(ConfigError, match=f"a whole number from 1 on, not {k}"):
        model.posterior(training.encoded, FREE).nbest(k)
