"""Sequence boosting against enumeration: bounds that hold, the best steps, memory that equals computing anew."""

import itertools
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_crfseq.errors import ConfigError
from spacy_crfseq.losses.sequential_log import SequentialLog
from spacy_crfseq.optimizers.lbfgs import LBFGS
from spacy_crfseq.papers.boosting.optimizer import BOUNDS, Boosting
from spacy_crfseq.papers.boosting.work import Memory, Step, cut
from spacy_crfseq.regularizers.none import NoRegularizer
from spacy_crfseq.types import Batch, Floats, Scores
from tests import reference
from tests.contracts.test_optimizers import run
from tests.problems import BIGRAM_TEMPLATES, Training, plain_scores, training_problem


@dataclass(frozen=True)
class Exponential:
    """exp(u) - 1 of u = -log P(gold), beyond a cap its tangent: the values of the papers' loss, for boosting alone."""

    cap: float = 4.0

    @property
    def provides(self) -> frozenset[str]:
        return frozenset({"likelihood"})

    def __call__(self, scores: Scores, batch: Batch, grad: Scores) -> float:
        raise AssertionError("boosting never asks for gradients of scores")

    def phi(self, nll: Floats) -> tuple[Floats, Floats]:
        below = np.minimum(nll, self.cap)
        return np.expm1(below) + (nll - below) * np.exp(below), np.exp(below)


CASES: dict[str, dict[str, Any]] = {
    "sparse": {},
    "dense": {"support": "all"},
    "no boundaries": {"boundaries": False},
    "pairs": {"bigram_templates": BIGRAM_TEMPLATES},
    "dense pairs": {"bigram_templates": BIGRAM_TEMPLATES, "support": "all"},
    "only pairs": {"templates": (), "bigram_templates": BIGRAM_TEMPLATES},
    "missing labels": {"missing": 0.3},
    "weights and missing labels": {"missing": 0.3, "weighted": True, "bigram_templates": BIGRAM_TEMPLATES},
    "one label": {"n_labels": 1},
}
EVERY_CASE = pytest.mark.parametrize("case", CASES)
EVERY_BOUND = pytest.mark.parametrize("bound", BOUNDS)
LOSSES = {"log": SequentialLog(), "exp": Exponential()}


def make(case: str, seed: int = 3, loss: str = "log", **more: Any) -> Training:
    chosen = {"n_sequences": 10, **CASES[case], **more}
    return training_problem(seed, loss=LOSSES[loss], regularizer=NoRegularizer(), **chosen)


def memory_of(training: Training, theta: Floats, bound: str = "loose", max_step: float | None = None) -> Memory:
    return Memory(training.objective, theta, bound, max_step)


def shared_rows(memory: Memory) -> list[int]:
    """Return the transitions, start and end scores that are trained and possible."""
    return [int(row) for row in memory.first_shared + np.flatnonzero(memory.trainable) if memory.gains[row] > 0]


def random_row(memory: Memory, rng: np.random.Generator) -> int | None:
    """Choose a row that is on somewhere, and one of its features."""
    begins = memory.text.begin[: memory.first_shared + 1].tolist()
    reach = memory.low + memory.high
    rows = [row for row, (begin, end) in enumerate(itertools.pairwise(begins)) if reach[begin:end].any()]
    if not rows:
        return None
    row = int(rng.choice(rows))
    memory.best[row] = rng.integers(memory.text.begin[row], memory.text.begin[row + 1])
    return row


class Interval(NamedTuple):
    """Label sequences other than those that agree with the gold labels, and how often they have a feature.

    masses: weight * phi' * P of each.  differences: its count less the expected one of those that agree, which lies
    in [-low, high] whatever the missing labels are.  all_masses, all_differences: Of all label sequences.
    """

    masses: Floats
    differences: Floats
    low: float
    high: float
    all_masses: Floats
    all_differences: Floats


