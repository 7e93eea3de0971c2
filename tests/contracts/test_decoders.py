"""What every registered decoder must do; a new one is tested by being registered."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_crfseq import registry
from spacy_crfseq.errors import ConfigError, DataError
from spacy_crfseq.losses.local_log import LocalLog
from spacy_crfseq.losses.sequential_log import SequentialLog
from spacy_crfseq.optimizers.adagrad import AdaGrad
from spacy_crfseq.regularizers.l2 import L2
from spacy_crfseq.training.compatibility import check_plugins
from spacy_crfseq.types import Constraints, Decoder
from tests import reference
from tests.problems import Problem, all_allowed, problems, random_constraints, random_problem

ARGUMENTS: dict[str, dict[str, Any]] = {}
"""Arguments of decoders that cannot be made without."""
DECODERS = registry.decoders.get_all()
EVERY_DECODER = pytest.mark.parametrize(
    "decoder", [make(**ARGUMENTS.get(name, {})) for name, make in DECODERS.items()], ids=DECODERS
)
PROBLEMS = problems(maskable=False, missing=False, scales=(1.0, 100.0), dtypes=(np.float32, np.float64))


def is_allowed(path: list[int], constraints: Constraints, allowed: np.ndarray) -> bool:
    steps = all(constraints.step[i, j] for i, j in itertools.pairwise(path))
    tokens = all(allowed[t, label] for t, label in enumerate(path))
    return not path or bool(constraints.start[path[0]] and constraints.end[path[-1]] and steps and tokens)


@EVERY_DECODER
@given(PROBLEMS, st.integers(0, 2**32 - 1), st.sampled_from([0.3, 0.7, 1.0]), st.booleans())
def test_only_allowed_paths(decoder: Decoder, problem: Problem, seed: int, share: float, mask_tokens: bool) -> None:
    constraints, allowed = random_constraints(np.random.default_rng(seed), problem, share)
    if not mask_tokens:
        allowed[:] = True
    labels = decoder(problem.scores, problem.batch.offsets, constraints, allowed if mask_tokens else None)
    assert labels.dtype == np.int32
    assert labels.shape == problem.batch.gold.shape
    for first, last in problem.sequence_bounds():
        assert is_allowed(labels[first:last].tolist(), constraints, allowed[first:last])


@EVERY_DECODER
@pytest.mark.parametrize("local", [False, True])
def test_it_is_for_one_kind_of_loss(decoder: Decoder, local: bool) -> None:
    parts = {"regularizer": L2(), "optimizer": AdaGrad(), "decoder": decoder}
    loss = LocalLog() if local else SequentialLog()
    if local == getattr(decoder, "local", False):
        check_plugins("crf", loss=loss, **parts)
    else:
        with pytest.raises(ConfigError, match="cannot decode for the loss"):
            check_plugins("crf", loss=loss, **parts)


@EVERY_DECODER
@given(PROBLEMS)
def test_scores_are_left_alone(decoder: Decoder, problem: Problem) -> None:
    before = [array.copy() for array in problem.scores]
    constraints, allowed = random_constraints(np.random.default_rng(0), problem, 0.5)
    decoder(problem.scores, problem.batch.offsets, constraints, allowed)
    for array, copy in zip(problem.scores, before, strict=True):
        np.testing.assert_array_equal(array, copy)


@EVERY_DECODER
def test_labels_far_above_the_others_are_chosen(decoder: Decoder) -> None:
    problem = random_problem(np.random.default_rng(0), n_labels=4, lengths=[3, 0, 5], shared=True)
    problem.scores.emissions[np.arange(8), problem.batch.gold] += 50
    labels = decoder(problem.scores, problem.batch.offsets, all_allowed(4))
    assert labels.tolist() == problem.batch.gold.tolist()


@EVERY_DECODER
@pytest.mark.parametrize("forbidden", ["start", "step", "end", "token"])
def test_where_nothing_is_allowed_it_says_so(decoder: Decoder, forbidden: str) -> None:
    problem = random_problem(np.random.default_rng(0), n_labels=3, lengths=[2, 2], shared=True)
    constraints, allowed = all_allowed(3), np.ones((4, 3), np.bool_)
    if forbidden == "token":
        allowed[2] = False
    else:
        getattr(constraints, forbidden)[:] = False
    with pytest.raises(DataError, match="Sequence 1" if forbidden == "token" else "Sequence 0"):
        decoder(problem.scores, problem.batch.offsets, constraints, allowed)


@given(PROBLEMS, st.integers(0, 2**32 - 1))
def test_viterbi_finds_the_best_allowed_path(problem: Problem, seed: int) -> None:
    constraints, allowed = random_constraints(np.random.default_rng(seed), problem, 0.5)
    decoder = registry.decoders.get("spacy_crfseq.Viterbi.v1")()
    labels = decoder(problem.scores, problem.batch.offsets, constraints, allowed)
    for first, last in problem.sequence_bounds():
        if last > first:
            one = reference.sequence(problem.scores, first, last)
            one = reference.masked(one, constraints.start, constraints.step, constraints.end, allowed[first:last])
            best = reference.best_score(one)
            assert reference.path_score(one, labels[first:last].tolist()) == pytest.approx(best, rel=1e-5, abs=1e-3)


def allowed_paths(problem: Problem, seed: int, first: int, last: int) -> np.ndarray:
    """Return all label sequences of the tokens first..last-1 that random constraints allow, [P, n]."""
    constraints, allowed = random_constraints(np.random.default_rng(seed), problem, 0.5)
    paths = reference.all_paths(last - first, problem.scores.start.shape[0])
    keep = [is_allowed(path.tolist(), constraints, allowed[first:last]) for path in paths]
    return paths[np.array(keep, np.bool_)]


@given(PROBLEMS, st.integers(0, 2**32 - 1))
def test_posterior_has_most_labels_right_by_expectation(problem: Problem, seed: int) -> None:
    constraints, allowed = random_constraints(np.random.default_rng(seed), problem, 0.5)
    decoder = registry.decoders.get("spacy_crfseq.Posterior.v1")()
    labels = decoder(problem.scores, problem.batch.offsets, constraints, allowed)
    for first, last in problem.sequence_bounds():
        if last > first:
            one = reference.sequence(problem.scores, first, last)
            one = reference.masked(one, constraints.start, constraints.step, constraints.end, allowed[first:last])
            marginals = reference.marginals(one)
            paths = allowed_paths(problem, seed, first, last)
            expected = marginals[np.arange(last - first), paths].sum(1)
            found = marginals[np.arange(last - first), labels[first:last]].sum()
            assert found == pytest.approx(expected.max(), abs=1e-3)


@given(PROBLEMS)
def test_posterior_without_constraints_takes_the_most_probable_label_of_each_token(problem: Problem) -> None:
    decoder = registry.decoders.get("spacy_crfseq.Posterior.v1")()
    labels = decoder(problem.scores, problem.batch.offsets, all_allowed(problem.scores.start.shape[0]))
    for first, last in problem.sequence_bounds():
        marginals = reference.marginals(reference.sequence(problem.scores, first, last))
        found = marginals[np.arange(last - first), labels[first:last]]
        np.testing.assert_allclose(found, marginals.max(1), atol=1e-3)


@given(PROBLEMS, st.integers(0, 2**32 - 1))
def test_local_viterbi_finds_the_most_probable_allowed_path(problem: Problem, seed: int) -> None:
    constraints, allowed = random_constraints(np.random.default_rng(seed), problem, 0.5)
    decoder = registry.decoders.get("spacy_crfseq.LocalViterbi.v1")()
    labels = decoder(problem.scores, problem.batch.offsets, constraints, allowed)
    for first, last in problem.sequence_bounds():
        if last > first:
            one = reference.sequence(problem.scores, first, last)
            expected = reference.local_log_probabilities(one, allowed_paths(problem, seed, first, last))
            found = reference.local_log_probabilities(one, labels[None, first:last])
            assert found[0] == pytest.approx(expected.max(), rel=1e-5, abs=1e-3)
