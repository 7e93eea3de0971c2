"""Sequential exponential loss: ``sum_n (P(y_n | x_n)^-1 - 1)``, the loss that boosting of whole sequences minimises.

F2 of Altun, Johnson & Hofmann (2003), eq. 2; Altun, Hofmann & Johnson (2002), eq. 8.
"""

from __future__ import annotations

from dataclasses import dataclass

from ._sums import Sequential


@dataclass(frozen=True)
class SequentialExp(Sequential):
    """Exponential loss of whole sequences (registered as ``spacy_crfseq.SequentialExp.v1``).

    In an untrained model, P^-1 of a long sentence exceeds the number range.  The loss therefore continues as its
    tangent: with u = -log P, the loss of a sequence is phi(u) = e^u - 1 for u <= cap, and e^cap (1 + u - cap) - 1
    beyond.  The function phi is increasing, convex and differentiable, so the loss is convex in the weights like the
    log-loss.  If no sequence has a u above the cap at the optimum, the optimum is exactly that of the exponential loss.
    Sequences above the cap have the weight e^cap each: early iterations minimise e^cap times the log-loss, a warm
    start.

    If gold labels are missing or candidate sets, P is the probability of the known labels, as in `SequentialLog`.

    cap (float): In nats, from 0 (the log-loss) to 30.
    RAISES ConfigError: On a cap out of range.
    """

    cap: float = 1.0
