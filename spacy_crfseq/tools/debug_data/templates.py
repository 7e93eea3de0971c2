"""The use of each template of a feature set on a text: its number of features, and their frequency."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...errors import DataError
from ...features.encoder import Block, Ids


class TemplateUse(NamedTuple):
    """The use of a template, such as "LOWER[-1]", on a text.

    features (int): Number of features.
    once (int): Number of features that only one token has.
    tokens (int): Number of tokens with a feature.
    """

    name: str
    features: int
    once: int
    tokens: int

    def is_dead(self, n_tokens: int) -> bool:
        """Whether it distinguishes no tokens: none has a feature, or all have the same one."""
        return self.tokens == 0 or (self.features == 1 and self.tokens == n_tokens)


def template_uses(block: Block, ids: Ids) -> list[TemplateUse]:
    """Return the use of each template of a block, in their order.

    block (Block): A block with names (`Encoder.keep_names`) that is not frozen.
    ids (Ids): The whole text that it was built from.
    RAISES DataError: If the block has no names.
    """
    if block.origins is None:
        raise DataError("The encoder must keep names to tell which template a feature is of.")
    origins = np.concatenate([np.zeros(0, np.int64), *(np.full(v.shape[1], n) for n, v in block.origins)]).astype(int)
    counts, n = block.count(ids), len(block.plan.templates)
    features = np.bincount(origins, minlength=n)
    once = np.bincount(origins[counts == 1], minlength=n)
    tokens = np.bincount(origins, counts, n)
    sets = block.plan.set_slots  # a token can have many features of these; their bags are the last ones
    bags = ids.expanded()[0].T
    for number, column in zip(sets, bags[len(bags) - len(sets) :], strict=True):
        tokens[number] = np.count_nonzero(column)
    return [
        TemplateUse(template.name, int(features[i]), int(once[i]), int(tokens[i]))
        for i, template in enumerate(block.plan.templates)
    ]
