"""Column files of the CoNLL shared tasks: one token per line, a blank line after each sentence.

The caller passes the names of the columns, because the files do not contain them.  Every line must have every column,
so a file read with the wrong columns is rejected at its first line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

from ..errors import ConfigError, DataError, FormatError, count_of, first_of
from ..files import replacing
from ..schemes import all_invalid, describe_invalid, find_invalid
from .lines import Line, OnError, Sentence, check_file, checked, lines_of
from .tags import TagReader, other_scheme

DOCSTART = "-DOCSTART-"
IGNORED = "_"
WORD = "word"
MISSING_ENTITY = "-"
"""The tag of a token whose entity is not annotated."""
_NAMES = "word words token tokens form text lemma pos tag tags xpos upos morph chunk ent entity ner label labels"
HEADERS = frozenset(_NAMES.split())
"""The words of a first line that names the columns."""
MORE = 3
"""Further places of a mistake that a message names."""
SPAN_COLUMNS = ("chunk", "ent")
"""The columns of tags of spans, which are read with prefix and type, see `tags`."""
_BLANKS = frozenset(" \t\r\n")


def read_columns(
    path: Path | str,
    columns: Sequence[str],
    *,
    separator: str | None = None,
    encoding: str = "utf8",
    on_error: OnError | None = None,
) -> Iterator[Sentence]:
    """Yield the sentences of a column file.

    columns (Sequence[str]): The name of each column; one is "word", "_" ignores a column.
    separator (str | None): Text between columns; None for any run of spaces and tabs.
    on_error (OnError | None): Receives errors in lines; their sentences are skipped.
    A line whose first column is ``-DOCSTART-`` begins a document.
    RAISES ConfigError: On invalid column names or an empty separator.
    RAISES FormatError: During iteration, on a line with a different number of columns, on bytes that are not in the
        encoding, and on a file without sentences.
    """
    check_columns(columns)
    if separator == "":
        raise ConfigError("separator = '' is empty; omit it for runs of spaces and tabs.")
    path = check_file(path)
    return checked(parse_columns(path, lines_of(path, encoding), columns, separator), path, on_error)


def parse_columns(
    path: Path, lines: Iterable[Line], columns: Sequence[str], separator: str | None = None
) -> Iterator[Sentence | FormatError]:
    """Yield the sentences of a column file, and the errors in its lines; see `read_columns`."""
    rows: list[list[str]] = []
    readers = {name: TagReader() for name in SPAN_COLUMNS if name in columns}
    number = document = 0
    spoilt = False
    for line in chain(lines, [(0, "")]):  # a final blank line ends a sentence that is still open
        if isinstance(line, FormatError):
            yield line
            spoilt = True
            continue
        number, fields = line[0] or number + 1, _split(line[1], separator)
        if fields and fields[0] != DOCSTART:
            if number == 1 and len(fields) > 1 and HEADERS.issuperset(map(str.lower, fields)):
                yield FormatError(path, 1, "this line has names of columns, not a word. Remove it.")
                spoilt = True
            elif len(fields) != len(columns):
                what = f"{count_of(len(columns), 'column')} expected ({' '.join(columns)}), {len(fields)} found. "
                hint = "Name the columns, '_' for those to ignore: --columns or --format, in a config `columns`."
                if fields[0] == "#":
                    hint = "If the line is a comment, remove it: files of columns have none."
                said = _empty_column(line[1], columns) or what + hint
                yield FormatError(path, number, said)
                spoilt = True
            rows.append(fields)
            continue
        if rows and not spoilt:
            yield _sentence(path, rows, tuple(columns), number - len(rows), document, readers)
        rows, spoilt = [], False
        document += bool(fields)


def write_columns(
    path: Path | str, sentences: Iterable[Sentence], columns: Sequence[str], *, separator: str = " "
) -> int:
    """Write sentences as a UTF-8 column file, all of them or none, and return their number.

    columns (Sequence[str]): The columns to write, including "word"; "_" writes an underscore.
    RAISES DataError: On a value that is missing, empty or contains white space.
    RAISES ConfigError: On invalid column names.
    """
    check_columns(columns)
    n_sentences = 0
    document: int | None = None
    with replacing(Path(path)) as temporary, temporary.open("w", encoding="utf8", newline="\n") as file:
        for sentence in sentences:
            n_sentences += 1
            if document is not None and sentence.document != document:
                file.write(separator.join([DOCSTART, *["O"] * (len(columns) - 1)]) + "\n\n")
            document = sentence.document
            file.writelines(sentence_lines(sentence, columns, separator=separator))
    return n_sentences


def sentence_lines(sentence: Sentence, columns: Sequence[str], *, separator: str = " ") -> Iterator[str]:
    """Yield the lines of a sentence in a column file and a blank line; RAISES DataError: As `write_columns`."""
    table = [_values(sentence, name) for name in columns]
    for name, values in zip(columns, table, strict=True):
        _check_values(name, values, separator)
    if DOCSTART in table[0]:
        raise DataError(f"Column {columns[0]!r}: {DOCSTART!r} would be read as the start of a document.")
    for fields in zip(*table, strict=True):
        yield separator.join(fields) + "\n"
    yield "\n"


def check_scheme(sentence: Sentence, column: str, scheme: str, file: Path | str) -> None:
    """Raise FormatError at the line of the first tag in `column` that breaks the scheme; it names the first few."""
    tags = sentence.columns[column]
    if find_invalid(tags, scheme) is not None:
        index, *others = all_invalid(tags, scheme)
        more = others_at([str(sentence.line_of(i)) for i in others], "line")
        what = f"{describe_invalid(tags, index, scheme)} (column {column!r}){more}."
        hint = 'give another scheme, or set on_invalid = "conlleval" to read such tags as the CoNLL scorer does.'
        if likely := other_scheme(tags, scheme):
            hint = f'or give --scheme {likely}, in a config scheme = "{likely}", which they look like.'
        raise FormatError(file, sentence.line_of(index), f"{what} Correct the file, {hint}")


def others_at(places: Sequence[str], name: str = "") -> str:
    """Return a clause on further tags that are wrong, with the first of their places; `name` is what these are."""
    if not places:
        return ""
    kind = f"{name}{'s' if len(places) > 1 else ''} " if name else ""
    return f", and {len(places):,} more in this sequence ({kind}{', '.join(first_of(places, MORE))})"


def _empty_column(line: str, columns: Sequence[str]) -> str:
    """Return a sentence on the column of a line that is empty between two tabs, if one is."""
    fields = line.split("\t")
    if len(fields) != len(columns) or "" not in fields:
        return ""
    number = fields.index("")
    return f"column {number + 1} ({columns[number]}) is empty, between tabs. Fill it in, with '_' if nothing is known."


def _split(line: str, separator: str | None) -> list[str]:
    if separator is not None:
        return line.split(separator) if line.strip(" \t") else []
    # str.split() without an argument would also split at U+00A0, which words may contain.
    fields = line.replace("\t", " ").split(" ")
    return [field for field in fields if field] if "" in fields else fields


def _sentence(
    path: Path,
    rows: list[list[str]],
    columns: tuple[str, ...],
    line: int,
    document: int,
    readers: Mapping[str, TagReader],
) -> Sentence | FormatError:
    values = dict(zip(columns, map(list, zip(*rows, strict=True)), strict=True))
    values.pop(IGNORED, None)
    words = values.pop(WORD)
    if "" in words:
        return FormatError(path, line + words.index(""), "the word is empty.")
    for name, reader in readers.items():
        try:
            values[name] = reader.read(values[name])
        except DataError as error:
            index = next(i for i, tag in enumerate(values[name]) if tag not in reader)
            return FormatError(path, line + index, f"column {name!r}: {error}")
    return Sentence(words, values, None, line, document)


def _values(sentence: Sentence, name: str) -> Sequence[str]:
    if name == WORD:
        return sentence.words
    if name == IGNORED:
        return [IGNORED] * len(sentence.words)
    if name not in sentence.columns:
        raise DataError(f"A sentence has no column {name!r}; it has {', '.join([WORD, *sentence.columns])}.")
    return sentence.columns[name]


def check_columns(columns: Sequence[str]) -> None:
    """Raise ConfigError unless the names are distinct and include "word"."""
    named = [name for name in columns if name != IGNORED]
    if isinstance(columns, str) or len(set(named)) != len(named) or WORD not in named:
        raise ConfigError(
            f"columns = {columns!r} must list one name for each column of the file, among them 'word'; "
            "no name twice, and '_' for columns to ignore."
        )


def _check_values(name: str, values: Sequence[str], separator: str) -> None:
    """Raise DataError on a value that could not be read back."""
    joined = "".join(values)  # looked at as one, since few values are bad
    if all(values) and separator not in joined and _BLANKS.isdisjoint(joined):
        return
    for value in values:
        if not value or separator in value or not _BLANKS.isdisjoint(value):
            raise DataError(f"Column {name!r}: {value!r} cannot be written: it is empty or contains white space.")
