"""Label models against sums over all labellings, on votes from known models, and for odd sources."""

from collections import Counter
from dataclasses import replace
from functools import partial
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_crfseq.errors import ConfigError, DataError
from spacy_crfseq.schemes import transition_table
from spacy_crfseq.tools.aggregate.distinct import distinct_texts
from spacy_crfseq.tools.aggregate.em import DawidSkene, HiddenMarkov, learn
from spacy_crfseq.tools.aggregate.label_model import LabelModel, LabelModelMethod, Majority, parse_method
from spacy_crfseq.tools.aggregate.source_report import find_copies, gold_report, report
from spacy_crfseq.types import MISSING, Constraints
from spacy_crfseq.votes import ABSTAIN, MethodSettings, Votes, make_votes, votes_of_table

TAGS = ["O", "B-PER", "I-PER"]
IOB2 = transition_table(TAGS, "IOB2")
FREE = transition_table(["N", "V", "A"], "plain")
CLASSICAL = HiddenMarkov(firmness=0, unsaid=1)
"""The model without what it assumes of spans, which votes drawn at random contradict."""
MODELS = [
    pytest.param(HiddenMarkov(), id="HMM"),
    pytest.param(HiddenMarkov(previous=True), id="HMM with previous votes"),
    pytest.param(DawidSkene(), id="Dawid-Skene"),
]
A_SOURCE_OF_THREE_LABELS = Majority()(votes_of_table([[0, 1]], [0, 2], ["a"], 3), FREE)


def confusion(right: Any) -> np.ndarray:
    """Return P(vote | true label) [3, 3], the true label last, given the shares of correct votes [3]."""
    return np.where(np.eye(3, dtype=bool), right, (1 - np.array(right)) / 2)


