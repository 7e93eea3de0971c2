"""``crfseq convert`` with the trained model of another program as input."""

from __future__ import annotations

from pathlib import Path

import pytest
import spacy

from tests.cli.conftest import Run, refused, worked

CODE = """
from spacy_crfseq import registry

@registry.features("tests.converted.v1")
def create():
    return word2features

def word2features(sentence, i):
    word = str(sentence[i])
    return {"word": word, "length": len(word) / 10, "title": word.istitle()}
"""
WAPITI = "#mdl#2#2\n#rdr#1/0/0\n11:u:w=%x[0,0],\n#qrk#2\n1:A,\n1:B,\n#qrk#1\n5:u:w=x,\n1=0x1p+2\n0=0x1p+1\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pycrfsuite = pytest.importorskip("pycrfsuite")
    (tmp_path / "code.py").write_text(CODE)
    (tmp_path / "model.wapiti").write_text(WAPITI)
    functions: dict = {}
    exec(CODE.partition("\n\n")[2].partition("\n\n")[2], functions)
    trainer = pycrfsuite.Trainer(verbose=False, params={"max_iterations": 20})
    for words, labels in ((["Ada", "saw", "it"], ["B-X", "O", "O"]), (["it", "saw", "Bo"], ["O", "O", "B-X"])):
        trainer.append([functions["word2features"](words, i) for i in range(3)], labels)
    trainer.train(str(tmp_path / "model.crfsuite"))
    return tmp_path


def test_a_model_becomes_a_pipeline(folder: Path, run: Run) -> None:
    code = ["--features", "tests.converted.v1", "--code", folder / "code.py"]
    command = ["convert", folder / "model.crfsuite", folder / "out", *code]
    worked(run(*command), "2 labels and", "a crf_tagger")
    assert [token.tag_ for token in spacy.load(folder / "out")("Ada saw Bo")] == ["B-X", "O", "B-X"]
    refused(run(*command), "--force")
    worked(run(*command, "--labels", "ent", "--force", "--lang", "de"))
    nlp = spacy.load(folder / "out")
    assert nlp.lang == "de"
    assert [ent.text for ent in nlp("Ada saw Bo").ents] == ["Ada", "Bo"]
    text = worked(run("top", folder / "out", "-n", 3, "--code", folder / "code.py")).stdout
    assert "WORD2FEATURES[0]=title" in text


def test_a_model_of_wapiti(folder: Path, run: Run) -> None:
    worked(run("convert", folder / "model.wapiti", folder / "out", "--columns", "word", "--no-numbers"))
    assert [token.tag_ for token in spacy.load(folder / "out")("x y")] == ["B", "A"]


def test_errors(folder: Path, run: Run) -> None:
    model, out = folder / "model.crfsuite", folder / "out"
    refused(run("convert", model, out, "--features", "tests.unknown.v1"), "has no 'tests.unknown.v1'")
    refused(run("convert", model, out, "--features", "spacy_crfseq.Tagging.v1"), "must be a token function")
    refused(run("convert", model, out, "--labels", "entity"), "--labels")
    refused(run("convert", model, out, "--columns", "word"), "--columns are for models of Wapiti")
    refused(run("convert", folder / "code.py", out, "--features", "f"), "no trained model")
    refused(run("convert", folder / "model.wapiti", out, "--columns", "wrod"), "'word'")
    refused(run("convert", folder / "model.wapiti", out, "--columns", "word", "--labels", "ent"), "'A'")
    model.write_bytes(model.read_bytes()[:-5])
    refused(run("convert", model, out), str(model), "copy it again")
    assert not out.exists()
