"""The program with all its commands: ``python -m spacy crfseq ...``, or ``spacy-crfseq ...`` for short.

The command `fit` is in this package; entry points name the modules of the others, in `papers` and `tools`.  spaCy
imports this module in each of its commands, so numba and modules that use it are imported only when a command runs.
A process that was started for one command imports no other: that would take a sixth of a second.  At its end, the
interpreter would look for garbage among all objects several times, which takes as long as two epochs of training.
The factories module is light and registers the package's functions for ``spacy find-function`` and similar commands.
"""

import atexit
import gc
import sys
from collections.abc import Collection, Sequence
from importlib.metadata import entry_points

from spacy.cli._util import app as spacy_app

from ..pipeline import factories as _factories  # noqa: F401
from . import WORDS
from . import fit as _fit  # noqa: F401
from .app import crfseq_cli

__all__ = ["crfseq_cli", "main"]


def needed(words: Sequence[str] | None, names: Collection[str]) -> Collection[str]:
    """Return the names of the commands that a process has to load.

    words (Sequence[str] | None): Those behind ``crfseq`` in its command line; None if it is another program.
    names (Collection[str]): All commands but `fit`, which is always loaded.
    """
    return {*words[:1]} if words and words[0] in {"fit", *names} else names


_rooms = entry_points(group="spacy_crfseq_commands")
_names = needed(WORDS, _rooms.names)
for _room in (room for room in _rooms if room.name in _names):
    try:
        _room.load()
    except ImportError as error:  # the metadata is of another installation, or a package that it needs is not there
        print(f"The command {_room.name} cannot be loaded ({error}); install its package again.", file=sys.stderr)
spacy_app.add_typer(crfseq_cli)
if WORDS:
    atexit.register(gc.freeze)


def main() -> None:
    """Run the console script ``spacy-crfseq``."""
    crfseq_cli(prog_name="spacy-crfseq")
