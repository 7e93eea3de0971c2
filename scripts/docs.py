"""The parts of the documentation that are made from the code: commands, plug-ins, settings, the Python API.

A page under ``docs/`` takes in a part by a line such as ``<!-- generated: class estimator.CRF -->``; `PARTS` has all
kinds.  Pages of single commands, and those of the top folder, are made whole (`generated`).  None of this is committed:
the hooks at the end of this file hand it to mkdocs at each build (``mkdocs serve``, ``mkdocs build --strict``).

Classes and signatures are read by griffe; typer describes the options of commands.  Docstrings are read as this
repository writes them: paragraphs, then a line ``name (type): text`` for each setting, with what follows indented, and
``RAISES Error: text``.
"""

from __future__ import annotations

import importlib
import inspect
import os
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import griffe
import spacy
import typer
from typer.cli import get_docs_for_click

from spacy_crfseq.cli.app import SECTIONS
from spacy_crfseq.cli.program import crfseq_cli
from spacy_crfseq.features import attributes, items, sets
from spacy_crfseq.pipeline import settings

ROOT = Path(__file__).resolve().parent.parent
sys.path[:1] = [str(ROOT)]  # so that this checkout is shown, and scripts is a package

from scripts.kit import table  # noqa: E402

DOCS = ROOT / "docs"
MARKER = re.compile(r"^<!-- generated: (\S+) ?(.*) -->$", re.MULTILINE)
BRIEF = 30
"""A first sentence of fewer characters says little."""
WIDTH = 88
"""Maximum number of characters of a line of code."""
REQUIRED = inspect.Parameter.empty


# Docstrings


class Setting(NamedTuple):
    """An entry ``name (type): text`` of a docstring; several names, with commas between them, may share it."""

    names: str
    kind: str
    text: str


class Docstring(NamedTuple):
    """A docstring in its parts.

    paragraphs (list[str]): Markdown.
    settings (list[Setting]): In order.
    notes (list[str]): Sentences on the result and on errors; Markdown.
    """

    paragraphs: list[str]
    settings: list[Setting]
    notes: list[str]

    def text(self) -> str:
        """Return everything as Markdown, settings as a list."""
        lines = []
        for names, kind, text in self.settings:
            codes = ", ".join(f"`{name}`" for name in names.split(", "))
            lines.append(f"- {codes}{f' ({markdown(kind)})' if kind else ''}: {text}")
        return joined(*self.paragraphs, "\n".join(lines), *self.notes)

    def meanings(self) -> dict[str, str]:
        """Return the text of each setting by its name."""
        return {name: text for names, _, text in self.settings for name in names.split(", ")}


_ENTRY = re.compile(r"^([a-z_]\w*(?:, [a-z_]\w*)*) \((.+?)\): (.+)$|^([a-z_]\w*(?:, [a-z_]\w*)+): (.+)$")
_NOTE = re.compile(r"^(RAISES) ([\w, ]+): (.+)$|^RETURNS(?: \(.+?\))?: (.+)$")
_ITEM = re.compile(r"^[*-] (.+)$")
_REGISTERED = re.compile(r",? \((?:registered as )?``spacy_crfseq\.\w+\.v\d+``\)")
_CODE = re.compile(r"``(.+?)``|`(.+?)`")


def read_docstring(text: str | None) -> Docstring:
    """Return the parts of a docstring; of a command's, those after its help and a form feed."""
    parts = Docstring([], [], [])
    text = inspect.cleandoc((text or "").rpartition("\f")[2])
    for block in re.split(r"\n\s*\n", _REGISTERED.sub("", text)):
        lines = block.split("\n")
        if all(line.startswith("    ") for line in lines):
            parts.paragraphs.append(_code_block(textwrap.dedent(block)))
            continue
        for piece in _pieces(lines):
            if entry := _ENTRY.match(piece):
                setting = Setting(entry[1] or entry[4], entry[2] or "", markdown(entry[3] or entry[5]))
                parts.settings.append(setting)
            elif note := _NOTE.match(piece):
                said = note[3] or note[4]
                errors = ", ".join(f"`{name}`" for name in (note[2] or "").split(", "))
                begin = f"Raises {errors}:" if note[1] else "Returns"
                parts.notes.append(f"{begin} {markdown(said[0].lower() + said[1:])}")
            elif item := _ITEM.match(piece):
                parts.paragraphs.append(f"- {markdown(item[1])}")
            else:
                parts.paragraphs.append(markdown(re.sub(r"\s*::$", ":", piece)))
    return parts


