"""``crfseq prune``."""

from pathlib import Path
from typing import Any

import pytest
import spacy

from spacy_crfseq.errors import ConfigError
from spacy_crfseq.tools.prune import prune
from tests.commands import Corpus, Run, refused, worked


def words_of(file: Path) -> list[list[str]]:
    blocks = file.read_text(encoding="utf8").strip().split("\n\n")
    return [[line.split()[0] for line in block.split("\n")] for block in blocks]


def annotations(model: Path, corpus: Corpus) -> list[Any]:
    nlp = spacy.load(model)
    docs = [spacy.tokens.Doc(nlp.vocab, words=words) for words in words_of(corpus.dev)]
    return [
        ([token.tag_ for token in doc], [*map(str, doc.spans["chunks"])], [*map(str, doc.ents)])
        for doc in nlp.pipe(docs)
    ]


def test_zeros_go_without_a_trace(run: Run, trained: Path, corpus: Corpus, tmp_path: Path) -> None:
    result = worked(run("prune", trained / "model-best", tmp_path / "small"))
    assert annotations(tmp_path / "small", corpus) == annotations(trained / "model-best", corpus)
    for name in ("crf_tagger", "crf_chunker", "crf_ner"):
        assert name in result.stdout
        old, new = (folder / name / "model" for folder in (trained / "model-best", tmp_path / "small"))
        assert new.stat().st_size < 1.005 * old.stat().st_size  # no weight is zero
    assert "MB on disk" in result.stdout
    assert "small" in result.stdout.splitlines()[-1]


def test_rounded_weights_take_less_space(run: Run, trained: Path, tmp_path: Path) -> None:
    worked(run("prune", trained / "model-best", tmp_path / "whole"))
    worked(run("prune", trained / "model-best", tmp_path / "small", "--bits 5"))
    for name in ("crf_tagger", "crf_chunker", "crf_ner"):
        small, whole = ((tmp_path / folder / name / "model").stat().st_size for folder in ("small", "whole"))
        assert small < 0.9 * whole


def test_says_when_nothing_goes(run: Run, trained: Path, tmp_path: Path) -> None:
    assert run("prune", trained / "model-best", tmp_path / "small", "--threshold 0.01").exit_code == 0
    again = run("prune", tmp_path / "small", tmp_path / "again", "--threshold 0.005")
    assert "No weight is 0.005 or less: give a higher --threshold" in again.stdout


def test_one_component_and_a_threshold(trained: Path, tmp_path: Path) -> None:
    reports = prune(trained / "model-best", tmp_path / "small", threshold=0.3, component=["crf_ner"])
    assert list(reports) == ["crf_ner"]
    before, after = reports["crf_ner"]
    assert after.weights < before.weights
    assert after.features < before.features
    for number, folder in ((before.n_bytes, trained / "model-best"), (after.n_bytes, tmp_path / "small")):
        assert number == (folder / "crf_ner" / "model").stat().st_size
    tagger = (trained / "model-best" / "crf_tagger" / "model").read_bytes()
    assert (tmp_path / "small" / "crf_tagger" / "model").read_bytes() == tagger
    prune(tmp_path / "small", tmp_path / "smaller")
    prune(tmp_path / "small", tmp_path / "smaller", force=True)
    with pytest.raises(ConfigError, match="smaller exists"):
        prune(tmp_path / "small", tmp_path / "smaller")


@pytest.mark.parametrize(
    ("options", "message"),
    [(["--component", "crf_nre"], "no CRF component 'crf_nre'"), (["--threshold", "1e9"], "nothing is left")],
)
def test_mistakes_leave_nothing_behind(
    options: list[str], message: str, run: Run, trained: Path, tmp_path: Path
) -> None:
    refused(run("prune", trained / "model-best", tmp_path / "small", *options), message)
    assert not list(tmp_path.iterdir())
