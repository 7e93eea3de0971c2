"""An estimator for lists of feature dictionaries, with the interface of sklearn-crfsuite and the engine of the package.

The objective is that of CRFsuite: one weight for each attribute and label that occur together, times the value of the
attribute, and one for each transition; no start and end scores.  Neither spaCy nor scikit-learn is imported.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import warnings
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from functools import partial
from itertools import chain, compress, pairwise, product
from numbers import Integral
from operator import eq
from pathlib import Path
from threading import Lock
from types import SimpleNamespace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import srsly
from numpy.typing import NDArray

from . import registry, threads
from .corpora.saved_models import (
    CRFSUITE,
    NO_WEIGHTS,
    NamedWeights,
    SavedModel,
    read_crfsuite_model,
    write_crfsuite_model,
)
from .decoders.viterbi import Viterbi
from .errors import ConfigError, DataError, ModelFileError, NotFittedError, suggest
from .features.entries import attribute_of, entries_in, shown
from .features.interned import (
    MOST_BAGS,
    AttributeCodes,
    AttributeText,
    Bags,
    FixedAttributes,
    GrowingAttributes,
    group,
    joined,
)
from .files import collecting, replacing
from .inference.posterior import Posterior
from .metrics import log_scores
from .model import LinearChainCRF
from .optimizers.online import seeded
from .potentials.layout import DenseRows, Layout, WeightRows, bigram_columns, cells, rows_of, taken
from .potentials.linear import Linear
from .potentials.protocol import Potential
from .potentials.sums import Sum
from .potentials.values import ListedValues
from .training.compatibility import check_plugins
from .training.dataset import Dataset
from .training.fit import Progress, Schedule, fit
from .training.objective import Objective, Term
from .types import Bools, Constraints, Floats, Ints, NamedLoss, Offsets, TextLoss
from .weights_file import check_finite, weights_from_bytes, weights_to_bytes

Sequences: TypeAlias = Iterable[Sequence[Any]]
Settings: TypeAlias = Mapping[str, Any]
_READING = threads.surviving(Lock())
"""Held while a text is read, because estimators remember entries and sets of attributes."""
TOKENS_AT_ONCE = 4096
"""Tokens whose features are in memory at a time, where an iterator makes the sequences."""
_ITERATIONS = {"max_iterations": 100, "epsilon": 0.0}
_DEFAULTS: dict[str, dict[str, Any]] = {
    "lbfgs": {
        "c1": 0.0, "c2": 1.0, "max_iterations": 2**31 - 1, "num_memories": 6, "epsilon": 1e-5, "period": 10,
        "delta": 1e-5, "linesearch": "MoreThuente", "max_linesearch": 20,
    },
    "l2sgd": {
        "c2": 1.0, "max_iterations": 1000, "period": 10, "delta": 1e-6, "calibration_eta": 0.1, "calibration_rate": 2.0,
        "calibration_samples": 1000, "calibration_candidates": 10, "calibration_max_trials": 20,
    },
    "ap": _ITERATIONS,
    "pa": {"pa_type": 1, "c": 1.0, "error_sensitive": True, "averaging": True, **_ITERATIONS},
    "arow": {"variance": 1.0, "gamma": 1.0, **_ITERATIONS},
}  # fmt: skip
"""The settings of each algorithm of CRFsuite with their defaults."""
_SAME_RESULT = {
    "lbfgs": ("linesearch", "max_linesearch"),
    "l2sgd": ("period", *(name for name in _DEFAULTS["l2sgd"] if name.startswith("calibration"))),
}
"""The settings that only change how CRFsuite gets to its result; those of the other algorithms are "epsilon"."""


ENDING = ".msgpack"
"""The ending of model files in a format of this package."""


class ModelFile(NamedTuple):
    """The file of a model; name: None before `CRF.fit`."""

    name: str | None


class ModelInfo(NamedTuple):
    """The contents of a model, with the names of python-crfsuite.

    transitions, state_features (dict): Weights by both labels, and by attribute and label.
    header (dict): Sizes, as texts.
    labels, attributes (dict): Numbers of labels and attributes, as texts.
    """

    transitions: dict[tuple[str, str], float]
    state_features: dict[tuple[str, str], float]
    header: dict[str, str]
    labels: dict[str, str]
    attributes: dict[str, str]


class _Folder:
    """A temporary folder, removed with the object unless `kept`."""

    def __init__(self, kept: bool) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="crf-"))
        if not kept:
            weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


@dataclass(eq=False, repr=False)
class CRF:
    """Linear-chain CRF with the interface of ``sklearn_crfsuite.CRF``.

    X is a list of sequences, or an iterator that makes them, so that few are in memory at a time.  A sequence is a list
    of tokens, and a token a dictionary of features or a list of strings, as in python-crfsuite; y is a list of lists of
    strings.  Settings that are None have CRFsuite's defaults.

    algorithm (str): "lbfgs" (the default; OWL-QN where c1 is not 0), "l2sgd", "ap", "pa" or "arow".
    min_freq, all_possible_states, all_possible_transitions: Which weights there are, as in CRFsuite.
    c1, c2, max_iterations, num_memories, epsilon, period, delta: Settings of an algorithm, as in CRFsuite.  One that
        the algorithm does not have is an error.
    pa_type, c, error_sensitive, averaging, variance, gamma: The same.
    linesearch, max_linesearch: Without effect, like `period` of "l2sgd" and `epsilon` of "ap", "pa" and "arow"; other
        values than CRFsuite's cause a warning.
    calibration_eta, calibration_rate, calibration_samples: The same.
    calibration_candidates, calibration_max_trials: The same.
    verbose (bool): Print each iteration.
    model_filename (str): File to load a model from; `fit` stores it there, in the format that `save` says.
    keep_tempfiles (bool): Keep the file of `modelfile` if it is a temporary one.
    trainer_cls: An error if it is given, as nothing of python-crfsuite is used.
    loss, regularizer, optimizer: Plug-ins of this package that replace those of the algorithm.
    random_state (int | None): Seed of the order of the sequences; "lbfgs" needs none.
    n_threads (int): 0 for one per core.  The same number gives the same result.
    precision (str): "float32" or "float64".

    The attributes are None before `fit`: ``classes_`` (labels in the order of their first appearance), ``attributes_``
    (those with a weight) and ``num_attributes_``, ``state_features_`` and ``transition_features_`` (weights other than
    zero), ``size_`` (bytes), ``training_log_``, and ``tagger_``, the estimator itself.  The log has the names of
    python-crfsuite, such as ``iterations`` and ``last_iteration``.
    """

    algorithm: Any = None
    min_freq: Any = None
    all_possible_states: Any = None
    all_possible_transitions: Any = None
    c1: Any = None
    c2: Any = None
    max_iterations: Any = None
    num_memories: Any = None
    epsilon: Any = None
    period: Any = None
    delta: Any = None
    linesearch: Any = None
    max_linesearch: Any = None
    calibration_eta: Any = None
    calibration_rate: Any = None
    calibration_samples: Any = None
    calibration_candidates: Any = None
    calibration_max_trials: Any = None
    pa_type: Any = None
    c: Any = None
    error_sensitive: Any = None
    averaging: Any = None
    variance: Any = None
    gamma: Any = None
    verbose: Any = False
    model_filename: Any = None
    keep_tempfiles: Any = False
    trainer_cls: Any = None
    _: KW_ONLY
    loss: Any = None
    regularizer: Any = None
    optimizer: Any = None
    random_state: Any = None
    n_threads: Any = 0
    precision: Any = "float32"

    training_log_: SimpleNamespace | None = field(default=None, init=False)
    _fitted: _Model | None = field(default=None, init=False)
    _folder: _Folder | None = field(default=None, init=False)
    tagger_ = property(lambda self: self._fitted and self)
    classes_ = property(lambda self: self._fitted and self.labels())
    attributes_ = property(lambda self: self._fitted and list(self._fitted.attributes.names))
    num_attributes_ = property(lambda self: self._fitted and len(self._fitted.attributes.names))
    size_ = property(lambda self: self._fitted and len(self._fitted.to_bytes()))
    state_features_ = property(lambda self: self._fitted and self._fitted.state_features())
    transition_features_ = property(lambda self: self._fitted and self._fitted.transition_features())

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings by their names."""
        return {name: getattr(self, name) for name in _NAMES}

    def set_params(self, **params: Any) -> CRF:
        """Change settings.

        RAISES ConfigError: If there is none of a name.
        """
        for name, value in params.items():
            if name not in _NAMES:
                raise ConfigError(f"CRF has no setting {name!r}. {suggest(name, _NAMES)}")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        changed = {name: value for name, value in self.get_params().items() if value != _NAMES[name]}
        return f"CRF({', '.join(f'{name}={value!r}' for name, value in changed.items())})"

    def __sklearn_tags__(self) -> Any:
        from sklearn.base import BaseEstimator  # only scikit-learn calls this

        return BaseEstimator().__sklearn_tags__()

    def __sklearn_is_fitted__(self) -> bool:
        return self._fitted is not None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_fitted": self._fitted and self._fitted.to_bytes(), "_folder": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _fitted=state["_fitted"] and _Model.from_bytes(state["_fitted"], "pickled CRF"))

    def fit(
        self,
        X: Sequences,
        y: Sequences,
        X_dev: Sequences | None = None,
        y_dev: Sequences | None = None,
        sample_weight: Iterable[float] | None = None,
    ) -> CRF:
        """Train on X and y; with X_dev and y_dev, the log has the scores on them after each iteration.

        sample_weight [N]: By how much the loss of each sequence counts; 2 counts like the same sequence twice.  Which
            weights the model has does not depend on them.
        RAISES ConfigError: On settings out of range, or that do not fit together.
        RAISES DataError: On data of a wrong shape or type, with the place.
        """
        settings, growing = self.get_params(), GrowingAttributes()
        method = _method(settings)
        if (X_dev is None) != (y_dev is None):
            raise DataError("Pass both X_dev and y_dev, or none of them.")
        text, offsets = _read(growing, X, "X")
        gold = _labels(y, offsets, "y")
        if not gold:
            raise DataError("X has no tokens, so there is nothing to learn from.")
        importance = _weights(sample_weight, len(offsets) - 1)
        attributes, evaluate, held_out, scores = growing.fixed(), None, list[str](), dict[str, Any]()
        if X_dev is not None and y_dev is not None:
            dev = _read(attributes, X_dev, "X_dev")
            held_out = _labels(y_dev, dev[1], "y_dev")

            def evaluate(theta: Floats) -> float:
                found = training.model(theta).labels(*dev)
                scores.update(log_scores(_split(held_out, dev[1]), _split(found, dev[1]), labels))
                return float(scores["item_accuracy"])

        labels = list(map(str, dict.fromkeys([*gold, *held_out])))
        bags = Bags(group(text, growing.kinds))
        training = _Training(settings, attributes, bags, text, offsets, gold, labels, importance)
        loss, regularizer, optimizer = method
        terms = [Term(training.data, loss.bind(labels, None) if isinstance(loss, NamedLoss) else loss)]
        objective = Objective(training.potential, terms, regularizer, n_threads=settings["n_threads"])
        theta, iterations = np.zeros(objective.potential.size, self.precision), list[dict[str, Any]]()
        note = partial(_note, iterations, scores, self.verbose)
        result = fit(objective, optimizer, theta, evaluate=evaluate, schedule=Schedule(1, 0), callback=note)
        check_finite(result.last, "CRF")
        self._fitted, self._folder = training.model(result.last).compact(), None
        last = iterations[-1] if iterations else {}
        self.training_log_ = SimpleNamespace(
            iterations=iterations,
            last_iteration=last,
            reason=result.reason,
            featgen_num_features=training.n_features,
            training_seconds=sum(iteration["time"] for iteration in iterations),
        )
        if self.model_filename is not None:
            self.save(self.model_filename)
        return self

    def save(self, path: Path | str, encoding: str = "utf8") -> None:
        """Write the model to a file that CRFsuite, python-crfsuite and sklearn-crfsuite read.

        A file whose name ends in ".msgpack" has a format of this package instead, which holds any name.
        RAISES NotFittedError: Before `fit`.
        RAISES ModelFileError: If a name cannot be stored there.
        """
        if Path(path).suffix == ENDING:
            with replacing(Path(path)) as temporary:
                temporary.write_bytes(self._model.to_bytes())
            return
        write_crfsuite_model(Path(path), self._model.saved(), encoding)

    @property
    def modelfile(self) -> ModelFile:
        """The file of the model: `model_filename`, or a temporary one of CRFsuite's format until the next `fit`."""
        if self.model_filename is not None or self._fitted is None:
            return ModelFile(self.model_filename and str(self.model_filename))
        if self._folder is None:
            self._folder = _Folder(self.keep_tempfiles)
            self.save(self._folder.path / "model.crfsuite")
        return ModelFile(str(self._folder.path / "model.crfsuite"))

    def info(self) -> ModelInfo:
        """Return labels, attributes and weights, as ``tagger_.info()`` of python-crfsuite does.

        RAISES NotFittedError: Before `fit`.
        """
        model = self._model
        labels, names = (
            {name: str(i) for i, name in enumerate(names)} for names in (model.crf.labels, model.attributes.names)
        )
        weights, steps = model.state_features(), model.transition_features()
        header = {"num_labels": str(len(labels)), "num_attrs": str(len(names)), "size": str(len(model.to_bytes()))}
        return ModelInfo(steps, weights, header, labels, names)

    def predict(self, X: Sequences) -> NDArray[Any]:
        """Return the most probable labels of each sequence, as an array of lists of strings.

        RAISES NotFittedError: Before `fit`.
        RAISES DataError: As `fit`.
        """
        text, offsets = _read(self._model.attributes, X, "X")
        return _split(self._model.labels(text, offsets, self.n_threads), offsets)

    def predict_marginals(self, X: Sequences) -> NDArray[Any]:
        """Return the probabilities of the labels at each token, as an array of lists of dictionaries; see `predict`."""
        text, offsets = _read(self._model.attributes, X, "X")
        marginals = self._model.posterior(text, offsets).marginals().astype(np.float64)
        rows = (marginals / marginals.sum(1, keepdims=True)).tolist()
        return _split([dict(zip(self._model.crf.labels, row, strict=True)) for row in rows], offsets)

    def predict_single(self, xseq: Sequence[Any]) -> list[str]:
        """Return the most probable labels of one sequence."""
        return list(self.predict([xseq])[0])

    tag = predict_single
    """The name of `predict_single` in python-crfsuite."""

    def predict_marginals_single(self, xseq: Sequence[Any]) -> list[dict[str, float]]:
        """Return the probabilities of the labels at each token of one sequence."""
        return list(self.predict_marginals([xseq])[0])

    def score(self, X: Sequences, y: Sequences) -> float:
        """Return the share of tokens whose label is correct."""
        predicted = self.predict(X)
        gold = _labels(y, np.append(0, np.cumsum([len(labels) for labels in predicted])), "y")
        return float(sum(map(eq, gold, chain.from_iterable(predicted))) / max(1, len(gold)))

    def labels(self) -> list[str]:
        """Return the labels."""
        return list(self._model.crf.labels)

    @property
    def _model(self) -> _Model:
        if self._fitted is None and self.model_filename is not None and Path(self.model_filename).exists():
            self._fitted = _Model.from_file(Path(self.model_filename))
        if self._fitted is None:
            kind = getattr(sys.modules.get("sklearn.exceptions"), "NotFittedError", NotFittedError)
            raise kind("This CRF is not fitted yet, and model_filename names no file; call fit first.")
        return self._fitted


