"""The border between arrays that users may have made and kernels, which would read and write beyond their ends.

Losses, decoders and the posterior call these; kernels trust their callers.  Arrays that cannot be written, such as
those of a file that is mapped into memory, or whose numbers have another size, are copied: numba would compile each
kernel once more for them, which takes seconds.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError
from ..types import MISSING, Batch, Bools, Floats, Ints, Offsets, Scores
from .jit import light

WHOLE, FLOAT = "bhilq", "fd"
"""Types of numbers that kernels read, by NumPy's characters."""


def take_scores(scores: Scores, offsets: Offsets, allowed: Bools | None = None) -> tuple[Scores, Offsets]:
    """Return scores of the sequences that `offsets` [N + 1] bound as kernels take them.

    RAISES DataError: If they do not fit together, or `allowed` is not [T, L].
    """
    emissions, transitions, start, end = scores
    n = emissions.shape[-1] if emissions.ndim == 2 else 0
    if emissions.ndim != 2 or n == 0:
        raise DataError(f"Emissions must be an array [tokens, labels], not of shape {emissions.shape}.")
    if transitions.shape[1:] != (n, n) or len(transitions) not in (1, len(emissions)):
        shapes = f"[1, {n}, {n}] or [{len(emissions)}, {n}, {n}]"
        raise DataError(f"Transitions must have the shape {shapes}, not {transitions.shape}.")
    if start.shape != (n,) or end.shape != (n,):
        raise DataError(f"Start and end scores must have the shape [{n}], not {start.shape} and {end.shape}.")
    dtype = emissions.dtype
    if not _holds(emissions, FLOAT) or not (transitions.dtype == start.dtype == end.dtype == dtype):
        kinds = ", ".join(str(array.dtype) for array in scores)
        raise DataError(f"Scores must all be float32 or all be float64, not {kinds}.")
    check_offsets(offsets, len(emissions))
    if allowed is not None and (allowed.dtype != np.bool_ or allowed.shape != emissions.shape):
        raise DataError(f"Allowed labels must be booleans of the shape {emissions.shape}, not {_of(allowed)}.")
    return Scores(*(take(array, dtype) for array in scores)), take(offsets, np.int64)


def check_offsets(offsets: Offsets, n_tokens: int) -> None:
    """Raise DataError unless offsets [N + 1] rise from 0 to the number of tokens."""
    if offsets.ndim != 1 or not len(offsets) or not _holds(offsets, WHOLE):
        raise DataError(f"Offsets must be a list of whole numbers, not {_of(offsets)}.")
    if offsets[0] != 0 or offsets[-1] != n_tokens or (offsets[1:] < offsets[:-1]).any():
        raise DataError(f"Offsets must rise from 0 to the number of tokens, {n_tokens}, and never fall.")


def take_batch(scores: Scores, batch: Batch, grad: Scores) -> tuple[Scores, Batch]:
    """Return the scores and the batch as kernels take them.

    RAISES DataError: If a loss cannot read them, or cannot add its gradient to `grad`.
    """
    scores, offsets = take_scores(scores, batch.offsets)
    lowest = MISSING - len(batch.candidates.sets)
    check_labels(batch.gold, len(scores.emissions), len(scores.start), lowest, "Gold labels")
    if batch.weights.shape != (len(batch.offsets) - 1,) or not _holds(batch.weights, FLOAT):
        wanted = f"floats, one for each of {len(batch.offsets) - 1} sequences"
        raise DataError(f"Weights must be {wanted}, not {_of(batch.weights)}.")
    for name, array, target in zip(Scores._fields, scores, grad, strict=True):
        if target.dtype != array.dtype or target.shape != array.shape:
            raise DataError(f"The gradient of {name} must be like the scores, {_of(array)}, not {_of(target)}.")
    if len(batch.candidates.shares.ptr) not in (0, len(batch.candidates.sets) + 1):
        n_sets, ptr = len(batch.candidates.sets), batch.candidates.shares.ptr
        raise DataError(
            f"The offsets of probabilities must be {n_sets + 1}, for {n_sets} candidate sets, not {len(ptr)}."
        )
    gold, weights = take(batch.gold, np.int32), take(batch.weights, np.float64)
    return scores, batch._replace(offsets=offsets, gold=gold, weights=weights)


