"""The contract of every registered label model; a new one is tested by being registered."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_crfseq import registry
from spacy_crfseq.errors import DataError
from spacy_crfseq.schemes import transition_table
from spacy_crfseq.tools.aggregate.label_model import LabelModelMethod
from spacy_crfseq.tools.aggregate.source_report import find_copies
from spacy_crfseq.types import MISSING, Constraints
from spacy_crfseq.votes import ABSTAIN, Votes, votes_of_table

METHODS = registry.label_models.get_all()
EVERY_METHOD = pytest.mark.parametrize("method", [make() for make in METHODS.values()], ids=METHODS)
RULES = {
    "plain": transition_table(["N", "V", "A"], "plain"),
    "IOB2": transition_table(["O", "B-PER", "I-PER"], "IOB2"),
}
EVERY_RULE = pytest.mark.parametrize("rules", RULES.values(), ids=RULES)


def some_votes(seed: int, n_sources: int, lengths: list[int]) -> Votes:
    rng, offsets = np.random.default_rng(seed), np.cumsum([0, *lengths])
    table = rng.integers(ABSTAIN, 3, (n_sources, offsets[-1]))
    return votes_of_table(table, offsets, [f"source {number}" for number in range(n_sources)], 3)


VOTES = st.builds(some_votes, st.integers(0, 1000), st.integers(0, 4), st.lists(st.integers(0, 5), max_size=4))


@EVERY_METHOD
@EVERY_RULE
@given(votes=VOTES)
def test_labels_have_probabilities_whatever_sources_say(
    method: LabelModelMethod, rules: Constraints, votes: Votes
) -> None:
    before = [array.copy() for array in votes if isinstance(array, np.ndarray)]
    model = method(votes, rules)
    shares = model.lattice(votes).marginals()
    np.testing.assert_allclose(shares.sum(1), 1, atol=1e-9)
    assert not rules.start.all() or (shares > 0).all()
    assert (shares[votes.offsets[:-1][np.diff(votes.offsets) > 0]][:, ~rules.start] == 0).all()
    again = method(votes, rules)
    for first, other in zip(model, again, strict=True):
        np.testing.assert_equal(first, other)
    for old, array in zip(before, [array for array in votes if isinstance(array, np.ndarray)], strict=True):
        np.testing.assert_array_equal(old, array)


@EVERY_METHOD
@given(votes=VOTES)
def test_votes_of_each_source_have_probabilities_given_the_true_label(method: LabelModelMethod, votes: Votes) -> None:
    model = method(votes, RULES["IOB2"])
    assert model.votes.shape[0] == len(votes.names)
    copies = votes.originals() != np.arange(len(votes.names))  # whose votes may count as certain
    np.testing.assert_allclose(np.exp(model.votes[~copies]).sum(2), 1, atol=1e-9)
    assert find_copies(model, votes) is not None


@EVERY_METHOD
@EVERY_RULE
def test_known_labels_are_certain_and_others_are_not(method: LabelModelMethod, rules: Constraints) -> None:
    votes, gold = some_votes(1, 3, [4, 2]), np.array([0, 1, MISSING, 0, MISSING, 0], np.int32)
    shares = method(votes, rules, gold).lattice(votes, gold).marginals()
    certain = gold != MISSING
    np.testing.assert_allclose(shares[certain, gold[certain]], 1)
    assert (shares[~certain].max(1) < 1).all()


@EVERY_METHOD
def test_a_label_of_all_sources_is_believed(method: LabelModelMethod) -> None:
    said = np.array([0, 1, 2, 0, 0, 1] * 20)
    votes = votes_of_table([said] * 3, np.arange(0, 121, 6), ["a", "b", "c"], 3)
    assert (method(votes, RULES["IOB2"]).lattice(votes).marginals().argmax(1) == said).all()


@EVERY_METHOD
def test_a_model_of_the_same_sources_is_a_start(method: LabelModelMethod) -> None:
    votes = some_votes(2, 3, [4, 0, 3, 5])
    model = method(votes, RULES["IOB2"], None, method(votes, RULES["IOB2"]))
    np.testing.assert_allclose(model.lattice(votes).marginals().sum(1), 1, atol=1e-9)


@EVERY_METHOD
def test_gold_labels_that_are_none_are_refused(method: LabelModelMethod) -> None:
    with pytest.raises(DataError, match="Gold labels must be from -1 to 2"):
        method(some_votes(0, 2, [2]), RULES["plain"], np.array([0, 3], np.int32))
