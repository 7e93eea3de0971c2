"""Spans in the posterior: their probabilities, how they begin, go on and end, and the best choice of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..types import Bools, Floats, Ints, Offsets, Scores
from . import PLAIN
from .jit import inlined, kernel
from .lattice import MANY, SequenceArrays, exactly, solve, transition_potentials, whole, workspace
from .sequences import PlainScores, limits, part
from .span_steps import add_step, filler_of, left_out

NEGLIGIBLE = 1e-10
"""A span of a smaller probability counts as one of probability zero."""
NONE: Bools = np.zeros(0, np.bool_)


class SpanChain(NamedTuple):
    """How spans begin, end and go on; made by `make_span_chain`.

    possible (Bools): [1 or T, L, L] steps that are possible.
    follows (Floats): [1 or T, L, L] zero where the span of the first label may end and that of the second begin, minus
        infinity elsewhere.
    links (Ints): [K, 2] the pairs of labels where the second goes on with the span of the first.
    first_link (Offsets): [L + 1] links from label i are those from first_link[i] to first_link[i + 1].
    allowed (Bools): [T, L] labels that are possible.
    opens (Floats): [T, L] P(y_t = j, and the label before is not of the same span), float64.
    closes (Floats): [T, L] P(the label after is not of the same span | y_t = i).
    goes_on (Floats): [T, K] P(y_t = j | y_{t-1} = i) of the links.
    covered (Bools): [T] whether a span that is probable enough may have the token.
    """

    possible: Bools
    follows: Floats
    links: Ints
    first_link: Offsets
    allowed: Bools
    opens: Floats
    closes: Floats
    goes_on: Floats
    covered: Bools


class Table(NamedTuple):
    """The values of the best labellings of the tokens of a sequence up to a token, by its label, [length, L] each.

    begin (Floats): Where another span may begin at it.
    through (Floats): Where a span goes on through it that counts as improbable.
    finish (Floats): Where a span may end there.
    origins (Ints): [length, L, 2] where one ends whose probability counts, its first token and its first label; else -1
        and, for a label that stands between such spans, the label before.
    ended (Bools): [length] whether another label than the one that stands between spans may be right before a token;
        where not, `finish` and `origins` of the token before have values for that one alone.
    """

    begin: Floats
    through: Floats
    finish: Floats
    origins: Ints
    ended: Bools


def make_span_chain(
    scores: Scores, offsets: Offsets, inside: Bools, outside: Bools = NONE, least: float = 0.0
) -> tuple[SpanChain, Floats]:
    """Return how spans behave, and log Z of each sequence [N]; `inside` [L, L] is that of `Constraints`.

    least (float): With the labels `outside` [L], where each span of a sequence could be left out: the probability below
        which spans are not asked for.  Steps of tokens that no more probable span may have are not computed: they are
        zero.
    """
    links, possible = np.argwhere(inside).astype(np.int32, order="C"), scores.transitions > -np.inf
    first_link = np.searchsorted(links[:, 0], np.arange(len(inside) + 1)).astype(np.int64)
    follows = np.where(possible & ~inside, 0.0, -np.inf)
    shape, log_z, left = scores.emissions.shape, np.zeros(len(offsets) - 1), np.diff(offsets) > 0
    covered = np.ones(shape[0], np.bool_)
    steps: Any = np.ones(shape, np.bool_), np.zeros(shape), np.zeros(shape), np.zeros((shape[0], len(links))), covered
    apart, asked = (~inside).astype(np.float64), (follows, outside, least)
    if len(left) >= MANY and len(scores.transitions) == 1 and not PLAIN:
        from . import span_blocks

        left = span_blocks.span_steps((*scores,), offsets, apart, links, asked, steps, log_z)
    if left.any():
        span_steps((*scores,), offsets, apart, links, asked, steps, log_z, left)
    for tokens, s, sequence, log_z[s] in exactly(scores, offsets, left):
        own: Any = tuple(array[tokens] for array in steps)
        everything = follows, outside, 0.0
        span_steps((*sequence,), whole(sequence), apart, links, everything, own, np.empty(1), left[s : s + 1])
        # `exactly` may have moved what is impossible to transitions of each position
        into: Bools = np.any(sequence.transitions > -np.inf, axis=1)
        own[0][1:] &= into[1:] if len(into) > 1 else into
    return SpanChain(possible, follows, links, first_link, *steps), log_z


@kernel
def span_steps(
    scores: PlainScores, offsets: Offsets, apart: Floats, links: Ints, asked: tuple[Floats, Bools, float],
    steps: tuple[Bools, Floats, Floats, Floats, Bools], log_z: Floats, left: Bools,
) -> None:  # fmt: skip
    """Fill the last five arrays of `SpanChain` for sequences that are left [N], and clear that for most of them.

    apart [L, L] is 1 where no span goes on, else 0.
    asked (tuple): The chain's `follows`, and the last arguments of `make_span_chain`.
    """
    allowed, opens, closes, goes_on, covered = steps
    follows, outside, least = asked
    filler, within = filler_of(follows, outside) if least > 0 else -1, np.ones(apart.shape[0], np.float32)
    for k in range(outside.shape[0]):
        within[k] = not outside[k]
    work, base = workspace(offsets, scores)
    potentials, alpha, beta, scale, potentials_ahead, potentials_back, _ = work
    n, room, no_gold = apart.shape[0], np.empty((3, apart.shape[0])), np.empty(0, np.int32)
    for s in range(offsets.shape[0] - 1):
        b, length = offsets[s], offsets[s + 1] - offsets[s]
        if not left[s]:
            continue
        sequence = part(scores, b, b + length)
        log_z[s], exact = solve(sequence, no_gold, base, limits(work.beta).huge, work)
        left[s] = not exact
        for t in range(length if exact else 0):
            for k in range(n):
                allowed[b + t, k] = (potentials[t, k] > 0) & (beta[t, k] > 0)
        few = exact and left_out(allowed, b, b + length, filler) >= 0
        # what begins at each token, and how it goes on from the one before
        for t in range(length if exact else 0):
            if few:  # half of it, since these are rounded
                share = 0.0
                for k in range(n):
                    share += alpha[t, k] * beta[t, k] * within[k]
                covered[b + t] = share > least / 2
            for k in range(n if t == 0 else 0):
                opens[b, k] = np.float64(alpha[0, k]) * beta[0, k]
                closes[b + length - 1, k] = 1.0
            if t == 0 or not (covered[b + t] or covered[b + t - 1]):
                continue
            for k in range(n):
                room[0, k], room[1, k] = alpha[t - 1, k], np.float64(potentials[t, k]) * beta[t, k] * scale[t]
            if sequence.transitions.shape[0] > 1:
                transition_potentials(sequence.transitions[t], potentials_ahead, potentials_back)
            add_step(b + t, potentials_ahead, apart, links, room, opens, closes, goes_on)


def candidates(spans: SpanChain, offsets: Offsets, outside: Bools, least: float) -> tuple[Ints, Floats]:
    """Return the C spans of a probability above `least`; where not every span can be left out, also improbable ones.

    The first array [C, 3] holds the first token, the token after the last one and the label of the first, in the order
    of the first tokens; the second one [C] the probabilities, in float64.
    """
    room = 2 * len(spans.opens) + 64
    while True:
        rows, values = np.empty((room, 3), np.int32), np.empty(room)
        _, n = best_spans(spans, offsets, outside, (1.0, 1.0, least), (rows, values))
        if n <= room:
            return rows[:n], values[:n]
        room = n


@kernel
def excluded(spans: Ints, probabilities: Floats, best: Floats) -> None:
    """Write the largest probability of a span that each candidate excludes to best [C, 4], see `choices.excluded`.

    best is zero before.
    """
    # in the order of first tokens, the spans that overlap a span follow it
    for i in range(spans.shape[0]):
        j = i + 1
        while j < spans.shape[0] and spans[j, 0] < spans[i, 1]:
            same_first, of_i, of_j = spans[i, 0] == spans[j, 0], 3, 3
            if same_first and spans[i, 1] == spans[j, 1]:
                of_i, of_j = 0, 0
            elif spans[j, 1] <= spans[i, 1]:
                of_i, of_j = 1, 2
            elif same_first:
                of_i, of_j = 2, 1
            best[i, of_i] = max(best[i, of_i], probabilities[j])
            best[j, of_j] = max(best[j, of_j], probabilities[i])
            j += 1


def best_spans(
    spans: SpanChain, offsets: Offsets, outside: Bools, worth: tuple[float, float, float],
    out: tuple[Ints, Floats] = (np.empty((0, 3), np.int32), np.empty(0)),
) -> tuple[Ints, int]:  # fmt: skip
    """Return the labels [T] whose spans have the largest sum of ``gain * P(span | x) - cost``, and the candidates' C.

    Labels `outside` [L] are in no span.  Every sequence must have a labelling.
    worth (tuple): The gain, the cost, and the probability below which spans are no candidates: it counts as zero.
    out (tuple): Candidates are written to rows [room, 3] and values [room], as `candidates` returns them; without rows,
        values replace their probabilities.
    """
    labels, shape = np.zeros(len(spans.opens), np.int32), (int(np.diff(offsets).max(initial=0)), len(outside))
    values = np.empty(shape), np.empty(shape), np.empty(shape)
    table = Table(*values, np.empty((*shape, 2), np.int32), np.empty(shape[0], np.bool_))
    return labels, _search(offsets, spans, outside, worth, table, labels, out)


@kernel
def _search(
    offsets: Offsets, spans: SpanChain, outside: Bools, worth: tuple[float, float, float], table: Table, labels: Ints,
    out: tuple[Ints, Floats],
) -> int:  # fmt: skip
    """Do the work of `best_spans`.

    For each first token and label, the most probable paths of the span's labels are followed to every last token and
    label, as long as they are above the floor of the sequence.  Spans below it count as having the probability zero,
    so that there is a labelling wherever one is possible.  Where each span could be left out, those of a probability
    below the least are negligible too, which leaves few; then no best labelling has a span that counts as improbable.
    """
    filler, count, n_outside = filler_of(spans.follows, outside), 0, 0
    for k in range(outside.shape[0]):
        n_outside += outside[k]
    for s in range(offsets.shape[0] - 1):
        b, e = offsets[s], offsets[s + 1]
        between = left_out(spans.allowed, b, e, filler)
        floor = max(NEGLIGIBLE, worth[2]) if between >= 0 else NEGLIGIBLE
        if e > b:
            between = between if n_outside == 1 else -1
            count = _fill_table(b, e, spans, outside, (worth[0], worth[1], floor), between, table, count, out)
            _trace_back(b, e, spans, outside, worth[1], between, table, labels)
    return count


@inlined
def _fill_table(
    b: int, e: int, spans: SpanChain, outside: Bools, worth: tuple[float, float, float], between: int, table: Table,
    count: int, out: tuple[Ints, Floats],
) -> int:  # fmt: skip
    """Fill the table for the sequence of the tokens b..e-1; return the count of candidates, now with its own.

    between (int): The only label outside, which all tokens may have: without spans that count as improbable, it stands
        between candidates.  -1 if there is none.
    """
    # one long function: parts that take these tuples at each token would count references to all arrays
    possible, follows, links, first_link, allowed, opens, closes, goes_on, covered = spans
    (begin, through, finish, origins, ended), (rows, values) = table, out
    (gain, cost, floor), n, shared = worth, outside.shape[0], follows.shape[0] == 1
    # labels now and at the next token, and the probabilities of the best ways to them, zero for the other labels
    now, then, mass, longer = np.empty(n, np.int64), np.empty(n, np.int64), np.zeros(n), np.zeros(n)
    # with a label between spans, only tokens where a candidate ends get values of all labels, and the last one
    for t in range(e - b):
        ended[t] = between < 0
        for j in range(n if between < 0 or t == e - b - 1 else 0):
            finish[t, j] = -np.inf
            origins[t, j, 0] = -1
    for t in range(b, e):
        # the values of what may begin here, or go on without counting
        s, here = 0 if shared else t, t - b
        if between >= 0:
            value, before = 0.0 if here == 0 else finish[here - 1, between], between
            for i in range(n if ended[here] else 0):
                if follows[0, i, between] == 0 and (finish[here - 1, i], i) > (value, before):
                    value, before = finish[here - 1, i], i
            begin[here, between] = finish[here, between] = value
            origins[here, between, 0], origins[here, between, 1] = -1, before
        else:
            for j in range(n):
                begin[here, j] = 0.0 if here == 0 else -np.inf
            for i in range(n if here > 0 else 0):
                value, row, starting = finish[here - 1, i], follows[s, i], begin[here]
                if value > -np.inf:
                    for j in range(n):
                        starting[j] = max(starting[j], value + row[j])
            for j in range(n):
                if not allowed[t, j]:  # or nothing may follow
                    begin[here, j] = -np.inf
                through[here, j] = -np.inf if outside[j] else begin[here, j] - cost
            for k in range(links.shape[0] if here > 0 else 0):
                i, j = links[k, 0], links[k, 1]
                if possible[s, i, j] and allowed[t, j]:
                    through[here, j] = max(through[here, j], through[here - 1, i])
            for j in range(n):
                value = begin[here, j] if outside[j] else through[here, j]
                if value > finish[here, j]:
                    finish[here, j] = value
                    origins[here, j, 0] = -1
        # the spans that begin here and whose probability counts, to where they end
        for first in range(n if covered[t] else 0):
            if outside[first] or not opens[t, first] > floor:
                continue
            if between >= 0:
                value = 0.0 if here == 0 else -np.inf
                if here > 0 and allowed[t, first]:
                    if follows[0, between, first] == 0:
                        value = finish[here - 1, between]
                    for i in range(n if ended[here] else 0):
                        if follows[0, i, first] == 0:
                            value = max(value, finish[here - 1, i])
                begin[here, first] = value
            if begin[here, first] == -np.inf:
                continue
            mass[first], now[0], n_now, last = opens[t, first], first, 1, t
            while n_now > 0:
                for place in range(n_now):
                    j = now[place]
                    probability = mass[j] * closes[last, j]
                    if not probability > floor:
                        continue
                    # candidates are noted, or get the probabilities that are given
                    if count < rows.shape[0]:
                        rows[count, 0], rows[count, 1], rows[count, 2], values[count] = t, last + 1, first, probability
                    elif count < values.shape[0]:
                        probability = values[count]
                    count += 1
                    value = begin[here, first] + gain * probability - cost
                    if last + 1 < e and not ended[last - b + 1]:
                        ended[last - b + 1] = True
                        for k in range(n):
                            finish[last - b, k] = finish[last - b, k] if k == between else -np.inf
                    if value > finish[last - b, j]:
                        finish[last - b, j] = value
                        origins[last - b, j, 0] = t
                        origins[last - b, j, 1] = first
                last, met = last + 1, 0
                for place in range(n_now):
                    i = now[place]
                    for k in range(first_link[i], first_link[i + 1] if last < e else 0):
                        j = links[k, 1]
                        product = mass[i] * goes_on[last, k]
                        if product > floor and product > longer[j]:
                            if longer[j] == 0:
                                then[met] = j
                                met += 1
                            longer[j] = product
                    mass[i] = 0.0
                mass, longer, now, then, n_now = longer, mass, then, now, met
    return count


@inlined
def _trace_back(
    b: int, e: int, spans: SpanChain, outside: Bools, cost: float, between: int, table: Table, labels: Ints
) -> None:
    """Write the labels of the best value of the sequence of the tokens b..e-1, last one first."""
    begin, through, finish, origins, ended = table
    n, label, shared, t = outside.shape[0], 0, spans.follows.shape[0] == 1, e - 1
    for k in range(n):
        if finish[t - b, k] > finish[t - b, label]:
            label = k
    while True:
        labels[t] = label
        if origins[t - b, label, 0] >= 0:
            last, t, label = t, origins[t - b, label, 0], origins[t - b, label, 1]
            _span_labels(spans.links, spans.goes_on, t, last, label, n, labels)
        elif not outside[label]:
            while through[t - b, label] != begin[t - b, label] - cost:
                before = 0
                for k in range(spans.links.shape[0]):
                    i, j = spans.links[k, 0], spans.links[k, 1]
                    if j == label and spans.possible[0 if shared else t, i, j]:
                        before = i if through[t - b - 1, i] == through[t - b, label] else before
                label = before
                t -= 1
                labels[t] = label
        if t == b:
            break
        before = origins[t - b, label, 1] if label == between else max(between, 0)
        for i in range(n if label != between and ended[t - b] else 0):
            if spans.follows[0 if shared else t, i, label] == 0 and finish[t - b - 1, i] == begin[t - b, label]:
                before = i
        label = before
        t -= 1


@inlined
def _span_labels(links: Ints, goes_on: Floats, first: int, last: int, first_label: int, n: int, labels: Ints) -> None:
    """Write the most probable labels of the span of the tokens first..last, whose first and last label are known."""
    length = last - first + 1
    mass, back = np.zeros((length, n)), np.zeros((length, n), np.int64)
    mass[0, first_label] = 1.0
    for t in range(1, length):
        for k in range(links.shape[0]):
            i, j = links[k, 0], links[k, 1]
            product = mass[t - 1, i] * goes_on[first + t, k]
            if product > mass[t, j]:
                mass[t, j] = product
                back[t, j] = i
    for t in range(length - 1, 0, -1):
        labels[first + t - 1] = back[t, labels[first + t]]


def span_probabilities(
    scores: Scores, offsets: Offsets, states: Ints, labels: Ints, starts: Offsets, ends: Offsets, inside: Bools
) -> NDArray[np.float64]:
    """Return the probabilities of spans [S] as labelled in `labels` [T], in float64.

    That is the probability that the tokens have these labels, and that neither the label before nor the label after
    belongs to the same span: ``inside[i, j]`` tells whether j right after i goes on with it.  Spans are in order, do
    not overlap, and lie within their sequences.

    states [0 or T, L]: The label of each column of the scores for each token; empty if these are the labels.
    """
    out, left = np.empty(len(starts)), np.zeros(len(offsets) - 1, np.bool_)
    _span_probabilities((*scores,), offsets, states, (labels, starts, ends, out), inside, left)
    for tokens, s, sequence, _ in exactly(scores, offsets, left):
        places = slice(*np.searchsorted(starts, (tokens.start, tokens.stop)))
        spans = labels[tokens], starts[places] - tokens.start, ends[places] - tokens.start, out[places]
        _span_probabilities((*sequence,), whole(sequence), states[tokens], spans, inside, left[s : s + 1])
    return out


class Room(NamedTuple):
    """Work arrays [2, L] for the probability of a span, for tokens with even and with odd numbers.

    shares (Floats): Forward mass of some states, through the labels of the span.
    places (Offsets): Which states these are.
    """

    shares: Floats
    places: Offsets


@kernel
def _span_probabilities(
    scores: PlainScores, offsets: Offsets, states: Ints, spans: tuple[Ints, Offsets, Offsets, Floats], inside: Bools,
    left: Bools,
) -> None:  # fmt: skip
    """Do the work of `span_probabilities` for most sequences; set left [N] for some others."""
    labels, starts, ends, out = spans
    work, base = workspace(offsets, scores)
    n, p = scores[0].shape[1], 0
    room = Room(np.zeros((2, n)), np.zeros((2, n), np.int64))
    for s in range(offsets.shape[0] - 1):
        b, e = offsets[s], offsets[s + 1]
        first = p
        while p < starts.shape[0] and starts[p] < e:
            p += 1
        if first == p:
            continue
        sequence, own = part(scores, b, e), states[b:e]
        _, exact = solve(sequence, labels[:0], base, limits(work.beta).huge, work)
        left[s] = not exact
        for q in range(first, p if exact else first):
            span = starts[q] - b, ends[q] - b
            out[q] = _span_probability(sequence.transitions, span, own, labels[b:e], inside, work, room)


@inlined
def _span_probability(
    transitions: Floats,
    span: tuple[int, int],
    states: Ints,
    labels: Ints,
    inside: Bools,
    work: SequenceArrays,
    room: Room,
) -> float:
    """Return the probability of a span, the tokens first..after-1.

    In float64, with m_t(i, j) = M(i, j) e_t(j) c_t and sums over states of labels that do not go on with the span, of
    the labels of the span, and of labels that do not go on with it::

        sum_i alpha_{first-1}(i) m(i, s_first) * product_t m(s_{t-1}, s_t) * sum_j m(s_{after-1}, j) beta_after(j)
    """
    potentials, alpha, beta, scale, forward, backward, _ = work
    n, (first, after), length, plain = transitions.shape[1], span, labels.shape[0], states.shape[0] == 0
    shares, places, count, total = room.shares, room.places, 0, 0.0
    # states before the span, of labels whose own span it does not go on with
    for i in range(n if first > 0 else 0):
        if not inside[i if plain else states[first - 1, i], labels[first]]:
            shares[(first - 1) % 2, count], places[(first - 1) % 2, count] = alpha[first - 1, i], i
            count += 1
    # the tokens of the span, in states of its labels alone, and the token after it, in those that do not go on with it
    for t in range(first, min(after + 1, length)):
        if transitions.shape[0] > 1 and t > 0:
            transition_potentials(transitions[t], forward, backward)
        label, within = labels[min(t, after - 1)], t < after
        old_count, count, total = count, 0, 0.0
        for j in range(label if plain and within else 0, label + 1 if plain and within else n):
            own, share = j if plain else states[t, j], 0.0
            if (own == label) if within else not inside[label, own]:
                for c in range(old_count):
                    share += shares[(t - 1) % 2, c] * backward[j, places[(t - 1) % 2, c]]
                share = alpha[0, j] if t == 0 else share * potentials[t, j] * scale[t]
                shares[t % 2, count], places[t % 2, count] = share, j
                count += 1
                total += share * beta[t, j]
    return total
