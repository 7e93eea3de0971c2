"""The project and the README: what they tell a new user to do is done here."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import spacy
from spacy.tokens import DocBin, Span
from thinc.api import Config

from spacy_crfseq import registry
from spacy_crfseq.cli import crfseq_cli
from spacy_crfseq.decoders.max_expected_f1 import MaxExpectedF1
from spacy_crfseq.regularizers.elastic_net import ElasticNet
from tests.project.pages import DOCS, README, ROOT, assert_same_but_for_digits, blocks, read


def run_project(folder: Path, *arguments: str) -> str:
    bin_folder = Path(sys.executable).parent
    env = {**os.environ, "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}"}
    command = [sys.executable, "-m", "spacy", "project", *arguments]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Run the project in a folder of its own; return the folder and what was printed."""
    folder = tmp_path_factory.mktemp("project")
    for name in ("assets", "configs", "scripts"):
        shutil.copytree(ROOT / name, folder / name)
    for name in ("project.yml", "README.md"):
        shutil.copy(ROOT / name, folder)
    return folder, run_project(folder, "run", "all")


@pytest.fixture
def inside(project: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in the project's folder."""
    monkeypatch.chdir(project[0])
    monkeypatch.setenv("COLUMNS", "100")


def test_the_project_runs_from_end_to_end(project: tuple[Path, str]) -> None:
    folder, printed = project
    scores = json.loads((folder / "metrics" / "test.json").read_text())
    assert scores["tag_acc"] > 0.93
    assert scores["spans_chunks_f"] > 0.89
    assert scores["ents_f"] > 0.80
    assert "Ruth Calder" in printed
    for page in ("text.html", "confidence.html", "report.html"):
        assert "<mark" in read(folder / "output" / page)
    assert len(list((folder / "packages").glob("*/setup.py"))) == 1


def test_the_readme_shows_the_project_as_it_is(project: tuple[Path, str]) -> None:
    run_project(project[0], "document", "--output", "README.md")
    assert read(project[0] / "README.md") == README


@pytest.mark.parametrize(
    "config",
    [path for path in sorted((ROOT / "configs").glob("*.cfg")) if "[nlp]" in read(path)],
    ids=lambda path: path.stem,
)
def test_configs_make_a_pipeline(config: Path) -> None:
    nlp = spacy.util.load_model_from_config(Config().from_disk(config), auto_fill=True)
    assert nlp.pipe_names


def test_the_python_of_the_readme_runs(inside: None, capsys: pytest.CaptureFixture[str]) -> None:
    for code in blocks("python", README):
        exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
    first, *answers = capsys.readouterr().out.splitlines()
    assert first == "[('Ada Lovelace', 'PERSON'), ('London', 'GPE')]"
    assert_same_but_for_digits("\n".join(answers), README.split("alternative.spans])\n```")[1].split("```")[1][5:])
    assert next(iter(DocBin().from_disk("train.spacy").get_docs(spacy.blank("en").vocab))).user_data


def test_the_explanation_of_the_readme_is_the_models(inside: None, capsys: pytest.CaptureFixture[str]) -> None:
    shown = next(block for block in blocks("bash", README) if "crfseq explain" in block)
    crfseq_cli(shlex.split(shown.partition("crfseq ")[2]), standalone_mode=False)
    output = README.split(shown, 1)[1].split("```text\n", 1)[1].split("```")[0]
    assert_same_but_for_digits(capsys.readouterr().out, output)


def test_the_python_of_the_quickstart_and_of_confidence_runs(inside: None, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"Span": Span}
    for page in ("quickstart.md", "confidence.md"):
        for code in blocks("python", read(DOCS / page)):
            exec(compile(code, page, "exec"), names)
            names["ner"], names["docs"] = names["nlp"].get_pipe("crf_ner"), [names["doc"]]
    assert "Ruth Calder PER" in capsys.readouterr().out


def test_the_configs_of_the_readme_are_valid(tmp_path: Path) -> None:
    (tmp_path / "cities.txt").write_text("Paris\n")
    (tmp_path / "template").write_text("U00:%x[0,0]\nU01:%x[-1,1]/%x[0,1]\nB\n")
    sure, features, method, moved = (
        Config().from_str(
            "[components]\n"
            + ("" if "[components.crf_ner]\n" in snippet else f"{re.split('[.][a-z]+]', snippet)[0]}]\n")
            + re.sub(r'"(cities.txt|template)"', rf'"{tmp_path}/\1"', snippet)
        )
        for snippet in blocks("ini", README)
    )
    nlp = spacy.blank("en")
    pipe = nlp.add_pipe("crf_ner", config=features["components"]["crf_ner"])
    assert pipe.method.features.functions["CITY"]("paris") == "1"
    pipe = nlp.add_pipe("crf_ner", "sure", config=sure["components"]["crf_ner"])
    assert pipe.method.decoder == MaxExpectedF1(expected_f=0.9, beta=1.0)
    pipe = nlp.add_pipe("crf_ner", "small", config=method["components"]["crf_ner"])
    assert pipe.method.regularizer == ElasticNet(1.0, 0.01)
    pipe = nlp.add_pipe("crf_chunker", config=moved["components"]["crf_chunker"])
    assert pipe.reads == {"TAG"}


def test_the_readme_names_every_registered_method() -> None:
    named = set(re.findall(r"`(\w+)[`(]", README))
    kinds = (registry.losses, registry.regularizers, registry.optimizers, registry.decoders, registry.costs)
    for kind in kinds:
        assert {name.split(".")[1] for name in kind.get_all() if name.startswith("spacy_crfseq.")} <= named


def test_the_two_commands_are_where_ci_looks_for_them() -> None:
    assert "pip install -e . && python -m spacy project run all" in README
    after = README.split("<!-- test command -->", 1)[1]
    assert blocks("bash", README)[1].strip() == 'pip install -e ".[test]" && python -m pytest'
    assert after.lstrip().startswith("```bash\npip install")
