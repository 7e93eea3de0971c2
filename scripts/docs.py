"""The pages of the documentation that are made from the code: commands, plug-ins, components, the Python API.

`generated` returns them as Markdown by their place under ``docs/``.  None is committed: the hooks at the end of this
file hand them to mkdocs at each build (``mkdocs serve``, ``mkdocs build --strict``); ``python scripts/docs.py FOLDER``
writes them for other programs.  A page written by hand takes in a
generated part by a line such as ``<!-- generated: attributes -->``.

Docstrings are read as this repository writes them: paragraphs, then a line ``name (type): text`` for each setting, with
what follows indented, and ``RAISES Error: text``.
"""

from __future__ import annotations

import importlib
import inspect
import os
import re
import shutil
import sys
import textwrap
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.metadata import EntryPoint, distribution
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import spacy
import srsly
import typer

from spacy_crfseq import estimator
from spacy_crfseq import types as contracts
from spacy_crfseq.cli import crfseq_cli
from spacy_crfseq.cli.app import SECTIONS
from spacy_crfseq.features import attributes, sets
from spacy_crfseq.papers.augmented.costs import Cost, Evidence
from spacy_crfseq.papers.boosting.work import LikelihoodLoss
from spacy_crfseq.pipeline import component, doc_model, doc_posterior, factories, settings

ROOT = Path(__file__).parent.parent
REQUIRED = inspect.Parameter.empty
MARKER = re.compile(r"^<!-- generated: (.+) -->$", re.MULTILINE)


class Group(NamedTuple):
    """Functions of one registry.

    page (str): File under ``docs/plugins``, without its ending.
    title (str): Of the page.
    at (str): Block of a config that names such a function.
    kind (str): What follows the ``@`` there.
    intro (str): First paragraph.
    """

    page: str
    title: str
    at: str
    kind: str
    intro: str


GROUPS = {
    "spacy_crf_losses": Group(
        "losses", "Losses", "components.crf_ner.loss", "crf_losses",
        "Training minimises a loss, a function of the scores and the gold labels. All losses support sequence weights "
        "and missing labels. [Choosing a method](../choosing.md) says when to use which.",
    ),
    "spacy_crf_regularizers": Group(
        "regularizers", "Regularizers", "components.crf_ner.regularizer", "crf_regularizers",
        "A regularizer is a penalty on the weights, added once to the loss summed over the training set. It keeps "
        "weights small, or sets most of them to zero.",
    ),
    "spacy_crf_optimizers": Group(
        "optimizers", "Optimizers", "components.crf_ner.optimizer", "crf_optimizers",
        "An optimizer searches for the minimum of loss and penalty. Not every optimizer can minimise every pair. The "
        "config reader rejects a pair that cannot work and names one that can. [Choosing a method](../choosing.md) "
        "compares them.",
    ),
    "spacy_crf_decoders": Group(
        "decoders", "Decoders", "components.crf_ner.decoder", "crf_decoders",
        "A decoder chooses the labels from the scores.",
    ),
    "spacy_crf_features": Group(
        "features", "Feature sets and functions", "components.crf_ner.features", "crf_features",
        "Feature sets define the input of the model. [Features and templates](../features.md) explains the templates.",
    ),
    "spacy_crf_attributes": Group(
        "attributes", "Attributes", "components.crf_ner.attributes.classes", "crf_attributes",
        "A plug-in adds attributes, and templates over them, to the features of a component.",
    ),
    "spacy_crf_potentials": Group(
        "potentials", "Potentials", "components.crf_ner.potentials.kernel", "crf_potentials",
        "A potential adds scores to those of the features. [Add a potential](../add-a-potential.md) shows how.",
    ),
    "spacy_crf_costs": Group(
        "costs", "Costs", "fine_tune.sets.questions.loss", "crf_costs",
        "A cost scores a whole labelling, for [`fine-tune`](../commands/fine-tune.md): training on data with indirect "
        "evidence instead of gold labels.",
    ),
    "spacy_crf_weightings": Group(
        "weightings", "Weightings", "corpora.train.weighting", "crf_weightings",
        "A weighting weights labelled texts so that they represent the texts of a target. The reader "
        "[`WeightedReader`](readers.md) and the command [`weigh`](../commands/weigh.md) use it.",
    ),
    "spacy_readers": Group(
        "readers", "Corpus readers", "corpora.train", "readers",
        "A corpus reader reads the training and development data of a config.",
    ),
    "spacy_tokenizers": Group(
        "tokenizers", "Tokenizers", "nlp.tokenizer", "tokenizers",
        "A tokenizer splits raw text into tokens. `init-config` writes it for a corpus in XML.",
    ),
    "spacy_batchers": Group(
        "batchers", "Batchers", "training.batcher", "batchers",
        "`spacy train` uses a batcher to split an epoch into batches. `crfseq fit` needs none.",
    ),
    "spacy_scorers": Group(
        "scorers", "Scorers", "components.crf_tagger.scorer", "scorers",
        "A scorer defines what `nlp.evaluate` and `spacy evaluate` measure: the scores of spaCy's own components, and "
        "the accuracy of whole sequences.",
    ),
    "spacy_callbacks": Group(
        "callbacks", "Callbacks", "training.before_to_disk", "callbacks",
        "A callback modifies a pipeline before it is saved.",
    ),
    "spacy_loggers": Group(
        "loggers", "Loggers", "training.logger", "loggers", "A logger prints and saves the progress of training.",
    ),
}  # fmt: skip
BRIEF = 30
"""A first sentence of fewer characters says little."""
NOT_PLUGINS = frozenset(
    {"spacy_factories", "spacy_cli", "spacy_crfseq_commands", "spacy_crfseq_dask", "console_scripts"}
)
"""Entry points that have pages of their own, or are on one: components, commands, clusters."""


