"""Raw texts from a file: one a line, JSON Lines as annotation tools write them, or spaCy's binary format."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import FormatError
from ..formats import check_file, read_lines

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc
    from spacy.vocab import Vocab

HELP = 'File of texts: one a line (.txt), JSON with "text" in each line (.jsonl), or spaCy\'s DocBin (.spacy)'


class Text(NamedTuple):
    """A text that nobody has annotated.

    doc (Doc): Its tokens, and sentences where the file marks them.
    line (int): Its line in the file; of a DocBin, the number of the Doc; from 1.
    meta (dict): What the file tells about it.
    """

    doc: Doc
    line: int
    meta: dict[str, Any]


def read_texts(nlp: Language, path: Path) -> Iterator[Text]:
    """Yield the texts of a file as it is read, without empty ones.

    RAISES FormatError: If there is no such file, or when a line is reached that cannot be read.
    """
    check_file(path)
    if path.suffix == ".spacy":
        texts: Iterator[Text] = (
            Text(bare(doc), number, {}) for number, doc in enumerate(load_docs(path, nlp.vocab), start=1)
        )
    elif path.suffix == ".jsonl":
        texts = _from_json(nlp, path)
    else:
        texts = (Text(nlp.make_doc(line), number, {}) for number, line in read_lines(path, "utf8") if line.strip())
    return (text for text in texts if not text.doc.text.isspace() and len(text.doc))


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
        raise FormatError(source, 0, f"this is no file in spaCy's binary format ({error!r}).") from error
    return binary.get_docs(vocab)
