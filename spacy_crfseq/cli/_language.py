"""The language of a corpus, as a proposal: the one whose stop words are most frequent in it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from itertools import islice
from pathlib import Path

from ..corpora import DOCBIN, Preset
from ..corpora.annotations import read_annotations
from ..corpora.presets import ANNOTATIONS, read_layout

DEFAULT, ANY = "en", "xx"
"""The language without a corpus, and spaCy's code for a language that is not clear."""
LANGUAGES = tuple("ca da de el en es fi fr hr hu it lt nb nl pl pt ro ru sv tr uk".split())  # noqa: SIM905
SENTENCES = 1000
"""Sentences that are read; of a DocBin, Docs."""
LEAST, LEAD = 0.2, 1.3
"""Share of stop words among the words below which a corpus is in none of these languages; running text has 0.3.  And
how many times as large as that of the next language it must be."""


def likely_language(path: Path, layout: Preset) -> str:
    """Return the code of the language of a corpus; `ANY` if it is not clear, or the file cannot be read."""
    try:
        counts = Counter(word.lower() for word in _words(path, layout) if word.isalpha())
    except ValueError:  # which the commands that train report
        return ANY
    shares = {code: sum(counts[word] for word in _stop_words(code)) for code in LANGUAGES}
    second, best = sorted(shares, key=shares.__getitem__)[-2:]
    return best if shares[best] > max(LEAST * counts.total(), LEAD * shares[second]) else ANY


def _words(path: Path, layout: Preset) -> Iterator[str]:
    if layout.name == DOCBIN:
        from spacy.vocab import Vocab

        from ..pipeline.texts import load_docs

        return (token.text for doc in islice(load_docs(path, Vocab()), SENTENCES) for token in doc)
    is_export = layout.name == ANNOTATIONS.name
    sentences = read_annotations(path, _split, encoding=layout.encoding) if is_export else read_layout(path, layout)
    return (word for sentence in islice(sentences, SENTENCES) for word in sentence.words)


def _split(text: str) -> tuple[list[str], list[bool]]:
    words = re.findall(r"\w+|\W", text)
    return words, [False] * len(words)


def _stop_words(code: str) -> set[str]:
    words: set[str] = import_module(f"spacy.lang.{code}.stop_words").STOP_WORDS
    return words
