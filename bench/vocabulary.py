"""Growth of the vocabulary: features of running text by its number of tokens, and weights of labelled text."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import pairwise
from math import log
from typing import Any

import numpy as np

from bench import corpora, ours
from bench._harness import Options, Row, benchmark

COUNTS = (1, 2, 5)
"""Values of `min_count`."""


@benchmark("vocabulary", minutes=2)
def vocabulary(options: Options) -> list[Row]:
    """Features of text without labels under the default templates of `crf_ner`, that occur on at least 1, 2 and 5 of
    its tokens (`min_count`). English is Reuters-21578 and the training parts of CoNLL-2000, CoNLL-2003 and UD EWT, the
    sentences shuffled; Spanish is CoNLL-2002. The exponent is that of growth by Heaps' law over the last factor of four
    of the tokens. Weights for observed pairs are counted in labelled corpora."""
    texts = {"English": _english, "Spanish": _spanish, "the generator of memory-scale": _generated}
    rows = [row for name, read in texts.items() for row in _rows(name, _growth(read(options), options.few(50, 2000)))]
    return rows + _weights(options)


def _rows(name: str, points: list[tuple[int, list[int]]]) -> list[Row]:
    """Return the features at the last point, and exponents of growth to it and to a quarter of it."""
    rows, tokens = [], points[-1][0]
    quarters = [next(point for point in points if point[0] >= tokens / 4**n * 0.999) for n in (0, 1, 2)]
    for k, count in enumerate(COUNTS):
        exponents = [
            log(after[1][k] / before[1][k]) / log(after[0] / before[0]) for after, before in pairwise(quarters)
        ]
        label = f"{name}, {tokens / 1e6:.2g} million tokens, min_count {count}"
        rows += [
            Row(f"{label}: features", "features", [float(points[-1][1][k])], kind="value"),
            Row(f"{label}: exponent", "", exponents[:1], kind="value", note=f"{exponents[1]:.3f} before"),
        ]
    return rows


def _growth(sentences: Iterable[list[str]], size: int) -> list[tuple[int, list[int]]]:
    """Return numbers of tokens, each with the numbers of features on at least so many of them as `COUNTS` says."""
    from spacy.tokens import Doc
    from spacy.util import minibatch

    pipe: Any = ours.add(ours.blank(), "crf_ner")
    model = pipe.doc_model
    encoder = model.growing_encoder(strings := {})
    counts, tokens = np.zeros(0, np.int64), 0
    points: list[tuple[int, list[int]]] = []
    for chunk in minibatch(sentences, size):
        docs = [Doc(pipe.vocab, words=words) for words in chunk]
        text = model.reader(strings).read(docs, encoder.columns).text
        ids = encoder.encode(text).unigrams
        padded = ids.counts(encoder.unigrams.index.size)
        padded[: len(counts)] += counts
        counts, tokens = padded, tokens + len(text.orths)
        points.append((tokens, [int((counts >= count).sum()) for count in COUNTS]))
    return points


def _english(options: Options) -> list[list[str]]:
    limit = options.few(500)
    raw = options.corpus("reuters-raw", "reuters.txt").read_text(encoding="utf8").splitlines()
    tokenizer = ours.blank().tokenizer
    sentences = [[token.text for token in tokenizer(line)] for line in raw[: limit or None] if line.strip()]
    for parts in (("conll2000", "train.txt"), ("conll2003", "eng.train")):
        blocks = options.corpus(*parts).read_text(encoding="utf8").split("\n\n")[: limit or None]
        sentences += [[line.split()[0] for line in block.splitlines() if line.strip()] for block in blocks]
    ewt = options.corpus("ud-english-ewt", "en_ewt-ud-train.conllu")
    sentences += [sentence.words for sentence in corpora.read_xpos(ewt, limit)]
    random.Random(0).shuffle(sentences)
    return [sentence for sentence in sentences if sentence]


def _spanish(options: Options) -> list[list[str]]:
    sentences = corpora.read_columns(options.corpus("conll2002", "esp.train"), options.few(500))
    random.Random(0).shuffle(sentences)
    return [sentence.words for sentence in sentences]


def _generated(options: Options) -> Iterator[list[str]]:
    from bench.memory import perturbed

    sentences = corpora.read_columns(options.corpus("conll2000", "train.txt"))
    return (sentence.words for sentence in perturbed(sentences, options.few(20_000, 3_000_000)))


def _weights(options: Options) -> list[Row]:
    """Return the weights for observed pairs of features and labels of three tasks, and their growth."""
    rows = []
    for name, read, build in (
        ("CoNLL-2000 chunks", corpora.chunks, ours.chunker),
        ("CoNLL-2002 Spanish entities", corpora.entities, partial(ours.add, factory="crf_ner")),
        ("UD English EWT, XPOS", corpora.xpos, ours.tagger),
    ):
        nlp = ours.blank("es" if "Spanish" in name else "en")
        examples = list(read(options, nlp, "train", options.few(200)).examples)
        random.Random(0).shuffle(examples)
        sizes = []
        for part in (examples[: len(examples) // 4], examples):
            pipe = build(nlp, support="observed")
            pipe.initialize(lambda part=part: part)
            sizes.append((sum(len(example.predicted) for example in part), len(pipe.crf.keys[0]), len(pipe.crf.theta)))
        (few, _, before), (tokens, features, weights) = sizes
        label = f"{name}, {tokens / 1e6:.2g} million tokens, {len(pipe.tags)} labels"
        exponent = log(weights / before) / log(tokens / few)
        rows += [
            Row(f"{label}: weights", "weights", [float(weights)], kind="value", note=f"{features:,} features"),
            Row(f"{label}: exponent", "", [exponent], kind="value"),
            Row(f"{label}: weights a feature", "", [weights / features], kind="value"),
        ]
    return rows
