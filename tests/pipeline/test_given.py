"""Labels that are given beforehand, by arguments, notes or earlier components: answers are conditional on them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from spacy.language import Language
from spacy.tokens import Doc, Span

from spacy_crfseq.errors import ConfigError, DataError
from spacy_crfseq.pipeline import evidence
from spacy_crfseq.pipeline.evidence import span_probability
from tests.pipeline.enumeration import enumerated, marginals_of
from tests.pipeline.helpers import (
    WEAK,
    bare_doc,
    blank,
    examples,
    pipe_of,
    trained,
    triples,
)

WORDS = ["Anna", "saw", "New", "York"]


@pytest.fixture(scope="module")
def recognizer() -> Language:
    return trained("crf_ner")


@pytest.fixture(scope="module")
def weak() -> Language:
    """A recognizer that is sure of nothing."""
    return trained("crf_ner", **WEAK)


@pytest.mark.parametrize(
    ("spans", "allowed", "keep"),
    [
        ([(2, 4, "ORG")], None, lambda tags: tags[2:4] == ["B-ORG", "L-ORG"]),
        ([(0, 1, "LOC"), (3, 4, "PER")], None, lambda tags: tags[0] == "U-LOC" and tags[3] == "U-PER"),
        ([], {0: ["O"], 1: ["O", "PER"]}, lambda tags: tags[0] == "O" and (tags[1] == "O" or tags[1][2:] == "PER")),
        (
            [(2, 4, "ORG"), (2, 4, "LOC")],
            {1: ["O"]},
            lambda tags: tags[1] == "O" and tags[2:4] in (["B-ORG", "L-ORG"], ["B-LOC", "L-LOC"]),
        ),
        ([(2, 3, "PER")], {3: ["U-LOC", "O"]}, lambda tags: tags[2] == "U-PER" and tags[3] in ("U-LOC", "O")),
    ],
)
@pytest.mark.parametrize("noted", [True, False])
def test_answers_are_conditional_on_given_labels(
    spans: list, allowed: dict, keep: Callable, noted: bool, weak: Language
) -> None:
    pipe, doc = pipe_of(weak), bare_doc(weak, WORDS)
    tagged, probabilities = enumerated(weak, doc, keep)
    given = {"spans": [Span(doc, *span) for span in spans], "allowed": allowed}
    if noted:
        pipe.clamp(doc, **given)
    answers = pipe.posterior([doc], **({} if noted else given))
    np.testing.assert_allclose(answers.marginals()[0], marginals_of(weak, tagged, probabilities), atol=1e-9)
    best = tagged[int(probabilities.argmax())]
    assert [pipe.tags[label] for label in answers.labels[0]] == best
    assert answers.log_probabilities()[0] == pytest.approx(np.log(probabilities.max()), abs=1e-9)
    assert answers.entropies()[0] == pytest.approx(-(probabilities * np.log(probabilities)).sum(), abs=1e-9)
    order = np.argsort(-probabilities)[:5]
    result = answers.nbest(5)[0]
    np.testing.assert_allclose(
        np.exp([labelling.log_probability for labelling in result]), probabilities[order], atol=1e-9
    )
    assert [[pipe.tags[label] for label in labelling.labels] for labelling in result] == [tagged[i] for i in order]
    for path in answers.sample(20, seed=1)[0]:
        assert [pipe.tags[label] for label in path] in tagged
    assert not noted or {span[:2] for span in spans} <= {span[:2] for span in triples(weak(doc).ents)}


def test_a_note_can_be_taken_back_and_travels_with_the_doc(weak: Language) -> None:
    pipe, doc = pipe_of(weak), bare_doc(weak, WORDS)
    free = pipe.marginals(doc)
    pipe.clamp(doc, spans=[Span(doc, 0, 1, "LOC")], allowed={1: ["O"]})
    bound = pipe.marginals(doc)
    assert np.abs(bound - free).max() > 0.1
    np.testing.assert_array_equal(pipe.marginals(Doc(weak.vocab).from_bytes(doc.to_bytes())), bound)
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
def test_labels_that_cannot_be_given_are_refused(
    spans: list, allowed: dict, message: str, recognizer: Language
) -> None:
    doc = bare_doc(recognizer, WORDS)
    doc[3].is_sent_start = True
    with pytest.raises(DataError, match=message):
        pipe_of(recognizer).posterior([doc], spans=[Span(doc, *span) for span in spans], allowed=allowed)


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


def test_blocked_tokens_are_given(weak: Language) -> None:
    pipe, doc = pipe_of(weak), bare_doc(weak, WORDS)
    doc.set_ents([], blocked=[doc[0:1]], default="unmodified")
    expected = marginals_of(weak, *enumerated(weak, bare_doc(weak, WORDS), lambda tags: tags[0] == "O"))
    np.testing.assert_allclose(pipe.posterior([doc], preset=True).marginals()[0], expected, atol=1e-9)
    np.testing.assert_allclose(pipe.marginals(weak(doc)), expected, atol=1e-9)


def test_a_span_given_by_a_note_and_an_entity_counts_once(recognizer: Language) -> None:
    pipe, doc = pipe_of(recognizer), bare_doc(recognizer, WORDS)
    span = Span(doc, 2, 4, "LOC")
    doc.ents = [span]  # as a ruler would
    pipe.clamp(doc, spans=[span])
    assert span in pipe(doc).ents
    assert span in pipe(doc).ents
    assert pipe.posterior([doc], spans=[span]).spans()[0][-1][:3] == (2, 4, "LOC")
    with pytest.raises(DataError, match="overlaps another"):
        pipe.posterior([doc], spans=[Span(doc, 3, 4, "LOC")])


def test_notes_on_other_tokens(recognizer: Language) -> None:
    pipe, doc = pipe_of(recognizer), bare_doc(recognizer, WORDS)
    doc.ents = [Span(doc, 2, 4, "LOC")]
    part = pipe(doc)[1:].as_doc(copy_user_data=True)
    np.testing.assert_array_equal(pipe.marginals(part), pipe.marginals(bare_doc(recognizer, WORDS[1:])))
    pipe.clamp(doc, allowed={0: ["O"]})
    with pytest.raises(DataError, match="had 4 tokens, but it has 3 now"):
        pipe(doc[1:].as_doc(copy_user_data=True))


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
        (result,) = pipe_of(nlp).posterior([doc], spans=given).spans()
        assert [span[:3] for span in result if span.start < 4] == triples(spans)
        for alternative in pipe_of(nlp).posterior([doc], spans=given[:1]).nbest(5)[0]:
            whole = pipe_of(nlp).posterior([doc]).alternative(doc, alternative)
            assert triples(given[:1])[0] in triples(whole.spans)