class Setting(NamedTuple):
    """An entry ``name (type): text`` of a docstring; several names where they share it."""

    names: tuple[str, ...]
    kind: str
    text: str


class Docstring(NamedTuple):
    """A docstring in its parts.

    paragraphs (list[str]): Markdown.
    settings (list[Setting]): In order.
    notes (list[str]): What is returned, and which errors are raised when; Markdown.
    """

    paragraphs: list[str]
    settings: list[Setting]
    notes: list[str]

    def text(self) -> str:
        """Return everything as Markdown, settings as a list."""
        settings = "\n".join(
            f"- {', '.join(f'`{name}`' for name in names)}{f' ({markdown(kind)})' if kind else ''}: {text}"
            for names, kind, text in self.settings
        )
        return "\n\n".join([*self.paragraphs, *([settings] if settings else []), *self.notes])


_ENTRY = re.compile(r"^([a-z_]\w*(?:, [a-z_]\w*)*) \((.+?)\): (.+)$|^([a-z_]\w*(?:, [a-z_]\w*)+): (.+)$")
_RAISES = re.compile(r"^RAISES ([\w, ]+): (.+)$")
_RETURNS = re.compile(r"^RETURNS(?: \(.+?\))?: (.+)$")
_REGISTERED = re.compile(r",? \((?:registered as )?``spacy_crfseq\.\w+\.v\d+``\)")
_CODE = re.compile(r"``(.+?)``|`(.+?)`")


def read_docstring(thing: object) -> Docstring:
    """Return the parts of a docstring; of a command's, what follows its help after a form feed."""
    found = Docstring([], [], [])
    text = inspect.cleandoc((inspect.getdoc(thing) or "").rpartition("\f")[2])
    for block in re.split(r"\n\s*\n", _REGISTERED.sub("", text)):
        lines = block.split("\n")
        if all(line.startswith("    ") for line in lines):
            found.paragraphs.append(_code_block(inspect.cleandoc("\n".join(["", *lines]))))
            continue
        found.paragraphs.extend(_prose(text) for text in _pieces(lines) if not _note(text, found))
    return found


def _note(text: str, found: Docstring) -> bool:
    """Add a line about a setting, a result or an error to what was found; return whether it is one."""
    if entry := _ENTRY.match(text):
        names, text = entry[1] or entry[4], entry[3] or entry[5]
        found.settings.append(Setting(tuple(names.split(", ")), entry[2] or "", markdown(text)))
    elif error := _RAISES.match(text):
        errors = ", ".join(f"`{name}`" for name in error[1].split(", "))
        found.notes.append(f"Raises {errors}: {markdown(error[2][0].lower() + error[2][1:])}")
    elif result := _RETURNS.match(text):
        found.notes.append(f"Returns {markdown(result[1][0].lower() + result[1][1:])}")
    else:
        return False
    return True


def _prose(text: str) -> str:
    """Return a paragraph, or an item of a list, as Markdown."""
    item = re.match(r"^[*-] (.+)$", text)
    return f"- {markdown(item[1])}" if item else markdown(re.sub(r"\s*::$", ":", text))


