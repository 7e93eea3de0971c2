"""From a compiled training set to a model of zero weights: its features, its layout, its tag dictionary.

`carry_over` gives such a model the weights of another.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .. import threads
from ..features.encoder import Encoded, Encoder
from ..model import LinearChainCRF
from ..potentials.layout import Layout, make_layout
from ..potentials.rows import Rows, cells, used_rows
from ..potentials.tag_dictionary import TagDictionary, make_dictionary
from ..training.compatibility import needs_labels
from ..training.dataset import Dataset, join
from ..training.selection import most_informative
from ..types import Constraints, Hashes, Ints, SupportPotential
from .encode import EncodedCorpus
from .settings import Method
from .terms import TermData


def build_model(
    method: Method,
    encoder: Encoder,
    found: EncodedCorpus,
    data: Dataset,
    tags: Sequence[str],
    constraints: Constraints,
    terms: Sequence[TermData] = (),
    old: LinearChainCRF | None = None,
) -> tuple[LinearChainCRF, Dataset, list[TermData]]:
    """End the growth of the encoder; return the model, and the data and terms with their final ids.

    found (EncodedCorpus): The training set as it was compiled; its labels may be numbers of other tags.
    data (Dataset): The same, its labels the numbers of `tags`.
    old (LinearChainCRF | None): A model with the same labels and potentials, whose features are the encoder's first
        ones: the new one has its weights and its tag dictionary, too.
    """
    layout = _choose_weights(method, encoder, found, data, len(tags), terms)
    if old is not None:
        layout = layout.united(old.layout)
    texts = [data.encoded, *(term.data.encoded for term in terms)]
    known = None if old is None else old.dictionary
    dictionary, (encoded, *others) = _choose_words(method, encoder, texts, data.gold, constraints, known)
    terms = [term._replace(data=term.data._replace(encoded=other)) for term, other in zip(terms, others, strict=True)]
    keys = encoder.unigrams.index.keys, encoder.bigrams.index.keys
    templates = encoder.unigrams.template_of, encoder.bigrams.template_of
    added = tuple(method.potentials.values())
    for number, one in enumerate(added):
        if isinstance(one, SupportPotential):
            one.bind(encoded, number)
            if old is not None and (known_keys := old.small[number].keys) is not None:
                one.from_state(np.union1d(one.to_state(), known_keys))
    theta = np.zeros(layout.size + sum(one.size(len(tags)) for one in added), method.precision)
    crf = LinearChainCRF(tags, layout, theta, keys, dictionary, templates, added)
    if old is not None:
        carry_over(old, crf)
    return crf, data._replace(encoded=encoded), terms


def _choose_weights(
    method: Method, encoder: Encoder, found: EncodedCorpus, data: Dataset, n_labels: int, terms: Sequence[TermData]
) -> Layout:
    """Return the layout, with the ids of all texts its rows."""
    known, seen = data._replace(encoded=found.known), [data.encoded, *(term.data.encoded for term in terms)]
    texts = [found.known, *(term.found.known for term in terms)]
    encoder.freeze(texts, method.min_count)
    encoder.renumber([*texts, *seen])
    layout = layout_for(method, encoder, known, n_labels, terms)
    if not method.max_features:
        return layout
    layout = most_informative(layout, known, method.max_features, method.n_threads or threads.available())
    encoder.unigrams.keep(used_rows(layout.unigrams))
    encoder.bigrams.keep(used_rows(layout.bigrams))
    encoder.renumber([*texts, *seen])
    return layout.without_empty()


def layout_for(
    method: Method, encoder: Encoder, data: Dataset, n_labels: int, terms: Sequence[TermData] = ()
) -> Layout:
    """Return the layout of the weights of a model for a training set and terms that the encoder has encoded.

    With support = "observed", features of texts without labels have weights for all labels, because any label is
    possible there; those seen only with labels keep to the labels seen.
    """
    labelled = [data, *(term.data._replace(encoded=term.found.known) for term in terms if term.labelled)]
    observed = join([part.observed() for part in labelled])
    blocks = encoder.unigrams, encoder.bigrams
    texts = [term.found.known[:2] for term in terms if not needs_labels(term.settings.loss)]
    unlabelled = None
    if texts:
        there = [
            np.sum([block.count(ids) for ids in each], axis=0) > 0
            for block, each in zip(blocks, zip(*texts, strict=True), strict=True)
        ]
        unlabelled = there[0], there[1]
    return make_layout(
        observed.encoded, observed.gold, n_labels, (blocks[0].index.size, blocks[1].index.size),
        support=method.support, boundaries=method.boundaries, transitions=method.transitions, unlabelled=unlabelled,
    )  # fmt: skip


def _choose_words(
    method: Method,
    encoder: Encoder,
    texts: list[Encoded],
    gold: Ints,
    constraints: Constraints,
    old: TagDictionary | None,
) -> tuple[TagDictionary | None, list[Encoded]]:
    """Return the tag dictionary of the first text, and all texts with the numbers of its words."""
    if encoder.words is None or texts[0].words is None:
        return None, texts
    limits = method.tag_dictionary_size, method.tag_dictionary_min_count
    hashes = encoder.words.keys
    dictionary, _ = make_dictionary(hashes, texts[0].words, gold, constraints, *limits)
    if old is not None:
        dictionary = dictionary.united(old, hashes, texts[0].words, gold)
    encoder.words = dictionary.word_index()
    places = np.append(encoder.words.find(hashes)[0], np.int32(-1))  # the last is for -1
    return dictionary, [text._replace(words=places[text.words]) for text in texts]


def carry_over(old: LinearChainCRF, new: LinearChainCRF) -> None:
    """Write the weights of one model to another with the same labels, as far as that has their features."""
    blocks = ((model.layout.unigrams, model.layout.bigrams) for model in (old, new))
    each = zip(zip(*blocks, strict=True), zip(old.keys, new.keys, strict=True), old.views, new.views, strict=False)
    for (rows, new_rows), keys, weights, new_weights in each:
        source, target = _common_weights(rows, new_rows, *keys)
        new_weights[target] = weights[source]
    for weights, new_weights in list(zip(old.views, new.views, strict=True))[2:]:
        new_weights[...] = weights
    views = zip(old.added_views, new.added_views, strict=True)
    for before, after, (own, target) in zip(old.small, new.small, views, strict=True):
        if before.keys is not None and after.keys is not None:
            _, source, places = np.intersect1d(before.keys, after.keys, assume_unique=True, return_indices=True)
            target.reshape(-1, len(new.labels))[places] = own.reshape(-1, len(old.labels))[source]
        elif len(own) == len(target):
            target[:] = own


def _common_weights(
    rows: Rows, new_rows: Rows, keys: Hashes, new_keys: Hashes
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the places in two blocks of the weights that both have."""
    _, here, there = np.intersect1d(keys, new_keys, assume_unique=True, return_indices=True)
    moved = np.full(len(keys), -1, np.int64)
    moved[here] = there
    old_cells, new_cells = cells(rows), cells(new_rows)
    row, column = np.divmod(old_cells, max(1, rows.width))
    wanted = np.where(moved[row] >= 0, moved[row] * rows.width + column, -1)
    target = np.searchsorted(new_cells, wanted)
    source = np.flatnonzero(np.append(new_cells, -2)[target] == wanted)
    return source, target[source]
