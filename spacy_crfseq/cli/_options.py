"""Arguments and options that several commands take, each declared once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from . import _formats, _gold, _texts

Model = Annotated[str, typer.Argument(metavar="MODEL", help="Folder or package name of a trained pipeline")]
GoldFile = Annotated[Path, typer.Argument(metavar="DEV", help="Annotated file that the model was not trained on")]
TextOrFile = Annotated[str, typer.Argument(metavar="TEXT|FILE", help="A text, or a file of texts")]

GoldFormat = Annotated[str | None, typer.Option("--format", "-f", help=_formats.FORMAT_HELP)]
TextFormat = Annotated[str | None, typer.Option("--format", "-f", help=_texts.FORMAT_HELP)]
Given = Annotated[str | None, typer.Option(help=_gold.GIVEN_HELP)]

Components = Annotated[
    list[str] | None, typer.Option("--component", "-p", help="CRF component, may be given more than once [all]")
]
OneComponent = Annotated[
    str | None, typer.Option("--component", "-p", help="CRF component [the only one that predicts spans]")
]
Samples = Annotated[int, typer.Option(min=1, help="Samples of the texts, for intervals and p values")]
PageInstead = Annotated[Path | None, typer.Option("--output", "-o", help="HTML file to write instead")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead")]


def number(what: str, least: int = 1) -> Any:
    """Return the option -n, which says how many of something are shown or kept."""
    return typer.Option("--number", "-n", min=least, help=what)


def output(what: str) -> Any:
    """Return the option -o for what a command writes."""
    return typer.Option("--output", "-o", help=what)
