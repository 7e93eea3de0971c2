"""Template files of CRF++ and pattern files of Wapiti: parsing, round trips, regular expressions and refusals."""

import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_crfseq.corpora.template_files import (
    Macro,
    TemplateLine,
    format_template_line,
    parse_template_lines,
    python_pattern,
    read_template_file,
)
from spacy_crfseq.errors import FormatError
from tests.corpora.conftest import Write

ITEMS = ["a", "B", "3", "-", ".", r"\a", r"\d", r"\l", r"\p", r"\s", r"\u", r"\w", r"\U", r"\D", r"\.", r"\*", r"\\"]
PATTERNS = st.builds(
    lambda start, items, end: start + "".join(items) + end,
    st.sampled_from(["", "^"]),
    st.lists(st.builds("{}{}".format, st.sampled_from(ITEMS), st.sampled_from(["", "*", "?"])), max_size=5),
    st.sampled_from(["", "$"]),
)
MACROS = st.builds(Macro, st.just("x"), st.integers(-9, 9), st.integers(0, 9), st.booleans(), st.just("")) | st.builds(
    Macro, st.sampled_from("tm"), st.integers(-9, 9), st.integers(0, 9), st.booleans(), PATTERNS
)
TEXTS = st.text(alphabet="abU0:/=-é", min_size=1, max_size=4)


def merged(pieces: list[str | Macro]) -> tuple[str | Macro, ...]:
    """Join neighbouring texts, which a file cannot keep apart."""
    joined: list[str | Macro] = []
    for piece in pieces:
        if joined and isinstance(piece, str) and isinstance(joined[-1], str):
            joined[-1] += piece
        else:
            joined.append(piece)
    return tuple(joined)


@st.composite
def template_lines(draw: st.DrawFn) -> list[TemplateLine]:
    """Draw lines with identifiers of their own."""
    kinds = draw(st.lists(st.sampled_from("UB*"), min_size=1, max_size=4))
    return [
        TemplateLine(i, kind, merged([f"{i}:", *draw(st.lists(MACROS | TEXTS, max_size=4))]))
        for i, kind in enumerate(kinds, start=1)
    ]


@given(template_lines())
def test_what_is_written_is_read(lines: list[TemplateLine]) -> None:
    assert parse_template_lines(map(format_template_line, lines), "file") == lines


def test_a_file_of_crfpp(write: Write) -> None:
    text = "# Unigram\nU00:%x[-2,0]\n\nU05:%x[-1,0]/%x[0,1]  # both\r\nB\nB01:%x[0,0]\nU06:a#b\n"
    assert read_template_file(write(text)) == [
        TemplateLine(2, "U", ("00:", Macro("x", -2, 0))),
        TemplateLine(4, "U", ("05:", Macro("x", -1, 0), "/", Macro("x", 0, 1))),
        TemplateLine(5, "B", ()),
        TemplateLine(6, "B", ("01:", Macro("x", 0, 0))),
        TemplateLine(7, "U", ("06:a#b",)),
    ]


def test_a_file_of_wapiti() -> None:
    lines = ["*", "u:a=%X[ 0,0]", "b:b=%x[+1, 1]", r'*:c=%m[-1,0,"^.?\""]', 'U:d=%T[0,0,"\\u"]']
    assert parse_template_lines(lines, "file") == [
        TemplateLine(1, "*", ()),
        TemplateLine(2, "U", (":a=", Macro("x", 0, 0, lower=True))),
        TemplateLine(3, "B", (":b=", Macro("x", 1, 1))),
        TemplateLine(4, "*", (":c=", Macro("m", -1, 0, False, r"^.?\""))),
        TemplateLine(5, "U", (":d=", Macro("t", 0, 0, True, r"\u"))),
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("X00:%x[0,0]", "begins with none of U"),
        ("  U00:%x[0,0]", "begins with none of U"),
        ("U00:%x[0]", "%x[0]: not a macro"),
        ("U00:%x[0,0", "%x[0,0: not a macro"),
        ("U00:%y[0,0]", "%y[0,0]: not a macro"),
        ("U00:%x[a,0]", "%x[a,0]: not a macro"),
        ("U00:50%", "%: not a macro"),
        ("u:%x[@1,0]", "%x[@1,0]: an absolute position is not supported"),
        ("u:%x[*1,0]", "%x[*1,0]: a position given by a column is not supported"),
        ('u:%x[0,0,"a"]', "takes no regular expression"),
        ("u:%m[0,0]", "needs a regular expression in double quotes"),
        ('u:%t[0,0,"*a"]', "* follows nothing"),
        ('u:%t[0,0,"a**"]', "* follows nothing"),
        ('u:%t[0,0,"^?a"]', "? follows nothing"),
    ],
)
def test_a_broken_template_is_refused_with_its_line(line: str, message: str, write: Write) -> None:
    path = write(f"U:%x[0,0]\n\n{line}\n")
    with pytest.raises(FormatError, match=re.escape(message)) as caught:
        read_template_file(path)
    assert str(caught.value).startswith(f"{path}:3: ")


@pytest.mark.parametrize("text", ["", "# U00:%x[0,0]\n\n"])
def test_a_file_without_templates_is_refused(text: str, write: Write) -> None:
    with pytest.raises(FormatError, match="no template in the file"):
        read_template_file(write(text))
    with pytest.raises(FormatError, match="no such file"):
        read_template_file("none")


@given(PATTERNS, st.text(alphabet='aBb3-. _"é', max_size=5))
def test_regular_expressions_mean_what_they_mean_in_wapiti(pattern: str, text: str) -> None:
    expected = next(((start, end) for start in starts(pattern, text) for end in ends(pattern, text, start)), None)
    found = re.search(python_pattern(pattern), text, re.DOTALL)
    assert (found.span() if found else None) == expected


def starts(pattern: str, text: str) -> range:
    return range(1) if pattern.startswith("^") else range(len(text) + 1)


def ends(pattern: str, text: str, start: int) -> Iterator[int]:
    """Yield where a match from `start` on may end, the preferred one first: * takes little, ? takes one if it can."""
    items = re.findall(r"(\\.|.)([*?]?)", pattern.removeprefix("^").removesuffix("$"))
    anchored = pattern.endswith("$")

    def rest(number: int, at: int) -> Iterator[int]:
        if number == len(items):
            if not anchored or at == len(text):
                yield at
            return
        item, repeat = items[number]
        here = at < len(text) and fits(item, text[at])
        if repeat == "*":
            yield from rest(number + 1, at)
            while at < len(text) and fits(item, text[at]):
                at += 1
                yield from rest(number + 1, at)
        elif repeat == "?":
            if here:
                yield from rest(number + 1, at + 1)
            yield from rest(number + 1, at)
        elif here:
            yield from rest(number + 1, at + 1)

    yield from rest(0, start)


def fits(item: str, char: str) -> bool:
    """Tell whether a character is what an item stands for, in the C locale."""
    if item == ".":
        return True
    if len(item) == 1 or not item[1].isalpha():
        return char == item[-1]
    ascii_ = char.isascii()
    classes = {
        "a": char.isalpha(), "d": char.isdigit(), "l": char.islower(), "u": char.isupper(), "w": char.isalnum(),
        "s": char.isspace(), "p": char.isprintable() and not char.isalnum() and char != " ",
    }  # fmt: skip
    return (ascii_ and classes[item[1].lower()]) != item[1].isupper()
