"""The objective of a component: the losses of its training corpus and terms, and its penalty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from spacy import util

from ..errors import DataError
from ..potentials.protocol import Potential
from ..training.compatibility import part_name
from ..training.dataset import Dataset
from ..training.objective import Objective, Term
from ..types import Loss, NamedLoss, SelectiveLoss
from .corpus_encoder import EncodedCorpus
from .doc_model import DocModel

FIRST = "the training corpus"
"""The name of the first term of an objective, for messages."""


def bound(model: DocModel, loss: Loss) -> Loss:
    """Return a loss for the model's tags."""
    return loss.bind(model.labels.tags, model.annotation.scheme) if isinstance(loss, NamedLoss) else loss


def corpus_term(model: DocModel, data: Dataset, sample: Dataset | None = None) -> Term:
    """Return the term of the training corpus, or of a part of it.

    sample (Dataset | None): Data for choosing learning rates, see `Term`.
    """
    return Term(data, bound(model, model.method.loss), name=FIRST, sample=sample)


def further_terms(model: DocModel, texts: Mapping[str, EncodedCorpus]) -> list[Term]:
    """Return the terms of the method whose texts are given, in the numbers of the model.

    RAISES DataError: If a loss learns from none of its texts.
    """
    terms = []
    for name, (given, _, weight, visits) in model.method.each_term(model.name).items():
        if name in texts and weight * visits:
            loss, learned = bound(model, given), texts[name].data
            if isinstance(loss, SelectiveLoss):
                learned = _with_evidence(f"[components.{model.name}.terms.{name}]", learned, loss, part_name(given))
            terms.append(Term(learned, loss, weight, name, learned, visits))
    return terms


def _with_evidence(where: str, data: Dataset, loss: SelectiveLoss, plugin: str) -> Dataset:
    """Return the sequences that a loss learns from.  RAISES DataError: If there are none."""
    chosen = np.flatnonzero(loss.learns_from(data.batch(0, data.n_sequences)))
    if data.n_sequences and not len(chosen):
        raise DataError(
            f"{where}: there is no evidence for {plugin} in any of {data.n_sequences:,} sentences. Check its corpus "
            "and the settings of the loss."
        )
    if len(chosen) < data.n_sequences:
        util.logger.info("%s: %d of %d sentences have evidence", where, len(chosen), data.n_sequences)
    return data.take(chosen)


def objective_of(
    model: DocModel, terms: Sequence[Term], n_total: int = 0, potential: Potential | None = None
) -> Objective:
    """Return the objective for terms in the numbers of a model.

    n_total (int): Sequences of the whole training set, if the terms' data are a part of it.
    potential (Potential | None): In place of the model's.
    """
    crf, _ = model.trained()
    return Objective(
        potential or crf.potential,
        terms,
        model.method.regularizer,
        n_total=n_total,
        n_threads=model.method.n_threads,
        dictionary=crf.dictionary,
        templates=None if crf.templates is None else crf.templates[0],
    )
