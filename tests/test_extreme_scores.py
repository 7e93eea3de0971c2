"""Losses and posteriors where scores differ by up to thousands of nats, against the enumeration of all labellings.

Labellings that lead and fall behind by turns are what scaled recursions may round to zero on both sides.
"""

import math
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spacy_crfseq.losses.entropy import Entropy
from spacy_crfseq.losses.pointwise_exp import PointwiseExp
from spacy_crfseq.losses.pointwise_log import PointwiseLog
from spacy_crfseq.losses.sequential_exp import SequentialExp
from spacy_crfseq.losses.sequential_log import SequentialLog
from spacy_crfseq.types import MISSING, Batch, Scores
from tests import reference
from tests.kernels.helpers import DTYPES
from tests.problems import Problem, all_allowed, forbid
from tests.test_posterior import make_case


def extreme_problem(
    seed: int, *, size: float, n_labels: int, shared: bool, dtype: type, many: bool, masked: bool, missing: bool
) -> Problem:
    """Return scores that differ by up to `size` nats at a step, in quarters, which float32 adds without rounding.

    The scores of each label mostly sum to little, so that no labelling is clearly the best, and steps between labels
    are often expensive or forbidden.
    """
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 7 if n_labels < 3 else 5, 20 if many else 2)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    n_tokens = int(offsets[-1])
    emissions = size * rng.choice([-2, -1.05, -0.95, -0.6, -0.3, 0, 0.3, 0.6, 0.95, 1.05, 2], (n_tokens, n_labels))
    emissions += rng.uniform(-5, 5, emissions.shape)
    for first, after in pairwise(offsets):
        if rng.random() < 0.8:
            emissions[first:after] -= emissions[first:after].mean(0) + rng.uniform(-5, 5, n_labels)
    emissions = np.round(4 * emissions) / 4
    steps = -np.round(size * rng.choice([0.0, 0.1, 1.0]) * rng.random((1 if shared else n_tokens, n_labels, n_labels)))
    apart = ~np.eye(n_labels, dtype=np.bool_)
    steps[:, apart] -= round(size * rng.choice([0.0, 0.3, 1.0, 4.0]))
    gold = rng.integers(0, n_labels, n_tokens).astype(np.int32)
    if rng.random() < 0.5:  # one label in each sequence
        gold = np.repeat(gold[offsets[:-1]], lengths)
    start, end = (np.round(10 * rng.standard_normal(n_labels)) for _ in range(2))
    scores = Scores(*(array.astype(dtype) for array in (emissions, steps, start, end)))
    if masked:
        forbid(rng, scores, gold, offsets, 0.4)
    gold[rng.random(n_tokens) < (0.3 if missing else 0)] = MISSING
    return Problem(scores, Batch(offsets, gold, rng.choice([0.5, 1.0, 1000.0], len(lengths))))


PROBLEMS = st.builds(
    extreme_problem,
    st.integers(0, 2**32 - 1),
    size=st.sampled_from([30.0, 87.0, 150.0, 700.0, 1500.0]),
    n_labels=st.integers(1, 3),
    shared=st.booleans(),
    dtype=st.sampled_from(DTYPES),
    many=st.booleans(),
    masked=st.booleans(),
    missing=st.booleans(),
)


def lost(seed: int, *, dtype: type, many: bool = False, missing: bool = False) -> Problem:
    """Return a problem of whose labellings some lead in the end that a forward pass rounds to zero."""
    double = dtype == np.float64
    settings: dict[str, Any] = {"size": 700.0 if double else 87.0, "n_labels": 3 if double else 2, "shared": True}
    return extreme_problem(seed, dtype=dtype, many=many, masked=False, missing=missing, **settings)


def phi_of(cap: float) -> Any:
    return reference.capped_exponential(cap) if cap else reference.logarithmic


LOSSES: dict[str, tuple[Any, Any, float]] = {
    "SequentialLog": (SequentialLog(), reference.log_loss, 0.0),
    "PointwiseLog": (PointwiseLog(), partial(reference.pointwise_loss, phi=phi_of(0.0)), 0.0),
    "Entropy": (Entropy(), reference.covariance_loss, 0.0),
}
for _cap in (1.0, 5.0, 30.0):
    for _loss, _reference in ((SequentialExp, reference.sequential_loss), (PointwiseExp, reference.pointwise_loss)):
        LOSSES[f"{_loss.__name__}-{_cap:g}"] = _loss(_cap), partial(_reference, phi=phi_of(_cap)), _cap


