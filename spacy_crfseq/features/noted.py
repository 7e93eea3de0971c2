"""Attributes that are stored with a text instead of computed from it, as in files of CRFsuite.

The extension attribute ``doc._.crf_attributes`` is a list for each token, of strings, or pairs of a string and a
number, see `potentials.values`.  The reader of such files sets it, or your own code.  The token function
`noted_attributes` turns the strings into attributes::

    [components.crf_tagger.features]
    @crf_features = "spacy_crfseq.Templates.v1"
    templates = ["GIVEN[0]"]

    [components.crf_tagger.features.token_functions]

    [components.crf_tagger.features.token_functions.GIVEN]
    @crf_features = "spacy_crfseq.Attributes.v1"
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from ..errors import DataError
from ..types import TokenFunction

EXTENSION = "crf_attributes"
Noted: TypeAlias = "str | tuple[str, float]"
KEY: Any = ("._.", EXTENSION, None, None)
"""The key of the extension attribute in ``doc.user_data``."""


def noted(doc: Any) -> Sequence[Sequence[Noted]] | None:
    """Return the attributes of each token of a Doc (tuples in a stored Doc), None if it has none."""
    attributes: Sequence[Sequence[Noted]] | None = doc.user_data.get(KEY)
    return attributes


def hash_of(doc: Any) -> int:
    """Return a hash of the attributes of a Doc."""
    return hash(tuple(map(tuple, noted(doc) or ())))


def noted_attributes(sequence: Sequence[Any], i: int) -> Sequence[Noted]:
    """Return the attributes of a token; DataError if its Doc does not have a list for each token."""
    token = sequence[i]
    attributes = noted(token.doc)
    if not isinstance(attributes, Sequence) or len(attributes) != len(token.doc):
        has = f"attributes for {len(attributes)} tokens" if isinstance(attributes, Sequence) else "no attributes"
        raise DataError(
            f"The doc {token.doc.text[:40]!r} of {len(token.doc)} tokens has {has}. Set doc._.{EXTENSION} to a list of "
            "strings for each token, or read the corpus by spacy_crfseq.CRFsuiteReader.v1."
        )
    return attributes[token.i]


def create_attributes() -> TokenFunction:
    """Return the token function for the attributes stored on a Doc (``spacy_crfseq.Attributes.v1``)."""
    return noted_attributes
