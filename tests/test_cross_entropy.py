"""Cross-entropy to chains: sums over all labellings, finite differences, point masses, and what it refuses."""

import itertools
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_crfseq import Chain
from spacy_crfseq.errors import DataError
from spacy_crfseq.losses.cross_entropy import CrossEntropy
from spacy_crfseq.losses.sequential_log import SequentialLog
from spacy_crfseq.types import MISSING, Batch, Candidates, IncorrectSpan, Scores, Shares
from tests import reference

N_LABELS, LENGTHS = 3, (3, 1, 0, 4, 2)
OFFSETS = np.cumsum([0, *LENGTHS])
N_TOKENS = int(OFFSETS[-1])


def random_scores(rng: np.random.Generator, *, shared: bool = True, dtype: Any = np.float64) -> Scores:
    shapes = (N_TOKENS, N_LABELS), (1 if shared else N_TOKENS, N_LABELS, N_LABELS), (N_LABELS,), (N_LABELS,)
    return Scores(*(rng.normal(0, 1.5, shape).astype(dtype) for shape in shapes))


def batch_of(chain: Chain, gold: np.ndarray, weights: np.ndarray, *, pairs: bool = True) -> Batch:
    """Return a batch in which the tokens with gold label -9 have the distributions of a chain.

    Candidates set 0, the gold label -2, is of the labels 0 and 2.
    """
    steps, shares = chain.pair_marginals(), chain.marginals()
    rows, entries = [np.array([True, False, True])], [[(0, 0, 0.0)][:0]]
    gold = gold.copy()
    for token in np.flatnonzero(gold == -9):
        table = steps[token]
        if pairs and table.any():
            entry = [(i, j, float(table[i, j])) for i, j in np.argwhere(table > 0).tolist()]
        else:
            entry = [(MISSING, j, float(shares[token, j])) for j in np.flatnonzero(shares[token] > 0).tolist()]
        gold[token] = MISSING - 1 - len(rows)
        rows.append(shares[token] > 0)
        entries.append(entry)
    flat = [item for entry in entries for item in entry]
    before, labels, values = zip(*flat, strict=True) if flat else ((), (), ())
    sparse = Shares(
        np.cumsum([0, *map(len, entries)]),
        np.array(before, np.int32),
        np.array(labels, np.int32),
        np.array(values, float),
    )
    return Batch(OFFSETS, gold.astype(np.int32), weights, Candidates(np.array(rows), (), sparse))


def evaluate(loss: Any, scores: Scores, batch: Batch) -> tuple[float, Scores]:
    grad = scores.zeros_like()
    return loss(scores, batch, grad), grad


def written_out(scores: Scores, q: Chain, gold: np.ndarray, weights: np.ndarray) -> float:
    """Return the loss by all labellings: q is independent on the two sides of tokens that are summed out."""
    total, shares = 0.0, q.marginals()
    for n, (first, last) in enumerate(itertools.pairwise(OFFSETS)):
        if first == last:
            continue
        own, length = reference.sequence(scores, first, last), last - first
        paths = reference.all_paths(length, N_LABELS)
        values = reference.all_path_scores(own, paths)

        definite, partly = gold[first:last] != MISSING, gold[first:last] == -2
        possible = np.ones(len(paths), bool)
        for t in np.flatnonzero(partly):
            possible &= paths[:, t] != 1
        definite &= ~partly
        log_q = np.zeros(len(paths))
        steps = q.pair_marginals()
        with np.errstate(divide="ignore", invalid="ignore"):
            for t in np.flatnonzero(definite):
                label = paths[:, t]
                if t and definite[t - 1]:
                    log_q += np.log(steps[first + t][paths[:, t - 1], label] / shares[first + t - 1, paths[:, t - 1]])
                else:
                    log_q += np.log(shares[first + t, label])
        q_of = np.nan_to_num(np.exp(log_q))
        log_z = reference.log_sum(values)
        for known_labels in np.unique(paths[:, definite], axis=0):
            agreeing = (paths[:, definite] == known_labels).all(1)
            share = q_of[agreeing][0]
            if share > 0:
                log_p = reference.log_sum(values[agreeing & possible]) - log_z
                total += weights[n] * share * (np.log(share) - log_p)
    return total