class Enumerated:
    """The loss and its bounds by writing out all label sequences."""

    def __init__(self, training: Training) -> None:
        self.training, self.data = training, training.objective.data
        self.batch = self.data.batch(0, self.data.n_sequences)
        self.bounds = list(zip(self.batch.offsets[:-1], self.batch.offsets[1:], strict=True))

    def nll(self, theta: Floats) -> Floats:
        scores = plain_scores(self.training.layout, theta, self.data.encoded)
        out = []
        for first, last in self.bounds:
            sequence, gold = reference.sequence(scores, first, last), self.batch.gold[first:last]
            expected = (gold >= 0).any()
            out.append(reference.log_partition(sequence) - reference.log_partition(sequence, gold) if expected else 0.0)
        return np.array(out)

    def value(self, theta: Floats) -> float:
        return float(self.batch.weights @ self.training.objective.loss.phi(self.nll(theta))[0])

    def intervals(self, theta: Floats, parameter: int) -> list[Interval]:
        """Return the statistics of a feature in each sequence that may hold it."""
        nothing = np.zeros_like(theta)
        nothing[parameter] = 1.0
        scores = plain_scores(self.training.layout, theta, self.data.encoded)
        feature = plain_scores(self.training.layout, nothing, self.data.encoded)  # its scores tell where it is on
        slopes = self.batch.weights * self.training.objective.loss.phi(self.nll(theta))[1]
        out = []
        for (first, last), slope in zip(self.bounds, slopes, strict=True):
            gold = self.batch.gold[first:last]
            if not (gold >= 0).any():
                continue
            paths = reference.all_paths(last - first, self.training.layout.n_labels)
            sequence = reference.sequence(feature, first, last)
            on = sequence.emissions[np.arange(len(gold)), paths]
            on[:, 1:] += [
                [reference.step(sequence, t)[path[t - 1], path[t]] for t in range(1, len(gold))] for path in paths
            ]
            on[:, 0] += sequence.start[paths[:, 0]]
            on[:, -1] += sequence.end[paths[:, -1]]
            on = on[:, on.any(0)]
            fits = reference.agrees(paths, gold)
            total = reference.all_path_scores(reference.sequence(scores, first, last), paths)
            p, q = np.exp(total - reference.log_sum(total)), np.exp(total[fits] - reference.log_sum(total[fits]))
            v = on.sum(1) - q @ on[fits].sum(1)
            low, high = on[fits].any(0).sum(), (on[fits] == 0).any(0).sum()
            if parameter >= self.training.objective.blocks[2].begin:  # a transition cannot be on everywhere
                high = min(high, on.sum(1).max(initial=0) - (on[fits] == 1).all(0).sum())
            out.append(Interval(slope * p[~fits], v[~fits], low, high, slope * p, v))
        return out

    def promised(self, theta: Floats, parameter: int, bound: str, steps: Floats) -> Floats:
        """Return the decrease that a bound on sequences guarantees for some steps, by its definition."""
        intervals = self.intervals(theta, parameter)
        if bound == "exact":
            pairs = [(p, v) for item in intervals for p, v in zip(item.all_masses, item.all_differences, strict=True)]
            return -sum((p * np.expm1(v * steps) for p, v in pairs), np.zeros_like(steps))
        if bound == "loose" and intervals:
            low, high = (max(interval[i] for interval in intervals) for i in (2, 3))
            intervals = [interval._replace(low=low, high=high) for interval in intervals]
        total = np.zeros_like(steps)
        for masses, differences, low, high, *_ in intervals:
            for mass, v in zip(masses, differences, strict=True):
                if low + high == 0:
                    continue
                chord = ((high - v) * np.exp(-low * steps) + (v + low) * np.exp(high * steps)) / (low + high)
                total -= mass * (chord - 1)
        return total


@EVERY_CASE
@pytest.mark.parametrize("loss", LOSSES)
def test_memory_equals_computing_anew(case: str, loss: str) -> None:
    training = make(case, loss=loss)
    rng = np.random.default_rng(1)
    theta = training.random_theta(rng)
    memory = memory_of(training, theta)
    for _ in range(30):
        row = random_row(memory, rng)
        if row is not None:
            memory.take(training.objective, Step(row, rng.normal(), 0.0))
    anew = memory_of(training, theta.copy())
    assert memory.value == pytest.approx(Enumerated(training).value(theta), rel=1e-9)
    alive = memory.owners[0] >= 0  # nobody looks at sequences without any label
    np.testing.assert_allclose(memory.chains.local[alive], anew.chains.local[alive], atol=1e-9)
    for name in ("nll", "slopes", "masses"):
        np.testing.assert_allclose(getattr(memory, name), getattr(anew, name), rtol=1e-9, atol=1e-9)
    for actual, expected in zip(memory.sums[:2], anew.sums[:2], strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-8, atol=1e-8)


