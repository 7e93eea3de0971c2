"""The posterior of label sequences as Markov chains, in float64 and in NumPy: every query that need not be fast.

A backward recursion gives the scores of all that comes after a token, and with them the chain::

    v_t(j) = e_t(j) + beta_t(j) - z_t                                  z_t = max_j of the same
    beta_{t-1}(i) = log sum_j exp(a_t(i, j) + v_t(j))
    P(y_t = j | y_{t-1} = i, x) = exp(a_t(i, j) + v_t(j) - beta_{t-1}(i))
    P(y_0 = j | x) = exp(v_0(j))                                       z_0 = log sum_j exp(e_0(j) + beta_0(j))

with the scores e_t of labels (start scores included) and a_t of steps, and beta of the last token the end scores; log
Z is the sum of z_t.  Answers are products and sums of probabilities, which are not negative, so that those far below
the rounding error of one are exact too.  Scores of any size, sequences of any length, and minus infinity are safe.
All sequences take their first step together, then their second, and so on: a step is a few operations on arrays.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..types import Bools, Floats, Ints, Offsets, Scores

FAINT = 1e-200
"""A sum of products above this has lost less than 1e-100 of itself to terms that are rounded to zero."""


class Chain(NamedTuple):
    """The posterior of N sequences as a Markov chain; made by `make_chain`.

    transitions (Floats): [1 or T, L, L], the scores a_t.
    offsets (Offsets): [N + 1].
    positions (list): The tokens at each position of the sequences, those of longer sequences first.
    ahead, beta (Floats): v_t and beta_t, [T, L].
    log_z (Floats): [N], minus infinity where a sequence has no labelling, about which nothing more may be asked but
        marginals, which are zero; zero where it is empty.
    """

    transitions: Floats
    offsets: Offsets
    positions: list[Offsets]
    ahead: Floats
    beta: Floats
    log_z: Floats

    @property
    def owners(self) -> Offsets:
        """[T] the sequence of each token."""
        return np.repeat(np.arange(len(self.log_z)), np.diff(self.offsets))

    def edges(self) -> tuple[Offsets, Offsets]:
        """Return the first and the last token of each sequence that is not empty."""
        some = np.diff(self.offsets) > 0
        return self.offsets[:-1][some], self.offsets[1:][some] - 1

    def scores_of_steps(self, tokens: Offsets) -> Floats:
        """Return the scores [1 or n, L, L] of the steps to some tokens."""
        return self.transitions if len(self.transitions) == 1 else self.transitions[tokens]

    def steps(self, tokens: Offsets) -> Floats:
        """Return P(y_t = j | y_{t-1} = i) for the steps to some tokens [n, L, L], zeros where i is impossible."""
        scores, ahead, before = self.scores_of_steps(tokens), self.ahead[tokens], _negative(self.beta[tokens - 1])
        if len(scores) != 1:
            return np.exp(scores + ahead[:, None] + before[:, :, None])
        powers, tops = _potentials(scores[0].T)
        shares = np.exp(np.minimum(tops + before, -np.log(FAINT)))  # one over each row's sum of products
        found: Floats = powers.T * np.exp(ahead)[:, None] * shares[:, :, None]
        faint, rows = np.nonzero(tops + before >= -np.log(FAINT))
        found[faint, rows] = np.exp(scores[0, rows] + ahead[faint] + before[faint, rows, None])
        return found

    def log_marginals(self) -> Floats:
        """Return log P(y_t = k | x) [T, L]."""
        out = np.full_like(self.ahead, -np.inf)
        with np.errstate(all="ignore"):
            for t, tokens in enumerate(self.positions):
                out[tokens] = self.ahead[tokens]
                if t > 0:
                    before = out[tokens - 1] + _negative(self.beta[tokens - 1])
                    out[tokens] += _log_sums(before, self.scores_of_steps(tokens))
        return out


def make_chain(scores: Scores, offsets: Offsets) -> Chain:
    """Return the chain of some sequences, whose scores may have any float type."""
    emissions, transitions, start, end = (array.astype(np.float64, copy=False) for array in scores)
    lengths = np.diff(offsets)
    order = np.argsort(-lengths, kind="stable")
    running = np.searchsorted(-lengths[order], -np.arange(lengths.max(initial=0)))  # at each position
    positions = [offsets[order[:count]] + t for t, count in enumerate(running.tolist())]
    ahead, beta, tops = np.empty_like(emissions), np.empty_like(emissions), np.zeros((len(emissions), 1))
    chain = Chain(transitions, offsets, positions, ahead, beta, np.zeros(len(lengths)))
    beta[chain.edges()[1]] = end
    with np.errstate(all="ignore"):
        for t in range(len(positions) - 1, -1, -1):
            tokens = positions[t]
            here = emissions[tokens] + beta[tokens]
            if t == 0:
                here += start
            tops[tokens] = _log_sum(here, 1) if t == 0 else here.max(1, keepdims=True)
            here -= _finite(tops[tokens])
            ahead[tokens] = here
            if t > 0:
                beta[tokens - 1] = _log_sums(here, chain.scores_of_steps(tokens).swapaxes(1, 2))
    log_z = _sums(chain, tops[:, 0])
    chain.log_z[:] = np.where(np.isfinite(log_z), log_z, -np.inf)  # sums of scores may be out of range
    return chain


def _finite(values: Floats) -> Floats:
    """Return the values, and zero for minus infinity."""
    return np.where(values == -np.inf, 0, values)


def _negative(values: Floats) -> Floats:
    """Return minus the values, and minus infinity for minus infinity, so that what is impossible stays so."""
    return np.where(values == -np.inf, -np.inf, -values)


def _log_sum(values: Floats, axis: int) -> Floats:
    """Return ``log sum exp(values)`` over an axis, which is kept; minus infinity for no possible one."""
    tops = _finite(values.max(axis, keepdims=True))
    found: Floats = tops + np.log(np.exp(values - tops).sum(axis, keepdims=True))
    return found


def _potentials(step: Floats) -> tuple[Floats, Floats]:
    """Return exp(step - top) [L, L] and the top [L] of each column, 0 where all is impossible."""
    tops = _finite(step.max(0))
    return np.exp(step - tops), tops


def _log_sums(before: Floats, steps: Floats) -> Floats:
    """Return ``log sum_i exp(before(i) + step(i, j))`` [n, L] for before [n, L] and steps [1 or n, L, L].

    With one step for all it is a product of matrices; sums that it cannot represent are done term by term.
    """
    if len(steps) != 1:
        return _log_sum(before[:, :, None] + steps, 1)[:, 0]
    (powers, tops), highest = _potentials(steps[0]), _finite(before.max(1, keepdims=True))
    sums = np.exp(before - highest) @ powers
    found: Floats = highest + tops + np.log(sums)
    faint, labels = np.nonzero(~(sums > FAINT))
    found[faint, labels] = _log_sum(before[faint] + steps[0].T[labels], 1)[:, 0]
    return found


def span_steps(chain: Chain, inside: Bools, links: Ints) -> tuple[Bools, Floats, Floats, Floats]:
    """Return the arrays allowed, opens, closes and goes_on of `spans.SpanChain`."""
    marginals = np.exp(chain.log_marginals())
    opens, closes, goes_on = marginals.copy(), np.ones_like(marginals), np.zeros((len(marginals), len(links)))
    for tokens, steps, pairs in _pairs(chain, marginals):
        # the steps from one span to another: what begins here, and what ends before
        opens[tokens] = (pairs * ~inside).sum(1)
        closes[tokens - 1] = (steps * ~inside).sum(2)
        goes_on[tokens] = steps[:, links[:, 0], links[:, 1]]
    return chain.ahead > -np.inf, opens, closes, goes_on


def _pairs(chain: Chain, marginals: Floats, reverse: bool = False) -> Iterator[tuple[Offsets, Floats, Floats]]:
    """Yield for each position but the first its tokens, the steps to them, and P(y_{t-1} = i, y_t = j) [n, L, L]."""
    with np.errstate(all="ignore"):
        for tokens in chain.positions[:0:-1] if reverse else chain.positions[1:]:
            steps = chain.steps(tokens)
            yield tokens, steps, marginals[tokens - 1][:, :, None] * steps


def log_probabilities(chain: Chain, labels: Ints) -> NDArray[np.float64]:
    """Return log P(labels | x) of each sequence [N]: minus infinity where it is zero, zero where it is empty."""
    owners = chain.owners
    inner = np.flatnonzero(np.diff(owners) == 0) + 1  # tokens after another one of their sequence
    before = labels[inner - 1]
    terms = chain.ahead[np.arange(len(labels)), labels]
    steps = chain.transitions[0 if len(chain.transitions) == 1 else inner, before, labels[inner]]
    terms[inner] += steps + _negative(chain.beta[inner - 1, before])
    return _sums(chain, terms)


def _sums(chain: Chain, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sum of the values [T] of each sequence [N]."""
    return np.bincount(chain.owners, values, len(chain.log_z)).astype(np.float64, copy=False)


