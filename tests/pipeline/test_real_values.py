"""Real-valued features of a pipeline: numbers of attribute files and of feature functions."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy
import srsly
from spacy.tokens import DocBin

from spacy_crfseq import registry
from spacy_crfseq.errors import DataError, ModelFileError
from spacy_crfseq.pipeline.readers import create_crfsuite_reader
from spacy_crfseq.weights_file import weights_from_bytes, weights_to_bytes
from tests.pipeline.helpers import (
    LBFGS_TIGHT,
    blank,
    examples,
    initialize,
    pipe_of,
    predictions,
    registered,
    templates,
)


def block(name: str, **settings: Any) -> dict[str, Any]:
    return {"potentials": {"own": {"@crf_potentials": f"spacy_crfseq.{name}.v1", **settings}}}


LINES = ["B-NP\tw=Ada\tlen:0.3\tcap:1", "B-VP\tw=saw\tlen:0.3", "B-NP\tw=it\tlen:-1.5\tcap:0", "",
         "B-NP\tw=Bob\tlen:2\tcap:1", "O\tlen:1e-1", ""]  # fmt: skip
GIVEN = templates("GIVEN[0]", token_functions={"GIVEN": registered("features", "Attributes")})
EXACT: dict[str, Any] = {
    "support": "all", "boundaries": False, "precision": "float64", "optimizer": LBFGS_TIGHT,
}  # fmt: skip


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "train.crfsuite"
    path.write_text("\n".join(LINES * 3) + "\n")
    return path


def test_the_optimum_with_values_is_crfsuites(file: Path, tmp_path: Path) -> None:
    pycrfsuite = pytest.importorskip("pycrfsuite", reason="python-crfsuite is not installed")
    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    for sentence in "\n".join(LINES * 3).strip().split("\n\n"):
        rows = [line.split("\t") for line in sentence.splitlines()]
        items = [[field.partition(":") for field in row[1:]] for row in rows]
        trainer.append([{name: float(value or 1) for name, _, value in item} for item in items], [r[0] for r in rows])
    trainer.set_params({
        "c1": 0.0, "c2": 0.5, "epsilon": 1e-9, "delta": 1e-9, "max_iterations": 500,
        "feature.possible_states": True, "feature.possible_transitions": True,
    })  # fmt: skip
    trainer.train(str(tmp_path / "model"))
    nlp = blank("crf_tagger", features=GIVEN, **block("Values"), **EXACT)
    pipe = pipe_of(initialize(nlp, list(create_crfsuite_reader(file)(nlp))))
    assert pipe.fit().history[-1].report.value == pytest.approx(trainer.logparser.last_iteration["loss"], rel=1e-5)


def lengths(sequence: Sequence[Any], i: int) -> dict[str, Any]:
    """A function of sklearn-crfsuite's kind: names, flags, numbers and a nested dictionary."""
    token = sequence[i]
    return {"lower": token.lower_, "title": token.is_title, "length": len(token) / 5, "at": {"start": i == 0, "i": i}}


@pytest.fixture(scope="module")
def function() -> dict[str, str]:
    registry.features("test.lengths", func=lambda: lengths)
    return {"@crf_features": "test.lengths"}


def test_numbers_of_a_function_of_templates_are_read_by_the_potential(function: dict[str, str], tmp_path: Path) -> None:
    features = templates("GIVEN[0]", token_functions={"GIVEN": function})
    nlp = blank("crf_ner", features=features, keep_names=True, **block("Values", function=function))
    pipe = pipe_of(initialize(nlp, examples(nlp), fit=True))
    names = {name.partition("=")[2].partition("=")[0] for name in pipe.doc_model.feature_names}
    assert names == {"lower", "title", "at:start"}
    assert len(pipe.doc_model.crf.added_views[0]) == 2 * len(pipe.tags)
    assert np.abs(pipe.doc_model.crf.added_views[0]).max() > 0
    nlp.to_disk(tmp_path)
    assert predictions(spacy.load(tmp_path), "crf_ner") == predictions(nlp, "crf_ner")
    sequences = pipe.method.potentials["own"].read([nlp.make_doc("a b"), nlp.make_doc(""), nlp.make_doc("a b")])
    assert sequences.tolist()[:2] == sequences.tolist()[2:]


def test_values_without_the_potential_are_refused(file: Path, function: dict[str, str]) -> None:
    message = r"'l\w+' has the value .*add a block \[components.NAME.potentials.values\] with .*Values.v1"
    nlp = blank("crf_tagger", features=GIVEN)
    with pytest.raises(DataError, match=message):
        nlp.initialize(lambda: create_crfsuite_reader(file)(nlp))
    nlp = blank("crf_ner", features=templates("GIVEN[0]", token_functions={"GIVEN": function}))
    with pytest.raises(DataError, match=message):
        nlp.initialize(lambda: examples(nlp))


def test_values_that_are_no_numbers_are_refused(file: Path) -> None:
    nlp = blank("crf_tagger", features=templates("LOWER"), **block("Values"))
    with pytest.raises(DataError, match="has no attributes"):
        nlp.initialize(lambda: examples(nlp, "crf_tagger"))
    corpus = list(create_crfsuite_reader(file)(nlp))
    corpus[0].predicted._.crf_attributes[2].append(("b", {}.get))
    corpus[0].predicted._.crf_attributes[1].append(("b", float("nan")))
    for wrong in ("has the value nan", "but a string, a finite number"):
        with pytest.raises(DataError, match=rf"Values at the token '_': 'b' .*{wrong}"):
            nlp.initialize(lambda: corpus)
        corpus[0].predicted._.crf_attributes[1].pop()


def test_a_damaged_state_is_refused(file: Path) -> None:
    nlp = blank("crf_tagger", features=GIVEN, **block("Values"))
    pipe = pipe_of(initialize(nlp, list(create_crfsuite_reader(file)(nlp))))
    values = pipe.method.potentials["own"]
    values.names = values.names[::-1].copy()
    with pytest.raises(ModelFileError, match="the names of values are not in order"):
        pipe.from_bytes(pipe.to_bytes())


def test_a_model_without_the_state_of_a_potential_is_refused(file: Path) -> None:
    nlp = blank("crf_tagger", features=GIVEN, **block("Values"))
    crf = pipe_of(initialize(nlp, list(create_crfsuite_reader(file)(nlp)))).crf
    message = srsly.msgpack_loads(weights_to_bytes(crf))
    del message["potentials"]
    with pytest.raises(ModelFileError, match="the stored model is damaged"):
        weights_from_bytes(srsly.msgpack_dumps(message), added=crf.added_potentials)


def test_values_of_stored_docs_are_the_same(file: Path) -> None:
    nlp = blank("crf_tagger", features=GIVEN, **block("Values"))
    doc = next(iter(create_crfsuite_reader(file)(nlp))).reference
    stored = DocBin().from_bytes(DocBin(docs=[doc], store_user_data=True).to_bytes())
    values = pipe_of(nlp).method.potentials["own"]
    result = values.read([doc]).tolist()
    assert [len(values) for values in result] == [32, 16, 16]  # a value of 0 counts as much as none
    assert values.read(list(stored.get_docs(nlp.vocab))).tolist() == result