def _pieces(lines: Sequence[str]) -> Iterator[str]:
    """Join the lines of each entry, item or paragraph."""
    special = re.compile(f"{_ENTRY.pattern}|{_RAISES.pattern}|{_RETURNS.pattern}|^[*-] ")
    text = ""
    for line in lines:
        if text and (special.match(line) or (special.match(text) and not line.startswith(" "))):
            yield text
            text = ""
        text = f"{text} {line.strip()}".strip()
    if text:
        yield text


def markdown(text: str) -> str:
    """Return a docstring's prose as Markdown: code as code, and nothing else as markup."""
    parts = []
    end = 0
    for code in _CODE.finditer(text):
        parts += [_escape(text[end : code.start()]), f"`{code[1] or code[2]}`"]
        end = code.end()
    return "".join([*parts, _escape(text[end:])]).replace("  ", " ")


def _escape(text: str) -> str:
    escaped = re.sub(r"([\\*_>\[\]|])", r"\\\1", text).replace("<", "&lt;")
    return re.sub(r"(?<!\w)\\\*(\w[^*]*\w)\\\*(?!\w)", r"*\1*", escaped)


def _code_block(code: str) -> str:
    language = "ini" if re.match(r"\[[a-z_.]+\]\n", code) else "text"
    return f"```{language}\n{code}\n```"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table; bars in its cells are in code, or escaped."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def annotation(kind: Any) -> str:
    """Return a readable type: the last part of each dotted name."""
    if kind is REQUIRED:
        return ""
    text = kind if isinstance(kind, str) else inspect.formatannotation(kind)
    text = re.sub(r"numpy\.ndarray\[tuple\[typing\.Any, \.\.\.\], numpy\.dtype\[.+?\]\]", "Array", text)
    return re.sub(r"\b(?:\w+\.)+(\w+)", r"\1", text).replace("'", "").replace('"', "")


def signature(function: Callable[..., Any], name: str) -> str:
    """Return how a function is called, in a block of code."""
    known = inspect.signature(function)
    parts, starred = [], False
    for parameter in known.parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        kind = parameter.annotation
        if isinstance(kind, str) and kind.startswith(("Annotated[", "options.")):  # of a command: without its help
            kind = typing.get_args(eval(kind, function.__globals__))[0]
        kind = annotation(kind)
        default = "" if parameter.default is REQUIRED else f" = {parameter.default!r}"
        starred |= parameter.kind is parameter.VAR_POSITIONAL
        stars = "*" if parameter.kind is parameter.VAR_POSITIONAL else ""
        stars = "**" if parameter.kind is parameter.VAR_KEYWORD else stars
        parts.append(f"{stars}{parameter.name}{': ' if kind else ''}{kind}{default}")
    returns = annotation(known.return_annotation)
    arrow = f" -> {returns}" if returns else ""
    line = f"{name}({', '.join(parts)}){arrow}"
    if len(line) > 88:
        line = f"{name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){arrow}"
    return f"```python\n{line}\n```"


# Commands


class Parameter(NamedTuple):
    """An argument or option of a command.

    name (str): As the help writes it.
    options (tuple[str, ...]): ``--output`` and ``-o``; empty for an argument.
    kind (str): "path", "text", "number"; empty for a flag.
    text (str): Help.
    default (str): Empty where there is none, or the help says it.
    required (bool): Must be given.
    """

    name: str
    options: tuple[str, ...]
    kind: str
    text: str
    default: str
    required: bool


def commands() -> dict[str, Callable[..., Any]]:
    """Return the functions that read the commands' arguments, by the name of the command."""
    return {str(info.name): info.callback for info in crfseq_cli.registered_commands if info.callback}


def sections() -> dict[str, list[str]]:
    """Return the names of all commands as the help of the group lists them."""
    known = commands()
    return {title: [name for name in names if name in known] for title, names in SECTIONS.items()}


