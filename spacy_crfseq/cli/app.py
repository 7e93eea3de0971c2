"""The command group that is added to spaCy's command line."""

import gc
import platform
from collections.abc import Callable
from difflib import get_close_matches
from importlib.metadata import version
from inspect import cleandoc
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.markup import escape
from typer.core import TyperCommand, TyperGroup

from .. import __version__

Function = TypeVar("Function", bound=Callable[..., Any])
HELP = """Conditional random fields for spaCy: taggers, chunkers and entity recognizers that train in seconds.

Each command has help with examples: python -m spacy crfseq fit --help
"""

SECTIONS: dict[str, list[str]] = {title: [] for title in ("Begin", "Train", "Raw text", "Look", "Use")}
"""Commands by purpose, in the order of a typical project; `command` adds them."""
RICH = "rich"
"""How help is shown, also below spaCy's own commands, which show plain text."""
MEANT: dict[str, str] = {}
"""Names of these commands in other programs."""


class Sections(TyperGroup):
    """Lists commands by purpose; contexts are those of click, or of typer's copy of it."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{**settings, "rich_markup_mode": RICH})

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands in the order of `SECTIONS`."""
        return [*dict.fromkeys(name for names in (*SECTIONS.values(), self.commands) for name in names)]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the requested command; for an unknown name, fail with the nearest one, also of other programs."""
        if args and args[0] not in self.commands and (near := get_close_matches(args[0], [*MEANT, *self.commands], 1)):
            ctx.fail(f"No such command {args[0]!r}. Did you mean {MEANT.get(near[0], near[0])!r}?")
        return super().resolve_command(ctx, args)


class Command(TyperCommand):
    """A command that reports a user's mistakes in a paragraph.

    It uses two parameters of its function, if there are any of these names, before it calls it: `code`, a Python file,
    is imported, and `config_path` is the config that messages on missing values quote.
    The help is the docstring: paragraphs with indented lines, such as examples, are shown line by line.
    """

    def __init__(self, *arguments: Any, help: str | None = None, **settings: Any) -> None:
        blocks = cleandoc(help or "").split("\n\n")
        text = "\n\n".join(block if "\n " in block else block.replace("\n", " ") for block in blocks)
        # brackets of the text are no markup
        super().__init__(*arguments, help=escape(text), **{**settings, "rich_markup_mode": RICH})

    def invoke(self, ctx: Any) -> Any:
        """Call the function."""
        from .console import reported_errors

        limits = gc.get_threshold()
        gc.freeze()  # modules stay
        gc.set_threshold(50_000, *limits[1:])  # reading makes many objects, next to none of them in cycles
        try:
            config, code = (ctx.params.get(name) for name in ("config_path", "code"))  # older typer: texts
            with reported_errors(config and Path(config), code and Path(code)):
                return super().invoke(ctx)
        finally:
            gc.set_threshold(*limits)
            gc.unfreeze()


crfseq_cli = typer.Typer(name="crfseq", cls=Sections, help=HELP, no_args_is_help=True, pretty_exceptions_enable=False)


def command(name: str, section: str, *meant: str, **settings: Any) -> Callable[[Function], Function]:
    """Make a function a command in a section of the help, with the names that it has in other programs.

    Entry points ``spacy_crfseq_commands`` name the modules of `papers` and `tools`, and of other distributions.

    settings: Of `typer.Typer.command`, such as `options.OVERRIDES` as context_settings.
    """
    SECTIONS.setdefault(section, []).append(name)
    MEANT.update(dict.fromkeys(meant, name))
    return crfseq_cli.command(name, cls=Command, rich_help_panel=section, **settings)


def _show_versions(wanted: bool) -> None:
    if wanted:
        others = ", ".join(f"{name} {version(name)}" for name in ("spacy", "thinc", "numba", "numpy"))
        print(f"spacy_crfseq {__version__} ({others}, Python {platform.python_version()})")
        raise typer.Exit


@crfseq_cli.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_versions, is_eager=True, help="Print versions and exit.")
    ] = False,
) -> None:
    """Take the options of the group itself."""
