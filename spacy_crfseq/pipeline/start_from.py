"""Training that goes on from a trained model: what of it the new one takes over, and how much it may change.

The features of the trained model get the first ids, so that all of its weights have a place in the new one.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

import numpy as np
from numpy.typing import NDArray

from ..errors import ConfigError, count_of
from ..features.encoder import KnownFeatures
from ..features.templates import Plan
from ..model import Added, LinearChainCRF
from ..potentials.layout import WeightRows, cells
from ..training.compatibility import part_name
from ..types import NO_PENALTY, Bools, Floats, Hashes, Numbers, SupportPotential
from .doc_model import DocModel

OLD_TO_NEW = 4.0
"""How many new sequences one sequence behind the old weights counts as; chosen on references and entities."""


def penalty_factor(n_old: int, n_new: int) -> float:
    """Return the factor of the penalty on changes of what is known about labels, 1 for new labels.

    The more texts the old weights come from, the more certain they are.  Where their number is unknown, as in a
    converted model, it counts as that of the new ones.
    n_old, n_new (int): Sequences behind the old weights, 0 if unknown, and sequences of the new texts.
    """
    n_new = max(1, n_new)
    return 1 + OLD_TO_NEW * (n_old or n_new) / n_new


def label_factors(source: DocModel, model: DocModel, n_new: int) -> Floats:
    """Return the factors of `Shifted` [L], which are to the penalty as 1 to the root of its factor; 1 without one.

    n_new (int): Sequences of the new texts.
    """
    if model.method.regularizer.strengths == NO_PENALTY:
        return np.ones(len(model.labels.tags))
    new = ~np.isin(model.labels.tags, source.labels.tags)
    return np.where(new, 1.0, penalty_factor(source.n_sequences, n_new) ** -0.5)


def check_source(source: DocModel, model: DocModel) -> None:
    """RAISES ConfigError: If a model cannot begin with the weights of another."""
    crf, _ = source.trained()
    tasks = [(type(plugin.annotation).__name__, plugin.annotation.scheme) for plugin in (source, model)]
    where = f"Component {model.name!r}: training cannot continue from the trained component"
    if tasks[0] != tasks[1]:
        (task, scheme), (own, own_scheme) = tasks
        raise ConfigError(
            f"{where}, whose task is {task} with the scheme {scheme}; the config says {own} with {own_scheme}. "
            "Use the factory and the scheme of the trained component."
        )
    for plugin in (*crf.added_potentials, *model.method.potentials.values()):
        if not getattr(plugin, "transferable", True) or not isinstance(plugin, SupportPotential):
            raise ConfigError(f"{where} with the potential {part_name(plugin)}. Train on all texts.")
    if model.method.optimizer.requires & {"likelihood", "log_likelihood", "joint"}:
        name = part_name(model.method.optimizer)
        raise ConfigError(f"{where} with {name}. Use for example spacy_crfseq.LBFGS.v1 or AdaGrad.v1.")
    if model.method.max_features:
        raise ConfigError(f"{where} with max_features, which selects among new features only. Set max_features = 0.")
    had, has = (
        {plugin.name for plan in part.features.plans() for plugin in plan.templates} for part in (source, model)
    )
    if had and not had & has:
        hint = "Copy its block of features, or use its config.cfg."
        raise ConfigError(f"{where}: the config has none of its templates, such as {min(had)}. {hint}")


def aligned(source: DocModel, model: DocModel) -> LinearChainCRF:
    """Return a trained model with the labels and potentials of another, new ones with weights of zero."""
    crf = known_part(source, model.features.plans())[0]
    views = dict(zip(source.method.potentials, crf.added_views, strict=True))
    added, weights = list[Added](), [crf.theta[: crf.layout.size]]
    for name, potential in model.method.potentials.items():
        old = source.method.potentials.get(name, potential)
        shared = name in views and type(old) is type(potential)
        added.append(old if shared else copy(potential))
        weights.append(views[name] if shared else np.zeros(potential.size(crf.layout.n_labels), crf.theta.dtype))
    same = crf.keys, crf.dictionary, crf.templates
    crf = LinearChainCRF(crf.labels, crf.layout, np.concatenate(weights), *same, tuple(added))
    return crf.with_labels(model.labels.tags, model.method.transitions)


def known_part(source: DocModel, plans: Sequence[Plan]) -> tuple[LinearChainCRF, list[Numbers]]:
    """Return a trained model without features of templates that `plans` lack, and each feature's template in them."""
    crf, wanted, numbers = source.crf, list[Bools](), list[Numbers]()
    own = crf.templates or [np.zeros(len(keys), np.uint16) for keys in crf.keys]
    for templates, old, new in zip(own, source.features.plans(), plans, strict=True):
        names = [template.name for template in new.templates]
        moved = [names.index(template.name) if template.name in names else -1 for template in old.templates]
        places = np.append(np.array(moved, np.int64), -1)[templates]
        wanted.append(places >= 0)
        numbers.append(places[places >= 0].astype(np.uint16))
    return crf.with_features(wanted), numbers


