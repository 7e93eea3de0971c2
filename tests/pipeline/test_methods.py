"""Components that learn and decode in other ways than by default, and the combinations they refuse."""

import runpy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Span

from spacy_crfseq import registry
from spacy_crfseq.errors import ConfigError, DataError, ModelFileError
from spacy_crfseq.regularizers.l2 import L2
from spacy_crfseq.tools.explain import explain
from tests.pipeline import helpers
from tests.pipeline.enumeration import enumerated, marginals_of
from tests.pipeline.helpers import (
    FACTORIES,
    LBFGS,
    SCORES,
    SENTENCES,
    WEAK,
    annotation,
    bare_doc,
    blank,
    examples,
    initialized,
    inputs,
    pipe_of,
    predictions,
    registered,
    trained,
)
from tests.test_occurrences import obeys, occurrences

LOSS, SEQUENTIAL, PERCEPTRON, HINGE = (
    registered("losses", name) for name in ("LocalLog", "SequentialLog", "Perceptron", "Hinge")
)
DECODER, POSTERIOR = (registered("decoders", name) for name in ("LocalViterbi", "Posterior"))
NO_REGULARIZER = registered("regularizers", "NoRegularizer")
AVERAGED, PASSIVE, AROW = (
    registered("optimizers", name) for name in ("AveragedPerceptron", "PassiveAggressive", "AROW")
)
METHODS: dict[str, dict[str, Any]] = {
    "local": {"loss": LOSS, "decoder": DECODER},
    "perceptron": {"loss": PERCEPTRON, "regularizer": NO_REGULARIZER, "optimizer": AVERAGED},
    "passive-aggressive": {"loss": HINGE, "regularizer": NO_REGULARIZER, "optimizer": PASSIVE},
    "AROW": {"loss": HINGE, "regularizer": NO_REGULARIZER, "optimizer": AROW},
    "softmax-margin": {"loss": registered("losses", "SoftmaxMargin")},
    "posterior": {"decoder": POSTERIOR},
}


@pytest.mark.parametrize(("method", "factory"), [*zip(METHODS, FACTORIES * 2, strict=True)])
def test_they_learn_and_are_stored(method: str, factory: str, tmp_path: Path) -> None:
    nlp = trained(factory, **METHODS[method])
    expected = predictions(nlp, factory)
    assert expected[0] == predictions(trained(factory), factory)[0]
    nlp.to_disk(tmp_path / "model")
    assert predictions(spacy.load(tmp_path / "model"), factory) == expected


def test_probabilities_of_whole_sequences_are_refused() -> None:
    nlp = trained(loss=LOSS, decoder=DECODER)
    with pytest.raises(ConfigError, match=r"this question takes .*LocalLog"):
        pipe_of(nlp).marginals(inputs(nlp, "crf_ner")[0])
    pipe_of(nlp).cfg["threshold"] = 0.5
    with pytest.raises(ConfigError, match=r"threshold = 0.5 takes"):
        nlp("Anna lives in New York")


def test_all_plugins_that_do_not_fit_are_named_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        blank(loss=LOSS, optimizer=AVERAGED)
    penalty, loss, decoder = str(caught.value).splitlines()
    assert penalty.endswith("with spacy_crfseq.NoRegularizer.v1; or L2 with spacy_crfseq.AdaGrad.v1.")
    assert loss.endswith("with spacy_crfseq.Perceptron.v1; or LocalLog with spacy_crfseq.AdaGrad.v1.")
    assert decoder.endswith("LocalLog with spacy_crfseq.LocalViterbi.v1.")


def test_another_method_may_be_set() -> None:
    """The search for settings trains one component in many ways."""
    nlp = trained("crf_ner", optimizer=LBFGS)
    pipe = pipe_of(nlp)
    pipe.method = pipe.method._replace(regularizer=L2(rho=100.0))
    norms = [float(abs(pipe.crf.theta).sum()), float(abs(pipe.fit(examples(nlp)).best).sum())]
    assert norms[1] < norms[0] / 2


# --- potentials beside the linear one, in a component: trained, saved, explained, refused ---------------------------


EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "word_length.py"
LengthScores: Any = runpy.run_path(str(EXAMPLE))["LengthScores"]  # the page of the documentation shows this file


