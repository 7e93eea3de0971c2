"""Components that learn and decode in other ways than by default, and the combinations they refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import spacy

from spacy_crfseq.errors import ConfigError
from spacy_crfseq.regularizers.l2 import L2
from tests.pipeline.helpers import FACTORIES, LBFGS, blank, examples, inputs, pipe_of, predictions, registered, trained

LOSS, SEQUENTIAL, PERCEPTRON, HINGE = (
    registered("losses", name) for name in ("LocalLog", "SequentialLog", "Perceptron", "Hinge")
)
DECODER, POSTERIOR = (registered("decoders", name) for name in ("LocalViterbi", "Posterior"))
NONE = registered("regularizers", "NoRegularizer")
AVERAGED, PASSIVE, AROW = (
    registered("optimizers", name) for name in ("AveragedPerceptron", "PassiveAggressive", "AROW")
)
METHODS: dict[str, dict[str, Any]] = {
    "local": {"loss": LOSS, "decoder": DECODER},
    "perceptron": {"loss": PERCEPTRON, "regularizer": NONE, "optimizer": AVERAGED},
    "passive-aggressive": {"loss": HINGE, "regularizer": NONE, "optimizer": PASSIVE},
    "AROW": {"loss": HINGE, "regularizer": NONE, "optimizer": AROW},
    "softmax-margin": {"loss": registered("losses", "SoftmaxMargin")},
    "posterior": {"decoder": POSTERIOR},
}


@pytest.mark.parametrize("factory", FACTORIES)
@pytest.mark.parametrize("method", METHODS)
def test_they_learn_and_are_stored(method: str, factory: str, tmp_path: Path) -> None:
    nlp = trained(factory, **METHODS[method])
    expected = predictions(nlp, factory)
    assert expected[0] == predictions(trained(factory), factory)[0]
    nlp.to_disk(tmp_path / "model")
    assert predictions(spacy.load(tmp_path / "model"), factory) == expected


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"loss": LOSS, "decoder": DECODER, "threshold": 0.5}, r"threshold = 0.5 takes .*LocalLog.*SequentialLog"),
    (
        {"loss": PERCEPTRON, "regularizer": NONE, "optimizer": PASSIVE},
        r"PassiveAggressive cannot minimise the loss Perceptron.*a margin.*PassiveAggressive with spacy_crfseq.Hinge",
    ),
]


@pytest.mark.parametrize(("settings", "message"), REFUSED)
def test_what_does_not_fit_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        blank(**settings)


def test_probabilities_of_whole_sequences_are_refused() -> None:
    nlp = trained(loss=LOSS, decoder=DECODER)
    with pytest.raises(ConfigError, match=r"this question takes .*LocalLog"):
        pipe_of(nlp).marginals(inputs(nlp, "crf_ner")[0])
    pipe_of(nlp).cfg["threshold"] = 0.5
    with pytest.raises(ConfigError, match=r"threshold = 0.5 takes"):
        nlp("Anna lives in New York")


def test_all_that_does_not_fit_is_said_at_once() -> None:
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