def parameters(command: Callable[..., Any]) -> list[Parameter]:
    """Return the arguments and options of a command, from its annotations."""
    found = []
    hints = typing.get_type_hints(command, include_extras=True)
    for name, parameter in inspect.signature(command).parameters.items():
        kind, *more = typing.get_args(hints[name]) or (hints[name],)
        info = next((x for x in more if isinstance(x, typer.models.ParameterInfo)), None)
        if info is None or getattr(info, "hidden", False):
            continue
        options: tuple[str, ...] = ()
        if isinstance(info, typer.models.OptionInfo):
            flag = "--" + name.replace("_", "-")
            # inside of Annotated, typer takes the first name for the default
            first = (info.default,) if isinstance(info.default, str) and info.default.startswith("-") else ()
            options = (*first, *(info.param_decls or ())) or (f"{flag}/--no-{flag[2:]}" if kind is bool else flag,)
            options = tuple(option.strip() for each in options for option in each.split("/"))
        default = parameter.default
        told = getattr(info, "show_default", None)
        shown = "" if default in (REQUIRED, None, False, True) or default == [] else str(default)
        shown = told if isinstance(told, str) else shown
        found.append(
            Parameter(
                info.metavar or name.rstrip("_").upper(),
                options,
                _kind(kind) + _bounds(info),
                info.help or "",
                shown,
                default is REQUIRED,
            )
        )
    return found


def _kind(kind: Any) -> str:
    """Return what a parameter takes."""
    inner = [each for each in typing.get_args(kind) if each is not types.NoneType]
    if typing.get_origin(kind) in (list, tuple):
        return f"{_kind(inner[0])}, repeatable"
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return _kind(inner[0])
    names = {bool: "", Path: "path", str: "text", int: "number", float: "number"}
    return names.get(kind, getattr(kind, "__name__", str(kind)).lower())


def _bounds(info: Any) -> str:
    least, most = info.min, info.max
    if least is not None and most is not None:
        return f", {least:g} to {most:g}"
    return f", at least {least:g}" if least is not None else f", at most {most:g}" if most is not None else ""


def _help(text: str) -> str:
    """Return a line of help as Markdown, with options and defaults in code."""
    escaped = _escape(text).replace("\\_", "_") if "`" in text else _escape(text)
    return re.sub(r"(?<![\w-])(--?[a-zA-Z][\w-]*)", r"`\1`", escaped)


def command_page(name: str, command: Callable[..., Any]) -> str:
    """Return the page of a command."""
    known = parameters(command)
    arguments = [each for each in known if not each.options]
    options = [each for each in known if each.options]
    usage = " ".join(["python -m spacy crfseq", name, *(each.name for each in arguments), "[OPTIONS]"])
    first, *rest = _help_blocks(command)
    parts = [f"# {name}", first, f"```text\n{usage}\n```", *rest]
    if arguments:
        rows = ([f"`{each.name}`", each.kind, _help(each.text)] for each in arguments)
        parts += ["## Arguments", table(["argument", "takes", "is"], rows)]
    if options:
        rows = (
            [
                "<br>".join(f"`{option}`" for option in each.options),
                each.kind or "flag",
                _help(each.text)
                + (f" \\[`{each.default}`\\]" if each.default else "")
                + (" **Required.**" if each.required else ""),
            ]
            for each in options
        )
        parts += ["## Options", "Defaults stand in brackets.", table(["option", "takes", "does"], rows)]
    module = sys.modules[command.__module__]
    works = getattr(module, command.__name__.removesuffix("_cli"), None)
    if works is not None and works is not command:
        document = read_docstring(works)
        parts += [
            "## From Python",
            f"The same as a function of `{module.__name__}`:",
            signature(works, works.__name__),
            document.text(),
        ]
    return _page(parts)


def _help_blocks(command: Callable[..., Any]) -> list[str]:
    """Return the help of a command as Markdown; indented lines stay unchanged."""
    blocks = []
    for block in inspect.cleandoc(command.__doc__ or "").partition("\f")[0].strip().split("\n\n"):
        if "\n " not in block:
            blocks.append(_help(block.replace("\n", " ")))
            continue
        for indented, lines in groupby(block.removeprefix("\b\n").split("\n"), key=lambda line: line.startswith(" ")):
            text = "\n".join(lines)
            if indented:
                code = inspect.cleandoc(f"\n{text}")
                blocks.append(f"```bash\n{code}\n```" if "python -m" in code else _code_block(code))
            else:
                title, _, about = text.replace("\n", " ").partition(": ")
                blocks += [f"## {title.rstrip(':')}", _help(about)] if title.startswith("Example") else [_help(text)]
    return blocks


def _page(parts: Iterable[str]) -> str:
    return "\n\n".join(part for part in parts if part) + "\n"


