"""What a component knows about Docs: scores in spaCy's places, what is given beforehand, alternatives."""

import itertools
import pickle
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Doc, DocBin, Span
from spacy.training import Example

from spacy_crfseq.errors import ConfigError, DataError
from spacy_crfseq.pipeline import evidence
from spacy_crfseq.pipeline.doc_posterior import calibrated
from spacy_crfseq.pipeline.evidence import span_probability
from tests.html import Page
from tests.pipeline.enumeration import enumerated, marginals_of
from tests.pipeline.helpers import (
    FACTORIES,
    WEAK,
    bare_doc,
    blank,
    examples,
    initialize,
    inputs,
    pipe_of,
    trained,
    triples,
)

WORDS = ["Anna", "saw", "New", "York"]


# --- scores in spaCy's places ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("stored", [True, False])
def test_scores_are_those_of_the_posterior(factory: str, stored: bool) -> None:
    """Stored with the Doc, or computed when they are asked for; nothing is stored unless it is wanted."""
    threshold = {} if factory == "crf_tagger" else {"threshold": 0.5}
    nlp = trained(factory, scores=stored, **threshold, **WEAK)
    pipe, key = pipe_of(nlp), "chunks" if factory == "crf_chunker" else factory
    for doc in nlp.pipe(inputs(nlp, factory)):
        [answer] = pipe.posterior([doc]).spans()
        wanted = [each for each in answer if each.probability >= threshold.get("threshold", 0)]
        if factory == "crf_tagger":
            found = [(token.i, token.i + 1, token.tag_, token._.crf_score) for token in doc]
        else:
            found = [(*triple, span._.crf_score) for span in (doc.ents if factory == "crf_ner" else doc.spans[key])
                     for triple in triples([span])]  # fmt: skip
        assert [each[:3] for each in found] == [each[:3] for each in wanted]
        np.testing.assert_allclose([each[3] for each in found], [each.probability for each in wanted], atol=1e-9)
        if not stored:
            assert not doc.user_data
            assert set(doc.spans) <= {"chunks"}
            assert all("scores" not in group.attrs for group in doc.spans.values())
        elif factory != "crf_tagger":
            assert triples(doc.spans[key]) == [each[:3] for each in found]
            assert list(doc.spans[key].attrs["scores"]) == [each[3] for each in found]


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
    found = [scores_of(other(doc)) for doc in inputs(other, factory)[:3]]
    for these, those in zip(found, expected, strict=True):
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


def test_settings_and_temperature_are_stored(tmp_path: Path) -> None:
    nlp = trained("crf_ner", scores=True)
    pipe_of(nlp).cfg.update(temperature=1.7, calibration={"PER": [0.0, 1.0]}, cover={"*": 0.2})
    nlp.to_disk(tmp_path)
    for copy in (pipe_of(spacy.load(tmp_path)), pickle.loads(pickle.dumps(pipe_of(nlp)))):
        assert copy.cfg["temperature"] == pytest.approx(1.7)
        assert copy.cfg["scores"]
        assert copy.cfg["cover"] == {"*": 0.2}
    nlp.initialize(lambda: examples(nlp))
    assert [pipe_of(nlp).cfg[key] for key in ("temperature", "calibration", "cover")] == [1.0, {}, {}]


def test_a_temperature_divides_the_scores() -> None:
    nlp = trained("crf_ner", **WEAK)
    pipe, doc = pipe_of(nlp), bare_doc(nlp, WORDS)
    tagged, probabilities = enumerated(nlp, doc)
    cooled = probabilities ** (1 / 2.5)
    expected = marginals_of(nlp, tagged, cooled / cooled.sum())
    np.testing.assert_allclose(pipe.posterior([doc], temperature=2.5).marginals()[0], expected, atol=1e-9)
    pipe.cfg["temperature"] = 2.5
    np.testing.assert_allclose(pipe.marginals(doc), expected, atol=1e-9)


