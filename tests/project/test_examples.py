"""The examples in the help of every command do what they say, in a folder with files of the names that they use."""

import json
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.main import get_command

from spacy_crfseq.cli.program import crfseq_cli
from tests.commands import invoke, worked, write_attributes, write_models, write_trees

ROOT = Path(__file__).parents[2]
PREFIX = "python -m spacy crfseq "
SENTENCES = 100  # of each part of the bundled corpus
SERVERS = ("annotate", "serve")
COMMANDS: Any = getattr(get_command(crfseq_cli), "commands")  # noqa: B009 - click's group, which typer does not type


class Example(NamedTuple):
    """One command line of a help text.

    args (list[str]): What follows ``crfseq``, the command first.
    stdin (str | None): The file behind ``<``.
    """

    args: list[str]
    stdin: str | None


def examples() -> Iterator[Example]:
    for command in COMMANDS.values():
        text = command.help.replace("\\\n", " ")
        for line in text.splitlines():
            _, result, rest = line.partition(PREFIX)
            if result:
                command, _, file = rest.partition(" < ")
                yield Example(shlex.split(command), file.strip() or None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as a user might have it after a first training."""
    folder = tmp_path_factory.mktemp("examples")
    shutil.copytree(ROOT / "configs", folder / "configs")
    config = (ROOT / "configs" / "pipeline.cfg").read_text(encoding="utf8")
    (folder / "config.cfg").write_text(config.replace('lang = "en"', 'lang = "xx"'), encoding="utf8")  # loads faster
    grid = (ROOT / "configs" / "sweep.cfg").read_text(encoding="utf8")
    grid = grid.replace('"pipeline.cfg"', '"config.cfg"').replace("rho = [0.1, 1, 10]", "rho = [1]")
    grid = grid.replace(', "PointwiseLog"]', "]")  # processes of their own would each compile it
    (folder / "sweep.cfg").write_text(grid, encoding="utf8")
    shutil.copy(folder / "config.cfg", folder / "small.cfg")
    for part in ("train", "dev", "test"):
        source = folder / f"{part}.conll"
        sentences = (ROOT / "assets" / "corpus" / source.name).read_text(encoding="utf8").split("\n\n")
        source.write_text("\n\n".join(sentences[:SENTENCES]) + "\n\n", encoding="utf8")
        assert invoke("convert", source, folder / f"{part}.spacy", "--from conll2003 --to spacy").exit_code == 0
        write_trees(source, folder / f"{part}.conllu")
        write_attributes(source, folder / f"{part}.crfsuite")
    write_trees(folder / "dev.conll", folder / "questions.conllu")
    texts = (ROOT / "assets" / "raw.txt").read_text(encoding="utf8")
    lines = [line for line in texts.splitlines() if line]
    for name in ("news.txt", "texts.txt"):
        (folder / name).write_text(texts, encoding="utf8")
    (folder / "news").mkdir()  # with enough words for a thousand classes
    many = [f"w{i * (i % 7 + 1) % 1201}" for i in range(12_000)]
    (folder / "news" / "words.txt").write_text(
        "\n".join(map(" ".join, zip(*[iter(many)] * 12, strict=True))), encoding="utf8"
    )
    (folder / "glove.txt").write_text("".join(f"w{i} {i % 7} {i % 11 - 5} {i % 13}\n" for i in range(100)), "utf8")
    for name in ("new", "raw", "rules"):
        shutil.copy(folder / "dev.conll", folder / f"{name}.conll")
    parts = (folder / "raw.conll").read_text(encoding="utf8").strip().split("\n\n")
    sentences = [[line.split()[0] for line in part.splitlines()] for part in parts if "DOCSTART" not in part]
    answers = ({"text": " ".join(words), "entities": [{"text": words[0], "label": "person"}]} for words in sentences)
    (folder / "labels.jsonl").write_text("".join(json.dumps(answer) + "\n" for answer in answers), encoding="utf8")
    (folder / "more.txt").write_text("\n".join(reversed(lines)), encoding="utf8")
    (folder / "news.jsonl").write_text("".join(json.dumps({"text": line}) + "\n" for line in lines), encoding="utf8")
    records = ({"text": line, "label": [[0, len(line.split()[0]), "PER"]]} for line in lines)
    (folder / "annotated.jsonl").write_text("".join(json.dumps(answer) + "\n" for answer in records), encoding="utf8")
    dateline = ["Madrid NP B-LOC", *(f"{word} X O" for word in [",", "23", "may", "(", "EFE", ")", "."])]
    (folder / "esp.train").write_text(2 * ("\n".join([*dateline, "", "Nada X O", ". X O"]) + "\n\n"), "utf8")
    (folder / "labeled.xml").write_text("<all><name><given>Ada</given> <last>King</last></name></all>")
    write_models(folder)
    (folder / "template").write_text("U00:%x[-1,0]\nU01:%x[0,0]\nU02:%x[1,0]\nU03:%x[-1,1]/%x[0,1]\n\nB\n")
    paths = ["--paths.train", folder / "train.conll", "--paths.dev", folder / "dev.conll"]
    for output, setting in (("training", "2.0"), ("other", "0.25")):
        strength = ["--components.crf_ner.regularizer.rho", setting]
        worked(invoke("fit", folder / "config.cfg", "--output", folder / output, *paths, *strength))
    sources = [f"llm={folder / 'labels.jsonl'},match=all,map=person:PER", f"model={folder / 'training' / 'model-best'}"]
    options = [part for source in sources for part in ("--source", source)]
    worked(
        invoke("aggregate", folder / "raw.conll", "-o", folder / "aggregated.spacy", *options, "--labels PER,LOC,ORG")
    )
    return folder


@pytest.mark.filterwarnings("ignore:The weights of")  # these few texts are not like the corpus
@pytest.mark.parametrize("example", list(examples()), ids=lambda example: " ".join(example.args)[:60])
def test_the_examples_work(example: Example, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(folder, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    if example.args[0] in SERVERS:  # they answer until they are interrupted
        uvicorn = pytest.importorskip("uvicorn")
        monkeypatch.setattr(uvicorn.Server, "run", lambda server, *args, **settings: None)
        monkeypatch.setattr(uvicorn, "run", lambda app, **settings: None)
    force = (
        ["--force"] if example.args[0] in ("fit", "convert", "import-model", "export-model") else []
    )  # other examples begin with their outputs
    few = [re.sub(r"=0\.9\d$", "=0.3", arg) for arg in example.args]  # the share of spans that these texts can cover
    result = invoke(*few, *force, stdin=Path(example.stdin).read_bytes() if example.stdin else b"")
    assert result.exit_code == 0, result.stdout + result.stderr
    for option, value in zip(example.args, example.args[1:], strict=False):
        if option in ("--output", "-o"):
            assert value == "-" or Path(value).exists()
