"""Texts from a file: one a line, JSON Lines as annotation tools write them, spaCy's binary format, or a corpus."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import ConfigError, FormatError, suggest
from ..formats import PRESETS, check_file, get_preset, read_lines
from ._columns import missing_columns

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc
    from spacy.vocab import Vocab

DOCBIN = "spacy"
RAW = ("txt", "jsonl", DOCBIN)
"""Formats that the ending of a file tells."""
HELP = 'File of texts: one a line (.txt), JSON with "text" in each line (.jsonl), DocBin (.spacy), or --format'
FORMAT_HELP = f"Layout of the file: {', '.join((*RAW, *PRESETS))} [what its ending tells]"


class Text(NamedTuple):
    """A text that nobody has annotated.

    doc (Doc): Its tokens, and sentences where the file marks them.
    line (int): Its line in the file; of a DocBin or a corpus, the number of the Doc; from 1.
    meta (dict): What the file tells about it.
    """

    doc: Doc
    line: int
    meta: dict[str, Any]


def read_texts(nlp: Language, path: Path, format_name: str | None = None) -> Iterator[Text]:
    """Yield the texts of a file as it is read, without empty ones.

    format_name (str | None): One of `RAW`, or a corpus whose annotation is left out; None for what the ending tells.
    RAISES FormatError: If there is no such file, its ending tells nothing, or a line is reached that cannot be read.
    RAISES ConfigError: If there is no such format.
    """
    check_file(path)
    texts: Iterator[Text]
    kind = format_name or path.suffix[1:]
    if format_name is None and kind not in RAW:
        ending = f"the ending {path.suffix!r} does not tell" if path.suffix else "no ending tells"
        raise FormatError(path, 0, f"{ending} what this file is. Give --format: {', '.join((*RAW, *PRESETS))}.")
    if kind not in RAW:
        texts = _from_corpus(nlp, path, kind)
    elif kind == DOCBIN:
        texts = (Text(bare(doc), number, {}) for number, doc in enumerate(load_docs(path, nlp.vocab), start=1))
    elif kind == "jsonl":
        texts = _from_json(nlp, path)
    else:
        texts = (Text(nlp.make_doc(line), number, {}) for number, line in read_lines(path, "utf8") if line.strip())
    return (text for text in texts if not text.doc.text.isspace() and len(text.doc))


def texts_of(nlp: Language, source: str | Path, format_name: str | None = None) -> Iterator[Text]:
    """Return the texts of a file, or a text that is given itself; none where that is empty.

    format_name (str | None): As `read_texts` has it; if given, the source is a file.
    """
    if format_name or _is_path(str(source)):
        return read_texts(nlp, Path(source), format_name)
    return iter([Text(nlp.make_doc(str(source)), 1, {})] if str(source).strip() else [])


def _is_path(source: str) -> bool:
    """Whether an argument is a file's name and no text, also where there is no such file."""
    if len(source) >= 256 or not source.strip():
        return False
    path = Path(source)
    known = path.suffix[1:] in RAW
    return known or path.exists() or (os.sep in source and not any(map(str.isspace, source)))


def _from_corpus(nlp: Language, path: Path, preset: str) -> Iterator[Text]:
    """Return the sentences of a corpus, with the columns that features read and nothing in the pipeline sets."""
    from ..pipeline.readers import read_examples

    if preset not in PRESETS:
        raise ConfigError(f"--format {preset}: unknown format. {suggest(preset, (*RAW, *PRESETS))}")
    given = missing_columns(nlp, get_preset(preset).columns)
    examples = read_examples(nlp, path, preset, given=given)
    return (Text(example.predicted, number, {}) for number, example in enumerate(examples, start=1))


def _from_json(nlp: Language, path: Path) -> Iterator[Text]:
    for number, line in read_lines(path, "utf8"):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except ValueError as error:
            raise FormatError(path, number, f"no JSON ({error}). Each line must be an object with a text.") from error
        if not isinstance(entry, dict) or not isinstance(entry.get("text"), str):
            raise FormatError(path, number, 'expected an object with a string under "text".')
        meta = entry.get("meta", {})
        if not isinstance(meta, dict):
            raise FormatError(path, number, 'expected an object under "meta".')
        yield Text(nlp.make_doc(entry["text"]), number, meta)


def bare(doc: Doc, columns: Sequence[str] = ()) -> Doc:
    """Return the tokens and sentences of a Doc, and the token attributes of some columns, such as "tag"."""
    from spacy.tokens import Doc

    starts: Any = [token.is_sent_start for token in doc] if doc.has_annotation("SENT_START") else None
    words, spaces = [token.text for token in doc], [bool(token.whitespace_) for token in doc]
    result = Doc(doc.vocab, words=words, spaces=spaces, sent_starts=starts)
    if columns:
        names: Any = [column.upper() for column in columns]
        values: Any = doc.to_array(names).reshape(len(doc), len(names))
        result.from_array(names, values)
    return result


def load_docs(source: Path, vocab: Vocab) -> Iterator[Doc]:
    """Yield the Docs of a file in spaCy's binary format.

    RAISES FormatError: If it is none.
    """
    from spacy.tokens import DocBin

    if not source.is_file():
        raise FormatError(source, 0, f"no such file (looked from {Path.cwd()}).")
    try:
        binary = DocBin().from_disk(source)
    except Exception as error:  # zlib and msgpack raise many kinds on foreign bytes
        raise FormatError(
            source,
            0,
            "this is no file in spaCy's binary format, or it was cut short. If it has another layout, name that by "
            f"--format (--from of convert): {', '.join(PRESETS)}.",
        ) from error
    return binary.get_docs(vocab)
