"""The decoder that corrects probabilities: its features, what it learns, and how a trained component uses it."""

from typing import Any

import numpy as np
import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example

from spacy_crfseq.errors import ConfigError, ModelFileError
from spacy_crfseq.papers import rescoring
from spacy_crfseq.papers.rescoring import LEAST, MOST, N_FEATURES, RescoredSpans, excluded

NAMES = ("Ada", "Bo", "Ines", "Karl", "Olga", "Zoe")


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(1, 4), st.integers(0, 2), st.floats(0.01, 0.99)), max_size=12))
def test_excluded_spans_are_those_of_a_search(rows: list[tuple[int, int, int, float]]) -> None:
    rows = sorted({row[:3]: row for row in rows}.values())
    spans = np.array([(first, first + n, label) for first, n, label, _ in rows], np.int32).reshape(-1, 3)
    shares = np.array([share for *_, share in rows])
    expected = np.zeros((len(rows), 4))
    for i, (a, b, _) in enumerate(spans.tolist()):
        for j, (c, d, _) in enumerate(spans.tolist()):
            if i != j and c < b and a < d:
                kind = 0 if (a, b) == (c, d) else 1 if a <= c and d <= b else 2 if c <= a and b <= d else 3
                expected[i, kind] = max(expected[i, kind], shares[j])
    np.testing.assert_array_equal(excluded(spans, shares), expected)


def _sample(seed: int, n: int = 400) -> tuple[Any, Any, Any]:
    """Return candidates, two on the same tokens each, and which are right: the long ones less often than they say."""
    rng = np.random.default_rng(seed)
    first, length = np.repeat(5 * np.arange(n), 2), np.repeat(rng.integers(1, 4, n), 2)
    spans = np.stack([first, first + length, np.tile([0, 1], n)], axis=1).astype(np.int32)
    share = rng.uniform(0.02, 0.98, n)
    shares = np.stack([share, 1 - share], axis=1).ravel()
    return spans, shares, rng.random(2 * n) < np.where(length > 2, shares**3, shares)


def test_the_weights_maximise_the_penalised_likelihood() -> None:
    decoder, parts = RescoredSpans(), [_sample(0), _sample(1)]
    decoder.learn(parts)
    tables = np.concatenate([rescoring._features(*part[:2]) for part in parts])
    right = np.concatenate([part[2] for part in parts])
    base, best = rescoring._loss(np.zeros(N_FEATURES), tables[:, 0], tables, right), decoder.weights

    def loss(weights: Any) -> float:
        return rescoring._loss(weights, tables[:, 0], tables, right)

    assert loss(best) < base - 10
    for i in range(N_FEATURES):
        step = np.eye(N_FEATURES)[i] * 1e-4
        assert abs(loss(best + step) - loss(best - step)) / 2e-4 < 0.05
    spans, shares, truth = _sample(2)
    better, long = decoder.rescored(spans, shares), spans[:, 1] - spans[:, 0] > 2
    assert abs(better[long].mean() - truth[long].mean()) < 0.04 < abs(shares[long].mean() - truth[long].mean())


def test_certain_and_improbable_spans_keep_their_probability() -> None:
    decoder = RescoredSpans()
    decoder.learn([_sample(0)])
    spans = np.array([[0, 1, 0], [2, 3, 0], [4, 5, 0]], np.int32)
    shares = np.array([MOST, LEAST, 0.5])
    assert (decoder.rescored(spans, shares) == shares).tolist() == [True, True, False]


@pytest.mark.parametrize("parts", [[], [_sample(0, n=0)]])
def test_nothing_to_learn_from_changes_nothing(parts: Any) -> None:
    decoder = RescoredSpans()
    decoder.learn(parts)
    assert not decoder.weights.any()
    spans, shares, _ = _sample(1)
    np.testing.assert_allclose(decoder.rescored(spans, shares), shares)


def _examples(nlp: Language) -> list[Example]:
    """Return documents with a name of two words after "Mr", of which one in four is none."""
    rng, made = np.random.default_rng(0), []
    for _ in range(40):
        sentences = []
        for _ in range(4):
            one, other = rng.choice(NAMES, 2).tolist()
            sentences.append((["Mr", one, other, "won", "."], [2, 1, 2, 0][rng.integers(4)]))
        words = [word for of_sentence, _ in sentences for word in of_sentence]
        doc = Doc(nlp.vocab, words=words, sent_starts=[i % 5 == 0 for i in range(len(words))])
        doc.ents = [Span(doc, 5 * i + 1, 5 * i + 1 + n, "PER") for i, (_, n) in enumerate(sentences) if n]
        made.append(Example(Doc(nlp.vocab, words=words, sent_starts=[i % 5 == 0 for i in range(len(words))]), doc))
    return made


def _component(decoder: str = "RescoredSpans", labels: bool = True) -> Any:
    return spacy.blank("en").add_pipe(
        "crf_ner",
        config={
            "features": {"@crf_features": "spacy_crfseq.Templates.v1", "templates": ["LOWER[-1..1]"]},
            "attributes": {"labels": {"@crf_attributes": "spacy_crfseq.DocumentLabels.v1"}} if labels else {},
            "decoder": {"@crf_decoders": f"spacy_crfseq.{decoder}.v1"},
        },
    )


