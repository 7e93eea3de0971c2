"""Answers of the posterior, against the enumeration of all label sequences."""

import itertools
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spacy_crfseq import threads
from spacy_crfseq.decoders.max_expected_f1 import MaxExpectedF1
from spacy_crfseq.decoders.viterbi import Viterbi
from spacy_crfseq.errors import ConfigError, DataError
from spacy_crfseq.inference.posterior import Posterior
from spacy_crfseq.kernels import spans
from spacy_crfseq.model import LinearChainCRF
from spacy_crfseq.potentials.protocol import tokens_of
from spacy_crfseq.schemes import tags_of, transition_table
from spacy_crfseq.types import Constraints, Scores
from tests import reference
from tests.problems import (
    BIGRAM_TEMPLATES,
    Problem,
    Training,
    all_allowed,
    plain_scores,
    problems,
    random_constraints,
    random_problem,
    training_problem,
)


class StoredScores(NamedTuple):
    """A source of scores that are there already, in parts of five tokens, or of a longer sequence."""

    problem: Problem
    score_width: int = threads.SHARD_FLOATS // 5

    @property
    def n_labels(self) -> int:
        return len(self.problem.scores.start)

    @property
    def offsets(self) -> np.ndarray:
        return self.problem.batch.offsets

    def scores(self, part: tuple[int, int]) -> Scores:
        tokens, scores = tokens_of(self.offsets, part), self.problem.scores
        if len(scores.transitions) > 1 or len(scores.emissions) == 1:
            scores = scores._replace(transitions=scores.transitions[tokens])
        return scores._replace(emissions=scores.emissions[tokens])


class Case(NamedTuple):
    """A posterior, and the scores of each sequence as the reference takes them."""

    posterior: Posterior
    sequences: list[Scores]

    @property
    def constraints(self) -> Constraints:
        return self.posterior.constraints

    @property
    def spans(self) -> tuple[np.ndarray, np.ndarray]:
        return self.constraints.inside, self.constraints.outside

    def parts(self, labels: np.ndarray) -> list[tuple[Scores, np.ndarray]]:
        """Return the scores of each sequence and its part of labels [T] or of other rows."""
        bounds = itertools.pairwise(self.posterior.offsets.tolist())
        return [(scores, labels[slice(*place)]) for scores, place in zip(self.sequences, bounds, strict=True)]


def make_case(problem: Problem, constraints: Constraints, allowed: np.ndarray, temperature: float = 1.0) -> Case:
    posterior = Posterior(StoredScores(problem), problem.batch.offsets, constraints, allowed, temperature)
    sequences = []
    for first, last in problem.sequence_bounds():
        sequence = reference.sequence(problem.scores, first, last)
        sequence = Scores(*(array / temperature for array in sequence))
        masks = constraints.start, constraints.step, constraints.end, allowed[first:last]
        sequences.append(reference.masked(sequence, *masks))
    return Case(posterior, sequences)


def random_case(problem: Problem, seed: int, share: float, temperature: float) -> Case:
    constraints, allowed = random_constraints(np.random.default_rng(seed), problem, share)
    return make_case(problem, constraints, allowed, temperature)


def cases(
    scales: tuple[float, ...] = (1.0, 100.0, 1000.0), dtype: type = np.float64, temperatures: Any = (1.0, 2.0)
) -> st.SearchStrategy[Case]:
    return st.builds(
        random_case,
        problems(maskable=False, missing=False, scales=scales, dtypes=(dtype,)),
        st.integers(0, 2**32 - 1),
        st.sampled_from([0.0, 0.3, 0.6]),
        st.sampled_from(temperatures),
    )


def extreme_case(lengths: list[int], scale: float, seed: int, mask: int, *, share: float, **settings: Any) -> Case:
    """Return scores that scaling cannot represent, with some labels and steps that are not allowed."""
    problem = random_problem(np.random.default_rng(seed), lengths=lengths, scale=scale, weighted=False, **settings)
    return random_case(problem, mask, share, 1.0)


EXACT: dict[str, float] = {"rtol": 1e-9, "atol": 1e-9}


