"""The command line: ``python -m spacy crfseq ...``, or ``spacy-crfseq ...`` for short.

Each file has one command: ``x_cli`` parses the arguments, ``x`` does the work and can be called from Python.  spaCy
imports this module in each of its own commands, so numba and modules that use it are imported only when a command runs.
The factories module is light and registers the package's functions for ``spacy find-function`` and similar commands.
"""

from . import _interrupts  # noqa: F401, I001 - before imports that take long

from spacy.cli._util import app

from ..pipeline import factories as _factories  # noqa: F401
from .app import crfseq_cli
from ..tools.active.command import active, active_cli
from ..tools.calibrate.command import calibrate, calibrate_cli
from ..tools.compare.command import compare, compare_cli
from .convert import convert, convert_cli
from .debug_data import debug_data, debug_data_cli
from .evaluate import evaluate, evaluate_cli
from ..tools.explain.command import explain, explain_cli
from ..papers.path.command import find_regularization, find_regularization_cli
from ..papers.augmented.command import fine_tune, fine_tune_cli
from .fit import fit, fit_cli
from .init_config import init_config, init_config_cli
from ..papers.proposals.command import propose_features, propose_features_cli
from ..tools.prune.command import prune, prune_cli
from ..tools.report.command import report, report_cli
from ..tools.self_train.command import self_train, self_train_cli
from ..tools.show.command import show, show_cli
from ..tools.sweep.command import sweep, sweep_cli
from .tag import tag, tag_cli
from ..tools.top.command import top, top_cli
from .warmup import warmup, warmup_cli
from ..papers.weighting.command import weigh, weigh_cli
from ..tools.word_classes.command import word_classes, word_classes_cli

__all__ = [
    "active", "active_cli", "calibrate", "calibrate_cli", "compare", "compare_cli", "convert", "convert_cli",
    "crfseq_cli", "debug_data", "debug_data_cli", "evaluate", "evaluate_cli", "explain", "explain_cli",
    "find_regularization", "find_regularization_cli", "fine_tune", "fine_tune_cli", "fit", "fit_cli", "init_config",
    "init_config_cli", "main", "propose_features", "propose_features_cli", "prune", "prune_cli", "report", "report_cli",
    "self_train", "self_train_cli", "show", "show_cli", "sweep", "sweep_cli", "tag", "tag_cli", "top", "top_cli",
    "warmup", "warmup_cli", "weigh", "weigh_cli", "word_classes", "word_classes_cli",
]  # fmt: skip

app.add_typer(crfseq_cli)


def main() -> None:
    """Run the console script ``spacy-crfseq``."""
    crfseq_cli(prog_name="spacy-crfseq")
