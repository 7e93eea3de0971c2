"""Corpora as sentences for the peers and as examples for us, and the features of both."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bench._harness import Options

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.training import Example

CHUNK_TEMPLATES = [
    "ORTH[-2..2]", "ORTH[-1]|ORTH[0]", "ORTH[0]|ORTH[1]",
    "TAG[-2..2]", "TAG[-2]|TAG[-1]", "TAG[-1]|TAG[0]", "TAG[0]|TAG[1]", "TAG[1]|TAG[2]",
    "TAG[-2]|TAG[-1]|TAG[0]", "TAG[-1]|TAG[0]|TAG[1]", "TAG[0]|TAG[1]|TAG[2]",
]  # fmt: skip
"""The template file that CRF++ ships for CoNLL-2000: 19 attributes per token."""

TAG_TEMPLATES = [
    "ORTH[-2..2]", "LOWER[0]", "PREFIX1[0]", "PREFIX2[0]", "PREFIX3[0]", "PREFIX4[0]",
    "SUFFIX1[0]", "SUFFIX2[0]", "SUFFIX3[0]", "SUFFIX4[0]", "SHAPE[0]", "BRIEF_SHAPE[0]",
    "ORTH[-1]|ORTH[0]", "ORTH[0]|ORTH[1]",
]  # fmt: skip
"""Words, affixes and shapes for tagging: 18 attributes per token."""


class Sentence(NamedTuple):
    """Words, the tags that are given with them (empty where there are none), and labels."""

    words: list[str]
    tags: list[str]
    labels: list[str]


def read_columns(path: Path, limit: int = 0) -> list[Sentence]:
    """Return the sentences of a file whose first columns are word and tag, and the last one the label."""
    blocks = path.read_text(encoding="utf8").split("\n\n")
    lines = [block.splitlines() for block in blocks if block.strip() and not block.startswith("-DOCSTART-")]
    rows = [[[*line.split()[:2], line.split()[-1]] for line in block] for block in lines]
    return [Sentence(*(list(column) for column in zip(*block, strict=True))) for block in rows[: limit or None]]


def read_xpos(path: Path, limit: int = 0) -> list[Sentence]:
    """Return the sentences of a CoNLL-U file, labelled with the language's own tags."""
    blocks = path.read_text(encoding="utf8").split("\n\n")
    sentences = []
    for block in blocks[: limit or None]:
        rows = [line.split("\t") for line in block.splitlines() if line[:1].isdigit()]
        rows = [row for row in rows if row[0].isdigit()]
        if rows:
            sentences.append(Sentence([row[1] for row in rows], [], [row[4] for row in rows]))
    return sentences


class Task(NamedTuple):
    """A corpus part in both forms."""

    sentences: list[Sentence]
    examples: list[Example]


def chunks(options: Options, nlp: Language, part: str, limit: int = 0) -> Task:
    """Return CoNLL-2000, its tags given."""
    path = options.corpus("conll2000", f"{part}.txt")
    settings = {"columns": ["word", "tag", "chunk"], "given": ["tag"]}
    return Task(read_columns(path, limit), read_examples(nlp, "ConllReader", path, limit=limit, **settings))


def entities(options: Options, nlp: Language, part: str, limit: int = 0) -> Task:
    """Return CoNLL-2002 Spanish."""
    path = options.corpus("conll2002", f"esp.{part}")
    settings = {"columns": ["word", "_", "ent"], "on_invalid": "conlleval"}
    return Task(read_columns(path, limit), read_examples(nlp, "ConllReader", path, limit=limit, **settings))


def frequent_tags(options: Options, nlp: Language, part: str, n: int, limit: int = 0) -> Task:
    """Return the tags of CoNLL-2002 Spanish, all but the n most frequent ones replaced by the first of these."""
    path = options.corpus("conll2002", f"esp.{part}")
    examples = read_examples(nlp, "ConllReader", path, limit=limit, columns=["word", "tag", "_"])
    counts = Counter(token.tag_ for example in examples for token in example.reference)
    kept = [tag for tag, _ in counts.most_common(n)]
    for example in examples:
        for token in example.reference:
            if token.tag_ not in kept:
                token.tag_ = kept[0]
    return Task([], examples)


def xpos(options: Options, nlp: Language, part: str, limit: int = 0) -> Task:
    """Return UD English EWT with the language's own tags."""
    path = options.corpus("ud-english-ewt", f"en_ewt-ud-{part}.conllu")
    return Task(read_xpos(path, limit), read_examples(nlp, "ConlluReader", path, limit=limit))


def read_examples(nlp: Language, reader: str, path: Path, **settings: Any) -> list[Example]:
    """Return the examples of one of the package's corpus readers."""
    import warnings

    from spacy.util import registry

    create: Callable[..., Any] = registry.readers.get(f"spacy_crfseq.{reader}.v1")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list(create(path, **settings)(nlp))


# Features of the peers


