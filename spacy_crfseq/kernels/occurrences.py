"""Chains whose labels may occur once in a sequence, or only in a given order: the best path, and all likely states.

A state after token t is the label of t with the set of limited labels that have begun, a bit each.  Labellings that
obey the rules are the paths of states, one to one, so all sums and maxima over them are those of a chain over states.
Of its many states few matter.  ahead_t(j) is the best, or the sum, of what may follow label j of token t without the
rules.  It is an upper bound of what may follow with them (as in A*, Hart, Nilsson & Raphael 1968), so a state of score
g is dropped where ``g + ahead`` is far below the best, or the sum, of all labellings::

    g_t(S', j) = e_t(j) + max_{S, i} (g_{t-1}(S, i) + a_t(i, j))             S' follows S by the rules; or a log sum
    lost = max of g_t(S, j) + ahead_t(j) over the states dropped            or a log sum

A path that scores at least `lost` is the best one, and sums miss no more than exp(lost).  A bit is cleared as soon as
no label that it bars can begin any more, which makes many states one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..types import Bools, Floats, Ints, OccurrenceRules, Offsets, Scores
from ._jit import inlined, kernel
from .math import log_add, log_sum, longest
from .sequences import PlainScores, part, step_to

BROKEN = -1
"""Instead of a set of labels, where the rules are broken."""
WIDTH = 256
"""States that are kept per token."""
GAP, FAR = 1.0, 1000.0
"""The best path is first sought within so many nats of the best without rules, then within twice as many, and so on;
beyond `FAR`, among all."""
FAINT = 28.0
"""States whose share of the probability is below ``exp(-FAINT)`` are dropped from sums."""


class Layers(NamedTuple):
    """The states of a sequence, those of each token ordered by label; W may be kept per token.

    counts (Offsets): [T] states of each token.
    labels (Ints), sets (Offsets), scores (Floats), back (Ints): [T, W] label, labels that have begun, g, and the best
        state before.
    spare: The same before states are dropped, [W * L] each.
    ahead, through (Floats): [T, L] bounds of what follows a label, and of whole labellings through it (or infinity).
    alive (Offsets): [T] bits that still count after a token.
    """

    counts: Offsets
    labels: Ints
    sets: Offsets
    scores: Floats
    back: Ints
    spare: tuple[Ints, Offsets, Floats, Ints]
    ahead: Floats
    through: Floats
    alive: Offsets


@inlined
def _layers(length: int, n: int) -> Layers:
    """Return work arrays."""
    size, width = (length, WIDTH), WIDTH * n
    return Layers(
        np.empty(length, np.int64),
        np.empty(size, np.int32), np.empty(size, np.int64), np.empty(size), np.empty(size, np.int32),
        (np.empty(width, np.int32), np.empty(width, np.int64), np.empty(width), np.empty(width, np.int32)),
        np.empty((length, n)), np.empty((length, n)), np.empty(length, np.int64),
    )  # fmt: skip


@inlined
def _after(begun: int, before: int, here: int, rules: OccurrenceRules) -> int:
    """Return the set of labels that have begun when label `here` follows `before` (-1 for none), or `BROKEN`."""
    if before >= 0 and rules.goes_on[before, here]:
        return begun
    if begun & rules.barred[here]:
        return BROKEN
    return begun & rules.kept[here] | rules.bits[here]


@inlined
def _obeys(labels: Ints, rules: OccurrenceRules) -> bool:
    """Whether the labels of a sequence obey the rules."""
    begun, before = np.int64(0), -1
    for label in labels:
        begun = _after(begun, before, label, rules)
        if begun == BROKEN:
            return False
        before = label
    return True


@kernel
def obeying(labels: Ints, offsets: Offsets, rules: OccurrenceRules, out: Bools) -> None:
    """Write to out [N] whether the labels [T] of each sequence obey the rules."""
    for s in range(offsets.shape[0] - 1):
        out[s] = _obeys(labels[offsets[s] : offsets[s + 1]], rules)


@inlined
def _transposed(step: Floats, back: Floats) -> None:
    """Write the transpose of a step [L, L] to `back`."""
    for i in range(step.shape[0]):
        for k in range(step.shape[0]):
            back[k, i] = step[i, k]


@kernel
def _fill_best(scores: Scores, back: Floats, layers: Layers) -> float:
    """Fill ahead with the best of what follows each label, without rules, and through with infinity; return the best.

    back [L, L] holds the transpose of shared transitions; otherwise it is work space.
    """
    emissions, transitions, start, end = scores
    ahead, (length, n) = layers.ahead, emissions.shape
    top = -np.inf
    for t in range(length - 1, -1, -1):
        row = ahead[t]
        for k in range(n):
            row[k] = end[k] if t == length - 1 else -np.inf
            layers.through[t, k] = np.inf
        if t < length - 1:
            if transitions.shape[0] > 1:
                _transposed(transitions[t + 1], back)
            for k in range(n):
                score = emissions[t + 1, k] + ahead[t + 1, k]
                for i in range(n):  # one label after another, so that it is a sum of vectors
                    row[i] = max(row[i], score + back[k, i])
    for k in range(n):
        top = max(top, start[k] + emissions[0, k] + ahead[0, k])
    return top


@kernel
def _fill_sums(scores: Scores, layers: Layers) -> float:
    """Fill ahead and through with log sums over labellings without rules; return the log sum over all."""
    emissions, transitions, start, end = scores
    ahead, through, (length, n) = layers.ahead, layers.through, emissions.shape
    terms = np.empty(n)
    for k in range(n):
        ahead[length - 1, k] = end[k]
        through[0, k] = emissions[0, k] + start[k]
    for t in range(length - 1, 0, -1):
        step = step_to(transitions, t)
        for i in range(n):
            for k in range(n):
                terms[k] = step[i, k] + emissions[t, k] + ahead[t, k]
            ahead[t - 1, i] = log_sum(terms)
    for t in range(1, length):
        step = step_to(transitions, t)
        for k in range(n):
            for i in range(n):
                terms[i] = through[t - 1, i] + step[i, k]
            through[t, k] = emissions[t, k] + log_sum(terms)
    for t in range(length):
        for k in range(n):
            through[t, k] += ahead[t, k]
    return log_sum(through[length - 1])


@kernel
def _fill_layers(
    scores: Scores, rules: OccurrenceRules, maximum: bool, floor: float, layers: Layers
) -> tuple[float, bool]:
    """Fill the layers of one sequence with states whose bound is `floor` or more; return lost, and if some were full."""
    emissions, transitions, start, _ = scores
    counts, labels, sets, values, back, spare, ahead, through, alive = layers
    (length, n), lost, full = emissions.shape, -np.inf, False
    alive[length - 1] = 0
    for t in range(length - 1, 0, -1):
        alive[t - 1] = alive[t]
        for k in range(n):
            if through[t, k] >= floor:
                alive[t - 1] |= rules.barred[k]
    for t in range(length):
        count, step = 0, step_to(transitions, t)
        for k in range(n):
            if through[t, k] == -np.inf or through[t, k] < floor:
                lost = max(lost, through[t, k]) if maximum else log_add(lost, through[t, k])
                continue
            first = count
            for a in range(1 if t == 0 else counts[t - 1]):
                before, begun, value = -1, np.int64(0), np.float64(emissions[t, k])
                if t == 0:
                    value += start[k]
                else:
                    before, begun = labels[t - 1, a], sets[t - 1, a]
                    value += values[t - 1, a] + step[before, k]
                begun = _after(begun, before, k, rules)
                if begun == BROKEN or value == -np.inf:
                    continue
                if maximum and value + ahead[t, k] < floor:
                    lost = max(lost, value + ahead[t, k])
                    continue
                begun &= alive[t]
                place = first  # of this state among those of label k
                while place < count and spare[1][place] != begun:
                    place += 1
                if place == count:
                    spare[0][place], spare[1][place], spare[2][place], spare[3][place] = k, begun, value, a
                    count += 1
                elif not maximum:
                    spare[2][place] = log_add(spare[2][place], value)
                elif value > spare[2][place]:
                    spare[2][place], spare[3][place] = value, a
        cut = floor
        if count > WIDTH:  # only the best
            full, bounds = True, np.empty(count)
            for a in range(count):
                bounds[a] = spare[2][a] + ahead[t, spare[0][a]]
            cut = max(cut, np.sort(bounds)[count - WIDTH])
        counts[t] = 0
        for a in range(count):
            bound, c = spare[2][a] + ahead[t, spare[0][a]], counts[t]
            if bound == -np.inf or bound < cut or c == WIDTH:
                lost = max(lost, bound) if maximum else log_add(lost, bound)
                continue
            labels[t, c], sets[t, c], values[t, c], back[t, c] = spare[0][a], spare[1][a], spare[2][a], spare[3][a]
            counts[t] += 1
    return lost, full


def best_paths(scores: Scores, offsets: Offsets, rules: OccurrenceRules, labels: Ints, exact: Bools) -> Floats:
    """Replace best labels [T] that break the rules by the best that obey them; return 0 or these' scores [N].

    exact [N] receives whether they are certainly the best.  The score is minus infinity where none was found.
    """
    found = np.zeros(len(offsets) - 1)
    _best_paths((*scores,), offsets, rules, labels, found, exact)
    return found


@kernel
def _best_paths(
    scores: PlainScores, offsets: Offsets, rules: OccurrenceRules, labels: Ints, found: Floats, exact: Bools
) -> None:
    """Do the work of `best_paths`."""
    n, transitions = scores[0].shape[1], scores[1]
    layers, back = _layers(longest(offsets), n), np.empty((n, n))
    if transitions.shape[0] == 1:
        _transposed(transitions[0], back)
    for s in range(offsets.shape[0] - 1):
        b, e = offsets[s], offsets[s + 1]
        exact[s] = True
        if _obeys(labels[b:e], rules):
            continue
        here, gap, last = part(scores, b, e), GAP, e - b - 1
        top = _fill_best(here, back, layers)
        while True:
            lost, full = _fill_layers(here, rules, True, top - gap, layers)
            place, found[s] = 0, -np.inf
            for a in range(layers.counts[last]):
                value = layers.scores[last, a] + here.end[layers.labels[last, a]]
                if value > found[s]:
                    place, found[s] = a, value
            exact[s] = found[s] >= lost
            if exact[s] or gap == np.inf or (full and found[s] > -np.inf):
                break
            gap = 2 * gap if gap < FAR else np.inf
        for t in range(last, -1, -1):
            if found[s] > -np.inf:
                labels[b + t], place = layers.labels[t, place], layers.back[t, place]


def state_chain(scores: Scores, rules: OccurrenceRules) -> tuple[Scores, Ints, float]:
    """Return the chain over the states of one sequence that is not empty.

    That is its scores for S states per token, the label of each state [T, S] (any where there is none, of score minus
    infinity), and an upper bound of the probability that it misses.
    """
    exact = Scores(*(array.astype(np.float64, copy=False) for array in scores))
    layers, missing = _likely_layers(exact, rules)
    length, size = len(exact.emissions), max(1, int(layers.counts.max()))
    emissions, transitions = np.full((length, size), -np.inf), np.full((length, size, size), -np.inf)
    _fill_states(exact, rules, layers, emissions, transitions)
    homes = np.where(np.isneginf(emissions), np.int32(0), layers.labels[:, :size])
    return Scores(emissions, transitions, np.zeros(size), np.zeros(size)), homes, missing


@kernel
def _likely_layers(scores: Scores, rules: OccurrenceRules) -> tuple[Layers, float]:
    """Return the layers for sums over the labellings of a sequence, and a bound of the probability that they miss."""
    layers = _layers(scores.emissions.shape[0], scores.emissions.shape[1])
    top = _fill_sums(scores, layers)
    lost, _ = _fill_layers(scores, rules, False, top - FAINT, layers)
    last, kept = scores.emissions.shape[0] - 1, -np.inf
    for a in range(layers.counts[last]):
        kept = log_add(kept, layers.scores[last, a] + scores.end[layers.labels[last, a]])
    return layers, 0.0 if lost == -np.inf else np.exp(lost - log_add(lost, kept))


@kernel
def _fill_states(
    scores: Scores, rules: OccurrenceRules, layers: Layers, emissions: Floats, transitions: Floats
) -> None:
    """Write the scores of states [T, S], start and end scores included, and those of their steps [T, S, S]."""
    counts, labels, sets, last = layers.counts, layers.labels, layers.sets, emissions.shape[0] - 1
    for t in range(last + 1):
        step = step_to(scores.transitions, t)
        for b in range(counts[t]):
            k = labels[t, b]
            emissions[t, b] = scores.emissions[t, k]
            if t == 0:
                emissions[t, b] += scores.start[k]
            if t == last:
                emissions[t, b] += scores.end[k]
            for a in range(counts[t - 1] if t > 0 else 0):
                i, begun = labels[t - 1, a], _after(sets[t - 1, a], labels[t - 1, a], k, rules)
                if begun != BROKEN and begun & layers.alive[t] == sets[t, b]:
                    transitions[t, a, b] = step[i, k]
