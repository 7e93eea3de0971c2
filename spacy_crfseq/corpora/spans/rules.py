"""What a user decides about the spans of a file: whether the text outside is known, which are sure, where they are."""

from __future__ import annotations

from typing import NamedTuple

from ...errors import ConfigError

OUTSIDE = ("known", "unknown")
MATCH = ("none", "all", "first", "order")


class SpanRules(NamedTuple):
    """Rules for the spans of a file.

    outside: "known" if text outside of spans is in no entity; "unknown" if only some are annotated.
    min_score: Spans with a lower score are unknown, both as spans and as text in none.
    match: How spans that come as texts without positions are looked up: see `matching.match_spans`, or "none", which
        refuses them.
    """

    outside: str = "known"
    min_score: float = 0.0
    match: str = "none"

    def check(self) -> SpanRules:
        """Return the rules; RAISES ConfigError: If one cannot be."""
        if self.outside not in OUTSIDE:
            raise ConfigError(f"outside = {self.outside!r}: give {' or '.join(map(repr, OUTSIDE))}.")
        if not 0 <= self.min_score <= 1:
            raise ConfigError(f"min_score = {self.min_score} must be a number from 0 to 1.")
        if self.match not in MATCH:
            raise ConfigError(f"match = {self.match!r}: give {', '.join(map(repr, MATCH[:-1]))} or {MATCH[-1]!r}.")
        return self


DEFAULT = SpanRules()
