"""What boosting remembers: tuples of arrays that its kernels read and change."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...types import Bools, Ints, Offsets

Numbers = NDArray[np.float64]


class Rows(NamedTuple):
    """Where the weights of the rows of all groups lie in theta, and which columns they score.

    begin (Offsets): [R + 1] row r has the parameters begin[r]:begin[r + 1]; each shared score is a row of its own.
    cols (Ints): [D] label of a state weight, start or end score, ``previous * L + label`` of a pair weight or a
        transition.
    pair (int): Number of the first row of the pair group.
    """

    begin: Offsets
    cols: Ints
    pair: int


class Text(NamedTuple):
    """The training set.

    offsets (Offsets): [N + 1].
    gold (Ints): [T], -1 where missing.
    partial (Bools): [N] whether some labels of a sequence are known and some missing.
    ptr, ids: [T + 1] and [n], rows of the state group that each token switches on.
    pair_ptr, pair_ids: The same of the pair group, numbered as among all rows; pair_ptr is empty without such a group.
    """

    offsets: Offsets
    gold: Ints
    partial: Bools
    ptr: Offsets
    ids: Ints
    pair_ptr: Offsets
    pair_ids: Ints


class Chain(NamedTuple):
    """What is remembered of the recursions; of the clamped ones as many tokens, or none where no label is missing.

    forward, backward (Numbers): [T, L].
    norms (Numbers): [T] c_t.
    """

    forward: Numbers
    backward: Numbers
    norms: Numbers


class Steps(NamedTuple):
    """Scores of steps: of all (S = 1), or of each token of the longest sequence.

    logs, powers (Numbers): [S, L, L] scores, and exp(score - base).
    base (Numbers): [S] the largest score.
    """

    logs: Numbers
    powers: Numbers
    base: Numbers


class Data(NamedTuple):
    """The weights, what they score, and their scores.

    theta (Numbers): [D].
    local (Numbers): [T, L] local scores of tokens.
    shared (int): Place of the transitions [L * L] in theta.
    changed (Bools): [T] tokens whose local scores or steps have just been changed.
    """

    theta: Numbers
    rows: Rows
    text: Text
    local: Numbers
    shared: int
    changed: Bools


class Chains(NamedTuple):
    """What is remembered of all sequences; and what was computed anew, of some sequences one after another.

    moved (Bools): Tokens whose new forward or backward scores are different.
    """

    free: Chain
    clamped: Chain
    new_free: Chain
    new_clamped: Chain
    moved: Bools


class Sums(NamedTuple):
    """What is known of every parameter.

    both (Numbers): [D, 2] plus and minus; those of shared scores only while bounds on sequences are compared.
    shared (Numbers): [groups, L * (L + 2), 2] the same of shared scores, sequences of like length together.
    dirty (Bools): [R] rows of which something has changed.
    groups (Ints): [N] the group of each sequence among the shared sums.
    """

    both: Numbers
    shared: Numbers
    dirty: Bools
    groups: Ints


class Change(NamedTuple):
    """A weight that was changed: of label `column` (before is negative), or of the step from `before` to `column`."""

    before: int
    column: int
    by: float


class Room(NamedTuple):
    """Work space: probabilities of labels and label pairs, free and clamped; scores [L]; and parts of the sums."""

    p: Numbers
    q: Numbers
    pp: Numbers
    qq: Numbers
    ahead: Numbers
    left: Numbers
    right: Numbers
    d: Numbers
    dd: Numbers
    counts: Numbers
