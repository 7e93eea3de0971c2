"""spaCy's own commands on the components, from `init config` to `package`, each as a user runs it."""

import json
import os
from pathlib import Path

import pytest
import spacy
from spacy.cli._util import app
from spacy.tokens import DocBin
from typer.testing import CliRunner

import spacy_crfseq.cli.program  # noqa: F401
from tests import forks
from tests.pipeline.helpers import SENTENCES, gold_doc

TINY = ["--training.max_steps=8", "--training.eval_frequency=4", "--training.seed=1"]
SOURCED = '[nlp]\nlang = "xx"\npipeline = ["crf_ner"]\n[components]\n[components.crf_ner]\n'
SCRIPT = "import sys; from spacy.cli import setup_cli; sys.argv[0] = '/usr/bin/spacy'; sys.exit(setup_cli())"
"""Code of the program ``spacy`` that pip installs."""
TEXT = "Anna lives in New York ."


def run(*command: str | Path) -> str:
    """Run Python in a process of its own, and return what it printed."""
    done = forks.run(command, env={**os.environ, "PYTHONIOENCODING": "utf8", "WASABI_NO_PRETTY": "1"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


def call(*arguments: str | Path) -> str:
    """Run a command of spaCy in this process, which saves the seconds of starting one, and return what it printed."""
    result = CliRunner().invoke(app, [*map(str, arguments)])
    assert result.exit_code == 0, result.output + repr(result.exception)
    return result.output


def paths(folder: Path) -> list[str]:
    return [f"--paths.{name}={folder / 'corpus.spacy'}" for name in ("train", "dev")]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a corpus, a config straight from `init config`, and a pipeline trained by `train`."""
    folder = tmp_path_factory.mktemp("spacy_cli")
    nlp = spacy.blank("xx")
    DocBin(docs=[gold_doc(nlp, rows) for rows in SENTENCES] * 21, store_user_data=True).to_disk(folder / "corpus.spacy")
    call("init", "config", folder / "config.cfg", "-l", "xx", "-p", "crf_ner")
    python = ("-W", "error:::spacy_crfseq", "-m", "spacy")
    output = run(*python, "train", folder / "config.cfg", "-o", folder / "out", *paths(folder), *TINY)
    assert "CRF_NER" in output.upper()
    assert "ENTS_F" in output
    return folder


def test_train(folder: Path) -> None:
    nlp = spacy.load(folder / "out" / "model-best")
    assert [ent.text for ent in nlp(TEXT).ents] == ["Anna", "New York"]
    assert nlp.meta["performance"]["ents_f"] == 1.0
    assert nlp.config["components"]["crf_ner"]["factory"] == "crf_ner"
    assert not list((folder / "out").rglob("*.part"))


def test_evaluate(folder: Path) -> None:
    call("evaluate", folder / "out" / "model-best", folder / "corpus.spacy", "--output", folder / "scores.json")
    scores = json.loads((folder / "scores.json").read_text())
    assert scores["ents_f"] == 1.0
    assert set(scores["ents_per_type"]) == {"PER", "LOC", "ORG"}


@pytest.mark.parametrize(
    ("component", "score"), [("crf_tagger", "tag_acc"), ("crf_chunker", "spans_chunks_f"), ("crf_ner", "ents_f")]
)
def test_init_config_gives_a_complete_config(folder: Path, tmp_path: Path, component: str, score: str) -> None:
    call("init", "config", tmp_path / "config.cfg", "-l", "xx", "-p", component)
    config = spacy.util.load_config(tmp_path / "config.cfg")
    assert config["components"][component]["loss"] == {"@crf_losses": "spacy_crfseq.SequentialLog.v1"}
    assert config["training"]["score_weights"][score] == 1.0
    call("train", tmp_path / "config.cfg", "-o", tmp_path / "out", *paths(folder), *TINY)
    nlp = spacy.load(tmp_path / "out" / "model-last")
    assert nlp.pipe_names[-1] == component
    assert score in nlp.meta["performance"]


def test_fill_config(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "base.cfg").write_text(SOURCED + 'factory = "crf_ner"\nscheme = "IOB2"\n')
    call("init", "fill-config", tmp_path / "base.cfg", tmp_path / "config.cfg")
    config = spacy.util.load_config(tmp_path / "config.cfg")
    assert config["components"]["crf_ner"]["scheme"] == "IOB2"
    assert config["components"]["crf_ner"]["regularizer"]["rho"] == 1.0
    call("train", tmp_path / "config.cfg", *paths(folder), *TINY)


def test_labels(folder: Path, tmp_path: Path) -> None:
    call("init", "labels", folder / "config.cfg", tmp_path / "labels", *paths(folder))
    tags = json.loads((tmp_path / "labels" / "crf_ner.json").read_text())
    assert tags == ["O", "B-LOC", "B-ORG", "I-ORG", "L-LOC", "L-ORG", "U-LOC", "U-PER"]
    text = (folder / "config.cfg").read_text().replace("[initialize.components]", "")
    labels = (tmp_path / "labels" / "crf_ner.json").as_posix()
    block = f'\n[initialize.components.crf_ner.labels]\n@readers = "spacy.read_labels.v1"\npath = "{labels}"\n'
    (tmp_path / "config.cfg").write_text(text + "\n[initialize.components]\n[initialize.components.crf_ner]\n" + block)
    call("train", tmp_path / "config.cfg", "-o", tmp_path / "out", *paths(folder), *TINY)
    assert spacy.load(tmp_path / "out" / "model-last").get_pipe("crf_ner").label_data == tags


@pytest.mark.parametrize(("command", "expected"), [("data", "crf_ner"), ("config", "Config is valid")])
def test_debug(folder: Path, command: str, expected: str) -> None:
    assert expected in call("debug", command, folder / "config.cfg", *paths(folder))


def test_debug_model(folder: Path) -> None:
    flags = ["-P0", "-P1", "-P2", "-P3", "-DIM", "-PAR", "-GRAD", "-ATTR"]
    output = call("debug", "model", folder / "config.cfg", "crf_ner", *flags, *paths(folder))
    assert "linear_chain_crf" in output
    assert "dim nO: 8" in output
    assert "ended analysis - model looks good" in output


@pytest.mark.parametrize(
    ("typo", "place", "program"),
    [
        ("--training.patiance=3", "arguments", ["-m", "spacy"]),
        ("--paths.trian=x", "environment", ["-m", "spacy"]),
        ("--system.sed=3", "arguments", ["-c", SCRIPT]),
        ("--training.patiance=3", "environment", ["-c", SCRIPT]),
    ],
)
def test_an_override_that_nothing_reads_is_refused(folder: Path, typo: str, place: str, program: list[str]) -> None:
    arguments = [*program, "train", folder / "config.cfg", *paths(folder), *TINY]
    environment = {**os.environ, "PYTHONIOENCODING": "utf8"}
    if place == "environment":
        environment["SPACY_CONFIG_OVERRIDES"] = typo
    else:
        arguments.append(typo)
    done = forks.run(arguments, env=environment)
    assert done.returncode == 1, done.stdout + done.stderr
    if "extra fields not permitted" not in done.stdout:  # as older releases of spaCy say of [training]
        assert f"{typo.partition('=')[0]} changes nothing" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_setting_of_the_file_that_nothing_reads_is_refused(folder: Path, tmp_path: Path) -> None:
    text = (folder / "config.cfg").read_text()
    (tmp_path / "config.cfg").write_text(text.replace("[training]", "[training]\nmax_epoch = 3", 1))
    done = forks.run(["-m", "spacy", "train", tmp_path / "config.cfg", *paths(folder), *TINY])
    assert done.returncode == 1, done.stdout + done.stderr
    if "extra fields not permitted" not in done.stdout:
        assert "Did you mean 'max_epochs'?" in done.stderr
    assert "Traceback" not in done.stderr


def test_overrides_are_those_of_the_file_where_components_are_sourced(folder: Path, tmp_path: Path) -> None:
    text = (folder / "config.cfg").read_text()
    text = text.replace('pipeline = ["crf_ner"]', 'pipeline = ["sourced", "crf_ner"]')
    text = text.replace("[paths]", f'[paths]\nmodel = "{(folder / "nowhere").as_posix()}"')
    block = '[components.sourced]\nsource = ${paths.model}\ncomponent = "crf_ner"\n'
    (tmp_path / "config.cfg").write_text(text.replace("[components]", f"[components]\n{block}"))
    arguments = ["-m", "spacy", "train", "--verbose", tmp_path / "config.cfg", *paths(folder), *TINY]
    arguments += ['--training.frozen_components=["sourced"]', f"--paths.model={folder / 'out' / 'model-best'}"]
    run(*arguments)
    done = forks.run([*arguments, "--components.sourced.threshold=0.5"])
    assert done.returncode == 1
    assert "--components.sourced.threshold changes nothing" in done.stderr
