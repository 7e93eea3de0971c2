"""How commands speak: on terminals and streams of any kind, and when a disk is full."""

import errno
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest
import typer
from wasabi.util import ENV_ANSI_DISABLED, supports_ansi

from spacy_crfseq.cli.console import Rows, printer, reported_errors, table
from spacy_crfseq.files import replace_folder, replacing
from tests.commands import Run, refused


def test_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ENV_ANSI_DISABLED, raising=False)
    for wanted, color in (("", True), ("1", False)):
        monkeypatch.setenv("NO_COLOR", wanted)
        with reported_errors():
            assert supports_ansi() == color
    monkeypatch.delenv(ENV_ANSI_DISABLED)


def test_rows_are_a_table_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    rows = Rows(("A", "B"), ("a", "b"), (3, 4), "rr")
    rows.begin()
    rows.add(["1", "2"])
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [["A", "B"], ["---", "----"], ["1", "2"]]


def test_columns_of_tables_are_as_wide_as_their_longest_cell(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [("x" * 50, "1"), ("y", "23")]
    printer().table(rows, aligns=("l", "r"))
    shown = capsys.readouterr().out
    assert shown.strip("\n").split("\n") == ["x" * 50 + "    1", "y" + " " * 52 + "23"]
    assert table(rows, aligns=("l", "r")) == shown[:-1]


class Terminal(TextIOWrapper):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_streams_take_any_character_and_terminals_a_sign(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind, used, said in ((TextIOWrapper, "utf8", "caf\xe9 \U0001f600"), (Terminal, "latin-1", "caf\xe9 ?")):
        raw = BytesIO()
        stream = kind(raw, encoding="latin-1" if kind is Terminal else encoding, write_through=True)
        monkeypatch.setattr(sys, "stdout", stream)
        with reported_errors():
            print("caf\xe9 \U0001f600")
        assert raw.getvalue().decode(used).strip() == said


def test_a_text_in_another_encoding_than_the_terminals(run: Run, trained: Path) -> None:
    result = run("explain", trained / "model-best", "caf\udce9 x", "-p crf_ner")
    refused(result, "not in the encoding of this terminal")


def test_a_full_disk_is_told_with_the_file(tmp_path: Path) -> None:
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def write(folder: Path) -> None:
        folder.mkdir()
        raise full

    def write_file() -> None:
        with replacing(tmp_path / "page.html") as temporary:
            temporary.write_text("half")
            raise full

    with pytest.raises(OSError, match=r"page\.html"):
        write_file()
    full.filename = None
    with pytest.raises(OSError, match="model-best"):
        replace_folder(tmp_path / "model-best", write)
    assert list(tmp_path.iterdir()) == []


def test_of_a_copy_that_fails_the_first_file_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit), reported_errors():
        raise shutil.Error([("a", "b", "no space: 'b'"), ("c", "d", "no space: 'd'")])
    assert capsys.readouterr().err.endswith("Cannot read or write\nno space: 'b'\n")


def test_a_process_of_one_command_ends_without_a_search_for_garbage() -> None:
    """The interpreter searches several times as it ends: a sixth of the time of a command on a small corpus."""
    program = (
        "import atexit, gc, sys; sys.argv = ['spacy-crfseq', 'tag']\n"
        "atexit.register(lambda: print(gc.get_freeze_count()))\n"  # runs last
        "import spacy_crfseq.cli.program"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(done.stdout) > 10_000


def test_ctrl_c_during_the_imports_of_the_program_prints_no_traceback() -> None:
    program = (
        "import sys; sys.argv = ['spacy-crfseq', 'fit']\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'typer': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "import spacy_crfseq.cli.program"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stderr, done.stdout) == ("\nInterrupted.\n", "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_standard_output_that_is_full() -> None:
    command = [sys.executable, "-m", "spacy", "crfseq", "init-config", "-", "--format", "iob"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode != 0
    assert "No space left" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("interrupted", [True, False])
def test_an_interrupt_that_a_compiler_loses_is_one(interrupted: bool, capsys: pytest.CaptureFixture[str]) -> None:
    handler = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.default_int_handler)

    def work() -> None:
        with reported_errors():
            with suppress(KeyboardInterrupt):  # as where C calls Python
                if interrupted:
                    signal.raise_signal(signal.SIGINT)
            raise RuntimeError("no compiled object yet")

    try:
        with pytest.raises(SystemExit if interrupted else RuntimeError) as raised:
            work()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, handler)
    assert ("Interrupted." in capsys.readouterr().err) is interrupted
    assert getattr(raised.value, "code", None) == (130 if interrupted else None)


def test_an_interrupt_that_a_command_reports_is_reported_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def end() -> None:
        with reported_errors():
            with suppress(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
            raise typer.Exit(130)

    handler = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(typer.Exit):
            end()
    finally:
        signal.signal(signal.SIGINT, handler)
    assert capsys.readouterr().err == ""