def _pieces(lines: Sequence[str]) -> Iterator[str]:
    """Join the lines of each entry, note, item or paragraph."""
    special = re.compile(f"{_ENTRY.pattern}|{_NOTE.pattern}|{_ITEM.pattern}")
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
    parts = _CODE.split(text)  # prose, and code in either of two kinds of ticks
    prose = map(_escape, parts[::3])
    code = (f"`{double or single}`" for double, single in zip(parts[1::3], parts[2::3], strict=True))
    return "".join(part for pair in zip(prose, [*code, ""], strict=True) for part in pair).replace("  ", " ")


def _escape(text: str) -> str:
    escaped = re.sub(r"([\\*_>\[\]|])", r"\\\1", text).replace("<", "&lt;")
    return re.sub(r"(?<!\w)\\\*(\w[^*]*\w)\\\*(?!\w)", r"*\1*", escaped)


def _code_block(code: str) -> str:
    language = "bash" if "python -m" in code else "ini" if re.match(r"\[[a-z_.]+\]\n", code) else "text"
    return f"```{language}\n{code}\n```"


def joined(*parts: str) -> str:
    """Return parts of a page with empty lines between them."""
    return "\n\n".join(part for part in parts if part)


# Classes and functions


@cache
def package() -> Any:
    """Return the modules of the package as griffe reads them, without importing them."""
    return griffe.load("spacy_crfseq", search_paths=[ROOT])


def signature(function: Any, name: str) -> str:
    """Return the signature of a function or a record that griffe has read, in a block of code."""
    if function.is_class:
        fields = (member for member in function.members.values() if member.is_attribute and member.annotation)
        defaults = ((field, "" if field.value is None else f" = {field.value}") for field in fields)
        line = f"{name}({', '.join(f'{field.name}: {field.annotation}{default}' for field, default in defaults)})"
    else:
        line = function.signature(name=name)
    if len(line) > WIDTH:
        inside, _, returned = line.removeprefix(f"{name}(").rpartition(")")
        line = "\n".join([f"{name}(", *(f"    {part}," for part in _parameters(inside)), f"){returned}"])
    return f"```python\n{line}\n```"


def _parameters(text: str) -> Iterator[str]:
    """Split the parameters of a signature at the commas that are in no brackets."""
    begun = ""
    for piece in text.split(", "):
        begun += f", {piece}" if begun else piece
        if len(re.findall(r"[\[(]", begun)) == len(re.findall(r"[\])]", begun)):
            yield begun
            begun = ""


def class_part(path: str) -> str:
    """Return a class with its public methods and properties."""
    shown = package()[path]
    parts = [f"## {shown.name}", read_docstring(shown.docstring and shown.docstring.value).text()]
    for name, there in {**shown.members, **shown.inherited_members}.items():
        member = there.final_target if there.is_alias else there
        if member.docstring is None or (name.startswith("_") and name != "__call__"):
            continue
        title = f"{shown.name}.{name}"
        is_cached = member.is_function and any(
            decorator.callable_path.endswith("property") for decorator in member.decorators
        )
        if is_cached or member.is_attribute:
            kind = member.returns if is_cached else member.annotation
            code = f"```python\n{title}{f': {kind}' if kind else f' = {member.value}'}\n```"
        else:
            code = signature(member, shown.name if name == "__call__" else title)
        parts += [f"### {_escape(title)}", code, read_docstring(member.docstring.value).text()]
    return joined(*parts)


# Commands


def commands() -> dict[str, Any]:
    """Return the commands by name, in the order of the help."""
    there = typer.main.get_group(crfseq_cli).commands
    return {name: there[name] for names in SECTIONS.values() for name in names if name in there}


def command_page(name: str, command: Any) -> str:
    """Return the page of a command: its help, its options as typer lists them, and the function behind it."""
    context = command.context_class(command, info_name=name)
    described = get_docs_for_click(obj=command, ctx=context, name=name, call_prefix="python -m spacy crfseq")
    usage = re.sub(r"^(\* `.+?`: )(.+)$", _option, described[described.index("**Usage**") :], flags=re.MULTILINE)
    return joined(f"# {name}", *_help(command), usage.strip(), _from_python(command.callback)) + "\n"


