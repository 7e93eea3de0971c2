"""The decoder that corrects probabilities: its features, what it learns, and how a trained component uses it."""

from copy import copy
from typing import Any

import numpy as np
import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example

from spacy_crfseq.decoders import choices
from spacy_crfseq.decoders.choices import LEAST, MOST, Choices
from spacy_crfseq.errors import ConfigError, ModelFileError
from spacy_crfseq.inference.posterior import Posterior
from spacy_crfseq.papers import rescoring
from spacy_crfseq.papers.rescoring import N_FEATURES, Evidence, RescoredSpans, scaled
from spacy_crfseq.pipeline.evidence import WEIGHT_KEY, span_probability
from spacy_crfseq.reliability import POINTS
from spacy_crfseq.schemes import tags_of, transition_table
from tests import reference
from tests.problems import random_problem
from tests.test_posterior import StoredScores


def as_they_are(probabilities: Any, labels: Any) -> Any:
    return probabilities


def largest_sum(rows: Any, values: Any) -> float:
    """Return the largest sum at a token of the values of spans."""
    sums = np.zeros(rows[:, 1].max(initial=0) + 1)
    for (first, after, _), value in zip(rows.tolist(), values.tolist(), strict=True):
        sums[first:after] += value
    return float(sums.max())


NAMES = ("Ada", "Bo", "Ines", "Karl", "Olga", "Zoe")


def _sample(seed: int, n: int = 400) -> tuple[Any, Any, Any]:
    """Return candidates, two on the same tokens each, and which are right: the long ones less often than they say."""
    rng = np.random.default_rng(seed)
    first, length = np.repeat(5 * np.arange(n), 2), np.repeat(rng.integers(1, 4, n), 2)
    spans = np.stack([first, first + length, np.tile([0, 1], n)], axis=1).astype(np.int32)
    share = rng.uniform(0.02, 0.98, n)
    shares = np.stack([share, 1 - share], axis=1).ravel()
    return spans, shares, rng.random(2 * n) < np.where(length > 2, shares**3, shares)


def _observed(seed: int) -> Evidence:
    spans, shares, right = _sample(seed)
    features = rescoring._features(spans, shares, np.ones(len(spans), np.bool_))
    ahead = shares >= shares.reshape(-1, 2).max(axis=1).repeat(2)
    return Evidence(features, Choices(shares, right, ahead, int(right.sum()), 0, 0))


def _state(weights: Any, expected_f: float = 0.8) -> dict[str, Any]:
    return {"weights": weights.tolist(), "expected_f": expected_f, "of_parts": None}


def test_features() -> None:
    """A span of two tokens that excludes one within it, and that one, which excludes two."""
    spans = np.array([[0, 2, 0], [1, 2, 0], [1, 3, 0]], np.int32)
    shares = np.array([0.6, 0.3, 0.05])
    rows = rescoring._features(spans, shares, np.array([True, True, False]))
    assert rows.shape == (2, N_FEATURES)
    np.testing.assert_allclose(rows[:, 0], np.log([0.6 / 0.4, 0.3 / 0.7]))
    np.testing.assert_allclose(rows[:, 1], np.log([0.1 / 0.9, 0.1 / 0.9]))
    # steps of the probability, then of the same tokens, within, around and across; then the length
    places = [np.flatnonzero(row[2:]).tolist() for row in rows]
    assert places == [[4, 7, 14 + 3, 21, 28 + 1, 35 + 1], [3, 7, 14, 21 + 4, 28, 35]]


def test_features_at_their_bounds() -> None:
    """A step begins with its bound, improbable spans exclude nothing, and the longest spans share a weight."""
    spans = np.array([[0, 1, 0], [0, 2, 0], [2, 8, 0], [9, 16, 0], [17, 22, 0]], np.int32)
    shares = np.array([0.5, LEAST, 0.02, 0.95, 0.25])
    rows = rescoring._features(spans, shares, np.array([True, False, True, True, True]))
    np.testing.assert_allclose(rows[:, 1], np.log([0.5 / 0.5, 0.98 / 0.02, 0.05 / 0.95, 0.75 / 0.25]))
    assert rows[:, 2:9].argmax(1).tolist() == [4, 1, 6, 3]
    assert rows[:, -rescoring.LONGEST :].argmax(1).tolist() == [0, 5, 5, 4]


