"""The command line: ``python -m spacy crfseq ...``, or ``spacy-crfseq ...`` for short.

One command a file: ``x_cli`` reads the arguments, ``x`` does the work and can be called from Python.  spaCy imports
this module in every one of its own commands, so numba and all that needs it come in only when a command runs; the
factories module is light and makes the package's registries known to ``spacy find-function`` and its kind.
"""

from spacy.cli._util import app

from ..pipeline import factories as _factories  # noqa: F401
from ._app import crfseq_cli
from .active import active, active_cli
from .augment import augment, augment_cli
from .calibrate import calibrate, calibrate_cli
from .convert import convert, convert_cli
from .evaluate import evaluate, evaluate_cli
from .fit import fit, fit_cli
from .path import path, path_cli
from .prune import prune, prune_cli
from .show import show, show_cli
from .tag import tag, tag_cli
from .warmup import warmup, warmup_cli

__all__ = [
    "active",
    "active_cli",
    "augment",
    "augment_cli",
    "calibrate",
    "calibrate_cli",
    "convert",
    "convert_cli",
    "crfseq_cli",
    "evaluate",
    "evaluate_cli",
    "fit",
    "fit_cli",
    "main",
    "path",
    "path_cli",
    "prune",
    "prune_cli",
    "show",
    "show_cli",
    "tag",
    "tag_cli",
    "warmup",
    "warmup_cli",
]

app.add_typer(crfseq_cli)


def main() -> None:
    """Run the console script ``spacy-crfseq``."""
    crfseq_cli(prog_name="spacy-crfseq")
