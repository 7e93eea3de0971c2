"""Weights of a trained component with the names of their features, found in the model, the vocabulary or texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from spacy.util import minibatch
from tqdm import tqdm

from ..corpora.layouts import Format
from ..pages.weights import Group, NamedWeight
from ..pipeline.select import run_between
from .judging import read_file

if TYPE_CHECKING:
    from spacy.language import Language

    from ..evaluation.weights import Weight
    from ..pipeline.feature_names import BothActive
    from ..pipeline.texts import Text

BATCH = 100
"""Number of texts read at a time."""
NAMELESS = "(no name)"
"""Follows the template of a feature whose name is not known."""


def label_groups(nlp: Language, component: str, number: int) -> list[Group]:
    """Return the largest weights of each label of a CRF, `number` of each sign."""
    from ..evaluation.weights import entries, largest_weights

    pipe: Any = nlp.get_pipe(component)
    weights = entries(pipe.crf)
    each = enumerate(pipe.tags)
    found = [(tag, largest_weights(pipe.crf, number, labels=[one], weights=weights)) for one, tag in each]
    return named(nlp, component, found, None, None)


def named(
    nlp: Language,
    component: str,
    found: Sequence[tuple[str, tuple[list[Weight], list[Weight]]]],
    texts: Path | None,
    format_name: Format,
) -> list[Group]:
    """Return groups of weights with the names of their features."""
    pipe: Any = nlp.get_pipe(component)
    shown = [one for _, signs in found for sign in signs for one in sign]
    names, tags = _names(nlp, component, shown, texts, format_name), pipe.tags

    def with_names(sign: list[Weight]) -> list[NamedWeight]:
        return [NamedWeight(tags[w.label], tags[w.before] if w.block else "", *names[w[:2]], w.weight) for w in sign]

    return [Group(title, with_names(positive), with_names(negative)) for title, (positive, negative) in found]


def _names(
    nlp: Language, component: str, weights: Sequence[Weight], texts: Path | None, format_name: Format
) -> dict[tuple[int, int], tuple[str, bool]]:
    given = None if texts is None else read_file(nlp, texts, format_name)  # a wrong name is an error, needed or not
    pipe: Any = nlp.get_pipe(component)
    keys, needed = pipe.crf.keys, {w[:2] for w in weights}
    if known := pipe.doc_model.feature_names:
        return {(block, number): (known[block * len(keys[0]) + number], True) for block, number in needed}
    names = dict.fromkeys(needed, (NAMELESS, False))
    if (templates := pipe.crf.templates) is not None:
        plans = pipe.doc_model.features.plans()
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
        yield from reader.active_strings()
        if texts is not None and given is not None:
            for batch in _batches(nlp, component, given, texts.name):
                yield reader.active(batch)

    for block, number, name in reader.find(sources(), wanted):
        names[block, number] = name, True
    return names


def _batches(nlp: Language, component: str, texts: Iterator[Text], file: str) -> Iterator[list[Any]]:
    docs = (text.doc for text in texts)
    with tqdm(unit=" texts", disable=None, leave=False, delay=2, desc=f"Names from {file}") as bar:
        for batch in minibatch(docs, BATCH):
            yield run_between(nlp, batch, None, component)
            bar.update(len(batch))
