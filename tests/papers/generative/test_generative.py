"""HMM and naive Bayes against counting by hand, and EM against sums over all labellings."""

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest

from spacy_crfseq.errors import ConfigError
from spacy_crfseq.papers.generative import HMM, JointLog, NaiveBayes
from spacy_crfseq.potentials.linear import Linear
from spacy_crfseq.regularizers.none import NoRegularizer
from spacy_crfseq.training.objective import Objective, Term
from spacy_crfseq.types import Floats, StepReport
from tests import reference
from tests.problems import Sentence, Training, columns_of, source_of, training_problem

S = 0.3
LABELS = range(3)
MODELS = pytest.mark.parametrize("kind", [HMM, NaiveBayes])


def make(**settings: Any) -> Training:
    """Return a problem whose tokens have a word and often a tag."""
    kinds = {"support": "all", "templates": ("LOWER", "TAG[0]"), "loss": JointLog(), "regularizer": NoRegularizer()}
    return training_problem(2, **{"n_sequences": 10, **kinds, **settings})


def train(training: Training, kind: type[HMM], iterations: int = 5, **settings: Any) -> tuple[Floats, list[StepReport]]:
    optimizer, theta = kind(smoothing=S, max_iterations=iterations, tolerance=0.0), np.zeros(training.layout.size)
    state, reports = optimizer.start(theta), []
    while len(reports) < iterations:
        reports.append(optimizer.iterate(training.objective, state))
    return optimizer.export(state), reports


class ByHand:
    """The model as a dictionary of counts of events: (template, label) -> value, (label,) -> next label."""

    def __init__(self, training: Training, kind: type[HMM]) -> None:
        self.order = 1 if kind is HMM else 0
        self.counts: Counter[tuple[Any, Any]] = Counter()
        values = [self.values(sentence, t) for sentence in training.sentences for t in range(len(sentence.words))]
        self.known = [{value[k] for value in values} - {""} for k in (0, 1)]

    def values(self, sentence: Sentence, t: int) -> tuple[str, str]:
        return sentence.words[t].lower(), sentence.tags[t]

    def events(self, sentence: Sentence, path: list[int]) -> list[tuple[Any, Any]]:
        """Return (given what, outcome) of each factor of P(x, y)."""
        before = ["start", *path] if self.order else [""] * len(path)
        result: list[tuple[Any, Any]] = list(zip(before, [*path, "end"] if self.order else path, strict=True))
        for t, label in enumerate(path):
            for k, value in enumerate(self.values(sentence, t)):
                result.append(((k, label), value if value in self.known[k] else ""))
        return result

    def outcomes(self, given: Any) -> list[Any]:
        if isinstance(given, tuple):
            return [*sorted(self.known[given[0]]), ""]
        return [*LABELS, "end"] if given in LABELS else [*LABELS]

    def log_p(self, given: Any, outcome: Any) -> float:
        counts = {outcome: self.counts[given, outcome] + S for outcome in self.outcomes(given)}
        return float(np.log(counts[outcome] / sum(counts.values())))

    def joint(self, sentence: Sentence, path: list[int]) -> float:
        return sum(self.log_p(*event) for event in self.events(sentence, path))

    def prior(self) -> float:
        """Return - S times the sum of the log-probabilities of all outcomes."""
        given: list[Any] = ["start", *LABELS] if self.order else [""]
        given += [(k, label) for k in (0, 1) for label in LABELS]
        return -S * sum(self.log_p(cell, outcome) for cell in given for outcome in self.outcomes(cell))

    def expect(self, training: Training, *, first: bool = False) -> float:
        """Do an E-step and an M-step; return the negative log-likelihood of the model before.

        first: Count sequences with a known label only, all of whose completions are equally probable.
        """
        new, nll, batch = Counter[tuple[Any, Any]](), 0.0, training.objective.batch
        for n, sentence in enumerate(training.sentences):
            gold = batch.gold[batch.offsets[n] : batch.offsets[n + 1]]
            if not len(gold) or (first and (gold < 0).all()):
                continue
            paths = reference.all_paths(len(gold), len(LABELS))
            paths = paths[reference.agrees(paths, gold)]
            scores = np.array([0.0 if first else self.joint(sentence, path) for path in paths.tolist()])
            log_sum = reference.log_sum(scores)
            nll -= batch.weights[n] * log_sum
            for path, score in zip(paths.tolist(), scores, strict=True):
                for event in self.events(sentence, path):
                    new[event] += batch.weights[n] * np.exp(score - log_sum)
        self.counts = new
        return nll


