"""The model of an estimator: a linear-chain CRF whose features are attributes with names, its training, and its files.

A file is one msgpack map, or a model of CRFsuite.
"""

from __future__ import annotations

from itertools import compress, product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import srsly

from ..corpora.saved_models import CRFSUITE, NO_WEIGHTS, NamedWeights, SavedModel, read_crfsuite_model
from ..decoders.viterbi import Viterbi
from ..errors import ModelFileError
from ..features.interned import MOST_BAGS, AttributeText, Bags, FixedAttributes
from ..files import collecting
from ..inference.posterior import Posterior
from ..model import LinearChainCRF
from ..potentials.layout import DenseRows, Layout, WeightRows, bigram_columns, cells, rows_of, taken
from ..potentials.linear import Linear
from ..potentials.protocol import Potential
from ..potentials.sums import Sum
from ..potentials.values import ListedValues
from ..training.dataset import Dataset
from ..types import Bools, Constraints, Floats, Ints, Offsets
from ..weights_file import weights_from_bytes, weights_to_bytes
from .crfsuite import Settings
from .inputs import READING


class AttributeModel(NamedTuple):
    """A linear model of attributes; row a of its weights belongs to attribute a."""

    attributes: FixedAttributes
    bags: Bags
    crf: LinearChainCRF

    def posterior(self, text: AttributeText, offsets: Offsets) -> Posterior:
        """Return the distribution of the labels of a text."""
        free = np.ones(len(self.crf.labels), np.bool_)
        step = np.ones((len(free), len(free)), np.bool_)
        constraints = Constraints(free, step, free, ~step, ~free)
        with READING:
            if self.bags.store.size > MOST_BAGS:
                self.bags.forget()
            posterior = self.crf.posterior(self.bags.encode(text, offsets), constraints)
        attributes, inputs = text.listed(self.bags.groups)
        if len(attributes):
            rows, places = taken(self.crf.layout.unigrams, attributes)
            weights = np.zeros((len(attributes), len(self.crf.labels)), self.crf.theta.dtype)
            weights.ravel()[cells(rows)] = self.crf.views.unigrams[places]
            posterior.source.add(ListedValues(np.ones(weights.shape, np.bool_)), weights.ravel(), inputs)
        return posterior

    def labels(self, text: AttributeText, offsets: Offsets, n_threads: int = 1) -> list[str]:
        """Return the most probable label of each token [T]."""
        numbers = self.posterior(text, offsets).decode(Viterbi(), n_threads)
        return list(map(self.crf.labels.__getitem__, numbers.tolist()))

    def saved(self) -> SavedModel:
        """Return the weights of all names."""
        n, views = len(self.crf.labels), self.crf.views
        rows, columns = np.divmod(cells(self.crf.layout.unigrams), n)
        weights = NamedWeights(list(self.attributes.names), rows, columns, views.unigrams.astype(np.float64))
        return SavedModel(list(self.crf.labels), weights, NO_WEIGHTS, views.transitions.astype(np.float64))

    def state_features(self) -> dict[tuple[str, str], float]:
        """Return the weights that are not zero by attribute and label."""
        names, labels = list(self.attributes.names), self.crf.labels
        rows, columns = np.divmod(cells(self.crf.layout.unigrams), len(labels))
        weights = zip(rows.tolist(), columns.tolist(), self.crf.views.unigrams.tolist(), strict=True)
        return {(names[a], labels[k]): weight for a, k, weight in weights if weight}

    def transition_features(self) -> dict[tuple[str, str], float]:
        """Return the weights of transitions that are not zero by both labels."""
        pairs, weights = product(self.crf.labels, self.crf.labels), self.crf.views.transitions.ravel().tolist()
        return {pair: weight for pair, weight in zip(pairs, weights, strict=True) if weight}

    def compact(self) -> AttributeModel:
        """Return the model without weights that are zero."""
        crf, kept = self.crf.compact(), np.zeros(len(self.attributes.names), np.bool_)
        kept[crf.keys[0].astype(np.int64)] = True
        names = compress(self.attributes.names, kept.tolist())
        return AttributeModel(FixedAttributes(names), Bags(self.bags.groups[kept]), crf)

    def to_bytes(self) -> bytes:
        """Return the model as msgpack."""
        message = {
            "attributes": list(self.attributes.names),
            "groups": self.bags.groups,
            "crf": weights_to_bytes(self.crf),
        }
        data: bytes = srsly.msgpack_dumps(message)
        return data

    @classmethod
    def from_file(cls, path: Path) -> AttributeModel:
        """Return the model in a file, of this package or of CRFsuite.  RAISES ModelFileError: On anything else."""
        data = path.read_bytes()
        if not data.startswith(CRFSUITE):
            return cls.from_bytes(data, str(path))
        labels, weights, _, transitions, _ = read_crfsuite_model(path)
        n, n_rows = len(labels), len(weights.names)
        places = weights.rows.astype(np.int64) * n + weights.columns
        rows, values = rows_of([np.sort(places)], n_rows, n), weights.values[np.argsort(places)]
        theta = np.concatenate([values, transitions.ravel(), np.zeros(2 * n)])
        keys = np.arange(n_rows).astype(np.uint64), np.zeros(0, np.uint64)
        crf = LinearChainCRF(labels, Layout(n, rows, DenseRows(0, n * n), None, False), theta, keys)
        return cls(FixedAttributes(weights.names), Bags(np.zeros(n_rows, np.int32)), crf)

    @classmethod
    def from_bytes(cls, data: bytes, source: str) -> AttributeModel:
        """Return the model stored by `to_bytes`.  RAISES ModelFileError: On anything else."""
        try:
            with collecting():
                message = srsly.msgpack_loads(data)
            names, groups = [str(name) for name in message["attributes"]], np.array(message["groups"], np.int32)
            crf = weights_from_bytes(message["crf"], source)
            if not len(names) == len(groups) == crf.layout.unigrams.n_rows:
                raise ValueError(f"{len(names)} attributes of {crf.layout.unigrams.n_rows}")
        except Exception as error:  # msgpack raises many kinds on foreign bytes
            raise ModelFileError(f"{source}: no model of spacy_crfseq.CRF or CRFsuite ({error}).") from error
        return cls(FixedAttributes(names), Bags(groups), crf)


