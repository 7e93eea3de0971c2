"""Augmented-loss training: further training of a component on several corpora, each with its own loss.

Hall, McDonald & Petrov (2011), "Training structured prediction models with extrinsic loss functions", algorithm 1.
Every data set is a term of one objective, and the averaged perceptron alternates between their examples.  With gold
labels, the loss is the perceptron's.  With costs of whole labellings, the inline ranker finds the cheapest of the k
best labellings, y*.  If the best one, y1, costs more, then ``theta += rate * (Phi(y*) - Phi(y1))``.  Both predict like
the model, under the scheme's constraints and the tag dictionary.

`fine_tune` goes from Docs and costs to data sets, `train` from data sets to parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example

from ... import kernels
from ...decoders.viterbi import Viterbi
from ...errors import ConfigError, DataError, suggest
from ...inference.posterior import NBest
from ...losses.perceptron import Perceptron
from ...model import LinearChainCRF
from ...optimizers.mistakes import AveragedPerceptron
from ...pipeline.component import CRFComponent
from ...pipeline.evaluator import Evaluator, encode_allowed
from ...pipeline.labels import gold_tags, known_tags, same_words
from ...pipeline.prediction import read_docs
from ...pipeline.select import one_crf_of
from ...pipeline.tasks import Prediction
from ...pipeline.training import Training
from ...pipeline.white_space import wordwise
from ...potentials.tag_dictionary import without_restricted
from ...regularizers.none import NoRegularizer
from ...training.compatibility import check_global, part_name
from ...training.dataset import Dataset, join
from ...training.fit import FitResult, Progress, RunState, fit
from ...training.objective import MiniBatch, Objective, Term
from ...types import (
    MISSING,
    Batch,
    Bools,
    Constraints,
    Floats,
    Ints,
    Loss,
    Offsets,
    Scores,
    StepReport,
)
from .costs import Cost, CostFunction, Evidence

LabelCost = Callable[[Ints], float]
"""The cost, 0 or more, of the label ids [T] of a text."""


class TuningSet(NamedTuple):
    """A data set of M examples, the groups of `data` or its sequences, with gold labels or costs.

    costs (Sequence[LabelCost] | None): [M] cost of each example's labels; None for gold labels.
    allowed (Bools | None): [T, L] allowed labels of each token; None for all.
    """

    name: str
    data: Dataset
    costs: Sequence[LabelCost] | None = None
    allowed: Bools | None = None

    @property
    def n_examples(self) -> int:
        """M."""
        return self.data.n_groups


def gold_set(name: str, data: Dataset) -> TuningSet:
    """Return a data set whose examples are sequences with gold labels; DataError if there is no gold label."""
    if not (data.gold >= 0).any():
        raise DataError(f"The data set {name!r} holds no gold labels. Check its corpus, or give it a loss.")
    return TuningSet(name, data)


@dataclass(frozen=True)
class Settings:
    """Settings of the training.

    schedule (Mapping[str, int]): Examples per turn, by the name of the data set; 1 for sets without an entry.
    k (int): Number of best labellings that the ranker compares.
    rate (float): Step size; the weights of a trained CRF are small compared with those of a perceptron.
    turns (int): Turns per round; 0: until every data set has been used.
    seed (int): Seed of the order of the examples.
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

    def repeats_of(self, source: TuningSet) -> int:
        """Return the number of examples of a data set per turn."""
        return self.schedule.get(source.name, 1)

    def turns_through(self, sets: Sequence[TuningSet]) -> int:
        """Return the number of turns that use every data set at least once."""
        return max(-(-source.n_examples // self.repeats_of(source)) for source in sets)

    def steps_of(self, sets: Sequence[TuningSet]) -> int:
        """Return the number of examples per round."""
        return (self.turns or self.turns_through(sets)) * sum(map(self.repeats_of, sets))


class SetReport(NamedTuple):
    """The report of a round on a data set.

    steps (int): Examples that changed the parameters.
    cost (float): Mean cost of an example's labels before its update; the number of wrong tokens for gold labels.
    """

    name: str
    examples: int
    steps: int
    cost: float


def train(
    crf: LinearChainCRF,
    constraints: Constraints,
    sets: Sequence[TuningSet],
    settings: Settings,
    *,
    evaluate: Callable[[Floats], float] | None = None,
    patience: int = 0,
    begin: Callable[[float | None], None] | None = None,
    callback: Callable[[Progress, list[SetReport]], None] | None = None,
    watch: Callable[[], None] | None = None,
) -> FitResult:
    """Train from a model's parameters, which do not change and may be the best ones by `evaluate`.

    evaluate (Callable): Maps parameters to a score, higher is better.
    patience (int): Rounds without a better score before stopping; 0: no limit.
    begin (Callable): Called before the first round, with the model's own score.
    callback, watch (Callable): Called after each round, and after each step.
    RAISES ConfigError: If there is no data set, or the schedule names an unknown one.
    """
    run: Any = TuningRun(crf, constraints, sets, settings, watch)
    score = None if evaluate is None else evaluate(crf.theta)
    if begin is not None:
        begin(score)
    each = None if callback is None else lambda progress: callback(progress, run.reports)
    begun = None if score is None else RunState(run.start(crf.theta), [], crf.theta.copy(), score, 0)
    return fit(run.objective, run, crf.theta, evaluate=evaluate, patience=patience, callback=each, begun=begun)


class Alternating(Objective):
    """An objective with a term for each data set, whose examples come in turns.

    A data set that is used up starts again in a new order, and the next pass continues after the last example.
    """

    def __init__(
        self, crf: LinearChainCRF, sets: Sequence[TuningSet], losses: Sequence[Loss], settings: Settings
    ) -> None:
        terms = [Term(source.data, loss, name=source.name) for source, loss in zip(sets, losses, strict=True)]
        super().__init__(crf.potential, terms, NoRegularizer(), dictionary=crf.dictionary)
        self._alone = len(sets) == 1 and not settings.turns
        self._turns, self._repeats = settings.turns or settings.turns_through(sets), [*map(settings.repeats_of, sets)]
        self._streams: list[Iterator[MiniBatch]] = []

    def minibatches(self, size: int, rng: np.random.Generator | None) -> Iterator[MiniBatch]:
        """Yield the examples of a round, those of a single data set once."""
        if self._alone:
            return super().minibatches(size, rng)
        self._streams = self._streams or [self._endless(term, size, rng) for term in self.terms]
        turn = [*zip(self._streams, self._repeats, strict=True)]
        return (next(stream) for _ in range(self._turns) for stream, times in turn for _ in range(times))

    def _endless(self, term: Term, size: int, rng: np.random.Generator | None) -> Iterator[MiniBatch]:
        while True:
            yield from self.batches_of(term, size, rng)


class TuningRun:
    """A run in progress: the averaged perceptron on an objective with a term for each data set; reports of a round.

    Implements `types.Optimizer` as far as `fit` needs it; an iteration is a round.
    """

    online = True

    def __init__(
        self, crf: LinearChainCRF, constraints: Constraints, sets: Sequence[TuningSet], settings: Settings,
        watch: Callable[[], None] | None = None,
    ) -> None:  # fmt: skip
        if not sets:
            raise ConfigError("There is no data set to train on.")
        names = [source.name for source in sets]
        for name in settings.schedule:
            if name not in names:
                raise ConfigError(f"schedule: there is no data set {name!r}. {suggest(name, names)}")
        for source in sets:
            if not source.n_examples:
                raise DataError(f"The data set {source.name!r} is empty.")
        self.reports: list[SetReport] = []
        self._losses = [_SetLoss(source, constraints, settings.k, watch) for source in sets]
        self.objective = Alternating(crf, sets, self._losses, settings)
        self._complete = not settings.turns or settings.turns >= settings.turns_through(sets)
        self._optimizer = AveragedPerceptron(rate=settings.rate, seed=settings.seed)
        self._state = self._optimizer.start(crf.theta)
        self._rounds, self._limit = 0, settings.rounds

    def start(self, theta: Floats) -> Any:
        """Return the state of the perceptron."""
        return self._state

    def export(self, state: Any, theta: Floats) -> None:
        """Write the average to theta [D]."""
        self._optimizer.export(state, theta)

    def iterate(self, objective: Any = None, state: Any = None) -> StepReport:
        """Run the turns of a round; the report ends the run if no step changed anything, or after the last round."""
        report = self._optimizer.iterate(self.objective, self._state)
        self._rounds += 1
        self.reports = [loss.report() for loss in self._losses]
        message = ""
        if self._complete and not any(turn.steps for turn in self.reports):
            message = "no step changes anything any more"
        elif self._rounds >= self._limit:
            message = f"{self._rounds} rounds were run"
        value = sum(turn.cost for turn in self.reports)
        return report._replace(value=value, loss=value, converged=bool(message), message=message)


class _SetLoss:
    """The loss of a data set, an example at a time, with sums over the examples since the last report."""

    provides = frozenset({"minibatches"})

    def __init__(self, source: TuningSet, constraints: Constraints, k: int, watch: Callable[[], None] | None) -> None:
        self._source, self._constraints, self._k, self._watch = source, constraints, k, watch
        self._examples, self._steps, self._cost = 0, 0, 0.0

    def __call__(self, scores: Scores, batch: Batch, grad: Scores) -> float:
        costs = self._source.costs
        loss = self._perceptron(scores, batch, grad) if costs is None else self._ranker(scores, batch, grad, costs)
        wrong = int(np.count_nonzero(grad.emissions.any(1)))
        self._examples += 1
        self._steps += wrong > 0
        self._cost += wrong if costs is None else loss
        if self._watch is not None:
            self._watch()
        return loss

    def _perceptron(self, scores: Scores, batch: Batch, grad: Scores) -> float:
        value = Perceptron()(scores.constrained(self._constraints), batch, grad)
        if np.isfinite(value):
            return value
        for part in grad:  # no step if gold labels break the constraints: an entity crosses sentences
            part.fill(0)
        return 0.0

    def _ranker(self, scores: Scores, batch: Batch, grad: Scores, costs: Sequence[LabelCost]) -> float:
        assert batch.sequences is not None
        data, allowed, first = self._source.data, self._source.allowed, int(batch.sequences[0])
        cost_of = costs[first if data.groups is None else int(np.searchsorted(data.groups, first, side="right")) - 1]
        if allowed is not None:
            allowed = allowed[data.encoded.offsets[first] :][: batch.n_tokens]
        cost = cost_of(Viterbi()(scores, batch.offsets, self._constraints, allowed))
        if cost > 0:
            possible = scores.constrained(self._constraints, allowed)
            better, lowest = _cheapest(k_best(possible, batch.offsets, self._k), cost_of)
            if lowest < cost:
                Perceptron()(possible, batch._replace(gold=better), grad)
        return cost

    def report(self) -> SetReport:
        examples, steps, cost = self._examples, self._steps, float(self._cost)
        self._examples, self._steps, self._cost = 0, 0, 0.0
        return SetReport(self._source.name, examples, steps, cost / max(1, examples))


def _cheapest(labellings: Ints, cost_of: LabelCost) -> tuple[Ints, float]:
    """Return the first labelling with the lowest cost among [k, T], and its cost."""
    chosen, lowest = labellings[0], np.inf
    for labels in labellings:
        cost = cost_of(labels)
        if cost < lowest:
            chosen, lowest = labels, cost
        if lowest == 0:
            break
    return np.ascontiguousarray(chosen), lowest


def k_best(scores: Scores, offsets: Offsets, k: int) -> Ints:
    """Return the best labellings [up to k, T] of some sequences together, without forbidden ones."""
    n = len(offsets) - 1
    labels, values = kernels.paths.best_labellings(scores, offsets, k)
    if n != 1:
        labels, values = NBest(labels, values).merged(offsets, np.array([0, n]))
    return labels[(values > -np.inf).all(1)]


# From Docs to data sets


class Source(NamedTuple):
    """Examples with their loss; without one, training uses the gold labels, with the perceptron."""

    name: str
    examples: Iterable[Example]
    loss: Cost | None = None


@contextmanager
def encoding(training: Training) -> Iterator[None]:
    """Let the numbers of encoded Docs stay valid together until the end of the context.

    The caller trains and calls `set_parameters` within it.
    """
    model = training.model
    with model.lock:
        model.sync()
        training.release()
        model.encoder.pinned = True
    try:
        yield
    finally:
        training.release()


def fine_tune(
    nlp: Language,
    component: str,
    sources: Sequence[Source],
    settings: Settings,
    *,
    dev: Source | None = None,
    patience: int = 0,
    begin: Callable[[Sequence[TuningSet], float | None], None] | None = None,
    callback: Callable[[Progress, list[SetReport]], None] | None = None,
    watch: Callable[[], None] | None = None,
) -> FitResult:
    """Train a component of a pipeline on several data sets and set its best parameters.

    The calibration is reset, because it was fitted to other parameters.

    dev (Source | None): Without a loss, scored by accuracy or span F1; else by minus the mean cost.
    begin (Callable): Called with the data sets, without examples that have no evidence, and the score before training.
    The other arguments are those of `train`.
    RAISES CrfError: If there is no such CRF, a loss does not fit it, or a data set has nothing to learn from.
    """
    _, pipe = one_crf_of(nlp, component, "The pipeline")
    check_global(component, pipe.method.loss, "fine-tuning")
    with encoding(pipe.training):
        maker = _Maker(nlp, pipe)
        sets = [maker.tuning_set(source) for source in sources]
        evaluate, start = None if dev is None else maker.evaluator(dev), None if begin is None else partial(begin, sets)
        result = train(
            pipe.crf, pipe.annotation.constraints(pipe.tags), sets, settings,
            evaluate=evaluate, patience=patience, begin=start, callback=callback, watch=watch,
        )  # fmt: skip
        if (result.best != pipe.crf.theta).any():
            pipe.set_parameters(result.best)
    return result


class _Maker:
    """Creates the data sets of one component."""

    def __init__(self, nlp: Language, pipe: CRFComponent) -> None:
        self._nlp, self._pipe = nlp, pipe
        self._scheme: str = pipe.annotation.scheme or "plain"

    def tuning_set(self, source: Source) -> TuningSet:
        """Return a data set with its loss.  RAISES CrfError: If the loss does not fit, or there is nothing to learn."""
        examples = [example for example in source.examples if len(example.predicted)]
        if source.loss is None:
            if not examples:
                raise DataError(f"The data set {source.name!r} is empty. Check the path of its corpus.")
            compiled = self._pipe.training.compile(examples, networks=True)
            return gold_set(source.name, join(compiled))
        return self._ranked(source.name, examples, source.loss)

    def _ranked(self, name: str, examples: list[Example], loss: Cost) -> TuningSet:
        """Return the examples with evidence, without their gold labels."""
        pipe = self._pipe
        loss.check(pipe.tags, self._scheme)
        costed = [(example, cost) for example in examples if (cost := loss(self._evidence(name, example))) is not None]
        if not costed:
            raise DataError(
                f"The data set {name!r} holds no evidence for {part_name(loss)} in any of its "
                f"{len(examples)} documents. Check its corpus and the settings of the loss."
            )
        docs = [example.predicted for example, _ in costed]
        costs = [self._on_numbers(cost, name, loss) for _, cost in costed]
        encoded, columns, allowed = encode_allowed(pipe.doc_model, docs)
        if allowed is not None and encoded.words is not None:  # these restrictions replace those of a tag dictionary
            constraints = pipe.annotation.constraints(pipe.tags)
            encoded = encoded._replace(words=without_restricted(encoded.words, allowed, constraints))
        gold = np.full(encoded.n_tokens, MISSING, np.int32)
        groups = np.searchsorted(encoded.offsets, columns.doc_offsets)
        data = Dataset(encoded, gold, np.ones(len(encoded.offsets) - 1), groups=groups)
        return TuningSet(name, data, costs, allowed)

    def _on_numbers(self, cost: CostFunction, name: str, loss: Cost) -> Callable[[Ints], float]:
        tags = self._pipe.tags

        def checked(labels: Ints) -> float:
            value = float(cost([tags[label] for label in labels.tolist()]))
            if not 0 <= value < np.inf:
                raise DataError(
                    f"The data set {name!r}: {part_name(loss)} gave a cost of {value}; it must be finite and 0 or more."
                    " Only differences between labellings of a text matter, so make a score up to 1 the cost 1 - score."
                )
            return value

        return checked

    def _evidence(self, name: str, example: Example) -> Evidence:
        gold = known_tags(gold_tags(self._pipe.annotation, example, self._pipe.name))
        gold = [*read_docs([example.predicted], ()).only_words(gold)]
        example = wordwise(example)
        if not same_words(example):
            raise DataError(
                f"The data set {name!r}: {example.reference.text[:60]!r} has other tokens in its gold document than in "
                "the predicted one, so that a loss cannot compare them. Use a reader that keeps the file's tokens."
            )
        words = [token.text for token in example.reference]
        return Evidence(words, gold, example.reference, partial(self._annotated, example.predicted))

    def _annotated(self, text: Doc, name: str) -> Callable[[Sequence[str]], Doc]:
        """Return a function from labels to the predictions of another component of the pipeline."""
        others = [other for other in self._nlp.component_names if other != self._pipe.name]
        if name not in others:
            raise ConfigError(
                f"The pipeline has no component {name!r} beside {self._pipe.name!r}. {suggest(name, others)}"
            )
        pipe, component = self._pipe, self._nlp.get_pipe(name)
        numbers = {tag: number for number, tag in enumerate(pipe.tags)}

        def annotate(tags: Sequence[str]) -> Doc:
            doc = text.copy()
            columns = read_docs([doc], (), pipe.annotation.reads)
            preset = pipe.annotation.preset([doc], columns.state, columns.doc_offsets, pipe.tags)
            labels = np.array([numbers[tag] for tag in tags], np.int32)
            prediction = Prediction(labels, columns.text.offsets, columns.doc_offsets, columns.state, preset)
            pipe.set_annotations([doc], prediction)
            annotated: Doc = component(doc)
            return annotated

        return annotate

    def evaluator(self, dev: Source) -> Callable[[Floats], float]:
        """Return a function that scores parameters.  RAISES DataError: If there is nothing to score."""
        pipe, examples = self._pipe, [example for example in dev.examples if len(example.predicted)]
        if not examples:
            raise DataError("The dev corpus is empty. Check its path, or leave it out.")
        if dev.loss is None:
            if all(tag is None for example in examples for tag in gold_tags(pipe.annotation, example, pipe.name)):
                raise DataError("The dev corpus holds no gold labels. Give it a loss, or leave it out.")
            return Evaluator(pipe.doc_model, examples)
        held, crf = self._ranked(dev.name, examples, dev.loss), pipe.crf
        constraints, offsets = pipe.annotation.constraints(pipe.tags), held.data.encoded.offsets
        rules, decoder = pipe.doc_model.rules, pipe.method.decoder
        bounds = offsets[held.data.groups].tolist()

        def evaluate(theta: Floats) -> float:
            posterior = crf.at(theta).posterior(held.data.encoded, constraints, held.allowed, rules=rules)
            labels = posterior.decode(decoder)
            parts = zip(held.costs or [], pairwise(bounds), strict=True)
            return -float(np.mean([cost(labels[begin:end]) for cost, (begin, end) in parts]))

        return evaluate
