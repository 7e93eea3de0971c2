"""Damage to files: to their bytes, and to the values that are packed in them."""

import gzip
import json
import math
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import srsly
from hypothesis import strategies as st

PIECES = [
    b"\xef\xbb\xbf", b"\xff\xfe", b"\x00", b"\r", b"\r\n", b"\n", b"\n\n", b"\t", b" ", b"  ", b"\xe9", b"\xc2\x85",
    b"\xc2\xa0", b"\xe2\x80\xa8", b"\x1a", b"\x1b[31m", b"I-LOC", b"B-", b"-", b"O", b"_", b"L-X", b"I-", b"B-A-B",
    b"#", b"# newdoc id = 3\n", b"-DOCSTART-", b"1-2", b"1.1", b"9" * 30, b"0", b"-1", b"SpaceAfter=No", b"A=B|", b"=",
    b"|", b":", b":2", b":nan", b"\\", b"@weight:2\n", b"@", b"{", b"}", b'"', b"\\ud800", b"[" * 2000, b"null",
    b"1e999", b"x" * 20000, b"\xf0\x9f\x98\x80", b"\xed\xa0\x80", "\u0665".encode(), "\u202e".encode(), "²".encode(),
    b"U00:%x[0,0]\n", b"B\n", b"%m[0,0,\"", b"%t", b"[-99,0]", b"*", b"?",
]  # fmt: skip
"""Bytes that are pasted into files."""


ATOMS = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, -1, 1, 2**31, 2**63 - 1, 1.5, math.nan, math.inf, "", "x", "O", "B-"]),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.text(max_size=3),
)


def values_of(atoms: Any) -> Any:
    """Return a strategy of values, and of lists and dictionaries of them."""
    return st.recursive(
        atoms,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_leaves=5,
    )


class Packing(NamedTuple):
    """How a file holds values.

    unpack, pack: From the bytes of a file to a value, and back.
    junk: A strategy of values that can stand anywhere in such a file.
    """

    unpack: Callable[[bytes], Any]
    pack: Callable[[Any], bytes]
    junk: Any


TEXTUAL = values_of(ATOMS | st.sampled_from([10**30, "\ud800", "a\udfffb"]))
BINARY = values_of(ATOMS | st.binary(max_size=9))


def _lines(values: Any) -> bytes:
    return "".join(json.dumps(value) + "\n" for value in (values if isinstance(values, list) else [values])).encode()


GZIP = Packing(gzip.decompress, gzip.compress, st.binary(max_size=99))
JSON = Packing(json.loads, lambda value: json.dumps(value).encode(), TEXTUAL)
JSON_LINES = Packing(lambda data: [json.loads(line) for line in data.splitlines()], _lines, TEXTUAL)
MSGPACK = Packing(srsly.msgpack_loads, lambda value: bytes(srsly.msgpack_dumps(value)), BINARY)
DOCBIN = Packing(
    lambda data: MSGPACK.unpack(zlib.decompress(data)), lambda value: zlib.compress(MSGPACK.pack(value), 1), BINARY
)


@st.composite
def damaged(draw: Any, base: bytes, packing: Packing | None = None) -> bytes:
    """Draw a valid file with other values in it, or one whose bytes are damaged."""
    if packing is None or draw(st.booleans()):
        return draw(bytes_like(base))  # type: ignore[no-any-return]
    value = packing.unpack(base)
    for _ in range(draw(st.integers(1, 2))):
        value = draw(changed(value, packing.junk))
    return packing.pack(value)


@st.composite
def bytes_like(draw: Any, base: bytes) -> bytes:
    """Draw the bytes of a file that is cut, doubled, pasted into, or written in another encoding, or any bytes."""
    data = base
    for _ in range(draw(st.integers(0, 4))):
        at, end = sorted((draw(st.integers(0, len(data))), draw(st.integers(0, len(data)))))
        piece = draw(st.one_of(st.sampled_from(PIECES), st.binary(max_size=4)))
        cuts = [data[:at] + data[end:], data[:end], data[:end] + data[at:], piece]
        pasted = [data[:at] + piece + data[at:], data[:at] + piece + data[end:], piece + data]
        data = draw(st.sampled_from([*cuts, *pasted, data.replace(b"\n", b"\r\n"), data.replace(b" ", b"\t")]))
    if draw(st.integers(0, 9)) == 0:
        text, encoding = data.decode("latin-1"), draw(st.sampled_from(["utf-16", "utf-16-le", "utf-32", "utf-8-sig"]))
        data = text.encode(encoding)
    return data[:100_000]


@st.composite
def changed(draw: Any, value: Any, junk: Any = BINARY) -> Any:
    """Draw a value in the place of another: cut, doubled, of another type or shape, with something else inside."""
    if not draw(st.integers(0, 4)):
        return draw(junk)
    if isinstance(value, np.ndarray):
        return draw(_changed_array(value))
    if isinstance(value, bytes) and value:
        at, bit = draw(st.integers(0, len(value) - 1)), draw(st.integers(0, 7))
        flipped = value[:at] + bytes([value[at] ^ 1 << bit]) + value[at + 1 :]
        return draw(st.sampled_from([flipped, value[:at], value * 2, value[8:], value[:-8]]))
    if isinstance(value, list) and value:
        at = draw(st.integers(0, len(value) - 1))
        inside = [*value[:at], draw(changed(value[at], junk)), *value[at + 1 :]]
        return draw(st.sampled_from([inside, inside, value[:at], value[::-1], value * 2, value[1:]]))
    if isinstance(value, dict) and value:
        key = draw(st.sampled_from(sorted(value, key=str)))
        without = {name: content for name, content in value.items() if name != key}
        inside = {**value, key: draw(changed(value[key], junk))}
        return draw(st.sampled_from([inside, inside, inside, without]))
    return draw(junk)


@st.composite
def _changed_array(draw: Any, value: Any) -> Any:
    if value.size and draw(st.booleans()):
        limits: Any = np.iinfo(value.dtype) if value.dtype.kind in "iu" else np.finfo(np.float32)
        extreme = value.copy()
        at = draw(st.integers(0, value.size - 1))
        extreme.reshape(-1)[at] = draw(st.sampled_from([limits.max, limits.min, 0, limits.max // 2]))
        return extreme
    at, dtype = draw(st.integers(0, len(value))), draw(st.sampled_from(["<f4", "<i8", "|u1", "<c8"]))
    with np.errstate(all="ignore"):
        other = value.astype(dtype)
    shapes = [value[:at], value[::-1].copy(), value[None], np.repeat(value, 3, 0), value[:0], other]
    return shapes[draw(st.integers(0, len(shapes) - 1))]