def test_the_weights_maximise_the_penalised_likelihood() -> None:
    decoder, parts = RescoredSpans(), [_observed(0), _observed(1)]
    decoder.learn(parts)
    table, right = np.concatenate([part[0] for part in parts]), np.concatenate([part.choices.right for part in parts])

    def loss(weights: Any) -> float:
        return rescoring._loss(weights, table[:, 0], table, right)

    assert loss(decoder.weights) < loss(np.zeros(N_FEATURES)) - 10
    for step in 1e-4 * np.eye(N_FEATURES):
        assert abs(loss(decoder.weights + step) - loss(decoder.weights - step)) / 2e-4 < 0.05
    spans, shares, truth = _sample(2)
    better, long = decoder.rescored(spans, shares), spans[:, 1] - spans[:, 0] > 2
    assert abs(better[long].mean() - truth[long].mean()) < 0.04 < abs(shares[long].mean() - truth[long].mean())


def _easy_and_hard(n_missed: int) -> Evidence:
    """Return spans of probability 0.3 and 0.9 that are right as often, and gold spans that nothing proposes."""
    shares, right = np.repeat([0.3, 0.9], 100), np.concatenate([np.arange(100) < 30, np.arange(100) < 90])
    spans = np.stack([2 * np.arange(200), 2 * np.arange(200) + 1, np.zeros(200)], axis=1).astype(np.int32)
    features = rescoring._features(spans, shares, np.ones(200, np.bool_))
    return Evidence(features, Choices(shares, right, np.ones(200, np.bool_), 120 + n_missed, 0, 0))


@pytest.mark.parametrize(
    ("n_missed", "beta", "expected"),
    [
        (0, 1.0, 2 * 90 / (100 + 120)),  # spans of 0.3 are not worth it
        (300, 1.0, 2 * 120 / (200 + 420)),  # where little can be found, they are
        (0, 2.0, 5 * 120 / (200 + 4 * 120)),
        (30_000, 1.0, choices.LOWEST),
    ],
)
def test_the_expected_f_is_that_of_the_spans_which_it_makes_worth_choosing(
    n_missed: int, beta: float, expected: float
) -> None:
    decoder = RescoredSpans(beta=beta)
    decoder.learn([_easy_and_hard(n_missed)])
    assert decoder.expected_f == pytest.approx(expected)
    given = RescoredSpans(expected_f=0.7, beta=beta)
    given.learn([_easy_and_hard(n_missed)])
    given.adapt(_easy_and_hard(n_missed))
    assert given.expected_f == 0.7


def test_other_texts_lower_the_expected_f_and_never_raise_it() -> None:
    decoder, again = RescoredSpans(), RescoredSpans()
    decoder.learn([_easy_and_hard(30)])
    of_parts = decoder.expected_f
    decoder.adapt(_easy_and_hard(300))
    assert decoder.expected_f == pytest.approx(2 * 120 / (200 + 420))
    again.from_state(decoder.to_state())
    assert again.expected_f == decoder.expected_f
    decoder.adapt(_easy_and_hard(0))  # again, as at each evaluation of spaCy
    assert decoder.expected_f == of_parts
    again.from_state(None)
    assert again.expected_f == RescoredSpans().expected_f


def test_certain_spans_count_in_the_expected_f() -> None:
    decoder, evidence = RescoredSpans(), _easy_and_hard(30)
    decoder.learn([evidence])
    fewer = decoder.expected_f
    more = evidence.choices._replace(n_gold=evidence.choices.n_gold + 50, n_certain=60, n_certain_right=50)
    decoder.learn([evidence._replace(choices=more)])
    assert decoder.expected_f == pytest.approx(2 * 140 / (160 + 200)) != fewer


