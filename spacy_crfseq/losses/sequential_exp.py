"""Sequential exponential loss: ``sum_n (P(y_n | x_n)^-1 - 1)``, what boosting of whole sequences minimises.

F2 of Altun, Johnson & Hofmann (2003), eq. 2; Altun, Hofmann & Johnson (2002), eq. 8.
"""

from __future__ import annotations

from dataclasses import dataclass

from ._sums import Sequential


@dataclass(frozen=True)
class SequentialExp(Sequential):
    """Exponential loss of whole sequences (registered as ``spacy_crfseq.SequentialExp.v1``).

    P^-1 of a long sentence is larger than any number before a model is trained.  So it is continued by its tangent:
    with u = -log P, the loss of a sequence is phi(u) = e^u - 1 for u <= cap, and e^cap (1 + u - cap) - 1 beyond.
    Being increasing, convex and differentiable, phi keeps the whole as convex in the weights as the log-loss is.  If no
    sequence has a u above the cap at the optimum, it is exactly that of the exponential loss.  Sequences above the cap
    weigh e^cap each: early iterations are those of e^cap times the log-loss, a warm start.

    Where gold labels are missing or candidate sets, P is the probability of what is known, as in `SequentialLog`.

    cap (float): In nats, from 0 (the log-loss) to 30.
    RAISES ConfigError: On a cap out of range.
    """

    cap: float = 1.0
