"""The linear-chain CRF: its parameters, and the distribution of labels that they give a text.

    score(y | x) = start(y_1) + sum_t [ sum_{a in x_t} W(a, y_t) + A(y_{t-1}, y_t) + sum_{b in x_t} V(b, y_{t-1}, y_t) ]
                 + end(y_T)

W weights features of the *unigram* block, V those of the *bigram* block (empty without label-pair templates), A are the
transitions; `layout` says where each lies in the flat array theta [D].
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from .errors import ConfigError
from .features.encoded import Encoded
from .inference.posterior import Posterior
from .potentials.layout import DenseRows, Layout, cells, chosen, dense_if_full, rows_with, taken, used_rows, widened
from .potentials.linear import CachedSums, Linear, Source
from .potentials.protocol import Potential
from .potentials.sums import SmallPotential, Sum, TokenScores
from .potentials.tag_dictionary import EmissionMask, TagDictionary
from .types import Bools, Constraints, Floats, Hashes, Ints, Numbers, OccurrenceRules, SupportPotential, TokenPotential

COLDEST = 1e-6
"""The lowest temperature for scores in single precision; the highest is one over it."""
DENSE_FROM = 0.8
"""Share of used weights in used rows from which dense rows take less memory than sparse ones."""
Added: TypeAlias = TokenPotential | SupportPotential


def check_temperature(temperature: float) -> None:
    """RAISES ConfigError: If a temperature is out of range, or not a number."""
    if not isinstance(temperature, (int, float, np.floating)) or not COLDEST <= temperature <= 1 / COLDEST:
        raise ConfigError(
            f"temperature = {temperature}: give a number from {COLDEST:g} to {1 / COLDEST:g}; 1 changes nothing."
        )


class LinearChainCRF:
    """A trained or trainable model over encoded texts.

    labels (list[str]): L labels.
    theta (Floats): [D] parameters as the layout orders them, then those of the added potentials; see `set_theta`.
    keys (tuple[Hashes, Hashes]): Feature keys of the unigram and of the bigram block.
    dictionary (TagDictionary | None): Labels that frequent words, numbered in ``Encoded.dictionary_ids``, may have.
    templates (tuple[Numbers, Numbers] | None): The number of each feature's template, by block; None without templates.
    added_potentials (tuple[Added, ...]): Potentials whose scores are added.
    """

    def __init__(
        self,
        labels: Sequence[str],
        layout: Layout,
        theta: Floats,
        keys: tuple[Hashes, Hashes],
        dictionary: TagDictionary | None = None,
        templates: tuple[Numbers, Numbers] | None = None,
        added_potentials: tuple[Added, ...] = (),
    ) -> None:
        self.labels, self.layout, self.keys, self.dictionary = list(labels), layout, keys, dictionary
        self.templates, self.added_potentials = templates, added_potentials
        self.small: list[SmallPotential] = (
            [
                plugin.potential(layout.n_labels, number)
                if isinstance(plugin, SupportPotential)
                else TokenScores(plugin, layout.n_labels, number)
                for number, plugin in enumerate(added_potentials)
            ]
            if added_potentials
            else []
        )
        self._mask, self.linear = None if dictionary is None else EmissionMask(dictionary), Linear(layout)
        self.set_theta(theta)

    def __repr__(self) -> str:
        n_features = self.layout.unigrams.n_rows + self.layout.bigrams.n_rows
        return (
            f"<LinearChainCRF: {len(self.labels)} labels, {n_features:,} features, {len(self.theta):,} weights, "
            f"{np.count_nonzero(self.theta):,} of them not zero>"
        )

    def set_theta(self, theta: Floats) -> None:
        """Use these parameters from now on, and drop the sums of earlier parameters."""
        self.theta, self.views = theta, self.layout.views(theta[: self.layout.size])
        self._tables = list(map(CachedSums, self.linear.rows, self.views))

    @property
    def added_views(self) -> list[Floats]:
        """Parameters of each added potential, without a copy."""
        ends = np.cumsum([self.layout.size, *(potential.size for potential in self.small)])
        return [self.theta[begin:end] for begin, end in pairwise(ends)]

    @property
    def cached_bytes(self) -> int:
        """The memory of sums for the bags of an encoder, dropped when it has forgotten these."""
        return sum(table.n_bytes for table in self._tables)

    @property
    def potential(self) -> Potential:
        """The potential that the parameters belong to."""
        return Sum(self.linear, self.small) if self.added_potentials else self.linear

    def at(self, theta: Floats) -> LinearChainCRF:
        """Return the same model with other parameters [D]."""
        return LinearChainCRF(
            self.labels, self.layout, theta, self.keys, self.dictionary, self.templates, self.added_potentials
        )

    def by_label(self, factors: Floats) -> Floats:
        """Return the factor of each weight [D] given those of the labels [L]; two labels have the larger one."""
        unigrams, bigrams = (cells(rows) % max(1, rows.width) for rows in (self.layout.unigrams, self.layout.bigrams))
        pairs = np.maximum.outer(factors, factors).ravel()
        others = [np.tile(factors, potential.size // len(factors)) for potential in self.small]
        parts = [factors[unigrams], pairs[bigrams], pairs, factors, factors, *others]
        return np.concatenate(parts).astype(self.theta.dtype)

    def posterior(
        self,
        encoded: Encoded,
        constraints: Constraints,
        allowed: Bools | None = None,
        temperature: float = 1.0,
        rules: OccurrenceRules | None = None,
    ) -> Posterior:
        """Return the distribution of a text's labels under the present parameters; arguments as in `Posterior`.

        This adds to shared tables; the result does not, so other threads may encode, score and train at the same time.
        RAISES ConfigError: If the temperature is out of range, or not a number.
        """
        check_temperature(temperature)
        small = list(zip(self.small, self.added_views, strict=True)) if self.small else ()
        source = Source(self._tables, self.views, encoded, small, self._mask)
        if allowed is not None:
            source = source.without_restricted(allowed, constraints)
        return Posterior(source, source.offsets, constraints, allowed, temperature, rules)

    def with_labels(self, labels: Sequence[str], transitions: bool = True) -> LinearChainCRF:
        """Return a model with more labels, all of this model's among them; the weights of new labels are zero.

        transitions (bool): Whether transitions from and to new labels are trained.  Parameters of a `TokenPotential`
            start at zero.
        """
        n = len(labels)
        moved = np.array([list(labels).index(label) for label in self.labels], np.int64)
        pairs = (moved[:, None] * n + moved).ravel()
        unigrams, unigram_places = widened(self.layout.unigrams, moved, n)
        bigrams, bigram_places = widened(self.layout.bigrams, pairs, n * n)
        steps = None
        if self.layout.steps is not None:
            steps = np.full((n, n), transitions)
            steps.ravel()[pairs] = self.layout.steps.ravel()
        layout = Layout(n, unigrams, bigrams, steps, self.layout.boundaries)
        theta = np.zeros(layout.size + sum(plugin.size(n) for plugin in self.added_potentials), self.theta.dtype)
        new = layout.views(theta[: layout.size])
        targets = (unigram_places, bigram_places, pairs, moved, moved)
        for target, places, source in zip(new, targets, self.views, strict=True):
            target.reshape(-1)[places] = source.ravel()
        dictionary = None if self.dictionary is None else self.dictionary.widened(moved, n)
        wider = LinearChainCRF(labels, layout, theta, self.keys, dictionary, self.templates, self.added_potentials)
        for plugin, own, target in zip(self.added_potentials, self.added_views, wider.added_views, strict=True):
            if isinstance(plugin, SupportPotential):
                target.reshape(-1, n)[:, moved] = own.reshape(-1, len(moved))
        return wider

    def compact(self, threshold: float = 0.0, bits: int | None = None) -> LinearChainCRF:
        """Return a model without weights of absolute value up to `threshold`, and without features that have none.

        Such transitions, start and end scores become zero, and such transitions are no longer trained.  With
        threshold 0 the scores of every text stay the same.  A model with a potential that needs all features, such
        as the kernel perceptron's, is returned as it is.
        bits (int | None): Before that, round the weights to multiples of 1 / 2**bits, which take less space; those of
            added potentials stay.
        """
        if bits is not None:
            theta, n = self.theta.copy(), self.layout.size
            theta[:n] = np.ldexp(np.rint(np.ldexp(theta[:n], bits)), -bits)
            return self.at(theta).compact(threshold)
        kept = np.abs(self.theta[: self.layout.size]) > threshold
        for rows, part in zip((self.layout.unigrams, self.layout.bigrams), self.layout.views(kept), strict=False):
            if isinstance(rows, DenseRows):
                table = part.reshape(rows.n_rows, rows.width)
                used = table.any(1)
                if table.sum() >= DENSE_FROM * used.sum() * rows.width:
                    table[used] = True
        return self._restricted(kept, threshold)

    def in_order(self) -> LinearChainCRF:
        """Return the model with the features of each block in the order of templates and keys.

        The differences of keys are small there, and take the least space in a file; equal weights, on the other hand,
        are neighbours in the order in which features were collected.
        """
        blocks = self.layout.unigrams, self.layout.bigrams
        numbers = self.templates or [np.zeros(len(keys), np.uint16) for keys in self.keys]
        orders = [np.lexsort(pair).astype(np.int32) for pair in zip(self.keys, numbers, strict=True)]
        (unigrams, places), (bigrams, pairs) = (taken(rows, order) for rows, order in zip(blocks, orders, strict=True))
        weights = self.views.unigrams.ravel()[places], self.views.bigrams.ravel()[pairs]
        layout = self.layout._replace(unigrams=unigrams, bigrams=bigrams)
        return self._of_features(layout, np.concatenate([*weights, self.theta[len(places) + len(pairs) :]]), orders)

    def without_unused(self) -> LinearChainCRF:
        """Return the model without features whose weights are all zero, of which it keeps every other weight.

        The scores of every text stay the same; training can continue with the remaining features.
        """
        blocks = zip((self.layout.unigrams, self.layout.bigrams), self.views, strict=False)
        return self.with_features([rows_with(rows, part != 0) for rows, part in blocks])

    def with_features(self, wanted: Sequence[Bools]) -> LinearChainCRF:
        """Return the model with the features [F] of each block that are wanted, and their weights."""
        own = self.layout
        used = [part & used_rows(rows) for rows, part in zip((own.unigrams, own.bigrams), wanted, strict=True)]
        unigrams, weights = chosen(own.unigrams, self.views.unigrams, used[0])
        bigrams, pair_weights = chosen(own.bigrams, self.views.bigrams, used[1])
        if (unigrams.size, bigrams.size) == (own.unigrams.size, own.bigrams.size):
            return self
        shared, steps = self.theta[own.unigrams.size + own.bigrams.size :], own.steps
        steps = None if steps is None or steps.all() else steps
        layout = Layout(own.n_labels, unigrams, bigrams, steps, own.boundaries)
        return self._of_features(layout, np.concatenate([weights, pair_weights, shared]), used)

    def _restricted(self, kept: Bools, threshold: float) -> LinearChainCRF:
        """Return the model with these weights [size of the layout], and the features that have any."""
        layout, theta = self.layout.restricted(kept), self.layout.move(self.theta[: self.layout.size], kept)
        theta[np.abs(theta) <= threshold] = 0
        used = [used_rows(layout.unigrams), used_rows(layout.bigrams)]
        layout = layout.without_empty()
        unigrams, bigrams = dense_if_full(layout.unigrams), dense_if_full(layout.bigrams)
        layout = layout._replace(unigrams=unigrams, bigrams=bigrams)
        return self._of_features(layout, np.concatenate([theta, self.theta[self.layout.size :]]), used)

    def _of_features(self, layout: Layout, theta: Floats, used: Sequence[Bools | Ints]) -> LinearChainCRF:
        """Return the model with some features of each block, and their parameters; itself if it needs all.

        used (Sequence): Which features [F], or the numbers of the features in their new order.
        """
        if any(potential.needs_features for potential in self.small):
            return self
        keys, templates = (self.keys[0][used[0]], self.keys[1][used[1]]), self.templates
        templates = None if templates is None else (templates[0][used[0]], templates[1][used[1]])
        return LinearChainCRF(self.labels, layout, theta, keys, self.dictionary, templates, self.added_potentials)
