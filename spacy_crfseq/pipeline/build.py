"""From collected texts to a model: features, layout, tag dictionary; weights of zero, or those of a trained model."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .. import threads
from ..features.encoder import CollectedFeatures, FrozenEncoder
from ..model import LinearChainCRF
from ..potentials.layout import Layout, make_layout, used_rows
from ..potentials.tag_dictionary import TagDictionary, make_dictionary
from ..training.compatibility import is_unlabelled, needs_labels
from ..training.dataset import join
from ..training.selection import most_informative
from ..types import SupportPotential
from .doc_model import DocModel
from .start_from import aligned, carry_over
from .training_set import CollectedTexts, EncodedTexts, TrainingSet


class BuiltModel(NamedTuple):
    """A model for collected texts, these texts in its numbers with their encoder, and the origins of its features."""

    crf: LinearChainCRF
    data: TrainingSet
    encoder: FrozenEncoder
    features: tuple[CollectedFeatures, CollectedFeatures]


def build_model(model: DocModel, collected: CollectedTexts, source: DocModel | None) -> BuiltModel:
    """Return a model for the tags that were set.

    source (DocModel | None): A trained model whose features have the encoder's first numbers; its weights and its tag
        dictionary are taken over.
    """
    method, tags = model.method, model.labels.tags
    collected, old = collected.numbered(model), None if source is None else aligned(source, model)
    dictionary = _choose_words(model, collected, None if old is None else old.dictionary)
    chosen = _choose_weights(model, collected, dictionary)
    layout = chosen.layout if old is None else chosen.layout.united(old.layout)
    added = tuple(method.potentials.values())
    for number, potential in enumerate(added):
        if isinstance(potential, SupportPotential):
            potential.bind(chosen.texts.corpus.data.encoded, number)
            if old is not None and (known_keys := old.small[number].keys) is not None:
                potential.from_state(np.union1d(potential.to_state(), known_keys))
    theta = np.zeros(layout.size + sum(potential.size(len(tags)) for potential in added), method.precision)
    templates = chosen.features[0].templates, chosen.features[1].templates
    crf = LinearChainCRF(tags, layout, theta, chosen.encoder.keys, dictionary, templates, added)
    if old is not None:
        carry_over(old, crf)
    texts = collected.texts._replace(encoder=chosen.encoder, strings=None, first=None)
    data = TrainingSet(texts).with_corpus(chosen.texts.corpus).with_terms(chosen.texts.terms)
    return BuiltModel(crf, data, chosen.encoder, chosen.features)


def _choose_words(model: DocModel, collected: CollectedTexts, old: TagDictionary | None) -> TagDictionary | None:
    """Return the tag dictionary of the training corpus, None if the method has none."""
    index, data, method = collected.encoder.words, collected.corpus.data, model.method
    if index is None or data.encoded.words is None:
        return None
    seen = index.keys, data.encoded.words, data.gold
    limits = method.tag_dictionary_size, method.tag_dictionary_min_count
    dictionary, _ = make_dictionary(*seen, model.labels.constraints, *limits)
    return dictionary if old is None else dictionary.united(old, *seen)


class ChosenWeights(NamedTuple):
    """The features that a model keeps, their encoder, the layout of their weights, and texts in their numbers."""

    features: tuple[CollectedFeatures, CollectedFeatures]
    encoder: FrozenEncoder
    layout: Layout
    texts: EncodedTexts


def _choose_weights(model: DocModel, collected: CollectedTexts, dictionary: TagDictionary | None) -> ChosenWeights:
    """Return the features with enough tokens, and of these the most informative ones if the method limits them."""
    method = model.method

    def chosen(unigrams: CollectedFeatures, bigrams: CollectedFeatures, layout: Layout | None = None) -> ChosenWeights:
        words = None if dictionary is None else dictionary.word_index()
        encoder, renumbered = collected.encoder.frozen((unigrams.keys, bigrams.keys), words)
        texts = collected.encoded.renumbered(renumbered)
        layout = layout or layout_for(model, texts, (len(unigrams.keys), len(bigrams.keys)))
        return ChosenWeights((unigrams, bigrams), encoder, layout, texts)

    known = [corpus.known for corpus in collected.encoded.corpora]
    frequent = chosen(*collected.encoder.frequent(known, method.min_count))
    if not method.max_features:
        return frequent
    corpus, n_threads = frequent.texts.corpus, method.n_threads or threads.available()
    data = corpus.data._replace(encoded=corpus.known)
    layout = most_informative(frequent.layout, data, method.max_features, n_threads)
    unigrams, bigrams = frequent.features
    kept = unigrams.only(used_rows(layout.unigrams)), bigrams.only(used_rows(layout.bigrams))
    return chosen(*kept, layout.without_empty())


def layout_for(model: DocModel, texts: EncodedTexts, n_features: tuple[int, int], support: str | None = None) -> Layout:
    """Return the layout of the weights of a model for texts with the numbers of its labels and features.

    With support = "observed", features of texts without labels have weights for all labels, because any label is
    possible there; those seen only with labels keep to the labels seen.
    n_features (tuple[int, int]): Of both blocks.
    support (str | None): In place of the setting of the method.
    """
    method, settings = model.method, model.method.each_term(model.name)
    terms = [(corpus, settings[name].loss) for name, corpus in texts.terms.items()]
    labelled = [texts.corpus, *(corpus for corpus, loss in terms if not is_unlabelled(loss))]
    observed = join([corpus.data._replace(encoded=corpus.known).observed() for corpus in labelled])
    free = [corpus.known[:2] for corpus, loss in terms if not needs_labels(loss)]
    unlabelled = None
    if free:
        there = [
            np.sum([ids.counts(n) for ids in of_block], axis=0) > 0
            for n, of_block in zip(n_features, zip(*free, strict=True), strict=True)
        ]
        unlabelled = there[0], there[1]
    return make_layout(
        observed.encoded, observed.gold, len(model.labels.tags), n_features,
        support=support or method.support, boundaries=method.boundaries, transitions=method.transitions,
        unlabelled=unlabelled,
    )  # fmt: skip
