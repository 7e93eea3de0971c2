"""All readers: bare docs, settings, what is kept between calls, parts of files, folders, and documents as Docs."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import spacy
from confection import Config
from hypothesis import given
from hypothesis import strategies as st
from spacy.language import Language

from spacy_crfseq.corpora import PRESETS, Preset
from spacy_crfseq.corpora.layouts import marks_documents
from spacy_crfseq.corpora.lines import FilePart
from spacy_crfseq.errors import ConfigError, DataError, FormatError
from spacy_crfseq.features.documents import DocumentWords
from spacy_crfseq.pipeline.gold_file import read_gold
from spacy_crfseq.pipeline.readers import create_conll_reader, create_conllu_reader, create_crfsuite_reader
from spacy_crfseq.pipeline.terms import reader_of
from spacy_crfseq.pipeline.texts import Document, read_documents, read_parts
from tests.corpora.helpers import ALL, FILE, chunks, read_docs, saved


def test_predicted_docs_are_bare(nlp: Language, tmp_path: Path) -> None:
    for example in read_docs(nlp, saved(tmp_path, FILE)):
        assert [t.orth for t in example.predicted] == [t.orth for t in example.reference]
        assert not any(example.predicted.has_annotation(name) for name in ("TAG", "POS", "LEMMA", "MORPH", "ENT_IOB"))
        assert not example.predicted.spans
        assert example.predicted.to_array(["SENT_START"])[1:].tolist() == [0] * (len(example) - 1)
        assert example.predicted.has_unknown_spaces


REFUSED: list[tuple[Any, dict[str, Any], str]] = [
    (create_conll_reader, {"path": None}, r"--paths\.train"),
    (create_conll_reader, {"columns": ["word", "tga"]}, "'tga'.*Did you mean 'tag'"),
    (create_conll_reader, {"scheme": "IOB3"}, "scheme IOB3: unknown. Did you mean"),
    (create_conll_reader, {"scheme": "plain"}, "no spans"),
    (create_conll_reader, {"unit": "doc"}, "unit: 'doc'"),
    (create_conll_reader, {"joined": 1.5}, "joined = 1.5"),
    (create_conll_reader, {"apart": 2.0}, "apart = 2.0"),
    (create_conll_reader, {"limit": -1}, "limit = -1"),
    (create_conll_reader, {"given": ["word"]}, "given: 'word'"),
    (create_conll_reader, {"given": ["pos"]}, "given: 'pos' is not known.*Known: chunk, tag"),
    (create_conll_reader, {"on_invalid": "ignore"}, "conlleval"),
    (create_conllu_reader, {"path": None}, r"--paths\.train"),
    (create_conllu_reader, {"given": ["dep"]}, "given: 'dep'"),
    (create_crfsuite_reader, {"path": None}, "has no path"),
    (create_crfsuite_reader, {"column": "lemma"}, "column: 'lemma' is not known"),
]


@pytest.mark.parametrize(("create", "settings", "message"), REFUSED)
def test_settings_that_cannot_work(create: Callable[..., Any], settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        create(**{"path": Path("a.txt"), **settings})


def test_reference_docs_are_the_same_in_every_call(nlp: Language, tmp_path: Path) -> None:
    reader = create_conll_reader(saved(tmp_path, FILE), ALL)
    first, again = list(reader(nlp)), list(reader(nlp))
    assert all(a.reference is b.reference for a, b in zip(first, again, strict=True))
    assert not any(a.predicted is b.predicted for a, b in zip(first, again, strict=True))
    other = spacy.blank("xx")
    assert all(example.reference.vocab is other.vocab for example in reader(other))
    assert next(iter(reader(nlp))).reference is first[0].reference


def test_a_stream_reads_as_it_goes(nlp: Language, tmp_path: Path) -> None:
    reader = create_conll_reader(saved(tmp_path, FILE + "\nbroken line\n"), ALL)
    stream = reader.stream(nlp)
    words = [[t.text for t in next(stream).reference] for _ in range(3)]
    with pytest.raises(FormatError, match=r"a\.txt:15: 7 columns expected"):
        next(stream)
    assert not reader._built
    whole = read_docs(nlp, saved(tmp_path, FILE))
    assert words == [[t.text for t in example.reference] for example in whole]


def test_changes_to_predicted_docs_do_not_come_back(nlp: Language, tmp_path: Path) -> None:
    reader = create_conll_reader(saved(tmp_path, FILE), ALL, given=["tag", "chunk"])
    for example in reader(nlp):
        example.predicted[0].tag_ = "changed"
        example.predicted.spans["chunks"] = []
    assert [example.predicted[0].tag_ for example in reader(nlp)] == ["DT", "PRP", "RB"]
    assert chunks(next(iter(reader(nlp))).predicted) == [(0, 2, "NP"), (2, 3, "PP"), (3, 4, "NP")]


def test_limit(nlp: Language, tmp_path: Path) -> None:
    path = saved(tmp_path, FILE + "\nbroken line\n")
    assert len(read_docs(nlp, path, limit=2)) == 2
    assert len(read_docs(nlp, path, limit=1, unit="document")) == 1
    with pytest.raises(FormatError, match=r"a\.txt:15: 7 columns expected"):
        read_docs(nlp, path)


CONFIG = """
[train]
@readers = "spacy_crfseq.ConllReader.v1"
path = "{path}"
given = ["tag"]