def a_possible_labelling(case: Case, seed: int) -> np.ndarray:
    rng, labels = np.random.default_rng(seed), [np.zeros(0, np.int64)]
    for scores in case.sequences:
        paths, _ = reference.probabilities(scores)
        labels.append(rng.choice(paths) if scores.emissions.size else paths[0])
    return np.concatenate(labels).astype(np.int32)


@given(cases())
def test_marginals(case: Case) -> None:
    for scores, marginals in case.parts(case.posterior.marginals()):
        np.testing.assert_allclose(marginals, reference.marginals(scores), **EXACT)


@given(cases())
def test_pair_marginals(case: Case) -> None:
    n, n_tokens = case.posterior.source.n_labels, case.posterior.n_tokens
    labels, pairs = np.full((n_tokens, n), np.nan), np.full((n_tokens, n, n), np.nan)
    for part in case.posterior.pair_marginals():
        labels[part.tokens], pairs[part.tokens] = part.labels, part.pairs
    np.testing.assert_array_equal(labels, case.posterior.marginals())
    for scores, actual in case.parts(pairs):
        paths, shares = reference.probabilities(scores)
        expected = np.zeros_like(actual)
        for path, share in zip(paths, shares, strict=True):
            for t in range(1, len(path)):
                expected[t, path[t - 1], path[t]] += share
        np.testing.assert_allclose(actual, expected, **EXACT)


def check_spans(case: Case, limits: dict[str, float]) -> None:
    """Compare the probabilities of all spans of the text, a batch of spans that do not overlap at a time."""
    for number, (scores, tokens) in enumerate(case.parts(np.arange(case.posterior.n_tokens))):
        for (begin, path), expected in reference.span_probabilities(scores, *case.spans).items():
            labels, starts = np.zeros(case.posterior.n_tokens, np.int32), tokens[begin : begin + 1]
            labels[tokens[begin : begin + len(path)]] = path
            actual = case.posterior.span_probabilities(labels, starts, starts + len(path))
            assert actual.dtype == np.float64
            np.testing.assert_allclose(actual, [expected], **limits, err_msg=f"sequence {number}")


@given(cases())
def test_every_span(case: Case) -> None:
    check_spans(case, EXACT)


@given(cases(dtype=np.float32))
def test_every_span_in_single_precision(case: Case) -> None:
    check_spans(case, {"rtol": 1e-3, "atol": 1e-3})


@given(cases(), st.integers(0, 2**32 - 1))
def test_all_spans_of_a_labelling_at_once(case: Case, seed: int) -> None:
    labels, first = a_possible_labelling(case, seed), 0
    expected, spans = [], []
    for scores, path in case.parts(labels):
        shares = reference.span_probabilities(scores, *case.spans)
        for begin, span in reference.spans_of(path.tolist(), *case.spans):
            expected.append(shares[begin, span])
            spans.append((first + begin, first + begin + len(span)))
        first += len(path)
    actual = case.posterior.span_probabilities(labels, *np.array(spans, np.int64).reshape(-1, 2).T)
    np.testing.assert_allclose(actual, expected, **EXACT)


@given(cases(), st.integers(0, 2**32 - 1))
def test_log_probabilities(case: Case, seed: int) -> None:
    rng = np.random.default_rng(seed)
    anything = rng.integers(0, len(case.constraints.start), case.posterior.n_tokens).astype(np.int32)
    for labels in (anything, a_possible_labelling(case, seed)):
        expected = [reference.log_probability(*part) for part in case.parts(labels)]
        np.testing.assert_allclose(case.posterior.log_probabilities(labels), expected, **EXACT)


@example(extreme_case([3], 100.0, 223, 0, share=0.0, n_labels=4, shared=True))
@given(cases())
def test_entropies(case: Case) -> None:
    expected = [reference.entropy(scores) for scores in case.sequences]
    np.testing.assert_allclose(case.posterior.entropies(), expected, **EXACT)


