"""Scores of spans and tokens in spaCy's places: stored or computed, of components that came from anywhere."""

import pickle
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Doc, DocBin, Span

from spacy_crfseq.errors import ConfigError
from spacy_crfseq.pipeline.evidence import span_probability
from tests.pipeline.enumeration import enumerated
from tests.pipeline.helpers import (
    FACTORIES,
    WEAK,
    bare_doc,
    inputs,
    pipe_of,
    trained,
    triples,
)

WORDS = ["Anna", "saw", "New", "York"]


@pytest.mark.parametrize("stored", [True, False])
def test_scores_are_those_of_the_posterior(factory: str, stored: bool) -> None:
    """Stored with the Doc, or computed when they are asked for; nothing is stored unless it is wanted."""
    threshold = {} if factory == "crf_tagger" else {"threshold": 0.5}
    nlp = trained(factory, scores=stored, **threshold, **WEAK)
    pipe, key = pipe_of(nlp), "chunks" if factory == "crf_chunker" else factory
    for doc in nlp.pipe(inputs(nlp, factory)):
        [answer] = pipe.posterior([doc]).spans()
        wanted = [span for span in answer if span.probability >= threshold.get("threshold", 0)]
        if factory == "crf_tagger":
            actual = [(token.i, token.i + 1, token.tag_, token._.crf_score) for token in doc]
        else:
            actual = [(*triple, span._.crf_score) for span in (doc.ents if factory == "crf_ner" else doc.spans[key])
                     for triple in triples([span])]  # fmt: skip
        assert [scored[:3] for scored in actual] == [span[:3] for span in wanted]
        np.testing.assert_allclose([scored[3] for scored in actual], [span.probability for span in wanted], atol=1e-9)
        if not stored:
            assert not doc.user_data
            assert set(doc.spans) <= {"chunks"}
            assert all("scores" not in group.attrs for group in doc.spans.values())
        elif factory != "crf_tagger":
            assert triples(doc.spans[key]) == [scored[:3] for scored in actual]
            assert list(doc.spans[key].attrs["scores"]) == [scored[3] for scored in actual]


def test_a_span_that_was_not_predicted_has_a_score() -> None:
    nlp = trained("crf_ner", **WEAK)
    doc = nlp(bare_doc(nlp, WORDS))
    tagged, probabilities = enumerated(nlp, bare_doc(nlp, WORDS))
    wanted = sum(p for tags, p in zip(tagged, probabilities, strict=True) if tags[2:] == ["B-ORG", "L-ORG"])
    assert Span(doc, 2, 4, "ORG")._.crf_score == pytest.approx(wanted, abs=1e-9)
    doc[3].is_sent_start = True
    assert Span(doc, 2, 4, "ORG")._.crf_score == 0.0
    assert Span(doc, 0, 1, "SHIP")._.crf_score is None, "a label that no component has"


def test_extension_attributes_without_a_component() -> None:
    trained("crf_ner")
    doc = bare_doc(spacy.blank("xx"), WORDS)
    with pytest.raises(ConfigError, match="no trained crf_ner or crf_chunker has annotated this document"):
        _ = Span(doc, 0, 1, "PER")._.crf_score
    with pytest.raises(ConfigError, match="no trained crf_tagger has annotated this document"):
        _ = doc[0]._.crf_score


def scores_of(doc: Doc) -> list[float | None]:
    spans = [*doc.ents, *doc.spans.get("chunks", ())]
    return [span._.crf_score for span in spans] or [token._.crf_score for token in doc]


def moved(nlp: Language, how: str, tmp_path: Path) -> Language:
    """Return a pipeline whose only component came there in some way."""
    other, [name] = spacy.blank("xx"), nlp.pipe_names
    if how == "pickled":
        return pickle.loads(pickle.dumps(nlp))
    if how == "copied":
        other = deepcopy(nlp)
    elif how == "loaded":
        nlp.to_disk(tmp_path)
        other = spacy.load(tmp_path)
    elif how == "replaced":
        other.add_pipe(name)
        other.remove_pipe(name)
        other.add_pipe(name, source=nlp)
    else:
        other.add_pipe(name, source=nlp)
        if how == "renamed":
            other.rename_pipe(name, "mine")
    return other


@pytest.mark.parametrize(
    ("how", "factory"),
    [*zip(["sourced", "renamed", "replaced", "pickled", "copied", "loaded"], FACTORIES * 2, strict=True)],
)
def test_scores_from_a_component_that_came_from_elsewhere(factory: str, how: str, tmp_path: Path) -> None:
    nlp = trained(factory, **WEAK)
    expected = [scores_of(nlp(doc)) for doc in inputs(nlp, factory)[:3]]
    other = moved(nlp, how, tmp_path)
    actual = [scores_of(other(doc)) for doc in inputs(other, factory)[:3]]
    for these, those in zip(actual, expected, strict=True):
        assert these == pytest.approx(those)


