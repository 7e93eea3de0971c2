"""CoNLL-U, the format of Universal Dependencies: ten columns, comments, multiword tokens, empty nodes.

Source: https://universaldependencies.org/format.html.  Tokens are the syntactic words, as in treebanks; multiword
tokens determine the text and its white space.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TypeAlias

from ..errors import FormatError
from .lines import (
    Line,
    MultiwordToken,
    OnError,
    Sentence,
    SourceLines,
    check_file,
    checked,
    lines_of,
    with_forms,
)  # fmt: skip

UPOS = frozenset("ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ SYM VERB X".split())  # noqa: SIM905
COLUMNS = ("lemma", "pos", "tag", "morph", "head", "dep")
_FIELDS = 10
_NO_SPACE = "SpaceAfter=No"
_Row: TypeAlias = tuple[int, int, list[str]]
"""The number of a token line in the file and in the lines of its sentence, and its ten fields."""


def read_conllu(path: Path | str, on_error: OnError | None = None, *, encoding: str = "utf8") -> Iterator[Sentence]:
    """Yield the sentences of a CoNLL-U file, which ought to be in UTF-8.

    The columns are lemma, pos (UPOS), tag (XPOS), morph (FEATS), head (an id, "0" is the root) and dep (DEPREL); an
    underscore becomes an empty string: not given, or, for morph, no features.  Words of a multiword token have no space
    between them.  Spaces are those of ``# text`` if it has the letters of the sentence, else those of ``SpaceAfter``,
    which also tells the space behind the sentence.  Empty nodes are skipped.
    ``# newdoc`` begins a document.

    on_error (OnError | None): Receives errors in sentences, which are then skipped.
    RAISES FormatError: With its line, if a line has not ten columns, ids do not count 1, 2, 3, ..., a tag is no UPOS
        tag or a feature no Name=Value; on a file without a sentence.
    """
    path = check_file(path)
    return checked(parse_conllu(path, lines_of(path, encoding, ends=True)), path, on_error)


def parse_conllu(path: Path, lines: Iterable[Line]) -> Iterator[Sentence | FormatError]:
    """Yield the sentences of a CoNLL-U file, and the errors in them; see `read_conllu`.

    lines (Iterable[Line]): With their ends.
    """
    held: Sentence | None = None  # until it is clear whether lines without words follow, which belong to the last one
    for item in _parse(path, lines):
        if isinstance(item, list):
            if held is not None and held.source is not None:
                held = held._replace(source=held.source._replace(lines=[*held.source.lines, *item]))
            continue
        if held is not None:
            yield held
        held = item if isinstance(item, Sentence) else None
        if isinstance(item, FormatError):
            yield item
    if held is not None:
        yield held


def _parse(path: Path, lines: Iterable[Line]) -> Iterator[Sentence | FormatError | list[str]]:
    """Yield sentences and errors, and lines behind the last one."""
    comments: dict[str, str] = {}
    rows: list[_Row] = []
    own: list[str] = []
    document, spoilt = 0, False
    for line in chain(lines, [(0, "")]):  # the blank line ends a sentence that the file leaves open
        if isinstance(line, FormatError):
            yield line
            spoilt = True
            continue
        number, whole = line
        text = whole.rstrip("\r\n")
        own.append(whole)
        if text.startswith("#") and not rows:
            key, _, value = text[1:].partition("=")
            comments[key.strip()] = value.strip()
            document += key.strip() in ("newdoc", "newdoc id")
        elif text.strip(" \t"):
            fields = text.split("\t")
            if len(fields) != _FIELDS or not fields[1]:
                what = f"10 columns with tabs between them expected, {len(fields)} found."
                yield FormatError(path, number, "the word is empty." if len(fields) == _FIELDS else what)
                spoilt = True
            rows.append((number, len(own) - 1, fields))
        elif rows or spoilt:
            if not spoilt:
                try:
                    yield _sentence(path, comments, rows, document, own)
                except FormatError as error:
                    yield error
            comments, rows, own, spoilt = {}, [], [], False
    if own:
        yield own


def _sentence(path: Path, comments: dict[str, str], rows: list[_Row], document: int, lines: list[str]) -> Sentence:
    words: list[_Row] = []
    spaces: list[bool] = []
    ranges: list[MultiwordToken] = []
    last, space_after = 0, True  # of the multiword token that the next words belong to
    for row in rows:
        number, _, fields = row
        identifier = fields[0]
        has_space = _NO_SPACE not in fields[9] or _NO_SPACE not in fields[9].split("|")
        if "." in identifier:
            continue
        if "-" in identifier:  # a multiword token such as 3-4, which must begin behind the word before it
            first, _, end = identifier.partition("-")
            numbers = first.isdecimal() and end.isdecimal()
            if not (numbers and int(first) == len(words) + 1 > last and int(end) > len(words)):
                what = f"{identifier!r} is not a range that begins at id {len(words) + 1}."
                raise FormatError(path, number, what)
            last, space_after = int(end), has_space
            ranges.append(MultiwordToken(len(words), last, fields[1]))
            continue
        words.append(row)
        if identifier != str(len(words)):
            raise FormatError(path, number, f"id {len(words)} expected, {identifier!r} found.")
        spaces.append(has_space if len(words) > last else len(words) == last and space_after)
    if last > len(words) or not words:
        raise FormatError(path, rows[-1][0], "the sentence ends before its words do.")
    forms = [fields[1] for *_, fields in words]
    other = tuple(token for token in ranges if token.form != "".join(forms[token.start : token.end]))
    spaces = _spaces_of(comments.get("text", ""), with_forms(forms, other), spaces)
    source = SourceLines(lines, [place for _, place, _ in words])
    columns = _columns(path, words)
    return Sentence(forms, columns, spaces, words[0][0], document, comments, multiword=other, source=source)


def _spaces_of(text: str, forms: Sequence[str], spaces: list[bool]) -> list[bool]:
    """Return whether white space follows each word [T], given its form in the text; `spaces` if the text has others."""
    is_blank, at = list[bool](), 0
    for form in forms:
        if not text.startswith(form, at):
            return spaces
        if not form:  # inside a multiword token: the space behind the form is that of the last word
            is_blank.append(is_blank[-1])
            is_blank[-2] = False
            continue
        end = at = at + len(form)
        while at < len(text) and text[at].isspace():
            at += 1
        is_blank.append(at > end)
    return spaces if at < len(text) else [*is_blank[:-1], spaces[-1]]  # the text ends with its last letter


def _columns(path: Path, words: list[_Row]) -> dict[str, list[str]]:
    for number, _, row in words:
        pos, features = row[3], row[5]
        if pos not in UPOS and pos != "_":
            raise FormatError(path, number, f"{pos!r} is not a UPOS tag ({', '.join(sorted(UPOS))}).")
        if features != "_" and not all(part.count("=") == 1 for part in features.split("|")):
            raise FormatError(path, number, f"{features!r} is not a list such as Case=Nom|Number=Sing.")
    fields = zip(*(row[2:-2] for *_, row in words), strict=True)
    columns = {
        name: ["" if value == "_" else value for value in values] for name, values in zip(COLUMNS, fields, strict=True)
    }
    for i, (*_, row) in enumerate(words):
        if row[1] == row[2] == "_":  # the lemma of the word "_" is "_" itself
            columns["lemma"][i] = "_"
    return columns
