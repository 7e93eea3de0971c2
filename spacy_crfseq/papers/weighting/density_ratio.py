"""Weights by a density ratio: a logistic regression that tells texts of the target from labelled ones.

Shimodaira (2000), "Improving predictive inference under covariate shift by weighting the log-likelihood function": the
weight of x is (q1(x) / q0(x)) to the power of lambda.  Bickel, Brueckner & Scheffer (2007), "Discriminative learning
for differing training and test distributions": this ratio is the odds of the target given x.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...errors import ConfigError
from ...types import Floats, Weights
from .shared import Bags, Texts, check_shared, check_texts, length_class, make_bags, normalised


class Logistic(NamedTuple):
    """The objective of a logistic regression, for the batch optimizers; the last parameter is the bias.

    bags (Bags): The features of N texts.
    sign (NDArray): [N] 1 for texts of the target, -1 for labelled ones.
    mass (NDArray): [N] weight of each text; both sides have the same sum.
    rho (float): Strength of the squared norm, not that of the bias.
    """

    bags: Bags
    sign: NDArray[np.float64]
    mass: NDArray[np.float64]
    rho: float
    n_threads: int = 1
    approachable: bool = False

    def value_and_grad(self, theta: Floats, out: Floats) -> tuple[float, float, Floats]:
        """Return objective, loss alone, and the gradient [W + 1] in `out`."""
        margin = self.sign * scores(self.bags, theta)
        loss = float(self.mass @ np.logaddexp(0.0, -margin))
        slope = -self.mass * self.sign * 0.5 * (1.0 - np.tanh(margin / 2))
        out[:-1] = self.bags.per_word(self.bags.counts * slope[self.bags.texts]) + self.rho * theta[:-1]
        out[-1] = slope.sum()
        return loss + 0.5 * self.rho * float(theta[:-1] @ theta[:-1]), loss, out


def scores(bags: Bags, theta: Floats) -> NDArray[np.float64]:
    """Return the log odds [N] of the target."""
    odds: NDArray[np.float64] = bags.per_text(bags.counts * theta[bags.words]) + theta[-1]
    return odds


def _features(texts: Texts) -> Bags:
    """Return which words each text has, and the class of its length."""
    # the class joins the words under a name that no word has, and that has neither digits nor case
    bags = make_bags([[*text, "\0" * (1 + length_class(text))] for text in texts])
    return bags._replace(counts=np.ones_like(bags.counts))


@dataclass(frozen=True)
class DensityRatio:
    """Weights by a density ratio (registered as ``spacy_crfseq.DensityRatio.v1``).

    A logistic regression on words and the class of length separates texts of the target from labelled ones.  The
    weight of a labelled text is its odds, computed by a model that was fitted without it.  If no model separates
    held-out texts, as without a shift, weights are nearly equal.

    rho (float): Strength of the squared norm; a small one gives a few texts nearly all of the weight.
    folds (int): Number of parts, each weighted by a model that is fitted to the others, at least 2.
    flatten (float): Power to which weights are raised: 1 leaves them, 0 makes them equal (Shimodaira's lambda).
    cap (float): Largest weight before the last normalisation, as a multiple of the mean; 0 is none.
    RAISES ConfigError: On a setting out of range.
    """

    rho: float = 10.0
    folds: int = 5
    flatten: float = 1.0
    cap: float = 0.0

    def __post_init__(self) -> None:
        check_shared("DensityRatio", self.flatten, self.cap)
        if not self.rho > 0:
            raise ConfigError("DensityRatio: rho must be more than 0.")
        if self.folds < 2:
            raise ConfigError("DensityRatio: folds must be at least 2.")

    def __call__(self, labelled: Texts, target: Texts) -> Weights:
        check_texts(labelled, target)
        texts = [*labelled, *target]
        # equal texts are in one part, so that they have equal weights
        parts = np.array([zlib.crc32("\0".join(text).encode("utf8", "surrogatepass")) % self.folds for text in texts])
        sign = np.repeat([-1.0, 1.0], [len(labelled), len(target)])
        mass = np.repeat([0.5 * len(texts) / len(side) for side in (labelled, target)], [len(labelled), len(target)])
        odds = self._held_out(Logistic(_features(texts), sign, mass, self.rho), parts)
        right = float(mass @ (sign * odds > 0)) / len(texts)
        note = f"the target and the labelled texts are told apart with {right:.1%} accuracy"
        return normalised(np.exp(np.clip(odds[: len(labelled)], -50, 50)), self.flatten, self.cap, note)

    def _held_out(self, whole: Logistic, parts: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the log odds [N] of each text by the model that was fitted to the other parts."""
        from ...optimizers.lbfgs import LBFGS

        optimizer, odds = LBFGS(max_iterations=100, tolerance=1e-4), np.zeros(len(parts))
        for part in range(self.folds):
            held = parts == part
            kept = ~held
            objective = Logistic(whole.bags.of(kept), whole.sign[kept], whole.mass[kept], whole.rho)
            theta = np.zeros(whole.bags.n_words + 1)  # not from a fit that has seen the texts held out
            state = optimizer.start(theta)
            while not optimizer.iterate(objective, state).converged:  # type: ignore[arg-type]
                pass
            optimizer.export(state, theta)
            odds[held] = scores(whole.bags.of(held), theta)
        return odds