class TooFew(LengthScores):  # type: ignore[misc]
    def read(self, docs: Any) -> Any:
        return super().read(docs)[1:]


registry.potentials.register("tests.TooFew.v1", func=TooFew)


def trained_of_potentials(factory: str, name: str = "examples.LengthScores.v1", optimizer: str = "LBFGS") -> Any:
    nlp = spacy.blank("xx")
    config = {
        "potentials": {"lengths": {"@crf_potentials": name}},
        "optimizer": {"@crf_optimizers": f"spacy_crfseq.{optimizer}.v1"},
    }
    nlp.add_pipe(factory, config=config)
    nlp.initialize(lambda: examples(nlp, factory, repeat=2))
    nlp.get_pipe(factory).fit()
    return nlp


@pytest.mark.parametrize(("factory", "optimizer"), [*zip(FACTORIES, ["LBFGS", "AdaGrad", "LBFGS"], strict=True)])
def test_it_is_trained_saved_and_explained(factory: str, optimizer: str, tmp_path: Path) -> None:
    nlp = trained_of_potentials(factory, optimizer=optimizer)
    pipe = nlp.get_pipe(factory)
    weights = pipe.crf.theta[pipe.crf.layout.size :]
    assert len(weights) == len(pipe.tags)
    assert np.abs(weights).max() > 0.01
    docs = [nlp(doc) for doc in inputs(nlp, factory)]
    nlp.to_disk(tmp_path / "model")
    loaded = spacy.load(tmp_path / "model")
    for doc, again in zip(docs, inputs(loaded, factory), strict=True):
        assert annotation(loaded(again)) == annotation(doc)
    explanation = explain(pipe, docs[0])
    added = [c for token in explanation.tokens for c in token.contributions if c.kind == "added"]
    assert added
    assert sum(token.score for token in explanation.tokens) == pytest.approx(explanation.score, abs=1e-3)


def test_potentials_that_cannot_work() -> None:
    with pytest.raises(ConfigError, match="must return one row a token"):
        trained_of_potentials("crf_ner", "tests.TooFew.v1")
    with pytest.raises(ConfigError, match="scores come from Sum here"):
        trained_of_potentials("crf_ner", optimizer="CoordinateDescent")
    pipe = trained_of_potentials("crf_ner").get_pipe("crf_ner")
    other = spacy.blank("xx").add_pipe("crf_ner")
    with pytest.raises(ModelFileError, match="must be those of the training"):
        other.from_bytes(pipe.to_bytes())


# --- the settings `once` and `order`, and the arguments of these names, of all three components ---------------------


WORDS = ["Anna", "saw", "Bob", "saw"]
LABELS = {"crf_tagger": ["NNP", "VBZ"], "crf_chunker": ["NP", "VP"], "crf_ner": ["PER", "LOC"]}


def keep(nlp: Language, once: Sequence[str], order: Sequence[str]):  # type: ignore[no-untyped-def]
    pipe = pipe_of(nlp)
    once = list(pipe.labels) if once == ["*"] else once
    return lambda tags: obeys(occurrences(tags, pipe.annotation.scheme or "plain"), once, order)


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


def test_predictions_obey_and_the_setting_is_stored(factory: str, tmp_path: Path) -> None:
    nlp = helpers.trained(factory, once=["*"], order=LABELS[factory])
    nlp.to_disk(tmp_path)
    loaded = spacy.load(tmp_path)
    for pipeline in (nlp, loaded):
        pipe, kept = pipe_of(pipeline), keep(pipeline, ["*"], LABELS[factory])
        for doc in inputs(pipeline, factory):
            assert kept([pipe.tags[k] for k in pipe.posterior([doc]).labels[0]])
            pipeline(doc)
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


@pytest.mark.parametrize(("wrong", "message"), [
    ({"once": ["PERS"]}, "once names 'PERS', which is no label of the component. Did you mean 'PER'"),
    ({"order": ["PER", "PER"]}, "order names 'PER' twice"),
])  # fmt: skip
def test_rules_on_labels_that_are_not_there_or_twice_are_refused(wrong: dict[str, Any], message: str) -> None:
    nlp = blank(**wrong)
    with pytest.raises(ConfigError, match=message):
        nlp.initialize(lambda: examples(nlp))
    with pytest.raises(ConfigError, match=message):
        pipe_of(helpers.trained()).posterior([], **wrong)
    with pytest.raises(ConfigError, match=message):
        pipe_of(blank(**wrong)).from_bytes(helpers.trained().get_pipe("crf_ner").to_bytes())


