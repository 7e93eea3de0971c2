"""Addends of scores sum to what the scorer computes; the best labelling through a label equals the enumeration."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_crfseq.evaluation.contributions import (
    BIGRAM,
    DICTIONARY,
    END,
    START,
    TRANSITION,
    UNIGRAM,
    Addends,
    BestThrough,
)
from spacy_crfseq.features.encoder import Active, names_of
from spacy_crfseq.model import LinearChainCRF
from spacy_crfseq.types import Ints
from tests import reference
from tests.problems import (
    BIGRAM_TEMPLATES,
    TEMPLATES,
    Training,
    columns_of,
    ids_of_tokens,
    make_encoder,
    random_problem,
    random_sentences,
    training_problem,
)

LABELS = ["A", "B", "C"]
EVERY_KIND = [
    {"support": support, "bigram_templates": pairs, "dictionary_size": size}
    for support, pairs, size in product(["observed", "all"], [(), BIGRAM_TEMPLATES], [0, 3])
]
ActivePair = tuple[list[Active], list[Active]]


def make_model(dtype: type = np.float64, **settings: Any) -> tuple[LinearChainCRF, Training]:
    training = training_problem(7, n_sequences=15, **settings)
    theta = training.random_theta(np.random.default_rng(1)).astype(dtype)
    return training.model(theta, LABELS), training


def active_of(training: Training) -> ActivePair:
    return training.encoder.active(columns_of(training.vocabulary, training.encoder, training.sentences))


def random_labels(n_tokens: int) -> Ints:
    return np.random.default_rng(3).integers(0, 3, n_tokens).astype(np.int32)


@pytest.mark.parametrize("settings", EVERY_KIND)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("threshold", [None, 0.0, 0.4])
def test_addends_sum_to_the_score(settings: dict[str, Any], dtype: type, threshold: float | None) -> None:
    """Token by token, and in all: also of compact models, and of texts with unknown words."""
    model, training = make_model(dtype, **settings)
    encoder = training.encoder
    if threshold is not None:
        model = model.compact(threshold)
        encoder = make_encoder(training.vocabulary, TEMPLATES, settings["bigram_templates"], model.keys)
        encoder.words = None if model.dictionary is None else model.dictionary.word_index()
    sentences = [*training.sentences, *random_sentences(np.random.default_rng(9), 10)]
    sentences[-1] = sentences[-1]._replace(words=("unseen", "words"), tags=("NN", "ZZ"))
    text = columns_of(training.vocabulary, encoder, sentences)
    encoded = encoder.encode(text)
    scores = model.source(encoded).forward((0, len(sentences)))[0]
    labels = random_labels(encoded.n_tokens)
    addends = Addends(model, encoder.active(text), encoded.offsets, encoded.words)
    tolerance = 1e-5 if dtype == np.float32 else 1e-12

    steps = np.broadcast_to(scores.transitions, (len(labels), 3, 3))
    expected = scores.emissions[np.arange(len(labels)), labels].astype(np.float64)
    total = 0.0
    for first, last in pairwise(encoded.offsets.tolist()):
        total += reference.path_score(reference.sequence(scores, first, last), labels[first:last].tolist())
        for t in range(first + 1, last):
            expected[t] += steps[t, labels[t - 1], labels[t]]
        if last > first:
            expected[first] += scores.start[labels[first]]
            expected[last - 1] += scores.end[labels[last - 1]]
    by_token = np.bincount(addends.tokens, addends.amounts(labels), len(expected))
    np.testing.assert_allclose(by_token, expected, atol=tolerance)
    assert addends.amounts(labels).sum() == pytest.approx(total, abs=1e-4)
    assert (np.isinf(expected).any()) == (settings["dictionary_size"] > 0)


@pytest.mark.parametrize("settings", EVERY_KIND)
def test_each_addend_is_a_parameter(settings: dict[str, Any]) -> None:
    """What a parameter adds to a score is the parameter as often as it is used: the gradient of the score."""
    model, training = make_model(**settings)
    encoded = training.encoded
    labels = random_labels(encoded.n_tokens)
    addends = Addends(model, active_of(training), encoded.offsets, encoded.words)
    amounts = addends.amounts(labels)
    firsts = set(encoded.offsets[:-1][np.diff(encoded.offsets) > 0].tolist())
    for kind, names in ((UNIGRAM, "unigrams"), (BIGRAM, "bigrams")):
        mine = addends.kinds == kind
        of_token = [[] for _ in labels]
        for token, amount in zip(addends.tokens[mine].tolist(), amounts[mine].tolist(), strict=True):
            of_token[token].append(amount)
        dense = np.zeros((len(model.keys[kind]), 3 if kind == UNIGRAM else 9))
        rows, weights = getattr(model.layout, names), getattr(model.views, names)
        attributes = np.arange(rows.n_rows)
        if settings["support"] == "all":
            dense[:] = weights.reshape(dense.shape)
        else:
            dense[np.repeat(attributes, np.diff(rows.ptr)), rows.cols] = weights
        for t, ids in enumerate(ids_of_tokens(getattr(encoded, names))):
            if kind == BIGRAM and t in firsts:
                assert not any(of_token[t])
                continue
            column = labels[t] if kind == UNIGRAM else 3 * labels[t - 1] + labels[t]
            assert sorted(of_token[t]) == sorted(dense[ids, column].tolist())
    for kind, count in ((START, len(firsts)), (END, len(firsts)), (TRANSITION, len(labels) - len(firsts))):
        assert (addends.kinds == kind).sum() == count
    assert (addends.kinds == DICTIONARY).any() == (settings["dictionary_size"] > 0)


def test_addends_of_some_tokens_are_a_part_of_all() -> None:
    model, training = make_model(bigram_templates=BIGRAM_TEMPLATES)
    labels = random_labels(training.encoded.n_tokens)
    addends = Addends(model, active_of(training), training.encoded.offsets)
    assert (np.diff(addends.tokens) >= 0).all()
    whole = addends.amounts(labels)
    for first, last in ((0, 0), (0, 3), (5, 9), (len(labels) - 1, len(labels))):
        which = addends.of_tokens(first, last)
        assert set(addends.tokens[which].tolist()) == set(range(first, last))
        np.testing.assert_array_equal(addends.amounts(labels, which), whole[which])


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


def test_unknown_attributes_have_no_number() -> None:
    _, training = make_model()
    sentence = training.sentences[0]._replace(words=("unseen",), tags=("",))
    active, _ = training.encoder.active(columns_of(training.vocabulary, training.encoder, [sentence]))
    plan = training.encoder.unigrams.plan
    named = {
        name: int(attribute)
        for one in active
        for name, attribute in zip(
            names_of(plan, one.template, one.values, training.vocabulary.text_of), one.features, strict=True
        )
    }
    assert named["LOWER[0]=unseen"] == -1
    assert named["LOWER[-1]=_B-1"] >= 0
    assert not any(name.startswith("TAG[0]=") for name in named)


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