@pytest.mark.parametrize("name", LOSSES)
@example(lost(95, dtype=np.float64))
@example(lost(31, dtype=np.float64))
@example(lost(732, dtype=np.float32, many=True, missing=True))
@example(lost(1596, dtype=np.float32, many=True, missing=True))
@given(PROBLEMS)
def test_no_gradient_is_lost(name: str, problem: Problem) -> None:
    loss, expected, cap = LOSSES[name]
    gradient = problem.scores.zeros_like()
    with np.errstate(all="ignore"):
        value = loss(problem.scores, problem.batch, gradient)
        wanted_value, wanted = expected(problem.scores, problem.batch)
    if name.startswith("PointwiseExp"):
        wanted_value += reference_known(problem.batch)
    if not math.isfinite(wanted_value):
        assert value == wanted_value
        return
    # the weights and slopes that the errors of each sequence are multiplied by
    slope = max(1.0, math.exp(cap)) * problem.batch.weights.sum() * 10
    narrow = problem.scores.start.dtype == np.float32
    precision = 1e-4 if narrow else 1e-8
    assert value == pytest.approx(wanted_value, rel=precision, abs=precision * slope)
    for array, right in zip(gradient, wanted, strict=True):
        np.testing.assert_allclose(array, right, rtol=precision, atol=precision * slope)


def reference_known(batch: Batch) -> float:
    """Return the weighted number of known labels, by which the exponential loss exceeds the sum of phi."""
    return float(np.repeat(batch.weights, np.diff(batch.offsets)) @ (batch.gold >= 0))


@example(lost(83, dtype=np.float64), 0)
@example(lost(133, dtype=np.float64), 0)
@given(PROBLEMS, st.integers(0, 2**32 - 1))
def test_no_probability_is_lost(problem: Problem, seed: int) -> None:
    n_labels = len(problem.scores.start)
    case = make_case(problem, all_allowed(n_labels), np.ones((problem.batch.n_tokens, n_labels), np.bool_))
    posterior, rng = case.posterior, np.random.default_rng(seed)
    precision = 1e-4 if problem.scores.start.dtype == np.float32 else 1e-9
    limits = {"rtol": precision, "atol": precision}
    labels = rng.integers(0, n_labels, problem.batch.n_tokens).astype(np.int32)
    starts = np.arange(problem.batch.n_tokens)
    best = posterior.nbest(3)
    for actual, (scores, path) in zip(posterior.log_probabilities(labels), case.parts(labels), strict=True):
        wanted = reference.path_score(scores, path.tolist()) - reference.log_partition(scores)
        assert actual == pytest.approx(wanted, rel=1e-12, abs=1e-9)
    for actual, (scores, _) in zip(best.log_probabilities.T, case.parts(starts), strict=True):
        paths, values = reference.completions(scores)
        wanted = np.sort(values - reference.log_sum(values))[::-1][:3]
        wanted = np.append(wanted, np.full(3 - len(wanted), -np.inf))
        np.testing.assert_allclose(actual, wanted, rtol=1e-9, atol=1e-9)
    for scores, actual in case.parts(posterior.marginals()):
        np.testing.assert_allclose(actual, reference.marginals(scores), **limits)
    shares = np.concatenate([reference.marginals(scores) for scores in case.sequences])[starts, labels]
    np.testing.assert_allclose(posterior.label_probabilities(labels), shares, **limits)
    np.testing.assert_allclose(posterior.span_probabilities(labels, starts, starts + 1), shares, **limits)
    rows, values = posterior.candidates(0.01)
    table = np.zeros((problem.batch.n_tokens, n_labels))
    table[rows[:, 0], rows[:, 2]] = values
    wanted = np.concatenate([reference.marginals(scores) for scores in case.sequences])
    np.testing.assert_allclose(table, np.where((wanted > 0.01) | (table > 0), wanted, 0), **limits)
    for actual, scores in zip(posterior.entropies(), case.sequences, strict=True):
        _, values = reference.completions(scores)
        logs = values - reference.log_sum(values)
        logs = logs[logs > -800]
        assert actual == pytest.approx(-(np.exp(logs) @ logs), rel=1e-6, abs=1e-8)
    sampled = posterior.sample(4, rng)
    for scores, paths in case.parts(sampled.T):
        chances = [reference.path_score(scores, path.tolist()) - reference.log_partition(scores) for path in paths.T]
        assert min(chances) > -40  # one that is never drawn
    expected = 2 * shares.sum() / (2 * problem.batch.n_tokens)
    assert posterior.expected_f(labels) == pytest.approx(expected, rel=precision, abs=precision)
