"""Augmented-loss training: several data sets, each with a loss of its own, taken in turns.

Hall, McDonald & Petrov (2011), "Training structured prediction models with extrinsic loss functions",
algorithm 1.  A set with gold labels steps as the perceptron does.  A set with an extrinsic cost steps by the inline
ranker: of the k best labellings under the current parameters the one of lowest cost, y*, takes the place
of gold labels, and where the best one, y1, costs more, ``theta += rate * (Phi(y*) - Phi(y1))``.  The result is the
average of the parameters over all steps.  Both kinds predict as the model does: the scheme's constraints hold, and its
tag dictionary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ..decoders.viterbi import Viterbi
from ..errors import ConfigError, DataError, suggest
from ..losses.perceptron import Perceptron
from ..model import LinearChainCRF
from ..optimizers.mistakes import MistakeState
from ..posterior import NBest
from ..tag_dictionary import EmissionMask
from ..types import Batch, Bools, Constraints, Floats, Ints, Offsets, Scores, StepReport
from .dataset import Dataset
from .fit import FitResult, Progress, repeat
from .minibatch import MiniBatch, Workspace, expand

LabelCost = Callable[[Ints], float]
"""What the labels [T] of a text, as numbers, cost: 0 or more."""


class LossSet(NamedTuple):
    """A data set with its loss; M examples.

    name (str): For progress.
    data (Dataset): All sequences; without gold labels where there are costs.
    examples (Offsets): [M + 1], example m is the sequences ``examples[m]:examples[m + 1]``.
    costs (Sequence[LabelCost] | None): [M] cost of each example's labels; None for the perceptron.
    allowed (Bools | None): [T, L] labels that each token may have; None where all may have all.
    """

    name: str
    data: Dataset
    examples: Offsets
    costs: Sequence[LabelCost] | None = None
    allowed: Bools | None = None

    @property
    def n_examples(self) -> int:
        """M."""
        return len(self.examples) - 1


def intrinsic(name: str, data: Dataset) -> LossSet:
    """Return a data set with gold labels, each sequence an example.

    RAISES DataError: If there is no gold label.
    """
    if not (data.gold >= 0).any():
        raise DataError(f"The data set {name!r} holds no gold labels. Check its corpus, or give it a loss.")
    return LossSet(name, data, np.arange(data.n_sequences + 1))


@dataclass(frozen=True)
class Settings:
    """How to train.

    schedule (Mapping[str, int]): Examples that a data set gives in each turn, by its name; 1 for sets without an entry.
    k (int): Labellings among which the ranker chooses.
    rate (float): Size of the steps; weights of a trained CRF are small, those of a perceptron count mistakes.
    rounds (int): Rounds of a run.
    turns (int): Turns in a round; 0 for as many as lead through every data set at least once.
    seed (int): Of the order of the examples.
    RAISES ConfigError: On a setting out of range.
    """

    schedule: Mapping[str, int] = field(default_factory=dict)
    k: int = 10
    rate: float = 0.1
    rounds: int = 10
    turns: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.k < 2:
            raise ConfigError(f"k = {self.k} must be at least 2, or there is nothing to choose from.")
        if not 0 < self.rate < np.inf:
            raise ConfigError(f"rate = {self.rate} must be positive.")
        if self.rounds < 1 or self.turns < 0 or self.seed < 0:
            raise ConfigError("rounds must be at least 1; turns (0: through all data) and seed must not be negative.")
        for name, repeats in self.schedule.items():
            if repeats < 1:
                raise ConfigError(f"schedule: {name} = {repeats} must be at least 1; take the data set out instead.")

    def repeats_of(self, source: LossSet) -> int:
        """Return how many examples a data set gives in each turn."""
        return self.schedule.get(source.name, 1)

    def turns_through_all(self, sets: Sequence[LossSet]) -> int:
        """Return how many turns lead through every data set at least once."""
        return max(-(-source.n_examples // self.repeats_of(source)) for source in sets)

    def steps_of(self, sets: Sequence[LossSet]) -> int:
        """Return how many examples a round takes."""
        return (self.turns or self.turns_through_all(sets)) * sum(map(self.repeats_of, sets))


class SetReport(NamedTuple):
    """What a round did with a data set.

    name (str): Its name.
    examples (int): Examples taken.
    steps (int): Those among them that changed the parameters.
    cost (float): Mean cost of an example's labels as first predicted; without a cost of its own, the wrong tokens.
    """

    name: str
    examples: int
    steps: int
    cost: float


def train(
    crf: LinearChainCRF,
    constraints: Constraints,
    sets: Sequence[LossSet],
    settings: Settings,
    *,
    evaluate: Callable[[Floats], float] | None = None,
    patience: int = 0,
    begin: Callable[[float | None], None] | None = None,
    callback: Callable[[Progress, list[SetReport]], None] | None = None,
    watch: Callable[[], None] | None = None,
) -> FitResult:
    """Train from a model's parameters, which stay as they are and may be the best ones by `evaluate`.

    evaluate (Callable): Maps parameters to a score, higher is better.
    patience (int): Rounds without a better score before stopping; 0 waits for ever.
    begin (Callable): Called before the first round, with the model's own score.
    callback (Callable): Called after each round.
    watch (Callable): Called after each step.
    RAISES ConfigError: If there is no data set, or the schedule names one that is not there.
    """
    trainer = Trainer(crf, constraints, sets, settings, watch)
    score = None if evaluate is None else evaluate(crf.theta)
    if begin is not None:
        begin(score)
    return repeat(
        trainer.round,
        trainer.export,
        crf.theta,
        evaluate=evaluate,
        evaluate_every=1,
        patience=patience,
        callback=None if callback is None else lambda progress: callback(progress, trainer.reports),
        score=-np.inf if score is None else score,
    )


class Trainer:
    """A run in progress.

    reports (list[SetReport]): Of the last round.
    """

    def __init__(
        self,
        crf: LinearChainCRF,
        constraints: Constraints,
        sets: Sequence[LossSet],
        settings: Settings,
        watch: Callable[[], None] | None = None,
    ) -> None:
        if not sets:
            raise ConfigError("There is no data set to train on.")
        names = [source.name for source in sets]
        for name in settings.schedule:
            if name not in names:
                raise ConfigError(f"schedule: there is no data set {name!r}. {suggest(name, names)}")
        self.reports: list[SetReport] = []
        self._settings, self._watch = settings, watch or (lambda: None)
        self._mask = None if crf.dictionary is None else EmissionMask(crf.dictionary)
        rng, theta = np.random.default_rng(settings.seed), crf.theta
        self._state = MistakeState(theta.copy(), np.zeros_like(theta), theta[:0].copy(), rng)
        work = Workspace(crf.layout, self._mask)
        self._sources = [_Source(source, work, constraints, settings, rng) for source in sets]
        self._repeats = list(map(settings.repeats_of, sets))
        through_all = settings.turns_through_all(sets)
        self._turns = settings.turns or through_all
        self._complete = self._turns >= through_all
        self._parts = [
            (block.ptr, block.cols, block.of(self._state.weights), block.of(self._state.sums))
            for block in crf.layout.blocks()
        ]
        self._rounds = 0

    def export(self, theta: Floats) -> None:
        """Write the average to theta [D]."""
        self._state.average(theta)

    def round(self) -> StepReport:
        """Take the turns of a round."""
        tallies = [_Tally() for _ in self._sources]
        for _ in range(self._turns):
            for source, repeats, tally in zip(self._sources, self._repeats, tallies, strict=True):
                for _ in range(repeats):
                    self._step(source, tally)
        self._rounds += 1
        self.reports = [tally.report(source.name) for source, tally in zip(self._sources, tallies, strict=True)]
        value, message = sum(report.cost for report in self.reports), ""
        if self._complete and not any(report.steps for report in self.reports):
            message = "no step changes anything any more"
        elif self._rounds >= self._settings.rounds:
            message = f"{self._rounds} rounds were run"
        return StepReport(value, value, float("nan"), 1, bool(message), message)

    def _step(self, source: _Source, tally: _Tally) -> None:
        """Take the next example of a data set."""
        from ..kernels.updates import perceptron

        state = self._state
        cost, gradients = source.next().loss_and_grad(state.weights)
        wrong = 0
        for number, ptr, ids, d in gradients:
            row_ptr, cols, weights, sums = self._parts[number]
            positions = perceptron(ptr, ids, d, row_ptr, cols, state.clock, weights, sums)
            if number == 0:
                wrong = positions
                if not wrong:
                    break  # where no token's label changes, nothing else does
        state.clock += 1.0  # here, so that the average is sound if an interrupt ends the round
        tally.add(float(wrong) if source.intrinsic else cost, wrong > 0)
        self._watch()


@dataclass
class _Tally:
    """Sums over the examples of a data set in a round."""

    examples: int = 0
    steps: int = 0
    cost: float = 0.0

    def add(self, cost: float, changed: bool) -> None:
        self.examples += 1
        self.steps += changed
        self.cost += cost

    def report(self, name: str) -> SetReport:
        return SetReport(name, self.examples, self.steps, self.cost / max(1, self.examples))


class _Source:
    """The endless examples of a data set, in a new order each time they begin again."""

    def __init__(
        self,
        source: LossSet,
        work: Workspace,
        constraints: Constraints,
        settings: Settings,
        rng: np.random.Generator,
    ) -> None:
        if not source.n_examples:
            raise DataError(f"The data set {source.name!r} is empty.")
        self.name, self.intrinsic = source.name, source.costs is None
        self._source, self._work, self._constraints, self._settings = source, work, constraints, settings
        self._state = expand(source.data.encoded.state)
        self._pair = expand(source.data.encoded.pair) if work.layout.pair.n_rows else None
        self._order = _endless(source.n_examples, rng)

    def next(self) -> MiniBatch:
        """Return the next example."""
        source, number = self._source, next(self._order)
        first, last = int(source.examples[number]), int(source.examples[number + 1])
        allowed = None
        if source.allowed is not None:
            tokens = source.data.encoded.offsets
            allowed = source.allowed[tokens[first] : tokens[last]]
        loss: _Mistakes | _Ranker = _Mistakes(self._constraints, self._settings.rate)
        if source.costs is not None:
            loss = _Ranker(source.costs[number], self._constraints, allowed, self._settings)
        return MiniBatch(self._work, loss, source.data, self._state, self._pair, first, last)


def _endless(n: int, rng: np.random.Generator) -> Iterator[int]:
    while True:
        yield from rng.permutation(n).tolist()


@dataclass(frozen=True)
class _Mistakes:
    """The perceptron's loss under constraints, its gradient times the rate.

    Gold labels that break the constraints, such as an entity that a sentence's end cuts in two, cannot be predicted:
    a sequence that has them makes no step.
    """

    constraints: Constraints
    rate: float
    gives: frozenset[str] = frozenset({"minibatches"})

    def __call__(self, scores: Scores, batch: Batch, grad: Scores) -> float:
        value = Perceptron()(scores.constrained(self.constraints), batch, grad)
        scale = grad.start.dtype.type(self.rate if np.isfinite(value) else 0)
        for part in grad:
            part *= scale
        return value


@dataclass(frozen=True)
class _Ranker:
    """The cost of the best labels of an example; its gradient is that of the inline ranker, times the rate."""

    cost: LabelCost
    constraints: Constraints
    allowed: Bools | None
    settings: Settings
    gives: frozenset[str] = frozenset({"minibatches"})

    def __call__(self, scores: Scores, batch: Batch, grad: Scores) -> float:
        labels = Viterbi()(scores, batch.offsets, self.constraints, self.allowed)
        cost = self.cost(labels)
        if cost > 0:
            possible = scores.constrained(self.constraints, self.allowed)
            better, lowest = self._choose(k_best(possible, batch.offsets, self.settings.k))
            if lowest < cost:
                Perceptron()(possible, batch._replace(gold=better), grad)
                for part in grad:
                    part *= part.dtype.type(self.settings.rate)
        return cost

    def _choose(self, labellings: Ints) -> tuple[Ints, float]:
        """Return the first of the labellings [k, T] that cost least, and its cost."""
        chosen, lowest = labellings[0], np.inf
        for labels in labellings:
            cost = self.cost(labels)
            if cost < lowest:
                chosen, lowest = labels, cost
            if lowest == 0:
                break
        return np.ascontiguousarray(chosen), lowest


def k_best(scores: Scores, offsets: Offsets, k: int) -> Ints:
    """Return the labellings [up to k, T] of some sequences together that score best, best first.

    Where a score is minus infinity, the label or step is forbidden.
    """
    from ..kernels import kbest

    n = len(offsets) - 1
    labels, values = np.empty((k, len(scores.emissions)), np.int32), np.empty((k, n))
    exact = Scores(*(array.astype(np.float64) for array in scores))
    kbest.best_labellings(exact, offsets, labels, values, np.empty(n))
    if n != 1:
        labels, values = NBest(labels, values).merged(offsets, np.array([0, n]))
    return labels[(values > -np.inf).all(1)]