def draw(
    n_texts: int, confusions: list[np.ndarray], *, seed: int = 0, length: int = 12, says: float = 1.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return offsets, true labels [T] and votes [S, T] of sources, each of which speaks of a share of the tokens."""
    rng = np.random.default_rng(seed)
    steps = np.array([[0.8, 0.2, 0.0], [0.4, 0.1, 0.5], [0.6, 0.1, 0.3]])
    labels = np.zeros((n_texts, length), np.int64)
    labels[:, 0] = rng.random(n_texts) < 0.2
    for t in range(1, length):
        labels[:, t] = (rng.random(n_texts)[:, None] > np.cumsum(steps[labels[:, t - 1]], 1)).sum(1)
    gold = labels.ravel()
    table = np.stack([(rng.random(len(gold))[:, None] > np.cumsum(c[:, gold].T, 1)).sum(1) for c in confusions])
    table[rng.random(table.shape) > says] = ABSTAIN
    return np.arange(n_texts + 1) * length, gold.astype(np.int32), table


def some_votes(seed: int, n_sources: int = 3, lengths: tuple[int, ...] = (3, 1, 0, 4)) -> Votes:
    rng = np.random.default_rng(seed)
    offsets = np.cumsum([0, *lengths])
    return votes_of_table(rng.integers(-1, 3, (n_sources, offsets[-1])), offsets, names(n_sources), 3)


def names(n: int) -> list[str]:
    return [f"source {number}" for number in range(n)]


def log_joint(model: LabelModel, votes: Votes, path: tuple[int, ...], first: int) -> float:
    """Return log P(labels, votes) of one sequence, token by token and vote by vote."""
    rules, total, said = model.constraints, 0.0, dict[int, int]()
    with np.errstate(divide="ignore"):
        for t, label in enumerate(path):
            allowed = rules.step[path[t - 1], label] if t else rules.start[label]
            total += np.log(float(allowed)) + (model.steps[path[t - 1], label] if t else model.start[label])
            total += model.emissions[label]
            said_here = votes.labels[votes.ptr[first + t] : votes.ptr[first + t + 1]]
            total += np.log(1.0 if rules.outside[label] or label in said_here else model.unsaid)
            now = dict[int, int]()
            for v in range(votes.ptr[first + t], votes.ptr[first + t + 1]):
                source, vote = int(votes.sources[v]), int(votes.labels[v])
                before = said.get(source, votes.n_labels) if model.votes.shape[1] > 1 else 0
                total += model.votes[source, before, vote, label]
                now[source] = vote
            said = now
        if path:
            total += np.log(float(rules.end[path[-1]])) + model.end[path[-1]]
    return float(total)


def paths(votes: Votes, number: int, gold: np.ndarray | None) -> list[tuple[int, ...]]:
    first, last = votes.offsets[number : number + 2]
    labels = [MISSING] * (last - first) if gold is None else gold[first:last].tolist()
    return [
        path
        for path in product(range(3), repeat=int(last - first))
        if all(wanted in (MISSING, label) for wanted, label in zip(labels, path, strict=True))
    ]


def written_out(model: LabelModel, votes: Votes, gold: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Return log P(votes, known labels) of each sequence and P(label | votes) of each token, by all labellings."""
    log_z, shares = [], np.zeros((votes.n_tokens, 3))
    for number, first in enumerate(votes.offsets[:-1].tolist()):
        labellings = paths(votes, number, gold)
        values = np.exp([log_joint(model, votes, path, first) for path in labellings])
        log_z.append(np.log(values.sum()))
        for path, value in zip(labellings, values / values.sum(), strict=True):
            shares[first + np.arange(len(path)), list(path)] += value
    return np.array(log_z), shares


@pytest.mark.parametrize("method", MODELS)
@pytest.mark.parametrize("constraints", [FREE, IOB2], ids=["plain", "IOB2"])
@given(seed=st.integers(0, 1000), semi=st.booleans())
def test_likelihood_and_posterior_are_those_of_all_labellings(
    method: DawidSkene, constraints: Constraints, seed: int, semi: bool
) -> None:
    votes = some_votes(seed)
    gold = np.array([0, MISSING, MISSING, 1, 1, MISSING, MISSING, 0], np.int32) if semi else None
    model = learn(votes, constraints, replace(method, max_iterations=3, tolerance=0), gold)
    lattice = model.lattice(votes, gold)
    log_z, shares = written_out(model, votes, gold)
    np.testing.assert_allclose(lattice.log_z(), log_z, rtol=0, atol=1e-10)
    np.testing.assert_allclose(lattice.marginals(), shares, rtol=0, atol=1e-10)


def lacking(votes: Votes) -> float:
    """Return how many tokens lack three votes."""
    return max(0.0, votes.n_tokens - len(votes.labels) / 3)


def learned_with(method: DawidSkene, model: LabelModel) -> LabelModel:
    """Return the model under the constraints that learning respects: none without steps."""
    rules = model.constraints
    return model if method.steps else model._replace(constraints=FREE._replace(outside=rules.outside))


def objective(model: LabelModel, method: DawidSkene, votes: Votes, gold: np.ndarray | None) -> float:
    """Return the log-likelihood plus the prior's counts times log-probabilities, by all labellings."""
    added = method.added_votes(model.constraints.outside, lacking(votes))
    value = written_out(model, votes, gold)[0].sum() + (added * model.votes).sum()
    shared = (model.steps, model.start, model.end) if method.steps else (model.emissions,)
    return float(value + sum(method.smoothing * logs[np.isfinite(logs)].sum() for logs in shared))


@pytest.mark.parametrize("method", MODELS)
@pytest.mark.parametrize(("constraints", "seed"), [(FREE, 7), (IOB2, 3)], ids=["plain", "IOB2"])
def test_no_iteration_lowers_the_objective_which_is_that_of_all_labellings(
    method: DawidSkene, constraints: Constraints, seed: int
) -> None:
    votes = some_votes(seed, lengths=(3, 1, 0, 4, 2, 4))
    gold = np.full(votes.n_tokens, MISSING, np.int32)
    gold[[0, 5]] = 1, 0
    learned = [learn(votes, constraints, replace(method, max_iterations=i, tolerance=0), gold) for i in (1, 30)]
    assert len(learned[1].values) > 5
    assert min(np.diff(learned[1].values)) >= -1e-10
    for model in map(partial(learned_with, method), learned):
        assert model.values[-1] == pytest.approx(objective(model, method, votes, gold), abs=1e-9)


@pytest.mark.parametrize("method", MODELS)
def test_an_iteration_is_expected_counts_of_all_labellings_divided_by_their_sums(method: DawidSkene) -> None:
    votes = some_votes(3)
    once, twice = (learn(votes, IOB2, replace(method, max_iterations=i, tolerance=0)) for i in (1, 2))
    free = learned_with(method, once)
    counts = np.zeros_like(once.votes) + method.added_votes(IOB2.outside, lacking(votes))
    _, shares = written_out(free, votes, None)
    before = votes.previous() if method.by_previous else np.zeros(len(votes.labels), int)
    for token, source, label, previous in zip(votes.tokens, votes.sources, votes.labels, before, strict=True):
        counts[source, previous, label] += shares[token]
    np.testing.assert_allclose(np.exp(twice.votes), counts / counts.sum(2, keepdims=True), atol=1e-12)


@given(seed=st.integers(0, 1000), semi=st.booleans())
def test_distinct_texts_have_all_votes_and_true_labels_as_often_as_they_come(seed: int, semi: bool) -> None:
    votes = some_votes(seed, 2, (2, 1, 0, 1, 2, 0, 1, 2, 1, 1))
    gold = np.random.default_rng(seed).integers(-1, 1, votes.n_tokens).astype(np.int32) if semi else None
    texts = distinct_texts(votes, votes.sources * 3 + votes.labels, gold)
    given_texts = Counter(sequences(votes, gold, np.arange(votes.n_tokens), votes.offsets))
    of_texts = sequences(texts.votes, texts.gold, texts.tokens, texts.offsets)
    assert dict(zip(of_texts, texts.weights, strict=True)) == given_texts
    tokens = texts.without_order()
    of_tokens = sequences(tokens.votes, tokens.gold, tokens.tokens, tokens.offsets)
    given_tokens = Counter((token,) for text in given_texts.elements() for token in text)
    assert dict(zip(of_tokens, tokens.weights, strict=True)) == given_tokens


def sequences(votes: Votes, gold: np.ndarray | None, tokens: np.ndarray, offsets: np.ndarray) -> list[tuple[Any, ...]]:
    """Return the votes and the true label of each token of each sequence of tokens."""
    pairs = [*zip(votes.sources.tolist(), votes.labels.tolist(), strict=True)]
    said = [(*pairs[begin:end],) for begin, end in pairwise(votes.ptr.tolist())]
    true = [MISSING] * votes.n_tokens if gold is None else gold.tolist()
    every = [(said[token], true[token]) for token in tokens.tolist()]
    return [(*every[begin:end],) for begin, end in pairwise(offsets.tolist())]


def test_tokens_without_order_have_the_number_of_their_first_text() -> None:
    votes = votes_of_table([[0, 0, 1, 0, 2, 1, 2]], [0, 1, 3, 3, 5, 7], ["a"], 3)
    texts = distinct_texts(votes, votes.labels, None).without_order()
    assert dict(zip(texts.votes.labels.tolist(), texts.numbers.tolist(), strict=True)) == {0: 0, 1: 1, 2: 3}


def test_parameters_are_found_again_within_sampling_error() -> None:
    rights = np.random.default_rng(3).uniform([0.85, 0.4, 0.4], [0.99, 0.9, 0.9], (10, 3))
    offsets, gold, table = draw(5_000, [confusion(right) for right in rights], says=0.5)
    votes = votes_of_table(table, offsets, names(10), 3)
    model = learn(votes, IOB2, CLASSICAL)
    assert model.converged
    result = np.exp(model.votes[:, 0])
    assert not np.isnan(result).any()
    for source, right in enumerate(rights):
        n = np.bincount(gold[table[source] != ABSTAIN], minlength=3)
        p = confusion(right)
        error = np.sqrt(p * (1 - p) / n)
        assert (abs(result[source] - p) < 6 * error).all()  # of 90, and true labels are known less well than here
    n = np.bincount(gold, minlength=3)
    assert np.exp(model.steps[0, 1]) == pytest.approx(0.2 * 11 / 12, abs=6 * np.sqrt(0.16 / n[0]))


def accuracy(table: np.ndarray, offsets: np.ndarray, gold: np.ndarray, method: LabelModelMethod) -> float:
    votes = votes_of_table(table, offsets, names(len(table)), 3)
    model = method(votes, IOB2)
    assert not np.isnan(model.votes).any()
    shares = model.lattice(votes).marginals()
    np.testing.assert_allclose(shares.sum(1), 1, atol=1e-9)
    return float((shares.argmax(1) == gold).mean())


RIGHTS = [(0.98, 0.8, 0.7), (0.95, 0.6, 0.6), (0.97, 0.5, 0.5), (0.9, 0.7, 0.8)]


def test_the_chain_beats_single_tokens_which_beat_the_majority() -> None:
    offsets, gold, table = draw(300, [confusion(right) for right in RIGHTS])
    hmm, tokens, majority = (
        accuracy(table, offsets, gold, method) for method in (HiddenMarkov(), DawidSkene(), Majority())
    )
    assert hmm > tokens > majority


@pytest.mark.parametrize(
    "more",
    [
        pytest.param(lambda votes: np.full_like(votes[:1], ABSTAIN), id="one that always abstains"),
        pytest.param(lambda votes: np.full_like(votes[:1], 0), id="one that always says O"),
        pytest.param(lambda votes: np.full_like(votes[:1], 1), id="one that always says B-PER"),
        pytest.param(lambda votes: np.random.default_rng(0).integers(0, 3, votes[:1].shape), id="one by chance"),
    ],
)
@pytest.mark.parametrize("method", MODELS)
def test_a_source_that_knows_nothing_does_no_harm(method: DawidSkene, more: Any) -> None:
    offsets, gold, table = draw(300, [confusion(right) for right in RIGHTS])
    alone = accuracy(table, offsets, gold, method)
    assert accuracy(np.concatenate([table, more(table)]), offsets, gold, method) > alone - 0.005


def rare_spans(drops: list[float]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return offsets, true labels [T] with a span of two tokens in two of three texts, and what sources find [S, T]."""
    rng, n_texts = np.random.default_rng(0), 300
    gold = np.zeros((n_texts, 10), np.int32)
    gold[np.arange(n_texts) % 3 > 0, 3:5] = 1, 2
    result = rng.random((len(drops), n_texts, 1)) >= np.array(drops)[:, None, None]
    return np.arange(n_texts + 1) * 10, gold.ravel(), np.where(result, gold, 0).reshape(len(drops), -1)


@pytest.mark.parametrize("method", MODELS)
@pytest.mark.parametrize("abstains", [False, True], ids=["saying O", "abstaining"])
def test_spans_of_a_single_source_are_kept_and_none_is_invented(method: DawidSkene, abstains: bool) -> None:
    offsets, _, table = rare_spans([0.2])
    votes = votes_of_table(np.where(table == 0, ABSTAIN if abstains else 0, table), offsets, names(1), 3)
    shares = learn(votes, IOB2, method).lattice(votes).marginals()
    assert (shares.argmax(1) == table[0]).all()
    assert shares[table[0] == 0, 1:].sum() < 0.3 * (table > 0).sum()


@pytest.mark.parametrize("method", MODELS)
def test_spans_of_either_of_two_sources_that_abstain_elsewhere_are_kept(method: DawidSkene) -> None:
    offsets, _, table = rare_spans([0.3, 0.5])
    votes = votes_of_table(np.where(table == 0, ABSTAIN, table), offsets, names(2), 3)
    shares = learn(votes, IOB2, method).lattice(votes).marginals()
    assert (shares.argmax(1) == table.max(0)).all()


def test_the_dependence_on_the_vote_before_finds_a_source_that_goes_on_to_err() -> None:
    offsets, gold, table = draw(400, [confusion(right) for right in RIGHTS])
    sticky = np.repeat(np.random.default_rng(1).integers(0, 3, len(gold) // 4), 4)  # whatever is true, four times
    table = np.concatenate([table, [sticky, np.where(sticky == 1, 1, gold)]])
    independent, dependent = (accuracy(table, offsets, gold, HiddenMarkov(previous=p)) for p in (False, True))
    assert dependent > independent


def test_gold_texts_make_the_others_better() -> None:
    offsets, gold, table = draw(300, [confusion(right) for right in [(0.7, 0.5, 0.4), (0.6, 0.5, 0.6)]], length=8)
    half_gold = np.where(np.arange(len(gold)) < len(gold) // 2, gold, MISSING).astype(np.int32)
    rest = half_gold == MISSING
    votes = votes_of_table(table, offsets, names(2), 3)
    right = []
    for given_labels in (None, half_gold):
        shares = learn(votes, IOB2, HiddenMarkov(), given_labels).lattice(votes, given_labels).marginals()
        right.append((shares.argmax(1) == gold)[rest].mean())
        if given_labels is not None:
            assert (shares.argmax(1) == gold)[~rest].all()
    assert right[1] > right[0]


@pytest.mark.parametrize("method", MODELS)
def test_a_single_source_and_a_thousand_sources(method: DawidSkene) -> None:
    offsets, gold, table = draw(30, [confusion((0.95, 0.8, 0.8))])
    assert accuracy(table, offsets, gold, method) > 0.8
    many = draw(30, [confusion((0.9, 0.6, 0.6))] * 1000, says=0.02)
    assert accuracy(many[2], *many[:2], method) > 0.95


def test_results_do_not_depend_on_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    votes = votes_of_table((made := draw(50, [confusion(right) for right in RIGHTS]))[2], made[0], names(4), 3)
    monkeypatch.setattr("spacy_crfseq.threads.SHARD_FLOATS", 300)
    first, two = (learn(votes, IOB2, HiddenMarkov(), n_threads=n) for n in (1, 2))
    np.testing.assert_allclose(first.votes, two.votes, rtol=1e-12)


def test_two_sources_that_copy_are_named() -> None:
    offsets, _, table = draw(500, [confusion(right) for right in RIGHTS])
    copy = np.where(np.random.default_rng(0).random(table.shape[1]) < 0.05, table[3], table[1])
    sources = ["rules", "list", "person", "model", "list again"]
    votes = votes_of_table(np.concatenate([table, copy[None]]), offsets, sources, 3)
    pairs = [(pair.first, pair.second) for pair in find_copies(learn(votes, IOB2, HiddenMarkov()), votes)]
    assert pairs == [("list", "list again")]
    independent = votes_of_table(table, offsets, sources[:4], 3)
    assert find_copies(learn(independent, IOB2, HiddenMarkov()), independent) == []


def test_two_sources_that_agree_are_no_copies_where_nothing_else_judges_them() -> None:
    """As a model and the labels that it has learned from, on a few texts."""
    offsets, gold, table = draw(60, [confusion((0.99, 0.95, 0.95)), confusion((0.9, 0.8, 0.8))])
    spans = np.where(table[0] == 0, ABSTAIN, table[0])
    votes = votes_of_table(np.stack([spans, table[0]]), offsets, ["llm", "first"], 3)
    model = learn(votes, IOB2, HiddenMarkov())
    assert find_copies(model, votes) == []
    judged = find_copies(model, votes, gold)
    assert [(pair.first, pair.second) for pair in judged] == [("llm", "first")]
    assert "that a third source or a gold label judges" in str(judged[0])


@pytest.mark.parametrize("method", MODELS)
@pytest.mark.parametrize("copied", range(4))
def test_a_source_that_comes_twice_is_named_and_changes_no_label(method: DawidSkene, copied: int) -> None:
    offsets, _, table = draw(200, [confusion(right) for right in RIGHTS])
    alone = votes_of_table(table, offsets, names(4), 3)
    votes = votes_of_table(np.concatenate([table, table[copied][None]]), offsets, names(5), 3)
    model = learn(votes, IOB2, method)
    pairs = [(pair.first, pair.second) for pair in find_copies(model, votes)]
    assert pairs == [(f"source {copied}", "source 4")]
    expected = learn(alone, IOB2, method).lattice(alone).marginals()
    np.testing.assert_allclose(model.lattice(votes).marginals(), expected, rtol=1e-9, atol=1e-12)


def test_the_report_on_sources_agrees_with_counts_by_hand() -> None:
    table = [[0, 1, 2, 0, ABSTAIN], [0, 1, 0, 0, 1], [ABSTAIN] * 5]
    votes = votes_of_table(table, [0, 5], ["rules", "list", "nothing"], 3)
    gold = np.array([0, 1, 1, MISSING, 1], np.int32)
    rows = gold_report(votes, gold, np.array([0, 1, 1], np.int32), ["O", "PER"])
    assert [(row.source, row.label) for row in rows[:3]] == [("rules", "O"), ("rules", "PER"), ("rules", "all")]
    rules, lists = rows[1], rows[4]
    assert (rules.votes, rules.coverage, rules.precision, rules.recall, rules.conflicts) == (2, 0.4, 0.5, 0.5, 0.5)
    assert (lists.precision, lists.recall, lists.conflicts) == (1, 2 / 3, 0)
    assert rules.precision_interval[0] < 0.5 < rules.precision_interval[1]
    assert rows[7].votes == 0
    assert np.isnan(rows[7].precision)


def test_estimates_without_gold_are_near_those_against_gold() -> None:
    offsets, gold, table = draw(2000, [confusion(right) for right in RIGHTS])
    votes = votes_of_table(table, offsets, names(4), 3)
    groups = np.arange(3, dtype=np.int32)
    estimated = report(votes, learn(votes, IOB2, HiddenMarkov()).lattice(votes).marginals(), groups, TAGS)
    for row, true in zip(estimated, gold_report(votes, gold, groups, TAGS), strict=True):
        assert row.precision == pytest.approx(true.precision, abs=0.03)
        assert row.recall == pytest.approx(true.recall, abs=0.03)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: make_votes([0, 2], [0, 2], [0, 0], [0, 0], ["a"], 3), "tokens of votes must be from 0 to 1"),
        (lambda: make_votes([0, 2], [0, 1], [0, 1], [0, 0], ["a"], 3), "sources of votes must be from 0 to 0"),
        (lambda: make_votes([0, 2], [0, 1], [0, 0], [0, 3], ["a"], 3), "labels of votes must be from 0 to 2"),
        (lambda: make_votes([0, 2], [0, 1], [0, 0], [0.5, 0], ["a"], 3), "list of whole numbers"),
        (lambda: make_votes([0, 2], [1, 1], [0, 0], [0, 1], ["rules"], 3), "'rules' gives token 1 two labels"),
        (lambda: make_votes([0, 2], [1], [0], [0], ["a", "a"], 3), "Two sources have the name 'a'"),
        (lambda: make_votes([1, 2], [1], [0], [0], ["a"], 3), "Offsets must rise from 0"),
        (lambda: make_votes([], [], [], [], ["a"], 3), "Offsets must be a list of whole numbers"),
        (lambda: make_votes([[0, 1]], [0], [0], [0], ["a"], 3), "Offsets must be a list of whole numbers"),
        (lambda: votes_of_table([[0, 1]], [0, 3], ["a"], 3), "Offsets must rise from 0 to the number of tokens, 2"),
        (lambda: votes_of_table([[0, 1]], [0, 2], ["a", "b"], 3), "a row for each of 2 sources"),
        (
            lambda: learn(some_votes(0), FREE, HiddenMarkov(), np.full(8, 3, np.int32)),
            "Gold labels must be from -1 to 2",
        ),
        (lambda: learn(some_votes(0), IOB2, HiddenMarkov(), np.full(8, 2, np.int32)), "Sequence 0 has no labelling"),
        (
            lambda: HiddenMarkov()(some_votes(0, 4), IOB2, start=learn(some_votes(0), IOB2, DawidSkene())),
            "begin with is of 3 sources and 3 labels, the votes are of 4 and 3",
        ),
        (
            lambda: HiddenMarkov()(votes_of_table([[0, 1]], [0, 2], ["a"], 2), FREE, start=A_SOURCE_OF_THREE_LABELS),
            "begin with is of 1 sources and 3 labels, the votes are of 1 and 2",
        ),
    ],
)
def test_wrong_votes_and_labels_are_refused(call: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: DawidSkene(recall=1.0), "DawidSkene: recall and noise must be between 0 and 1"),
        (lambda: HiddenMarkov(strength=0.0), "HiddenMarkov: strength and smoothing must be positive"),
        (lambda: DawidSkene(smoothing=float("nan")), "strength and smoothing must be positive"),
        (lambda: HiddenMarkov(max_iterations=0), "max_iterations must be 1 or more"),
        (lambda: DawidSkene(unsaid=0), "unsaid must be above 0"),
        (lambda: DawidSkene(firmness=-1), "firmness must be 0 or more"),
        (lambda: Majority(noise=0), "Majority: noise must be between 0 and 1"),
        (lambda: Majority(unsaid=2), "Majority: unsaid must be above 0"),
        (lambda: parse_method("hm"), "--label-model hm: unknown. Did you mean 'spacy_crfseq.HMM.v1'"),
        (lambda: parse_method("hmm,previous=1").made(), "previous must be true or false"),
        (lambda: parse_method("hmm,unsaid=.5,unsaid=.6"), "unsaid is given twice"),
        (
            lambda: parse_method("majority,previous=true").made(),
            "Majority.v1 cannot be made with the settings previous = True",
        ),
        (lambda: MethodSettings("gone.v1").made(), "label model 'gone.v1' is not registered. Give --code"),
    ],
)
def test_settings_out_of_range_are_refused(call: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        call()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hmm", HiddenMarkov()),
        ("HMM,previous=true,max_iterations=3", HiddenMarkov(previous=True, max_iterations=3)),
        ("dawid-skene", DawidSkene()),
        ("spacy_crfseq.Majority.v1,noise=.2", Majority(noise=0.2)),
    ],
)
def test_a_method_is_made_of_what_a_user_writes(text: str, expected: LabelModelMethod) -> None:
    assert parse_method(text).made() == expected


def test_learning_goes_on_from_a_model() -> None:
    offsets, gold, table = draw(50, [confusion(right) for right in RIGHTS])
    votes, some_gold = votes_of_table(table, offsets, names(4), 3), np.where(np.arange(len(gold)) < 24, gold, MISSING)
    first, method = learn(votes, IOB2, HiddenMarkov()), HiddenMarkov(tolerance=1e-9, max_iterations=500)
    again, anew = (learn(votes, IOB2, method, some_gold.astype(np.int32), start) for start in (first, None))
    assert len(again.values) < len(anew.values)
    np.testing.assert_allclose(again.lattice(votes).marginals(), anew.lattice(votes).marginals(), atol=1e-3)


@pytest.mark.parametrize("method", MODELS[:2])
@pytest.mark.parametrize("first", MODELS)
def test_learning_goes_on_from_a_model_of_another_method(first: DawidSkene, method: DawidSkene) -> None:
    votes = some_votes(3, lengths=(2, 3, 3))
    start = learn(votes, FREE, first)
    model = learn(votes, FREE, method, start=start)
    assert model.votes.shape == start.votes.shape
    assert model.values[0] == pytest.approx(objective(start, method, votes, None), abs=1e-9)


@pytest.mark.parametrize("method", MODELS)
def test_a_source_votes_at_labels_that_it_lacks_as_outside_of_spans(method: DawidSkene) -> None:
    confusions = [confusion([0.9, 0.7, 0.8]), confusion([0.95, 0.6, 0.7])]
    offsets, _, table = draw(40, confusions)
    table[1] = 0  # it has no label of a person, and says so of all tokens
    has = np.array([[True, True, True], [True, False, False]])
    model = learn(votes_of_table(table, offsets, ["a", "b"], 3, has), IOB2, method)
    np.testing.assert_allclose(model.votes[1, :, :, 1:], model.votes[1, :, :, :1].repeat(2, 2))
    assert not np.allclose(model.votes[0, :, :, 1], model.votes[0, :, :, 0])
    assert np.all(np.diff(model.values) >= -1e-9 * abs(model.values[0]))
