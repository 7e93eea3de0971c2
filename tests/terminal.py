"""Commands on a pseudo-terminal, as a person sees them."""

import os
import re
import struct
from collections.abc import Sequence

import pytest

from tests.forks import start


def run_on_terminal(arguments: Sequence[str], columns: int = 120) -> tuple[int, str]:
    """Run ``python ARGUMENTS``, see `forks`, on a terminal; return its exit code and what it wrote there.

    The notice that kernels are compiled is left out: it depends on what other tests have compiled.
    """
    fcntl, pty, termios = (pytest.importorskip(name) for name in ("fcntl", "pty", "termios"))  # none on Windows
    terminal, inside = pty.openpty()
    fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    environment = {**os.environ, "PYTHONIOENCODING": "utf8"}
    environment.pop("COLUMNS", None)
    process = start(arguments, stdin=inside, stdout=inside, stderr=inside, env=environment)
    os.close(inside)
    said = b""
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # Linux says so that the other side is gone
            break
        if not part:
            break
        said += part
    os.close(terminal)
    return process.wait(), re.sub(r"spacy_crfseq compiles the kernels[^\n]*\n", "", said.decode())