def entropies(chain: Chain) -> NDArray[np.float64]:
    """Return the entropy of each sequence's labellings [N], in nats: that of each label given the one before."""
    marginals, out = np.exp(chain.log_marginals()), np.zeros(len(chain.ahead))
    first, _ = chain.edges()
    out[first] = -_p_log_p(marginals[first]).sum(1)
    for tokens, steps, _ in _pairs(chain, marginals):
        out[tokens] = -(marginals[tokens - 1] * _p_log_p(steps).sum(2)).sum(1)
    return _sums(chain, out)


def _p_log_p(p: Floats) -> Floats:
    return p * np.log(np.maximum(p, 1e-300))


def sample(chain: Chain, uniforms: Floats) -> Ints:
    """Return independent labellings [S, T], drawn with the numbers uniforms [T, S] from [0, 1)."""
    out = np.empty(uniforms.shape, np.int32)
    for t, tokens in enumerate(chain.positions):
        shares = chain.ahead[tokens][:, None]
        if t > 0:
            before, place = out[tokens - 1], (tokens - 1)[:, None]
            scores = chain.transitions[0 if len(chain.transitions) == 1 else tokens[:, None], before]
            shares = shares + scores + _negative(chain.beta[place, before])[:, :, None]
        shares = np.exp(shares)
        sums, wanted = np.cumsum(shares, 2), uniforms[tokens][:, :, None]
        # never a label of probability zero, whatever rounding does
        last = shares.shape[2] - 1 - (shares[:, :, ::-1] > 0).argmax(2)
        out[tokens] = np.minimum((sums <= wanted).sum(2), last)
    return np.ascontiguousarray(out.T)


