"""Files with a class for each word: Brown path files, other lists, and the tables of `spacy-lookups-data`.

A line has a word, its class, and after them what else a tool writes, such as counts, separated by tabs or by white
space.  The path files of Brown clustering have the class first, as bits; other files may have either first.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections import defaultdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import srsly

from ..errors import ConfigError, FormatError
from .lines import check_file

MOST = 100
"""The largest ratio of the length of an unpacked file to that of its file."""
_BITS = re.compile("[01]+")
CLUSTERS, PARTS = "clusters", "parts_of_speech"
TABLES = {CLUSTERS: "_lexeme_cluster.json.gz", PARTS: "_lemma_index.json.gz"}
"""The tables of `spacy-lookups-data`, and how the names of their files end."""


def sizes_of(sizes: str) -> tuple[int, ...]:
    """Return comma-separated numbers of classes, the largest first; RAISES ConfigError: If they are no numbers."""
    if not re.fullmatch(r"\d{1,9}(,\d{1,9})*", sizes) or min(every := set(map(int, sizes.split(",")))) < 2:
        raise ConfigError(f"--sizes {sizes}: give whole numbers from 2, comma-separated, such as 100,320,1000.")
    return tuple(sorted(every, reverse=True))


def read_classes(path: Path | str) -> dict[str, str]:
    """Return the class of each word of a file, which may be compressed by gzip.

    RAISES FormatError: Naming the line, if it cannot be read or gives a word a second class.
    """
    path = check_file(path)
    lines = _text(path).replace("\r\n", "\n").split("\n")
    separator = "\t" if any("\t" in line for line in lines[:100]) else None
    rows: list[tuple[int, str, str]] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        first, second = (*line.split(separator, 2), "")[:2]
        if not first.strip() or not second.strip():
            raise FormatError(path, number, "no word and class. Write for example: 0110<tab>house, or house<tab>17")
        rows.append((number, first, second))
    if not rows:
        raise FormatError(path, 0, "no word in the file. A line is for example: 0110<tab>house<tab>25")
    _, left, other = zip(*rows, strict=True)
    bits = [all(map(_BITS.fullmatch, column)) for column in (left, other)]
    first_is_class = bits[0] if bits[0] != bits[1] else len(set(left)) < len(set(other))
    classes: dict[str, str] = {}
    for number, first, second in rows:
        name, word = (first, second) if first_is_class else (second, first)
        if classes.setdefault(word, name) != name:
            raise FormatError(path, number, f"the word {word!r} is in class {classes[word]} already. Remove a line.")
    return classes


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
        if data[:2] == b"\x1f\x8b":
            limit = MOST * len(data)
            with gzip.open(path) as file:
                data = file.read(limit + 1)
            if len(data) > limit:
                raise FormatError(path, 0, f"unpacked, it is more than {MOST} times as long. Give it unpacked.")
    except (OSError, EOFError, zlib.error) as error:
        raise FormatError(path, 0, f"the file cannot be read ({error}).") from error
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise FormatError(path, line, f"byte {error.start} is not UTF-8. Convert the file to UTF-8.") from error


def lookups_languages(table: str = CLUSTERS) -> dict[str, Path]:
    """Return the files of a table in `spacy-lookups-data` by language; none if it is not installed."""
    spec = find_spec("spacy_lookups_data")
    folders = (spec and spec.submodule_search_locations) or []
    files = (file for folder in folders for file in Path(folder, "data").glob(f"*{TABLES[table]}"))
    return {file.name.removesuffix(TABLES[table]): file for file in sorted(files)}


def read_lookups(language: str, table: str = CLUSTERS) -> dict[str, str]:
    """Return the classes of words in a table of `spacy-lookups-data`; words without a class are left out.

    "clusters" are Brown paths.  "parts_of_speech" are those that a word can have, such as "noun/verb", with the endings
    that rules add to lemmas, such as "verb-ing".
    RAISES ConfigError: If the package is not installed or has no such table for the language.
    """
    files = lookups_languages(table)
    if not files:
        raise ConfigError(
            f"The word classes of {language!r} are in a package that is not installed. Run 'pip install "
            "spacy-lookups-data', or give a file as path."
        )
    if language not in files:
        has = "word classes" if table == CLUSTERS else "parts of speech"
        raise ConfigError(
            f"spacy-lookups-data has {has} for {', '.join(files)}, not for {language!r}. Learn classes from raw "
            "text with 'python -m spacy crfseq word-classes', and give the file as path."
        )
    return _paths(files[language]) if table == CLUSTERS else _parts_of_speech(files[language])


def _paths(file: Path) -> dict[str, str]:
    """Return Brown paths, each stored as a number, its first bit lowest; zeros at its end are lost, 0 is no class."""
    numbers: dict[str, int] = _read(file)
    paths = {number: f"{number:b}"[::-1] for number in set(numbers.values()) if number}
    return {word: paths[number] for word, number in numbers.items() if number}


def _parts_of_speech(index: Path) -> dict[str, str]:
    """Return the parts of speech of lemmas, of what rules make of them, and of irregular forms."""
    names_of = defaultdict[str, set[str]](set)
    rules, irregular = (_read(index.with_name(index.name.replace("index", name))) for name in ("rules", "exc"))
    for part, lemmas in _read(index).items():
        # rules are pairs of the endings of an inflected form and of the lemma
        for of_form, of_lemma in [["", ""], *rules.get(part, [])]:
            name = part if of_form == of_lemma else f"{part}-{of_form}"
            for lemma in lemmas:
                if lemma.endswith(of_lemma) and lemma != of_lemma:
                    names_of[lemma.removesuffix(of_lemma) + of_form].add(name)
    for part, words in irregular.items():
        for word in words:
            names_of[word].add(f"{part}-irregular")
    return {word: "/".join(sorted(names)) for word, names in names_of.items() if word.split() == [word]}


def _read(file: Path) -> Any:
    return srsly.json_loads(gzip.decompress(file.read_bytes())) if file.exists() else {}
