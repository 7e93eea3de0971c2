"""The posterior of a label sequence as a Markov chain: entropy, samples, and labellings of maximum expected F.

One backward recursion in log space gives the scores of all that comes after a token, and with them the chain::

    v_t(j) = e_t(j) + beta_t(j) - z_t                                  z_t = max_j of the same
    beta_{t-1}(i) = log sum_j exp(a_t(i, j) + v_t(j))
    P(y_t = j | y_{t-1} = i, x) = exp(a_t(i, j) + v_t(j) - beta_{t-1}(i))
    P(y_0 = j | x) = exp(v_0(j))                                       z_0 = log sum_j exp(e_0(j) + beta_0(j))

with the scores e_t of labels (start scores included) and a_t of steps, and beta of the last token the end scores; log
Z is the sum of z_t. Probabilities are products and sums of numbers that are not negative, so that those far below the
rounding error of one are exact too. The sum over j is one of products, exp(a_t(i, j) - max_k a_t(i, k)) times
exp(v_t(j)), which takes L exponentials where positions share the steps; a row i whose sum of products is below `FAINT`
is done again term by term. So scores of any size, sequences of any length, and minus infinity are safe. All arithmetic
is float64.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..types import Bools, Floats, Ints, Offsets, Scores
from .jit import inlined, internal, kernel
from .math import largest, log_sum, row_potentials

FAINT = 1e-200
"""A sum of products above this has lost less than 1e-100 of itself to terms that are rounded to zero."""
NEGLIGIBLE = 1e-10
"""A span of a smaller probability counts as one of probability zero."""


class Chain(NamedTuple):
    """The posterior of N sequences as a Markov chain; made by `make_chain`.

    transitions (Floats): [1 or T, L, L], the scores a_t.
    offsets (Offsets): [N + 1].
    ahead, beta (Floats): v_t and beta_t, [T, L].
    log_z (Floats): [N], minus infinity where a sequence has no labelling, about which nothing more may be asked; zero
        where it is empty.
    """

    transitions: Floats
    offsets: Offsets
    ahead: Floats
    beta: Floats
    log_z: Floats


class SpanChain(NamedTuple):
    """How spans begin, end and go on; made by `make_span_chain`.

    apart (Floats): [L, L], 1 where the second label does not go on with the span of the first, else 0.
    links (Ints): [K, 2], the pairs of labels where it does.
    opens (Floats): [T, L], P(y_t = j, and the label before is not of the same span).
    closes (Floats): [T, L], P(the label after is not of the same span | y_t = i).
    goes_on (Floats): [T, K], P(y_t = j | y_{t-1} = i) of the links.
    """

    apart: Floats
    links: Ints
    opens: Floats
    closes: Floats
    goes_on: Floats


class Table(NamedTuple):
    """What the best labellings of the tokens up to one are worth, by its label, [T, L] each.

    begin (Floats): Where another span may begin at it.
    through (Floats): Where a span goes on through it that counts as improbable.
    finish (Floats): Where a span may end there.
    origins (Ints): [T, L, 2] where one ends whose probability counts, its first token and its first label, else -1.
    """

    begin: Floats
    through: Floats
    finish: Floats
    origins: Ints


def make_chain(scores: Scores, offsets: Offsets) -> Chain:
    """Return the chain of some sequences, whose scores may have any float type."""
    exact = Scores(*(array.astype(np.float64, copy=False) for array in scores))
    ahead, beta = np.empty_like(exact.emissions), np.empty_like(exact.emissions)
    chain = Chain(exact.transitions, offsets, ahead, beta, np.zeros(len(offsets) - 1))
    backward(exact, chain)
    return chain


def make_span_chain(chain: Chain, inside: Bools) -> SpanChain:
    """Return how the spans of a chain behave; `inside` [L, L] is that of `Constraints`."""
    opens, closes = np.empty_like(chain.ahead), np.empty_like(chain.ahead)
    links = np.argwhere(inside).astype(np.int32, order="C")
    spans = SpanChain((~inside).astype(np.float64), links, opens, closes, np.empty((len(opens), len(links))))
    follow_spans(chain, spans)
    return spans


@inlined
def _steps(transitions: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Return powers, tops, weights and conditionals of a step; see `_fill_conditionals`."""
    n = transitions.shape[1]
    powers, tops = np.empty((n, n)), np.empty(n)
    if transitions.shape[0] == 1:
        row_potentials(transitions[0], powers, tops)
    return powers, tops, np.empty(n), np.empty((n, n))


