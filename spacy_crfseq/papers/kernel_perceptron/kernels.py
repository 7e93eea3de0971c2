"""Polynomial kernels of observations: products of the tokens of a text with the supports of a dual perceptron.

The kernel of two tokens that share n features is ``(1 + n)^degree - 1``.  The constant is left out because it would be
a bias of the label: tokens without a common feature have the product 0, and degree 1 is the scalar product.
"""

from __future__ import annotations

from ...kernels.jit import kernel
from ...types import Bools, Floats, Ints, Offsets


@kernel
def add_products(
    ptr: Offsets, ids: Ints, row_ptr: Offsets, tokens: Ints, used: Bools, coefs: Floats, degree: int, counts: Ints,
    touched: Ints, out: Floats,
) -> None:  # fmt: skip
    """Add ``sum_s kernel(t, s) coefs[s]`` over the used supports s to out [T, L].

    ptr [T + 1], ids: Features of each token of the text.  row_ptr [R + 1], tokens: Supports with each feature.
    coefs [S, L].  counts [S] is zero before and after; touched [S] is work space.
    """
    n_labels = coefs.shape[1]
    for t in range(ptr.shape[0] - 1):
        n = 0
        for a in ids[ptr[t] : ptr[t + 1]]:
            for s in tokens[row_ptr[a] : row_ptr[a + 1]]:
                if used[s]:
                    if counts[s] == 0:
                        touched[n] = s
                        n += 1
                    counts[s] += 1
        for s in touched[:n]:
            product = (1.0 + counts[s]) ** degree - 1.0
            counts[s] = 0
            for j in range(n_labels):
                out[t, j] += product * coefs[s, j]
