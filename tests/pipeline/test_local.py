"""Components with a loss that is normalised at each token: they tag, and refuse what only whole sequences give."""

from __future__ import annotations

from pathlib import Path

import pytest
import spacy

from spacy_crfseq.errors import ConfigError
from tests.pipeline.helpers import FACTORIES, blank, inputs, pipe_of, predictions, trained

LOSS = {"@crf_losses": "spacy_crfseq.LocalLog.v1"}
DECODER = {"@crf_decoders": "spacy_crfseq.LocalViterbi.v1"}
SEQUENTIAL = {"@crf_losses": "spacy_crfseq.SequentialLog.v1"}


@pytest.mark.parametrize("factory", FACTORIES)
def test_they_learn_and_are_stored(factory: str, tmp_path: Path) -> None:
    nlp = trained(factory, loss=LOSS, decoder=DECODER)
    expected = predictions(nlp, factory)
    assert expected[0] == predictions(trained(factory), factory)[0]
    nlp.to_disk(tmp_path / "model")
    assert predictions(spacy.load(tmp_path / "model"), factory) == expected


def test_a_decoder_that_does_not_fit_the_loss_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"Viterbi cannot decode for the loss LocalLog.*LocalLog with .*LocalViterbi"):
        blank(loss=LOSS)
    posterior = {"@crf_decoders": "spacy_crfseq.Posterior.v1"}
    with pytest.raises(ConfigError, match=r"Posterior cannot decode for the loss LocalLog"):
        blank(loss=LOSS, decoder=posterior)
    with pytest.raises(ConfigError, match=r"LocalViterbi cannot decode for the loss SequentialLog.*with .*\.Viterbi"):
        blank(loss=SEQUENTIAL, decoder=DECODER)


def test_probabilities_of_whole_sequences_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"threshold = 0.5 takes .*LocalLog.*SequentialLog"):
        blank(loss=LOSS, decoder=DECODER, threshold=0.5)
    nlp = trained(loss=LOSS, decoder=DECODER)
    with pytest.raises(ConfigError, match=r"marginals takes .*LocalLog"):
        pipe_of(nlp).marginals(inputs(nlp, "crf_ner"))
    pipe_of(nlp).cfg["threshold"] = 0.5
    with pytest.raises(ConfigError, match=r"threshold = 0.5 takes"):
        nlp("Anna lives in New York")


MARGIN = r"PassiveAggressive cannot minimise the loss Perceptron.*a margin.*PassiveAggressive with spacy_crfseq.Hinge"


def test_passive_aggressive_steps_need_a_margin() -> None:
    none = {"@crf_regularizers": "spacy_crfseq.NoRegularizer.v1"}
    perceptron = {"@crf_losses": "spacy_crfseq.Perceptron.v1"}
    optimizer = {"@crf_optimizers": "spacy_crfseq.PassiveAggressive.v1"}
    with pytest.raises(ConfigError, match=MARGIN):
        blank(loss=perceptron, regularizer=none, optimizer=optimizer)
    with pytest.raises(ConfigError, match=r"PassiveAggressive cannot minimise the regularizer L2.*NoRegularizer"):
        blank(loss=perceptron, optimizer=optimizer)
