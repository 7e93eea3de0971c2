"""Contributions sum to scores and margins, have names that can be read, and are refused where there are none."""

from collections.abc import Callable, Iterable
from itertools import pairwise, product
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from spacy.language import Language
from spacy.tokens import Doc, Span

from spacy_crfseq import registry
from spacy_crfseq.errors import ConfigError, DataError
from spacy_crfseq.features.encoder import Active
from spacy_crfseq.features.templates import names_of
from spacy_crfseq.model import LinearChainCRF
from spacy_crfseq.pipeline.component import CRFComponent
from spacy_crfseq.pipeline.corpus_reader import read_examples
from spacy_crfseq.tools.explain import BestThrough, Explainer, TokenExplanation, explain
from spacy_crfseq.types import Scores
from tests import reference
from tests.pipeline import helpers
from tests.problems import (
    BIGRAM_TEMPLATES,
    TEMPLATES,
    Training,
    columns_of,
    ids_of_tokens,
    random_problem,
    training_problem,
)

TOLERANCE = 1e-4
BUNDLED = Path(__file__).parents[3] / "assets" / "corpus"
PAIRS = {
    "@crf_features": "spacy_crfseq.Templates.v1",
    "templates": ["LOWER[-1..1]", "LOWER[-1]|SHAPE[0]", "SUFFIX2", "TAG[0]", "IS_TITLE[1]"],
    "bigram_templates": ["SHAPE[0]", "TAG[-1]|TAG[0]"],
}
ADAGRAD = {"@crf_optimizers": "spacy_crfseq.AdaGrad.v1", "max_iterations": 2}


