"""Which layout a file has, by one rule for all commands: what its ending tells, else what the user says."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import ConfigError, FormatError, suggest
from ._lines import check_file
from .columns import check_columns
from .guess import guess
from .presets import ANNOTATIONS, CUSTOM, DOCBIN, DOCS, PRESETS, SPAN_COLUMNS, TOKEN_COLUMNS, Preset, get_preset

NAMES = (DOCBIN, *PRESETS, ANNOTATIONS.name)
"""Layouts of annotated files."""
_OTHERS = {DOCBIN: DOCS, ANNOTATIONS.name: ANNOTATIONS}
RAW = ("txt", "jsonl", DOCBIN)
TEXTS = (*RAW, *PRESETS)
"""Layouts of files of texts; of corpora, the words are read."""
ENDINGS = {"txt": ".txt", "jsonl": ".jsonl", DOCBIN: ".spacy", "conllu": ".conllu"}
"""Layouts that the ending of a file tells."""
ZIPPED = ".gz"
STDIN = Path("-")
FORMAT_HELP = f"Layout of the file: {', '.join(NAMES)} [what its ending tells: .spacy, .conllu, .jsonl]"
TEXTS_HELP = f"Layout of the file: {', '.join(TEXTS)} [what its ending tells]"
_FILE = 'File of texts: one a line (.txt), JSON with "text" in each line (.jsonl), DocBin (.spacy)'
TEXTS_FILE_HELP = f"{_FILE}, or --format"
COLUMNS_HELP = 'Instead of --format: what each column holds, such as "word,_,ent"'
SCHEME_HELP = "Tags of spans, with --columns: IOB2, IOB1 or BILUO"
COLUMNS = ("word", "tag", "pos", "lemma", "morph", *SPAN_COLUMNS, "_")
SCHEMES = ("IOB2", "IOB1", "BILUO")


def told_by_ending(path: Path, known: Collection[str] = NAMES) -> str | None:
    """Return the layout among those known that the ending of a file stands for, if any."""
    if path.suffix == ".json" and known is NAMES:  # Label Studio's exports
        return ANNOTATIONS.name
    return next((name for name, ending in ENDINGS.items() if ending == path.suffix and name in known), None)


def text_format(path: Path, name: str | None) -> str:
    """Return the layout of a file of texts, packed or not; of standard input, plain text if none is given.

    RAISES FormatError: If neither `name` nor the ending tells.
    RAISES ConfigError: If there is no such layout.
    """
    if name is not None:
        check_choice("--format", name, TEXTS, " format")
        return name
    if path == STDIN:
        return RAW[0]
    unpacked = Path(path.name.removesuffix(ZIPPED))
    if (found := told_by_ending(unpacked, TEXTS)) is None:
        raise _untold(path, unpacked.suffix, f"Give --format: {', '.join(TEXTS)}.")
    return found


def corpus_layout(
    path: Path,
    name: str | None = None,
    columns: str | None = None,
    scheme: str | None = None,
    *,
    takes_columns: bool = True,
) -> Preset:
    """Return the layout of an annotated file, which must be there.

    name: One of `NAMES`.
    columns, scheme: Names with commas between, and how spans are tagged, where no name is given.
    takes_columns: Whether the command has these two, for messages.
    RAISES FormatError: If there is no such file, or its layout is not given; the message says what it looks like.
    RAISES ConfigError: If what is given cannot be.
    """
    check_file(path)
    found = named_layout(name, columns, scheme) or named_layout(told_by_ending(path))
    if found is not None:
        return found
    found, names = guess(path), ", ".join(NAMES)
    advice = f"Give --format ({names}) or --columns." if takes_columns else f"Give --format: {names}."
    advice = f"{advice} {looks_like(found)}"
    if not takes_columns and found is not None and found.name == CUSTOM:
        advice += " `crfseq convert` reads such columns."
    raise _untold(path, path.suffix, advice)


def named_layout(name: str | None, columns: str | None = None, scheme: str | None = None) -> Preset | None:
    """Return the layout that is given by name or by columns, None where none is.

    RAISES ConfigError: If there is no such layout, or both are given.
    """
    if name is not None and columns is not None:
        raise ConfigError("--format and --columns say the same thing; give one of them.")
    if scheme is not None and columns is None:
        raise ConfigError("--scheme goes with --columns; a --format has its own.")
    if name is not None:
        check_choice("--format", name, NAMES, " format")
        return _OTHERS[name] if name in _OTHERS else PRESETS[name]
    if columns is None:
        return None
    names = tuple(part.strip() for part in columns.split(","))
    for part in names:
        if part not in COLUMNS:
            raise ConfigError(f"--columns {columns}: unknown column {part!r}. {suggest(part, COLUMNS)}")
    check_columns(names)
    check_choice("--scheme", scheme or "IOB2", SCHEMES)
    score = next((part for part in ("ent", "chunk", "tag", "pos") if part in names), "word")
    return Preset(CUSTOM, names, scheme or "IOB2", "utf8", score)


def file_columns(name: str) -> tuple[str, ...]:
    """Return the columns that files of a layout may have beside words."""
    held = (_OTHERS[name] if name in _OTHERS else get_preset(name)).columns
    return tuple(column for column in (*TOKEN_COLUMNS, *SPAN_COLUMNS) if column in held)


def looks_like(layout: Preset | None) -> str:
    """Describe what a file seems to be."""
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
    others = {"Corpus": DOCBIN, "ConlluReader": "conllu", "AnnotationReader": ANNOTATIONS.name}
    layout = others.get(name[0] if name else "")
    if name == ["ConllReader"]:
        columns, scheme = reader.get("columns", ()), reader.get("scheme", "IOB2")
        schemes = {"IOB1": ("IOB1",), "IOB2": ("IOB2", "IOB1")}.get(scheme, ())  # what is IOB2 reads the same as IOB1
        layout = next((one.name for one in PRESETS.values() if one.scheme in schemes and _reads(one, columns)), None)
    if layout is None:
        return None
    told = told_by_ending(Path(path)) == layout
    return shlex.quote(str(path)) + ("" if told else f" --format {layout}")


def _reads(layout: Preset, columns: Sequence[str]) -> bool:
    # some of the columns may be left out
    pairs = zip(columns, layout.columns, strict=False)
    return len(columns) == len(layout.columns) and all(one in (other, "_") for one, other in pairs)


def check_choice(option: str, value: str, known: Iterable[str], what: str = "") -> None:
    """Raise ConfigError where the value of an option is not known; `what` is said behind "unknown"."""
    if value not in known:
        raise ConfigError(f"{option} {value}: unknown{what}. {suggest(value, known)}")


def _untold(path: Path, suffix: str, advice: str) -> FormatError:
    ending = f"the ending {suffix!r} does not tell" if suffix else "no ending tells"
    return FormatError(path, 0, f"{ending} what this file is. {advice}")
