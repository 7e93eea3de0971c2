"""No command writes over what it reads, or over a folder that is no pipeline; what it refuses it refuses at once."""

import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from spacy_crfseq.cli.program import crfseq_cli
from spacy_crfseq.corpora.outputs import PIPELINE
from spacy_crfseq.pipeline.configs import pipelines_in
from tests.commands import LBFGS, WAPITI, Run, refused, worked, write_config


@pytest.fixture
def folder(trained: Path, corpus: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model, texts, and a project with a config and data in it."""
    shutil.copytree(trained / "model-best", tmp_path / "model")
    shutil.copy(corpus.dev, tmp_path / "dev.conll")
    shutil.copy(corpus.train, tmp_path / "train.conll")
    (tmp_path / "model.wapiti").write_text(WAPITI)
    write_config(tmp_path / "train.cfg", "crf_ner", components=LBFGS.format(name="crf_ner"))
    (tmp_path / "sweep.cfg").write_text(
        '[sweep]\nconfig = "train.cfg"\ncomponent = "crf_ner"\n[sweep.grid]\nregularizer.rho = [0.1, 1]\n'
    )
    (tmp_path / "news.txt").write_text("Ada sees a dog .\n")
    (tmp_path / "vectors.txt").write_text("Ada 1 0\nsees 0 1\ndog 1 1\n")
    (tmp_path / "old.jsonl").write_text("{}\n")
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
    ("report model dev.conll -f conll2003 --train old.jsonl -o old.jsonl", READ),
    ("report model dev.conll -f conll2003 -o project", IS_FOLDER),
    ("report model dev.conll -f conll2003 -o news.txt/page.html", NOT_ONE),
    ("evaluate model dev.conll -f conll2003 --against model --html dev.conll", READ),
    ("evaluate model dev.conll -f conll2003 -o link", READ),
    ("evaluate model dev.conll -f conll2003 -o project", IS_FOLDER),
    ("explain model news.txt -p crf_ner -o news.txt", READ),
    ("explain model Ada -p crf_ner -o project", IS_FOLDER),
    ("explain model -p crf_ner --texts news.txt -o news.txt", READ),
    ("tag model news.txt -p crf_ner --html news.txt", READ),
    ("vector-classes vectors.txt -o vectors.txt --force", READ),
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
    ("fit project/config.cfg -o training", "training/model-best exists. Give another name, or --force"),
    ("fit project/sourced.cfg -o training --force", APART),
    ("fit train.cfg --teacher training/model-best --raw news.txt -o training --force", APART),
    ("find-regularization train.cfg --paths.vectors training/model-best -o training --force", APART),
    ("find-regularization project/config.cfg -o training", "training/model-best exists"),
    ("sweep project/config.cfg -o training", "training/model-best exists"),
    ("convert dev.conll news.txt --from conll2003 --to iob", "news.txt exists"),
    ("init-config news.txt --task ner --format iob", "news.txt exists"),
    ("active model news.txt -p crf_ner -o old.jsonl", "old.jsonl exists"),
    ("prune model news.txt", "is not a pipeline"),
    ("calibrate model dev.conll -f conll2003 -o project", "is not a pipeline"),
    ("prune model news.txt/small", NOT_ONE),
    ("fit project/config.cfg -o news.txt/out", NOT_ONE),
    ("fit project/config.cfg -o news.txt", "is a file. Give a folder"),
    ("sweep project/config.cfg -o news.txt", "is a file. Give a folder"),
    ("find-regularization project/config.cfg -o news.txt/out", NOT_ONE),
])  # fmt: skip
def test_unusable_input_is_refused_with_its_reason(run: Run, folder: Path, command: str, message: str) -> None:
    def contents() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    before = contents()
    refused(run(*command.split()), message)
    assert contents() == before


def test_a_text_is_no_file(run: Run, folder: Path) -> None:
    worked(run("explain", "model", "Ada\0" + "x" * 5000, "-p crf_ner -o page.html --limit 1 -t 0"))
    assert Path("page.html").is_file()


def test_a_pipeline_of_a_config_is_a_folder_with_its_files_by_any_setting(folder: Path) -> None:
    shutil.copy("train.cfg", "config.cfg")
    values = {"group": "", "path": ".", "name": "Ada\0", "size": 3, "root": str(folder), "several": ["other"]}
    assert list(pipelines_in({"paths": values, "source": "model"})) == ["other", "model"]


def test_the_folder_of_a_project_takes_what_its_config_trains(run: Run, folder: Path) -> None:
    shutil.copy("train.cfg", "config.cfg")
    refused(run("fit", "config.cfg", "-o new --paths.train none.conll --paths.dev", ""), "none.conll: no such file")


# All commands


class Row(NamedTuple):
    """A command line, and all that it writes; a name that ends in a slash is a folder.

    runs: Whether it ends by itself, and can with these inputs.
    """

    line: str
    writes: tuple[str, ...] = ()
    runs: bool = True


MODELS = ("out/model-best/", "out/model-last/", "out/log.jsonl")
REPORTED = "model dev.conll -f conll2003"
SOURCES = "--paths.train train.conll --paths.dev dev.conll"
WRITTEN = [
    Row("active model news.txt -p crf_ner -o out.jsonl", ("out.jsonl",)),
    Row("aggregate dev.conll -f conll2003 --source a=dev.conll --source b=model -o out.spacy", ("out.spacy",)),
    Row("annotate news.txt --labels PER --no-classes -o out --port 0",
        ("out/journal.jsonl", "out/.token", "out/model-best/", "out/train.spacy", "out/dev.spacy", "out/config.cfg",
         "out/classes.tsv", "out/classes.log"), runs=False),
    Row("annotate --review train.conll -f conll2003 -o out --port 0",
        ("out/journal.jsonl", "out/.token", "out/train.conll", "out/suspects.json"), runs=False),
    Row(f"calibrate {REPORTED} -o out", ("out/",)),
    Row("convert dev.conll out.iob --from conll2003 --to iob", ("out.iob",)),
    Row("convert dev.conll out.iob --from conll2003 --to iob --split 80,10,10",
        ("out-train.iob", "out-dev.iob", "out-test.iob")),
    Row("import-model model.wapiti out --labels tag", ("out/",)),
    Row("export-model model out.wapiti -p crf_ner", ("out.wapiti",), runs=False),
    Row("export-model model out.crfsuite -p crf_ner", ("out.crfsuite", "out_items.py", "out_items.json")),
    Row("debug-data dev.conll -f conll2003"),
    Row(f"evaluate {REPORTED} -o out.json", ("out.json",)),
    Row(f"evaluate {REPORTED} --against model --samples 20 --html out.html", ("out.html",)),
    Row("explain model Ada -p crf_ner --token 0 -o out.html", ("out.html",)),
    Row("explain model -p crf_ner -o out.html", ("out.html",)),
    Row(f"find-regularization train.cfg -o out --steps 2 {SOURCES}",
        ("out/model-best/", "out/path.jsonl", "out/path.html")),
    Row(f"fit train.cfg -o out {SOURCES}", MODELS),
    Row("init-config out.cfg --task ner --lang en --format conll2003 --train train.conll", ("out.cfg",)),
    Row("propose-features model dev.conll -f conll2003 -p crf_ner --raw train.conll -o out.tsv", ("out.tsv",)),
    Row("prune model out", ("out/",)),
    Row(f"report {REPORTED} --samples 20 -o out.html", ("out.html",)),
    Row("serve model -p crf_ner -o out --port 0", ("out/",), runs=False),
    Row("tag model news.txt -p crf_ner --html out.html", ("out.html",)),
    Row(f"sweep sweep.cfg -o out --jobs 1 {SOURCES}",
        ("out/model-best/", "out/study.log", "out/sweep.html")),
    Row("tag model news.txt -o out", ("out/news.jsonl",)),
    Row("tag model news.txt -o out.conll --to conll", ("out.conll",)),
    Row("vector-classes vectors.txt -o out.tsv --sizes 3,2", ("out.tsv",)),
    Row("warmup"),
    Row("weigh train.conll --target dev.conll -f conll2003 -o out.conll", ("out.conll",)),
    Row("word-classes train.conll -f conll2003 -o out.tsv --sizes 8,4 --min-count 1", ("out.tsv", "out-4.tsv")),
]  # fmt: skip


def test_every_command_has_a_row() -> None:
    assert {row.line.split()[0] for row in WRITTEN} == {command.name for command in crfseq_cli.registered_commands}


@pytest.mark.parametrize("row", [row for row in WRITTEN if row.runs], ids=lambda row: row.line)
def test_a_command_writes_what_its_row_says(row: Row, run: Run, folder: Path) -> None:
    def paths() -> set[str]:
        return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if ".tag" not in path.parts}

    before = paths()
    result = run(*row.line.split())
    assert result.exit_code == 0, result.stderr
    new = {path for path in paths() - before if (folder / path).is_file()}
    assert {path for path in new if not any(f"{path}/".startswith(f"{name}/") for name in names(row))} == set()
    assert {name for name in names(row) if not (folder / name).exists()} <= SOMETIMES


SOMETIMES = {"out_items.json"}
"""The contents of a folder where features have tables."""


def names(row: Row) -> list[str]:
    return [name.removesuffix("/") for name in row.writes]


KINDS = {"tag model news.txt -o out.conll --to conll": ("file",)}  # a folder of this name takes the file
PLACES = [
    (row.line, place, kind)
    for row in WRITTEN
    for place in row.writes
    for kind in KINDS.get(row.line, ("file", "folder"))
]


@pytest.mark.parametrize(("line", "place", "kind"), PLACES, ids=[f"{a.split()[0]}-{b}-{c}" for a, b, c in PLACES])
def test_no_command_writes_over_what_it_has_not_written(
    line: str, place: str, kind: str, run: Run, folder: Path
) -> None:
    foreign = Path(place)
    if kind == "folder":
        foreign = foreign / "mine.txt"
    foreign.parent.mkdir(parents=True, exist_ok=True)
    foreign.write_bytes(b"mine")
    result = run(*line.split())
    refused(result)
    assert Path(place).name in " ".join(result.stderr.split())
    assert foreign.read_bytes() == b"mine"
