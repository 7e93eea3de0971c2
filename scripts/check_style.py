"""Check the style of the README, the documentation, the changelog, the comments of configs and the help texts.

    python scripts/check_style.py
    python scripts/check_style.py FILE ...
    python scripts/check_style.py --count spacy_crfseq/**/*.py

Prints ``file:line: "text": advice`` and ends with 1 if there is a finding.  Three sources: the word list in
``scripts/style.txt``, four rules about Markdown (sentences have no more than 40 words, a capital letter at the start,
no code at the start; a page of docs/ begins with what it is for), and proselint, which runs offline.  Of Python files,
docstrings and comments are checked against the word list; ``--count`` prints the number of findings for each file.
Variables of the package, the tests, the scripts and the benchmarks are not called `NAMELESS`, which says nothing of a
value, and their docstrings begin with a name, or a verb and a name: no "What ...", no "Return what ...".
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
WORDS = ROOT / "scripts" / "style.txt"
LONGEST = 40
"""Words of a sentence."""
OFF = ("typography", "lexical_illusions")
"""Checks of proselint that are left out: straight quotes, and repeated words, which it also finds across headings."""
NAMELESS = ("each", "one", "ones", "known", "found", "thing")
"""Names that are not given to variables and parameters; a field of a record has the record's name before it."""
NAMED = ("spacy_crfseq", "scripts", "bench", "tests")
"""Folders in which variables are checked."""
_CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
_HIDDEN = re.compile(
    r"^ *(```+).*?^ *\1|<!--.*?-->|(?<=\])\([^)\s]*\)|https?://\S+|<[^>\n]+>|!\[[^\]]*\]|\{ \.\w+ \}",
    re.DOTALL | re.MULTILINE,
)
_END = re.compile(r"[.!?][)\"*]*\s+(?=[`\"*(\[]*[A-Z`])")
_LOWER = ("spaCy", "spacy", "sklearn-crfsuite", "python-crfsuite", "conlleval", "mkdocs", "numba", "import-linter")
"""Names that begin a sentence in lower case."""


class Finding(NamedTuple):
    """A place and what to write instead."""

    file: str
    line: int
    text: str
    advice: str

    def __str__(self) -> str:
        return f'{self.file}:{self.line}: "{self.text}": {self.advice}'


def word_list(file: Path = WORDS) -> list[tuple[re.Pattern[str], str]]:
    """Return the patterns of the word list and the words to use instead; a space matches a line break, too."""
    lines = (line.partition(" -> ") for line in file.read_text(encoding="utf8").splitlines())
    pairs = ((wrong.strip(), right) for wrong, arrow, right in lines if arrow and not wrong.startswith("#"))
    return [(re.compile(rf"\b(?:{wrong})\b".replace(" ", r"[\s#]+"), re.IGNORECASE), right) for wrong, right in pairs]


def masked(text: str) -> str:
    """Return Markdown without code blocks, comments and addresses, all at the same positions; code becomes dots."""
    shown = _HIDDEN.sub(lambda match: re.sub(r"\S", " ", match[0]), text)
    return _CODE.sub(lambda match: re.sub(r"[^\n`]", "\u00b7", match[0]), shown)


def words(name: str, text: str, first: int = 1) -> Iterator[Finding]:
    """Yield the findings of the word list in a text whose first line has this number."""
    for pattern, advice in word_list():
        for match in pattern.finditer(text):
            yield Finding(name, first + text.count("\n", 0, match.start()), " ".join(match[0].split()), advice)


def paragraphs(text: str) -> Iterator[tuple[int, str, bool]]:
    """Yield the paragraphs and list items of masked Markdown with their first line's number; true for an item."""
    start, item, lines = 0, False, list[str]()
    for number, line in enumerate([*text.splitlines(), ""], 1):
        bare = re.sub(r"^\s*(?:[-*>]|\d+\.) +", "", line)
        if lines and (not line.strip() or bare != line):
            yield start, "\n".join(lines), item
            lines = []
        if line.strip() and not re.match(r"\s*(\||#|!?\[?!\[|\?\?\?)", line):
            start, item = (start, item) if lines else (number, bare != line)
            lines.append(bare.strip())


def sentences(name: str, text: str) -> Iterator[Finding]:
    """Yield sentences of masked Markdown that are too long, have no subject, or begin in code."""
    for first, paragraph, item in paragraphs(text):
        ends = [0, *(match.end() for match in _END.finditer(paragraph)), len(paragraph)]
        for begin, end in pairwise(ends):
            sentence = paragraph[begin:end]
            line, start = first + paragraph.count("\n", 0, begin), " ".join(sentence.split()[:4])
            if len(sentence.split()) > LONGEST:
                yield Finding(name, line, start, f"{len(sentence.split())} words; split the sentence")
            if re.match(r"`[^`]*` [a-z]", sentence):
                yield Finding(name, line, start, "begins in code; put a noun first")
            if not item and begin == 0 and re.match(r"[a-z]", sentence) and not sentence.startswith(_LOWER):
                yield Finding(name, line, start, "begins in lower case; a sentence needs a subject")