_NAMES = {setting.name: setting.default for setting in fields(CRF) if setting.init}
"""The settings and their defaults."""


class _Model(NamedTuple):
    """A linear model of attributes; row a of its weights belongs to attribute a."""

    attributes: FixedAttributes
    bags: Bags
    crf: LinearChainCRF

    def posterior(self, text: AttributeText, offsets: Offsets) -> Posterior:
        """Return the distribution of the labels of a text."""
        free = np.ones(len(self.crf.labels), np.bool_)
        step = np.ones((len(free), len(free)), np.bool_)
        constraints = Constraints(free, step, free, ~step, ~free)
        with _READING:
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

    def compact(self) -> _Model:
        """Return the model without weights that are zero."""
        crf, kept = self.crf.compact(), np.zeros(len(self.attributes.names), np.bool_)
        kept[crf.keys[0].astype(np.int64)] = True
        names = compress(self.attributes.names, kept.tolist())
        return _Model(FixedAttributes(names), Bags(self.bags.groups[kept]), crf)

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
    def from_file(cls, path: Path) -> _Model:
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
    def from_bytes(cls, data: bytes, source: str) -> _Model:
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


class _Training:
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

    def model(self, theta: Floats) -> _Model:
        """Return the model with these parameters of the objective."""
        theta, values = theta[: self._layout.size].copy(), theta[self._layout.size :]
        rows, places = taken(self._layout.unigrams, self._listed)
        theta[places] = values[cells(rows)]  # those of unigrams are the first
        keys = np.arange(self._layout.unigrams.n_rows).astype(np.uint64), np.zeros(0, np.uint64)
        return _Model(self._attributes, self._bags, LinearChainCRF(self._labels, self._layout, theta, keys))


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


