"""Sparse forward-backward and visits of rows against the enumeration of all label sequences; settings, order, memory.

What every optimizer must do is in the contracts.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_crfseq.errors import ConfigError
from spacy_crfseq.papers.coordinate import kernels as coordinate
from spacy_crfseq.papers.coordinate import optimizer as optimizers
from spacy_crfseq.papers.coordinate import sparse_chains
from spacy_crfseq.types import MISSING, Batch, Scores
from tests import reference
from tests.contracts.test_optimizers import run
from tests.problems import Training, plain_scores, training_problem

PAIRS = {"bigram_templates": ("TAG[0]", "BRIEF_SHAPE"), "templates": ("LOWER", "TAG[-1..0]")}
LONG = st.tuples(st.integers(0, 2**32 - 1), st.integers(1, 5), st.sampled_from([0.0, 0.1, 1.0]))


class Case:
    """Random scores of a few sequences, whose steps have one of three matrices."""

    def __init__(self, seed: int, n: int, density: float, *, scale: float = 1.0, lengths: Sequence[int] = (4, 1, 3)):
        rng = np.random.default_rng(seed)
        self.offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        n_tokens = int(self.offsets[-1])
        self.gold = rng.integers(0, n, n_tokens).astype(np.int32)
        self.gold[rng.random(n_tokens) < 0.2] = MISSING
        self.steps = scale * rng.standard_normal((3, n, n)) * (rng.random((3, n, n)) < density)
        self.emissions = scale * rng.standard_normal((n_tokens, n))
        self.sets = rng.integers(0, 3, n_tokens)

    def solve(self, most: int) -> tuple[Any, Any]:
        """Return sequences and lattices, whose matrices are sparse up to `most` entries."""
        n_tokens, n = self.emissions.shape
        batch = Batch(self.offsets, self.gold, np.ones(len(self.offsets) - 1))
        owners = np.repeat(np.arange(len(batch.weights)), np.diff(self.offsets))
        chains = sparse_chains.SparseChains(*batch[:3], optimizers._kinds(batch), owners, self.sets)
        lattices = optimizers._lattices(n_tokens, len(batch.weights), n, [np.zeros(0, np.int32)] * 3, 0)
        places = np.zeros((3, most), np.uint16)
        lattices = lattices._replace(rows=places, cols=places.copy(), values=np.zeros((3, most)))
        lattices.emissions[:], lattices.steps[:] = self.emissions, self.steps
        coordinate.begin(chains, lattices)
        return chains, lattices

    def sequences(self) -> list[tuple[Scores, np.ndarray]]:
        """Return scores and gold labels of each sequence."""
        zero = np.zeros(self.emissions.shape[1])
        all_scores = Scores(self.emissions, self.steps[self.sets], zero, zero)
        bounds = zip(self.offsets[:-1], self.offsets[1:], strict=True)
        return [(reference.sequence(all_scores, a, b), self.gold[a:b]) for a, b in bounds]


def gradient(chains: Any, lattices: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return gradient and curvature [L + L * L] of the emissions and steps of all tokens together."""
    n = lattices.emissions.shape[1]
    tokens = np.arange(len(chains.gold))
    inner = np.setdiff1d(tokens, chains.offsets[:-1])
    collected = []
    for width, on in ((n, tokens), (n * n, inner)):
        columns = np.arange(width, dtype=np.int32)
        rows = sparse_chains.RowOccurrences(
            width, np.array([0, width]), columns, columns, np.array([0, len(on)]), on, len(collected) == 1,
        )  # fmt: skip
        work = sparse_chains.workspace(chains, lattices, width)
        m = coordinate._list_weights(rows, 0, np.zeros(width), True, work.places, work.cols)
        coordinate._measure(chains, lattices, rows, 0, m, work)
        collected.append((work.g[:width], work.h[:width]))
    return np.concatenate([g for g, _ in collected]), np.concatenate([h for _, h in collected])


def check(case: Case, most: int) -> Any:
    chains, lattices = case.solve(most)
    labels, pairs = (np.zeros_like(array) for array in (lattices.emissions[0], lattices.steps[0]))
    bends = np.zeros_like(labels), np.zeros_like(pairs)
    for s, (scores, gold) in enumerate(case.sequences()):
        if (gold == MISSING).all():
            continue
        assert lattices.log_z[s] == pytest.approx(reference.log_partition(scores), rel=1e-9, abs=1e-9)
        assert lattices.gold[s] == pytest.approx(reference.log_partition(scores, gold), rel=1e-9, abs=1e-9)
        free, clamped = reference.expectations(scores), reference.expectations(scores, gold)
        labels += (free.emissions - clamped.emissions).sum(0)
        pairs += (free.transitions - clamped.transitions)[1:].sum(0)
        bends[0][:] += (free.emissions * (1 - free.emissions)).sum(0)
        bends[1][:] += (free.transitions * (1 - free.transitions))[1:].sum(0)
    g, h = gradient(chains, lattices)
    n = len(labels)
    parts = (labels, bends[0], slice(0, n)), (pairs.ravel(), bends[1].ravel(), slice(n, None))
    for expected, curvature, part in parts:
        np.testing.assert_allclose(g[part], expected, rtol=1e-7, atol=1e-8)
        np.testing.assert_allclose(h[part], curvature, rtol=1e-7, atol=1e-8)
    return lattices


