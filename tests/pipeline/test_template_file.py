"""Template files in a component: the same objective as hand-written templates, and models without their file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy
from spacy.language import Language
from spacy.training import Example

from spacy_crfseq import registry
from spacy_crfseq.errors import ConfigError, FormatError
from spacy_crfseq.pipeline.readers import create_conll_reader
from tests.features.test_template_file import CRFPP_CHUNKING
from tests.pipeline.helpers import blank, examples, pipe_of, predictions, trained

ROOT = Path(__file__).parents[2]


def template_file(folder: Path, text: str) -> dict[str, Any]:
    path = folder / "template"
    path.write_text(text, encoding="utf8")
    return {"@crf_features": "spacy_crfseq.TemplateFile.v1", "path": str(path), "columns": ["word", "tag"]}


def objective(file: Path, columns: list[str], limit: int, features: dict[str, Any] | None) -> float:
    """Train by the config of CRF++'s task, perhaps with other features, and return the objective at the end."""
    config = spacy.util.load_config(ROOT / "configs" / "chunk_conll2000.cfg")
    settings = config["components"]["crf_chunker"]
    settings.pop("factory")
    if features:
        settings["features"] = features
    nlp = spacy.blank("en")
    nlp.add_pipe("crf_chunker", config=dict(settings))
    nlp.initialize(lambda: read(nlp, file, columns, limit))
    result = pipe_of(nlp).fit()
    assert result.history[-1].report.converged
    return result.history[-1].report.value


def read(nlp: Language, file: Path, columns: list[str], limit: int) -> list[Example]:
    return list(create_conll_reader(file, columns, "IOB2", ["tag"], on_invalid="conlleval", limit=limit)(nlp))


def test_crfpps_file_gives_the_objective_of_the_config(tmp_path: Path) -> None:
    corpus, columns = ROOT / "assets" / "corpus" / "train.conll", ["word", "tag", "chunk", "_"]
    expected = objective(corpus, columns, 40, None)
    imported = objective(corpus, columns, 40, template_file(tmp_path, CRFPP_CHUNKING))
    assert imported == pytest.approx(expected, rel=1e-5)
    fewer = "\n".join(line for line in CRFPP_CHUNKING.splitlines() if not line.startswith("U05"))
    assert objective(corpus, columns, 40, template_file(tmp_path, fewer)) != pytest.approx(expected, rel=1e-3)


def test_a_trained_pipeline_does_not_need_the_file(tmp_path: Path) -> None:
    text = 'U0:%X[0,0]\n*:1%m[0,0,"^.?.?"]\nU2:%x[-1,0]/%t[0,0,"^\\u"]\n*\n'
    nlp = trained("crf_ner", features=template_file(tmp_path, text))
    expected = predictions(nlp, "crf_ner")
    assert expected[0]["ents"] == [(0, 1, "PER"), (3, 5, "LOC")]
    nlp.to_disk(tmp_path / "model")
    for other in ("U0:%x[9,9]\n", None):
        (tmp_path / "template").write_text(other) if other else (tmp_path / "template").unlink()
        again = spacy.load(tmp_path / "model")
        assert predictions(again, "crf_ner") == expected
        assert pipe_of(again).crf.to_bytes() == pipe_of(nlp).crf.to_bytes()


def test_refusals_when_training_begins(tmp_path: Path) -> None:
    nlp = blank("crf_ner", features=template_file(tmp_path, "U0:%x[0,0]\n"))
    with pytest.raises(ConfigError, match=r"\[components.crf_ner\].*Write transitions = false"):
        nlp.initialize(lambda: examples(nlp))
    nlp = blank("crf_ner", features=template_file(tmp_path, "U0:%x[0,5]\nB\n"))
    with pytest.raises(FormatError, match=r"template:1: there is no column 5"):
        nlp.initialize(lambda: examples(nlp))


def test_lines_with_common_weights_and_computed_columns_train_as_a_token_function_does(tmp_path: Path) -> None:
    @registry.features("test_template_file.columns")
    def create_columns() -> Any:
        return {"end": lambda text: text[-1:]}

    @registry.features("test_template_file.bag")
    def create_bag() -> Any:
        return lambda sentence, i: [
            f"u:{sentence[i - 1].text if i else '_x-1'}", f"u:{sentence[i].text}", f"e:{sentence[i].text[-1:]}",
        ]  # fmt: skip

    file = template_file(tmp_path, "U:%x[-1,0]\nU:%x[0,0]\nUe:%x[0,1]\nB\n")
    columns = {"columns": ["word", "end"], "functions": {"@crf_features": "test_template_file.columns"}}
    block = {"BAG": {"@crf_features": "test_template_file.bag"}}
    hand = {"@crf_features": "spacy_crfseq.Templates.v1", "templates": ["BAG[0]"], "token_functions": block}
    models = [
        trained("crf_tagger", features=features, optimizer={"@crf_optimizers": "spacy_crfseq.LBFGS.v1"})
        for features in ({**file, **columns}, hand)
    ]
    theta, other = (np.sort(pipe_of(model).crf.theta) for model in models)
    assert theta == pytest.approx(other, abs=1e-3)
    (tmp_path / "template").unlink()
    again = blank("crf_tagger", features={**file, **columns}).from_bytes(models[0].to_bytes())
    assert predictions(again, "crf_tagger") == predictions(models[0], "crf_tagger")
