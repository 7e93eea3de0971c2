"""Features of a config on a corpus and the cost of training, for ``crfseq debug-data``."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from ..corpora.layouts import corpus_place
from ..evaluation.corpus_findings import Finding
from .console import say

if TYPE_CHECKING:
    from ..evaluation.templates import TemplateUse
    from ..pipeline.component import CRFComponent
    from ..pipeline.project import Setup
    from ..training.cost import Cost


class TermUse(NamedTuple):
    """The texts of a term: their sentences and tokens, and the share of tokens that the training corpus lacks."""

    name: str
    corpus: str
    loss: str
    weight: float
    sentences: int
    tokens: int
    unknown: float


class Component(NamedTuple):
    """What is known before training: use of templates, columns that are read but never set, the cost, terms."""

    n_labels: int
    n_tokens: int
    templates: list[TemplateUse]
    unset: list[str]
    cost: Cost | None
    terms: Sequence[TermUse] = ()

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
        }

    def dead(self) -> list[str]:
        """Return the templates that cannot distinguish labels."""

        def is_unset(name: str) -> bool:
            return any(part.partition("[")[0] in self.unset for part in name.split("|"))

        return [use.name for use in self.templates if use.is_dead(self.n_tokens) or is_unset(use.name)]


class Expense(NamedTuple):
    """Cost of the pipeline: seconds to encode and to train, and the peak memory of this process, if known."""

    encoding: float
    training: float
    megabytes: float | None


def look_at_config(
    config: Path, overrides: dict[str, Any] | None, file: Path, dev: Path | None, with_cost: bool
) -> tuple[dict[str, Component], Expense | None]:
    """Set up a config on the corpus and examine each of its components."""
    with aside():
        setup = set_up_on(config, overrides, file, dev)
        costs, expense = _costs(setup) if with_cost else ({}, None)
        return {name: _component(setup, name, pipe, costs.get(name)) for name, pipe in setup.to_train.items()}, expense


def set_up_on(config: Path, overrides: dict[str, Any] | None, file: Path, dev: Path | None) -> Setup:
    """Set up a config, with overrides, on another corpus than its own."""
    from ..pipeline.project import load_config, set_up_from

    blocks = load_config(config, overrides or {})
    corpora = {
        f"{corpus_place(blocks, 'train_corpus')}.path": str(file),
        f"{corpus_place(blocks, 'dev_corpus')}.path": str(dev) if dev else None,
    }
    return set_up_from(load_config(config, {**(overrides or {}), **corpora}), say)


@contextmanager
def aside() -> Iterator[None]:
    """Keep messages of training out of the report; its warnings become findings."""
    with open(os.devnull, "w") as nowhere, warnings.catch_warnings():  # noqa: PTH123
        warnings.simplefilter("ignore")
        with redirect_stdout(sys.stderr if sys.stderr.isatty() else nowhere):
            yield


def _costs(setup: Setup) -> tuple[dict[str, Cost], Expense]:
    from ..pipeline.project import encode
    from ..training.cost import estimate

    started = perf_counter()
    encode(setup, postpone=False)
    encoding = perf_counter() - started
    costs = {}
    for name, pipe in setup.to_train.items():
        if name not in setup.resumed:
            with pipe.training.training_on() as (objective, _):
                costs[name] = estimate(objective, pipe.method.optimizer, pipe.crf.theta)
    return costs, Expense(encoding, sum(cost.seconds for cost in costs.values()), _peak_megabytes())


def _peak_megabytes() -> float | None:
    try:
        import resource
    except ImportError:  # Windows
        return None
    unit = 1 if sys.platform == "darwin" else 1 << 10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def _component(setup: Setup, name: str, pipe: CRFComponent, cost: Cost | None) -> Component:
    from ..evaluation.templates import template_uses

    encoder = pipe.doc_model.new_encoder()
    found = pipe.training.encode(setup.train, encoder)
    uses = template_uses(encoder.unigrams, found.known.unigrams) + template_uses(encoder.bigrams, found.known.bigrams)
    unset = [column for column in found.absent if column not in _set_before(setup, name)]
    n_labels, n_tokens = len(pipe.annotation.found_tags(found.tags)), found.known.n_tokens
    return Component(n_labels, n_tokens, uses, unset, cost, _terms(setup, name, pipe))


def _terms(setup: Setup, component: str, pipe: CRFComponent) -> list[TermUse]:
    from ..pipeline.terms import find_texts
    from ..training.compatibility import part_name

    uses, settings = [], pipe.method.each_term(component)
    known = {token.orth for example in setup.train for token in example.predicted} if settings else set()
    for name, read in find_texts(component, settings, {}, setup.nlp).items():
        sentences = tokens = unknown = 0
        for example in read():
            starts = [token for token in example.predicted if token.i == 0 or token.is_sent_start]
            sentences, tokens = sentences + len(starts), tokens + len(example.predicted)
            unknown += sum(token.orth not in known for token in example.predicted)
        term, share = settings[name], unknown / max(1, tokens)
        uses.append(TermUse(name, term.corpus or "", part_name(term.loss), term.weight, sentences, tokens, share))
    return uses


def _set_before(setup: Setup, name: str) -> set[str]:
    """Return the columns that components set in training before a component learns from them."""
    nlp, columns = setup.nlp, set[str]()
    for earlier in nlp.pipe_names[: nlp.pipe_names.index(name)]:
        if earlier in setup.training["annotating_components"]:
            annotation = getattr(nlp.get_pipe(earlier), "annotation", None)
            assigned = (key.rpartition(".")[2].upper() for key in nlp.get_pipe_meta(earlier).assigns)
            columns |= set(assigned) if annotation is None else set(annotation.writes)
    return columns


def findings_of_components(components: Mapping[str, Component]) -> list[Finding]:
    """Return findings about components."""
    found = []
    for name, component in components.items():
        dead, cost = component.dead(), component.cost
        if component.unset:
            text = (
                f"{name} reads {', '.join(component.unset)}, which no component sets: list the one that does in "
                "[training] annotating_components, or the column under `given` of the corpus reader, or take other "
                "features."
            )
            found.append(Finding("warn", text))
        if dead:
            found.append(
                Finding(
                    "warn",
                    f"{name}: {len(dead)} templates cannot distinguish labels on this corpus: {', '.join(dead)}.",
                )
            )
        if cost is not None and cost.bounded:
            text = f"{name}: the optimizer did not converge on a sample; the cost is that of all of its"
            found.append(Finding("warn", f"{text} {cost.iterations:,} iterations. Set fewer, or use --patience."))
        if not dead and not component.unset:
            found.append(Finding("good", f"{name}: all {len(component.templates)} templates are useful"))
    return found
