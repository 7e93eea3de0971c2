"""``spacy find-threshold`` tunes the setting `threshold` of an entity recognizer and of a chunker."""

from __future__ import annotations

from pathlib import Path

import pytest
import spacy
from spacy.cli._util import app
from spacy.tokens import DocBin
from spacy.training import Corpus as DocCorpus
from typer.testing import CliRunner

from spacy_crfseq.pipeline.component import CRFComponent
from spacy_crfseq.pipeline.readers import read_examples
from tests.commands import Corpus


@pytest.mark.parametrize(("component", "score"), [("crf_ner", "ents_f"), ("crf_chunker", "spans_chunks_f")])
def test_find_threshold(trained: Path, corpus: Corpus, tmp_path: Path, component: str, score: str) -> None:
    """Each score is that of the spans that are as probable as the threshold, at the temperature of the model."""
    model, dev = tmp_path / "model", tmp_path / "dev.spacy"
    others = {"crf_tagger", "crf_chunker", "crf_ner"} - {component}
    nlp = spacy.load(trained / "model-best", exclude=sorted(others))
    pipe = nlp.get_pipe(component)
    assert isinstance(pipe, CRFComponent)
    pipe.cfg["temperature"] = 4.0
    nlp.to_disk(model)
    DocBin(docs=[example.reference for example in read_examples(nlp, corpus.dev, "conll2003")]).to_disk(dev)
    command = ["find-threshold", model, dev, component, "threshold", score, "--n_trials", "5"]
    done = CliRunner().invoke(app, [*map(str, command)])
    assert done.exit_code == 0, done.output + repr(done.exception)
    rows = [line.split() for line in done.stdout.splitlines() if line[:2] in ("0.", "1.")]
    found = {float(threshold): float(value) for threshold, value in rows}
    expected = {}
    for threshold in (0.0, 0.25, 0.5, 0.75, 1.0):
        pipe.cfg["threshold"] = threshold
        expected[threshold] = nlp.evaluate(list(DocCorpus(dev)(nlp)))[score]
    assert found == pytest.approx(expected, abs=6e-4)
    assert len(set(found.values())) > 2
    assert f"Best threshold: {max(expected, key=expected.__getitem__)} " in done.stdout
