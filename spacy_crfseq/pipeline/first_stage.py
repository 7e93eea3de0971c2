"""Labels of a first stage for the texts that the second stage learns from, by models that have not seen them.

A model labels its own training texts too well to show a second stage what to expect of new ones.  So the corpus is
labelled in parts, each by a first stage that was trained on the others: the jackknife of Cohen & Carvalho (2005),
"Stacked sequential learning", section 2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from spacy.training import Example

from ..features.documents import APART
from ..inference.posterior import Posterior
from ..training.dataset import Dataset, folds
from ..types import MISSING, CorrectingDecoder, Decoder, Ints, LearnedDecoder, Offsets
from .calibration import JudgedPart
from .doc_model import DocModel
from .prediction import doc_key
from .training_set import TrainingSet
from .white_space import words_of

PARTS = 5
"""Parts of a corpus that a decoder learns from where no first stage is trained."""


class NotedDocs:
    """The keys and the sizes, in words, of the predicted Docs of a corpus, noted while it is read."""

    def __init__(self) -> None:
        self.keys, self.sizes = list[int](), list[int]()

    def read(self, examples: Iterable[Example]) -> Iterator[Example]:
        """Yield examples with whole Docs for a first stage, and note them."""
        for example in examples:
            # what is no example is refused where it is encoded; an empty Doc is no document to learn from
            if isinstance(example, Example) and len(words := words_of([example.predicted])[0]):
                self.keys.append(doc_key(words))
                self.sizes.append(len(words))
                if APART in example.predicted.user_data:  # the second stage alone learns from sentences
                    whole = example.predicted.copy()
                    del whole.user_data[APART]
                    example = Example(whole, example.reference)
            yield example


def jackknife(
    model: DocModel,
    texts: TrainingSet,
    docs: NotedDocs,
    learn: Callable[[Offsets], None],
    *,
    k: int,
    seed: int,
    decoder: Decoder,
    report: Callable[[str], None],
) -> dict[int, Ints]:
    """Return the labels of the Docs of a training corpus, by their keys, from models that have not seen them.

    A document is split if it is the only one.  Labels are `MISSING` if there is but one sentence.
    learn (Callable): Trains the model on some sequences of the texts.
    k (int): Parts of the corpus, or as many as there are different documents.
    decoder (Decoder): That of the second stage, which may learn from these models, too.
    """
    keys, ends, offsets = docs.keys, np.cumsum([0, *docs.sizes]), texts.corpus.data.encoded.offsets
    units, bounds = list(keys), np.searchsorted(offsets, ends)
    if len(set(units)) < 2:  # one document, perhaps in copies
        units = [i for begin, end in pairwise(bounds.tolist()) for i in range(end - begin)]
        bounds = np.arange(len(offsets))
    labels, observed = np.full(ends[-1], MISSING, np.int32), list[Any]()
    parts = folds(units, min(k, len(set(units))), seed) if len(set(units)) > 1 else []
    held = [np.concatenate([np.arange(bounds[i], bounds[i + 1]) for i in part]) for part in parts]
    for sequences, part, posterior in held_out(model, texts, held, learn, "First stage", report):
        tokens = np.concatenate([np.arange(offsets[i], offsets[i + 1]) for i in sequences])
        labels[tokens] = posterior.decode(model.method.decoder, model.method.n_threads)
        if isinstance(decoder, LearnedDecoder):
            observed.append(decoder.observe(posterior, part.known_gold()))
    if isinstance(decoder, LearnedDecoder):
        decoder.learn(observed)
    return {key: labels[begin:end] for key, (begin, end) in zip(keys, pairwise(ends.tolist()), strict=True)}


def teach(
    decoder: CorrectingDecoder,
    model: DocModel,
    texts: TrainingSet,
    learn: Callable[[Offsets], None],
    report: Callable[[str], None],
) -> None:
    """Let a decoder learn from a training corpus by models of a jackknife, where no first stage is trained.

    Arguments as of `jackknife`.
    """
    done = held_out(model, texts, _runs(texts), learn, "Decoder", report)
    decoder.learn([decoder.observe(posterior, part.known_gold()) for _, part, posterior in done])


def judged_parts(
    model: DocModel, texts: TrainingSet, learn: Callable[[Offsets], None], report: Callable[[str], None]
) -> list[JudgedPart]:
    """Return a training corpus with the labels that models of a jackknife give it; arguments as of `teach`."""
    judged = []
    for _, part, posterior in held_out(model, texts, _runs(texts), learn, "Calibration", report):
        offsets = part.encoded.offsets
        text = np.repeat(np.arange(len(offsets) - 1, dtype=np.int32), np.diff(offsets))
        judged.append(JudgedPart(posterior, part.known_gold(), text))
    return judged


def _runs(texts: TrainingSet) -> list[Offsets]:
    """Return the parts of a jackknife, runs of neighbours, so that few documents are in two; none of one sequence."""
    parts = [part for part in np.array_split(np.arange(texts.corpus.data.n_sequences), PARTS) if len(part)]
    return parts if len(parts) > 1 else []


def held_out(
    model: DocModel,
    texts: TrainingSet,
    parts: Sequence[Offsets],
    learn: Callable[[Offsets], None],
    name: str,
    report: Callable[[str], None],
) -> Iterator[tuple[Offsets, Dataset, Posterior]]:
    """Yield the sequences of each part of a corpus, their data, and their labels by a model of the other parts.

    learn (Callable): Trains the model on some sequences of the texts.
    name (str): For whom, in the report.
    """
    everything = np.arange(texts.corpus.data.n_sequences)
    for number, sequences in enumerate(parts, 1):
        report(f"{name}: part {number} of {len(parts)} is labelled by a model of the others")
        learn(np.setdiff1d(everything, sequences))
        part = texts.take(sequences).numbered(model)
        yield sequences, part.corpus.data, posterior_of(model, part)


def posterior_of(model: DocModel, texts: TrainingSet) -> Posterior:
    """Return the distribution of a model's labels for the training corpus of texts that it was made of."""
    _, renumbered = texts.collector.frozen(model.crf.keys, model.encoder.dictionary_words)
    encoded = renumbered(texts.corpus.data.encoded)
    return model.crf.posterior(encoded, model.labels.constraints, rules=model.rules)
