"""Parts of requests: values are of the type that they should be, and errors name the first place that is not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from ...corpora.utf16 import character_at
from ...errors import DataError


class RequestPart(BaseModel):
    """A part of a request; keys that it does not name may hold anything."""

    model_config = ConfigDict(strict=True, frozen=True)


Request = TypeVar("Request", bound=RequestPart)


def parsed(kind: type[Request], body: Any) -> Request:
    """Return a request.  RAISES DataError: If it is malformed."""
    try:
        return kind.model_validate(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        said = first["msg"].removeprefix("Value error, ")
        raise DataError(f"{repr(place) if place else 'The request'} cannot be read: {said}.") from None


def _checked_label(label: str) -> str:
    if not label.isprintable() or not label.strip() or label in ("O", "-"):
        raise ValueError(f"{label!r} cannot be a label: it is printable, not blank, and not O or -")
    return label


Label = Annotated[str, AfterValidator(_checked_label)]
"""The name of a label that a model can learn and a file can hold."""


def characters(units: Sequence[int], begin: int, end: int) -> tuple[int, int]:
    """Return the characters between two positions in UTF-16.  RAISES DataError: If these are not in the text."""
    start, stop = character_at(units, begin), character_at(units, end)
    if start is None or stop is None or start > stop:
        raise DataError(f"{begin}-{end} is no span of a text with {units[-1]:,} characters, counted in UTF-16.")
    return start, stop
