"""Models that know attributes only, as CRFsuite's do: commands read these from DocBins that `convert` has made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import spacy
from spacy.tokens import DocBin

from spacy_crfseq.features.noted import KEY
from tests.commands import NAMES, PLACES, Run, refused, worked, write_attributes

READER = """@readers = "spacy_crfseq.CRFsuiteReader.v1"
path = ${{paths.{part}}}
column = "chunk"
"""
FEATURES = """[components.crf_chunker.features]
@crf_features = "spacy_crfseq.Templates.v1"
templates = ["GIVEN[0]", "GIVEN[-1]"]

[components.crf_chunker.features.token_functions]

[components.crf_chunker.features.token_functions.GIVEN]
@crf_features = "spacy_crfseq.Attributes.v1"
"""


@pytest.fixture(scope="module")
def folder(corpus: Any, run: Run, configure: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model trained on a file of CRFsuite's, and such a file as a DocBin, half of it annotated by nobody."""
    folder = tmp_path_factory.mktemp("attributes")
    for name, source in corpus._asdict().items():
        write_attributes(source, folder / f"{name}.crfsuite")
    config = configure(folder / "c.cfg", "crf_chunker", components=FEATURES)
    text = config.read_text()
    head, _, rest = text.partition("[corpora]")
    config.write_text(
        f"{head}[corpora]\n[corpora.train]\n{READER.format(part='train')}\n[corpora.dev]\n"
        f"{READER.format(part='dev')}\n[training]{rest.partition('[training]')[2]}"
    )
    paths = ["--paths.train", folder / "train.crfsuite", "--paths.dev", folder / "dev.crfsuite"]
    worked(run("fit", config, "--output", folder / "out", *paths))
    worked(run("convert", folder / "dev.crfsuite", folder / "dev.spacy", "-f crfsuite -t spacy --labels chunk"))
    return folder


@pytest.mark.parametrize("command", [
    "report {model} {file} -o {out}/page.html",
    "compare {model} {model} {file}",
    "explain {model} {file} --limit 2",
    "top {model} --texts {file}",
    "tag {model} {file} -o {out}",
    "show {model} {file} -o {out}/page.html",
    "active {model} {file} -n 3",
])  # fmt: skip
def test_commands(run: Run, folder: Path, tmp_path: Path, command: str) -> None:
    model, file = folder / "out" / "model-best", folder / "dev.spacy"
    worked(run(*command.format(model=model, file=file, out=tmp_path).split()))


def test_the_attributes_are_the_files(run: Run, folder: Path, tmp_path: Path) -> None:
    model = folder / "out" / "model-best"
    scores = json.loads(run("report", model, folder / "dev.spacy", "-o", tmp_path / "p.html", "--json").stdout)
    log = [json.loads(line) for line in (folder / "out" / "log.jsonl").read_text().splitlines()]
    best = max(entry["score"] for entry in log)
    assert scores["crf_chunker"]["all"]["f1"]["value"] == pytest.approx(best, abs=1e-4)
    assert run("tag", model, folder / "dev.spacy", "-o", tmp_path, "--to spacy").exit_code == 0
    docs = list(DocBin().from_disk(tmp_path / "dev-00001.spacy").get_docs(spacy.blank("xx").vocab))
    assert all(len(doc.user_data[KEY]) == len(doc) for doc in docs)
    assert list(docs[0].spans["chunks"])


BLOCK = """
[components.crf_ner.features]
@crf_features = "spacy_crfseq.Templates.v1"
templates = ["SHAPE[0]"]
[components.crf_ner.attributes]
[components.crf_ner.attributes.classes]
@crf_attributes = "spacy_crfseq.WordClasses.v1"
"""


def test_a_model_needs_no_file(train_on: Run, run: Run, tmp_path: Path) -> None:
    paths = {"001010": NAMES, "001011": [*PLACES, "Reykjavik"], "1": ["the", "a", "in"]}
    file = tmp_path / "classes.txt"
    file.write_text("".join(f"{path}\t{word.lower()}\t1\n" for path, words in paths.items() for word in words))
    block = f'{BLOCK}path = "{file}"\nprefixes = [4, 0]\ntemplates = ["CLASSES[0]", "CLASSES4[-1]|SHAPE[0]"]\n'
    worked(train_on("fit", "crf_ner", components=block))
    file.unlink()
    model = tmp_path / "out" / "model-best"
    explained = worked(run("explain", model, "Ada sees a dog in Reykjavik .", "-p crf_ner --token Reykjavik"))
    assert "LOC" in explained.stdout
    assert "CLASSES[0]=001011" in explained.stdout
    assert "CLASSES4[-1]|SHAPE[0]=1|Xxxxx" in explained.stdout
    worked(run("top", model), "CLASSES[0]=001010")


@pytest.mark.parametrize(
    ("settings", "parts"),
    [
        ('path = "none.txt"', ["none.txt", "no such file"]),
        ('lookups = "qq"', ["'qq'", "spacy-lookups-data"]),
        ('path = "a.txt"\ntemplates = ["OTHER[0]"]', ["'OTHER[0]'", "CLASSES10"]),
    ],
)
def test_classes_that_cannot_be_used(train_on: Run, settings: str, parts: list[str]) -> None:
    refused(train_on("fit", "crf_ner", components=BLOCK + settings + "\n"), *parts, silent=False)
