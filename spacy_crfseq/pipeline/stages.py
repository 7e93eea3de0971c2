"""The labels that a first stage gives to the training corpus of the second one.

A model labels its own training texts too well to show a second stage what to expect of new ones.  So the corpus is
labelled in parts, each by a first stage that was trained on the others: the jackknife of Cohen & Carvalho (2005),
"Stacked sequential learning", section 2.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np
from spacy.training import Example

from ..training.dataset import folds
from ..types import MISSING, Ints, Offsets
from .prediction import doc_key


class Noted:
    """Examples that are noted as they are read once: the keys and sizes of their predicted Docs."""

    def __init__(self, examples: Iterable[Example]) -> None:
        self._examples = examples
        self.keys: list[int] = []
        self.sizes: list[int] = []

    def __iter__(self) -> Iterator[Example]:
        for example in self._examples:
            # what is no example is refused where it is encoded; an empty Doc is no document to learn from
            if isinstance(example, Example) and len(example.predicted):
                self.keys.append(doc_key(example.predicted))
                self.sizes.append(len(example.predicted))
            yield example


def jackknife(
    offsets: Offsets,
    texts: Noted,
    label: Callable[[Offsets, Offsets], Ints],
    k: int,
    seed: int,
    report: Callable[[str], None],
) -> dict[int, Ints]:
    """Return the labels of the Docs of a corpus, by their keys: of each by a first stage that has not seen it.

    A document is split if it is the only one.  Labels are `MISSING` if there is but one sentence.
    offsets (Offsets): [N + 1] starts of the sequences of the corpus.
    texts (Noted): The corpus, which has been read.
    label (Callable): Labels sequences by a model that was trained on others; takes the numbers of both.
    k (int): Parts of the corpus, or as many as there are different documents.
    report (Callable): Called with a line of progress before each part.
    """
    ends = np.cumsum([0, *texts.sizes])
    units: Sequence[Hashable] = texts.keys
    bounds = np.searchsorted(offsets, ends)
    if len(set(units)) < 2:  # one document, perhaps in copies
        units = [i for begin, end in pairwise(bounds.tolist()) for i in range(end - begin)]
        bounds = np.arange(len(offsets))
    labels, n_sequences = np.full(ends[-1], MISSING, np.int32), len(offsets) - 1
    parts = folds(units, min(k, len(set(units))), seed) if len(set(units)) > 1 else []
    for number, held in enumerate(parts, 1):
        report(f"First stage: part {number} of {len(parts)} is labelled by a model of the others")
        sequences = np.concatenate([np.arange(bounds[i], bounds[i + 1]) for i in held])
        tokens = np.concatenate([np.arange(offsets[bounds[i]], offsets[bounds[i + 1]]) for i in held])
        labels[tokens] = label(sequences, np.setdiff1d(np.arange(n_sequences), sequences))
    return {key: labels[begin:end] for key, (begin, end) in zip(texts.keys, pairwise(ends.tolist()), strict=True)}