def span_probabilities(
    chain: Chain, states: Ints, labels: Ints, starts: Offsets, ends: Offsets, inside: Bools
) -> NDArray[np.float64]:
    """Return the probabilities of spans [S] in a chain over states; other arguments as of `spans.span_probabilities`.

    states [T, L]: The label of each state.  The first label of a span continues none.
    """
    mass, closed = np.exp(chain.log_marginals())[starts], np.isin(ends, chain.offsets[1:])
    mass *= states[starts] == labels[starts][:, None]
    for length in range(1, int((ends - starts).max(initial=0)) + 1):
        going = np.flatnonzero(starts + length < ends + ~closed)
        tokens = starts[going] + length
        fits = states[tokens] == labels[tokens][:, None]
        after = tokens == ends[going]  # the token after a span belongs to another one
        fits[after] = ~inside[labels[tokens[after] - 1][:, None], states[tokens[after]]]
        mass[going] = np.einsum("ni,nij->nj", mass[going], chain.steps(tokens)) * fits
    return mass.sum(1)


def add_counts(chain: Chain, factors: Floats, grad: Scores) -> None:
    """Add the expected counts of each sequence, times a factor [N], to `grad`."""
    marginals = np.exp(chain.log_marginals()) * factors[chain.owners][:, None]
    _add_labels(chain, marginals, grad)
    for tokens, _, pairs in _pairs(chain, marginals):
        _add_pairs(tokens, pairs, grad)


