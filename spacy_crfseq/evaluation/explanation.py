"""Explanations of predictions as values; `pipeline.explanation` makes them and `pages.explain` shows them."""

from __future__ import annotations

from math import inf
from typing import Any, NamedTuple


class Contribution(NamedTuple):
    """An addend of the score of a labelling.

    token (int): The token whose score it is a part of: the one explained, or one whose label would change with it.
    kind (str): "unigram" or "bigram" for a feature, "transition", "start", "end" or "added".
    name (str): The feature, such as ``LOWER[-1]=the``, or the labels of a transition.
    weight, rival_weight (float): Its value in the predicted and in the rival labelling; 0 without a rival.
    """

    token: int
    kind: str
    name: str
    weight: float
    rival_weight: float

    @property
    def difference(self) -> float:
        """Its contribution to the margin."""
        return self.weight - self.rival_weight


class TokenExplanation(NamedTuple):
    """The explanation of a token's label.

    token (int): Its number in the Doc.
    score (float): Its part of the labelling's score: the weights of all contributions of this token.
    rival (str | None): The label that it is compared with; None where no other is possible.
    margin (float): The sum of all differences, infinite where the rival is impossible or there is none.
    impossible (str): Why the rival is impossible, empty where it is not.
    changes (dict[int, str]): Labels that other tokens would have with the rival, by index.
    contributions (list[Contribution]): The largest differences first.
    unknown (list[str]): Features of the token that have no weight in the model.
    """

    token: int
    text: str
    label: str
    probability: float
    score: float
    rival: str | None
    rival_probability: float
    margin: float
    impossible: str
    changes: dict[int, str]
    contributions: list[Contribution]
    unknown: list[str]


class Explanation(NamedTuple):
    """The explanation of a Doc's labels.

    labels, probabilities (list): Of all tokens, as predicted.
    score, probability (float): Of the labelling as a whole; its score is the sum of its tokens' scores.
    tokens (list[TokenExplanation]): Those to be explained.
    """

    component: str
    words: list[str]
    labels: list[str]
    probabilities: list[float]
    score: float
    probability: float
    tokens: list[TokenExplanation]

    def to_json(self) -> dict[str, Any]:
        """Return lists and dictionaries for JSON; an infinite margin is None."""
        return {
            **self._asdict(),
            "tokens": [
                {
                    **one._asdict(),
                    "margin": None if one.margin == inf else one.margin,
                    "contributions": [{**c._asdict(), "difference": c.difference} for c in one.contributions],
                }
                for one in self.tokens
            ],
        }
