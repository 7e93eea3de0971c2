"""Augmented-loss training of Hall, McDonald & Petrov (2011)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scripts.papers._harness import Row
from scripts.papers.corpora import Examples
from scripts.papers.task import Task, changed

if TYPE_CHECKING:
    from spacy_crfseq.types import Floats

GOLD_LABELS = {"@crf_losses": "spacy_crfseq.Perceptron.v1"}


def ranker(cost: Row, k: int = 10) -> Row:
    """Return the block of the inline ranker with a cost of the k best labellings."""
    return {"@crf_losses": "spacy_crfseq.InlineRanker.v1", "cost": cost, "k": k}


def adapted(task: Task, settings: Row, start: Floats, examples: Examples, loss: Row, seed: int) -> Floats:
    """Return the weights after augmented-loss training on a task and on examples with a loss of their own, if any.

    settings: The blocks of a method, and `sentences`, those of the task to an example.
    """
    method = changed(settings, optimizer={"seed": seed})
    visits = task.data.n_sequences / settings["sentences"] / max(1, len(examples))
    terms = [task.term("evidence", examples, loss, visits)] if examples else []
    return task.fit(method, start=start, terms=terms).theta
