"""A CRF layer for PyTorch on `spacy_crfseq.Chain`: any mask works, also with holes and with a masked first token."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from spacy_crfseq import Chain


def as_array(scores: torch.Tensor) -> np.ndarray[Any, Any]:
    """Return scores as NumPy reads them, which has no bfloat16."""
    return (scores.float() if scores.dtype == torch.bfloat16 else scores).numpy(force=True)


def as_sum(value: float, scores: torch.Tensor) -> torch.Tensor:
    """Return a value as a tensor for scores: float32 or wider, where a number too large for it becomes infinite."""
    return torch.tensor(value, dtype=torch.promote_types(scores.dtype, torch.float32), device=scores.device)


def chain_of(emissions: torch.Tensor, weights: torch.Tensor, mask: torch.Tensor | None) -> Chain:
    """Return the chain of emissions [B, T, L] and of the weights of a `CRF`."""
    table = as_array(weights)
    kept = None if mask is None else mask.numpy(force=True)
    return Chain(as_array(emissions), table[:-2], table[-2], table[-1], mask=kept)


class LogProb(torch.autograd.Function):
    """The sum of the log-probabilities of labels [B, T], given emissions [B, T, L], weights [L + 2, L], mask [B, T].

    Scores of half precision, as under autocast, are read as float32, and the sum is float32: it can be a large number.
    """

    @staticmethod
    def forward(
        ctx: Any, emissions: torch.Tensor, weights: torch.Tensor, labels: torch.Tensor, mask: torch.Tensor | None
    ) -> torch.Tensor:
        """Compute value and gradient at once: forward-backward has both."""
        value, grad = chain_of(emissions, weights, mask).log_prob_and_grad(labels.numpy(force=True))
        ctx.grad = grad.emissions, np.concatenate([grad.transitions, grad.start[None], grad.end[None]])
        return as_sum(value, emissions)

    @staticmethod
    def backward(ctx: Any, factor: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """Return the gradient of the scores, times that of the sum; autograd gives it the type of the scores."""
        if torch.is_grad_enabled():
            raise RuntimeError("The CRF layer has no second derivatives: call backward without create_graph=True.")
        number = factor.item()
        return *(torch.from_numpy(number * array).to(factor.device) for array in ctx.grad), None, None


class CRF(torch.nn.Module):
    """Weights [L + 2, L] of transitions, start and end, learned together with the network that the emissions are of.

    One tensor instead of three saves a tenth of the time of a small batch.
    """

    def __init__(self, n_labels: int) -> None:
        super().__init__()
        self.weights = torch.nn.Parameter(0.1 * torch.randn(n_labels + 2, n_labels))

    @property
    def transitions(self) -> torch.Tensor:
        """The weights of steps from the label of the row to that of the column."""
        return self.weights[:-2]

    @property
    def start(self) -> torch.Tensor:
        """The weights of first labels."""
        return self.weights[-2]

    @property
    def end(self) -> torch.Tensor:
        """The weights of last labels."""
        return self.weights[-1]

    def forward(self, emissions: torch.Tensor, labels: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        """Return log P of the labels of all sequences together; its negative is the loss.

        Without a mask, all tokens count.  Under `torch.no_grad`, labels that scores forbid have minus infinity.
        """
        if not torch.is_grad_enabled():
            return as_sum(self.chain(emissions, mask).log_prob(labels.numpy(force=True)).sum(), emissions)
        value: torch.Tensor = LogProb.apply(emissions, self.weights, labels, mask)
        return value

    def chain(self, emissions: torch.Tensor, mask: torch.Tensor | None = None) -> Chain:
        """Return the distribution of the labels: `viterbi`, `marginals`, `nbest` and all other answers."""
        return chain_of(emissions, self.weights, mask)
