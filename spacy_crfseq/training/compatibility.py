"""Refusing combinations of plug-ins that cannot work, when a config is read and not after an hour of training."""

from __future__ import annotations

from collections.abc import Callable

from ..errors import ConfigError
from ..types import Optimizer, Regularizer

_MEANING: dict[str, tuple[Callable[[Regularizer], bool], str]] = {
    "smooth": (lambda penalty: penalty.smooth, "a differentiable penalty"),
    "decay": (lambda penalty: penalty.decay is not None, "a multiple of the squared norm"),
    "prox": (lambda penalty: not penalty.smooth, "a penalty with a proximal map"),
}
_WORKING_PAIR = "spacy_crfseq.LBFGS.v1 with spacy_crfseq.L2.v1"


def check_plugins(component: str, *, loss: object, regularizer: object, optimizer: object, decoder: object) -> None:
    """Check that each plug-in is of its kind and that optimizer and regularizer fit together.

    RAISES ConfigError: Naming the component, the parts and what to use instead.
    """
    for kind, part in (("loss", loss), ("decoder", decoder)):
        if not callable(part):
            raise ConfigError(f"[components.{component}.{kind}] must be callable, but {part!r} was given.")
    if not isinstance(regularizer, Regularizer):
        raise ConfigError(
            f"[components.{component}.regularizer] is {part_name(regularizer)}, which is no regularizer "
            "(it lacks smooth, decay, value, add_grad or prox). Use for example spacy_crfseq.L2.v1."
        )
    if not isinstance(optimizer, Optimizer):
        raise ConfigError(
            f"[components.{component}.optimizer] is {part_name(optimizer)}, which is no optimizer (it lacks "
            "needs, penalties, online, max_iterations, start, iterate, export). Use for example spacy_crfseq.LBFGS.v1."
        )
    if not any(_MEANING[kind][0](regularizer) for kind in optimizer.penalties):
        wanted = " or ".join(_MEANING[kind][1] for kind in sorted(optimizer.penalties))
        raise ConfigError(
            f"[components.{component}]: the optimizer {part_name(optimizer)} cannot minimise the regularizer "
            f"{part_name(regularizer)}: it needs {wanted}. A pair that works: {_WORKING_PAIR}."
        )


def part_name(part: object) -> str:
    """Return the name of a plug-in for messages."""
    return type(part).__name__
