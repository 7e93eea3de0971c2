"""``crfseq import-model`` and ``export-model``: pipelines of models, models of pipelines, and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import spacy

from tests.commands import Run, refused, worked, write_models


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_models(tmp_path)
    return tmp_path


def test_a_model_becomes_a_pipeline(folder: Path, run: Run) -> None:
    code = ["--features", "my_project.word2features.v1", "--code", folder / "features.py"]
    command = ["import-model", folder / "model.crfsuite", folder / "out", *code]
    worked(run(*command), "2 labels and", "a crf_tagger")
    assert [token.tag_ for token in spacy.load(folder / "out")("Ada saw Bo")] == ["B-X", "O", "B-X"]
    refused(run(*command), "--force")
    worked(run(*command, "--labels", "ent", "--force", "--lang", "de"))
    nlp = spacy.load(folder / "out")
    assert nlp.lang == "de"
    assert [ent.text for ent in nlp("Ada saw Bo").ents] == ["Ada", "Bo"]
    text = worked(run("explain", folder / "out", "-n", 3, "--code", folder / "features.py")).stdout
    assert "WORD2FEATURES[0]=title" in text


def test_a_model_of_wapiti(folder: Path, run: Run) -> None:
    worked(run("import-model", folder / "model.wapiti", folder / "out", "--columns", "word", "--no-numbers"))
    assert [token.tag_ for token in spacy.load(folder / "out")("x y")] == ["B", "A"]


def test_a_pipeline_becomes_a_model(trained: Path, run: Run, corpus: Any, tmp_path: Path) -> None:
    pycrfsuite, target = pytest.importorskip("pycrfsuite"), tmp_path / "model.crfsuite"
    command = ["export-model", trained / "model-best", target, "--component", "crf_ner"]
    assert "crf_ner" in worked(run(*command), "model_items.py").stdout
    tagger, namespace = pycrfsuite.Tagger(), {"__name__": "items"}
    tagger.open(str(target))
    exec(compile((tmp_path / "model_items.py").read_text(), "items", "exec"), namespace)
    nlp = spacy.load(trained / "model-best")
    for words in (["Ada", "sees", "Oslo", "."], ["the", "train", "in", "Lima"]):
        tags = [f"{t.ent_iob_}-{t.ent_type_}".rstrip("-") for t in nlp(spacy.tokens.Doc(nlp.vocab, words=words))]
        items: Any = namespace["items"]
        biluo = tagger.tag(items(words))
        assert [tag.replace("U-", "B-").replace("L-", "I-") for tag in biluo] == tags
    refused(run(*command), "--force")
    worked(run(*command, "--force", "--texts", corpus.train))
    mine = tmp_path / "other_items.py"
    mine.write_text("mine")
    refused(run(*command[:2], tmp_path / "other.crfsuite", "-p", "crf_ner"), "other_items.py", "--force")
    assert mine.read_text() == "mine"
    assert not (tmp_path / "other.crfsuite").exists()
    refused(run(*command[:2], tmp_path / "model.txt"), ".crfsuite, .wapiti or .wapiti.gz")
    refused(run(*command[:2], tmp_path / "model.wapiti", "-p", "crf_ner"), "TemplateFile")
    refused(run(*command, "--force", "--texts", tmp_path / "none.txt"), "none.txt")


def test_errors(folder: Path, run: Run) -> None:
    model, out = folder / "model.crfsuite", folder / "out"
    refused(run("import-model", model, out, "--features", "tests.unknown.v1"), "has no 'tests.unknown.v1'")
    refused(run("import-model", model, out, "--features", "spacy_crfseq.Tagging.v1"), "must be a token function")
    refused(run("import-model", model, out, "--labels", "entity"), "--labels")
    refused(run("import-model", model, out, "--columns", "word"), "--columns are for models of Wapiti")
    refused(run("import-model", folder / "features.py", out, "--features", "f"), "no trained model")
    (folder / "empty").mkdir()
    refused(run("import-model", folder / "empty", out), "no trained model")
    refused(run("export-model", folder / "empty", folder / "a.wapiti"), "is not a pipeline")
    refused(run("convert", model, out), "is a trained model. To make a pipeline of it, use import-model")
    refused(run("import-model", folder / "model.wapiti", out, "--columns", "wrod"), "'word'")
    refused(
        run("import-model", folder / "model.wapiti", out, "--columns", "word", "--labels", "ent"), "'A'", "--labels tag"
    )
    model.write_bytes(model.read_bytes()[:-5])
    refused(run("import-model", model, out), str(model), "copy it again")
    assert not out.exists()
