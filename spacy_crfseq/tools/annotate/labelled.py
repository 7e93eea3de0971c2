"""Texts that several sources have labelled: the page begins with what `aggregate` makes of them, doubtful texts first.

The probabilities are at first those that are noted on the Docs.  After a decision, they are those of a label model that
learns from the decisions and from the sources.  The posterior of a label model is a Markov chain, so that pairs of
neighbouring tags give the exact probability of any span.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...errors import DataError
from ...pipeline.doc_posterior import Scored
from ...pipeline.soft_labels import SoftLabels, read_soft_labels, soft_labels
from ...pipeline.source_votes import SCHEME, SourcedTexts, sourced_texts, spans_of_sources
from ...pipeline.texts import load_docs
from ...schemes import TagSpan, decode_lenient, encode
from ...types import MISSING
from .._pages.label_errors import shown
from .decoding import LEAST, Decoding
from .journal import Pins
from .learning import Learner, missing_tokens
from .pool import Pool, hash_of, text_of
from .project import Item, Project


class DoubtfulText(NamedTuple):
    """The labels of a text by sources.

    number (int): That of the text in the file.
    words (tuple[str, ...]): Its tokens.
    said (Mapping[str, Sequence[TagSpan]]): What each source has found, by its name.
    decoding (Decoding): The best spans, and those that a source has found besides, with their probabilities.
    entropy (float): Of the labellings, in nats.
    """

    number: int
    words: tuple[str, ...]
    said: Mapping[str, Sequence[TagSpan]]
    decoding: Decoding
    entropy: float


class DoubtfulTexts(NamedTuple):
    """The texts of an output of `aggregate` by the keys of a pool, and the votes of their sources, None without any."""

    texts: Mapping[str, DoubtfulText]
    votes: SourcedTexts | None


def read_labelled(path: Path, learner: Learner) -> DoubtfulTexts:
    """Return the texts of an output of `aggregate` with the labels by sources.

    RAISES CrfError: If the file cannot be read, or no text has labels of sources.
    """
    texts, docs = dict[str, DoubtfulText](), list(load_docs(path, learner.nlp.vocab))
    for number, doc in enumerate(docs):
        text = text_of(doc)
        key = hash_of((text.words, None if text.spaces is None else bytes(text.spaces)))
        said, soft = spans_of_sources(doc), read_soft_labels(doc, learner.name)
        best = [TagSpan(span.start, span.end, span.label_) for span in doc.ents]
        decoding = _decoding(said, best, soft)
        texts[f"{key:016x}"] = DoubtfulText(number, text.words, said, decoding, entropy(soft))
    if not any(text.said for text in texts.values()):
        raise DataError(f"{path}: no doc has spans of sources. Give an output of 'aggregate' (.spacy).")
    return DoubtfulTexts(texts, sourced_texts(docs))


def _decoding(said: Mapping[str, Sequence[TagSpan]], best: Sequence[TagSpan], soft: SoftLabels) -> Decoding:
    """Return the best spans of a text, and the others that a source has found, the likeliest first."""
    every = {*best, *(span for spans in said.values() for span in spans)}
    there = {span: probability(span, soft, certain=span in best) for span in every}
    spans, offers = (
        [Scored(*span, there[span]) for span in sorted(there) if (span in best) == of_best] for of_best in (True, False)
    )
    likely = sorted((offer for offer in offers if offer.probability >= LEAST), key=lambda offer: -offer.probability)
    return Decoding(spans, likely)


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

    The page shows their labels, which a model of few decisions does not replace; the model learns from decisions.  So
    does a label model of the sources, which decides anew what is shown, and which texts are the most doubtful.  Labels
    that no source has do not matter to it.
    """

    def __init__(
        self,
        folder: Path,
        learner: Learner,
        pool: Pool,
        labelled: DoubtfulTexts,
        labels: Sequence[str],
        settings: dict[str, Any],
        inputs: Sequence[str | Path] = (),
    ) -> None:
        self.texts, self._votes = labelled.texts, labelled.votes
        self._label_model: Any = None
        self._doubts = {key: text.entropy for key, text in self.texts.items()}
        every = {span.label for text in self.texts.values() for spans in text.decoding for span in spans}
        names = list(dict.fromkeys([*labels, *sorted(every)]))
        super().__init__(folder, learner, pool, names, settings, guess=self._guessed, inputs=inputs)
        self._order()

    def _guessed(self, item: Item) -> Decoding:
        text, model = self.texts.get(item.key), self._label_model
        if text is None or self._votes is None or model is None:
            return Decoding([], []) if text is None else text.decoding
        ((_, chain),) = self._votes.chains(model, texts=range(text.number, text.number + 1))
        soft = soft_labels(self._votes.tags, chain.marginals(), chain.pair_marginals())
        best = decode_lenient([self._votes.tags[tag] for tag in chain.viterbi()])
        return _decoding(text.said, best, soft)

    def _learn(self) -> None:
        with self._lock:
            decided = {decision.key: decision.pins for decision in self.state.learned}
        if self._votes is not None and (decided or self._label_model is not None):
            self._learn_labels(self._votes, decided)
        super()._learn()

    def _learn_labels(self, votes: SourcedTexts, decided: Mapping[str, Pins]) -> None:
        """Learn the label model, from where it is, with the texts that are decided, and what is in doubt now."""
        offsets = votes.votes.offsets
        gold = np.full(offsets[-1], MISSING, np.int32)
        for key, pins in decided.items():
            text = self.texts.get(key)
            if text is not None:
                tags = votes.tag_numbers(pins.spans, len(text.words))
                tags[sorted(missing_tokens(pins))] = MISSING
                gold[offsets[text.number] : offsets[text.number + 1]] = tags
        model = votes.learn(gold, self._label_model)
        entropies = np.concatenate([chain.entropy() for _, chain in votes.chains(model, gold)])
        doubts = {key: float(entropies[text.number]) for key, text in self.texts.items()}
        with self._lock:
            self._label_model, self._doubts = model, doubts

    def _order(self) -> None:
        """Choose the texts in the order of doubt."""
        with self._lock:
            out = self._out({item.key for item in self._in_hand.values()})
            keys = sorted(self._doubts, key=lambda key: -self._doubts[key])
            numbers = [self.pool.number(key) for key in keys]
            self._queue = [number for number in numbers if number is not None and number not in out]

    _rank = _order

    def note(self, item: Item) -> str:
        """Return the spans of each source in a text; none if it is held out."""
        text = None if item.held_out else self.texts.get(item.key)
        if text is None:
            return ""
        return "; ".join(f"{name}: {shown(sorted(spans), text.words)}" for name, spans in text.said.items())

    def found_by(self, item: Item) -> list[tuple[int, int, str, str]]:
        """Return the spans of sources with the names of these; none if the text is held out."""
        text, names = None if item.held_out else self.texts.get(item.key), dict[TagSpan, list[str]]()
        for name, spans in ({} if text is None else text.said).items():
            for span in spans:
                names.setdefault(span, []).append(name)
        return [(*span, ", ".join(of_span)) for span, of_span in sorted(names.items())]

    def decode(self, item: Item, pins: Pins) -> tuple[Decoding, int | None]:
        """Return the labels of sources under what the user says."""
        self._check_labels(pins)
        return self._without_model(item, pins), None
