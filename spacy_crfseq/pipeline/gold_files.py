"""Annotated files as examples, to score pipelines on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..corpora import DOCBIN, TOKEN_COLUMNS, Preset
from ..corpora.layouts import check_choice, file_columns, marks_documents
from ..errors import DataError
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
