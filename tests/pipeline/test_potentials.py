"""Potentials beside the linear one, in a component: trained, saved, explained, refused."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy

from spacy_crfseq import registry
from spacy_crfseq.errors import ConfigError, ModelFileError
from spacy_crfseq.tools.explain import explain
from tests.pipeline.helpers import FACTORIES, annotation, examples, inputs

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "word_length.py"
LengthScores: Any = runpy.run_path(str(EXAMPLE))["LengthScores"]  # the page of the documentation shows this file


class TooFew(LengthScores):  # type: ignore[misc]
    def read(self, docs: Any) -> Any:
        return super().read(docs)[1:]


registry.potentials.register("tests.TooFew.v1", func=TooFew)


def trained(factory: str, name: str = "examples.LengthScores.v1", optimizer: str = "LBFGS") -> Any:
    nlp = spacy.blank("xx")
    config = {
        "potentials": {"lengths": {"@crf_potentials": name}},
        "optimizer": {"@crf_optimizers": f"spacy_crfseq.{optimizer}.v1"},
    }
    nlp.add_pipe(factory, config=config)
    nlp.initialize(lambda: examples(nlp, factory, repeat=2))
    nlp.get_pipe(factory).fit()
    return nlp


@pytest.mark.parametrize("factory", FACTORIES)
@pytest.mark.parametrize("optimizer", ["LBFGS", "AdaGrad"])
def test_it_is_trained_saved_and_explained(factory: str, optimizer: str, tmp_path: Path) -> None:
    nlp = trained(factory, optimizer=optimizer)
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


def test_what_cannot_be_a_potential(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"potentials.lengths\] is 3, which is not a potential"):
        spacy.blank("xx").add_pipe("crf_ner", config={"potentials": {"lengths": 3}})
    with pytest.raises(ConfigError, match="must return one row a token"):
        trained("crf_ner", "tests.TooFew.v1")
    with pytest.raises(ConfigError, match="scores come from Sum here"):
        trained("crf_ner", optimizer="CoordinateDescent")
    pipe = trained("crf_ner").get_pipe("crf_ner")
    other = spacy.blank("xx").add_pipe("crf_ner")
    with pytest.raises(ModelFileError, match="must be those of the training"):
        other.from_bytes(pipe.to_bytes())
