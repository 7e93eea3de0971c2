"""The word vectors of a pipeline as real-valued features: storage, words without a vector, the table, settings."""

import pickle
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import spacy
from spacy.language import Language
from spacy.vectors import Vectors as SpacyVectors

from spacy_crfseq.errors import ConfigError
from spacy_crfseq.papers import vectors as module
from tests.pipeline import helpers

WORDS = ("anna", "bob", "oslo", "york", "Norway", "lives", "saw")


def block(**settings: Any) -> dict[str, Any]:
    return {"potentials": {"own": {"@crf_potentials": "spacy_crfseq.Vectors.v1", **settings}}}


def add_vectors(nlp: Language, kind: str, width: int = 8) -> None:
    data = np.random.default_rng(1).standard_normal((64, width)).astype(np.float32)
    if kind == "static":
        nlp.vocab.vectors = SpacyVectors(strings=nlp.vocab.strings, data=data[: len(WORDS)], keys=WORDS)
    else:
        nlp.vocab.vectors = SpacyVectors(
            strings=nlp.vocab.strings, data=data, mode="floret", minn=2, maxn=3, hash_count=2, hash_seed=3
        )


def trained(kind: str, **more: Any) -> Language:
    nlp = helpers.blank("crf_ner", features=helpers.templates("IS_TITLE"), **block(), **more)
    add_vectors(nlp, kind)
    helpers.pipe_of(helpers.initialize(nlp, helpers.examples(nlp))).fit()
    return nlp


@pytest.mark.parametrize("kind", ["static", "floret"])
def test_a_pipeline_with_vectors_is_saved_and_loaded(kind: str, tmp_path: Path) -> None:
    nlp = trained(kind, optimizer=helpers.LBFGS_TIGHT)
    assert helpers.annotation(nlp("Anna lives"))["ents"] == [(0, 1, "PER")]
    nlp.to_disk(tmp_path)
    loaded = spacy.load(tmp_path)
    assert helpers.predictions(loaded, "crf_ner") == helpers.predictions(nlp, "crf_ner")
    again, docs = pickle.loads(pickle.dumps(helpers.pipe_of(nlp))), helpers.inputs(nlp, "crf_ner")
    assert list(map(helpers.annotation, map(again, docs))) == helpers.predictions(nlp, "crf_ner")
    with loaded.memory_zone():
        assert helpers.annotation(loaded("Anna lives"))["ents"] == [(0, 1, "PER")]
    add_vectors(loaded, kind, width=5)
    with pytest.raises(ConfigError, match="have 5 dimensions, those of the training 8"):
        loaded("Anna")
    loaded.vocab.vectors = SpacyVectors(strings=loaded.vocab.strings)
    with pytest.raises(ConfigError, match=r"has no word vectors\. Name a pipeline"):
        loaded("Anna")


def test_a_word_without_a_vector_has_that_of_its_lower_case() -> None:
    nlp = trained("static")
    plugin = helpers.pipe_of(nlp).method.potentials["own"]
    keys = [nlp.vocab.strings.add(word) for word in ("anna", "Anna", "norway", "Norway")]
    rows = plugin.of(np.array(keys, np.uint64))
    assert rows[0].tolist() == rows[1].tolist()
    assert np.linalg.norm(rows, axis=1) == pytest.approx([plugin.scale, plugin.scale, 0, plugin.scale])


def test_an_interrupted_look_up_leaves_no_word_without_its_vector(monkeypatch: pytest.MonkeyPatch) -> None:
    nlp = trained("static")
    plugin = helpers.pipe_of(nlp).method.potentials["own"]
    keys = np.array([nlp.vocab.strings.add(word) for word in ("Anna", "Norway")], np.uint64)
    expected = plugin.of(keys).tolist()
    plugin._table = module._Table(nlp.vocab.vectors)
    with monkeypatch.context() as patch:
        patch.setattr(module, "_look_up", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            plugin.of(keys[:1])
    assert plugin.of(keys[::-1]).tolist() == expected[::-1]


def test_the_table_of_vectors_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    nlp = trained("floret")
    expected = helpers.predictions(nlp, "crf_ner")
    plugin = helpers.pipe_of(nlp).method.potentials["own"]
    monkeypatch.setattr(module, "MAX_FLOATS", 8 * 12)
    plugin.bind(helpers.pipe_of(nlp).doc_model.encode([])[0], 0)
    plugin._table = None
    assert [helpers.annotation(nlp(doc)) for doc in helpers.inputs(nlp, "crf_ner")] == expected
    assert plugin._table.rows.size <= 12


@pytest.mark.parametrize("settings", [{"window": -1}, {"window": 17}, {"scale": -1.0}])
def test_settings_of_vectors_out_of_range_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="window must be from 0 to 16, and scale 0 or more"):
        helpers.blank("crf_ner", **block(**settings))
