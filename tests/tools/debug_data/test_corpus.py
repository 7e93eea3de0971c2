"""Counts of a corpus beside what the definitions say, and templates without origins."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_crfseq.corpora import Sentence
from spacy_crfseq.errors import DataError
from spacy_crfseq.features.encoder import Columns, Encoder
from spacy_crfseq.features.templates import make_plan, parse
from spacy_crfseq.schemes import decode_lenient, find_invalid
from spacy_crfseq.tools.debug_data.corpus import COMPARED, Part, count, overlap
from spacy_crfseq.tools.debug_data.features import template_uses

TAGS = ("O", "B-A", "I-A", "B-B", "I-B", "-")
tokens = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(TAGS)), min_size=1, max_size=7)
corpora = st.lists(tokens, min_size=1, max_size=12)


def sentences(corpus: list[list[tuple[str, str]]]) -> list[Sentence]:
    found, line = [], 1
    for rows in corpus:
        words, tags = [word for word, _ in rows], [tag for _, tag in rows]
        found.append(Sentence(words, {"ent": tags}, None, line, 0, {}))
        line += len(rows) + 1
    return found


def count_all(corpus: list[list[tuple[str, str]]]) -> Part:
    return count(sentences(corpus), {"ent": "IOB2"}, lambda sentence, token: str(sentence.line_of(token)))


@given(corpora)
def test_counts_of_a_part(corpus: list[list[tuple[str, str]]]) -> None:
    part = count_all(corpus)
    column = part.columns["ent"]
    known = [["O" if tag == "-" else tag for _, tag in rows] for rows in corpus]
    assert column.labels == Counter(span.label for tags in known for span in decode_lenient(tags))
    assert column.invalid.count == sum(find_invalid(tags, "IOB2") is not None for tags in known)
    assert column.n_known == sum(tag != "-" for rows in corpus for _, tag in rows)
    words = [tuple(word for word, _ in rows) for rows in corpus]
    assert part.repeated == len(words) - len(set(words))
    longest, place = part.longest
    assert longest == max(map(len, corpus))
    assert len(corpus[[str(s.line) for s in sentences(corpus)].index(place)]) == longest
    first: dict[tuple[str, ...], list[tuple[str, str]]] = {}
    differ = [
        first.setdefault(key, rows) != rows and len(key) >= COMPARED for key, rows in zip(words, corpus, strict=True)
    ]
    assert column.conflicts.count == sum(differ)


@given(corpora, corpora)
def test_what_two_parts_share(train: list[list[tuple[str, str]]], dev: list[list[tuple[str, str]]]) -> None:
    parts = [count_all(corpus) for corpus in (train, dev)]
    shared = overlap(*parts)
    texts = [[tuple(word for word, _ in rows) for rows in corpus] for corpus in (train, dev)]
    both = [text for text in texts[1] if text in texts[0]]
    assert shared.same == sum(len(text) >= COMPARED for text in both)
    assert shared.compared == sum(len(text) >= COMPARED for text in texts[1])
    assert sum(shared.seen_spans["ent"]) == sum(parts[1].columns["ent"].labels.values())
    assert set(shared.new_labels["ent"]) == set(parts[1].columns["ent"].labels) - set(parts[0].columns["ent"].labels)


def test_templates_need_their_origins() -> None:
    plan, none = make_plan(parse(["ORTH[0]", "ORTH[-1]"], {"ORTH"})), make_plan([])
    orths = np.array([7, 8, 7], np.uint64)
    text = Columns(orths, np.zeros((3, 0), np.uint64), np.array([0, 3]))
    encoder = Encoder(plan, none, lambda orths: np.array([[orth] for orth in orths], np.uint64))
    with pytest.raises(DataError, match="keep names"):
        template_uses(encoder.unigrams, encoder.encode(text).unigrams)
    encoder = Encoder(plan, none, lambda orths: np.array([[orth] for orth in orths], np.uint64))
    encoder.keep_names()
    uses = template_uses(encoder.unigrams, encoder.encode(text).unigrams)
    assert [tuple(use) for use in uses] == [("ORTH[0]", 2, 1, 3), ("ORTH[-1]", 3, 3, 3)]