def command_pages() -> dict[str, str]:
    """Return the pages of all commands, and the page that lists them."""
    known = commands()
    pages = {f"commands/{name}.md": command_page(name, command) for name, command in known.items()}
    intro = (
        "Call each command as `python -m spacy crfseq COMMAND`, or `spacy-crfseq COMMAND` for short. The option "
        "`--help` explains it. With `--code FILE` (`-c`), it first imports a Python file and registers its functions. "
        "The exit code is 0 for success, 1 for an error in the input, with a message that says what is wrong and "
        "where, and 130 after Ctrl-C."
    )
    parts = ["# Commands", intro]
    for title, names in sections().items():
        rows = ([f"[`{name}`]({name}.md)", _help_blocks(known[name])[0]] for name in names)
        parts += [f"## {title}", table(["command", "does"], rows)]
    pages["commands/index.md"] = _page(parts)
    return pages


# Plug-ins


def plugins() -> dict[str, list[EntryPoint]]:
    """Return the package's entry points by their group, without components and commands.

    RAISES ValueError: If there are functions of a registry that `GROUPS` does not know.
    """
    order = list(GROUPS)
    known = [entry for entry in distribution("spacy-crfseq").entry_points if entry.group not in NOT_PLUGINS]
    known.sort(key=lambda entry: order.index(entry.group))
    return {group: list(entries) for group, entries in groupby(known, key=lambda entry: entry.group)}


def plugin_pages() -> dict[str, str]:
    """Return the page of each registry, and the page that lists them."""
    pages = {}
    rows = []
    for group, entries in plugins().items():
        about = GROUPS[group]
        seen: dict[str, str] = {}
        sections = [_section(about, entry, seen) for entry in entries]
        summary = table(
            ["name", "is"],
            ([f"[`{_short(entry)}`](#{_anchor(entry)})", _summary(entry)] for entry in entries),
        )
        pages[f"plugins/{about.page}.md"] = _page([f"# {about.title}", about.intro, summary, *sections])
        names = ", ".join(f"[{_short(entry)}]({about.page}.md#{_anchor(entry)})" for entry in entries)
        rows.append([f"[{about.title}]({about.page}.md)", f"`{group}`", names])
    intro = (
        "Every plug-in is a registered function. A config block uses its full name, such as `spacy_crfseq.L2.v1`. "
        "Other packages add plug-ins with entry points of the same group. [Add a loss in ten lines](../add-a-loss.md) "
        "shows how, and the [contracts](contracts.md) define the interfaces."
    )
    header = ["what", "entry points", "registered"]
    pages["plugins/index.md"] = _page(["# Plug-ins", intro, table(header, rows)])
    return pages


def _short(entry: EntryPoint) -> str:
    """Return the name without the package and the first version."""
    return entry.name.partition(".")[2].removesuffix(".v1")


def _anchor(entry: EntryPoint) -> str:
    return _short(entry).lower().replace(".", "")


def _summary(entry: EntryPoint) -> str:
    """Return the first sentence about a function; where that is hardly more than a name, its module's."""
    own, of_module = (
        re.match(r"(.+?\.)(?: [A-Z]|$)|(.+)", read_docstring(each).paragraphs[0])
        for each in (entry.load(), importlib.import_module(entry.module))
    )
    found = of_module if own and len(own[0]) < BRIEF else own
    return found[1] or found[2].rstrip(":") if found else ""


def _section(about: Group, entry: EntryPoint, seen: dict[str, str]) -> str:
    """Return what is to be said of one registered function.

    seen (dict[str, str]): Modules whose docstring has been shown, and the plug-in that shows it.
    """
    thing = entry.load()
    document = read_docstring(thing)
    # a class has the settings of those it is derived from, a function those of the one that its docstring refers to
    others = re.findall(r"settings and the errors are those of `(\w+)`", inspect.getdoc(thing) or "")
    functions = [*(getattr(importlib.import_module(entry.module), each) for each in others), thing]
    bases = reversed(inspect.getmro(thing)) if isinstance(thing, type) else functions
    documents = [read_docstring(each) for each in bases]
    known = {name: setting.text for each in documents for setting in each.settings for name in setting.names}
    arguments = [each for name, each in inspect.signature(thing).parameters.items() if name not in ("self", "cls")]
    rows = [
        [
            f"`{each.name}`",
            f"`{annotation(each.annotation)}`",
            "required" if each.default is REQUIRED else f"`{_config_value(each.default)}`",
            known.get(each.name, ""),
        ]
        for each in arguments
    ]
    parts = [f"## {_short(entry)}", *document.paragraphs]
    if rows:
        parts.append(table(["setting", "type", "default", "meaning"], rows))
    lines = [f"[{about.at}]", f'@{about.kind} = "{entry.name}"']
    lines += [
        f"# {each.name} = ...  (required)"
        if each.default is REQUIRED
        else f"{each.name} = {_config_value(each.default)}"
        for each in arguments
    ]
    parts.append("```ini\n" + "\n".join(lines) + "\n```")
    return _page([*parts, *document.notes, _background(entry, seen)]).rstrip()


