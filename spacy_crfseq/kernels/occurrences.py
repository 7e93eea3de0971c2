"""Chains whose labels may occur once in a sequence, or only in a given order: the best path, and all likely states.

A state after token t is the label of t with the set of limited labels that have begun, a bit each.  Labellings that
obey the rules are the paths of states, one to one, so all sums and maxima over them are those of a chain over states.
Of its many states few matter.  ahead_t(j) is the best, or the log sum, of what may follow label j of token t without
the rules, an upper bound of what may follow with them (as in A*; Hart, Nilsson & Raphael 1968).  States are dropped
whose score plus this bound is far below the best, or the sum, of all labellings::

    g_t(S', j) = e_t(j) + max_{S, i} (g_{t-1}(S, i) + a_t(i, j))           S' follows S by the rules; or a log sum
    lost = max of g_t(S, j) + ahead_t(j) over the states dropped          or a log sum

A path that scores at least `lost` is the best one, and sums miss no more than exp(lost).  A search for the best path
also drops a state if another of the same label scores as much and bars no more.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..types import Bools, Floats, Ints, OccurrenceRules, Offsets, Scores
from .jit import inlined, internal, kernel
from .sequences import PlainScores, log_add, longest, part, step_to

BROKEN = -1
"""Instead of a set of labels, where the rules are broken."""
WIDTH, BEAM, NARROW = 256, 32, 8
"""States that are kept per token for sums, in a search for the best path, and at first where all are searched."""
GAP, FAR = 2.0, 1000.0
"""In nats: the best path is first sought within `GAP` of the best without rules, then within twice that, and so on;
beyond `FAR`, among all."""
FAINT = 20.0
"""States whose share of the sum is below ``exp(-FAINT)`` are dropped from sums."""


class Layers(NamedTuple):
    """The states of a sequence; those of token t are ``first[t]:first[t + 1]``, ordered by label.

    labels (Ints), sets (Offsets), scores (Floats), back (Ints): Label, labels that have begun, g, and, in a search for
        the best path, the state before.
    ahead (Floats): [T, L] bound of what follows a label.
    """

    first: Offsets
    labels: Ints
    sets: Offsets
    scores: Floats
    back: Ints
    ahead: Floats


@inlined
def _layers(length: int, n: int) -> Layers:
    """Return work arrays."""
    size, first = WIDTH * (length + n), np.zeros(length + 1, np.int64)
    arrays = np.empty(size, np.int32), np.empty(size, np.int64), np.empty(size), np.empty(size, np.int32)
    return Layers(first, *arrays, np.empty((length, n)))


@inlined
def _join(x: float, y: float, maximum: bool) -> float:
    """Return the larger number, or the log sum."""
    return max(x, y) if maximum else log_add(x, y)


@inlined
def _after(begun: Any, before: int, label: int, rules: OccurrenceRules) -> Any:
    """Return the set of labels that have begun when label `label` follows `before` (-1 for none), or `BROKEN`."""
    if before >= 0 and rules.goes_on[before, label]:
        return begun
    if begun & rules.barred[label]:
        return BROKEN
    return begun & rules.kept[label] | rules.bits[label]


@inlined
def _obeys(labels: Ints, rules: OccurrenceRules) -> bool:
    """Whether the labels of a sequence obey the rules."""
    begun, before = np.int64(0), -1
    for label in labels:
        begun, before = _after(begun, before, label, rules), label
        if begun == BROKEN:
            return False
    return True


@kernel
def obeying(labels: Ints, offsets: Offsets, rules: OccurrenceRules, out: Bools) -> None:
    """Write to out [N] whether the labels [T] of each sequence obey the rules."""
    for s in range(offsets.shape[0] - 1):
        out[s] = _obeys(labels[offsets[s] : offsets[s + 1]], rules)


@internal
def _fill_ahead(scores: Scores, maximum: bool, ahead: Floats) -> float:
    """Fill ahead for one sequence without rules; return the best, or the log sum, of all its labellings."""
    emissions, transitions, start, end = scores
    (length, n), top, after = emissions.shape, -np.inf, np.empty(emissions.shape[1])
    for t in range(length - 1, -1, -1):
        step = step_to(transitions, min(t + 1, length - 1))
        for i in range(n):
            best = end[i] if t == length - 1 else -np.inf
            for k in range(n if t < length - 1 else 0):
                best = _join(best, step[i, k] + after[k], maximum)
            ahead[t, i] = best
        for k in range(n):
            after[k] = emissions[t, k] + ahead[t, k]
    for k in range(n):
        top = _join(top, start[k] + after[k], maximum)
    return top


@internal
def _fill_layers(
    scores: Scores, rules: OccurrenceRules, maximum: bool, floor: float, width: int, layers: Layers
) -> tuple[float, float, bool]:
    """Fill the layers of one sequence with states of a bound from `floor` on, the best `width` of each token.

    Returns the best score of its paths, or the log sum, `lost`, and whether a token had too many states.
    """
    emissions, transitions, start, _ = scores
    first, labels, sets, values, back, ahead = layers
    (length, n), total, lost, full = emissions.shape, -np.inf, -np.inf, False
    for t in range(length):
        count, step = first[t], step_to(transitions, t)
        for k in range(n):
            own = count
            for a in range(first[t - 1] if t > 0 else -1, first[t]):  # -1 is the state before the first token
                before, begun, value = -1, np.int64(0), np.float64(emissions[t, k])
                if a < 0:
                    value += start[k]
                else:
                    before, begun = labels[a], sets[a]
                    value += values[a] + step[before, k]
                begun = _after(begun, before, k, rules)
                if begun == BROKEN or value == -np.inf:
                    continue
                if t == length - 1:
                    begun = np.int64(0)  # bars nothing any more
                if maximum and value + ahead[t, k] < floor:
                    lost = max(lost, value + ahead[t, k])
                    continue
                place, better = own, True  # of the same state, or of one that bars less and is better, or the reverse
                while place < count:
                    other, best = sets[place], values[place]
                    better = value > best and begun & other == begun
                    if other == begun or (maximum and (better or (best >= value and begun & other == other))):
                        break
                    place += 1
                if place < count and not maximum:
                    values[place] = log_add(values[place], value)
                elif place == count or better:
                    labels[place], sets[place], values[place], back[place] = k, begun, value, a
                    count = max(count, place + 1)
        cut, c = floor, first[t]
        if count - c > width:  # only the best
            bounds = np.empty(count - c)
            for a in range(c, count):
                bounds[a - c] = values[a] + ahead[t, labels[a]]
            cut, full = max(cut, np.sort(bounds)[-width]), True
        for a in range(c, count):
            bound = values[a] + ahead[t, labels[a]]
            if bound == -np.inf or bound < cut or c == first[t] + width:
                lost = _join(lost, bound, maximum)
                continue
            labels[c], sets[c], values[c], back[c] = labels[a], sets[a], values[a], back[a]
            c += 1
            if t == length - 1:
                total = _join(total, bound, maximum)
        first[t + 1] = c
    return total, lost, full


def best_paths(scores: Scores, offsets: Offsets, rules: OccurrenceRules, labels: Ints, exact: Bools) -> Floats:
    """Replace best labels [T] that break the rules by the best that obey them; return these' scores, or 0 [N].

    exact [N] receives whether they are certainly the best.  The score is minus infinity where none was found.
    """
    best = np.zeros(len(offsets) - 1)
    _best_paths((*scores,), offsets, rules, labels, best, exact)
    return best


@kernel
def _best_paths(
    scores: PlainScores, offsets: Offsets, rules: OccurrenceRules, labels: Ints, best: Floats, exact: Bools
) -> None:
    """Do the work of `best_paths`."""
    layers = _layers(longest(offsets), scores[0].shape[1])
    for s in range(offsets.shape[0] - 1):
        b, e = offsets[s], offsets[s + 1]
        exact[s] = True
        if _obeys(labels[b:e], rules):
            continue
        sequence, gap, width = part(scores, b, e), GAP, BEAM
        top = _fill_ahead(sequence, True, layers.ahead)
        while True:
            best[s], lost, full = _fill_layers(sequence, rules, True, top - gap, width, layers)
            exact[s] = best[s] >= lost
            if exact[s] or (full and best[s] > -np.inf) or (gap == np.inf and width == BEAM):
                break
            width = NARROW if full and gap < np.inf else BEAM
            gap = 2 * gap if gap < FAR and not full else np.inf
        if best[s] > -np.inf:
            place = layers.first[e - b - 1]
            while layers.scores[place] + sequence.end[layers.labels[place]] < best[s]:
                place += 1
            for t in range(e - 1, b - 1, -1):
                labels[t], place = layers.labels[place], layers.back[place]


def state_chain(scores: Scores, rules: OccurrenceRules) -> tuple[Scores, Ints, float]:
    """Return the chain over the states of one sequence, which is not empty.

    That is its scores for S states per token, the label of each state [T, S] (0 where there is none, of score minus
    infinity), and an upper bound of the share of the sum that it misses.
    """
    exact = scores.wide()
    layers, missing = _likely_layers(exact, rules)
    length, size = len(exact.emissions), max(1, int(np.diff(layers.first).max()))
    emissions, transitions = np.full((length, size), -np.inf), np.full((length, size, size), -np.inf)
    states = np.zeros((length, size), np.int32)
    _fill_states(exact, rules, layers, emissions, transitions, states)
    return Scores(emissions, transitions, np.zeros(size), np.zeros(size)), states, missing


@kernel
def _likely_layers(scores: Scores, rules: OccurrenceRules) -> tuple[Layers, float]:
    """Return the layers for sums over the labellings of a sequence, and a bound of the share that they miss."""
    layers = _layers(scores.emissions.shape[0], scores.emissions.shape[1])
    total, floor, lost, full = _fill_ahead(scores, False, layers.ahead), np.inf, 0.0, False
    while total - FAINT < floor and lost > -np.inf and not (full and total > -np.inf):
        floor = total - FAINT  # at first of the sum without rules, which may be far above
        total, lost, full = _fill_layers(scores, rules, False, floor, WIDTH, layers)
    return layers, 0.0 if lost == -np.inf else np.exp(lost - log_add(lost, total))


@kernel
def _fill_states(
    scores: Scores, rules: OccurrenceRules, layers: Layers, emissions: Floats, transitions: Floats, states: Ints
) -> None:
    """Write the scores of states [T, S], start and end scores included, of their steps [T, S, S], and their labels."""
    first, labels, sets, last = layers.first, layers.labels, layers.sets, emissions.shape[0] - 1
    for t in range(last + 1):
        step = step_to(scores.transitions, t)
        for c in range(first[t], first[t + 1]):
            k, place = labels[c], c - first[t]
            states[t, place], emissions[t, place] = k, scores.emissions[t, k]
            if t == 0:
                emissions[t, place] += scores.start[k]
            if t == last:
                emissions[t, place] += scores.end[k]
            for a in range(first[t - 1] if t > 0 else c, first[t] if t > 0 else c):
                begun = _after(sets[a], labels[a], k, rules)
                if begun != BROKEN and (t == last or begun == sets[c]):
                    transitions[t, a - first[t - 1], place] = step[labels[a], k]
