"""The settings `once` and `order`, and the arguments of these names, of all three components."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Span

from spacy_crfseq.errors import ConfigError, DataError
from tests.pipeline import helpers
from tests.pipeline.helpers import FACTORIES, WEAK, bare_doc, blank, examples, inputs, pipe_of, registered
from tests.pipeline.test_doc_posterior import enumerated, marginals_of
from tests.test_occurrences import obeys, occurrences

WORDS = ["Anna", "saw", "Bob", "saw"]
LABELS = {"crf_tagger": ["NNP", "VBZ"], "crf_chunker": ["NP", "VP"], "crf_ner": ["PER", "LOC"]}


def keep(nlp: Language, once: Sequence[str], order: Sequence[str]):  # type: ignore[no-untyped-def]
    pipe = pipe_of(nlp)
    once = list(pipe.labels) if once == ["*"] else once
    return lambda tags: obeys(occurrences(tags, pipe.annotation.scheme or "plain"), once, order)


@pytest.mark.parametrize("factory", FACTORIES)
def test_answers_are_conditional_on_the_rules(factory: str) -> None:
    labels = LABELS[factory]
    nlp = helpers.trained(factory, **WEAK, once=labels[:1])
    pipe, doc = pipe_of(nlp), bare_doc(nlp, WORDS[:3])
    for settings, rules in (
        ({}, (labels[:1], [])),
        ({"order": labels}, (labels[:1], labels)),
        ({"once": [], "order": labels[::-1]}, ([], labels[::-1])),
        ({"once": ["*"]}, (["*"], [])),
        ({"once": []}, ([], [])),
    ):
        tagged, shares = enumerated(nlp, doc, keep(nlp, *rules))
        answers = pipe.posterior([doc], **settings)
        np.testing.assert_allclose(answers.marginals()[0], marginals_of(nlp, tagged, shares), atol=1e-6)
        assert [pipe.tags[k] for k in answers.labels[0]] == tagged[shares.argmax()]
        assert answers.exact.tolist() == [True]
        assert answers.missing()[0] < 1e-6
        (best,) = answers.nbest(1)[0]
        assert np.exp(best.log_probability) == pytest.approx(shares.max(), abs=1e-6)
        for span in answers.spans()[0]:
            tags = pipe.annotation.tags_of_span(span.end - span.start, span.label)
            assert answers.probability(span.start, tags) == pytest.approx(span.probability, abs=1e-6)


@pytest.mark.parametrize("factory", FACTORIES)
def test_predictions_obey_and_the_setting_is_stored(factory: str, tmp_path: Path) -> None:
    nlp = helpers.trained(factory, once=["*"], order=LABELS[factory])
    nlp.to_disk(tmp_path)
    loaded = spacy.load(tmp_path)
    for one in (nlp, loaded):
        pipe, kept = pipe_of(one), keep(one, ["*"], LABELS[factory])
        for doc in inputs(one, factory):
            assert kept([pipe.tags[k] for k in pipe.posterior([doc]).labels[0]])
            one(doc)
    assert pipe_of(loaded).posterior(inputs(loaded, factory), once=[], order=[]).exact.all()


def test_presets_and_clamps_count() -> None:
    nlp = helpers.trained(once=["PER"])
    pipe, doc = pipe_of(nlp), bare_doc(nlp, WORDS)
    assert len(pipe.posterior([doc], once=[]).spans()[0]) == 2
    doc.ents = [Span(doc, 2, 3, "PER")]
    assert [ent.text for ent in nlp(doc).ents] == ["Bob"]
    with pytest.raises(DataError, match="no labelling that all constraints allow"):
        _ = pipe.posterior([doc], spans=[Span(doc, 0, 1, "PER"), Span(doc, 2, 3, "PER")]).all_labels


@pytest.mark.parametrize("scores", [True, False])
def test_a_sentence_at_a_time(scores: bool) -> None:
    nlp = helpers.trained(once=["PER"], scores=scores)
    doc = bare_doc(nlp, [*WORDS, *WORDS])
    doc[4].is_sent_start = True
    assert [ent.start // 4 for ent in nlp(doc).ents] == [0, 1]
    free = pipe_of(nlp).posterior([doc], once=[])
    assert len(free.spans()[0]) == 4


def test_settings_that_are_wrong() -> None:
    for wrong, message in (
        ({"once": ["PERS"]}, "once names 'PERS', which is no label of the component. Did you mean 'PER'"),
        ({"order": ["PER", "PER"]}, "order names 'PER' twice"),
    ):
        nlp = blank(**wrong)
        with pytest.raises(ConfigError, match=message):
            nlp.initialize(lambda: examples(nlp))  # noqa: B023 (called at once)
        with pytest.raises(ConfigError, match=message):
            pipe_of(helpers.trained()).posterior([], **wrong)
        with pytest.raises(ConfigError, match=message):
            pipe_of(blank(**wrong)).from_bytes(helpers.trained().get_pipe("crf_ner").to_bytes())
    for other in ({"decoder": registered("decoders", "MaxExpectedF1")}, {"tag_dictionary_size": 5}):
        with pytest.raises(ConfigError, match="once and order need"):
            blank(once=["PER"], **other)
        with pytest.raises(ConfigError, match="once and order need"):
            pipe_of(helpers.trained(**other)).posterior([], once=["PER"])