@given(LONG, st.sampled_from([0, 3, 25]))
def test_any_kind_of_matrix_equals_the_enumeration(drawn: tuple[int, int, float], most: int) -> None:
    check(Case(*drawn), most)


@given(LONG)
def test_scores_of_any_size_equal_the_enumeration(drawn: tuple[int, int, float]) -> None:
    check(Case(*drawn, scale=200.0), 25)


def test_kinds_of_matrices_are_told_apart() -> None:
    case = Case(0, 5, 0.0, lengths=(6, 5, 4))
    case.steps[1], case.steps[2, 0, 3] = 1.0, -70.0
    lattices = check(case, 10)
    assert lattices.kinds.tolist() == [sparse_chains.SPARSE, sparse_chains.DENSE, sparse_chains.FAR]


def test_work_arrays_are_apart_so_that_rounding_does_not_depend_on_their_addresses() -> None:
    work = sparse_chains.workspace(*Case(0, 3, 1.0).solve(9), 7)
    for array in (table for table in work if table.dtype == np.float64):
        begin, low = array.ctypes.data, array.base.ctypes.data
        assert low + 256 < begin
        assert begin + array.nbytes + 256 < low + array.base.nbytes
        assert not array.any()


def test_long_sequences_are_scaled() -> None:
    case = Case(1, 4, 0.3, scale=8.0, lengths=(2000,))
    case.gold[:] = MISSING
    case.gold[::7] = 2
    _, lattices = case.solve(16)
    scores = case.sequences()[0][0]
    assert lattices.log_z[0] == pytest.approx(reference.slow_log_partition(scores), rel=1e-12)


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize(
    "change",
    [PAIRS, {**PAIRS, "support": "all"}, {**PAIRS, "missing": 0.3, "weighted": True}, {"boundaries": False}],
    ids=["pairs", "dense", "missing", "first order"],
)
def test_scores_are_kept_up_to_date_by_a_sweep(change: dict[str, Any], single: bool) -> None:
    training = training_problem(6, n_sequences=8, **change)
    optimizer = (optimizers.CoordinateDescent if single else optimizers.BlockCoordinateDescent)(max_iterations=3)
    state = optimizer.start(training.random_theta(np.random.default_rng(0)))
    for _ in range(2):
        optimizer.iterate(training.objective, state)
    assert state.work is not None
    expected, labelled = fresh(training, state.theta)
    np.testing.assert_allclose(state.work.lattices.emissions, expected.emissions, atol=1e-11)
    steps = state.work.lattices.steps[state.work.chains.sets]
    inner = np.setdiff1d(np.arange(len(steps)), training.encoded.offsets)
    full = np.broadcast_to(expected.transitions, steps.shape)
    np.testing.assert_allclose(steps[inner], full[inner], atol=1e-11)
    assert state.work.loss() == pytest.approx(labelled, rel=1e-10)


def fresh(training: Training, theta: np.ndarray) -> tuple[Scores, float]:
    """Return scores, start and end scores added to the emissions, and the loss, from nothing but theta."""
    scores = plain_scores(training.layout, theta, training.encoded)
    emissions, offsets = scores.emissions.copy(), training.encoded.offsets
    filled = np.diff(offsets) > 0
    emissions[offsets[:-1][filled]] += scores.start
    emissions[offsets[1:][filled] - 1] += scores.end
    return scores._replace(emissions=emissions), training.objective.value_and_grad(theta)[1]


@pytest.mark.parametrize("settings", [{"kappa": 0.0}, {"revisit": 0}, {"max_iterations": 0}, {"tolerance": -1.0}])
def test_settings_out_of_range_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"CoordinateDescent: .*{next(iter(settings))}"):
        optimizers.CoordinateDescent(**settings)


def test_too_many_matrices_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    training = training_problem(1, bigram_templates=("LOWER",))
    monkeypatch.setattr(optimizers, "MATRIX_BYTES", 100)
    with pytest.raises(ConfigError, match="3 x 3 label pairs"):
        run(optimizers.BlockCoordinateDescent(), training)


def test_the_order_of_visits_does_not_matter_in_the_end() -> None:
    training = training_problem(2, n_sequences=10, bigram_templates=("TAG[0]",))
    orders = ({}, {"shuffle": True}, {"shuffle": True, "seed": 1})
    tight = {"tolerance": 1e-12, "gradient_tolerance": 1e-8}
    values = [run(optimizers.BlockCoordinateDescent(**tight, **order), training)[1][-1].value for order in orders]
    assert values == pytest.approx(values[:1] * 3, rel=1e-9)
    assert len(set(values)) == 3  # they came on different ways


def test_large_rows_are_visited_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    training = training_problem(2, n_sequences=10, bigram_templates=("TAG[0]",))
    collected = []
    for tokens in (5, 1 << 14):
        monkeypatch.setattr(optimizers, "CHUNK_TOKENS", tokens)
        collected.append(run(optimizers.CoordinateDescent(max_iterations=3), training)[0])
    np.testing.assert_array_equal(*collected)
