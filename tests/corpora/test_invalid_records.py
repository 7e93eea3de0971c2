"""Records that cannot be read: the first is named and the others are counted, in every format, or all are left out."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Doc, DocBin

from spacy_crfseq.corpora.guessing import find_layout
from spacy_crfseq.corpora.layouts import Asked
from spacy_crfseq.corpora.spans.tables import INSTALL
from spacy_crfseq.errors import FormatError
from spacy_crfseq.pipeline.gold_file import read_gold
from spacy_crfseq.pipeline.readers import (
    create_annotation_reader,
    create_conll_reader,
    create_conllu_reader,
    create_crfsuite_reader,
    create_text_reader,
    create_xml_reader,
)
from tests.commands import Run, refused, worked

GOOD = '{"text": "Ada ran", "entities": [[0, 3, "PER"]]}'
BAD = '{"text": "Bo ran", "entities": [[0, 2]]}', '{"text": 7}'
LINES = {
    "a.jsonl": f"{GOOD}\n{BAD[0]}\n{BAD[1]}\n{GOOD}\n",
    "a.json": f"[{GOOD},\n{BAD[0]},\n{BAD[1]},\n{GOOD}]",
    "a.conll": "Ada B-PER\nran O\n\nBo B-PER 7\n\nshe\n\nAda B-PER\n",
    "pos.conll": "Ada PROPN O\n\nBo NAME O\n\nran NAME O\n\nAda PROPN O\n",
    "weights.conll": "Ada 1 O\n\nBo -1 O\n\nran x O\n\nAda 2 O\n",
    "tags.conll": "Ada U-PER\n\nBo I-PER\n\nran I-PER\n\nAda U-PER\n",
    "a.conllu": "1\tAda\t_\tPROPN\t_\t_\t0\troot\t_\t_\n\n1\tBo\t_\tNAME\t_\t_\t0\troot\t_\t_\n\n"
    "2\tBo\t_\tPROPN\t_\t_\t0\troot\t_\t_\n\n1\tAda\t_\tPROPN\t_\t_\t0\troot\t_\t_\n",
    "a.crfsuite": "A\tw[0]=Ada\n\nA\tw[0]=Bo\tw[0]=Bo\n\nA:x\tw[0]=ran\n\nA\tw[0]=Ada\n",
    "a.xml": "<all>\n<s><per>Ada</per></s>\n<s>Bo</s>\n<s></s>\n<s><per>Ada</per></s></all>",
    "raw.jsonl": '{"text": "Ada"}\n{"text": 1}\n{}\n{"text": "Ada"}\n',
}  # fmt: skip
"""Files of two good records around two bad ones."""
CREATE: dict[str, Callable[..., Any]] = {
    "a.jsonl": create_annotation_reader,
    "a.json": create_annotation_reader,
    "a.parquet": create_annotation_reader,
    "brat": lambda path, **also: create_annotation_reader(path, format="brat", **also),
    "webanno.tsv": lambda path, **also: create_annotation_reader(path, format="webanno", **also),
    "a.conll": lambda path, **also: create_conll_reader(path, ["word", "ent"], **also),
    "pos.conll": lambda path, **also: create_conll_reader(path, ["word", "pos", "ent"], **also),
    "weights.conll": lambda path, **also: create_conll_reader(path, ["word", "weight", "ent"], **also),
    "tags.conll": lambda path, **also: create_conll_reader(path, ["word", "ent"], "BILUO", **also),
    "a.conllu": create_conllu_reader,
    "a.crfsuite": create_crfsuite_reader,
    "a.xml": lambda path, **also: create_xml_reader(path, "s", **also),
    "raw.jsonl": create_text_reader,
    "folder": create_annotation_reader,
    "raw/": create_text_reader,
}
FIRST = {"brat": "1.ann:1", "a.conll": "a.conll:4", "pos.conll": "pos.conll:3", "weights.conll": "weights.conll:3",
         "tags.conll": "tags.conll:3", "a.conllu": "a.conllu:3", "a.crfsuite": "a.crfsuite:3", "a.xml": "a.xml:3",
         "webanno.tsv": "webanno.tsv:6", "folder": "b.jsonl:1", "raw/": "b.jsonl:1"}  # fmt: skip
WEBANNO = "#FORMAT=WebAnno TSV 3.3\n#T_SP=x.NamedEntity|identifier|value\n\n"


@pytest.fixture
def make(tmp_path: Path) -> Callable[[str], Path]:
    def written(name: str) -> Path:
        path = tmp_path / name
        if name in LINES:
            path.write_text(LINES[name], encoding="utf8")
        elif name == "brat":
            path.mkdir()
            spans = ("T1\tPER 0 3\tAda\n", "T1 PER 0 3 Ada\n", "T1\tPER x 3\tAda\n", "T1\tPER 0 3\tAda\n")
            for i, line in enumerate(spans):
                (path / f"{i}.ann").write_text(line)
                (path / f"{i}.txt").write_text("Ada ran")
        elif name == "webanno.tsv":
            token, short = "{0}-1\t0-3\tAda\t_\tPER\n\n", "{0}-1\t0-3\tAda\t_\n{0}-2\t4-5\tx\t_\tPER\n\n"
            path.write_text(WEBANNO + "".join(row.format(i) for i, row in enumerate((token, short, short, token), 1)))
        elif name == "a.parquet":
            pyarrow = pytest.importorskip("pyarrow", reason=INSTALL)
            from pyarrow import parquet

            rows = [{"tokens": ["Ada"], "ner_tags": [tag]} for tag in ("B-PER", "?", "?", "B-PER")]
            parquet.write_table(pyarrow.Table.from_pylist(rows), path)
        elif name in ("folder", "raw/"):  # an error in two files
            path.mkdir()
            for file, text in (("a", GOOD), ("b", "{}"), ("c", BAD[1]), ("d", GOOD)):
                (path / f"{file}.jsonl").write_text(f"{text}\n")
        return path

    return written


@pytest.mark.parametrize("name", CREATE)
def test_the_first_bad_record_is_named_and_the_others_are_counted(name: str, make: Any, nlp: Language) -> None:
    path = make(name)
    with pytest.raises(FormatError) as raised:
        list(CREATE[name](path)(nlp))
    message = str(raised.value)
    assert FIRST.get(name, f"{name}:2") in message
    assert "1 more error. The command debug-data lists them by reason." in message
    assert "--skip-invalid, in a config skip_invalid = true" in message


@pytest.mark.parametrize("name", CREATE)
def test_bad_records_are_left_out_with_a_count_if_that_is_asked_for(name: str, make: Any, nlp: Language) -> None:
    path = make(name)
    with pytest.warns(UserWarning, match="2 errors, left out with what cannot be read") as caught:
        examples = list(CREATE[name](path, skip_invalid=True)(nlp))
    assert [example.reference[0].text for example in examples] == ["Ada", "Ada"]
    assert FIRST.get(name, f"{name}:2") in str(caught[0].message)


def test_a_second_pass_over_a_corpus_does_not_repeat_its_warnings(make: Any, nlp: Language) -> None:
    path, wrong = make("a.jsonl"), GOOD.replace("0, 3", "1, 3")
    path.write_text(f"{GOOD}\n{BAD[1]}\n{wrong}\n{GOOD}\n")
    reader = create_annotation_reader(path, skip_invalid=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        list(reader(nlp))
        list(reader.stream(nlp))
        list(reader.sentences(nlp))
    assert len(caught) == 2


def test_damaged_docs_of_a_docbin_are_counted_or_left_out(nlp: Language, tmp_path: Path) -> None:
    path, docs = tmp_path / "a.spacy", [nlp.make_doc(text) for text in ("Ada ran", "Bo", "she", "Al", "Ada")]
    for doc in docs:
        doc.set_ents([])
    binary = DocBin(docs=docs, store_user_data=True)
    binary.user_data[1] = binary.user_data[3] = b"\xc1"
    binary.to_disk(path)
    layout = find_layout(path, Asked(skip_invalid=False)).layout
    with pytest.raises(FormatError, match=r"a.spacy:2: this Doc is damaged.* 1 more error\..*--skip-invalid"):
        read_gold(nlp, path, layout)
    with pytest.warns(UserWarning, match="2 errors, left out"):
        gold = read_gold(nlp, path, layout._replace(skip_invalid=True))
    assert [example.reference.text.strip() for example in gold.examples] == ["Ada ran", "she", "Ada"]


def test_a_file_of_which_nothing_can_be_read_is_an_error_all_the_same(nlp: Language, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(f"{BAD[0]}\n{BAD[1]}\n")
    with pytest.raises(FormatError, match=r"a.jsonl:1: .* 1 more error"):
        list(create_annotation_reader(path, skip_invalid=True)(nlp))


ENDS = {
    "cut.json": f"[{GOOD},\n{{]",
    "cut.xml": "<all><s><per>Ada</per></s>\n<s><per>Bo</s></all>",
    "lines.json": f'[{GOOD},\n{{"text": "B\udcff"}}]',
}
"""Files with an error behind which nothing can be read, or not for certain."""


@pytest.mark.parametrize("name", ENDS)
def test_the_rest_of_a_broken_file_is_never_left_out(name: str, nlp: Language, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(ENDS[name].encode("utf8", "surrogateescape"))
    create: Any = create_xml_reader if path.suffix == ".xml" else create_annotation_reader
    with pytest.raises(FormatError) as raised:
        list(create(path, skip_invalid=True)(nlp))
    assert f"{name}:2" in str(raised.value)
    assert "skip" not in str(raised.value)


NO_TEXT = {
    "random": bytes((7 * i * i + i // 3) % 256 for i in range(1, 5000)),
    "zip": b"PK\x03\x04" + bytes(100),
    "pdf": b"%PDF-1.4\n\xe2\xe3",
    "gzip": b"\x1f\x8b\x08\x00\xff",
    "docbin": b"x\x9c\xff\xfe",
}


@pytest.mark.parametrize("ending", [".jsonl", ".conll", ".txt"])
@pytest.mark.parametrize("name", NO_TEXT)
def test_bytes_that_are_no_text_are_not_called_an_encoding(
    name: str, ending: str, nlp: Language, tmp_path: Path
) -> None:
    path = tmp_path / f"a{ending}"
    path.write_bytes(NO_TEXT[name])
    create: Any = {".jsonl": create_annotation_reader, ".txt": create_text_reader}.get(ending, create_conll_reader)
    with pytest.raises(FormatError) as raised:
        list(create(path)(nlp))
    assert str(raised.value).startswith(f"{path}: this ")
    assert "cp1252" not in str(raised.value)
    assert "more error" not in str(raised.value)


@pytest.mark.parametrize("text", ["caf\xe9 O\n", "\u201cna\xefve\u201d O\n\n", "\tA\x0c O\n"])
def test_texts_in_encodings_of_one_byte_keep_their_advice(text: str, nlp: Language, tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_bytes((text * 50).encode("cp1252") + b"\xe9 O\n")
    with pytest.raises(FormatError, match=r"looks like (cp1252|latin-1)"):
        list(create_conll_reader(path, ["word", "ent"])(nlp))


# Commands


COMMANDS = [
    "evaluate M F", "report M F -o page.html --samples 9", "calibrate M F --recall 0.2 -o new", "convert F new.spacy",
    "init-config new.cfg --train F --dev F --lang xx --task ner", "active M F",
    "explain M F --limit 1 -t 0", "word-classes F -o words.tsv --sizes 2 --min-count 1",
    "weigh F --target F -o weighed.spacy", "propose-features M F -o features.txt",
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_counts_bad_records_and_goes_on_without_them_if_asked(
    command: str, run: Run, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.jsonl").write_text(f"{GOOD}\n{{}}\n{{\n" + f"{GOOD.replace('ran', 'ran home')}\n" * 3, encoding="utf8")
    words = command.replace("M", str(model)).replace("F", "a.jsonl").split()
    result = run(*words)
    refused(result, "a.jsonl:2:", "1 more error", "debug-data", "--skip-invalid", silent=False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = run(*words, "--skip-invalid")
    assert worked(result)
    assert any("2 errors, left out" in str(warning.message) for warning in caught)


def test_debug_data_counts_all_errors_and_fails_unless_they_are_left_out(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(f"{GOOD}\n" + "{}\n" * 30, encoding="utf8")
    result = run("debug-data", str(path))
    assert result.exit_code == 1
    assert [line for line in range(2, 32) if f"a.jsonl:{line}:" in result.stdout] == [2, 3, 4]
    assert "... and 27 more for this reason" in result.stdout
    assert "FAIL" in result.stdout
    result = run("debug-data", str(path), "--skip-invalid")
    assert result.exit_code == 0
    assert "left out (skip_invalid)" in result.stdout


@pytest.mark.parametrize("as_dev", [False, True])
@pytest.mark.parametrize("text", ["{}\n" * 2, '{"text": "Ada sings."}\n' * 2 + "{}\n", '{"text": "Ada sings."}\n'])
def test_debug_data_fails_where_nothing_is_read_though_errors_are_left_out(
    text: str, as_dev: bool, run: Run, tmp_path: Path
) -> None:
    path, good = tmp_path / "a.jsonl", tmp_path / "good.jsonl"
    path.write_text(text, encoding="utf8")
    good.write_text(f"{GOOD}\n", encoding="utf8")
    files = [str(good), "--dev", str(path)] if as_dev else [str(path)]
    result = run("debug-data", *files, "--skip-invalid")
    assert result.exit_code == 1
    assert f"FAIL {path}:" in result.stdout
    assert "no annotated text" in result.stdout
    assert "is left out (skip_invalid)" not in result.stdout


@pytest.mark.parametrize("name", ["pos.conll", "weights.conll"])
def test_debug_data_lists_values_of_columns_that_cannot_be_read(name: str, run: Run, make: Any) -> None:
    result = run("debug-data", str(make(name)), "--columns", f"word,{name.split('.')[0].rstrip('s')},ent"
                 .replace(",po,", ",pos,"))  # fmt: skip
    assert f"{name}:3:" in result.stdout
    assert f"{name}:5:" in result.stdout


def test_a_config_of_init_config_says_that_records_are_left_out(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(f"{GOOD}\n{{}}\n", encoding="utf8")
    with pytest.warns(UserWarning, match="1 error, left out"):
        result = run("init-config", "-", "--train", str(path), "--lang", "xx", "--skip-invalid")
    assert "skip_invalid = true" in result.stdout
    binary = tmp_path / "a.spacy"
    DocBin(docs=[Doc(spacy.blank("xx").vocab, words=["a"], ents=["B-X"])]).to_disk(binary)
    refused(run("init-config", "-", "--train", str(binary), "--skip-invalid"), "--skip-invalid", "convert")