def test_curves_of_types_change_what_is_reported_of_spans() -> None:
    nlp = trained("crf_ner", **WEAK)
    pipe, docs, data = pipe_of(nlp), inputs(nlp, "crf_ner"), pipe_of(nlp).to_bytes()
    exact, marginals = pipe.posterior(docs).spans(), pipe.posterior(docs).marginals()
    pipe.cfg.update(calibration={"PER": [0.4, 2.0]}, scores=True)
    answers = pipe.posterior(docs).spans()
    assert {span.label for spans in exact for span in spans} > {"PER"}
    for doc, olds, news in zip(docs, exact, answers, strict=True):
        for old, new in zip(olds, news, strict=True):
            odds = old.probability / (1 - old.probability)
            wanted = 1 - 1 / (1 + np.exp(0.4) * odds**2) if old.label == "PER" else old.probability
            assert new == (*old[:3], pytest.approx(wanted))
            assert Span(doc, *old[:3])._.crf_score == pytest.approx(wanted)
    assert all(map(np.array_equal, pipe.posterior(docs).marginals(), marginals))
    assert pipe.posterior(docs, temperature=1.0).spans() == exact
    assert [[e._.crf_score for e in doc.ents] for doc in nlp.pipe(docs)] == [[s[3] for s in each] for each in answers]
    pipe.set_parameters(pipe.crf.theta)
    assert not pipe.cfg["calibration"], "it was fitted to other parameters"
    pipe.cfg["calibration"] = {"PER": [0.4, 2.0]}
    assert not pipe.from_bytes(data).cfg["calibration"], "the stored model has none"
    np.testing.assert_array_equal(calibrated(np.array([0, 1 + 1e-9]), -3.0, 0.1), [0, 1])


@pytest.mark.parametrize("scheme", ["IOB2", "BILUO"])
def test_marginals_and_threshold_agree_with_enumeration(scheme: str) -> None:
    nlp = trained("crf_ner", scheme=scheme, **WEAK)
    pipe = pipe_of(nlp)
    for words in (WORDS, ["Bank", "of", "Norway"], ["Bob", "Bob"], ["Oslo"]):
        doc = bare_doc(nlp, words)
        tagged, probabilities = enumerated(nlp, doc)
        np.testing.assert_allclose(pipe.marginals(doc), marginals_of(nlp, tagged, probabilities), atol=1e-9)
        for start, end, label in triples(nlp(doc.copy()).ents):
            wanted = pipe.annotation.tags_of_span(end - start, label)
            there = [tags[start:end] == wanted and tags[end : end + 1] != [f"I-{label}"] for tags in tagged]
            for threshold, kept in ((-1e-6, True), (1e-6, False)):
                pipe.cfg["threshold"] = probabilities[there].sum() + threshold
                assert ((start, end, label) in triples(nlp(doc.copy()).ents)) == kept
            pipe.cfg["threshold"] = 0.0


# --- what is given beforehand ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spans", "allowed", "keep"),
    [
        ([(2, 4, "ORG")], None, lambda tags: tags[2:4] == ["B-ORG", "L-ORG"]),
        ([(0, 1, "LOC"), (3, 4, "PER")], None, lambda tags: tags[0] == "U-LOC" and tags[3] == "U-PER"),
        ([], {0: ["O"], 1: ["O", "PER"]}, lambda tags: tags[0] == "O" and (tags[1] == "O" or tags[1][2:] == "PER")),
        ([(2, 3, "PER")], {3: ["U-LOC", "O"]}, lambda tags: tags[2] == "U-PER" and tags[3] in ("U-LOC", "O")),
    ],
)
@pytest.mark.parametrize("noted", [True, False])
def test_what_is_given_conditions_everything(spans: list, allowed: dict, keep: Callable, noted: bool) -> None:
    nlp = trained("crf_ner", **WEAK)
    pipe, doc = pipe_of(nlp), bare_doc(nlp, WORDS)
    tagged, probabilities = enumerated(nlp, doc, keep)
    given = {"spans": [Span(doc, *span) for span in spans], "allowed": allowed}
    if noted:
        pipe.clamp(doc, **given)
    answers = pipe.posterior([doc], **({} if noted else given))
    np.testing.assert_allclose(answers.marginals()[0], marginals_of(nlp, tagged, probabilities), atol=1e-9)
    best = tagged[int(probabilities.argmax())]
    assert [pipe.tags[label] for label in answers.labels[0]] == best
    assert answers.log_probabilities()[0] == pytest.approx(np.log(probabilities.max()), abs=1e-9)
    assert answers.entropies()[0] == pytest.approx(-(probabilities * np.log(probabilities)).sum(), abs=1e-9)
    order = np.argsort(-probabilities)[:5]
    found = answers.nbest(5)[0]
    np.testing.assert_allclose(np.exp([each.log_probability for each in found]), probabilities[order], atol=1e-9)
    assert [[pipe.tags[label] for label in each.labels] for each in found] == [tagged[i] for i in order]
    for path in answers.sample(20, seed=1)[0]:
        assert [pipe.tags[label] for label in path] in tagged
    assert not noted or set(spans) <= set(triples(nlp(doc).ents))