@kernel
def backward(scores: Scores, chain: Chain) -> None:
    """Fill ahead, beta and log_z of a chain."""
    emissions, transitions, start, end = scores
    _, offsets, ahead, beta, log_z = chain
    n, shared = start.shape[0], transitions.shape[0] == 1
    powers, tops, weights, terms = _steps(transitions)
    for s in range(offsets.shape[0] - 1):
        log_z[s] = 0.0
        for t in range(offsets[s + 1] - 1, offsets[s] - 1, -1):
            here, first = ahead[t], t == offsets[s]
            for k in range(n):
                if t == offsets[s + 1] - 1:
                    beta[t, k] = end[k]
                here[k] = emissions[t, k] + beta[t, k]
                if first:
                    here[k] += start[k]
            # z_t: the largest, at the first token the log sum
            top = log_sum(here) if first else largest(here)
            log_z[s] += top
            if top == -np.inf:
                break
            for k in range(n):
                here[k] -= top
                weights[k] = np.exp(here[k])
            if first:
                break
            if not shared:
                row_potentials(transitions[t], powers, tops)
            for i in range(n):
                row, total = powers[i], 0.0
                for k in range(n):
                    total += row[k] * weights[k]
                if total > FAINT:
                    beta[t - 1, i] = tops[i] + np.log(total)
                else:
                    for k in range(n):
                        terms[0, k] = transitions[0 if shared else t, i, k] + here[k]
                    beta[t - 1, i] = log_sum(terms[0])


@internal
def _fill_conditionals(
    transitions: Floats, ahead: Floats, beta: Floats, t: int, powers: Floats, tops: Floats, weights: Floats, out: Floats
) -> None:
    """Write P(y_t = j | y_{t-1} = i) to out [L, L], a row of zeros where i is impossible.

    powers [L, L] and tops [L] hold the potentials of shared transitions; otherwise they are work space, as weights [L].
    """
    n, s = weights.shape[0], 0 if transitions.shape[0] == 1 else t
    if transitions.shape[0] > 1:
        row_potentials(transitions[t], powers, tops)
    for k in range(n):
        weights[k] = np.exp(ahead[t, k])
    for i in range(n):
        before, share = beta[t - 1, i], 0.0
        if before > -np.inf:
            share = np.exp(tops[i] - before)  # one over the row's sum of products
        if share * FAINT < 1:
            for j in range(n):
                out[i, j] = powers[i, j] * weights[j] * share
        else:
            for j in range(n):
                out[i, j] = np.exp(transitions[s, i, j] + ahead[t, j] - before)


def log_probabilities(chain: Chain, labels: Ints, out: Floats) -> None:
    """Write log P(labels | x) of each sequence to out [N]: minus infinity where it is zero, zero where it is empty."""
    transitions, offsets, ahead, beta, _ = chain
    owner = np.repeat(np.arange(len(out)), np.diff(offsets))
    inner = np.flatnonzero(np.diff(owner) == 0) + 1  # tokens after another one of their sequence
    before = labels[inner - 1]
    steps = transitions[0 if len(transitions) == 1 else inner, before, labels[inner]]
    onward, possible = beta[inner - 1, before], beta[inner - 1, before] > -np.inf
    terms = ahead[np.arange(len(labels)), labels]
    terms[inner] += np.subtract(steps, onward, out=np.full(len(inner), -np.inf), where=possible)
    out[:] = np.bincount(owner, terms, len(out))


