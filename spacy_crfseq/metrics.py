"""Scores of label sequences, with the names and arguments of ``sklearn_crfsuite.metrics``.

The functions whose names begin with ``flat_`` are those of scikit-learn on the labels of all sequences, one after
another; scikit-learn is imported when one of them is called.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from .errors import DataError
from .prf import rates

Labels: TypeAlias = Iterable[Sequence[str]]


def flat_accuracy_score(y_true: Labels, y_pred: Labels) -> float:
    """Return the share of tokens whose label is correct."""
    return float(_flat("accuracy_score", y_true, y_pred))


def flat_precision_score(y_true: Labels, y_pred: Labels, **kwargs: Any) -> Any:
    """Return the precision of the labels of tokens; further arguments are those of ``sklearn.metrics``."""
    return _flat("precision_score", y_true, y_pred, **kwargs)


def flat_recall_score(y_true: Labels, y_pred: Labels, **kwargs: Any) -> Any:
    """Return the recall of the labels of tokens; further arguments are those of ``sklearn.metrics``."""
    return _flat("recall_score", y_true, y_pred, **kwargs)


def flat_f1_score(y_true: Labels, y_pred: Labels, **kwargs: Any) -> Any:
    """Return the F1 score of the labels of tokens; further arguments are those of ``sklearn.metrics``."""
    return _flat("f1_score", y_true, y_pred, **kwargs)


def flat_fbeta_score(y_true: Labels, y_pred: Labels, beta: float, **kwargs: Any) -> Any:
    """Return the F-beta score of the labels of tokens; further arguments are those of ``sklearn.metrics``."""
    return _flat("fbeta_score", y_true, y_pred, beta=beta, **kwargs)


def flat_classification_report(
    y_true: Labels, y_pred: Labels, labels: Sequence[str] | None = None, **kwargs: Any
) -> Any:
    """Return a table of precision, recall and F1 by label; further arguments are those of ``sklearn.metrics``."""
    return _flat("classification_report", y_true, y_pred, labels=labels, **kwargs)


def sequence_accuracy_score(y_true: Labels, y_pred: Labels) -> float:
    """Return the share of sequences all of whose labels are correct, 0 if there are none.

    RAISES DataError: If the numbers of sequences differ.
    """
    matches = [list(gold) == list(predicted) for gold, predicted in _pairs(y_true, y_pred)]
    return sum(matches) / len(matches) if matches else 0.0


def _flat(name: str, y_true: Labels, y_pred: Labels, **kwargs: Any) -> Any:
    from sklearn import metrics

    gold, predicted = ([*chain.from_iterable(side)] for side in zip(*_pairs(y_true, y_pred), strict=True))
    return getattr(metrics, name)(gold, predicted, **kwargs)


def _pairs(y_true: Labels, y_pred: Labels) -> list[tuple[Sequence[str], Sequence[str]]]:
    gold, predicted = list(y_true), list(y_pred)
    if len(gold) != len(predicted):
        raise DataError(f"y_true has {len(gold)} sequences, but y_pred has {len(predicted)}.")
    return list(zip(gold, predicted, strict=True))


class LabelScore(NamedTuple):
    """Numbers of correct, predicted and gold tokens of a label, and its rates as in a log of CRFsuite, 0 for none."""

    match: int
    model: int
    ref: int
    precision: float
    recall: float
    f1: float


def log_scores(gold: Labels, predicted: Labels, labels: Sequence[str]) -> dict[str, Any]:
    """Return the scores that CRFsuite logs after an iteration, by their names in the log of python-crfsuite.

    Macro averages are over all labels; sequences without tokens are not counted.
    """
    gold, predicted = list(gold), list(predicted)
    pairs = [*zip(chain.from_iterable(gold), chain.from_iterable(predicted), strict=True)]
    columns = Counter(a for a, b in pairs if a == b), Counter(b for _, b in pairs), Counter(a for a, _ in pairs)
    counts = np.array([[column[label] for column in columns] for label in labels])
    whole = [list(a) == list(b) for a, b in zip(gold, predicted, strict=True) if len(a)]
    table = np.nan_to_num(rates(counts))
    scores = {
        label: LabelScore(*row, *numbers)
        for label, row, numbers in zip(labels, counts.tolist(), table.tolist(), strict=True)
    }
    accuracies = {
        "item": Fraction(columns[0].total(), max(1, len(pairs))),
        "instance": Fraction(sum(whole), max(1, len(whole))),
    }
    averages = zip(("avg_precision", "avg_recall", "avg_f1"), table.mean(0).tolist(), strict=True)
    exact = {f"{name}_accuracy": share for name, share in accuracies.items()}
    return {
        "scores": scores, **dict(averages), **exact, **{f"{name}_float": float(share) for name, share in exact.items()}
    }  # fmt: skip
