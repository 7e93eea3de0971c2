"""Steps on the rows of a mini-batch."""

import numpy as np
import pytest

from spacy_crfseq.kernels import updates


@pytest.mark.parametrize("length", [0.1, 0.5, 2.0, 3.0])
def test_a_gradient_that_is_stretched_counts_as_long_as_it_is_used(length: float) -> None:
    """Of gradients shorter than `least` some are used, as if they were so long."""
    least, sums = 2.0, []
    for clock in range(1, 200):
        weights, seen = np.zeros(2), np.zeros((1, 2))
        rows = np.zeros(0, np.int64), np.zeros(0, np.int32), weights, np.zeros(0), seen
        d = length * np.array([[0.6, -0.8]])
        settings = 1.0, 1.0, 1.0, least, 0.0, 0.0
        updates.adagrad((np.array([0, 1]), np.zeros(1, np.int32), d), rows, float(clock), settings, 0)
        sums.append(seen[0, 0])
        used = max(length, least) if seen[0, 0] else 0.0
        assert seen[0, 0] == pytest.approx(used**2)
        np.testing.assert_allclose(weights, -used / np.sqrt(1 + used**2) * np.array([0.6, -0.8]))
    assert np.mean(np.array(sums) > 0) == pytest.approx(min(1.0, length / least), abs=0.05)
