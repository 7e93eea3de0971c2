"""Checkpoints: the state of a run when its cluster is lost."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from spacy_crfseq.errors import ClusterError
from spacy_crfseq.optimizers.lbfgs import LBFGS
from spacy_crfseq.training.checkpoint import Checkpoint
from spacy_crfseq.training.fit import Progress, fit
from tests.problems import training_problem


def test_a_run_whose_cluster_is_lost_continues_from_its_last_iteration(tmp_path: Path) -> None:
    training = training_problem(3, n_sequences=20)
    theta = np.zeros(training.layout.size)
    path, optimizer = tmp_path / "checkpoint", LBFGS()

    def lose(progress: Progress) -> None:
        if progress.iteration == 4:
            raise ClusterError("The scheduler is lost.")

    checkpoint = Checkpoint(path)
    checkpoint.begin("ner", {"labels": "A"})
    with pytest.raises(ClusterError):
        fit(training.objective, optimizer, theta, callback=lose, saver=checkpoint)
    whole = fit(training.objective, optimizer, theta)
    resumed = Checkpoint.load(path)
    _, begun = resumed.begin("ner", {"labels": "A"})
    assert resumed.n_iterations == 4
    result = fit(training.objective, optimizer, theta, saver=resumed, begun=begun)
    assert [one.report for one in result.history] == [one.report for one in whole.history]
    assert result.last.tobytes() == whole.last.tobytes()
