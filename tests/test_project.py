"""The project and the README: what they tell a new user to do is done here."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import spacy
from thinc.api import Config

from spacy_crfseq import registry
from spacy_crfseq.regularizers.elastic_net import ElasticNet

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_the_project_runs_from_end_to_end(tmp_path: Path) -> None:
    for name in ("assets", "configs", "scripts"):
        shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / "project.yml", tmp_path)
    bin_folder = Path(sys.executable).parent
    env = {**os.environ, "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}"}
    command = [sys.executable, "-m", "spacy", "project", "run", "all"]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    scores = json.loads((tmp_path / "metrics" / "test.json").read_text())
    assert scores["tag_acc"] > 0.93
    assert scores["spans_chunks_f"] > 0.89
    assert scores["ents_f"] > 0.80
    assert "Ruth Calder" in done.stdout
    assert "<mark" in (tmp_path / "output" / "text.html").read_text(encoding="utf8")
    assert len(list((tmp_path / "packages").glob("*/setup.py"))) == 1


def test_the_readme_shows_the_project_as_it_is(tmp_path: Path) -> None:
    shutil.copy(ROOT / "README.md", tmp_path)
    shutil.copy(ROOT / "project.yml", tmp_path)
    command = [sys.executable, "-m", "spacy", "project", "document", "--output", "README.md"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "README.md").read_text(encoding="utf8") == README


@pytest.mark.parametrize(
    "config",
    [path for path in sorted((ROOT / "configs").glob("*.cfg")) if "[nlp]" in path.read_text(encoding="utf8")],
    ids=lambda path: path.stem,
)
def test_configs_make_a_pipeline(config: Path) -> None:
    nlp = spacy.util.load_model_from_config(Config().from_disk(config), auto_fill=True)
    assert nlp.pipe_names


def test_the_python_of_the_readme_runs(capsys: pytest.CaptureFixture[str]) -> None:
    for code in blocks("python"):
        exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
    assert capsys.readouterr().out.strip() == "[('Ada Lovelace', 'PERSON'), ('London', 'GPE')]"


def test_the_configs_of_the_readme_are_valid(tmp_path: Path) -> None:
    (tmp_path / "cities.txt").write_text("Paris\n")
    features, method = (
        Config().from_str(
            "[components]\n[components.crf_ner]\n" + snippet.replace("cities.txt", f"{tmp_path}/cities.txt")
        )
        for snippet in blocks("ini")
    )
    nlp = spacy.blank("en")
    pipe = nlp.add_pipe("crf_ner", config=features["components"]["crf_ner"])
    assert pipe.method.features.functions["CITY"]("paris") == "1"
    pipe = nlp.add_pipe("crf_ner", "small", config=method["components"]["crf_ner"])
    assert pipe.method.regularizer == ElasticNet(1.0, 0.01)


def test_the_readme_names_every_registered_method() -> None:
    named = set(re.findall(r"`(\w+)[`(]", README))
    for kind in (registry.losses, registry.regularizers, registry.optimizers, registry.decoders):
        assert {name.split(".")[1] for name in kind.get_all() if name.startswith("spacy_crfseq.")} <= named


def test_the_two_commands_are_where_ci_looks_for_them() -> None:
    assert "pip install -e . && python -m spacy project run all" in README
    after = README.split("<!-- test command -->", 1)[1]
    assert blocks("bash")[1].strip() == 'pip install -e ".[test]" && python -m pytest'
    assert after.lstrip().startswith("```bash\npip install")


def test_links_of_the_documents_lead_somewhere() -> None:
    for file in (
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *(ROOT / "docs").glob("*.md"),
        ROOT / "assets" / "README.md",
    ):
        for target in re.findall(r"\]\((?!https?://|#)([^)#]+)", file.read_text(encoding="utf8")):
            assert (file.parent / target).exists(), f"{file.name}: {target}"
