"""Weights of a model: the largest of each label or template with the names of their features, and sums by template.

A model stores features as hashes, and the names of those with the largest weights, or of all.  Others are found in the
strings of the vocab, and in texts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...corpora.layouts import Format
from ...pipeline.select import run_between
from ...types import Floats, Ints, Offsets

if TYPE_CHECKING:
    from spacy.language import Language

    from ...features.templates import Plan
    from ...model import LinearChainCRF
    from ...pipeline.feature_names import BothActive
    from ...potentials.layout import WeightRows

KINDS = ("unigram", "bigram")
GROUPS = {"transitions": "(transitions)", "boundaries": "(start and end)", "potentials": "(added potentials)"}
"""Names of weights that belong to no template."""
NAMELESS = "(no name)"
"""Follows the template of a feature whose name is not known."""
BATCH = 100
"""Number of texts read at a time."""


class Entries(NamedTuple):
    """The M weights of a block, sorted by feature and column: a label, or ``before * L + label``; keys are both."""

    keys: NDArray[np.int64]
    features: Offsets
    columns: Offsets
    weights: Floats
    width: int

    def look_up(self, features: Ints | Offsets, column: Offsets | int) -> NDArray[np.float64]:
        """Return the weights [K] of features [K] in a column; 0 if there is none, and for feature -1."""
        wanted = np.asarray(features, np.int64) * self.width + column
        places = np.minimum(np.searchsorted(self.keys, wanted), max(0, len(self.keys) - 1))
        if not len(self.keys):
            return np.zeros(len(wanted))
        return np.where((self.keys[places] == wanted) & (features >= 0), self.weights[places], 0.0)


def entries(crf: LinearChainCRF) -> tuple[Entries, Entries]:
    """Return the weights of the unigram and of the bigram block."""
    return _entries(crf.layout.unigrams, crf.views.unigrams), _entries(crf.layout.bigrams, crf.views.bigrams)


def _entries(rows: WeightRows, weights: Floats) -> Entries:
    from ...potentials.layout import cells

    keys = cells(rows)
    return Entries(keys, *np.divmod(keys, max(1, rows.width)), weights, rows.width)


def templates_of(crf: LinearChainCRF) -> list[NDArray[np.int64]]:
    """Return the number of the template of each feature, for the unigram and the bigram block of a pipeline's model."""
    return [numbers.astype(np.int64) for numbers in crf.templates or ()]


class TemplateWeights(NamedTuple):
    """The parameters of a template, or of a group without templates.

    kind (str): "unigram", "bigram", "transitions", "boundaries" (start and end scores) or "potentials" (added).
    template (str): The template, or empty.
    features (int): Number of its features in the model.
    weights, nonzero (int): Number of its weights, with and without zeros.
    squares (float): Sum of the squared weights.
    """

    kind: str
    template: str
    features: int
    weights: int
    nonzero: int
    squares: float

    @property
    def density(self) -> float:
        """The share of weights that are not zero; 0 if there are none."""
        return self.nonzero / self.weights if self.weights else 0.0

    @property
    def name(self) -> str:
        """The template, or the name of the group."""
        return GROUPS.get(self.kind, self.template)


def weights_by_template(crf: LinearChainCRF, plans: Sequence[Plan]) -> list[TemplateWeights]:
    """Return a row for each template of ``FeatureSet.plans()``, for transitions, and for start and end scores."""
    rows: list[TemplateWeights] = []
    for kind, block, plan, owners in zip(KINDS, entries(crf), plans, templates_of(crf), strict=True):
        names = [template.name for template in plan.templates]
        of_weight, squares = owners[block.features], block.weights.astype(np.float64) ** 2
        counts = (np.bincount(of, minlength=len(names)) for of in (owners, of_weight, of_weight[block.weights != 0]))
        sums = np.bincount(of_weight, squares, len(names))
        columns = zip(names, *(count.tolist() for count in counts), sums.tolist(), strict=True)
        rows += [TemplateWeights(kind, *row) for row in columns]
    views = crf.views
    groups = {"transitions": views.transitions, "boundaries": np.concatenate([views.start, views.end])}
    groups |= {"potentials": np.concatenate(crf.added_views)} if crf.added_potentials else {}
    for kind, values in groups.items():
        total = float((values.astype(np.float64) ** 2).sum())
        rows.append(TemplateWeights(kind, "", 0, values.size, int(np.count_nonzero(values)), total))
    return rows


class Weight(NamedTuple):
    """A weight of a feature in a block, 0 for unigrams or 1 for bigrams; `before` is -1 in the unigram block."""

    block: int
    feature: int
    before: int
    label: int
    weight: float


Signs = tuple[list[Weight], list[Weight]]
"""Positive and negative weights, the largest first."""
Largest = tuple[str, Signs]
"""A title, and the largest weights below it."""


