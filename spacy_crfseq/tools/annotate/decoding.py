"""A text under what the user has said so far: the best spans, and others that may be there, with exact probabilities.

Also what texts are worth: the entropy of their labellings, and how many corrections the best one is likely to need.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Span

from ...pipeline.doc_posterior import DocPosterior, Scored
from ...schemes import TagSpan, split_tag
from .journal import Pins

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from ...pipeline.component import CRFComponent

Values = NDArray[np.float64]
LEAST = 0.02
"""Less probable spans are not offered."""
ROUNDS = 8
"""Passes over a text, each of which computes the probabilities of spans that do not overlap."""
LONG = 2000
"""Tokens of a text that gets a quarter of these passes."""


class Decoding(NamedTuple):
    """The best spans of a text (those of a tagger are tokens or runs of them), and other spans that may be there."""

    spans: list[Scored]
    offers: list[Scored]


def decode(pipe: CRFComponent, doc: Doc, pins: Pins, *, runs: bool = False) -> Decoding:
    """Return the most probable spans given what the user has said.

    runs (bool): Join neighbouring tokens with the same tag.
    RAISES DataError: If that is impossible, such as a span across sentences.
    """
    allowed: dict[int, list[str]] = {token: list(labels) for token, labels in pins.choices.items()}
    spans = pipe.annotation.scheme is not None
    if spans:
        allowed |= {token: ["O"] for token in pins.outside}
        for start, end, label in pins.wrong:
            tag = pipe.annotation.tags_of_span(end - start, label)[0]
            allowed.setdefault(start, list(pipe.tags))
            allowed[start] = [other for other in allowed[start] if other != tag] or ["O"]
    given = [Span(doc, start, end, label) for start, end, label in pins.spans]
    answers = pipe.posterior([doc], spans=given, allowed=allowed)
    if spans:
        best = answers.spans()[0]
        rounds = ROUNDS if len(doc) < LONG else ROUNDS // 4
        others = probabilities(pipe, answers, candidates(answers), rounds)
    else:
        best, others = runs_of_tags(answers) if runs else answers.spans()[0], _other_tags(answers)
    there = {(span.start, span.end, span.label) for span in (*best, *(Scored(*span, 0.0) for span in pins.wrong))}
    return Decoding(best, [offer for offer in others if offer.probability >= LEAST and offer[:3] not in there])


def candidates(answers: DocPosterior) -> list[TagSpan]:
    """Return spans of a text that may be there: each tag in them is likely enough."""
    marginals, spans = answers.marginals()[0], list[TagSpan]()
    number = {tag: i for i, tag in enumerate(answers.tags)}
    parts = {split_tag(tag): i for tag, i in number.items()}
    begins = [(i, *part) for part, i in parts.items() if part[0] in ("B", "U")]
    for i, prefix, label in begins:
        inside, last = parts.get(("I", label)), parts.get(("L", label))
        for start in np.flatnonzero(marginals[:, i] >= LEAST).tolist():
            if prefix == "U" or last is None:
                spans.append(TagSpan(start, start + 1, label))
            end = start + 1
            while prefix == "B" and end < len(marginals):
                if last is not None and marginals[end, last] >= LEAST:
                    spans.append(TagSpan(start, end + 1, label))
                if inside is None or marginals[end, inside] < LEAST:
                    break
                if last is None:
                    spans.append(TagSpan(start, end + 1, label))
                end += 1
    return spans


def probabilities(pipe: CRFComponent, answers: DocPosterior, spans: Sequence[TagSpan], rounds: int) -> list[Scored]:
    """Return spans of a text with their exact probabilities; those beyond so many rounds are left out."""
    left, scored = sorted(spans), list[Scored]()
    number = {tag: i for i, tag in enumerate(answers.tags)}
    for _ in range(rounds):
        chosen, rest, labels = list[TagSpan](), list[TagSpan](), np.zeros(int(answers.offsets[-1]), np.int32)
        for span in left:
            if chosen and span.start < chosen[-1].end:
                rest.append(span)
            else:
                chosen.append(span)
                tags = pipe.annotation.tags_of_span(span.end - span.start, span.label)
                labels[span.start : span.end] = [number[tag] for tag in tags]
        if not chosen:
            break
        places = [np.array(values, np.int64) for values in zip(*((s.start, s.end) for s in chosen), strict=True)]
        values = answers.distribution.span_probabilities(labels, places[0], places[1]).tolist()
        scored += [Scored(*span, value) for span, value in zip(chosen, values, strict=True)]
        left = rest
    return scored


def runs_of_tags(answers: DocPosterior) -> list[Scored]:
    """Return the neighbouring tokens with the same tag of a Doc, and their probabilities."""
    labels = answers.all_labels
    bounds = [*(np.flatnonzero(labels[1:] != labels[:-1]) + 1), len(labels)]
    starts, ends = np.array([0, *bounds[:-1]], np.int64), np.array(bounds, np.int64)
    values = answers.distribution.span_probabilities(labels, starts, ends).tolist()
    places = zip(starts.tolist(), ends.tolist(), values, strict=True)
    return [Scored(start, end, answers.tags[labels[start]], value) for start, end, value in places]


def _other_tags(answers: DocPosterior) -> list[Scored]:
    marginals, words = answers.word_marginals()[0], answers.spans()[0]
    places = [(words[n], i, float(marginals[n, i])) for n, i in np.argwhere(marginals >= LEAST).tolist()]
    return [Scored(*word[:2], answers.tags[i], p) for word, i, p in places if answers.tags[i] != word.label]


class Worth(NamedTuple):
    """The use and the cost of annotating some texts, [N] each.

    entropy: Of the labelling, in nats.
    tokens, spans: Their numbers; those of predicted spans.
    wrong, missed: Expected numbers of predicted spans that are wrong, and of spans that are missing.
    """

    entropy: Values
    tokens: Values
    spans: Values
    wrong: Values
    missed: Values


def worth(pipe: CRFComponent, docs: Sequence[Doc]) -> Worth:
    """Return the worth of texts: how much they would teach and cost."""
    answers = pipe.posterior(docs, preset=True)
    sizes = np.diff(answers.doc_offsets)
    home, spans, p = np.repeat(np.arange(len(docs)), sizes), answers.all_spans, answers.all_probabilities
    of_span = home[spans.start]
    right = np.bincount(of_span, p, len(docs))
    shown = np.bincount(of_span, minlength=len(docs)).astype(np.float64)
    missed = np.zeros(len(docs))
    if pipe.annotation.scheme is not None:
        opening = np.array([split_tag(tag)[0] in ("B", "U") for tag in answers.tags])
        there = np.bincount(home, answers.distribution.marginals()[:, opening].sum(1), len(docs))
        # a wrong span often stands in the place of a missing one
        missed = np.maximum(np.maximum(there - right, 0) - (shown - right), 0)
    return Worth(answers.entropies(), sizes.astype(np.float64), shown, shown - right, missed)
