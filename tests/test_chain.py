"""`Chain` against the enumeration of all labellings and finite differences; what it refuses; pickled and forked."""

import contextlib
import copy
import math
import multiprocessing
import pickle
import re
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spacy_crfseq import Chain, kernels
from spacy_crfseq.errors import ConfigError, DataError
from spacy_crfseq.types import Scores
from tests import reference
from tests.problems import finite_differences


class Case(NamedTuple):
    """Arrays as users give them.

    given (dict): Arguments of `Chain`; emissions [T, L] or [B, T, L].
    tokens (list): For each sequence, its tokens in the order of the chain, as indices of the axes before the last.
    labels, sets (np.ndarray): Labels, -1 where one is missing, and sets of labels; any numbers for masked tokens.
    """

    given: dict[str, Any]
    tokens: list[list[tuple[int, ...]]]
    labels: np.ndarray
    sets: np.ndarray

    def chain(self) -> Chain:
        return Chain(**self.given)

    def sequences(self) -> list[Scores]:
        """Return the scores of each sequence in float64, what is not allowed minus infinity."""
        emissions, steps = (np.asarray(self.given[name], np.float64) for name in ("emissions", "transitions"))
        n = emissions.shape[-1]
        ends = [np.asarray(self.given.get(name, np.zeros(n)), np.float64) for name in ("start", "end")]
        if "allowed" in self.given:
            emissions = np.where(self.given["allowed"], emissions, -np.inf)
        shared = steps.shape != (*emissions.shape, n)
        return [
            Scores(
                np.array([emissions[token] for token in tokens]).reshape(-1, n),
                steps.reshape(1, n, n) if shared else np.array([steps[token] for token in tokens]).reshape(-1, n, n),
                *ends,
            )
            for tokens in self.tokens
        ]

    def of(self, array: np.ndarray, number: int) -> np.ndarray:
        """Return the rows of an array that are of the tokens of a sequence."""
        return np.array([array[token] for token in self.tokens[number]]).reshape(-1, *array.shape[self.labels.ndim :])


