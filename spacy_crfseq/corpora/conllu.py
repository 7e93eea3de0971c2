"""CoNLL-U, the format of Universal Dependencies: ten columns, comments, multiword tokens, empty nodes.

Source: https://universaldependencies.org/format.html.  Tokens are the syntactic words, as in treebanks; multiword
tokens only determine white space.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import TypeAlias

from ..errors import FormatError
from .lines import OnError, Sentence, check_file, read_sentences

UPOS = frozenset("ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ SYM VERB X".split())  # noqa: SIM905
COLUMNS = ("lemma", "pos", "tag", "morph", "head", "dep")
_FIELDS = 10
_NO_SPACE = "SpaceAfter=No"
_Row: TypeAlias = tuple[int, list[str]]
"""The number of a token line in the file, and its ten fields."""


def read_conllu(
    path: Path | str, on_error: OnError | None = None, *, encoding: str = "utf8", data: bytes | None = None
) -> Iterator[Sentence]:
    """Yield the sentences of a CoNLL-U file, which ought to be in UTF-8.

    The columns are lemma, pos (UPOS), tag (XPOS), morph (FEATS), head (an id, "0" is the root) and dep (DEPREL); an
    underscore becomes an empty string: not given, or, for morph, no features.  Words of a multiword token have no space
    between them; the space after the last one is that of the multiword token's ``SpaceAfter``.  Empty nodes are
    skipped.
    ``# newdoc`` begins a document.

    on_error (OnError | None): Receives errors in sentences, which are then skipped.
    data (bytes | None): A part of the file, to be read instead.
    RAISES FormatError: With its line, if a line has not ten columns, ids do not count 1, 2, 3, ..., a tag is no UPOS
        tag or a feature no Name=Value; on a file without a sentence.
    """
    return read_sentences(check_file(path), encoding, parse_conllu, on_error, data)


def parse_conllu(path: Path, lines: Iterable[tuple[int, str]], on_error: OnError | None = None) -> Iterator[Sentence]:
    """Yield the sentences of numbered lines of a CoNLL-U file; arguments and errors as `read_conllu` has them."""
    document = -1
    for comments, rows in _blocks(path, lines, on_error):
        if document < 0 or "newdoc" in comments or "newdoc id" in comments:
            document += 1
        try:
            sentence = _sentence(path, comments, rows, document)
        except FormatError as error:
            if on_error is None:
                raise
            on_error(error)
            continue
        yield sentence


def _blocks(
    path: Path, lines: Iterable[tuple[int, str]], on_error: OnError | None
) -> Iterator[tuple[dict[str, str], list[_Row]]]:
    comments: dict[str, str] = {}
    rows: list[_Row] = []
    spoilt = False
    for number, line in chain(lines, [(0, "")]):  # the blank line ends a sentence that the file leaves open
        if not line.strip(" \t"):
            if rows and not spoilt:
                yield comments, rows
            if rows or spoilt:
                comments, rows, spoilt = {}, [], False
        elif line.startswith("#") and not rows:
            key, _, value = line[1:].partition("=")
            comments[key.strip()] = value.strip()
        else:
            try:
                rows.append((number, _split(path, number, line)))
            except FormatError as error:
                if on_error is None:
                    raise
                on_error(error)
                spoilt = True


def _sentence(path: Path, comments: dict[str, str], rows: list[_Row], document: int) -> Sentence:
    words: list[_Row] = []
    spaces: list[bool] = []
    last, space_after = 0, True  # of the multiword token that the next words belong to
    for number, fields in rows:
        identifier = fields[0]
        has_space = _NO_SPACE not in fields[9] or _NO_SPACE not in fields[9].split("|")
        if "." in identifier:
            continue
        if "-" in identifier:
            last, space_after = _range_end(path, number, identifier, len(words), last), has_space
            continue
        words.append((number, fields))
        if identifier != str(len(words)):
            raise FormatError(path, number, f"id {len(words)} expected, {identifier!r} found.")
        spaces.append(has_space if len(words) > last else len(words) == last and space_after)
    if last > len(words) or not words:
        raise FormatError(path, rows[-1][0], "the sentence ends before its words do.")
    forms = [fields[1] for _, fields in words]
    return Sentence(forms, _columns(path, words), spaces, words[0][0], document, comments)


def _columns(path: Path, words: list[_Row]) -> dict[str, list[str]]:
    for number, row in words:
        pos, features = row[3], row[5]
        if pos not in UPOS and pos != "_":
            raise FormatError(path, number, f"{pos!r} is not a UPOS tag ({', '.join(sorted(UPOS))}).")
        if features != "_" and not all(part.count("=") == 1 for part in features.split("|")):
            raise FormatError(path, number, f"{features!r} is not a list such as Case=Nom|Number=Sing.")
    fields = zip(*(row[2:-2] for _, row in words), strict=True)
    columns = {
        name: ["" if value == "_" else value for value in values] for name, values in zip(COLUMNS, fields, strict=True)
    }
    for i, (_, row) in enumerate(words):
        if row[1] == row[2] == "_":  # the lemma of the word "_" is "_" itself
            columns["lemma"][i] = "_"
    return columns


def _split(path: Path, number: int, line: str) -> list[str]:
    fields = line.split("\t")
    if len(fields) != _FIELDS:
        raise FormatError(path, number, f"10 columns with tabs between them expected, {len(fields)} found.")
    if not fields[1]:
        raise FormatError(path, number, "the word is empty.")
    return fields


def _range_end(path: Path, number: int, identifier: str, done: int, last: int) -> int:
    # the last id of a multiword token such as 3-4, which must begin behind the word before it
    first, _, end = identifier.partition("-")
    if not (first.isdecimal() and end.isdecimal() and int(first) == done + 1 > last and int(end) > done):
        raise FormatError(path, number, f"{identifier!r} is not a range that begins at id {done + 1}.")
    return int(end)
