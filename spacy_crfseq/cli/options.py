"""Options of several commands, and overrides of their configs."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import typer
from spacy import util
from spacy.cli._util import parse_config_overrides

from ..corpora import layouts
from ..errors import ConfigError
from ..schemes import SPAN_SCHEMES
from .console import printer

OVERRIDES = {"allow_extra_args": True, "ignore_unknown_options": True}
"""Settings of a command that takes config overrides."""
Model = Annotated[str, typer.Argument(metavar="MODEL", help="Folder or package name of a trained pipeline")]
Config = Annotated[Path, typer.Argument(metavar="CONFIG", help="Config file, or - for stdin", allow_dash=True)]
PATHS = "; or a folder, a quoted pattern, or several, comma-separated"
"""Forms of a path of a corpus or of texts, besides a file, see `paths.resolve`."""
GoldFiles = Annotated[
    list[Path],
    typer.Argument(metavar="DEV", help=f"Annotated file that the model was not trained on{PATHS}"),
]
TEXTS_FILE = (
    'File of texts: one per line (.txt), JSON with "text" in each line (.jsonl), DocBin (.spacy), or a corpus, where '
    f"only words are read{PATHS}"
)
"""Help of an argument."""
_LAYOUT = "Layout of the file"
GoldFormat = Annotated[
    str | None,
    typer.Option(
        "--format",
        "-f",
        help=f"Layout of the file: {', '.join(layouts.NAMES)}",
        show_default="by its ending, else as in training, else its first lines",
        rich_help_panel=_LAYOUT,
    ),
]
TextFormat = Annotated[
    str | None,
    typer.Option(
        "--format",
        "-f",
        help=f"Layout of the file: {', '.join(layouts.TEXTS)}",
        show_default="by its ending, else its first lines",
        rich_help_panel=_LAYOUT,
    ),
]
Columns = Annotated[
    str | None,
    typer.Option(
        help='What each column holds, such as "word,_,ent", instead of --format; known: ' + ", ".join(layouts.COLUMNS),
        rich_help_panel=_LAYOUT,
    ),
]
Scheme = Annotated[
    str | None,
    typer.Option(
        help=f"Tags of spans in columns: {', '.join(SPAN_SCHEMES)}",
        show_default="of the format, else IOB2, else by its tags",
        rich_help_panel=_LAYOUT,
    ),
]
Encoding = Annotated[
    str | None,
    typer.Option(help="Encoding of the file, such as latin-1 or utf-16", show_default="utf8", rich_help_panel=_LAYOUT),
]
Rename = Annotated[
    str | None,
    typer.Option(
        help="Of XML: new names of labels, as in name=author,ref=O; one for several merges them",
        rich_help_panel=_LAYOUT,
    ),
]
Outside = Annotated[
    str | None,
    typer.Option(
        help="Of annotated spans: known if text outside of them is in none, unknown if only some spans are annotated",
        show_default="known",
        rich_help_panel=_LAYOUT,
    ),
]
MinScore = Annotated[
    float | None,
    typer.Option(
        help="Of annotated spans: those with a lower score are unknown", show_default="0", rich_help_panel=_LAYOUT
    ),
]
Match = Annotated[
    str | None,
    typer.Option(
        help="Of spans given as texts without positions: all marks all their occurrences, first the first one, order "
        "the first one after the span before",
        show_default="none",
        rich_help_panel=_LAYOUT,
    ),
]
Alternatives = Annotated[
    str | None,
    typer.Option(
        help="Of annotated spans at one place with several labels, the candidates: best takes those with the highest "
        "score, all every label",
        show_default="best",
        rich_help_panel=_LAYOUT,
    ),
]
SkipInvalid = Annotated[
    bool,
    typer.Option(
        "--skip-invalid",
        help="Leave out records that cannot be read, and count them, instead of stopping",
        rich_help_panel=_LAYOUT,
    ),
]
Given = Annotated[
    str | None,
    typer.Option(
        help="Columns that the pipeline may see, separated by commas",
        show_default="those that its features read and no component sets",
    ),
]
Components = Annotated[
    list[str] | None,
    typer.Option("--component", "-p", help="CRF component; repeat it for several", show_default="all"),
]
OneComponent = Annotated[
    str | None, typer.Option("--component", "-p", help="CRF component", show_default="the only one that predicts spans")
]
Every = Annotated[
    int | None,
    typer.Option(
        min=1, help="Iterations between dev scores", show_default="1 for online optimizers such as AdaGrad, else 10"
    ),
]
Patience = Annotated[
    int | None,
    typer.Option(
        min=0,
        help="Stop after this many dev scores without improvement; 0 trains to convergence",
        show_default="5 for online optimizers, else 0",
    ),
]
Samples = Annotated[int, typer.Option(min=1, help="Bootstrap samples for intervals and p values")]
PageInstead = Annotated[Path | None, typer.Option("--output", "-o", help="Write an HTML page to this file instead")]
Dask = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="Dask scheduler to work on, as tcp://host:8786; local:N starts N processes"),
]
Lang = Annotated[str, typer.Option("--lang", "-l", help="Language code")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead")]
Code = Annotated[Path | None, typer.Option("--code", "-c", help="Python file with registered functions to import")]
"""See `app.Command`, which imports the file."""
Force = Annotated[bool, typer.Option("--force", "-F", help="Replace the output of an earlier run")]

_ENDS = "The optimizer has a limit of its own: --components.NAME.optimizer.max_iterations N."
OF_SPACY_TRAIN = {
    "training.max_epochs": _ENDS,
    "training.max_steps": _ENDS,
    "training.patience": "Give --patience N, in scores.",
    "training.eval_frequency": "Give --evaluate-every N, in iterations.",
    "training.optimizer.learn_rate": "The components have optimizers of their own: --components.NAME.optimizer.",
}
"""Settings of `spacy train` that have no effect here, and what to change instead."""


def config_overrides(ctx: typer.Context, config: Path | None) -> dict[str, Any]:
    """Return the overrides of a command's config, its arguments of the form ``--section.key value``.

    config (Path | None): The config file, None for a command that was called without.
    RAISES typer.BadParameter: See `read_overrides`.
    RAISES ConfigError: If there is no config to override, or no such file.
    """
    from ..pipeline.configs import check_config_file

    overrides = read_overrides(ctx.args, [name for parameter in ctx.command.params for name in parameter.opts])
    if overrides and config is None:
        raise ConfigError(f"--{next(iter(overrides))} changes a config, but there is none. Give --config FILE.")
    if config is not None:
        check_config_file(config)  # before another complaint hides that its name is wrong
    return overrides


def _show_debugging(wanted: bool) -> None:
    if wanted:
        util.logger.setLevel(logging.DEBUG)


Verbose = Annotated[
    bool, typer.Option("--verbose", "-V", callback=_show_debugging, help="Show spaCy's messages for debugging")
]


def read_overrides(args: list[str], names: Collection[str] = ()) -> dict[str, Any]:
    """Return config overrides from ``--section.key value`` arguments and spaCy's environment variable.

    names: The options of the command, to suggest one.
    RAISES typer.BadParameter: On an option that is neither an override nor one of the command's.
    """
    for arg in args:
        if arg.startswith("-") and "." not in arg.partition("=")[0] and not re.match(r"-\d", arg):
            near = get_close_matches(arg.partition("=")[0], names, n=1)
            hint = f"Did you mean {near[0]}?" if near else "Overrides of the config name a section: --paths.train FILE."
            raise typer.BadParameter(f"{arg}: no such option. {hint}")
    overrides: dict[str, Any] = parse_config_overrides(list(args))
    for name in overrides:
        if name in OF_SPACY_TRAIN:
            printer().warn(f"--{name} is for 'spacy train' and changes nothing here. {OF_SPACY_TRAIN[name]}")
    return overrides


def group(option: str) -> Any:
    """Return the option --group of a command that divides a corpus by another option."""
    return typer.Option(
        metavar="KEY",
        help=f"With {option}: keep texts of a group on one side. A column, a key of JSON or of a comment in CoNLL-U, "
        "document, or file",
    )


def number(what: str, least: int = 1, default: str | None = None) -> Any:
    """Return the option -n, the number of items to show or keep; `default` says the default where it is None."""
    return typer.Option("--number", "-n", min=least, help=what, show_default=default or True)


def output(what: str, default: str | None = None) -> Any:
    """Return the option -o, the output of a command; `default` says the default where it is None."""
    return typer.Option("--output", "-o", help=what, show_default=default or True)
