"""The example project on references: its commands run on a few of them, and its features are those that it names."""

import json
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import spacy
import srsly
from spacy.util import import_file

from tests.commands import invoke, worked
from tests.project.pages import ROOT, read

PROJECT = ROOT / "examples" / "references"
PEOPLE = ("Ada Byron", "Bo Lind", "Ines Roca", "Karl Maria Vogt")
TITLES = ("Of Maps and Towns.", "A Short History of Bridges.", "Letters from the North.", "The Engine.")
PLACES = (("Oslo:", "North Press,"), ("New York:", "Wiley & Sons,"), ("Wien:", "Springer,"))


def write_references(path: Path, years: range) -> Path:
    """Write one reference for each year."""
    texts = []
    for number, year in enumerate(years):
        place, publisher = PLACES[number % 3]
        parts = {"author": f"{PEOPLE[number % 4]}.", "title": TITLES[number * 3 % 4]}
        if number % 5 == 1:
            parts["journal"] = "Journal of Maps,"
        elif number % 5 == 3:
            parts["container-title"] = "In Proceedings of the Workshop on Maps,"
        else:
            parts |= {"location": place, "publisher": publisher.replace("&", "&amp;")}
        parts["date"] = f"{year}."
        texts.append("".join(f"<{name}>{text}</{name}>\n" for name, text in parts.items()))
    path.write_text("<dataset>" + "".join(f"<sequence>{text}</sequence>" for text in texts) + "</dataset>")
    return path


@pytest.fixture(scope="module")
def features() -> ModuleType:
    return import_file("references_features", PROJECT / "features.py")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("configs", "lists", "scripts"):
        shutil.copytree(PROJECT / name, tmp_path / name)
    for name in ("project.yml", "features.py", "references.txt"):
        shutil.copy(PROJECT / name, tmp_path)
    (tmp_path / "assets").mkdir()
    write_references(tmp_path / "assets" / "core.xml", range(1950, 1974))
    write_references(tmp_path / "assets" / "gold.xml", range(1985, 1990))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def commands(name: str, **chosen: str) -> Iterator[list[str]]:
    """Yield the arguments of the crfseq commands in a command of the project."""
    project = srsly.read_yaml(PROJECT / "project.yml")
    settings = {**project["vars"], **chosen}
    (wanted,) = [command for command in project["commands"] if command["name"] == name]
    for line in wanted["script"]:
        filled = re.sub(r"\$\{vars\.(\w+)\}", lambda match: str(settings[match[1]]), line)
        yield shlex.split(filled.removeprefix("python -m spacy crfseq "))


@pytest.mark.parametrize(("config", "score"), [("references", "ents_sequence_acc"), ("anystyle", "tag_sequence_acc")])
def test_the_commands_run(config: str, score: str, folder: Path) -> None:
    for name in ("check", "train", "evaluate", "tag"):
        for arguments in commands(name, config=config):
            worked(invoke(*arguments))
    assert json.loads(read(folder / "metrics" / f"{config}.json"))[score] == 1.0
    tagged = [json.loads(line) for line in read(folder / "output" / "references.jsonl").splitlines()]
    assert [line["text"] for line in tagged] == read(PROJECT / "references.txt").splitlines()
    shutil.rmtree(folder / "lists")  # a trained pipeline does without
    doc = spacy.load(folder / "training" / config / "model-best")("Ines Roca. The Engine. Oslo: North Press, 1999.")
    labels = [token.tag_ or token.ent_type_ for token in doc]
    assert labels == ["author"] * 2 + ["title"] * 2 + ["location"] + ["publisher"] * 2 + ["date"]


def test_the_comparison_runs(
    folder: Path, features: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "features", features)
    monkeypatch.setattr(sys, "path", [*sys.path])
    arguments = ["compare.py", "--gold", "assets/gold.xml", "--first", "12", "--only", "anystyle.cfg"]
    monkeypatch.setattr(sys, "argv", arguments)
    import_file("references_compare", folder / "scripts" / "compare.py").main()
    assert "12 references of core, 5 of gold, 0 of these are in core, too." in capsys.readouterr().out


COLUMNS = {
    "(eds.),": {"canonical": "eds", "first": "Ps", "last": "P", "keyword": "editor", "brackets": "parens"},
    "Müller,": {"canonical": "muller", "capitals": "initial", "start2": "Mü", "terminal": "weak", "number": "none"},
    "1985.": {"number": "year", "first": "N", "end2": "5.", "terminal": "strong", "punctuation": "period"},
    "12(3),": {"number": "volume", "brackets": "parens-close"},
    "127–136.": {"number": "numeric", "punctuation": "hyphen"},
    "&": {"canonical": "BLANK", "keyword": "and", "punctuation": "amp"},
    "IEEE": {"capitals": "caps", "keyword": "none", "punctuation": "none", "terminal": "none", "locator": "F"},
    "doi:10.1000/x": {"locator": "T", "keyword": "locator", "punctuation": "colon"},
    "XIV": {"keyword": "roman", "number": "roman"},
    "Symposiums": {"keyword": "proceedings"},
}


@pytest.mark.parametrize("word", COLUMNS)
def test_columns(word: str, features: ModuleType) -> None:
    assert {name: features.COLUMNS[name](word) for name in COLUMNS[word]} == COLUMNS[word]


def test_the_parts_of_a_reference(features: ModuleType) -> None:
    words = ["Roca,", "I.", "“The", "Engine.”", "In", "Proc.", "1999"]
    assert features.parts_of(words) == [words[:1], ["I.", "“The", "Engine.”"], ["In", "Proc."], ["1999"]]
    rows = list(features.attributes_of(words))
    assert len(rows) == len(words)
    assert {"first=in", "here=in", "after=number:year", "place=1", "quoted=False,False"} < set(rows[5])
    assert "quoted=True,False" in rows[3]
    assert [features.tenth(i, 4) for i in range(4)] == ["first", "3", "5", "last"]
    assert list(features.attributes_of([])) == []
