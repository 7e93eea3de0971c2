"""The margin-rescaled hinge loss: ``sum_n max_y [score(y, x_n) + cost(y, y_n)] - score(y_n, x_n)``, the cost a sum over
tokens.

Taskar, Guestrin & Koller (2004), "Max-margin Markov networks"; Tsochantaridis et al. (2005), eq. 5.  With L2 it is
the structured support vector machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .. import kernels
from ..errors import ConfigError
from ..types import Batch, LossProperty, Scores
from ._costs import Costs


@dataclass(frozen=True)
class Hinge(Costs):
    """Loss that requires a margin proportional to the errors (registered as ``spacy_crfseq.Hinge.v1``).

    cost (float): Margin for each wrong label.
    false_negatives, false_positives (dict | None): Margins by label, as of `SoftmaxMargin`.
    If gold labels are missing, no label is an error there.  The best labelling that agrees with the known labels
    replaces the gold labels (a latent structured SVM, Yu & Joachims 2009).
    RAISES ConfigError: If the cost is not positive, or another is negative or not finite.
    """

    provides: ClassVar[frozenset[LossProperty]] = frozenset({"minibatches", "best_path", "margin"})

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.cost > 0:
            raise ConfigError(f"Hinge: cost must be positive, but {self.cost} was given; without costs use Perceptron.")

    def __call__(self, scores: Scores, batch: Batch, grad: Scores) -> float:
        scores, batch = kernels.borders.take_batch(scores, batch, grad)
        raised, cost = (self.raised(scores, batch), 0.0) if self.has_names else (scores, self.cost)
        return float(kernels.paths.max_loss(raised, *batch[:3], cost, grad))
