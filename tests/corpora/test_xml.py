"""Labelled XML: tokens, labels, spans, settings, errors with their lines, and all commands from a file to a model."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import spacy

from spacy_crfseq.corpora.splitting import PARTED, Splitter
from spacy_crfseq.corpora.xml import XMLForm, likely_sequence, read_xml
from spacy_crfseq.errors import ConfigError, FormatError
from tests.commands import Run, refused, worked
from tests.corpora.conftest import Write
from tests.corpora.helpers import COMMANDS

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
    assert [str(reported) for reported in errors] == [str(error.value)]


@pytest.mark.parametrize(("text", "form", "message"), [
    ("<r>words</r>", XMLForm(), "no element holds labelled elements; there are <r>"),
    (NAMES, XMLForm("names"), "it has no <names>; there are <all>, <n>, <first>, <last>"),
    ("", XMLForm(), "The file ends before"),
    (TEI, XMLForm(nested="error"), "<name> in <author> .*nested"),
    ('<!DOCTYPE r SYSTEM "r.dtd"><r><s><a>x&deg;</a></s></r>', XMLForm(), "the entity &deg; is not defined"),
    ('<!DOCTYPE r [<!ENTITY x SYSTEM "x">]><r><s><a>&x;</a></s></r>', XMLForm("s"), "entity &x; is not defined"),
])  # fmt: skip
def test_a_file_without_sequences_is_refused(text: str, form: XMLForm, message: str, write: Write) -> None:
    with pytest.raises(FormatError, match=message):
        list(read_xml(write(text), form))


@pytest.mark.parametrize("form", [XMLForm(nested="inner"), XMLForm(other=""), XMLForm(pattern="(")])
def test_settings_that_cannot_work(form: XMLForm, write: Write) -> None:
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


STREETS = ("Main", "Oak", "East 5th")


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("xml") / "labeled.xml"
    items = [
        f"<no>{7 * i % 90}</no> <street>{STREETS[i % 3]}</street> <street>{'St.' if i % 2 else 'Ave'}</street>, "
        f"<town>{'Oslo' if i % 5 else 'New York'}</town>"
        for i in range(40)
    ]
    path.write_text("<all>\n" + "".join(f"  <address>{item}</address>\n" for item in items) + "</all>")
    return path


@pytest.fixture(scope="module")
def models(addresses: Path, run: Run) -> dict[str, Path]:
    """A tagger and an entity recognizer, each trained on nine tenths of the addresses."""
    folder = addresses.parent
    for task in ("tagger", "ner"):
        config = folder / f"{task}.cfg"
        worked(run("init-config", config, f"--task {task} --goal fast --lang en --train", addresses))
        worked(run("fit", config, "--output", folder / task), "Encoded 36 documents")
    return {task: folder / task / "model-best" for task in ("tagger", "ner")}


def test_the_config_has_reader_tokenizer_and_dev_part(addresses: Path, models: dict[str, Path], run: Run) -> None:
    nlp = spacy.load(models["tagger"])
    train, dev = (nlp.config.interpolate()["corpora"][name] for name in ("train", "dev"))
    assert train["@readers"] == "spacy_crfseq.XMLReader.v1"
    assert (train["part"], dev["part"], dev["path"], train["sequence"]) == ("train", "dev", str(addresses), "address")
    assert [(token.text, token.tag_) for token in nlp("63  Main St., Oslo")] == [
        ("63", "no"), ("Main", "street"), ("St", "street"), (".", "street"), (",", "O"), ("Oslo", "town"),
    ]  # fmt: skip
    result = worked(run("init-config", "-", "--lang en --train", addresses, "--dev", addresses))
    assert result.stdout.count('part = "all"') == 2


def test_debug_data_compares_tokens_with_the_tokenizer(addresses: Path, models: dict[str, Path], run: Run) -> None:
    def findings(*options: str) -> str:
        result = run("debug-data", addresses, "--json --no-cost --config", addresses.parent / "ner.cfg", *options)
        report = json.loads(worked(result).stdout)
        assert report["parts"]["train"]["columns"].keys() == {"ent"}
        return str(report["findings"])

    assert "tokenizer" not in findings()
    other = findings("--nlp.tokenizer.pattern", r"\S+")  # which the corpora have, too
    assert "labeled.xml: of 40 sequences, the tokenizer makes other tokens than the labels have" in other


@pytest.mark.parametrize(
    ("command", "task"),
    [
        *((command, "ner") for command in COMMANDS),
        *((command, "tagger") for command in COMMANDS if command.startswith(("evaluate", "explain", "tag "))),
    ],
)
def test_commands_read_it(
    command: str, task: str, addresses: Path, models: dict[str, Path], run: Run, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    if task == "tagger" and command.split()[0] == "explain":
        command += " -p crf_tagger"
    names: dict[str, Any] = {"M": models[task], "F": addresses}
    result = worked(run(*(names.get(word, word) for word in command.split())))
    assert "detected" not in result.stderr
    if command.endswith("tagged.jsonl"):
        assert json.loads(Path("tagged.jsonl").read_text().partition("\n")[0])["text"] == "0 Main Ave, New York"
    broken = tmp_path / "broken.xml"
    broken.write_text(addresses.read_text()[:500])
    if not command.startswith(("tag", "explain")):
        names["F"] = broken
        arguments = command.replace(" new", " other").split()
        refused(run(*(names.get(word, word) for word in arguments)), "broken.xml:7: this is not XML", silent=False)


def test_a_folder_of_files(addresses: Path, run: Run, tmp_path: Path) -> None:
    (tmp_path / "all" / "more").mkdir(parents=True)
    for name in ("a.xml", "more/b.xml"):
        (tmp_path / "all" / name).write_bytes(addresses.read_bytes())
    config = tmp_path / "c.cfg"
    worked(run("init-config", config, "--lang en --train", tmp_path / "all"))
    assert 'sequence = "address"' in config.read_text()
    report = worked(run("debug-data", tmp_path / "all", "--json --no-cost --config", config))
    counts = json.loads(report.stdout)["parts"]
    assert [counts[part]["sentences"] for part in ("train", "dev")] == [72, 8]  # as the config takes them
    assert counts["dev"]["columns"]["tag"]["labels"]["no"] == 8
    assert "Encoded 72 documents" in worked(run("fit", config, "--output", tmp_path / "out")).output
    worked(run("evaluate", tmp_path / "out/model-best", tmp_path / "all"), "accuracy: 100.00%")
    columns = tmp_path / "test.conll"  # with as many columns as an XML file
    columns.write_text("Main street B-NP O\nAda no B-NP B-PER\n\n" * 9)
    assert "detected --format conll2003" in worked(run("evaluate", tmp_path / "out/model-best", columns)).stderr
    worked(run("convert", tmp_path / "all", tmp_path / "all.conll", "--to word,tag"), "Converted 80 sentences")
    (tmp_path / "none").mkdir()
    refused(run("evaluate", tmp_path / "out/model-best", tmp_path / "none"), "there is no file in this folder")


def test_labels_and_tokens_of_a_config(run: Run, tmp_path: Path) -> None:
    path, config = tmp_path / "a.xml", tmp_path / "c.cfg"
    path.write_text("<r>" + "<s><a>V69,</a> <b>p1914.</b></s><s><a>V6,</a> <c>x y</c></s>" * 20 + "</r>")
    worked(run("init-config", config, "--lang en --rename a=one,b=one,c=O --train", path))
    labels = json.loads(worked(run("debug-data", path, "--json --no-cost --config", config)).stdout)
    assert labels["parts"]["train"]["columns"]["tag"]["labels"].keys() == {"one", "O"}
    text = config.read_text().replace('pattern = "\\\\S+"', f"pattern = {json.dumps(PARTED)}")
    config.write_text(text.replace('pattern = "\\\\w+|[^\\\\w\\\\s]"', f"pattern = {json.dumps(PARTED)}"))
    worked(run("convert", path, tmp_path / "a.txt", "--to word,tag --config", config))
    lines = (tmp_path / "a.txt").read_text().split("\n")
    assert lines[:7] == ["V one", "69 one", ", one", "p one", "1914 one", ". one", ""]
    assert lines[10:13] == ["x O", "y O", ""]
    worked(run("convert", path, tmp_path / "b.txt", "--to word,tag --rename a=one"))
    assert (tmp_path / "b.txt").read_text().startswith("V69, one\np1914. b\n")
    refused(run("convert", path, tmp_path / "d.txt", "--to word,tag --rename a"), "--rename a: give labels of XML")
    refused(run("convert", tmp_path / "a.txt", tmp_path / "e.iob", "--rename a=b"), "--rename a=b: give labels of XML")
