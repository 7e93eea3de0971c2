"""From collected texts to a model: features, layout, tag dictionary; weights of zero, or those of a trained model."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from .. import threads
from ..features.encoder import CollectedFeatures
from ..model import LinearChainCRF
from ..potentials.layout import Layout, make_layout, used_rows
from ..potentials.tag_dictionary import TagDictionary, make_dictionary
from ..training.compatibility import is_unlabelled, needs_labels
from ..training.dataset import join
from ..training.selection import most_informative
from ..types import SupportPotential
from .corpus_encoder import EncodedCorpus
from .doc_model import DocModel
from .feature_names import Origins
from .start_from import aligned, carry_over
from .training_set import TrainingSet


def build_model(
    model: DocModel, collected: TrainingSet, source: DocModel | None
) -> tuple[LinearChainCRF, TrainingSet, Origins]:
    """Return a model for the tags that were set, the texts in its numbers, and the origins of its features.

    source (DocModel | None): A trained model whose features have the encoder's first numbers; its weights and its tag
        dictionary are taken over.
    """
    method, tags = model.method, model.labels.tags
    collected, old = collected.numbered(model), None if source is None else aligned(source, model)
    dictionary = _choose_words(model, collected, None if old is None else old.dictionary)
    features, layout, texts = _choose_weights(model, collected, dictionary)
    layout = layout if old is None else layout.united(old.layout)
    added = tuple(method.potentials.values())
    for number, potential in enumerate(added):
        if isinstance(potential, SupportPotential):
            potential.bind(texts.corpus.data.encoded, number)
            if old is not None and (known_keys := old.small[number].keys) is not None:
                potential.from_state(np.union1d(potential.to_state(), known_keys))
    theta = np.zeros(layout.size + sum(potential.size(len(tags)) for potential in added), method.precision)
    templates = features[0].templates, features[1].templates
    crf = LinearChainCRF(tags, layout, theta, texts.example_encoder.encoder.keys, dictionary, templates, added)
    if old is not None:
        carry_over(old, crf)
    origins = Origins(features, collected.example_encoder.strings or {}, model.vocab_in_use.vocab)
    return crf, texts.as_predicted(), origins


def _choose_words(model: DocModel, collected: TrainingSet, old: TagDictionary | None) -> TagDictionary | None:
    """Return the tag dictionary of the training corpus, None if the method has none."""
    index, data, method = collected.collector.dictionary_words, collected.corpus.data, model.method
    if index is None or data.encoded.dictionary_ids is None:
        return None
    seen = index.keys, data.encoded.dictionary_ids, data.gold
    limits = method.tag_dictionary_size, method.tag_dictionary_min_count
    dictionary, _ = make_dictionary(*seen, model.labels.constraints, *limits)
    return dictionary if old is None else dictionary.united(old, *seen)


def _choose_weights(
    model: DocModel, collected: TrainingSet, dictionary: TagDictionary | None
) -> tuple[tuple[CollectedFeatures, CollectedFeatures], Layout, TrainingSet]:
    """Return the features that a model keeps, the layout of their weights, and the texts in their numbers.

    These features have enough tokens, and of them the most informative are kept if the method limits them.
    """
    method, words = model.method, None if dictionary is None else dictionary.word_index()

    def in_numbers_of(features: tuple[CollectedFeatures, CollectedFeatures]) -> TrainingSet:
        return collected.renumbered(*collected.collector.frozen((features[0].keys, features[1].keys), words))

    features = collected.collector.frequent([corpus.complete for corpus in collected.corpora], method.min_count)
    texts = in_numbers_of(features)
    layout = layout_for(model, texts.corpus, texts.terms, (len(features[0].keys), len(features[1].keys)))
    if not method.max_features:
        return features, layout, texts
    data = texts.corpus.data._replace(encoded=texts.corpus.complete)
    layout = most_informative(layout, data, method.max_features, method.n_threads or threads.available())
    kept = features[0].only(used_rows(layout.unigrams)), features[1].only(used_rows(layout.bigrams))
    return kept, layout.without_empty(), in_numbers_of(kept)


def layout_for(
    model: DocModel,
    corpus: EncodedCorpus,
    terms: Mapping[str, EncodedCorpus],
    n_features: tuple[int, int],
    support: str | None = None,
) -> Layout:
    """Return the layout of the weights of a model for texts with the numbers of its labels and features.

    With support = "observed", features of texts without labels have weights for all labels, because any label is
    possible there; those seen only with labels keep to the labels seen.
    n_features (tuple[int, int]): Of both blocks.
    support (str | None): In place of the setting of the method.
    """
    method, settings = model.method, model.method.each_term(model.name)
    losses = [(texts, settings[name].loss) for name, texts in terms.items()]
    labelled = [corpus, *(texts for texts, loss in losses if not is_unlabelled(loss))]
    observed = join([texts.data._replace(encoded=texts.complete).observed() for texts in labelled])
    free = [texts.complete[:2] for texts, loss in losses if not needs_labels(loss)]
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
