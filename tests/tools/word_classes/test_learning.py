"""Word classes against plain counting, a plain exchange algorithm, and gains computed from scratch."""

import random
from collections import Counter
from itertools import chain, combinations, pairwise
from math import log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_crfseq.errors import DataError
from spacy_crfseq.tools.word_classes import kernels
from spacy_crfseq.tools.word_classes import learning as module
from spacy_crfseq.tools.word_classes.learning import (
    BigramCounter,
    Bigrams,
    Exchange,
    covered,
    cut,
    merge,
    paths_of,
)

GRAMMAR = [["the", "a", "this"], ["old", "red", "odd", "tall"], ["dog", "cat", "bird", "man", "tree"], ["sees", "eats"]]
Text = list[list[str]]


def sentences(n: int, seed: int = 0) -> Text:
    rng = random.Random(seed)
    texts = []
    for _ in range(n):
        determiner, adjective, noun, verb = (rng.choice(part) for part in GRAMMAR)
        subject = [determiner, adjective, noun] if rng.random() < 0.4 else [determiner, noun]
        clause = [*subject, verb, rng.choice(GRAMMAR[0]), rng.choice(GRAMMAR[2])]
        texts.append(clause if rng.random() < 0.9 else rng.sample([*chain(*GRAMMAR)], 4))
    return texts


def count(texts: Text, min_count: int = 1) -> Bigrams:
    counter = BigramCounter()
    for words in texts:
        counter.add(words)
    return counter.bigrams(min_count, 10_000)


def likelihood(bigrams: Bigrams, classes: list[int]) -> float:
    """Return log p of the text by the probabilities of the model, from its definition."""
    words, contexts, steps = Counter[int](), Counter[int](), Counter[tuple[int, int]]()
    for (a, b), n in zip(bigrams.pairs.tolist(), bigrams.times.tolist(), strict=True):
        words[b] += n
        contexts[classes[a]] += n
        steps[classes[a], classes[b]] += n
    total = 0.0
    for (a, b), n in zip(bigrams.pairs.tolist(), bigrams.times.tolist(), strict=True):
        # p(class | class before) p(word | class): a class occurs as often before a bigram as in its second place
        step = steps[classes[a], classes[b]] / contexts[classes[a]]
        total += n * log(step * words[b] / contexts[classes[b]])
    return total


def test_counts_are_those_of_plain_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BUFFER", 20)  # many flushes
    texts = sentences(30)
    counts = count(texts, min_count=5)
    tokens = Counter(chain.from_iterable(texts))
    assert dict(zip(counts.words, counts.counts.tolist(), strict=False)) == {w: n for w, n in tokens.items() if n >= 5}
    assert (counts.coverage.tokens, counts.coverage.types) == (tokens.total(), len(tokens))
    names = [*counts.words, "END", "RARE"]
    expected: Counter[tuple[str, str]] = Counter()
    for words in texts:
        frequent = ["END", *(word if tokens[word] >= 5 else "RARE" for word in words), "END"]
        expected.update(pairwise(frequent))
    pairs = [(names[a], names[b]) for a, b in counts.pairs.tolist()]
    assert dict(zip(pairs, counts.times.tolist(), strict=True)) == expected
    assert counts.coverage == covered(texts, counts.words)
    with pytest.raises(DataError, match="occurs 999 times"):
        count(texts, min_count=999)
    with pytest.raises(DataError, match="there are 0 different"):
        count([])


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(st.sampled_from("abcdefg"), min_size=1, max_size=9), min_size=3, max_size=12), st.data())
def test_the_gain_of_each_move_and_the_counts_after_it(texts: list[list[str]], data: st.DataObject) -> None:
    bigrams = count(texts, min_count=2 if max(Counter(chain.from_iterable(texts)).values()) > 1 else 1)
    n_words = len(bigrams.words)
    n_classes = data.draw(st.integers(1, n_words))
    start = data.draw(st.lists(st.integers(0, n_classes - 1), min_size=n_words, max_size=n_words))
    exchange = Exchange(bigrams, n_classes, np.array(start, np.int32))
    assert exchange.objective == pytest.approx(likelihood(bigrams, exchange.classes.tolist()), abs=1e-8)
    word = np.array([data.draw(st.integers(0, n_words - 1))], np.int32)
    state = (exchange.neighbours, bigrams.counts, exchange.classes, exchange.both, exchange.sizes, exchange.table)
    values = []
    for c in range(n_classes):
        other = Exchange(bigrams, n_classes, np.where(np.arange(n_words) == word, c, start).astype(np.int32))
        values.append(other.objective)
    best = np.array([-1], np.int32)
    kernels.propose(word, best, *state)
    assert values[best[0]] == pytest.approx(max(values), abs=1e-8)
    before = exchange.objective
    moved, gain = kernels.move(word, best, *state)
    assert before + gain == pytest.approx(exchange.objective, abs=1e-8)
    assert exchange.objective == pytest.approx(max(values) if moved else before, abs=1e-6)
    scratch = Exchange(bigrams, n_classes, exchange.classes[:-2])
    assert np.array_equal(exchange.both, scratch.both)
    assert np.array_equal(exchange.sizes, scratch.sizes)


def test_classes_are_those_of_the_grammar_whatever_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK", 12)
    bigrams, result = count(sentences(150)), []
    for n_threads in (1, 3):
        exchange = Exchange(bigrams, 4)
        assert sum(exchange.pass_over(n_threads) for _ in range(5)) >= 10
        result.append((exchange.classes.tolist(), merge(exchange, n_threads).tolist()))
    assert result[0] == result[1]
    class_of = dict(zip(bigrams.words, result[0][0], strict=False))
    assert len({class_of[part[0]] for part in GRAMMAR}) == len(GRAMMAR)
    assert all(class_of[word] == class_of[part[0]] for part in GRAMMAR for word in part)


def test_each_merge_is_the_one_that_costs_least() -> None:
    bigrams = count(sentences(40, 3), min_count=2)
    exchange = Exchange(bigrams, 7)
    exchange.pass_over(1)
    tree = merge(exchange, 2)
    classes, names = exchange.classes[:-2], {c: c for c in range(7)}
    for m, (a, b) in enumerate(tree.tolist()):
        costs = {}
        for first, other in combinations(sorted(names), 2):
            merged = np.where(classes == names[other], names[first], classes)
            costs[first, other] = Exchange(bigrams, 7, merged).objective
        pair = (min(a, b), max(a, b))
        assert costs[pair] == pytest.approx(max(costs.values()), abs=1e-8)
        classes = np.where(classes == names[b], names[a], classes)
        names[7 + m] = names.pop(a)
        del names[b]
        left = cut(tree, 6 - m)[exchange.classes[:-2]]
        assert len(set(zip(left.tolist(), classes.tolist(), strict=True))) == len(set(left.tolist())) == 6 - m
    paths = paths_of(tree)
    assert not any(first != other and other.startswith(first) for first in paths for other in paths)
    assert sum(0.5 ** len(path) for path in paths) == 1  # a full binary tree


@pytest.mark.parametrize("seed", range(6))
def test_learning_ends_where_no_move_gains_anything(seed: int) -> None:
    bigrams = count(sentences(12, seed))
    exchange = Exchange(bigrams, 4)
    while exchange.pass_over(1):
        pass
    classes, best = exchange.classes.tolist(), exchange.objective
    for word in range(len(bigrams.words)):
        for c in range(4):
            assert likelihood(bigrams, [*classes[:word], c, *classes[word + 1 :]]) <= best + 1e-6
