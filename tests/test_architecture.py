"""The picture of the rooms stays true: layers, light plug-in modules, documented modules."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import spacy_crfseq
from spacy_crfseq import registry

PACKAGE = Path(spacy_crfseq.__file__).parent
ROOT = PACKAGE.parent

LOADED_BY_PLUGINS = """
import json, sys
from importlib.metadata import entry_points
import spacy_crfseq.registry
for name in spacy_crfseq.registry.NAMES:
    for entry_point in entry_points(group=f"spacy_{name}"):
        entry_point.load()
print(json.dumps(sorted(set(sys.modules) & {"numba", "spacy", "thinc", "scipy"})))
"""


def test_rooms_import_only_from_rooms_below() -> None:
    if find_spec("importlinter") is None:
        pytest.skip("import-linter is not installed (pip install import-linter)")
    if not (ROOT / "pyproject.toml").exists():
        pytest.skip("the package is installed without its pyproject.toml, which holds the contracts")
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as run; run()"]
    done = subprocess.run([*command, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_plugins_are_registered_without_numba_and_spacy() -> None:
    """`spacy.load` imports every plug-in, so that their modules must be light."""
    done = subprocess.run([sys.executable, "-c", LOADED_BY_PLUGINS], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []


@pytest.mark.parametrize("name", registry.NAMES)
def test_names_of_plugins_carry_a_version(name: str) -> None:
    plugins = [plugin for plugin in registry.ALL[name].get_all() if plugin.startswith("spacy_crfseq.")]
    assert plugins
    for plugin in plugins:
        assert re.fullmatch(r"spacy_crfseq\.\w+\.v\d+", plugin)


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_every_module_says_what_it_is(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf8")))