def largest_weights(
    crf: LinearChainCRF,
    number: int,
    *,
    labels: Sequence[int] | None = None,
    template: tuple[int, int] | None = None,
    weights: tuple[Entries, Entries] | None = None,
) -> Signs:
    """Return the largest positive and the largest negative weights of features, at most `number` of each.

    labels (Sequence[int] | None): Only weights of these labels.
    template (tuple[int, int] | None): Only weights of this template (block, number).
    weights (tuple | None): The `entries` of the model, if available.
    """
    signs: Signs = [], []
    n = crf.layout.n_labels
    for number_of_block, block in enumerate(weights or entries(crf)):
        chosen = block.weights != 0
        if labels is not None:
            chosen &= np.isin(block.columns % n, labels)
        if template is not None:
            of_template = templates_of(crf)[number_of_block] == template[1]
            chosen &= of_template[block.features] & (number_of_block == template[0])
        for sign, largest in zip((1, -1), signs, strict=True):
            places = np.flatnonzero(chosen & (sign * block.weights > 0))
            order = np.argsort(-sign * block.weights[places], kind="stable")  # the first of equals have names
            places = places[order[:number]]
            columns = (array[places].tolist() for array in block[1:4])
            for feature, column, weight in zip(*columns, strict=True):
                before = column // n if number_of_block else -1
                largest.append(Weight(number_of_block, feature, before, column % n, weight))
    positive, negative = (sorted(sign, key=lambda weight: (-abs(weight.weight), weight[:4]))[:number] for sign in signs)
    return positive, negative


class NamedWeight(NamedTuple):
    """A weight with names: of its feature, or its template if no name is `known`; `before` is a pair's first label."""

    label: str
    before: str
    attribute: str
    known: bool
    weight: float

    def words(self, with_label: bool) -> str:
        """Return the names of the feature and the labels."""
        label = f"{self.before} -> {self.label}" if self.before else self.label
        return f"{self.attribute}  {label}".lstrip() if with_label or self.before else self.attribute


class Group(NamedTuple):
    """The largest weights of a label, or of a template; largest absolute value first."""

    title: str
    positive: list[NamedWeight]
    negative: list[NamedWeight]


def largest_of_labels(pipe: Any, number: int, labels: Sequence[int] | None = None) -> list[Largest]:
    """Return the tag and the largest weights of each label of a component, or of some, `number` of each sign."""
    crf, weights = pipe.crf, entries(pipe.crf)
    chosen = range(len(pipe.tags)) if labels is None else labels
    return [(pipe.tags[label], largest_weights(crf, number, labels=[label], weights=weights)) for label in chosen]


def named(
    nlp: Language,
    component: str,
    groups: Sequence[Largest],
    texts: Path | None = None,
    format_name: Format = None,
) -> list[Group]:
    """Return groups of weights with the names of their features, which may be found in a file of texts."""
    pipe: Any = nlp.get_pipe(component)
    needed = {weight[:2] for _, signs in groups for sign in signs for weight in sign}
    names, tags = _names(nlp, component, needed, texts, format_name), pipe.tags

    def with_names(sign: list[Weight]) -> list[NamedWeight]:
        return [NamedWeight(tags[w.label], tags[w.before] if w.block else "", *names[w[:2]], w.weight) for w in sign]

    return [Group(title, with_names(positive), with_names(negative)) for title, (positive, negative) in groups]


def _names(
    nlp: Language, component: str, needed: set[tuple[int, int]], texts: Path | None, format_name: Format
) -> dict[tuple[int, int], tuple[str, bool]]:
    from ...cli.inputs import read_file

    given = None if texts is None else read_file(nlp, texts, format_name)  # a wrong name is an error, needed or not
    pipe: Any = nlp.get_pipe(component)
    keys = pipe.crf.keys
    if kept := pipe.doc_model.feature_names:
        return {(block, number): (kept[block * len(keys[0]) + number], True) for block, number in needed}
    plans, templates = pipe.doc_model.features.plans(), pipe.crf.templates
    names = {(b, i): (f"{plans[b].templates[templates[b][i]].name} {NAMELESS}", False) for b, i in needed}
    wanted = np.zeros(len(keys[0]), np.bool_), np.zeros(len(keys[1]), np.bool_)
    largest = pipe.doc_model.largest_names()
    for block, number in needed:
        if name := largest[block].get(int(keys[block][number])):
            names[block, number] = name, True
        else:
            wanted[block][number] = True
    if not any(missing.any() for missing in wanted):
        return names
    reader = pipe.doc_model.feature_reader()

    def sources() -> Iterator[BothActive]:
        from spacy.util import minibatch
        from tqdm import tqdm

        yield from reader.active_strings()
        docs = (text.doc for text in given or ())
        with tqdm(unit=" texts", disable=None, leave=False, delay=2, desc=f"Names from {texts}") as bar:
            for batch in minibatch(docs, BATCH):
                yield reader.active(run_between(nlp, batch, None, component))
                bar.update(len(batch))

    for block, number, name in reader.find(sources(), wanted):
        names[block, number] = name, True
    return names