@EVERY_CASE
def test_the_sums_are_parts_of_the_gradient(case: str) -> None:
    training = make(case)
    theta = training.random_theta(np.random.default_rng(2))
    memory = memory_of(training, theta)
    value, _, gradient = training.objective.value_and_grad(theta)
    assert memory.value == pytest.approx(value)
    assert memory.grad_norm() == pytest.approx(np.linalg.norm(gradient))
    result = memory.sums.both[:, 0] - memory.sums.both[:, 1]
    n_shared = memory.shared.start
    np.testing.assert_allclose(result[:n_shared], gradient[:n_shared], atol=1e-10)
    assert (memory.sums.both > -1e-12).all()


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 1000), st.sampled_from(list(CASES)), st.sampled_from(BOUNDS), st.sampled_from(list(LOSSES)),
    st.sampled_from([0.1, 1.0, 4.0]),
)  # fmt: skip
def test_the_loss_falls_by_what_was_promised_at_least(
    seed: int, case: str, bound: str, loss: str, scale: float
) -> None:
    training = make(case, seed, loss, n_sequences=5)
    rng = np.random.default_rng(seed)
    theta = training.random_theta(rng, scale)
    memory, slow = memory_of(training, theta, bound), Enumerated(training)
    memory.best_step(16)
    row = random_row(memory, rng)
    steps = [] if row is None else [memory.step(row)]
    steps += [memory.step(row) for row in shared_rows(memory)]
    before = slow.value(theta)
    for step in steps:
        after = theta.copy()
        after[memory.best[step.row]] += step.by
        assert step.gain >= -1e-12
        assert before - slow.value(after) >= step.gain - 1e-9 * max(1.0, before)


@EVERY_CASE
@pytest.mark.parametrize("bound", ["exact", "loose", "tight"])
@pytest.mark.parametrize("loss", LOSSES)
def test_steps_minimise_the_bound(case: str, bound: str, loss: str) -> None:
    training = make(case, loss=loss, n_sequences=6)
    rng = np.random.default_rng(5)
    theta = training.random_theta(rng)
    memory, slow = memory_of(training, theta, bound), Enumerated(training)
    memory.best_step(16)
    grid = np.linspace(-4, 4, 51)
    for row in [random_row(memory, rng) for _ in range(4)] + shared_rows(memory)[::2]:
        if row is None:
            continue
        step = memory.step(row)
        promises = slow.promised(theta, int(memory.best[row]), bound, np.append(grid, step.by))
        assert step.gain == pytest.approx(promises[-1], rel=1e-6, abs=1e-9)
        assert step.gain >= promises[:-1].max() - 1e-9


@pytest.mark.parametrize(
    ("bound", "case"), [("exact", "pairs"), ("loose", "weights and missing labels"), ("tight", "pairs")]
)
def test_the_best_feature_of_all_is_chosen(bound: str, case: str) -> None:
    training = make(case, n_sequences=6)
    theta = training.random_theta(np.random.default_rng(5))
    memory, slow = memory_of(training, theta, bound), Enumerated(training)
    step, grid = memory.best_step(0), np.linspace(-2, 2, 41)
    assert step.gain > 0
    for parameter in np.append(np.arange(memory.shared.start), memory.shared.start + np.flatnonzero(memory.trainable)):
        assert slow.promised(theta, int(parameter), bound, grid).max() <= step.gain + 1e-9


def test_the_optimistic_estimate_is_below_every_chord() -> None:
    x = np.linspace(0, 5, 101)
    for low, high in itertools.product(range(12), repeat=2):
        for off, on in ((0, 0), (low, 0), (0, high), (low, high)):  # linear between these
            chord = ((high - on + off) * np.exp(-low * x) + (on - off + low) * np.exp(high * x)) / max(low + high, 1)
            assert (chord - 1 >= off * np.expm1(-x) + on * x - 1e-9).all() or low + high == 0


def test_the_exponential_loss_changes_by_the_exact_bound() -> None:
    training = make("pairs", loss="exp")  # below the cap
    theta = training.random_theta(np.random.default_rng(5), 0.1)
    training.objective.terms[0] = training.objective.terms[0]._replace(loss=Exponential(30.0))
    memory, slow = memory_of(training, theta, "exact"), Enumerated(training)
    step, after = memory.best_step(0), theta.copy()
    after[memory.best[step.row]] += step.by
    assert slow.value(theta) - slow.value(after) == pytest.approx(step.gain, rel=1e-8)


def test_only_infinite_steps_are_limited_unless_a_limit_is_set() -> None:
    training = make("sparse", n_labels=2, templates=("LOWER",), transitions=False, boundaries=False)
    memory = memory_of(training, np.zeros(training.layout.size), "tight")
    memory.promising(1)
    steps = [memory.step(int(row)) for row in np.flatnonzero(memory.gains)]
    assert any(abs(step.by) == 10 for step in steps)
    limited = memory_of(training, np.zeros(training.layout.size), "tight", 0.01)
    limited.promising(1)
    assert {abs(limited.step(int(row)).by) for row in np.flatnonzero(limited.gains)} == {0.01}


