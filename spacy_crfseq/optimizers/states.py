"""The base of the states of optimizers, which can be stored in a checkpoint and taken up again from it.

A stored state is a dict of numbers, text and arrays by the names of fields.  It names no types: the state with which
the optimizer of the config starts tells the kind of each value, and the length of each array.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, ClassVar

import numpy as np

from ..errors import DAMAGED
from ..types import RowBlock

Kinds = tuple[Any, ...]
"""Examples of the types and shapes that a stored value may have; ``[0.0, ...]`` stands for any number of floats."""


class StoredState:
    """A dataclass of arrays, numbers, text, random numbers and other stored states, and lists of these.

    derived (frozenset[str]): Fields that are not stored, because they follow from the objective or are room to work in.
    """

    derived: ClassVar[frozenset[str]] = frozenset()

    def kinds(self, blocks: Sequence[RowBlock]) -> Mapping[str, Kinds]:
        """Return the kinds of the fields that may have other values than those of the start in type or shape.

        blocks (Sequence[RowBlock]): Those of the objective.
        """
        return {}

    def check(self) -> None:
        """Do nothing, or refuse values that do not fit each other.  RAISES ValueError: If they do not."""

    def to_state(self) -> dict[str, Any]:
        """Return the fields as values of msgpack and NumPy arrays."""
        return {name: plain(getattr(self, name)) for name in self._names()}

    def from_state(self, stored: Any, blocks: Sequence[RowBlock]) -> None:
        """Continue from the fields that `to_state` returned, instead of from the start.

        blocks (Sequence[RowBlock]): Those of the objective.
        RAISES ValueError: If a field is missing, or of another kind.
        """
        kinds, names = self.kinds(blocks), list(self._names())
        if not isinstance(stored, dict) or stored.keys() != set(names):
            others = ", ".join(map(str, stored)) if isinstance(stored, dict) else type(stored).__name__
            raise ValueError(f"{type(self).__name__} has {', '.join(names)}, not {others[:200]}")
        for name in names:
            setattr(self, name, restored(stored[name], kinds.get(name, (getattr(self, name),)), name, blocks))
        self.check()

    def _names(self) -> Iterator[str]:
        return (field.name for field in fields(self) if field.name not in self.derived)  # type: ignore[arg-type]


def plain(value: Any) -> Any:
    """Return a value of a field in terms of msgpack."""
    if isinstance(value, StoredState):
        return value.to_state()
    if isinstance(value, np.random.Generator):
        return json.dumps(value.bit_generator.state)  # its integers are too long for msgpack
    if isinstance(value, np.generic):
        return value.item()
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def restored(value: Any, kinds: Kinds, name: str, blocks: Sequence[RowBlock]) -> Any:
    """Return a stored value, which must be of one of these kinds.  RAISES ValueError: If it is of none."""
    for kind in kinds:
        try:
            return _of_kind(value, kind, name, blocks)
        except DAMAGED as error:
            reason = error
    raise ValueError(f"{name}: {reason}") from reason


def _of_kind(value: Any, kind: Any, name: str, blocks: Sequence[RowBlock]) -> Any:
    if isinstance(kind, StoredState):
        kind.from_state(value, blocks)
        return kind
    if isinstance(kind, np.ndarray):
        if not isinstance(value, np.ndarray) or (value.dtype, value.shape) != (kind.dtype, kind.shape):
            stored = f"{value.dtype} {value.shape}" if isinstance(value, np.ndarray) else repr(value)[:200]
            raise ValueError(f"{stored} is no array of {kind.dtype} {kind.shape}")
        return value if value.flags.writeable else value.copy()  # the memory of a file cannot be written
    if isinstance(kind, np.random.Generator):
        bits = type(kind.bit_generator)()
        bits.state = json.loads(value)
        return np.random.Generator(bits)
    if isinstance(kind, list) and kind[1:] == [...]:
        return [_of_kind(item, kind[0], name, blocks) for item in value]
    if isinstance(kind, list):
        return [_of_kind(item, own, name, blocks) for item, own in zip(value, kind, strict=True)]
    if isinstance(kind, tuple):  # a named one
        return type(kind)(*(_of_kind(item, own, name, blocks) for item, own in zip(value, kind, strict=True)))
    if type(value) is not type(kind) and not (isinstance(kind, float) and type(value) is int):
        raise ValueError(f"{str(value)[:200]!r} is no {type(kind).__name__}")
    return value
