"""The command line: `program` has all commands, `app` their group, `options`, `inputs` and `console` their tools.

Before these import anything that takes long, Ctrl-C is made to end a command without a traceback.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType


def end_quietly(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Report an exception that nothing has caught, Ctrl-C without a traceback."""
    if issubclass(kind, KeyboardInterrupt):
        print("\nInterrupted.", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, trace)


def given_words(argv: Sequence[str]) -> Sequence[str] | None:
    """Return the words of a command line behind ``python -m spacy crfseq`` or ``spacy-crfseq``; None for others."""
    if argv[1:2] == ["crfseq"]:
        return argv[2:]
    return argv[1:] if Path(argv[0]).stem == "spacy-crfseq" else None


WORDS = given_words(sys.argv)
if WORDS is not None:
    sys.excepthook = end_quietly
