"""Questions about the distribution P(y | x) of sequences whose scores are at hand, answered by kernels.

`Posterior` asks them of the parts of a text, after its constraints, and `Chain` of the scores that a user has.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import kernels
from ..decoders.viterbi import check_possible
from ..errors import ConfigError
from ..types import Bools, Floats, Ints, Offsets, Scores


class NBest(NamedTuple):
    """The k best labellings of N sequences with T tokens, best first.

    labels (Ints): [k, T] labels; -1 if a sequence has fewer labellings.
    log_probabilities (NDArray): [k, N] log P; minus infinity there.
    """

    labels: Ints
    log_probabilities: NDArray[np.float64]

    def merged(self, offsets: Offsets, groups: Offsets) -> NBest:
        """Return the exact k best labellings of groups of sequences, such as the sentences of each document.

        Sequences are independent, so the result combines their k best labellings.
        offsets (Offsets): [N + 1] token offsets of the sequences.
        groups (Offsets): [G + 1], group g consists of the sequences ``groups[g]:groups[g + 1]``; the groups cover all
            sequences.
        """
        return NBest(*kernels.paths.best_combinations(*self, offsets, groups))


class Lattice(NamedTuple):
    """The scores of N sequences with T tokens and S states, which are labels unless rules on occurrences hold.

    All methods but `path_scores` raise DataError if a sequence has no labelling, that is if its log Z is minus
    infinity.

    scores (Scores): As kernels take them, minus infinity where a label or a step is forbidden.
    offsets (Offsets): [N + 1] token offsets of the sequences.
    first (int): Number of the first sequence in the whole text, for messages.
    """

    scores: Scores
    offsets: Offsets
    first: int = 0

    def log_z(self) -> NDArray[np.float64]:
        """Return log Z of each sequence [N], in float64."""
        return self._possible(kernels.lattice.log_partitions(self.scores, self.offsets))

    def marginals(self) -> Floats:
        """Return P(y_t = k | x) [T, S]."""
        shares, log_z = np.empty_like(self.scores.emissions), np.empty(len(self.offsets) - 1)
        kernels.lattice.posterior(self.scores, self.offsets, shares, log_z)
        self._possible(log_z)
        return shares

    def pair_marginals(self) -> Floats:
        """Return P(y_{t-1} = i, y_t = j | x) [T, S, S], by the forward-backward algorithm; zeros at first tokens."""
        n_tokens, n = self.scores.emissions.shape
        steps = np.array(np.broadcast_to(self.scores.transitions, (n_tokens, n, n)), order="C")
        scores, log_z = self.scores._replace(transitions=steps), np.zeros(len(self.offsets) - 1)
        grad, unit_weights = scores.zeros_like(), np.ones(len(log_z))
        kernels.lattice.log_loss(scores, self.offsets, kernels.lattice.NO_LABELS, unit_weights, grad, log_z=log_z)
        self._possible(log_z)
        return grad.transitions

    def nbest(self, k: int) -> NBest:
        """Return the k most probable labellings of each sequence and their exact probabilities, in float64.

        RAISES ConfigError: If k is less than 1.
        """
        check_count(k)
        log_z = np.empty(len(self.offsets) - 1)
        labels, best = kernels.paths.best_labellings(self.scores, self.offsets, k, log_z)
        return NBest(labels, np.minimum(best - self._possible(log_z), 0))  # rounding

    def path_scores(self, labels: Ints) -> NDArray[np.float64]:
        """Return the score of the labels [T] of each sequence [N], in float64."""
        return kernels.chain.path_scores(self.scores, self.offsets, labels)

    def log_shares(self, sets: Bools) -> NDArray[np.float64]:
        """Return log P(y_t in set t for all its tokens t | x) of each sequence [N], in float64; sets are [T, S]."""
        scores, impossible = self.scores, self.scores.emissions.dtype.type(-np.inf)
        agreeing = scores._replace(emissions=np.where(sets, scores.emissions, impossible))
        log_z = self.log_z()
        return np.minimum(kernels.lattice.log_partitions(agreeing, self.offsets) - log_z, 0)  # rounding

    def entropies(self) -> NDArray[np.float64]:
        """Return the entropy of each sequence's labellings [N], in nats (Mann & McCallum 2007)."""
        return self._possible(kernels.chain.entropies(self.scores, self.offsets))

    def sample(self, n: int, rng: np.random.Generator) -> Ints:
        """Return n independent labellings [n, T], drawn token by token given the previous label.

        RAISES ConfigError: If n is less than 1.
        """
        check_count(n)
        uniforms = rng.random((len(self.scores.emissions), n))
        labels, log_z = kernels.chain.sample(self.scores, self.offsets, uniforms)
        self._possible(log_z)
        return labels

    def _possible(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        check_possible(values, self.first)
        return values


def check_count(k: int) -> None:
    """Raise ConfigError unless k is a number of labellings to find or to draw."""
    if not isinstance(k, int | np.integer) or k < 1:
        raise ConfigError(f"The number of labellings must be a whole number from 1 on, not {k}.")
