"""Texts that several sources have labelled: the page begins with what `aggregate` makes of them, doubtful texts first.

The probabilities are those that are noted on the Docs; the posterior of a label model is a Markov chain, so that pairs
of neighbouring tags give the exact probability of any span.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from spacy.tokens import Doc

from ...errors import DataError
from ...pipeline.doc_posterior import Scored
from ...pipeline.soft_labels import SILENT, SoftLabels, read_soft_labels
from ...pipeline.texts import load_docs
from ...schemes import TagSpan, encode
from .._pages.label_errors import shown
from .decoding import LEAST, Decoding
from .journal import Pins
from .learning import Learner
from .pool import Pool, hash_of, text_of
from .project import Item, Project

SCHEME = "BILUO"


class SaidText(NamedTuple):
    """What is known of a text.

    decoding (Decoding): The best spans, and those that a source has found besides, with their probabilities.
    said (str): What each source has found, by its name.
    entropy (float): Of the labellings, in nats.
    """

    decoding: Decoding
    said: str
    entropy: float


def read_labelled(path: Path, learner: Learner) -> dict[str, SaidText]:
    """Return the labels by sources of the texts of an output of `aggregate`, by the keys of a pool.

    RAISES CrfError: If the file cannot be read, or no text has labels of sources.
    """
    texts, some = dict[str, SaidText](), False
    for doc in load_docs(path, learner.nlp.vocab):
        said = _said(doc)
        some |= bool(said)
        text = text_of(doc)
        key = hash_of((text.words, None if text.spaces is None else bytes(text.spaces)))
        texts[f"{key:016x}"] = _labelled(doc, read_soft_labels(doc, learner.name), said)
    if not some:
        raise DataError(f"{path}: no doc has spans of sources. Give an output of 'aggregate' (.spacy).")
    return texts


def _said(doc: Doc) -> dict[str, list[TagSpan]]:
    """Return the spans of each source that says something about a text."""
    groups = {name: group for name, group in doc.spans.items() if SILENT in group.attrs}
    return {name: [TagSpan(span.start, span.end, span.label_) for span in group] for name, group in groups.items()}


def _labelled(doc: Doc, soft: SoftLabels, said: Mapping[str, Sequence[TagSpan]]) -> SaidText:
    best = [TagSpan(span.start, span.end, span.label_) for span in doc.ents]
    there = {span: probability(span, soft, certain=span in best) for span in {*best, *_all(said)}}
    spans, offers = (
        [Scored(*span, there[span]) for span in sorted(there) if (span in best) == of_best] for of_best in (True, False)
    )
    words = [token.text for token in doc]
    told = [f"{name}: {shown(sorted(spans), words)}" for name, spans in said.items()]
    likely = sorted((offer for offer in offers if offer.probability >= LEAST), key=lambda offer: -offer.probability)
    return SaidText(Decoding(spans, likely), "; ".join(told), entropy(soft))


def _all(said: Mapping[str, Sequence[TagSpan]]) -> list[TagSpan]:
    return [span for spans in said.values() for span in spans]


def probability(span: TagSpan, soft: SoftLabels, *, certain: bool) -> float:
    """Return the probability of a span: of its first tag, times that of each tag given the one before.

    certain (bool): Whether tokens of which no probabilities are noted are in the span, or in none.
    """
    length, value, before = span.end - span.start, 1.0, ""
    tags = encode([TagSpan(0, length, span.label)], length, SCHEME)
    for token, tag in enumerate(tags, start=span.start):
        if token not in soft:
            value *= certain
        else:
            given = [pair for pair in soft[token] if token == span.start or pair[0] in ("", before)]
            total = 1.0 if token == span.start else sum(share for *_, share in given)
            value *= sum(share for _, name, share in given if name == tag) / total if total else 0.0
        before = tag
    return min(value, 1.0)


def entropy(soft: SoftLabels) -> float:
    """Return the entropy of a chain of tags in nats: the sum over tokens of that of the tag given the one before."""
    total = 0.0
    for pairs in soft.values():
        of_before = dict[str, float]()
        for before, _, share in pairs:
            of_before[before] = of_before.get(before, 0.0) + share
        total -= sum(share * math.log(share / of_before[before]) for before, _, share in pairs if share > 0)
    return max(total, 0.0)


class OfSources(Project):
    """A project on texts that several sources have labelled.

    The page shows their labels, which a model of few decisions does not replace; the model learns from decisions.
    """

    def __init__(
        self,
        folder: Path,
        learner: Learner,
        pool: Pool,
        texts: Mapping[str, SaidText],
        labels: Sequence[str],
        settings: dict[str, Any],
        inputs: Sequence[str | Path] = (),
    ) -> None:
        self.texts = texts
        every = {span.label for text in texts.values() for spans in text.decoding for span in spans}
        names = list(dict.fromkeys([*labels, *sorted(every)]))
        super().__init__(folder, learner, pool, names, settings, guess=self._guessed, inputs=inputs)
        self._order()

    def _guessed(self, item: Item) -> Decoding:
        text = self.texts.get(item.key)
        return Decoding([], []) if text is None else text.decoding

    def _order(self) -> None:
        """Choose the texts in the order of doubt."""
        doubts = {key: text.entropy for key, text in self.texts.items()}
        keys = sorted(doubts, key=lambda key: -doubts[key])
        with self._lock:
            out = self._out({item.key for item in self._in_hand.values()})
            numbers = [self.pool.number(key) for key in keys]
            self._queue = [number for number in numbers if number is not None and number not in out]

    _rank = _order

    def note(self, item: Item) -> str:
        """Return the spans of each source in a text; none if it is held out."""
        text = None if item.held_out else self.texts.get(item.key)
        return "" if text is None else text.said

    def decode(self, item: Item, pins: Pins) -> tuple[Decoding, int | None]:
        """Return the labels of sources under what the user says."""
        self._check_labels(pins)
        return self._without_model(item, pins), None
