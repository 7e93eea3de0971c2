"""The distribution P(y | x) of a text's labels under constraints: decoding, probabilities, alternatives, samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import kernels
from ..decoders.viterbi import check_possible
from ..potentials.linear import Source
from ..potentials.protocol import SequenceRange, tokens_of
from ..threads import available, over, shards
from ..types import Bools, Constraints, Decoder, Floats, Ints, OccurrenceRules, Offsets, Scores
from .lattice import Lattice, NBest, check_count

THREAD_TOKENS = 1 << 12
"""Number of tokens that justify a thread for decoding."""


class Piece(NamedTuple):
    """The constrained scores of some sequences, with their tokens and their numbers in the whole text.

    states (Ints | None): [T, S] labels, if scores are those of states under rules; then it is one sequence.
    missing (float): Bound of the probability that these leave out.
    """

    lattice: Lattice
    tokens: slice
    sequences: slice
    states: Ints | None = None
    missing: float = 0.0

    def labels(self, numbers: Ints) -> Ints:
        """Return the labels [k, T] of numbers of states or labels; -1 stays."""
        if self.states is None:
            return numbers
        return np.where(numbers < 0, numbers, self.states[np.arange(len(self.states)), numbers])

    def marginals(self, n_labels: int) -> Floats:
        """Return P(y_t = k | x) [T, L]."""
        shares = self.lattice.marginals()
        if self.states is None:
            return shares
        out = np.zeros((len(shares), n_labels))
        np.add.at(out, (np.arange(len(shares))[:, None], self.states), shares)
        return out

    def pair_marginals(self, n_labels: int) -> Floats:
        """Return P(y_{t-1} = i, y_t = j | x) [T, L, L], zeros at the first token of a sequence."""
        shares = self.lattice.pair_marginals()
        if self.states is None or not len(shares):
            return shares
        out, tokens = np.zeros((len(shares), n_labels, n_labels)), np.arange(1, len(shares))
        places = tokens[:, None, None], self.states[:-1, :, None], self.states[1:, None, :]
        np.add.at(out, places, shares[1:])
        return out


class PairMarginals(NamedTuple):
    """The probabilities of the labels, and of two labels in a row, of the tokens of a part of a text.

    labels (Floats): [T, L] P(y_t = j | x).
    pairs (Floats): [T, L, L] P(y_{t-1} = i, y_t = j | x), zeros at the first token of a sequence.
    """

    tokens: slice
    labels: Floats
    pairs: Floats


class Posterior(NamedTuple):
    """P(y | x) of N sequences with T tokens and L labels.

    Labellings that break a constraint have probability zero: every probability is conditional on the constraints.
    Questions about labels or spans raise DataError if these are not labels and spans of the text.

    offsets (Offsets): [N + 1] token offsets of the sequences.
    allowed (Bools | None): [T, L] labels that each token may have; None for all.
    temperature (float): Scores are divided by it, which calibrates probabilities (Guo et al. 2017).
    rules (OccurrenceRules | None): Labels that may occur once or in an order, a constraint like the others.  The
        decoder must be Viterbi's, and probabilities may leave out rare labellings, see `missing`.
    """

    source: Source
    offsets: Offsets
    constraints: Constraints
    allowed: Bools | None = None
    temperature: float = 1.0
    rules: OccurrenceRules | None = None

    def __repr__(self) -> str:
        sizes = f"{len(self.offsets) - 1:,} sequences, {self.n_tokens:,} tokens, {self.source.n_labels} labels"
        return f"<Posterior: {sizes}, temperature {self.temperature:g}>"

    @property
    def n_tokens(self) -> int:
        """T."""
        return int(self.offsets[-1])

    def decode(
        self,
        decoder: Decoder,
        n_threads: int = 1,
        exact: Bools | None = None,
        watched: Callable[[list[SequenceRange]], Iterable[SequenceRange]] = iter,
    ) -> Ints:
        """Return the chosen label of every token [T], whatever the temperature, which is for probabilities alone.

        n_threads (int): 0 for as many as there are cores; short texts get one.
        exact (Bools | None): [N] receives whether no labels under the rules are better; they may be where too many
            states are possible.
        watched (Callable): Passes the parts of the text on as they are decoded, in one thread, to show progress.
        """
        n_tokens = int(self.offsets[-1])
        labels, most = np.empty(n_tokens, np.int32), n_tokens // THREAD_TOKENS
        exact = np.empty(len(self.offsets) - 1, np.bool_) if exact is None else exact
        exact[:] = True
        n_threads = 1 if most < 2 else min(n_threads or available(), most)
        untempered = self._replace(temperature=1.0)  # as the decoder was chosen in training

        def fill(part: SequenceRange) -> None:
            scores, offsets, tokens, allowed = untempered._scores(part)
            labels[tokens] = decoder(scores, offsets, self.constraints, allowed)
            if self.rules is not None:
                possible = scores.constrained(self.constraints, allowed), offsets
                best = kernels.occurrences.best_paths(*possible, self.rules, labels[tokens], exact[slice(*part)])
                check_possible(best, part[0])

        parts = list(shards(self.offsets, self.source.score_width, n_threads=n_threads))
        if n_threads > 1:
            over(fill, parts, n_threads)
        else:
            for part in watched(parts):
                fill(part)
        return labels

    def marginals(self) -> Floats:
        """Return P(y_t = k | x) [T, L]; DataError if the constraints leave a sequence without any labelling."""
        parts = [piece.marginals(self.source.n_labels) for piece in self._constrained()]
        nothing = np.zeros((0, self.source.n_labels), np.float32)
        return parts[0] if len(parts) == 1 else np.concatenate([nothing, *parts])

    def pair_marginals(self) -> Iterator[PairMarginals]:
        """Yield the probabilities of labels and label pairs, a part of the text at a time, as pairs take much memory.

        RAISES DataError: As `marginals`.
        """
        n_labels = self.source.n_labels
        for piece in self._constrained(n_labels**2):
            yield PairMarginals(piece.tokens, piece.marginals(n_labels), piece.pair_marginals(n_labels))

    def possible(self) -> Bools:
        """Return whether each sequence [N] has a labelling under the constraints."""
        parts = [kernels.lattice.log_partitions(*piece.lattice[:2]) for piece in self._constrained()]
        finite: Bools = np.isfinite(np.concatenate([np.zeros(0), *parts]))
        return finite

    def missing(self) -> NDArray[np.float64]:
        """Return upper bounds of the probability [N] that all answers leave out under rules.

        It is that of labellings that obey the rules, but are rare while very many others are possible.
        """
        if self.rules is None:
            return np.zeros(len(self.offsets) - 1)
        return np.array([piece.missing for piece in self._constrained()])

    def label_probabilities(self, labels: Ints) -> NDArray[np.float64]:
        """Return the marginal probabilities [T] of labels [T]."""
        self._check(labels)
        out = np.empty(len(labels))
        for piece in self._constrained():
            shares = piece.marginals(self.source.n_labels)
            out[piece.tokens] = shares[np.arange(len(shares)), labels[piece.tokens]]
        return np.minimum(out, 1.0)  # rounding in float32

    def spans(self, labels: Ints) -> tuple[Offsets, Offsets]:
        """Return first tokens and tokens after the last of the spans [S] that `labels` [T] mark, in order."""
        self._check(labels)
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
        self._check(labels)
        kernels.borders.check_spans(starts, ends, self.offsets)
        out = np.empty(len(starts))
        for piece in self._constrained():
            spans_of_piece = slice(*np.searchsorted(starts, [piece.tokens.start, piece.tokens.stop]))
            places = starts[spans_of_piece] - piece.tokens.start, ends[spans_of_piece] - piece.tokens.start
            spans = labels[piece.tokens], *places, self.constraints.inside
            states = np.zeros((0, 0), np.int32) if piece.states is None else piece.states
            scores, offsets, _ = piece.lattice
            out[spans_of_piece] = kernels.spans.span_probabilities(scores, offsets, states, *spans)
        return np.minimum(out, 1.0)  # rounding in float32

    def candidates(self, least: float) -> tuple[Ints, Floats]:
        """Return the spans of a probability above `least` and these [C], see `kernels.spans.candidates`; no rules."""
        rows, values = [np.zeros((0, 3), np.int32)], [np.zeros(0)]
        for piece in self._replace(rules=None)._constrained():
            chain, log_z = kernels.spans.make_span_chain(
                *piece.lattice[:2], self.constraints.inside, self.constraints.outside, least
            )
            check_possible(log_z, piece.sequences.start)
            spans, shares = kernels.spans.candidates(chain, piece.lattice.offsets, self.constraints.outside, least)
            rows.append(spans + np.array([piece.tokens.start, piece.tokens.start, 0], np.int32))
            values.append(shares)
        return np.concatenate(rows), np.concatenate(values)

    def nbest(self, k: int) -> NBest:
        """Return the k most probable labellings of each sequence and their exact probabilities, in float64.

        An empty sequence has one labelling, of probability 1.
        RAISES ConfigError: If k is less than 1.
        RAISES DataError: As `marginals` and all methods below.
        """
        check_count(k)
        labels, values = np.empty((k, self.n_tokens), np.int32), np.empty((k, len(self.offsets) - 1))
        for piece in self._constrained():
            some, values[:, piece.sequences] = piece.lattice.nbest(k)
            labels[:, piece.tokens] = piece.labels(some)
        return NBest(labels, values)

    def log_probabilities(self, labels: Ints) -> NDArray[np.float64]:
        """Return log P(labels | x) of each sequence [N], minus infinity if its `labels` [T] break a constraint."""
        self._check(labels)
        out = np.empty(len(self.offsets) - 1)
        for piece in self._replace(rules=None)._constrained():
            values = piece.lattice.path_scores(labels[piece.tokens])
            if self.rules is not None:
                obeying = np.empty(len(values), np.bool_)
                kernels.occurrences.obeying(labels[piece.tokens], piece.lattice.offsets, self.rules, obeying)
                values[~obeying] = -np.inf
            out[piece.sequences] = values - (piece.lattice.log_z() if self.rules is None else 0.0)
        for piece in self._constrained() if self.rules is not None else ():
            out[piece.sequences] -= piece.lattice.log_z()
        return np.minimum(out, 0)  # rounding

    def entropies(self) -> NDArray[np.float64]:
        """Return the entropy of each sequence's labellings [N], in nats (Mann & McCallum 2007)."""
        out = np.empty(len(self.offsets) - 1)
        for piece in self._constrained():
            out[piece.sequences] = piece.lattice.entropies()
        return out

    def sample(self, n: int, rng: np.random.Generator) -> Ints:
        """Return n independent labellings [n, T], drawn token by token given the previous label."""
        out = np.empty((n, self.n_tokens), np.int32)
        for piece in self._constrained():
            out[:, piece.tokens] = piece.labels(piece.lattice.sample(n, rng))
        return out

    def expected_f(self, labels: Ints, beta: float = 1.0) -> float:
        """Return the expected F-measure of the spans of `labels` [T] in all sequences together.

        That is ``(1 + beta^2) sum_s P(s | x) / (n + beta^2 E[n_true])`` over their n spans s, the ratio of expectations
        instead of the expectation of the ratio; zero if no span is chosen or expected.  beta = 2 prefers recall,
        0.5 precision.  A plain label is a span of one token.
        """
        expected, (_, _, _, inside, outside) = 0.0, self.constraints
        for piece in self._constrained():
            if piece.states is None:
                spans, log_z = kernels.spans.make_span_chain(*piece.lattice[:2], inside)
                check_possible(log_z, piece.sequences.start)
                expected += float(spans.opens[:, ~outside].sum())
            else:  # of a scheme, where the tags that begin a span never continue one
                expected += float(piece.marginals(len(outside))[:, ~outside & ~inside.any(0)].sum())
        starts, ends = self.spans(labels)
        correct = float(self.span_probabilities(labels, starts, ends).sum())
        total = len(starts) + beta**2 * expected
        return (1 + beta**2) * correct / total if total > 0 else 0.0

    def _check(self, labels: Ints) -> None:
        kernels.borders.check_labels(labels, self.n_tokens, self.source.n_labels)

    def _constrained(self, width: int = 0) -> Iterator[Piece]:
        """Yield the constrained scores of all sequences, a part at a time, or a sequence at a time under rules.

        width (int): Numbers that the caller computes for each token, if they are more than its scores.
        """
        for part in shards(self.offsets, max(width, self.source.score_width)):
            scores, offsets, tokens, allowed = self._scores(part)
            scores = scores.constrained(self.constraints, allowed)
            if self.rules is None:
                yield Piece(Lattice(scores, offsets, part[0]), tokens, slice(*part))
                continue
            for number, (b, e) in enumerate(pairwise(offsets.tolist()), start=part[0]):
                steps = scores.transitions if len(scores.transitions) == 1 else scores.transitions[b:e]
                sequence = scores._replace(emissions=scores.emissions[b:e], transitions=steps)
                states, *rest = (
                    kernels.occurrences.state_chain(sequence, self.rules) if e > b else (sequence, None, 0.0)
                )
                places = slice(tokens.start + b, tokens.start + e), slice(number, number + 1)
                yield Piece(Lattice(states, np.array([0, e - b]), number), *places, *rest)

    def _scores(self, part: SequenceRange) -> tuple[Scores, Offsets, slice, Bools | None]:
        """Return the scores of some sequences, their offsets from 0 on, their tokens, and the labels these may have."""
        scores = self.source.scores(part)
        if self.temperature != 1:
            scores = Scores(*(array / array.dtype.type(self.temperature) for array in scores))
        offsets, tokens = self.offsets[part[0] : part[1] + 1], tokens_of(self.offsets, part)
        return scores, offsets - tokens.start, tokens, None if self.allowed is None else self.allowed[tokens]
