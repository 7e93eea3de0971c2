"""Pairs of plug-ins that cannot work are refused, and the pair that the message recommends is not."""

import re
from dataclasses import dataclass
from typing import Any

import pytest

from spacy_crfseq.decoders.viterbi import Viterbi
from spacy_crfseq.errors import ConfigError
from spacy_crfseq.losses.sequential_log import SequentialLog
from spacy_crfseq.optimizers.lbfgs import LBFGS
from spacy_crfseq.papers.local import LocalViterbi
from spacy_crfseq.registry import losses, optimizers, regularizers
from spacy_crfseq.regularizers.l2 import L2
from spacy_crfseq.regularizers.none import NoRegularizer
from spacy_crfseq.training.compatibility import check_candidates, check_plugins, is_local, provided
from tests.problems import REQUIRED


def named(registry: Any, name: str) -> Any:
    return registry.get(name)(**REQUIRED.get(name, {}))


def check(loss: Any, regularizer: Any, optimizer: Any) -> None:
    decoder = LocalViterbi() if is_local(loss) else Viterbi()
    check_plugins("crf", loss=loss, regularizer=regularizer, optimizer=optimizer, decoder=decoder)


def fits(loss: Any, optimizer: Any) -> bool:
    return bool(optimizer.requires <= provided(loss))


@pytest.mark.parametrize("name", sorted(optimizers.get_all()))
def test_the_recommended_loss_is_accepted(name: str) -> None:
    optimizer = named(optimizers, name)
    for loss_name in sorted(losses.get_all()):
        try:
            check(named(losses, loss_name), NoRegularizer(), optimizer)
        except ConfigError as error:
            ((first, other),) = re.findall(r"A pair that works: \w+ with (\S+); or \w+ with (\S+)\.$", str(error))
            check(named(losses, first), NoRegularizer(), optimizer)
            check(named(losses, loss_name), NoRegularizer(), named(optimizers, other))


@pytest.mark.parametrize("name", sorted(optimizers.get_all()))
def test_the_recommended_penalty_and_optimizer_are_accepted(name: str) -> None:
    optimizer = named(optimizers, name)
    loss = next(loss for key in sorted(losses.get_all()) if fits(loss := named(losses, key), optimizer))
    for penalty_name in sorted(regularizers.get_all()):
        penalty = named(regularizers, penalty_name)
        try:
            check(loss, penalty, optimizer)
        except ConfigError as error:
            ((first, other),) = re.findall(r"A pair that works: \w+ with (\S+); or \w+ with (\S+)\.$", str(error))
            check(loss, named(regularizers, first), optimizer)
            check(SequentialLog(), penalty, named(optimizers, other))


@pytest.mark.parametrize("name", sorted(optimizers.get_all()))
def test_candidate_sets_are_refused_where_they_cannot_be_learnt_from(name: str) -> None:
    """By losses that are not defined for them, and by methods that compute likelihoods themselves."""
    optimizer = named(optimizers, name)
    for loss_name in sorted(losses.get_all()):
        loss = named(losses, loss_name)
        if not fits(loss, optimizer):
            continue
        try:
            check_candidates("crf", loss, optimizer)
        except ConfigError as error:
            part, first, other = re.search(r"but the (\w+ \w+) learns only.*: (\S+) with (\S+)\.$", str(error)).groups()
            assert part in (f"loss {type(loss).__name__}", f"optimizer {type(optimizer).__name__}")
            check_candidates("crf", named(losses, first), named(optimizers, other))
        else:
            assert "candidates" in provided(loss)
            assert not {"likelihood", "log_likelihood"} & optimizer.requires


@dataclass(frozen=True)
class Strange(LBFGS):
    @property
    def penalties(self) -> frozenset[str]:
        return frozenset({"l3"})


def test_an_optimizer_of_unknown_penalties_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"Strange can minimise the penalties \['l3'\], none of which is known.*l2"):
        check(SequentialLog(), L2(), Strange())