def test_a_note_can_be_taken_back_and_travels_with_the_doc() -> None:
    nlp = trained("crf_ner", **WEAK)
    pipe, doc = pipe_of(nlp), bare_doc(nlp, WORDS)
    free = pipe.marginals(doc)
    pipe.clamp(doc, spans=[Span(doc, 0, 1, "LOC")], allowed={1: ["O"]})
    bound = pipe.marginals(doc)
    assert np.abs(bound - free).max() > 0.1
    np.testing.assert_array_equal(pipe.marginals(Doc(nlp.vocab).from_bytes(doc.to_bytes())), bound)
    pipe.clamp(doc)
    assert not doc.user_data
    np.testing.assert_array_equal(pipe.marginals(doc), free)


def test_a_given_span_ends_where_it_ends() -> None:
    """In IOB2 nothing but the next token tells that a span has ended."""
    nlp = trained("crf_chunker", **WEAK)
    doc = bare_doc(nlp, WORDS)
    doc.spans["given"] = [Span(doc, 2, 3, "NP")]
    pipe_of(nlp).clamp(doc, spans=doc.spans["given"])
    assert (2, 3, "NP") in triples(nlp(doc).spans["chunks"])
    assert Span(doc, 2, 3, "NP")._.crf_score is None
    assert span_probability(pipe_of(nlp), Span(doc, 2, 3, "NP")) == pytest.approx(1.0)
    assert Span(doc, 2, 4, "NP")._.crf_score == 0.0


@pytest.mark.parametrize(
    ("spans", "allowed", "message"),
    [
        ([(0, 2, "LOC"), (1, 3, "ORG")], None, "'Anna saw New York': the given span 1-3 'ORG' overlaps another"),
        ([(0, 1, "PERSON")], None, "given span 0-1 'PERSON': the model has no tag 'U-PERSON'.*U-PER"),
        ([], {0: ["LOK"]}, "no label 'LOK'.*LOC"),
        ([], {7: ["LOC"]}, "token 7, but it has 4 tokens"),
        ([], {1: []}, "no label is left for token 1, 'saw'"),
        ([(0, 1, "PER")], {0: ["O"]}, "no label is left for token 0, 'Anna'.*contradicts itself"),
        ([], {0: "PER"}, r"allowed = \{0: 'PER'\}: give a list of labels, such as \['PER'\]"),
        ([(2, 4, "PER")], None, "reaches over the end of a sentence"),
    ],
)
def test_what_cannot_be_given(spans: list, allowed: dict, message: str) -> None:
    nlp = trained("crf_ner")
    doc = bare_doc(nlp, WORDS)
    doc[3].is_sent_start = True
    with pytest.raises(DataError, match=message):
        pipe_of(nlp).posterior([doc], spans=[Span(doc, *span) for span in spans], allowed=allowed)


@pytest.fixture(scope="module")
def recognizer() -> Language:
    return trained("crf_ner")


