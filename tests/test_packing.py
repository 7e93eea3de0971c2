"""Packed arrays: the same numbers again, few bytes for equal ones, and an error for whatever is damaged."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from spacy_crfseq import packing
from spacy_crfseq.packing import pack, unpack

KINDS = st.sampled_from(["u1", "<u2", "<u4", "<u8", "<f4", "<f8", ">u4", ">f8"])


@given(KINDS.flatmap(lambda kind: arrays(kind, st.integers(0, 50))), st.booleans())
def test_numbers_come_back(numbers: np.ndarray, counted: bool) -> None:
    data = pack(numbers, counted=counted)
    again = unpack(data, numbers.dtype, len(numbers))
    assert again.tobytes() == numbers.tobytes()
    assert again.dtype == numbers.dtype
    assert not counted or len(data) >= len(numbers)


@pytest.mark.parametrize("large", [1, packing.LARGE])
def test_equal_bytes_take_no_space(large: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "LARGE", large)
    rng = np.random.default_rng(0)
    rounded = (rng.integers(-100, 100, 20_000) / 32).astype(np.float32)
    assert len(pack(rounded)) < 1.5 * len(rounded)
    assert len(pack(np.arange(20_000, dtype=np.uint64) // 300)) < len(rounded)
    noise = rng.integers(0, 2**32, 20_000, np.uint32)
    assert len(pack(noise)) < 1.01 * noise.nbytes
    for numbers in (rounded, noise):
        assert unpack(pack(numbers), numbers.dtype, len(numbers)).tobytes() == numbers.tobytes()


WHOLE = pack(np.arange(9, dtype=np.uint16))


@pytest.mark.parametrize(
    ("data", "n", "message"),
    [
        (WHOLE, 8, "before or after 8"),
        (WHOLE, 10, "before or after 10"),
        (WHOLE[:-4], 9, "before or after 9"),
        (WHOLE + b"x", 9, "1 bytes after"),
        (b"", 0, "before or after 0"),
        (b"numbers", 2, "incorrect header check"),
    ],
)
def test_damaged_bytes_are_refused(data: Any, n: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        unpack(data, "uint16", n)