[dev]
@readers = "spacy_crfseq.ConlluReader.v1"
path = "{path}"

[batcher]
@batchers = "spacy_crfseq.full_batch.v1"
"""


def test_config_by_entry_points(nlp: Language, tmp_path: Path) -> None:
    path = saved(tmp_path, "a NN B-X\n\nb NN O\n")
    config = Config().from_str(CONFIG.format(path=path.as_posix()))
    filled = spacy.util.registry.fill(config)
    assert filled["train"]["columns"] == ["word", "tag", "chunk"]
    resolved = spacy.util.registry.resolve(filled)
    (batch,) = resolved["batcher"](resolved["train"](nlp))
    assert [example.predicted[0].tag_ for example in batch] == ["NN", "NN"]
    assert list(resolved["batcher"]([4, 5])) == [[4, 5]]
    with pytest.raises(DataError, match=r"spacy_crfseq\.full_batch\.v1.*corpus is empty.*--paths\.train"):
        next(iter(resolved["batcher"]([])))
    with pytest.raises(FormatError, match="10 columns"):
        resolved["dev"](nlp)


# --- corpora of many files, and files cut into parts: together, the parts have what the whole has -------------------


WORDS = st.sampled_from(["Anna", "is", "ü", "-", "n'est", "12"])
SENTENCES = st.lists(st.lists(WORDS, min_size=1, max_size=4), min_size=1, max_size=12)
READERS = {
    "conll": {"@readers": "spacy_crfseq.ConllReader.v1", "columns": ["word", "tag"]},
    "documents": {"@readers": "spacy_crfseq.ConllReader.v1", "columns": ["word", "tag"], "unit": "document"},
    "conllu": {"@readers": "spacy_crfseq.ConlluReader.v1"},
    "txt": {"@readers": "spacy_crfseq.TextReader.v1"},
    "jsonl": {"@readers": "spacy_crfseq.TextReader.v1"},
}


def written(kind: str, sentences: list[list[str]], end: str = "\n") -> str:
    blocks = []
    for number, words in enumerate(sentences):
        if kind == "conllu":
            head = [f"# newdoc id = {number}"] if number % 3 == 0 else []
            rows = [f"{i}\t{word}\t_\tX\tX\t_\t0\troot\t_\t_" for i, word in enumerate(words, 1)]
            blocks.append(end.join([*head, *rows]) + end)
        elif kind in ("conll", "documents"):
            head = [f"-DOCSTART- X{end}"] if kind == "documents" and number % 3 == 0 else []
            blocks.append(end.join([*head, *(f"{word} X" for word in words)]) + end)
        else:
            text = " ".join(words)
            blocks.append(f'{{"text": "{text}"}}' if kind == "jsonl" else text)
    return end.join(blocks) + end


def reader(kind: str, path: Path, **settings: Any) -> tuple[Any, Any]:
    nlp = spacy.blank("xx")
    nlp.config["corpora"]["train"] = {**READERS[kind], "path": str(path), **settings}
    return reader_of("[test]", "corpora.train", nlp), nlp


def texts(source: Any, nlp: Any) -> list[list[str]]:
    examples = source.stream(nlp) if hasattr(source, "stream") else source(nlp)
    return [[token.text for token in getattr(item, "reference", item)] for item in examples]


@pytest.mark.parametrize("kind", READERS)
@given(sentences=SENTENCES, size=st.integers(1, 200), end=st.sampled_from(["\n", "\r\n"]))
def test_parts_make_up_the_whole(kind: str, sentences: list[list[str]], size: int, end: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"one.{'conllu' if kind == 'conllu' else kind if kind in ('txt', 'jsonl') else 'conll'}"
        file.write_bytes(written(kind, sentences, end).encode())
        whole, nlp = reader(kind, file)
        expected = texts(whole, nlp)
        parts = whole.parts(size)
        assert [text for part in parts for text in texts(whole.part(part), nlp)] == expected
        if kind in ("conll", "txt") and size < 3 and len(sentences) > 1:
            assert len(parts) > 1


def test_folders_and_patterns_are_corpora(tmp_path: Path) -> None:
    for number, word in enumerate(("one", "two", "three")):
        (tmp_path / f"part{number}.conll").write_text(f"{word} X\n\n")
    for path, expected in (
        (tmp_path, ["one", "two", "three"]),
        (tmp_path / "part[01].conll", ["one", "two"]),
        (tmp_path / "part2.conll", ["three"]),
    ):
        assert [words[0] for words in texts(*reader("conll", path))] == expected


@pytest.mark.parametrize(("name", "error", "message"), [
    ("empty", ConfigError, "no file in this folder"),
    ("*.txt", ConfigError, "no file of this pattern"),
    ("no.conll", FormatError, r"no\.conll: no such file"),
])  # fmt: skip
def test_a_corpus_that_is_not_there_is_refused(name: str, error: type[Exception], message: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(error, match=message):
        texts(*reader("conll", tmp_path / name))


def test_errors_name_the_line_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "bad.conll"
    file.write_text("one X\n\n" * 20 + "two columns too many\n\n" + "one X\n\n")
    whole, nlp = reader("conll", file)
    with pytest.raises(FormatError, match=r"bad\.conll:41: 2 columns expected"):
        _ = [texts(whole.part(part), nlp) for part in whole.parts(30)]


# --- documents as Docs: a pipeline whose features read documents gets those that a corpus marks ---------------------


IOB = "a O\n\nb B-X\n\n-DOCSTART- O\n\nc O\nd O\n\ne O\n"
FILES = {
    "iob": IOB.replace("a", "-DOCSTART- O\n\na", 1),
    "conllu": "".join(
        f"{mark}1\t{word}\t_\tX\tT\t_\t0\t_\t_\tSpaceAfter=No\n\n"
        for mark, word in (("# newdoc id = 1\n", "a"), ("", "b"), ("#newdoc\n", "c"), ("", "d"))
    ),
}


def pipeline(*, reads: bool) -> Language:
    nlp = spacy.blank("xx")
    pipe: Any = nlp.add_pipe("crf_ner")
    pipe.method = pipe.method._replace(attributes={"context": DocumentWords()} if reads else {})
    return nlp


def file(tmp_path: Path, text: str, name: str = "iob") -> tuple[Path, Preset]:
    path = tmp_path / f"a.{name}"
    path.write_text(text)
    return path, PRESETS[name]


def words(nlp: Language, path: Path, layout: Preset) -> list[str]:
    """Return the words of Docs, with a bar before each sentence; gold Docs and texts are the same."""

    def marked(docs: Any) -> list[str]:
        return [" ".join("|" * bool(t.is_sent_start) + t.text for t in doc) for doc in docs]

    result = marked(example.predicted for example in read_gold(nlp, path, layout).examples)
    assert marked(text.doc for text in read_parts(nlp, [(FilePart(path), layout)])) == result
    return result


@pytest.mark.parametrize("name", FILES)
def test_documents_are_read_where_features_need_them(tmp_path: Path, name: str) -> None:
    path, layout = file(tmp_path, FILES[name], name)
    second = "|c d |e" if name == "iob" else "|c |d"
    nlp = pipeline(reads=True)
    assert words(nlp, path, layout) == ["|a |b", second]
    assert len(words(pipeline(reads=False), path, layout)) == 4
    nlp.config["corpora"]["train"] = {"@readers": "spacy_crfseq.ConllReader.v1"}
    assert len(words(nlp, path, layout)) == 4  # as in training


def test_without_marks_a_text_is_a_sentence(tmp_path: Path) -> None:
    path, layout = file(tmp_path, "a O\n\nb O\n")
    assert not marks_documents(path, layout)
    assert words(pipeline(reads=True), path, layout) == ["|a", "|b"]


def test_documents_stream_with_errors(tmp_path: Path) -> None:
    path, layout = file(tmp_path, FILES["iob"].replace("d O", "d") + "\n-DOCSTART- O\n\nf O\n")
    result = list(read_documents(path, layout, join=True))
    texts = [[sentence.words for sentence in text.sentences] for text in result if isinstance(text, Document)]
    assert texts == [[["a"], ["b"]], [["e"]], [["f"]]]
    assert len(result) == 4