@kernel
def entropies(chain: Chain, out: Floats) -> None:
    """Write the entropy of each sequence's labellings to out [N], in nats.

    H_{t-1}(i) = sum_j P(j | i) (H_t(j) - log P(j | i)) (Hernando, Crespi & Cybenko 2005).
    """
    transitions, offsets, ahead, beta, _ = chain
    n = ahead.shape[1]
    powers, tops, weights, rows = _steps(transitions)
    after, here = np.empty(n), np.empty(n)
    for s in range(offsets.shape[0] - 1):
        out[s] = 0.0
        for k in range(n):
            after[k] = 0.0
        for t in range(offsets[s + 1] - 1, offsets[s], -1):
            _fill_conditionals(transitions, ahead, beta, t, powers, tops, weights, rows)
            step = transitions[0 if transitions.shape[0] == 1 else t]
            for i in range(n):
                total = 0.0
                for j in range(n):
                    if rows[i, j] > 0:
                        total += rows[i, j] * (after[j] + beta[t - 1, i] - step[i, j] - ahead[t, j])
                here[i] = total
            after, here = here, after
        if offsets[s + 1] > offsets[s]:
            for k in range(n):
                if ahead[offsets[s], k] > -np.inf:
                    out[s] += np.exp(ahead[offsets[s], k]) * (after[k] - ahead[offsets[s], k])


@kernel
def sample(chain: Chain, uniforms: Floats, out: Ints) -> None:
    """Write independent labellings to out [S, T], drawn with the numbers uniforms [T, S] from [0, 1)."""
    transitions, offsets, ahead, beta, _ = chain
    n = ahead.shape[1]
    powers, tops, weights, rows = _steps(transitions)
    for s in range(offsets.shape[0] - 1):
        for t in range(offsets[s], offsets[s + 1]):
            if t == offsets[s]:
                for k in range(n):
                    rows[0, k] = np.exp(ahead[t, k])
            else:
                _fill_conditionals(transitions, ahead, beta, t, powers, tops, weights, rows)
            for c in range(out.shape[0]):
                row = rows[0 if t == offsets[s] else out[c, t - 1]]
                left = uniforms[t, c]
                for k in range(n):
                    if row[k] > 0:  # never a label of probability zero, whatever rounding does
                        out[c, t] = k
                        left -= row[k]
                        if left < 0:
                            break


@kernel
def follow_spans(chain: Chain, spans: SpanChain) -> None:
    """Fill the last three of a `SpanChain`."""
    transitions, offsets, ahead, beta, log_z = chain
    apart, links, opens, closes, goes_on = spans
    n = ahead.shape[1]
    powers, tops, weights, rows = _steps(transitions)
    here, before = np.empty(n), np.empty(n)
    for s in range(offsets.shape[0] - 1):
        if log_z[s] == -np.inf:
            continue
        for t in range(offsets[s], offsets[s + 1]):
            starting = opens[t]
            if t == offsets[s]:
                for k in range(n):
                    starting[k] = np.exp(ahead[t, k])
            else:
                # the steps from one span to another: what ends before t, and what begins there
                _fill_conditionals(transitions, ahead, beta, t, powers, tops, weights, rows)
                for k in range(n):
                    starting[k] = 0.0
                for i in range(n):
                    total, mass, row, mask = 0.0, before[i], rows[i], apart[i]
                    for j in range(n):
                        share = row[j] * mask[j]
                        total += share
                        starting[j] += mass * share
                    closes[t - 1, i] = total
            for k in range(n):
                closes[t, k] = 1.0
                here[k] = starting[k]
            for k in range(links.shape[0] if t > offsets[s] else 0):  # the steps within one
                i, j = links[k, 0], links[k, 1]
                goes_on[t, k] = rows[i, j]
                here[j] += before[i] * rows[i, j]
            here, before = before, here


