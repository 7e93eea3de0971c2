"""Attribute files of CRFsuite: the reader, and the same optimum as CRFsuite on the very same attributes."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
import spacy
from spacy.tokens import DocBin
from spacy.training import Example

from spacy_crfseq.corpora.crfsuite import format_item, read_crfsuite
from spacy_crfseq.errors import DataError, FormatError
from spacy_crfseq.pipeline.readers import create_crfsuite_reader
from tests.pipeline.helpers import LBFGS_TIGHT, SENTENCES, blank, initialize, pipe_of, registered, templates

FEATURES = templates("GIVEN[0]", token_functions={"GIVEN": registered("features", "Attributes")})


def attributes(words: list[str], i: int) -> list[str]:
    word = words[i]
    names = ["bias", f"w[0]={word}", f"suffix={word[-2:]}", f"x:y\\{word.istitle()}"]
    return names + [f"w[{k}]={words[i + k]}" for k in (-1, 1) if 0 <= i + k < len(words)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The corpus of the helpers as an attribute file; labels are chunks."""
    blocks = []
    for rows in SENTENCES:
        words = [row[0] for row in rows]
        blocks += ["".join(format_item(row[4], attributes(words, i)) + "\n" for i, row in enumerate(rows))]
    path = tmp_path / "train.crfsuite"
    path.write_text("\n".join(blocks))
    return path


def test_docs_have_words_labels_and_attributes(file: Path) -> None:
    nlp = spacy.blank("xx")
    reader = create_crfsuite_reader(file, "chunk")
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


def test_words_and_limits(file: Path) -> None:
    nlp = spacy.blank("xx")
    examples = list(create_crfsuite_reader(file, word="suffix=", limit=1)(nlp))
    assert [token.text for token in examples[0].reference] == ["na", "es", "in", "ew", "rk", "."]
    assert [token.tag_ for token in examples[0].reference][:2] == ["B-NP", "B-VP"]
    assert {token.text for e in create_crfsuite_reader(file, word="?")(nlp) for token in e.reference} == {"_"}
    assert len(examples) == 1


@pytest.mark.parametrize("support", ["observed", "all"])
def test_the_optimum_is_crfsuites(file: Path, tmp_path: Path, support: str) -> None:
    pycrfsuite = pytest.importorskip("pycrfsuite", reason="python-crfsuite is not installed")
    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    for sentence in read_crfsuite(file):
        trainer.append(sentence.attributes, sentence.columns["tag"])
    trainer.set_params({
        "c1": 0.0, "c2": 0.5, "epsilon": 1e-9, "delta": 1e-9, "max_iterations": 500,
        "feature.possible_states": support == "all", "feature.possible_transitions": support == "all",
    })  # fmt: skip
    trainer.train(str(tmp_path / "crfsuite.model"))
    tagger = pycrfsuite.Tagger()
    tagger.open(str(tmp_path / "crfsuite.model"))

    nlp = blank(
        "crf_tagger", features=FEATURES, support=support, boundaries=False, precision="float64", optimizer=LBFGS_TIGHT,
        keep_names=True,
    )  # fmt: skip
    reader = create_crfsuite_reader(file)
    pipe = pipe_of(initialize(nlp, list(reader(nlp))))
    result = pipe.fit()
    assert result.history[-1].report.value == pytest.approx(trainer.logparser.last_iteration["loss"], rel=1e-5)
    assert result.history[-1].report.value < 0.9 * sum(map(len, SENTENCES)) * math.log(len(pipe.tags))
    names = [name.removeprefix("GIVEN[0]=") for name in pipe.doc_model.feature_names]
    assert sorted(names) == sorted({attribute for attribute, _ in tagger.info().state_features})
    for example, sentence in zip(reader(nlp), read_crfsuite(file), strict=True):
        marginals = pipe.marginals(example.predicted)
        tagger.set(sentence.attributes)
        expected = [[tagger.marginal(tag, t) for tag in pipe.tags] for t in range(len(sentence.words))]
        np.testing.assert_allclose(marginals, expected, atol=2e-3)


def test_training_in_spacys_steps_sees_attributes_changed_in_place(file: Path) -> None:
    """What is compiled once is told apart by its content, the attributes included."""
    nlp = blank("crf_tagger", features=FEATURES)
    examples = list(create_crfsuite_reader(file)(nlp))
    pipe = pipe_of(initialize(nlp, examples))
    before = pipe.training.content_key(examples[0])
    doc = examples[0].predicted
    doc._.crf_attributes = [["bias"]] * len(doc)
    assert pipe.training.content_key(examples[0]) != before


def test_docs_without_attributes_are_refused(file: Path) -> None:
    nlp = blank("crf_tagger", features=FEATURES)
    initialize(nlp, list(create_crfsuite_reader(file)(nlp)))
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
