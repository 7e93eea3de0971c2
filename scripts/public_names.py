"""Write the list of public names on docs/public-names.md, or check it.

    python scripts/public_names.py [--check] [--drop]

A name of the page that the code no longer has is an error; `--drop` takes it from the page, once it has been deprecated
for a year.  `--check` writes nothing, and also fails if a new name is missing.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:1] = [str(ROOT)]

import spacy  # noqa: E402

from scripts import docs  # noqa: E402

PAGE = ROOT / "docs" / "public-names.md"
MARKER = "<!-- The lists below are written by `python scripts/public_names.py`. -->\n"
MODULES = {
    "spacy_crfseq": "CRF CRFComponent DocPosterior LinearChainCRF Posterior",
    "spacy_crfseq.registry": "losses regularizers optimizers decoders features attributes potentials costs weightings",
    "spacy_crfseq.errors": "",
    "spacy_crfseq.types": "",
    "spacy_crfseq.features.protocol": "",
    "spacy_crfseq.features.index": "Growable HashIndex",
    "spacy_crfseq.features.phrases": "Phrases",
    "spacy_crfseq.features.token_sets": "TokenSets make_token_sets",
    "spacy_crfseq.features.word_classes": "WordClasses",
    "spacy_crfseq.losses.sequential_log": "SequentialLog",
    "spacy_crfseq.pipeline.clusters": "Cluster",
    "spacy_crfseq.pipeline.doc_model": "ModelSize Pruned",
    "spacy_crfseq.pipeline.doc_posterior": "Alternative DocPosterior Labelling Scored",
    "spacy_crfseq.pipeline.readers": "read_examples",
    "spacy_crfseq.papers.augmented.costs": "Cost Evidence",
    "spacy_crfseq.tools.cluster.frames": "FrameAnnotator",
    "spacy_crfseq.tools.explain": "explain",
}
"""Names that may be imported, by module; none stands for all that a module defines without an underscore."""
PRIVATE = {
    "CRFComponent": {"doc_model", "method", "reads", "set_parameters", "works_on"},
    "LinearChainCRF": {"*"},
    "Posterior": {"*"},  # the same as DocPosterior
}
"""Methods and fields that are rooms of the package, by class; "*" for all of them."""
HEADER = ["name", "its own"]


def lists() -> dict[str, dict[str, list[str]]]:
    """Return the public names: heading, name, and the names that it has: methods, parameters, settings, options."""
    entries = list(distribution("spacy-crfseq").entry_points)
    registered = {entry.name: parameters(entry.load()) for entry in entries if entry.group not in docs.NOT_PLUGINS}
    groups = {entry.group for entry in entries if entry.group.startswith("spacy_crf")}
    factories = {entry.name: entry.load() for entry in entries if entry.group == "spacy_factories"}
    commands = docs.commands()
    return {
        "Python": dict(sorted((name, own) for module in MODULES for name, own in imported(module))),
        "Functions of commands": dict(sorted(map(behind, commands.values()))),
        "Components and their settings": {
            name: sorted({*parameters(factory), *settings(name)} - {"nlp", "name"})
            for name, factory in sorted(factories.items())
        },
        "Registered functions and their settings": dict(sorted(registered.items())),
        "Groups of entry points for other packages": {name: [] for name in sorted(groups)},
        "Commands and their options": {
            name: [option for each in docs.parameters(command) for option in each.options or (each.name,)]
            for name, command in sorted(commands.items())
        },
    }


def imported(module: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the public names of a module, with the methods, fields or parameters of each."""
    there = import_module(module)
    own = {name for name, value in vars(there).items() if getattr(value, "__module__", "") == module}
    own |= {name for name, value in vars(there).items() if isinstance(value, int | tuple)} | {*there.__annotations__}
    for name in MODULES[module].split() or sorted(name for name in own if not name.startswith("_")):
        value = getattr(there, name)
        if inspect.isclass(value):
            yield f"{module}.{name}", [] if "*" in PRIVATE.get(name, ()) else [*members(value)]
        else:
            yield f"{module}.{name}", parameters(value) if inspect.isfunction(value) else []


def members(thing: type) -> Iterator[str]:
    """Yield the fields of a class and its methods, also of the bases that this package defines."""
    bases = [base for base in thing.__mro__ if base.__module__.startswith("spacy_crfseq.")]
    names = {name for base in bases for name in (*vars(base), *vars(base).get("__annotations__", {}))}
    for name in sorted(names - PRIVATE.get(thing.__name__, set())):
        value = inspect.getattr_static(thing, name, None)
        value = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        if name == "__call__" or not name.startswith("_"):
            yield f"{name}({', '.join(parameters(value))})" if inspect.isfunction(value) else name


def parameters(function: Any) -> list[str]:
    """Return the names of the parameters of a function, or of the call that makes an object of a class."""
    return [name for name in inspect.signature(function).parameters if name not in ("self", "cls", "_")]


def behind(command: Any) -> tuple[str, list[str]]:
    """Return the function that a command calls, or the command if it calls none, and its parameters."""
    module = sys.modules[command.__module__]
    function = getattr(module, command.__name__.removesuffix("_cli"), command)
    place = module.__name__.removesuffix(f"cli.{function.__name__}")  # the package `cli` has its own commands
    return (f"{place}cli" if place.endswith(".") else place) + f".{function.__name__}", parameters(function)


def settings(factory: str) -> list[str]:
    """Return the settings of a component in a config."""
    return list(spacy.blank("en").get_factory_meta(factory).default_config)


def written(found: dict[str, dict[str, list[str]]]) -> str:
    """Return the lists as Markdown."""
    parts = []
    for heading, names in found.items():
        cells = {name: ", ".join(f"`{each}`" for each in own).replace("|", "\\|") for name, own in names.items()}
        rows = ([f"`{name}`", text] for name, text in cells.items())
        parts.append(f"## {heading}\n\n{docs.table(HEADER, rows)}\n")
    return "\n".join(parts)


def names_of(text: str) -> set[str]:
    """Return the names on a page, each under that which has it: a class, its method, a parameter of that."""
    names = set()
    for row in re.findall(r"^\| `(.+?)` \| (.*) \|$", text, re.MULTILINE):
        names.add(row[0])
        for method, given in re.findall(r"`([^`(]+)(?:\((.*?)\))?`", row[1]):
            names |= {f"{row[0]} {method}", *(f"{row[0]} {method} {name}" for name in given.split(", ") if name)}
    return names


def main(arguments: list[str]) -> str | None:
    """Write or check the page; return what is wrong."""
    prose, marker, told = PAGE.read_text(encoding="utf8").partition(MARKER)
    text = written(lists())
    gone, new = sorted(names_of(told) - names_of(text)), sorted(names_of(text) - names_of(told))
    if gone and "--drop" not in arguments:
        return f"Public names have gone; deprecate them for a year, see {PAGE.name}: {', '.join(gone)}"
    if "--check" in arguments:
        return None if told == f"\n{text}" else f"Run `python {Path(__file__).name}`; names that are new: {new}"
    PAGE.write_text(f"{prose}{marker}\n{text}", encoding="utf8")
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
