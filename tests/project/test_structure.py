"""The package stays small enough to be read: limits for lines, functions, files and calls (`scripts/structure.py`)."""

import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "structure.py"
CORE, PACKAGE, FILES = 18_999, 32_310, 219
"""Lines of code of the core and of the package, and files of the package, at most."""
TESTS = 33_315
"""Lines of the tests, all of them, at most."""
LONG_FILES, LONG_FUNCTIONS, MANY_PARAMETERS = 0, 3, 17
"""What has more lines or more parameters than the script lists; commands have an option for each parameter."""
FLOWS = {
    "nlp(text)": (50, 17, 45),
    "fit": (88, 21, 258),
    "initialize": (170, 25, 535),
    "value_and_grad": (36, 11, 36),
}
"""Functions, files and moves between files of a call, at most."""


@pytest.fixture(scope="module")
def structure() -> ModuleType:
    spec = spec_from_file_location("structure", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    sys.modules["structure"] = module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_lines_and_files(structure: ModuleType) -> None:
    sizes = structure.rooms()
    assert structure.total(sizes, core=True).code <= CORE
    assert structure.total(sizes).code <= PACKAGE
    assert structure.total(sizes).files <= FILES
    assert structure.tests().lines <= TESTS


def test_files_and_functions(structure: ModuleType) -> None:
    paths = sorted(structure.PACKAGE.rglob("*.py"))
    files = [path.name for path in paths if structure.size_of(path).lines > structure.LONG_FILE]
    assert len(files) <= LONG_FILES, files
    functions = [each for path in paths for each in structure.functions_of(path) if not structure.is_command(each)]
    sizes = {each: (each.end_lineno or 0) - each.lineno + 1 for each in functions}
    long = [each.name for each, size in sizes.items() if size > structure.LONG_FUNCTION]
    assert len(long) <= LONG_FUNCTIONS, long
    wide = [each.name for each in functions if structure.n_parameters(each) > structure.MANY_PARAMETERS]
    assert len(wide) <= MANY_PARAMETERS, wide


def test_docstrings_and_comments_are_not_code(structure: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    prose = '"""What it is.\n\nMore.\n"""\n\n# why\n'
    text = prose + 'x = 1  # one\n\n\ndef f():\n    """Return 1."""\n    return """a\nb"""\n'
    path.write_text(text)
    assert structure.size_of(path) == structure.Size(1, 4, 13)


def test_calls() -> None:
    done = subprocess.run([sys.executable, SCRIPT, "flows"], capture_output=True, text=True, check=True)
    flows = {
        name.strip(): [int(text) for text in rest.split() if text.isdigit()]
        for name, rest in ((line[:16], line[16:]) for line in done.stdout.splitlines())
    }
    assert flows.keys() == FLOWS.keys()
    for name, limits in FLOWS.items():
        assert all(count <= limit for count, limit in zip(flows[name], limits, strict=True)), (
            name,
            flows[name],
        )