@given(st.integers(0, 10_000), st.booleans(), st.sampled_from([0.0, 0.4]))
def test_loss_is_that_of_all_labellings_and_its_gradient_is_that_of_finite_differences(
    seed: int, shared: bool, missing: float
) -> None:
    rng = np.random.default_rng(seed)
    scores, weights = random_scores(rng, shared=shared), rng.choice([0.0, 0.5, 2.0], len(LENGTHS))
    own = random_scores(rng)
    forbidden = rng.random((N_TOKENS, N_LABELS)) < 0.2
    forbidden[np.arange(N_TOKENS), rng.integers(0, N_LABELS, N_TOKENS)] = False
    q = Chain(np.where(forbidden, -np.inf, own.emissions), own.transitions[0], own.start, own.end, offsets=OFFSETS)
    gold = np.full(N_TOKENS, -9)
    chance = rng.random(N_TOKENS)
    gold[chance < missing] = MISSING
    gold[chance < missing / 2] = -2
    soft = gold == -9
    for number in range(len(LENGTHS)):  # what has no distribution is not of this loss
        tokens = slice(*OFFSETS[number : number + 2])
        if not soft[tokens].any():
            gold[tokens] = MISSING
    batch = batch_of(q, gold, weights)
    value, grad = evaluate(CrossEntropy(), scores, batch)
    assert value == pytest.approx(written_out(scores, q, gold, weights), abs=1e-9)
    for array, slopes in zip(scores, grad, strict=True):
        for place in np.ndindex(array.shape):
            kept, ends = array[place], []
            for step in (1e-5, -1e-5):
                array[place] = kept + step
                ends.append(evaluate(CrossEntropy(), scores, batch)[0])
            array[place] = kept
            assert slopes[place] == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shared", [True, False])
def test_a_point_mass_is_the_log_loss_bit_for_bit(dtype: Any, shared: bool) -> None:
    rng = np.random.default_rng(0)
    scores, weights = random_scores(rng, shared=shared, dtype=dtype), rng.random(len(LENGTHS))
    gold = rng.integers(0, N_LABELS, N_TOKENS)
    sure = Chain(np.where(np.arange(N_LABELS) == gold[:, None], 0, -np.inf), np.zeros((3, 3)), offsets=OFFSETS)
    gold[2] = MISSING
    soft = np.where((rng.random(N_TOKENS) < 0.6) & (gold >= 0), -9, gold)
    hard = Batch(OFFSETS, gold.astype(np.int32), weights)
    value, grad = evaluate(CrossEntropy(), scores, batch_of(sure, soft, weights))
    expected, expected_grad = evaluate(SequentialLog(), scores, hard)
    assert value == expected
    for array, wanted in zip(grad, expected_grad, strict=True):
        np.testing.assert_array_equal(array, wanted)


def test_the_best_scores_are_those_of_the_distribution_and_the_loss_is_zero() -> None:
    own = random_scores(np.random.default_rng(1))
    q = Chain(own.emissions, own.transitions[0], own.start, own.end, offsets=OFFSETS)
    value, grad = evaluate(CrossEntropy(), own, batch_of(q, np.full(N_TOKENS, -9), np.ones(len(LENGTHS))))
    assert value == pytest.approx(0, abs=1e-9)
    for array in grad:
        np.testing.assert_allclose(array, 0, atol=1e-10)


def test_distributions_beside_known_labels_and_without_pairs_are_independent_of_them() -> None:
    scores = random_scores(np.random.default_rng(2))
    q = Chain(random_scores(np.random.default_rng(3)).emissions, np.zeros((3, 3)), offsets=OFFSETS)
    gold = np.array([-9, 1, -9, 0, -9, -9, 2, -9, -9, -9])
    with_pairs, without = (batch_of(q, gold, np.ones(len(LENGTHS)), pairs=pairs) for pairs in (True, False))
    value, grad = evaluate(CrossEntropy(), scores, with_pairs)
    other, other_grad = evaluate(CrossEntropy(), scores, without)
    assert value == pytest.approx(other, abs=1e-10)
    np.testing.assert_allclose(grad.transitions, other_grad.transitions, atol=1e-10)


def test_a_span_known_to_be_wrong_beside_a_distribution_is_refused() -> None:
    scores = random_scores(np.random.default_rng(0))
    q = Chain(np.zeros((N_TOKENS, 3)), np.zeros((3, 3)), offsets=OFFSETS)
    gold = np.array([-9, -2, 0, 0, 0, 0, 0, 0, 0, 0])
    batch = batch_of(q, gold, np.ones(len(LENGTHS)))
    candidates = batch.candidates._replace(incorrect=(IncorrectSpan(0, 1, np.ones((1, 3), np.bool_)),))
    message = "Token 1 begins a span that is known to be wrong"
    with pytest.raises(DataError, match=re.escape(message)):
        evaluate(CrossEntropy(), scores, batch._replace(candidates=candidates))


def test_probabilities_of_fewer_sets_than_there_are_are_refused() -> None:
    scores = random_scores(np.random.default_rng(0))
    batch = batch_of(Chain(np.zeros((N_TOKENS, 3)), np.zeros((3, 3))), np.full(N_TOKENS, -9), np.ones(len(LENGTHS)))
    shares = batch.candidates.shares
    short = batch._replace(candidates=batch.candidates._replace(shares=shares._replace(ptr=shares.ptr[:-1])))
    with pytest.raises(DataError, match="must be 12, for 11 candidate sets, not 11"):
        evaluate(CrossEntropy(), scores, short)
