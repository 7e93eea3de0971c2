"""Words that are likely to be in a span are in one, in the best labelling of that kind."""

import itertools
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_crfseq.decoders.viterbi import Viterbi
from spacy_crfseq.errors import DataError
from spacy_crfseq.inference.cover import cover, span_shares
from spacy_crfseq.schemes import tags_of, transition_table
from tests import reference
from tests.problems import random_problem
from tests.test_posterior import Case, make_case

TAGS = tags_of(["A", "B"], "IOB2")
OUTSIDE = np.array([tag == "O" for tag in TAGS])


def text(seed: int, *, share: float = 0.0) -> Case:
    """Return scores of short sequences; a share of the labels of a token is not allowed, O always is."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 5, 3).tolist()
    problem = random_problem(rng, n_labels=len(TAGS), lengths=lengths, shared=bool(seed % 2), scale=2.0, weighted=False)
    allowed = OUTSIDE | (rng.random((problem.batch.n_tokens, len(TAGS))) >= share)
    return make_case(problem, transition_table(TAGS, "IOB2"), allowed, temperature=1.5)


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.5]), st.sampled_from([0.02, 0.2, 0.6]))
def test_the_best_labelling_with_all_likely_words_in_spans(seed: int, share: float, least: float) -> None:
    case = text(seed, share=share)
    posterior = case.posterior
    groups = np.array([~OUTSIDE])
    before = posterior.decode(Viterbi())
    after = cover(posterior, before, groups, np.array([least]), Viterbi())
    likely = span_shares(posterior, groups)[:, 0] >= least
    inside = likely | ~OUTSIDE[before]
    for number, (first, last) in enumerate(pairwise(posterior.offsets.tolist())):
        here = inside[first:last]
        scores = case.sequences[number]
        paths, values = reference.completions(scores)
        wanted = ~(OUTSIDE[paths] & here).any(1) & np.isfinite(values)
        if not (likely[first:last] & OUTSIDE[before[first:last]]).any() or not wanted.any():
            np.testing.assert_array_equal(after[first:last], before[first:last])
            continue
        actual = values[(paths == after[first:last]).all(1)]
        assert actual == pytest.approx(values[wanted].max())


def test_only_the_words_of_one_type_are_put_into_spans() -> None:
    case = text(3)
    posterior, before = case.posterior, np.zeros(case.posterior.n_tokens, np.int32)
    groups = np.array([[tag.endswith("-A") for tag in TAGS]])
    shares = span_shares(posterior, groups)[:, 0]
    least = float(np.median(shares))
    after = cover(posterior, before, groups, np.array([least]), Viterbi())
    assert not OUTSIDE[after[shares >= least]].any()
    assert (cover(posterior, before, groups, np.array([1.1]), Viterbi()) == before).all()
    for number, (first, last) in enumerate(itertools.pairwise(posterior.offsets.tolist())):
        if not (shares[first:last] >= least).any():
            assert (after[first:last] == before[first:last]).all(), number


def test_whether_a_sequence_has_a_labelling() -> None:
    case = text(1)
    assert case.posterior.possible().tolist() == [True] * 3
    allowed = np.ones((case.posterior.n_tokens, len(TAGS)), np.bool_)
    allowed[0] = [tag == "I-A" for tag in TAGS]  # a sequence cannot begin with it
    narrowed = case.posterior._replace(allowed=allowed)
    assert narrowed.possible().tolist() == [False, True, True]
    with pytest.raises(DataError):
        narrowed.marginals()
