"""Damage to files: to their bytes, and to the values that are packed in them."""

from typing import Any

from hypothesis import strategies as st

PIECES = [
    b"\xef\xbb\xbf", b"\xff\xfe", b"\x00", b"\r", b"\r\n", b"\n", b"\n\n", b"\t", b" ", b"  ", b"\xe9", b"\xc2\x85",
    b"\xc2\xa0", b"\xe2\x80\xa8", b"\x1a", b"\x1b[31m", b"I-LOC", b"B-", b"-", b"O", b"_", b"L-X", b"I-", b"B-A-B",
    b"#", b"# newdoc id = 3\n", b"-DOCSTART-", b"1-2", b"1.1", b"9" * 30, b"0", b"-1", b"SpaceAfter=No", b"A=B|", b"=",
    b"|", b":", b":2", b":nan", b"\\", b"@weight:2\n", b"@", b"{", b"}", b'"', b"\\ud800", b"[" * 2000, b"null",
    b"1e999", b"x" * 20000, b"\xf0\x9f\x98\x80", b"\xed\xa0\x80", "\u0665".encode(), "\u202e".encode(), "²".encode(),
    b"U00:%x[0,0]\n", b"B\n", b"%m[0,0,\"", b"%t", b"[-99,0]", b"*", b"?",
]  # fmt: skip
"""What is pasted into files."""


@st.composite
def damaged(draw: Any, base: bytes) -> bytes:
    """Draw a valid file that is cut, doubled, pasted into, or written in another encoding, or any bytes."""
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


JUNK = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**64 - 1),
        st.floats(),
        st.text(max_size=3),
        st.binary(max_size=9),
    ),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@st.composite
def changed(draw: Any, value: Any) -> Any:
    """Draw a value of msgpack in the place of another: cut, doubled, with something else inside, or any other."""
    if not draw(st.integers(0, 4)):
        return draw(JUNK)
    if isinstance(value, bytes) and value:
        at, bit = draw(st.integers(0, len(value) - 1)), draw(st.integers(0, 7))
        flipped = value[:at] + bytes([value[at] ^ 1 << bit]) + value[at + 1 :]
        return draw(st.sampled_from([flipped, value[:at], value * 2, value[8:], value[:-8]]))
    if isinstance(value, list) and value:
        at = draw(st.integers(0, len(value) - 1))
        inside = [*value[:at], draw(changed(value[at])), *value[at + 1 :]]
        return draw(st.sampled_from([inside, value[:at], value[::-1], value * 2, value[1:]]))
    if isinstance(value, dict) and value:
        key = draw(st.sampled_from(sorted(value, key=str)))
        without = {name: one for name, one in value.items() if name != key}
        return draw(st.sampled_from([without, {**value, key: draw(changed(value[key]))}]))
    return draw(JUNK)
