"""The posterior of Docs: marginals, alternatives and likely spans by enumeration, temperatures and its table."""

import itertools
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example

from spacy_crfseq.errors import ConfigError
from spacy_crfseq.pipeline.evidence import span_probability
from spacy_crfseq.reliability import POINTS, curved
from tests.html import Page
from tests.pipeline.enumeration import enumerated, marginals_of
from tests.pipeline.helpers import (
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


def test_settings_and_temperature_are_stored(tmp_path: Path) -> None:
    nlp = trained("crf_ner", scores=True)
    pipe_of(nlp).cfg.update(temperature=1.7, calibration={"PER": [*POINTS.tolist()]}, cover={"*": 0.2})
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
    curves = {"PER": (1.5 * POINTS + 0.4).tolist(), "*": (0.5 * POINTS).tolist()}
    pipe.cfg.update(calibration=curves, scores=True)
    answers = pipe.posterior(docs).spans()
    assert {span.label for spans in exact for span in spans} > {"PER"}
    for doc, olds, news in zip(docs, exact, answers, strict=True):
        for old, new in zip(olds, news, strict=True):
            curve = curves.get(old.label, curves["*"])
            (wanted,) = curved(np.array([old.probability]), curve)
            assert wanted != old.probability
            assert new == (*old[:3], pytest.approx(wanted))
            assert Span(doc, *old[:3])._.crf_score == pytest.approx(wanted)
    assert all(map(np.array_equal, pipe.posterior(docs).marginals(), marginals))
    assert pipe.posterior(docs, temperature=1.0).spans() == exact
    assert [[e._.crf_score for e in doc.ents] for doc in nlp.pipe(docs)] == [[s[3] for s in spans] for spans in answers]
    pipe.set_parameters(pipe.crf.theta)
    assert not pipe.cfg["calibration"], "it was fitted to other parameters"
    pipe.cfg["calibration"] = curves
    assert not pipe.from_bytes(data).cfg["calibration"], "the stored model has none"


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
                dict.update(pipe.cfg, threshold=probabilities[there].sum() + threshold)  # not in configs, too
                assert ((start, end, label) in triples(nlp(doc.copy()).ents)) == kept
            dict.update(pipe.cfg, threshold=0.0)


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
        key=lambda answer: -answer[0],
    )
    alternatives = pipe.nbest(doc, 7)
    np.testing.assert_allclose(
        [labelling.probability for labelling in alternatives], [p for p, _ in both[:7]], atol=1e-9
    )
    assert alternatives[0].tags == both[0][1]
    assert len({tuple(labelling.tags) for labelling in alternatives}) == 7
    first = nlp(bare_doc(nlp, WORDS[:2]))
    if factory != "crf_tagger":
        spans = triples(first.ents if factory == "crf_ner" else first.spans["chunks"])
        assert triples(alternatives[0].spans)[: len(spans)] == spans


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


def test_the_missing_probability_of_a_doc_of_many_sentences_is_at_most_one() -> None:
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
