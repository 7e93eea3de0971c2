"""Names of labels in the settings of losses: a tag, such as "B-PER", or a label of a scheme, the sum of its tags."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..errors import ConfigError, suggest
from ..schemes import split_tag
from ..types import Bools


def tags_of(names: Sequence[str], labels: Sequence[str], scheme: str | None, where: str) -> Bools:
    """Return which of the tags [L] each name stands for, [names, L].

    RAISES ConfigError: If a name is no label, or two names share a tag.
    """
    found = np.zeros((len(names), len(labels)), np.bool_)
    types = [split_tag(tag)[1] if scheme not in (None, "plain") else "" for tag in labels]
    for row, name in zip(found, names, strict=True):
        row[:] = [tag == name for tag in labels]
        if not row.any():
            row[:] = [type_ == name != "" for type_ in types]
        if not row.any():
            raise ConfigError(
                f"{where}: the component has no label {name!r}. {suggest(name, {*types, *labels} - {''})}"
            )
    shared = np.flatnonzero(found.sum(0) > 1)
    if len(shared):
        both = [name for name, row in zip(names, found, strict=True) if row[shared[0]]]
        raise ConfigError(
            f"{where}: {' and '.join(map(repr, both))} both contain {labels[shared[0]]!r}. List one of them."
        )
    return found
