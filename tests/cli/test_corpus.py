"""A corpus of ``crfseq fit``: read again for each use, or kept."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import spacy
from spacy.tokens import Doc
from spacy.training import Example

from spacy_crfseq.pipeline.examples import Corpus


class Source:
    """Three docs of two tokens; counts how often it was opened."""

    def __init__(self) -> None:
        self.opened = 0
        self._nlp = spacy.blank("xx")

    def __call__(self) -> Iterator[Example]:
        self.opened += 1
        for _ in range(3):
            doc = Doc(self._nlp.vocab, words=["a", "b"])
            yield Example(doc, doc.copy())


@pytest.mark.parametrize("keep", [False, True])
def test_counts_once(keep: bool) -> None:
    source, told = Source(), list[tuple[int, int]]()
    corpus = Corpus(source, keep, lambda docs, tokens: told.append((docs, tokens)))
    assert len(corpus.head(2)) == 2
    assert bool(told) == keep
    assert corpus.n_tokens == 6
    assert len(list(corpus)) == 3
    assert told == [(3, 6)]
    assert source.opened == (1 if keep else 3)
    assert (next(iter(corpus)) is next(iter(corpus))) == keep