@MODELS
@pytest.mark.parametrize("missing", [0.0, 0.6])
def test_iterations_equal_em_by_hand(kind: type[HMM], missing: float) -> None:
    training = make(missing=missing, weighted=True)
    _, reports = train(training, kind)
    model = ByHand(training, kind)
    model.expect(training, first=True)
    priors, losses = [], []
    for _ in reports:
        priors.append(model.prior())
        losses.append(model.expect(training))
    assert [report.loss for report in reports] == pytest.approx(losses, rel=1e-9)
    assert [report.value - report.loss for report in reports] == pytest.approx(priors, rel=1e-6)
    assert (reports[0].loss == pytest.approx(reports[4].loss, rel=1e-12)) == (missing == 0)


@MODELS
def test_scores_are_log_probabilities_also_of_unknown_values(kind: type[HMM]) -> None:
    training = make()
    theta, _ = train(training, kind, 1)
    model, sentence = ByHand(training, kind), Sentence(("cat", "never", "The"), ("NN", "", "XX"))
    model.expect(training, first=True)
    encoded = training.encoder.encode(columns_of(training.vocabulary, training.encoder, [sentence]))
    scores = source_of(Linear(training.layout), theta, encoded).scores((0, 1))
    for path in reference.all_paths(3, len(LABELS)).tolist():
        assert reference.path_score(scores, path) == pytest.approx(model.joint(sentence, path), rel=1e-9)


@MODELS
def test_no_iteration_raises_the_objective_of_labelled_and_raw_texts(kind: type[HMM]) -> None:
    training = make(n_sequences=30, missing=0.2)
    data = training.objective.data
    raw = data.slice(8, 30)._replace(gold=np.full_like(data.slice(8, 30).gold, -1))
    terms = [Term(data.slice(0, 8), JointLog()), Term(raw, JointLog(), weight=0.4)]
    parts: dict[str, Any] = {"templates": training.features[0].templates}
    objective = Objective(Linear(training.layout), terms, NoRegularizer(), **parts)
    theta, reports = train(training._replace(objective=objective), kind, 20)
    values = [report.value for report in reports]
    assert all(later <= earlier + 1e-9 for earlier, later in itertools.pairwise(values))
    assert values[-1] < values[0] - 1
    assert reports[-1].loss == pytest.approx(objective.value(theta), rel=1e-12)


def test_raw_texts_take_no_part_in_the_first_counts() -> None:
    training = make(missing=0.0)
    data = training.objective.data
    raw = data._replace(gold=np.full_like(data.gold, -1))
    both = Objective(
        Linear(training.layout), [Term(data, JointLog()), Term(raw, JointLog())], NoRegularizer(),
        templates=training.features[0].templates,
    )  # fmt: skip
    np.testing.assert_allclose(
        *(train(problem, HMM, 1)[0] for problem in (training, training._replace(objective=both)))
    )


@pytest.mark.parametrize("kind", [HMM, NaiveBayes])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"support": "observed"}, 'set support = "all"'),
        ({"boundaries": False}, "boundaries = true"),
        ({"transitions": False}, "transitions = true"),
        ({"bigram_templates": ("TAG[0]",)}, "leave out pair templates"),
    ],
)
def test_training_that_would_have_no_probability_is_refused(
    kind: type[HMM], change: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        train(make(**change), kind, 1)


def test_several_values_of_one_template_are_refused() -> None:
    training = make()
    parts = {"templates": np.zeros(training.layout.unigrams.n_rows, np.uint16)}
    objective = Objective(Linear(training.layout), training.objective.terms, NoRegularizer(), **parts)
    with pytest.raises(ConfigError, match="template 1 of this component gives some tokens several"):
        train(training._replace(objective=objective), HMM, 1)


def test_a_model_of_labels_alone() -> None:
    training = make(templates=())
    theta, _ = train(training, HMM, 1)
    gold, offsets = training.objective.batch.gold, training.objective.batch.offsets
    first = Counter(gold[offsets[:-1][np.diff(offsets) > 0]].tolist())
    shares = [(first[label] + S) / (sum(first.values()) + 3 * S) for label in LABELS]
    np.testing.assert_allclose(np.exp(training.layout.views(theta).start), shares)
