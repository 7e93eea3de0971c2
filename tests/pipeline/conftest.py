"""Fixtures of tests that run for the tagger, the chunker and the recognizer of entities."""

import pytest
from spacy.language import Language

from tests.pipeline.helpers import FACTORIES, trained


@pytest.fixture(scope="module", params=FACTORIES)
def factory(request: pytest.FixtureRequest) -> str:
    """The name of a factory, each of the three in turn."""
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def pipeline(factory: str) -> Language:
    """A pipeline that knows its tiny corpus by heart, for tests that change nothing in it."""
    return trained(factory)
