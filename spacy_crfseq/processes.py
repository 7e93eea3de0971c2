"""Processes that end with the one that started them, also if that was killed.

As a program: ``python -m spacy_crfseq.processes PARENT COMMAND ...`` runs a command that ends with a process.
"""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from collections.abc import Sequence
from threading import Thread
from time import sleep
from types import TracebackType
from typing import Any

TICK = 0.5
"""Seconds between two looks at the parent."""


def start(arguments: Sequence[str], *before: str, **settings: Any) -> subprocess.Popen[bytes]:
    """Start a command of the package, which ends when this process has ended; other arguments as in Popen.

    before: A program that runs the command in its own process, such as nice.
    """
    return subprocess.Popen([*before, sys.executable, "-m", __name__, str(os.getpid()), *arguments], **settings)


def call(arguments: Sequence[str], **settings: Any) -> int:
    """Run a command of the package and return its exit code; after Ctrl-C, which it gets too, it ends first."""
    with start(arguments, **settings) as process:
        try:
            return process.wait()
        except KeyboardInterrupt:
            process.wait()
            raise


def end_with(parent: int) -> None:
    """End this process when its parent has ended, at any time from now on."""

    def watch() -> None:
        while os.getppid() == parent:
            sleep(TICK)
        os._exit(1)

    Thread(target=watch, daemon=True).start()


def _leave_to_parent(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Report an exception that nothing has caught, except Ctrl-C, which the parent reports."""
    if not issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)


if __name__ == "__main__":
    sys.excepthook = _leave_to_parent  # until the commands are imported, which have their own
    end_with(int(sys.argv[1]))
    sys.argv[1:2] = ["crfseq"]
    runpy.run_module("spacy", run_name="__main__", alter_sys=True)
