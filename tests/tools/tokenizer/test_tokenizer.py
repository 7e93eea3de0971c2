"""The tokenizer by a regular expression: tokens, text, settings, round trips."""

import pickle
import re

import pytest
import spacy
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_crfseq.corpora.splitting import SPACES, Splitter
from spacy_crfseq.errors import ConfigError, DataError

USADDRESS = r"\(*\b[^\s,;#&()]+[.,;)\n]*|[#&]"


def pipeline(pattern=SPACES, between="words"):
    block = {"@tokenizers": "spacy_crfseq.RegexTokenizer.v1", "pattern": pattern, "between": between}
    return spacy.blank("en", config={"nlp": {"tokenizer": block}})


@pytest.mark.parametrize(
    ("pattern", "between", "words", "text"),
    [
        (SPACES, "words", "12|Main|St.,|Apt|(#4)", "12 Main St., Apt (#4)"),
        (USADDRESS, "nothing", "12|Main|St.,\n|Apt|#|4)", "12 Main St.,\nApt #4)"),
        (r"\w+", "words", "12|Main|St|.,|Apt|(#|4|)", "12 Main St., Apt (#4)"),
        (r"\w+", "everything", "12| |Main|St|.,|\n|Apt|(#|4|)", "12  Main St.,\nApt (#4)"),
    ],
)
def test_tokens_are_the_matches_and_what_the_setting_keeps_between_them(pattern, between, words, text):
    doc = pipeline(pattern, between).make_doc("12  Main St.,\nApt (#4)")
    assert [token.text for token in doc] == words.split("|")
    assert doc.text == text


@settings(max_examples=60)
@given(
    st.text(st.sampled_from("ab1., \t\n\u00a0\u2028")),
    st.sampled_from([SPACES, r"\w+", r"\b|a", r"[ab]+\s?", r"([ab])|1"]),
)
def test_nothing_but_white_space_is_lost(text, pattern):
    words, spaces = Splitter(pattern)(text)
    joined = "".join(word + " " * space for word, space in zip(words, spaces, strict=True))
    assert joined.split() == text.split()
    if re.sub(r"\S( (?=\S)|(?=\S)| ?$)|\S", "", text) == "":  # single spaces between words
        assert joined == text
    words, spaces = Splitter(pattern, "everything")(text)
    assert "".join(word + " " * space for word, space in zip(words, spaces, strict=True)) == text
    matches = [match[0] for match in re.finditer(pattern, text) if match[0]]
    assert Splitter(pattern, "nothing")(text)[0] == matches


def test_settings_survive_in_every_form(tmp_path):
    nlp = pipeline(USADDRESS, "nothing")
    nlp.to_disk(tmp_path / "model")
    copies = [
        spacy.load(tmp_path / "model"),
        pipeline().from_bytes(nlp.to_bytes()),
        pickle.loads(pickle.dumps(nlp)),
        spacy.blank("en", config=nlp.config),
    ]
    assert {repr(copy.tokenizer) for copy in copies} == {repr(nlp.tokenizer)}
    assert repr(nlp.tokenizer) == f"RegexTokenizer(pattern={USADDRESS!r}, between='nothing')"
    assert [doc.text for doc in nlp.tokenizer.pipe(["a, b", ""])] == ["a, b", ""]
    assert pipeline(r"\w+").tokenizer.explain("a.b") == [("MATCH", "a"), ("BETWEEN", "."), ("MATCH", "b")]
    with pytest.raises(DataError, match="settings of a RegexTokenizer"):
        nlp.tokenizer.from_bytes(b"\x80")


@pytest.mark.parametrize(
    ("pattern", "between", "message"),
    [
        ("(", "words", "not a regular expression"),
        (r"\w*", "words", "matches the empty text"),
        (SPACES, "word", "Did you mean 'words'"),
    ],
)
def test_errors_name_the_setting(pattern, between, message):
    with pytest.raises(ConfigError, match=message):
        pipeline(pattern, between)
