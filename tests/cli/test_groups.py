"""``--group``: texts of a source, a document or a file are in one fold, and in one part of a split."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import spacy
from spacy.tokens import DocBin
from spacy.util import registry
from thinc.api import Config

from spacy_crfseq.cli.fit import cross_validate
from spacy_crfseq.corpora.layouts import Asked
from spacy_crfseq.errors import FormatError
from spacy_crfseq.tools.init_config import Wanted, complete, init_config
from tests.commands import Corpus, Run, refused, worked

TEXTS = [(f"Ada{i} saw Oslo{i % 7}", f"bank{i % 5}") for i in range(40)]
"""Texts, and the banks that they come from."""
Made = Callable[[Path], tuple[str, str]]
"""Writes a corpus, and returns its path and what is its reader in a config."""


def of_column(folder: Path) -> tuple[str, str]:
    rows = [
        f"{word} {'B-PER' if not i else 'O'} {bank if not i else '_'}\n" if word else "\n"
        for text, bank in TEXTS
        for i, word in enumerate([*text.split(), ""])
    ]
    (folder / "a.conll").write_text("".join(rows))
    return "a.conll", '@readers = "spacy_crfseq.ConllReader.v1"\ncolumns = ["word", "ent", "group"]'


def of_key(folder: Path) -> tuple[str, str]:
    spans = [[{"start": 0, "end": text.index(" "), "label": "PER"}] for text, _ in TEXTS]
    pairs = zip(TEXTS, spans, strict=True)
    records = [{"text": text, "spans": own, "meta": {"bank": bank}} for (text, bank), own in pairs]
    (folder / "a.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return "a.jsonl", '@readers = "spacy_crfseq.AnnotationReader.v1"'


def of_document(folder: Path) -> tuple[str, str]:
    by_bank = sorted(TEXTS, key=lambda pair: pair[1])
    text = ""
    for i, (words, bank) in enumerate(by_bank):
        text += "-DOCSTART- O\n\n" if not i or bank != by_bank[i - 1][1] else ""
        text += "".join(f"{word} {'O' if j else 'B-PER'}\n" for j, word in enumerate(words.split())) + "\n"
    (folder / "a.conll").write_text(text)
    return "a.conll", '@readers = "spacy_crfseq.ConllReader.v1"\ncolumns = ["word", "ent"]'


def of_file(folder: Path) -> tuple[str, str]:
    for bank in sorted({bank for _, bank in TEXTS}):
        rows = [f"{word} {'O' if i else 'B-PER'}\n" if word else "\n" for text, of in TEXTS if of == bank
                for i, word in enumerate([*text.split(), ""])]  # fmt: skip
        (folder / f"{bank}.iob").write_text("".join(rows))
    return "*.iob", '@readers = "spacy_crfseq.ConllReader.v1"\ncolumns = ["word", "ent"]'


def of_comment(folder: Path) -> tuple[str, str]:
    text = ""
    for words, bank in TEXTS:
        rows = [f"{i}\t{w}\t_\tX\tN\t_\t0\tdep\t_\t_\n" for i, w in enumerate(words.split(), 1)]
        text += f"# bank = {bank}\n{''.join(rows)}\n"
    (folder / "a.conllu").write_text(text)
    return "a.conllu", '@readers = "spacy_crfseq.ConlluReader.v1"'


def write_config(path: str, reader: str, factory: str = "crf_ner") -> None:
    corpora = "".join(f'[corpora.{part}]\n{reader}\npath = "{path}"\n' for part in ("train", "dev"))
    Path("c.cfg").write_text(
        f'[nlp]\nlang = "xx"\npipeline = ["{factory}"]\n[components]\n[components.{factory}]\nfactory = "{factory}"\n'
        f"[corpora]\n{corpora}[training]\nseed = 1\n"
    )


CASES = [(of_column, "group"), (of_key, "bank"), (of_document, "document"), (of_file, "file"), (of_comment, "bank")]
IDS = ["column", "key of JSON", "document", "file", "comment of CoNLL-U"]
BANK_OF = dict(TEXTS)


def banks_in(texts: Any) -> set[str]:
    return {BANK_OF[text.strip()] for text in texts}


@pytest.mark.parametrize(("made", "group"), CASES, ids=IDS)
def test_no_group_is_in_two_folds(made: Made, group: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path, reader = made(tmp_path)
    write_config(path, reader, "crf_tagger" if made is of_comment else "crf_ner")
    folds = cross_validate(Path("c.cfg"), 3, group=group)
    held = [banks_in(example.reference.text for example in fold.held_out) for fold in folds]
    assert sum(map(len, held)) == len(set.union(*held)) == 5
    assert sum(len(fold.held_out) for fold in folds) == len(TEXTS)


@pytest.mark.parametrize("target", ["b.spacy", "b.conll"])
@pytest.mark.parametrize(("made", "group"), CASES, ids=IDS)
def test_no_group_is_in_two_parts_of_a_split(
    made: Made, group: str, target: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path, _ = made(tmp_path)
    tag = "tag" if made is of_comment else "ent"
    layout = f"--columns word,ent{',group' if made is of_column else ''}" if path.endswith(("conll", "iob")) else ""
    options = [
        layout,
        f"--to word,{tag}" if target.endswith("conll") else "",
        f"--lang xx --split 60,20,20 --group {group}",
    ]
    options = [option for option in options if option]
    worked(run("convert", path, target, *options))
    parts = []
    for part in ("train", "dev", "test"):
        file = Path(f"b-{part}{Path(target).suffix}")
        if file.suffix == ".spacy":
            texts = [doc.text for doc in DocBin().from_disk(file).get_docs(spacy.blank("xx").vocab)]
        else:
            blocks = file.read_text().split("\n\n")
            texts = [" ".join(row.split()[0] for row in block.splitlines()) for block in blocks]
        parts.append(banks_in(text for text in texts if text.strip() and "DOCSTART" not in text))
    assert sum(map(len, parts)) == len(set.union(*parts)) == 5


@pytest.mark.parametrize("settings", ['unit = "passage"', "joined = 0.5", 'unit = "document"', ""])
def test_a_text_without_a_group_is_named_by_its_file_and_line(settings: str, tmp_path: Path) -> None:
    """However sentences are joined, and whatever the path is."""
    path, reader = of_column(tmp_path)
    config = Config().from_str(f'[r]\n{reader}\npath = "{tmp_path}/*.conll"\ngroup = "source"\n{settings}')
    with pytest.raises(FormatError, match=f"/{path}:1: this text has no group 'source'"):
        list(registry.resolve(config)["r"](spacy.blank("xx")))


def test_init_config_reads_the_column_of_groups(tmp_path: Path) -> None:
    path, _ = of_column(tmp_path)
    settings = complete(Wanted(task="ner", layout=Asked(columns="word,ent,group"), train=tmp_path / path))
    config = Config().from_str(init_config(settings))
    assert config["corpora"]["train"]["columns"] == ["word", "ent", "group"]


def test_groups_of_docs_are_kept_in_a_docbin(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    of_column(tmp_path)
    worked(run("convert", "a.conll", "b.spacy", "--columns word,ent,group --split 1,1 --group group"))
    again = worked(run("convert", "b-train.spacy", "c.conll", "--to word,ent --split 1,1 --group crf_group"))
    assert "Converted" in again.output


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("convert a.conll b.conll --columns word,ent,group --to word,ent --split 1,1 --group source",
         "a.conll:1: this text has no group 'source'. It can be one of: ent, group, document, file"),
        ("convert a.conll b.conll --columns word,ent,group --to word,ent --group group", "give --split SHARES"),
        ("convert a.conll b.conll --columns word,ent,group --to word,ent --split 1,1 --group file", "are too few"),
        ("fit c.cfg --group group -o training", "give --cross-validate K"),
        ("fit c.cfg --group group", "give --cross-validate K"),
        ("fit c.cfg --group group --cross-validate 2 --corpora.train.columns [\"word\",\"ent\",\"_\"]",
         "a.conll:1: this text has no group 'group'. It can be one of: ent, document, file. For a column of the file, "
         "name it in the setting columns of the reader"),
        ("fit c.cfg --group source --cross-validate 2", "a.conll:1: this text has no group 'source'"),
    ],
)  # fmt: skip
def test_groups_that_cannot_be(
    command: str, message: str, run: Run, corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path, reader = of_column(tmp_path)
    write_config(path, reader)
    refused(run(*command.split()), message, silent=False)
