"""Readable names of features, of which a model has hashes only: found by hashing texts again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np
from spacy.tokens import Doc
from spacy.vocab import Vocab

from ..features.encoder import Active, Columns, Encoder, names_of
from ..features.token_sets import make_token_sets
from ..types import Bools, TokenFunction
from .extract import read_docs

N_FLAGS = 64
"""Values below are truth values and codes such as ENT_IOB's; as hashes they would be names of spaCy's own flags."""
CODES = (1, 2, 3)
"""Values of columns that are no texts: ENT_IOB's, and SPACY's."""
PART = 5_000
"""Strings of a vocab that are looked at together."""

BothActive = tuple[list[Active], list[Active]]
"""What the templates of the unigram and of the bigram block switch on in a text."""


def text_of(value: int, strings: Mapping[int, str], vocab: Vocab) -> str:
    """Return the text behind a value of a feature; the vocab need not have those of functions of words."""
    if value < N_FLAGS:
        return str(value)
    return strings.get(value) or str(vocab.strings[value])


class FeatureReader:
    """Finds which features of a model a text switches on, and what they are called.

    encoder (Encoder): One that nobody else uses, for the features of the model.
    strings (dict[int, str]): Filled with the texts behind hashes as the encoder and token functions meet them.
    vocab (Callable): Returns the vocab of the texts at hand.
    """

    def __init__(
        self,
        encoder: Encoder,
        strings: dict[int, str],
        functions: Mapping[str, TokenFunction],
        vocab: Callable[[], Vocab],
    ) -> None:
        self.encoder = encoder
        self._strings, self._functions, self._vocab = strings, functions, vocab

    def active(self, docs: list[Doc]) -> BothActive:
        """Return what the templates switch on in some Docs."""
        read = read_docs(docs, self.encoder.columns, functions=self._functions, strings=self._strings)
        return self.encoder.active(read.text)

    def names(self, block: int, active: Active) -> list[str]:
        """Return the names of features of the unigram (0) or the bigram block (1)."""
        plan = (self.encoder.unigrams, self.encoder.bigrams)[block].plan
        vocab = self._vocab()
        return names_of(plan, active.template, active.values, lambda value: text_of(value, self._strings, vocab))

    def active_strings(self) -> Iterator[BothActive]:
        """Yield what the strings of the vocab switch on, as words and as values of token columns, a part at a time.

        They are read as one long text.  So every feature of one word or one column is met whose string is there, at
        any offset; of what looks at several tokens, next to nothing is.
        """
        strings = self._vocab().strings
        hashes = np.array([*CODES, *(strings[text] for text in strings if not text.isspace())], np.uint64)
        for first in range(0, len(hashes), PART):
            part = hashes[first : first + PART]
            context = np.repeat(part[:, None], len(self.encoder.columns), axis=1)
            sets = dict.fromkeys(self._functions, make_token_sets([0] * len(part), []))
            yield self.encoder.active(Columns(part, context, np.array([0, len(part)]), sets))

    def find(self, texts: Iterable[BothActive], wanted: tuple[Bools, Bools]) -> Iterator[tuple[int, int, str]]:
        """Yield block, number and name of `wanted` features [F] of each block as they are met, no longer wanted."""
        for text in texts:
            for block, (missing, found) in enumerate(zip(wanted, text, strict=True)):
                for active in found:
                    hits = np.flatnonzero((active.features >= 0) & np.append(missing, False)[active.features])
                    hits = hits[np.unique(active.features[hits], return_index=True)[1]]
                    names = self.names(block, active._replace(values=active.values[:, hits]))
                    numbers = active.features[hits].tolist()
                    missing[numbers] = False
                    yield from ((block, number, name) for number, name in zip(numbers, names, strict=True))
            if not any(missing.any() for missing in wanted):
                return
