"""Sequences of labelled XML elements: tokens, labels, spans, texts, settings, errors with their lines."""

import re

import pytest

from spacy_crfseq.corpora.splitting import Splitter
from spacy_crfseq.corpora.xml import XMLForm, likely_sequence, read_xml
from spacy_crfseq.errors import ConfigError, FormatError
from tests.corpora.conftest import Write

NAMES = (
    '<?xml version="1.0"?>\n<all>\n <n><first>Ada</first> <last>King</last>\n </n>\n'
    " <n><last>Ba&amp;ch,</last></n></all>"
)
TEI = """<tei xmlns="http://www.tei-c.org/ns/1.0" xmlns:x="urn:x"><head><!-- none --></head><x:list>
<bibl>[1] <author><name>Ada <hi>K</hi>ing</name>, <name>Bo</name></author>.
  <x:title level="a b">On<lb/>maps &amp; &#8220;so&#8221;</x:title>
  <title>I</title><!-- , --><title>II</title>(<date/>1843)</bibl>
</x:list></tei>"""


def test_an_element_for_each_token(write: Write) -> None:
    first, second = read_xml(write(NAMES), XMLForm())
    assert first[:4] == (["Ada", "King"], {
        "tag": ["first", "last"], "ent": ["B-first", "B-last"], "chunk": ["B-first", "B-last"],
    }, [True, False], 3)  # fmt: skip
    assert (second.text, second.line, second.line_of(0)) == ("Ba&ch,", 5, 5)


@pytest.mark.parametrize(
    ("form", "tagged"),
    [
        (
            {"ignore": ("hi",)},
            "[1]/O Ada/B-name King/I-name ,/B-author Bo/B-name ./O On/B-title maps/I-title &/I-title “so”/I-title "
            "I/B-title II/B-title (/O 1843)/O",
        ),
        (
            {"nested": "outermost", "attributes": ("level",), "join": True},
            "[1]/O Ada/B-author King,/I-author Bo/I-author ./O On/B-title-a_b maps/I-title-a_b &/I-title-a_b "
            "“so”/I-title-a_b I/B-title II/I-title (/O 1843)/O",
        ),
        (
            {"sequence": "bibl", "nested": "outermost", "pattern": r"\w+", "between": "nothing", "other": "rest"},
            "1/B-rest Ada/B-author King/I-author Bo/I-author On/B-title maps/I-title so/I-title I/B-title II/B-title "
            "1843/B-rest",
        ),
        (
            {"nested": "outermost", "other": None, "pattern": "[a-z]+|[0-9]+"},
            "[/- 1/- ]/- A/B-author da/I-author K/I-author ing/I-author ,/I-author B/I-author o/I-author ./- O/B-title "
            "n/I-title maps/I-title &/I-title “/I-title so/I-title ”/I-title I/B-title II/B-title (/- 1843/- )/-",
        ),
    ],
)
def test_segments_text_between_and_settings(form: dict[str, object], tagged: str, write: Write) -> None:
    (sentence,) = read_xml(write(TEI), XMLForm(**form))  # type: ignore[arg-type]
    expected = [tuple(pair.rsplit("/", 1)) for pair in tagged.split(" ")]
    assert list(zip(sentence.words, sentence.columns["ent"], strict=True)) == expected
    plain = {"O": "O", "-": ""}
    assert sentence.columns["tag"] == [plain.get(tag, tag[2:]) for _, tag in expected]
    assert sentence.columns["chunk"] == [tag.replace("-", "O") if tag == "-" else tag for _, tag in expected]
    if form.get("between") != "nothing":
        assert sentence.text == "[1] Ada King, Bo. On maps & “so” III( 1843)"
    assert sentence.line == 2


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        ("<s><a>x</a></s>\n<s>y</s><s><a>z</a></s>", 2, "<s> has no labelled element"),
        ("<s><a>x</a></s>\n\n<s> <a> </a></s>", 3, "<s> has no text"),
        ("<s><a>x</a>\n<s><a>y</a></s></s>", 1, "<s> in another <s>; .* (line 2)"),
        ("<s><a>x</a></s>\n<s><a>x</b></s>", 2, "not XML: mismatched tag, at column"),
        ("<s><a>x</a></s>\n<s><a>x & y</a></s>", 2, "Write &amp; and &lt;"),
        ("<s><a>x</a>\n&nbsp;</s>", 2, "undefined entity"),
    ],
)
def test_errors_name_the_line_and_reading_goes_on(content: str, line: int, message: str, write: Write) -> None:
    path = write(f"<r>{content}</r>")
    with pytest.raises(FormatError, match=re.escape(message).replace(r"\.\*", ".*")) as error:
        list(read_xml(path, XMLForm("s")))
    assert error.value.line == line
    errors: list[FormatError] = []
    assert len(list(read_xml(path, XMLForm("s"), errors.append))) == content.count("<a>x</a></s>") + ("z" in content)
    assert [str(one) for one in errors] == [str(error.value)]