def proselint(name: str, text: str) -> Iterator[Finding]:
    """Yield the findings of proselint in masked Markdown."""
    from proselint.checks import __register__
    from proselint.config import DEFAULT
    from proselint.registry import CheckRegistry
    from proselint.tools import LintFile

    if not CheckRegistry().checks:
        CheckRegistry().register_many(__register__)
    for result in LintFile(name, text).lint(DEFAULT):
        check = result.check_result
        if not check.check_path.startswith(OFF):
            begin, end = (position - 1 for position in check.span)
            yield Finding(name, text.count("\n", 0, begin) + 1, text[begin:end].strip(), f"{check.message} (proselint)")


def markdown(name: str, text: str) -> Iterator[Finding]:
    """Yield all findings in a page."""
    shown, lines = masked(text), text.splitlines()
    for check in (words, sentences, proselint):
        for finding in check(name, shown):
            code = "\u00b7" in finding.text
            yield finding._replace(text=lines[finding.line - 1].strip()[:60]) if code else finding


def comments(name: str, text: str) -> Iterator[Finding]:
    """Yield the findings of the word list in the docstrings and comments of a Python file."""
    block, first = "", 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.STRING and token.string.startswith(('"""', 'r"""')):
            yield from words(name, masked(token.string), token.start[0])
        elif token.type == tokenize.COMMENT:
            block, first = f"{block}{token.string}\n", first or token.start[0]
        elif block and token.type not in (tokenize.NL, tokenize.NEWLINE):
            yield from words(name, masked(block), first)
            block, first = "", 0


def names(name: str, text: str) -> Iterator[Finding]:
    """Yield the variables of a Python file that are called `NAMELESS`, and docstrings that name nothing."""
    tree = ast.parse(text)
    fields = {statement.target for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for statement in node.body
              if isinstance(statement, ast.AnnAssign)}  # fmt: skip
    for node in ast.walk(tree):
        stored = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node not in fields
        called = node.id if stored else node.arg if isinstance(node, ast.arg) else ""
        if called in NAMELESS:
            yield Finding(name, node.lineno, called, "name the value that the variable holds")
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            begin = re.match(r"(?:\w+ )?what\b", node.value.value, re.IGNORECASE)
            if begin:
                yield Finding(name, node.lineno, begin[0], "begin with the name of the thing, or with a verb and it")


def config_comments(name: str, text: str) -> Iterator[Finding]:
    """Yield the findings of the word list in the comments of a config or YAML file."""
    kept = re.sub(r"^(?![^\n]*(#|help:|description:)).*$|^#  .*$", "", text, flags=re.MULTILINE)
    yield from words(name, kept)


def help_texts() -> Iterator[Finding]:
    """Yield the findings in the help of all commands; the line is that of what ``--help`` prints."""
    from typer.testing import CliRunner

    from spacy_crfseq.cli.program import crfseq_cli

    for name in ("", *sorted(str(info.name) for info in crfseq_cli.registered_commands)):
        result = CliRunner().invoke(crfseq_cli, [name, "--help"] if name else ["--help"], env={"COLUMNS": "400"})
        yield from words(f"crfseq {name} --help".replace("  ", " "), result.stdout)


def opening(name: str, text: str) -> Iterator[Finding]:
    """Yield the first paragraph of a page of the documentation that does not say what the page is for."""
    line, first, _ = next(paragraphs(masked(text)))
    if not re.search(r"This\s(page|tutorial)", first):
        yield Finding(name, line, " ".join(first.split()[:4]), 'say what the page is for: "This page ..."')


def check(file: Path) -> Iterator[Finding]:
    """Yield all findings in a file."""
    if file.parent == ROOT / "docs" and file.stem != "index":
        yield from opening(file.name, file.read_text(encoding="utf8"))
    kinds = {".md": markdown, ".py": comments, ".cfg": config_comments, ".yml": config_comments}
    name = str(file.relative_to(ROOT)) if file.is_relative_to(ROOT) else str(file)
    yield from kinds[file.suffix](name, file.read_text(encoding="utf8"))


def pages() -> list[Path]:
    """Return the files that are checked when none are named."""
    return [
        *sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md")), ROOT / "assets" / "README.md",
        *sorted((ROOT / "configs").rglob("*.cfg")), ROOT / "project.yml",
    ]  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    """Read the arguments, print the findings, return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, help="Markdown, Python, config or YAML files [all but Python]")
    parser.add_argument("--count", action="store_true", help="print the number of findings in each file")
    arguments = parser.parse_args(argv)
    findings = [finding for file in arguments.files or pages() for finding in check(file.resolve())]
    if not arguments.files:
        findings += help_texts()
        for file in (file for folder in NAMED for file in sorted((ROOT / folder).rglob("*.py"))):
            findings += names(str(file.relative_to(ROOT)), file.read_text(encoding="utf8"))
    counts = Counter(finding.file for finding in findings)
    for line in [f"{count:4} {name}" for name, count in counts.most_common()] if arguments.count else findings:
        print(line)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
