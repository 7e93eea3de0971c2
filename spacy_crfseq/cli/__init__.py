"""The command line: ``python -m spacy crfseq ...``, or ``spacy-crfseq ...`` for short.

Each file has one command: ``x_cli`` parses the arguments, ``x`` does the work and can be called from Python.  Further
commands are in `papers` and `tools`, found by entry points.  spaCy imports this module in each of its commands, so
numba and modules that use it are imported only when a command runs.
The factories module is light and registers the package's functions for ``spacy find-function`` and similar commands.
"""

from .app import crfseq_cli  # noqa: I001 - before imports that take long

from importlib.metadata import entry_points

from spacy.cli._util import app as spacy_app

from ..pipeline import factories as _factories  # noqa: F401
from .convert import convert, convert_cli
from .evaluate import evaluate, evaluate_cli
from .fit import fit, fit_cli
from .init_config import init_config, init_config_cli
from .tag import tag, tag_cli
from .warmup import warmup, warmup_cli

__all__ = [
    "convert", "convert_cli", "crfseq_cli", "evaluate", "evaluate_cli", "fit",
    "fit_cli", "init_config", "init_config_cli", "main", "tag", "tag_cli", "warmup", "warmup_cli",
]  # fmt: skip

for _room in entry_points(group="spacy_crfseq_commands"):
    _room.load()
spacy_app.add_typer(crfseq_cli)


def main() -> None:
    """Run the console script ``spacy-crfseq``."""
    crfseq_cli(prog_name="spacy-crfseq")
