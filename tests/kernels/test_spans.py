"""Spans whose labels may go on in several ways."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from spacy_crfseq.kernels import spans
from spacy_crfseq.schemes import tags_of, transition_table
from spacy_crfseq.types import Scores


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
    for given in (values, rng.random(len(values))):
        worth, out = (2.0, 0.8, least), (rows[:0], given)
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
        of_span = {(first, end, label): value for (first, end, label), value in zip(rows.tolist(), given, strict=True)}
        chosen = [of_span[first, end, labels[first]] for first, end in zip(starts.tolist(), ends, strict=True)]
        best = sum(
            best_value([row - [b, b, 0] for row in rows[(b <= rows[:, 0]) & (rows[:, 0] < e)]],
                       given[(b <= rows[:, 0]) & (rows[:, 0] < e)], int(e - b), 0.8)
            for b, e in pairwise(offsets)
        )  # fmt: skip
        assert sum(2 * value - 0.8 for value in chosen) == pytest.approx(best)
