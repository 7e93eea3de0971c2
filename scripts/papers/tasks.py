"""Corpora as examples, components from config blocks, and training runs that are watched.

A corpus is compiled once for each set of features; methods then share its ids.  Everything runs on one thread, so that
processor time is the time a run takes on an idle core.
"""

from __future__ import annotations

import gc
import random
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from scripts.papers._harness import Options, Row, Skip, say

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from spacy.language import Language
    from spacy.tokens import Doc
    from spacy.training import Example

    from spacy_crfseq.features.encoder import Active
    from spacy_crfseq.potentials.layout import Layout, WeightRows
    from spacy_crfseq.training.dataset import Dataset
    from spacy_crfseq.training.objective import Objective, Term
    from spacy_crfseq.types import Floats, Optimizer

Examples = Sequence["Example"]
PLUGINS = ("loss", "regularizer", "optimizer")
WARM_SEQUENCES = 20
QUICK = {"max_iterations": 5, "rounds": 20}
"""Settings of optimizers that are at most so large in a quick run."""


# Corpora


def read(nlp: Language, options: Options, settings: Mapping[str, Any], part: str, limit: int = 0) -> list[Example]:
    """Return a part of a corpus through the reader that a config names; `limit` sentences, 0 for all."""
    path = options.corpus(settings["files"][part])
    reader = resolve({"reader": {**settings["reader"], "path": str(path), "limit": limit}})["reader"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # each CoNLL-2002 file has one odd tag
        return list(reader(nlp))


def read_nettalk(path: Path) -> list[tuple[str, str]]:
    """Return words and their phonemes, one symbol per letter.

    RAISES ValueError: Where a word and its phonemes differ in length.
    """
    pairs = []
    for number, line in enumerate(path.read_text(encoding="utf8").splitlines(), start=1):
        if not line.strip():
            continue
        word, phonemes = line.split("\t")[:2]
        if len(word) != len(phonemes):
            raise ValueError(f"{path}, line {number}: {word!r} has {len(word)} letters, {len(phonemes)} phonemes.")
        pairs.append((word, phonemes))
    return pairs


def split_words(pairs: Sequence[tuple[str, str]], shares: Sequence[float], seed: int) -> list[list[tuple[str, str]]]:
    """Split entries at random, all entries of a word together; the last part gets what the shares leave."""
    words = sorted({word for word, _ in pairs})
    random.Random(seed).shuffle(words)
    bounds = [round(share * len(words)) for share in np.cumsum([0.0, *shares])] + [len(words)]
    part_of = {word: part for part, first in enumerate(bounds[:-1]) for word in words[first : bounds[part + 1]]}
    parts: list[list[tuple[str, str]]] = [[] for _ in bounds[1:]]
    for pair in pairs:
        parts[part_of[pair[0]]].append(pair)
    return parts


def as_examples(nlp: Language, sequences: Sequence[tuple[Sequence[str], Sequence[str]]]) -> list[Example]:
    """Return sequences of symbols and labels as examples of a tagger.

    The lemma of the first symbol is the symbol itself, the others have none: a feature of the lemma is one of the
    first position alone, where no label comes before.
    """
    from spacy.tokens import Doc
    from spacy.training import Example

    made = []
    for symbols, labels in sequences:
        lemmas = [symbols[0], *[""] * (len(symbols) - 1)]
        given = Doc(nlp.vocab, words=list(symbols), lemmas=lemmas)
        made.append(Example(given, Doc(nlp.vocab, words=list(symbols), tags=list(labels))))
    return made


# Config blocks


def resolve(block: dict[str, Any]) -> dict[str, Any]:
    """Return what the registered functions of a block make.  Raises Skip where one is not registered."""
    from catalogue import RegistryError
    from spacy.util import registry

    import spacy_crfseq.pipeline.factories  # noqa: F401  makes the registries known

    try:
        return dict(registry.resolve(block, validate=False))
    except RegistryError as error:
        name = next((word for word in str(error).split("'") if word.startswith("spacy_crfseq.")), str(error))
        raise Skip(f"{name} is not registered") from None


def changed(method: Mapping[str, Any], **settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return a method with some settings of its blocks changed: ``changed(m, regularizer={"rho": 2.0})``."""
    blocks = {name: dict(method[name]) for name in PLUGINS}
    for name, values in settings.items():
        blocks[name] |= values
    return {**method, **blocks}


# Training


@dataclass
class Trained:
    """Outcome of a run.

    theta (Floats): [D] weights.
    iterations (int): Iterations, epochs, sweeps or rounds.
    seconds (float): Processor time without that of scoring.
    objective (float): Loss plus penalty at the end.
    optimality (float): ||gradient|| / max(1, ||theta||) at the end, the shortest subgradient where there is an L1
        norm; nan where the loss has no gradient.
    reason (str): Why it ended.
    trace (list[Row]): What `watch` noted, one row an iteration.
    """

    theta: Floats
    iterations: int
    seconds: float
    objective: float
    optimality: float
    reason: str
    trace: list[Row] = field(default_factory=list)


class Labelled(NamedTuple):
    """A sequence with its known and its predicted labels.

    margin (float): Score of the predicted labels less that of the known ones; nan where the model lacks one of these.
    """

    symbols: list[str]
    gold: list[str]
    found: list[str]
    margin: float


class Task:
    """A component, its training data as ids, and parts to score it on.

    component (Mapping): A block with the factory and its settings.
    features (Mapping): The block of its features.
    train, parts: Examples to train and to score on, these by name.
    """

    def __init__(
        self,
        nlp: Language,
        component: Mapping[str, Any],
        features: Mapping[str, Any],
        train: Examples,
        parts: Mapping[str, Examples],
        *,
        quick: bool = False,
    ) -> None:
        from bench.ours import add
        from spacy_crfseq.pipeline.evaluator import Evaluator
        from spacy_crfseq.training.dataset import join

        settings = dict(component)
        factory = settings.pop("factory")
        self._quick = quick
        self._warmed: set[tuple[str, str]] = set()
        self.pipe = _made(lambda: add(nlp, factory, **settings, features=dict(features)))
        self.pipe.initialize(lambda: train)
        self.data = join(self.pipe.training.compile(train))
        self._parts = dict(parts)
        self._scorers = {name: Evaluator(self.pipe.doc_model, list(examples)) for name, examples in parts.items()}

    @property
    def layout(self) -> Layout:
        """Where the model's weights are."""
        return self.pipe.crf.layout

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels, in the order of the weights."""
        return tuple(self.pipe.crf.labels)

    @property
    def size(self) -> int:
        """Weights that are learnt: transitions, start and end scores only where these are."""
        return len(self.pipe.crf.theta) - int(np.count_nonzero(~self.layout.trainable()))

    def rows_of(self, symbols: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the row of each symbol in the unigram and in the bigram block [X], -1 where there is none.

        The model has at most one template a block, of the symbol itself.
        """
        from spacy.tokens import Doc

        rows = np.full((2, len(symbols)), -1)
        for block, templates in zip(rows, self.features_of([Doc(self.pipe.vocab, words=list(symbols))]), strict=True):
            for one in templates:
                block[one.tokens] = one.features
        return rows[0], rows[1]

    def features_of(self, docs: Sequence[Doc]) -> tuple[list[Active], list[Active]]:
        """Return the features of each template in some Docs, of the unigram and of the bigram block."""
        model = self.pipe.doc_model
        found: tuple[list[Active], list[Active]] = model.encoder.active(
            model.reader().read(docs, model.encoder.columns).text
        )
        return found

    def labelled(self, part: str, theta: Floats) -> list[Labelled]:
        """Return the sequences of a tagger's part with their most probable labels."""
        from spacy_crfseq.decoders.viterbi import Viterbi

        examples, labels = self._parts[part], self.labels
        encoded, _ = self.pipe.doc_model.encode([example.predicted for example in examples])
        posterior = self.pipe.crf.at(theta).posterior(encoded, self.pipe.doc_model.labels.constraints)
        best = posterior.decode(Viterbi())
        gold = [token.tag_ for example in examples for token in example.reference]
        numbers = np.array([labels.index(tag) if tag in labels else -1 for tag in gold])
        known = np.minimum.reduceat(numbers, encoded.offsets[:-1]) >= 0
        margins = posterior.log_probabilities(best) - posterior.log_probabilities(
            np.maximum(numbers, 0).astype(np.int32)
        )
        made = []
        for number, (first, last) in enumerate(pairwise(encoded.offsets.tolist())):
            symbols = [token.text for token in examples[number].predicted]
            found = [labels[one] for one in best[first:last]]
            margin = float(margins[number]) if known[number] else float("nan")
            made.append(Labelled(symbols, gold[first:last], found, margin))
        return made

    def score(self, part: str, theta: Floats) -> float:
        """Return accuracy or F1 in per cent."""
        return 100 * self._scorers[part](theta)

    def active(self, theta: Floats) -> dict[str, int]:
        """Return how many weights are not zero: of (y, x), of (y', y, x), and of transitions and boundaries."""
        blocks = self.layout.blocks()
        counts = {name: int(np.count_nonzero(block.of(theta))) for name, block in zip(GROUPS, blocks, strict=True)}
        return {**counts, "all": sum(counts.values())}

    def fit(
        self,
        method: Mapping[str, Any],
        *,
        start: Floats | None = None,
        layout: Layout | None = None,
        terms: Sequence[Term] = (),
        watch: Callable[[Floats], Row] | None = None,
        patience_on: str | None = None,
    ) -> Trained:
        """Train by a method, blocks for loss, regularizer and optimizer, from zero weights or those of `start`.

        terms (Sequence[Term]): Further terms of the objective, see `term`.

        layout (Layout | None): A part of the model's weights; `start` is given, and the result returned, in all.
        watch (Callable): Called after each iteration with the weights; its row gets "iteration", "seconds", "active".
        patience_on (str | None): Part by whose score the best iteration is chosen; the last one is taken otherwise.
        RAISES Skip: Where a part of the method is not registered.
        """
        from spacy_crfseq.training.fit import fit
        from spacy_crfseq.types import Schedule

        self._warm(method)
        whole = self.layout
        layout = layout or whole
        objective, optimizer = self._objective(method, self.data, layout, terms)
        places = within(whole, layout)
        theta = np.zeros(layout.size, self.pipe.crf.theta.dtype) if start is None else start[places]
        trace: list[Row] = []
        gc.collect()
        begun, scoring = process_time(), 0.0

        def look(weights: Floats) -> float:
            nonlocal scoring
            now = process_time()
            if watch is not None:
                row = {"iteration": len(trace) + 1, "seconds": round(now - begun - scoring, 3)}
                trace.append({**row, "active": self.active(weights)["all"], **watch(weights)})
            found = 0.0 if patience_on is None else self.score(patience_on, weights)
            scoring += process_time() - now
            return found

        looks = watch is not None or patience_on is not None
        schedule = Schedule(1, 0 if patience_on is None else method.get("patience"))
        result = fit(objective, optimizer, theta, evaluate=look if looks else None, schedule=schedule)
        seconds = process_time() - begun - scoring
        for note, progress in zip(trace, result.history, strict=False):
            note["objective"] = _rounded(progress.report.value, 8)
        weights = result.last if patience_on is None else result.best
        value, optimality = _optimality(objective, weights)
        theta = np.zeros_like(self.pipe.crf.theta)
        theta[places] = weights
        return Trained(theta, len(result.history), seconds, value, optimality, result.reason, trace)

    def term(self, name: str, examples: Examples, block: Mapping[str, Any], visits: float) -> Term:
        """Return examples with the loss of a block as a term, and how often an epoch visits each of them."""
        from spacy_crfseq.training.dataset import join
        from spacy_crfseq.training.objective import Term
        from spacy_crfseq.types import NamedLoss, TextLoss

        data, loss = join(self.pipe.training.compile(examples)), resolve({"": block})[""]
        if isinstance(loss, TextLoss):
            docs = [[getattr(example, side) for example in examples] for side in ("predicted", "reference")]
            data = data._replace(inputs=loss.read(*docs))
        if isinstance(loss, NamedLoss):
            loss = loss.bind(self.labels, self.pipe.annotation.scheme)
        return Term(data, loss, name=name, visits=visits)

    def _objective(
        self, method: Mapping[str, Any], data: Dataset, layout: Layout, terms: Sequence[Term] = ()
    ) -> tuple[Objective, Optimizer]:
        from spacy_crfseq.potentials.linear import Linear
        from spacy_crfseq.training.objective import Objective, Term

        blocks = {name: dict(method[name]) for name in PLUGINS}
        if self._quick:
            optimizer = blocks["optimizer"]
            optimizer |= {key: min(most, optimizer[key]) for key, most in QUICK.items() if key in optimizer}
        made = resolve(blocks)
        self.pipe.method._replace(**made).check(self.pipe.name)
        objective = Objective(Linear(layout), [Term(data, made["loss"]), *terms], made["regularizer"], n_threads=1)
        return objective, made["optimizer"]

    def _warm(self, method: Mapping[str, Any]) -> None:
        """Load or compile the kernels of a method, which is not to be timed."""
        kind = method["loss"]["@crf_losses"], method["optimizer"]["@crf_optimizers"]
        if kind not in self._warmed:
            short = changed(method, optimizer={"max_iterations": 1})
            objective, optimizer = self._objective(short, self.data.slice(0, WARM_SEQUENCES), self.layout)
            optimizer.iterate(objective, optimizer.start(np.zeros_like(self.pipe.crf.theta)))
            self._warmed.add(kind)

    def row(self, trained: Trained, **more: Any) -> Row:
        """Return the columns of a run for a table."""
        row = {
            "iterations": trained.iterations,
            "seconds": round(trained.seconds, 2),
            "size": self.size,
            "active": self.active(trained.theta),
            "objective": _rounded(trained.objective, 8),
            "optimality": _rounded(trained.optimality),
            "reason": trained.reason,
            **more,
        }
        say(f"    {', '.join(f'{key} {value}' for key, value in more.items())}: {row['seconds']} s")
        return row


def within(whole: Layout, part: Layout) -> NDArray[np.int64]:
    """Return where in `whole` the weights of `part` are, a layout with some of its weights."""
    pair, shared = whole.unigrams.size, whole.unigrams.size + whole.bigrams.size
    shared_scores = np.arange(shared, whole.size)
    return np.concatenate(
        [_places(whole.unigrams, part.unigrams), pair + _places(whole.bigrams, part.bigrams), shared_scores]
    )


def _places(whole: WeightRows, part: WeightRows) -> NDArray[np.int64]:
    places: NDArray[np.int64] = np.searchsorted(_cells(whole), _cells(part))
    return places


def _cells(rows: WeightRows) -> NDArray[np.int64]:
    """Return row and column of each weight as one number, ascending."""
    ptr, cols = rows.places
    if not len(ptr):
        return np.arange(rows.size)
    return np.repeat(np.arange(len(ptr) - 1), np.diff(ptr)) * rows.width + cols


def _rounded(value: float, digits: int = 2) -> float | None:
    """Return a number of few digits, None for one that is not known."""
    return None if np.isnan(value) else float(f"{value:.{digits}g}")


GROUPS = ("state", "pair", "shared")
"""Names of the groups of parameters, in their order."""


def _made(make: Callable[[], Any]) -> Any:
    """Return a component.  Raises Skip where it lacks a setting or a plug-in that the config names."""
    from thinc.api import ConfigValidationError

    try:
        return make()
    except ConfigValidationError as error:
        raise Skip(" ".join(str(error.errors[0].get("msg", error)).split()) if error.errors else str(error)) from None


def _optimality(objective: Any, theta: Floats) -> tuple[float, float]:
    """Return the objective and the length of its shortest subgradient, relative to the weights."""
    from spacy_crfseq.training.compatibility import provided

    strengths = objective.regularizer.strengths
    if strengths is None or "value_and_grad" not in provided(objective.terms[0].loss):
        return float("nan"), float("nan")
    value, _, gradient = objective.value_and_grad(theta)
    toward = np.where(
        theta == 0, np.sign(gradient) * np.minimum(np.abs(gradient), strengths.l1), -np.sign(theta) * strengths.l1
    )
    shortest = np.linalg.norm((gradient - toward).astype(np.float64))
    return float(value), float(shortest / max(1.0, float(np.linalg.norm(theta.astype(np.float64)))))


class Tuned(NamedTuple):
    """The best of several runs.

    value (float): The chosen value of the setting.
    trained (Trained): Its run.
    seconds (float): Processor time of all runs.
    """

    value: float
    trained: Trained
    seconds: float


def tuned(
    task: Task, method: Mapping[str, Any], block: str, setting: str, values: Sequence[float], part: str = "dev"
) -> Tuned:
    """Train with each value of a setting, each run from the weights of the one before; choose by a part's score."""
    runs: list[tuple[float, float, Trained]] = []
    for value in values:
        start = runs[-1][2].theta if runs else None
        trained = task.fit(changed(method, **{block: {setting: value}}), start=start)
        runs.append((task.score(part, trained.theta), value, trained))
        say(f"        {setting} {value:g}: {runs[-1][0]:.2f} on {part}, {trained.seconds:.1f} s")
    _, value, trained = max(runs, key=lambda one: one[0])
    return Tuned(value, trained, sum(one[2].seconds for one in runs))
