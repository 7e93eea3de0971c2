"""The protocols of ``crf_attributes``: plug-ins that add attributes, and templates over them, to a feature set.

In a config, each has a block with a name of its own, from which its attributes get theirs::

    [components.crf_ner.attributes.cluster]
    @crf_attributes = "spacy_crfseq.WordClasses.v1"
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Protocol, runtime_checkable

from ..types import Ints, LexemeFunction, Optimizer
from .token_sets import TokenSets


class Attributes(Protocol):
    """The templates of a plug-in.  `block` is the name of its block of the config, in upper case."""

    def templates(self, block: str) -> Sequence[str]:
        """Return the templates that are added to those of the feature set."""


@runtime_checkable
class WordAttributes(Attributes, Protocol):
    """Attributes of a word that depend on its text only, such as its class."""

    def functions(self, block: str) -> Mapping[str, LexemeFunction]:
        """Return the attributes by their names."""


@runtime_checkable
class ReadingAttributes(WordAttributes, Protocol):
    """Attributes that predictions, and the file of a model, have only of words that were read to be learned from.

    Words of other texts, such as the dev corpus, add nothing.
    """

    @property
    def seen(self) -> AbstractSet[int] | None:
        """Numbers that stand for the words read so far; None if predictions have all words."""

    def see(self, seen: AbstractSet[int]) -> None:
        """Add words that were read elsewhere."""

    def forget(self) -> None:
        """Begin without words, except those of a stored model."""

    def functions_of_training(self, block: str) -> Mapping[str, LexemeFunction]:
        """Return the attributes by their names, as functions of words to learn from, which are noted."""


@runtime_checkable
class DocAttributes(Attributes, Protocol):
    """Attributes of a token that depend on its Doc; each is a set of values, which may be empty."""

    def names(self, block: str) -> Sequence[str]:
        """Return the names of the attributes."""

    def read(self, block: str, docs: Sequence[Any], strings: dict[int, str] | None = None) -> Mapping[str, TokenSets]:
        """Return the values at all tokens of some Docs, for each name; the Docs have no white space.

        strings (dict[int, str] | None): Filled with the texts of the values, where names of features are to be kept.
        """


@runtime_checkable
class LabelAttributes(Attributes, Protocol):
    """Attributes of a token that depend on the labels that a first stage gives its Doc; each is a set of values.

    The first stage is the same component without these attributes.
    folds (int): Parts of the training corpus; each is labelled by a first stage that was trained on the others.
    optimizer (Optimizer | None): Of the first stage; None for that of the component.
    """

    folds: int
    optimizer: Optimizer | None

    def names(self, block: str) -> Sequence[str]:
        """Return the names of the attributes."""

    def read_labels(
        self, block: str, docs: Sequence[Any], labels: Ints, names: Sequence[str], strings: dict[int, str] | None = None
    ) -> Mapping[str, TokenSets]:
        """Return the values at all tokens of some Docs, for each name.

        labels (Ints): [T] of the first stage, numbers of `names`; -1 where there are none.
        strings (dict[int, str] | None): As in `DocAttributes.read`.
        """
