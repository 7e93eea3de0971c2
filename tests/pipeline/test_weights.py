"""Weights of sequences: from files, Docs and stored corpora to the objective and to spaCy's updates."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Doc, DocBin
from spacy.training import Corpus, Example

from spacy_crfseq.errors import ConfigError, DataError, FormatError
from spacy_crfseq.pipeline.readers import (
    create_annotation_reader,
    create_conll_reader,
    create_conllu_reader,
    create_crfsuite_reader,
)
from tests.pipeline.helpers import FACTORIES, LBFGS_TIGHT, blank, examples, initialize, initialized, pipe_of

COLUMNS = "Anna NNP {}\nsaw VBD {}\n\nOslo NNP {}\n\n"
CONLLU = "1\tAnna\t_\tPROPN\tNNP\t_\t0\troot\t_\t_\n\n"


def weighted(nlp: Language, factory: str, weights: Sequence[float]) -> list[Example]:
    found = examples(nlp, factory)
    for example, weight in zip(found, weights, strict=True):
        example.reference._.crf_weight = weight
    return found


def value_and_grad(nlp: Language, data: list[Example]) -> tuple[float, Any]:
    with pipe_of(nlp).training.training_on(data) as (objective, _):
        value, _, grad = objective.value_and_grad(np.random.default_rng(0).normal(size=objective.layout.size))
    return value, grad


@pytest.mark.parametrize("factory", FACTORIES)
@pytest.mark.parametrize("loss", ["SequentialLog", "PointwiseLog", "SequentialExp"])
def test_a_weight_counts_a_sequence_so_many_times(factory: str, loss: str) -> None:
    config = {"loss": {"@crf_losses": f"spacy_crfseq.{loss}.v1"}, "optimizer": LBFGS_TIGHT}
    nlp = initialized(factory, precision="float64", **config)
    one = examples(nlp, factory)
    value, grad = value_and_grad(nlp, weighted(nlp, factory, [2, 0, 1, 1, 3]))
    expected, slope = value_and_grad(nlp, [one[0], one[0], one[2], one[3], one[4], one[4], one[4]])
    assert value == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(grad, slope, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("by", ["update", "fit"])
def test_training_takes_weights_in(by: str) -> None:
    thetas, first_steps = [], {**LBFGS_TIGHT, "max_iterations": 4, "epochs": 0}
    for weights, repeat in (([2.0] * 5, 1), ([1.0] * 5, 2)):
        nlp = initialized("crf_ner", repeat, precision="float64", optimizer=first_steps)
        pipe = pipe_of(nlp)
        data = weighted(nlp, "crf_ner", weights) * repeat
        if by == "fit":
            pipe.fit(data)
        else:
            for _ in range(4):
                pipe.update(data)
                pipe.finish_update(None)
        thetas.append(pipe.crf.theta.copy())
    assert thetas[0].any()
    np.testing.assert_allclose(*thetas, rtol=1e-6, atol=1e-9)


def test_initialize_takes_weights_in_and_they_are_part_of_an_example() -> None:
    nlp = blank("crf_ner")
    data = weighted(nlp, "crf_ner", [1, 2, 3, 4, 0.5])
    pipe = pipe_of(initialize(nlp, data))
    assert pipe.training.corpus is not None
    assert pipe.training.data.weights.tolist() == [1, 2, 3, 4, 0.5]
    before = pipe.training.content_key(data[1])
    data[1].reference._.crf_weight = 5.0
    assert pipe.training.content_key(data[1]) != before
    assert pipe.training.compile([data[1]])[0].weights.tolist() == [5]


def test_all_sequences_of_a_doc_have_its_weight() -> None:
    nlp = initialized("crf_ner")
    words, starts = ["Anna", "saw", "Bob", "Oslo"], [True, False, False, True]
    gold = Doc(nlp.vocab, words=words, ents=["B-PER", "O", "B-PER", "B-LOC"])
    gold._.crf_weight = 2
    empty = Doc(nlp.vocab)
    empty._.crf_weight = 7
    pairs = [Example(Doc(nlp.vocab), empty), Example(Doc(nlp.vocab, words=words, sent_starts=starts), gold)]
    none, both = pipe_of(nlp).training.compile(pairs)
    assert (none.weights.tolist(), both.weights.tolist()) == ([], [2, 2])


@pytest.mark.parametrize("weight", [-1, float("nan"), float("inf"), "2", None])
def test_what_is_no_weight_is_refused(weight: Any) -> None:
    nlp = initialized("crf_ner")
    data = weighted(nlp, "crf_ner", [1, 1, 1, 1, weight])
    with pytest.raises(DataError, match=r"'Rain.*crf_weight must be a number of at least 0"):
        pipe_of(nlp).fit(data)


def read(reader: Any) -> list[float]:
    return [example.reference._.crf_weight for example in reader(spacy.blank("xx"))]


@pytest.mark.parametrize(
    ("values", "weight", "unit", "expected"),
    [
        (("2", "_", "0.5"), 1.0, "sentence", [2, 0.5]),
        (("2", "2.0", "0"), 3.0, "sentence", [6, 0]),
        (("2", "_", "2"), 1.0, "document", [2]),
        (("1", "1", "1"), 0.0, "sentence", [0, 0]),
    ],
)
def test_columns_of_weights(
    tmp_path: Path, values: tuple[str, ...], weight: float, unit: str, expected: list[float]
) -> None:
    file = tmp_path / "weights.txt"
    file.write_text(COLUMNS.format(*values))
    assert read(create_conll_reader(file, ["word", "tag", "weight"], unit=unit, weight=weight)) == expected


@pytest.mark.parametrize(
    ("values", "unit", "line", "message"),
    [
        (("x", "_", "1"), "sentence", 1, "'x' in column 'weight' is not a weight"),
        (("_", "1", "1"), "sentence", 1, "'_' in column"),
        (("1", "_", "-1"), "sentence", 4, "'-1' in column"),
        (("1", "nan", "1"), "sentence", 2, "'nan' in column"),
        (("1", "2", "1"), "sentence", 2, "the weight 2 differs from the 1 before it"),
        (("1", "_", "2"), "document", 4, "the weight 2 differs"),
    ],
)
def test_wrong_weights_are_refused_with_their_line(
    tmp_path: Path, values: tuple[str, ...], unit: str, line: int, message: str
) -> None:
    file = tmp_path / "weights.txt"
    file.write_text(COLUMNS.format(*values))
    with pytest.raises(FormatError, match=rf"weights.txt:{line}: {message}"):
        read(create_conll_reader(file, ["word", "tag", "weight"], unit=unit))


def test_readers_have_a_weight_for_the_whole_corpus(tmp_path: Path) -> None:
    file, attributes = tmp_path / "a.conllu", tmp_path / "a.txt"
    file.write_text(CONLLU)
    attributes.write_text("NNP\tw=Anna\n\n")
    assert read(create_conllu_reader(file, weight=2.5)) == [2.5]
    assert read(create_crfsuite_reader(attributes, weight=2.5)) == [2.5]
    with pytest.raises(ConfigError, match=r"weight = -1"):
        create_conllu_reader(file, weight=-1.0)
    (example,) = create_conllu_reader(file)(spacy.blank("xx"))
    assert not example.reference.user_data  # stored Docs without are read faster


def test_exports_of_annotation_tools_have_weights(tmp_path: Path) -> None:
    file, text = tmp_path / "train.jsonl", '{"text": "Anna saw Oslo", "spans": [], "answer": "accept"'
    notes = ['"weight": 2', '"meta": {"weight": 0.5}', '"weight": 0, "meta": {"weight": 3}', '"meta": {"weight": "kg"}']
    file.write_text("".join(f"{text}, {note}}}\n" for note in notes))
    assert read(create_annotation_reader(file, weight=2.0)) == [4, 1, 0, 2]
    for wrong in ('"2"', "-1", "true", "NaN", "null"):
        file.write_text(f'{text}}}\n{text}, "weight": {wrong}}}\n')
        with pytest.raises(FormatError, match=r'train.jsonl:2: "weight" must be a number of at least 0'):
            read(create_annotation_reader(file))


def test_stored_corpora_keep_weights(tmp_path: Path) -> None:
    nlp = initialized("crf_ner")
    gold = [example.reference for example in weighted(nlp, "crf_ner", [1, 2, 0.5, 1, 1])]
    DocBin(docs=gold, store_user_data=True).to_disk(tmp_path / "train.spacy")
    data = list(Corpus(tmp_path / "train.spacy")(nlp))
    assert [d.weights[0] for d in pipe_of(nlp).training.compile(data)] == [1, 2, 0.5, 1, 1]
