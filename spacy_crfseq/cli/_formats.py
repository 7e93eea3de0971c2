"""Which layout a corpus file has, by one rule for all commands: what its ending tells, else what the user says."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import ConfigError, FormatError, suggest
from ..formats import CUSTOM, PRESETS, Preset, check_columns, check_file, guess

DOCBIN = "spacy"
ENDINGS = {".spacy": DOCBIN, ".conllu": "conllu"}
"""Endings that tell the layout of an annotated file."""
NAMES = (DOCBIN, *PRESETS)
DOCS = Preset(DOCBIN, ("word", "tag", "pos", "morph", "lemma", "chunk", "ent"), "BILUO", "", "ent")
"""What spaCy's binary files may hold."""
FORMAT_HELP = f"Layout of the file: {', '.join(NAMES)} [what its ending tells: .spacy, .conllu]"
COLUMNS_HELP = 'Instead of --format: what each column holds, such as "word,_,ent"'
SCHEME_HELP = "Tags of spans, with --columns: IOB2, IOB1 or BILUO"


def corpus_layout(
    path: Path,
    name: str | None = None,
    columns: str | None = None,
    scheme: str | None = None,
    *,
    takes_columns: bool = True,
) -> Preset:
    """Return the layout of an annotated file, which must be there.

    name (str | None): One of `NAMES`.
    columns, scheme (str | None): Names with commas between, and how spans are tagged, where no name is given.
    takes_columns (bool): Whether the command has these two, for messages.
    RAISES FormatError: If there is no such file, or nothing tells its layout; the message says what it looks like.
    RAISES ConfigError: If what is given cannot be.
    """
    check_file(path)
    found = named_layout(name, columns, scheme) or _by_ending(path)
    if found is not None:
        return found
    ending = f"the ending {path.suffix!r} does not tell" if path.suffix else "no ending tells"
    found = guess(path)
    if takes_columns:
        advice = f"Give --format ({', '.join(NAMES)}) or --columns. {looks_like(found)}"
    else:
        advice = f"Give --format: {', '.join(NAMES)}. {looks_like(found)}"
        if found is not None and found.name == CUSTOM:
            advice += " `crfseq convert` reads such columns."
    raise FormatError(path, 0, f"{ending} what this file is. {advice}")


def named_layout(name: str | None, columns: str | None = None, scheme: str | None = None) -> Preset | None:
    """Return the layout that is given by name or by columns, None where none is.

    RAISES ConfigError: If there is no such layout, or both are given.
    """
    if name is not None and columns is not None:
        raise ConfigError("--format and --columns say the same thing; give one of them.")
    if scheme is not None and columns is None:
        raise ConfigError("--scheme goes with --columns; a --format has its own.")
    if name is not None:
        if name not in NAMES:
            raise ConfigError(f"--format {name}: unknown format. {suggest(name, NAMES)}")
        return DOCS if name == DOCBIN else PRESETS[name]
    if columns is None:
        return None
    names = tuple(part.strip() for part in columns.split(","))
    known = ("word", "tag", "pos", "morph", "lemma", "chunk", "ent", "_")
    for part in names:
        if part not in known:
            raise ConfigError(f"--columns {columns}: unknown column {part!r}. {suggest(part, known)}")
    check_columns(names)
    schemes = ("IOB2", "IOB1", "BILUO")
    if scheme is not None and scheme not in schemes:
        raise ConfigError(f"--scheme {scheme}: unknown. {suggest(scheme, schemes)}")
    score = next((part for part in ("ent", "chunk", "tag", "pos") if part in names), "word")
    return Preset(CUSTOM, names, scheme or "IOB2", "utf8", score)


def _by_ending(path: Path) -> Preset | None:
    return named_layout(ENDINGS.get(path.suffix))


def looks_like(layout: Preset | None) -> str:
    """Return a sentence on what a file seems to be."""
    if layout is None:
        return "It does not look like a file of columns."
    return f"It looks like {as_options(layout)} ({' '.join(layout.columns)})."


def as_options(layout: Preset) -> str:
    """Return the options that name a layout."""
    if layout.name != CUSTOM:
        return f"--format {layout.name}"
    scheme = f" --scheme {layout.scheme}" if layout.scheme in ("IOB1", "BILUO") else ""
    return f"--columns {','.join(layout.columns)}{scheme}"


def reader_options(reader: Mapping[str, Any]) -> str | None:
    """Return how to call commands on the file that a config's block such as `[corpora.dev]` reads: its path, quoted,
    and --format where its ending does not tell; None where they cannot read it."""
    path, name = reader.get("path"), str(reader.get("@readers", "")).split(".")[1:2]
    if not path:
        return None
    layout = {"Corpus": DOCBIN, "ConlluReader": "conllu"}.get(name[0] if name else "")
    if name == ["ConllReader"]:
        columns, scheme = reader.get("columns", ()), reader.get("scheme", "IOB2")
        schemes = {"IOB1": ("IOB1",), "IOB2": ("IOB2", "IOB1")}.get(scheme, ())  # what is IOB2 reads the same as IOB1
        layout = next((one.name for one in PRESETS.values() if one.scheme in schemes and _reads(one, columns)), None)
    if layout is None:
        return None
    told = ENDINGS.get(Path(path).suffix) == layout
    return shlex.quote(str(path)) + ("" if told else f" --format {layout}")


def _reads(layout: Preset, columns: Sequence[str]) -> bool:
    """Whether columns of which some are left out are those of a layout."""
    pairs = zip(columns, layout.columns, strict=False)
    return len(columns) == len(layout.columns) and all(one in (other, "_") for one, other in pairs)
