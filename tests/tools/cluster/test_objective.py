"""An objective over shards has the values of one process; every online method is mixed over shards, or refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from spacy_crfseq import registry
from spacy_crfseq.decoders.viterbi import Viterbi
from spacy_crfseq.losses.entropy import Entropy
from spacy_crfseq.losses.sequential_log import SequentialLog
from spacy_crfseq.optimizers.online import OnlineMethod
from spacy_crfseq.papers.labelled_features.expectation import Expectation
from spacy_crfseq.potentials.linear import Linear
from spacy_crfseq.regularizers.l2 import L2
from spacy_crfseq.tools.cluster.objective import Distributed, Mixed, TermLoss
from spacy_crfseq.training.objective import Objective, Term
from tests.problems import all_allowed, training_problem

ONLINE = sorted(
    name
    for name, make in registry.optimizers.get_all().items()
    if not name.startswith("test") and isinstance(make(), OnlineMethod)
)


class Here:
    """Shards in this process, all with the features of the whole training set."""

    def __init__(self, objectives: list[Objective]) -> None:
        self._shards: list[tuple[Objective, dict[str, Any]]] = [(objective, {}) for objective in objectives]

    def sum(self, work: Any, theta: Any) -> tuple[Any, ...]:
        result = [work(objective, theta.copy(), memory) for objective, memory in self._shards]
        return tuple(map(sum, zip(*result, strict=True)))


def split(objective: Objective, n_shards: int) -> Distributed:
    """Return the objective over shards, each with a part of every term's sequences."""
    bounds = [np.array_split(np.arange(term.data.n_sequences), n_shards) for term in objective.terms]
    parts = [
        objective.on(
            [term._replace(data=term.data.take(part[i])) for term, part in zip(objective.terms, bounds, strict=True)]
        )
        for i in range(n_shards)
    ]
    for part in parts:
        part._n_total = objective.n_sequences
    losses = [TermLoss(term.name, term.loss, term.weight) for term in objective.terms]
    return Distributed(Here(parts), objective.potential, losses, objective.regularizer, n_total=objective.n_sequences)


@pytest.mark.parametrize("n_shards", [1, 2, 5])
@pytest.mark.parametrize("losses", [(), (Entropy(),), (Expectation({"A": 0.5}), Entropy())])
def test_values_and_gradients_are_those_of_one_process(losses: tuple[Any, ...], n_shards: int) -> None:
    training = training_problem(3, n_sequences=14, weighted=True)
    data = training.objective.data
    terms = [Term(data, SequentialLog(), name="labelled")]
    for number, loss in enumerate(losses):
        bound = loss.bind(["A", "B", "C"], None) if hasattr(loss, "bind") else loss
        terms.append(Term(data, bound, 0.3, name=f"raw {number}"))
    objective = Objective(Linear(training.layout), terms, L2(2.0))
    many, rng = split(objective, n_shards), np.random.default_rng(0)
    for _ in range(2):
        theta = training.random_theta(rng)
        expected, value = objective.value_and_grad(theta), many.value_and_grad(theta)
        assert value[:2] == pytest.approx(expected[:2], rel=1e-12)
        np.testing.assert_allclose(value[2], expected[2], rtol=1e-9, atol=1e-12)
        assert many.value(theta) == pytest.approx(expected[0], rel=1e-12)


@pytest.mark.parametrize("name", ONLINE)
def test_online_methods_are_mixed(name: str) -> None:
    """Two shards learn nearly what one process learns, and the same shards give the same weights."""
    assert {"spacy_crfseq.AdaGrad.v1", "spacy_crfseq.SGD.v1"} <= set(ONLINE)
    make = registry.optimizers.get(name)
    requires = make().requires
    loss = "Hinge" if "margin" in requires else "Perceptron" if "best_path" in requires else "SequentialLog"
    penalty = registry.regularizers.get("spacy_crfseq.NoRegularizer.v1")() if "best_path" in requires else L2(0.1)
    training = training_problem(
        5, n_sequences=30, loss=registry.losses.get(f"spacy_crfseq.{loss}.v1")(), regularizer=penalty
    )
    item, gold = training.objective, training.objective.data.gold

    def learned(optimizer: Any, objective: Any) -> tuple[float, Any]:
        state = optimizer.start(np.zeros(item.potential.size))
        for _ in range(5):
            if optimizer.iterate(objective, state).converged:
                break
        theta = optimizer.export(state)
        labels = training.model(theta).posterior(training.encoded, all_allowed(3)).decode(Viterbi())
        return float((labels == gold).mean()), theta

    single, _ = learned(make(seed=1), item)
    mixed, theta = learned(Mixed(make(seed=1)), split(item, 2))
    assert mixed > single - 0.1
    assert single > 0.8
    np.testing.assert_array_equal(learned(Mixed(make(seed=1)), split(item, 2))[1], theta)


def test_a_mean_change_is_larger_where_more_shards_have_a_feature() -> None:
    """The sum of shares is 1 where all shards have the feature, and the fourth root of two shards is the growth."""
    training = training_problem(5, n_sequences=30, regularizer=L2(0.1))
    optimizer = Mixed(registry.optimizers.get("spacy_crfseq.AdaGrad.v1")())
    for n_shards in (1, 2):
        state = optimizer.start(np.zeros(training.objective.potential.size))
        optimizer.iterate(split(training.objective, n_shards), state)
        np.testing.assert_allclose(state.factors, n_shards**0.25)
