"""From collected texts to a model: features, layout, tag dictionary; weights of zero, or those of a trained model."""

from __future__ import annotations

import numpy as np

from .. import threads
from ..model import LinearChainCRF
from ..potentials.layout import Layout, make_layout, used_rows
from ..potentials.tag_dictionary import TagDictionary, make_dictionary
from ..training.compatibility import is_unlabelled, needs_labels
from ..training.dataset import join
from ..training.selection import most_informative
from ..types import Hashes, Ints, SupportPotential
from .corpus_encoder import EncodedCorpus
from .doc_model import DocModel
from .start_from import aligned, carry_over
from .training_set import CollectedTexts, TrainingSet


def build_model(model: DocModel, texts: CollectedTexts, source: DocModel | None) -> tuple[LinearChainCRF, TrainingSet]:
    """End the growth of an encoder; return a model for the tags that were set, and the texts in its numbers.

    source (DocModel | None): A trained model whose features are the encoder's first ones: the new one has its weights
        and its tag dictionary, too.
    """
    method, encoder, tags = model.method, texts.encoder, model.labels.tags
    texts, old = texts.numbered(model), None if source is None else aligned(source, model)
    layout = _choose_weights(model, texts)
    if old is not None:
        layout = layout.united(old.layout)
    dictionary, words = None, texts.corpus.data.encoded.words
    if encoder.words is not None and words is not None:
        before = None if old is None else old.dictionary
        dictionary, texts = _choose_words(model, texts, encoder.words.keys, words, before)
    keys = encoder.unigrams.index.keys, encoder.bigrams.index.keys
    templates = encoder.unigrams.template_of, encoder.bigrams.template_of
    added = tuple(method.potentials.values())
    for number, potential in enumerate(added):
        if isinstance(potential, SupportPotential):
            potential.bind(texts.corpus.data.encoded, number)
            if old is not None and (known_keys := old.small[number].keys) is not None:
                potential.from_state(np.union1d(potential.to_state(), known_keys))
    theta = np.zeros(layout.size + sum(potential.size(len(tags)) for potential in added), method.precision)
    crf = LinearChainCRF(tags, layout, theta, keys, dictionary, templates, added)
    if old is not None:
        carry_over(old, crf)
    numbered = (
        TrainingSet(texts.texts._replace(strings=None, first=None)).with_corpus(texts.corpus).with_terms(texts.terms)
    )
    return crf, numbered


def _choose_weights(model: DocModel, texts: CollectedTexts) -> Layout:
    """Return the layout, with the ids of all texts its rows."""
    method, encoder, first = model.method, texts.encoder, texts.corpus
    everything = [text for corpus in texts.corpora for text in (corpus.known, corpus.data.encoded)]
    encoder.freeze([corpus.known for corpus in texts.corpora], method.min_count)
    encoder.renumber(everything)
    layout = layout_for(model, texts)
    if not method.max_features:
        return layout
    known = first.data._replace(encoded=first.known)
    layout = most_informative(layout, known, method.max_features, method.n_threads or threads.available())
    encoder.unigrams.keep(used_rows(layout.unigrams))
    encoder.bigrams.keep(used_rows(layout.bigrams))
    encoder.renumber(everything)
    return layout.without_empty()


def layout_for(model: DocModel, texts: CollectedTexts) -> Layout:
    """Return the layout of the weights of a model for texts with its labels, which their encoder has met.

    With support = "observed", features of texts without labels have weights for all labels, because any label is
    possible there; those seen only with labels keep to the labels seen.
    """
    method, blocks = model.method, (texts.encoder.unigrams, texts.encoder.bigrams)
    settings = method.each_term(model.name)
    terms = [(corpus, settings[name].loss) for name, corpus in texts.terms.items()]
    labelled = [texts.corpus, *(corpus for corpus, loss in terms if not is_unlabelled(loss))]
    observed = join([corpus.data._replace(encoded=corpus.known).observed() for corpus in labelled])
    free = [corpus.known[:2] for corpus, loss in terms if not needs_labels(loss)]
    unlabelled = None
    if free:
        there = [
            np.sum([block.count(ids) for ids in of_block], axis=0) > 0
            for block, of_block in zip(blocks, zip(*free, strict=True), strict=True)
        ]
        unlabelled = there[0], there[1]
    return make_layout(
        observed.encoded, observed.gold, len(model.labels.tags), (blocks[0].index.size, blocks[1].index.size),
        support=method.support, boundaries=method.boundaries, transitions=method.transitions, unlabelled=unlabelled,
    )  # fmt: skip


def _choose_words(
    model: DocModel, texts: CollectedTexts, hashes: Hashes, words: Ints, old: TagDictionary | None
) -> tuple[TagDictionary, CollectedTexts]:
    """Return the tag dictionary of the training corpus, and all corpora with the numbers of its words.

    hashes, words: Of all words, and for each token [T] of the training corpus the number of its word.
    """
    gold, method = texts.corpus.data.gold, model.method
    limits = method.tag_dictionary_size, method.tag_dictionary_min_count
    dictionary, _ = make_dictionary(hashes, words, gold, model.labels.constraints, *limits)
    if old is not None:
        dictionary = dictionary.united(old, hashes, words, gold)
    texts.encoder.words, places = dictionary.word_index(), dictionary.rows(hashes)

    def moved(corpus: EncodedCorpus) -> EncodedCorpus:
        encoded = corpus.data.encoded
        text = encoded._replace(words=places[encoded.words])
        return corpus._replace(data=corpus.data._replace(encoded=text))

    terms = {name: moved(corpus) for name, corpus in texts.terms.items()}
    return dictionary, texts._replace(corpus=moved(texts.corpus), terms=terms)