@pytest.mark.parametrize(("ask", "error", "message"), [
    (lambda pipe, doc: pipe.posterior(doc), DataError, r"a list of Docs.*such as \[doc\]"),
    (lambda pipe, doc: pipe.posterior(["Anna"]), DataError, "Make Docs of texts by nlp"),
    (lambda pipe, doc: pipe.posterior([doc], spans=[Span(doc.copy(), 0, 1, "PER")]), DataError, "in none of the Docs"),
    (lambda pipe, doc: pipe.posterior([doc]).sample(-1), ConfigError, "0 or more, but -1"),
    *((lambda pipe, doc, t=t: pipe.posterior([doc], temperature=t), ConfigError, "temperature = ")
      for t in (0, -1.0, float("nan"), float("inf"), 1e-40)),
])  # fmt: skip
def test_a_question_that_cannot_be_asked_is_refused(
    ask: Callable[[Any, Doc], Any], error: type[Exception], message: str, recognizer: Language
) -> None:
    with pytest.raises(error, match=message):
        ask(pipe_of(recognizer), bare_doc(recognizer, WORDS))


def test_entities_of_earlier_components_are_given(tmp_path: Path) -> None:
    nlp = trained("crf_ner", **WEAK)
    nlp.add_pipe("entity_ruler", first=True).add_patterns([{"label": "ORG", "pattern": "New York"}])
    pipe, doc = pipe_of(nlp, "crf_ner"), bare_doc(nlp, WORDS)
    tagged, probabilities = enumerated(nlp, doc, lambda tags: tags[2:4] == ["B-ORG", "L-ORG"])
    expected = marginals_of(nlp, tagged, probabilities)
    ruled = nlp.get_pipe("entity_ruler")(bare_doc(nlp, WORDS))
    np.testing.assert_allclose(pipe.posterior([ruled], preset=True).marginals()[0], expected, atol=1e-9)
    free = marginals_of(nlp, *enumerated(nlp, doc))
    np.testing.assert_allclose(pipe.posterior([ruled]).marginals()[0], free, atol=1e-9)
    done = nlp(doc)
    assert ("New York", "ORG") in [(s.text, s.label_) for s in done.ents]
    np.testing.assert_allclose(pipe.marginals(done), expected, atol=1e-9)
    done.ents = []
    np.testing.assert_allclose(pipe.marginals(pipe(done)), free, atol=1e-9)
    assert evidence.KEY not in done.user_data


def test_blocked_tokens_are_given() -> None:
    nlp = trained("crf_ner", **WEAK)
    pipe, doc = pipe_of(nlp), bare_doc(nlp, WORDS)
    doc.set_ents([], blocked=[doc[0:1]], default="unmodified")
    expected = marginals_of(nlp, *enumerated(nlp, bare_doc(nlp, WORDS), lambda tags: tags[0] == "O"))
    np.testing.assert_allclose(pipe.posterior([doc], preset=True).marginals()[0], expected, atol=1e-9)
    np.testing.assert_allclose(pipe.marginals(nlp(doc)), expected, atol=1e-9)


# --- alternatives ---------------------------------------------------------------------------------------------------


def test_alternatives_of_a_document(factory: str) -> None:
    """Those of a text of two sentences are the combinations of theirs."""
    nlp = trained(factory, **WEAK)
    pipe, doc = pipe_of(nlp), bare_doc(nlp, WORDS)
    parts = [enumerated(nlp, bare_doc(nlp, words)) for words in (WORDS[:2], WORDS[2:])]
    doc[2].is_sent_start = True
    for i in (1, 3):
        doc[i].is_sent_start = False
    both = sorted(
        ((p * q, a + b) for a, p in zip(*parts[0], strict=True) for b, q in zip(*parts[1], strict=True)),
        key=lambda each: -each[0],
    )
    found = pipe.nbest(doc, 7)
    np.testing.assert_allclose([each.probability for each in found], [p for p, _ in both[:7]], atol=1e-9)
    assert found[0].tags == both[0][1]
    assert len({tuple(each.tags) for each in found}) == 7
    first = nlp(bare_doc(nlp, WORDS[:2]))
    if factory != "crf_tagger":
        spans = triples(first.ents if factory == "crf_ner" else first.spans["chunks"])
        assert triples(found[0].spans)[: len(spans)] == spans


