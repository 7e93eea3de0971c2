"""The features of a config on a corpus: the use of each template, and the columns and labels that are missing."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...cli.console import say
from ...corpora.layouts import corpus_place
from ...errors import count_of
from ...pipeline.configs import load_config
from ...pipeline.pipeline_training import PipelineTraining, set_up_from
from .corpus import MANY, Finding
from .cost import Expense, TrainingCost, costs_of

if TYPE_CHECKING:
    from ...features.encoded import Ids
    from ...features.encoder import CollectedFeatures
    from ...pipeline.component import CRFComponent


class TemplateUse(NamedTuple):
    """The use of a template, such as "LOWER[-1]", on a text.

    features (int): Number of features.
    once (int): Number of features that only one token has.
    tokens (int): Number of tokens with a feature.
    """

    name: str
    features: int
    once: int
    tokens: int

    def is_dead(self, n_tokens: int) -> bool:
        """Whether it distinguishes no tokens: none has a feature, or all have the same one."""
        return self.tokens == 0 or (self.features == 1 and self.tokens == n_tokens)


def template_uses(block: CollectedFeatures, ids: Ids) -> list[TemplateUse]:
    """Return the use of each template of a block, in their order.

    block (CollectedFeatures): Those of a text.
    ids (Ids): The whole text.
    """
    owners, counts, n = block.templates, ids.counts(len(block.keys)), len(block.plan.templates)
    features = np.bincount(owners, minlength=n)
    once = np.bincount(owners[counts == 1], minlength=n)
    tokens = np.bincount(owners, counts, n)
    sets = block.plan.set_slots  # a token can have many features of these; their bags are the last ones
    bags = ids.expanded()[0].T
    for number, column in zip(sets, bags[len(bags) - len(sets) :], strict=True):
        tokens[number] = np.count_nonzero(column)
    return [
        TemplateUse(template.name, int(features[i]), int(once[i]), int(tokens[i]))
        for i, template in enumerate(block.plan.templates)
    ]


class TermUse(NamedTuple):
    """The texts of a term: their sentences and tokens, and the share of tokens that the training corpus lacks."""

    name: str
    corpus: str
    loss: str
    weight: float
    sentences: int
    tokens: int
    unknown: float


class Lost(NamedTuple):
    """Gold annotation that the tokens of a pipeline cannot hold: spans by label, labels that are gone, a message."""

    counts: Mapping[str, int]
    gone: Sequence[str]
    text: str


class Component(NamedTuple):
    """Findings on features before training: use of templates, columns that are read but never set, the cost, terms.

    unaligned (Mapping): What the tokenizer loses of each part that has other tokens.
    """

    n_labels: int
    n_tokens: int
    templates: list[TemplateUse]
    unset: list[str]
    cost: TrainingCost | None
    terms: Sequence[TermUse] = ()
    unaligned: Mapping[str, Lost] = {}

    @property
    def attributes(self) -> int:
        """The number of attributes of all templates."""
        return sum(use.features for use in self.templates)

    def as_json(self) -> dict[str, Any]:
        """Return the findings as values for JSON."""
        return {
            "labels": self.n_labels,
            "attributes": self.attributes,
            "templates": [use._asdict() for use in self.templates],
            "dead": self.dead(),
            "unset_columns": self.unset,
            "terms": [term._asdict() for term in self.terms],
            "cost": self.cost and {**self.cost._asdict(), "seconds": self.cost.seconds},
            "unaligned": {part: lost.counts for part, lost in self.unaligned.items()},
        }

    def dead(self) -> list[str]:
        """Return the templates that cannot distinguish labels."""

        def is_unset(name: str) -> bool:
            return any(part.partition("[")[0] in self.unset for part in name.split("|"))

        return [use.name for use in self.templates if use.is_dead(self.n_tokens) or is_unset(use.name)]

    def findings(self, name: str) -> list[Finding]:
        """Return the findings on the component."""
        texts, dead = [], self.dead()
        if self.unset:
            texts.append(
                f"{name} reads {', '.join(self.unset)}, which no component sets: list the one that does in "
                "[training] annotating_components, or the column under `given` of the corpus reader, or take other "
                "features."
            )
        if dead:
            number = count_of(len(dead), "template")
            texts.append(f"{name}: {number} cannot distinguish labels on this corpus: {', '.join(dead)}.")
        good = [] if texts else [Finding("good", f"{name}: all {len(self.templates)} templates are useful")]
        if self.cost is not None and self.cost.bounded:
            text = f"{name}: the optimizer did not converge on a sample; the cost is that of all of its"
            texts.append(f"{text} {count_of(self.cost.iterations, 'iteration')}. Set fewer, or use --patience.")
        if self.n_labels >= MANY:
            took = "" if self.cost is None else f": {self.cost.iteration_seconds:.1f} s an iteration here"
            texts.append(
                f"{name}: {self.n_labels:,} labels. An iteration takes time that grows with the square of their "
                f"number{took}. Merge rare labels, or train two components, such as one for tags and one with "
                'attr = "morph". A tag dictionary (tag_dictionary_size) bars labels that frequent words lack, but '
                'takes as long. Memory grows with the weights: min_count = 2 and support = "observed" keep them few.'
            )
        lost = [
            Finding("fail" if part == "train" and of_part.gone else "warn", f"{name}: in {part}, {of_part.text}")
            for part, of_part in self.unaligned.items()
        ]
        return [*(Finding("warn", text) for text in texts), *lost, *good]


def look_at_config(training: PipelineTraining, with_cost: bool) -> tuple[dict[str, Component], Expense | None]:
    """Examine each of the components to train on their corpus."""
    costs, expense = costs_of(training) if with_cost else ({}, None)
    return {
        name: _component(training, name, pipe, costs.get(name)) for name, pipe in training.to_train.items()
    }, expense


def set_up_on(config: Path, overrides: dict[str, Any], file: Path, dev: Path | None) -> PipelineTraining:
    """Set up a config, with overrides, on another corpus than its own."""
    blocks = load_config(config, overrides)
    corpora = {
        f"{corpus_place(blocks, 'train_corpus')}.path": str(file),
        f"{corpus_place(blocks, 'dev_corpus')}.path": str(dev) if dev else None,
    }
    return set_up_from(load_config(config, {**overrides, **corpora}), say)


@contextmanager
def aside() -> Iterator[None]:
    """Keep messages of training out of the report; its warnings become findings."""
    with open(os.devnull, "w", encoding="utf8") as nowhere, warnings.catch_warnings():  # noqa: PTH123
        warnings.simplefilter("ignore")
        with redirect_stdout(sys.stderr if sys.stderr.isatty() else nowhere):
            yield


def _component(training: PipelineTraining, name: str, pipe: CRFComponent, cost: TrainingCost | None) -> Component:
    from ...pipeline.plan import TrainingPlan
    from ...pipeline.training_set import collect

    before = pipe.training.example_encoder  # None without an initialization
    held_out = {} if before is None else before.held_out
    data = collect(pipe.doc_model, TrainingPlan(), training.corpus, held_out=held_out)
    corpus, (unigrams, bigrams) = data.corpus, data.collector.features
    uses = template_uses(unigrams, corpus.complete.unigrams) + template_uses(bigrams, corpus.complete.bigrams)
    unset = [column for column in corpus.absent if column not in _set_before(training, name)]
    n_labels, n_tokens = len(pipe.annotation.found_tags(corpus.tags)), corpus.complete.n_tokens
    lost = _unaligned(training, pipe, pipe.annotation.public_labels(corpus.tags))
    return Component(n_labels, n_tokens, uses, unset, cost, _terms(training, name, pipe), lost)


def _unaligned(training: PipelineTraining, pipe: CRFComponent, labels: Collection[str]) -> dict[str, Lost]:
    from ...pipeline.alignment import Unaligned
    from ...pipeline.labels import gold_tags

    lost = {}
    for part, examples in {"train": training.corpus, "dev": training.dev}.items():
        unaligned = Unaligned()
        for example in examples:
            gold_tags(pipe.annotation, example, pipe.name, unaligned)
        if unaligned.counts:
            lost[part] = Lost(unaligned.counts, unaligned.gone(labels), unaligned.message(labels))
    return lost


def _terms(training: PipelineTraining, component: str, pipe: CRFComponent) -> list[TermUse]:
    from ...pipeline.terms import find_texts
    from ...training.compatibility import part_name

    uses, settings = [], pipe.method.each_term(component)
    trained = {token.orth for example in training.corpus for token in example.predicted} if settings else set()
    for name, read in find_texts(pipe.doc_model, {}, training.nlp).items():
        sentences = tokens = unknown = 0
        for example in read():
            sentences += sum(token.i == 0 or bool(token.is_sent_start) for token in example.predicted)
            tokens += len(example.predicted)
            unknown += sum(token.orth not in trained for token in example.predicted)
        term, share = settings[name], unknown / max(1, tokens)
        uses.append(TermUse(name, term.corpus or "", part_name(term.loss), term.weight, sentences, tokens, share))
    return uses


def _set_before(training: PipelineTraining, name: str) -> set[str]:
    """Return the columns that components set in training before a component learns from them."""
    nlp, columns = training.nlp, set[str]()
    for earlier in nlp.pipe_names[: nlp.pipe_names.index(name)]:
        if earlier in training.settings["annotating_components"]:
            annotation = getattr(nlp.get_pipe(earlier), "annotation", None)
            assigned = (key.rpartition(".")[2].upper() for key in nlp.get_pipe_meta(earlier).assigns)
            columns |= set(assigned) if annotation is None else set(annotation.writes)
    return columns