def _background(entry: EntryPoint, seen: dict[str, str]) -> str:
    """Return the docstring of the function's module, or a link to its place on the page."""
    module = importlib.import_module(entry.module)
    if entry.module in seen:
        return f"Background: see [{seen[entry.module]}](#{seen[entry.module].lower()})."
    seen[entry.module] = _short(entry)
    return '??? info "Background"\n\n' + textwrap.indent(read_docstring(module).text(), "    ")


def _config_value(value: object) -> str:
    """Return a default as a config writes it."""
    if isinstance(value, str):
        return f'"{value}"'
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str([*value] if isinstance(value, tuple) else value).replace("'", '"')


# Contracts, components, Python API

CONTRACTS = (
    "Loss", "Scores", "Batch", "Candidates", "IncorrectSpan", "Decoder", "Constraints", "Regularizer",
    "Strengths", "RowBlock", "Optimizer", "Objective", "OnlineBatch", "RowGradient", "Occurrences", "StepReport",
)  # fmt: skip


def contracts_page() -> str:
    """Return the protocols and tuples that plug-ins see."""
    intro = (
        "The interfaces of plug-ins, from `spacy_crfseq/types.py`; those at the end are of packages in `papers/`. "
        "A plug-in needs no base class, only these methods. "
        "Shapes: N sequences, T tokens in all sequences together, L labels, "
        "F attributes, D parameters; sequence n owns the tokens `offsets[n]:offsets[n + 1]`."
    )
    things = [*(getattr(contracts, name) for name in CONTRACTS), LikelihoodLoss, Cost, Evidence]
    return _page(["# Contracts", intro, *map(class_section, things)])


def api_page() -> str:
    """Return the Python API: the component, its doc_posterior, and the estimator."""
    intro = (
        'The component is a spaCy pipe: `nlp.add_pipe("crf_ner")`, `nlp.initialize`, `nlp.update`, `nlp(text)`, '
        "`nlp.to_disk` and so on work as usual. This page lists its additional methods, and at its end the estimator "
        "`CRF`, which needs no pipeline. Shapes: T tokens, L labels, D parameters."
    )
    things = [
        component.CRFComponent, doc_posterior.DocPosterior, doc_posterior.Scored, doc_posterior.Alternative,
        doc_posterior.Labelling, doc_model.ModelSize, doc_model.Pruned, estimator.CRF,
    ]  # fmt: skip
    return _page(["# Python API", intro, *(class_section(thing) for thing in things)])


def class_section(thing: type) -> str:
    """Return a class with its public methods and properties."""
    document = read_docstring(thing)
    parts = [f"## {thing.__name__}", document.text()]
    bases = [base for base in thing.__mro__ if base.__module__.startswith("spacy_crfseq.")]
    for name, member in (each for base in bases for each in vars(base).items()):
        if name.startswith("_") and name != "__call__":
            continue
        if isinstance(member, property) or hasattr(member, "attrname"):
            parts += _member(thing, name, getattr(member, "fget", None) or getattr(member, "func", None), "property")
        elif inspect.isfunction(member):
            parts += _member(thing, name, member, "")
    return _page(parts).rstrip()


def _member(thing: type, name: str, function: Any, kind: str) -> list[str]:
    """Return a method or property, if it says what it is."""
    if function is None or not function.__doc__:
        return []
    document = read_docstring(function)
    title = f"{thing.__name__}.{name}"
    head = [f"### {_escape(title)}"]
    if kind:
        returns = annotation(inspect.signature(function).return_annotation)
        head.append(f"```python\n{title}: {returns}\n```" if returns else "")
    else:
        called = f"{thing.__name__}()" if name == "__call__" else title
        head.append(signature(function, called.removesuffix("()") if name == "__call__" else title))
    return [*head, document.text()]


