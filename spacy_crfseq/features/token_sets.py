"""Results of token functions as sets of hashes.

Such a function, ``word2features(sentence, i)`` to users of sklearn-crfsuite, returns a list of feature names or a
dictionary, which is read as by python-crfsuite.
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
        """Return the sizes of some tokens' sets, and their values one set after another."""
        sizes = np.diff(self.ptr)[tokens]
        first = np.cumsum(sizes) - sizes
        places = np.arange(sizes.sum()) + np.repeat(self.ptr[:-1][tokens] - first, sizes)
        return sizes, self.values[places]


def make_token_sets(sizes: Sequence[int], values: Sequence[int] | array[int]) -> TokenSets:
    """Return sets of these sizes [T] of distinct 64-bit hashes, given one set after another.

    The key of a set is the sum of its values, so that their order does not matter.
    """
    ptr, hashes = np.zeros(len(sizes) + 1, np.int64), np.array(values, np.uint64)
    np.cumsum(sizes, out=ptr[1:])
    sums = np.append(np.uint64(0), np.cumsum(hashes, dtype=np.uint64))
    keys = sums[ptr[1:]] - sums[ptr[:-1]]
    keys[(keys == 0) & (np.diff(ptr) > 0)] = 1
    return TokenSets(keys, ptr, hashes)


def names_in(returned: Any) -> list[str]:
    """Return the names, perhaps with repetitions, in what a token function has returned.

    A list, tuple or set holds names.  Of a dictionary, text under "word" becomes ``word=text``, True or 1 the name
    alone, and False, 0 and None nothing; a list under "shapes" becomes ``shapes:a``, ``shapes:b`` and so on, a
    dictionary the same with its own entries.
    RAISES DataError: On anything else, saying what to write.
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
    """Return whether a number is 1, not 0; DataError for any other."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise DataError(
            f"{name!r} has the value {_shown(value)}, but must have a string, True, False, None, a list of strings or "
            "a dictionary."
        ) from None
    if number not in (0.0, 1.0):
        raise DataError(
            f"{name!r} has the value {value!r}, but features are there or are not; they have no weights. Give a "
            f"number as text, such as {{{name!r}: str({value!r})}}, or put it into one of a few ranges first, such as "
            f"{{{name!r}: 'over 10'}}."
        )
    return number == 1.0


def _check_strings(values: Iterable[Any], name: str) -> None:
    for value in values:
        if not isinstance(value, str):
            where = f"under {name!r} " if name else ""
            raise DataError(f"it returned a list {where}with {_shown(value)} in it; lists must hold strings.")


def _shown(value: Any) -> str:
    text = repr(value)
    return f"{text[:60]}... ({type(value).__name__})" if len(text) > 60 else f"{text} ({type(value).__name__})"
