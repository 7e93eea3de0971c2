"""No command writes over what it reads, or over a folder that is no pipeline; what it refuses it refuses at once."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from spacy_crfseq.corpora.outputs import PIPELINE
from tests.commands import Run, refused, worked


@pytest.fixture
def folder(trained: Path, corpus: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model, texts, and a project with a config and data in it."""
    shutil.copytree(trained / "model-best", tmp_path / "model")
    shutil.copy(corpus.dev, tmp_path / "dev.conll")
    (tmp_path / "news.txt").write_text("Ada sees a dog .\n")
    (tmp_path / "log.jsonl").write_text("{}\n")
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "config.cfg").write_text("[nlp]\n")
    (tmp_path / "project" / "data.txt").write_text("mine\n")
    (tmp_path / "project" / "sourced.cfg").write_text(
        '[components]\n[components.crf_ner]\nsource = "training/model-best"\n'
    )
    (tmp_path / "link").symlink_to("dev.conll")
    for copy in ("model/inner", "other", "training/model-best"):
        (tmp_path / copy).mkdir(parents=True)
        for name in PIPELINE:
            (tmp_path / copy / name).write_text("")
    (tmp_path / "model-link").symlink_to("model")
    monkeypatch.chdir(tmp_path)
    return tmp_path


READ = "is read by this command"
IS_FOLDER = "is a folder. Give the name of a file"
APART = "that this command reads. Give another folder"
NOT_ONE = "is a file, not a folder"


@pytest.mark.parametrize(("command", "message"), [
    ("report model dev.conll -f conll2003 -o dev.conll", READ),
    ("report model dev.conll -f conll2003 -o ./link", READ),
    ("report model dev.conll -f conll2003 --corpus news.txt -o news.txt", READ),
    ("report model dev.conll -f conll2003 --train log.jsonl -o log.jsonl", READ),
    ("report model dev.conll -f conll2003 -o project", IS_FOLDER),
    ("report model dev.conll -f conll2003 -o news.txt/page.html", NOT_ONE),
    ("evaluate model dev.conll -f conll2003 --against model --html dev.conll", READ),
    ("evaluate model dev.conll -f conll2003 -o link", READ),
    ("evaluate model dev.conll -f conll2003 -o project", IS_FOLDER),
    ("explain model news.txt -p crf_ner -o news.txt", READ),
    ("explain model Ada -p crf_ner -o project", IS_FOLDER),
    ("explain model -p crf_ner --texts news.txt -o news.txt", READ),
    ("show model news.txt -p crf_ner -o news.txt", READ),
    ("active model news.txt -p crf_ner -o news.txt", READ),
    ("convert dev.conll dev.conll --from conll2003 --to iob", READ),
    ("init-config dev.conll --force --format conll2003 --train dev.conll", READ),
    ("prune model project", "is not a pipeline"),
    ("prune model model --force", APART),
    ("prune model ./project/../model --force", APART),
    ("prune model model-link --force", APART),
    ("prune model-link model --force", APART),
    ("prune model model/small", APART),
    ("prune model/inner model --force", APART),
    ("prune model other", "other exists. Give another name, or --force"),
    ("calibrate model dev.conll -f conll2003 -o model --force", APART),
    ("calibrate model dev.conll -f conll2003 -o other", "other exists"),
    ("fine-tune training/model-best project/config.cfg -o training --force", APART),
    ("fine-tune model project/config.cfg -o training", "training/model-best exists"),
    ("fit project/config.cfg -o training", "training/model-best exists. Give another name, or --force"),
    ("fit project/sourced.cfg -o training --force", APART),
    ("find-regularization project/config.cfg -o training", "training/model-best exists"),
    ("sweep project/config.cfg -o training", "training/model-best exists"),
    ("convert dev.conll news.txt --from conll2003 --to iob", "news.txt exists"),
    ("init-config news.txt --task ner --format iob", "news.txt exists"),
    ("active model news.txt -p crf_ner -o log.jsonl", "log.jsonl exists"),
    ("prune model news.txt", "is not a pipeline"),
    ("calibrate model dev.conll -f conll2003 -o project", "is not a pipeline"),
    ("prune model news.txt/small", NOT_ONE),
    ("fit project/config.cfg -o news.txt/out", NOT_ONE),
    ("fit project/config.cfg -o news.txt", "is a file. Give a folder"),
    ("sweep project/config.cfg -o news.txt", "is a file. Give a folder"),
    ("find-regularization project/config.cfg -o news.txt/out", NOT_ONE),
])  # fmt: skip
def test_refused(run: Run, folder: Path, command: str, message: str) -> None:
    def contents() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    before = contents()
    refused(run(*command.split()), message)
    assert contents() == before


def test_a_text_is_no_file(run: Run, folder: Path) -> None:
    worked(run("explain", "model", "Ada\0" + "x" * 5000, "-p crf_ner -o page.html --limit 1 -t 0"))
    assert Path("page.html").is_file()
