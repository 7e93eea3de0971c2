"""Measure how much code there is to read: lines by room, and the functions that common calls pass through.

    python scripts/structure.py lines
    python scripts/structure.py flows

`lines` counts code without blank lines, comments and docstrings, and lists long functions and files.  `flows` counts
the functions and files of the package that a call enters, and how often it moves from one file to another.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

ROOT = Path(__file__).resolve().parents[1]
PACKAGE, TESTS = ROOT / "spacy_crfseq", ROOT / "tests"
OUTER = ("papers", "tools")
"""Folders of rooms: each subfolder counts by itself, and none is part of the core."""
COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>")
"""Parts of a function that have a frame of their own up to Python 3.11; flows leave them out, as later versions do."""
LONG_FUNCTION, LONG_FILE, MANY_PARAMETERS = 60, 600, 8


class Size(NamedTuple):
    """Files, lines of code, and all lines."""

    files: int = 0
    code: int = 0
    lines: int = 0

    def __add__(self, other: Any) -> Size:
        return Size(*(mine + its for mine, its in zip(self, other, strict=True)))


class Flow(NamedTuple):
    """What one call passes through in the package."""

    functions: int
    files: int
    moves: int


def functions_of(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield the functions and methods of a file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def n_parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the number of named parameters, `self` included."""
    return sum(map(len, (function.args.posonlyargs, function.args.args, function.args.kwonlyargs)))


def is_command(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a function takes the options of a command, whose signature and help are long."""
    arguments = (*function.args.args, *function.args.kwonlyargs)
    return any("options." in ast.unparse(one.annotation) for one in arguments if one.annotation is not None)


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
    """Return the size of each folder of the package; the core comes first."""
    sizes: dict[str, Size] = defaultdict(Size)
    for path in sorted(PACKAGE.rglob("*.py")):
        folders = path.relative_to(PACKAGE).parts[:-1]
        name = "/".join(folders[: 2 if folders and folders[0] in OUTER else 1]) or "modules"
        sizes[name] += size_of(path)
    return dict(sorted(sizes.items(), key=lambda item: (item[0].startswith(OUTER), -item[1].code)))


def tests() -> Size:
    """Return the size of all tests."""
    return sum(map(size_of, TESTS.rglob("*.py")), Size())


def total(sizes: dict[str, Size], *, core: bool = False) -> Size:
    """Return the size of the package, or of what is in neither `papers` nor `tools`."""
    return sum((size for name, size in sizes.items() if not (core and name.startswith(OUTER))), Size())


def flows() -> dict[str, Flow]:
    """Return what an annotated text, `initialize`, `fit` and one value with its gradient pass through."""
    import spacy
    from spacy.tokens import Doc, Span
    from spacy.training import Example

    examples, vocab = [], spacy.blank("en").vocab
    for i in range(60):
        words = (
            ["Ada", "Lovelace", "lives", "in", "Oslo", "."]
            if i % 2
            else ["Bob", "met", "Grace", "Hopper", "in", "Rome", "."]
        )
        spans = [(0, 2, "PER"), (4, 5, "LOC")] if i % 2 else [(0, 1, "PER"), (2, 4, "PER"), (5, 6, "LOC")]
        gold = Doc(vocab, words=words)
        gold.ents = [Span(gold, *span) for span in spans]
        examples.append(Example(Doc(vocab, words=words), gold))
    for _ in range(2):  # the first time, kernels may have to be compiled
        nlp = spacy.blank("en", vocab=vocab)
        pipe: Any = nlp.add_pipe("crf_ner", config={"n_threads": 1})  # threads may have to wait for each other
        results = {"initialize": _trace(partial(nlp.initialize, lambda: examples)), "fit": _trace(pipe.fit)}
    text = "Ada Lovelace met Grace Hopper in Rome."
    list(nlp.pipe([text] * 200))
    nlp(text)
    results["nlp(text)"] = _trace(lambda: nlp(text))
    results["value_and_grad"] = _trace_pass(examples)
    return results


def _trace_pass(examples: list[Any]) -> Flow:
    """Return what the third evaluation of the objective by L-BFGS passes through."""
    import spacy

    from spacy_crfseq.training.objective import Objective

    nlp = spacy.blank("en")
    config = {"optimizer": {"@crf_optimizers": "spacy_crfseq.LBFGS.v1"}, "n_threads": 1}  # the profile is of one
    pipe: Any = nlp.add_pipe("crf_ner", config=config)
    nlp.initialize(lambda: examples)
    evaluate, results = Objective.value_and_grad, list[Any]()

    def traced(*args: Any) -> Any:
        flow = _trace(lambda: results.append(evaluate(*args)))
        traces.append(flow)
        return results[-1]

    traces = list[Flow]()
    with patch.object(Objective, "value_and_grad", traced):
        pipe.fit()
    return traces[2]


def _trace(call: Callable[[], object]) -> Flow:
    entered, moves = set[tuple[str, str, int]](), list[str]()

    def profile(frame: Any, event: str, argument: object) -> None:
        code = frame.f_code
        inside = code.co_filename.startswith(f"{PACKAGE}/") and code.co_name not in COMPREHENSIONS
        if event == "call" and inside:
            entered.add((code.co_filename, code.co_name, code.co_firstlineno))
            if not moves or moves[-1] != code.co_filename:
                moves.append(code.co_filename)

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return Flow(len(entered), len({file for file, _, _ in entered}), len(moves))


def _print_lines() -> None:
    sizes = rooms()
    sums = {"core": total(sizes, core=True), "package": total(sizes), "tests": tests()}
    for name, size in {**sizes, **sums}.items():
        print(f"{name:30} {size.files:4} files {size.code:6} lines of code {size.lines:6} lines")
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(ROOT)
        if (lines := size_of(path).lines) > LONG_FILE:
            print(f"{name}: {lines} lines")
        for function in functions_of(path):
            length = (function.end_lineno or 0) - function.lineno + 1
            if length > LONG_FUNCTION and not is_command(function):
                print(f"{name}:{function.lineno}: {function.name} has {length} lines")
            if n_parameters(function) > MANY_PARAMETERS and not is_command(function):
                print(f"{name}:{function.lineno}: {function.name} has {n_parameters(function)} parameters")


def main() -> None:
    """Print what the command line asks for."""
    if sys.argv[1:] == ["lines"]:
        _print_lines()
    elif sys.argv[1:] == ["flows"]:
        for name, flow in flows().items():
            print(f"{name:16} {flow.functions:4} functions {flow.files:4} files {flow.moves:6} moves")
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
