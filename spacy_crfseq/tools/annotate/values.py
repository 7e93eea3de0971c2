"""Checks of JSON values that come from a request, or from a file that others may have changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...errors import DataError

MOST = 2**31 - 1
"""The largest number."""


def object_of(value: Any, name: str) -> Mapping[str, Any]:
    """Return a JSON object.  This and the others RAISE DataError: If the value is something else."""
    return _checked(value, isinstance(value, Mapping), name, "a JSON object")  # type: ignore[no-any-return]


def list_of(value: Any, name: str) -> Sequence[Any]:
    """Return a list."""
    return _checked(value, isinstance(value, (list, tuple)), name, "a list")  # type: ignore[no-any-return]


def rows_of(value: Any, name: str, size: int) -> Sequence[Any]:
    """Return a list of lists of so many values."""
    for row in list_of(value, name):
        _checked(row, len(list_of(row, name)) == size, name, f"a list of lists of {size}")
    return value  # type: ignore[no-any-return]


def whole(value: Any, name: str) -> int:
    """Return a whole number from 0 on."""
    return _checked(value, type(value) is int and 0 <= value <= MOST, name, "a whole number from 0 on")  # type: ignore[no-any-return]


def number(value: Any, name: str, most: float = MOST) -> float:
    """Return a number from 0 to `most`."""
    fits = type(value) in (int, float) and 0 <= value <= most
    return float(_checked(value, fits, name, f"a number from 0 to {most:,}"))


def string(value: Any, name: str) -> str:
    """Return a string."""
    return _checked(value, isinstance(value, str), name, "a string")  # type: ignore[no-any-return]


def flag(value: Any, name: str) -> bool:
    """Return a truth value."""
    return _checked(value, type(value) is bool, name, "true or false")  # type: ignore[no-any-return]


def _checked(value: Any, fits: bool, name: str, what: str) -> Any:
    if not fits:
        shown = f"{type(value).__name__} of {len(value)}" if isinstance(value, (list, dict)) else repr(value)[:60]
        raise DataError(f"{name!r} must be {what}, not {shown}.")
    return value
