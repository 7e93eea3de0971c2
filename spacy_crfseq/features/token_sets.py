"""Results of token functions as sets of hashes.

Such a function, ``word2features(sentence, i)`` in sklearn-crfsuite, returns a list of feature names or a dictionary.
The dictionary is interpreted as in python-crfsuite.  Numbers are for the potential `potentials.values.Values`.
"""

from __future__ import annotations

import math
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


def names_in(returned: Any, values: dict[str, float] | None = None) -> list[str]:
    """Return the names, possibly repeated, in the result of a token function.

    values (dict | None): Filled with the numbers by their names; None if nothing reads numbers: 1 is the name alone
        then, 0 nothing.

    A list, tuple or set contains names, or pairs of a name and a number.  In a dictionary, text under "word" becomes
    ``word=text``; True becomes the name alone; False and None become nothing; a list under "shapes" becomes
    ``shapes:a``, ``shapes:b`` and so on; a nested dictionary is treated the same way.
    RAISES DataError: On anything else, with advice.
    """
    if type(returned) is dict or isinstance(returned, Mapping):
        return _names_of(returned, values)
    if returned is None:
        return []
    if isinstance(returned, list | tuple | set | frozenset):
        pairs = [each for each in returned if isinstance(each, tuple)]
        names = [each for each in returned if not isinstance(each, tuple)] if pairs else returned
        _check_strings((*names, *(each for each in pairs if len(each) != 2 or not isinstance(each[0], str))), "")
        return [*names, *_names_of(dict(pairs), values)]
    raise DataError(
        f"it returned {shown(returned)}, but a dictionary or a list of strings is needed, such as "
        '{"word": "the", "is_title": True} or ["word=the", "is_title"].'
    )


def _names_of(entries: Mapping[Any, Any], values: dict[str, float] | None) -> list[str]:
    names: list[str] = []
    for name, value in entries.items():
        if type(name) is not str and not isinstance(name, str):
            raise DataError(f"it returned a dictionary with the key {shown(name)}; keys must be strings.")
        if type(value) is str or isinstance(value, str):
            names.append(f"{name}={value}")
        elif value is True:
            names.append(name)
        elif value is None or value is False:
            continue
        elif isinstance(value, Mapping):
            inside: dict[str, float] | None = None if values is None else {}
            names += [f"{name}:{inner}" for inner in _names_of(value, inside)]
            if values is not None and inside:
                values.update((f"{name}:{inner}", number) for inner, number in inside.items())
        elif isinstance(value, list | tuple | set | frozenset):
            _check_strings(value, name)
            names += [f"{name}:{inner}" for inner in value]
        else:
            number = _number(name, value)
            if values is not None:
                values[name] = number
            elif number not in (0.0, 1.0):
                raise DataError(
                    f"{name!r} has the value {value!r}, but a feature is present or absent. For weights times values, "
                    "add a block [components.NAME.potentials.values] with @crf_potentials = "
                    f'"spacy_crfseq.Values.v1", or give the number as text, such as {{{name!r}: str({value!r})}}.'
                )
            elif number:
                names.append(name)
    return names


def _number(name: str, value: Any) -> float:
    """Return a number; DataError if it is none, or not finite."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise DataError(
            f"{name!r} has the value {shown(value)}, but must be a string, True, False, None, a list of strings or "
            "a dictionary."
        ) from None
    if not math.isfinite(number):
        raise DataError(f"{name!r} has the value {value!r}, which is not finite.")
    return number


def _check_strings(values: Iterable[Any], name: str) -> None:
    for value in values:
        if not isinstance(value, str):
            where = f"under {name!r} " if name else ""
            raise DataError(f"it returned a list {where}with {shown(value)} in it; lists must contain strings.")


def shown(value: Any) -> str:
    """Return a value and its type for messages."""
    text = repr(value)
    return f"{text[:60]}... ({type(value).__name__})" if len(text) > 60 else f"{text} ({type(value).__name__})"
