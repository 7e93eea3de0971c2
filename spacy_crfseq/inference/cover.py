"""Labels of which no word is outside that is likely to be in a span: recall for the price of precision.

A labelling with the highest probability or expected F1 leaves out spans that are uncertain in their boundaries or their
type, or that exclude each other.  A reader of an anonymised text sees these words.  So words are chosen first, by the
probability that they are in a span, and then the best labelling in which all of them are.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..types import Bools, Decoder, Ints
from .posterior import Posterior


def span_shares(posterior: Posterior, groups: Bools) -> NDArray[np.float64]:
    """Return the probabilities [T, G] that words have one of a group's labels; groups [G, L]."""
    shares: NDArray[np.float64] = posterior.marginals().astype(np.float64) @ groups.T
    return shares


def cover(
    posterior: Posterior, labels: Ints, groups: Bools, least: NDArray[np.float64], decoder: Decoder, n_threads: int = 1
) -> Ints:
    """Return labels [T] in which the words of the spans of `labels` [T] are in spans, and all that are likely to be.

    These have one of the labels of a group with the probability of the group, or a higher one.  Where the constraints
    leave no such labelling of a sequence, it keeps its labels.
    groups (Bools): [G, L] labels of tokens in spans.
    least (NDArray): [G] probabilities.
    """
    outside, offsets = posterior.constraints.outside, posterior.offsets
    likely = (span_shares(posterior, groups) >= least).any(1)
    new = likely & outside[labels]
    if not new.any():
        return labels
    shape = posterior.n_tokens, len(outside)
    allowed = np.ones(shape, np.bool_) if posterior.allowed is None else posterior.allowed.copy()
    allowed[np.ix_(likely | ~outside[labels], outside)] = False
    lengths = np.diff(offsets)
    impossible = np.repeat(~posterior._replace(allowed=allowed).possible(), lengths)
    allowed[impossible] = True if posterior.allowed is None else posterior.allowed[impossible]
    decoded = posterior._replace(allowed=allowed).decode(decoder, n_threads)
    n_new = np.append(0, np.cumsum(new & ~impossible))
    changed: Ints = np.where(np.repeat(np.diff(n_new[offsets]) > 0, lengths), decoded, labels)
    return changed
