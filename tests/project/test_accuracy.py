"""The page on accuracy is what the command makes of its results; a cell runs the commands that a user runs."""

import json
import re
from pathlib import Path

import pytest
import spacy
from spacy.tokens import DocBin

from scripts import accuracy
from scripts.kit import ROOT, load
from spacy_crfseq.tools.init_config.command import init_config_cli
from tests.commands import invoke, worked, write_corpus

BLOCK = (
    '[components.crf_ner.attributes.towns]\n@crf_attributes = "spacy_crfseq.Phrases.v1"\nlists = {"place": ["Oslo"]}\n'
)
COMMAND_ROWS = {
    "conll2003": "CoNLL-2003 en F1",
    "conll2002": "CoNLL-2002 es F1",
    "conll2000": "CoNLL-2000 F1",
    "ewt-xpos": "EWT XPOS accuracy",
}
README_ROWS = {
    "conll2003": "CoNLL-2003 English entities, F1",
    "conll2002": "CoNLL-2002 Spanish entities, F1",
    "conll2000": "CoNLL-2000 chunks, F1",
}


def test_the_page_is_what_the_command_makes_of_its_results() -> None:
    assert accuracy.PAGE.read_text(encoding="utf8") == accuracy.page()


def test_tables_that_repeat_figures_have_those_of_the_results() -> None:
    results = load(accuracy.RESULTS)

    def figures(cells: str, *kinds: str) -> list[str]:
        """Return figures of cells, in the order of a row."""
        numbers = []
        for result in map(results.__getitem__, cells.split()):
            score, size = 100 * result["test"]["score"], result["megabytes"]
            of_kind = {"test": f"{score:.2f}", "seconds": f"{result['seconds']:.0f}", "MB": f"{size:.0f}"}
            numbers += [of_kind[kind] for kind in kinds]
        return numbers

    for corpus, title in COMMAND_ROWS.items():
        row = next(line for line in str(init_config_cli.__doc__).splitlines() if title in line)
        numbers = row.replace(title, "").replace(" s ", " ").split()
        assert numbers == figures(f"{corpus}-fast {corpus}-accurate", "test", "seconds", "MB"), title
    tools = (ROOT / "docs" / "which-tool.md").read_text(encoding="utf8")
    for row, title in {"accurate": "accurate` (1)", "fast": "fast` (1)", "fast-none": "names (1)"}.items():
        of_row = " | ".join(figures(f"conll2003-{row} conll2002-{row}", "test", "seconds"))
        assert f"{title} | {of_row} |" in tools
    readme = (ROOT / "README.md").read_text(encoding="utf8")
    for corpus, title in README_ROWS.items():
        row = next(line for line in readme.splitlines() if line.startswith(f"| {title}"))
        accurate, seconds = figures(f"{corpus}-accurate", "test", "seconds")
        fast, seconds_of_fast = figures(f"{corpus}-fast", "test", "seconds")
        without = "no-classes" if corpus == "conll2000" else "own"
        own, none = figures(f"{corpus}-{without} {corpus}-fast-none", "test")
        expected = f"| {accurate} | {seconds} s | {own} | {fast} | {seconds_of_fast} s | {none} |"
        assert row.endswith(expected), title


def test_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("RESULTS", "WORK"):
        monkeypatch.setattr(accuracy, name, tmp_path / name)
    monkeypatch.setattr(accuracy, "PAGE", tmp_path / "page.md")
    monkeypatch.setenv("CRFSEQ_DATA", str(tmp_path))
    (tmp_path / "conll2003").mkdir()
    for name, size in (("train", 30), ("testa", 10)):
        write_corpus(tmp_path / "conll2003" / f"eng.{name}", size, size)
    calls = []

    def command(*arguments: str) -> None:
        calls.append(arguments[0])
        worked(invoke(*arguments))
        if arguments[0] == "init-config" and "accurate" in arguments:
            config = Path(arguments[1])
            empty = "[components.crf_ner.attributes]\n"
            config.write_text(config.read_text().replace(empty, f"{empty}\n{BLOCK}"))

    monkeypatch.setattr(accuracy, "command", command)
    accuracy.accuracy(["conll2003/no-towns", "conll2003/fast"])
    trained = {
        row: json.loads((tmp_path / "RESULTS" / f"conll2003-{row}.json").read_text()) for row in ("fast", "no-towns")
    }
    assert not any("towns" in result["sources"] for result in trained.values())
    assert all(0 < result["dev"]["score"] <= 1 and "test" not in result for result in trained.values())
    assert (tmp_path / "page.md").read_text().count("| without `towns` | ") == 1
    calls.clear()
    accuracy.accuracy(["conll2003/no-towns"])
    assert calls == ["init-config"]  # only to know the rows
    with pytest.raises(accuracy.typer.BadParameter, match="conll2003/no-such"):
        accuracy.accuracy(["conll2003/no-such"])


def test_a_dev_part_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accuracy, "WORK", tmp_path / "work")
    (tmp_path / "conll2000").mkdir()
    (tmp_path / "conll2000" / "train.txt").write_text(
        "\n\n".join(f"w{i} NN B-NP\nx NN O" for i in range(1, 23)) + "\n\n"
    )
    files = accuracy.parts_of("conll2000", tmp_path)
    assert files["dev"].read_text() == "w10 NN B-NP\nx NN O\n\nw20 NN B-NP\nx NN O\n"
    assert files["train"].read_text().count("NN O") == 20


def test_the_row_documents_has_files_with_marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accuracy, "WORK", tmp_path / "work")
    monkeypatch.setattr(accuracy, "command", lambda *arguments: worked(invoke(*arguments)))
    (tmp_path / "conll2002").mkdir()
    news = "Roma NP B-LOC\n, Fc O\n3 Z O\njun NC O\n( Fpa O\nEFE NC B-ORG\n) Fpt O\n\nAda NP B-PER\n\n"
    for part in ("train", "testa", "testb"):
        (tmp_path / "conll2002" / f"esp.{part}").write_text(news * 2)
    files = accuracy.parts_of("conll2002", tmp_path, "documents")
    assert {part: file.read_text().count("-DOCSTART-") for part, file in files.items()} == {
        "train": 1, "dev": 1, "test": 1,
    }  # fmt: skip
    assert accuracy.parts_of("conll2002", tmp_path, "accurate")["dev"] == tmp_path / "conll2002" / "esp.testa"


def test_raw_texts_are_documents_in_the_script_as_in_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = tmp_path / "reuters.txt"
    raw.write_text("\n\n\n\nA  man\tcame. He left.\nBo \n\n\n\n \n Ada\n\t\n\n", encoding="utf8")
    page = (ROOT / "docs" / "distillation.md").read_text(encoding="utf8")
    (snippet,) = (code for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "reuters.txt" in code)
    monkeypatch.chdir(tmp_path)
    exec(snippet)
    made = (tmp_path / "raw.spacy", accuracy.write_documents(raw, tmp_path / "script.spacy"))
    by_page, by_script = (
        [
            [sentence.text for sentence in doc.sents]
            for doc in DocBin().from_disk(file).get_docs(spacy.blank("en").vocab)
        ]
        for file in made
    )
    assert by_page == by_script == [["A man came.", "He left.", "Bo"], ["Ada"]]
