"""Files to read, a blank pipeline to read them with, and fixtures of tests of commands."""

from collections.abc import Callable
from pathlib import Path

import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example

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


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A pipeline that finds a person."""
    nlp = spacy.blank("xx")
    nlp.add_pipe("crf_ner")
    doc = Doc(nlp.vocab, words=["Ada", "ran"], ents=["B-PER", "O"])
    examples = [Example(nlp.make_doc("Ada ran"), doc)]
    optimizer = nlp.initialize(lambda: examples)
    for _ in range(3):
        nlp.update(examples, sgd=optimizer)
    nlp.to_disk(tmp_path / "model")
    return tmp_path / "model"
