"""The contract of every registered decoder; a new one is tested by being registered."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_crfseq import registry
from spacy_crfseq.errors import ConfigError, DataError
from spacy_crfseq.losses.sequential_log import SequentialLog
from spacy_crfseq.optimizers.adagrad import AdaGrad
from spacy_crfseq.papers.local import LocalLog
from spacy_crfseq.regularizers.l2 import L2
from spacy_crfseq.training.compatibility import check_plugins
from spacy_crfseq.types import Constraints, Decoder, Scores
from tests import reference
from tests.problems import Problem, all_allowed, problems, random_constraints, random_problem

DECODERS = registry.decoders.get_all()
EVERY_DECODER = pytest.mark.parametrize("decoder", [make() for make in DECODERS.values()], ids=DECODERS)
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
def test_it_is_for_one_kind_of_loss(decoder: Decoder) -> None:
    parts = {"regularizer": L2(), "optimizer": AdaGrad(), "decoder": decoder}
    losses = [SequentialLog(), LocalLog()]
    fitting = losses.pop(getattr(decoder, "local", False))
    check_plugins("crf", loss=fitting, **parts)
    with pytest.raises(ConfigError, match="cannot decode for the loss"):
        check_plugins("crf", loss=losses[0], **parts)


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


def best_path(scores: Scores, path: np.ndarray, paths: np.ndarray) -> tuple[float, float]:
    """Return the score of a path, and the best of those that are allowed."""
    return reference.path_score(scores, path.tolist()), reference.best_score(scores)


def most_labels_right(scores: Scores, path: np.ndarray, paths: np.ndarray) -> tuple[float, float]:
    """Return how many labels of a path are right by expectation, and the most of all allowed paths [P, n]."""
    marginals, tokens = reference.marginals(scores), np.arange(len(path))
    return marginals[tokens, path].sum(), marginals[tokens, paths].sum(1).max()


def most_probable_by_steps(scores: Scores, path: np.ndarray, paths: np.ndarray) -> tuple[float, float]:
    """Return the log-probability of a path in a chain of softmaxes, and that of the best of all allowed ones [P, n]."""
    actual, expected = (reference.local_log_probabilities(scores, labels) for labels in (path[None], paths))
    return actual[0], expected.max()


@pytest.mark.parametrize(
    ("name", "values", "local"),
    [
        ("Viterbi", best_path, False),
        ("Posterior", most_labels_right, False),
        ("LocalViterbi", most_probable_by_steps, True),
    ],
)
@given(PROBLEMS, st.integers(0, 2**32 - 1))
def test_the_best_of_all_allowed_paths(name: str, values: Any, local: bool, problem: Problem, seed: int) -> None:
    constraints, allowed = random_constraints(np.random.default_rng(seed), problem, 0.5 * (seed % 4 > 0))
    decoder = registry.decoders.get(f"spacy_crfseq.{name}.v1")()
    labels = decoder(problem.scores, problem.batch.offsets, constraints, allowed)
    for first, last in problem.sequence_bounds():
        if last > first:
            sequence, here = reference.sequence(problem.scores, first, last), allowed[first:last]
            masked = reference.masked(sequence, constraints.start, constraints.step, constraints.end, here)
            paths = reference.all_paths(*sequence.emissions.shape)
            paths = paths[[is_allowed(path.tolist(), constraints, here) for path in paths]]
            # softmaxes are those of all labels: what is forbidden is forbidden to the path alone
            actual, expected = values(sequence if local else masked, labels[first:last], paths)
            assert actual == pytest.approx(expected, rel=1e-5, abs=1e-3)


@EVERY_DECODER
def test_steps_of_minus_infinity_in_the_scores_are_never_taken(decoder: Decoder) -> None:
    """The most probable labels of the tokens, 0 with 52 % and 1 with 48 %, cannot follow each other."""
    shares = np.array([[0.26, 0.0, 0.26], [0.0, 0.24, 0.0], [0.0, 0.24, 0.0]])
    with np.errstate(divide="ignore"):
        scores = Scores(np.zeros((2, 3)), np.log(shares)[None], np.zeros(3), np.zeros(3))
    first, second = decoder(scores, np.array([0, 2]), all_allowed(3)).tolist()
    assert shares[first, second] > 0