def best_spans(chain: Chain, spans: SpanChain, outside: Bools, gain: float, cost: float) -> Ints:
    """Return the labels [T] whose spans have the largest sum of ``gain * P(span | x) - cost``.

    Labels `outside` [L] are in no span.  Scores of minus infinity forbid.  Every sequence must have a labelling,
    see `Chain.log_z`.
    """
    labels, values = np.zeros(len(chain.ahead), np.int32), np.empty((3, *chain.ahead.shape))
    table = Table(values[0], values[1], values[2], np.full((*chain.ahead.shape, 2), -1, np.int32))
    search(chain, spans, outside, gain, cost, table, labels)
    return labels


@kernel
def search(
    chain: Chain, spans: SpanChain, outside: Bools, gain: float, cost: float, table: Table, labels: Ints
) -> None:
    """Do the work of `best_spans`.

    For each first token and label, the most probable paths of the span's labels are followed to every last token and
    label, as long as they are not negligible.  Spans that are count as having the probability zero, so that there is
    a labelling wherever one is possible.  Where each span could be left out, those that cost more than they gain are
    negligible too, which leaves few.
    """
    transitions, offsets, ahead, _, _ = chain
    apart, links, finish, n = spans.apart, spans.links, table.finish, ahead.shape[1]
    # the links from label i are those from first_link[i] to first_link[i + 1]
    first_link = np.zeros(n + 1, np.int64)
    for k in range(links.shape[0]):
        first_link[links[k, 0] + 1] = k + 1
    for i in range(n):
        first_link[i + 1] = max(first_link[i + 1], first_link[i])
    follows = np.empty((n, n))
    filler = -1
    if transitions.shape[0] == 1:
        _fill_follows(transitions[0], apart, follows)
        filler = _filler(transitions[0], outside, follows)
    for s in range(offsets.shape[0] - 1):
        b, e = offsets[s], offsets[s + 1]
        floor = NEGLIGIBLE
        if filler >= 0:
            floor = max(floor, cost / gain * (1 - 1e-9))
        for t in range(b, e):
            for j in range(n):
                finish[t, j] = -np.inf
            if filler >= 0 and ahead[t, filler] == -np.inf:
                floor = NEGLIGIBLE
        if e > b:
            _fill_table(chain, spans, outside, gain, cost, b, e, floor, follows, first_link, table)
            _trace_back(transitions, b, e, spans, outside, cost, table, labels)


