"""Stochastic gradient descent on mini-batches, with averaging.

Bottou (2010), "Large-scale machine learning with stochastic gradient descent", and his crfsgd/crfasgd programs: the
rate of step t is ``eta0 / (1 + lambda eta0 t)`` (to the power 0.75 when averaging, Xu 2011), lambda the L2 strength
per sequence; eta0 is the best of a few tried on a sample; the average over all steps after the first epoch
predicts (Polyak & Juditsky 1992).  A step touches the weights of its own features only: shrinkage and average are
kept as scalar factors, ``w = W / w_div`` and ``mean = (A + a_frac W) / a_div`` (Bottou 2010, "learning with averages").
The schedule "epochs" is ``eta0 / (1 + i / N)`` at the i-th of N sequences (Collins et al. 2008; Sokolovska 2010, eq.
3.29).

An L1 norm of strength c among N sequences is a debt of ``rate_t c / N`` of every weight at every sequence.  With u the
sum of these and q what a weight has paid, a weight that a step touches pays what it owes, but never beyond zero:
``w > 0`` becomes ``max(0, w - (u + q))``, ``w < 0`` becomes ``min(0, w + (u - q))``, and the change is added to q
(Tsuruoka, Tsujii & Ananiadou 2009, "Stochastic gradient descent training for L1-regularized log-linear models with
cumulative penalty", figure 2).  At the end of an epoch all weights pay.  Rates fall to 0.85 of their size in an epoch,
as theirs do, and the last weights predict, since an average of sparse weights is not sparse.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from .. import kernels
from ..errors import ConfigError
from ..types import NO_PENALTY, Floats, OnlineObjective, RowBlock, StepReport
from .online import GradientSteps, OnlineState, generator
from .states import Kinds

SCHEDULES = ("penalty", "epochs")
EPOCH_DECAY = 0.85
"""The share of the rate that is left after an epoch with an L1 norm."""


@dataclass(kw_only=True)
class SGDState(OnlineState):
    """A run in progress; weights and sums are the scaled W and A, see the module's text.

    steps (float): Sequences seen.
    unaveraged (float): Those of them that the average leaves out, besides the first epoch.
    rate (float): eta0; 0 before it is chosen.
    debt (float): u, the debt of every weight in all.
    paid (Floats): [D] q; empty without L1.
    """

    paid: Floats
    w_div: float = 1.0
    a_div: float = 1.0
    a_frac: float = 0.0
    steps: float = 0.0
    unaveraged: float = 0.0
    rate: float = 0.0
    debt: float = 0.0

    def kinds(self, blocks: Sequence[RowBlock]) -> Mapping[str, Kinds]:
        """Return the kinds of more fields, see `StoredState`."""
        return {**super().kinds(blocks), "paid": (self.paid, self.weights)}

    def unscaled(self) -> Floats:
        """Return the weights w [D]."""
        weights: Floats = self.weights / self.weights.dtype.type(self.w_div)
        return weights


@dataclass(frozen=True)
class SGD(GradientSteps):
    """Averaged mini-batch SGD (registered as ``spacy_crfseq.SGD.v1``).

    batch_size (int): Sequences a step.
    rate (float): Initial learning rate eta0 for the sum of a mini-batch's gradients; 0 finds it on a sample.
    average (bool): Predict with the average of the weights; with an L1 norm, the last weights predict all the same.
    tolerance (float): Stop when the objective fell by less than this fraction in two epochs running.
    schedule (str): How rates fall: by the penalty ("penalty"), or to a half, a third and so on after each epoch
        ("epochs").
    RAISES ConfigError: On a setting out of range.
    """

    batch_size: int = 4
    rate: float = 0.0
    average: bool = True
    max_iterations: int = 12
    tolerance: float = 1e-3
    seed: int | None = None
    schedule: str = "penalty"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.schedule not in SCHEDULES:
            raise ConfigError(f'SGD: schedule must be "penalty" or "epochs", but {self.schedule!r} was given.')
        if min(self.rate, self.tolerance) < 0:
            raise ConfigError("SGD: rate and tolerance must be 0 or more; a rate of 0 is found on a sample.")

    def start(self, theta: Floats) -> SGDState:
        sums = np.zeros_like(theta) if self.average else theta[:0]
        return SGDState(theta.copy(), sums, generator(self.seed), paid=theta[:0].copy(), rate=self.rate)

    def again(self, state: SGDState, theta: Floats, seen: float) -> SGDState:
        new: SGDState = super().again(state, theta, seen)
        new.rate, new.steps, new.unaveraged = state.rate, seen, seen
        return new

    def last(self, state: SGDState, objective: OnlineObjective) -> Floats:
        return state.unscaled()

    def export(self, state: SGDState) -> Floats:
        """Return the average, or the current weights where there is none yet."""
        theta = np.empty_like(state.weights)
        if self.average and state.a_frac:
            kernels.vectors.average(state.weights, state.a_frac / state.a_div, state.sums, 1 / state.a_div, theta)
        else:
            theta[:] = state.unscaled()
        return theta

    def iterate(self, objective: OnlineObjective, state: SGDState) -> StepReport:
        if state.rate == 0:
            state.rate = self._find_rate(objective.sample(), state)
        lasso, decay = objective.regularizer.strengths or NO_PENALTY
        if lasso and not len(state.paid):
            state.paid = np.zeros_like(state.weights)
        loss, n, blocks = 0.0, objective.n_total, objective.blocks
        for batch in objective.minibatches(self.batch_size, state.rng):
            rate = self._rate_at(state, lasso, decay, n)
            state.w_div /= 1 - min(0.5, rate * decay / n * batch.n_sequences)
            if state.w_div > 1e5:
                self._rescale(state)
            batch_loss, gradients = batch.loss_and_grad(state.weights, 1 / state.w_div)
            loss += batch_loss
            step = rate * state.w_div
            for number, ptr, ids, d in gradients:
                block = blocks[number]
                kernels.updates.add_rows(ptr, ids, d, block.ptr, block.cols, -step, block.of(state.weights))
                if state.a_frac:
                    kernels.updates.add_rows(
                        ptr, ids, d, block.ptr, block.cols, step * state.a_frac, block.of(state.sums)
                    )
            state.steps += batch.n_sequences
            if lasso:
                state.debt += rate * lasso / n * batch.n_sequences
                for number, ptr, ids, _ in gradients:
                    block = blocks[number]
                    weights, paid = block.of(state.weights), block.of(state.paid)
                    kernels.updates.pay_rows(ptr, ids, block.width, block.ptr, state.debt, state.w_div, weights, paid)
            elif self.average:
                self._average(state, batch.n_sequences, n)
        if lasso:
            kernels.updates.pay(state.debt, state.w_div, state.weights, state.paid)
        return self.report(state, loss, objective.regularizer.value(state.unscaled()))

    def _rate_at(self, state: SGDState, l1: float, l2: float, n_total: int) -> float:
        if self.schedule == "epochs":
            return state.rate / (1 + state.steps / n_total)
        if l1:
            return float(state.rate * EPOCH_DECAY ** (state.steps / n_total))
        return float(state.rate / (1 + l2 / n_total * state.rate * state.steps) ** (0.75 if self.average else 1.0))

    def _average(self, state: SGDState, n_sequences: int, n_total: int) -> None:
        """Move the mean towards the weights, by 1/k at the k-th step after the first epoch."""
        behind = state.steps - max(n_total, state.unaveraged)
        share = min(1.0, n_sequences / behind) if behind > 0 else 0.0
        if share == 1.0:
            state.sums[:] = 0
            state.a_div, state.a_frac = 1.0, 1 / state.w_div
        elif share > 0:
            state.a_div /= 1 - share
            state.a_frac += share * state.a_div / state.w_div
            if state.a_div > 1e5:
                self._rescale(state)

    def _rescale(self, state: SGDState) -> None:
        """Multiply the arrays by the scalar factors before these lose precision."""
        if state.a_frac:
            state.sums += state.weights * state.sums.dtype.type(state.a_frac)
            state.sums /= state.sums.dtype.type(state.a_div)
            state.a_div, state.a_frac = 1.0, 1e-12
            state.sums -= state.weights * state.sums.dtype.type(1e-12)
        state.weights /= state.weights.dtype.type(state.w_div)
        state.a_frac *= state.w_div
        state.w_div = 1.0

    def _find_rate(self, sample: OnlineObjective, state: SGDState) -> float:
        """Return the rate that lowers the objective of the sample most in one epoch.

        Where it is zero from the start, as the perceptron's is, none does, and the first serves as well as another.
        """
        theta, rate, factor = state.unscaled(), 0.1, 2.0
        best, best_value = 0.0, sample.value(theta)
        if best_value == 0:
            return rate
        for _ in range(20):
            value = self._try_rate(sample, theta, rate)
            if value < best_value:
                best, best_value = rate, value
            elif best == 0.0:
                factor = 0.5  # even the first was too large: go down until a rate helps
            elif factor == 2.0 and best == 0.1:
                rate, factor = 0.1, 0.5  # the first was the best so far: look below it
            else:
                break
            rate *= factor
        return best or rate

    def _try_rate(self, sample: OnlineObjective, theta: Floats, rate: float) -> float:
        trial = replace(self, rate=rate, average=False, max_iterations=1)
        state = trial.start(theta)
        trial.iterate(sample, state)
        value = sample.value(state.unscaled())
        return value if np.isfinite(value) else float("inf")

    def _settled(self, values: list[float]) -> str:
        last = values[-3:]
        if len(last) == 3 and all(before - after < self.tolerance * after for before, after in pairwise(last)):
            return f"the objective fell by no more than {self.tolerance:g} of its value in two epochs running"
        return ""
