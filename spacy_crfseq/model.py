"""The linear-chain CRF: parameters, and their place on disk.

    score(y | x) = start(y_1) + sum_t [ sum_{a in x_t} W(a, y_t) + A(y_{t-1}, y_t) + sum_{b in x_t} V(b, y_{t-1}, y_t) ]
                 + end(y_T)

W weights features of the *unigram* block, V those of the *bigram* block (empty without label-pair templates), A are the
transitions; `layout` says where each lies in the flat array theta [D].
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import srsly
from numpy.typing import NDArray

from .errors import ModelFileError
from .features.encoder import Encoded
from .features.protocol import Stateful
from .files import collecting
from .inference.posterior import Posterior, make_posterior
from .potentials.layout import Layout, Views
from .potentials.linear import Linear, WeightTables
from .potentials.protocol import Potential, Source
from .potentials.rows import DenseRows, Rows, SparseRows, active_rows, cells, used_rows
from .potentials.small import Small, TokenScores
from .potentials.sums import Sum, SumSource
from .potentials.tag_dictionary import EmissionMask, MaskedSource, TagDictionary, without_dictionary
from .types import Bools, Constraints, Floats, Hashes, Numbers, OccurrenceRules, SupportPotential, TokenPotential

FORMAT = "spacy_crfseq.LinearChainCRF"
VERSION = 1
"""A release that does not know tag dictionaries, or that zeros are left out, must refuse such a file."""
Added: TypeAlias = TokenPotential | SupportPotential


class LinearChainCRF:
    """A trained or trainable model over encoded texts.

    labels (list[str]): L labels.
    theta (Floats): [D] parameters as the layout orders them, then those of the added potentials.
    keys (tuple[Hashes, Hashes]): Feature keys of the unigram and of the bigram block.
    dictionary (TagDictionary | None): Labels that frequent words, numbered in ``Encoded.words``, may have.
    templates (tuple[Numbers, Numbers] | None): The number of each feature's template, by block; None in models from
        before these were stored.
    added (tuple[Added, ...]): Potentials whose scores are added.
    """

    def __init__(
        self,
        labels: Sequence[str],
        layout: Layout,
        theta: Floats,
        keys: tuple[Hashes, Hashes],
        dictionary: TagDictionary | None = None,
        templates: tuple[Numbers, Numbers] | None = None,
        added: tuple[Added, ...] = (),
    ) -> None:
        self.labels, self.layout, self.keys, self.dictionary = list(labels), layout, keys, dictionary
        self.templates, self.added = templates, added
        self.small: list[Small] = [
            one.potential(layout.n_labels, number)
            if isinstance(one, SupportPotential)
            else TokenScores(one, layout.n_labels, number)
            for number, one in enumerate(added)
        ]
        self._mask = None if dictionary is None else EmissionMask(dictionary)
        self.set_theta(theta)

    def __repr__(self) -> str:
        n_features = self.layout.unigrams.n_rows + self.layout.bigrams.n_rows
        return (
            f"<LinearChainCRF: {len(self.labels)} labels, {n_features:,} features, {len(self.theta):,} weights, "
            f"{np.count_nonzero(self.theta):,} of them not zero>"
        )

    @property
    def theta(self) -> Floats:
        """Parameters [D]; replace them by `set_theta`, which drops sums of the old ones."""
        return self._theta

    def set_theta(self, theta: Floats) -> None:
        """Use these parameters from now on."""
        self._theta, self._tables = theta, WeightTables(Linear(self.layout), theta[: self.layout.size])

    @property
    def views(self) -> Views:
        """Groups of parameters, without a copy."""
        return self._tables.views

    @property
    def added_views(self) -> list[Floats]:
        """Parameters of each added potential, without a copy."""
        ends = np.cumsum([self.layout.size, *(one.size for one in self.small)])
        return [self._theta[begin:end] for begin, end in pairwise(ends)]

    @property
    def cached_bytes(self) -> int:
        """The memory of sums for the bags of an encoder, dropped when it has forgotten these."""
        return self._tables.n_bytes

    @property
    def linear(self) -> Linear:
        """The linear potential, whose parameters are the first in theta."""
        return self._tables.potential

    @property
    def potential(self) -> Potential:
        """The potential that the parameters belong to."""
        return Sum((self.linear, *self.small)) if self.added else self.linear

    def at(self, theta: Floats) -> LinearChainCRF:
        """Return the same model with other parameters [D]."""
        return LinearChainCRF(self.labels, self.layout, theta, self.keys, self.dictionary, self.templates, self.added)

    def source(self, encoded: Encoded) -> Source:
        """Return the scores of a text under the present parameters and the tag dictionary."""
        source: Source = self._tables.source(encoded)
        if self.added:
            added = zip(self.small, self.added_views, strict=True)
            source = SumSource((source, *(one.source(theta, encoded) for one, theta in added)))
        if self._mask is None or encoded.words is None:
            return source
        return MaskedSource(source, self._mask, encoded.words)

    def by_label(self, factors: Floats) -> Floats:
        """Return the factor of each weight [D] given those of the labels [L]; two labels have the larger one."""
        unigrams, bigrams = (cells(rows) % max(1, rows.width) for rows in (self.layout.unigrams, self.layout.bigrams))
        pairs = np.maximum.outer(factors, factors).ravel()
        others = [np.tile(factors, one.size // len(factors)) for one in self.small]
        parts = [factors[unigrams], pairs[bigrams], pairs, factors, factors, *others]
        return np.concatenate(parts).astype(self._theta.dtype)

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
        """
        source = without_dictionary(self.source(encoded), allowed, constraints)
        return make_posterior(source, constraints, allowed, temperature, rules)

    def with_labels(self, labels: Sequence[str], transitions: bool = True) -> LinearChainCRF:
        """Return a model with more labels, all of this model's among them; the weights of new ones are zero.

        transitions (bool): Whether transitions from and to new labels are trained.  Parameters of a `TokenPotential`
            start at zero.
        """
        n = len(labels)
        moved = np.array([list(labels).index(label) for label in self.labels], np.int64)
        pairs = (moved[:, None] * n + moved).ravel()
        unigrams, unigram_places = self.layout.unigrams.widened(moved, n)
        bigrams, bigram_places = self.layout.bigrams.widened(pairs, n * n)
        steps = None
        if self.layout.steps is not None:
            steps = np.full((n, n), transitions)
            steps.ravel()[pairs] = self.layout.steps.ravel()
        layout = Layout(n, unigrams, bigrams, steps, self.layout.boundaries)
        theta = np.zeros(layout.size + sum(one.size(n) for one in self.added), self._theta.dtype)
        new = layout.views(theta[: layout.size])
        targets = (unigram_places, bigram_places, pairs, moved, moved)
        for target, places, source in zip(new, targets, self.views, strict=True):
            target.reshape(-1)[places] = source.ravel()
        dictionary = None if self.dictionary is None else self.dictionary.widened(moved, n)
        wider = LinearChainCRF(labels, layout, theta, self.keys, dictionary, self.templates, self.added)
        for one, own, target in zip(self.added, self.added_views, wider.added_views, strict=True):
            if isinstance(one, SupportPotential):
                target.reshape(-1, n)[:, moved] = own.reshape(-1, len(moved))
        return wider

    def compact(self, threshold: float = 0.0) -> LinearChainCRF:
        """Return a model without weights of absolute value up to `threshold`, and without features that have none.

        Such transitions, start and end scores become zero, and such transitions are no longer trained.  With
        threshold 0 the scores of every text stay the same.  A kernel needs all features.
        """
        if self._needs_features:
            return self
        weights, rest = self._theta[: self.layout.size], self._theta[self.layout.size :]
        kept = np.abs(weights) > threshold
        for rows, part in zip((self.layout.unigrams, self.layout.bigrams), self.layout.views(kept), strict=False):
            _keep_dense(rows, part)
        layout, theta = self.layout.restricted(kept), self.layout.move(weights, kept)
        theta[np.abs(theta) <= threshold] = 0
        return self._restricted(layout, np.concatenate([theta, rest]))

    def without_unused(self) -> LinearChainCRF:
        """Return the model without features whose weights are all zero, of which it keeps every other weight.

        The scores of every text stay the same; training can continue with the remaining features.
        """
        if self._needs_features:
            return self
        blocks = self.layout.unigrams, self.layout.bigrams
        return self.with_features([active_rows(*each)[0] for each in zip(blocks, self.views, strict=False)])

    def with_features(self, wanted: Sequence[Bools]) -> LinearChainCRF:
        """Return the model with the features [F] of each block that are wanted, and their weights."""
        weights, rest = self._theta[: self.layout.size], self._theta[self.layout.size :]
        kept = np.ones(self.layout.size, np.bool_)
        blocks = self.layout.unigrams, self.layout.bigrams
        for rows, part, mine in zip(blocks, self.layout.views(kept), wanted, strict=False):
            part[:] = mine[cells(rows) // max(1, rows.width)]
        if kept.all():
            return self
        return self._restricted(self.layout.restricted(kept), np.concatenate([self.layout.move(weights, kept), rest]))

    @property
    def _needs_features(self) -> bool:
        return any(one.needs_features for one in self.small)

    def _restricted(self, layout: Layout, theta: Floats) -> LinearChainCRF:
        # the model with this layout of the same features, less those that have no place in it
        used = used_rows(layout.unigrams), used_rows(layout.bigrams)
        keys = self.keys[0][used[0]], self.keys[1][used[1]]
        templates = None if self.templates is None else (self.templates[0][used[0]], self.templates[1][used[1]])
        layout = _densest(layout.without_empty())
        return LinearChainCRF(self.labels, layout, theta, keys, self.dictionary, templates, self.added)

    def to_bytes(self) -> bytes:
        """Return the model as msgpack: one entry per array, in the smallest integer types, no weight that is zero."""
        used = self._theta != 0
        message: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION,
            "labels": self.labels,
            "boundaries": self.layout.boundaries,
            "steps": None if self.layout.steps is None else self.layout.steps.astype(np.uint8),
            "theta": self._theta,
        }
        if not used.all():
            message |= {"theta": self._theta[used], "used": np.packbits(used), "n_theta": len(used)}
        for name, rows, keys in zip(
            ("state", "pair"), (self.layout.unigrams, self.layout.bigrams), self.keys, strict=True
        ):
            message[name] = {"keys": keys, **_pack_rows(rows)}
        if self.templates is not None:
            for name, templates in zip(("state", "pair"), self.templates, strict=True):
                message[name]["templates"] = _shrink(templates)
        if self.dictionary is not None:
            words, allowed = self.dictionary
            message["dictionary"] = {"words": words, "allowed": np.packbits(allowed, axis=1)}
        states = [one.to_state() for one in self.added if isinstance(one, Stateful)]
        if states:
            message["kernels"] = states  # the first of these were kernels
        data: bytes = srsly.msgpack_dumps(message)
        return data

    @classmethod
    def from_bytes(cls, data: bytes, source: str = "model data", added: tuple[Added, ...] = ()) -> LinearChainCRF:
        """Return the model stored by `to_bytes`.

        source (str): Name of the data for error messages.
        added (tuple[Added, ...]): The potentials of its training, in addition to the linear one.
        RAISES ModelFileError: If the data are foreign, truncated, of another version, or hold impossible numbers.
        """
        message = _unpack(data, source)
        try:
            labels, steps = _unpack_labels(message["labels"]), message["steps"]
            n = len(labels)
            layout = Layout(
                n,
                _unpack_rows(message["state"], n),
                _unpack_rows(message["pair"], n * n),
                None if steps is None else np.array(steps, np.bool_),
                bool(message["boundaries"]),
            )
            keys = _unpack_keys(message["state"]), _unpack_keys(message["pair"])
            templates = _unpack_templates(message["state"]), _unpack_templates(message["pair"])
            theta = _unpack_theta(message)
            dictionary = _unpack_dictionary(message["dictionary"], n) if "dictionary" in message else None
            own = [one for one in added if isinstance(one, Stateful)]
            for one, state in zip(own, message.get("kernels", ()), strict=True):
                one.from_state(state)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
            raise ModelFileError(
                f"{source}: the stored model is damaged ({error!r}); train or copy it again."
            ) from error
        _check(layout, theta, keys, source, sum(one.size(n) for one in added))
        numbers = None if templates[0] is None or templates[1] is None else (templates[0], templates[1])
        return cls(labels, layout, theta, keys, dictionary, numbers, added)


