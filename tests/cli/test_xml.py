"""Labelled XML from init-config to tagged texts, as plain labels and as spans."""

import json
from pathlib import Path
from typing import Any

import pytest
import spacy

from spacy_crfseq.corpora.splitting import PARTED
from tests.cli.test_layouts import COMMANDS
from tests.commands import Run, refused, worked

STREETS = ("Main", "Oak", "East 5th")


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("xml") / "labeled.xml"
    items = [
        f"<no>{7 * i % 90}</no> <street>{STREETS[i % 3]}</street> <street>{'St.' if i % 2 else 'Ave'}</street>, "
        f"<town>{'Oslo' if i % 5 else 'New York'}</town>"
        for i in range(40)
    ]
    path.write_text("<all>\n" + "".join(f"  <address>{item}</address>\n" for item in items) + "</all>")
    return path


@pytest.fixture(scope="module")
def models(addresses: Path, run: Run) -> dict[str, Path]:
    """A tagger and an entity recognizer, each trained on nine tenths of the addresses."""
    folder = addresses.parent
    for task in ("tagger", "ner"):
        config = folder / f"{task}.cfg"
        worked(run("init-config", config, f"--task {task} --goal fast --lang en --train", addresses))
        worked(run("fit", config, "--output", folder / task), "Encoded 36 documents")
    return {task: folder / task / "model-best" for task in ("tagger", "ner")}


def test_the_config_has_reader_tokenizer_and_dev_part(addresses: Path, models: dict[str, Path], run: Run) -> None:
    nlp = spacy.load(models["tagger"])
    train, dev = (nlp.config.interpolate()["corpora"][name] for name in ("train", "dev"))
    assert train["@readers"] == "spacy_crfseq.XMLReader.v1"
    assert (train["part"], dev["part"], dev["path"], train["sequence"]) == ("train", "dev", str(addresses), "address")
    assert [(token.text, token.tag_) for token in nlp("63  Main St., Oslo")] == [
        ("63", "no"), ("Main", "street"), ("St", "street"), (".", "street"), (",", "O"), ("Oslo", "town"),
    ]  # fmt: skip
    result = worked(run("init-config", "-", "--lang en --train", addresses, "--dev", addresses))
    assert result.stdout.count('part = "all"') == 2


def test_debug_data_compares_tokens_with_the_tokenizer(addresses: Path, models: dict[str, Path], run: Run) -> None:
    def findings(*options: str) -> str:
        result = run("debug-data", addresses, "--json --no-cost --config", addresses.parent / "ner.cfg", *options)
        report = json.loads(worked(result).stdout)
        assert report["parts"]["train"]["columns"].keys() == {"ent"}
        return str(report["findings"])

    assert "tokenizer" not in findings()
    other = findings("--nlp.tokenizer.pattern", r"\S+")  # which the corpora have, too
    assert "labeled.xml: of 40 sequences, the tokenizer makes other tokens than the labels have" in other


@pytest.mark.parametrize(
    ("command", "task"),
    [
        *((command, "ner") for command in COMMANDS),
        *((command, "tagger") for command in COMMANDS if command.startswith(("evaluate", "explain", "tag "))),
    ],
)
def test_commands_read_it(
    command: str, task: str, addresses: Path, models: dict[str, Path], run: Run, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    if task == "tagger" and command.split()[0] == "explain":
        command += " -p crf_tagger"
    names: dict[str, Any] = {"M": models[task], "F": addresses}
    result = worked(run(*(names.get(word, word) for word in command.split())))
    assert "detected" not in result.stderr
    if command.endswith("tagged.jsonl"):
        assert json.loads(Path("tagged.jsonl").read_text().partition("\n")[0])["text"] == "0 Main Ave, New York"
    broken = tmp_path / "broken.xml"
    broken.write_text(addresses.read_text()[:500])
    if not command.startswith(("tag", "explain")):
        names["F"] = broken
        arguments = command.replace(" new", " other").split()
        refused(run(*(names.get(word, word) for word in arguments)), "broken.xml:7: this is not XML", silent=False)


def test_a_folder_of_files(addresses: Path, run: Run, tmp_path: Path) -> None:
    (tmp_path / "all" / "more").mkdir(parents=True)
    for name in ("a.xml", "more/b.xml"):
        (tmp_path / "all" / name).write_bytes(addresses.read_bytes())
    config = tmp_path / "c.cfg"
    worked(run("init-config", config, "--lang en --train", tmp_path / "all"))
    assert 'sequence = "address"' in config.read_text()
    report = worked(run("debug-data", tmp_path / "all", "--json --no-cost --config", config))
    counts = json.loads(report.stdout)["parts"]
    assert [counts[part]["sentences"] for part in ("train", "dev")] == [72, 8]  # as the config takes them
    assert counts["dev"]["columns"]["tag"]["labels"]["no"] == 8
    assert "Encoded 72 documents" in worked(run("fit", config, "--output", tmp_path / "out")).output
    worked(run("evaluate", tmp_path / "out/model-best", tmp_path / "all"), "accuracy: 100.00%")
    columns = tmp_path / "test.conll"  # with as many columns as an XML file
    columns.write_text("Main street B-NP O\nAda no B-NP B-PER\n\n" * 9)
    assert "detected --format conll2003" in worked(run("evaluate", tmp_path / "out/model-best", columns)).stderr
    worked(run("convert", tmp_path / "all", tmp_path / "all.conll", "--to word,tag"), "Converted 80 sentences")
    (tmp_path / "none").mkdir()
    refused(run("evaluate", tmp_path / "out/model-best", tmp_path / "none"), "this is a folder; give one file")


def test_labels_and_tokens_of_a_config(run: Run, tmp_path: Path) -> None:
    path, config = tmp_path / "a.xml", tmp_path / "c.cfg"
    path.write_text("<r>" + "<s><a>V69,</a> <b>p1914.</b></s><s><a>V6,</a> <c>x y</c></s>" * 20 + "</r>")
    worked(run("init-config", config, "--lang en --rename a=one,b=one,c=O --train", path))
    labels = json.loads(worked(run("debug-data", path, "--json --no-cost --config", config)).stdout)
    assert labels["parts"]["train"]["columns"]["tag"]["labels"].keys() == {"one", "O"}
    text = config.read_text().replace('pattern = "\\\\S+"', f"pattern = {json.dumps(PARTED)}")
    config.write_text(text.replace('pattern = "\\\\w+|[^\\\\w\\\\s]"', f"pattern = {json.dumps(PARTED)}"))
    worked(run("convert", path, tmp_path / "a.txt", "--to word,tag --config", config))
    lines = (tmp_path / "a.txt").read_text().split("\n")
    assert lines[:7] == ["V one", "69 one", ", one", "p one", "1914 one", ". one", ""]
    assert lines[10:13] == ["x O", "y O", ""]
    worked(run("convert", path, tmp_path / "b.txt", "--to word,tag --rename a=one"))
    assert (tmp_path / "b.txt").read_text().startswith("V69, one\np1914. b\n")
    refused(run("convert", path, tmp_path / "d.txt", "--to word,tag --rename a"), "--rename a: give labels of XML")
    refused(run("convert", tmp_path / "a.txt", tmp_path / "e.iob", "--rename a=b"), "--rename a=b: give labels of XML")
