"""Answers of a pipeline from all labellings of a document, one by one."""

import itertools
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from spacy.language import Language
from spacy.tokens import Doc

from spacy_crfseq.schemes import find_invalid
from tests.pipeline.helpers import pipe_of


@lru_cache
def valid_paths(tags: tuple[str, ...], scheme: str, length: int) -> list[tuple[int, ...]]:
    """Return the numbers of the tags of all label sequences of a length that a scheme allows."""
    paths = itertools.product(range(len(tags)), repeat=length)
    return [path for path in paths if find_invalid([tags[k] for k in path], scheme) is None]


def enumerated(
    nlp: Language, doc: Doc, keep: Callable[[Sequence[str]], bool] = lambda tags: True
) -> tuple[list[list[str]], np.ndarray]:
    """Return all valid label sequences that are kept, as tags, and their probabilities, from the scores alone."""
    pipe = pipe_of(nlp)
    emissions, views = pipe.model.predict([doc])[0].astype(np.float64), pipe.crf.views
    scheme = getattr(pipe.annotation, "scheme", None) or "plain"
    tagged, kept = [], []
    for path in valid_paths(tuple(pipe.tags), scheme, len(doc)):
        tags = [pipe.tags[k] for k in path]
        if keep(tags):
            tagged.append(tags)
            kept.append(path)
    paths = np.array(kept)
    scores = emissions[np.arange(len(doc)), paths].sum(1) + views.start[paths[:, 0]] + views.end[paths[:, -1]]
    scores += views.transitions[paths[:, :-1], paths[:, 1:]].sum(1, dtype=np.float64)
    weights = np.exp(scores - scores.max())
    return tagged, weights / weights.sum()


def marginals_of(nlp: Language, tagged: list[list[str]], probabilities: np.ndarray) -> np.ndarray:
    tags = pipe_of(nlp).tags
    columns = np.array(tagged).T
    return np.array([[probabilities[column == tag].sum() for tag in tags] for column in columns])
