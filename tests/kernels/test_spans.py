"""Spans whose labels may go on in several ways."""

import numpy as np
import pytest

from spacy_crfseq.kernels import spans
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
