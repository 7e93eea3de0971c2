"""Real-valued features of a pipeline: numbers of attribute files and of feature functions."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy
from spacy.tokens import DocBin
from spacy.training import Example

from spacy_crfseq import registry
from spacy_crfseq.corpora.crfsuite import format_item
from spacy_crfseq.errors import DataError, FormatError, ModelFileError
from spacy_crfseq.pipeline.encode import content_key
from spacy_crfseq.pipeline.readers import create_crfsuite_reader
from tests.pipeline.helpers import (
    LBFGS_TIGHT,
    SENTENCES,
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


def test_what_is_no_number_is_refused(file: Path) -> None:
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


def test_values_of_stored_docs_are_the_same(file: Path) -> None:
    nlp = blank("crf_tagger", features=GIVEN, **block("Values"))
    doc = next(iter(create_crfsuite_reader(file)(nlp))).reference
    stored = DocBin().from_bytes(DocBin(docs=[doc], store_user_data=True).to_bytes())
    values = pipe_of(nlp).method.potentials["own"]
    found = values.read([doc]).tolist()
    assert [len(each) for each in found] == [32, 16, 16]  # a value of 0 counts as much as none
    assert values.read(list(stored.get_docs(nlp.vocab))).tolist() == found


# --- attribute files of CRFsuite: the reader, and the same optimum as CRFsuite on the very same attributes ----------


FEATURES = templates("GIVEN[0]", token_functions={"GIVEN": registered("features", "Attributes")})


def attributes(words: list[str], i: int) -> list[str]:
    word = words[i]
    names = ["bias", f"w[0]={word}", f"suffix={word[-2:]}", f"x:y\\{word.istitle()}"]
    return names + [f"w[{k}]={words[i + k]}" for k in (-1, 1) if 0 <= i + k < len(words)]


@pytest.fixture
def file_of_crfsuite_reader(tmp_path: Path) -> Path:
    """The corpus of the helpers as an attribute file; labels are chunks."""
    blocks = []
    for rows in SENTENCES:
        words = [row[0] for row in rows]
        blocks += ["".join(format_item(row[4], attributes(words, i)) + "\n" for i, row in enumerate(rows))]
    path = tmp_path / "train.crfsuite"
    path.write_text("\n".join(blocks))
    return path


def test_docs_have_words_labels_and_attributes(file_of_crfsuite_reader: Path) -> None:
    nlp = spacy.blank("xx")
    reader = create_crfsuite_reader(file_of_crfsuite_reader, "chunk")
    first, again = list(reader(nlp)), list(reader(nlp))
    assert [[token.text for token in e.reference] for e in first] == [[row[0] for row in rows] for rows in SENTENCES]
    assert [(s.text, s.label_) for s in first[1].reference.spans["chunks"]] == [
        ("Bob", "NP"), ("saw", "VP"), ("the old bridge", "NP"),
    ]  # fmt: skip
    expected = [attributes([row[0] for row in SENTENCES[0]], i) for i in range(len(SENTENCES[0]))]
    assert first[0].predicted._.crf_attributes == first[0].reference._.crf_attributes == expected
    assert first[0].reference is again[0].reference
    assert first[0].predicted is not again[0].predicted
    assert not first[0].predicted.spans
    binary = DocBin(docs=[first[0].reference], store_user_data=True).to_bytes()
    stored = next(DocBin().from_bytes(binary).get_docs(nlp.vocab))._.crf_attributes
    assert [list(names) for names in stored] == expected


def test_words_and_limits(file_of_crfsuite_reader: Path) -> None:
    nlp = spacy.blank("xx")
    examples = list(create_crfsuite_reader(file_of_crfsuite_reader, word="suffix=", limit=1)(nlp))
    assert [token.text for token in examples[0].reference] == ["na", "es", "in", "ew", "rk", "."]
    assert [token.tag_ for token in examples[0].reference][:2] == ["B-NP", "B-VP"]
    assert {
        token.text for e in create_crfsuite_reader(file_of_crfsuite_reader, word="?")(nlp) for token in e.reference
    } == {"_"}
    assert len(examples) == 1


def test_training_in_spacys_steps_sees_attributes_changed_in_place(file_of_crfsuite_reader: Path) -> None:
    """What is compiled once is told apart by its content, the attributes included."""
    nlp = blank("crf_tagger", features=FEATURES)
    examples = list(create_crfsuite_reader(file_of_crfsuite_reader)(nlp))
    pipe = pipe_of(initialize(nlp, examples))
    before = content_key(pipe.doc_model, examples[0])
    doc = examples[0].predicted
    doc._.crf_attributes = [["bias"]] * len(doc)
    assert content_key(pipe.doc_model, examples[0]) != before


def test_docs_without_attributes_are_refused(file_of_crfsuite_reader: Path) -> None:
    nlp = blank("crf_tagger", features=FEATURES)
    initialize(nlp, list(create_crfsuite_reader(file_of_crfsuite_reader)(nlp)))
    with pytest.raises(DataError, match=r"has no attributes. Set doc._.crf_attributes"):
        nlp("Anna lives")
    doc = nlp.make_doc("Anna lives")
    doc._.crf_attributes = [["bias"]]
    with pytest.raises(DataError, match="of 2 tokens has attributes for 1 tokens"):
        nlp(doc)
    with pytest.raises(DataError, match="has no attributes"):
        nlp.initialize(lambda: [Example(nlp.make_doc("Anna"), nlp.make_doc("Anna"))])


def test_labels_that_break_the_scheme_are_refused_with_their_line(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("O\ta\nI-NP\tb\n")
    with pytest.raises(FormatError, match=re.escape(f"{path}:2: ")):
        list(create_crfsuite_reader(path, "chunk")(spacy.blank("xx")))
