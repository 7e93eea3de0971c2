"""Multiword tokens of gold Docs, such as "zum" for "zu dem": noted when a Doc is built, written as their forms."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from spacy.tokens import Doc

from ..corpora import Sentence
from ..corpora.lines import MultiwordToken, with_forms

MULTIWORD_KEY = "spacy_crfseq.multiword"
"""Key in ``user_data`` of a gold doc of its multiword tokens whose forms are not those of their words."""


def multiword_tokens(sentences: Sequence[Sentence]) -> list[tuple[int, int, str]]:
    """Return the multiword tokens of a doc, whose forms are not those of its words."""
    bounds = accumulate((len(sentence.words) for sentence in sentences), initial=0)
    pairs = zip(bounds, sentences, strict=False)
    return [(base + start, base + end, form) for base, sentence in pairs for start, end, form in sentence.multiword]


def written_text(doc: Doc, spaces: Sequence[bool]) -> tuple[str, list[tuple[int, int]]]:
    """Return the text of a gold doc and where each token [T] is in it.

    Words of a multiword token that has other letters are all where its form is.
    spaces (Sequence[bool]): [T] whether a space follows a token.
    """
    multiword = [MultiwordToken(*token) for token in doc.user_data.get(MULTIWORD_KEY, ())]
    text, places = "", list[tuple[int, int]]()
    for form, space in zip(with_forms([token.text for token in doc], multiword), spaces, strict=True):
        places.append((len(text), len(text) + len(form)))
        text += form + " " * space
    for start, end, _ in multiword:
        places[start:end] = [places[start]] * (end - start)
    return text, places
