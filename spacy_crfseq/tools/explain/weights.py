"""An explanation of a model as a whole: its largest weights by label or template, its transitions, sums by template."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...cli.console import cut, cut_name, table
from ...corpora.layouts import Format
from ...errors import ConfigError, suggest
from ...pipeline.select import load_pipeline, one_crf_of
from ...types import Floats
from .._pages.weights import (
    Group,
    NamedWeight,
    TemplateWeights,
    largest_of_labels,
    largest_weights,
    named,
    weights_by_template,
)

if TYPE_CHECKING:
    from ...model import LinearChainCRF
    from ...pipeline.component import CRFComponent

CELL = 7
"""Width of a transition in the terminal."""
SHOWN = 5
"""Number of weights of each sign, if no other is asked for."""


class ModelWeights(NamedTuple):
    """The largest weights of a model.

    by_label (bool): Whether a group is a label; else it is a template.
    transitions (Floats | None): From the label of the row to that of the column, with another row for the start and
        another column for the end if these are learned; nan where there is none. None for a single label or template.
    templates (list[TemplateWeights]): Empty for a single label or template.
    """

    model: str
    component: str
    groups: list[Group]
    by_label: bool
    labels: list[str]
    transitions: Floats | None
    templates: list[TemplateWeights]
    has_texts: bool

    @property
    def steps(self) -> tuple[list[str], list[str]]:
        """The names of the rows and columns of `transitions`."""
        size = 0 if self.transitions is None else len(self.transitions)
        return [*self.labels, "start"][:size], [*self.labels, "end"][:size]

    def rows(self) -> list[tuple[str, ...]]:
        """Return the templates and their counts as the cells of a table."""
        return [
            (
                row.name + (" (with the label before)" if row.kind == "bigram" else ""),
                *(f"{n:,}" for n in row[2:5]),
                f"{100 * row.density:.1f}",
                f"{row.squares:,.1f}",
            )
            for row in self.templates
        ]

    def advice(self) -> str:
        """Return how many features have no name and what to do, or an empty string if all have one."""
        weights = [weight for group in self.groups for weight in (*group.positive, *group.negative)]
        nameless = sum(not weight.known for weight in weights)
        if not nameless:
            return ""
        what = "Give texts in which they occur, such as the training corpus, with --texts"
        if self.has_texts:
            what = "They do not occur in the texts given: give the training corpus with --texts"
        return (
            f"{nameless:,} of the {len(weights):,} weights shown have no name: the model keeps those of its largest "
            f"weights. {what}, or train with keep_names = true."
        )

    def to_json(self) -> dict[str, Any]:
        """Return lists and dictionaries that JSON can hold."""
        steps = None
        if self.transitions is not None:
            before, after = self.steps
            rows = zip(before, self.transitions.tolist(), strict=True)
            steps = {name: {other: w for other, w in zip(after, row, strict=True) if w == w} for name, row in rows}
        weights = {
            group.title: {sign: [item._asdict() for item in getattr(group, sign)] for sign in ("positive", "negative")}
            for group in self.groups
        }
        templates = [item._asdict() for item in self.templates]
        names = {"model": self.model, "component": self.component}
        return {**names, "weights": weights, "transitions": steps, "templates": templates}


def explain_model(
    model: str,
    *,
    component: str | None = None,
    label: str | None = None,
    template: str | None = None,
    number: int = SHOWN,
    texts: Path | None = None,
    layout: Format = None,
) -> ModelWeights:
    """Return the largest weights of a pipeline's CRF, `number` of each sign in each group.

    label (str | None): A tag, or a type with all its tags, to which the weights are restricted.
    template (str | None): The templates that are the groups, such as ``LOWER[-1]``; None for groups by label.
    texts (Path | None): A file of texts in which names of features are found.
    RAISES CrfError: If there is no such component, label or template, or the file cannot be read.
    """
    from ...pipeline.labels import numbers_of

    nlp = load_pipeline(model)
    name, pipe = one_crf_of(nlp, component, model, spans_first=True)
    labels = None if label is None else numbers_of([label], pipe.annotation, pipe.tags)
    if template is None:
        groups = largest_of_labels(pipe, number, labels)
    else:
        groups = [
            (title, largest_weights(pipe.crf, number, labels=labels, template=place))
            for title, place in _templates_of(pipe, template)
        ]
    whole = label is None and template is None
    return ModelWeights(
        model,
        name,
        named(nlp, name, groups, texts, layout),
        template is None,
        list(pipe.tags),
        _transitions(pipe.crf) if whole else None,
        weights_by_template(pipe.crf, pipe.doc_model.features.plans()) if whole else [],
        texts is not None,
    )


def _templates_of(pipe: CRFComponent, text: str) -> list[tuple[str, tuple[int, int]]]:
    from ...features.attributes import BUILT_IN
    from ...features.templates import parse

    plans = pipe.doc_model.features.plans()
    places = {
        (block, template_.name): (block, number)
        for block, plan in enumerate(plans)
        for number, template_ in enumerate(plan.templates)
    }
    attributes = {part.attribute for plan in plans for template_ in plan.templates for part in template_.parts}
    names = [template_.name for template_ in parse([text], attributes | BUILT_IN)]
    missing = [name for name in names if not any((block, name) in places for block in (0, 1))]
    if missing:
        raise ConfigError(
            f"--template {text}: the model has no template {missing[0]!r}. "
            f"{suggest(missing[0], {name for _, name in places})}"
        )
    return [(name, places[block, name]) for name in names for block in (0, 1) if (block, name) in places]


def _transitions(crf: LinearChainCRF) -> Floats:
    n, views, steps = crf.layout.n_labels, crf.views, crf.layout.steps
    inner = np.where(True if steps is None else steps, views.transitions, np.nan).astype(np.float64)
    if not crf.layout.boundaries:
        return inner
    out = np.full((n + 1, n + 1), np.nan)
    out[:n, :n], out[n, :n], out[:n, n] = inner, views.start, views.end
    return out


def model_lines(weights: ModelWeights) -> list[str]:
    """Return the lines about a model in the terminal, no wider than it is."""
    wide = get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
    lines: list[str] = []
    for group in weights.groups:
        lines += ["", group.title, *_side_by_side(group, wide, with_label=not weights.by_label)]
    if weights.transitions is not None:
        lines += ["", "Transitions, from the label of the row to that of the column", ""]
        lines += _transition_lines(*weights.steps, weights.transitions, wide)
    if weights.templates:
        lines += ["", "Weights by template", "", *_template_lines(weights.rows(), wide)]
    return [*lines, ""]


def _side_by_side(group: Group, wide: int, *, with_label: bool) -> list[str]:
    words = [weight.words(with_label) for weight in (*group.positive, *group.negative)]
    if not words:
        return ["  no weight other than zero"]
    room = min(max(map(len, words)), max(16, (wide - 2 * 12) // 2))

    def cell(weight: NamedWeight | None) -> str:
        return (
            f"{weight.weight:+8.3f}  {cut_name(weight.words(with_label), room):{room}}" if weight else " " * (10 + room)
        )

    return ["  ".join(map(cell, pair)).rstrip() for pair in zip_longest(group.positive, group.negative)]


def _transition_lines(before: Sequence[str], after: Sequence[str], weights: Floats, wide: int) -> list[str]:
    margin = max(map(len, before))
    if margin + (CELL + 1) * len(after) <= min(wide, 200):
        cells = [[cut(name, CELL) for name in after]]
        cells += [["." if value != value else f"{value:.2f}" for value in row] for row in weights.tolist()]
        rows = zip(["", *before], cells, strict=True)
        return [f"{name:{margin}}" + "".join(f" {cell:>{CELL}}" for cell in row) for name, row in rows]
    order = np.argsort(-np.abs(np.nan_to_num(weights)).ravel(), kind="stable")
    places = np.stack(np.unravel_index(order, weights.shape), axis=1).tolist()
    all_of = [NamedWeight(after[j], before[i], "", True, float(weights[i, j])) for i, j in places]
    best = [[weight for weight in all_of if sign * weight.weight > 0][: 4 * SHOWN] for sign in (1, -1)]
    lines = _side_by_side(Group("", *best), wide, with_label=False)
    return [*lines, "", "  The largest ones; for all of them, write a page: --output page.html"]


def _template_lines(rows: Sequence[tuple[str, ...]], wide: int) -> list[str]:
    header = ("template", "features", "weights", "nonzero", "%", "squares")
    room = max(20, wide - sum(max(len(row[i]) for row in [header, *rows]) + 2 for i in range(1, 6)))
    cells = [(cut(row[0], room), *row[1:]) for row in rows]
    shown = table(cells, header=header, aligns=("l", *"rrrrr"), divider=True, spacing=2)
    return shown.strip("\n").split("\n")