@given(cases(), st.integers(0, 2**32 - 1), st.sampled_from([0.5, 1.0, 2.0]))
def test_expected_f(case: Case, seed: int, beta: float) -> None:
    labels = a_possible_labelling(case, seed)
    expected = reference.expected_f(case.parts(labels), *case.spans, beta)
    assert case.posterior.expected_f(labels, beta) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@example(extreme_case([1, 5], 1000.0, 0, 229, share=0.3, n_labels=3, shared=False), 0.01, 0.5, 1.0)
@given(
    cases(temperatures=[1.0]), st.sampled_from([0.01, 0.5, 0.8, 1.0]), st.sampled_from([0.5, 1.0, 2.0]),
    st.sampled_from([1.0, 4.0]),
)  # fmt: skip
def test_the_decoder_finds_the_spans_of_most_value_at_any_temperature(
    case: Case, expected_f: float, beta: float, temperature: float
) -> None:
    chosen = case.posterior._replace(temperature=temperature).decode(MaxExpectedF1(expected_f, beta))
    for scores, labels in case.parts(chosen):
        values = reference.span_values(scores, *case.spans, 1 + beta**2, expected_f)
        assert values[tuple(labels.tolist())] == pytest.approx(max(values.values()), rel=1e-9, abs=1e-8)


@given(st.integers(0, 2**32 - 1))
def test_improbable_spans_are_chosen_where_there_must_be_some(seed: int) -> None:
    """Where tokens may not be outside, or the label outside may not stand beside all others."""
    rng, tags = np.random.default_rng(seed), tags_of(["A", "B"], "IOB2")
    problem = random_problem(rng, n_labels=len(tags), lengths=[4, 3], shared=True, scale=2.0)
    constraints, allowed = transition_table(tags, "IOB2"), np.ones((7, len(tags)), np.bool_)
    allowed[:, tags.index("O")] = rng.random(7) < 0.7
    constraints.step[tags.index("O")] &= rng.random(len(tags)) < 0.8
    case = make_case(problem, constraints, allowed)
    for scores, labels in case.parts(case.posterior.decode(MaxExpectedF1(0.9))):
        values = reference.span_values(scores, *case.spans, 2, 0.9)
        assert values[tuple(labels.tolist())] == pytest.approx(max(values.values()), rel=1e-9, abs=1e-8)


@given(st.integers(0, 2**32 - 1), st.sampled_from(["IOB2", "BILUO"]), st.sampled_from([0.0, 0.3]))
def test_candidates(seed: int, scheme: str, masked: float) -> None:
    """All spans above a probability, exactly."""
    rng, tags = np.random.default_rng(seed), tags_of(["A", "B"], scheme)
    problem = random_problem(rng, n_labels=len(tags), lengths=[4, 0, 3], shared=True, scale=2.0)
    constraints, allowed = transition_table(tags, scheme), np.ones((7, len(tags)), np.bool_)
    allowed[:, tags.index("O")] = rng.random(7) >= masked
    case, least = make_case(problem, constraints, allowed), 0.02
    (inside, outside), expected = case.spans, dict[tuple[int, ...], float]()
    for scores, first in zip(case.sequences, case.posterior.offsets.tolist(), strict=False):
        for (t, labels), share in reference.span_probabilities(scores, inside, outside).items():
            expected[first + t, first + t + len(labels), labels[0]] = share
    rows, shares = case.posterior.candidates(least)
    actual = dict(zip(map(tuple, rows.tolist()), shares.tolist(), strict=True))
    assert {row: expected[row] for row in actual} == pytest.approx(actual, rel=1e-9)
    assert {row for row, share in expected.items() if share > least} <= actual.keys()
    assert masked or min(shares, default=1) > least
    assert (np.diff(rows[:, 0]) >= 0).all()


