"""The calibration of a component: a temperature for all that it says, and a curve for its spans, fitted to a corpus."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..inference.posterior import Posterior
from ..reliability import (
    FEW,
    LOOSE,
    STIFF,
    Curve,
    PerfectError,
    Values,
    calibration_error,
    fit_curves,
    fit_temperature,
    folds_of,
    log_losses,
    perfect_error,
    reliability,
    tempered,
)
from ..schemes import ANY, TagTable, correct_spans, spans_of
from ..types import Bools, Calibrated, CorrectingDecoder, Decoder, Ints, Offsets

WRONG = 10
"""Fewer mistakes do not show how often a confident prediction is wrong."""


class CalibrationFit(NamedTuple):
    """The calibration fitted to S predictions of a component, which is none where it did not help in other texts.

    temperature (float): Divides the scores; 1 changes nothing.
    curves (Mapping): The curve for spans of all types, under "*", if there is one.
    total, wrong (int): Number of the predictions, and of those that are wrong.
    unit (str): "spans" or "tokens".
    before, after (float): Expected calibration error without what was fitted, and with what was fitted to other
        texts; nan where there are too few predictions.
    perfect (PerfectError | None): The error that perfect probabilities would show; None where there are too few.
    corpus (str): The texts that it was fitted to, as users know them.
    """

    temperature: float
    curves: Mapping[str, Curve]
    total: int
    wrong: int
    unit: str
    before: float = float("nan")
    after: float = float("nan")
    perfect: PerfectError | None = None
    corpus: str = "dev corpus"

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the component that are fitted to its weights."""
        return {"temperature": self.temperature, "calibration": dict(self.curves)}

    def __str__(self) -> str:
        if self.perfect is None:
            return f"probabilities are not calibrated ({self.corpus}): {too_few(self.total, self.wrong, self.unit)}"
        what = f"temperature {self.temperature:.2f}{' and a curve' if self.curves else ''}"
        perfect = f"perfect: {self.perfect.low:.3f} to {self.perfect.high:.3f}"
        return f"{what}, ECE {self.before:.3f} -> {self.after:.3f} ({self.corpus}, cross-fitted; {perfect})"


class JudgedPart(NamedTuple):
    """Texts that are new to the model that labels them.

    words (Posterior): The distribution of the labels of their words.
    gold (Ints): [T] negative where unknown.
    text (Ints): [T] the number of the text of each word, from 0.
    """

    words: Posterior
    gold: Ints
    text: Ints


def fit_to_parts(parts: Sequence[JudgedPart], decoder: Decoder, table: TagTable | None) -> CalibrationFit:
    """Return the calibration fitted to the predictions of a decoder in some texts.

    table (TagTable | None): The labels that mark spans; None where each label is a prediction.
    """
    functions: list[Callable[[float], Values]] = []
    rights, texts, n_texts = list[Bools](), list[Ints](), 0
    for part in parts:
        probabilities_at, right, at = _judged(part, decoder, table)
        functions.append(probabilities_at)
        rights.append(right)
        texts.append(part.text[at] + n_texts)
        n_texts += int(part.text.max(initial=-1)) + 1

    def of_all(temperature: float) -> Values:
        return np.concatenate([of_part(temperature) for of_part in functions])

    return fit_calibration(of_all, np.concatenate(rights), np.concatenate(texts), n_texts, plain=table is None)


def _judged(
    part: JudgedPart, decoder: Decoder, table: TagTable | None
) -> tuple[Callable[[float], Values], Bools, Offsets]:
    """Return the probabilities of predictions at a temperature, which are right, and the words where they begin."""
    words, gold, _ = part
    labels, is_known = words.decode(decoder), gold >= 0
    if table is None:

        def of_tags(temperature: float) -> Values:
            return words._replace(temperature=temperature).label_probabilities(labels)[is_known]

        return of_tags, (labels == gold)[is_known], np.flatnonzero(is_known)
    spans = spans_of(labels, words.offsets, table)
    right = correct_spans(spans, spans_of(gold, words.offsets, table), len(gold))
    n_unknown = np.append(0, np.cumsum(~is_known))
    judged = n_unknown[spans.start] == n_unknown[spans.end]
    starts, ends = spans.start[judged], spans.end[judged]

    def of_spans(temperature: float) -> Values:
        return span_probabilities(words, decoder, temperature, labels, starts, ends)

    return of_spans, right[judged], starts


def fit_calibration(
    probabilities_at: Callable[[float], Values], correct: Bools, text: ArrayLike, n_texts: int, *, plain: bool
) -> CalibrationFit:
    """Return the calibration of S predictions in N texts; what was fitted to most of the texts must help in the rest.

    probabilities_at (Callable): Maps a temperature to the probabilities [S].
    correct, text: [S] whether each is correct, and the number of its text.
    plain (bool): Whether predictions are the tags of tokens, which get no curve because they sum to one.
    """
    total, wrong, unit = len(correct), int((~correct).sum()), "tokens" if plain else "spans"
    if too_few(total, wrong, unit):
        return CalibrationFit(1.0, {}, total, wrong, unit)
    fold, before = folds_of(text, n_texts), np.asarray(probabilities_at(1.0), np.float64)
    temperature, held_out, value = fit_temperature(probabilities_at, correct, fold), before, 1.0
    if log_losses(temperature.held_out, correct).sum() < log_losses(before, correct).sum():
        value, held_out = round(temperature.value, 4), temperature.held_out
    curves: Mapping[str, Curve] = {}
    if not plain:
        groups, kinds = np.full(total, ANY), (STIFF, LOOSE)
        fitted, held_out = fit_curves(probabilities_at(value), correct, fold, groups, held_out, kinds)
        curves = fitted.curves
    first, last = (reliability(p, correct) for p in (before, held_out))
    errors = calibration_error(first), calibration_error(last)
    return CalibrationFit(value, curves, total, wrong, unit, *errors, perfect_error(last))


def too_few(total: int, wrong: int, unit: str) -> str:
    """Return why a calibration cannot be fitted to a number of predictions, empty if it can.

    wrong (int): How many of them are wrong.
    unit (str): "spans" or "tokens".
    """
    needs = [*([f"{FEW} predicted {unit}"] if total < FEW else []), *([f"{WRONG} mistakes"] if wrong < WRONG else [])]
    lacking = f"calibration needs {' and '.join(needs)}; there are {total:,} predicted {unit}, {wrong:,} of them wrong"
    return lacking if needs else ""


def span_probabilities(
    words: Posterior,
    decoder: Decoder,
    temperature: float,
    labels: Ints,
    starts: Offsets,
    ends: Offsets,
    by_type: Calibrated | None = None,
) -> NDArray[np.float64]:
    """Return the probabilities of spans [S], corrected if the decoder has learned to, at a temperature.

    A temperature divides the log-odds of corrected probabilities.
    labels [T], starts, ends [S]: As of `Posterior.span_probabilities`.
    by_type (Calibrated | None): Applies curves; None for none.
    """

    def by_curve(probabilities: NDArray[np.float64], first_labels: Ints) -> NDArray[np.float64]:
        return probabilities if by_type is None else by_type(probabilities, first_labels)

    def by_both(probabilities: NDArray[np.float64], first_labels: Ints) -> NDArray[np.float64]:
        return by_curve(tempered(probabilities, temperature), first_labels)

    if isinstance(decoder, CorrectingDecoder) and decoder.learned:
        return decoder.span_probabilities(words._replace(temperature=1.0), labels, starts, ends, by_both)
    words = words._replace(temperature=temperature)
    return by_curve(words.span_probabilities(labels, starts, ends), labels[starts])
