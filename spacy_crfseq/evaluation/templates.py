"""What each template of a feature set gives on a text: how many features, and how often."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..errors import DataError
from ..features.encoder import Block, Ids


class TemplateUse(NamedTuple):
    """What a template, such as "LOWER[-1]", does on a text.

    features (int): Its features.
    once (int): Those that only one token has.
    tokens (int): Tokens that have any.
    """

    name: str
    features: int
    once: int
    tokens: int

    def is_dead(self, n_tokens: int) -> bool:
        """Whether it distinguishes no tokens: it gives none, or all the same, a feature."""
        return self.tokens == 0 or (self.features == 1 and self.tokens == n_tokens)


def template_uses(block: Block, ids: Ids) -> list[TemplateUse]:
    """Return the use of each template of a block, in their order.

    block (Block): One that kept names (`Encoder.keep_names`) and is not frozen.
    ids (Ids): The whole text that it was grown on.
    RAISES DataError: If the block kept no names.
    """
    if block.origins is None:
        raise DataError("The encoder must keep names to tell which template a feature is of.")
    origins = np.concatenate([np.zeros(0, np.int64), *(np.full(v.shape[1], n) for n, v in block.origins)]).astype(int)
    counts, n = block.count(ids), len(block.plan.templates)
    features = np.bincount(origins, minlength=n)
    once = np.bincount(origins[counts == 1], minlength=n)
    tokens = np.bincount(origins, counts, n)
    sets = block.plan.set_slots  # of these a token may have many features; their bags are the last ones
    for number, bags in zip(sets, ids.bags.T[ids.bags.shape[1] - len(sets) :], strict=True):
        tokens[number] = np.count_nonzero(bags)
    return [
        TemplateUse(template.name, int(features[i]), int(once[i]), int(tokens[i]))
        for i, template in enumerate(block.plan.templates)
    ]