def _note(iterations: list[dict[str, Any]], scores: dict[str, Any], verbose: bool, progress: Progress) -> None:
    """Add an iteration, and its scores, to the log."""
    report = progress.report
    entry = {
        "num": progress.iteration, "loss": report.value, "error_norm": report.grad_norm,
        "active_features": progress.active, "linesearch_trials": report.evaluations,
        "time": progress.seconds - sum(iteration["time"] for iteration in iterations),
    }  # fmt: skip
    iterations.append(entry | (scores if progress.score is not None else {}))
    if verbose:
        if progress.score is not None:
            entry["item_accuracy"] = progress.score
        print("  ".join(f"{name}={value:.6g}" for name, value in entry.items() if value is not None), flush=True)


def _method(settings: Settings) -> tuple[Any, Any, Any]:
    """Return loss, regularizer and optimizer.  RAISES ConfigError: If settings are unknown or do not fit together."""
    algorithm = settings["algorithm"] or "lbfgs"
    if algorithm not in _DEFAULTS:
        raise ConfigError(f"CRF: there is no algorithm {algorithm!r}. {suggest(str(algorithm), _DEFAULTS)}")
    own, kinds = _DEFAULTS[algorithm], ("loss", "regularizer", "optimizer")
    given = {name: settings[name] for name in sorted(set().union(*_DEFAULTS.values())) if settings[name] is not None}
    replaced = {name for name in own if settings["regularizer" if name in ("c1", "c2") else "optimizer"]}
    for name, value in given.items():
        if name not in own:
            raise ConfigError(f"CRF: the algorithm {algorithm!r} has no setting {name!r}; it has {', '.join(own)}.")
        if name in replaced:
            raise ConfigError(f"CRF: {name} has no meaning with a regularizer or optimizer of your own; leave it out.")
        if name in _SAME_RESULT.get(algorithm, ("epsilon",)) and value != own[name]:
            warnings.warn(f"CRF: {name}={value!r} has no effect here, see docs/coming-from.md.", stacklevel=3)
    if settings["trainer_cls"] is not None:
        raise ConfigError("CRF: trainer_cls is a class of python-crfsuite, which is not used here; leave it out.")
    for kind in kinds:
        if isinstance(settings[kind], type):
            raise ConfigError(f"CRF: {kind} must be an object, such as {settings[kind].__name__}(), not a class.")
    seed = settings["random_state"]
    drawn = hasattr(seed, "randint")  # a generator of NumPy, as scikit-learn allows
    whole = {"max_iterations": given.get("max_iterations", 1), "n_threads": settings["n_threads"]}
    for name, value in {**whole, "random_state": 0 if seed is None or drawn else seed}.items():
        if not isinstance(value, Integral) or value < 0:
            raise ConfigError(f"CRF: {name} must be a whole number of at least 0, but {value!r} was given.")
    if isinstance(settings["loss"], TextLoss) or settings["precision"] not in ("float32", "float64"):
        raise ConfigError("CRF: loss must not read Docs of spaCy, and precision must be float32 or float64.")
    defaults = _crfsuite_method(algorithm, {**own, **given})
    loss, regularizer, optimizer = (settings[kind] or part for kind, part in zip(kinds, defaults, strict=True))
    check_plugins("CRF", loss=loss, regularizer=regularizer, optimizer=optimizer, decoder=Viterbi())
    return loss, regularizer, seeded(optimizer, int(seed.randint(2**31)) if drawn else seed)


