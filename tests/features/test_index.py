"""Arrays that grow or are packed: what was put in stays, whoever is looking."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spacy_crfseq.features.index import Growable, Packed


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


@given(st.lists(st.lists(st.tuples(st.integers(-1, 300), st.integers(-1, 2**31 - 2)), max_size=4), max_size=4))
def test_packed_rows_are_what_was_appended(parts: list[list[tuple[int, int]]]) -> None:
    rows = np.array([row for part in parts for row in part], np.int32).reshape(-1, 2)
    packed = Packed(2)
    for part in parts:
        packed.append(np.array(part, np.int32).reshape(-1, 2))
    np.testing.assert_array_equal(packed[:], rows)
    order = np.random.default_rng(0).permutation(len(rows))
    np.testing.assert_array_equal(packed[order], rows[order])
    packed[0 : len(rows)] = rows // 2
    np.testing.assert_array_equal(packed[:], rows // 2)


def test_small_numbers_take_one_byte() -> None:
    packed = Packed(3)
    packed.append(np.array([[-1, 254, 255], [0, 1, 65_534]], np.int32))
    assert packed.bytes.array.shape == (2, 4)
