"""Arrays of numbers in few bytes, as models store them: the n-th bytes of all numbers together, compressed by zlib.

The high bytes of numbers are often equal, and so are the low bytes of rounded ones; the other bytes hardly compress.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

SAMPLE, GAIN = 1 << 14, 0.98
"""Bytes that are looked at first, and the share of them that must be left for the rest to be compressed."""

LARGE = 1 << 21
"""Bytes from which only runs of equal ones are looked for.  All repeats would leave a seventh less, in ten times as
long."""


def pack(numbers: NDArray[Any], *, counted: bool = False) -> bytes:
    """Return the bytes of an array [n]: a zlib stream for each byte of its type, the lowest first.

    counted (bool): Leave the lowest bytes as they are, so that n numbers take at least n bytes.
    """
    size = numbers.dtype.itemsize
    little = np.ascontiguousarray(numbers.astype(numbers.dtype.newbyteorder("<")))
    planes = [plane.tobytes() for plane in little.view(np.uint8).reshape(-1, size).T]
    levels = [0 if counted and i == 0 else _level(plane) for i, plane in enumerate(planes)]
    return b"".join(map(_compressed, planes, levels))


def unpack(data: bytes, dtype: DTypeLike, n: int) -> NDArray[Any]:
    """Return the array [n] of a type that `pack` has stored; no more memory is taken, whatever the data are.

    RAISES ValueError: If the data are damaged, or of another length.
    """
    kind = np.dtype(dtype).newbyteorder("<")
    planes, rest = np.empty((kind.itemsize, n), np.uint8), data
    for plane in planes:
        stream = zlib.decompressobj()
        try:
            part = stream.decompress(rest, n + 1)  # 1 more, since 0 would mean no limit
        except zlib.error as error:
            raise ValueError(str(error)) from error
        if len(part) != n or not stream.eof:
            raise ValueError(f"packed numbers end before or after {n}")
        plane[:], rest = np.frombuffer(part, np.uint8), stream.unused_data
    if rest:
        raise ValueError(f"{len(rest)} bytes after the packed numbers")
    return np.ascontiguousarray(planes.T).view(kind).reshape(n).astype(np.dtype(dtype))


def _compressed(plane: bytes, level: int) -> bytes:
    strategy = zlib.Z_RLE if len(plane) >= LARGE else zlib.Z_DEFAULT_STRATEGY
    stream = zlib.compressobj(level, strategy=strategy)
    return stream.compress(plane) + stream.flush()


def _level(plane: bytes) -> int:
    """Return the level of compression: none for bytes that are as good as random, which would only take time."""
    sample = plane[:SAMPLE]
    return 6 if len(zlib.compress(sample, 1)) <= GAIN * len(sample) else 0