def _add_labels(chain: Chain, counts: Floats, grad: Scores) -> None:
    """Add counts [T, L] to the gradients of the scores that labels have."""
    first, last = chain.edges()
    grad.emissions[:] += counts
    grad.start[:] += counts[first].sum(0)
    grad.end[:] += counts[last].sum(0)


def _add_pairs(tokens: Offsets, pairs: Floats, grad: Scores) -> None:
    if len(grad.transitions) == 1:
        grad.transitions[0] += pairs.sum(0)
    elif len(grad.transitions):
        grad.transitions[tokens] += pairs


def covariances(chain: Chain, own: Floats, entropy: bool, weights: Floats, grad: Scores) -> NDArray[np.float64]:
    """Return E[S], S(y) = sum_t n_t(y_t), of each sequence [N], and add weights [N] times its gradient to `grad`.

    own [T, L]: n.  If `entropy`, n and the steps' part of S are minus the scores, and E[S] lacks log Z.
    The recursions add up the means of the parts of S before and after a token, given its label.
    """
    log_p, own = chain.log_marginals(), own.copy()
    p = np.exp(log_p)
    past, future, means = own.copy(), np.zeros_like(own), np.zeros((len(own), 1))

    def edges(tokens: Offsets) -> Floats:
        return -_finite(chain.scores_of_steps(tokens)) if entropy else np.zeros((1, 1, 1))

    for t, tokens in enumerate(chain.positions):
        if t > 0:
            past[tokens] += (_back(chain, log_p, tokens) * (past[tokens - 1][:, :, None] + edges(tokens))).sum(1)
        # each position's part has its mean taken out, so that rounding does not add up
        means[tokens] = (p[tokens] * past[tokens]).sum(1, keepdims=True) / np.maximum(
            p[tokens].sum(1, keepdims=True), FAINT
        )
        past[tokens] -= means[tokens]
        own[tokens] -= means[tokens]
    factors = weights[chain.owners][:, None]
    for tokens, steps, pairs in _pairs(chain, p * factors, reverse=True):
        rest = (own[tokens] + future[tokens])[:, None] + edges(tokens)
        future[tokens - 1] = (steps * rest).sum(2)
        _add_pairs(tokens, pairs * (past[tokens - 1][:, :, None] + rest), grad)
    _add_labels(chain, factors * p * (past + future), grad)
    return _sums(chain, means[:, 0])


def pointwise(chain: Chain, log_p: Floats, gold: Ints, slopes: Floats, grad: Scores) -> None:
    """Add the gradient of ``sum_t slope_t * -log P(gold_t | x)``; slopes [T] are zero where a label does not count.

    That is the sum of the slopes times expected counts, less the expected counts given each gold label alone.
    log_p [T, L] are the log marginals.
    """
    own = np.zeros_like(log_p)
    own[np.arange(len(gold)), gold] = slopes
    # expected labels times the sum, less those given gold labels up to a token; and those given gold labels from it on
    sums = np.bincount(chain.owners, slopes, len(chain.log_z))[chain.owners]
    rest, before = sums[:, None] * np.exp(log_p) - own, own.copy()
    for tokens, _, pairs in _pairs(chain, rest):
        rest[tokens] = pairs.sum(1) - own[tokens]
        _add_pairs(tokens, pairs, grad)
    for tokens in chain.positions[:0:-1]:
        pairs = before[tokens][:, None] * _back(chain, log_p, tokens)
        before[tokens - 1] += pairs.sum(2)
        _add_pairs(tokens, -pairs, grad)
    _add_labels(chain, rest + own - before, grad)


def _back(chain: Chain, log_p: Floats, tokens: Offsets) -> Floats:
    """Return P(y_{t-1} = i | y_t = j) [n, L, L] for some tokens; zeros where j is impossible."""
    with np.errstate(all="ignore"):
        before = log_p[tokens - 1] + _negative(chain.beta[tokens - 1])
        ahead = chain.ahead[tokens] + _negative(log_p[tokens])
        return np.exp(before[:, :, None] + chain.scores_of_steps(tokens) + ahead[:, None])
