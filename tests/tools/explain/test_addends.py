"""What explanations are made of: the features of a text by name, and the best labelling with any label."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_crfseq.features.encoder import Active, names_of
from spacy_crfseq.model import LinearChainCRF
from spacy_crfseq.tools.explain import BestThrough
from tests import reference
from tests.problems import (
    BIGRAM_TEMPLATES,
    TEMPLATES,
    Training,
    columns_of,
    ids_of_tokens,
    random_problem,
    training_problem,
)

LABELS = ["A", "B", "C"]
ActivePair = tuple[list[Active], list[Active]]


def make_model(dtype: type = np.float64, **settings: Any) -> tuple[LinearChainCRF, Training]:
    training = training_problem(7, n_sequences=15, **settings)
    theta = training.random_theta(np.random.default_rng(1)).astype(dtype)
    return training.model(theta, LABELS), training


def active_of(training: Training) -> ActivePair:
    return training.encoder.active(columns_of(training.vocabulary, training.encoder, training.sentences))


def test_active_attributes_are_those_of_the_encoder() -> None:
    """With the same names as a plain reading of the text has."""
    model, training = make_model(bigram_templates=BIGRAM_TEMPLATES)
    blocks = (training.encoder.unigrams, training.encoder.bigrams)
    encoded = (training.encoded.unigrams, training.encoded.bigrams)
    for block, active, ids, templates in zip(
        blocks, active_of(training), encoded, (TEMPLATES, BIGRAM_TEMPLATES), strict=True
    ):
        found: list[list[int]] = [[] for _ in range(training.encoded.n_tokens)]
        names: list[set[str]] = [set() for _ in found]
        for one in active:
            of_template = names_of(block.plan, one.template, one.values, training.vocabulary.text_of)
            for token, attribute, name in zip(one.tokens.tolist(), one.features.tolist(), of_template, strict=True):
                found[token].append(attribute)
                names[token].add(name)
        assert [sorted(attributes) for attributes in found] == ids_of_tokens(ids)
        expected = [
            set(token)
            for sentence in training.sentences
            for token in reference.attribute_sets(sentence.words, {"TAG": sentence.tags}, templates)
        ]
        assert names == expected
    assert model.layout.bigrams.n_rows


@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.3]), st.booleans())
def test_the_best_labelling_with_a_label(seed: int, masked: float, shared: bool) -> None:
    problem = random_problem(
        np.random.default_rng(seed), n_labels=3, lengths=[3, 0, 1, 4], shared=shared, masked=masked
    )
    offsets, n_tokens = problem.batch.offsets, problem.batch.n_tokens
    best = BestThrough(problem.scores, offsets)
    fixed = np.zeros(n_tokens, np.int32)
    for first, last in pairwise(offsets.tolist()):
        one = reference.sequence(problem.scores, first, last)
        paths = reference.all_paths(last - first, 3)
        values = reference.all_path_scores(one, paths)
        for t, label in product(range(first, last), range(3)):
            expected = values[paths[:, t - first] == label].max()
            assert best.scores[t, label] == pytest.approx(expected)
            if expected > -np.inf:
                found = best.labelling(t, label, fixed)
                assert found[t] == label
                assert reference.path_score(one, found[first:last].tolist()) == pytest.approx(expected)
                assert not found[:first].any()
                assert not found[last:].any()
