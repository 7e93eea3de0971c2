"""Explanations of the weights of `spacy_crfseq.CRF` by eli5: importing this module is all it takes.

``eli5.explain_weights`` and ``eli5.show_weights`` then show an estimator as they show one of sklearn-crfsuite, which
need not be installed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from eli5.base import Explanation, FeatureWeight, FeatureWeights, TargetExplanation, TransitionFeatureWeights
from eli5.explain import explain_weights
from eli5.utils import get_target_display_names
from numpy.typing import NDArray

from .estimator import CRF
from .schemes import is_tag, split_tag

Top = int | tuple[int | None, int | None] | None
"""The number of weights, or of positive and of negative ones; None for all."""


@explain_weights.register(CRF)
def explain_crf_weights(
    crf: CRF,
    top: Top = 20,
    target_names: Any = None,
    targets: Sequence[str] | None = None,
    feature_re: str | None = None,
    feature_filter: Callable[[str], bool] | None = None,
) -> Explanation:
    """Return the largest weights of each label, and those of transitions; arguments are those of eli5.

    RAISES NotFittedError: Before `CRF.fit`.
    """
    model = crf.info()
    names, number = np.array([*model.attributes], object), {label: i for i, label in enumerate(model.labels)}
    weights, places = np.zeros((len(number), len(names))), {name: i for i, name in enumerate(names)}
    for (name, label), weight in model.state_features.items():
        weights[number[label], places[name]] = weight
    steps = np.zeros((len(number), len(number)))
    for (before, after), weight in model.transitions.items():
        steps[number[before], number[after]] = weight
    kept = [
        (feature_re is None or re.search(feature_re, name) is not None)
        and (feature_filter is None or feature_filter(name))
        for name in names
    ]
    names, weights = names[kept], weights[:, kept]
    if targets is None:  # "O" first, then tags of a type together
        targets = sorted(number, key=lambda label: (split_tag(label)[1] if is_tag(label) else "", label))
    shown = get_target_display_names(list(number), target_names, targets)
    order = [label for label, _ in shown]
    return Explanation(
        estimator=repr(crf),
        method="CRF",
        targets=[TargetExplanation(name, _largest(names, weights[label], top)) for label, name in shown],
        transition_features=TransitionFeatureWeights([name for _, name in shown], steps[np.ix_(order, order)]),
    )


def _largest(names: NDArray[Any], weights: NDArray[np.float64], top: Top) -> FeatureWeights:
    """Return the largest weights of a label, and the numbers of those left out."""
    order = np.argsort(-np.abs(weights), kind="stable")
    order = order[weights[order] != 0]
    if not isinstance(top, list | tuple):
        order = order[:top]
    sides = [order[weights[order] > 0], order[weights[order] < 0]]
    if isinstance(top, list | tuple):
        sides = [side[:most] for side, most in zip(sides, top, strict=True)]
    positive, negative = ([FeatureWeight(names[i], float(weights[i])) for i in side] for side in sides)
    left = int((weights > 0).sum()) - len(positive), int((weights < 0).sum()) - len(negative)
    return FeatureWeights(positive, negative, *left)