def test_the_fixed_point_is_the_largest_expected_f() -> None:
    """With the F-measure that it reaches as the one that is expected, no labelling has a larger one (Dinkelbach)."""
    problem = random_problem(np.random.default_rng(5), n_labels=3, lengths=[4, 3], shared=True)
    constraints, allowed = random_constraints(np.random.default_rng(1), problem, 0.2)
    case = make_case(problem, constraints, allowed)
    expected_f = 0.8
    for _ in range(20):
        expected_f = case.posterior.expected_f(case.posterior.decode(MaxExpectedF1(expected_f)))
    ways = itertools.product(*(reference.probabilities(scores)[0].tolist() for scores in case.sequences))
    parts = [list(zip(case.sequences, paths, strict=True)) for paths in ways]
    assert expected_f == pytest.approx(max(reference.expected_f(part, *case.spans, 1.0) for part in parts), abs=1e-9)


def test_a_smaller_f_and_a_larger_beta_find_more_spans() -> None:
    case = tagged_text(lengths=[2_000], scale=1.0)
    labels = {
        key: case.posterior.decode(MaxExpectedF1(*key)) for key in ((0.9, 0.5), (0.9, 1.0), (0.9, 2.0), (0.3, 1.0))
    }
    result = {key: int((~case.constraints.outside[chosen]).sum()) for key, chosen in labels.items()}
    assert result[0.9, 0.5] < result[0.9, 1.0] < result[0.9, 2.0]
    assert result[0.9, 1.0] < result[0.3, 1.0]


def tagged_text(lengths: list[int], scale: float, shared: bool = True, dtype: type = np.float64) -> Case:
    """Return random scores of BILUO tags of three types, under the constraints of the scheme."""
    tags = tags_of(["A", "B", "C"], "BILUO")
    settings: dict[str, Any] = {"lengths": lengths, "shared": shared, "scale": scale, "dtype": dtype}
    problem = random_problem(np.random.default_rng(len(lengths)), n_labels=len(tags), **settings)
    allowed = np.ones((problem.batch.n_tokens, len(tags)), np.bool_)
    posterior = Posterior(StoredScores(problem), problem.batch.offsets, transition_table(tags, "BILUO"), allowed, 1.0)
    return Case(posterior, [])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("scale", [0.01, 3.0, 100.0])
def test_long_sequences_and_large_scores(scale: float, shared: bool, dtype: type) -> None:
    """All answers are finite and agree with each other."""
    posterior = tagged_text([1_000], scale, shared, dtype).posterior
    precise = 1e-6 if dtype == np.float64 else 2e-3
    marginals, samples = posterior.marginals(), posterior.sample(20, np.random.default_rng(0))
    np.testing.assert_allclose(marginals.sum(1), 1, atol=precise)
    assert (marginals[np.arange(1_000), samples] > 0).all()
    entropy, log_shares = posterior.entropies()[0], [posterior.log_probabilities(labels)[0] for labels in samples]
    assert 0 <= entropy <= 1_000 * np.log(marginals.shape[1])
    assert np.isfinite(log_shares).all()
    assert -np.mean(log_shares) == pytest.approx(entropy, abs=5 * np.std(log_shares) / np.sqrt(20) + 1e-6)
    best = posterior.log_probabilities(posterior.decode(Viterbi()))[0]
    assert max(log_shares) <= best + 1e-6 * abs(best) + 1e-9
    chosen = posterior.decode(MaxExpectedF1())
    starts, ends = posterior.spans(chosen)
    shares = posterior.span_probabilities(chosen, starts, ends)
    assert np.isfinite(shares).all()
    single = ends - starts == 1  # a U- tag is a span
    np.testing.assert_allclose(shares[single], marginals[starts[single], chosen[starts[single]]], atol=precise)
    assert 0 <= posterior.expected_f(chosen) <= 1 + precise
    rival = posterior.decode(Viterbi())
    rival_shares = posterior.span_probabilities(rival, *posterior.spans(rival))
    value, rival_value = (2 * spans_of.sum() - 0.8 * len(spans_of) for spans_of in (shares, rival_shares))
    assert value >= rival_value - len(shares) * precise


@given(cases())
def test_samples_are_possible_whatever_rounding_does(case: Case) -> None:
    for draw in (0.0, 0.5, 1 - 2**-53, 1.0):  # as a sum that rounding makes too small
        rng: Any = SimpleNamespace(random=lambda shape, draw=draw: np.full(shape, draw))
        assert (case.posterior.log_probabilities(case.posterior.sample(1, rng)[0]) > -np.inf).all()


