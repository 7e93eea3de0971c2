"""Files to read, a blank pipeline to read them with, and fixtures of tests of commands."""

from collections.abc import Callable
from pathlib import Path

import pytest
import spacy
from spacy.language import Language

from tests.commands import corpus, paths, run, trained  # noqa: F401

Write = Callable[[str | bytes], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return a function that writes `a.txt` and returns its path."""

    def written(text: str | bytes) -> Path:
        path = tmp_path / "a.txt"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return written


@pytest.fixture(scope="module")
def nlp() -> Language:
    return spacy.blank("xx")