def _crfsuite_method(algorithm: str, given: Settings) -> tuple[Any, Any, Any]:
    """Return the plug-ins that do what CRFsuite does with these settings."""

    def part(kind: str, name: str, **settings: Any) -> Any:
        return registry.ALL[f"crf_{kind}"].get(f"spacy_crfseq.{name}.v1")(**settings)

    run = {"max_iterations": int(given["max_iterations"]), "tolerance": given.get("delta", 0.0)}
    c1, rho, name = given.get("c1"), 2 * given.get("c2", 0), {"l2sgd": "SGD", "ap": "AveragedPerceptron"}.get(algorithm)
    if algorithm == "lbfgs":
        name = "OWLQN" if c1 else "LBFGS"
        run |= {"history": given["num_memories"], "period": given["period"], "gradient_tolerance": given["epsilon"]}
    elif algorithm == "arow":
        name, run = "AROW", {"variance": given["variance"], "regularization": given["gamma"], **run}
    elif algorithm == "pa":
        if given["pa_type"] not in (0, 1, 2) or not given["error_sensitive"]:
            raise ConfigError("CRF: pa_type must be 0, 1 or 2, and error_sensitive true: margins grow with errors.")
        variant = ("PA", "PA-I", "PA-II")[given["pa_type"]]
        run |= {"aggressiveness": given["c"], "average": given["averaging"], "variant": variant}
        name = "PassiveAggressive"
    loss = {"lbfgs": "SequentialLog", "l2sgd": "SequentialLog", "ap": "Perceptron"}.get(algorithm, "Hinge")
    penalty: dict[str, float] = {"rho1": c1, "rho2": rho} if c1 else {"rho": rho} if rho else {}
    kind = "ElasticNet" if c1 else "L2" if rho else "NoRegularizer"
    return part("losses", loss), part("regularizers", kind, **penalty), part("optimizers", str(name), **run)


