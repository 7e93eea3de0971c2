"""Processes that end with the one that started them, also if that was killed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from threading import Thread
from time import sleep
from typing import Any

PARENT = "SPACY_CRFSEQ_PARENT"
"""Environment variable of a command that another one has started: the process that it ends with."""
TICK = 0.5
"""Seconds between two looks at the parent."""


def start(arguments: Sequence[str], *before: str, **settings: Any) -> subprocess.Popen[bytes]:
    """Start a command of the package, which ends when this process has ended; other arguments as in Popen.

    before: A program that runs the command in its own process, such as nice.
    """
    command = [*before, sys.executable, "-m", "spacy", "crfseq", *arguments]
    return subprocess.Popen(command, env={**os.environ, PARENT: str(os.getpid())}, **settings)


def call(arguments: Sequence[str], **settings: Any) -> int:
    """Run a command of the package and return its exit code; after Ctrl-C, which it gets too, it ends first."""
    with start(arguments, **settings) as process:
        try:
            return process.wait()
        except KeyboardInterrupt:
            process.wait()
            raise


def end_with_starter() -> None:
    """End this process with the one that has called `start`, if any; not those that this one starts."""
    if parent := os.environ.pop(PARENT, ""):
        end_with(int(parent))


def end_with(parent: int) -> None:
    """End this process when its parent has ended, at any time from now on."""

    def watch() -> None:
        while os.getppid() == parent:
            sleep(TICK)
        os._exit(1)

    Thread(target=watch, daemon=True).start()