DENSE_FROM = 0.8
"""Share of used weights in used rows from which dense rows take less memory than sparse ones."""


def _keep_dense(rows: Rows, kept: Bools) -> None:
    """Mark whole rows in kept [size] where a dense block takes less memory."""
    if isinstance(rows, DenseRows):
        table = kept.reshape(rows.n_rows, rows.width)
        used = table.any(1)
        if table.sum() >= DENSE_FROM * used.sum() * rows.width:
            table[used] = True


def _densest(layout: Layout) -> Layout:
    """Return a layout whose rows are dense where every row has all columns."""

    def dense(rows: Rows) -> Rows:
        return DenseRows(rows.n_rows, rows.width) if rows.size == rows.n_rows * rows.width else rows

    return layout._replace(unigrams=dense(layout.unigrams), bigrams=dense(layout.bigrams))


def _pack_rows(rows: Rows) -> dict[str, Any]:
    if isinstance(rows, DenseRows):
        return {"kind": "dense"}
    return {"kind": "sparse", "lengths": _shrink(np.diff(rows.ptr)), "cols": _shrink(rows.cols)}


def _shrink(values: NDArray[Any]) -> NDArray[Any]:
    return values.astype(np.min_scalar_type(int(values.max(initial=0))))


def _unpack(data: bytes, source: str) -> dict[str, Any]:
    try:
        with collecting():
            message = srsly.msgpack_loads(data)
    except Exception as error:  # msgpack raises many kinds on foreign bytes
        raise ModelFileError(
            f"{source}: this is no spacy_crfseq model, or it was cut short ({error}). Train or copy it again."
        ) from error
    head: dict[str, Any] = message if isinstance(message, dict) else {}
    if not isinstance(head.get("format"), str) or head["format"] != FORMAT:
        raise ModelFileError(f"{source}: this is no spacy_crfseq model. Train a model, or check the path.")
    check_version(head.get("version"), VERSION, source)
    return head


