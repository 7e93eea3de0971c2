"""Corpora of the experiments as examples: through readers of configs, NetTalk, and columns of other observations."""

from __future__ import annotations

import random
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from scripts.papers._harness import Options, resolve

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.training import Example

Examples = Sequence["Example"]
OBSERVATIONS = {"part": "LEMMA", "chunk": "NORM"}
"""The token attribute that holds each observation beside the word, so that templates can read it."""


def read(nlp: Language, options: Options, settings: Mapping[str, Any], part: str, limit: int = 0) -> list[Example]:
    """Return a part of a corpus through the reader that a config names; `limit` sentences, 0 for all."""
    path = options.corpus(settings["files"][part])
    reader = resolve({"reader": {**settings["reader"], "path": str(path), "limit": limit}})["reader"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # each CoNLL-2002 file has one odd tag
        return list(reader(nlp))


def read_parts(nlp: Language, options: Options, settings: Mapping[str, Any], few: int) -> dict[str, list[Example]]:
    """Return all parts of a corpus by name; `few` sentences of each in a quick run."""
    return {part: read(nlp, options, settings, part, options.few(few)) for part in settings["files"]}


def read_nettalk(path: Path) -> list[tuple[str, str]]:
    """Return words and their phonemes, one symbol per letter.

    RAISES ValueError: Where a word and its phonemes differ in length.
    """
    pairs = []
    for number, line in enumerate(path.read_text(encoding="utf8").splitlines(), start=1):
        if not line.strip():
            continue
        word, phonemes = line.split("\t")[:2]
        if len(word) != len(phonemes):
            raise ValueError(f"{path}, line {number}: {word!r} has {len(word)} letters, {len(phonemes)} phonemes.")
        pairs.append((word, phonemes))
    return pairs


def split_words(pairs: Sequence[tuple[str, str]], shares: Sequence[float], seed: int) -> list[list[tuple[str, str]]]:
    """Split entries at random, all entries of a word together; the last part gets what the shares leave."""
    words = sorted({word for word, _ in pairs})
    random.Random(seed).shuffle(words)
    bounds = [round(share * len(words)) for share in np.cumsum([0.0, *shares])] + [len(words)]
    part_of = {word: part for part, first in enumerate(bounds[:-1]) for word in words[first : bounds[part + 1]]}
    parts: list[list[tuple[str, str]]] = [[] for _ in bounds[1:]]
    for pair in pairs:
        parts[part_of[pair[0]]].append(pair)
    return parts


def as_examples(nlp: Language, sequences: Sequence[tuple[Sequence[str], Sequence[str]]]) -> list[Example]:
    """Return sequences of symbols and labels as examples of a tagger.

    The lemma of the first symbol is the symbol itself, the others have none: a feature of the lemma is one of the
    first position alone, where no label comes before.
    """
    from spacy.tokens import Doc
    from spacy.training import Example

    made = []
    for symbols, labels in sequences:
        lemmas = [symbols[0], *[""] * (len(symbols) - 1)]
        given = Doc(nlp.vocab, words=list(symbols), lemmas=lemmas)
        made.append(Example(given, Doc(nlp.vocab, words=list(symbols), tags=list(labels))))
    return made


def read_columns(nlp: Language, path: Path, columns: Sequence[str], limit: int = 0) -> list[Any]:
    """Return the sentences of a file as examples of a tagger whose tags are the labels; `limit` sentences, 0 for all.

    columns (Sequence[str]): Names of its columns: word, label, and names of `OBSERVATIONS`.
    """
    from itertools import islice

    from spacy.tokens import Doc
    from spacy.training import Example

    from spacy_crfseq.corpora.columns import read_columns as sentences_of

    made = []
    for sentence in islice(sentences_of(path, columns), limit or None):
        given = Doc(nlp.vocab, words=list(sentence.words))
        for name in set(columns) & set(OBSERVATIONS):
            values = [nlp.vocab.strings.add(value) for value in sentence.columns[name]]
            given.from_array([OBSERVATIONS[name]], np.array(values, np.uint64)[:, None])
        labels = list(sentence.columns["label"])
        made.append(Example(given, Doc(nlp.vocab, words=list(sentence.words), tags=labels)))
    return made