def test_certain_and_improbable_spans_keep_their_probability() -> None:
    decoder = RescoredSpans()
    decoder.learn([_observed(0)])
    spans = np.array([[0, 1, 0], [2, 3, 0], [4, 5, 0]], np.int32)
    shares = np.array([MOST, LEAST, 0.5])
    assert (decoder.rescored(spans, shares) == shares).tolist() == [True, True, False]


NOTHING = Evidence(
    np.zeros((0, N_FEATURES)), Choices(np.zeros(0), np.zeros(0, np.bool_), np.zeros(0, np.bool_), 3, 0, 0)
)


@pytest.mark.parametrize("parts", [[], [NOTHING]])
def test_nothing_to_learn_from(parts: Any) -> None:
    decoder = RescoredSpans()
    decoder.learn([_observed(0)])
    assert decoder.learned
    decoder.learn(parts)
    assert not decoder.learned


@given(st.integers(0, 2**32 - 1))
def test_the_chosen_spans_are_the_best_by_corrected_probabilities(seed: int) -> None:
    rng, tags, lengths = np.random.default_rng(seed), tags_of(["A", "B"], "BILUO"), [4, 3]
    problem = random_problem(rng, n_labels=len(tags), lengths=lengths, shared=True, scale=2.0)
    offsets, constraints = problem.batch.offsets, transition_table(tags, "BILUO")
    allowed = np.ones((sum(lengths), len(tags)), np.bool_)
    allowed[rng.random(sum(lengths)) < 0.2, tags.index("O")] = False
    posterior = Posterior(StoredScores(problem), offsets, constraints, allowed)
    decoder = RescoredSpans(expected_f=0.6, beta=2.0)
    decoder.from_state(_state(rng.normal(size=N_FEATURES)))
    rows, shares = posterior.candidates(LEAST)
    corrected = dict(zip(map(tuple, rows.tolist()), decoder.rescored(rows, shares).tolist(), strict=True))
    chosen = posterior.decode(decoder)
    for first, last in problem.sequence_bounds():
        scores = reference.masked(
            reference.sequence(problem.scores, first, last),
            constraints.start, constraints.step, constraints.end, allowed[first:last],
        )  # fmt: skip
        paths = reference.probabilities(scores)[0].tolist()
        values = [
            sum(5 * corrected.get((first + t, first + t + len(of), of[0]), 0) - 0.6 for t, of in spans)
            for spans in (reference.spans_of(path, constraints.inside, constraints.outside) for path in paths)
        ]
        assert values[paths.index(chosen[first:last].tolist())] == pytest.approx(max(values), abs=1e-8)


def test_many_candidates() -> None:
    """Where no token may be outside, every span is a candidate."""
    tags, n = tags_of(["A"], "BILUO"), 60
    problem = random_problem(np.random.default_rng(0), n_labels=len(tags), lengths=[n], shared=True, scale=0.1)
    allowed = np.ones((n, len(tags)), np.bool_)
    allowed[:, tags.index("O")] = False
    posterior = Posterior(StoredScores(problem), problem.batch.offsets, transition_table(tags, "BILUO"), allowed)
    rows, shares = posterior.candidates(LEAST)
    assert len(rows) > 2 * n + 64
    assert len({*map(tuple, rows.tolist())}) == len(rows)
    sizes = np.zeros(n)
    for (first, after, _), share in zip(rows.tolist(), shares.tolist(), strict=True):
        sizes[first:after] += share
    np.testing.assert_allclose(sizes, 1, atol=1e-6)  # each token is in one span


def _examples(nlp: Language) -> list[Example]:
    """Return documents with a name of two words after "Mr", of which one in four is none."""
    rng, made = np.random.default_rng(0), []
    for _ in range(40):
        sentences = []
        for _ in range(4):
            first, other = rng.choice(NAMES, 2).tolist()
            sentences.append((["Mr", first, other, "won", "."], [2, 1, 2, 0][rng.integers(4)]))
        words = [word for of_sentence, _ in sentences for word in of_sentence]
        doc = Doc(nlp.vocab, words=words, sent_starts=[i % 5 == 0 for i in range(len(words))])
        doc.ents = [Span(doc, 5 * i + 1, 5 * i + 1 + n, "PER") for i, (_, n) in enumerate(sentences) if n]
        made.append(Example(Doc(nlp.vocab, words=words, sent_starts=[i % 5 == 0 for i in range(len(words))]), doc))
    return made