def test_a_span_as_long_as_the_text() -> None:
    """Label 1 goes on with 0 and with itself; everything is one span, of a probability that can be told."""
    n = 3_000
    step = np.log([[1e-9, 1 - 1e-9], [1e-6, 1 - 1e-6]])
    scores = Scores(np.zeros((n, 2)), step[None], np.array([0.0, -np.inf]), np.zeros(2))
    inside = np.array([[False, True], [False, True]])
    offsets = np.array([0, n])
    result, log_z = spans.make_span_chain(scores, offsets, inside)
    assert log_z[0] == pytest.approx(0, abs=1e-9)
    labels, _ = spans.best_spans(result, offsets, np.zeros(2, np.bool_), (2.0, 0.8, 0.0))
    assert labels.tolist() == [0] + [1] * (n - 1)


def test_samples_come_as_often_as_they_are_probable() -> None:
    problem = random_problem(np.random.default_rng(3), n_labels=3, lengths=[3, 0, 1, 4], shared=False)
    case = random_case(problem, 7, 0.3, 1.0)
    n = 20_000
    samples = case.posterior.sample(n, np.random.default_rng(11))
    assert samples.shape == (n, 8)
    for scores, drawn in case.parts(samples.T):
        paths, shares = reference.probabilities(scores)
        places = {tuple(path): place for place, path in enumerate(paths.tolist())}
        counts = np.bincount([places[tuple(path)] for path in drawn.T.tolist()], minlength=len(paths))
        common = n * shares > 5
        deviation = (counts - n * shares)[common] ** 2 / (n * shares)[common]
        degrees = int(common.sum())
        assert deviation.sum() < degrees + 5 * np.sqrt(2 * degrees)


