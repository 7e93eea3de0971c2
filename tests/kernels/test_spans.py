"""Spans whose labels may go on in several ways."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from spacy_crfseq import kernels
from spacy_crfseq.kernels import spans
from spacy_crfseq.schemes import tags_of, transition_table
from spacy_crfseq.types import Scores
from tests.kernels.helpers import one_by_one


@pytest.mark.parametrize("likelier", [1, 2])
def test_of_the_ways_to_a_label_the_most_probable_is_followed(likelier: int) -> None:
    emissions = np.full((3, 3), -np.inf)
    emissions[0, 0] = emissions[2, 1] = emissions[1, 3 - likelier] = 0.0
    emissions[1, likelier] = np.log(3)
    scores = Scores(emissions, np.zeros((1, 3, 3)), np.zeros(3), np.zeros(3))
    inside = np.zeros((3, 3), np.bool_)
    inside[0, 1:] = inside[1:, 1] = True
    offsets = np.array([0, 3])
    chain, _ = spans.make_span_chain(scores, offsets, inside)
    rows, values = spans.candidates(chain, offsets, np.zeros(3, np.bool_), 0.01)
    assert dict(zip(map(tuple, rows.tolist()), values.tolist(), strict=True))[0, 3, 0] == pytest.approx(0.75)


def best_value(rows: Any, values: Any, n_tokens: int, cost: float) -> float:
    """Return the largest sum of ``2 value - cost`` of spans that do not overlap."""
    best = [0.0] * (n_tokens + 1)
    for t in range(1, n_tokens + 1):
        ending = (
            best[first] + 2 * value - cost for (first, end, _), value in zip(rows, values, strict=True) if end == t
        )
        best[t] = max(best[t - 1], *ending, best[t - 1])
    return best[n_tokens]


@pytest.mark.parametrize("scheme", ["BILUO", "IOB2", "IOB1"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("least", [0.02, 0.4])
def test_leaving_improbable_spans_out_changes_no_choice(scheme: str, dtype: Any, least: float) -> None:
    rng, tags, offsets = np.random.default_rng(0), tags_of(["A", "B"], scheme), np.array([0, 1, 30, 30, 200, 210])
    shape, outside = (210, len(tags)), np.array([tag == "O" for tag in tags])
    table, emissions = transition_table(tags, scheme), 2 * rng.standard_normal(shape)
    emissions[:, outside] += 4.0
    free = Scores(emissions, rng.standard_normal((1, shape[1], shape[1])), *2 * [np.zeros(shape[1])])
    scores = Scores(*(array.astype(dtype) for array in free)).constrained(table, None)
    whole, _ = spans.make_span_chain(scores, offsets, table.inside)
    part, _ = spans.make_span_chain(scores, offsets, table.inside, outside, least)
    assert whole.covered.all()
    assert not part.covered.all()
    (rows, values), others = (spans.candidates(chain, offsets, outside, least) for chain in (part, whole))
    for own, theirs in zip((rows, values), others, strict=True):
        np.testing.assert_array_equal(own, theirs)
    for shares in (values, rng.random(len(values))):
        worth, out = (2.0, 0.8, least), (rows[:0], shares)
        labels, n = spans.best_spans(part, offsets, outside, worth, out)
        assert n == len(rows)
        np.testing.assert_array_equal(labels, spans.best_spans(whole, offsets, outside, worth, out)[0])
        if scheme == "IOB1":  # where not every span may follow every other
            continue
        starts = np.flatnonzero(~outside[labels] & np.array([tags[label][0] in "BU" for label in labels]))
        ends = [next((t for t in range(first + 1, 210) if tags[labels[t]][0] not in "IL"), 210) for first in starts]
        ends = [
            min(end, offsets[np.searchsorted(offsets, first, "right")]) for first, end in zip(starts, ends, strict=True)
        ]
        of_span = {(first, end, label): value for (first, end, label), value in zip(rows.tolist(), shares, strict=True)}
        chosen = [of_span[first, end, labels[first]] for first, end in zip(starts.tolist(), ends, strict=True)]
        best = sum(
            best_value([row - [b, b, 0] for row in rows[(b <= rows[:, 0]) & (rows[:, 0] < e)]],
                       shares[(b <= rows[:, 0]) & (rows[:, 0] < e)], int(e - b), 0.8)
            for b, e in pairwise(offsets)
        )  # fmt: skip
        assert sum(2 * value - 0.8 for value in chosen) == pytest.approx(best)


@pytest.mark.skipif(kernels.UNCOMPILED, reason="blocks are written in LLVM")
@pytest.mark.parametrize("scheme", ["BILUO", "IOB2", "IOB1"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("least", [0.0, 0.1])
def test_spans_of_blocks_are_those_of_single_sequences(scheme: str, dtype: Any, least: float) -> None:
    """Among them are sequences that blocks leave: empty ones, some that scaling cannot represent, and a long one."""
    rng, tags = np.random.default_rng(0), tags_of(["A", "B"], scheme)
    lengths = np.array([*rng.integers(0, 12, 70), 600])
    offsets, outside = np.append(0, np.cumsum(lengths)), np.array([tag == "O" for tag in tags])
    emissions = 2 * rng.standard_normal((int(offsets[-1]), len(tags)))
    emissions[:, outside] += 3.0
    emissions[offsets[5] : offsets[9]] *= 1e4
    sizes = 2 * [np.zeros(len(tags))]
    free = Scores(emissions, rng.standard_normal((1, len(tags), len(tags))), *sizes)
    table = transition_table(tags, scheme)
    allowed = rng.random(emissions.shape) < 0.97
    allowed[:, outside] = True
    scores = Scores(*(array.astype(dtype) for array in free)).constrained(table, allowed)
    asked = table.inside, outside, least
    chain, log_z = spans.make_span_chain(scores, offsets, *asked)
    with one_by_one():
        single, expected = spans.make_span_chain(scores, offsets, *asked)
    np.testing.assert_allclose(log_z, expected, rtol=1e-5 if dtype == np.float32 else 1e-12)
    np.testing.assert_array_equal(chain.allowed, single.allowed)
    assert chain.covered.mean() == 1 if least == 0 else 0 < chain.covered.mean() < 1
    np.testing.assert_array_equal(chain.covered, single.covered)
    for name in ("opens", "closes", "goes_on"):
        rounding = 2e-4 if dtype == np.float32 else 1e-11
        np.testing.assert_allclose(getattr(chain, name), getattr(single, name), atol=rounding)


@pytest.mark.skipif(kernels.UNCOMPILED, reason="blocks are written in LLVM")
def test_sequences_that_a_block_loses_keep_their_probable_spans() -> None:
    """Transitions of a wide range make scaling lose some sequences in float32, whose marginals are then wrong."""
    rng, tags = np.random.default_rng(1), tags_of(["A", "B"], "IOB2")
    offsets, outside = np.append(0, np.cumsum(rng.integers(6, 12, 16))), np.array([tag == "O" for tag in tags])
    sizes, table = 2 * [np.zeros(len(tags))], transition_table(tags, "IOB2")
    for _ in range(40):
        emissions = rng.standard_normal((int(offsets[-1]), len(tags)))
        free = Scores(emissions, 16 * rng.standard_normal((1, len(tags), len(tags))), *sizes)
        scores = Scores(*(array.astype(np.float32) for array in free)).constrained(table)
        asked = table.inside, outside, 0.1
        chain, _ = spans.make_span_chain(scores, offsets, *asked)
        with one_by_one():
            single, _ = spans.make_span_chain(scores, offsets, *asked)
        expected, _ = spans.candidates(single, offsets, outside, 0.1)
        np.testing.assert_array_equal(spans.candidates(chain, offsets, outside, 0.1)[0], expected)
