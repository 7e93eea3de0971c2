"""Results of token functions as sets of hashes.

Such a function, ``word2features(sentence, i)`` in sklearn-crfsuite, returns a list of feature names or a dictionary.
The dictionary is interpreted as in python-crfsuite.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..errors import DataError
from ..types import Hashes, Offsets


class TokenSets(NamedTuple):
    """The set of each of T tokens: hashes of names, ``values[ptr[t]:ptr[t + 1]]``.

    keys (Hashes): [T] a key for each distinct set, 0 for the empty one.
    """

    keys: Hashes
    ptr: Offsets
    values: Hashes

    def take(self, tokens: Offsets) -> tuple[Offsets, Hashes]:
        """Return the sizes of some tokens' sets, and their concatenated values."""
        sizes = np.diff(self.ptr)[tokens]
        first = np.cumsum(sizes) - sizes
        places = np.arange(sizes.sum()) + np.repeat(self.ptr[:-1][tokens] - first, sizes)
        return sizes, self.values[places]


def make_token_sets(sizes: Sequence[int], values: Sequence[int] | array[int]) -> TokenSets:
    """Return sets of these sizes [T] from concatenated distinct 64-bit hashes.

    The key of a set is the sum of its values, so that their order does not matter.
    """
    ptr, hashes = np.zeros(len(sizes) + 1, np.int64), np.array(values, np.uint64)
    np.cumsum(sizes, out=ptr[1:])
    sums = np.append(np.uint64(0), np.cumsum(hashes, dtype=np.uint64))
    keys = sums[ptr[1:]] - sums[ptr[:-1]]
    keys[(keys == 0) & (np.diff(ptr) > 0)] = 1
    return TokenSets(keys, ptr, hashes)


def names_in(returned: Any) -> list[str]:
    """Return the names, possibly repeated, in the result of a token function.

    A list, tuple or set contains names.  In a dictionary, text under "word" becomes ``word=text``; True or 1 become the
    name alone; False, 0 and None become nothing; a list under "shapes" becomes ``shapes:a``, ``shapes:b`` and so on;
    a nested dictionary is treated the same way.
    RAISES DataError: On anything else, with advice.
    """
    if type(returned) is dict or isinstance(returned, Mapping):
        return _names_of(returned)
    if returned is None:
        return []
    if isinstance(returned, list | tuple | set | frozenset):
        _check_strings(returned, "")
        return list(returned)
    raise DataError(
        f"it returned {_shown(returned)}, but a dictionary or a list of strings is needed, such as "
        '{"word": "the", "is_title": True} or ["word=the", "is_title"].'
    )


def _names_of(entries: Mapping[Any, Any]) -> list[str]:
    names: list[str] = []
    for name, value in entries.items():
        if type(name) is not str and not isinstance(name, str):
            raise DataError(f"it returned a dictionary with the key {_shown(name)}; keys must be strings.")
        if type(value) is str or isinstance(value, str):
            names.append(f"{name}={value}")
        elif value is True:
            names.append(name)
        elif value is None or value is False:
            continue
        elif isinstance(value, Mapping):
            names += [f"{name}:{inner}" for inner in _names_of(value)]
        elif isinstance(value, list | tuple | set | frozenset):
            _check_strings(value, name)
            names += [f"{name}:{inner}" for inner in value]
        elif _weighs(name, value):
            names.append(name)
    return names


def _weighs(name: str, value: Any) -> bool:
    """Return whether a number is 1; DataError if it is neither 0 nor 1."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise DataError(
            f"{name!r} has the value {_shown(value)}, but must be a string, True, False, None, a list of strings or "
            "a dictionary."
        ) from None
    if number not in (0.0, 1.0):
        raise DataError(
            f"{name!r} has the value {value!r}, but a feature is present or absent; it has no value. Give a "
            f"number as text, such as {{{name!r}: str({value!r})}}, or put it into one of a few ranges first, such as "
            f"{{{name!r}: 'over 10'}}."
        )
    return number == 1.0


def _check_strings(values: Iterable[Any], name: str) -> None:
    for value in values:
        if not isinstance(value, str):
            where = f"under {name!r} " if name else ""
            raise DataError(f"it returned a list {where}with {_shown(value)} in it; lists must contain strings.")


def _shown(value: Any) -> str:
    text = repr(value)
    return f"{text[:60]}... ({type(value).__name__})" if len(text) > 60 else f"{text} ({type(value).__name__})"
