"""Nobody writes into another object: functions set attributes of `self` and of what they have made themselves.

So what an object holds is decided in its class, and what a frozen value holds where it is made.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "spacy_crfseq"
ROOMS = ("pipeline", "training", "cli", "tools")
MAKERS = {"copy", "deepcopy", "replace", "_replace", "partial", "update_wrapper", "list", "dict", "set"}
"""Functions and methods that make an object, besides classes."""
ALLOWED = {
    # settings of other libraries, which are set back at the end of a context
    "cli/console.py: warnings.formatwarning",
    "cli/console.py: msg.pretty",
    # spaCy's tokenizer, numba's notice and srsly's registries have these settings for the whole process
    "pipeline/texts.py: registry.get_all",
    "tools/tag/tagger.py: self._nlp.tokenizer.max_cache_size",
    "tools/warmup/__init__.py: NOTICE.silent",
}
"""Writes that are left, each with its reason; none may be added."""


def writes(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """Yield the attributes that a function sets or deletes, apart from those of `self` and of what it has made."""
    nodes = [*own_nodes(function)]
    made = {"self", "cls"}
    for node in nodes:
        if isinstance(node, ast.Assign) and makes(node.value):
            made.update(target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and makes(node.value):
            made.add(node.target.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            made.add(node.name)
    for node in nodes:
        if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Store | ast.Del):
            continue
        if not isinstance(node.value, ast.Name) or node.value.id not in made:
            yield ast.unparse(node)


def own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function without those of functions inside of it, which are checked by themselves."""
    for node in ast.iter_child_nodes(function):
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from own_nodes(node)


def makes(value: ast.expr | None) -> bool:
    """Whether an expression is a new object: the call of a class, or a copy."""
    if not isinstance(value, ast.Call):
        return False
    called = value.func.value if isinstance(value.func, ast.Subscript) else value.func  # such as list[int]()
    name = called.id if isinstance(called, ast.Name) else getattr(called, "attr", "")
    return name in MAKERS or name[:1].isupper()


def test_functions_set_no_attributes_of_what_they_have_not_made() -> None:
    there = set[str]()
    for file in sorted(path for room in ROOMS for path in (PACKAGE / room).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                there |= {f"{file.relative_to(PACKAGE).as_posix()}: {target}" for target in writes(node)}
    assert there == ALLOWED


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("self.x = 1", []),
        ("a = Table()\n    a.x, a.y = 1, 2", []),
        ("a = copy(b)\n    del a.x", []),
        ("a = b._replace(n=1)\n    a.x += 1", []),
        ("b.x = 1", ["b.x"]),
        ("a = find(b)\n    a.x = 1", ["a.x"]),
        ("self.a.x = 1", ["self.a.x"]),
        ("del b.x", ["b.x"]),
        ("b.x: int = 1", ["b.x"]),
        ("for b.x in []: pass", ["b.x"]),
        ("a = Table()\n    def inner(a):\n        a.x = 1", []),  # of the inner function
    ],
)
def test_writes_to_attributes_are_found(body: str, expected: list[str]) -> None:
    (function,) = ast.parse(f"def function(self, b):\n    {body}").body
    assert isinstance(function, ast.FunctionDef)
    assert [*writes(function)] == expected
