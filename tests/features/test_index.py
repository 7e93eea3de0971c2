"""Arrays that grow: what was put in stays, whoever is looking."""

from __future__ import annotations

import numpy as np

from spacy_crfseq.features.index import Growable


def test_growing_keeps_what_is_there() -> None:
    rows, expected = Growable(np.int32, 3), np.arange(30_000, dtype=np.int32).reshape(-1, 3)
    for part in np.array_split(expected, 77):
        rows.append(part)
    np.testing.assert_array_equal(rows.array, expected)
    assert rows.resize(10_002, -2)[10_000:].tolist() == [[-2] * 3] * 2
    rows.trim()
    assert len(rows.reserve(0)) == rows.size == 10_002
    np.testing.assert_array_equal(rows.array[:10_000], expected)


def test_a_view_outlives_growth_and_trimming() -> None:
    numbers = Growable(np.int64)
    numbers.append(np.arange(10))
    view = numbers.array
    numbers.append(np.arange(100_000))
    second = numbers.array
    numbers.trim()
    assert view.tolist() == list(range(10))
    np.testing.assert_array_equal(second, numbers.array)
