"""Texts behind the numbers that attributes are made of."""

from __future__ import annotations

from collections.abc import Mapping

from spacy.vocab import Vocab

N_FLAGS = 64
"""Values below are truth values and codes such as ENT_IOB's; as hashes they would be names of spaCy's own flags."""


def text_of(value: int, strings: Mapping[int, str], vocab: Vocab) -> str:
    """Return the text behind a value of an attribute.

    strings (Mapping[int, str]): Texts of functions of words, which the vocab need not have.
    """
    if value < N_FLAGS:
        return str(value)
    return strings.get(value) or str(vocab.strings[value])