class AttributeTraining:
    """The objective of CRFsuite on a text, and the model for its parameters.

    An attribute with values other than 0 and 1 has its weights, and all of its occurrences, in a potential of its own.
    """

    def __init__(
        self, settings: Settings, attributes: FixedAttributes, bags: Bags, text: AttributeText, offsets: Offsets,
        gold: list[str], labels: list[str], importance: Floats,
    ) -> None:  # fmt: skip
        number, n = {label: i for i, label in enumerate(labels)}, len(labels)
        tags = np.fromiter(map(number.__getitem__, gold), np.int32, len(gold))
        self._attributes, self._labels, self._bags = attributes, labels, bags
        observed, steps = _observed(settings, text, tags, (len(attributes.names), n), bigram_columns(tags, offsets, n))
        rows: WeightRows = DenseRows(*observed.shape)
        if not observed.all():
            rows = rows_of([np.flatnonzero(observed)], *observed.shape)
        self._layout = Layout(n, rows, DenseRows(0, steps.size), None if steps.all() else steps, False)
        self._listed, inputs = text.listed(self._bags.groups)
        encoded = self._bags.encode(text, offsets)._replace(inputs=(inputs,))
        self.data, linear = Dataset(encoded, tags, importance), Linear(self._layout)
        self.n_features = int(observed.sum() + steps.sum())
        values = [ListedValues(observed[self._listed])] if len(self._listed) else []
        self.potential: Potential = Sum(linear, values) if values else linear

    def model(self, theta: Floats) -> AttributeModel:
        """Return the model with these parameters of the objective."""
        theta, values = theta[: self._layout.size].copy(), theta[self._layout.size :]
        rows, places = taken(self._layout.unigrams, self._listed)
        theta[places] = values[cells(rows)]  # those of unigrams are the first
        keys = np.arange(self._layout.unigrams.n_rows).astype(np.uint64), np.zeros(0, np.uint64)
        return AttributeModel(self._attributes, self._bags, LinearChainCRF(self._labels, self._layout, theta, keys))


def _observed(
    settings: Settings, text: AttributeText, tags: Ints, shape: tuple[int, int], following: Ints
) -> tuple[Bools, Bools]:
    """Return which weights [F, L] and which transitions [L, L] the model has; `following` [T] are those of the text."""
    (n_attributes, n), least = shape, settings["min_freq"] or 0
    numbers, values = text.decoded()
    pairs = np.multiply(numbers, n, dtype=np.int32 if n_attributes * n < 2**31 else np.int64)
    pairs += np.repeat(tags, text.sizes)
    counts = np.bincount(following[following >= 0], minlength=n * n)
    seen = np.full(n_attributes * n, bool(settings["all_possible_states"]))
    seen[pairs] = True
    steps = (counts > 0) | bool(settings["all_possible_transitions"])
    if least > 0 or (values < 0).any():  # a frequency is the sum of the values
        seen &= np.bincount(pairs, values, n_attributes * n) >= least
        steps &= counts >= least
    return seen.reshape(shape), steps.reshape(n, n)
