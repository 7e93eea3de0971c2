"""Labels once or in an order: what can be asked of the posterior, against the enumeration of all labellings."""

from collections.abc import Sequence
from itertools import groupby, pairwise
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_crfseq import kernels
from spacy_crfseq.decoders.viterbi import Viterbi
from spacy_crfseq.errors import ConfigError, DataError
from spacy_crfseq.inference.posterior import Posterior
from spacy_crfseq.schemes import MOST_LIMITED, decode_lenient, occurrence_rules, tags_of, transition_table
from tests import reference
from tests.problems import random_constraints, random_problem
from tests.test_posterior import StoredScores

LIMITS = {"rtol": 1e-6, "atol": 1e-7}


class Case(NamedTuple):
    """A posterior under rules; for each sequence its tokens, and the labellings [P, n] that are possible, with P."""

    posterior: Posterior
    tokens: list[slice]
    paths: list[np.ndarray]
    shares: list[np.ndarray]


def occurrences(tags: Sequence[str], scheme: str) -> list[str]:
    if scheme == "plain":
        return [tag for tag, _ in groupby(tags)]
    return [span.label for span in decode_lenient(tags)]


def obeys(labelling: list[str], once: Sequence[str], order: Sequence[str]) -> bool:
    ranks = [order.index(name) for name in labelling if name in order]
    return ranks == sorted(ranks) and all(labelling.count(name) <= 1 for name in once)


def make_case(seed: int, scheme: str, n_types: int, share: float, scale: float, shared: bool) -> Case | None:
    """Return a case, or None if a sequence has no labelling."""
    rng = np.random.default_rng(seed)
    types = list("ABCD"[:n_types])
    tags = types if scheme == "plain" else tags_of(types, scheme)
    longest = 5 if len(tags) < 5 else 4 if len(tags) < 6 else 3
    lengths = rng.integers(0, longest + 1, 3).tolist()
    problem = random_problem(rng, n_labels=len(tags), lengths=lengths, shared=shared, scale=scale)
    constraints, (random, allowed) = transition_table(tags, scheme), random_constraints(rng, problem, share)
    constraints = constraints._replace(step=constraints.step & random.step)
    once = [name for name in types if rng.random() < 0.6]
    order = [name for name in rng.permutation(types).tolist() if rng.random() < 0.5]
    if not once and len(order) < 2:
        once = types
    tokens, paths, shares = [], [], []
    for first, last in problem.sequence_bounds():
        sequence = reference.sequence(problem.scores, first, last)
        result, scores = reference.completions(
            reference.masked(sequence, constraints.start, constraints.step, constraints.end, allowed[first:last])
        )
        result, scores = result[scores > -np.inf], scores[scores > -np.inf]
        kept = [obeys(occurrences([tags[i] for i in path], scheme), once, order) for path in result.tolist()]
        if not any(kept):
            return None
        tokens.append(slice(first, last))
        paths.append(result[kept])
        shares.append(np.exp(scores[kept] - reference.log_sum(scores[kept])))
    rules = occurrence_rules(tags, scheme, once, order)
    return Case(
        Posterior(StoredScores(problem), problem.batch.offsets, constraints, allowed, 1.0, rules), tokens, paths, shares
    )


def cases(scales: Sequence[float] = (0.3, 3.0)) -> st.SearchStrategy[Case]:
    made = st.builds(
        make_case,
        st.integers(0, 2**32 - 1),
        st.sampled_from(["plain", "plain", "IOB2", "BILUO"]),
        st.integers(2, 3),
        st.sampled_from([0.0, 0.2]),
        st.sampled_from(scales),
        st.booleans(),
    )
    return made.filter(lambda case: case is not None)


@given(cases((0.3, 3.0, 100.0)))
def test_the_best_labels(case: Case) -> None:
    exact = np.zeros(3, np.bool_)
    labels = case.posterior.decode(Viterbi(), exact=exact)
    assert exact.all()
    for tokens, paths, shares in zip(*case[1:], strict=True):
        (place,) = np.flatnonzero((paths == labels[tokens]).all(1))
        assert shares[place] == pytest.approx(shares.max())


@given(cases())
def test_marginals_and_entropies(case: Case) -> None:
    marginals, entropies = case.posterior.marginals(), case.posterior.entropies()
    assert (case.posterior.missing() < 1e-8).all()
    labels = case.posterior.decode(Viterbi())
    np.testing.assert_allclose(
        case.posterior.label_probabilities(labels), marginals[np.arange(len(labels)), labels], **LIMITS
    )
    pairs = np.concatenate([part.pairs for part in case.posterior.pair_marginals()])
    for tokens, paths, shares, entropy in zip(*case[1:], entropies, strict=True):
        chosen = paths[:, :, None] == np.arange(marginals.shape[1])
        np.testing.assert_allclose(marginals[tokens], (shares[:, None, None] * chosen).sum(0), **LIMITS)
        steps = np.einsum("p,pti,ptj->tij", shares, chosen[:, :-1].astype(float), chosen[:, 1:].astype(float))
        np.testing.assert_allclose(pairs[tokens][1:], steps, **LIMITS)
        assert not pairs[tokens][:1].any()
        np.testing.assert_allclose(entropy, -(shares * np.log(np.maximum(shares, 1e-300))).sum(), **LIMITS)


