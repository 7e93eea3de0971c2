"""The project and the README: what they tell a new user to do is done here."""

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

from spacy_crfseq.cli.program import crfseq_cli
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
    assert re.search(r"^Calder[\t ].*PER", printed, re.MULTILINE)
    for page in ("confidence.html", "report.html"):
        assert "<mark" in read(folder / "output" / page)
    assert len(list((folder / "packages").glob("*/setup.py"))) == 1


@pytest.mark.parametrize(
    "config",
    [path for path in sorted((ROOT / "configs").glob("*.cfg")) if "[nlp]" in read(path)],
    ids=lambda path: path.stem,
)
def test_configs_make_a_pipeline(config: Path) -> None:
    if "transformer" in config.stem:
        pytest.importorskip("spacy_curated_transformers", reason="spacy-curated-transformers is not installed")
    nlp = spacy.util.load_model_from_config(Config().from_disk(config), auto_fill=True)
    assert nlp.pipe_names


def test_the_python_of_the_readme_runs(inside: None, capsys: pytest.CaptureFixture[str]) -> None:
    for code in blocks("python", README):
        exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
    first, *answers = capsys.readouterr().out.splitlines()
    assert first == "[('Ada Lovelace', 'PERSON'), ('London', 'GPE')]"
    assert_same_but_for_digits("\n".join(answers), blocks("text", README)[0])


def test_the_explanation_of_the_readme_is_the_models(inside: None, capsys: pytest.CaptureFixture[str]) -> None:
    shown = next(block for block in blocks("bash", README) if "crfseq explain" in block)
    crfseq_cli(shlex.split(shown.partition("crfseq ")[2]), standalone_mode=False)
    output = README.split(shown, 1)[1].split("```text\n", 1)[1].split("```")[0]
    assert_same_but_for_digits(capsys.readouterr().out, output)


def test_the_python_of_the_guides_runs(inside: None, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree("training/model-best", "training/quickstart/model-best", dirs_exist_ok=True)
    names: dict[str, Any] = {"Span": Span}
    for page in ("quickstart.md", "confidence.md", "partial-annotation.md"):
        for code in blocks("python", read(DOCS / page)):
            exec(compile(code, page, "exec"), names)
            names["ner"], names["docs"] = names["nlp"].get_pipe("crf_ner"), [names["doc"]]
    assert "Ruth Calder PER" in capsys.readouterr().out
    assert next(iter(DocBin().from_disk("train.spacy").get_docs(spacy.blank("en").vocab))).user_data


def test_the_readme_is_short_and_has_what_ci_looks_for() -> None:
    lines = README.splitlines()
    assert len(lines) <= 130
    assert any(line.startswith("![") for line in lines[:30])
    assert "pip install -e . && python -m spacy project run all" in README
    after = README.split("<!-- test command -->", 1)[1]
    assert blocks("bash", README)[1].strip() == 'pip install -e ".[test]" && python -m pytest'
    assert after.lstrip().startswith("```bash\npip install")
