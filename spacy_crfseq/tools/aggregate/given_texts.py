"""The texts that sources label, and where the texts of a source are among them."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from spacy.tokens import Doc

from ...cli.inputs import read_file
from ...corpora import layouts
from ...errors import DataError
from ...types import Offsets

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.vocab import Vocab

UNKNOWN = ""
"""The tag of a token of which a source says nothing."""


class GivenTexts(NamedTuple):
    """Texts and their words, one after another.

    offsets (Offsets): [N + 1] the tokens of each.
    """

    docs: list[Doc]
    words: list[str]
    offsets: Offsets

    def copies(self, vocab: Vocab) -> list[Doc]:
        """Return Docs of the texts for a pipeline, without any annotation."""
        return [Doc(vocab, words_of(doc), [bool(token.whitespace_) for token in doc]) for doc in self.docs]


def words_of(doc: Doc) -> list[str]:
    """Return the words of a Doc."""
    return [token.text for token in doc]


def read_given(nlp: Language, path: Path, layout: layouts.Format) -> GivenTexts:
    """Return the texts of a file.  RAISES CrfError: If it cannot be read, or holds none."""
    docs = [text.doc for text in read_file(nlp, path, layout)]
    if not docs:
        raise DataError(f"{path} holds no texts.")
    words = [token.text for doc in docs for token in doc]
    return GivenTexts(docs, words, np.cumsum([0, *map(len, docs)]))


def check_words(source: str, words: Sequence[str], texts: GivenTexts) -> None:
    """Raise DataError unless a source has the words of the texts."""
    pairs = enumerate(zip(words, texts.words, strict=False))
    token = next((place for place, (own, given) in pairs if own != given), min(len(words), len(texts.words)))
    if token == len(words) == len(texts.words):
        return
    own, other = (repr(list_[token]) if token < len(list_) else "the end" for list_ in (words, texts.words))
    text = int(np.searchsorted(texts.offsets, token, side="right"))
    raise DataError(
        f"{source}: it has other words than the texts: at text {text}, {own} instead of {other}. If it has only some "
        "of the texts, or another order, say so by the setting texts=some."
    )


def tags_of_some(
    words: Sequence[Sequence[str]], tags: Sequence[list[str]], texts: GivenTexts, source: str
) -> list[str]:
    """Return the tags of all words, `UNKNOWN` in texts that are not among those with these words and tags.

    Of texts with the same words, each gets the next tags, and the last tags go on.
    RAISES DataError: If there are none of the texts.
    """
    there: dict[tuple[str, ...], list[list[str]]] = defaultdict(list)
    for of_text, its_tags in zip(reversed(words), reversed(tags), strict=True):
        there[tuple(of_text)].append(its_tags)
    result, matched = list[str](), set[tuple[str, ...]]()
    for doc in texts.docs:
        key = tuple(words_of(doc))
        if key not in there:
            result += [UNKNOWN] * len(doc)
            continue
        matched.add(key)
        result += there[key].pop() if len(there[key]) > 1 else there[key][0]
    if not matched:
        raise DataError(f"{source}: none of its {len(words):,} texts is among those to label.")
    if missing := sum(tuple(of_text) not in matched for of_text in words):
        warnings.warn(f"{source}: {missing:,} of its {len(words):,} texts are not among those to label.", stacklevel=3)
    return result
