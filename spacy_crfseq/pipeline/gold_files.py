"""Annotated files as examples, to score pipelines on; and scores on raw text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from ..corpora import DOCBIN, SPAN_COLUMNS, TOKEN_COLUMNS, Preset
from ..corpora.layouts import check_choice, file_columns, marks_documents
from ..errors import DataError
from ..prf import PRF, prf
from .texts import chunks_key, load_docs, missing_columns, unit_of

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc
    from spacy.training import Example


class Gold(NamedTuple):
    """The documents of an annotated file.

    columns (tuple[str, ...]): What it annotates: `TOKEN_COLUMNS` and `SPAN_COLUMNS`.
    given (tuple[str, ...]): Columns of the predicted documents in addition to the words.
    """

    examples: list[Example]
    columns: tuple[str, ...]
    given: tuple[str, ...]


def read_gold(
    nlp: Language, path: Path, layout: Preset, given: Sequence[str] | None = None, *, documents: bool = False,
    others: Sequence[Language] = (),
) -> Gold:  # fmt: skip
    """Return an annotated file: its sentences, or marked documents or passages if the pipeline was trained on those.

    given (Sequence[str] | None): Columns that the pipeline sees; None for those that features read and nothing sets.
    documents (bool): Read documents where the file marks them, whatever the pipeline was trained on.
    others (Sequence[Language]): Pipelines that read the same texts: the units are the largest that one of them needs.
    RAISES CrfError: If the file cannot be read, or holds nothing.
    """
    from spacy.training import Example

    from .examples import bare
    from .readers import read_examples

    key, columns = chunks_key(nlp), file_columns(layout)
    seen = missing_columns(nlp, layout) if given is None else list(given)
    if layout.name == DOCBIN:
        for name in seen:
            check_choice("--given", name, TOKEN_COLUMNS, " column")
        examples = [Example(bare(doc, seen), doc) for doc in load_docs(path, nlp.vocab)]
        columns = tuple(c for c in columns if any(_holds(example.reference, c, key) for example in examples))
    else:
        usual = {unit_of(pipeline) for pipeline in (nlp, *others)}
        marked = (documents or "document" in usual) and marks_documents(path, layout)
        unit = "document" if marked else "passage" if "passage" in usual else "sentence"
        examples = list(read_examples(nlp, path, layout, given=seen, unit=unit, chunks_key=key))
    if not examples:
        raise DataError(f"{path} holds no documents.")
    return Gold(examples, columns, tuple(seen))


def _holds(doc: Doc, column: str, key: str) -> bool:
    if column == "chunk":
        return key in doc.spans
    return bool(doc.has_annotation("ENT_IOB" if column == "ent" else column.upper()))


# Scores on raw text: the texts of a corpus in the tokens of a pipeline's own tokenizer, compared by characters

TOKENS, WARM_UP = "token", 32
_FOLLOWS = re.compile(r"[.,;:!?%)\]}\u2019\u201d»…]|''?|\.\.\.|n?['\u2019][^\W\d]+")
"""Words without a space before them."""
_LEADS = re.compile(r"[(\[{$£€\u2018\u201c«¿¡]|``?|[^\W\d]+['\u2019]")
"""Words without a space after them."""


class RawScores(NamedTuple):
    """Scores of `TOKENS` and of each column on raw text, its tokens, and the seconds that the pipeline took."""

    scores: dict[str, PRF]
    tokens: int
    seconds: float


def score_raw(
    nlp: Language, docs: Sequence[Doc], columns: Sequence[str], key: str, *, words: bool = False
) -> RawScores:
    """Annotate the texts of gold Docs anew, without their sentences, and compare with the gold annotation.

    A tag is correct if a token has the same characters and the same tag, as in the CoNLL 2018 shared task (Zeman et
    al. 2018, section 5); a span if its first and last character and its label are the same.  Where the spaces of a Doc
    are unknown, `guess_spaces` adds them.

    key (str): Of the chunks in doc.spans.
    words (bool): Keep the gold tokens.
    """
    bare = list(map(_bare, docs))
    texts: list[Any] = bare if words else [doc.text for doc in bare]
    list(nlp.pipe([doc.copy() if words else doc for doc in texts[:WARM_UP]]))
    started = perf_counter()
    annotated = list(nlp.pipe(texts))
    seconds = perf_counter() - started
    counts = {name: [0, 0, 0] for name in (TOKENS, *columns)}
    for gold_doc, of_gold, doc, of_found in zip(
        docs, map(_places, bare), annotated, map(_places, annotated), strict=True
    ):
        for name, total in counts.items():
            gold, unknown = set(_items(gold_doc, of_gold, name, key)), set(_unknown(gold_doc, of_gold, name))
            predicted = {item for item in _items(doc, of_found, name, key) if unknown.isdisjoint(range(*item[:2]))}
            total[:] = [a + len(b) for a, b in zip(total, (gold & predicted, predicted, gold), strict=True)]
    return RawScores({name: prf(*total) for name, total in counts.items()}, sum(map(len, annotated)), seconds)


def guess_spaces(words: Sequence[str]) -> list[bool]:
    """Return whether a space follows each word of a text [T], as usual in languages that write spaces.

    Straight quotation marks open and close in turn.  Clitics such as *'s*, *n't* and *l'* join their word.
    """
    spaces, quoted = [True] * len(words), False
    for i, word in enumerate(words):
        follows, leads = bool(_FOLLOWS.fullmatch(word)), bool(_LEADS.fullmatch(word))
        if word == '"':
            follows, leads, quoted = quoted, not quoted, not quoted
        if follows and i:
            spaces[i - 1] = False
        spaces[i] = not leads
    return spaces


def _bare(doc: Doc) -> Doc:
    """Return the words and spaces of a gold Doc."""
    from spacy.tokens import Doc

    words = [token.text for token in doc]
    spaces = guess_spaces(words) if doc.has_unknown_spaces else [bool(token.whitespace_) for token in doc]
    return Doc(doc.vocab, words=words, spaces=spaces)


def _places(doc: Doc) -> list[tuple[int, int]]:
    return [(token.idx, token.idx + len(token)) for token in doc]


def _items(doc: Doc, places: Sequence[tuple[int, int]], name: str, key: str) -> Iterator[tuple[int, int, str]]:
    if name in SPAN_COLUMNS:
        spans: Any = doc.ents if name == "ent" else doc.spans.get(key, ())
        return ((places[span.start][0], places[span.end - 1][1], span.label_) for span in spans)
    values = (str(not token.is_space or "") if name == TOKENS else value_of(token, name) for token in doc)
    return ((*place, value) for value, place in zip(values, places, strict=True) if value)


def _unknown(doc: Doc, places: Sequence[tuple[int, int]], name: str) -> Iterator[int]:
    """Yield the characters of a gold Doc whose annotation is missing."""
    for token, place in zip(doc, () if name in (TOKENS, "chunk") else places, strict=False):
        if not (token.ent_iob if name == "ent" else value_of(token, name)):
            yield from range(*place)


def value_of(token: Any, name: str) -> str:
    """Return the value of a column at a token, empty if it has none."""
    return str(getattr(token, name if name == "morph" else f"{name}_"))