def known_features(
    source: DocModel, plans: Sequence[Plan]
) -> tuple[tuple[KnownFeatures, KnownFeatures], dict[int, str]]:
    """Return the features of a trained model, as far as plans have their templates, and their names by their keys."""
    crf, (unigrams, bigrams) = known_part(source, plans)
    names: dict[int, str] = {}
    for largest in source.largest_names():
        names.update(largest)
    keys = np.concatenate(source.crf.keys).tolist()
    names.update({key: name for key, name in zip(keys, source.feature_names, strict=False) if name})
    return (KnownFeatures(crf.keys[0], unigrams), KnownFeatures(crf.keys[1], bigrams)), names


def summary(source: DocModel, model: DocModel) -> str:
    """Return how much of a model in training comes from a trained one, as a line of text."""
    crf, old, shared = model.crf, source.crf, known_part(source, model.features.plans())[0]
    factor = penalty_factor(source.n_sequences, model.n_sequences)
    total, had, kept = (sum(map(len, model_.keys)) for model_ in (crf, old, shared))
    left = f"; {had - kept:,} features of templates that the config lacks left out" if had > kept else ""
    return (
        f"{count_of(len(old.labels), 'label')} and {count_of(kept, 'feature')} taken over, "
        f"{len(crf.labels) - len(old.labels)} and {total - kept:,} new{left}; "
        f"penalty on changes of the former times {factor:.3g}"
    )


def carry_over(old: LinearChainCRF, new: LinearChainCRF) -> None:
    """Write the weights of one model to another with the same labels, as far as that has their features."""
    blocks = ((model.layout.unigrams, model.layout.bigrams) for model in (old, new))
    blocks_and_views = zip(
        zip(*blocks, strict=True), zip(old.keys, new.keys, strict=True), old.views, new.views, strict=False
    )
    for (rows, new_rows), keys, weights, new_weights in blocks_and_views:
        source, target = _common_weights(rows, new_rows, *keys)
        new_weights[target] = weights[source]
    for weights, new_weights in list(zip(old.views, new.views, strict=True))[2:]:
        new_weights[...] = weights
    views = zip(old.added_views, new.added_views, strict=True)
    for before, after, (own, target) in zip(old.small, new.small, views, strict=True):
        if before.keys is not None and after.keys is not None:
            _, source, places = np.intersect1d(before.keys, after.keys, assume_unique=True, return_indices=True)
            target.reshape(-1, len(new.labels))[places] = own.reshape(-1, len(old.labels))[source]
        elif len(own) == len(target):
            target[:] = own


def _common_weights(
    rows: WeightRows, new_rows: WeightRows, keys: Hashes, new_keys: Hashes
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the places in two blocks of the weights that both have."""
    _, places, there = np.intersect1d(keys, new_keys, assume_unique=True, return_indices=True)
    moved = np.full(len(keys), -1, np.int64)
    moved[places] = there
    old_cells, new_cells = cells(rows), cells(new_rows)
    row, column = np.divmod(old_cells, max(1, rows.width))
    wanted = np.where(moved[row] >= 0, moved[row] * rows.width + column, -1)
    target = np.searchsorted(new_cells, wanted)
    source = np.flatnonzero(np.append(new_cells, -2)[target] == wanted)
    return source, target[source]