# --- odd states of Docs ---------------------------------------------------------------------------------------------


def test_what_is_given_twice_is_given_once() -> None:
    nlp = trained("crf_ner")
    pipe, doc = pipe_of(nlp), bare_doc(nlp, WORDS)
    span = Span(doc, 2, 4, "LOC")
    doc.ents = [span]  # as a ruler would
    pipe.clamp(doc, spans=[span])
    assert span in pipe(doc).ents
    assert span in pipe(doc).ents
    assert pipe.posterior([doc], spans=[span]).spans()[0][-1][:3] == (2, 4, "LOC")
    with pytest.raises(DataError, match="overlaps another"):
        pipe.posterior([doc], spans=[Span(doc, 3, 4, "LOC")])


def test_notes_on_other_tokens() -> None:
    nlp = trained("crf_ner")
    pipe, doc = pipe_of(nlp), bare_doc(nlp, WORDS)
    doc.ents = [Span(doc, 2, 4, "LOC")]
    part = pipe(doc)[1:].as_doc(copy_user_data=True)
    np.testing.assert_array_equal(pipe.marginals(part), pipe.marginals(bare_doc(nlp, WORDS[1:])))
    pipe.clamp(doc, allowed={0: ["O"]})
    with pytest.raises(DataError, match="had 4 tokens, but it has 3 now"):
        pipe(doc[1:].as_doc(copy_user_data=True))


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


def test_what_was_given_has_no_score() -> None:
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


# --- components and posteriors say what they are, in a line and, in notebooks, in a table ---------------------------


def shown(value: object) -> str:
    """Return the text of a value's table, which must be well-formed."""
    page = Page(value._repr_html_())  # type: ignore[attr-defined]
    assert page.seen[0] == "table"
    return page.text


def test_a_component_before_and_after_training() -> None:
    nlp = blank()
    assert repr(pipe_of(nlp)).startswith("<CRFComponent 'crf_ner': labels: none; state: not trained; ")
    assert "not trained" in shown(pipe_of(nlp))
    pipe = pipe_of(initialize(nlp, examples(nlp)))
    assert "labels: LOC, ORG, PER; state: initialized, all weights are zero; size: " in repr(pipe)
    pipe.fit(examples(nlp))
    views = pipe.crf.layout
    for text in (repr(pipe), shown(pipe)):
        for words in ("trained", f"{views.size:,} weights", f"{views.unigrams.n_rows:,} features", "SequentialLog, L2"):
            assert words in text
    assert repr(pipe.crf) == (
        f"<LinearChainCRF: {len(pipe.tags)} labels, {views.unigrams.n_rows:,} features, {views.size:,} weights, "
        f"{pipe.doc_model.n_active:,} of them not zero>"
    )


def test_a_posterior(factory: str) -> None:
    nlp = trained(factory)
    pipe = pipe_of(nlp)
    docs = [example.predicted for example in examples(nlp, factory)] * 5
    answers = pipe.posterior(docs)
    n_tokens = sum(map(len, docs))
    assert repr(answers).startswith(f"<DocPosterior of 25 Docs, {n_tokens} tokens, {len(pipe.tags)} tags; ")
    assert repr(answers.distribution) == (
        f"<Posterior: 25 sequences, {n_tokens} tokens, {len(pipe.tags)} labels, temperature 1>"
    )
    text = shown(answers)
    assert "25 Docs, the first 20 shown" in text
    first = answers.spans()[0][0]
    assert f"{first.start}\N{EN DASH}{first.end} {first.label} {first.probability:.2f}" in text
    assert "DocPosterior, 0 Docs" in shown(pipe.posterior([]))


def test_a_model_without_probabilities_and_nasty_labels() -> None:
    loss, decoder = {"@crf_losses": "spacy_crfseq.LocalLog.v1"}, {"@crf_decoders": "spacy_crfseq.LocalViterbi.v1"}
    nlp: Language = trained("crf_tagger", loss=loss, decoder=decoder)
    pipe = pipe_of(nlp)
    text = shown(pipe.posterior([nlp.make_doc("Anna saw Oslo")]))
    assert "NNP" in text
    pipe.add_label("<b>&")
    assert "<b>&" in repr(pipe)
    assert "<b>&" in shown(pipe)


