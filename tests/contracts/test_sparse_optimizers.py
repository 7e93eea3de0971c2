"""The contract of every registered optimizer that minimises penalties with corners; a new one is tested by its name.

The judge is the optimality condition: zero is a subgradient of the objective, which for an elastic net says
``|d loss / d w| <= rho1`` where w is zero and ``d loss / d w + rho2 w = -rho1 sign(w)`` elsewhere.
"""

import itertools
from functools import lru_cache

import numpy as np
import pytest

from spacy_crfseq.papers.batch import GroupLasso
from spacy_crfseq.regularizers.elastic_net import ElasticNet, elastic_net_mix
from spacy_crfseq.regularizers.l1 import L1
from spacy_crfseq.regularizers.l2 import L2
from spacy_crfseq.types import Floats, Regularizer, StepReport
from tests.contracts.test_optimizers import make, minimising, never_rises, run
from tests.problems import Training, training_problem

TIGHT = {"tolerance": 1e-11, "gradient_tolerance": 1e-7, "max_iterations": 1000}


SPARSE = minimising({"elastic", "prox"}, online=False)
EVERY_SPARSE = pytest.mark.parametrize("name", SPARSE)
GENERIC = pytest.mark.parametrize("name", minimising({"prox"}, online=False))
PENALTIES = [L1(0.3), ElasticNet(0.5, 0.1), elastic_net_mix(0.7, 0.5)]
EVERY_PENALTY = pytest.mark.parametrize("penalty", PENALTIES, ids=str)


@lru_cache(maxsize=len(PENALTIES) + 2)
def problem(penalty: Regularizer, n_threads: int = 1, bigram_templates: tuple[str, ...] = ()) -> Training:
    templates = {"templates": ("LOWER", "TAG[-1..0]"), "bigram_templates": bigram_templates}
    training = training_problem(3, n_sequences=24, regularizer=penalty, **templates)
    training.objective._n_threads = n_threads
    return training


@lru_cache(maxsize=30)
def solution(name: str, penalty: Regularizer) -> tuple[Floats, list[StepReport]]:
    return run(make(name, **TIGHT), problem(penalty))


def gradient_of_loss(training: Training, theta: Floats) -> Floats:
    """Return the gradient without that of the penalty's smooth part."""
    gradient, smooth = training.objective.value_and_grad(theta)[2], np.zeros_like(theta)
    training.objective.regularizer.add_grad(theta, smooth)
    return gradient - smooth


@EVERY_PENALTY
@EVERY_SPARSE
def test_the_solution_is_optimal(name: str, penalty: ElasticNet) -> None:
    theta, reports = solution(name, penalty)
    l1, l2 = penalty.strengths
    gradient = gradient_of_loss(problem(penalty), theta) + l2 * theta
    off = theta == 0
    assert off.any()
    assert not off.all()
    least = np.where(off, np.maximum(abs(gradient) - l1, 0), gradient + l1 * np.sign(theta))
    assert np.linalg.norm(least) < 1e-4 * np.linalg.norm(theta)
    assert reports[-1].grad_norm == pytest.approx(np.linalg.norm(least), rel=0.2, abs=1e-6)
    value, loss, _ = problem(penalty).objective.value_and_grad(theta)
    assert (reports[-1].value, reports[-1].loss) == pytest.approx((value, loss))
    assert never_rises(reports)


@EVERY_PENALTY
@EVERY_SPARSE
def test_all_agree_in_objective_and_active_weights(name: str, penalty: ElasticNet) -> None:
    training, results = problem(penalty), [solution(other, penalty)[0] for other in (name, SPARSE[0])]
    values = [training.objective.value(theta) for theta in results]
    assert values[0] == pytest.approx(values[1], rel=1e-4)
    assert np.sum((results[0] == 0) != (results[1] == 0)) <= 0.01 * np.count_nonzero(results[1])


@EVERY_SPARSE
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_defaults_come_close_in_either_precision(name: str, dtype: type) -> None:
    penalty = ElasticNet(0.5, 0.1)
    theta, _ = run(make(name), problem(penalty), dtype)
    least = solution(SPARSE[0], penalty)[1][-1].value
    assert problem(penalty).objective.value(theta) == pytest.approx(least, rel=1e-3)


@EVERY_SPARSE
def test_threads_change_nothing_but_the_last_digits(name: str) -> None:
    theta = run(make(name, **TIGHT), problem(L1(0.3), n_threads=2))[0]
    np.testing.assert_allclose(theta, solution(name, L1(0.3))[0], atol=1e-4)


@EVERY_SPARSE
@pytest.mark.parametrize("penalty", [L1(1e4), ElasticNet(1e4, 1.0)], ids=str)
def test_a_strong_penalty_leaves_nothing(name: str, penalty: Regularizer) -> None:
    theta, reports = run(make(name), problem(penalty))
    assert not theta.any()
    assert reports[-1].grad_norm == 0


@EVERY_SPARSE
def test_weights_return_to_zero(name: str) -> None:
    """From a solution with few zeros, as along a path of penalties in the other direction."""
    training = problem(ElasticNet(0.5, 0.1))
    theta, reports = run(make(name, **TIGHT), training, start=training.random_theta(np.random.default_rng(0)))
    expected = solution(SPARSE[0], ElasticNet(0.5, 0.1))
    assert reports[-1].value == pytest.approx(expected[1][-1].value, rel=1e-6)
    np.testing.assert_array_equal(theta == 0, expected[0] == 0)


@pytest.mark.parametrize("name", minimising({"none", "l2", "elastic", "smooth", "prox"}, online=False))
def test_where_there_is_nothing_to_learn_it_ends(name: str) -> None:
    training = training_problem(3, n_sequences=5, regularizer=L2(1.0))
    training.objective.data.weights[:] = 0
    theta, reports = run(make(name), training)
    assert not theta.any()
    assert len(reports) < 20
    assert reports[-1].value == 0


@GENERIC
@pytest.mark.parametrize("bigram_templates", [(), ("TAG[0]",)], ids=["state", "pairs"])
def test_group_lasso_is_optimal(name: str, bigram_templates: tuple[str, ...]) -> None:
    """The loss's gradient is at most rho sqrt(n_r) long in a row of zeros, and -rho sqrt(n_r) w_r/||w_r|| elsewhere."""
    training = problem(GroupLasso(0.4), bigram_templates=bigram_templates)
    theta, reports = run(make(name, **TIGHT), training)
    gradient, dropped = gradient_of_loss(training, theta), 0
    for block in training.objective.blocks:
        begins = block.ptr if len(block.ptr) else np.arange(block.n_rows + 1) * block.width
        for first, last in itertools.pairwise(block.begin + begins):
            row, slope, bound = theta[first:last], gradient[first:last], 0.4 * np.sqrt(last - first)
            norm = np.linalg.norm(row)
            if norm:
                np.testing.assert_allclose(slope, -bound * row / norm, atol=1e-4)
                assert row.all()
            else:
                assert np.linalg.norm(slope) <= bound + 1e-4
                dropped += last - first > 1
    assert dropped
    assert never_rises(reports)