def components_page() -> str:
    """Return the three factories and their settings with defaults."""
    shared, terms = read_docstring(settings.Method), read_docstring(settings.TermSettings)
    parts = [
        "# Components",
        "Three factories create the same component for three tasks. Their own settings come first, the shared settings "
        "below.",
    ]
    for name, create in (
        ("crf_tagger", factories.create_tagger),
        ("crf_chunker", factories.create_chunker),
        ("crf_ner", factories.create_ner),
    ):
        defaults = spacy.blank("en").get_factory_meta(name).default_config or {}
        document = read_docstring(create)
        meanings = {each: setting.text for setting in document.settings for each in setting.names}
        own = [
            [f"`{each}`", f"`{_config_value(value)}`", meanings[each]]
            for each, value in defaults.items()
            if each in meanings or not (each in factories.METHOD or isinstance(value, dict))
        ]
        named = {
            each: next(iter(value.values())) for each, value in defaults.items() if value and isinstance(value, dict)
        }
        paragraphs = [text for text in document.paragraphs if "settings.Method" not in text]
        parts += [
            f"## {name}",
            *paragraphs,
            table(["setting", "default", "meaning"], own),
            "Its blocks: " + ", ".join(f"`{each}` is `{function}`" for each, function in named.items()) + ".",
        ]
    rows = [
        [f"`{each}`", f"`{_config_value(factories.METHOD[each])}`", setting.text]
        for setting in shared.settings
        for each in setting.names
        if not isinstance(factories.METHOD.get(each, {}), dict)
    ]
    blocks = [
        ("features", "The input of the model.", "[all of them](plugins/features.md)"),
        ("attributes", "Additional attributes, each under a name.", "[all of them](plugins/attributes.md)"),
        ("potentials", "Additional scores, each under a name.", "[all of them](plugins/potentials.md)"),
        ("loss", "The objective of training.", "[all of them](plugins/losses.md)"),
        ("terms", "Losses of further texts, each under a name, see below.", "[losses](plugins/losses.md)"),
        ("regularizer", "The penalty on the weights.", "[all of them](plugins/regularizers.md)"),
        ("optimizer", "The search for the minimum.", "[all of them](plugins/optimizers.md)"),
        ("decoder", "The choice of labels.", "[all of them](plugins/decoders.md)"),
    ]
    parts += [
        "## Settings of all three",
        table(["setting", "default", "meaning"], rows),
        "Blocks name registered functions:",
        table(["block", "is", "registered"], ([f"`{name}`", *rest] for name, *rest in blocks)),
        "In a config:",
        '```ini\n[components.crf_ner]\nfactory = "crf_ner"\nthreshold = 0.5\n\n[components.crf_ner.regularizer]\n'
        '@crf_regularizers = "spacy_crfseq.L2.v1"\nrho = 0.5\n```',
        "## Terms",
        "A term adds a loss of further texts, such as raw text, to the objective. There may be any number of terms, "
        "each under its own name.",
        table(
            ["setting", "meaning"],
            [[f"`{each}`", setting.text] for setting in terms.settings for each in setting.names],
        ),
        '```ini\n[components.crf_ner.terms]\n\n[components.crf_ner.terms.news]\ncorpus = "corpora.news"\n'
        'weight = 0.01\n\n[components.crf_ner.terms.news.loss]\n@crf_losses = "spacy_crfseq.Entropy.v1"\n\n'
        '[corpora.news]\n@readers = "spacy_crfseq.TextReader.v1"\npath = "news.txt"\n```',
    ]
    return _page(parts)


# Parts of pages written by hand

WORDS = ("Paris", "U.N.", "1990-95", "re-elected")


def attribute_table() -> str:
    """Return all attributes that templates may name, with their values for a few words."""
    vocab = spacy.blank("en").vocab
    words = [vocab[word] for word in WORDS]
    rows = []
    for name in (*attributes.LEXEME_HASHES, *attributes.LEXEME_FLAGS):
        end = "_" if name in attributes.LEXEME_HASHES else ""
        rows.append((name, "lexeme", [getattr(word, name.lower() + end) for word in words]))
    for name, function in attributes.TEXT_FUNCTIONS.items():
        values = map(function, WORDS)
        rows.append((name, "text", [bool(value) if name in attributes.SPELLING else value for value in values]))
    rows += [(name, "Doc", [None] * len(WORDS)) for name in attributes.TOKEN_COLUMNS]
    return table(
        ["attribute", "source", *(f"*{word}*" for word in WORDS)],
        ([f"`{name}`", source, *map(_value, values)] for name, source, values in rows),
    )


def _value(value: str | bool | None) -> str:
    if isinstance(value, bool):
        return "fires" if value else ""
    return f"`{value}`" if value else ""