def _read(attributes: AttributeCodes, sequences: Iterable[Any], name: str) -> tuple[AttributeText, Offsets]:
    """Return the attributes of the tokens, and the starts of the sequences [N + 1]; `name` is for errors.

    Few sequences are in memory at a time, so that an iterator may make them.
    """
    texts, sizes, first = list[AttributeText](), [0], 0
    for chunk in _chunks(sequences, name):
        try:
            with _READING:
                texts.append(attributes.read(chunk))
        except DataError:
            for i, j, token in (
                (i, j, token) for i, tokens in enumerate(chunk, first) for j, token in enumerate(tokens)
            ):
                try:
                    for entry in entries_in(token):
                        attribute_of(entry)
                except DataError as error:
                    raise DataError(f"{name}[{i}][{j}]: {error}") from None
            raise
        sizes += map(len, chunk)
        first += len(chunk)
    return joined(texts), np.cumsum(sizes, dtype=np.int64)


def _chunks(sequences: Any, name: str) -> Iterator[list[Any]]:
    """Yield sequences, some at a time.  RAISES DataError: If one has no tokens that can be counted."""
    if not isinstance(sequences, Iterable):
        raise DataError(f"{name} is {shown(sequences)}, but must be a list of sequences.")
    chunk, n_tokens = list[Any](), 0
    for i, sequence in enumerate(sequences):
        if isinstance(sequence, Mapping | str) or not hasattr(sequence, "__len__"):
            raise DataError(
                f"{name}[{i}] is {shown(sequence)}, but {name} must be a list of sequences, each a list of tokens. If "
                "it is one sequence, pass it in a list."
            )
        chunk.append(sequence)
        n_tokens += len(sequence)
        if n_tokens >= TOKENS_AT_ONCE:
            yield chunk
            chunk, n_tokens = [], 0
    yield chunk


