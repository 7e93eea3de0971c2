"""``crfseq annotate``: its help, what it refuses, and a run that Ctrl-C ends."""

from __future__ import annotations

import json
import re
import shutil
import signal
import stat
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from spacy_crfseq.errors import ConfigError
from spacy_crfseq.files import digest
from spacy_crfseq.tools.annotate.command import token_of
from tests import forks
from tests.commands import Run, posix, refused, worked


def test_help(run: Run) -> None:
    text = worked(run("annotate", "--help")).output
    assert "--patterns" in text
    assert "fields (tags whose neighbours" in text


@pytest.mark.parametrize(("file", "arguments", "message"), [
    ("texts.txt", "--labels A --task entitys", "Did you mean 'entities'?"),
    ("texts.txt", "", "Give --labels"),
    ("texts.txt", ["--labels", "A b"], "white space"),
    ("texts.txt", "--labels A --lang zz", "--lang zz"),
    ("texts.txt", "--labels A --model nowhere", "no such folder"),
    ("texts.txt", "--labels A --model m --config c", "Leave one of them out"),
    ("texts.txt", "--labels A --config missing.cfg", "no such config file"),
    ("texts.txt", "--labels A --patterns missing.jsonl", "missing.jsonl"),
    ("none.txt", "--labels A", "no such file"),
    ("empty.txt", "--labels A", "no text in the file"),
])  # fmt: skip
def test_files_and_options_that_do_not_fit_are_refused(
    file: str, arguments: str | list[str], message: str, run: Run, texts: Path
) -> None:
    (texts.parent / "empty.txt").write_text("\n")
    split = arguments.split() if isinstance(arguments, str) else arguments
    result = run("annotate", texts.parent / file, "--output", texts.parent / "new", *split)
    refused(result)
    assert message in " ".join(result.stderr.split())
    assert not list(texts.parent.glob("new/model*"))


def test_without_the_extra_the_command_says_what_to_install(
    run: Run, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    refused(run("annotate", texts, "-o", tmp_path / "p", "--labels", "A"), "pip install 'spacy-crfseq[annotate]'")


@posix
def test_the_command_prints_an_address_and_ends_with_ctrl_c(texts: Path, tmp_path: Path) -> None:
    pytest.importorskip("starlette", reason="the extra 'annotate' is not installed")
    folder = tmp_path / "project"
    command = ["-m", "spacy", "crfseq", "annotate", texts, "--labels", "PER,LOC", "--port", "0", "--no-classes"]
    command += ["--output", folder]
    addresses = []
    for _ in range(2):
        process = forks.start(command, stdout=subprocess.PIPE)
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            address = re.search(r"http://127\.0\.0\.1:\d+/\S+/", line)
            assert address is not None, line
            addresses.append(address[0].rsplit("/", 2)[1])
            with urllib.request.urlopen(address[0]) as page:
                assert b"<title>Annotate</title>" in page.read()
            if len(addresses) == 1:
                second = forks.run(command)
                assert second.returncode == 1
                assert "another process" in second.stderr
            process.send_signal(signal.SIGINT)
            said, _ = process.communicate(timeout=60)
            assert process.returncode == 0
            assert "Saved 0 texts" in said
        finally:
            process.kill()
            process.communicate()
    assert addresses[0] == addresses[1]
    assert stat.S_IMODE((folder / ".token").stat().st_mode) == 0o600
    assert json.loads((folder / "journal.jsonl").read_text().splitlines()[0])["settings"]["task"] == "entities"


@pytest.mark.parametrize("content", ["", "\n", "  "])
def test_an_empty_token_is_written_anew(content: str, tmp_path: Path) -> None:
    path = tmp_path / ".token"
    path.write_text(content)
    token = token_of(tmp_path)
    assert len(token) >= 16
    assert path.read_text() == token
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert token_of(tmp_path) == token
    assert [path.name for path in tmp_path.iterdir()] == [".token"]


@pytest.mark.parametrize("content", [b"my own notes", b"short", b"\xff" * 20, "ä".encode() * 20, b"a/../" * 5])
def test_a_foreign_file_named_token_is_refused_and_kept(content: bytes, tmp_path: Path) -> None:
    (tmp_path / ".token").write_bytes(content)
    with pytest.raises(ConfigError, match="is no token"):
        token_of(tmp_path)
    assert (tmp_path / ".token").read_bytes() == content


def test_inputs_are_never_outputs(run: Run, texts: Path, tmp_path: Path, trained: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    for name in ("train.spacy", "journal.jsonl"):
        shutil.copy(texts, folder / name)
        refused(run("annotate", folder / name, "--format txt --labels A -o", folder), "is read by this command")
        assert (folder / name).read_bytes() == texts.read_bytes()
        (folder / name).unlink()
    shutil.copytree(trained / "model-best", folder / "model-best")
    before = digest(folder)
    refused(run("annotate", texts, "-p crf_ner -o", folder, "--model", folder / "model-best"), "this command reads")
    assert digest(folder) == before
