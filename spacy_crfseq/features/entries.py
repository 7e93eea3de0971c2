"""Results of token functions: dictionaries and lists of features, as python-crfsuite reads them and counts them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from ..errors import ConfigError, DataError
from ..types import TokenFunction

SEVERAL, ONE = (dict, list, tuple, set, frozenset, Mapping), frozenset({str, bool, float, int, type(None)})
"""Types of values that hold others, and of the usual ones that do not."""


def names_in(returned: Any, values: dict[str, float] | None = None) -> list[str]:
    """Return the names, possibly repeated, in the result of a token function.

    values (dict | None): Filled with the numbers by their names; None if nothing reads numbers: 1 is the name alone
        then, 0 nothing.

    A list, tuple or set contains names, or pairs of a name and a number.  In a dictionary, text under "word" becomes
    ``word=text``; True becomes the name alone; False and None become nothing; a list under "shapes" becomes
    ``shapes:a``, ``shapes:b`` and so on; a nested dictionary is treated the same way.
    RAISES DataError: On anything else, with advice.
    """
    if type(returned) is list and set(map(type, returned)) <= {str}:
        return returned
    names: list[str] = []
    entries = returned.items() if type(returned) is dict else entries_in(() if returned is None else returned)
    for entry in entries:
        name, value = entry if type(entry) is tuple and len(entry) == 2 else (entry, True)
        name = name if type(name) is str else _text(name)
        if type(value) is str:
            names.append(f"{name}={value}")
        elif value is True:
            names.append(name)
        elif value is None or value is False:
            continue
        elif isinstance(value, (str, bytes)):
            names.append(f"{name}={_text(value)}")
        elif isinstance(value, SEVERAL):
            names += names_in(list(entries_in({name: value})), values)
        elif values is not None:
            values[name] = attribute_of((name, value))[1]
        elif (number := attribute_of((name, value))[1]) == 1.0:
            names.append(name)
        elif number:
            raise DataError(
                f"{name!r} has the value {value!r}, but a feature is present or absent. For weights times values, "
                "add a block [components.NAME.potentials.values] with @crf_potentials = "
                f'"spacy_crfseq.Values.v1", or give the number as text, such as {{{name!r}: str({value!r})}}.'
            )
    return names


def entries_in(token: Any) -> Iterator[Any]:
    """Yield the names, and the pairs of a name and a value, that a token has; dictionaries and lists in it are opened.

    RAISES DataError: If the token is neither a dictionary nor a list, or a name is not a string.
    """
    if not isinstance(token, SEVERAL):
        raise DataError(
            f"{shown(token)} was given, but a dictionary or a list of strings is needed, such as "
            '{"word": "the", "is_title": True} or ["word=the", "is_title"].'
        )
    for entry in token.items() if isinstance(token, Mapping) else token:
        if type(entry) is not tuple or len(entry) != 2 or type(entry[1]) in ONE or not isinstance(entry[1], SEVERAL):
            yield entry
            continue
        name, several = entry
        for inner in entries_in(several):
            part, value = inner if isinstance(inner, tuple) and len(inner) == 2 else (inner, True)
            if not isinstance(part, str | bytes):
                raise DataError(f"the name {shown(part)} under {name!r} is not a string.")
            yield f"{_text(name)}:{_text(part)}", value


def _text(name: Any) -> str:
    if not isinstance(name, str | bytes):
        raise DataError(f"the name {shown(name)} is not a string.")
    return name if isinstance(name, str) else name.decode(errors="backslashreplace")


def attribute_of(entry: Any) -> tuple[str, float]:
    """Return the name of an attribute and its value; text belongs to the name, ``name:text``.

    RAISES TypeError: On several values, which `entries_in` opens.
    RAISES DataError: If the name is not a string or the value not a finite number.
    """
    name, value = entry if isinstance(entry, tuple) and len(entry) == 2 else (entry, 1.0)
    if type(name) is str and type(value) is str:  # most are
        return f"{name}:{value}", 1.0
    name = _text(name)
    if isinstance(value, str | bytes):
        return f"{name}:{_text(value)}", 1.0
    if isinstance(value, SEVERAL):
        raise TypeError(name)
    try:
        number = 0.0 if value is None else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise DataError(f"{name!r} has the value {shown(value)}, but a string, a finite number or a boolean is needed.")
    return name, number


def shown(value: Any) -> str:
    """Return a value and its type for messages."""
    text = repr(value)
    return f"{text[:60]}... ({type(value).__name__})" if len(text) > 60 else f"{text} ({type(value).__name__})"


_remembered = lru_cache(1 << 16)(attribute_of)


class CRFsuiteItems:
    """A token function whose result is read as python-crfsuite does (registered as ``spacy_crfseq.CRFsuiteItems.v1``).

    In a dictionary, text under "word" becomes ``word:text``, and a number or truth value the value of its name; the
    names inside of a dictionary, list or set have the prefix ``name:``.  An attribute that occurs twice counts twice.
    `crfseq import-model` writes it for a model of CRFsuite.

    function (TokenFunction): Returns a dictionary, or a list of names and of pairs of a name and a number.
    RAISES ConfigError: If it cannot be called.
    """

    def __init__(self, function: TokenFunction) -> None:
        if not callable(function):
            raise ConfigError(f"CRFsuiteItems: function must be a token function, but {function!r} was given.")
        self.function = function
        self.reads = tuple(getattr(function, "reads", ()))

    def __call__(self, sequence: Sequence[Any], i: int) -> list[str | tuple[str, float]]:
        """Return the names with the value 1, and pairs of other names and values; DataError on other results."""
        totals: dict[str, float] = {}
        entries = list(entries_in(self.function(sequence, i)))
        try:
            pairs = list(map(_remembered, entries))
        except TypeError:  # a value without a hash, which is no number
            pairs = list(map(attribute_of, entries))
        for name, value in pairs:
            totals[name] = totals.get(name, 0.0) + value
        return [name if value == 1.0 else (name, value) for name, value in totals.items() if value]