def _option(line: re.Match[str]) -> str:
    return line[1] + _prose(line[2])


def _from_python(callback: Callable[..., Any]) -> str:
    """Return the function that a command calls: it has the name of the command's without ``_cli``, in the same room."""
    name, modules = (
        callback.__name__.removesuffix("_cli"),
        (callback.__module__, callback.__module__.rpartition(".")[0]),
    )
    there = (getattr(sys.modules[module], name, None) for module in modules)
    function = next(
        (candidate for candidate in there if inspect.isfunction(candidate) and candidate is not callback), None
    )
    if function is None:
        return ""
    read = package()[f"{function.__module__}.{name}".partition(".")[2]]
    title = f"A function of `{function.__module__}` does the same:"
    return joined(
        "## From Python", title, signature(read, name), read_docstring(function.__doc__).text(), *_records(function)
    )


def _records(function: Callable[..., Any]) -> Iterator[str]:
    """Yield the fields of the records of this package that a function takes."""
    there = vars(sys.modules[function.__module__])
    annotations = " ".join(str(parameter.annotation) for parameter in inspect.signature(function).parameters.values())
    for name in dict.fromkeys(re.findall(r"\w+", annotations)):
        record = there.get(name)
        if hasattr(record, "_fields") and record.__module__.startswith("spacy_crfseq."):
            read = package()[f"{record.__module__}.{name}".partition(".")[2]]
            yield joined(f"### {name}", signature(read, name), read_docstring(record.__doc__).text())


def _help(command: Any) -> list[str]:
    """Return the help of a command in blocks of Markdown: paragraphs, and indented lines as they are."""
    text, blocks = inspect.cleandoc(command.callback.__doc__ or "").partition("\f")[0].replace("\b\n", ""), list[str]()
    for indented, lines in groupby(text.split("\n"), key=lambda line: line.startswith(" ")):
        part = "\n".join(lines).strip("\n")
        texts = [_code_block(textwrap.dedent(part))] if indented else map(_prose, part.split("\n\n"))
        blocks += filter(None, texts)
    return blocks


def _prose(text: str) -> str:
    """Return a paragraph of help as Markdown, with options in code."""
    escaped = _escape(text.replace("\n", " "))
    if "`" in text:
        escaped = escaped.replace("\\_", "_")
    return re.sub(r"(?<![\w-])(--?[a-zA-Z][\w-]*)", r"`\1`", escaped)


def command_list() -> str:
    """Return the tables of all commands by section."""
    there, parts = commands(), list[str]()
    for title, names in SECTIONS.items():
        rows = ([f"[`{name}`]({name}.md)", _help(there[name])[0]] for name in names if name in there)
        parts += [f"## {title}", table(["command", "does"], rows)]
    return joined(*parts)


# Plug-ins


def plugins(group: str) -> list[EntryPoint]:
    """Return the package's entry points of a group, in the order of their names."""
    there = entry_points(group=group)
    return sorted((entry for entry in there if entry.value.startswith("spacy_crfseq.")), key=lambda entry: entry.name)


def plugin_part(group: str, block: str = "") -> str:
    """Return all functions of a registry.

    block: The block of a config that names such a function, if there is one.
    """
    entries, seen = plugins(group), dict[str, str]()
    rows = ([f"[`{_short(entry)}`](#{_anchor(entry)})", _summary(entry)] for entry in entries)
    return joined(table(["name", "is"], rows), *(_section(group, block, entry, seen) for entry in entries))


def registries() -> str:
    """Return the table of all registries, from the pages that show them."""
    rows = []
    for file in sorted((DOCS / "plugins").glob("*.md")):
        text = file.read_text(encoding="utf8")
        for kind, rest in MARKER.findall(text):
            if kind == "plug-ins":
                group, title = rest.split()[0], text.partition("\n")[0].removeprefix("# ")
                names = ", ".join(f"[{_short(entry)}]({file.name}#{_anchor(entry)})" for entry in plugins(group))
                rows.append([f"[{title}]({file.name})", f"`{group}`", names])
    return table(["registry", "entry points", "registered"], rows)