@pytest.mark.parametrize("other", [{"decoder": registered("decoders", "MaxExpectedF1")}, {"tag_dictionary_size": 5}])
def test_methods_that_cannot_obey_rules_are_refused(other: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="once and order need"):
        blank(once=["PER"], **other)
    with pytest.raises(ConfigError, match="once and order need"):
        pipe_of(helpers.trained(**other)).posterior([], once=["PER"])


# --- A tag dictionary in the components: what tagging may say, whatever the weights are, and where it must give way


DICTIONARY = {"tag_dictionary_size": 1000, "tag_dictionary_min_count": 1}
WORDS_OF_TAG_DICTIONARY = sorted({row[0] for rows in SENTENCES for row in rows} | {"unknown"})
OTHER_SCHEMES = [("crf_ner", {"scheme": "IOB2"}), ("crf_chunker", {"scheme": "BILUO"})]


@pytest.fixture(scope="module", params=[*((factory, {}) for factory in FACTORIES), *OTHER_SCHEMES])
def nlp(request: pytest.FixtureRequest) -> Language:
    factory, settings = request.param
    return trained(factory, **settings, **DICTIONARY)


def with_random_weights(nlp: Language, seed: int) -> None:
    pipe = pipe_of(nlp)
    theta = np.random.default_rng(seed).normal(0, 5, len(pipe.crf.theta)).astype(np.float32)
    pipe.set_parameters(theta)


def test_words_keep_to_their_tags_whatever_the_weights() -> None:
    nlp = trained("crf_tagger", **DICTIONARY)
    tags = {row[0]: row[1] for rows in SENTENCES for row in rows}
    for seed in range(5):
        with_random_weights(nlp, seed)
        doc = nlp(bare_doc(nlp, WORDS_OF_TAG_DICTIONARY[::-1]))
        assert {token.text: token.tag_ for token in doc if token.text in tags} == tags
        marginals = pipe_of(nlp).marginals(doc)
        assert marginals.max(1)[[token.text in tags for token in doc]] == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize(("factory", "optimizer"), [*zip(FACTORIES, ["AdaGrad", "SGD", "LBFGS"], strict=True)])
def test_training_and_storage(factory: str, optimizer: str, tmp_path: Path) -> None:
    nlp = initialized(factory, optimizer=registered("optimizers", optimizer), **DICTIONARY)
    corpus = examples(nlp, factory)
    for _ in range(15):
        losses = nlp.update(corpus, losses={})
    assert np.isfinite(losses[factory])
    assert nlp.evaluate(corpus)[SCORES[factory]] == 1.0
    nlp.to_disk(tmp_path)
    again = spacy.load(tmp_path)
    assert predictions(again, factory) == predictions(nlp, factory)
    assert pipe_of(again).crf.dictionary is not None
    again.update(corpus)  # training goes on
    assert nlp.evaluate(corpus)[SCORES[factory]] == 1.0


@pytest.mark.parametrize("scheme", ["BILUO", "IOB2"])
def test_entities_that_are_set_come_first(scheme: str) -> None:
    nlp = trained("crf_ner", scheme=scheme, threshold=0.3, **DICTIONARY)
    doc = bare_doc(nlp, ["Anna", "lives", "in", "the", "Bank", " ", "of", "Oslo"])
    doc.set_ents([Span(doc, 1, 4, "ORG")], blocked=[Span(doc, 7, 8)], default="unmodified")
    ents = [(ent.text, ent.label_) for ent in nlp(doc).ents]
    assert ("lives in the", "ORG") in ents
    assert not {"Oslo"} & {text for text, _ in ents}


def test_a_span_that_is_said_to_begin_goes_on_whatever_the_dictionary_says() -> None:
    nlp = trained("crf_ner", **DICTIONARY)
    doc = nlp.make_doc("Anna lives in")
    labels = pipe_of(nlp).posterior([doc], allowed={0: ["B-LOC"]}).labels[0]
    assert pipe_of(nlp).tags[labels[0]] == "B-LOC"
