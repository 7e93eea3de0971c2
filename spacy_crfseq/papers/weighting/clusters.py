"""Weights by clusters of texts: a mixture of multinomials over bags of words.

Nigam, McCallum, Thrun & Mitchell (2000), "Text classification from labeled and unlabeled documents using EM";
Sokolovska (2010), section 5.2, puts the clusters in the place of observations in (4.18).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...errors import ConfigError
from ...types import Weights
from .shared import Bags, Texts, by_class, check_shared, check_texts, make_bags, normalised

HELD_OUT = 10
"""One text in so many is held out to choose k."""


class Mixture(NamedTuple):
    """A mixture of K multinomials over W words.

    log_prior (NDArray): [K] log probabilities of the components.
    log_words (NDArray): [K, W] log probabilities of words.
    """

    log_prior: NDArray[np.float64]
    log_words: NDArray[np.float64]

    def joint(self, bags: Bags) -> NDArray[np.float64]:
        """Return log P(text, component) [K, N] without the multinomial coefficients."""
        # one component at a time: all entries times all components would not fit into memory
        rows = [
            prior + bags.per_text(bags.counts * words[bags.words])
            for prior, words in zip(self.log_prior, self.log_words, strict=True)
        ]
        return np.stack(rows)


def fit_mixture(
    bags: Bags, k: int, smoothing: float, rng: np.random.Generator, max_iterations: int, tolerance: float
) -> tuple[Mixture, float]:
    """Return a mixture fitted by EM from random memberships, and its log-likelihood per text.

    smoothing (float): Added to each component's count of each word.
    """
    member = rng.dirichlet(np.ones(k), bags.n_texts).T  # [K, N]
    likelihood = -np.inf
    for _ in range(max_iterations):
        counts = np.stack([bags.per_word(bags.counts * row[bags.texts]) for row in member]) + smoothing
        prior = member.sum(axis=1) + 1.0  # no component gets probability 0
        mixture = Mixture(np.log(prior / prior.sum()), np.log(counts / counts.sum(axis=1, keepdims=True)))
        member, totals = _posterior(mixture.joint(bags))
        before, likelihood = likelihood, float(totals.mean())
        if likelihood - before < tolerance * abs(likelihood):
            break
    return mixture, likelihood


def _posterior(joint: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return P(component | text) [K, N] and log P(text) [N]."""
    totals = np.logaddexp.reduce(joint, axis=0)
    posterior: NDArray[np.float64] = np.exp(joint - totals)
    return posterior, totals


@dataclass(frozen=True)
class Clusters:
    """Weights by clusters of texts (registered as ``spacy_crfseq.Clusters.v1``).

    EM fits a mixture of multinomials to the words of all texts, in lower case and with 0 for each digit.  A labelled
    text gets the share of its cluster in the target, divided by that in the labelled texts.

    k (int | list[int]): Number of clusters; from a list, the one with the highest likelihood of held-out texts.
    smoothing (float): Added to each cluster's count of each word, more than 0.
    restarts (int): EM runs from so many random starts, and the one with the highest likelihood is kept.
    max_iterations (int): Maximum number of iterations of a run.
    tolerance (float): EM stops when the likelihood rises by less than this fraction.
    seed (int): Of the starts, and of the texts that are held out.
    flatten (float): Power to which weights are raised: 1 leaves them, 0 makes them equal (Shimodaira's lambda).
    cap (float): Largest weight before the last normalisation, as a multiple of the mean; 0 is none.
    RAISES ConfigError: On a setting out of range.
    """

    k: int | list[int] = 10
    smoothing: float = 0.1
    restarts: int = 3
    max_iterations: int = 50
    tolerance: float = 1e-4
    seed: int = 0
    flatten: float = 1.0
    cap: float = 0.0

    def __post_init__(self) -> None:
        check_shared("Clusters", self.flatten, self.cap)
        if not self._sizes or any(not isinstance(k, int) or k < 1 for k in self._sizes):
            raise ConfigError("Clusters: k must be a number of clusters of at least 1, or a list of such numbers.")
        if min(self.restarts, self.max_iterations) < 1:
            raise ConfigError("Clusters: restarts and max_iterations must be at least 1.")
        if not self.smoothing > 0 or self.tolerance < 0 or self.seed < 0:
            raise ConfigError("Clusters: smoothing must be more than 0, tolerance and seed 0 or more.")

    @property
    def _sizes(self) -> list[int]:
        return list(self.k) if isinstance(self.k, list | tuple) else [self.k]

    def __call__(self, labelled: Texts, target: Texts) -> Weights:
        check_texts(labelled, target)
        bags = make_bags([*labelled, *target])
        k, how = self._choose(bags)
        clusters = self._fit(bags, k).joint(bags).argmax(axis=0)
        ratio, note = by_class(clusters[: len(labelled)], clusters[len(labelled) :], "clusters")
        return normalised(ratio, self.flatten, self.cap, f"k = {k}{how}; {note}")

    def _choose(self, bags: Bags) -> tuple[int, str]:
        if len(self._sizes) == 1:
            return self._sizes[0], ""
        held = np.random.default_rng(self.seed).permutation(bags.n_texts) % HELD_OUT == 0
        fitted, tested = bags.of(~held), bags.of(held)
        score = {k: _posterior(self._fit(fitted, k).joint(tested))[1].sum() for k in self._sizes}
        return max(score, key=lambda k: score[k]), f" of {', '.join(map(str, score))}"

    def _fit(self, bags: Bags, k: int) -> Mixture:
        """Return the best of several fits; as all have k and the seed, so are their starts."""
        fits = (
            fit_mixture(
                bags, k, self.smoothing, np.random.default_rng([self.seed, k, start]), self.max_iterations,
                self.tolerance,
            )
            for start in range(self.restarts)
        )  # fmt: skip
        return max(fits, key=lambda fit: fit[1])[0]