def chunk_attributes(sentence: Sentence) -> list[list[str]]:
    """Return the attributes of `CHUNK_TEMPLATES` as strings, written by hand as users of CRFsuite do."""
    n = len(sentence.words)
    w, p = (["_B-2", "_B-1", *column, "_B+1", "_B+2"] for column in (sentence.words, sentence.tags))
    return [
        [
            f"w-2={w[i - 2]}", f"w-1={w[i - 1]}", f"w0={w[i]}", f"w1={w[i + 1]}", f"w2={w[i + 2]}",
            f"w-1w0={w[i - 1]}|{w[i]}", f"w0w1={w[i]}|{w[i + 1]}",
            f"p-2={p[i - 2]}", f"p-1={p[i - 1]}", f"p0={p[i]}", f"p1={p[i + 1]}", f"p2={p[i + 2]}",
            f"p-2p-1={p[i - 2]}|{p[i - 1]}", f"p-1p0={p[i - 1]}|{p[i]}",
            f"p0p1={p[i]}|{p[i + 1]}", f"p1p2={p[i + 1]}|{p[i + 2]}",
            f"p-2p-1p0={p[i - 2]}|{p[i - 1]}|{p[i]}", f"p-1p0p1={p[i - 1]}|{p[i]}|{p[i + 1]}",
            f"p0p1p2={p[i]}|{p[i + 1]}|{p[i + 2]}",
        ]
        for i in range(2, n + 2)
    ]  # fmt: skip


def chunk_dictionaries(sentence: Sentence) -> list[dict[str, str]]:
    """Return the same attributes as one dictionary per token, as users of sklearn-crfsuite do."""
    n = len(sentence.words)
    w, p = (["_B-2", "_B-1", *column, "_B+1", "_B+2"] for column in (sentence.words, sentence.tags))
    return [
        {
            "w-2": w[i - 2], "w-1": w[i - 1], "w0": w[i], "w1": w[i + 1], "w2": w[i + 2],
            "w-1w0": f"{w[i - 1]}|{w[i]}", "w0w1": f"{w[i]}|{w[i + 1]}",
            "p-2": p[i - 2], "p-1": p[i - 1], "p0": p[i], "p1": p[i + 1], "p2": p[i + 2],
            "p-2p-1": f"{p[i - 2]}|{p[i - 1]}", "p-1p0": f"{p[i - 1]}|{p[i]}",
            "p0p1": f"{p[i]}|{p[i + 1]}", "p1p2": f"{p[i + 1]}|{p[i + 2]}",
            "p-2p-1p0": f"{p[i - 2]}|{p[i - 1]}|{p[i]}", "p-1p0p1": f"{p[i - 1]}|{p[i]}|{p[i + 1]}",
            "p0p1p2": f"{p[i]}|{p[i + 1]}|{p[i + 2]}",
        }
        for i in range(2, n + 2)
    ]  # fmt: skip


def tag_attributes(sentence: Sentence) -> list[list[str]]:
    """Return the attributes of `TAG_TEMPLATES` as strings."""
    from spacy.lang.lex_attrs import word_shape

    from spacy_crfseq.features.items import brief_shape

    n = len(sentence.words)
    w = ["_B-2", "_B-1", *sentence.words, "_B+1", "_B+2"]
    rows = []
    for i in range(2, n + 2):
        word = w[i]
        row = [f"w{k}={w[i + k]}" for k in (-2, -1, 0, 1, 2)]
        row += [f"lower={word.lower()}", f"shape={word_shape(word)}", f"brief={brief_shape(word)}"]
        row += [f"p{k}={word[:k].lower()}" for k in (1, 2, 3, 4) if len(word) >= k]
        row += [f"s{k}={word[-k:].lower()}" for k in (1, 2, 3, 4) if len(word) >= k]
        row += [f"w-1w0={w[i - 1]}|{word}", f"w0w1={word}|{w[i + 1]}"]
        rows.append(row)
    return rows


# Raw texts

_NO_SPACE_BEFORE = frozenset([".", ",", ";", ":", "!", "?", ")", "]", "''", "'s", "n't", "%", "»"])
_NO_SPACE_AFTER = frozenset(["(", "[", "``", "$", "¿", "¡", "«"])


def as_text(words: Sequence[str]) -> str:
    """Return words as running text, punctuation close to its word."""
    text, glue = "", True
    for word in words:
        text += word if glue or word in _NO_SPACE_BEFORE else f" {word}"
        glue = word in _NO_SPACE_AFTER
    return text


def paragraphs(sentences: Sequence[Sentence], words: int, seed: int = 0) -> list[str]:
    """Return paragraphs of one to eight sentences, at least `words` words, running over the corpus again if needed."""
    rng = random.Random(seed)
    texts: list[str] = []
    stream = _endless(sentences)
    while words > 0:
        group = [next(stream).words for _ in range(rng.randint(1, 8))]
        texts.append(" ".join(as_text(sentence) for sentence in group))
        words -= sum(len(sentence) for sentence in group)
    return texts


def _endless(sentences: Sequence[Sentence]) -> Iterator[Sentence]:
    while True:
        yield from sentences


# Scores


def spans_of(tags: Sequence[str]) -> set[tuple[int, int, str]]:
    """Return the spans of a tag sequence, read as conlleval does."""
    from spacy_crfseq.schemes import decode_lenient

    return set(decode_lenient(tags))


def span_f1(gold: Sequence[Sequence[str]], predicted: Sequence[set[tuple[int, int, str]]]) -> float:
    """Return the F1 of predicted spans in per cent."""
    hits = total = 0
    for tags, predicted_tags in zip(gold, predicted, strict=True):
        right = spans_of(tags)
        hits += len(right & predicted_tags)
        total += len(right) + len(predicted_tags)
    return 100 * 2 * hits / max(1, total)
