"""Settings and fixtures of all tests."""

from __future__ import annotations

import gc
import os
from functools import lru_cache
from pathlib import Path

import catalogue
import pytest
from hypothesis import settings

# no deadline: the first call of a kernel compiles it; the same examples each time, so that a change is what makes a
# test fail; HYPOTHESIS_PROFILE=explore draws new and more ones
settings.register_profile("spacy_crfseq", deadline=None, max_examples=40, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=500, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "spacy_crfseq"))

# processes that tests start need not compile all modules anew
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


class GroupedEntryPoints:
    """Installed entry points, each group looked up once.

    They never change, but for each function that a config names importlib looks through those of all packages, which
    is half the time that it takes to make a pipeline.
    """

    def __init__(self) -> None:
        self.select = lru_cache(maxsize=None)(catalogue.AVAILABLE_ENTRY_POINTS.select)


catalogue.AVAILABLE_ENTRY_POINTS = GroupedEntryPoints()


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()  # what thousands of tests are made of need not be looked through again and again


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """Folder of the public corpora, one subfolder each (conll2000, conll2002, ...)."""
    folder = os.environ.get("CRFSEQ_DATA")
    if not folder:
        pytest.skip("CRFSEQ_DATA is not set: point it to a folder that holds the corpora to run this test on them")
    return Path(folder)