def test_pipelines_that_share_a_vocab_score_their_own_docs() -> None:
    sure, weak = trained("crf_ner"), trained("crf_ner", **WEAK)
    shared = spacy.blank("xx", vocab=sure.vocab)
    shared.add_pipe("crf_ner", source=weak)
    text = " ".join(WORDS)
    for nlp in (sure, shared):
        for ent in (doc := nlp(text)).ents:
            assert ent._.crf_score == pytest.approx(span_probability(pipe_of(nlp), ent))
        assert doc.ents
    assert sure(text).ents[0]._.crf_score > shared(text).ents[0]._.crf_score + 0.01
    untouched = sure.make_doc(text)
    with pytest.raises(ConfigError, match=r"'crf_ner', 'crf_ner' have the label 'PER'"):
        _ = Span(untouched, 0, 1, "PER")._.crf_score


def test_two_components_that_could_be_meant_are_named() -> None:
    nlp = trained("crf_ner")
    nlp.add_pipe("crf_ner", name="second", source=trained("crf_ner", **WEAK))
    doc = nlp(" ".join(WORDS))
    assert doc.ents[0]._.crf_score == pytest.approx(span_probability(nlp.get_pipe("crf_ner"), doc.ents[0]))
    with pytest.raises(ConfigError, match=r"'crf_ner', 'second' have the label"):
        _ = Span(doc, 1, 2, doc.ents[0].label_)._.crf_score


def test_scores_travel_with_the_doc(factory: str, tmp_path: Path) -> None:
    nlp = trained(factory, scores=True, **WEAK)
    docs = list(nlp.pipe(inputs(nlp, factory)))
    DocBin(docs=docs, store_user_data=True).to_disk(tmp_path / "docs.spacy")
    stored = list(DocBin().from_disk(tmp_path / "docs.spacy").get_docs(nlp.vocab))
    copies = [Doc(nlp.vocab).from_bytes(doc.to_bytes()) for doc in docs]
    for doc, copy in zip([*docs, *docs], [*stored, *copies], strict=True):
        if factory == "crf_tagger":
            assert [t._.crf_score for t in copy] == [t._.crf_score for t in doc]
        for key, group in doc.spans.items():
            assert list(copy.spans[key].attrs["scores"]) == list(group.attrs["scores"])


def test_token_scores_on_other_tokens() -> None:
    nlp = trained("crf_tagger", scores=True)
    doc = nlp("Anna saw New York")
    part = doc[1:].as_doc(copy_user_data=True)
    expected = [pipe_of(nlp).posterior([part]).probability(token.i, [token.tag_]) for token in part]
    assert [token._.crf_score for token in part] == pytest.approx(expected)


def test_span_scores_on_other_tokens() -> None:
    nlp = trained("crf_ner", scores=True)
    pipe = pipe_of(nlp)
    doc = nlp("Anna saw New York and Anna saw Anna")
    with doc.retokenize() as retokenizer:
        for entity in doc.ents:
            retokenizer.merge(entity)
    assert len(doc) == 7
    for start in range(2, len(doc)):  # whose numbers have changed
        span = Span(doc, start, start + 1, "PER")
        assert span._.crf_score == pytest.approx(span_probability(pipe, span))


def test_the_score_of_a_tag_that_was_there() -> None:
    nlp = trained("crf_tagger", scores=True)
    doc = nlp.make_doc("Anna saw New York")
    doc[0].tag_, doc[1].tag_ = "unheard", "NNP"
    pipe = pipe_of(nlp)
    marginals = pipe.marginals(pipe(doc))
    assert [token.tag_ for token in doc[:2]] == ["unheard", "NNP"]
    assert doc[0]._.crf_score is None, "a tag that the tagger does not have"
    expected = [marginals[i, pipe.tags.index(doc[i].tag_)] for i in (1, 2, 3)]
    assert [token._.crf_score for token in doc[1:]] == pytest.approx(expected)


def test_given_labels_have_no_score() -> None:
    for settings in ({}, {"scores": True}):
        nlp = trained("crf_ner", **settings)
        doc = inputs(nlp, "crf_ner")[0]
        doc.set_ents([Span(doc, 2, 3, "LOC")])
        nlp(doc)
        scores = {ent.text: ent._.crf_score for ent in doc.ents}
        assert scores.pop(doc[2].text) is None
        assert scores
        assert None not in scores.values()
        later = nlp(inputs(nlp, "crf_ner")[0])
        later.set_ents([Span(later, 2, 3, "LOC")])
        assert 0 < later.ents[0]._.crf_score < 1
    nlp = trained("crf_tagger")
    doc = inputs(nlp, "crf_tagger")[0]
    pipe_of(nlp).clamp(doc, spans=[Span(doc, 0, 1, "NN")])
    nlp(doc)
    assert doc[0].tag_ == "NN"
    assert doc[0]._.crf_score is None
    assert 0 < doc[1]._.crf_score < 1
