"""Texts with labels of sources: exact probabilities from what is noted, and doubtful texts first."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import Doc, DocBin, Span, SpanGroup

from spacy_crfseq import Chain
from spacy_crfseq.errors import ConfigError, DataError
from spacy_crfseq.pipeline.soft_labels import soft_labels, write_soft_labels
from spacy_crfseq.schemes import TagSpan, encode, tags_of, transition_table
from spacy_crfseq.tools.annotate.command import FirstPipeline, annotate
from spacy_crfseq.tools.annotate.journal import Pins
from spacy_crfseq.tools.annotate.labelled import entropy, probability
from spacy_crfseq.tools.annotate.project import Project

TAGS = tags_of(["LOC", "PER"], "BILUO")
RULES = transition_table(TAGS, "BILUO")
TEXTS = [
    ["Ada", "met", "Bo", "."],
    ["Oslo", "is", "far", "."],
    ["Eve", "Lima", "sold", "maps"],
    ["no", "name", "here", "."],
]
SHARES = (0.9, 0.6, 0.7)
"""The probabilities of the first token's best label in the first three texts."""


def posterior(seed: int, n_tokens: int) -> Chain:
    """Return a chain over the tags in their order."""
    rng = np.random.default_rng(seed)
    emissions, steps = rng.normal(size=(n_tokens, len(TAGS))), rng.normal(size=(len(TAGS), len(TAGS)))
    ends = [np.where(allowed, 0, -np.inf) for allowed in (RULES.start, RULES.end)]
    return Chain(emissions, np.where(RULES.step, steps, -np.inf), *ends)


@given(st.integers(0, 2**31), st.integers(1, 6), st.data())
def test_noted_pairs_have_the_entropy_of_the_chain_and_the_probability_of_any_span(
    seed: int, n_tokens: int, data: st.DataObject
) -> None:
    chain = posterior(seed, n_tokens)
    soft = soft_labels(TAGS, chain.marginals(), chain.pair_marginals(), least=0.0)
    assert entropy(soft) == pytest.approx(chain.entropy()[0], abs=1e-9)
    start = data.draw(st.integers(0, n_tokens - 1))
    span = TagSpan(start, data.draw(st.integers(start + 1, n_tokens)), "PER")
    labels = np.full(n_tokens, -1)
    labels[span.start : span.end] = [
        TAGS.index(tag) for tag in encode([TagSpan(0, span.end - start, "PER")], span.end - start, "BILUO")
    ]
    exact = math.exp(chain.log_prob(labels)[0])
    assert probability(span, soft, certain=False) == pytest.approx(exact, abs=1e-9)


@pytest.fixture
def labelled(tmp_path: Path) -> Path:
    """Return the path of texts as `aggregate` writes them: two sources, one of which is silent about a text."""
    nlp, path, docs = spacy.blank("en"), tmp_path / "labels.spacy", []
    for number, words in enumerate(TEXTS):
        doc = Doc(nlp.vocab, words)
        if number < 3:
            doc.set_ents([Span(doc, 0, 1, "PER")])
            share = SHARES[number]
            write_soft_labels(doc, "crf_ner", {0: [("", "U-PER", share), ("", "U-LOC", 1 - share)]})
            doc.spans["lists"] = SpanGroup(doc, attrs={"silent": []}, spans=[Span(doc, 0, 1, "LOC")])
        if number != 1:
            model = [Span(doc, 0, 1, "PER")] if number < 3 else []
            doc.spans["model"] = SpanGroup(doc, attrs={"silent": []}, spans=model)
        doc.spans["mine"] = [doc[0:2]]
        docs.append(doc)
    DocBin(docs=docs, store_user_data=True).to_disk(path)
    return path