def largest_deviation(pipe: CRFComponent, docs: Iterable[Doc], n_tokens: int) -> float:
    """Return how far contributions are from what the scorer computes, at worst, over `n_tokens` random tokens.

    Of each its score, of a fourth of them the margin, and the score of the labelling of every Doc.
    """
    rng = np.random.default_rng(1)
    explainer, worst, left = Explainer(pipe), 0.0, n_tokens
    for doc in docs:
        if not len(doc):
            continue
        chosen = rng.choice(len(doc), min(left, max(1, len(doc) // 2)), replace=False).tolist()
        explanation = explainer.explain(doc, tokens=chosen)
        answers = pipe.posterior([doc])
        scores, offsets = answers.distribution.source.scores((0, len(answers.offsets) - 1)), answers.offsets
        labels = answers.all_labels

        worst = max(worst, abs(explanation.score - path_score(scores, offsets, labels)))
        for here in explanation.tokens:
            worst = max(worst, abs(here.score - token_score(scores, offsets, labels, here.token)))
            if here.margin < inf and here.token % 4 == 0:
                rival = labels.copy()
                for token, label in {**here.changes, here.token: here.rival}.items():
                    rival[token] = answers.tags.index(label)
                difference = path_score(scores, offsets, labels) - path_score(scores, offsets, rival)
                worst = max(worst, abs(here.margin - difference))
                assert sum(c.difference for c in here.contributions) == pytest.approx(here.margin)
        left -= len(chosen)
        if not left:
            return worst
    raise AssertionError(f"{left} tokens are missing")


def path_score(scores: Scores, offsets: np.ndarray, labels: np.ndarray) -> float:
    """Return the score of a labelling of all sequences."""
    return sum(
        reference.path_score(reference.sequence(scores, first, last), labels[first:last].tolist())
        for first, last in pairwise(offsets.tolist())
    )


def token_score(scores: Scores, offsets: np.ndarray, labels: np.ndarray, t: int) -> float:
    label = labels[t]
    score = float(scores.emissions[t, label])
    if t in offsets[:-1]:
        score += float(scores.start[label])
    else:
        score += float(scores.transitions[0 if len(scores.transitions) == 1 else t][labels[t - 1], label])
    if t + 1 in offsets[1:]:
        score += float(scores.end[label])
    return score


def bundled(factory: str, **config: Any) -> tuple[Language, list[Doc]]:
    """Return a pipeline trained on a part of the bundled corpus, and the sentences of another."""
    nlp = helpers.blank(factory, **{"optimizer": ADAGRAD, **config})
    pipe = helpers.pipe_of(nlp)
    given = sorted(name.lower() for name in pipe.reads)
    train = list(read_examples(nlp, BUNDLED / "train.conll", "conll2003", given=given, limit=60))
    nlp.initialize(lambda: train)
    pipe.fit()
    dev = read_examples(nlp, BUNDLED / "dev.conll", "conll2003", given=given, limit=60)
    return nlp, [example.predicted for example in dev]


@pytest.mark.parametrize(
    ("factory", "config"),
    [
        ("crf_tagger", {"support": "observed"}),
        ("crf_tagger", {"support": "all", "tag_dictionary_size": 50, "tag_dictionary_min_count": 3}),
        ("crf_chunker", {"support": "all", "precision": "float64"}),
        ("crf_chunker", {"support": "observed", "features": PAIRS}),
        ("crf_ner", {"support": "observed", "precision": "float64", "boundaries": True}),
        ("crf_ner", {"support": "all", "features": PAIRS}),
    ],
)
def test_contributions_sum_to_scores(factory: str, config: dict[str, Any]) -> None:
    """On a hundred random tokens of each task; then, on fewer, of pruned models."""
    nlp, docs = bundled(factory, **config)
    pipe = helpers.pipe_of(nlp)
    assert largest_deviation(pipe, docs, 100) <= TOLERANCE
    pipe.prune(0.05)
    assert largest_deviation(pipe, docs, 30) <= TOLERANCE


# --- what an explanation says ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ner() -> Language:
    return helpers.trained("crf_ner", support="all")


def explained(nlp: Language, text: str, **how: Any) -> list[TokenExplanation]:
    return explain(helpers.pipe_of(nlp), nlp.make_doc(text), **how).tokens


def test_labels_rivals_and_probabilities_are_those_of_the_posterior(ner: Language) -> None:
    doc = ner.make_doc("Anna saw New York in Quux .")
    pipe = helpers.pipe_of(ner)
    answers = pipe.posterior([doc])
    marginals = answers.marginals()[0]
    explanation = explain(pipe, doc)
    assert explanation.words == [token.text for token in doc]
    assert explanation.labels == [pipe.tags[label] for label in answers.all_labels]
    assert explanation.probability == pytest.approx(np.exp(answers.log_probabilities()[0]))
    for t, here in enumerate(explanation.tokens):
        first, second = np.argsort(-marginals[t])[:2]
        assert (here.token, here.text) == (t, doc[t].text)
        assert (here.label, here.rival) == (pipe.tags[first], pipe.tags[second])
        assert here.probability == pytest.approx(marginals[t, first])
        assert here.probability == explanation.probabilities[t]
        assert here.rival_probability == pytest.approx(marginals[t, second])
        assert here.margin > 0
        sizes = [abs(c.difference) for c in here.contributions]
        assert sizes == sorted(sizes, reverse=True)
    assert explanation.score == pytest.approx(sum(here.score for here in explanation.tokens))


def test_a_rival_takes_its_neighbours_along(ner: Language) -> None:
    """Where York ends something else, New must begin it; the steps between them count."""
    new, york = explained(ner, "Anna saw New York .", tokens=[2, 3], against="ORG")
    assert (new.label, york.label) == ("B-LOC", "L-LOC")
    assert york.rival in ("B-ORG", "I-ORG", "L-ORG", "U-ORG")
    whole = {**york.changes, 3: york.rival}
    assert whole == {**new.changes, 2: new.rival}
    steps = {c.name for c in york.contributions if c.kind == "transition"}
    assert f"B-LOC -> L-LOC, not {whole[2]} -> {whole[3]}" in steps
    assert {c.token for c in york.contributions} >= {2, 3}


@registry.features.register("tests.vowels.v1")
def make_vowels() -> Callable[[str], str | None]:
    return lambda text: "".join(char for char in text if char in "aeiou") or None


NAMED = {
    "@crf_features": "spacy_crfseq.Templates.v1",
    "templates": ["LOWER[-1]", "SUFFIX2", "LOWER[-1]|LOWER[0]", "IS_TITLE", "TAG[1]|TAG[0]", "VOWELS[1]", "POS"],
    "bigram_templates": ["TAG[0]"],
    "functions": {"VOWELS": {"@crf_features": "tests.vowels.v1"}},
}


def test_names() -> None:
    """From the text alone: words, padding, conjunctions, functions of words, flags, columns."""
    nlp = helpers.trained("crf_chunker", features=NAMED, support="all")
    pipe = helpers.pipe_of(nlp)
    assert not pipe.doc_model.feature_names
    doc = Doc(nlp.vocab, words=["Anna", "saw", "Zürich"], tags=["NNP", "VBD", "NNP"], pos=["PROPN", "VERB", "PROPN"])
    result = [
        (
            {c.name for c in token.contributions if c.token == token.token and c.kind in ("unigram", "bigram")},
            set(token.unknown),
        )
        for token in explain(pipe, doc).tokens
    ]
    (first, _), (second, new_second), (third, new_third) = result
    assert {"LOWER[-1]=_B-1", "SUFFIX2[0]=na", "LOWER[-1]|LOWER[0]=_B-1|anna", "IS_TITLE[0]=1"} <= first
    assert not any("TAG[0]=" in name and "|" not in name for name in first)  # no label comes before it
    assert {"LOWER[-1]=anna", "TAG[0]=VBD", "VOWELS[1]=i"} <= second
    # only the gold texts had parts of speech: features without weight
    assert new_second == {"LOWER[-1]|LOWER[0]=anna|saw", "TAG[1]|TAG[0]=NNP|VBD", "POS[0]=VERB"}
    assert {"LOWER[-1]=saw", "TAG[1]|TAG[0]=_B+1|NNP"} <= third
    assert new_third == {"LOWER[-1]|LOWER[0]=saw|zürich", "POS[0]=PROPN"}
    for kept, unknown in result:
        assert not kept & unknown


def test_preset_entities(ner: Language) -> None:
    doc = ner.make_doc("Anna saw Oslo")
    doc.ents = [Span(doc, 1, 2, "LOC")]
    pipe = helpers.pipe_of(ner)
    assert explain(pipe, doc).labels == ["U-PER", "O", "U-LOC"]
    preset = explain(pipe, doc, preset=True)
    assert preset.labels[1] == "U-LOC"
    assert preset.tokens[1].rival is None


def test_unusable_input_is_refused_with_its_reason(ner: Language) -> None:
    doc = ner.make_doc("Anna saw Oslo")
    pipe = helpers.pipe_of(ner)
    with pytest.raises(DataError, match="no token 3: the document has 3 tokens"):
        explain(pipe, doc, tokens=[0, 3])
    with pytest.raises(DataError, match=r"no label 'PERS'\. Did you mean 'PER'"):
        explain(pipe, doc, against="PERS")
    with pytest.raises(DataError, match="takes a list of Docs"):
        explain(pipe, "Anna saw Oslo")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="has no model yet"):
        explain(helpers.pipe_of(helpers.blank()), doc)
    local = helpers.trained(
        "crf_ner",
        loss={"@crf_losses": "spacy_crfseq.LocalLog.v1"},
        decoder={"@crf_decoders": "spacy_crfseq.LocalViterbi.v1"},
    )
    with pytest.raises(ConfigError, match="LocalLog"):
        explain(helpers.pipe_of(local), doc)


LABELS = ["A", "B", "C"]
ActivePair = tuple[list[Active], list[Active]]


def make_model(dtype: type = np.float64, **settings: Any) -> tuple[LinearChainCRF, Training]:
    training = training_problem(7, n_sequences=15, **settings)
    theta = training.random_theta(np.random.default_rng(1)).astype(dtype)
    return training.model(theta, LABELS), training


def active_of(training: Training) -> ActivePair:
    return training.encoder.active(columns_of(training.vocabulary, training.encoder, training.sentences))


def test_active_attributes_are_those_of_the_encoder() -> None:
    """With the same names as a plain reading of the text has."""
    model, training = make_model(bigram_templates=BIGRAM_TEMPLATES)
    blocks = (training.encoder.unigrams, training.encoder.bigrams)
    encoded = (training.encoded.unigrams, training.encoded.bigrams)
    for block, active, ids, templates in zip(
        blocks, active_of(training), encoded, (TEMPLATES, BIGRAM_TEMPLATES), strict=True
    ):
        actual: list[list[int]] = [[] for _ in range(training.encoded.n_tokens)]
        names: list[set[str]] = [set() for _ in actual]
        for sets in active:
            of_template = names_of(block.plan, sets.template, sets.values, training.vocabulary.text_of)
            for token, attribute, name in zip(sets.tokens.tolist(), sets.features.tolist(), of_template, strict=True):
                actual[token].append(attribute)
                names[token].add(name)
        assert [sorted(attributes) for attributes in actual] == ids_of_tokens(ids)
        expected = [
            set(token)
            for sentence in training.sentences
            for token in reference.attribute_sets(sentence.words, {"TAG": sentence.tags}, templates)
        ]
        assert names == expected
    assert model.layout.bigrams.n_rows


@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.3]), st.booleans())
def test_the_best_labelling_with_a_label(seed: int, masked: float, shared: bool) -> None:
    problem = random_problem(
        np.random.default_rng(seed), n_labels=3, lengths=[3, 0, 1, 4], shared=shared, masked=masked
    )
    offsets, n_tokens = problem.batch.offsets, problem.batch.n_tokens
    best = BestThrough(problem.scores, offsets)
    fixed = np.zeros(n_tokens, np.int32)
    for first, last in pairwise(offsets.tolist()):
        sequence = reference.sequence(problem.scores, first, last)
        paths = reference.all_paths(last - first, 3)
        values = reference.all_path_scores(sequence, paths)
        for t, label in product(range(first, last), range(3)):
            expected = values[paths[:, t - first] == label].max()
            assert best.scores[t, label] == pytest.approx(expected)
            if expected > -np.inf:
                actual = best.labelling(t, label, fixed)
                assert actual[t] == label
                assert reference.path_score(sequence, actual[first:last].tolist()) == pytest.approx(expected)
                assert not actual[:first].any()
                assert not actual[last:].any()
