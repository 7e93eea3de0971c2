"""Template files of CRF++ and pattern files of Wapiti: their lines, the feature set they become, and refusals."""

import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import Doc
from spacy.vocab import Vocab

from spacy_crfseq.corpora.template_files import (
    Macro,
    TemplateLine,
    format_template_line,
    parse_template_lines,
    python_pattern,
    read_template_file,
)
from spacy_crfseq.errors import ConfigError, FormatError
from spacy_crfseq.features.attributes import BUILT_IN
from spacy_crfseq.features.sets import crfpp_chunking
from spacy_crfseq.features.template_file import NO_MATCH, TemplateFile

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
def test_lines_are_read_as_they_were_written(lines: list[TemplateLine]) -> None:
    assert parse_template_lines(map(format_template_line, lines), "file") == lines


def test_a_file_of_crfpp(tmp_path: Path) -> None:
    text = "# Unigram\nU00:%x[-2,0]\n\nU05:%x[-1,0]/%x[0,1]  # both\r\nB\nB01:%x[0,0]\nU06:a#b\n"
    path = tmp_path / "template"
    path.write_bytes(text.encode())
    assert read_template_file(path) == [
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


@given(PATTERNS, st.text(alphabet='aBb3-. _"é', max_size=5))
def test_regular_expressions_mean_what_they_mean_in_wapiti(pattern: str, text: str) -> None:
    expected = next(((start, end) for start in starts(pattern, text) for end in ends(pattern, text, start)), None)
    match = re.search(python_pattern(pattern), text, re.DOTALL)
    assert (match.span() if match else None) == expected


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


CRFPP_CHUNKING = """\
# Unigram
U00:%x[-2,0]
U01:%x[-1,0]
U02:%x[0,0]
U03:%x[1,0]
U04:%x[2,0]
U05:%x[-1,0]/%x[0,0]
U06:%x[0,0]/%x[1,0]

U10:%x[-2,1]
U11:%x[-1,1]
U12:%x[0,1]q
U13:%x[1,1]
U14:%x[2,1]
U15:%x[-2,1]/%x[-1,1]
U16:%x[-1,1]/%x[0,1]
U17:%x[0,1]/%x[1,1]
U18:%x[1,1]/%x[2,1]

U20:%x[-2,1]/%x[-1,1]/%x[0,1]
U21:%x[-1,1]/%x[0,1]/%x[1,1]
U22:%x[0,1]/%x[1,1]/%x[2,1]

# Bigram
B
"""
"""The templates that CRF++ ships for CoNLL-2000."""


def read(folder: Path, text: str, columns: list[str]) -> TemplateFile:
    path = folder / "template"
    path.write_text(text, encoding="utf8")
    return TemplateFile(path, columns)


def test_the_templates_of_crfpp_for_chunking(tmp_path: Path) -> None:
    features = read(tmp_path, CRFPP_CHUNKING, ["word", "tag"])
    assert features.imported.features.plans() == crfpp_chunking().plans()
    assert features.imported.transitions
    assert not features.imported.features.bigram_templates


def test_letters_columns_and_macros(tmp_path: Path) -> None:
    text = "*\nu:a\nu:b%X[-1,0]\nb:c%x[0,2]%x[1,3]\n*:d%X[0,2]\nu:e%x[0,0]%x[0,0]\n"
    features = read(tmp_path, text, ["word", "_", "tag", "suffix3"])
    assert features.imported.features.templates == ("ALWAYS[0]", "ALWAYS[0]", "LOWER[-1]", "TAG[0]", "ORTH[0]")
    assert features.imported.features.bigram_templates == ("TAG[0]|SUFFIX3[1]", "TAG[0]")
    assert features.imported.features.functions["ALWAYS"]("any word") == "1"


def test_regular_expressions_are_functions_of_a_word(tmp_path: Path) -> None:
    text = 'u:a%t[0,0,"^\\u"]\nu:b%t[1,0,"^\\u"]\nu:c%T[2,0,"^\\u"]\nu:d%m[0,0,"^.?.?"]\nu:e%M[0,0,"\\d\\d*$"]\n'
    features = read(tmp_path, text, ["word"])
    assert features.imported.features.templates == ("TEST1[0]", "TEST1[1]", "TEST1[2]", "MATCH2[0]", "MATCH3[0]")
    test, match, digits = (features.imported.features.functions[name] for name in ("TEST1", "MATCH2", "MATCH3"))
    assert [test("Anna"), test("anna"), test("4A")] == ["true", "false", "false"]
    assert [match("Anna"), match("é")] == ["An", "é"]
    assert [digits("B747"), digits("b")] == ["747", NO_MATCH]
    assert not features.imported.transitions


def test_transitions_that_the_file_and_the_component_disagree_on(tmp_path: Path) -> None:
    with_b, without = (read(tmp_path, text, ["word"]) for text in ("U:%x[0,0]\nB\n", "U:%x[0,0]\n"))
    (tmp_path / "template").write_text("U:%x[0,0]\nB\n")
    with_b.check_transitions("crf_ner", True)
    with pytest.raises(ConfigError, match="has a line B"):
        with_b.check_transitions("crf_ner", False)
    (tmp_path / "template").write_text("U:%x[0,0]\n")
    without.check_transitions("crf_ner", False)
    with pytest.raises(ConfigError, match="Write transitions = false for the same, or add a line B"):
        without.check_transitions("crf_ner", True)


def test_a_model_that_stores_the_file_needs_it_no_more(tmp_path: Path) -> None:
    text = 'u:a=%m[0,0,".?.?$"]\n*\n*:b=%X[-1,0]/%x[ 0,1]  # both\n'
    features = read(tmp_path, text, ["word", "tag"])
    stored = features.to_state()
    again = TemplateFile(tmp_path / "gone", ["word", "tag"])
    again.from_state(stored)
    assert again.imported.features.plans() == features.imported.features.plans()
    assert again.imported.features.functions["MATCH1"]("walked") == "ed"


WORDS = {"first": lambda text: text[0], "none": lambda text: ""}
TOKENS = {"place": lambda sequence, i: f"{i}/{len(sequence)}"}


def test_functions_of_words_compute_columns(tmp_path: Path) -> None:
    (tmp_path / "template").write_text('U1:%x[-1,1]/%x[0,2]\nU2:%m[0,1,"[A-Z]"]\n*3:%x[0,0]\nU4:%x[1,1]\n')
    features = TemplateFile(tmp_path / "template", ["word", "first", "shape"], WORDS)
    assert features.imported.features.templates == ("first[-1]|SHAPE[0]", "MATCH1[0]", "ORTH[0]", "first[1]")
    assert [features.imported.features.functions["MATCH1"](text) for text in ("Anna", "an")] == ["(none)", "(none)"]
    assert features.imported.features.functions["first"]("Oslo") == "O"
    assert not features.imported.features.token_functions


def test_columns_of_shared_weights_may_be_any_attribute(tmp_path: Path) -> None:
    (tmp_path / "template").write_text("U:%x[-1,1]\nU:%x[0,1]\n")
    doc = Doc(Vocab(), words=["Ada", "sings"])
    for name in BUILT_IN:
        function = TemplateFile(tmp_path / "template", ["word", name.lower()]).imported.features.token_functions[
            "JOINT"
        ]
        assert len(function(list(doc), 1)) == 2
    function = TemplateFile(tmp_path / "template", ["word", "tag"]).imported.features.token_functions["JOINT"]
    assert function(list(doc), 1) == ["u:", "u:"]


def test_one_function_of_a_token_computes_what_templates_cannot(tmp_path: Path) -> None:
    """Conjunctions with functions of a token, and lines that share weights."""
    text = "U1:%x[-1,1]|%x[0,2]\n*2:%x[0,2]\nU3:%x[-1,0]\nU3:%x[0,0]\nU4:%x[0,0]\nU4:%x[0,1]\nB\n"
    (tmp_path / "template").write_text(text)
    features = TemplateFile(tmp_path / "template", ["word", "first", "place"], WORDS, TOKENS)
    assert features.imported.features.templates == (
        "ORTH[0]",
        "first[0]",
        "JOINT[0]",
    )
    assert features.imported.features.bigram_templates == ("JOINT_PAIRS[0]",)
    sentence = [SimpleNamespace(text=word) for word in ("Ada", "sings")]
    states, pairs = (features.imported.features.token_functions[name] for name in ("JOINT", "JOINT_PAIRS"))
    assert states(sentence, 1) == ["u1:A|1/2", "*2:1/2", "u3:Ada", "u3:sings"]
    assert states(sentence, 0) == ["u1:_x-1|0/2", "*2:0/2", "u3:_x-1", "u3:Ada"]
    assert pairs(sentence, 1) == ["*2:1/2"]
    again = TemplateFile(tmp_path / "gone", ["word", "first", "place"], WORDS, TOKENS)
    again.from_state(features.to_state())
    assert again.imported.features.plans() == features.imported.features.plans()
    with pytest.raises(ConfigError, match=r"'plce' is neither known nor a function\. Did you mean 'place'"):
        TemplateFile(tmp_path / "template", ["word", "plce"], WORDS, TOKENS)


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
        ("U1:%x[0,2]", "there is no column 2: columns = ['word', 'tag'] names those from 0 to 1"),
        ("U1:%x[17,0]", "offset 17: offsets beyond 16 are not supported"),
        ("U1:%x[0,0]/%x[-99,1]", "offset -99"),
        ('U1:%t[0,1,"a"]', "column 1 is 'tag', but regular expressions apply to the word only"),
    ],
)
def test_a_line_that_cannot_be_used_is_refused_with_its_number(line: str, message: str, tmp_path: Path) -> None:
    features = read(tmp_path, f"U0:%x[0,0]\n\n{line}\n", ["word", "tag"])
    with pytest.raises(FormatError, match=re.escape(message)) as caught:
        features.imported.features.plans()
    assert str(caught.value).startswith(f"{tmp_path / 'template'}:3: ")


@pytest.mark.parametrize(("text", "columns", "message"), [
    ("", ["word"], "no template in the file"),
    ("# U00:%x[0,0]\n\n", ["word"], "no template in the file"),
    (None, ["word"], "no such file"),
    ("B\n", ["word"], "no template uses the text"),
    ("U:%x[0,1]\n", ["word", "_"], "there is no column 1"),
])  # fmt: skip
def test_a_file_that_is_no_feature_set_is_refused(
    text: str | None, columns: list[str], message: str, tmp_path: Path
) -> None:
    with pytest.raises(FormatError, match=message):
        _ = (TemplateFile(tmp_path / "none", columns) if text is None else read(tmp_path, text, columns)).imported


def test_a_column_that_is_no_attribute_is_refused() -> None:
    with pytest.raises(ConfigError, match="columns: 'tga' is neither known nor a function"):
        TemplateFile("template", ["word", "tga"])
