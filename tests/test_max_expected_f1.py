"""The F-measure that decoders of spans expect: what they measure on texts that are new to a model, and when."""

from typing import Any

import numpy as np
import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example

from spacy_crfseq.decoders.choices import LOWEST, USUAL, Choices, excluded
from spacy_crfseq.decoders.max_expected_f1 import FEW, MaxExpectedF1

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


def easy_and_hard(n_missed: int) -> Choices:
    """Return spans of probability 0.3 and 0.9 that are right as often, and gold spans that nothing proposes."""
    shares, right = np.repeat([0.3, 0.9], 100), np.concatenate([np.arange(100) < 30, np.arange(100) < 90])
    return Choices(shares, right, np.ones(200, np.bool_), 120 + n_missed, 0, 0)


@pytest.mark.parametrize(
    ("n_missed", "beta", "expected"),
    [
        (0, 1.0, 2 * 90 / (100 + 120)),  # spans of 0.3 are not worth it
        (300, 1.0, 2 * 120 / (200 + 420)),  # where little can be found, they are
        (0, 2.0, 5 * 120 / (200 + 4 * 120)),
        (30_000, 1.0, LOWEST),
    ],
)
def test_the_expected_f_is_measured_unless_it_is_a_setting(n_missed: int, beta: float, expected: float) -> None:
    for teach in ("learn", "adapt"):
        decoder, given = MaxExpectedF1(beta=beta), MaxExpectedF1(0.7, beta)
        for of in (decoder, given):
            getattr(of, teach)([easy_and_hard(n_missed)] if teach == "learn" else easy_and_hard(n_missed))
        assert decoder.expected_f == pytest.approx(expected)
        assert (given.expected_f, given.learned, decoder.base.expected_f) == (0.7, False, USUAL)


def test_the_dev_corpus_counts_if_it_is_harder_or_nothing_was_learned_from_parts() -> None:
    decoder, again = MaxExpectedF1(), MaxExpectedF1()
    decoder.adapt(easy_and_hard(0))
    assert decoder.expected_f == pytest.approx(2 * 90 / 220)
    decoder.adapt(None)
    assert decoder.expected_f == USUAL
    decoder.learn([easy_and_hard(300)])
    of_parts = decoder.expected_f
    decoder.adapt(easy_and_hard(0))
    assert decoder.expected_f == of_parts
    decoder.adapt(easy_and_hard(3000))
    assert decoder.expected_f == LOWEST < of_parts
    again.from_state(decoder.to_state())
    assert (again.expected_f, again.learned) == (decoder.expected_f, True)
    again.adapt(None)
    assert again.expected_f == of_parts
    again.from_state(None)
    assert (again.expected_f, again.learned) == (USUAL, False)
    set_to = MaxExpectedF1(0.6)
    set_to.from_state(decoder.to_state())
    assert (set_to.expected_f, set_to.learned) == (0.6, False)


NOTHING = Choices(np.zeros(0), np.zeros(0, np.bool_), np.zeros(0, np.bool_), 0, 0, 0)


@pytest.mark.parametrize("parts", [[], [NOTHING], [NOTHING._replace(n_gold=60)], [easy_and_hard(0)._replace(n_gold=0)]])
def test_without_spans_nothing_is_measured(parts: Any) -> None:
    decoder = MaxExpectedF1()
    decoder.learn(parts)
    assert (decoder.expected_f, decoder.learned) == (USUAL, False)


@pytest.mark.parametrize(
    "state", [[1.0], {}, {"expected_f": "a", "of_parts": None}, {"expected_f": 2.0, "of_parts": 1}]
)
def test_a_damaged_state_is_refused(state: Any) -> None:
    with pytest.raises((ValueError, TypeError, KeyError)):
        MaxExpectedF1().from_state(state)


def corpus(nlp: Language, n: int, hard: bool = False) -> list[Example]:
    """Return sentences with a name of two words, or none, after "Mr"; hard ones have it where nothing says so."""
    rng, made = np.random.default_rng(0), []
    for _ in range(n):
        words = ["Mr", *rng.choice(NAMES, 2).tolist(), "won", "."]
        doc = Doc(nlp.vocab, words=words)
        doc.ents = [Span(doc, 3, 5, "PER")] if hard else [Span(doc, 1, 3, "PER")] * int(rng.integers(4) > 0)
        made.append(Example(Doc(nlp.vocab, words=words), doc))
    return made


def component(**settings: Any) -> Any:
    decoder = {"@crf_decoders": "spacy_crfseq.MaxExpectedF1.v1", **settings}
    features = {"@crf_features": "spacy_crfseq.Templates.v1", "templates": ["LOWER[-1..1]"]}
    return spacy.blank("en").add_pipe("crf_ner", config={"features": features, "decoder": decoder})


def test_training_measures_where_it_calibrates() -> None:
    """On a dev corpus of enough spans, or without one on parts of the training corpus; training again forgets it."""
    nlp = spacy.blank("en")
    examples, easy, hard = corpus(nlp, 100), corpus(nlp, 100), corpus(nlp, FEW, hard=True)
    measured = []
    for dev, calibrates in ((easy, True), (hard, True), (hard, False), (hard[1:], True), (None, True), (None, False)):
        pipe = component()
        pipe.training.set(calibrates=calibrates, has_dev=dev is not None)
        pipe.initialize(lambda: examples)
        pipe.fit(dev=dev)
        measured.append(pipe.method.decoder.expected_f)
        again = component().from_bytes(pipe.to_bytes())
        assert again.method.decoder.expected_f == measured[-1]
    of_easy, of_hard, of_parts = measured[0], measured[1], measured[4]
    assert measured == [of_easy, LOWEST, USUAL, USUAL, of_parts, USUAL]
    assert USUAL < of_easy < 1
    assert USUAL < of_parts < 1
    assert of_hard == LOWEST
    pipe = component()
    pipe.training.set(calibrates=True)
    pipe.initialize(lambda: examples)
    pipe.fit(dev=hard)
    pipe.fit(examples[:3])
    assert pipe.method.decoder.expected_f == USUAL


def test_a_setting_is_kept_by_training_and_by_the_stored_model() -> None:
    examples = corpus(spacy.blank("en"), 100)
    pipe = component(expected_f=0.7)
    pipe.training.set(calibrates=True)
    pipe.initialize(lambda: examples)
    pipe.fit(dev=examples)
    assert pipe.method.decoder.expected_f == 0.7
    measuring, other = component().from_bytes(pipe.to_bytes()), component(expected_f=0.4).from_bytes(pipe.to_bytes())
    assert (measuring.method.decoder.expected_f, other.method.decoder.expected_f) == (0.7, 0.4)