def check_labels(
    labels: NDArray[Any], n_tokens: int, n_labels: int, lowest: int = 0, name: str = "Labels"
) -> None:  # fmt: skip
    """Raise DataError unless labels [T] are numbers from the lowest to L - 1."""
    if labels.shape != (n_tokens,) or not _holds(labels, WHOLE):
        raise DataError(f"{name} must be whole numbers, one for each of {n_tokens} tokens, not {_of(labels)}.")
    if n_tokens and not lowest <= labels.min() <= labels.max() < n_labels:
        token = int(((labels < lowest) | (labels >= n_labels)).argmax())
        raise DataError(f"{name} must be from {lowest} to {n_labels - 1}, but token {token} has {labels[token]}.")


@light()
def all_below(numbers: Floats, highest: float) -> bool:
    """Return whether all numbers [K] are below the highest; what is not a number is not."""
    limit, no, yes = numbers.dtype.type(highest), numbers.dtype.type(0), numbers.dtype.type(1)
    wrong = no  # a sum over all, in the type of the numbers, takes vectors
    for i in range(numbers.shape[0]):
        wrong += no if numbers[i] < limit else yes
    return wrong == 0


@light()
def add_up(mask: Bools, width: int, offsets: Offsets) -> int:
    """Write the offsets [N + 1] of N sequences whose tokens a mask has; return the number of these tokens.

    mask: [N * width], one sequence after another.
    """
    for s in range(offsets.shape[0] - 1):
        n_kept = 0
        for t in range(s * width, (s + 1) * width):
            n_kept += mask[t]
        offsets[s + 1] = offsets[s] + n_kept
    return int(offsets[-1])


@light()
def read_labels(labels: Offsets, n_labels: int, out: Ints) -> bool:
    """Write whole numbers labels [T] to out [T]; return whether all are labels or `MISSING`.

    `MISSING` stands for those that are neither, which may be beyond the range of `out`.
    """
    valid = True
    for t in range(labels.shape[0]):
        fits = (labels[t] >= MISSING) & (labels[t] < n_labels)
        valid &= fits
        out[t] = labels[t] if fits else MISSING
    return bool(valid)


def check_spans(starts: Offsets, ends: Offsets, offsets: Offsets) -> None:
    """Raise DataError unless spans [S] are in the order of the text, and each is within one of its sequences."""
    if starts.ndim != 1 or starts.shape != ends.shape or not (_holds(starts, WHOLE) and _holds(ends, WHOLE)):
        raise DataError(f"Spans must be two lists of whole numbers of one length, not {_of(starts)} and {_of(ends)}.")
    owner = np.searchsorted(offsets, starts, side="right")
    wrong = (starts < 0) | (starts >= offsets[-1]) | (ends <= starts)
    wrong |= ends > offsets[np.minimum(owner, len(offsets) - 1)]
    wrong[1:] |= starts[1:] < starts[:-1]
    if wrong.any():
        place = int(wrong.argmax())
        raise DataError(
            f"Span {place}, tokens {starts[place]} to {ends[place]}, is empty, not in a sequence, or out of order."
        )


def _holds(array: NDArray[Any], kinds: str) -> bool:
    """Whether the numbers are of one of these types, in the byte order of the processor; others cannot be compiled."""
    return array.dtype.char in kinds and array.dtype.isnative


def take(array: NDArray[Any], dtype: Any) -> NDArray[Any]:
    """Return an array of a type that can be written and is contiguous, a copy if it is not such an array itself."""
    return array if array.flags.carray and array.dtype == dtype else np.array(array, dtype)


def _of(array: NDArray[Any]) -> str:
    return f"{array.dtype} of shape {array.shape}"
