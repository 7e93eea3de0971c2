"""Components and posteriors say what they are, in a line and, in notebooks, in a table."""

from __future__ import annotations

import pytest
from spacy.language import Language

from tests.html import Page
from tests.pipeline.helpers import FACTORIES, blank, examples, initialize, pipe_of, trained


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


@pytest.mark.parametrize("factory", FACTORIES)
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
