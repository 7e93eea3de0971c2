"""Scores on raw text: the texts of a corpus in the tokens of a pipeline's own tokenizer, compared by characters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from ..corpora import SPAN_COLUMNS
from ..corpora.spacing import guess_spaces
from ..prf import PRF, prf

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc
    from spacy.training import Example

TOKENS = "token"
_Item = tuple[int, int, str]
"""The first character of a token or span, the one after it, and its label."""


class RawScores(NamedTuple):
    """Scores on raw text.

    scores (dict[str, PRF]): Precision, recall and F1 of `TOKENS` and of each column.
    tokens, seconds: Those of the tokenizer, and what tokenizer and components took together.
    """

    scores: dict[str, PRF]
    tokens: int
    seconds: float


def score_raw(nlp: Language, examples: Sequence[Example], columns: Sequence[str], key: str) -> RawScores:
    """Annotate the texts of gold Docs from the characters on, and compare with the gold annotation.

    A tag is correct if its token has the same characters and the same tag, as in the CoNLL 2018 shared task (Zeman et
    al. 2018, section 5); a span if its first and last character and its label are the same.  Texts whose spaces are
    unknown get them by `guess_spaces`.

    key (str): Of the chunks in doc.spans.
    """
    references = [example.reference for example in examples]
    words = [_words(doc) for doc in references]
    texts = [text for text, _ in words]
    list(nlp.pipe(texts[:32]))  # loads kernels
    started = perf_counter()
    docs = list(nlp.pipe(texts))
    seconds = perf_counter() - started
    found = [[(token.idx, token.idx + len(token)) for token in doc] for doc in docs]
    scores = {}
    for name in (TOKENS, *columns):
        counts = [0, 0, 0]
        for gold_doc, (_, gold_places), doc, places in zip(references, words, docs, found, strict=True):
            gold, unknown = set(_items(gold_doc, gold_places, name, key)), set(_unknown(gold_doc, gold_places, name))
            mine = {item for item in _items(doc, places, name, key) if unknown.isdisjoint(range(*item[:2]))}
            for i, size in enumerate((len(gold & mine), len(mine), len(gold))):
                counts[i] += size
        scores[name] = prf(*counts)
    return RawScores(scores, sum(map(len, docs)), seconds)


def _words(doc: Doc) -> tuple[str, list[tuple[int, int]]]:
    """Return the text of a gold Doc, and first character and end of each word."""
    words = [token.text for token in doc]
    spaces = guess_spaces(words) if doc.has_unknown_spaces else [bool(token.whitespace_) for token in doc]
    parts = [word + " " * space for word, space in zip(words, spaces, strict=True)]
    starts = accumulate(map(len, parts), initial=0)
    return "".join(parts), [(start, start + len(word)) for start, word in zip(starts, words, strict=False)]


def _items(doc: Doc, places: Sequence[tuple[int, int]], name: str, key: str) -> Iterator[_Item]:
    if name in SPAN_COLUMNS:
        spans: Any = doc.ents if name == "ent" else doc.spans.get(key, ())
        return ((places[span.start][0], places[span.end - 1][1], span.label_) for span in spans)
    if name == TOKENS:
        return ((*place, "") for token, place in zip(doc, places, strict=True) if not token.is_space)
    values = (str(getattr(token, name if name == "morph" else f"{name}_")) for token in doc)
    return ((*place, value) for value, place in zip(values, places, strict=True) if value)


def _unknown(doc: Doc, places: Sequence[tuple[int, int]], name: str) -> Iterator[int]:
    """Yield the characters of a gold Doc whose annotation is missing."""
    if name in (TOKENS, "chunk"):
        return
    for token, place in zip(doc, places, strict=True):
        if not (token.ent_iob if name == "ent" else str(getattr(token, name if name == "morph" else f"{name}_"))):
            yield from range(*place)