def check_version(stored: Any, known: int, source: str) -> None:
    """RAISES ModelFileError: If a stored format is of another version than the known one."""
    if type(stored) is int and stored > known:
        raise ModelFileError(
            f"{source}: stored by a newer release of spacy_crfseq, in version {stored} of the format; this one reads "
            f"version {known}. Run 'pip install --upgrade spacy-crfseq'."
        )
    if type(stored) is not int or stored != known:
        raise ModelFileError(f"{source}: stored in version {stored!r} of the format. Train or copy it again.")


def _unpack_labels(stored: Any) -> list[str]:
    is_list = isinstance(stored, list) and all(isinstance(label, str) for label in stored)
    if not is_list or not stored or len(set(stored)) < len(stored):
        raise ValueError(f"the labels are {stored!r} instead of a list of distinct names")
    return list(stored)


def _unpack_theta(stored: dict[str, Any]) -> Floats:
    values = np.array(stored["theta"])
    if "used" not in stored:
        return values
    size, packed = int(stored["n_theta"]), np.array(stored["used"], np.uint8)
    if packed.ndim != 1 or values.ndim != 1 or size < 0 or len(packed) != -(-size // 8):
        raise ValueError(f"{values.size} parameters where {size} are marked")
    used = np.unpackbits(packed, count=size).astype(np.bool_)
    if len(values) != used.sum():
        raise ValueError(f"{values.size} parameters where {used.sum()} are needed")
    theta = np.zeros(size, values.dtype)
    theta[used] = values
    return theta


def _unpack_keys(stored: dict[str, Any]) -> Hashes:
    keys = np.array(stored["keys"])
    if keys.ndim != 1 or keys.dtype != np.uint64:
        raise ValueError(f"the keys are {keys.ndim}-dimensional {keys.dtype} instead of a list of uint64")
    return keys


def _unpack_templates(stored: dict[str, Any]) -> Numbers | None:
    if "templates" not in stored:
        return None
    numbers = np.array(stored["templates"])
    if numbers.shape != (len(stored["keys"]),) or numbers.dtype not in (np.uint8, np.uint16):
        raise ValueError("the numbers of the templates do not fit the features")
    return numbers.astype(np.uint16)


def _unpack_dictionary(stored: dict[str, Any], n_labels: int) -> TagDictionary:
    words = _unpack_keys({"keys": stored["words"]})
    allowed = np.unpackbits(np.array(stored["allowed"], np.uint8), axis=1)[:, :n_labels].astype(np.bool_)
    if allowed.shape != (len(words), n_labels) or not allowed.any(1).all():
        raise ValueError("the tag dictionary does not fit the labels")
    return TagDictionary(words, allowed)


def _unpack_rows(stored: dict[str, Any], width: int) -> Rows:
    if stored["kind"] == "dense":
        return DenseRows(len(stored["keys"]), width)
    if stored["kind"] != "sparse":
        raise ValueError(f"the weights are stored as {stored['kind']!r}, which is not known")
    lengths, cols = np.asarray(stored["lengths"]), np.asarray(stored["cols"])
    if any(len(part) and part.dtype.kind not in "iu" for part in (lengths, cols)):
        raise ValueError("the places of the weights are not whole numbers")
    if cols.size and not 0 <= cols.min() <= cols.max() < width:
        raise ValueError("weights of labels that are not there")
    ptr = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)
    return SparseRows(ptr, cols.astype(np.int32), width)


