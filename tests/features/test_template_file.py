"""Template files as feature sets: what they become, and what is refused."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from spacy.tokens import Doc
from spacy.vocab import Vocab

from spacy_crfseq.errors import ConfigError, FormatError
from spacy_crfseq.features.attributes import BUILT_IN
from spacy_crfseq.features.sets import crfpp_chunking
from spacy_crfseq.features.template_file import NO_MATCH, TemplateFile

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
"""What CRF++ ships for CoNLL-2000."""


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


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("U1:%x[0,2]", "there is no column 2: columns = ['word', 'tag'] names those from 0 to 1"),
        ("U1:%x[17,0]", "offset 17: offsets beyond 16 are not supported"),
        ("U1:%x[0,0]/%x[-99,1]", "offset -99"),
        ('U1:%t[0,1,"a"]', "column 1 is 'tag', but regular expressions apply to the word only"),
        ("V1:%x[0,0]", "begins with none of U"),
    ],
)
def test_a_template_that_cannot_be_used_is_refused_with_its_line(line: str, message: str, tmp_path: Path) -> None:
    features = read(tmp_path, f"U0:%x[0,0]\n\n{line}\n", ["word", "tag"])
    with pytest.raises(FormatError, match=re.escape(message)) as caught:
        features.imported.features.plans()
    assert str(caught.value).startswith(f"{tmp_path / 'template'}:3: ")


def test_other_refusals(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="columns: 'tga' is neither known nor a function"):
        TemplateFile("template", ["word", "tga"])
    with pytest.raises(FormatError, match="no template uses the text"):
        _ = read(tmp_path, "B\n", ["word"]).imported
    with pytest.raises(FormatError, match="there is no column 1"):
        _ = read(tmp_path, "U:%x[0,1]\n", ["word", "_"]).imported


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
