"""Votes of sources in doc.spans, as `aggregate` writes them, and what a label model makes of them.

The label model is one of the registry crf_label_models, so that nothing here knows how it is learned.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from spacy.attrs import ORTH
from spacy.tokens import Doc

from ..chain import Chain
from ..schemes import TagSpan, encode, tags_of, transition_table
from ..threads import shards
from ..types import MISSING, Constraints, Ints
from ..votes import ABSTAIN, MethodSettings, Votes, make_votes
from .soft_labels import SILENT

SCHEME = "BILUO"
"""The scheme of the tags of sources and of their label model."""
LABEL_MODEL = "label_model"
"""The note beside the spans of a source: the name and the settings of the label model of the texts."""


def spans_of_sources(doc: Doc) -> dict[str, list[TagSpan]]:
    """Return the spans of each source that says something about a text, by its name."""
    groups = {name: group for name, group in doc.spans.items() if SILENT in group.attrs}
    return {name: [TagSpan(span.start, span.end, span.label_) for span in group] for name, group in groups.items()}


class SourcedTexts(NamedTuple):
    """The votes of sources on N texts, from which a label model learns.

    tags (tuple[str, ...]): [L] names of the labels, in the scheme `SCHEME`.
    method (MethodSettings): The label model.
    """

    votes: Votes
    tags: tuple[str, ...]
    method: MethodSettings = MethodSettings()

    @property
    def rules(self) -> Constraints:
        """Which tags may follow each other."""
        return transition_table(list(self.tags), SCHEME)

    def tag_numbers(self, spans: Sequence[TagSpan], n_tokens: int) -> Ints:
        """Return the numbers [T] of the tags of spans, `MISSING` for those of labels that no source has."""
        numbers = {tag: number for number, tag in enumerate(self.tags)}
        return np.array([numbers.get(tag, MISSING) for tag in encode(spans, n_tokens, SCHEME)], np.int32)

    def learn(self, gold: Ints | None = None, start: Any = None) -> Any:
        """Return a label model of the votes.

        gold (Ints | None): [T] true tags, `MISSING` where unknown.
        start: The model of the same votes to begin with.
        RAISES ConfigError: As of `MethodSettings.made`.
        """
        return self.method.made()(self.votes, self.rules, gold, start)

    def chains(self, model: Any, gold: Ints | None = None, texts: range | None = None) -> Iterator[tuple[int, Chain]]:
        """Yield the number of a text and the distribution of the tags of this one and some that follow.

        texts (range | None): The texts that are asked for; None for all.
        """
        parts = shards(self.votes.offsets, self.votes.n_labels**2) if texts is None else [(texts.start, texts.stop)]
        cells = model.cells(self.votes)
        for part in parts:
            scores, offsets, first = model.lattice(self.votes, gold, part, cells)
            yield first, Chain(scores.emissions, scores.transitions[0], scores.start, scores.end, offsets=offsets)


def sourced_texts(docs: Sequence[Doc]) -> SourcedTexts | None:
    """Return the votes of the sources of Docs; None if there are none, or if they have found nothing.

    A source has the labels that it has given anywhere.  Votes that repeat one decision are left out, see
    `Votes.repeated`.  The label model is the one that is noted.
    """
    said = [spans_of_sources(doc) for doc in docs]
    names = list(dict.fromkeys(name for of_doc in said for name in of_doc))
    types = sorted({span.label for of_doc in said for spans in of_doc.values() for span in spans})
    if not types:
        return None
    tags = tags_of(types, SCHEME)
    numbers, offsets = {tag: number for number, tag in enumerate(tags)}, np.cumsum([0, *map(len, docs)])
    sources = {name: number for number, name in enumerate(names)}
    tokens, by, labels = (list[Ints]() for _ in range(3))
    for first, doc, of_doc in zip(offsets.tolist(), docs, said, strict=False):
        for name, spans in of_doc.items():
            row = np.zeros(len(doc), np.int32)
            if spans:
                row[:] = [numbers[tag] for tag in encode(spans, len(doc), SCHEME)]
            for start, end in doc.spans[name].attrs[SILENT]:
                row[start:end] = ABSTAIN
            speaks = np.flatnonzero(row != ABSTAIN)
            tokens.append(first + speaks)
            by.append(np.full(len(speaks), sources[name], np.int32))
            labels.append(row[speaks])
    flat, of, given = (np.concatenate(arrays) for arrays in (tokens, by, labels))
    gives = np.zeros((len(names), len(types)), np.bool_)
    gives[of[given > 0], (given[given > 0] - 1) // len("BILU")] = True
    knows = np.column_stack([np.ones(len(names), np.bool_), gives.repeat(len("BILU"), 1)])
    votes = make_votes(offsets, flat, of, given, names, len(tags), knows)
    notes = (doc.spans[name].attrs.get(LABEL_MODEL) for doc, of_doc in zip(docs, said, strict=True) for name in of_doc)
    method = next((MethodSettings(*note) for note in notes if note is not None), MethodSettings())
    words = np.concatenate([doc.to_array(ORTH) for doc in docs]).tolist()
    rules = transition_table(tags, SCHEME)
    believed = votes.without(votes.repeated(words, rules.outside, rules.start))
    return SourcedTexts(believed, tuple(tags), method)
