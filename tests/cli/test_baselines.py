"""The configs of chapter 2's baselines train as they are; the generative ones also learn from texts without labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import spacy
from spacy.training import Example
from spacy.util import load_config, load_model_from_config

from spacy_crfseq.pipeline.readers import read_examples
from tests.commands import Corpus, Run, worked

FOLDER = Path(__file__).parents[2] / "configs" / "baselines"


@pytest.mark.parametrize("config", sorted(FOLDER.glob("*.cfg")), ids=lambda path: path.stem)
def test_it_trains(config: Path, paths: list[str], corpus: Corpus, run: Run, tmp_path: Path) -> None:
    raw = ["--paths.raw", corpus.dev] if config.stem == "hmm_em" else []
    worked(run("fit", config, "--output", tmp_path / "out", "--evaluate-every 1 --nlp.lang xx", *paths, *raw))
    nlp = spacy.load(tmp_path / "out" / "model-best")
    assert nlp.meta["performance"]["tag_acc"] > 0.9
    assert [token.tag_ for token in nlp("Ada sees a dog .")] == ["NNP", "VBZ", "DT", "NN", "."]


@pytest.mark.parametrize("name", ["hmm", "naive_bayes"])
def test_texts_without_labels_raise_the_likelihood(name: str, corpus: Corpus) -> None:
    nlp = load_model_from_config(load_config(FOLDER / f"{name}.cfg", {"nlp.lang": "xx"}), auto_fill=True)
    labelled, texts = (list(read_examples(nlp, path, "conll2003")) for path in (corpus.train, corpus.dev))
    raw = [Example(example.predicted, example.predicted.copy()) for example in texts]
    examples = labelled[:20] + raw
    nlp.initialize(lambda: examples)
    pipe: Any = nlp.get_pipe("crf_tagger")
    losses = [progress.report.loss for progress in pipe.fit().history]
    assert len(losses) > 2
    assert losses == sorted(losses, reverse=True)
    assert (
        pipe.score([Example(pipe(example.predicted.copy()), example.reference) for example in texts])["tag_acc"] > 0.85
    )
