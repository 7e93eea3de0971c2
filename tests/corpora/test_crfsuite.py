"""Attribute files of CRFsuite: lines, refusals, and the Docs with attributes that CRFsuiteReader makes."""

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import DocBin
from spacy.training import Example

from spacy_crfseq.corpora.crfsuite import read_crfsuite
from spacy_crfseq.errors import DataError, FormatError
from spacy_crfseq.pipeline.encode import content_key
from spacy_crfseq.pipeline.readers import create_crfsuite_reader
from tests.corpora.conftest import Write
from tests.pipeline.helpers import SENTENCES as ROWS
from tests.pipeline.helpers import blank, initialize, pipe_of, registered, templates

NAMES = st.text(alphabet="ab:\\=1 é", max_size=5)
LABELS = st.text(alphabet="AB-:\\", min_size=1, max_size=3)
SENTENCES = st.lists(
    st.lists(st.tuples(LABELS, st.lists(NAMES, unique=True, max_size=4)), min_size=1, max_size=3),
    min_size=1,
    max_size=3,
)
FEATURES = templates("GIVEN[0]", token_functions={"GIVEN": registered("features", "Attributes")})


def format_item(label: str, attributes: Sequence[str]) -> str:
    """Return the line of a token."""
    return "\t".join(name.replace("\\", "\\\\").replace(":", "\\:") for name in (label, *attributes))


@given(SENTENCES)
def test_items_are_read_as_they_were_written(sentences: list[list[tuple[str, list[str]]]]) -> None:
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


def attributes(words: list[str], i: int) -> list[str]:
    word = words[i]
    names = ["bias", f"w[0]={word}", f"suffix={word[-2:]}", f"x:y\\{word.istitle()}"]
    return names + [f"w[{k}]={words[i + k]}" for k in (-1, 1) if 0 <= i + k < len(words)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The corpus of the helpers as an attribute file; labels are chunks."""
    blocks = []
    for rows in ROWS:
        words = [row[0] for row in rows]
        blocks += ["".join(format_item(row[4], attributes(words, i)) + "\n" for i, row in enumerate(rows))]
    path = tmp_path / "train.crfsuite"
    path.write_text("\n".join(blocks))
    return path


def test_docs_have_words_labels_and_attributes(file: Path) -> None:
    nlp = spacy.blank("xx")
    reader = create_crfsuite_reader(file, "chunk")
    first, again = list(reader(nlp)), list(reader(nlp))
    assert [[token.text for token in e.reference] for e in first] == [[row[0] for row in rows] for rows in ROWS]
    assert [(s.text, s.label_) for s in first[1].reference.spans["chunks"]] == [
        ("Bob", "NP"), ("saw", "VP"), ("the old bridge", "NP"),
    ]  # fmt: skip
    expected = [attributes([row[0] for row in ROWS[0]], i) for i in range(len(ROWS[0]))]
    assert first[0].predicted._.crf_attributes == first[0].reference._.crf_attributes == expected
    assert first[0].reference is again[0].reference
    assert first[0].predicted is not again[0].predicted
    assert not first[0].predicted.spans
    binary = DocBin(docs=[first[0].reference], store_user_data=True).to_bytes()
    stored = next(DocBin().from_bytes(binary).get_docs(nlp.vocab))._.crf_attributes
    assert [list(names) for names in stored] == expected


def test_words_and_limits(file: Path) -> None:
    nlp = spacy.blank("xx")
    examples = list(create_crfsuite_reader(file, word="suffix=", limit=1)(nlp))
    assert [token.text for token in examples[0].reference] == ["na", "es", "in", "ew", "rk", "."]
    assert [token.tag_ for token in examples[0].reference][:2] == ["B-NP", "B-VP"]
    assert {token.text for e in create_crfsuite_reader(file, word="?")(nlp) for token in e.reference} == {"_"}
    assert len(examples) == 1


def test_training_in_spacys_steps_sees_attributes_changed_in_place(file: Path) -> None:
    """Feature functions that are compiled once are told apart by their content, the attributes included."""
    nlp = blank("crf_tagger", features=FEATURES)
    examples = list(create_crfsuite_reader(file)(nlp))
    pipe = pipe_of(initialize(nlp, examples))
    before = content_key(pipe.doc_model, examples[0])
    doc = examples[0].predicted
    doc._.crf_attributes = [["bias"]] * len(doc)
    assert content_key(pipe.doc_model, examples[0]) != before


def test_docs_without_attributes_are_refused(file: Path) -> None:
    nlp = blank("crf_tagger", features=FEATURES)
    initialize(nlp, list(create_crfsuite_reader(file)(nlp)))
    with pytest.raises(DataError, match=r"has no attributes. Set doc._.crf_attributes"):
        nlp("Anna lives")
    doc = nlp.make_doc("Anna lives")
    doc._.crf_attributes = [["bias"]]
    with pytest.raises(DataError, match="of 2 tokens has attributes for 1 tokens"):
        nlp(doc)
    with pytest.raises(DataError, match="has no attributes"):
        nlp.initialize(lambda: [Example(nlp.make_doc("Anna"), nlp.make_doc("Anna"))])


def test_labels_that_break_the_scheme_are_refused_with_their_line(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("O\ta\nI-NP\tb\n")
    with pytest.raises(FormatError, match=re.escape(f"{path}:2: ")):
        list(create_crfsuite_reader(path, "chunk")(spacy.blank("xx")))
