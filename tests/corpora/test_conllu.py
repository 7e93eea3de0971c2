"""CoNLL-U: words, spaces, documents, what is refused, and the Docs that ConlluReader makes."""

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from spacy.language import Language

from spacy_crfseq.corpora import Sentence
from spacy_crfseq.corpora.conllu import read_conllu
from spacy_crfseq.corpora.lines import MultiwordToken
from spacy_crfseq.errors import FormatError
from spacy_crfseq.pipeline.readers import create_conllu_reader
from tests.corpora.conftest import Write
from tests.corpora.helpers import CONLLU, saved

FILE = """\
# newdoc id = d1
# sent_id = 1
# text = I don't know_, Bob = ok
1 I I PRON PRP Case=Nom|Number=Sing 4 nsubj _ _
2-3 don't _ _ _ _ _ _ _ _
2 do do AUX VBP _ 4 aux _ _
3 n't not PART RB _ 4 advmod _ SpaceAfter=No
4 know know VERB VB _ 0 root _ CorrectForm=x|SpaceAfter=No
4.1 what _ _ _ _ _ _ _ _
5 _ _ PUNCT _ _ 4 punct _ SpaceAfterwards=No

# newpar
1-2 zum _ _ _ _ _ _ _ SpaceAfter=No
1 zu _ _ _ _ _ _ _ _
2 dem _ X _ _ _ _ _ _
3 ! ! PUNCT . _ 1 punct _ _

# newdoc
1 End end NOUN NN _ 0 root _ _
"""


def read(folder: Path, text: str) -> list[Sentence]:
    path = folder / "a.conllu"
    lines = (line if line.startswith("#") else line.replace(" ", "\t") for line in text.split("\n"))
    path.write_text("\n".join(lines), encoding="utf8", newline="")
    return list(read_conllu(path))


def row(identifier: str, word: str = "w", pos: str = "X", misc: str = "_") -> str:
    return f"{identifier} {word} l {pos} T _ 0 root _ {misc}\n"


def test_a_file(tmp_path: Path) -> None:
    first, second, third = read(tmp_path, FILE)
    assert first._replace(source=None) == Sentence(
        ["I", "do", "n't", "know", "_"],
        {
            "lemma": ["I", "do", "not", "know", "_"],
            "pos": ["PRON", "AUX", "PART", "VERB", "PUNCT"],
            "tag": ["PRP", "VBP", "RB", "VB", ""],
            "morph": ["Case=Nom|Number=Sing", "", "", "", ""],
            "head": ["4", "4", "4", "0", "4"],
            "dep": ["nsubj", "aux", "advmod", "root", "punct"],
        },
        [True, False, True, False, True],
        4,
        1,
        {"newdoc id": "d1", "sent_id": "1", "text": "I don't know_, Bob = ok"},
    )
    assert (second.words, second.spaces, second.document) == (["zu", "dem", "!"], [False, False, True], 1)
    assert second.columns["lemma"] == ["", "", "!"]
    assert second.columns["head"] == ["", "", "1"]
    assert (third.words, third.document, third.line) == (["End"], 2, 19)
    assert [first.line_of(i) for i in range(5)] == [4, 6, 7, 8, 10]
    assert second.multiword == (MultiwordToken(0, 2, "zum"),)
    assert (first.text, second.text) == ("I don't know_ ", "zum! ")


def test_the_lines_of_all_sentences_are_those_of_the_file(tmp_path: Path) -> None:
    text = "# only a comment\n\n" + FILE.replace("\n", "\r\n") + "\n\n# the end"
    sentences = read(tmp_path, text)
    lines = [line for sentence in sentences if sentence.source for line in sentence.source.lines]
    assert "".join(lines) == (tmp_path / "a.conllu").read_bytes().decode("utf8")
    for sentence in sentences:
        assert sentence.source is not None
        assert [sentence.source.lines[i].split("\t")[1] for i in sentence.source.words] == sentence.words


def test_the_text_of_a_sentence_tells_its_spaces(tmp_path: Path) -> None:
    """Where ``# text`` has other letters, ``SpaceAfter`` does."""
    rows = row("1", "Al") + row("2-3", "mar") + row("2", "ma") + row("3", "arr") + row("4", ".")
    told, other = read(tmp_path, f"# text = Al\u00a0mar.\n{rows}\n# text = Al maarr.\n{rows}")
    assert told.spaces == [True, False, False, True]
    assert other.spaces == [True, False, True, True]


def test_windows_lines_and_no_final_newline(tmp_path: Path) -> None:
    (sentence,) = read(tmp_path, row("1").replace("\n", "\r\n") + row("2", misc="SpaceAfter=No").rstrip())
    assert sentence.spaces == [True, False]


def test_forms_may_hold_spaces(tmp_path: Path) -> None:
    path = tmp_path / "a.conllu"
    path.write_text(row("1").replace(" ", "\t").replace("w", "10 000"), encoding="utf8")
    assert next(read_conllu(path)).words == ["10 000"]
    path.write_text(row("1"), encoding="utf8")
    with pytest.raises(FormatError, match="tabs"):
        list(read_conllu(path))
    with pytest.raises(FormatError, match="no such file"):
        read_conllu(tmp_path / "gone.conllu")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (row("1") + "2 a b c\n", r":2: 10 columns with tabs .* 4 found"),
        (row("1") + row("3"), r":2: id 2 expected, '3' found"),
        (row("0"), r":1: id 1 expected"),
        (row("1") + row("1"), r":2: id 2 expected"),
        (row("2-3"), r":1: '2-3' is not a range"),
        (row("1-x"), r":1: '1-x' is not a range"),
        (row("1-3") + row("1") + row("2-3"), r":3: '2-3' is not a range"),
        (row("1-3") + row("1"), r":2: the sentence ends before"),
        (row("1.1"), r":1: the sentence ends before"),
        (row("1", pos="NN"), r":1: 'NN' is not a UPOS tag \(ADJ, ADP"),
        (row("1", word=""), r":1: the word is empty"),
        (row("1").replace("_ 0", "Case 0"), r":1: .Case. is not a list such as Case=Nom"),
        ("\n\n", r"a\.conllu: no sentence"),
        ("# text = nothing\n", r"a\.conllu: no sentence"),
    ],
)
def test_a_broken_file_is_refused_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        read(tmp_path, text)


