"""Print a table of the package by room: its files, its lines of code, and all its lines.

    python scripts/structure.py

A room is a folder of the package; each capability of `papers/` and `tools/` is a room of its own.  "read first" are the
files that docs/design.md lists from a text to a trained model.  Blank lines, comments and docstrings are no code.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PACKAGE, TESTS, DESIGN = ROOT / "spacy_crfseq", ROOT / "tests", ROOT / "docs" / "design.md"
OUTER = ("papers", "tools")
"""Folders of rooms: each subfolder is a room."""


class Size(NamedTuple):
    """Files, lines of code, and all lines."""

    files: int = 0
    code: int = 0
    lines: int = 0

    def __add__(self, other: Any) -> Size:
        return Size(*(mine + its for mine, its in zip(self, other, strict=True)))


def size_of(path: Path) -> Size:
    """Return the size of a file."""
    text = path.read_text(encoding="utf8")
    prose = set[int]()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if first is not None and ast.get_docstring(node) is not None:
                prose.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    lines = text.splitlines()
    code = [
        line for i, line in enumerate(lines, 1) if i not in prose and line.strip() and not line.strip().startswith("#")
    ]
    return Size(1, len(code), len(lines))


def rooms() -> dict[str, Size]:
    """Return the size of each room; those of `papers/` and `tools/` come last, large rooms first."""
    sizes: dict[str, Size] = defaultdict(Size)
    for path in sorted(PACKAGE.rglob("*.py")):
        folders = path.relative_to(PACKAGE).parts[:-1]
        name = "/".join(folders[: 2 if folders and folders[0] in OUTER else 1]) or "modules"
        sizes[name] += size_of(path)
    return dict(sorted(sizes.items(), key=lambda item: (item[0].startswith(OUTER), -item[1].code)))


def read_first() -> Size:
    """Return the size of the files in the list of docs/design.md, up to the training of a component."""
    steps = DESIGN.read_text(encoding="utf8").split("\n1. **")[1].split("\n10. **")[0]
    files = set(re.findall(r"`([\w/]+\.py)`", steps))
    return sum((size_of(PACKAGE / name) for name in files), Size())


def main() -> None:
    """Print the table."""
    sizes = rooms()
    package, tests = sum(sizes.values(), Size()), sum(map(size_of, TESTS.rglob("*.py")), Size())
    for name, size in {**sizes, "read first": read_first(), "package": package, "tests": tests}.items():
        print(f"{name:30} {size.files:4} files {size.code:6} lines of code {size.lines:6} lines")


if __name__ == "__main__":
    main()
