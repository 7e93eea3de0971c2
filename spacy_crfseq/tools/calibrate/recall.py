"""The probability from which on words are put into spans, so that a wanted share of the gold spans is covered.

The wanted share is the lower end of the interval of the covered share, not the share itself: who hides names asks for
that recall of texts to come.  Bates et al. (2021), "Distribution-free, risk-controlling prediction sets", choose
thresholds by such bounds; here it is that of the bootstrap over texts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...errors import ConfigError, DataError, suggest
from ...prf import Values
from ...schemes import ANY, TagSpan
from .._pages.bootstrap import fewest_texts, interval
from .._pages.coverage import covered_share

if TYPE_CHECKING:
    from ...pipeline.doc_posterior import DocPosterior

LEAST = 1e-5
"""Thresholds are not lower: nearly all words would be in spans, and float32 does not tell such probabilities apart."""
ROUNDED_DOWN = 0.999
"""Thresholds are a little below the probability of the word that they are to include."""


def read_recalls(texts: Sequence[str]) -> dict[str, float]:
    """Return the wanted recall by label, `ANY` for all, of texts such as "0.99" and "PER=0.99".

    RAISES ConfigError: If one is no share above 0 and below 1, or a label is named twice.
    """
    wanted: dict[str, float] = {}
    for text in texts:
        label, _, number = text.rpartition("=")
        label = label or ANY
        try:
            share = float(number)
        except ValueError:
            share = math.nan
        if not 0 < share < 1:
            raise ConfigError(f"--recall {text}: give a share between 0 and 1, such as 0.99, or of a label: PER=0.99.")
        if label in wanted:
            raise ConfigError(f"--recall {text}: there is another one for {'all' if label == ANY else label}.")
        wanted[label] = share
    return wanted


def fit_cover(
    answers: DocPosterior, gold: Sequence[Sequence[TagSpan]], wanted: Mapping[str, float]
) -> dict[str, float]:
    """Return the highest thresholds of `inference.cover` by label with which the wanted shares are covered.

    answers (DocPosterior): The distribution of the texts, whose predicted labels are covered without a threshold.
    gold: Spans of each text.
    A label whose predicted spans cover enough gets 1, which adds no words.
    RAISES ConfigError: If there is no such label, or its spans cannot be covered.
    RAISES DataError: If the texts have no spans of a label, or too few.
    """
    from ...inference.cover import span_shares

    groups, words = answers.groups([*wanted]), answers.word_posterior
    tokens = np.arange(answers.doc_offsets[-1]) if answers.places is None else answers.places
    predicted = ~words.constraints.outside[answers.all_labels[tokens]]
    of_tokens = np.ones((int(answers.doc_offsets[-1]), len(wanted)))  # white space is covered
    of_tokens[tokens] = np.where(predicted[:, None], 1.0, span_shares(words, groups))
    spans = [
        (text, begin + span.start, begin + span.end, span.label)
        for text, (begin, of_text) in enumerate(zip(answers.doc_offsets.tolist(), gold, strict=False))
        for span in of_text
    ]
    thresholds, labels = {}, {name for *_, name in spans}
    for column, (label, share) in zip(of_tokens.T, wanted.items(), strict=True):
        asked = f"--recall {share:g}" if label == ANY else f"--recall {label}={share:g}"
        own = [(text, column[start:end].min()) for text, start, end, name in spans if label in (name, ANY)]
        if not own:
            of, hint = ("", "Use a larger file.") if label == ANY else (f" of {label!r}", suggest(label, labels))
            raise DataError(f"{asked}: the file has no spans{of}. {hint}")
        texts, least = (np.array(values) for values in zip(*own, strict=True))
        threshold = _highest(texts, least, share, len(gold), asked)
        thresholds[label] = float(f"{threshold:.4g}") if threshold < ROUNDED_DOWN else 1.0
    return thresholds


def _highest(texts: Values, least: Values, share: float, n_texts: int, asked: str) -> float:
    """Return the highest threshold with which the lower end of the interval reaches a share.

    texts, least [S]: The text of each span, and the threshold with which it is covered.
    asked (str): The option, for the error.
    RAISES DataError: If there is none.
    """

    def low(threshold: float) -> float:
        hits = np.bincount(texts, least >= threshold, n_texts), np.bincount(texts, minlength=n_texts)
        return float(interval(np.stack(hits, 1), covered_share).low[0])

    candidates = np.unique(least * ROUNDED_DOWN)[::-1]
    candidates = candidates[candidates >= LEAST]
    if not len(candidates) or low(candidates[-1]) < share:
        raise DataError(f"{asked}: {_out_of_reach(texts, least, share, low(LEAST))}")
    first, last = 0, len(candidates) - 1  # the last one is low enough
    while first < last:
        middle = (first + last) // 2
        first, last = (first, middle) if low(candidates[middle]) >= share else (middle + 1, last)
    return float(candidates[last])


def _out_of_reach(texts: Values, least: Values, share: float, low: float) -> str:
    """Return why no threshold reaches a share, and what to do: with few texts, none would even without a mistake."""
    hits, n_with_spans = int((least >= LEAST).sum()), len(np.unique(texts))
    now = (
        f"with the lowest possible threshold, {hits:,} of {len(least):,} spans of the file are covered, and the "
        f"interval begins at {low:.4f}."
    )
    if (needed := fewest_texts(share)) > n_with_spans:
        return (
            f"{now} Even with all of them covered, it would take {needed:,} texts with such spans; the file has "
            f"{n_with_spans:,}. Use a larger file, or ask for less."
        )
    return f"{now} Ask for less, use a larger file, or train with more texts."
