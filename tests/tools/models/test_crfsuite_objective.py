"""The same objective and the same optimum as CRFsuite, on the same attributes.

CRFsuite minimises ``sum_n -log P(y_n | x_n) + c2 ||w||^2``, which is L2 with rho = 2 c2, over the attribute-label pairs
and transitions seen in training, or over all of them with its feature.possible_* options; it has no start and end
scores.  Its attributes are made by the readable extraction of `tests.reference`.
"""

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from spacy_crfseq.losses.sequential_log import SequentialLog
from spacy_crfseq.optimizers.lbfgs import LBFGS
from spacy_crfseq.potentials.layout import SparseRows, make_layout
from spacy_crfseq.potentials.linear import Linear
from spacy_crfseq.regularizers.l2 import L2
from spacy_crfseq.training.dataset import Dataset
from spacy_crfseq.training.fit import fit
from spacy_crfseq.training.objective import Objective, Term
from spacy_crfseq.types import Floats
from tests import reference
from tests.problems import Sentence, Vocabulary, columns_of, growing_encoder, random_sentences

pycrfsuite = pytest.importorskip("pycrfsuite", reason="python-crfsuite is not installed (pip install python-crfsuite)")

TEMPLATES = ("LOWER[-1..1]", "TAG[-1..1]", "TAG[-1]|TAG[0]", "SUFFIX2[0]")


class Corpus(NamedTuple):
    """Sentences and their gold labels."""

    sentences: list[Sentence]
    labels: list[list[str]]


def generated(n: int) -> Corpus:
    rng = np.random.default_rng(0)
    sentences = [sentence for sentence in random_sentences(rng, n, longest=8) if sentence.words]
    labels = [[f"L{(len(word) + rng.integers(0, 2)) % 4}" for word in sentence.words] for sentence in sentences]
    return Corpus(sentences, labels)


def conll2000(folder: Path, n: int) -> Corpus:
    """Return the first n sentences; columns are word, tag and chunk."""
    blocks = (folder / "conll2000" / "train.txt").read_text(encoding="utf8").split("\n\n")[:n]
    rows = [[line.split() for line in block.splitlines()] for block in blocks]
    sentences = [Sentence(tuple(row[0] for row in block), tuple(row[1] for row in block)) for block in rows]
    return Corpus(sentences, [[row[2] for row in block] for block in rows])


class Comparison:
    """One corpus, trained on by CRFsuite and compiled for this package."""

    def __init__(self, corpus: Corpus, support: str, model_path: Path) -> None:
        self.labels = sorted({label for labels in corpus.labels for label in labels})
        self.objective, self.names = self._compile(corpus, support)
        self.trainer_loss, self._model = self._train(corpus, support, model_path)

    def _compile(self, corpus: Corpus, support: str) -> tuple[Objective, list[str]]:
        vocabulary = Vocabulary()
        encoder = growing_encoder(vocabulary, TEMPLATES)
        encoded = encoder.encode(columns_of(vocabulary, encoder, corpus.sentences))
        gold = np.array([self.labels.index(label) for labels in corpus.labels for label in labels], np.int32)
        layout = make_layout(
            encoded, gold, len(self.labels), (encoder.unigrams.index.size, 0), support=support, boundaries=False
        )
        data = Dataset(encoded, gold, np.ones(len(corpus.sentences)))
        names = encoder.features[0].names(vocabulary.text_of)
        return Objective(Linear(layout), [Term(data, SequentialLog())], L2(rho=2.0)), names

    def _train(self, corpus: Corpus, support: str, path: Path) -> tuple[float, pycrfsuite.Tagger]:
        trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
        for attributes, labels in zip(attributes_of(corpus.sentences), corpus.labels, strict=True):
            trainer.append(attributes, labels)
        trainer.set_params({
            "c1": 0.0, "c2": 1.0, "epsilon": 1e-7, "delta": 1e-7, "max_iterations": 500, "feature.minfreq": 0,
            "feature.possible_states": support == "all", "feature.possible_transitions": support == "all",
        })  # fmt: skip
        trainer.train(str(path))
        tagger = pycrfsuite.Tagger()
        tagger.open(str(path))
        return float(trainer.logparser.last_iteration["loss"]), tagger.info()

    def theta_of_crfsuite(self) -> Floats:
        """Return CRFsuite's weights, printed with six decimals, at their places in theta."""
        layout = self.objective.layout
        theta = np.zeros(layout.size)
        views = layout.views(theta)
        rows = {name: number for number, name in enumerate(self.names)}
        columns = {label: number for number, label in enumerate(self.labels)}
        state = np.zeros((layout.unigrams.n_rows, layout.n_labels))
        for (attribute, label), weight in self._model.state_features.items():
            state[rows[attribute], columns[label]] = weight
        for (first, second), weight in self._model.transitions.items():
            views.transitions[columns[first], columns[second]] = weight
        if isinstance(layout.unigrams, SparseRows):
            owners = np.repeat(np.arange(layout.unigrams.n_rows), np.diff(layout.unigrams.ptr))
            assert np.count_nonzero(state) == np.count_nonzero(state[owners, layout.unigrams.cols])
            views.unigrams[:] = state[owners, layout.unigrams.cols]
        else:
            views.unigrams[:] = state.ravel()
        return theta


def attributes_of(sentences: Sequence[Sentence]) -> list[list[list[str]]]:
    sets = (reference.attribute_sets(sentence.words, {"TAG": sentence.tags}, TEMPLATES) for sentence in sentences)
    return [[sorted(names) for names in sentence] for sentence in sets]


@pytest.fixture(scope="module", params=product(["generated", "conll2000"], ["observed", "all"]), ids="-".join)
def comparison(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    corpus, support = request.param
    n = 500 if support == "observed" else 150
    data = generated(300) if corpus == "generated" else conll2000(request.getfixturevalue("data_folder"), n)
    return Comparison(data, support, tmp_path_factory.mktemp("crfsuite") / "model")


def test_the_objective_at_crfsuites_weights_is_crfsuites_loss(comparison: Comparison) -> None:
    theta = comparison.theta_of_crfsuite()
    value, _, gradient = comparison.objective.value_and_grad(theta)
    start = comparison.objective.value_and_grad(np.zeros_like(theta))[2]
    assert value == pytest.approx(comparison.trainer_loss, rel=1e-5)
    assert np.linalg.norm(gradient) < 1e-3 * np.linalg.norm(start)


def test_both_reach_the_same_optimum(comparison: Comparison) -> None:
    start = np.zeros(comparison.objective.layout.size)
    result = fit(comparison.objective, LBFGS(tolerance=1e-8, gradient_tolerance=1e-8), start)
    assert result.history[-1].report.value == pytest.approx(comparison.trainer_loss, rel=1e-4)
    np.testing.assert_allclose(result.best, comparison.theta_of_crfsuite(), atol=0.02)