def test_reading_goes_on_behind_errors(write: Write) -> None:
    row = "1\tAda\t_\tPROPN\tNNP\t_\t0\troot\t_\t_\n"
    path = write(f"{row}\n1\tAda\n{row}\n{row}\n{row.replace('PROPN', 'N')}\n3{row[1:]}")
    errors: list[FormatError] = []
    assert len(list(read_conllu(path, errors.append))) == 2
    assert [error.line for error in errors] == [3, 8, 10]


WORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\t\r\n\ufeff"), min_size=1, max_size=3)


@given(st.lists(st.tuples(WORDS, st.booleans(), st.integers(1, 3)), min_size=1, max_size=5))
def test_spaces_follow_surface_tokens(surface: list[tuple[str, bool, int]]) -> None:
    lines, words, spaces = [], [], []
    for form, space, size in surface:
        misc = "_" if space else "SpaceAfter=No"
        first = len(words) + 1
        if size > 1:
            lines.append(f"{first}-{first + size - 1}\t{form}" + "\t_" * 7 + f"\t{misc}\n")
        for i in range(size):
            inner = misc if size == 1 else "_"
            lines.append(f"{first + i}\t{form}" + "\t_" * 7 + f"\t{inner}\n")
            words.append(form)
            spaces.append(space and i == size - 1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.conllu")
        path.write_text("".join(lines), encoding="utf8", newline="")
        (sentence,) = read_conllu(path)
    assert (sentence.words, sentence.spaces) == (words, spaces)


@pytest.mark.skipif(not os.environ.get("CRFSEQ_DATA"), reason="CRFSEQ_DATA does not name a folder of corpora")
def test_words_and_spaces_give_the_text_back() -> None:
    path = Path(os.environ["CRFSEQ_DATA"], "ud-english-ewt/en_ewt-ud-dev.conllu")
    for sentence in read_conllu(path):
        assert sentence.spaces is not None
        text = "".join(w + " " * s for w, s in zip(sentence.words, sentence.spaces, strict=True))
        assert text.strip() == sentence.comments["text"]


def test_docs_have_all_columns(nlp: Language, tmp_path: Path) -> None:
    first, second, third = create_conllu_reader(saved(tmp_path, CONLLU), given=["tag"])(nlp)
    doc = first.reference
    assert doc.text == "Alran off"
    assert [t.tag_ for t in doc] == [t.tag_ for t in first.predicted] == ["NNP", "VBD", ""]
    assert [t.pos_ for t in doc] == ["PROPN", "VERB", "ADP"]
    assert [t.lemma_ for t in doc] == ["Al", "run", ""]
    assert [str(t.morph) for t in doc] == ["Number=Sing", "", ""]
    assert [(t.head.i, t.dep_) for t in doc] == [(1, "nsubj"), (1, "root"), (1, "advmod")]
    assert second.reference.has_annotation("DEP")
    assert not third.reference.has_annotation("DEP")  # its heads make a circle
    assert not first.predicted.has_annotation("POS")


def test_a_doc_may_be_a_document(nlp: Language, tmp_path: Path) -> None:
    reader = create_conllu_reader(saved(tmp_path, CONLLU), unit="document")
    first, second = reader(nlp)
    for doc in (first.reference, first.predicted):
        assert [t.is_sent_start for t in doc] == [True, False, False, True]
    assert [t.head.i for t in first.reference] == [1, 1, 1, 3]
    assert [t.is_sent_start for t in second.reference] == [True, False]


@pytest.mark.parametrize(("heads", "is_tree"), [
    ("2 0 2", True), ("3 0 2", True), ("0 0 1", False), ("2 1 0", False), ("9 0 1", False), ("_ 0 1", False),
])  # fmt: skip
def test_heads_are_kept_where_they_make_a_tree(nlp: Language, tmp_path: Path, heads: str, is_tree: bool) -> None:
    lines = [f"{i}\tw\tw\tX\tX\t_\t{head}\tx\t_\t_\n" for i, head in enumerate(heads.split(), start=1)]
    (example,) = create_conllu_reader(saved(tmp_path, "".join(lines)))(nlp)
    assert example.reference.has_annotation("DEP") == is_tree


@pytest.mark.skipif(not os.environ.get("CRFSEQ_DATA"), reason="CRFSEQ_DATA does not name a folder of corpora")
def test_real_documents_keep_their_sentences(nlp: Language) -> None:
    path = Path(os.environ["CRFSEQ_DATA"], "ud-english-ewt/en_ewt-ud-dev.conllu")
    for example in create_conllu_reader(path, unit="document")(nlp):
        assert example.reference.has_annotation("DEP")  # trees with crossing arcs among them
        starts = [t.is_sent_start for t in example.predicted]
        assert [t.is_sent_start for t in example.reference] == starts