def test_long_sequences_are_cut_into_pieces_of_similar_lengths() -> None:
    gold, weights = np.zeros(19, np.int32), np.array([2.0, 1.0, 3.0, 1.0])
    pieces = cut(Batch(np.array([0, 11, 11, 15, 19]), gold, weights), 5)
    assert np.diff(pieces.offsets).tolist() == [3, 4, 4, 0, 4, 4]
    assert pieces.weights.tolist() == [2, 2, 2, 1, 3, 1]
    training = make("pairs", loss="exp", n_sequences=20)
    _, reports = run(Boosting("tight", rounds=5, max_iterations=2, longest=2), training)
    assert reports[1].value < reports[0].value


@EVERY_BOUND
@EVERY_CASE
def test_every_round_lowers_the_loss(case: str, bound: str) -> None:
    training = make(case, loss="exp" if bound == "tight" else "log")
    result, reports = run(Boosting(bound, rounds=1, max_iterations=15), training)
    values = [report.value for report in reports]
    before = Enumerated(training).value(np.zeros_like(result))
    assert all(later <= earlier + 1e-12 for earlier, later in zip([before, *values], values, strict=False))
    assert values[-1] == pytest.approx(Enumerated(training).value(result), rel=1e-9, abs=1e-12)
    if case != "one label":
        assert values[-1] < 0.8 * before


def noisy() -> Training:
    """Return a problem whose words have several labels each, so that no weight wants to be infinite."""
    return training_problem(
        1, n_sequences=30, n_labels=2, templates=("SUFFIX2",), boundaries=False, regularizer=NoRegularizer()
    )


@EVERY_BOUND
def test_it_comes_close_to_the_minimum(bound: str) -> None:
    training = noisy()
    best = run(LBFGS(tolerance=1e-12), training)[1][-1].value
    result, reports = run(Boosting(bound, rounds=200, max_iterations=3, tolerance=0), training)
    assert training.objective.value(result) == pytest.approx(reports[-1].value)
    assert reports[-1].value == pytest.approx(best, rel=3e-2)


def test_it_stops_where_no_step_is_worth_while() -> None:
    training = noisy()
    optimizer = Boosting(tolerance=0.01)
    state = optimizer.start(np.zeros(training.layout.size))
    report = optimizer.iterate(training.objective, state)
    again = optimizer.iterate(training.objective, state)
    assert report.converged
    assert "no step promises" in report.message
    assert state.rounds < optimizer.rounds
    assert again.value == report.value


@EVERY_CASE
def test_scores_of_any_size_are_safe(case: str) -> None:
    training = make(case)
    theta = training.random_theta(np.random.default_rng(0), 400.0)
    memory, slow = memory_of(training, theta), Enumerated(training)
    assert memory.value == pytest.approx(slow.value(theta), rel=1e-9)
    expected = training.objective.value_and_grad(theta)[2]
    actual = memory.sums.both[:, 0] - memory.sums.both[:, 1]
    np.testing.assert_allclose(actual[: memory.shared.start], expected[: memory.shared.start], atol=1e-7)


def test_an_interrupt_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    training = make("sparse")
    optimizer, calls, take = Boosting(rounds=10, max_iterations=3), [], Memory.take

    def interrupted(self: Memory, objective: Any, step: Step) -> None:
        calls.append(step)
        if len(calls) == 15:
            self.chains.theta[self.best[step.row]] += step.by  # and no more
            raise KeyboardInterrupt
        take(self, objective, step)

    monkeypatch.setattr(Memory, "take", interrupted)
    state = optimizer.start(np.zeros(training.layout.size))
    first = optimizer.iterate(training.objective, state)
    with pytest.raises(KeyboardInterrupt):
        optimizer.iterate(training.objective, state)
    assert np.isfinite(state.theta).all()
    last = optimizer.iterate(training.objective, state)
    assert last.value == pytest.approx(training.objective.value(state.theta))
    assert last.value < first.value


@pytest.mark.parametrize(("message", "change"), [
    ("bound must be one of exact, tight, loose", {"bound": "sharp"}),
    ("rounds and max_iterations must be at least 1", {"rounds": 0}),
    ("max_step must be positive", {"max_step": 0.0}),
    ("candidates and longest must be 0 or more", {"longest": -1}),
    ("tolerance and gradient_tolerance 0 or more", {"tolerance": -1.0}),
])  # fmt: skip
def test_settings_out_of_range_are_refused(message: str, change: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=message):
        Boosting(**change)


def test_no_sequences_and_no_labels_are_no_trouble() -> None:
    for change in ({"n_sequences": 0}, {"missing": 1.0}):
        training = make("sparse", **change)
        result, reports = run(Boosting(), training)
        assert not result.any()
        assert [report.value for report in reports] == [0.0]
