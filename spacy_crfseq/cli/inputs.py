"""Inputs of commands: the layouts and the texts of files, and the gold tags of examples."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from ..corpora import Preset, layouts
from ..corpora.guessing import find_layout
from ..corpora.lines import FilePart
from ..corpora.paths import resolve
from ..errors import DataError
from ..pipeline.texts import Text, read_parts

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.training import Example

    from ..pipeline.component import CRFComponent


def show_layout(path: Path, layout: layouts.Format, trained: Preset | None = None, *, texts: bool = False) -> Preset:
    """Return the layout of a file, as `find_layout` does; one that was guessed is shown on stderr."""
    result = find_layout(path, layout, trained, texts=texts)
    if result.guessed:
        print(result.notice(path), file=sys.stderr)
    return result.layout


def layout_of(path: Path, layout: layouts.Format, nlp: Language, *, texts: bool = False) -> Preset:
    """Return the layout of a file for a trained pipeline, as `show_layout` does."""
    return show_layout(path, layout, layouts.trained_layout(nlp.config.interpolate()), texts=texts)


def read_file(nlp: Language, path: Path, layout: layouts.Format = None) -> Iterator[Text]:
    """Yield the texts of the files of a path, of any kind, in the layouts that `layout_of` finds for them.

    RAISES CrfError: If one cannot be read; its layout must be clear before any is.
    """
    return read_parts(nlp, [(FilePart(file), layout_of(file, layout, nlp, texts=True)) for file in resolve(path)])


def first_texts(nlp: Language, source: str | Path, layout: layouts.Format, number: int) -> tuple[list[Text], bool]:
    """Return the first texts of a file, or `source` itself as a text, and whether there are more.

    layout: Options on the layout; if any is set, `source` is a file.
    RAISES CrfError: If there is no text, or the file cannot be read.
    """
    texts = read_file(nlp, Path(source), layout) if is_file(source, layout) else _given_text(nlp, str(source))
    first = list(islice(texts, number + 1))
    if not first:
        raise DataError(f"{str(source)!r} holds no text.")
    return first[:number], len(first) > number


def _given_text(nlp: Language, text: str) -> Iterator[Text]:
    if not text.isprintable() and any("\ud800" <= sign <= "\udfff" for sign in text):
        raise DataError("The text is not in the encoding of this terminal. Write it to a file in UTF-8.")
    return iter([Text(nlp.make_doc(text), 1, {})] if text.strip() else [])


FILES = (".conll", ".conllu", ".gz", ".iob", ".json", ".tsv", ".xml")
"""Endings of file names, besides those of raw texts."""


def is_file(source: str | Path, layout: layouts.Format) -> bool:
    """Whether an argument is the name of a file and not a text."""
    text = str(source)
    if any(layouts.asked(layout)):
        return True
    if len(text) >= 256 or not text.strip():
        return False
    path = Path(text)
    if path.suffix[1:] in layouts.RAW or path.exists():
        return True
    return not any(map(str.isspace, text)) and (os.sep in text or path.suffix in FILES)


def gold_tags_of(pipe: CRFComponent, example: Example) -> list[str | None]:
    """Return the gold tag of each token of an example, None if unknown."""
    from ..pipeline.labels import gold_tags, known_tags

    return known_tags(gold_tags(pipe.annotation, example, pipe.name))
