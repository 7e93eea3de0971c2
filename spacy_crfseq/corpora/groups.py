"""Groups of texts that belong together, such as those of a source, which a split of a corpus does not part."""

from __future__ import annotations

from pathlib import Path

from ..errors import FormatError
from .lines import Sentence

FILE, DOCUMENT, COLUMN = "file", "document", "group"
"""Groups by the file of a text, by the document that the file marks, and by the column of this name."""


def group_of(sentence: Sentence, by: str, path: Path) -> str:
    """Return the group of a sentence.

    by (str): `FILE`, `DOCUMENT`, a column (its value at the first token), or a key that the file has for each text: of
        a record of JSON, or of a comment ``# key = value`` in CoNLL-U.
    path (Path): The file.
    RAISES FormatError: If the sentence has no such column or key.
    """
    file = sentence.file or str(path)
    if by == FILE:
        return file
    if by == DOCUMENT:
        return f"{file}:{sentence.document}"
    value = sentence.columns[by][0] if by in sentence.columns else sentence.comments.get(by, "")
    if not value:
        there = ", ".join([*sentence.columns, *sentence.comments, DOCUMENT, FILE])
        advice = f" For a column of the file, name it in the setting columns of the reader, as {by!r}." * (
            by == COLUMN not in sentence.columns
        )
        raise FormatError(
            Path(file), sentence.line, f"this text has no group {by!r}. It can be one of: {there}.{advice}"
        )
    return value
