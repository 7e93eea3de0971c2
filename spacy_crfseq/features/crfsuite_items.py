"""Attributes as python-crfsuite names and counts them, for models that were trained with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..errors import ConfigError, DataError
from ..types import TokenFunction
from .sets import columns_read


class CRFsuiteItems:
    """A token function whose result is read as python-crfsuite does (registered as ``spacy_crfseq.CRFsuiteItems.v1``).

    In a dictionary, text under "word" becomes ``word:text``, and a number or truth value the value of its name; what
    is inside of a dictionary, list or set has the prefix ``name:``.  An attribute that occurs twice counts twice.
    `crfseq convert` writes it for a model of CRFsuite.

    function (TokenFunction): Returns a dictionary, or a list of names and of pairs of a name and a number.
    RAISES ConfigError: If it cannot be called.
    """

    def __init__(self, function: TokenFunction) -> None:
        if not callable(function):
            raise ConfigError(f"CRFsuiteItems: function must be a token function, but {function!r} was given.")
        self.function = function
        self.reads = columns_read(function)

    def __call__(self, sequence: Sequence[Any], i: int) -> list[str | tuple[str, float]]:
        """Return the names with the value 1, and pairs of other names and values; DataError on other results."""
        found = self.function(sequence, i)
        names = _plain(found) if type(found) is dict else None
        if names is not None and len(set(names)) == len(names):
            return [*names]
        totals: dict[str, float] = {}
        for name, value in _items(found):
            totals[name] = totals.get(name, 0.0) + value
        return [name if value == 1.0 else (name, value) for name, value in totals.items() if value]


def _plain(found: dict[str, Any]) -> list[str] | None:
    """Return the names in a dictionary of texts, truth values and such dictionaries, None for others: the fast way."""
    names = []
    for name, value in found.items():
        if type(value) is str:
            names.append(f"{name}:{value}")
        elif value is True:
            names.append(name)
        elif type(value) is dict:
            inside = _plain(value)
            if inside is None:
                return None
            names += [f"{name}:{inner}" for inner in inside]
        elif value is not False:
            return None
    return names


def _items(found: Any) -> Iterator[tuple[str, float]]:
    """Yield names and values, possibly several of one name."""
    if not isinstance(found, Mapping):
        if not isinstance(found, Iterable) or isinstance(found, str | bytes):
            raise DataError(f"it returned {found!r}, but a dictionary or a list of names is needed.")
        for one in found:
            if isinstance(one, str):
                yield one, 1.0
            else:
                yield from _items(dict([one]) if isinstance(one, tuple) and len(one) == 2 else one)
        return
    for name, value in found.items():
        if isinstance(value, str):
            yield f"{name}:{value}", 1.0
        elif isinstance(value, Mapping | list | tuple | set | frozenset):
            for inner, number in _items(value):
                yield f"{name}:{inner}", number
        else:
            try:
                yield name, float(value)
            except (TypeError, ValueError):
                what = "text, a number, True, False, a list of names or a dictionary"
                raise DataError(f"{name!r} has the value {value!r}, but must be {what}.") from None
