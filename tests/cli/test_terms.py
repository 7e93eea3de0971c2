"""Terms in a config: ``crfseq fit``, ``spacy train``, and commands on the result, without the corpora of the terms."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
import spacy
from spacy.cli._util import app
from spacy.util import load_config, load_model_from_config
from typer.testing import CliRunner

from tests.commands import Corpus, Run, refused, worked
from tests.pipeline.test_terms import SQUARES

TERM = """
[components.{name}.terms]

[components.{name}.terms.news]
corpus = "corpora.news"
weight = 0.01

[components.{name}.terms.news.loss]
@crf_losses = "test.Squares.v1"
"""
CORPUS = """
[corpora.news]
@readers = "spacy_crfseq.TextReader.v1"
path = {path}
"""


@pytest.fixture
def news(tmp_path: Path) -> Path:
    path = tmp_path / "news.txt"
    path.write_text("Zed sees a quagga in Oslo .\nMary sold the blorks .\n" * 8, encoding="utf8")
    return path


@pytest.fixture
def write(news: Path, tmp_path: Path, configure: Any) -> Any:
    """Write a config of some components, the last of which has a term; `settings` are those of the last one."""

    def call(*names: str, settings: str = "", training: str = "", path: Path = news) -> Path:
        block = settings + TERM.format(name=names[-1])
        written: Path = configure(tmp_path / "c.cfg", *names, components=block, training=training)
        text, corpus = written.read_text(encoding="utf8"), CORPUS.format(path=json.dumps(str(path)))
        written.write_text(text.replace("[training]", corpus + "[training]", 1), encoding="utf8")
        return written

    return call


def spacy_train(config: Path, output: Path, *overrides: str) -> None:
    load_model_from_config(load_config(config), auto_fill=True).config.to_disk(config)
    result = CliRunner().invoke(app, ["train", str(config), "--output", str(output), *overrides])
    assert result.exit_code == 0, result.output + repr(result.exception)


def check_model(model: Path) -> None:
    """Check that a feature that is only in the raw text has weights, and that the config names the term."""
    nlp = spacy.load(model)
    pipe: Any = nlp.get_pipe("crf_ner")
    assert {"LOWER[0]=quagga", "LOWER[0]=oslo"} < set(pipe.doc_model.feature_names)
    assert [ent.text for ent in nlp("Ada sees a dog in Oslo .").ents] == ["Ada", "Oslo"]
    term = load_config(model / "config.cfg")["components"]["crf_ner"]["terms"]["news"]
    assert term == {"corpus": "corpora.news", "weight": 0.01, "loss": SQUARES["loss"]}


def test_fit_and_tag_without_the_corpus(write: Any, news: Path, paths: list[str], run: Run, tmp_path: Path) -> None:
    config, out = write("crf_ner", settings="keep_names = true\n"), tmp_path / "out"
    worked(run("fit", config, "--output", out, *paths), "Term news: 16 sequences, 96 tokens, 0.01 * Squares")
    worked(run("fit", config, "--cross-validate 2", *paths), "2-fold")
    grid = tmp_path / "s.cfg"
    grid.write_text('[sweep]\nconfig = "c.cfg"\n[sweep.grid]\nterms.news.weight = [0.01, 0]\n', encoding="utf8")
    worked(run("sweep", grid, "--output", tmp_path / "swept", *paths), "terms.news.weight")
    news.unlink()
    check_model(out / "model-best")
    text = tmp_path / "text.txt"
    text.write_text("Ada sees a dog in Oslo .\n", encoding="utf8")
    worked(run("tag", out / "model-best", text, "--output", tmp_path / "tagged"))
    assert "Oslo" in (tmp_path / "tagged" / "text.txt").with_suffix(".jsonl").read_text(encoding="utf8")
    sourced = tmp_path / "sourced.cfg"
    sourced.write_text(
        config.read_text(encoding="utf8").split("[components.crf_ner]")[0]
        + f"[components.crf_ner]\nsource = {json.dumps(str(out / 'model-best'))}\n[corpora]"
        + config.read_text(encoding="utf8").split("[corpora]", 1)[1],
        encoding="utf8",
    )
    refused(run("fit", sourced, "--output", tmp_path / "more", *paths), str(news), silent=False)
    news.write_text("Zed sees a quagga .\n", encoding="utf8")
    worked(run("fit", sourced, "--output", tmp_path / "more", *paths))


def test_earlier_components_annotate_the_texts(
    write: Any, paths: list[str], run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = write("crf_tagger", "crf_chunker", training='annotating_components = ["crf_tagger"]\nmax_epochs = 1\n')
    with caplog.at_level(logging.WARNING, "spacy"):
        worked(run("fit", config, "--output", tmp_path / "out", *paths))
        assert "have no TAG" not in caplog.text
        spacy_train(config, tmp_path / "train", *paths)
        assert "[crf_chunker] The texts of the term news have no TAG" in caplog.text


def test_refuses(write: Any, paths: list[str], run: Run, tmp_path: Path) -> None:
    def fit(config: Path, *parts: str) -> None:
        refused(run("fit", config, "--output", tmp_path / "out", *paths), *parts, silent=False)

    fit(write("crf_ner", path=tmp_path / "none.txt"), "none.txt")
    (tmp_path / "empty.txt").write_text("\n\n")
    fit(write("crf_ner", path=tmp_path / "empty.txt"), "'news' has no text", "[corpora.news]")
    (tmp_path / "folder").mkdir()
    fit(write("crf_ner", path=tmp_path / "folder"), "no file in this folder")
    config = write("crf_ner")
    config.write_text(config.read_text().replace("[corpora.news]", "[corpora.newt]"))
    fit(config, "corpora.news", "corpora.newt")
    config.write_text(config.read_text().replace('corpus = "corpora.news"\n', ""))
    fit(config, "'news' has no texts")


def test_warns_if_no_loss_learns_from_labels(
    write: Any, paths: list[str], run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    loss = '\n[components.crf_ner.loss]\n@crf_losses = "spacy_crfseq.Entropy.v1"\n'
    worked(run("fit", write("crf_ner", settings=loss), "--output", tmp_path / "out", *paths))
    assert "No loss of the objective learns from gold labels" in caplog.text


def test_the_config_of_the_guide_trains_in_spacy(corpus: Corpus, news: Path, paths: list[str], tmp_path: Path) -> None:
    (tmp_path / "features.tsv").write_text("oslo\tLOC=0.9\n", encoding="utf8")
    given = ["--paths.raw", str(news), "--paths.features", str(tmp_path / "features.tsv"), "--training.max_steps", "2"]
    config = Path(__file__).parents[2] / "configs" / "raw_text.cfg"
    result = CliRunner().invoke(app, ["train", str(config), "--output", str(tmp_path / "out"), *paths, *given])
    assert result.exit_code == 0, result.output
    assert "crf_ner" in spacy.load(tmp_path / "out" / "model-last").pipe_names