DECODERS = ("RescoredSpans", "MaxExpectedF1")


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
    assert not isinstance(trained.doc_model.first.method.decoder, RescoredSpans)
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
    np.testing.assert_allclose(answers.all_probabilities, expected, rtol=1e-12)
    exact = answers.distribution.span_probabilities(labels, spans.start, spans.end)
    assert np.abs(exact - expected).max() > 0.01
    p = np.array(expected) ** 0.5
    np.testing.assert_allclose(answers.probabilities_at(2.0), p / (p + (1 - np.array(expected)) ** 0.5))
    first = trained(docs[0].copy())
    scores = [ent._.crf_score for ent in first.ents]  # asked of the component
    assert scores == pytest.approx([span.probability for span in answers.spans()[0]])
    assert np.isfinite(trained.posterior(docs, temperature=1e-6).all_probabilities).all()
    labels = np.full(len(labels), answers.tags.index("B-PER"), np.int32)  # the first label of candidates
    labels[0] = answers.tags.index("U-PER")
    (improbable,) = decoder.span_probabilities(answers.distribution, labels, np.array([0]), np.array([1]), as_they_are)
    assert improbable < LEAST
    assert improbable == pytest.approx(exact_of(trained, docs[0], 0), rel=1e-6)
    first, after, label = rows[np.flatnonzero((rows[:, 1] - rows[:, 0] > 1) & (shares < MOST))[0]].tolist()
    labels[first:after] = [label, *[answers.tags.index("O")] * (after - first - 1)]  # of no span like the candidate
    asked = decoder.span_probabilities(answers.distribution, labels, np.array([first]), np.array([after]), as_they_are)
    assert asked.tolist() == [0.0]


def exact_of(pipe: Any, doc: Doc, token: int) -> float:
    """Return the exact probability that a token is an entity of its own."""
    posterior = pipe.posterior([doc])
    return float(posterior.distribution.marginals()[token, posterior.tags.index("U-PER")])


def test_learned_weights_are_stored_and_go_with_their_model(trained: Any) -> None:
    learned, examples = trained.method.decoder.weights, _examples(spacy.blank("en"))
    again = _component().from_bytes(trained.to_bytes())
    again.fit(examples[:3])
    np.testing.assert_array_equal(again.method.decoder.weights, learned)
    grown = _component()
    grown.start_from(trained)
    grown.initialize(lambda: examples[:2])
    np.testing.assert_array_equal(grown.method.decoder.weights, learned)
    other = copy(trained)
    other.initialize(lambda: examples[:20])
    np.testing.assert_array_equal(trained.method.decoder.weights, learned)
    assert not np.array_equal(other.method.decoder.weights, learned)
    plain = _component("MaxExpectedF1").from_bytes(trained.to_bytes())
    assert not other.from_bytes(plain.to_bytes()).method.decoder.learned
    again.method = again.method._replace(attributes={})
    again.initialize(lambda: examples[:3])  # without a first stage, it learns from these texts
    assert again.method.decoder.weights.any()
    assert not np.array_equal(again.method.decoder.weights, learned)


def test_texts_without_weight_teach_nothing(trained: Any) -> None:
    pipe, examples = _component(), _examples(spacy.blank("en"))
    for example in examples[::2]:
        example.reference.user_data[WEIGHT_KEY] = 0.0
    rows: list[Any] = []
    pipe.method.decoder.learn = rows.extend
    pipe.initialize(lambda: examples)
    n_gold = sum(len(example.reference.ents) for example in examples[1::2])
    assert 0.8 * n_gold < sum(int(evidence.choices.right.sum()) for evidence in rows) <= n_gold


