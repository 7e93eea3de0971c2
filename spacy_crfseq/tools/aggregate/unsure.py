"""Words of which a source says nothing although it has not labelled them, because it may not know them.

Lists, knowledge bases and rules miss a name wherever it stands.  That a word is outside of their spans says little if
they label most words that are written like it, such as those with a capital.  Training on the rest, with the labels of
these words summed out, is learning from positive and unlabelled words with labels that are missing by word, not at
random (for spans: Mayhew et al. 2019, "Named entity recognition with partially annotated training data").
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from ...features.items import brief_shape
from ...types import Bools, Offsets

OFTEN = 1.5
"""How many times as often as others words of a shape must be labelled, so that the source may miss some of them.

It says nothing of shapes that most words have, as in texts without capitals, whatever share of the spans is missed.
"""
KNOWN = 0.8
"""Share of a word's tokens in spans from which on the source knows the word, so that the others are outside."""


def unsure_tokens(words: Sequence[str], inside: Bools, span_starts: Bools, offsets: Offsets) -> Bools:
    """Return the tokens [T] of which a source says nothing.

    Those are outside of spans, but written like words that it labels, unless it labels nearly all other tokens of the
    word, or the word is mostly written otherwise, as one that begins a sentence; and spans beside such a token, which
    may be parts of longer ones.

    words (Sequence[str]): [T] of all sequences.
    inside, span_starts (Bools): [T] whether a token is in a span of the source, and whether it begins one.
    offsets (Offsets): [N + 1] token offsets of the sequences.
    """
    begins = np.zeros(len(words) + 1, np.bool_)
    begins[offsets] = True
    doubtful = _doubtful_words(words, inside, begins)
    unsure: Bools = np.array([word in doubtful for word in words], np.bool_) & ~inside
    bounds = np.flatnonzero(np.append(begins[:-1] | span_starts | np.diff(inside, prepend=False), True)).tolist()
    for first, last in pairwise(bounds if bounds[0] == 0 else [0, *bounds]):
        if inside[first] and (
            (not begins[first] and not inside[first - 1] and unsure[first - 1])
            or (not begins[last] and not inside[last] and unsure[last])
        ):
            unsure[first:last] = True
    return unsure


def _doubtful_words(words: Sequence[str], inside: Bools, begins: Bools) -> set[str]:
    """Return the words that a source may not know."""
    tokens, labelled = Counter(words), Counter(word for word, is_in in zip(words, inside, strict=True) if is_in)
    shapes = {word: brief_shape(word) for word in tokens}
    of_shape, in_spans = Counter[str](), Counter[str]()
    for word, number in tokens.items():
        of_shape[shapes[word]] += number
        in_spans[shapes[word]] += labelled[word]
    usual = sum(in_spans.values()) / max(len(words), 1)
    often = {shape: 0 < number * OFTEN * usual <= in_spans[shape] for shape, number in of_shape.items()}
    written = defaultdict[str, list[int]](lambda: [0, 0])  # as words rarely and often labelled, not where a text begins
    for word, begin in zip(words, begins[:-1].tolist(), strict=True):
        if not begin:
            written[word.lower()][often[shapes[word]]] += 1
    return {
        word
        for word, number in tokens.items()
        if often[shapes[word]]
        and labelled[word] < KNOWN * number
        and written[word.lower()][0] <= written[word.lower()][1]
    }