def test_samples_of_a_seed_stay_the_same() -> None:
    case = random_case(random_problem(np.random.default_rng(3), n_labels=3, lengths=[3] * 5, shared=True), 7, 0.3, 1.0)
    first, same, other = (case.posterior.sample(4, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert first.dtype == np.int32
    assert first.tolist() == same.tolist() != other.tolist()
    assert len(np.unique(first, axis=0)) > 1


def test_an_empty_text() -> None:
    case = random_case(random_problem(np.random.default_rng(0), n_labels=2, lengths=[0, 0], shared=True), 0, 0.0, 1.0)
    nothing = np.zeros(0, np.int32)
    assert case.posterior.log_probabilities(nothing).tolist() == [0, 0]
    assert case.posterior.entropies().tolist() == [0, 0]
    assert case.posterior.sample(3, np.random.default_rng(0)).shape == (3, 0)
    assert case.posterior.expected_f(nothing) == 0


@pytest.mark.parametrize(
    "ask", ["log_probabilities", "marginals", "pair_marginals", "entropies", "sample", "expected_f"]
)
def test_a_text_without_any_labelling(ask: str) -> None:
    problem = random_problem(np.random.default_rng(0), n_labels=3, lengths=[2, 1, 0, 2], shared=True)
    allowed = np.ones((5, 3), np.bool_)
    allowed[4] = False
    posterior = make_case(problem, all_allowed(3), allowed).posterior
    arguments: dict[str, tuple[Any, ...]] = dict.fromkeys(("marginals", "pair_marginals", "entropies"), ())
    arguments["sample"] = 2, np.random.default_rng(0)
    with pytest.raises(DataError, match="Sequence 3 of"):
        list(getattr(posterior, ask)(*arguments.get(ask, (np.zeros(5, np.int32),))))


@pytest.mark.parametrize("setting", [{"expected_f": 0}, {"expected_f": 1.1}, {"beta": 0}, {"beta": float("inf")}])
def test_settings_out_of_range(setting: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=next(iter(setting))):
        MaxExpectedF1(**setting)


# --- the best labellings of a text as a posterior gives them, against the enumeration of all ------------------------


FREE = all_allowed(3)
SHARED_AND_PER_POSITION = pytest.mark.parametrize("bigram_templates", [(), BIGRAM_TEMPLATES], ids=["shared", "pairs"])


def make_model(
    bigram_templates: tuple[str, ...] = (), dtype: type = np.float64, scale: float = 0.5
) -> tuple[LinearChainCRF, Training]:
    training = training_problem(7, n_sequences=10, bigram_templates=bigram_templates)
    theta = training.random_theta(np.random.default_rng(1), scale).astype(dtype)
    return training.model(theta), training


@SHARED_AND_PER_POSITION
@pytest.mark.parametrize("k", [1, 5, 800])
@pytest.mark.parametrize("seed", range(4))
def test_the_best_labellings_and_their_probabilities(bigram_templates: tuple[str, ...], k: int, seed: int) -> None:
    model, training = make_model(bigram_templates)
    encoded, temperature = training.encoded, (1.0, 2.5)[seed % 2]
    scores = plain_scores(model.layout, model.theta, encoded)
    problem = Problem(scores, training.objective.batch)
    constraints, allowed = random_constraints(np.random.default_rng(seed), problem, 0.3 * (seed < 3))
    posterior = model.posterior(encoded, constraints, allowed, temperature)
    labels, actual = posterior.nbest(k)
    assert labels.dtype == np.int32
    assert labels.shape == (k, encoded.n_tokens)
    np.testing.assert_array_equal(labels[0], posterior.decode(Viterbi()))
    scores = Scores(*(array / temperature for array in scores)).constrained(constraints, allowed)
    assert not np.diff(encoded.offsets).all()  # an empty sequence has one labelling
    for n, (first, last) in enumerate(pairwise(encoded.offsets)):
        paths, expected = reference.ranked(reference.sequence(scores, first, last))
        count = min(k, len(paths))
        np.testing.assert_allclose(actual[:count, n], expected[:count], rtol=1e-9, atol=1e-9)
        np.testing.assert_array_equal(labels[:count, first:last], paths[:count])
        assert np.isneginf(actual[count:, n]).all()
        assert (labels[count:, first:last] == -1).all()


@SHARED_AND_PER_POSITION
def test_shards_of_any_size_give_the_same(bigram_templates: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    model, training = make_model(bigram_templates)
    expected = model.posterior(training.encoded, FREE).nbest(4)
    monkeypatch.setattr(threads, "SHARD_FLOATS", 20)
    alternatives = model.posterior(training.encoded, FREE).nbest(4)
    np.testing.assert_array_equal(alternatives.labels, expected.labels)
    np.testing.assert_array_equal(alternatives.log_probabilities, expected.log_probabilities)


@pytest.mark.parametrize("scale", [0.5, 5.0, 100.0, 3000.0])
def test_all_probabilities_sum_to_one_whatever_the_precision_of_the_weights(scale: float) -> None:
    model, training = make_model(dtype=np.float32, scale=scale)
    result = model.posterior(training.encoded, FREE).nbest(3**6).log_probabilities
    np.testing.assert_allclose(np.exp(result).sum(0), 1, atol=1e-9)
    assert (result <= 0).all()


@pytest.mark.parametrize("shard", [1 << 18, 20])
def test_a_sequence_without_labelling_is_told(shard: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "SHARD_FLOATS", shard)
    model, training = make_model()
    number = int(np.flatnonzero(np.diff(training.encoded.offsets))[-1])
    allowed = np.ones((training.encoded.n_tokens, 3), np.bool_)
    allowed[training.encoded.offsets[number]] = False
    with pytest.raises(DataError, match=f"Sequence {number} of the batch has no labelling"):
        model.posterior(training.encoded, FREE, allowed).nbest(2)


@pytest.mark.parametrize("k", [0, -3])
def test_a_list_has_at_least_one_labelling(k: int) -> None:
    model, training = make_model()
    with pytest.raises(ConfigError, match=f"a whole number from 1 on, not {k}"):
        model.posterior(training.encoded, FREE).nbest(k)