def feature_set(name: str) -> str:
    """Return the templates of a feature set, as a config would list them."""
    made: sets.FeatureSet = getattr(sets, name)()
    lines = "".join(f"    {template!r},\n".replace("'", '"') for template in made.templates)
    return f"```ini\ntemplates = [\n{lines.rstrip().rstrip(',')}\n]\n```"


PARTS: dict[str, Callable[[], str]] = {
    "attributes": attribute_table,
    "templates of Tagging": lambda: feature_set("tagging"),
    "templates of Chunking": lambda: feature_set("chunking"),
    "templates of Entities": lambda: feature_set("entities"),
}


def filled(text: str) -> str:
    """Return a page with its generated parts.

    RAISES KeyError: If there is no part of that name.
    """
    return MARKER.sub(lambda match: PARTS[match[1]](), text)


def document_pages() -> dict[str, str]:
    """Return the changelog and the guide for contributors from the top folder of the repository."""
    return {
        f"{name.lower()}.md": _moved((ROOT / f"{name}.md").read_text(encoding="utf8"))
        for name in ("CHANGELOG", "CONTRIBUTING")
    }


def _moved(text: str) -> str:
    """Return a text of the top folder with links that are right in ``docs/``; files beyond it lose theirs."""
    inside = re.sub(r"\]\(docs/", "](", text)
    return re.sub(r"\[([^\]]+)\]\((?!https?:|#)([^)#]+)\)", _link, inside)


def _link(match: re.Match[str]) -> str:
    target = ROOT / "docs" / match[2]
    return match[0] if target.exists() else f"{match[1]} (`{match[2]}`)"


def generated() -> dict[str, str]:
    """Return all generated pages: place under ``docs/`` to Markdown."""
    return {
        **command_pages(),
        **plugin_pages(),
        "plugins/contracts.md": contracts_page(),
        "components.md": components_page(),
        "api.md": api_page(),
        **document_pages(),
    }


# Hooks of mkdocs


def on_config(config: Any) -> Any:
    """Show the versions to choose from, if mike builds one of them; a page on a disk cannot ask for them."""
    if "MIKE_DOCS_VERSION" in os.environ:
        config.extra["version"] = {"provider": "mike"}
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the generated pages, and those of commands and plug-ins to the navigation."""
    from mkdocs.structure.files import File

    pages = generated()
    for place, text in pages.items():
        files.append(File.generated(config, place, content=text))
    config.nav = _with_folders(config.nav, files.get_file_from_path)
    return files


def _with_folders(nav: Any, there: Callable[[str], Any]) -> Any:
    """Replace the entries ``commands/`` and ``plugins/`` by the pages in these folders; leave out what is not there.

    A page that is left out for a mistyped name is one without an entry, of which the strict build complains.
    """
    if isinstance(nav, list):
        return [found for each in nav if (found := _with_folders(each, there))]
    if isinstance(nav, dict):
        return {title: found for title, each in nav.items() if (found := _with_folders(each, there))}
    if nav == "commands/":
        parts = ({title: [f"commands/{name}.md" for name in names]} for title, names in sections().items())
        return ["commands/index.md", *parts]
    if nav == "plugins/":
        return [f"plugins/{page}.md" for page in ("index", *(GROUPS[group].page for group in plugins()), "contracts")]
    return nav if there(nav) else None


def on_page_markdown(text: str, **_: Any) -> str:
    """Fill in the generated parts of a page written by hand."""
    return filled(text)


# For other programs, such as zensical, which know no hooks


def write(folder: Path) -> None:
    """Write all pages, complete, and a configuration without hooks to a new folder."""
    pages = folder / "docs"
    shutil.copytree(ROOT / "docs", pages)
    by_hand = {file.name: file.read_text(encoding="utf8") for file in pages.glob("*.md")}
    for place, text in {**by_hand, **generated()}.items():
        (pages / place).parent.mkdir(exist_ok=True)
        (pages / place).write_text(filled(text), encoding="utf8")
    config = srsly.read_yaml(ROOT / "mkdocs.yml")
    del config["hooks"]
    config["nav"] = _with_folders(config["nav"], lambda place: (pages / place).exists())
    snippets = next(each for each in config["markdown_extensions"] if "pymdownx.snippets" in each)
    snippets["pymdownx.snippets"]["base_path"] = [str(ROOT)]
    srsly.write_yaml(folder / "mkdocs.yml", config)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("Name a new folder for the pages: python scripts/docs.py build/pages")
    write(Path(sys.argv[1]))
