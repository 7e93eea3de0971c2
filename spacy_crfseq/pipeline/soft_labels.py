"""Labels with probabilities on a gold Doc: the posterior of a label model or a teacher, for the loss `CrossEntropy`.

They are a note of their own for a component, beside those of `evidence`; training reads them, predictions do not.  Only
tokens in doubt are noted, so that a corpus takes little more memory and space than with labels alone; others have the
labels that are annotated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
from spacy.tokens import Doc

from ..errors import DAMAGED, DataError
from ..schemes import OUTSIDE
from ..types import MISSING, Floats
from .evidence import about, note_of, write_note

SoftLabels: TypeAlias = Mapping[int, Sequence[tuple[str, str, float]]]
"""For some tokens, by number: the tag of the token before ("" if nothing is said of it), the tag, their probability."""

BLOCK_CELLS = 1 << 20
"""Pairs of labels of tokens that are looked at together, at most."""
SILENT = "silent"
"""The attribute by which a group of doc.spans is that of a source: ranges of tokens of which it says nothing."""
KIND = "shares"
LEAST = 1e-3
"""Pairs of tags that are less probable are left out."""


def write_soft_labels(doc: Doc, component: str, soft: SoftLabels) -> None:
    """Note the probabilities of tags on a gold Doc for a component, replacing an earlier note; none remove it.

    In training with the loss `CrossEntropy`, they count instead of what is annotated at these tokens.  White space has
    no tag: a note on a word speaks of the word before.
    RAISES DataError: If a token is not in the Doc, or its probabilities are negative or do not add up to 1.
    """
    for token, pairs in soft.items():
        shares = [share for _, _, share in pairs]
        if not 0 <= token < len(doc):
            raise DataError(f"{about(doc)}: labels are given for token {token}, but it has {len(doc)} tokens.")
        if not all(share >= 0 for share in shares) or not abs(sum(shares) - 1) < LEAST:
            raise DataError(
                f"{about(doc)}, token {token}: the probabilities of its tags must be from 0 to 1 and add up to 1, "
                f"not to {sum(shares):g}."
            )
    rows = [(token, *pair) for token in sorted(soft) for pair in soft[token] if pair[2] > 0]
    tags = [*dict.fromkeys(tag for _, before, tag, _ in rows for tag in (before, tag) if tag)]
    numbers = {"": MISSING, **{tag: number for number, tag in enumerate(tags)}}
    note = {
        "tokens": len(doc),
        "tags": tags,
        "token": np.array([token for token, *_ in rows], np.int32),
        "before": np.array([numbers[before] for _, before, _, _ in rows], np.int16),
        "tag": np.array([numbers[tag] for _, _, tag, _ in rows], np.int16),
        "share": np.array([share for *_, share in rows], np.float32),
    }
    write_note(doc, component, KIND, note if rows else None)


def read_soft_labels(doc: Doc, component: str) -> SoftLabels:
    """Return the probabilities of tags that are noted on a Doc for a component.

    RAISES DataError: If they were noted before the tokens changed, or the note is damaged.
    """
    note = note_of(doc, component, KIND)
    if note is None:
        return {}
    soft: dict[int, list[tuple[str, str, float]]] = {}
    try:
        names = ["", *note["tags"]]
        columns = [np.asarray(note[name]).tolist() for name in ("token", "before", "tag", "share")]
        for token, before, tag, share in zip(*columns, strict=True):
            soft.setdefault(token, []).append((names[before + 1], names[tag + 1], share))
    except DAMAGED as error:
        raise DataError(f"{about(doc)}: the probabilities of labels noted for {component!r} are damaged.") from error
    for token, pairs in soft.items():
        total = sum(share for *_, share in pairs)
        soft[token] = [(before, tag, share / total) for before, tag, share in pairs]
    return soft


def soft_labels(tags: Sequence[str], shares: Floats, pairs: Floats | None, least: float = LEAST) -> SoftLabels:
    """Return the probabilities of tags at the tokens of a text, without those that are certainly outside of spans.

    tags (Sequence[str]): [L] names of the labels.
    shares (Floats): [T, L] probabilities of the labels, such as `Chain.marginals`.
    pairs (Floats | None): [T, L, L] those of the label before and the label, such as `Chain.pair_marginals`: zeros at
        the first token of a sequence; None if labels are independent.
    least (float): Pairs of labels that are less probable are left out, and tokens that are outside of spans with a
        probability of more than 1 - `least`.
    """
    outside, names = np.array([tag == OUTSIDE for tag in tags]), ["", *tags]
    doubtful = np.flatnonzero(shares[:, outside].sum(1) < 1 - least)
    soft: dict[int, list[tuple[str, str, float]]] = {token: [] for token in doubtful.tolist()}
    n_rows = 1 if pairs is None else len(names)  # the first one for tokens without a label before
    step = max(1, BLOCK_CELLS // (n_rows * len(tags)))
    for tokens in (doubtful[first : first + step] for first in range(0, len(doubtful), step)):
        table = np.zeros((len(tokens), n_rows, len(tags)))
        if pairs is not None:
            table[:, 1:] = pairs[tokens]
        alone = ~table.any((1, 2))
        table[alone, 0] = shares[tokens[alone]]
        table[table < np.minimum(least, table.max((1, 2), keepdims=True))] = 0
        table /= table.sum((1, 2), keepdims=True)
        at, before, tag = np.nonzero(table)
        cells = tokens[at].tolist(), before.tolist(), tag.tolist(), table[at, before, tag].tolist()
        for token, i, j, share in zip(*cells, strict=True):
            soft[token].append((names[i], tags[j], share))
    return soft