def _short(entry: EntryPoint) -> str:
    """Return the name without the package and the first version."""
    return entry.name.partition(".")[2].removesuffix(".v1")


def _anchor(entry: EntryPoint) -> str:
    return _short(entry).lower().replace(".", "")


def _summary(entry: EntryPoint) -> str:
    """Return the first sentence about a function; where that is hardly more than a name, its module's."""
    texts = (read_docstring(inspect.getdoc(source)).paragraphs[0] for source in (entry.load(), _module(entry)))
    own, of_module = (re.split(r"(?<=\.) (?=[A-Z])", text)[0] for text in texts)
    return of_module.rstrip(":") if len(own) < BRIEF else own


def _module(entry: EntryPoint) -> Any:
    return importlib.import_module(entry.module)


def _section(group: str, block: str, entry: EntryPoint, seen: dict[str, str]) -> str:
    """Return the settings and the docstring of one registered function.

    seen (dict[str, str]): Modules whose docstring has been shown, and the plug-in that shows it.
    """
    plugin = entry.load()
    document = read_docstring(inspect.getdoc(plugin))
    # a class has the settings of those it is derived from, a function those of the one that its docstring refers to
    others = re.findall(r"settings and the errors are those of `(\w+)`", inspect.getdoc(plugin) or "")
    sources = (
        reversed(inspect.getmro(plugin)) if isinstance(plugin, type) else [getattr(_module(entry), x) for x in others]
    )
    meanings = {}
    for source in (*sources, plugin):
        meanings |= read_docstring(inspect.getdoc(source)).meanings()
    rows, lines = [], [f"[{block}]", f'@{group.removeprefix("spacy_")} = "{entry.name}"']
    for name, parameter in inspect.signature(plugin).parameters.items():
        required = parameter.default is REQUIRED
        value = "required" if required else config_value(parameter.default)
        kind = re.sub(r"\b(?:\w+\.)+(\w+)", r"\1", inspect.formatannotation(parameter.annotation)).strip("'")
        rows.append([f"`{name}`", f"`{kind}`", value if required else f"`{value}`", meanings.get(name, "")])
        lines.append(f"# {name} = ...  (required)" if required else f"{name} = {value}")
    settings = table(["setting", "type", "default", "meaning"], rows) if rows else ""
    background = f"Background: see [{seen.get(entry.module)}](#{seen.get(entry.module, '').lower()})."
    if entry.module not in seen:
        seen[entry.module] = _short(entry)
        about = read_docstring(inspect.getdoc(_module(entry))).text()
        background = '??? info "Background"\n\n' + textwrap.indent(about, "    ")
    config = "\n".join(["```ini", *lines, "```"]) if block else ""
    return joined(f"## {_short(entry)}", *document.paragraphs, settings, config, *document.notes, background)


def config_value(value: object) -> str:
    """Return a default as a config writes it."""
    if isinstance(value, str):
        return f'"{value}"'
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str([*value] if isinstance(value, tuple) else value).replace("'", '"')


# Settings of components


def factory_part(name: str) -> str:
    """Return the settings of a factory that are its own."""
    defaults = spacy.blank("en").get_factory_meta(name).default_config or {}
    (entry,) = entry_points(group="spacy_factories", name=name)
    document = read_docstring(inspect.getdoc(entry.load()))
    meanings = document.meanings()
    own = [
        [f"`{setting}`", f"`{config_value(value)}`", meanings[setting]]
        for setting, value in defaults.items()
        if setting in meanings or not (setting in settings.METHOD or isinstance(value, dict))
    ]
    blocks = {
        setting: next(iter(block.values())) for setting, block in defaults.items() if block and isinstance(block, dict)
    }
    return joined(
        *(text for text in document.paragraphs if "settings.Method" not in text),
        table(["setting", "default", "meaning"], own),
        "Its blocks: " + ", ".join(f"`{setting}` is `{function}`" for setting, function in blocks.items()) + ".",
    )


def method_part() -> str:
    """Return the settings that all factories share, without blocks."""
    meanings = read_docstring(settings.Method.__doc__).meanings()
    plain = {name: value for name, value in settings.METHOD.items() if not isinstance(value, dict) and name in meanings}
    rows = ([f"`{name}`", f"`{config_value(value)}`", meanings[name]] for name, value in plain.items())
    return table(["setting", "default", "meaning"], rows)


