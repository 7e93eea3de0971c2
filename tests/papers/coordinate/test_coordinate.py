"""Coordinate descent: settings, order of visits and memory; what every optimizer must do is in the contracts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from spacy_crfseq.errors import ConfigError
from spacy_crfseq.papers.coordinate import work as _coordinate_work
from spacy_crfseq.papers.coordinate.optimizer import BlockCoordinateDescent, CoordinateDescent
from tests.contracts.test_optimizers import run
from tests.problems import training_problem


@pytest.mark.parametrize(
    "settings", [{"kappa": 0.0}, {"revisit": 0}, {"max_iterations": 0}, {"tolerance": -1.0}], ids=str
)
@pytest.mark.parametrize("kind", [BlockCoordinateDescent, CoordinateDescent])
def test_settings_out_of_range_are_refused(kind: type[BlockCoordinateDescent], settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"{kind.__name__}: .*{next(iter(settings))}"):
        kind(**settings)


def test_too_many_matrices_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    training = training_problem(1, bigram_templates=("LOWER",))
    monkeypatch.setattr(_coordinate_work, "MATRIX_BYTES", 100)
    with pytest.raises(ConfigError, match="3 x 3 label pairs"):
        run(BlockCoordinateDescent(), training)


def test_the_order_of_visits_does_not_matter_in_the_end() -> None:
    training = training_problem(2, n_sequences=10, bigram_templates=("TAG[0]",))
    orders = ({}, {"shuffle": True}, {"shuffle": True, "seed": 1})
    tight = {"tolerance": 1e-12, "gradient_tolerance": 1e-8}
    values = [run(BlockCoordinateDescent(**tight, **order), training)[1][-1].value for order in orders]
    assert values == pytest.approx(values[:1] * 3, rel=1e-9)
    assert len(set(values)) == 3  # they came on different ways


def test_large_rows_are_visited_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    training = training_problem(2, n_sequences=10, bigram_templates=("TAG[0]",))
    found = []
    for tokens in (5, 1 << 14):
        monkeypatch.setattr(_coordinate_work, "CHUNK_TOKENS", tokens)
        found.append(run(CoordinateDescent(max_iterations=3), training)[0])
    np.testing.assert_array_equal(*found)
