"""A script that can do nothing says why, fails and writes nothing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import accuracy, labels

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted(
    str(file.relative_to(ROOT))
    for folder in ("bench", "scripts")
    for file in (ROOT / folder).rglob("*.py")
    if 'if __name__ == "__main__"' in file.read_text(encoding="utf8")
)
NEEDS_NOTHING = {"scripts/check_style.py", "scripts/public_names.py", "scripts/structure.py"}
"""Scripts that read the repository alone."""
ONE_WITH_A_CORPUS = {"bench/run.py": ["--only", "train-chunks"], "scripts/papers/run.py": ["--only", "cora"]}
"""Arguments of those that can do some work without a corpus."""


def contents() -> dict[Path, bytes]:
    """Return all files that scripts write in the repository."""
    return {
        file: file.read_bytes()
        for folder in ("bench", "docs", "scripts", "output")
        for file in (ROOT / folder).rglob("*")
        if file.is_file() and file.suffix != ".pyc"
    }


@pytest.mark.parametrize("script", [name for name in SCRIPTS if name not in NEEDS_NOTHING])
def test_a_script_without_its_input_fails_and_writes_nothing(script: str, tmp_path: Path) -> None:
    before = contents()
    environment = {name: value for name, value in os.environ.items() if name != "CRFSEQ_DATA"}
    done = subprocess.run(
        [sys.executable, str(ROOT / script), *ONE_WITH_A_CORPUS.get(script, [])],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode
    assert done.stderr.strip()
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []
    assert contents() == before
    if "CRFSEQ_DATA" in (ROOT / script).read_text(encoding="utf8"):
        assert "CRFSEQ_DATA is not set" in done.stderr


def test_a_folder_without_the_corpora_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(accuracy, "PAGE", tmp_path / "page.md")
    monkeypatch.setenv("CRFSEQ_DATA", str(tmp_path))
    for only in (None, ["conll2003/fast"]):
        with pytest.raises(accuracy.typer.Exit) as stopped:
            accuracy.accuracy(only)
        assert stopped.value.exit_code == 1
        assert f"conll2003/eng.train is not in the folder of the corpora, {tmp_path}" in capsys.readouterr().err
    assert not accuracy.PAGE.exists()


@pytest.mark.parametrize(("row", "file"), [("es-hmm", "conll2002/esp.testa"), ("matches", "conll2003-distant/train.d")])
def test_a_row_of_labels_needs_its_own_corpus_alone(
    row: str, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CRFSEQ_DATA", str(tmp_path))
    for name in ("WORK", "RESULTS"):
        monkeypatch.setattr(labels, name, tmp_path / name)
    with pytest.raises(labels.typer.Exit):
        labels.labels([row])
    assert f"{row} is skipped: {file}" in capsys.readouterr().err