def test_spans_that_are_known_stay(trained: Any) -> None:
    doc = _examples(spacy.blank("en"))[0].predicted
    fixed = Span(doc, 3, 5, "PER")  # which nothing proposes
    answers = trained.posterior([doc], spans=[fixed])
    (spans,) = answers.spans()
    assert [span.probability for span in spans if span.start == 3] == pytest.approx([1.0])


def test_another_decoder_ignores_what_was_learned(trained: Any) -> None:
    other = _component("MaxExpectedF1").from_bytes(trained.to_bytes())
    docs = [example.predicted for example in _examples(spacy.blank("en"))[:5]]
    untaught = _component().from_bytes(other.to_bytes())
    assert not untaught.method.decoder.learned
    np.testing.assert_array_equal(untaught.posterior(docs).all_labels, other.posterior(docs).all_labels)
    np.testing.assert_array_equal(untaught.posterior(docs).all_probabilities, other.posterior(docs).all_probabilities)


def test_without_a_first_stage_it_learns_from_models_that_have_not_seen_the_texts() -> None:
    """It observes each fifth of the corpus by a model of the others, and what it learned is the same each time."""
    examples, seen = _examples(spacy.blank("en")), list[tuple[float, int]]()
    pipe, again = _component(labels=False), _component(labels=False)
    decoder = pipe.method.decoder
    learn, observe = decoder.learn, decoder.observe

    def watched(posterior: Any, gold: Any) -> Any:
        seen.append((float(posterior.log_probabilities(gold).sum()), len(gold)))
        return observe(posterior, gold)

    decoder.observe, decoder.learn = watched, lambda rows: learn(list(rows))
    for component in (pipe, again):
        component.initialize(lambda: examples)
        component.fit()
    assert [size for _, size in seen] == [sum(len(example.predicted) for example in examples) // 5] * 5
    own = pipe.posterior([example.predicted for example in examples]).distribution
    gold = np.concatenate([pipe.training.compile([example])[0].gold for example in examples])
    assert sum(value for value, _ in seen) < own.log_probabilities(gold).sum() < 0  # of its own texts, it is surer
    assert decoder.weights.any()
    np.testing.assert_array_equal(decoder.weights, again.method.decoder.weights)
    assert pipe.doc_model.first is None


def test_one_text_teaches_nothing() -> None:
    examples, pipes = _examples(spacy.blank("en"))[:1], [_component(name, labels=False) for name in DECODERS]
    doc = examples[0].reference[:5].as_doc()
    for pipe in pipes:
        pipe.initialize(lambda: [Example(Doc(doc.vocab, words=[token.text for token in doc]), doc)])
        pipe.fit()
    assert not pipes[0].method.decoder.learned
    first, other = (pipe.posterior([doc]) for pipe in pipes)
    assert first.all_labels.tolist() == other.all_labels.tolist()
    assert first.all_probabilities.tolist() == other.all_probabilities.tolist()


def test_spans_beside_unknown_labels_are_no_evidence() -> None:
    """Spans beside tokens of unknown labels are left out, but exclude others; the label counts."""
    tags = tags_of(["A", "B"], "BILUO")
    problem = random_problem(np.random.default_rng(0), n_labels=len(tags), lengths=[6], shared=True, scale=0.3)
    allowed = np.ones((6, len(tags)), np.bool_)
    posterior = Posterior(StoredScores(problem), problem.batch.offsets, transition_table(tags, "BILUO"), allowed)
    spans, shares = posterior.candidates(LEAST)
    every = rescoring._features(spans, shares, np.ones(len(spans), np.bool_))
    gold = np.array([tags.index(tag) for tag in ("B-A", "L-A", "O", "U-B", "O", "O")], np.int32)
    table, (_, right, *_) = RescoredSpans().observe(posterior, gold)
    np.testing.assert_array_equal(table, every)
    assert spans[right].tolist() == [[0, 2, tags.index("B-A")], [3, 4, tags.index("U-B")]]
    gold[2] = -1
    table, (_, right, *_) = RescoredSpans().observe(posterior, gold)
    kept = (spans[:, 1] < 2) | (spans[:, 0] > 3)
    np.testing.assert_array_equal(table, every[kept])
    assert not right.any()


def test_mistakes_are_named(trained: Any) -> None:
    with pytest.raises(ConfigError, match="expected_f"):
        RescoredSpans(expected_f=2.0)
    weights = np.zeros(N_FEATURES)
    damaged: Any
    for damaged in ([1.0], {}, _state(weights[:1]), _state(weights * np.nan), {"weights": ["a"]}, _state(weights, 2.0)):
        with pytest.raises((ValueError, TypeError, KeyError)):
            RescoredSpans().from_state(damaged)
    pipe = _component()
    pipe.method.decoder.to_state = lambda: {"weights": [1.0], "expected_f": 0.5, "of_parts": None}
    pipe.initialize(lambda: _examples(spacy.blank("en")))
    with pytest.raises(ModelFileError, match="'decoder' were not written by this build"):
        _component().from_bytes(pipe.to_bytes())


@given(st.integers(0, 2**32 - 1), st.sampled_from(["IOB2", "BILUO"]), st.sampled_from([1.0, 5.0]))
def test_corrected_probabilities_are_the_same_however_asked(seed: int, scheme: str, size: float) -> None:
    """They are probabilities, of each candidate alone and of all together."""
    rng, tags, lengths = np.random.default_rng(seed), tags_of(["A", "B"], scheme), [5, 1, 3]
    problem = random_problem(rng, n_labels=len(tags), lengths=lengths, shared=True, scale=2.0)
    allowed = np.ones((sum(lengths), len(tags)), np.bool_)
    posterior = Posterior(StoredScores(problem), problem.batch.offsets, transition_table(tags, scheme), allowed)
    decoder = RescoredSpans()
    decoder.from_state(_state(size * rng.normal(size=N_FEATURES)))
    rows, shares = posterior.candidates(LEAST)
    together = decoder.rescored(rows, shares)
    assert ((together >= 0) & (together <= 1)).all()
    assert largest_sum(rows[shares > LEAST], together[shares > LEAST]) <= 1 + 1e-9
    inner = {tags.index(f"B-{name}"): tags.index(f"I-{name}") for name in "AB"}
    last = inner if scheme == "IOB2" else {tags.index(f"B-{name}"): tags.index(f"L-{name}") for name in "AB"}
    for (first, after, label), expected in zip(rows.tolist(), together.tolist(), strict=True):
        labels = np.zeros(sum(lengths), np.int32)
        labels[first] = label
        if after - first > 1:
            labels[first + 1 : after] = [*[inner[label]] * (after - first - 2), last[label]]
        alone = decoder.span_probabilities(posterior, labels, np.array([first]), np.array([after]), as_they_are)
        assert alone.tolist() == pytest.approx([expected], rel=1e-9)


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(1, 4), st.integers(0, 2), st.floats(0, 1)), max_size=12))
def test_scaled_probabilities_add_up_to_one_at_most(rows: list[tuple[int, int, int, float]]) -> None:
    """Each is divided by the largest sum at one of its tokens; where no sum is above 1, nothing changes."""
    rows = sorted({row[:3]: row for row in rows}.values())
    spans = np.array([(first, first + n, label) for first, n, label, _ in rows], np.int32).reshape(-1, 3)
    values = np.array([value for *_, value in rows])
    sums = [sum(v for (a, b, _), v in zip(spans.tolist(), values, strict=True) if a <= t < b) for t in range(12)]
    expected = [v / max(1, *sums[a:b]) for (a, b, _), v in zip(spans.tolist(), values, strict=True)]
    once = scaled(spans, values)
    np.testing.assert_allclose(once, expected, rtol=1e-12)
    assert largest_sum(spans, once) <= 1 + 1e-9
    np.testing.assert_allclose(scaled(spans, once), once, rtol=1e-12)


