"""Augmented-loss training of a component: from Docs and costs to the terms of `training.fine_tuning`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example

from ...errors import ConfigError, DataError, suggest
from ...features.encoder import Encoded
from ...pipeline.component import CRFComponent
from ...pipeline.labels import gold_tags, known_tags, same_words
from ...pipeline.prediction import DocColumns, read_docs
from ...pipeline.select import one_crf_of
from ...pipeline.tasks import Prediction
from ...potentials.tag_dictionary import without_restricted
from ...training.compatibility import check_global, part_name
from ...training.dataset import Dataset, join
from ...training.fit import FitResult, Progress
from ...types import MISSING, Bools, Cost, CostFunction, Evidence, Floats, Ints
from .training import SetReport, Settings, TuningSet, gold_set
from .training import fine_tune as train


class Source(NamedTuple):
    """Examples with their loss; without one, training uses the gold labels, with the perceptron."""

    name: str
    examples: Iterable[Example]
    loss: Cost | None = None


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

    The temperature is reset, because it was fitted to other parameters.

    dev (Source | None): Without a loss, scored by accuracy or span F1; else by minus the mean cost.
    begin (Callable): Called with the data sets, without examples that have no evidence, and the score before training.
    The other arguments are those of `training.fine_tuning.train`.
    RAISES CrfError: If there is no such CRF, a loss does not fit it, or a data set has nothing to learn from.
    """
    _, pipe = one_crf_of(nlp, component, "The pipeline")
    check_global(component, pipe.method.loss, "fine-tuning")
    with pipe.training.encoding() as encode:
        maker = _Maker(nlp, pipe, encode)
        sets = [maker.tuning_set(source) for source in sources]
        result = train(
            pipe.crf,
            pipe.annotation.constraints(pipe.tags),
            sets,
            settings,
            evaluate=None if dev is None else maker.evaluator(dev),
            patience=patience,
            begin=None if begin is None else partial(begin, sets),
            callback=callback,
            watch=watch,
        )
        if (result.best != pipe.crf.theta).any():
            pipe.set_parameters(result.best)
    return result


class _Maker:
    """Creates the data sets of one component."""

    def __init__(
        self, nlp: Language, pipe: CRFComponent, encode: Callable[[list[Doc]], tuple[Encoded, DocColumns, Bools | None]]
    ) -> None:
        self._nlp, self._pipe, self._encode = nlp, pipe, encode
        self._scheme: str = pipe.annotation.scheme or "plain"

    def tuning_set(self, source: Source) -> TuningSet:
        """Return a data set with its loss.  RAISES CrfError: If the loss does not fit, or there is nothing to learn."""
        examples = [example for example in source.examples if len(example.predicted)]
        if source.loss is None:
            if not examples:
                raise DataError(f"The data set {source.name!r} is empty. Check the path of its corpus.")
            model = self._pipe.doc_model
            return gold_set(source.name, join(model.compile(examples, not model.networks)))
        return self._ranked(source.name, examples, source.loss)

    def _ranked(self, name: str, examples: list[Example], loss: Cost) -> TuningSet:
        """Return the examples with evidence, without their gold labels."""
        pipe = self._pipe
        loss.check(pipe.tags, self._scheme)
        found = [(example, cost) for example in examples if (cost := loss(self._evidence(name, example))) is not None]
        if not found:
            raise DataError(
                f"The data set {name!r} holds no evidence for {part_name(loss)} in any of its "
                f"{len(examples)} documents. Check its corpus and the settings of the loss."
            )
        docs = [example.predicted for example, _ in found]
        costs = [self._on_numbers(cost, name, loss) for _, cost in found]
        encoded, columns, allowed = self._encode(docs)
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
        if not same_words(example):
            raise DataError(
                f"The data set {name!r}: {example.reference.text[:60]!r} has other tokens in its gold document than in "
                "the predicted one, so that a loss cannot compare them. Use a reader that keeps the file's tokens."
            )
        gold = known_tags(gold_tags(self._pipe.annotation, example, self._pipe.name))
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
            return pipe.training.evaluator(examples)
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
