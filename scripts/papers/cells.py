"""Designs over 220 cells, estimators of logistic models on them, and the limits of these by Sokolovska (2010).

An observation is a vector of 10 counts that sum to 3, 220 in all, so that expectations are sums over cells, and a
thousand fits are a few operations on arrays.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

WORDS, LENGTH, FLIPPED = 10, 3, 3
ORDINARY, WEIGHTED, SHIMODAIRA = "ordinary", "weighted by (4.18)", "weighted by q1/q0"
ESTIMATORS = (ORDINARY, WEIGHTED, SHIMODAIRA)

CELLS: Array = np.array(
    [np.bincount(words, minlength=WORDS) for words in itertools.combinations_with_replacement(range(WORDS), LENGTH)],
    np.float64,
)
"""[220, 10] all vectors of counts."""
PRODUCTS = np.einsum("ni,nj->nij", CELLS, CELLS).reshape(len(CELLS), -1)
"""[220, 100] x x' of each."""


class Design(NamedTuple):
    """A distribution of observations and labels over the 220 cells.

    train, q (NDArray): [220] probabilities of cells in training and in the target.
    eta (NDArray): [220] probability of label 1.
    """

    train: Array
    q: Array
    eta: Array

    def bayes(self) -> float:
        """Return the lowest possible probability of error."""
        return float(self.q @ np.minimum(self.eta, 1 - self.eta))


