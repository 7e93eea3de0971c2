"""A component that is trained with many settings on a corpus that is read and encoded once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from spacy import util

from ...errors import DataError
from ...pipeline.pipeline_training import PipelineTraining, Say, Turn, set_up_from
from ...prf import finite
from ...types import Floats, TextLoss
from .grid import Combination, Place
from .jobs import end_with_parent
from .results import CombinationResult, Repetition

if TYPE_CHECKING:
    from ...pipeline.component import CRFComponent
    from ...training.fit import FitResult
    from ...types import Schedule

FREE = (
    "loss", "regularizer", "optimizer", "decoder",  # nor do they change which weights there are
    "support", "min_count", "max_features", "boundaries", "transitions", "precision", "inner_iterations",
)  # fmt: skip
"""Settings of a component on which its encoded corpus does not depend."""


class Candidate(NamedTuple):
    """A combination that can be trained.

    config (Config): The whole config of its training.
    encoding (dict): The changes on which the encoded corpus depends.
    """

    combination: Combination
    config: Any
    encoding: dict[Place, Any]


def encoding_of(combination: Combination, pipe: CRFComponent) -> dict[Place, Any]:
    """Return the changes of a combination on which its encoded corpus depends, given its component."""
    if pipe.method.staged:  # the stage before depends on all settings
        return combination.changes
    reads = isinstance(pipe.method.loss, TextLoss)  # it reads texts as they are encoded
    free = [("components", pipe.name, setting) for setting in FREE if not (reads and setting == "loss")]
    return {place: value for place, value in combination.changes.items() if place[:3] not in free}


class Bench:
    """An encoded training corpus, the dev corpus, and the pipeline around the component `name`.

    candidate (Candidate): The first one to be trained here.
    RAISES CrfError: If the config or the corpora cannot be used.
    """

    def __init__(self, candidate: Candidate, name: str, schedule: Schedule, say: Say) -> None:
        training = set_up_from(candidate.config, say)
        needed = needed_before(training, name)
        self.untrained = [other for other in training.to_train if other not in {name, *needed, *training.resumed}]
        self._name, self._schedule = name, schedule
        own = training.to_train[name]
        own.training.set(keeps=True)
        training.encode()
        self._training = training._replace(to_train={other: training.to_train[other] for other in (*needed, name)})
        for turn in self._training.turns():
            if turn.name == name:
                self._turn = turn._replace(dev=list(turn.dev or ()))
                break
            self._fit(turn)
        self._texts, self._staged = own.training.whole, own.method.staged

    def train(self, candidate: Candidate, seeds: Sequence[int], parent: int) -> tuple[CombinationResult, Floats]:
        """Return the result of training with each seed, and the parameters [D] of the best of these.

        RAISES DataError: If there is no score.
        RAISES KeyboardInterrupt: If training was interrupted.
        """
        repetitions, best = list[Repetition](), np.zeros(0)
        for seed in seeds:
            pipe = self._begin(candidate)[1]
            trained = self._fit(self._turn._replace(pipe=pipe, seed=seed), lambda _: end_with_parent(parent))
            at_best = next((progress for progress in reversed(trained.history) if progress.best), None)
            if at_best is None or at_best.score is None:
                raise DataError(f"no score: the objective is {trained.history[-1].report.value}")
            if at_best.score > max((repetition.score for repetition in repetitions), default=float("-inf")):
                best = trained.best
            value, loss = finite(at_best.report.value), finite(at_best.report.loss)
            n_active, n_bytes = int(np.count_nonzero(trained.best)), pipe.size.n_bytes
            figures = n_active, trained.best.size, n_bytes, len(trained.history)
            seconds = round(trained.history[-1].seconds, 3)
            repetitions.append(Repetition(seed, at_best.score, value, loss, *figures, seconds, trained.reason))
        return CombinationResult(candidate.combination.settings, repetitions), best

    def save(self, candidate: Candidate, repetition: Repetition, theta: Floats, folder: Path) -> None:
        """Save the pipeline with the parameters [D] of a repetition, and its scores."""
        nlp, pipe = self._begin(candidate)
        pipe.set_parameters(theta)
        training = self._training._replace(nlp=nlp, to_train={**self._training.to_train, self._name: pipe})
        training.score({self._name: (repetition.loss or 0.0) / max(1, training.corpus.n_tokens)})
        nlp.config["training"]["seed"] = repetition.seed
        nlp.meta["sweep"] = candidate.combination.key
        training.save(folder)

    def _begin(self, candidate: Candidate) -> tuple[Any, CRFComponent]:
        """Return a pipeline with the settings of a candidate, and its component with weights of zero."""
        nlp = self._training.nlp
        if not self._staged:  # a first stage was trained with this pipeline
            others = nlp.to_bytes(exclude=[self._name])
            nlp = util.load_model_from_config(candidate.config, vocab=nlp.vocab, auto_fill=True)
            nlp.from_bytes(others, exclude=[self._name, "config.cfg", "vocab"])
        pipe: Any = nlp.get_pipe(self._name)
        assert self._texts is not None
        pipe.training.begin(self._texts)
        return nlp, pipe

    def _fit(self, turn: Turn, callback: Any = None) -> FitResult:
        result = turn.fit(self._schedule, callback)
        if result.reason == "interrupted":
            raise KeyboardInterrupt
        return result


def needed_before(training: PipelineTraining, name: str) -> set[str]:
    """Return the components whose predictions the features of another one may look at."""
    before = set(training.nlp.pipe_names[: training.nlp.pipe_names.index(name)])
    annotating = before & set(training.settings["annotating_components"]) & set(training.to_train)
    return annotating if training.to_train[name].reads else set()
