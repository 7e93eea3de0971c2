"""A command that another process has started ends with it, also if that was killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from spacy_crfseq import processes
from tests.commands import posix

SECONDS = 60.0
STARTER = """
import sys, time
from spacy_crfseq.processes import start
print(start(sys.argv[1:]).pid, flush=True)
time.sleep(600)
"""


def runs(process: int) -> bool:
    """Return whether a process is there and has not ended."""
    state = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(process)], capture_output=True, text=True, check=False
    ).stdout
    return bool(state.strip()) and not state.startswith("Z")


@posix
def test_a_command_ends_when_the_process_that_started_it_is_killed(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("".join(f"w{i * i % 5003} w{i % 91}\n" for i in range(150_000)))
    arguments = ["word-classes", str(text), "-o", str(tmp_path / "classes.tsv"), "--sizes", "400", "--passes", "1000"]
    with subprocess.Popen([sys.executable, "-c", STARTER, *arguments], stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        child = int(starter.stdout.readline())
        time.sleep(1.0)
        assert runs(child)
        starter.kill()
    until = time.monotonic() + SECONDS
    while runs(child) and time.monotonic() < until:
        time.sleep(0.1)
    try:
        assert not runs(child)
        assert not (tmp_path / "classes.tsv").exists()
    finally:
        if runs(child):
            os.kill(child, signal.SIGKILL)


def test_a_command_returns_its_exit_code(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert processes.call(["word-classes", str(tmp_path / "none.txt"), "-o", str(tmp_path / "c.tsv")]) == 1
    assert "none.txt: no such file" in capfd.readouterr().err


@posix
def test_ctrl_c_ends_a_command_without_a_traceback(tmp_path: Path) -> None:
    for seconds in (0.2, 1.0):
        with processes.start(["--version"], stderr=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            time.sleep(seconds)
            process.send_signal(signal.SIGINT)
            assert b"site-packages/spacy" not in process.communicate()[1]
