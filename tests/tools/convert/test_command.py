"""``crfseq convert``: every way there and back, schemes, and what it refuses."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import spacy
from spacy.tokens import Doc, DocBin, Span

from spacy_crfseq.corpora.layouts import Asked
from spacy_crfseq.errors import ConfigError, DataError, FormatError
from spacy_crfseq.tools import convert as room
from tests.commands import Run, refused, worked

IOB1 = """\
-DOCSTART- O O O

Ada NNP I-NP I-PER
Karl NNP B-NP B-PER
sees VBZ I-VP O
Oslo NNP I-NP I-LOC

it PRP I-NP O

-DOCSTART- O O O

Bo NNP I-NP I-PER
Olga NNP I-NP I-PER

"""


def docs_of(path: Path) -> list[Doc]:
    return list(DocBin().from_disk(path).get_docs(spacy.blank("xx").vocab))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in.conll"
    path.write_text(IOB1)
    return path


def convert(source: Path, target: Path, of: str | Asked, to: str, scheme: str = "IOB2", **how: Any) -> int:
    layout = room.target_layout(target, to, scheme)
    corpus = room.corpus_of(source, of if isinstance(of, Asked) else Asked(of), **how)
    return room.convert(corpus, target, layout, spacy.blank("en"), force=True)


def converted(source: Path, *layouts: Any, **how: Any) -> str:
    target = source.with_name("out.txt")
    convert(source, target, *layouts, **how)
    return target.read_text()


def test_a_split_keeps_documents_and_copies_together(run: Run, tmp_path: Path) -> None:
    marked = "".join(f"-DOCSTART- -X- -X- O\n\nA{i} NN O O\n\nB{i} NN O O\n\n" for i in range(20))
    plain = "".join(f"A{i % 12} O\n\n" for i in range(24))
    for name, text, extra in (("m", marked, "--from conll2003 --to conll2003"), ("p", plain, "--from iob --to iob")):
        (tmp_path / name).write_text(text, encoding="utf8")
        for target in ("one.conll", "two.conll"):
            result = run("convert", tmp_path / name, tmp_path / target, extra, "--split 70,15,15 --seed 3 --force")
            worked(result, str(tmp_path / target.replace(".", "-dev.")))
        words = [
            [line.split()[0] for line in (tmp_path / f"one-{part}.conll").read_text().splitlines() if line.strip()]
            for part in ("train", "dev", "test")
        ]
        assert (tmp_path / "one-train.conll").read_bytes() == (tmp_path / "two-train.conll").read_bytes()
        units = [{word[1:] for word in part if word != "-DOCSTART-"} for part in words]
        assert all(units)
        assert sum(map(len, units)) == len(set().union(*units)) == (20 if name == "m" else 12)
        assert sum(map(len, words)) >= (40 if name == "m" else 24)
    refused(run("convert", tmp_path / "p", tmp_path / "one.conll", "--from iob --to iob --split 1,1,1"), "exists")
    refused(run("convert", tmp_path / "p", tmp_path / "q", "--from iob --to iob --split 80"), "--split 80: give two or")
    refused(run("convert", tmp_path / "p", tmp_path / "q", "--from iob --to iob --split 998,1,1"), "are too few")
    worked(run("convert", tmp_path / "p", tmp_path / "b.spacy", "--from iob --split 1,1"))
    assert {path.name for path in tmp_path.glob("b*.spacy")} == {"b-train.spacy", "b-dev.spacy"}


def test_schemes(source: Path) -> None:
    assert "-DOCSTART- O O O\n\n" + converted(source, "conll2003", "conll2003", "IOB1") == IOB1
    iob2 = converted(source, "conll2003", "conll2003")
    assert iob2.splitlines()[:4] == [
        "Ada NNP B-NP B-PER", "Karl NNP B-NP B-PER", "sees VBZ B-VP O", "Oslo NNP B-NP B-LOC",
    ]  # fmt: skip
    assert "-DOCSTART- O O O\n\nBo NNP B-NP B-PER\nOlga NNP I-NP I-PER\n" in iob2
    biluo = converted(source, "conll2003", "conll2002", "BILUO")
    assert biluo.splitlines()[0] == "Ada NNP U-PER"
    assert biluo.endswith("Bo NNP B-PER\nOlga NNP L-PER\n\n")
    source.write_text(biluo)
    back = converted(source, Asked(columns="word,tag,ent", scheme="BILUO"), "iob", "IOB1")
    assert back.splitlines()[:2] == ["Ada I-PER", "Karl B-PER"]
    assert "Bo I-PER\nOlga I-PER" in back


def test_there_and_back_through_docbin(source: Path) -> None:
    binary = source.with_name("a.spacy")
    assert convert(source, binary, "conll2003", "spacy") == 3  # docs are sentences by default
    assert convert(source, binary, "conll2003", "spacy", unit="document") == 2
    first, second = docs_of(binary)
    assert [token.text for token in first] == ["Ada", "Karl", "sees", "Oslo", "it"]
    assert [sentence.text for sentence in first.sents] == ["Ada Karl sees Oslo", "it"]
    assert [(ent.text, ent.label_) for ent in first.ents] == [("Ada", "PER"), ("Karl", "PER"), ("Oslo", "LOC")]
    assert [span.label_ for span in second.spans["chunks"]] == ["NP"]
    back = converted(binary, "spacy", "conll2003", "IOB1", unit="document")
    assert "-DOCSTART- O O O\n\n" + back == IOB1
    assert "-DOCSTART-" not in converted(binary, "spacy", "conll2003")


def test_missing_entities_stay_missing(source: Path) -> None:
    source.write_text("Ada I-PER\nKarl -\nsees O\n\n")
    assert converted(source, "iob", "iob") == "Ada B-PER\nKarl -\nsees O\n\n"
    convert(source, source.with_name("a.spacy"), "iob", "spacy")
    (doc,) = docs_of(source.with_name("a.spacy"))
    assert [token.ent_iob for token in doc] == [3, 0, 2]
    assert converted(source.with_name("a.spacy"), "spacy", "iob") == "Ada B-PER\nKarl -\nsees O\n\n"


def test_white_space_tokens_are_left_out(tmp_path: Path) -> None:
    nlp = spacy.blank("xx")
    doc = Doc(nlp.vocab, words=["\n", "Ada", " ", "Byron", "sees"], ents=["O", "B-PER", "I-PER", "I-PER", "O"])
    space = Doc(nlp.vocab, words=[" "], ents=["O"])
    DocBin(docs=[doc, space]).to_disk(tmp_path / "a.spacy")
    assert converted(tmp_path / "a.spacy", "spacy", "iob") == "Ada B-PER\nByron I-PER\nsees O\n\n"


def test_invalid_tags(source: Path) -> None:
    source.write_text("Ada NNP O\nsees VBZ I-VP\n\n")
    target = source.with_name("out.txt")
    target.write_text("old")
    with pytest.raises(FormatError, match=r"in.conll:2: tag 'I-VP' may not follow 'O' in IOB2"):
        convert(source, target, "conll2000", "conll2000")
    assert target.read_text() == "old"
    assert sorted(path.name for path in source.parent.iterdir()) == ["in.conll", "out.txt"]
    assert converted(source, "conll2000", "conll2000", on_invalid="conlleval") == "Ada NNP O\nsees VBZ B-VP\n\n"
    with pytest.raises(FormatError, match=r"in.conll:2: tag 'I-VP'"):
        convert(source, source.with_name("a.spacy"), "conll2000", "spacy")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        convert(source, source.with_name("a.spacy"), "conll2000", "spacy", on_invalid="conlleval")
    (doc,) = docs_of(source.with_name("a.spacy"))
    assert [span.text for span in doc.spans["chunks"]] == ["sees"]


def test_docs_without_annotation(tmp_path: Path) -> None:
    nlp = spacy.blank("xx")
    doc = Doc(nlp.vocab, words=["Ada", "sees"], tags=["NNP", "VBZ"])
    DocBin(docs=[doc]).to_disk(tmp_path / "a.spacy")
    for target, name in (("iob", "ent"), ("conll2000", "chunk")):
        with pytest.raises(DataError, match=f"no {name} annotation"):
            converted(tmp_path / "a.spacy", "spacy", target)
    doc.spans["chunks"] = [Span(doc, 0, 1, "NP")]
    DocBin(docs=[doc]).to_disk(tmp_path / "a.spacy")
    assert converted(tmp_path / "a.spacy", "spacy", "conll2000") == "Ada NNP B-NP\nsees VBZ O\n\n"


def test_attribute_files(tmp_path: Path) -> None:
    source = tmp_path / "train.crfsuite"
    source.write_text("B-PER\tw[0]=Ada\tcap\nO\tw[0]=a\\:b\n\nO\tcap\n")
    assert converted(source, "crfsuite", "iob", "BILUO", labels="ent") == "Ada U-PER\na:b O\n\n_ O\n\n"
    assert convert(source, tmp_path / "a.spacy", "crfsuite", "spacy") == 2
    first, second = docs_of(tmp_path / "a.spacy")
    assert [token.tag_ for token in first] == ["B-PER", "O"]
    assert [list(names) for names in first._.crf_attributes] == [["w[0]=Ada", "cap"], ["w[0]=a:b"]]
    assert [list(names) for names in second._.crf_attributes] == [["cap"]]


@pytest.mark.parametrize(("layouts", "how", "message"), [
    ((Asked(columns="word,net"), "iob"), {}, "unknown column 'net'. Did you mean 'ent'"),
    ((Asked(columns="tag,ent"), "iob"), {}, "among them 'word'"),
    ((Asked(columns="word,tag"), "iob"), {}, "columns can become: spacy"),
    (("conll2003", "crfsuite"), {}, "attribute files hold extracted features"),
    (("crfsuite", "iob"), {"labels": "pos"}, "--labels pos"),
    (("conll2004", "spacy"), {}, "--format conll2004: unknown. Did you mean"),
    (("conll2003", "conllu"), {}, "--to conllu: unknown"),
    (("conll2003", "word,net"), {}, "unknown column 'net'. Did you mean 'ent'"),
    (("conll2003", "iob", "IOB3"), {}, "--to-scheme IOB3"),
    (("conll2003", "spacy", "IOBES"), {}, "--to-scheme IOBES: only columns have tags of a scheme"),
    ((Asked("crfsuite", scheme="x"), "iob"), {}, "--scheme x"),
    (("conll2003", "spacy"), {"unit": "text"}, "--unit text"),
    (("conll2003", "spacy"), {"on_invalid": "skip"}, "--on-invalid skip"),
    (("iob", "conll2002"), {}, "hold the columns tag, which iob files do not. iob can become: spacy, iob"),
    (("spacy", "spacy"), {}, "only copy"),
])  # fmt: skip
def test_refused_settings(layouts: Any, how: dict[str, str], message: str, source: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        converted(source, *layouts, **how)


def test_command(run: Run, source: Path, tmp_path: Path) -> None:
    target = source.parent / "new" / "out.iob"
    worked(
        run("convert", source, target, "--from conll2003 --to iob --to-scheme BILUO"),
        f"Converted 3 sentences: {target}",
    )
    assert target.read_text().startswith("Ada U-PER\n")
    for path, layout, message in (
        (source, "conll2000", "in.conll:3: 3 columns expected"),
        (tmp_path / "none", "conll2000", "none: no such file"),
        (tmp_path / "none", "spacy", "none: no such file"),
        (source, "spacy", "not a file in spaCy's binary format"),
    ):
        refused(run("convert", path, tmp_path / "out", "--from", layout, "--to conll2000"), message)
    assert not (tmp_path / "out").exists()


def test_layouts_come_from_endings_and_first_lines(run: Run, source: Path) -> None:
    target = source.with_name("out.iob")
    result = worked(run("convert", source, target), f"Converted 3 sentences: {target}")
    assert "in.conll: detected --format conll2003 (word tag chunk ent; tags in IOB1 or IOB2)." in result.stderr
    assert target.read_text().startswith("Ada B-PER\n")
    worked(run("convert", source, source.with_name("a.spacy"), "--columns word,tag,_,ent --scheme IOB1"))
    again = worked(run("convert", source.with_name("a.spacy"), target, "--force"))
    assert again.stderr == ""
    assert target.read_text().startswith("Ada B-PER\n")
    refused(
        run("convert", source, source.with_name("out.txt")),
        "out.txt: no layout that can be written has the ending '.txt'. Give --to",
    )
    worked(run("convert", source, source.with_name("own.conll"), "--columns word,tag,_,ent --scheme IOB1"))
    assert source.with_name("own.conll").read_text().splitlines()[0].split()[::2] == ["Ada", "B-PER"]
    worked(run("convert", source.with_name("a.spacy"), source.with_name("b.conll")))
    assert source.with_name("b.conll").read_text().splitlines()[:2] == ["Ada NNP B-PER", "Karl NNP B-PER"]
    DocBin(docs=[Doc(spacy.blank("xx").vocab, words=["Ada"])]).to_disk(source.with_name("bare.spacy"))
    refused(
        run("convert", source.with_name("bare.spacy"), source.with_name("c.conll")),
        "bare.spacy: no column is annotated in all Docs. Annotate them, or give --to.",
    )
    latin = source.with_name("latin.iob")
    latin.write_bytes("Zoë B-PER\n\n".encode("latin-1"))
    refused(run("convert", latin, source.with_name("b.spacy"), "--from iob"), "give --encoding latin-1")
    worked(run("convert", latin, source.with_name("b.spacy"), "--from iob --encoding latin-1"))


def test_spans_across_the_ends_of_sentences_are_cut_there(tmp_path: Path) -> None:
    """As `tag` writes them."""
    doc = Doc(spacy.blank("en").vocab, words=["Ada", "King", "Bo"], sent_starts=[True, True, False])
    doc.ents = [Span(doc, 0, 2, "PER"), Span(doc, 2, 3, "PER")]
    DocBin(docs=[doc]).to_disk(tmp_path / "a.spacy")
    assert converted(tmp_path / "a.spacy", "spacy", "iob") == "Ada B-PER\n\nKing B-PER\nBo B-PER\n\n"


def test_weights_of_sentences(tmp_path: Path) -> None:
    (tmp_path / "a.conll").write_text("Ada B-PER 2\nsings O _\n\nBo B-PER 1\n\n")
    convert(tmp_path / "a.conll", tmp_path / "a.spacy", Asked(columns="word,ent,weight"), "spacy")
    docs = DocBin(store_user_data=True).from_disk(tmp_path / "a.spacy").get_docs(spacy.blank("en").vocab)
    assert [doc._.crf_weight for doc in docs] == [2, 1]
    assert (
        converted(tmp_path / "a.conll", Asked(columns="word,ent,weight"), "iob") == "Ada B-PER\nsings O\n\nBo B-PER\n\n"
    )


def test_columns_that_lose_labels_in_doubt_are_warned_of(tmp_path: Path) -> None:
    """A place with two labels is unknown in columns, whether it comes from spans or from Docs with candidates."""
    spans = '{"text": "Ada ran.", "entities": [[0, 3, "PER"], [0, 3, "ORG"]]}\n'
    (tmp_path / "a.jsonl").write_text(spans, encoding="utf8")
    for source, target, lossy in (
        ("a.jsonl", "b.spacy", False),
        ("a.jsonl", "c.conll", True),
        ("b.spacy", "d.conll", True),
    ):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            convert(tmp_path / source, tmp_path / target, Asked(), "spacy" if target == "b.spacy" else "word,ent")
        said = [str(warning.message) for warning in caught]
        assert any("labels in 1 text; a file .spacy keeps them" in text for text in said) == lossy
        if lossy:
            assert (tmp_path / target).read_text("utf8").split() == ["Ada", "-", "ran", "O", ".", "O"]


def test_sentences_in_which_a_pattern_matches_begin_documents(run: Run, tmp_path: Path) -> None:
    texts = ["Oslo , 25 may ( EFE ) .", "Bo sees Ada .", "It rains .", "By Olga Roma , 3 jun ( EFE ) .", "Ada ."]
    plain, marked, docs = (tmp_path / name for name in ("plain.conll", "marked.conll", "docs.spacy"))
    plain.write_text("\n\n".join("\n".join(f"{word} O" for word in text.split()) for text in texts) + "\n")
    asked = ["--columns word,ent", "--document-start", r"\d+ \w+ \( EFE"]
    worked(run("convert", plain, marked, *asked))
    assert marked.read_text() == plain.read_text().replace("By O", "-DOCSTART- O\n\nBy O") + "\n"
    worked(run("convert", plain, docs, *asked, "--unit document"))
    assert [doc.text.strip() for doc in docs_of(docs)] == [" ".join(texts[:3]), " ".join(texts[3:])]
    worked(run("convert", marked, tmp_path / "more.conll", "--columns word,ent", "--document-start", "rains"))
    assert (tmp_path / "more.conll").read_text().count("-DOCSTART-") == 2  # with the one that is there


@pytest.mark.parametrize(
    ("target", "options", "message"),
    [
        ("out.conll", ["--document-start", "("], "no regular expression: missing ), unterminated subpattern"),
        ("out.conll", ["--document-start", "Lima"], "'Lima' matches in no sentence of"),
        ("out.spacy", ["--document-start", "Ada"], "Give --unit document, too"),
    ],
)
def test_a_pattern_of_documents_that_does_nothing_is_refused(
    run: Run, source: Path, target: str, options: list[str], message: str
) -> None:
    refused(run("convert", source, source.with_name(target), "--from conll2003", *options), message)
    assert not source.with_name(target).exists()


def test_a_file_that_cannot_be_read_is_not_said_to_lack_what_a_pattern_asks_for(run: Run, tmp_path: Path) -> None:
    (tmp_path / "two.conll").write_text("Ada B-PER\nran O\n")
    result = run("convert", tmp_path / "two.conll", tmp_path / "out.conll", "--from conll2002 --document-start Ada")
    refused(result, "3 columns expected")


def test_docs_are_documents_already(run: Run, source: Path, tmp_path: Path) -> None:
    worked(run("convert", source, tmp_path / "docs.spacy", "--from conll2003"))
    result = run(
        "convert", tmp_path / "docs.spacy", tmp_path / "out.conll", "--to conll2003", "--document-start", "Ada"
    )
    refused(result, "--document-start is for columns and CoNLL-U")
