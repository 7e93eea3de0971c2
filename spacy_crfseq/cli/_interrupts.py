"""Ctrl-C during imports: no traceback, from the time when spaCy imports the command line of this package."""

from __future__ import annotations

import sys
from pathlib import Path
from types import TracebackType


def end_quietly(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Report an exception that nothing has caught, Ctrl-C without a traceback."""
    if issubclass(kind, KeyboardInterrupt):
        print("\nInterrupted.", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, trace)


if "crfseq" in (*sys.argv[1:2], Path(sys.argv[0]).name.partition("-")[2]):  # python -m spacy crfseq, or spacy-crfseq
    sys.excepthook = end_quietly
