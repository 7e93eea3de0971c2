"""An estimator for lists of feature dictionaries, with the interface of sklearn-crfsuite and the engine of the package.

The objective is that of CRFsuite: one weight for each attribute and label that occur together, times the value of the
attribute, and one for each transition; no start and end scores.  Neither spaCy nor scikit-learn is imported.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from functools import partial
from itertools import chain
from operator import eq
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..corpora.saved_models import write_crfsuite_model
from ..errors import ConfigError, DataError, NotFittedError, suggest
from ..features.interned import Bags, GrowingAttributes, group
from ..files import replacing
from ..metrics import log_scores
from ..training.fit import Progress, fit
from ..training.objective import Objective, Term
from ..types import Floats, NamedLoss, Schedule
from ..weights_file import check_finite
from .attribute_model import AttributeModel, AttributeTraining
from .crfsuite import method_of
from .inputs import read_labels, read_sequences, read_weights, split

Sequences: TypeAlias = Iterable[Sequence[Any]]
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
    _fitted: AttributeModel | None = field(default=None, init=False)
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
        stored = state["_fitted"]
        self.__dict__.update(state, _fitted=stored and AttributeModel.from_bytes(stored, "pickled CRF"))

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
        method = method_of(settings)
        if (X_dev is None) != (y_dev is None):
            raise DataError("Pass both X_dev and y_dev, or none of them.")
        text, offsets = read_sequences(growing, X, "X")
        gold = read_labels(y, offsets, "y")
        if not gold:
            raise DataError("X has no tokens, so there is nothing to learn from.")
        importance = read_weights(sample_weight, len(offsets) - 1)
        attributes, evaluate, held_out, scores = growing.fixed(), None, list[str](), dict[str, Any]()
        if X_dev is not None and y_dev is not None:
            dev = read_sequences(attributes, X_dev, "X_dev")
            held_out = read_labels(y_dev, dev[1], "y_dev")

            def evaluate(theta: Floats) -> float:
                predicted = training.model(theta).labels(*dev)
                scores.update(log_scores(split(held_out, dev[1]), split(predicted, dev[1]), labels))
                return float(scores["item_accuracy"])

        labels = list(map(str, dict.fromkeys([*gold, *held_out])))
        bags = Bags(group(text, growing.kinds))
        training = AttributeTraining(settings, attributes, bags, text, offsets, gold, labels, importance)
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
        text, offsets = read_sequences(self._model.attributes, X, "X")
        return split(self._model.labels(text, offsets, self.n_threads), offsets)

    def predict_marginals(self, X: Sequences) -> NDArray[Any]:
        """Return the probabilities of the labels at each token, as an array of lists of dictionaries; see `predict`."""
        text, offsets = read_sequences(self._model.attributes, X, "X")
        marginals = self._model.posterior(text, offsets).marginals().astype(np.float64)
        rows = (marginals / marginals.sum(1, keepdims=True)).tolist()
        return split([dict(zip(self._model.crf.labels, row, strict=True)) for row in rows], offsets)

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
        gold = read_labels(y, np.append(0, np.cumsum([len(labels) for labels in predicted])), "y")
        return float(sum(map(eq, gold, chain.from_iterable(predicted))) / max(1, len(gold)))

    def labels(self) -> list[str]:
        """Return the labels."""
        return list(self._model.crf.labels)

    @property
    def _model(self) -> AttributeModel:
        if self._fitted is None and self.model_filename is not None and Path(self.model_filename).exists():
            self._fitted = AttributeModel.from_file(Path(self.model_filename))
        if self._fitted is None:
            kind = getattr(sys.modules.get("sklearn.exceptions"), "NotFittedError", NotFittedError)
            raise kind("This CRF is not fitted yet, and model_filename names no file; call fit first.")
        return self._fitted


_NAMES = {setting.name: setting.default for setting in fields(CRF) if setting.init}
"""The settings and their defaults."""


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