@pytest.mark.parametrize("temperature", [0.5, 4.0])
def test_the_temperature_divides_the_log_odds_of_what_was_corrected_without_it(
    trained: Any, temperature: float
) -> None:
    pipe = _component().from_bytes(trained.to_bytes())
    doc = Doc(pipe.vocab, ["Mr", "Ada", "Bo", "Karl", "Mr", "Zoe", "Ines", "won", "."])
    answers = pipe.posterior([doc], temperature=temperature)
    spans, words = answers.all_spans, answers.word_posterior._replace(temperature=1.0)

    def cooled(probabilities: Any, first_labels: Any) -> Any:
        yes, no = probabilities ** (1 / temperature), (1 - probabilities) ** (1 / temperature)
        return yes / (yes + no)

    expected = pipe.method.decoder.span_probabilities(words, answers.all_labels, spans.start, spans.end, cooled)
    assert len(expected) > 0
    np.testing.assert_allclose(answers.all_probabilities, expected, rtol=1e-9)


@pytest.mark.parametrize("curves", [{}, {"PER": (0.4 * POINTS + 1.5).tolist()}], ids=["one temperature", "curves"])
@pytest.mark.parametrize("temperature", [0.5, 1.0, 4.0])
def test_probabilities_of_a_token_add_up_to_one_at_most(
    trained: Any, temperature: float, curves: dict[str, Any]
) -> None:
    """So do calibrated ones, and those that are stored are those that are asked for, with white space, too."""
    pipe = _component().from_bytes(trained.to_bytes())
    pipe.method.decoder.from_state(_state(3 * np.random.default_rng(0).normal(size=N_FEATURES)))
    pipe.cfg.update(temperature=temperature, calibration=curves)
    words = ["Mr", "Ada", "Bo", "Karl", "Mr", "\n", "Zoe", " ", "Ines", "won", "."]
    for doc in (Doc(pipe.vocab, words), Doc(pipe.vocab, [word for word in words if word.strip()])):
        exact = pipe.posterior([doc], temperature=1.0).word_posterior.candidates(LEAST)[0]
        places = [token.i for token in doc if not token.is_space]
        spans = [Span(doc, places[first], places[after - 1] + 1, "PER") for first, after, _ in exact.tolist()]
        asked = {(span.start, span.end): span_probability(pipe, span) for span in spans}
        total = [sum(value for (a, b), value in asked.items() if a <= place < b) for place in places]
        assert 0.9 < max(total) <= 1 + 1e-9
        for span in pipe.posterior([doc]).spans()[0]:
            assert span.probability == pytest.approx(asked[span.start, span.end], rel=1e-9)