def test_files_without_sequences_and_wrong_settings(write: Write) -> None:
    for text, form, message in (
        ("<r>words</r>", XMLForm(), "no element holds labelled elements; there are <r>"),
        (NAMES, XMLForm("names"), "it has no <names>; there are <all>, <n>, <first>, <last>"),
        ("", XMLForm(), "The file ends before"),
        (TEI, XMLForm(nested="error"), "<name> in <author> .*nested"),
        ('<!DOCTYPE r SYSTEM "r.dtd"><r><s><a>x&deg;</a></s></r>', XMLForm(), "the entity &deg; is not defined"),
        ('<!DOCTYPE r [<!ENTITY x SYSTEM "x">]><r><s><a>&x;</a></s></r>', XMLForm("s"), "entity &x; is not defined"),
    ):
        with pytest.raises(FormatError, match=message):
            list(read_xml(write(text), form))
    for form in (XMLForm(nested="inner"), XMLForm(other=""), XMLForm(pattern="(")):
        with pytest.raises(ConfigError):
            list(read_xml(write(NAMES), form))


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "latin-1", "cp1252", "euc_jp"])
def test_encodings(encoding: str, write: Write) -> None:
    word = "日本" if encoding == "euc_jp" else "Málaga"
    body = f"<r><s><a>{word}</a></s></r>"
    declared = encoding in ("utf-8-sig", "utf-16", "cp1252")
    path = write(
        (f"<?xml version='1.0' encoding='{encoding}'?>{body}" if encoding == "cp1252" else body).encode(encoding)
    )
    (sentence,) = read_xml(path, XMLForm(), encoding="" if declared else encoding)
    assert sentence.words == [word]
    if not declared:
        with pytest.raises(FormatError, match=r"is not utf8|--encoding"):
            list(read_xml(path, XMLForm()))


def test_the_outermost_elements_with_enough_segments_are_sequences() -> None:
    assert likely_sequence(TEI) == likely_sequence(TEI.encode()[:-40]) == "bibl"
    assert likely_sequence("<r><s><a>x</a></s><s>y</s></r>") == "s"  # and not r, with a label s
    nested = "<list><place><city>x</city><at><road>y</road><number>z</number></at></place></list>"
    assert likely_sequence(nested) == "place"
    assert Splitter().pattern == XMLForm().pattern


def test_labels_are_renamed_and_merged(write: Write) -> None:
    path = write("<s><a>New</a><b>York</b><c>in</c></s>")
    [sentence] = read_xml(path, XMLForm(rename={"a": "place", "b": "place"}, join=True))
    assert sentence.columns["tag"] == ["place", "place", "c"]
    assert sentence.columns["ent"] == ["B-place", "I-place", "B-c"]
    [sentence] = read_xml(path, XMLForm(rename={"a": "place", "c": "O"}))
    assert sentence.columns["tag"] == ["place", "b", "O"]
    assert sentence.columns["ent"] == ["B-place", "B-b", "O"]
    with pytest.raises(ConfigError, match="a label has no new name"):
        list(read_xml(path, XMLForm(rename={"a": ""})))
