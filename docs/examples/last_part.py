"""Attributes of words: the part after the last hyphen, such as "based" of "London-based"."""

from collections.abc import Mapping, Sequence

from spacy_crfseq import registry
from spacy_crfseq.types import LexemeFunction


def last_part(word: str) -> str | None:
    """Return the part of a word after its last hyphen in lower case, None if there is none."""
    return word.rpartition("-")[2].lower() or None if "-" in word else None


@registry.attributes("examples.LastPart.v1")
class LastPart:
    """The attribute that has the name of the block, and its templates."""

    def functions(self, block: str) -> Mapping[str, LexemeFunction]:
        """Return the attributes by their names; each is a function of a word's text."""
        return {block: last_part}

    def templates(self, block: str) -> Sequence[str]:
        """Return the templates that are added to those of the feature set."""
        return [f"{block}[-1..1]"]