def _labels(sequences: Iterable[Any], offsets: Offsets, name: str) -> list[str]:
    """Return the labels of the tokens [T] of sequences that start at `offsets` [N + 1]."""
    if not isinstance(sequences, Iterable):
        raise DataError(f"{name} is {shown(sequences)}, but must be a list of sequences.")
    sequences, x = list(sequences), name.replace("y", "X")
    if len(sequences) != len(offsets) - 1:
        raise DataError(f"{x} has {len(offsets) - 1} sequences, but {name} has {len(sequences)}.")
    for i, (labels, size) in enumerate(zip(sequences, np.diff(offsets).tolist(), strict=True)):
        if isinstance(labels, str) or not hasattr(labels, "__len__"):
            raise DataError(f"{name}[{i}] is {shown(labels)}, but must be a list of labels, one for each token.")
        if len(labels) != size:
            raise DataError(f"{x}[{i}] has {size} tokens, but {name}[{i}] has {len(labels)} labels.")
    flat = list(chain.from_iterable(sequences))
    if not all(issubclass(kind, str) for kind in set(map(type, flat))):
        wrong = next(number for number, label in enumerate(flat) if not isinstance(label, str))
        i = int(np.searchsorted(offsets, wrong, side="right")) - 1
        raise DataError(f"{name}[{i}][{wrong - offsets[i]}] is {shown(flat[wrong])}, but labels must be strings.")
    return flat


def _weights(given: Iterable[float] | None, n: int) -> Floats:
    """Return the weights of n sequences.  RAISES DataError: If they are not numbers of 0 or more, one a sequence."""
    if given is None:
        return np.ones(n)
    weights = np.asarray(given if hasattr(given, "__len__") else list(given))
    if weights.shape != (n,) or weights.dtype.kind not in "fiu":
        raise DataError(
            f"sample_weight must have a number for each of {n} sequences, but has the shape {weights.shape}."
        )
    weights = weights.astype(np.float64)
    wrong = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if len(wrong):
        raise DataError(f"sample_weight[{wrong[0]}] is {weights[wrong[0]]}, but weights must be numbers of 0 or more.")
    if not weights.any():
        raise DataError("All of sample_weight is 0, so there is nothing to learn from.")
    return weights


def _split(values: list[Any], offsets: Offsets) -> NDArray[Any]:
    return np.array([values[begin:end] for begin, end in pairwise(offsets.tolist())], dtype=object)
