"""Attacks on the package: damaged files, impossible settings, odd texts, deaths, full disks, two writers at once.

One file a surface; `readers` lists what reads files of users.  What is attacked must succeed with a valid result or
refuse in words (see `oracle`).  In the test suite each surface tries a few cases, the same ones each time; a longer run
draws as many new ones as it is asked for::

    FUZZ_CASES=10000 python -m pytest -n 0 tests/fuzz/test_readers.py

A case that found a fault stays as an `@example` or as a row of a table.
"""

from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.helpers import LBFGS, trained


@pytest.fixture(scope="session")
def nlp() -> Any:
    """A recognizer, a chunker and a tagger that know a tiny corpus by heart."""
    nlp = trained("crf_tagger", optimizer=LBFGS)
    for name in ("crf_chunker", "crf_ner"):
        nlp.add_pipe(name, source=trained(name))
    return nlp


@pytest.fixture(scope="session")
def model(nlp: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of that pipeline."""
    folder = tmp_path_factory.mktemp("fuzz") / "model"
    nlp.to_disk(folder)
    return folder
