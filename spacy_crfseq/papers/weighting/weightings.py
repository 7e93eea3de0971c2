"""Weights of labelled texts that make them represent the texts of a target.

Shimodaira (2000), "Improving predictive inference under covariate shift by weighting the log-likelihood function": the
weight of x is (q1(x) / q0(x)) to the power of lambda.  Three ways to that ratio of densities:

* counts of observations that repeat.  Sokolovska (2010), "Contributions to the estimation of probabilistic
  discriminative models", (4.18): the weight of text i is q(X_i) / #{j: X_j = X_i}, where q is the distribution of
  observations in the target.  The same weights make an estimator consistent under covariate shift (Proposition 4.3).
* clusters in the place of observations (her section 5.2): a mixture of multinomials over bags of words.  Nigam,
  McCallum, Thrun & Mitchell (2000), "Text classification from labeled and unlabeled documents using EM".
* a logistic regression that tells texts of the target from labelled ones: the ratio is the odds of the target given x.
  Bickel, Brueckner & Scheffer (2007), "Discriminative learning for differing training and test distributions".
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ...errors import ConfigError, DataError, suggest

Texts = Sequence[Sequence[str]]
HELD_OUT = 10
"""One text in so many is held out to choose the number of clusters."""
_DIGIT = partial(re.compile(r"\d").sub, "0")


class Weights(NamedTuple):
    """Weights of labelled texts.

    values (NDArray): [N] numbers of at least 0, with mean 1.
    note (str): How they were found, for people to read.
    """

    values: NDArray[np.float64]
    note: str = ""

    @property
    def effective_size(self) -> float:
        """Number of equally weighted texts that would give as small a variance: (sum w)^2 / sum w^2 (Kish, 1965)."""
        return float(self.values.sum() ** 2 / (self.values**2).sum())


class Weighting(Protocol):
    """Weights labelled texts so that they represent the texts of a target."""

    def __call__(self, labelled: Sequence[Sequence[str]], target: Sequence[Sequence[str]]) -> Weights:
        """Return the weights of labelled texts, given as words; equal texts have equal weights.

        RAISES DataError: If the texts have too little in common.
        """


class WordCounts(NamedTuple):
    """Texts as counts of words: text ``texts[i]`` has word ``words[i]`` ``counts[i]`` times, for each entry i.

    texts, words (NDArray): [M] numbers of texts, ascending, and of words.
    counts (NDArray): [M] float64.
    n_texts, n_words (int): How many there are; a text without words has no entry.
    """

    texts: NDArray[np.int64]
    words: NDArray[np.int64]
    counts: NDArray[np.float64]
    n_texts: int
    n_words: int

    def of(self, chosen: NDArray[np.bool_]) -> WordCounts:
        """Return the chosen texts [N], renumbered."""
        entries, numbers = chosen[self.texts], np.cumsum(chosen) - 1
        texts = numbers[self.texts[entries]]
        return WordCounts(texts, self.words[entries], self.counts[entries], int(chosen.sum()), self.n_words)

    def per_text(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the sums [N] over each text of a value [M] for each entry."""
        return np.bincount(self.texts, values, self.n_texts).astype(np.float64, copy=False)  # whole numbers if M = 0

    def per_word(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the sums [words] over each word of a value [M] for each entry."""
        return np.bincount(self.words, values, self.n_words).astype(np.float64, copy=False)


def count_words(texts: Texts) -> WordCounts:
    """Count the words of texts, in lower case and with 0 for each digit."""
    numbers: dict[str, int] = {}
    sizes = np.fromiter(map(len, texts), np.int64, len(texts))
    words = (numbers.setdefault(_DIGIT(word.lower()), len(numbers)) for word in chain.from_iterable(texts))
    tokens = np.fromiter(words, np.int64, int(sizes.sum()))
    cells = np.repeat(np.arange(len(texts)), sizes) * max(1, len(numbers)) + tokens
    cells, counts = np.unique(cells, return_counts=True)
    place, word = np.divmod(cells, max(1, len(numbers)))
    return WordCounts(place, word, counts.astype(np.float64), len(texts), len(numbers))


def length_class(text: Sequence[str]) -> int:
    """Return the class of a text's length: 0, 1, 2, 3, 4-5, 6-7, 8-11, 12-15, 16-22, 23-31 tokens and so on.

    From 4 tokens on, there are two classes for each doubling.
    """
    return len(text) if len(text) < 4 else int(2 * np.log2(len(text)))


def normalised(ratio: NDArray[np.float64], flatten: float, cap: float, note: str) -> Weights:
    """Return a ratio [N] of densities as weights: to the power of `flatten`, at most `cap` times their mean, mean 1.

    RAISES DataError: If all are 0.
    """
    if not ratio.any():
        raise DataError(
            f"All weights are 0: {note}. Compare what repeats, such as clusters, or ExactCounts with observation = "
            '"length" or "shape".'
        )
    values = np.where(ratio > 0, ratio, 0.0) ** flatten * (ratio > 0)
    values /= values.mean()
    if cap:
        values = np.minimum(values, cap)
        values /= values.mean()
    return Weights(values, note)


def by_class(labelled: NDArray[np.int64], target: NDArray[np.int64], what: str) -> tuple[NDArray[np.float64], str]:
    """Return q(c) / p(c) for the class c of each labelled text [N]: (4.18) of Sokolovska (2010), times N.

    labelled, target (NDArray): Classes of labelled texts [N] and of the target's.
    RETURNS: The ratios, and a note on classes that only one side has.
    """
    n_classes = int(max(labelled.max(), target.max())) + 1
    p, q = (np.bincount(side, minlength=n_classes) / len(side) for side in (labelled, target))
    ratio = q[labelled] / p[labelled]
    note = f"{np.count_nonzero(p):,} {what} of labelled texts"
    if alone := float(q[p == 0].sum()):
        note += f"; {alone:.1%} of the target have {what} that no labelled text has"
    if zeros := float((ratio == 0).mean()):
        note += f"; {zeros:.1%} of the labelled texts have {what} that the target lacks, and weight 0"
    return ratio, note


@dataclass(frozen=True, kw_only=True)
class _Weighting:
    """The base of weightings: the last steps that make a ratio of densities a weight.

    flatten (float): Power to which weights are raised: 1 leaves them, 0 makes them equal (Shimodaira's lambda).
    cap (float): Largest weight before the last normalisation, as a multiple of the mean; 0 is none.
    RAISES ConfigError: On a setting out of range.
    """

    flatten: float = 1.0
    cap: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.flatten <= 1:
            raise ConfigError(f"{type(self).__name__}: flatten must be from 0 (equal weights) to 1 (full weights).")
        if not (self.cap == 0 or self.cap > 1):
            raise ConfigError(f"{type(self).__name__}: cap must be 0 (none) or more than 1, the mean of the weights.")

    def __call__(self, labelled: Texts, target: Texts) -> Weights:
        for texts, what in ((labelled, "labelled texts"), (target, "texts of the target")):
            if not len(texts):
                raise DataError(f"Weights compare labelled texts with those of a target, but there are no {what}.")
        ratio, note = self._ratio(labelled, target)
        return normalised(ratio, self.flatten, self.cap, note)

    def _ratio(self, labelled: Texts, target: Texts) -> tuple[NDArray[np.float64], str]:
        """Return the ratio of densities of each labelled text [N], and a note."""
        raise NotImplementedError


def _shape(text: Sequence[str]) -> Hashable:
    tests: tuple[Callable[[str], bool], ...] = (str.isupper, str.istitle, lambda word: any(map(str.isdigit, word)))
    shares = (sum(map(test, text)) * 3 // max(1, len(text)) for test in tests)
    return length_class(text), *shares


OBSERVATIONS: dict[str, tuple[Callable[[Sequence[str]], Hashable], str]] = {
    "text": (tuple, "texts"),
    "length": (length_class, "classes of length"),
    "shape": (_shape, "shapes"),
}
"""For each kind of observation, how it is made of a text, and its name in messages."""


@dataclass(frozen=True)
class ExactCounts(_Weighting):
    """Weights by counts of equal observations (registered as ``spacy_crfseq.ExactCounts.v1``).

    A labelled text gets the share of its observation in the target, divided by that in the labelled texts.  Texts whose
    observation the target lacks get weight 0.

    observation (str): What is counted.  "text" is the sequence of words, useful only where texts repeat.  "length" is a
        class of the number of tokens, with two classes for each doubling.  "shape" is this class and, in thirds, the
        shares of words in capitals, with an initial capital, and with digits.
    RAISES DataError: If no observation is on both sides.
    """

    observation: str = "text"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.observation not in OBSERVATIONS:
            raise ConfigError(f"ExactCounts: observation: {suggest(self.observation, OBSERVATIONS)}")

    def _ratio(self, labelled: Texts, target: Texts) -> tuple[NDArray[np.float64], str]:
        make, what = OBSERVATIONS[self.observation]
        numbers: dict[Hashable, int] = {}
        of_labelled, of_target = (
            np.array([numbers.setdefault(make(text), len(numbers)) for text in texts]) for texts in (labelled, target)
        )
        return by_class(of_labelled, of_target, what)


class Mixture(NamedTuple):
    """A mixture of K multinomials over W words.

    log_prior (NDArray): [K] log probabilities of the components.
    log_words (NDArray): [K, W] log probabilities of words.
    """

    log_prior: NDArray[np.float64]
    log_words: NDArray[np.float64]

    def joint(self, bags: WordCounts) -> NDArray[np.float64]:
        """Return log P(text, component) [K, N] without the multinomial coefficients."""
        # one component at a time: all entries times all components would not fit into memory
        rows = [
            prior + bags.per_text(bags.counts * words[bags.words])
            for prior, words in zip(self.log_prior, self.log_words, strict=True)
        ]
        return np.stack(rows)


def fit_mixture(
    bags: WordCounts, k: int, smoothing: float, rng: np.random.Generator, max_iterations: int, tolerance: float
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
class Clusters(_Weighting):
    """Weights by clusters of texts, a mixture of multinomials (registered as ``spacy_crfseq.Clusters.v1``).

    EM fits a mixture of multinomials to the words of all texts, in lower case and with 0 for each digit.  A labelled
    text gets the share of its cluster in the target, divided by that in the labelled texts.

    k (int | list[int]): Number of clusters; from a list, the one with the highest likelihood of held-out texts.
    smoothing (float): Added to each cluster's count of each word, more than 0.
    restarts (int): EM runs from so many random starts, and the one with the highest likelihood is kept.
    max_iterations (int): Maximum number of iterations of a run.
    tolerance (float): EM stops when the likelihood rises by less than this fraction.
    seed (int): Of the starts, and of the texts that are held out.
    RAISES ConfigError: On a setting out of range.
    """

    k: int | list[int] = 10
    smoothing: float = 0.1
    restarts: int = 3
    max_iterations: int = 50
    tolerance: float = 1e-4
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self._sizes or any(not isinstance(k, int) or k < 1 for k in self._sizes):
            raise ConfigError("Clusters: k must be a number of clusters of at least 1, or a list of such numbers.")
        if min(self.restarts, self.max_iterations) < 1:
            raise ConfigError("Clusters: restarts and max_iterations must be at least 1.")
        if not self.smoothing > 0 or self.tolerance < 0 or self.seed < 0:
            raise ConfigError("Clusters: smoothing must be more than 0, tolerance and seed 0 or more.")

    @property
    def _sizes(self) -> list[int]:
        return list(self.k) if isinstance(self.k, list | tuple) else [self.k]

    def _ratio(self, labelled: Texts, target: Texts) -> tuple[NDArray[np.float64], str]:
        bags = count_words([*labelled, *target])
        k, how = self._choose(bags)
        clusters = self._fit(bags, k).joint(bags).argmax(axis=0)
        ratio, note = by_class(clusters[: len(labelled)], clusters[len(labelled) :], "clusters")
        return ratio, f"k = {k}{how}; {note}"

    def _choose(self, bags: WordCounts) -> tuple[int, str]:
        if len(self._sizes) == 1:
            return self._sizes[0], ""
        held = np.random.default_rng(self.seed).permutation(bags.n_texts) % HELD_OUT == 0
        fitted, tested = bags.of(~held), bags.of(held)
        score = {k: _posterior(self._fit(fitted, k).joint(tested))[1].sum() for k in self._sizes}
        return max(score, key=lambda k: score[k]), f" of {', '.join(map(str, score))}"

    def _fit(self, bags: WordCounts, k: int) -> Mixture:
        """Return the best of several fits; as all have k and the seed, so are their starts."""
        fits = (
            fit_mixture(
                bags, k, self.smoothing, np.random.default_rng([self.seed, k, start]), self.max_iterations,
                self.tolerance,
            )
            for start in range(self.restarts)
        )  # fmt: skip
        return max(fits, key=lambda fit: fit[1])[0]


def _features(texts: Texts) -> WordCounts:
    """Return the words that each text has, and the class of its length."""
    # the class joins the words under a name that no word has, and that has neither digits nor case
    return count_words([[*text, "\0" * (1 + length_class(text))] for text in texts])


@dataclass(frozen=True)
class DensityRatio(_Weighting):
    """Weights by a density ratio, the odds of a regression (registered as ``spacy_crfseq.DensityRatio.v1``).

    A logistic regression on words and the class of length separates texts of the target from labelled ones;
    scikit-learn fits it (the extra ``weighting``).  The weight of a labelled text is its odds, computed by a model that
    was fitted without it.  If no model separates held-out texts, as without a shift, weights are nearly equal.

    rho (float): Strength of the squared norm; a small one gives a few texts nearly all of the weight.
    folds (int): Number of parts, each weighted by a model that is fitted to the others, at least 2.
    RAISES ConfigError: On a setting out of range, or without scikit-learn.
    """

    rho: float = 10.0
    folds: int = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.rho > 0:
            raise ConfigError("DensityRatio: rho must be more than 0.")
        if self.folds < 2:
            raise ConfigError("DensityRatio: folds must be at least 2.")

    def _ratio(self, labelled: Texts, target: Texts) -> tuple[NDArray[np.float64], str]:
        texts = [*labelled, *target]
        # equal texts are in one part, so that they have equal weights
        parts = np.array([zlib.crc32("\0".join(text).encode("utf8", "surrogatepass")) % self.folds for text in texts])
        sign = np.repeat([-1.0, 1.0], [len(labelled), len(target)])
        mass = np.repeat([0.5 * len(texts) / len(side) for side in (labelled, target)], [len(labelled), len(target)])
        odds = self._held_out(_features(texts), sign, mass, parts)
        right = float(mass @ (sign * odds > 0)) / len(texts)
        note = f"the target and the labelled texts are told apart with {right:.1%} accuracy"
        return np.exp(np.clip(odds[: len(labelled)], -50, 50)), note

    def _held_out(
        self, bags: WordCounts, sign: NDArray[np.float64], mass: NDArray[np.float64], parts: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Return the log odds [N] of the target for each text, by the model that was fitted to the other parts.

        sign (NDArray): [N] 1 for texts of the target, -1 for labelled ones.
        mass (NDArray): [N] weight of each text; both sides have the same sum.
        """
        try:
            from scipy.sparse import csr_matrix
            from sklearn.linear_model import LogisticRegression
        except ImportError:
            raise ConfigError(
                "DensityRatio needs scikit-learn. Install it: pip install 'spacy-crfseq[weighting]'"
            ) from None
        table = csr_matrix((np.ones(len(bags.texts)), (bags.texts, bags.words)), (bags.n_texts, bags.n_words))
        odds = np.zeros(len(parts))
        for part in range(self.folds):
            held = parts == part
            kept = ~held
            # where the other parts have texts of one side alone, they say nothing
            if held.any() and len(np.unique(sign[kept])) == 2:
                model = LogisticRegression(C=1 / self.rho, max_iter=1000, tol=1e-6)
                model.fit(table[kept], sign[kept], sample_weight=mass[kept])
                odds[held] = model.decision_function(table[held])
        return odds