@inlined
def _fill_table(
    chain: Chain, spans: SpanChain, outside: Bools, gain: float, cost: float, b: int, e: int, floor: float,
    follows: Floats, first_link: Offsets, table: Table,
) -> None:  # fmt: skip
    """Fill the table for the sequence of the tokens b..e-1; finish is minus infinity before."""
    # one long function: parts that take these tuples at each token would count references to all arrays
    transitions, _, ahead, _, _ = chain
    apart, links, opens, closes, goes_on = spans
    begin, through, finish, origins = table
    n, shared = ahead.shape[1], transitions.shape[0] == 1
    # labels now and at the next token, and the probabilities of the best ways to them, zero for the other labels
    now, then, mass, longer = np.empty(n, np.int64), np.empty(n, np.int64), np.zeros(n), np.zeros(n)
    for t in range(b, e):
        # what may begin here, or go on without counting
        for j in range(n):
            begin[t, j] = 0.0 if t == b else -np.inf
        if not shared:
            _fill_follows(transitions[t], apart, follows)
        for i in range(n if t > b else 0):
            value, row, here = finish[t - 1, i], follows[i], begin[t]
            if value > -np.inf:
                for j in range(n):
                    here[j] = max(here[j], value + row[j])
        for j in range(n):
            if ahead[t, j] == -np.inf:  # forbidden, or nothing may follow
                begin[t, j] = -np.inf
            through[t, j] = -np.inf if outside[j] else begin[t, j] - cost
        for k in range(links.shape[0] if t > b else 0):
            i, j = links[k, 0], links[k, 1]
            if transitions[0 if shared else t, i, j] > -np.inf and ahead[t, j] > -np.inf:
                through[t, j] = max(through[t, j], through[t - 1, i])
        for j in range(n):
            value = begin[t, j] if outside[j] else through[t, j]
            if value > finish[t, j]:
                finish[t, j] = value
                origins[t, j, 0] = -1
        # the spans that begin here and whose probability counts, to where they end
        for first in range(n):
            if outside[first] or begin[t, first] == -np.inf or not opens[t, first] > floor:
                continue
            mass[first], now[0], count, last = opens[t, first], first, 1, t
            while count > 0:
                for place in range(count):
                    j = now[place]
                    value = begin[t, first] + gain * mass[j] * closes[last, j] - cost
                    if value > finish[last, j]:
                        finish[last, j] = value
                        origins[last, j, 0] = t
                        origins[last, j, 1] = first
                last, found = last + 1, 0
                for place in range(count):
                    i = now[place]
                    for k in range(first_link[i], first_link[i + 1] if last < e else 0):
                        j = links[k, 1]
                        product = mass[i] * goes_on[last, k]
                        if product > floor and product > longer[j]:
                            if longer[j] == 0:
                                then[found] = j
                                found += 1
                            longer[j] = product
                    mass[i] = 0.0
                mass, longer, now, then, count = longer, mass, then, now, found


@inlined
def _fill_follows(step: Floats, apart: Floats, follows: Floats) -> None:
    """Write zero to follows [L, L] where one span may end and another begin, minus infinity elsewhere."""
    for i in range(step.shape[0]):
        for j in range(step.shape[0]):
            follows[i, j] = 0.0 if apart[i, j] > 0 and step[i, j] > -np.inf else -np.inf


@inlined
def _filler(step: Floats, outside: Bools, follows: Floats) -> int:
    """Return a label outside that may stand in place of all labels of any span, -1 where there is none."""
    n = step.shape[0]
    found = -1
    for filler in range(n):
        fits = outside[filler] and follows[filler, filler] == 0
        for i in range(n):
            for j in range(n):
                if follows[i, j] == 0 and not outside[j] and follows[i, filler] < 0:
                    fits = False
                if follows[i, j] == 0 and not outside[i] and follows[filler, j] < 0:
                    fits = False
        if fits and found < 0:
            found = filler
    return found


@inlined
def _trace_back(
    transitions: Floats, b: int, e: int, spans: SpanChain, outside: Bools, cost: float, table: Table, labels: Ints
) -> None:
    """Write the labels of the best value of the sequence of the tokens b..e-1, last one first."""
    begin, through, finish, origins = table
    apart, links, _, _, goes_on = spans
    n, label, shared = outside.shape[0], 0, transitions.shape[0] == 1
    for k in range(n):
        if finish[e - 1, k] > finish[e - 1, label]:
            label = k
    t = e - 1
    while True:
        labels[t] = label
        if origins[t, label, 0] >= 0:
            last, t, label = t, origins[t, label, 0], origins[t, label, 1]
            _span_labels(links, goes_on, t, last, label, n, labels)
        elif not outside[label]:
            while through[t, label] != begin[t, label] - cost:
                before = 0
                for k in range(links.shape[0]):
                    i, j = links[k, 0], links[k, 1]
                    possible = j == label and transitions[0 if shared else t, i, j] > -np.inf
                    if possible and through[t - 1, i] == through[t, label]:
                        before = i
                label = before
                t -= 1
                labels[t] = label
        if t == b:
            break
        before = 0
        for i in range(n):
            possible = transitions[0 if shared else t, i, label] > -np.inf and apart[i, label] > 0
            if possible and finish[t - 1, i] == begin[t, label]:
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
