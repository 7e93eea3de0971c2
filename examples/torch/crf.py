"""A CRF layer for PyTorch on `spacy_crfseq.Chain`: any mask works, also with holes and with a masked first token."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.autograd.function import once_differentiable

from spacy_crfseq import Chain


def as_array(scores: torch.Tensor) -> np.ndarray[Any, Any]:
    """Return scores as NumPy reads them, which has no bfloat16."""
    return (scores.float() if scores.dtype == torch.bfloat16 else scores).numpy(force=True)


def as_sum(value: float, scores: torch.Tensor) -> torch.Tensor:
    """Return a value as a tensor for scores: float32 or wider, where a number too large for it becomes infinite."""
    dtype = torch.promote_types(scores.dtype, torch.float32)
    return torch.scalar_tensor(value, dtype=torch.float64).to(scores.device, dtype)


class LogProb(torch.autograd.Function):
    """The sum of the log-probabilities of labels [B, T]; emissions are [B, T, L], the mask is [B, T].

    Scores of half precision, as under autocast, are read as float32, and the sum is float32: it can be a large number.
    """

    @staticmethod
    def forward(ctx: Any, *given: torch.Tensor) -> torch.Tensor:
        """Compute value and gradient at once: forward-backward has both."""
        labels, mask = (tensor.numpy(force=True) for tensor in given[4:])
        value, ctx.grad = Chain(*map(as_array, given[:4]), mask=mask).log_prob_and_grad(labels)
        return as_sum(value, given[0])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, factor: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """Return the gradient of the scores, times that of the sum; autograd gives it the type of the scores."""
        number = factor.item()
        return *(torch.from_numpy(number * array).to(factor.device) for array in ctx.grad), None, None


class CRF(torch.nn.Module):
    """Transitions between L labels, learned together with the network that the emissions come from."""

    def __init__(self, n_labels: int) -> None:
        super().__init__()
        sizes = {"transitions": (n_labels, n_labels), "start": (n_labels,), "end": (n_labels,)}
        for name, size in sizes.items():
            self.register_parameter(name, torch.nn.Parameter(0.1 * torch.randn(size)))

    def forward(self, emissions: torch.Tensor, labels: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        """Return log P of the labels of all sequences together; its negative is the loss.

        Without a mask, all tokens count.  Under `torch.no_grad`, labels that scores forbid have minus infinity.
        """
        if not torch.is_grad_enabled():
            return as_sum(self.chain(emissions, mask).log_prob(labels.numpy(force=True)).sum(), emissions)
        mask = torch.ones_like(labels, dtype=torch.bool) if mask is None else mask
        return LogProb.apply(emissions, self.transitions, self.start, self.end, labels, mask)

    def chain(self, emissions: torch.Tensor, mask: torch.Tensor | None = None) -> Chain:
        """Return the distribution of the labels: `viterbi`, `marginals`, `nbest` and all other answers."""
        scores = (emissions, self.transitions, self.start, self.end)
        return Chain(*map(as_array, scores), mask=None if mask is None else mask.numpy(force=True))
