"""The bundled corpus is well formed, and its validator notices what is not."""

from collections import Counter
from pathlib import Path

import pytest
from spacy.lang.en import English
from spacy.lang.en.tokenizer_exceptions import TOKENIZER_EXCEPTIONS

from scripts import validate_corpus
from tests.project.pages import ROOT

CORPUS = [ROOT / "assets" / "corpus" / f"{split}.conll" for split in ("train", "dev", "test")]
START = "-DOCSTART-\t-X-\tO\tO\n\n"
GOOD = (
    START
    + "Anna\tNNP\tB-NP\tB-PER\nBell\tNNP\tI-NP\tI-PER\nleft\tVBD\tB-VP\tO\n"
    + "Oslo\tNNP\tB-NP\tB-LOC\n.\t.\tO\tO\n\n"
)
CROSSING = (
    GOOD.replace("B-NP\tB-PER", "B-NP\tO").replace("I-NP\tI-PER", "I-NP\tB-PER").replace("B-VP\tO", "B-VP\tI-PER")
)
BAD_SAMPLES = {
    "columns": (GOOD.replace("left\tVBD\tB-VP\tO", "left\tVBD\tB-VP"), 5, "expected 4 columns"),
    "no tabs": (GOOD.replace("left\tVBD\tB-VP\tO", "left VBD B-VP O"), 5, "no tabs"),
    "double tab": (GOOD.replace("left\tVBD", "left\t\tVBD"), 5, "expected 4 columns, found 5"),
    "empty column": (GOOD.replace("left\tVBD", "left\t"), 5, "empty column"),
    "trailing space": (GOOD.replace("B-VP\tO\n", "B-VP\tO \n"), 5, "trailing white space"),
    "tag": (GOOD.replace("VBD", "VERB"), 5, "unknown tag 'VERB'"),
    "chunk type": (GOOD.replace("B-VP", "B-VERB"), 5, "unknown chunk type 'VERB'"),
    "entity type": (GOOD.replace("B-LOC", "B-GPE"), 6, "unknown entity type 'GPE'"),
    "label": (GOOD.replace("B-LOC", "LOC"), 6, "malformed entity label 'LOC'"),
    "iob start": (GOOD.replace("B-LOC", "I-LOC"), 6, "'I-LOC' cannot follow 'O'"),
    "iob type": (GOOD.replace("I-PER", "I-ORG"), 4, "'I-ORG' cannot follow 'B-PER'"),
    "iob chunk": (GOOD.replace("B-VP", "I-VP"), 5, "'I-VP' cannot follow 'I-NP'"),
    "crossing": (CROSSING, 4, "PER entity crosses a chunk border"),
    "no newline": (GOOD.rstrip("\n"), 7, "no newline at the end of the file"),
    "no blank line": (GOOD[:-1], 8, "no blank line at the end of the file"),
    "two blank lines": (GOOD.replace("O\n\nAnna", "O\n\n\nAnna"), 3, "more than one blank line"),
    "carriage return": (GOOD.replace("\n", "\r\n"), 1, "carriage return"),
    "no document": (GOOD.removeprefix(START), 1, "token before the first -DOCSTART-"),
    "document line": (GOOD.replace("-X-\tO", "O\tO"), 1, "malformed -DOCSTART- line"),
    "document gap": (GOOD.replace(START, START[:-1]), 2, "must be followed by a blank line"),
    "late document": (GOOD.replace("left\t", START + "left\t"), 5, "-DOCSTART- inside a sentence"),
    "character": (GOOD.replace("Oslo", "Osl\u043e"), 6, "unexpected character '\\u043e'"),
    "tokens": (GOOD.replace("Oslo", "don't"), 6, "tokenization"),
}


@pytest.fixture(autouse=True)
def english_tokenizer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the tokenizer have its exceptions, which it lacks in other tests."""
    monkeypatch.setattr(English.Defaults, "tokenizer_exceptions", TOKENIZER_EXCEPTIONS)


def problems_of(tmp_path: Path, **texts: str) -> list[tuple[str, int, str]]:
    """Validate some texts together as files."""
    for name, text in texts.items():
        (tmp_path / f"{name}.conll").write_bytes(text.encode("utf-8"))
    result, _ = validate_corpus.validate([tmp_path / f"{name}.conll" for name in texts])
    return [(problem.path.stem, problem.line, problem.message) for problem in result]


def test_bundled_corpus_has_no_problems(capsys: pytest.CaptureFixture[str]) -> None:
    assert validate_corpus.main([str(path) for path in CORPUS]) == 0
    printed = capsys.readouterr().out
    assert "sentences" in printed
    assert ".conll:" not in printed


@pytest.mark.parametrize(("path", "sentences"), list(zip(CORPUS, (400, 80, 80), strict=True)))
def test_bundled_corpus_is_large_enough(path: Path, sentences: int) -> None:
    report = validate_corpus.read_file(path)
    counts: Counter[str] = validate_corpus.check_spans(report)
    assert len(report.sentences) >= sentences
    assert all(counts[label] for label in validate_corpus.CHUNK_TYPES + validate_corpus.ENTITY_TYPES)
    if path.stem == "train":
        wanted = dict.fromkeys(validate_corpus.ENTITY_TYPES, 20) | {"PER": 60, "ORG": 60, "LOC": 60, "DATE": 40}
        assert {label: counts[label] for label in wanted if counts[label] < wanted[label]} == {}


@pytest.mark.parametrize("name", BAD_SAMPLES)
def test_bad_sample_is_reported(tmp_path: Path, name: str) -> None:
    text, line, message = BAD_SAMPLES[name]
    assert text != GOOD
    result = problems_of(tmp_path, bad=text)
    assert any(number == line and message in said for _, number, said in result), result


def test_sentence_in_two_files_is_reported(tmp_path: Path) -> None:
    assert problems_of(tmp_path, good=GOOD) == []
    result = problems_of(tmp_path, one=GOOD, two=GOOD)
    assert result == [("two", 3, "sentence also occurs in one.conll")]


def test_problem_line_and_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.conll"
    path.write_text(GOOD.replace("VBD", "VERB"), encoding="utf-8")
    assert validate_corpus.main([str(path)]) == 1
    assert f"{path}:5: unknown tag 'VERB'" in capsys.readouterr().out
