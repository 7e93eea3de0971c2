"""``crfseq warmup``: afterwards nothing is left to compile."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import spacy

from spacy_crfseq.cli.fit import fit
from spacy_crfseq.pipeline.component import CRFComponent
from spacy_crfseq.tools.warmup import cache_counts, warmup
from spacy_crfseq.types import Schedule
from tests.commands import Run, refused, worked


def test_nothing_is_left_to_compile(configure: Any, optimizers: Any, corpus: Any, tmp_path: Path) -> None:
    result = warmup(everything=True)
    assert result.seconds > 0
    assert result.compiled + result.loaded > 0
    assert result.cache is not None
    assert any(Path(result.cache).glob("*.nbc"))
    before = cache_counts()
    components = optimizers["lbfgs"].format(name="crf_ner")
    config = configure(tmp_path / "c.cfg", "crf_tagger", "crf_chunker", "crf_ner", components=components)
    overrides = {"paths.train": str(corpus.train), "paths.dev": str(corpus.dev)}
    fit(config, tmp_path / "out", overrides=overrides, schedule=Schedule(patience=1))
    nlp = spacy.load(tmp_path / "out" / "model-best")
    doc = nlp("Ada lives in London")
    for name in nlp.pipe_names:
        nlp.get_pipe(name).nbest(doc, 3)
        nlp.get_pipe(name).posterior([doc]).entropies()
    assert all(0 < ent._.crf_score <= 1 for ent in doc.ents)
    assert cache_counts() == before


@pytest.mark.parametrize("args", [[], ["--json"], ["--lang", "de"]])
def test_command(args: list[str], run: Run) -> None:
    result = worked(run("warmup", *args))
    if "--json" in args:
        assert set(json.loads(result.stdout)) == {"seconds", "compiled", "loaded", "cache"}
    else:
        assert "kernels compiled" in result.stdout


def test_unknown_language(run: Run) -> None:
    refused(run("warmup", "--lang nolang"), "nolang")


def test_an_interrupt_of_the_training_ends_it_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CRFComponent, "fit", lambda self, dev: SimpleNamespace(reason="interrupted"))
    with pytest.raises(KeyboardInterrupt):
        warmup()