def make_design(bayes: float, skew: float, flipped: int = 0, *, shift: bool = False) -> Design:
    """Return a mixture of two multinomials, alpha1 = 0.5: five words are likely in class 1, the others in class 0.

    bayes (float): Bayes error, which sets how likely the words of the other class are.
    skew (float): Each word of a class is exp(-skew) times as likely as the one before; 0 makes them equal.
    flipped (int): The labels of so many of the most likely cells are exchanged.
    shift (bool): Whether training observations are uniform.
    """
    own = np.exp(-skew * np.arange(WORDS // 2))
    own /= own.sum()
    orders = np.array([math.factorial(LENGTH) / math.prod(math.factorial(int(n)) for n in cell) for cell in CELLS])

    def with_share(other: float) -> Design:
        beta1 = np.concatenate([(1 - other) * own, other * own])
        first, second = (orders * np.prod(beta**CELLS, axis=1) for beta in (beta1, np.roll(beta1, WORDS // 2)))
        q = (first + second) / 2
        return Design(q, q, first / (first + second))

    low, high = 1e-4, 0.5
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if with_share(middle).bayes() > bayes else (middle, high)
    train, q, eta = with_share(low)
    top = np.argsort(-q, kind="stable")[:flipped]
    eta[top] = 1 - eta[top]
    return Design(np.full(len(q), 1 / len(q)) if shift else train, q, eta)


DESIGNS = {
    "misspecified": make_design(0.017, 0.005, FLIPPED),
    "shift": make_design(0.017, 0.005, FLIPPED, shift=True),
    "well specified": make_design(0.063, 0.005),
}


def sigmoid(values: Array) -> Array:
    """Return 1 / (1 + exp(-v))."""
    return 0.5 * (1 + np.tanh(values / 2))


def fit(positives: Array, zeros: Array, rho: Array, start: Array) -> Array:
    """Return the parameters [R, 10] of R logistic regressions, by Newton's method with halved steps.

    positives, zeros (NDArray): [R, 220] weight of label 1 and of label 0 in each cell.
    rho (NDArray): [R] strength of the penalty rho ||theta||^2.
    start (NDArray): [10] where to begin.
    """

    def values(theta: Array, rows: Any) -> Array:
        margins = theta @ CELLS.T
        losses = positives[rows] * np.logaddexp(0, -margins) + zeros[rows] * np.logaddexp(0, margins)
        return losses.sum(axis=1) + rho[rows] * (theta**2).sum(axis=1)

    both, theta = positives + zeros, np.repeat(start[None], len(positives), axis=0)
    now, eye = values(theta, slice(None)), np.eye(WORDS)
    for _ in range(100):
        g = sigmoid(theta @ CELLS.T)
        slope = (both * g - positives) @ CELLS + 2 * rho[:, None] * theta
        curvature = (both * g * (1 - g)) @ PRODUCTS
        hessian = curvature.reshape(-1, WORDS, WORDS) + (2 * rho[:, None, None] + 1e-12) * eye
        step = np.linalg.solve(hessian, slope[..., None])[..., 0]
        after, size = theta - step, np.ones(len(theta))
        new = values(after, slice(None))
        for _ in range(30):
            worse = np.flatnonzero(new > now + 1e-13)
            if not len(worse):
                break
            size[worse] /= 2
            after[worse] = theta[worse] - size[worse, None] * step[worse]
            new[worse] = values(after[worse], worse)
        moved = np.abs(after - theta).max()
        theta, now = after, new
        if moved < 1e-8:
            break
    return theta


def weights_of(design: Design, counts: Array, estimator: str) -> Array:
    """Return the weight [R, 220] of each observation in a cell, of which there are counts [R, 220]."""
    if estimator == ORDINARY:
        return np.broadcast_to(1 / counts.sum(axis=1, keepdims=True), counts.shape)
    if estimator == WEIGHTED:
        return np.divide(design.q, counts, out=np.zeros_like(counts), where=counts > 0)
    return design.q / design.train / counts.sum(axis=1, keepdims=True)


def target_of(design: Design, estimator: str) -> Array:
    """Return the distribution [220] whose best parameters an estimator converges to."""
    return design.train if estimator == ORDINARY else design.q


class Theory(NamedTuple):
    """The limit of an estimator.

    theta (NDArray): [10] best parameters.
    risk (float): Their expected loss.
    squared, excess (float): Limits of n ||theta_n - theta||^2 and of n times the excess risk.
    error (float): Probability of error of the best parameters in the target.
    """

    theta: Array
    risk: float
    squared: float
    excess: float
    error: float


def risks(theta: Array, q: Array, eta: Array) -> Array:
    """Return the expected loss [R] of parameters [R, 10]."""
    margins = theta @ CELLS.T
    return (q * (eta * np.logaddexp(0, -margins) + (1 - eta) * np.logaddexp(0, margins))).sum(axis=1)


def errors(theta: Array, q: Array, eta: Array) -> Array:
    """Return the probability of error [R] of parameters [R, 10]."""
    return (q * np.where(theta @ CELLS.T > 0, 1 - eta, eta)).sum(axis=1)


def theory(design: Design, estimator: str, n: int = 0) -> Theory:
    """Return the limit by Theorem 4.1, Corollary 4.2 and Proposition 4.3 in the binary forms (4.32) to (4.34).

    n (int): For the estimator (4.18), the number of observations: expectations of 1 / n_x then take the place of their
        limits 1 / (n q0(x)), and cells without observations count as bias; 0 for the limit.
    """
    q, eta = target_of(design, estimator), design.eta
    theta = fit((q * eta)[None], (q * (1 - eta))[None], np.zeros(1), np.zeros(WORDS))[0]
    g, ratio, missing = sigmoid(CELLS @ theta), q / design.train, np.zeros(len(q))
    if n:
        inverse, missing = inverse_counts(design.train, n)
        ratio = n * q * inverse
    variance = eta * (1 - eta)
    if estimator != WEIGHTED:
        variance = variance + (eta - g) ** 2
    middle = ((q * ratio * variance) @ PRODUCTS).reshape(WORDS, WORDS)
    if n:
        lost = q * (g - eta)  # of the gradient, if a cell is missing
        middle += ((n * missing * (1 - missing) * lost**2) @ PRODUCTS).reshape(WORDS, WORDS)
        bias = (missing * lost) @ CELLS
        middle += n * np.outer(bias, bias)
    inverse_j = np.linalg.inv(((q * g * (1 - g)) @ PRODUCTS).reshape(WORDS, WORDS))
    best = theta[None]
    return Theory(
        theta,
        float(risks(best, q, eta)[0]),
        float(np.trace(inverse_j @ middle @ inverse_j)),
        float(np.trace(middle @ inverse_j)) / 2,
        float(errors(best, design.q, eta)[0]),
    )


def inverse_counts(probabilities: Array, n: int) -> tuple[Array, Array]:
    """Return E[1 / m; m > 0] and P(m = 0) for binomial counts m of n draws with these probabilities."""
    highest = min(n, int(n * probabilities.max() + 12 * math.sqrt(n * probabilities.max())) + 30)
    m = np.arange(highest + 1)
    choices = np.concatenate([[0.0], np.cumsum(np.log(n - m[:-1]) - np.log(m[1:]))])
    logs = choices + m * np.log(probabilities)[:, None] + (n - m) * np.log1p(-probabilities)[:, None]
    mass = np.exp(logs)
    return mass[:, 1:] @ (1 / m[1:]), mass[:, 0]


def draw(rng: np.random.Generator, design: Design, n: int, repetitions: int) -> tuple[Array, Array]:
    """Return how often label 1 and label 0 occur in each cell [R, 220], in samples of n observations."""
    cells = np.concatenate([design.train * design.eta, design.train * (1 - design.eta)])
    counts = rng.multinomial(n, cells / cells.sum(), size=repetitions).astype(np.float64)
    return counts[:, : len(CELLS)], counts[:, len(CELLS) :]


def estimates(design: Design, sample: tuple[Array, Array], estimator: str, strength: float, start: Array) -> Array:
    """Return the parameters [R, 10] that an estimator finds in samples.

    strength (float): Of the penalty, times n; a smaller one where the weights of the sample have a smaller sum.
    """
    weight = weights_of(design, sample[0] + sample[1], estimator)
    positives, zeros = weight * sample[0], weight * sample[1]
    n = float(sample[0][0].sum() + sample[1][0].sum())
    return fit(positives, zeros, strength / n * (positives + zeros).sum(axis=1), start)
