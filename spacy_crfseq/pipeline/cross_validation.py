"""Cross-validation of a pipeline: it is trained on all folds of its training corpus but one, in turn."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from spacy.training import Example

from ..types import BY_OPTIMIZER, Offsets, Schedule
from .corpus import Corpus
from .pipeline_training import PipelineTraining


class Fold(NamedTuple):
    """A held-out fold, and the pipeline trained on the others; the next fold trains the same pipeline again.

    held_out, numbers: Fresh examples of its documents, and their numbers in the corpus.
    scores: The pipeline's scores on them, if requested.
    """

    training: PipelineTraining
    held_out: list[Example]
    numbers: Offsets
    n_documents: int
    scores: dict[str, Any]
    seconds: float


def each_fold(
    training: PipelineTraining,
    k: int,
    *,
    schedule: Schedule = BY_OPTIMIZER,
    scored: bool = True,
    group: str | None = None,
) -> Generator[Fold, None, None]:
    """Train the pipeline on all folds but one, in turn; use it before asking for the next fold.

    group (str | None): What the documents of a fold share with no other fold, see `groups.group_of`; None for copies
        of a text.
    Ctrl-C ends the iteration.  The corpus is kept in memory, and is encoded only once if the encoding of a document
    does not depend on the others.
    RAISES CrfError: If k folds are impossible, or a component has been trained before.
    """
    from ..training.dataset import folds
    from .evidence import group_of_doc

    training.refuse_trained("--cross-validate")
    examples = list(training.corpus)
    references = [example.reference for example in examples]
    keys = [doc.text for doc in references] if group is None else [group_of_doc(doc, group) for doc in references]
    parts = folds(keys, k, training.settings["seed"] or 0)
    pipes, one_sequence_each = training.to_train.values(), False
    if can_share(training):
        for pipe in pipes:
            pipe.training.set(keeps=True)
        training._replace(corpus=Corpus(lambda: examples, False)).encode()
        offsets = np.cumsum([0, *(len(example.predicted) for example in examples)])
        corpora = [pipe.training.corpus for pipe in pipes]
        one_sequence_each = all(texts and np.array_equal(texts.data.encoded.offsets, offsets) for texts in corpora)
    for held in parts:
        started = perf_counter()
        kept = np.setdiff1d(np.arange(len(examples)), held)
        fold = training._replace(corpus=Corpus(partial(fresh, examples, kept), training.corpus.keeps))
        if one_sequence_each:
            for pipe in pipes:
                pipe.training.begin(sequences=kept)
        else:
            fold.encode()
        if fold.train(None, schedule).interrupted:
            return
        scores = training.nlp.evaluate(fresh(examples, held)) if scored else {}
        yield Fold(fold, fresh(examples, held), held, len(examples), scores, perf_counter() - started)


def can_share(training: PipelineTraining) -> bool:
    """Whether the encoding of a document does not depend on the other documents of the corpus."""
    methods = [pipe.method for pipe in training.to_train.values()]
    counted = any(m.min_count > 1 or m.max_features or m.tag_dictionary_size for m in methods)
    staged = any(method.staged for method in methods)  # whose results depend on the others
    noted = any(pipe.doc_model.seen for pipe in training.to_train.values())  # attributes of words that all texts have
    return not (training.corpus.keeps or counted or staged or noted)


def fresh(examples: Sequence[Example], numbers: Iterable[int]) -> list[Example]:
    """Return copies of examples whose predicted Docs can be annotated."""
    return [Example(examples[i].predicted.copy(), examples[i].reference) for i in numbers]