def _check(layout: Layout, theta: Floats, keys: tuple[Hashes, Hashes], source: str, n_added: int) -> None:
    """Refuse a model whose arrays do not fit each other, since kernels do not check bounds."""

    def sound(rows: Rows, n_keys: int) -> bool:
        if rows.n_rows != n_keys:
            return False
        if isinstance(rows, DenseRows):
            return True
        if rows.cols.ndim != 1 or rows.ptr[-1] != len(rows.cols) or (np.diff(rows.ptr) < 0).any():
            return False
        return bool((rows.cols >= 0).all() and (rows.cols < rows.width).all())

    wrong = ""
    if not (sound(layout.unigrams, len(keys[0])) and sound(layout.bigrams, len(keys[1]))):
        wrong = "its features and weights do not fit together; train or copy it again."
    elif layout.steps is not None and layout.steps.shape != (layout.n_labels, layout.n_labels):
        wrong = f"its transitions do not fit its {layout.n_labels} labels; copy it again."
    elif theta.ndim != 1 or len(theta) != layout.size + n_added:
        wrong = (
            f"{theta.size} parameters where {layout.size + n_added} are needed. Copy it again, with the config beside "
            "it: [potentials] must be those of the training."
        )
    elif theta.dtype not in (np.float32, np.float64):
        wrong = f"parameters of type {theta.dtype.str}, not float32 or float64; copy it again."
    if wrong:
        raise ModelFileError(f"{source}: {wrong}")
    check_finite(theta, source)


def check_finite(theta: Floats, source: str) -> None:
    """Raise ModelFileError if a weight is NaN or infinite."""
    if not np.isfinite(theta).all():
        count = int((~np.isfinite(theta)).sum())
        raise ModelFileError(
            f"{source}: {count} of {len(theta)} weights are NaN or infinite. The training diverged or the file is "
            "damaged: train again, with a smaller learning rate or a stronger regularizer."
        )
