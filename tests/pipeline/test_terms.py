"""Terms in addition to the training corpus: their texts, features, objective and errors in Python."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc
from spacy.training import Example

from spacy_crfseq import registry
from spacy_crfseq.errors import CrfError, DataError
from spacy_crfseq.pipeline import steps
from spacy_crfseq.types import Batch, Scores
from tests.pipeline.helpers import SENTENCES, WEAK, examples, gold_doc, predictions

TEXTS = ("Zed went to Quux Town .", "Anna saw Blork .", "Nobody lends money to Zed .")
OPTIMIZERS = ("LBFGS", "AdaGrad", "SGD")


@registry.losses("test.Squares.v1")
@dataclass(frozen=True)
class Squares:
    """Half the sum of the squared emissions, a loss that ignores gold labels."""

    provides = frozenset({"value_and_grad", "minibatches", "unlabelled"})

    def __call__(self, scores: Scores, batch: Batch, grad: Scores) -> float:
        weights = np.repeat(batch.weights, np.diff(batch.offsets))[:, None]
        grad.emissions[...] += (weights * scores.emissions).astype(grad.emissions.dtype)
        return float((weights * scores.emissions**2).sum() / 2)


@registry.losses("test.Lengths.v1")
class Lengths(Squares):
    """The same for long words only, bound to a component."""

    bound_to: tuple[str, ...] = ()

    def bind(self, labels: Sequence[str], scheme: str | None) -> Lengths:
        bound = Lengths()
        object.__setattr__(bound, "bound_to", (*labels, scheme))
        return bound

    def read(self, docs: Sequence[Doc], gold: Sequence[Doc]) -> Any:
        return np.array([len(token) for doc in docs for token in doc])

    def __call__(self, scores: Scores, batch: Batch, grad: Scores) -> float:
        assert self.bound_to[-1] == "BILUO"
        assert batch.inputs is not None
        long = (batch.inputs > 3)[:, None]
        masked, own = Scores(scores.emissions * long, *scores[1:]), scores.zeros_like()
        value = super().__call__(masked, batch, own)
        grad.emissions[...] += own.emissions
        return value


@registry.losses("test.Sums.v1")
class Sums(Squares):
    provides = frozenset({"value_and_grad", "unlabelled"})


SQUARES = {"loss": {"@crf_losses": "test.Squares.v1"}, "weight": 0.5}
LOG = {"@crf_losses": "spacy_crfseq.SequentialLog.v1"}


def block(kind: str, name: str, **settings: Any) -> dict[str, Any]:
    return {f"@crf_{kind}": f"spacy_crfseq.{name}.v1", **settings}


def made(optimizer: str = "LBFGS", **settings: Any) -> tuple[Any, Any]:
    """Return a pipeline and its recognizer."""
    nlp = spacy.blank("en")
    config = {"terms": {"news": SQUARES}, "optimizer": block("optimizers", optimizer), **WEAK, **settings}
    return nlp, nlp.add_pipe("crf_ner", config=config)


def docs_of(nlp: Any) -> list[Doc]:
    """Return texts with the weights 1, 2 and 3."""
    docs = [nlp.make_doc(text) for text in TEXTS]
    for number, doc in enumerate(docs, start=1):
        doc._.crf_weight = number
    return docs


def initialized(optimizer: str = "LBFGS", **settings: Any) -> tuple[Any, Any]:
    nlp, pipe = made(optimizer, **settings)
    pipe.initialize(lambda: examples(nlp), nlp=nlp, terms={"news": docs_of(nlp)})
    return nlp, pipe


def weights_of(pipe: Any, feature: str) -> list[float]:
    """Return the weights of a feature for all labels it has."""
    rows, names = pipe.crf.layout.unigrams, pipe.doc_model.feature_names
    row = names.index(feature)
    weights: list[float] = pipe.crf.views.unigrams[rows.ptr[row] : rows.ptr[row + 1]].tolist()
    return weights


def test_features_of_texts_have_weights_for_all_labels() -> None:
    nlp, pipe = initialized(keep_names=True)
    assert len(weights_of(pipe, "LOWER[0]=quux")) == len(pipe.tags)
    assert len(weights_of(pipe, "LOWER[0]=anna")) == len(pipe.tags)  # in both
    assert len(weights_of(pipe, "LOWER[0]=oslo")) == 1  # seen with one label
    pipe.fit()
    assert any(weights_of(pipe, "LOWER[0]=money"))
    nlp, plain = made(terms={}, keep_names=True)
    nlp.initialize(lambda: examples(nlp))
    assert "LOWER[0]=quux" not in plain.doc_model.feature_names
    assert plain.doc_model.feature_names == pipe.doc_model.feature_names[: len(plain.doc_model.feature_names)]


def test_features_of_labelled_texts_have_weights_for_the_labels_seen_there() -> None:
    nlp, pipe = made(terms={"more": {"loss": LOG}}, keep_names=True, support="observed")
    doc = Doc(nlp.vocab, words=["Zed", "saw", "Anna"], ents=["B-ORG", "O", "O"])
    pipe.initialize(
        lambda: examples(nlp), nlp=nlp, terms={"more": [Example(Doc(nlp.vocab, words=["Zed", "saw", "Anna"]), doc)]}
    )
    assert len(weights_of(pipe, "LOWER[0]=zed")) == 1  # seen with one label, there alone
    assert len(weights_of(pipe, "LOWER[0]=anna")) == 2  # U-PER in the training corpus
    assert len(weights_of(pipe, "LOWER[0]=oslo")) == 1


def test_fit_adds_texts_that_initialize_had_none_of() -> None:
    nlp, pipe = made(keep_names=True)
    nlp.initialize(lambda: examples(nlp))
    pipe.fit(terms={"news": lambda: docs_of(nlp)})
    _, other = initialized(keep_names=True)
    other.fit()
    assert pipe.doc_model.feature_names == other.doc_model.feature_names
    np.testing.assert_array_equal(pipe.crf.theta, other.crf.theta)


def test_the_objective_is_the_sum() -> None:
    nlp, pipe = initialized(
        terms={"news": SQUARES, "more": {"loss": LOG, "weight": 2.0}, "off": {**SQUARES, "weight": 0.0}}
    )
    gold = [gold_doc(nlp, SENTENCES[0])]
    pipe.initialize(lambda: examples(nlp), terms={"news": docs_of(nlp), "more": gold, "off": docs_of(nlp)})
    with pipe.training.training_on() as (objective, _):
        assert [term.name for term in objective.terms] == ["the training corpus", "news", "more"]
        theta = np.random.default_rng(0).normal(size=len(pipe.crf.theta))
        value, _, gradient = objective.value_and_grad(theta)
    potential, expected, slope = pipe.crf.potential, 1.5 * theta @ theta, 3.0 * theta
    for term in objective.terms:
        passes = potential.passes(term.data.encoded, 1)
        passes.begin(theta, slope)
        for part in (part for parts in passes.rounds for part in parts):
            scores, backprop = passes.forward(part)
            grad = scores.zeros_like()
            expected += term.loss(scores, term.data.batch(*part), grad)
            backprop(grad)
        passes.flush()
        passes.finish()
    potential.zero_frozen(slope)
    assert value == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(gradient, slope, atol=1e-10)
    weights = {term.name: term.data.weights.tolist() for term in objective.terms}
    assert weights == {"the training corpus": [1] * 5, "news": [0.5, 1, 1.5], "more": [2]}


def test_losses_are_bound_and_read_texts() -> None:
    _, pipe = initialized(terms={"news": {"loss": {"@crf_losses": "test.Lengths.v1"}}})
    assert pipe.training.terms["news"].data.inputs.tolist()[:3] == [3, 4, 2]
    pipe.fit()
    assert pipe.crf.theta.any()


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_steps_of_spacy_visit_every_text_once_an_epoch(optimizer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    nlp, _ = initialized(optimizer)
    make, met = steps.objective_of, []

    def spy(*args: Any) -> Any:
        first, *others = (objective := make(*args)).terms
        met.append((first.data.n_sequences, *(term.data.weights.tolist() for term in others)))
        return objective

    monkeypatch.setattr(steps, "objective_of", spy)
    losses: dict[str, float] = {}
    for _ in range(2):
        for batch in (examples(nlp)[:2], examples(nlp)[2:4], examples(nlp)[4:]):
            nlp.update(batch, losses=losses)
    assert losses["crf_ner"] > 0
    sizes, shares = zip(*met, strict=True)
    if optimizer == "LBFGS":
        assert met == [(5, [0.5, 1, 1.5])]
    else:
        assert sizes == (2, 2, 1) * 2
        assert [len(share) for share in shares] == [1, 1, 1] * 2
        assert sorted(chain(*shares[:3])) == sorted(chain(*shares[3:])) == [0.5, 1, 1.5]
    before = predictions(nlp, "crf_ner")
    assert predictions(nlp.from_bytes(nlp.to_bytes()), "crf_ner") == before


@pytest.mark.parametrize(
    "settings",
    [
        {"support": "all"},
        {"min_count": 2},
        {"max_features": 50},
        {"tag_dictionary_size": 5, "tag_dictionary_min_count": 1},
        {"features": block("features", "Templates", templates=["LOWER[0]"], bigram_templates=["LOWER[0]"])},
        {"transitions": False},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_works_with_other_settings(settings: dict[str, Any]) -> None:
    _, pipe = initialized(**settings)
    layout = pipe.crf.layout
    if "min_count" in settings:  # "Zed" and "to" are on two tokens of the texts
        assert layout.unigrams.n_rows < initialized()[1].crf.layout.unigrams.n_rows
    for ids, rows in zip(pipe.training.terms["news"].data.encoded[:2], (layout.unigrams, layout.bigrams), strict=True):
        assert ids.expanded()[1].max(initial=-1) < rows.n_rows
    assert np.isfinite(pipe.fit().last).all()


def refusals() -> Iterator[tuple[dict[str, Any], Any, str]]:
    news = {"news": SQUARES}
    yield {"terms": {"news": {"weight": 1.0}}}, {}, "has no loss"
    yield {"terms": {"news": {**SQUARES, "wight": 1.0}}}, {}, "no setting 'wight'"
    yield {"terms": {"news": {**SQUARES, "weight": -1.0}}}, {}, "weight must be 0 or more"
    yield {"terms": {"news": {**SQUARES, "weight": "x"}}}, {}, "weight must be a number"
    yield {"terms": {"news": {**SQUARES, "corpus": 1}}}, {}, "corpus must name a block"
    yield {"terms": {"news": {"loss": 3}}}, {}, "must be a loss"
    yield (
        {"terms": {"news": {"loss": {"@crf_losses": "test.Sums.v1"}}}, "optimizer": block("optimizers", "AdaGrad")},
        {},
        "cannot minimise the loss Sums",
    )
    yield {"terms": news, "optimizer": block("optimizers", "CoordinateDescent")}, {}, "learns from one data set"
    local = {"loss": block("losses", "LocalLog"), "decoder": block("decoders", "LocalViterbi")}
    yield {"terms": news, **local}, {}, "normalised at each token"
    yield {"terms": {"news": {**SQUARES, "corpus": "corpora.new"}}}, {}, "'corpora.new' is not in the config"
    yield {"terms": {"news": {**SQUARES, "corpus": "nlp"}}}, {}, "no reader of a corpus"
    yield {}, {"old": []}, "no term 'old'"
    yield {}, {"news": []}, "'news' has no text"
    yield {}, {"news": ["a text"]}, "must be Docs or Examples"
    yield {"terms": {"news": {"loss": LOG}}}, {"news": [spacy.blank("en").make_doc("Zed")]}, "needs gold labels"


@pytest.mark.parametrize(
    ("settings", "texts", "words"), list(refusals()), ids=lambda value: value if type(value) is str else ""
)
def test_refuses(settings: dict[str, Any], texts: Any, words: str) -> None:
    nlp = spacy.blank("en")

    def initialize() -> None:
        pipe: Any = nlp.add_pipe("crf_ner", config={"terms": {"news": SQUARES}, **settings})
        pipe.initialize(lambda: examples(nlp), nlp=nlp, terms=texts)

    with pytest.raises(CrfError, match=words):
        initialize()


def test_training_goes_on_after_new_labels_pruning_and_other_texts() -> None:
    nlp, pipe = initialized("AdaGrad")
    for change in (lambda: pipe.add_label("NEW"), lambda: pipe.prune(1e-3)):
        nlp.update(examples(nlp), losses=(losses := {}))
        assert losses["crf_ner"] > 0
        change()
        assert pipe.fit(examples(nlp)).history
    pipe.fit(examples(nlp), terms={"news": docs_of(nlp)[:1]})
    nlp.update(examples(nlp))
    assert [texts.data.n_sequences for texts in pipe.training.terms.values()] == [1]
    assert np.isfinite(pipe.crf.theta).all()


def test_texts_come_again_when_a_component_meets_its_examples_later() -> None:
    nlp, pipe = made(keep_names=True)
    pipe.initialize(
        lambda: [Example.from_dict(Doc(nlp.vocab, words=["x", "y", "z"]), {})], nlp=nlp, terms={"news": docs_of(nlp)}
    )
    nlp.update(examples(nlp))
    assert {"LOWER[0]=quux", "LOWER[0]=oslo"} < set(pipe.doc_model.feature_names)


def test_refuses_to_train_without_texts() -> None:
    nlp, pipe = made()
    nlp.initialize(lambda: examples(nlp))
    for train in (pipe.fit, lambda: nlp.update(examples(nlp))):
        with pytest.raises(DataError, match="term 'news' has no texts"):
            train()
    pipe.method = pipe.method._replace(terms={})
    assert pipe.fit().history
