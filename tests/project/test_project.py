"""The project file: its variables reach every command, and its corpora are fetched with words where that fails."""

import hashlib
import io
import shutil
import subprocess
import urllib.error
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import spacy
import srsly

from scripts import fetch_corpora
from tests.commands import write_corpus
from tests.project.pages import ROOT
from tests.project.test_readme import run_project

DATA = b"word NN B-NP\n"


def test_another_corpus_in_another_language(tmp_path: Path) -> None:
    """Each command heeds the variables; the package carries the language's name."""
    for name in ("scripts", "configs"):
        shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / "project.yml", tmp_path)
    (tmp_path / "mine").mkdir()
    for seed, (name, size) in enumerate([("train", 60), ("dev", 20), ("test", 20)]):
        whole = write_corpus(tmp_path / "whole", size, seed).read_text(encoding="utf8")
        kept = (" ".join((row.split()[0], row.split()[1], row.split()[3])) if row else "" for row in whole.split("\n"))
        (tmp_path / "mine" / name).write_text("\n".join(kept), encoding="utf8")
    (tmp_path / "mine" / "raw.txt").write_text("Ada lives in Oslo .\n", encoding="utf8")
    files = {name: f"mine/{name}" for name in ("train", "dev", "test")}
    chosen = {**files, "lang": "es", "format": "conll2002", "raw": "mine/raw.txt"}
    chosen["config"] = "configs/ner_conll2002.cfg"
    options = [word for name, value in chosen.items() for word in (f"--vars.{name}", value)]
    printed = run_project(tmp_path, "run", "all", ".", *options)
    for name, value in files.items():
        assert f"debug-data {value}" in printed or f"--{name} {value}" in printed
    assert spacy.load(tmp_path / "training" / "model-best").lang == "es"
    assert [path.name for path in (tmp_path / "packages").iterdir()] == ["es_crf_pipeline-0.1.0"]
    assert "mine/dev: 20 texts" in (tmp_path / "output" / "report.html").read_text(encoding="utf8")


def test_a_broken_corpus_stops_the_project(tmp_path: Path) -> None:
    shutil.copy(ROOT / "project.yml", tmp_path)
    for name in ("a", "b"):
        write_corpus(tmp_path / name, 5, 1)
    (tmp_path / "c").write_text("only-a-word\n\n", encoding="utf8")
    with pytest.raises(AssertionError, match="FAIL c:1: "):
        run_project(tmp_path, "run", "check", ".", "--vars.train", "a", "--vars.dev", "b", "--vars.test", "c")


def test_corpora_are_ignored_by_git_and_have_an_address() -> None:
    assets = srsly.read_yaml(ROOT / "project.yml")["assets"]
    for asset in assets:
        assert asset["dest"].rpartition("/")[0] in fetch_corpora.SOURCES
    paths = [asset["dest"] for asset in assets]
    command = ["git", "check-ignore", *paths, "assets/corpus/train.conll", "assets/raw.txt"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode == 128:
        pytest.skip("not a git checkout")
    assert done.stdout.split() == paths


def answers(data: bytes | Exception) -> Callable[..., Any]:
    def urlopen(url: str, timeout: float) -> io.BytesIO:
        if isinstance(data, Exception):
            raise data
        return io.BytesIO(data)

    return urlopen


@pytest.mark.parametrize(("answer", "words"), [
    (urllib.error.URLError("no such host"), "cannot be reached (no such host)"),
    (TimeoutError("timed out"), "cannot be reached (timed out)"),
    (urllib.error.HTTPError("u", 404, "Not Found", None, None), "answers 404 (Not Found); it may have moved"),  # type: ignore[arg-type]
    (b"something else", "has another checksum than project.yml; it has changed and is not kept"),
    (DATA, ""),
])  # fmt: skip
def test_fetching(
    answer: Any, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("urllib.request.urlopen", answers(answer))
    checksum = hashlib.md5(DATA).hexdigest()
    asset = {"dest": "assets/conll2000/train.txt", "checksum": checksum}
    srsly.write_yaml(tmp_path / "project.yml", {"assets": [asset]})
    assert fetch_corpora.main(tmp_path) == bool(words)
    printed = capsys.readouterr()
    assert words in printed.err
    assert (tmp_path / asset["dest"]).exists() == (not words)
    if not words:
        (tmp_path / asset["dest"]).write_bytes(b"mine")
        assert fetch_corpora.main(tmp_path) == 1
        assert "move it away" in capsys.readouterr().err
        assert (tmp_path / asset["dest"]).read_bytes() == b"mine"
