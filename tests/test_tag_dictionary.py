"""The tag dictionary: what it holds, and what it does to scores in training and in tagging."""

import numpy as np
import pytest
import srsly
from hypothesis import given
from hypothesis import strategies as st

from spacy_crfseq.decoders.viterbi import Viterbi
from spacy_crfseq.errors import ModelFileError
from spacy_crfseq.model import LinearChainCRF
from spacy_crfseq.potentials import tag_dictionary as module
from spacy_crfseq.potentials.linear import Linear
from spacy_crfseq.potentials.tag_dictionary import TagDictionary, free_standing, make_dictionary
from spacy_crfseq.schemes import transition_table
from spacy_crfseq.training.objective import Objective, Term
from spacy_crfseq.types import MISSING
from spacy_crfseq.weights_file import weights_from_bytes, weights_to_bytes
from tests import reference
from tests.problems import (
    BIGRAM_TEMPLATES,
    Training,
    all_allowed,
    hash_of,
    plain_dictionary,
    plain_scores,
    training_problem,
)

N_LABELS = 3
UNLIMITED = 100


def make_model(**kinds: object) -> tuple[LinearChainCRF, Training]:
    training = training_problem(7, n_sequences=10, dictionary_size=UNLIMITED, **kinds)  # type: ignore[arg-type]
    return training.model(training.random_theta(np.random.default_rng(1))), training


def plainly_allowed(training: Training) -> np.ndarray:
    """Return [T, L] what the words of each token allow, one token at a time."""
    labels = plain_dictionary(training, UNLIMITED)
    words = [word for sentence in training.sentences for word in sentence.words]
    rows = [[k in labels.get(word, range(N_LABELS)) for k in range(N_LABELS)] for word in words]
    return np.array(rows, np.bool_).reshape(-1, N_LABELS)


# --- what is in it --------------------------------------------------------------------------------------------------


