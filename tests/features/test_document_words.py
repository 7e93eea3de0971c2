"""Attributes from the other occurrences of a word, against a plain search."""

from __future__ import annotations

from typing import Any

import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import Doc

from spacy_crfseq.errors import ConfigError
from spacy_crfseq.features.document_words import DocumentWords
from spacy_crfseq.features.token_sets import TokenSets

NLP = spacy.blank("en")
WORDS = ["Rome", "rome", "ROME", "News", "the", "The", "met", ".", "7", "York"]
DOCS = st.lists(st.lists(st.tuples(st.sampled_from(WORDS), st.booleans()), max_size=12), max_size=3)


def _doc(rows: list[tuple[str, bool]]) -> Doc:
    starts: Any = [i == 0 or starts for i, (_, starts) in enumerate(rows)]
    return Doc(NLP.vocab, words=[word for word, _ in rows], sent_starts=starts)


def _counts(word: str) -> bool:
    return word.lower() != "the" and any(char.isalpha() for char in word)


def _sequence(doc: Doc, i: int) -> range:
    """Return the capitalised words of a sentence that stand together with this one."""
    sent = next(sent for sent in doc.sents if sent.start <= i < sent.end)
    first = last = i
    member = [word[0].isupper() and _counts(word) for word in (token.text for token in doc)]
    if not member[i]:
        return range(0)
    while first > sent.start and member[first - 1]:
        first -= 1
    while last + 1 < sent.end and member[last + 1]:
        last += 1
    return range(first, last + 1)


def _expected(doc: Doc, i: int, window: int, most: int) -> tuple[set[str], set[str]]:
    near, places = set[str](), set[str]()
    word = doc[i].text
    same = [j for j in range(len(doc)) if doc[j].text.lower() == word.lower()] if _counts(word) else []
    rank = same.index(i) if same else 0
    for step in range(most):
        at = rank + (step // 2 + 1) * (1 if step % 2 == 0 else -1)
        if not 0 <= at < len(same):
            continue
        other = same[at]
        sent = next(sent for sent in doc.sents if sent.start <= other < sent.end)
        near |= {f"before {doc[j].lower_}" for j in range(max(sent.start, other - window), other)}
        near |= {f"after {doc[j].lower_}" for j in range(other + 1, min(sent.end, other + window + 1))}
        around = _sequence(doc, other)
        if len(around) > len(_sequence(doc, i)):
            places.add("first" if other == around[0] else "last" if other == around[-1] else "inside")
    return near, places


def _texts(sets: TokenSets, strings: dict[int, str], token: int) -> list[str]:
    return [strings[value] for value in sets.values[sets.ptr[token] : sets.ptr[token + 1]].tolist()]


@given(DOCS, st.integers(1, 3), st.integers(1, 5))
def test_values_are_those_of_a_search(rows: list[list[tuple[str, bool]]], window: int, most: int) -> None:
    docs, strings = [_doc(each) for each in rows], dict[int, str]()
    plugin = DocumentWords(window, most)
    found = plugin.read("DOC", docs, strings)
    assert [key in strings for sets in found.values() for key in sets.values.tolist()].count(False) == 0
    places = [(doc, i) for doc in docs for i in range(len(doc))]
    for number, (doc, i) in enumerate(places):
        texts = [_texts(found[name], strings, number) for name in plugin.names("DOC")]
        assert tuple(map(sorted, texts)) == tuple(map(sorted, _expected(doc, i, window, most)))
    assert all(len(sets.keys) == len(places) for sets in found.values())


def test_settings_are_checked() -> None:
    with pytest.raises(ConfigError, match="at least 1"):
        DocumentWords(window=0)
