"""What training is said to cost, beside what it takes."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy
from spacy.training import Example

from spacy_crfseq.pipeline.readers import read_examples
from spacy_crfseq.tools.debug_data.cost import estimate
from tests.pipeline.helpers import SENTENCES, gold_doc

SENTENCES_READ = 1000
"""Of each real corpus, so that the test takes seconds."""


def trained_on(examples: list[Example], factory: str, optimizer: str) -> tuple[Any, Any]:
    """Return a component that was initialized, and what `estimate` says."""
    nlp = spacy.blank("xx")
    pipe: Any = nlp.add_pipe(factory, config={"optimizer": {"@crf_optimizers": f"spacy_crfseq.{optimizer}.v1"}})
    nlp.initialize(lambda: examples)
    with pipe.training.training_on() as (objective, _):
        before = pipe.crf.theta.copy()
        cost = estimate(objective, pipe.method.optimizer, pipe.crf.theta)
        assert np.array_equal(pipe.crf.theta, before)
    return pipe, cost


@pytest.mark.parametrize("optimizer", ["AdaGrad", "LBFGS"])
def test_a_small_corpus_is_its_own_sample(optimizer: str) -> None:
    nlp = spacy.blank("xx")
    docs = [gold_doc(nlp, rows) for rows in SENTENCES] * 4
    examples = [Example(doc.copy(), doc) for doc in docs]
    pipe, cost = trained_on(examples, "crf_ner", optimizer)
    result = pipe.fit(examples)
    assert cost.iterations == len(result.history)
    assert cost.n_parameters == pipe.crf.layout.size
    assert cost.n_sequences == len(examples)
    assert not cost.bounded
    assert cost.seconds == cost.iterations * cost.iteration_seconds > 0


def test_an_optimizer_that_does_not_converge(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spacy_crfseq.tools.debug_data.cost.SECONDS", 0.0)
    nlp = spacy.blank("xx")
    docs = [gold_doc(nlp, rows) for rows in SENTENCES] * 4
    _, cost = trained_on([Example(doc.copy(), doc) for doc in docs], "crf_ner", "LBFGS")
    assert cost.bounded
    assert cost.iterations == 500


@pytest.mark.parametrize(
    ("path", "name", "factory", "given"),
    [
        ("conll2000/train.txt", "conll2000", "crf_chunker", ["tag"]),
        ("conll2002/esp.train", "conll2002", "crf_ner", []),
        ("ud-english-ewt/en_ewt-ud-train.conllu", "conllu", "crf_tagger", []),
    ],
)
def test_iterations_on_real_corpora(path: str, name: str, factory: str, given: list[str], data_folder: Path) -> None:
    read = read_examples(spacy.blank("xx"), data_folder / path, name, given=given)
    examples = list(islice(read, SENTENCES_READ))
    pipe, cost = trained_on(examples, factory, "AdaGrad")
    taken = len(pipe.fit(examples).history)
    assert taken / 2 <= cost.iterations <= taken * 2


def test_a_kernel_is_not_sampled() -> None:
    nlp = spacy.blank("xx")
    train = [Example(doc.copy(), doc) for doc in (gold_doc(nlp, rows) for rows in SENTENCES)]
    config = {
        "potentials": {"kernel": {"@crf_potentials": "spacy_crfseq.PolynomialKernel.v1"}},
        "optimizer": {"@crf_optimizers": "spacy_crfseq.DualPerceptron.v1", "max_iterations": 7},
        "loss": {"@crf_losses": "spacy_crfseq.Perceptron.v1"},
        "regularizer": {"@crf_regularizers": "spacy_crfseq.NoRegularizer.v1"},
    }
    pipe: Any = nlp.add_pipe("crf_ner", config=config)
    nlp.initialize(lambda: train)
    with pipe.training.training_on() as (objective, _):
        cost = estimate(objective, pipe.method.optimizer, pipe.crf.theta)
    assert cost.bounded
    assert cost.iterations == 7
    assert cost.seconds > 0
