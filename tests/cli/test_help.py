"""Help texts, the two ways to the commands, and how little importing them costs."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import spacy
import typer

from spacy_crfseq import __version__
from spacy_crfseq.cli import given_words
from spacy_crfseq.cli.app import MEANT, SECTIONS
from spacy_crfseq.cli.program import crfseq_cli, needed
from tests import forks
from tests.commands import Corpus, Run, refused, worked

COMMANDS = [name for names in SECTIONS.values() for name in names]


def test_every_command_is_in_a_section() -> None:
    assert sorted(command.name or "" for command in crfseq_cli.registered_commands) == sorted(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_an_example_and_fits_into_80_columns(command: str, run: Run) -> None:
    text = worked(run(command, "--help")).stdout
    assert "Example" in text
    assert f"python -m spacy crfseq {command}" in text
    assert [line for line in text.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("command", crfseq_cli.registered_commands, ids=lambda command: command.name)
def test_options_with_a_paragraph_in_the_help_have_an_example(command: Any) -> None:
    text, _, examples = command.callback.__doc__.partition("    Example")
    options = re.findall(r"^\n    (?:With )?(--[a-z-]+)", text, re.MULTILINE)
    assert [option for option in options if option not in examples and option != "--dask"] == []


def test_the_expression_for_documents_is_that_of_the_page(run: Run) -> None:
    shown = re.findall(r"--document-start ('[^']+')", worked(run("convert", "--help")).stdout)
    page = (Path(__file__).parents[2] / "docs" / "features.md").read_text(encoding="utf8")
    assert shown
    assert all(f"--document-start {expression}" in page for expression in shown)


@pytest.mark.parametrize(
    "command", typer.main.get_command(crfseq_cli).commands.values(), ids=lambda command: command.name
)
def test_help_of_options_has_no_brackets_that_rich_takes_for_markup(command: Any) -> None:
    for parameter in command.params:
        text = f"{getattr(parameter, 'help', '')} {parameter.show_default}"
        assert not re.search(r"\[[a-z#/@]", text), parameter.name


@pytest.mark.parametrize("command", ["evaluate", "tag"])
def test_options_on_the_layout_of_a_file_have_a_panel(command: str, run: Run) -> None:
    help_of, _, panel = worked(run(command, "--help")).stdout.partition("─ Layout of the file ─")
    for option in ("--format", "--columns", "--scheme", "--encoding"):
        assert f"\n│ {option} " in panel
        assert f"\n│ {option} " not in help_of


def test_version(run: Run) -> None:
    shown = worked(run("--version")).stdout
    packages = rf"spacy {spacy.__version__}, thinc [\d.]+, numba [\d.]+, numpy [\d.]+, Python [\d.]+"
    assert re.fullmatch(rf"spacy_crfseq {__version__} \({packages}\)\n", shown)


def test_commands_are_part_of_spacy_and_light_to_import() -> None:
    code = (
        "import sys, spacy, spacy_crfseq.cli.program\n"
        "rooms = ['decoders', 'features', 'inference.posterior', 'kernels.jit', 'model', 'potentials', 'training']\n"
        "heavy = ['numba', 'multiprocessing.connection', *(f'spacy_crfseq.{room}' for room in rooms)]\n"
        "heavy += [f'spacy_crfseq.pipeline.{name}' for name in ('component', 'encode', 'prediction', 'doc_model')]\n"
        "assert not sorted(set(heavy) & set(sys.modules)), sorted(set(heavy) & set(sys.modules))\n"
        "assert spacy.registry.has('crf_losses', 'spacy_crfseq.SequentialLog.v1')\n"
        "from spacy.cli import setup_cli\n"
        "sys.argv = ['spacy', 'crfseq', '--help']\n"
        "try:\n    setup_cli()\nfinally:\n    print('numba' in sys.modules)"
    )
    call = [sys.executable, "-W", "error", "-c", code]
    result = subprocess.run(call, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.endswith("False\n")
    for command in COMMANDS:
        assert f"\n│ {command} " in result.stdout


@pytest.mark.parametrize(("line", "loaded"), [
    ("spacy crfseq tag model", {"tag"}),
    ("-m crfseq fit --help", {"fit"}),
    ("bin/spacy-crfseq tag", {"tag"}),
    ("spacy crfseq tga", {"tag", "prune"}),
    ("spacy crfseq", {"tag", "prune"}),
    ("spacy-crfseq --help", {"tag", "prune"}),
    ("spacy train tag", {"tag", "prune"}),
    ("pytest", {"tag", "prune"}),
])  # fmt: skip
def test_a_process_for_one_command_loads_no_other(line: str, loaded: set[str]) -> None:
    assert {*needed(given_words(line.split()), ["tag", "prune"])} == loaded


def test_console_script(tmp_path: Path) -> None:
    call = "import sys; from spacy_crfseq.cli.program import main; sys.argv = ['x', *sys.argv[1:]]; main()"
    arguments = ["convert", tmp_path / "none", tmp_path / "out", "--from", "iob", "--to", "spacy"]
    result = forks.run(["-c", call, *arguments])
    assert result.returncode == 1
    assert result.stdout == ""
    assert result.stderr.startswith("The file cannot be read\n")
    assert result.stderr.count("\n") == 2


def test_names_of_other_programs_are_pointed_to_ours(run: Run) -> None:
    assert set(MEANT.values()) <= set(COMMANDS)
    assert not set(MEANT) & set(COMMANDS)
    for name, ours in MEANT.items():
        result = run(name, "x")
        assert result.exit_code == 2
        assert f"No such command {name!r}. Did you mean {ours!r}?" in result.stderr
    assert "No such command 'qqq'" in run("qqq").stderr
    assert "Did you mean 'evaluate'?" in run("evalute").stderr


@pytest.mark.parametrize("near", ["spacy_crfseq.LBFSG.v1", "LBFGS", "spacy_crfseq.LBFGS.v2"])
def test_an_unknown_function_gets_the_nearest_one(near: str, run: Run) -> None:
    config = Path(__file__).parents[2] / "configs" / "pipeline.cfg"
    result = run("fit", config, "--output none --components.crf_ner.optimizer.@crf_optimizers", near)
    refused(result, "Did you mean 'spacy_crfseq.LBFGS.v1'?", "--code FILE")


@pytest.mark.parametrize(("override", "nearest"), [
    ("--components.crf_ner.regulariser x", "'regularizer'"),
    ("--components.crf_ner.regulariser.rho 3", "'regularizer'"),
    ("--components.crf_ner.regularizer.roh 3", "'rho'"),
    ("--components.crf_nr.min_count 3", "--components.crf_ner.min_count"),
    ("--components.crf_ner.min_cuont 3", "'min_count'"),
    ("--components.crf_ner.factory crf_nr", "'crf_ner'"),
    ("--corpora.train.colums x", "'columns'"),
    ("--corpora.train.@readers conllreader", "'spacy_crfseq.ConllReader.v1'"),
    ("--components.crf_ner.optimizer.@crf_optimizers lbfgs", "'spacy_crfseq.LBFGS.v1'"),
])  # fmt: skip
def test_an_unknown_key_gets_the_nearest_one(override: str, nearest: str, run: Run) -> None:
    config = Path(__file__).parents[2] / "configs" / "pipeline.cfg"
    refused(run("fit", config, "--output none --paths.train x --paths.dev x", override), f"Did you mean {nearest}?")


@pytest.mark.parametrize("command", [
    "evaluate M F", "report M F", "calibrate M F", "evaluate M F --against M", "tag M F -o x",
    "tag M F --html x.html -p crf_ner", "active M F -p crf_ner", "explain M F -p crf_ner",
    "explain M -p crf_ner --label LOC", "prune M x",
])  # fmt: skip
def test_the_folder_above_points_to_the_models(command: str, run: Run, trained: Path, corpus: Corpus) -> None:
    names = {"M": trained, "F": corpus.dev}
    said = f"{trained} is not a pipeline: it has no config.cfg. Give {trained}/model-best or {trained}/model-last."
    refused(run(*(names.get(word, word) for word in command.split())), said)
    assert run("evaluate", trained / "nope", corpus.dev).stderr.count("no such folder") == 1
