"""The calibration of a component: a temperature for all that it says, and a curve for its spans, fitted to a corpus."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..inference.posterior import Posterior
from ..reliability import (
    FEW,
    Curve,
    Values,
    calibration_error,
    fit_curves,
    fit_temperature,
    folds_of,
    log_losses,
    reliability,
    tempered,
)
from ..schemes import ANY
from ..types import Bools, Calibrated, Decoder, Ints, LearnedDecoder, Offsets

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
    """

    temperature: float
    curves: Mapping[str, Curve]
    total: int
    wrong: int
    unit: str
    before: float = float("nan")
    after: float = float("nan")

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the component that are fitted to its weights."""
        return {"temperature": self.temperature, "calibration": dict(self.curves)}

    def __str__(self) -> str:
        if self.after != self.after:
            counts = f"{self.total:,} {self.unit}, {self.wrong:,} of them wrong"
            return f"probabilities are not calibrated: too few predictions on the dev corpus ({counts})"
        what = f"temperature {self.temperature:.2f}{' and a curve' if self.curves else ''}"
        return f"{what}, ECE {self.before:.3f} -> {self.after:.3f} (dev corpus, cross-fitted)"


def fit_calibration(
    probabilities_at: Callable[[float], Values], correct: Bools, text: ArrayLike, n_texts: int, *, plain: bool
) -> CalibrationFit:
    """Return the calibration of S predictions in N texts; what was fitted to most of the texts must help in the rest.

    probabilities_at (Callable): Maps a temperature to the probabilities [S].
    correct, text: [S] whether each is correct, and the number of its text.
    plain (bool): Whether predictions are the tags of tokens, which get no curve because they sum to one.
    """
    total, wrong, unit = len(correct), int((~correct).sum()), "tokens" if plain else "spans"
    if total < FEW or wrong < WRONG:
        return CalibrationFit(1.0, {}, total, wrong, unit)
    fold, before = folds_of(text, n_texts), np.asarray(probabilities_at(1.0), np.float64)
    temperature, held_out, value = fit_temperature(probabilities_at, correct, fold), before, 1.0
    if log_losses(temperature.held_out, correct).sum() < log_losses(before, correct).sum():
        value, held_out = round(temperature.value, 4), temperature.held_out
    curves: Mapping[str, Curve] = {}
    if not plain:
        fitted, held_out = fit_curves(probabilities_at(value), correct, fold, np.full(total, ANY), held_out)
        curves = fitted.curves
    errors = (calibration_error(reliability(p, correct)) for p in (before, held_out))
    return CalibrationFit(value, curves, total, wrong, unit, *errors)


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

    if isinstance(decoder, LearnedDecoder) and decoder.learned:
        return decoder.span_probabilities(words._replace(temperature=1.0), labels, starts, ends, by_both)
    words = words._replace(temperature=temperature)
    return by_curve(words.span_probabilities(labels, starts, ends), labels[starts])
