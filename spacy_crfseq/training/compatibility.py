"""Reject combinations of plug-ins that cannot work when a config is read."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature

from ..errors import ConfigError
from ..types import NO_PENALTY, Optimizer, Regularizer

_PENALTIES: dict[str, tuple[Callable[[Regularizer], bool], str]] = {
    "none": (lambda penalty: penalty.strengths == NO_PENALTY, "no penalty"),
    "l2": (lambda penalty: bool(penalty.strengths and not penalty.strengths.l1), "a multiple of the squared norm"),
    "elastic": (lambda penalty: penalty.strengths is not None, "a squared norm, an L1 norm or the sum of both"),
    "smooth": (lambda penalty: penalty.smooth, "a differentiable penalty"),
    "prox": (lambda penalty: True, "any penalty"),
}
"""For each entry of `Optimizer.penalties`, whether a regularizer fits, and its meaning."""
_NEEDS = {
    "value_and_grad": ("a differentiable loss", "SequentialLog"),
    "minibatches": ("a sum over sequences that has a gradient", "SequentialLog"),
    "likelihood": ("a function of the likelihood of whole sequences", "SequentialLog"),
    "log_likelihood": ("the log-likelihood itself", "SequentialLog"),
    "best_path": ("the score of the best rival of the gold labels", "Perceptron"),
    "joint": ("the joint likelihood of texts and labels", "JointLog"),
    "margin": ("a loss that asks for a margin around the gold labels", "Hinge"),
}
"""For each entry of `Optimizer.requires`, with the most demanding ones last, its meaning and an example."""
_PARTNERS = {"minibatches": "AdaGrad", "joint": "HMM", "value_and_grad": "LBFGS"}
"""An optimizer that works with each ability of a loss."""
_BY_DEFAULT = frozenset({"value_and_grad", "minibatches"})


def provided(loss: object) -> frozenset[str]:
    """Return the abilities that a loss provides, the default if it names none; see `Loss.provides`."""
    provides: frozenset[str] = getattr(loss, "provides", _BY_DEFAULT)
    return provides


def check_plugins(component: str, *, loss: object, regularizer: object, optimizer: object, decoder: object) -> None:
    """Check that each plug-in implements its interface, and that they fit together.

    RAISES ConfigError: Naming the component, the parts and what to use instead, for all pairs that do not fit.
    """
    for kind, part, n_arguments in (("loss", loss, 3), ("decoder", decoder, 4)):
        if not _accepts(part, n_arguments):
            raise ConfigError(
                f"[components.{component}.{kind}] must be a {kind}, called with {n_arguments} arguments, but "
                f"{part!r} was given."
            )
    if not isinstance(regularizer, Regularizer):
        raise ConfigError(
            f"[components.{component}.regularizer] is {part_name(regularizer)}, which is no regularizer "
            "(it lacks smooth, strengths, over, value, add_grad or prox). Use for example spacy_crfseq.L2.v1."
        )
    if not isinstance(optimizer, Optimizer):
        raise ConfigError(
            f"[components.{component}.optimizer] is {part_name(optimizer)}, which is no optimizer (it lacks requires, "
            "penalties, online, max_iterations, start, iterate or export). Use for example spacy_crfseq.LBFGS.v1."
        )
    wrong = [_penalty_problem(optimizer, regularizer), _loss_problem(optimizer, loss), _decoder_problem(loss, decoder)]
    if any(wrong):
        raise ConfigError("\n".join(f"[components.{component}]: {problem}" for problem in wrong if problem))


def check_occurrences(component: str, decoder: object, dictionary_size: int) -> None:
    """RAISES ConfigError: If rules on occurrences of labels do not go with the decoder, or with a tag dictionary."""
    from ..decoders.viterbi import Viterbi

    if not isinstance(decoder, Viterbi):
        raise ConfigError(
            f"[components.{component}]: once and order need the decoder spacy_crfseq.Viterbi.v1, not "
            f"{part_name(decoder)}."
        )
    if dictionary_size:
        raise ConfigError(
            f"[components.{component}]: once and order need tag_dictionary_size = 0, because words that may have only "
            "one label could leave a text without any labelling."
        )


def check_term(component: str, name: str, loss: object, optimizer: Optimizer, term: object, visits: float) -> None:
    """Check that a term's loss can be added to the `loss` of the training corpus, and its texts visited more or less.

    RAISES ConfigError: Naming the term and what to use instead.
    """
    where = f"[components.{component}.terms.{name}]: "
    if not _accepts(term, 3):
        raise ConfigError(f"{where}loss must be a loss, called with 3 arguments, but {term!r} was given.")
    if optimizer.requires & {"likelihood", "log_likelihood"}:
        alone = f"the optimizer {part_name(optimizer)} learns from one data set"
        raise ConfigError(f"{where}{alone}. Use for example spacy_crfseq.LBFGS.v1 or AdaGrad.v1.")
    if problem := _loss_problem(optimizer, term):
        raise ConfigError(where + problem)
    if visits != 1 and not optimizer.online:
        raise ConfigError(
            f"{where}visits is a setting for online optimizers, but {part_name(optimizer)} passes over all texts at "
            "once. Use weight instead, or for example spacy_crfseq.AdaGrad.v1."
        )
    if is_local(term) != is_local(loss):
        local, other = (part_name(part) for part in ((term, loss) if is_local(term) else (loss, term)))
        raise ConfigError(
            f"{where}the loss {local} is normalised at each token, but {other} over whole sequences. Use losses of one "
            "kind, for example spacy_crfseq.SequentialLog.v1 for the training corpus."
        )


def check_network(component: str, optimizer: Optimizer, terms: object, first_stage: object) -> None:
    """RAISES ConfigError: If something of a component cannot learn together with a neural network."""
    where = f"[components.{component}]: scores come from a neural network, which learns from batches. "
    if not optimizer.online or "best_path" in optimizer.requires:
        raise ConfigError(
            f"{where}The optimizer {part_name(optimizer)} does not. Use spacy_crfseq.AdaGrad.v1 or SGD.v1."
        )
    if terms or first_stage:
        others = "terms" if terms else "attributes that read the labels of a first stage"
        raise ConfigError(f"{where}It cannot be used with {others} yet. Remove them, or the network.")


def _accepts(part: object, n_arguments: int) -> bool:
    if not callable(part):
        return False
    try:
        signature(part).bind(*range(n_arguments))
    except TypeError:
        return False
    except ValueError:  # compiled functions need not say
        return True
    return True


# Each returns why two parts do not fit together, or an empty string.


def _penalty_problem(optimizer: Optimizer, regularizer: Regularizer) -> str:
    penalties = [_PENALTIES[kind] for kind in sorted(optimizer.penalties) if kind in _PENALTIES]
    if any(fits(regularizer) for fits, _ in penalties):
        return ""
    if not penalties:
        return (
            f"the optimizer {part_name(optimizer)} can minimise the penalties {sorted(optimizer.penalties)}, none of "
            f"which is known. It should name some of: {', '.join(_PENALTIES)}."
        )
    wanted = " or ".join(meaning for _, meaning in penalties)
    example = "NoRegularizer" if penalties[0] is _PENALTIES["none"] else "L2"
    strengths = regularizer.strengths
    partner = "FISTA" if strengths is None else "OWLQN" if strengths.l1 else "AdaGrad"
    return (
        f"the optimizer {part_name(optimizer)} cannot minimise the regularizer "
        f"{part_name(regularizer)}: it needs {wanted}. A pair that works: {part_name(optimizer)} with "
        f"spacy_crfseq.{example}.v1; or {part_name(regularizer)} with spacy_crfseq.{partner}.v1."
    )


def _loss_problem(optimizer: Optimizer, loss: object) -> str:
    provides = provided(loss)
    lacking = optimizer.requires - provides
    if not lacking:
        return ""
    needs = [need for need in _NEEDS if need in lacking]
    name = needs[-1] if needs else min(lacking)  # the most demanding example satisfies all requirements
    meaning, example = _NEEDS.get(name, (repr(name), "SequentialLog"))
    partner = next((name for need, name in _PARTNERS.items() if need in provides), "")
    other = f"; or {part_name(loss)} with spacy_crfseq.{partner}.v1" if partner else ""
    return (
        f"the optimizer {part_name(optimizer)} cannot minimise the loss {part_name(loss)}: it needs {meaning}. "
        f"A pair that works: {part_name(optimizer)} with spacy_crfseq.{example}.v1{other}."
    )


def _decoder_problem(loss: object, decoder: object) -> str:
    local = is_local(loss)
    if local == getattr(decoder, "local", False):
        return ""
    which, pair = ("at each token", "LocalViterbi") if local else ("over whole sequences", "Viterbi")
    return (
        f"the decoder {part_name(decoder)} cannot decode for the loss {part_name(loss)}, whose scores are normalised "
        f"{which}. A pair that works: {part_name(loss)} with spacy_crfseq.{pair}.v1."
    )


def check_candidates(component: str, loss: object, optimizer: Optimizer) -> None:
    """Raise ConfigError if the loss is not defined for candidate sets, or the optimizer computes likelihoods itself."""
    computes = optimizer.requires & {"likelihood", "log_likelihood"}
    if "candidates" in provided(loss) and not computes:
        return
    part = f"the optimizer {part_name(optimizer)}" if computes else f"the loss {part_name(loss)}"
    raise ConfigError(
        f"[components.{component}]: the training data list the labels that some tokens may have, or spans that "
        f"are not there (pipe.clamp, incorrect_spans_key), but {part} learns only from labels that are known or "
        "missing. A pair that learns from them: spacy_crfseq.SequentialLog.v1 with spacy_crfseq.AdaGrad.v1."
    )


def check_distributions(component: str, loss: object) -> None:
    """Raise ConfigError if the loss is not defined for labels with probabilities."""
    if "distributions" not in provided(loss):
        raise ConfigError(
            f"[components.{component}]: the training data have labels with probabilities, but the loss "
            f"{part_name(loss)} learns only from labels without. One that learns from them: "
            "spacy_crfseq.CrossEntropy.v1."
        )


def is_local(loss: object) -> bool:
    """Return whether a loss trains probabilities that are normalised at each token."""
    return "local" in provided(loss)


def is_unlabelled(loss: object) -> bool:
    """Return whether a loss ignores gold labels."""
    return "unlabelled" in provided(loss)


def needs_labels(loss: object) -> bool:
    """Return whether a loss learns nothing from texts without labels."""
    return not {"unlabelled", "joint", "evidence"}.intersection(provided(loss))


def check_global(component: str, loss: object, wanted: str) -> None:
    """Raise ConfigError if the loss is local, while `wanted` needs probabilities normalised over whole sequences."""
    if is_local(loss):
        raise ConfigError(
            f"[components.{component}]: {wanted} takes probabilities of a model that is normalised over whole "
            f"sequences, but the loss {part_name(loss)} trains one that is normalised at each token. Use for example "
            "spacy_crfseq.SequentialLog.v1 with spacy_crfseq.Viterbi.v1."
        )


def part_name(part: object) -> str:
    """Return the name of a plug-in for messages."""
    return type(part).__name__