def make_case(
    seed: int, *, n_labels: int = 3, longest: int = 4, batch: bool = True, shared: bool = True, dtype: Any = np.float64,
    scale: float = 1.0, forbidden: float = 0.0, masked: float = 0.3, missing: float = 0.3, ends: bool = True,
) -> Case:  # fmt: skip
    """Return a random case of up to three sequences, some without a token."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, longest + 1, rng.integers(0, 4))
    shape = (len(lengths), longest) if batch else (int(lengths.sum()),)
    steps = (n_labels, n_labels) if shared else (*shape, n_labels, n_labels)
    shapes = {"emissions": (*shape, n_labels), "transitions": steps, "start": (n_labels,), "end": (n_labels,)}
    given: dict[str, Any] = {}
    for name in shapes if ends else ("emissions", "transitions"):
        given[name] = (scale * rng.standard_normal(shapes[name])).astype(dtype)
        given[name][rng.random(shapes[name]) < forbidden] = -np.inf
    mask = rng.random(shape) >= masked
    if forbidden:
        given["allowed"] = rng.random((*shape, n_labels)) >= forbidden
        given["allowed"][..., 0] |= ~given["allowed"].any(-1)
    if batch:
        tokens = [[(n, t) for t in range(length) if mask[n, t]] for n, length in enumerate(lengths)]
    else:
        bounds = pairwise(np.append(0, np.cumsum(lengths)).tolist())
        tokens = [[(t,) for t in range(first, after) if mask[t]] for first, after in bounds]
    given["lengths"] = lengths
    if masked:
        given["mask"] = mask
    labels = rng.integers(0, n_labels, shape)
    labels[rng.random(shape) < missing] = -1
    sets = rng.random((*shape, n_labels)) < 0.7
    sets[rng.random(shape) < missing] = True
    left_out = np.ones(shape, np.bool_)
    for token in (token for part in tokens for token in part):
        left_out[token] = False
    labels[left_out] = 99  # as the padding of a batch may be anything
    given["emissions"][left_out] = np.nan
    if not shared:
        given["transitions"][left_out] = np.nan
    return Case(given, tokens, labels, sets)


CASES = st.builds(
    make_case, st.integers(0, 2**32 - 1), n_labels=st.integers(1, 3), batch=st.booleans(), shared=st.booleans(),
    dtype=st.sampled_from([np.float32, np.float64]), scale=st.sampled_from([1.0, 300.0]),
    forbidden=st.sampled_from([0.0, 0.15]), masked=st.sampled_from([0.0, 0.3]), missing=st.sampled_from([0.0, 0.3]),
    ends=st.booleans(),
)  # fmt: skip


def allow(labels: np.ndarray, n_labels: int) -> np.ndarray:
    """Return the sets [n, L] of labels [n], all of them where one is missing."""
    return (labels[:, None] < 0) | (labels[:, None] == np.arange(n_labels))


def share(scores: Scores, sets: np.ndarray) -> float:
    """Return the log of the probability of labellings with a label of each set."""
    paths, path_scores = reference.completions(scores)
    agreeing = sets[np.arange(len(sets)), paths].all(1)
    return reference.log_sum(path_scores[agreeing]) - reference.log_sum(path_scores)


QUERIES: list[Callable[[Chain, Case], Any]] = [
    lambda chain, _: chain.log_z(),
    lambda chain, _: chain.marginals(),
    lambda chain, _: chain.pair_marginals(),
    lambda chain, _: chain.viterbi(),
    lambda chain, _: chain.nbest(2),
    lambda chain, _: chain.sample(2, 0),
    lambda chain, _: chain.entropy(),
    lambda chain, case: chain.expectation(np.zeros(case.sets.shape)),
    lambda chain, case: chain.log_prob(case.labels),
    lambda chain, case: chain.log_prob_of(case.sets),
    lambda chain, _: chain.log_z_and_grad(),
    lambda chain, case: chain.log_prob_and_grad(case.labels),
    lambda chain, case: chain.log_prob_of_and_grad(case.sets),
    lambda chain, _: chain.entropy_and_grad(),
    lambda chain, case: chain.expectation_and_grad(np.zeros(case.sets.shape)),
]
"""Every question that can be asked."""


@given(CASES)
@example(make_case(0, batch=False, longest=1))
@example(make_case(5, masked=1.0))
def test_answers_are_those_of_the_enumeration(case: Case) -> None:
    chain, sequences, tolerance = (
        case.chain(),
        case.sequences(),
        1e-4 if case.given["emissions"].itemsize == 4 else 1e-9,
    )
    log_z = np.array([reference.log_partition(sequence) for sequence in sequences])
    if np.isneginf(log_z).any():
        for query in QUERIES[:10]:
            with pytest.raises(
                DataError, match=f"Sequence {np.isneginf(log_z).argmax()} of the batch has no labelling"
            ):
                query(chain, case)
        return
    np.testing.assert_allclose(chain.log_z(), log_z, atol=1e-9, rtol=1e-12)
    np.testing.assert_allclose(chain.entropy(), [reference.entropy(sequence) for sequence in sequences], atol=1e-6)
    values = np.random.default_rng(0).random(case.sets.shape)
    marginals, pairs, best, expected = (
        chain.marginals(),
        chain.pair_marginals(),
        chain.viterbi(),
        chain.expectation(values),
    )
    labels, log_probabilities = chain.nbest(3)
    drawn = chain.sample(2, np.random.default_rng(1))
    log_prob, log_prob_of = chain.log_prob(case.labels), chain.log_prob_of(case.sets)
    for number, (sequence, tokens) in enumerate(zip(sequences, case.tokens, strict=True)):
        if len(tokens) > 1:
            steps = np.broadcast_to(sequence.transitions, (len(tokens), *sequence.transitions.shape[1:]))
            sequence = sequence._replace(transitions=steps)
        counts = reference.expectations(sequence)
        np.testing.assert_allclose(case.of(marginals, number), counts.emissions, atol=tolerance)
        if len(tokens) > 1:
            np.testing.assert_allclose(case.of(pairs, number), counts.transitions, atol=tolerance)
        wanted = (counts.emissions * case.of(values, number)).sum()
        assert math.isclose(expected[number], wanted, abs_tol=tolerance)
        path = case.of(best, number)
        assert math.isclose(
            reference.path_score(sequence, path), reference.best_score(sequence), rel_tol=1e-6, abs_tol=1e-5
        )
        ranked, shares = reference.ranked(sequence)
        np.testing.assert_allclose(log_probabilities[: len(shares), number], shares[:3], atol=1e-6, rtol=1e-9)
        assert np.isneginf(log_probabilities[len(shares) :, number]).all()
        if len(tokens):
            assert (case.of(np.moveaxis(labels, 0, -1), number)[:, len(ranked) :] == -1).all()
            first = reference.path_score(sequence, case.of(labels[0], number))
            assert math.isclose(first, reference.best_score(sequence), rel_tol=1e-9, abs_tol=1e-9)
        for row in drawn:
            assert reference.log_probability(sequence, case.of(row, number)) > -np.inf
        partial = case.of(case.labels, number)
        for value, sets in (
            (log_prob, allow(partial, sequence.emissions.shape[1])),
            (log_prob_of, case.of(case.sets, number)),
        ):
            np.testing.assert_allclose(value[number], share(sequence, sets), atol=1e-6, rtol=1e-9)
    left_out = np.ones(case.labels.shape, np.bool_)
    for token in (token for part in case.tokens for token in part):
        left_out[token] = False
    assert not marginals[left_out].any()
    assert not pairs[left_out].any()
    assert (best[left_out] == -1).all()
    assert (labels[:, left_out] == -1).all()
    assert (drawn[:, left_out] == -1).all()


def values_of(case: Case) -> np.ndarray:
    """Return some values of labels whose expectation is taken."""
    return np.cos(np.arange(case.sets.size)).reshape(case.sets.shape)


GRADIENTS: dict[str, Callable[[Chain, Case, np.ndarray], tuple[float, Scores]]] = {
    "log_z": lambda chain, _, weights: chain.log_z_and_grad(weights),
    "log_prob": lambda chain, case, weights: chain.log_prob_and_grad(case.labels, weights),
    "log_prob_of": lambda chain, case, weights: chain.log_prob_of_and_grad(case.sets, weights),
    "entropy": lambda chain, _, weights: chain.entropy_and_grad(weights),
    "expectation": lambda chain, case, weights: chain.expectation_and_grad(values_of(case), weights),
}
VALUES: dict[str, Callable[[Chain, Case], np.ndarray]] = {
    "log_z": lambda chain, _: chain.log_z(),
    "log_prob": lambda chain, case: chain.log_prob(case.labels),
    "log_prob_of": lambda chain, case: chain.log_prob_of(case.sets),
    "entropy": lambda chain, _: chain.entropy(),
    "expectation": lambda chain, case: chain.expectation(values_of(case)),
}


@pytest.mark.parametrize("name", GRADIENTS)
@pytest.mark.parametrize("batch", [True, False])
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("forbidden", [0.0, 0.1])
def test_gradients_are_those_of_finite_differences(name: str, batch: bool, shared: bool, forbidden: float) -> None:
    tested = 0
    for seed in range(6):
        case = make_case(seed, batch=batch, shared=shared, forbidden=forbidden)
        weights = np.random.default_rng(seed).choice([-1.0, 0.0, 0.5, 2.0], len(case.tokens))
        try:
            values = VALUES[name](case.chain(), case)
            value, grad = GRADIENTS[name](case.chain(), case, weights)
        except DataError:  # labels that are forbidden
            continue
        tested += bool(len(case.tokens))
        assert math.isclose(value, weights @ np.where(weights == 0, 0, values), abs_tol=1e-9)
        for key in Scores._fields:
            derivative, array = getattr(grad, key), case.given[key]
            assert derivative.shape == array.shape

            def total() -> float:
                here = VALUES[name](case.chain(), case)  # noqa: B023
                return float(weights @ np.where(weights == 0, 0, here))  # noqa: B023

            np.testing.assert_allclose(derivative, finite_differences(total, array), atol=1e-6)
    assert tested > 1


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_of_float32_are_those_of_float64(name: str) -> None:
    for seed in range(30):
        case = make_case(seed, dtype=np.float32, longest=6, scale=5.0)
        wide = case._replace(given={k: v.astype(float) if v.dtype == np.float32 else v for k, v in case.given.items()})
        weights = np.ones(len(case.tokens))
        try:
            value, grad = GRADIENTS[name](case.chain(), case, weights)
        except DataError:
            assert name == "log_prob_of"
            continue
        exact_value, exact = GRADIENTS[name](wide.chain(), wide, weights)
        assert math.isclose(value, exact_value, rel_tol=1e-5, abs_tol=1e-3)
        for first, other in zip(grad, exact, strict=True):
            assert first.dtype == np.float32
            np.testing.assert_allclose(first, other, atol=2e-3)


def test_labels_that_scores_forbid_have_a_probability_but_no_gradient() -> None:
    chain = Chain(np.zeros((2, 2, 2)), [[0, -np.inf], [0, 0]])
    labels = np.array([[0, 0], [0, 1]])
    assert chain.log_prob(labels).tolist() == [pytest.approx(-math.log(3)), -np.inf]
    calls = chain.log_prob_and_grad, lambda given, *rest: chain.log_prob_of_and_grad(np.eye(2)[given] > 0, *rest)
    for call in calls:
        with pytest.raises(DataError, match=r"Sequence 1 has labels that its scores forbid.*weight 0"):
            call(labels)
        assert call(labels, [1, 0])[0] == pytest.approx(-math.log(3))


def test_numbers_of_other_kinds_and_owners_are_read() -> None:
    class Foreign:
        def __init__(self, array: np.ndarray) -> None:
            self._array = array

        def __dlpack__(self, **options: Any) -> Any:
            return self._array.__dlpack__(**options)

        def __dlpack_device__(self) -> Any:
            return self._array.__dlpack_device__()

    rng = np.random.default_rng(0)
    emissions, transitions = rng.integers(-3, 4, (2, 4, 3)), rng.integers(-3, 4, (3, 3))
    wanted = Chain(emissions.astype(float), transitions.astype(float)).log_z()
    frozen = emissions.astype(float)
    frozen.flags.writeable = False
    turned = np.asfortranarray(emissions.astype(float))
    swapped = emissions.astype(">f8")
    small = emissions.astype("e"), emissions.astype("f")
    for same in (emissions, emissions.tolist(), *small, frozen, turned, swapped, Foreign(frozen.copy())):
        np.testing.assert_allclose(Chain(same, transitions).log_z(), wanted, rtol=1e-6)
        assert Chain(same, transitions[None]).log_z_and_grad()[1].transitions.shape == (1, 3, 3)
    mask = np.array([[1, 1, 0, 1], [0, 1, 1, 1]])
    for as_given in (mask, mask.astype(bool), mask.tolist(), mask.astype(np.uint8)):
        assert (Chain(emissions, transitions, mask=as_given).viterbi() < 0).tolist() == (mask == 0).tolist()


E, S = np.zeros((2, 4, 3)), np.zeros((3, 3))


def test_transitions_of_tokens_are_checked_without_a_copy() -> None:
    given = np.zeros((200, 20)), np.zeros((200, 20, 20))
    Chain(*given)  # kernels take memory, too
    tracemalloc.start()
    try:
        Chain(*given)
        assert tracemalloc.get_traced_memory()[1] < given[1].nbytes / 4
    finally:
        tracemalloc.stop()


def test_labels_of_all_types_need_one_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    chain, read, types = Chain(np.zeros((3, 2)), np.zeros((2, 2))), kernels.borders.read_labels, []

    def note(labels: np.ndarray, *more: Any) -> bool:
        types.append(labels.dtype)
        return read(labels, *more)

    monkeypatch.setattr(kernels.borders, "read_labels", note)
    for dtype in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", ">i4", ">i8"):
        unknown = 0 if "u" in dtype else -1
        expected = -3 * math.log(2) if unknown == 0 else -2 * math.log(2)
        assert chain.log_prob(np.array([0, unknown, 1], dtype)) == pytest.approx(expected)
    assert {*types} == {np.dtype(np.int64)}


def spoiled(shape: tuple[int, ...], place: tuple[int, ...], value: float) -> np.ndarray:
    array = np.zeros(shape)
    array[place] = value
    return array


class Device:
    """An array that cannot be read from here."""

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise TypeError("can't convert cuda tensor")


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: Chain(np.zeros(3), S), "emissions must have the shape [T, L] or [B, T, L], L at least 1, not (3,)"),
    (lambda: Chain(np.zeros((4, 0)), np.zeros((0, 0))), "L at least 1"),
    (lambda: Chain(None, S), "emissions must be float32 or float64 numbers, not object"),
    (lambda: Chain(E, None), "transitions must be float32 or float64 numbers, not object"),
    (lambda: Chain(E, S).log_z_and_grad([1.0, 1e308]), "but weights[1] is 1e+308"),
    (lambda: Chain(E, np.zeros((3, 2))), "transitions must have the shape (3, 3) or (2, 4, 3, 3), not (3, 2)"),
    (lambda: Chain(E, np.zeros((4, 3, 3))), "transitions must have the shape"),
    (lambda: Chain(E, S, np.zeros(2)), "start and end must have the shape (3,)"),
    (lambda: Chain(E, S, end=np.zeros((1, 3))), "start and end must have the shape (3,)"),
    (lambda: Chain(E > 0, S), "emissions must be float32 or float64 numbers, not bool"),
    (lambda: Chain(E.astype("O"), S), "emissions must be float32 or float64 numbers, not object"),
    (lambda: Chain(E, S + 0j), "transitions must be float32 or float64 numbers, not complex128"),
    (lambda: Chain([[0.0], [0.0, 1.0]], S), "emissions cannot be read as an array"),
    (lambda: Chain(Device(), S), "emissions cannot be read as an array: can't convert cuda tensor"),
    (lambda: Chain(np.ma.masked_array(E, E > 0), S), "emissions must not be a masked array"),
    (lambda: Chain(spoiled((2, 4, 3), (1, 2, 0), np.nan), S), "but emissions[1, 2, 0] is nan"),
    (lambda: Chain(spoiled((4, 3), (2, 1), np.inf), S), "or minus infinity, but emissions[2, 1] is inf"),
    (lambda: Chain(spoiled((2, 4, 3), (1, 2, 0), np.nan), S, lengths=[1, 3]), "but emissions[1, 2, 0] is nan"),
    (lambda: Chain(E, spoiled((3, 3), (2, 1), 1e250)), "but transitions[2, 1] is 1e+250"),
    (lambda: Chain(np.full((2, 3), 1e38, "f"), S.astype("f")), "emissions must be numbers below 1e+37"),
    (lambda: Chain(E, spoiled((3, 3), (2, 1), np.nan)), "but transitions[2, 1] is nan"),
    (lambda: Chain(E, spoiled((1, 3, 3), (0, 2, 1), np.nan)), "but transitions[0, 2, 1] is nan"),
    (lambda: Chain(E, spoiled((2, 4, 3, 3), (1, 0, 2, 1), np.nan)), "but transitions[1, 0, 2, 1] is nan"),
    (lambda: Chain(E, S, spoiled((3,), (1,), np.inf)), "but start[1] is inf"),
    (lambda: Chain(E, S, end=spoiled((3,), (1,), np.inf)), "but end[1] is inf"),
    (lambda: Chain(E, S, offsets=[0, 4, 8]), "offsets are for emissions [T, L] without lengths"),
    (lambda: Chain(E[0], S, offsets=[0, 4], lengths=[4]), "offsets are for emissions [T, L] without lengths"),
    (lambda: Chain(E[0], S, offsets=[0, 5]), "Offsets must rise from 0 to the number of tokens, 4"),
    (lambda: Chain(E[0], S, offsets=[0, 3, 2, 4]), "never fall"),
    (lambda: Chain(E[0], S, offsets=[]), "must be"),
    (lambda: Chain(E[0], S, offsets=[0.0, 4.0]), "offsets must be a list of whole numbers, not float64"),
    (lambda: Chain(E[0], S, lengths=[3, 2]), "lengths must be whole numbers that add up to the 4 tokens, not 5"),
    (lambda: Chain(E[0], S, lengths=[5, -1]), "lengths must"),
    (lambda: Chain(E, S, lengths=[4, 5]), "lengths must be 2 whole numbers from 0 to 4, not [4, 5]"),
    (lambda: Chain(E, S, lengths=[4, -1]), "lengths must be 2 whole numbers"),
    (lambda: Chain(E, S, lengths=[4]), "lengths must be 2 whole numbers"),
    (lambda: Chain(E, S, lengths=[[4, 4]]), "lengths must be a list of whole numbers"),
    (lambda: Chain(E, S, mask=np.ones((4, 2))), "mask must be booleans of the shape (2, 4)"),
    (lambda: Chain(E, S, mask=np.full((2, 4), 2)), "mask must be booleans, or numbers that are 0 or 1"),
    (lambda: Chain(E, S, mask=np.full((2, 4), 0.5)), "mask must be booleans, or numbers that are 0 or 1"),
    (lambda: Chain(E, S, mask=np.full((2, 4), np.nan)), "mask must be booleans, or numbers that are 0 or 1"),
    (lambda: Chain(E, S, allowed=np.ones((2, 4), bool)), "allowed must be booleans of the shape (2, 4, 3)"),
    (lambda: Chain(E, S, mask=np.eye(2, 4), allowed=spoiled((2, 4, 3), (0,), 1)), "allowed[1, 1] is false for all"),
    (lambda: Chain(E, S).log_prob(np.full((2, 4), 3)), "labels must be from 0 to 2, or -1 where unknown; leave"),
    (lambda: Chain(E, S).log_prob(spoiled((2, 4), (1, 3), -100).astype(int)), "labels[1, 3] is -100"),
    (lambda: Chain(E, S).log_prob(spoiled((2, 4), (1, 3), 2**40).astype(int)), "labels[1, 3] is 1099511627776"),
    (lambda: Chain(E, S).log_prob(np.full((2, 4), 2**63, np.uint64)), "labels[0, 0] is 9223372036854775808"),
    (lambda: Chain(E, S, lengths=[1, 4]).log_prob(spoiled((2, 4), (1, 3), 5).astype(int)), "labels[1, 3] is 5"),
    (lambda: Chain(E, S).log_prob_and_grad(np.full((2, 4), 3)), "labels must be from 0 to 2"),
    (lambda: Chain(E, S).log_prob(np.zeros((2, 4))), "labels must be whole numbers of the shape (2, 4), not float64"),
    (lambda: Chain(E, S).log_prob(np.zeros((2, 4), bool)), "labels must be whole numbers"),
    (lambda: Chain(E, S).log_prob(np.zeros((4, 2), int)), "labels must be whole numbers of the shape (2, 4)"),
    (lambda: Chain(E, S).log_prob_of(np.zeros((2, 4), int)), "sets must be booleans of the shape (2, 4, 3)"),
    (lambda: Chain(E, S).log_prob_of_and_grad(E + 0.5), "sets must be booleans"),
    (lambda: Chain(E, S).expectation(np.zeros((2, 4))), "values must be numbers of the shape (2, 4, 3)"),
    (lambda: Chain(E, S).expectation_and_grad(spoiled((2, 4, 3), (1, 1, 1), np.inf)), "but values[1, 1, 1] is inf"),
    (lambda: Chain(E, S).log_z_and_grad([1.0]), "weights must be 2 numbers, one for each sequence, not float64 of"),
    (lambda: Chain(E, S).entropy_and_grad([1.0, np.nan]), "of a size below 1e+30, but weights[1] is nan"),
    (lambda: Chain(E, S).log_prob_and_grad(np.zeros((2, 4), int), ["a", "b"]), "weights must be 2 numbers"),
]  # fmt: skip
"""Calls, and what their messages say."""


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_arrays_of_a_wrong_shape_type_or_value_are_refused(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(DataError, match=re.escape(message)):
        call()


def test_masks_may_be_numbers_of_any_type_that_are_0_or_1() -> None:
    mask = np.array([[1, 0, 1, 1], [0, 1, 1, 0]])
    wanted = Chain(E, S, mask=mask.astype(bool)).log_z()
    for kind in ("u1", "i8", "f2", "f4", "f8"):
        np.testing.assert_array_equal(Chain(E, S, mask=mask.astype(kind)).log_z(), wanted)


TYPES = ["f4", "f8", "f2", "i8", "u1", "?", "O", "U3", "c8", "M8[s]", ">f4", "g"]
VALUES_OF_MISTAKES = {8: [np.nan, np.inf, -np.inf, 1e308], 4: [np.nan, np.inf, -np.inf, 3e38]}


def junk(rng: np.random.Generator, shape: tuple[int, ...], highest: int | None = None) -> Any:
    """Return an array of a shape with a mistake now and then: of whole numbers from -1 on if `highest` is given."""
    kind, sizes = rng.random(), [*shape]
    if kind < 0.03 and sizes:
        sizes[int(rng.integers(len(sizes)))] = int(rng.integers(0, 4))
    elif kind < 0.06:
        sizes = sizes[1:] if kind < 0.045 else [1, *sizes]
    if highest is None:
        array: Any = rng.choice([1, 100]) * rng.standard_normal(sizes).astype(rng.choice(["f4", "f8"]))
    else:
        array = np.asarray(rng.integers(-1, highest + (rng.random() < 0.1), sizes))
    array = np.asarray(array)
    if kind > 0.96:
        array = np.zeros(sizes, rng.choice(TYPES))
    elif kind > 0.92 and array.size and highest is None:
        array.reshape(-1)[rng.integers(array.size)] = rng.choice(VALUES_OF_MISTAKES[array.itemsize])
    forms = [array.tolist(), np.asfortranarray(array), np.flip(array), None, "x"]
    return forms[int(rng.integers(len(forms)))] if rng.random() < 0.06 else array


@given(st.integers(0, 2**32 - 1))
def test_whatever_is_given_has_an_answer_or_is_refused(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_sequences, n_tokens, n = (int(rng.integers(low, 4)) for low in (0, 0, 1))
    shape = (n_sequences, n_tokens) if rng.random() < 0.5 else (n_tokens,)
    more = {
        "lengths": junk(rng, (n_sequences,), n_tokens + 1), "offsets": np.sort(rng.integers(0, n_tokens + 2, 2)),
        "mask": junk(rng, shape, 2), "allowed": rng.random((*shape, n)) < 0.8,
    }  # fmt: skip
    more = {name: array for name, array in more.items() if rng.random() < 0.15}
    steps = (n, n) if rng.random() < 0.6 else (*shape, n, n)
    labels, sets, values = junk(rng, shape, n), rng.random((*shape, n)) < 0.8, junk(rng, (*shape, n))
    try:
        chain = Chain(junk(rng, (*shape, n)), junk(rng, steps), junk(rng, (n,)), junk(rng, (n,)), **more)
    except DataError:
        return
    weights = junk(rng, (len(chain.offsets) - 1,))
    for call in (
        chain.log_z, chain.marginals, chain.pair_marginals, chain.viterbi, chain.entropy, lambda: chain.nbest(2),
        lambda: chain.sample(1, 0), lambda: chain.log_prob(labels), lambda: chain.log_prob_and_grad(labels, weights),
        lambda: chain.log_prob_of(sets), lambda: chain.log_prob_of_and_grad(sets, weights),
        lambda: chain.expectation(values), lambda: chain.expectation_and_grad(values, weights),
        lambda: chain.entropy_and_grad(weights), lambda: chain.log_z_and_grad(weights),
    ):  # fmt: skip
        with contextlib.suppress(DataError):
            assert not any(np.isnan(array).any() for array in flat(call()))


@pytest.mark.parametrize("k", [0, -1, 2.0, None])
def test_numbers_of_labellings_are_whole(k: Any) -> None:
    for call in (Chain(E, S).nbest, lambda n: Chain(E, S).sample(n, 0)):
        with pytest.raises(ConfigError, match="must be a whole number from 1 on"):
            call(k)


@pytest.mark.parametrize(("dtype", "size"), [("f", 9e36), ("d", 9e249), ("d", 1e8)])
def test_scores_of_any_size_have_right_answers(dtype: str, size: float) -> None:
    table = np.array([[1, -1, 0.5], [-1, 1, 0.5], [1, 1, -1], [0.3, 0.2, 0.1]])
    chain = Chain((size * table).astype(dtype), np.zeros((3, 3), dtype), lengths=[4])
    assert chain.log_z() == pytest.approx(3.3 * size)
    np.testing.assert_allclose(chain.marginals(), [[1, 0, 0], [0, 1, 0], [0.5, 0.5, 0], [1, 0, 0]], atol=1e-6)
    assert chain.viterbi().tolist() == [0, 1, 0, 0]
    assert chain.entropy() == pytest.approx(math.log(2))
    value, grad = chain.log_z_and_grad()
    assert value == pytest.approx(3.3 * size)
    np.testing.assert_allclose(grad.emissions, chain.marginals(), atol=1e-6)


def test_a_chain_is_a_value() -> None:
    case = make_case(3, shared=False, forbidden=0.1, masked=0.2)
    chain = case.chain()
    with pytest.raises(AttributeError):
        chain.offsets = np.zeros(1)  # type: ignore[misc]
    for other in (pickle.loads(pickle.dumps(chain)), copy.deepcopy(chain)):
        for query in QUERIES:
            for first, same in zip(flat(query(chain, case)), flat(query(other, case)), strict=True):
                np.testing.assert_array_equal(first, same)
    assert repr(Chain(E, S)) == "<Chain: 2 sequences, 8 tokens, 3 labels>"


def flat(answer: Any) -> list[np.ndarray]:
    """Return the arrays of an answer."""
    return [array for part in answer for array in flat(part)] if isinstance(answer, tuple) else [np.asarray(answer)]


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="this system cannot fork")
def test_a_chain_keeps_the_parameters_that_it_was_made_with() -> None:
    parameters = np.zeros((2, 2)), np.zeros(2), np.zeros(2)
    chain = Chain(np.zeros((3, 2)), *parameters)
    for array in parameters:
        array += 1
    assert chain.log_z() == pytest.approx(3 * math.log(2))


def test_forked_processes_give_the_same_answers() -> None:
    chain = Chain(np.random.default_rng(0).standard_normal((40, 6, 5)), np.zeros((5, 5)))
    value, grad = chain.log_z_and_grad()
    with multiprocessing.get_context("fork").Pool(2) as pool:
        for result, arrays in pool.map(Chain.log_z_and_grad, [chain] * 4):
            assert result == value
            for first, other in zip(arrays, grad, strict=True):
                np.testing.assert_array_equal(first, other)


def test_a_chain_needs_no_spacy_and_stored_kernels_no_compiler() -> None:
    """Numba's compiler takes more time to import than all else that loads a kernel, and a stored kernel needs none."""
    work = "Chain([[0.0]], [[0.0]]).log_z_and_grad()"
    exec(work)  # after which its kernels are stored
    program = f"import sys\nfrom spacy_crfseq import Chain\n{work}\nprint([*sys.modules])"
    modules = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    assert "'spacy'" not in modules
    if not kernels.PLAIN:
        assert "'numba'" in modules
        assert "'numba.np.linalg'" not in modules
