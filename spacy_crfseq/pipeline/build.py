"""From a compiled training set to a model of zero weights: its features, its layout, its tag dictionary."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .. import threads
from ..features.encoder import Encoded, Encoder
from ..model import LinearChainCRF
from ..potentials.layout import Layout, make_layout
from ..potentials.rows import used_rows
from ..potentials.tag_dictionary import TagDictionary, make_dictionary
from ..training.dataset import Dataset
from ..training.selection import most_informative
from ..types import Constraints, Ints
from .encode import EncodedCorpus
from .settings import Method


def build_model(
    method: Method, encoder: Encoder, found: EncodedCorpus, data: Dataset, tags: Sequence[str], constraints: Constraints
) -> tuple[LinearChainCRF, Dataset]:
    """End the growth of the encoder; return the model, and the data with their final ids.

    found (EncodedCorpus): The training set as it was compiled; its labels may be numbers of other tags.
    data (Dataset): The same, its labels the numbers of `tags`.
    """
    layout, encoded = _choose_weights(method, encoder, found, data, len(tags))
    dictionary, encoded = _choose_words(method, encoder, encoded, data.gold, constraints)
    keys = encoder.unigrams.index.keys, encoder.bigrams.index.keys
    templates = encoder.unigrams.template_of, encoder.bigrams.template_of
    added = tuple(method.potentials.values())
    theta = np.zeros(layout.size + sum(one.size(len(tags)) for one in added), method.precision)
    return LinearChainCRF(tags, layout, theta, keys, dictionary, templates, added), data._replace(encoded=encoded)


def _choose_weights(
    method: Method, encoder: Encoder, found: EncodedCorpus, data: Dataset, n_labels: int
) -> tuple[Layout, Encoded]:
    known = encoder.freeze(found.known, method.min_count)
    encoded = known if found.known is data.encoded else encoder.renumbered(data.encoded)
    observed = data._replace(encoded=known).observed()
    layout = make_layout(
        observed.encoded,
        observed.gold,
        n_labels,
        (encoder.unigrams.index.size, encoder.bigrams.index.size),
        support=method.support,
        boundaries=method.boundaries,
        transitions=method.transitions,
    )
    if not method.max_features:
        return layout, encoded
    n_threads = method.n_threads or threads.available()
    layout = most_informative(layout, data._replace(encoded=known), method.max_features, n_threads)
    selected = encoder.keep(known, (used_rows(layout.unigrams), used_rows(layout.bigrams)))
    return layout.without_empty(), selected if encoded is known else encoder.renumbered(encoded)


def _choose_words(
    method: Method, encoder: Encoder, encoded: Encoded, gold: Ints, constraints: Constraints
) -> tuple[TagDictionary | None, Encoded]:
    if encoder.words is None or encoded.words is None:
        return None, encoded
    limits = {"size": method.tag_dictionary_size, "min_count": method.tag_dictionary_min_count}
    dictionary, words = make_dictionary(encoder.words.keys, encoded.words, gold, constraints, **limits)
    encoder.words = dictionary.word_index()
    return dictionary, encoded._replace(words=words)
