"""The script that shows the size of each room counts code without prose (`scripts/structure.py`)."""

import re
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "structure.py"


@pytest.fixture(scope="module")
def structure() -> ModuleType:
    spec = spec_from_file_location("structure", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    sys.modules["structure"] = module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_docstrings_and_comments_are_not_code(structure: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    prose = '"""What it is.\n\nMore.\n"""\n\n# why\n'
    text = prose + 'x = 1  # one\n\n\ndef f():\n    """Return 1."""\n    return """a\nb"""\n'
    path.write_text(text)
    assert structure.size_of(path) == structure.Size(1, 4, 13)


def test_all_files_of_the_package_are_in_a_room(structure: ModuleType) -> None:
    assert sum(size.files for size in structure.rooms().values()) == len(list(structure.PACKAGE.rglob("*.py")))
    done = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, check=True)
    assert all(room in done.stdout for room in ("kernels", "tools/annotate", "papers/boosting", "package", "tests"))


def test_the_page_on_the_design_tells_the_size_of_what_to_read_first(structure: ModuleType) -> None:
    sizes = re.search(r"some ([\d,]+) lines of code, ([\d,]+) with\s", structure.DESIGN.read_text("utf8"))
    assert sizes is not None
    told, counted = (int(size.replace(",", "")) for size in sizes.groups()), structure.read_first()[1:]
    assert all(abs(shown / size - 1) < 0.05 for shown, size in zip(told, counted, strict=True))