def test_training_with_a_harder_dev_corpus_lowers_the_expected_f_if_it_calibrates() -> None:
    """Names that the dev corpus has elsewhere are not found, and labels that the model lacks count as unknown.

    Ten texts have too few spans to tell.
    """
    examples, harder = _examples(spacy.blank("en")), _examples(spacy.blank("en"))[:10] * 10
    for example in harder:
        doc = example.reference
        doc.ents = [Span(doc, 0, 1, "PER"), Span(doc, 5, 6, "ORG"), Span(doc, 10, 11, "PER")]
    measured = []
    for dev, calibrates in ((examples, True), (harder, True), (harder, False), (harder[:10], True)):
        pipe = _component(labels=False)
        pipe.training.set(calibrates=calibrates)
        pipe.initialize(lambda: examples)
        of_parts = pipe.method.decoder.expected_f
        pipe.fit(dev=dev)
        measured.append(pipe.method.decoder.expected_f)
    assert 0.3 < of_parts < 0.9
    assert measured == [of_parts, choices.LOWEST, of_parts, of_parts]


def test_the_expected_f_of_a_model_that_was_saved_is_forgotten_when_spacy_trains_on() -> None:
    examples = _examples(spacy.blank("en"))
    pipe = _component(labels=False)
    pipe.initialize(lambda: examples)
    decoder = pipe.method.decoder
    of_parts = decoder.expected_f
    for _ in range(2):
        pipe.update(examples, sgd=True)
        pipe.predict([examples[0].predicted])
        assert decoder.expected_f == of_parts
        decoder.adapt(_easy_and_hard(30_000))
        assert decoder.expected_f == choices.LOWEST
        pipe.predict([examples[0].predicted])
        assert decoder.expected_f == choices.LOWEST
