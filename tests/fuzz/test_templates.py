"""Templates and template files of any text: used in a model, or refused with the template or the line."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.damage import damaged
from tests.fuzz.oracle import attempt, cases
from tests.pipeline.helpers import bare_doc, blank, examples, registered, templates

FILE = (
    b'# comment\nU00:%x[-2,0]\nU01:%x[0,0]/%x[1,1]\nB\n\n*:Pos=%X[0,1]\nu:Suf=%m[0,0,".?.?$"]\n'
    b'u:Caps=%t[0,0,"^\\u\\l*"]\nB01:%x[0,0]\n'
)
ATTRIBUTES = ["LOWER", "ORTH", "SHAPE", "TAG", "PREFIX3", "SUFFIX1", "lower", "NORM", "IS_TITLE", "WORD", "FUNC", ""]
PIECES = [
    *ATTRIBUTES,
    "[",
    "]",
    "..",
    "-1",
    "0",
    "16",
    "17",
    "|",
    " ",
    "[-1..1]",
    "[0]",
    "[+2]",
    "9" * 20,
    "é",
    "\0",
    "\n",
    "[1..0]",
]
TEMPLATES = st.one_of(
    st.builds("".join, st.lists(st.sampled_from(PIECES), max_size=6)),
    st.builds("{}[{}]|{}[{}]".format, *(st.sampled_from(ATTRIBUTES[:4]), st.integers(-17, 17)) * 2),
    st.text(max_size=8),
)


def use(**config: Any) -> None:
    """Train a little, and predict with the model that comes back from bytes."""
    nlp = blank("crf_tagger", **config)
    corpus = examples(nlp, "crf_chunker")
    nlp.initialize(lambda: corpus)
    nlp.update(corpus)
    words, tags = ["Anna", "saw", "Oslo"], ["NNP", "VBD", "NNP"]
    result = [token.tag_ for token in nlp(bare_doc(nlp, words, tags))]
    again = blank("crf_tagger", **config).from_bytes(nlp.to_bytes())
    assert [token.tag_ for token in again(bare_doc(again, words, tags))] == result


@cases(8)
@given(unigrams=st.lists(TEMPLATES, max_size=3), bigrams=st.lists(TEMPLATES, max_size=2))
def test_templates(unigrams: list[str], bigrams: list[str]) -> None:
    features = templates(*unigrams, bigram_templates=bigrams)
    attempt(lambda: use(features=features))


COLUMNS = st.lists(
    st.sampled_from(["word", "tag", "_", "lemma", "suffix3", "is_title", "x", ""]), min_size=1, max_size=4
)


@cases(8)
@given(data=damaged(FILE), columns=COLUMNS)
def test_template_files(data: bytes, columns: list[str], path: Path) -> None:
    path.write_bytes(data)
    features = registered("features", "TemplateFile", path=str(path), columns=columns)
    attempt(lambda: use(features=features))


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("templates") / "template.txt"
