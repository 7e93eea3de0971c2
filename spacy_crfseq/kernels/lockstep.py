"""AdaGrad over linear chains by several threads, which share the work of each mini-batch.

The steps are those of one thread.  The sequences of a mini-batch are divided into parts of about the same size; threads
compute the gradients of different parts, meet, change different rows, and meet again.  A mini-batch takes some 50
microseconds, too short for locks of Python, so that a kernel processes a whole text.  Results depend on the number of
parts, since it is the order in which gradients of shared scores are added, but not on the number of threads.

Two free cores train 1.5 to 1.6 times as fast as one (`threads` in docs/performance.md).  In one thread, too, the kernel
takes three quarters of the processor time of mini-batches that Python hands to `updates.adagrad` (six epochs of 2,500
sentences of CoNLL-2000: 0.26 s instead of 0.35 s).  With ten other processes on two cores, two threads take 1.5 times
as long as one: name ``n_threads = 1`` there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..types import ChainText, Floats, Ints, Offsets, Scores
from . import PLAIN
from .jit import inlined, internal, kernel, llvm
from .lattice import NO_NUMBERS, exact_expectations, scaled_expectations
from .rows import add_ragged, add_ragged_sparse
from .sequences import PlainScores
from .updates import RowArrays, UpdateSettings, adagrad

_expectations, _adagrad = internal(scaled_expectations), internal(adagrad)
BUNCH = 4
"""2^BUNCH neighbouring rows are changed by one thread, because cores should not write to the same cache line."""
LONG, OFTEN = 1 << 15, 3
"""Turns of a loop that waits, about a millisecond; how many such waits in a text are too many."""
SPREAD, LOW = np.uint64(2654435769), np.uint64(0xFFFFFFFF)
"""2^32 divided by the golden ratio: multiples of it, modulo 2^32, are spread evenly (Knuth 1973, section 6.4)."""


class PassArrays(NamedTuple):
    """Arrays that the threads of a pass share; P parts.

    arrivals (Offsets): [1] how often a thread has come to a meeting.
    owners (Offsets): [N] the part that each sequence belongs to.
    scores, gradient (Floats): [longest mini-batch, L].
    own_ids (Ints): [threads, ids of the longest mini-batch] rows that each thread changes.
    shared (Floats): [P, L * (L + 2)] gradients of transitions, start and end scores.
    losses (Floats): [P] float64.
    left (Ints): [longest mini-batch's sequences] those of a mini-batch that scaling cannot represent, as in `lattice`.
    stop (Offsets): [1] one more than the first sequence of the mini-batch where threads stop, because of those or since
        they often wait for a core; 0 while there is none.
    """

    arrivals: Offsets
    owners: Offsets
    scores: Floats
    gradient: Floats
    own_ids: Ints
    shared: Floats
    losses: Floats
    left: Ints
    stop: Offsets


def workspace(text: ChainText, size: int, n_parts: int, n_threads: int, n_labels: int, dtype: Any) -> PassArrays:
    """Return the arrays that the threads of a pass over a text in mini-batches of `size` sequences share."""
    offsets = text.offsets
    owners, ends = np.full(len(offsets) - 1, -1), np.append(offsets[:-1:size], offsets[-1])
    divide(offsets, size, n_parts, owners)
    scores, gradient = np.empty((2, int(np.diff(ends).max()), n_labels), dtype)
    n_threads = 1 if PLAIN else n_threads  # whose meetings need `fetch_add` in one step
    own_ids = np.empty((n_threads, int(np.diff(text.ptr[ends]).max())), np.int32)
    shared = np.empty((n_parts, n_labels * (n_labels + 2)), dtype)
    losses, left, (arrivals, stop) = np.zeros(n_parts), np.zeros(size, np.int32), np.zeros((2, 1), np.int64)
    return PassArrays(arrivals, owners, scores, gradient, own_ids, shared, losses, left, stop)


@inlined
def _chain(emissions: Floats, shared: Floats) -> PlainScores:
    """Return scores, or their gradient, given those of transitions, start and end as one array."""
    n = emissions.shape[1]
    return emissions, shared[: n * n].reshape((1, n, n)), shared[n * n : -n], shared[-n:]


def solve_left(text: ChainText, theta: Floats, work: PassArrays) -> int:
    """Add the gradients and losses that the mini-batch where threads stopped still lacks; return its first sequence."""
    first = int(work.stop[0]) - 1
    for s in np.flatnonzero(work.left):
        owner, (b, e) = work.owners[first + s], text.offsets[first + s : first + s + 2]
        tokens, left = slice(b - text.offsets[first], e - text.offsets[first]), work.left[s : s + 1]
        scores, d = (
            _chain(*pair) for pair in ((work.scores[tokens], theta), (work.gradient[tokens], work.shared[owner]))
        )
        data = np.array([0, e - b]), text.gold[b:e], text.weights[first + s : first + s + 1]
        work.losses[owner] += exact_expectations(Scores(*scores), *data, Scores(*d), NO_NUMBERS, 0.0, left)
    work.left[:] = work.stop[:] = work.arrivals[:] = 0
    return first


@kernel
def divide(offsets: Offsets, size: int, n_parts: int, owners: Offsets) -> None:
    """Write a part for each sequence to owners [N], which is -1: the longest one left goes to the smallest part."""
    for first in range(0, owners.shape[0], size):
        loads = np.zeros(n_parts, np.int64)
        for _ in range(min(size, owners.shape[0] - first)):
            longest, length = -1, -1
            for s in range(first, min(first + size, owners.shape[0])):
                if owners[s] < 0 and offsets[s + 1] - offsets[s] > length:
                    longest, length = s, offsets[s + 1] - offsets[s]
            smallest = 0
            for part in range(1, n_parts):
                smallest = part if loads[part] < loads[smallest] else smallest
            owners[longest] = smallest
            loads[smallest] += length


@llvm
def fetch_add(array: Offsets, number: int) -> int:
    """Add a number to array[0], in one step that no thread can interrupt; return what was there."""
    before = array[0]
    array[0] += number
    return int(before)


@inlined
def _meet(arrivals: Offsets, number: int) -> bool:
    """Wait until the threads have arrived `number` times in all; return whether one seems to have lost its core.

    Few wait for as long as going to sleep would take.
    """
    turns = 0
    fetch_add(arrivals, 1)
    while fetch_add(arrivals, 0) < number:
        turns += 1
    return turns > LONG


@inlined
def _find_own(ptr: Offsets, ids: Ints, thread: int, n_threads: int, own_ptr: Offsets, own_ids: Ints) -> None:
    """Write the rows of each token that one thread changes to own_ptr [T + 1] and own_ids."""
    threads, number, n = np.uint64(n_threads), np.uint64(thread), 0
    for t in range(ptr.shape[0] - 1):
        for p in range(ptr[t], ptr[t + 1]):  # without a branch, which could not be predicted, and without division
            own_ids[n] = ids[p]
            n += (np.uint64(ids[p] >> BUNCH) * SPREAD & LOW) * threads >> np.uint64(32) == number
        own_ptr[t + 1] = n


@inlined
def _load(
    text: ChainText, rows: RowArrays, work: PassArrays, part: int, first: int, ends: Offsets, factors: Floats
) -> None:
    """Write the scores of those of n sequences that a part owns; ends [n + 1], weights, 0 of others, to factors [n]."""
    row_ptr, cols, values = rows[:3]
    begin = text.offsets[first]
    for s in range(ends.shape[0] - 1):
        b, e = text.offsets[first + s], text.offsets[first + s + 1]
        ends[s + 1], factors[s] = e - begin, 0
        if work.owners[first + s] == part:
            factors[s], target = text.weights[first + s], work.scores[b - begin : e - begin]
            for t in range(b - begin, e - begin):
                for k in range(work.scores.shape[1]):
                    work.scores[t, k] = work.gradient[t, k] = 0
            if row_ptr.shape[0] > 0:
                add_ragged_sparse(text.ptr[b : e + 1], text.ids, row_ptr, cols, values, target)
            else:
                add_ragged(text.ptr[b : e + 1], text.ids, values.reshape((-1, target.shape[1])), target)
            if text.costs.shape[0] > 0:
                for t in range(b, e):
                    if text.gold[t] >= 0:
                        for k in range(target.shape[1]):
                            target[t - b, k] += text.costs[text.gold[t], k]


@kernel
def pass_over(
    text: ChainText, size: int, since: int, rows: tuple[RowArrays, RowArrays], clock: float, settings: UpdateSettings,
    work: PassArrays, thread: int,
) -> None:  # fmt: skip
    """Make the steps of one thread for a text, in mini-batches of `size` sequences; add their losses to `work`.

    since: The first sequence of the mini-batch where threads stopped, whose gradient is known by now; -1 at first.
    rows: Those of features, and those of transitions, start and end scores, one number each.
    clock, settings: As in `updates.adagrad`, the clock before the first sequence.
    """
    (offsets, gold, weights, ptr, ids, trainable, _), (unigrams, shared) = text, rows
    arrivals, _, scores, gradient, own_ids, d_shared, losses, left, stop = work
    n_parts, n_shared, n_threads = d_shared.shape[0], d_shared.shape[1], own_ids.shape[0]
    own, none, given = own_ids[thread], np.empty(0), _chain(scores, shared[2])
    begins, factors, own_ptr = np.zeros(size + 1, np.int64), np.zeros(size), np.zeros(scores.shape[0] + 1, np.int64)
    # each thread changes a range of the shared scores
    low, high = n_shared * thread // n_threads, n_shared * (thread + 1) // n_threads
    shared_ptr, shared_ids = np.empty(high - low + 1, np.int64), np.empty(high - low, np.int32)
    for k in range(low, high + 1):
        shared_ptr[k - low] = k - low
        if k < high:
            shared_ids[k - low] = k
    total, meeting, late, clock = np.empty((high - low, 1), scores.dtype), 0, 0, clock + max(since, 0)
    for first in range(max(since, 0), weights.shape[0], size):
        last = min(first + size, weights.shape[0])
        begin, length = offsets[first], offsets[last] - offsets[first]
        ends, factors_here, labels = begins[: last - first + 1], factors[: last - first], gold[begin : begin + length]
        for part in range(thread if first != since else n_parts, n_parts, n_threads):
            _load(text, unigrams, work, part, first, ends, factors_here)
            d = d_shared[part]
            for k in range(n_shared):
                d[k] = 0
            loss, some_left = _expectations(given, ends, labels, factors_here, _chain(gradient, d), 0.0, none, left)
            losses[part] += loss
            if some_left:
                stop[0] = first + 1
        if late >= OFTEN:
            stop[0] = first + 1
        meeting += n_threads
        late += _meet(arrivals, meeting)
        if stop[0] > 0:
            return
        clock += last - first
        here_ptr, here_ids = ptr[begin : begin + length + 1], ids
        if n_threads > 1:
            _find_own(here_ptr, ids, thread, n_threads, own_ptr, own)
            here_ptr, here_ids = own_ptr[: length + 1], own
        # begins[0] is 0; for a literal, numba would compile the kernel once more
        _adagrad((here_ptr, here_ids, gradient[:length]), unigrams, clock, settings, begins[0])
        for k in range(low, high):
            total[k - low, 0] = 0
            for part in range(n_parts if trainable[k] else 0):
                total[k - low, 0] += d_shared[part, k]
        _adagrad((shared_ptr, shared_ids, total), shared, clock, settings, low)
        meeting += n_threads
        late += _meet(arrivals, meeting)
