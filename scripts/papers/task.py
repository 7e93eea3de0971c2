"""A component with its training data as ids, and training runs that are watched.

A corpus is compiled once for each set of features; methods then share its ids.  Everything runs on one thread, so that
processor time is the time a run takes on an idle core.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import process_time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from scripts.papers._harness import Row, Skip, resolve, say, shortened
from scripts.papers.corpora import Examples
from scripts.papers.weights import within

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc

    from spacy_crfseq.features.encoder import Active
    from spacy_crfseq.pipeline.evaluator import Evaluator
    from spacy_crfseq.potentials.layout import Layout
    from spacy_crfseq.training.dataset import Dataset
    from spacy_crfseq.training.objective import Objective, Term
    from spacy_crfseq.types import Floats, Optimizer

PLUGINS = ("loss", "regularizer", "optimizer")
WARM_SEQUENCES = 20


def changed(method: Mapping[str, Any], **settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return a method with some settings of its blocks changed: ``changed(m, regularizer={"rho": 2.0})``."""
    blocks = {name: dict(method[name]) for name in PLUGINS}
    for name, values in settings.items():
        blocks[name] |= values
    return {**method, **blocks}


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


class TextTags(NamedTuple):
    """The known and the predicted tags of a text; None for a token without a known tag."""

    gold: list[str | None]
    predicted: list[str | None]

    def errors(self) -> int:
        """Return the number of wrong tags."""
        return sum(gold is not None and tag != gold for gold, tag in zip(*self, strict=True))


def token_error(texts: Iterable[TextTags]) -> float:
    """Return the per cent of wrong tags among the known ones."""
    errors, labelled = np.array([(text.errors(), len(text.gold) - text.gold.count(None)) for text in texts]).sum(axis=0)
    return float(100 * errors / labelled)


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
        from spacy_crfseq.training.dataset import join

        settings = dict(component)
        factory = settings.pop("factory")
        self._quick = quick
        self._warmed: set[tuple[str, str]] = set()
        self.pipe = _made(lambda: add(nlp, factory, **settings, features=dict(features)))
        self.pipe.initialize(lambda: train)
        self.data = join(self.pipe.training.compile(train))
        self.parts = dict(parts)
        self._scorers: dict[str, Evaluator] = {}

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

    def features_of(self, docs: Sequence[Doc]) -> tuple[list[Active], list[Active]]:
        """Return the features of each template in some Docs, of the unigram and of the bigram block."""
        model = self.pipe.doc_model
        features: tuple[list[Active], list[Active]] = model.encoder.active(
            model.reader().read(docs, model.encoder.columns).text
        )
        return features

    def tags(self, part: str, theta: Floats) -> list[TextTags]:
        """Return the known and the predicted tags of the texts of a part."""
        from spacy.training import Example

        from spacy_crfseq.pipeline.labels import gold_tags

        self.pipe.set_parameters(theta)
        examples = self.parts[part]
        docs = self.pipe.pipe(example.predicted.copy() for example in examples)
        return [
            TextTags(*(gold_tags(self.pipe.annotation, of, self.pipe.name) for of in (example, Example(doc, doc))))
            for doc, example in zip(docs, examples, strict=True)
        ]

    def margins(self, part: str, theta: Floats) -> list[float]:
        """Return the score of the best tags of each text of a tagger's part less that of the known ones.

        It is nan where the model lacks a known tag.
        """
        from spacy_crfseq.decoders.viterbi import Viterbi

        examples, labels = self.parts[part], self.labels
        encoded, _ = self.pipe.doc_model.encode([example.predicted for example in examples])
        posterior = self.pipe.crf.at(theta).posterior(encoded, self.pipe.doc_model.labels.constraints)
        gold = [token.tag_ for example in examples for token in example.reference]
        numbers = np.array([labels.index(tag) if tag in labels else -1 for tag in gold], np.int32)
        best, gold_scores = (
            posterior.log_probabilities(of) for of in (posterior.decode(Viterbi()), np.maximum(numbers, 0))
        )
        all_there = np.minimum.reduceat(numbers, encoded.offsets[:-1]) >= 0
        margins: list[float] = np.where(all_there, best - gold_scores, np.nan).tolist()
        return margins

    def score(self, part: str, theta: Floats) -> float:
        """Return accuracy or F1 in per cent."""
        from spacy_crfseq.pipeline.evaluator import Evaluator

        if part not in self._scorers:
            self._scorers[part] = Evaluator(self.pipe.doc_model, list(self.parts[part]))
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
            score = 0.0 if patience_on is None else self.score(patience_on, weights)
            scoring += process_time() - now
            return score

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

    def along(
        self, method: Mapping[str, Any], path: Sequence[float], watch: Callable[[Floats], Row] | None = None
    ) -> Iterator[tuple[float, Trained]]:
        """Yield the runs along a path of falling rho1, each begun where the last one ended."""
        theta = None
        for rho1 in path:
            trained = self.fit(changed(method, regularizer={"rho1": rho1}), start=theta, watch=watch)
            theta = trained.theta
            yield rho1, trained

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
            blocks["optimizer"] = shortened(blocks["optimizer"])
        made = resolve(blocks)
        self.pipe.method._replace(**made).check(self.pipe.name)
        objective = Objective(Linear(layout), [Term(data, made["loss"]), *terms], made["regularizer"], n_threads=1)
        return objective, made["optimizer"]

    def _warm(self, method: Mapping[str, Any]) -> None:
        """Load or compile the kernels of a method, which is not to be timed."""
        kind = method["loss"]["@crf_losses"], method["optimizer"]["@crf_optimizers"]
        if kind not in self._warmed:
            short = changed(method, optimizer={"max_iterations": 1})
            data = self.data.slice(0, min(WARM_SEQUENCES, len(self.data.encoded.offsets) - 1))
            objective, optimizer = self._objective(short, data, self.layout)
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
