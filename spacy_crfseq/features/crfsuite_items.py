"""Attributes as python-crfsuite names and counts them, for models that were trained with it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from ..errors import ConfigError
from ..types import TokenFunction
from .entries import attribute_of, entries_in
from .sets import columns_read

_known = lru_cache(1 << 16)(attribute_of)


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
        totals: dict[str, float] = {}
        entries = list(entries_in(self.function(sequence, i)))
        try:
            pairs = list(map(_known, entries))
        except TypeError:  # a value without a hash, which is no number
            pairs = list(map(attribute_of, entries))
        for name, value in pairs:
            totals[name] = totals.get(name, 0.0) + value
        return [name if value == 1.0 else (name, value) for name, value in totals.items() if value]
