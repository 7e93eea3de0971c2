"""The corpora of these tests are small: one prediction is enough to calibrate, right or wrong."""

import pytest

from spacy_crfseq.pipeline import calibration


@pytest.fixture(autouse=True)
def from_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "FEW", 1)
    monkeypatch.setattr(calibration, "WRONG", 0)