def test_the_page_shows_doubtful_texts_first_with_the_answer_of_each_source(labelled: Path, tmp_path: Path) -> None:
    project = annotate([labelled], tmp_path / "project", sources=True, classes=False)
    try:
        assert project.state.labels == ["LOC", "PER"]
        seen: list[Any] = []
        for tab in "abcd":
            item = project.next(tab)
            assert item is not None
            seen.append(item)
        shown = [item for item in seen if not item.held_out]
        assert [item.doc[0].text for item in shown] == ["Oslo", "Eve", "Ada", "no"]
        assert project.note(shown[0]) == "lists: [Oslo LOC]"
        assert project.note(shown[1]) == "lists: [Eve LOC]; model: [Eve PER]"
        assert project.note(shown[3]) == "model: O"
        names = [(0, 1, "LOC", "lists"), (0, 1, "PER", "model")]
        assert [project.found_by(item) for item in (shown[1], shown[3])] == [names, []]
        decoding, texts = project.decode(shown[1], Pins())
        assert texts is None
        assert decoding.spans == [(0, 1, "PER", pytest.approx(0.7))]
        assert decoding.offers == [(0, 1, "LOC", pytest.approx(0.3))]
        decoding, _ = project.decode(shown[1], Pins(spans=(TagSpan(0, 1, "LOC"),)))
        assert decoding.spans == [(0, 1, "LOC", 1.0)]
    finally:
        project.close()


def test_decided_texts_do_not_come_again(labelled: Path, tmp_path: Path) -> None:
    def opened() -> Project:
        return annotate([labelled], tmp_path / "project", sources=True, classes=False)

    project = opened()
    first: Any = project.next("a")
    entry = {"key": first.key, "pins": Pins((TagSpan(0, 1, "LOC"),)).as_json(), "by_user": [], "predicted": []}
    project.accept("a", {**entry, "model": 0, "seconds": 1.0, "actions": 1, "id": "1", "reviewed": True})
    project.close()
    project = opened()
    try:
        assert project.next("a").doc[0].text == "Eve"  # type: ignore[union-attr]
    finally:
        project.close()


def test_a_decision_changes_the_labels_and_the_order_of_the_other_texts(tmp_path: Path) -> None:
    nlp, path, docs = spacy.blank("en"), tmp_path / "labels.spacy", []
    for number in range(30):
        agreed = number < 10
        doc = Doc(nlp.vocab, ["Agreed" if agreed else "Doubted", f"met{number}", f"Bo{number}", "."])
        doc.set_ents([Span(doc, 0, 1, "PER")])
        share = 0.5 if agreed else 0.6  # as if those on which sources agree were in doubt
        write_soft_labels(doc, "crf_ner", {0: [("", "U-PER", share), ("", "U-LOC", 1 - share)]})
        says = {"lists": "PER" if number < 5 else "LOC", "model": "LOC" if 5 <= number < 10 else "PER"}
        for name, label in says.items():
            doc.spans[name] = SpanGroup(doc, attrs={"silent": [[3, 4]]}, spans=[Span(doc, 0, 1, label)])
        docs.append(doc)
    DocBin(docs=docs, store_user_data=True).to_disk(path)
    project = annotate([path], tmp_path / "project", sources=True, classes=False)
    project.start()
    try:
        words = []
        for number in range(5):  # the last one is held out
            item: Any = project.next("a")
            words.append(item.doc[0].text)
            label = project.note(item).split(";")[0].split()[-1].rstrip("]") if project.note(item) else "LOC"
            entry = {"key": item.key, "pins": Pins((TagSpan(0, 1, label),)).as_json(), "by_user": [], "predicted": []}
            entry |= {"model": 0, "seconds": 1.0, "actions": 1, "id": str(number), "reviewed": True}
            project.accept("a", entry)
            assert project.settle()
        assert project.trouble == ""
        assert words[:2] == ["Agreed", "Doubted"]
        item = project.next("a")
        while item.doc[0].text != "Doubted":
            project.skip("a", item.key, f"skip {item.key}")
            item = project.next("a")
        decoding, _ = project.decode(item, Pins())
        assert [(span.label, span.probability > 0.6) for span in decoding.spans] == [("LOC", True)]
    finally:
        project.close()


def test_a_corpus_without_sources_is_refused(tmp_path: Path) -> None:
    nlp, path = spacy.blank("en"), tmp_path / "plain.spacy"
    DocBin(docs=[nlp.make_doc("Ada met Bo")]).to_disk(path)
    with pytest.raises(DataError, match="no doc has spans of sources"):
        annotate([path], tmp_path / "project", sources=True, classes=False)


@pytest.mark.parametrize(
    "more", [{"review": True}, {"first": FirstPipeline(patterns=Path(__file__))}], ids=["review", "patterns"]
)
def test_sources_exclude_other_ways_to_begin(labelled: Path, tmp_path: Path, more: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="--sources shows"):
        annotate([labelled], tmp_path / "project", sources=True, classes=False, **more)
