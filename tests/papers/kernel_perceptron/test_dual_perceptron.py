"""The dual perceptron: with a kernel of degree 1 it is the primal one; other degrees against sums over supports."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy
from spacy.training import Example

from spacy_crfseq.errors import ConfigError
from spacy_crfseq.losses.hinge import Hinge
from spacy_crfseq.losses.perceptron import Perceptron
from spacy_crfseq.optimizers.lbfgs import LBFGS
from spacy_crfseq.optimizers.mistakes import AveragedPerceptron
from spacy_crfseq.papers.kernel_perceptron.perceptron import DualPerceptron, KernelScores, PolynomialKernel
from spacy_crfseq.potentials.linear import Linear
from spacy_crfseq.potentials.sums import Sum
from spacy_crfseq.regularizers.none import NoRegularizer
from spacy_crfseq.training.objective import Objective
from spacy_crfseq.types import Floats, StepReport
from tests.pipeline.helpers import annotation, examples, inputs
from tests.problems import BIGRAM_TEMPLATES, Training, ids_of_tokens, source_of, training_problem


def make(degree: int, **settings: Any) -> tuple[Training, Objective]:
    """Return a problem without and with a kernel."""
    chosen = {"support": "all", "loss": Perceptron(), "regularizer": NoRegularizer(), **settings}
    training = training_problem(4, n_sequences=25, **chosen)
    kernel = PolynomialKernel(degree)
    kernel.bind(training.encoded)
    potential = Sum(Linear(training.layout), [KernelScores(kernel, training.layout.n_labels)])
    plain = training.objective
    return training, Objective(potential, plain.terms, plain.regularizer, dictionary=plain.dictionary)


def epochs(optimizer: Any, objective: Objective, n: int = 4) -> tuple[Floats, Floats, list[StepReport]]:
    """Return the weights after some epochs, those for prediction, and the reports."""
    state = optimizer.start(np.zeros(objective.potential.size))
    reports = [optimizer.iterate(objective, state) for _ in range(n)]
    return state.weights, optimizer.export(state), reports


def emissions(objective: Objective, theta: Floats) -> Floats:
    source = source_of(objective.potential, theta, objective.data.encoded)
    return source.scores((0, len(source.offsets) - 1)).emissions


@pytest.mark.parametrize(
    "settings",
    [{}, {"missing": 0.2, "loss": Hinge()}, {"dictionary_size": 3}, {"support": "observed", "templates": ()}],
)
def test_degree_1_is_the_primal_perceptron(settings: dict[str, Any]) -> None:
    training, dual = make(1, **settings)
    weights, theta, reports = epochs(AveragedPerceptron(), training.objective)
    own, averaged, result = epochs(DualPerceptron(), dual)
    assert [report.value for report in result] == pytest.approx([report.value for report in reports], abs=1e-9)
    for primal, other in ((weights, own), (theta, averaged)):
        np.testing.assert_allclose(emissions(dual, other), emissions(training.objective, primal), atol=1e-9)
        begin = training.objective.blocks[2].begin
        np.testing.assert_allclose(other[begin : training.layout.size], primal[begin:], atol=1e-9)


def test_degree_1_without_a_kernel_has_the_same_weights() -> None:
    training, _ = make(1)
    for actual, expected in zip(
        epochs(DualPerceptron(), training.objective), epochs(AveragedPerceptron(), training.objective), strict=True
    ):
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("degree", [2, 3])
def test_scores_are_sums_over_supports(degree: int) -> None:
    training, dual = make(degree)
    _, theta, reports = epochs(DualPerceptron(), dual)
    assert reports[-1].value < reports[0].value
    coefs = theta[training.layout.size :].reshape(-1, training.layout.n_labels)
    features = [set(ids) for ids in ids_of_tokens(training.encoded.unigrams)]
    kernel = np.array([[(1 + len(feature & other)) ** degree - 1 for other in features] for feature in features])
    np.testing.assert_allclose(emissions(dual, theta), kernel @ coefs, atol=1e-9)


def test_label_pairs_parts_other_optimizers_and_large_corpora_are_refused() -> None:
    _, pairs = make(2, bigram_templates=BIGRAM_TEMPLATES)
    with pytest.raises(ConfigError, match="cannot train label-pair features"):
        epochs(DualPerceptron(), pairs)
    training, dual = make(2)
    part = Objective(dual.potential, [dual.terms[0]._replace(data=dual.data.slice(3, 9))], dual.regularizer)
    with pytest.raises(ConfigError, match="all of it at once"):
        epochs(DualPerceptron(), part)
    with pytest.raises(ConfigError, match=r"Only the optimizer spacy_crfseq\.DualPerceptron"):
        LBFGS().iterate(dual, LBFGS().start(np.zeros(dual.potential.size)))
    with pytest.raises(ConfigError, match="at most max_tokens = 5"):
        PolynomialKernel(2, 5).bind(training.encoded)
    with pytest.raises(ConfigError, match="degree must be from 1"):
        PolynomialKernel(0)


CONFIG: dict[str, Any] = {
    "potentials": {"kernel": {"@crf_potentials": "spacy_crfseq.PolynomialKernel.v1", "degree": 2}},
    "optimizer": {"@crf_optimizers": "spacy_crfseq.DualPerceptron.v1", "max_iterations": 5},
    "loss": {"@crf_losses": "spacy_crfseq.Perceptron.v1"},
    "regularizer": {"@crf_regularizers": "spacy_crfseq.NoRegularizer.v1"},
}


def test_a_config_trains_saves_and_loads(tmp_path: Path) -> None:
    nlp = spacy.blank("xx")
    pipe = nlp.add_pipe("crf_ner", config=CONFIG)
    train: list[Example] = examples(nlp, "crf_ner")
    nlp.initialize(lambda: train)
    pipe.fit()
    docs = [nlp(doc) for doc in inputs(nlp, "crf_ner")]
    assert any(doc.ents for doc in docs)
    pipe.add_label("NEW")
    assert [annotation(nlp(doc)) for doc in inputs(nlp, "crf_ner")] == [annotation(doc) for doc in docs]
    nlp.to_disk(tmp_path)
    loaded = spacy.load(tmp_path)
    assert [annotation(loaded(doc)) for doc in inputs(loaded, "crf_ner")] == [annotation(doc) for doc in docs]


def test_an_initialization_without_data_is_followed_by_any_text() -> None:
    collected = []
    for first in (True, False):
        nlp = spacy.blank("xx")
        pipe = nlp.add_pipe("crf_ner", config=CONFIG)
        nlp.initialize(None if first else lambda: examples(nlp, "crf_ner"))  # noqa: B023
        pipe.fit(examples(nlp, "crf_ner"))
        collected.append([annotation(nlp(doc)) for doc in inputs(nlp, "crf_ner")])
    assert collected[0] == collected[1]
