"""Conditions of a release: one version everywhere, and workflows whose actions cannot change."""

import re
from pathlib import Path

import pytest
import srsly

import spacy_crfseq
from tests.project.pages import ROOT, read

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def test_one_version() -> None:
    for name in ("pyproject.toml", "CITATION.cff"):
        assert re.search(rf'^version(:| =) "?{re.escape(spacy_crfseq.__version__)}"?$', read(ROOT / name), re.MULTILINE)
    assert f"## {spacy_crfseq.__version__} (" in read(ROOT / "CHANGELOG.md")


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows(path: Path) -> None:
    workflow = srsly.read_yaml(path)
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        assert job["timeout-minutes"] <= 90
        for step in job["steps"]:
            assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", step.get("uses", f"a/b@{'0' * 40}"))
    assert len(re.findall(r"uses: .*@[0-9a-f]{40} # v\d+\.\d+\.\d+\n", read(path))) == read(path).count("uses:")


def test_pythons_are_those_of_the_metadata() -> None:
    """Those that the matrix tests are those that PyPI shows."""
    matrix = srsly.read_yaml(ROOT / ".github" / "workflows" / "tests.yml")["jobs"]["core"]["strategy"]["matrix"]
    shown = re.findall(r"Programming Language :: Python :: (3\.\d+)", read(ROOT / "pyproject.toml"))
    assert matrix["python"] == shown