def term_part() -> str:
    """Return the settings of a term."""
    meanings = read_docstring(settings.TermSettings.__doc__).meanings()
    return table(["setting", "meaning"], ([f"`{name}`", text] for name, text in meanings.items()))


# Attributes and templates

WORDS = ("Paris", "U.N.", "1990-95", "re-elected")


def attribute_part() -> str:
    """Return all attributes that templates may name, with their values for a few words."""
    vocab = spacy.blank("en").vocab
    words = [vocab[word] for word in WORDS]
    rows = []
    for name in (*attributes.LEXEME_HASHES, *attributes.LEXEME_FLAGS):
        end = "_" if name in attributes.LEXEME_HASHES else ""
        rows.append((name, "lexeme", [getattr(word, name.lower() + end) for word in words]))
    for name, function in items.TEXT_FUNCTIONS.items():
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


def template_part(name: str) -> str:
    """Return the templates of a feature set, as a config would list them."""
    made: sets.FeatureSet = getattr(sets, name.lower())()
    lines = ",\n".join(f"    {template!r}" for template in made.templates).replace("'", '"')
    return f"```ini\ntemplates = [\n{lines}\n]\n```"


PARTS: dict[str, Callable[..., str]] = {
    "attributes": attribute_part,
    "class": class_part,
    "commands": command_list,
    "factory": factory_part,
    "method": method_part,
    "plug-ins": plugin_part,
    "registries": registries,
    "templates": template_part,
    "terms": term_part,
}
"""The parts that a marker may name, followed by arguments."""


# Pages


def filled(text: str) -> str:
    """Return a page with its generated parts.

    RAISES KeyError: If there is no part of that name.
    """
    return MARKER.sub(lambda match: PARTS[match[1]](*match[2].split()), text)


def _moved(name: str) -> str:
    """Return a page of the top folder with links that are right in ``docs/``; files beyond it lose theirs."""

    def link(match: re.Match[str]) -> str:
        return match[0] if (DOCS / match[2]).exists() else f"{match[1]} (`{match[2]}`)"

    inside = re.sub(r"\]\(docs/", "](", (ROOT / name).read_text(encoding="utf8"))
    return re.sub(r"\[([^\]]+)\]\((?!https?:|#)([^)#]+)\)", link, inside)


def generated() -> dict[str, str]:
    """Return the pages that are made whole: place under ``docs/`` to Markdown."""
    of_commands = {f"commands/{name}.md": command_page(name, command) for name, command in commands().items()}
    return {**of_commands, **{f"{name.lower()}.md": _moved(f"{name}.md") for name in ("CHANGELOG", "CONTRIBUTING")}}


def pages() -> dict[str, str]:
    """Return all pages, complete: place under ``docs/`` to Markdown."""
    by_hand = {str(file.relative_to(DOCS)): file.read_text(encoding="utf8") for file in DOCS.rglob("*.md")}
    return {place: filled(text) for place, text in {**by_hand, **generated()}.items()}


# Hooks of mkdocs


def on_config(config: Any) -> Any:
    """Show the versions to choose from, if mike builds one of them; a page on a disk cannot ask for them."""
    if "MIKE_DOCS_VERSION" in os.environ:
        config.extra["version"] = {"provider": "mike"}
    config.nav = _with_commands(config.nav)
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the generated pages."""
    from mkdocs.structure.files import File

    for place, text in generated().items():
        files.append(File.generated(config, place, content=text))
    return files


def on_page_markdown(text: str, **_: Any) -> str:
    """Fill in the generated parts of a page written by hand."""
    return filled(text)


def _with_commands(nav: Any) -> Any:
    """Replace the entry ``commands/`` of the navigation by the pages of commands."""
    if isinstance(nav, list):
        return [_with_commands(entry) for entry in nav]
    if isinstance(nav, dict):
        return {title: _with_commands(entry) for title, entry in nav.items()}
    if nav != "commands/":
        return nav
    there = commands()
    parts = {title: [f"commands/{name}.md" for name in names if name in there] for title, names in SECTIONS.items()}
    return ["commands/index.md", *({title: places} for title, places in parts.items())]