@given(cases())
def test_log_probabilities_alternatives_and_samples(case: Case) -> None:
    alternatives, samples = case.posterior.nbest(4), case.posterior.sample(5, np.random.default_rng(0))
    anything = np.random.default_rng(1).integers(0, case.posterior.source.n_labels, case.posterior.n_tokens)
    for labels in (alternatives.labels[0], anything.astype(np.int32)):
        log_shares = case.posterior.log_probabilities(labels)
        for tokens, paths, shares, log_share in zip(*case[1:], log_shares, strict=True):
            expected = shares[(paths == labels[tokens]).all(1)].sum()
            np.testing.assert_allclose(np.exp(log_share), expected, **LIMITS)
    for number, (tokens, paths, shares) in enumerate(zip(*case[1:], strict=True)):
        likely = np.sort(shares)[::-1][:4]
        n = int((likely > 1e-9).sum())
        np.testing.assert_allclose(np.exp(alternatives.log_probabilities[:n, number]), likely[:n], **LIMITS)
        for labels in alternatives.labels[:n]:
            assert (paths == labels[tokens]).all(1).any()
        assert all((paths == drawn[tokens]).all(1).any() for drawn in samples)


@given(cases())
def test_spans_and_expected_f(case: Case) -> None:
    constraints = case.posterior.constraints
    spans = constraints.inside, constraints.outside
    labels = case.posterior.decode(Viterbi())
    starts, ends = case.posterior.spans(labels)
    actual = case.posterior.span_probabilities(labels, starts, ends)
    expected, n_true = [], 0.0
    for tokens, paths, shares in zip(*case[1:], strict=True):
        of_paths = [{*reference.spans_of(path, *spans)} for path in paths.tolist()]
        n_true += sum(share * len(paths) for share, paths in zip(shares, of_paths, strict=True))
        for start, path in reference.spans_of(labels[tokens].tolist(), *spans):
            expected.append(sum(s for s, paths in zip(shares, of_paths, strict=True) if (start, path) in paths))
    np.testing.assert_allclose(actual, expected, **LIMITS)
    total = len(starts) + n_true
    assert case.posterior.expected_f(labels) == pytest.approx(2 * actual.sum() / total if total else 0.0, abs=1e-6)


def text(n_labels: int, lengths: list[int], scale: float = 1.0) -> Posterior:
    names = [f"L{number}" for number in range(n_labels)]
    problem = random_problem(np.random.default_rng(7), n_labels=n_labels, lengths=lengths, shared=True, scale=scale)
    rules = occurrence_rules(names, "plain", ["*"], [])
    return Posterior(StoredScores(problem), problem.batch.offsets, transition_table(names, "plain"), None, 1.0, rules)


def test_many_states_are_cut_and_said_so() -> None:
    """Flat scores of many labels: not all states fit, what is found still obeys the rules."""
    posterior, exact = text(20, [12, 1, 25], 0.1), np.zeros(3, np.bool_)
    labels = posterior.decode(Viterbi(), exact=exact)
    assert exact.tolist()[1:] == [True, False]
    assert np.isfinite(posterior.log_probabilities(labels)).all()
    missing = posterior.missing()
    assert missing[1] < 1e-6
    assert (missing[[0, 2]] > 0.1).all()
    np.testing.assert_allclose(posterior.marginals().sum(1), 1, atol=1e-6)


def test_constraints_that_no_labels_satisfy_are_refused() -> None:
    posterior = text(3, [2, 3])
    allowed = np.ones((5, 3), np.bool_)
    allowed[2:] = [[True, False, False], [False, True, False], [True, False, False]]
    for ask in ("marginals", "entropies", "decode"):
        with pytest.raises(DataError, match="Sequence 1 of"):
            getattr(posterior._replace(allowed=allowed), ask)(*([Viterbi()] if ask == "decode" else []))


@pytest.mark.parametrize(
    ("once", "order", "message"),
    [
        (["A", "C"], [], "once names 'C'.*Known: A, B"),
        ([], ["B", "B"], "order names 'B' twice"),
        ([], ["*"], "order names"),
        ("A", [], "once is 'A', but must be a list of labels"),
        ([], [1], "order is \\[1\\], but must be a list of labels"),
    ],
)
def test_settings_that_are_wrong(once: Any, order: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        occurrence_rules(tags_of(["A", "B"], "IOB2"), "IOB2", once, order)


def test_too_many_labels() -> None:
    names = [str(number) for number in range(MOST_LIMITED + 1)]
    with pytest.raises(ConfigError, match="63 labels"):
        occurrence_rules(names, "plain", ["*"], [])
    assert occurrence_rules(names[:-1], "plain", ["*"], []) is not None
    assert occurrence_rules(names, "plain", [], []) is None


def test_plain_decoding_obeys_where_it_can() -> None:
    """Sequences whose best labelling obeys the rules keep it."""
    posterior = text(6, [4] * 50, 2.0)
    plain, labels = posterior._replace(rules=None).decode(Viterbi()), posterior.decode(Viterbi())
    obeying = np.zeros(50, np.bool_)
    assert posterior.rules is not None
    kernels.occurrences.obeying(plain, posterior.offsets, posterior.rules, obeying)
    same = [(plain[b:e] == labels[b:e]).all() for b, e in pairwise(posterior.offsets)]
    assert 0 < obeying.sum() < 50
    assert same == obeying.tolist()


def test_candidates_are_those_without_the_rules() -> None:
    case = make_case(3, "IOB2", 2, 0.0, 1.0, True)
    assert case is not None
    assert case.posterior.rules is not None
    actual, wanted = (side.candidates(0.01) for side in (case.posterior, case.posterior._replace(rules=None)))
    assert len(wanted[1])
    for array, expected in zip(actual, wanted, strict=True):
        np.testing.assert_array_equal(array, expected)
