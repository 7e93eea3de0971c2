"""Attributes of a word from the labels that its other occurrences in the Doc got from a first stage.

Krishnan & Manning (2006), "An effective two-stage model for exploiting non-local dependencies in named entity
recognition", section 4: a first model labels the text, a second one sees what the first says of the same word
elsewhere.  Here it sees the set of labels besides the majority of their types.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import ConfigError
from ..types import Ints, Optimizer
from .document_words import groups_of, read_words, sets_of
from .index import hash_of_name
from .token_sets import TokenSets


@dataclass(frozen=True)
class DocumentLabels:
    """The labels of a word's other occurrences in the Doc (``spacy_crfseq.DocumentLabels.v1``).

    The labels come from a first stage: the same component without this block.  Training makes both stages; the first
    stage labels the training corpus in parts, each by a model that has not seen it (a jackknife).  Words match as in
    `DocumentWords`.  The labels help where Docs are whole documents: give the corpus readers unit = "document".

    folds (int): Parts of the training corpus; a document is in one.
    optimizer (Optimizer | None): Of the first stage; None for that of the component.  The first stage is trained
        once more for each part.
    RAISES ConfigError: If there are fewer than 2 folds.
    """

    folds: int = 5
    optimizer: Optimizer | None = None

    def __post_init__(self) -> None:
        if self.folds < 2:
            raise ConfigError(f"DocumentLabels: folds must be at least 2, but {self.folds} was given.")

    def names(self, block: str) -> Sequence[str]:
        """Return the name of the attribute."""
        return [f"{block}_ELSEWHERE"]

    def templates(self, block: str) -> Sequence[str]:
        """Return the template over it."""
        return [f"{block}_ELSEWHERE[0]"]

    def read_labels(
        self, block: str, docs: Sequence[Any], labels: Ints, names: Sequence[str], strings: dict[int, str] | None = None
    ) -> Mapping[str, TokenSets]:
        """Return the values at all tokens of Docs."""
        groups, n = groups_of(read_words(docs), labels >= 0), len(names)
        tokens, own = groups.tokens, labels[groups.tokens]
        # of a tag such as B-PER the type, or the label itself
        types = [name[2:] if name[1:2] == "-" and len(name) > 2 else name for name in names]
        kinds = list(dict.fromkeys(types))
        texts = [*names, *(f"mostly {kind}" for kind in kinds)]
        keys = np.array(list(map(hash_of_name, texts)), np.uint64)
        if strings is not None:
            strings.update(zip(keys.tolist(), texts, strict=True))
        # the labels of each group and their counts, then those of each token, less its own
        found, counts = np.unique(groups.group * n + own, return_counts=True)
        ptr = np.append(0, np.cumsum(np.bincount(found // max(1, n))))
        sizes = np.diff(ptr)[groups.group]
        row = np.repeat(np.arange(len(tokens)), sizes)
        place = np.arange(len(row)) + np.repeat(ptr[groups.group] - np.cumsum(sizes) + sizes, sizes)
        label = found[place] % max(1, n)
        count = counts[place] - (label == own[row])
        row, label, count = row[count > 0], label[count > 0], count[count > 0]
        # the type that most of them have, the first of those that tie
        kind = np.array([kinds.index(one) for one in types], np.int64)[label]
        voted, inverse = np.unique(row * max(1, len(kinds)) + kind, return_inverse=True)
        voter, choice = np.divmod(voted, max(1, len(kinds)))
        order = np.lexsort((choice, -np.bincount(inverse, count, len(voted)), voter))
        most = order[np.unique(voter[order], return_index=True)[1]]
        where, values = np.append(row, voter[most]), np.append(label, n + choice[most])
        return {f"{block}_ELSEWHERE": sets_of(tokens[where], keys[values], len(labels))}
