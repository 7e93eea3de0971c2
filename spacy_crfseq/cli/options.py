"""What commands share: options, config overrides, the layouts and the texts of files, gold tags of a component."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Callable, Collection, Iterator
from difflib import get_close_matches
from inspect import Parameter, Signature, signature
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, get_args, get_type_hints

import typer
from spacy import util
from spacy.cli._util import parse_config_overrides

from ..corpora import Preset, layouts
from ..errors import ConfigError, DataError
from ..pipeline.texts import GIVEN_HELP, Text, read_texts
from .console import print_json, printer

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.training import Example

    from ..pipeline.component import CRFComponent

OVERRIDES = {"allow_extra_args": True, "ignore_unknown_options": True}
"""Settings of a command that takes config overrides."""
Model = Annotated[str, typer.Argument(metavar="MODEL", help="Folder or package name of a trained pipeline")]
Config = Annotated[Path, typer.Argument(metavar="CONFIG", help="Config file, or - for stdin", allow_dash=True)]
GoldFile = Annotated[Path, typer.Argument(metavar="DEV", help="Annotated file that the model was not trained on")]
TextOrFile = Annotated[str, typer.Argument(metavar="TEXT|FILE", help="A text, or a file of texts")]
RENAME_HELP = "Of XML: new names of labels, as in name=author,ref=O; one for several merges them"
_LAYOUT = "Layout of the file"
GoldFormat = Annotated[
    str | None,
    typer.Option(
        "--format",
        "-f",
        help=layouts.FORMAT_HELP,
        show_default="by its ending, else as in training, else its first lines",
        rich_help_panel=_LAYOUT,
    ),
]
TextFormat = Annotated[
    str | None,
    typer.Option(
        "--format",
        "-f",
        help=layouts.TEXTS_HELP,
        show_default="by its ending, else its first lines",
        rich_help_panel=_LAYOUT,
    ),
]
Columns = Annotated[str | None, typer.Option(help=layouts.COLUMNS_HELP, rich_help_panel=_LAYOUT)]
Scheme = Annotated[str | None, typer.Option(help=layouts.SCHEME_HELP, show_default="IOB2", rich_help_panel=_LAYOUT)]
Encoding = Annotated[str | None, typer.Option(help=layouts.ENCODING_HELP, show_default="utf8", rich_help_panel=_LAYOUT)]
Rename = Annotated[str | None, typer.Option(help=RENAME_HELP, rich_help_panel=_LAYOUT)]
LAYOUT: dict[str, Any] = {"columns": Columns, "scheme": Scheme, "encoding": Encoding, "rename": Rename}
"""Options on the layout of a file beside its format."""
Given = Annotated[str | None, typer.Option(help=GIVEN_HELP)]
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


class LayoutOptions(NamedTuple):
    """Stands for the options on the layout of a file where a command takes a `Format`."""

    format: Any
    others: tuple[str, ...] = ("columns", "scheme", "encoding")

    @property
    def kinds(self) -> dict[str, Any]:
        """The options by the fields of `Asked`."""
        return {"name": self.format, **{name: LAYOUT[name] for name in self.others}}

    def parameters(self) -> list[Parameter]:
        """Return what they are in the signature of a command."""
        return [_keyword(name, kind) for name, kind in self.kinds.items()]

    def taken(self, said: dict[str, Any]) -> layouts.Asked:
        """Return the options, taken out of what was said."""
        return layouts.Asked(**{name: said.pop(name) for name in self.kinds})


GoldLayout = Annotated[layouts.Format, LayoutOptions(GoldFormat)]
TextLayout = Annotated[layouts.Format, LayoutOptions(TextFormat)]


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


def as_command(
    function: Callable[..., Any], show: Callable[..., int | None], as_json: Callable[[Any], Any] | None = None
) -> Callable[..., None]:
    """Return a function for typer that reads options, calls a function, and shows its result.

    The options are the annotated parameters of both functions, and --code.  One that takes config `overrides` has
    --verbose, too, and its config is `config_path`.  Its help is its docstring up to a form feed.

    show (Callable): Called with the result and the options that it names; returns the exit code, None for 0.
    as_json (Callable | None): Returns the values that the option --json prints instead.
    """
    own, shown = _options_of(function), _options_of(show, 1)
    overridden = "overrides" in signature(function).parameters
    extra: dict[str, Any] = {"as_json": AsJson} if as_json else {}
    extra |= {"code": Code, **({"verbose": Verbose} if overridden else {})}
    parameters = [Parameter("ctx", Parameter.KEYWORD_ONLY, annotation=typer.Context)] if overridden else []
    for name, option in {**own, **shown}.items():
        several = _several_options(option)
        parameters += [_keyword(name, option.annotation, option.default)] if several is None else several.parameters()
    parameters += [_keyword(name, kind, None) for name, kind in extra.items() if name not in own]

    def call(**said: Any) -> None:
        for name, option in own.items():
            if (several := _several_options(option)) is not None:
                said[name] = several.taken(said)
        more = {"overrides": config_overrides(said["ctx"], said.get("config_path"))} if overridden else {}
        result = function(**{name: said[name] for name in own}, **more)
        if as_json is not None and said["as_json"]:
            print_json(as_json(result))
            return
        status = show(result, **{name: said[name] for name in list(signature(show).parameters)[1:]})
        if status:
            raise typer.Exit(status)

    call.__name__, call.__doc__, call.__module__ = f"{function.__name__}_cli", function.__doc__, function.__module__
    call.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    call.__wrapped__ = function  # type: ignore[attr-defined]
    return call


def _keyword(name: str, annotation: Any, default: Any = None) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _options_of(function: Callable[..., Any], first: int = 0) -> dict[str, Parameter]:
    """Return the parameters with an annotation for typer, with its value; keyword-only ones are for other callers.

    RAISES NameError: If an annotation uses a name that is not imported when the program runs.
    """
    parameters = list(signature(function).parameters.values())[first:]
    known = {one.name: one for one in parameters if one.kind is not one.KEYWORD_ONLY}
    stand_in: Any = SimpleNamespace(__annotations__={name: one.annotation for name, one in known.items()})
    kinds = get_type_hints(stand_in, function.__globals__, include_extras=True)
    return {name: known[name].replace(annotation=kind) for name, kind in kinds.items() if hasattr(kind, "__metadata__")}


def _several_options(option: Parameter) -> LayoutOptions | None:
    info = get_args(option.annotation)[1]
    return info if isinstance(info, LayoutOptions) else None


def show_layout(path: Path, layout: layouts.Format, trained: Preset | None = None, *, texts: bool = False) -> Preset:
    """Return the layout of a file, as `find_layout` does; one that was guessed is shown on stderr."""
    result = layouts.find_layout(path, layout, trained, texts=texts)
    if result.guessed:
        print(result.notice(path), file=sys.stderr)
    return result.layout


def read_overrides(args: list[str], known: Collection[str] = ()) -> dict[str, Any]:
    """Return config overrides from ``--section.key value`` arguments and spaCy's environment variable.

    known: The options of the command, to suggest one.
    RAISES typer.BadParameter: On an option that is neither an override nor one of the command's.
    """
    for arg in args:
        if arg.startswith("-") and "." not in arg.partition("=")[0] and not re.match(r"-\d", arg):
            near = get_close_matches(arg.partition("=")[0], known, n=1)
            hint = f"Did you mean {near[0]}?" if near else "Overrides of the config name a section: --paths.train FILE."
            raise typer.BadParameter(f"{arg}: no such option. {hint}")
    overrides: dict[str, Any] = parse_config_overrides(list(args))
    for name in overrides:
        if name in OF_SPACY_TRAIN:
            printer().warn(f"--{name} is for 'spacy train' and changes nothing here. {OF_SPACY_TRAIN[name]}")
    return overrides


def number(what: str, least: int = 1, default: str | None = None) -> Any:
    """Return the option -n, the number of items to show or keep; `default` says the default where it is None."""
    return typer.Option("--number", "-n", min=least, help=what, show_default=default or True)


def output(what: str, default: str | None = None) -> Any:
    """Return the option -o, the output of a command; `default` says the default where it is None."""
    return typer.Option("--output", "-o", help=what, show_default=default or True)


# Files


def layout_of(path: Path, layout: layouts.Format, nlp: Language, *, texts: bool = False) -> Preset:
    """Return the layout of a file for a trained pipeline, as `show_layout` does."""
    return show_layout(path, layout, layouts.trained_layout(nlp.config.interpolate()), texts=texts)


def read_file(nlp: Language, path: Path, layout: layouts.Format = None) -> Iterator[Text]:
    """Yield the texts of a file with the layout that `layout_of` finds; RAISES CrfError: If it cannot be read."""
    return read_texts(nlp, path, layout_of(path, layout, nlp, texts=True))


def first_texts(nlp: Language, source: str | Path, layout: layouts.Format, number: int) -> tuple[list[Text], bool]:
    """Return the first texts of a file, or `source` itself as a text, and whether there are more.

    layout: Options on the layout; if any is set, `source` is a file.
    RAISES CrfError: If there is no text, or the file cannot be read.
    """
    texts = read_file(nlp, Path(source), layout) if is_file(source, layout) else _given_text(nlp, str(source))
    first = list(islice(texts, number + 1))
    if not first:
        raise DataError(f"{str(source)!r} holds no text.")
    return first[:number], len(first) > number


def _given_text(nlp: Language, text: str) -> Iterator[Text]:
    if not text.isprintable() and any("\ud800" <= sign <= "\udfff" for sign in text):
        raise DataError("The text is not in the encoding of this terminal. Write it to a file in UTF-8.")
    return iter([Text(nlp.make_doc(text), 1, {})] if text.strip() else [])


FILES = (".conll", ".conllu", ".gz", ".iob", ".json", ".tsv", ".xml")
"""Endings of file names, besides those of raw texts."""


def is_file(source: str | Path, layout: layouts.Format) -> bool:
    """Whether an argument is the name of a file and not a text."""
    text = str(source)
    if any(layouts.asked(layout)):
        return True
    if len(text) >= 256 or not text.strip():
        return False
    path = Path(text)
    if path.suffix[1:] in layouts.RAW or path.exists():
        return True
    return not any(map(str.isspace, text)) and (os.sep in text or path.suffix in FILES)


def gold_tags_of(pipe: CRFComponent, example: Example) -> list[str | None]:
    """Return the gold tag of each token of an example, None if unknown."""
    from ..pipeline.labels import gold_tags, known_tags

    return known_tags(gold_tags(pipe.annotation, example, pipe.name))
