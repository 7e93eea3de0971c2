"""The reader that weights another one, and the weighted estimator that it and the components make."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import registry

import spacy_crfseq.pipeline.factories  # noqa: F401  makes the registries known
from spacy_crfseq.errors import DataError
from spacy_crfseq.papers.weighting.reader import create_weighted_reader
from spacy_crfseq.papers.weighting.weightings import ExactCounts, Weights

Q = {"ab": 0.4, "ac": 0.3, "db": 0.2, "dc": 0.1}
SAMPLE = {"ab": (30, 2), "ac": (3, 5), "db": (2, 9), "dc": (20, 4)}
"""How often each word has label 1 and label 0."""


def write(path: Path, words: list[str]) -> Path:
    path.write_text("".join(f"{word}\n\n" for word in words))
    return path


def block(corpus: Path, target: Path) -> dict[str, Any]:
    name = "spacy_crfseq.ConllReader.v1"
    return {
        "@readers": "spacy_crfseq.WeightedReader.v1",
        "corpus": {"@readers": name, "path": str(corpus), "columns": ["word", "tag"]},
        "target": {"@readers": name, "path": str(target), "columns": ["word"]},
        "weighting": {"@crf_weightings": "spacy_crfseq.ExactCounts.v1"},
    }


def logistic(weight: dict[str, float], rho: float) -> np.ndarray:
    """Return the log odds of label 1 by Newton's method: one parameter for each first and each last letter."""
    x = np.array([[word[0] == "a", word[0] == "d", word[1] == "b", word[1] == "c"] for word in Q], float)
    ones, zeros = (np.array([weight[word] * SAMPLE[word][side] for word in Q]) for side in (0, 1))
    theta = np.zeros(4)
    for _ in range(50):
        g = 1 / (1 + np.exp(-x @ theta))
        slope = x.T @ ((ones + zeros) * g - ones) + rho / 2 * theta  # two labels share each difference of weights
        curvature = (x.T * ((ones + zeros) * g * (1 - g))) @ x + rho / 2 * np.eye(4)
        theta = theta - np.linalg.solve(curvature, slope)
    return x @ theta


def test_the_tagger_is_the_weighted_estimator(tmp_path: Path) -> None:
    """(4.18) on one-token sequences: a config's reader, weighting and component against a logistic regression."""
    gold = [f"{word} {label}" for word, (ones, zeros) in SAMPLE.items() for label in ["1"] * ones + ["0"] * zeros]
    train = write(tmp_path / "train.conll", gold)
    raw = write(tmp_path / "raw.conll", [word for word, share in Q.items() for _ in range(round(100 * share))])
    reader = registry.resolve({"reader": block(train, raw)})["reader"]
    nlp = spacy.blank("xx")
    templates = {"@crf_features": "spacy_crfseq.Templates.v1", "templates": ["PREFIX1", "SUFFIX1"]}
    tight = {"@crf_optimizers": "spacy_crfseq.LBFGS.v1", "tolerance": 0.0, "gradient_tolerance": 1e-10}
    pipe: Any = nlp.add_pipe(
        "crf_tagger",
        config={
            "features": templates, "transitions": False, "boundaries": False, "precision": "float64",
            "regularizer": {"@crf_regularizers": "spacy_crfseq.L2.v1", "rho": 0.5}, "optimizer": tight,
        },
    )  # fmt: skip
    nlp.initialize(lambda: reader(nlp))
    for _ in range(2):  # weights are set again, not multiplied
        examples = list(reader(nlp))
    pipe.fit(examples)
    n = len(gold)
    expected = logistic({word: Q[word] * n / sum(SAMPLE[word]) for word in Q}, 0.5)
    for word, odds in zip(Q, expected, strict=True):
        found = dict(zip(pipe.tags, pipe.posterior([Doc(nlp.vocab, words=[word])]).marginals()[0][0], strict=True))
        assert np.log(found["1"] / found["0"]) == pytest.approx(odds, abs=1e-8)


def test_a_file_of_weights_is_multiplied(tmp_path: Path) -> None:
    (tmp_path / "train.conll").write_text("a N 3\n\nb N 1\n\n")
    settings = block(tmp_path / "train.conll", write(tmp_path / "raw.conll", ["a", "b", "b", "b"]))
    settings["corpus"]["columns"] = ["word", "tag", "weight"]
    reader = registry.resolve({"reader": settings})["reader"]
    nlp = spacy.blank("xx")
    for _ in range(2):
        assert [example.reference._.crf_weight for example in reader(nlp)] == pytest.approx([1.5, 1.5])


def corpus(*texts: str) -> Any:
    def read(nlp: Language) -> Iterator[Example]:
        for text in texts:
            doc = nlp.make_doc(text)
            yield Example(doc, doc.copy())

    return read


def test_uneven_weights_are_warned_of() -> None:
    reader = create_weighted_reader(corpus("a", *["b"] * 99), corpus(*["a"] * 99, "b"), ExactCounts())
    with pytest.warns(UserWarning, match=r"as if only 1 of them.*`flatten`"):
        list(reader(spacy.blank("en")))
    mixed = create_weighted_reader(corpus("a b", "a c"), corpus("a b " * 40), lambda _, __: Weights(np.ones(2)))
    with pytest.warns(UserWarning, match=r"2.0 tokens on average, those of the target 80.0"):
        list(mixed(spacy.blank("en")))


@pytest.mark.parametrize("values", [[1.0], [1.0, -1.0], [np.nan, 1.0], [0.0, 0.0]])
def test_what_is_no_weight_of_a_plugin_is_refused(values: list[float]) -> None:
    reader = create_weighted_reader(corpus("a", "b"), corpus("a"), lambda _, __: Weights(np.array(values)))
    with pytest.raises(DataError, match="a weighting returns a number of at least 0"):
        reader(spacy.blank("en"))
