"""Attribute files of CRFsuite: round trips and refusals."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_crfseq.corpora.crfsuite import format_item, read_crfsuite
from spacy_crfseq.errors import FormatError
from tests.corpora.conftest import Write

NAMES = st.text(alphabet="ab:\\=1 é", max_size=5)
LABELS = st.text(alphabet="AB-:\\", min_size=1, max_size=3)
SENTENCES = st.lists(
    st.lists(st.tuples(LABELS, st.lists(NAMES, unique=True, max_size=4)), min_size=1, max_size=3),
    min_size=1,
    max_size=3,
)


@given(SENTENCES)
def test_what_is_written_is_read(sentences: list[list[tuple[str, list[str]]]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.crfsuite")
        path.write_text("\n".join("".join(format_item(*item) + "\n" for item in s) for s in sentences), "utf8")
        read = list(read_crfsuite(path))
    assert [list(zip(s.columns["tag"], s.attributes, strict=True)) for s in read] == sentences
    assert [s.line for s in read] == [1 + sum(len(s) + 1 for s in sentences[:n]) for n in range(len(sentences))]


def test_escapes_and_values(write: Write) -> None:
    text = "@weight:1\nB-NP\tw[0]=\\:\tw[1]=\\\\\tx:1\ty:-5e-1\tz:\n\n\nO\n"
    first, second = read_crfsuite(write(text), "chunk")
    assert (first.words, first.columns, first.line) == ([":"], {"chunk": ["B-NP"]}, 2)
    assert first.attributes == [["w[0]=:", "w[1]=\\", ("x", 1.0), ("y", -0.5), ("z", 1.0)]]
    assert (second.words, second.columns, second.attributes, second.line) == (["_"], {"chunk": ["O"]}, [[]], 5)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("O\ta:inf", "'a:inf' has the value 'inf', which is not a number"),
        ("O:0.5\ta", "the label 'O' has a value"),
        ("O\thttp://x", "'http://x' has the value '//x'"),
        ("O\ta\ta", "the attribute 'a' occurs twice"),
        ("O\ta\ta:1", "the attribute 'a' occurs twice"),
        ("\ta", "the label is empty"),
        ("O\ta\\", "ends with a single backslash"),
        ("O w=a t=b", "'O w=a t=b' has spaces but no tab"),
        ("@weight:2", "weights of sequences are not supported"),
        ("@else", "weights of sequences are not supported"),
    ],
)
def test_a_line_that_cannot_be_used_is_refused_with_its_number(line: str, message: str, write: Write) -> None:
    path = write(f"O\tb\n\n{line}\n")
    with pytest.raises(FormatError, match=re.escape(message)) as caught:
        list(read_crfsuite(path))
    assert str(caught.value).startswith(f"{path}:3: ")


def test_an_empty_file_is_refused(write: Write) -> None:
    with pytest.raises(FormatError, match="no sequence in the file"):
        list(read_crfsuite(write("\n\n")))