@pytest.fixture(scope="module")
def trained() -> Any:
    pipe = _component()
    pipe.initialize(lambda: _examples(spacy.blank("en")))
    pipe.fit()
    return pipe


def test_a_component_learns_and_keeps_what_it_has_learned(trained: Any) -> None:
    decoder = trained.method.decoder
    assert decoder.weights.any()
    assert trained.doc_model.first.method.decoder is decoder.base
    again = _component().from_bytes(trained.to_bytes())
    np.testing.assert_array_equal(again.method.decoder.weights, decoder.weights)
    docs = [example.predicted for example in _examples(spacy.blank("en"))[:5]]
    answers, others = trained.posterior(docs), again.posterior(docs)
    np.testing.assert_array_equal(answers.all_labels, others.all_labels)
    np.testing.assert_array_equal(answers.all_probabilities, others.all_probabilities)


def test_probabilities_are_the_corrected_ones(trained: Any) -> None:
    docs = [example.predicted for example in _examples(spacy.blank("en"))]
    answers, decoder = trained.posterior(docs), trained.method.decoder
    rows, shares = answers.distribution.candidates(LEAST)
    corrected = dict(zip(map(tuple, rows.tolist()), decoder.rescored(rows, shares).tolist(), strict=True))
    spans, labels = answers.all_spans, answers.all_labels
    keys = list(zip(spans.start.tolist(), spans.end.tolist(), labels[spans.start].tolist(), strict=True))
    expected = [corrected[key] for key in keys]
    assert answers.all_probabilities.tolist() == expected
    exact = answers.distribution.span_probabilities(labels, spans.start, spans.end)
    assert np.abs(exact - expected).max() > 0.01
    p = np.array(expected) ** 0.5
    np.testing.assert_allclose(answers.probabilities_at(2.0), p / (p + (1 - np.array(expected)) ** 0.5))
    first = trained(docs[0].copy())
    assert len(first.ents) == len(answers.spans()[0])


def test_spans_that_are_known_stay(trained: Any) -> None:
    doc = _examples(spacy.blank("en"))[0].predicted
    known = Span(doc, 3, 5, "PER")  # which nothing proposes
    answers = trained.posterior([doc], spans=[known])
    (spans,) = answers.spans()
    assert [span.probability for span in spans if span.start == 3] == pytest.approx([1.0])


def test_another_decoder_ignores_what_was_learned(trained: Any) -> None:
    other = _component("MaxExpectedF1").from_bytes(trained.to_bytes())
    docs = [example.predicted for example in _examples(spacy.blank("en"))[:5]]
    untaught = _component().from_bytes(other.to_bytes())
    assert not untaught.method.decoder.learned
    np.testing.assert_array_equal(untaught.posterior(docs).all_labels, other.posterior(docs).all_labels)
    np.testing.assert_array_equal(untaught.posterior(docs).all_probabilities, other.posterior(docs).all_probabilities)


def test_without_a_first_stage_probabilities_are_exact() -> None:
    pipes = [_component(decoder, labels=False) for decoder in ("RescoredSpans", "MaxExpectedF1")]
    docs = [example.predicted for example in _examples(spacy.blank("en"))[:5]]
    for pipe in pipes:
        pipe.initialize(lambda: _examples(spacy.blank("en")))
        pipe.fit()
    one, other = (pipe.posterior(docs) for pipe in pipes)
    assert one.all_labels.tolist() == other.all_labels.tolist()
    assert one.all_probabilities.tolist() == other.all_probabilities.tolist()


def test_tokens_without_annotation_teach_nothing() -> None:
    learned = []
    for unknown in (False, True):
        pipe, examples = _component(), _examples(spacy.blank("en"))
        for example in examples if unknown else []:
            doc = example.reference
            doc.set_ents([ent for ent in doc.ents if ent.start < 5], missing=[doc[5:]], default="outside")
        seen = []
        pipe.method.decoder.learn = seen.extend
        pipe.initialize(lambda examples=examples: examples)
        learned.append([sum(len(part[0]) for part in seen), sum(int(part[2].sum()) for part in seen)])
        ends = np.concatenate([part[0][:, 1] for part in seen])
        assert not unknown or (ends % 20 < 5).all()
    assert 0 < learned[1][0] < learned[0][0]
    assert (
        0
        < learned[1][1]
        < learned[0][1]
        == sum(len(example.reference.ents) for example in _examples(spacy.blank("en")))
    )


def test_mistakes_are_named(trained: Any) -> None:
    with pytest.raises(ConfigError, match="expected_f"):
        RescoredSpans(expected_f=2.0)
    for state in ([1.0], [float("nan")] * N_FEATURES, ["a"]):
        with pytest.raises((ValueError, TypeError)):
            RescoredSpans().from_state(state)
    pipe = _component()
    pipe.method.decoder.to_state = lambda: [1.0]
    pipe.initialize(lambda: _examples(spacy.blank("en")))
    with pytest.raises(ModelFileError, match="damaged"):
        _component().from_bytes(pipe.to_bytes())