def test_what_is_left_out_of_a_doc_of_many_sentences_is_a_probability() -> None:
    nlp = blank("crf_tagger", once=["*"])
    words, labels = [f"w{i}" for i in range(12)], [f"L{i}" for i in range(24)]
    gold = Doc(nlp.vocab, words=words * 2, tags=labels)
    nlp.initialize(lambda: [Example(bare_doc(nlp, words * 2), gold)])  # all weights are zero: not all states fit
    starts: Any = [i % 12 == 0 for i in range(12 * 12)]
    docs = [Doc(nlp.vocab, words=words * 12, sent_starts=starts), bare_doc(nlp, words), bare_doc(nlp, ["w0"])]
    answers = pipe_of(nlp).posterior(docs)
    assert answers.distribution.missing()[:12].sum() > 1
    many, single, short = answers.missing()
    assert many == 1
    assert 0.01 < single < 1
    assert short == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("scheme", ["IOB2", "BILUO"])
@pytest.mark.parametrize("starts", [[0], [0, 2], [0, 4]])
@pytest.mark.parametrize("labels", [("ORG", "ORG"), ("ORG", "LOC")])
def test_spans_that_are_given_side_by_side_are_two(scheme: str, starts: list[int], labels: tuple[str, str]) -> None:
    nlp = blank("crf_ner", scheme=scheme)
    for label in ("ORG", "LOC"):
        pipe_of(nlp).add_label(label)
    nlp.initialize(lambda: examples(nlp))
    doc = Doc(nlp.vocab, words=WORDS * 2, sent_starts=[i in starts for i in range(2 * len(WORDS))])  # type: ignore[arg-type]
    spans = [Span(doc, 0, 2, labels[0]), Span(doc, 2, 4, labels[1])]
    for given in (spans, spans[::-1]):
        (found,) = pipe_of(nlp).posterior([doc], spans=given).spans()
        assert [span[:3] for span in found if span.start < 4] == triples(spans)
        for alternative in pipe_of(nlp).posterior([doc], spans=given[:1]).nbest(5)[0]:
            whole = pipe_of(nlp).posterior([doc]).alternative(doc, alternative)
            assert triples(given[:1])[0] in triples(whole.spans)


@pytest.mark.parametrize("factory", ["crf_ner", "crf_chunker"])
@pytest.mark.parametrize("least", [0.01, 0.2])
def test_likely_spans_are_all_those_of_a_probability(factory: str, least: float) -> None:
    nlp = trained(factory)
    pipe = pipe_of(nlp)
    texts = ["Anna saw New York in Oslo .", "New\nYork saw Anna", "", "Bob saw Oslo and Anna ."]
    docs = [nlp.make_doc(text) for text in texts]
    answers = pipe.posterior(docs)
    for doc, likely in zip(docs, answers.likely(least), strict=True):
        expected = {}
        places = [token.i for token in doc if not token.is_space]
        for start, last in itertools.combinations_with_replacement(places, 2):
            for label in pipe.labels:
                probability = span_probability(pipe, Span(doc, start, last + 1, label))
                if probability >= least:
                    expected[start, last + 1, label] = probability
        assert [span[:3] for span in likely] == sorted(expected)
        assert [span.probability for span in likely] == pytest.approx([expected[span[:3]] for span in likely], rel=1e-6)
        assert {span[:3] for span in pipe.posterior([doc]).spans()[0] if span.probability >= least} <= {*expected}
    with pytest.raises(ConfigError, match="least must be"):
        answers.likely(0.0)


def test_tags_that_make_up_no_spans_have_no_likely_ones() -> None:
    nlp = trained("crf_tagger")
    with pytest.raises(ConfigError, match="its tags mark no spans"):
        pipe_of(nlp).posterior([nlp.make_doc("Anna saw Oslo")]).likely(0.1)
