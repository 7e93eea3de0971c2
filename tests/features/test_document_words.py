"""Attributes from the other occurrences of a word, against a plain search."""

from __future__ import annotations

from typing import Any

import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import Doc

from spacy_crfseq.errors import ConfigError
from spacy_crfseq.features.documents import DocumentWords

NLP = spacy.blank("en")
WORDS = ["Rome", "rome", "ROME", "News", "the", "The", "met", ".", "7", "York"]
DOCS = st.lists(st.lists(st.tuples(st.sampled_from(WORDS), st.booleans()), max_size=12), max_size=3)


def _doc(rows: list[tuple[str, bool]]) -> Doc:
    starts: Any = [i == 0 or starts for i, (_, starts) in enumerate(rows)]
    return Doc(NLP.vocab, words=[word for word, _ in rows], sent_starts=starts)


def _counts(word: str) -> bool:
    return word.lower() != "the" and any(char.isalpha() for char in word)


def _expected(doc: Doc, i: int, window: int, most: int) -> set[str]:
    near = set[str]()
    word = doc[i].text
    same = [j for j in range(len(doc)) if doc[j].text.lower() == word.lower()] if _counts(word) else []
    rank = same.index(i) if same else 0
    for step in range(most):
        at = rank + (step // 2 + 1) * (1 if step % 2 == 0 else -1)
        if not 0 <= at < len(same):
            continue
        other = same[at]
        sent = next(sent for sent in doc.sents if sent.start <= other < sent.end)
        around = range(max(sent.start, other - window), min(sent.end, other + window + 1))
        near |= {f"{j - other:+d} {doc[j].lower_}" for j in around if j != other}
    return near


@given(DOCS, st.integers(1, 3), st.integers(1, 5))
def test_values_are_those_of_a_search(rows: list[list[tuple[str, bool]]], window: int, most: int) -> None:
    docs, strings = [_doc(each) for each in rows], dict[int, str]()
    plugin = DocumentWords(window, most)
    (sets,) = plugin.read("DOC", docs, strings).values()
    found = [[strings[v] for v in sets.values[b:e].tolist()] for b, e in zip(sets.ptr, sets.ptr[1:], strict=False)]
    assert list(map(sorted, found)) == [
        sorted(_expected(doc, i, window, most)) for doc in docs for i in range(len(doc))
    ]


def test_settings_are_checked() -> None:
    with pytest.raises(ConfigError, match="at least 1"):
        DocumentWords(window=0)
