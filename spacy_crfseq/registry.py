"""The registries of losses, regularizers, optimizers, decoders, features, attributes, potentials, and of a few tools.

Each is a `catalogue` registry under spaCy's name space, so a plug-in package needs only an entry point, for instance
``[project.entry-points.spacy_crf_losses]``.  The package registers its own plug-ins the same way.
Importing this module costs a millisecond and imports neither spaCy nor numba.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, wraps
from inspect import signature
from numbers import Integral, Real
from os import PathLike
from typing import Any

import catalogue

from .errors import ConfigError

KINDS = (
    "losses", "regularizers", "optimizers", "decoders", "features", "attributes", "potentials", "costs", "weightings",
    "sources", "label_models",
)  # fmt: skip
NAMES = tuple(f"crf_{kind}" for kind in KINDS)


def _is(*kinds: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))


def _is_int(value: Any) -> bool:
    return _is(Integral)(value) and abs(value) < 2**63


_TYPES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "int": (_is_int, "a whole number of 64 bits"),
    "int | None": (lambda value: value is None or _is_int(value), "a whole number of 64 bits, or null"),
    "float": (_is(Real), "a number"),
    "float | None": (lambda value: value is None or _is(Real)(value), "a number, or null"),
    "bool": (_is(bool), "true or false"),
    "str": (_is(str), "a text"),
    "Path | str": (_is(str, PathLike), "the name of a file"),
    "list[str] | tuple[str, ...]": (
        lambda x: _is(list, tuple)(x) and all(map(_is(str), x)),
        "a list of texts",
    ),
}
"""For an annotation, whether a value fits, and what it must be in words."""


def in_words(kind: str) -> str | None:
    """Return the values of one of Python's plain types, such as "int", in words; None for other types."""
    return _TYPES["Path | str" if kind == "Path" else kind][1] if kind in ("Path", *_TYPES) else None


class Registry(catalogue.Registry):  # type: ignore[misc]
    """Functions that check the types of their settings: spaCy's own check lets "1" pass for a number, for instance."""

    def get(self, name: str) -> Any:
        """Return the function of a name; RAISES RegistryError: If there is none."""
        return _checking(name, super().get(name))

    def find(self, name: str) -> dict[str, Any]:
        """Return where the function of a name is written, not where it is checked."""
        place: dict[str, Any] = catalogue.Registry(self.namespace, self.entry_points).find(name)
        return place


@lru_cache(maxsize=1000)
def _checking(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function of a plug-in, which checks the types of its settings; the same at each call."""
    annotations = {parameter.name: parameter.annotation for parameter in signature(function).parameters.values()}

    @wraps(function, updated=())
    def checked(*args: Any, **settings: Any) -> Any:
        check_types(name, annotations, settings)
        return function(*args, **settings)

    return checked


def check_types(where: str, annotations: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Raise ConfigError for a setting that is annotated as one of Python's plain types and has a value of another."""
    for name, value in settings.items():
        annotation = annotations.get(name)
        key = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
        fits, words = _TYPES.get(key, (_is(object, bool), ""))
        if not fits(value):
            raise ConfigError(f"{where}: {name} must be {words}, but {value!r} was given.")


ALL: dict[str, Any] = {name: Registry(("spacy", name), entry_points=True) for name in NAMES}
(
    losses, regularizers, optimizers, decoders, features, attributes, potentials, costs, weightings, sources,
    label_models,
) = ALL.values()  # fmt: skip
