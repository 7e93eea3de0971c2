"""``crfseq tag --dask``: the output of ``tag``, from workers that may die; dask is imported only if asked for."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from spacy_crfseq.cli.tag import tag
from spacy_crfseq.corpora.outputs import FOLDER
from spacy_crfseq.errors import ClusterError, FormatError
from spacy_crfseq.pipeline.clusters import Place
from spacy_crfseq.tools.cluster.workers import await_result
from tests.commands import Run, refused
from tests.tools.cluster.conftest import kill_worker


@pytest.fixture(scope="module")
def model(trained: Path) -> Path:
    return trained / "model-best"


def write_texts(path: Path, size: int) -> Path:
    path.write_text("".join(f"Ada sees a dog in Oslo . Word{i}\n" for i in range(size)), encoding="utf8")
    return path


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


def test_the_output_of_one_process(
    run: Run, model: Path, tmp_path: Path, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # workers have another working directory
    files = [write_texts(Path(f"{name}.txt"), 20 + i) for i, name in enumerate("abcde")]
    with files[1].open("ab") as file:
        file.write(b"\xff\n")
    address = client.scheduler.address
    one = run("tag", model, *files, "--output one --scores")
    done = run("tag", model, *files, "--output two --scores --dask", address)
    assert (done.exit_code, done.stderr) == (3, one.stderr)
    assert "b.txt:22: byte" in done.stderr
    assert "5 files: 110 texts, 880 tokens" in done.stdout
    assert "1 malformed line skipped" in done.stdout
    assert contents(Path("two")) == contents(Path("one"))
    again = run("tag", model, *files, "--output two --scores --dask", address)
    assert "5 complete already; 1 malformed line skipped, 1 of them earlier" in again.stdout
    strict = run("tag", model, *files, "--output three --strict --dask", address)
    refused(strict, "b.txt:22: byte")
    assert strict.stderr == run("tag", model, *files, "--output four --strict").stderr


def test_the_file_of_a_worker_that_dies(model: Path, tmp_path: Path, client: Any) -> None:
    files = [write_texts(tmp_path / f"{name}.txt", size) for name, size in (("a", 6_000), ("b", 100))]
    tag(str(model), files, tmp_path / "one")

    def kill() -> None:
        journal = tmp_path / "two" / FOLDER / "a.jsonl.journal"
        while not (journal.exists() and journal.read_text().count("\n") > 2):
            if done.wait(0.01):
                return
        kill_worker(client)
        killed.set()

    done, killed = threading.Event(), threading.Event()
    killer = threading.Thread(target=kill)
    killer.start()
    try:
        found = tag(str(model), files, tmp_path / "two", cluster=Place("dask", client))
    finally:
        done.set()
        killer.join()
    assert killed.is_set()
    assert found.new == found.counts
    assert found.new.texts == 6_100
    assert contents(tmp_path / "two") == contents(tmp_path / "one")


def test_other_files_are_left_when_one_fails(model: Path, tmp_path: Path, client: Any) -> None:
    (tmp_path / "a.jsonl").write_text("{no\n")
    files = [tmp_path / "a.jsonl", write_texts(tmp_path / "b.txt", 10_000)]
    with pytest.raises(FormatError, match=r"a\.jsonl:1: no JSON"):
        tag(str(model), files, tmp_path / "out", strict=True, cluster=Place("dask", client))
    files[0].write_text("")
    write_texts(files[1], 10)  # a worker that had not stopped would hold its lock
    done = tag(str(model), files[1:], tmp_path / "out", force=True, strict=True, cluster=Place("dask", client))
    assert done.new.texts == 10


def die() -> None:
    os._exit(1)


def test_what_workers_die_of_is_named(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client.cluster.scheduler, "allowed_failures", 0)
    with pytest.raises(ClusterError, match=r"a\.txt: workers die of it"):
        await_result(client, client.submit(die), "a.txt")


@pytest.mark.parametrize(("arguments", "message"), [
    ("a.txt -o out -j 2 --dask local:2", "leave --processes out"),
    ("a.txt -o out --dask local:x", "such as local:2"),
])  # fmt: skip
def test_refused(
    run: Run, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.txt").touch()
    refused(run("tag", model, *arguments.split()), message)


def test_nobody_answers(run: Run, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spacy_crfseq.tools.cluster.TIMEOUT", 0.5)
    source = write_texts(tmp_path / "a.txt", 1)
    refused(run("tag", model, source, "-o", tmp_path / "out", "--dask tcp://127.0.0.1:9"), "no Dask scheduler answers")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a finalizer of Dask's own
def test_processes_that_do_not_start(run: Run, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sitecustomize.py").write_text("import os\nos._exit(1)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))  # new interpreters end at once
    source = write_texts(tmp_path / "a.txt", 1)
    refused(run("tag", model, source, "-o", tmp_path / "out", "--dask local:1"), "local:1: processes have ended")


UNASKED = """
import sys
import spacy
from spacy_crfseq.cli import crfseq_cli
source, target, model = sys.argv[1:]
crfseq_cli(["tag", model, source, "--output", target], standalone_mode=False)
assert not {"dask", "distributed"} & set(sys.modules)
for name in ("dask", "distributed"):
    sys.modules[name] = None  # as if it were not installed
crfseq_cli(["tag", model, source, "--output", target, "--dask", "local:2"], standalone_mode=False)
"""


def test_dask_is_imported_only_if_asked_for(model: Path, tmp_path: Path) -> None:
    call = [sys.executable, "-c", UNASKED, write_texts(tmp_path / "a.txt", 1), tmp_path / "a.jsonl", model]
    done = subprocess.run(call, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, "1 text" in done.stdout) == (1, True), done.stderr
    assert "pip install 'spacy-crfseq[dask]'" in done.stderr
    assert "Traceback" not in done.stderr
