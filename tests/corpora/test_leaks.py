"""Which sentences of two corpora are the same, by keys of their words."""

import numpy as np

from spacy_crfseq.corpora.leaks import COMPARED, leak, sentence_keys


def test_sentences_are_the_same_if_their_words_are_in_the_same_order() -> None:
    rng = np.random.default_rng(0)
    lengths = rng.integers(0, 12, 400)
    sentences = [tuple(rng.choice(["a", "b"], length)) for length in lengths]
    train, dev = sentences[:200], sentences[200:]
    compared = [sentence for sentence in dev if len(sentence) >= COMPARED]
    same = sum(sentence in set(train) for sentence in compared)
    assert 0 < same < len(compared)
    assert leak(sentence_keys(train), sentence_keys(dev)) == (same, len(compared))
    assert leak(sentence_keys([]), sentence_keys([])).share == 0
    ending = [(*sentence, "\n") for sentence in compared]
    assert leak(sentence_keys(compared), sentence_keys(ending)).share == 1
