"""``crfseq convert`` with the trained model of another program as input."""

from __future__ import annotations

from pathlib import Path

import pytest
import spacy

from tests.commands import Run, refused, worked, write_models


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_models(tmp_path)
    return tmp_path


def test_a_model_becomes_a_pipeline(folder: Path, run: Run) -> None:
    code = ["--features", "my_project.word2features.v1", "--code", folder / "features.py"]
    command = ["convert", folder / "model.crfsuite", folder / "out", *code]
    worked(run(*command), "2 labels and", "a crf_tagger")
    assert [token.tag_ for token in spacy.load(folder / "out")("Ada saw Bo")] == ["B-X", "O", "B-X"]
    refused(run(*command), "--force")
    worked(run(*command, "--labels", "ent", "--force", "--lang", "de"))
    nlp = spacy.load(folder / "out")
    assert nlp.lang == "de"
    assert [ent.text for ent in nlp("Ada saw Bo").ents] == ["Ada", "Bo"]
    text = worked(run("top", folder / "out", "-n", 3, "--code", folder / "features.py")).stdout
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
    refused(run("convert", folder / "features.py", out, "--features", "f"), "no trained model")
    refused(run("convert", folder / "features.py", out, "--no-numbers"), "no trained model")
    refused(run("convert", folder / "model.wapiti", out, "--columns", "wrod"), "'word'")
    refused(run("convert", folder / "model.wapiti", out, "--columns", "word", "--labels", "ent"), "'A'", "--labels tag")
    model.write_bytes(model.read_bytes()[:-5])
    refused(run("convert", model, out), str(model), "copy it again")
    assert not out.exists()
