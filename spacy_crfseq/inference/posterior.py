"""The distribution P(y | x) of a text's labels under constraints: decoding, probabilities, alternatives, samples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import kernels
from ..decoders._possible import check_possible
from ..errors import ConfigError
from ..potentials.protocol import Part, Source, tokens_of
from ..threads import over
from ..types import Bools, Constraints, Decoder, Floats, Ints, Offsets, Scores

if TYPE_CHECKING:
    from ..kernels.chain import Chain

THREAD_TOKENS = 1 << 12
"""Number of tokens that justify a thread for decoding."""
COLDEST = 1e-6
"""The lowest temperature for scores in single precision; the highest is one over it."""


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
        labels, values = np.empty_like(self.labels), np.empty((len(self.labels), len(groups) - 1))
        kernels.kbest.best_combinations(*self, offsets, groups, labels, values)
        return NBest(labels, values)


class Posterior(NamedTuple):
    """P(y | x) of N sequences with T tokens and L labels; made by `make_posterior`.

    Labellings that break a constraint have probability zero: every probability is conditional on the constraints.

    allowed (Bools | None): [T, L] labels that each token may have; None for all.
    temperature (float): Scores are divided by it, which calibrates probabilities (Guo et al. 2017).
    """

    source: Source
    constraints: Constraints
    allowed: Bools | None
    temperature: float

    def __repr__(self) -> str:
        sizes = f"{len(self.offsets) - 1:,} sequences, {self.n_tokens:,} tokens, {self.source.n_labels} labels"
        return f"<Posterior: {sizes}, temperature {self.temperature:g}>"

    @property
    def n_tokens(self) -> int:
        """T."""
        return int(self.offsets[-1])

    @property
    def offsets(self) -> Offsets:
        """[N + 1] token offsets of the sequences."""
        return self.source.offsets

    def decode(self, decoder: Decoder, n_threads: int = 1) -> Ints:
        """Return the chosen label of every token [T]."""
        labels = np.empty(self.n_tokens, np.int32)
        n_threads = max(1, min(n_threads, self.n_tokens // THREAD_TOKENS))

        def fill(part: Part) -> None:
            scores, offsets, tokens = self._scores(part)
            labels[tokens] = decoder(scores, offsets, self.constraints, self._allowed(tokens))

        over(fill, list(self.source.parts(n_threads)), n_threads)
        return labels

    def marginals(self) -> Floats:
        """Return P(y_t = k | x) [T, L]; DataError if the constraints leave a sequence without any labelling."""
        parts: list[Floats] = [np.zeros((0, self.source.n_labels), np.float32)]
        for scores, offsets, _, sequences in self._constrained():
            log_z = np.empty(len(offsets) - 1)
            parts.append(np.empty_like(scores.emissions))
            kernels.lattice.posterior(scores, offsets, parts[-1], log_z)
            check_possible(log_z, sequences.start)
        return np.concatenate(parts)

    def label_probabilities(self, labels: Ints) -> NDArray[np.float64]:
        """Return the marginal probabilities [T] of labels [T]."""
        out = np.empty(len(labels))
        for scores, offsets, tokens, _ in self._constrained():
            marginals = np.empty_like(scores.emissions)
            kernels.lattice.posterior(scores, offsets, marginals, np.empty(len(offsets) - 1))
            out[tokens] = marginals[np.arange(len(marginals)), labels[tokens]]
        return np.minimum(out, 1.0)  # rounding in float32

    def spans(self, labels: Ints) -> tuple[Offsets, Offsets]:
        """Return first tokens and tokens after the last of the spans [S] that `labels` [T] mark, in order."""
        bounds = np.zeros(self.n_tokens + 1, np.bool_)
        bounds[self.offsets] = True
        bounds[1:-1] |= ~self.constraints.inside[labels[:-1], labels[1:]]
        within = ~self.constraints.outside[labels]
        return np.flatnonzero(bounds[:-1] & within), np.flatnonzero(bounds[1:] & within) + 1

    def span_probabilities(self, labels: Ints, starts: Offsets, ends: Offsets) -> NDArray[np.float64]:
        """Return the exact probabilities of spans [S] with these boundaries and their labels in `labels` [T].

        starts, ends (Offsets): [S] first tokens and tokens after the last, in the order of the text.
        Culotta & McCallum (2004), "Confidence estimation for information extraction", by constrained forward-backward.
        """
        out = np.empty(len(starts))
        for scores, offsets, tokens, _ in self._constrained():
            here = slice(*np.searchsorted(starts, [tokens.start, tokens.stop]))
            begins, stops = starts[here] - tokens.start, ends[here] - tokens.start
            kernels.lattice.span_probabilities(
                scores, offsets, labels[tokens], begins, stops, self.constraints.inside, out[here]
            )
        return np.minimum(out, 1.0)  # rounding in float32

    def nbest(self, k: int) -> NBest:
        """Return the k most probable labellings of each sequence and their exact probabilities, in float64.

        An empty sequence has one labelling, of probability 1.
        RAISES ConfigError: If k is less than 1.
        RAISES DataError: As `marginals` and all methods below.
        """
        if k < 1:
            raise ConfigError(f"The number of labellings to find must be a whole number from 1 on, not {k}.")
        labels, values = np.empty((k, self.n_tokens), np.int32), np.empty((k, len(self.offsets) - 1))
        for scores, offsets, tokens, sequences in self._constrained():
            n = len(offsets) - 1
            exact = Scores(*(array.astype(np.float64) for array in scores))
            some, best, log_z = np.empty((k, offsets[-1]), np.int32), np.empty((k, n)), np.empty(n)
            kernels.kbest.best_labellings(exact, offsets, some, best, log_z)
            check_possible(best[0], sequences.start)
            labels[:, tokens], values[:, sequences] = some, np.minimum(best - log_z, 0)  # rounding
        return NBest(labels, values)

    def log_probabilities(self, labels: Ints) -> NDArray[np.float64]:
        """Return log P(labels | x) of each sequence [N], minus infinity if its `labels` [T] break a constraint."""
        out = np.empty(len(self.offsets) - 1)
        for model, tokens, sequences in self._chains():
            kernels.chain.log_probabilities(model, labels[tokens], out[sequences])
        return out

    def entropies(self) -> NDArray[np.float64]:
        """Return the entropy of each sequence's labellings [N], in nats (Mann & McCallum 2007)."""
        out = np.empty(len(self.offsets) - 1)
        for model, _, sequences in self._chains():
            kernels.chain.entropies(model, out[sequences])
        return out

    def sample(self, n: int, rng: np.random.Generator) -> Ints:
        """Return n independent labellings [n, T], drawn token by token given the previous label."""
        out = np.empty((n, self.n_tokens), np.int32)
        for model, tokens, _ in self._chains():
            part = np.empty((n, len(model.ahead)), np.int32)
            kernels.chain.sample(model, rng.random((len(model.ahead), n)), part)
            out[:, tokens] = part
        return out

    def expected_f(self, labels: Ints, beta: float = 1.0) -> float:
        """Return the expected F-measure of the spans of `labels` [T] in all sequences together.

        That is ``(1 + beta^2) sum_s P(s | x) / (n + beta^2 E[n_true])`` over their n spans s, the ratio of expectations
        instead of the expectation of the ratio; zero if no span is chosen or expected.  beta = 2 prefers recall,
        0.5 precision.  A plain label is a span of one token.
        """
        expected = 0.0
        for model, _, _ in self._chains():
            spans = kernels.chain.make_span_chain(model, self.constraints.inside)
            expected += float(spans.opens[:, ~self.constraints.outside].sum())
        starts, ends = self.spans(labels)
        found = float(self.span_probabilities(labels, starts, ends).sum())
        total = len(starts) + beta**2 * expected
        return (1 + beta**2) * found / total if total > 0 else 0.0

    def _chains(self) -> Iterator[tuple[Chain, slice, slice]]:
        """Yield all sequences as Markov chains, a part at a time, with the part's tokens and sequences."""
        for scores, offsets, tokens, sequences in self._constrained():
            model = kernels.chain.make_chain(scores, offsets)
            check_possible(model.log_z, sequences.start)
            yield model, tokens, sequences

    def _constrained(self) -> Iterator[tuple[Scores, Offsets, slice, slice]]:
        """Yield the constrained scores of all sequences, a part at a time, with its offsets, tokens and sequences."""
        for part in self.source.parts():
            scores, offsets, tokens = self._scores(part)
            yield scores.constrained(self.constraints, self._allowed(tokens)), offsets, tokens, slice(*part)

    def _scores(self, part: Part) -> tuple[Scores, Offsets, slice]:
        scores, _ = self.source.forward(part)
        if self.temperature != 1:
            scores = Scores(*(array / array.dtype.type(self.temperature) for array in scores))
        offsets = self.offsets[part[0] : part[1] + 1]
        return scores, offsets - offsets[0], tokens_of(self.offsets, part)

    def _allowed(self, tokens: slice) -> Bools | None:
        return None if self.allowed is None else self.allowed[tokens]


def make_posterior(
    source: Source, constraints: Constraints, allowed: Bools | None = None, temperature: float = 1.0
) -> Posterior:
    """Return the distribution of a text's labels; ConfigError if the temperature is out of range or not a number."""
    if not isinstance(temperature, (int, float, np.floating)) or not COLDEST <= temperature <= 1 / COLDEST:
        raise ConfigError(
            f"temperature = {temperature}: give a number from {COLDEST:g} to {1 / COLDEST:g}; 1 changes nothing."
        )
    return Posterior(source, constraints, allowed, temperature)