@given(st.integers(0, 1000), st.sampled_from([0.0, 0.4]), st.sampled_from([3, 1 << 16]))
def test_it_holds_the_labels_of_each_frequent_word(seed: int, missing: float, block: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BLOCK_TOKENS", block)
        training = training_problem(seed, missing=missing, dictionary_size=UNLIMITED)
    dictionary = training.objective.dictionary
    expected = {hash_of(word): labels for word, labels in plain_dictionary(training, UNLIMITED).items()}
    absent = set(range(N_LABELS)) - set(training.objective.batch.gold.tolist())
    rows = zip(dictionary.words.tolist(), dictionary.allowed, strict=True)
    actual = {word: set(np.flatnonzero(row).tolist()) for word, row in rows}
    assert actual == {word: labels | absent for word, labels in expected.items()}


def test_the_most_frequent_words_are_taken() -> None:
    numbers = np.repeat(np.arange(5), [3, 9, 1, 7, 3]).astype(np.int32)
    hashes = np.arange(10, 15).astype(np.uint64)
    gold = (np.arange(len(numbers)) % 2).astype(np.int32)
    for size, words in ((1, [11]), (2, [11, 13]), (3, [11, 13, 10]), (9, [11, 13, 10, 14])):
        dictionary, places = make_dictionary(hashes, numbers, gold, all_allowed(2), size=size, min_count=3)
        assert dictionary.words.tolist() == words
        expected = [words.index(hashes[n]) if hashes[n] in words else -1 for n in numbers]
        assert places.tolist() == expected


@pytest.mark.parametrize(
    ("scheme", "tags", "free"),
    [
        ("plain", ["NN", "VB"], ["NN", "VB"]),
        ("IOB2", ["O", "B-X", "I-X", "B-Y"], ["O", "B-X", "B-Y"]),
        ("BILUO", ["O", "B-X", "I-X", "L-X", "U-Y"], ["O", "U-Y"]),
    ],
)
def test_words_that_cannot_stand_by_themselves_are_left_out(scheme: str, tags: list[str], free: list[str]) -> None:
    constraints = transition_table(tags, scheme)
    assert [tag for tag, stands in zip(tags, free_standing(constraints), strict=True) if stands] == free
    gold = np.arange(len(tags), dtype=np.int32)
    dictionary, _ = make_dictionary(gold.astype(np.uint64) + 1, gold, gold, constraints, size=9, min_count=1)
    assert [tags[word - 1] for word in dictionary.words.tolist()] == free


def test_free_standing_labels_get_along_with_each_other() -> None:
    constraints = all_allowed(3)
    constraints.step[0, 1] = False
    assert free_standing(constraints).tolist() == [False, False, True]


# --- scores ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bigram_templates", [(), BIGRAM_TEMPLATES])
def test_decoding_and_marginals_equal_the_enumeration(bigram_templates: tuple[str, ...]) -> None:
    model, training = make_model(bigram_templates=bigram_templates)
    scores = plain_scores(model.layout, model.theta, training.encoded)
    scores.emissions[~plainly_allowed(training)] = -np.inf
    assert np.isneginf(scores.emissions).any()
    posterior = model.posterior(training.encoded, all_allowed(N_LABELS))
    labels, marginals = posterior.decode(Viterbi()), posterior.marginals()
    reference.assert_exact(labels, marginals, scores, training.encoded.offsets)  # type: ignore[arg-type]
    assert not marginals[~plainly_allowed(training)].any()


def test_constraints_that_contradict_the_dictionary_replace_it() -> None:
    model, training = make_model()
    forbidden = np.flatnonzero(~plainly_allowed(training).all(1))
    allowed = np.ones((training.encoded.n_tokens, N_LABELS), np.bool_)
    allowed[forbidden] = ~plainly_allowed(training)[forbidden]
    labels = model.posterior(training.encoded, all_allowed(N_LABELS), allowed).decode(Viterbi())
    assert len(forbidden)
    assert allowed[np.arange(len(labels)), labels].all()


def test_gold_labels_are_always_allowed_in_training() -> None:
    training = training_problem(3, n_sequences=10, dictionary_size=UNLIMITED)
    objective = training.objective
    gold = objective.data.gold[::-1].copy()
    terms = [Term(objective.data._replace(gold=gold), objective.loss)]
    other = Objective(Linear(training.layout), terms, objective.regularizer, dictionary=objective.dictionary)
    tokens = np.arange(len(gold))
    assert not plainly_allowed(training)[tokens, gold].all()
    expected = plainly_allowed(training)
    expected[tokens, gold] = True
    np.testing.assert_array_equal(other.allowed, expected)
    theta = training.random_theta(np.random.default_rng(0))
    scores = plain_scores(training.layout, theta, training.encoded)
    scores.emissions[~expected] = -np.inf
    _, loss, gradient = other.value_and_grad(theta)
    assert loss == pytest.approx(reference.log_loss(scores, other.batch)[0])
    assert np.isfinite(gradient).all()
    assert sum(batch.loss_and_grad(theta)[0] for batch in other.minibatches(3, None)) == pytest.approx(loss)
    assert other.sample().value_and_grad(theta)[1] == pytest.approx(loss)


# --- the model ------------------------------------------------------------------------------------------------------


def test_a_stored_model_keeps_it() -> None:
    model, training = make_model()
    again = weights_from_bytes(weights_to_bytes(model))
    for mine, theirs in zip(again.dictionary, model.dictionary, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    first, other = (m.posterior(training.encoded, all_allowed(N_LABELS)) for m in (again, model))
    np.testing.assert_array_equal(first.marginals(), other.marginals())


@pytest.mark.parametrize(
    "damage",
    [
        lambda d: d.pop("words"),
        lambda d: d.update(words=d["words"][1:]),
        lambda d: d.update(allowed=np.zeros_like(d["allowed"])),
        lambda d: d.update(allowed=None),
    ],
)
def test_damaged_ones_are_refused(damage: object) -> None:
    message = srsly.msgpack_loads(weights_to_bytes(make_model()[0]))
    damage(message["dictionary"])
    with pytest.raises(ModelFileError, match="damaged"):
        weights_from_bytes(srsly.msgpack_dumps(message))


def test_new_labels_are_allowed_everywhere() -> None:
    model, _ = make_model()
    wider = model.with_labels(["new", "C", "A", "B"])
    np.testing.assert_array_equal(wider.dictionary.allowed[:, [2, 3, 1]], model.dictionary.allowed)
    assert wider.dictionary.allowed[:, 0].all()


def test_words_are_known_by_their_hash() -> None:
    dictionary = TagDictionary(np.array([5, 9], np.uint64), np.array([[True, False], [False, True]]))
    words = dictionary.word_index().find(np.array([9, 7, 5, 0], np.uint64))[0]
    assert words.tolist() == [1, -1, 0, -1]
    assert dictionary.labels_of(words).tolist() == [[False, True], [True, True], [True, False], [True, True]]


@given(st.integers(0, 2**32 - 1), st.sampled_from(["IOB2", "BILUO"]))
def test_it_leaves_a_labelling_wherever_there_is_one_without_it(seed: int, scheme: str) -> None:
    rng = np.random.default_rng(seed)
    prefixes = "BI" if scheme == "IOB2" else "BILU"
    constraints = transition_table(["O", *(f"{prefix}-X" for prefix in prefixes)], scheme)
    n_labels, n_tokens = len(constraints.start), int(rng.integers(1, 6))
    free = free_standing(constraints)
    entries = rng.random((n_tokens, n_labels)) < 0.4
    entries[~entries[:, free].any(1), 0] = True
    allowed = rng.random((n_tokens, n_labels)) < 0.4
    allowed[rng.random(n_tokens) < 0.5] = True
    words = module.without_restricted(np.arange(n_tokens, dtype=np.int32), allowed, constraints)
    left = np.where((words >= 0)[:, None], entries, True)
    paths = reference.all_paths(n_tokens, n_labels)
    valid = [path for path in paths if constraints.start[path[0]] and constraints.end[path[-1]]]
    valid = [path for path in valid if constraints.step[path[:-1], path[1:]].all()]
    tokens = np.arange(n_tokens)
    possible = [path for path in valid if allowed[tokens, path].all()]
    assert any(left[tokens, path].all() for path in possible) == bool(possible)


def test_all_labels_are_allowed_at_candidate_sets() -> None:
    dictionary = TagDictionary(np.array([3], np.uint64), np.array([[True, False, False]]))
    words, gold = np.zeros(3, np.int32), np.array([1, MISSING, MISSING - 1], np.int32)
    allowed = dictionary.labels_of(words, gold)
    assert allowed.tolist() == [[True, True, False], [True, False, False], [True, True, True]]


def test_a_united_dictionary_has_old_words_with_labels_of_the_new_texts_and_new_words() -> None:
    old = TagDictionary(np.array([3, 5], np.uint64), np.array([[True, False], [False, True]]))
    new = TagDictionary(np.array([5, 7], np.uint64), np.array([[True, False], [True, True]]))
    tokens, gold = np.array([0, 1, 2], np.int32), np.array([1, MISSING, 0], np.int32)
    result = new.united(old, np.array([3, 5, 7], np.uint64), tokens, gold)
    assert result.words.tolist() == [3, 5, 7]
    assert result.allowed.tolist() == [[True, True], [False, True], [True, True]]
    assert old.allowed.tolist() == [[True, False], [False, True]]
