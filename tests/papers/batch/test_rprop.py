"""Steps of RPROP by the signs of the gradient."""

from __future__ import annotations

import numpy as np
import pytest

from spacy_crfseq.papers import batch as rprop


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_steps_by_signs(dtype: type) -> None:
    x, pseudo, signs = (np.array(values, dtype) for values in ([1, -1, 0, 2], [3, -2, 1, 0], [1, 1, 0, -1]))
    steps, out = np.array([45, 4, 0.5, 0.5], dtype), np.empty(4, dtype)
    rprop._adapt_steps(pseudo, signs, steps)
    np.testing.assert_allclose(steps, [50, 2, 0.5, 0.5])
    np.testing.assert_array_equal(signs, [1, 0, 1, 0])
    steps[0] = 1.5
    for stop, expected in ((False, [-0.5, -1, -0.5, 2]), (True, [0, -1, -0.5, 2])):
        rprop._sign_step(x, signs, steps, stop, out)
        np.testing.assert_allclose(out, expected)
    assert rprop._retreat(x, out, np.array([-1, 1, 1, 1], dtype), steps)
    np.testing.assert_allclose(steps, [0.75, 2, 0.5, 0.5])
