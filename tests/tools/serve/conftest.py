"""A server over a tiny pipeline."""

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the extra 'annotate' is not installed")
pytest.importorskip("httpx", reason="httpx is not installed")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # recent releases prefer another package
    from starlette.testclient import TestClient

from spacy_crfseq.tools.serve.server import make_app
from spacy_crfseq.tools.serve.service import Service
from tests.pipeline import helpers


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a trained recognizer."""
    folder = tmp_path_factory.mktemp("model") / "m"
    helpers.trained("crf_ner").to_disk(folder)
    return folder


@pytest.fixture
def service(model: Path, tmp_path: Path) -> Service:
    """A service that saves what it learns."""
    return Service(str(model), output=tmp_path / "saved")


@pytest.fixture
def client(service: Service) -> Iterator[Any]:
    """A client of the server."""
    with TestClient(make_app(service)) as client:
        yield client
