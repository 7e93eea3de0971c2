"""The settings of CRFsuite's training algorithms, and the plug-ins that do the same."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from numbers import Integral
from typing import Any, TypeAlias

from .. import registry
from ..decoders.viterbi import Viterbi
from ..errors import ConfigError, suggest
from ..optimizers.online import seeded
from ..training.compatibility import check_plugins
from ..types import TextLoss

Settings: TypeAlias = Mapping[str, Any]
_ITERATIONS = {"max_iterations": 100, "epsilon": 0.0}
DEFAULTS: dict[str, dict[str, Any]] = {
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
    "l2sgd": ("period", *(name for name in DEFAULTS["l2sgd"] if name.startswith("calibration"))),
}
"""The settings that only change how CRFsuite gets to its result; those of the other algorithms are "epsilon"."""


def method_of(settings: Settings) -> tuple[Any, Any, Any]:
    """Return loss, regularizer and optimizer.  RAISES ConfigError: If settings are unknown or do not fit together."""
    algorithm = settings["algorithm"] or "lbfgs"
    if algorithm not in DEFAULTS:
        raise ConfigError(f"CRF: there is no algorithm {algorithm!r}. {suggest(str(algorithm), DEFAULTS)}")
    own, kinds = DEFAULTS[algorithm], ("loss", "regularizer", "optimizer")
    given = {name: settings[name] for name in sorted(set().union(*DEFAULTS.values())) if settings[name] is not None}
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
    defaults = _plugins(algorithm, {**own, **given})
    loss, regularizer, optimizer = (settings[kind] or part for kind, part in zip(kinds, defaults, strict=True))
    check_plugins("CRF", loss=loss, regularizer=regularizer, optimizer=optimizer, decoder=Viterbi())
    return loss, regularizer, seeded(optimizer, int(seed.randint(2**31)) if drawn else seed)


def _plugins(algorithm: str, given: Settings) -> tuple[Any, Any, Any]:
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
