"""Steps of RPROP by the signs of the gradient."""

import numpy as np
import pytest

from spacy_crfseq.papers import batch as rprop


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_steps_by_signs(dtype: type) -> None:
    x, pseudo, signs = (np.array(values, dtype) for values in ([1, -1, 0, 2, 1], [3, -2, 1, 0, 5], [1, 1, 0, -1, 1]))
    steps, out = np.array([45, 4, 0.5, 0.5, 2], dtype), np.empty(5, dtype)
    rprop._adapt_steps(pseudo, signs, steps)
    np.testing.assert_allclose(steps, [50, 2, 0.5, 0.5, 2.4])  # at most 50; those at or after a zero rest
    np.testing.assert_array_equal(signs, [1, 0, 1, 0, 1])
    steps[0] = 1.5
    for stop, expected in ((False, [-0.5, -1, -0.5, 2, -1.4]), (True, [0, -1, -0.5, 2, 0])):
        rprop._sign_step(x, signs, steps, stop, out)
        np.testing.assert_allclose(out, expected, rtol=1e-6)
    assert rprop._retreat(x, out, np.array([-1, 1, 1, 1, 1], dtype), steps)
    np.testing.assert_allclose(steps, [0.75, 2, 0.5, 0.5, 2.4])
