"""Decisions of a user about spans of a file: whether the text outside is known, which are sure, where they are."""

from __future__ import annotations

from typing import NamedTuple

from ...errors import ConfigError

OUTSIDE = ("known", "unknown")
LOOK_UP = 'match = "all" (--match all, in a config match = "all", in a source of aggregate match=all)'
"""How users have texts without positions looked up."""
MATCH = ("none", "all", "first", "order")
ALTERNATIVES = ("best", "all")


class SpanRules(NamedTuple):
    """Rules for the spans of a file.

    outside: "known" if text outside of spans is in no entity; "unknown" if only some are annotated.
    min_score: Spans with a lower score are unknown, both as spans and as text in none.
    match: How spans that come as texts without positions are looked up: see `matching.match_spans`, or "none", which
        refuses them.
    alternatives: Of spans with the same start and end and different labels, "best" keeps the labels with the highest
        score, "all" every label; if several are left, they are candidates.
    """

    outside: str = "known"
    min_score: float = 0.0
    match: str = "none"
    alternatives: str = "best"

    def check(self) -> SpanRules:
        """Return the rules; RAISES ConfigError: If one cannot be."""
        if self.outside not in OUTSIDE:
            raise ConfigError(f"outside = {self.outside!r}: give {' or '.join(map(repr, OUTSIDE))}.")
        if not 0 <= self.min_score <= 1:
            raise ConfigError(f"min_score = {self.min_score} must be a number from 0 to 1.")
        for name, choices in (("match", MATCH), ("alternatives", ALTERNATIVES)):
            if (value := getattr(self, name)) not in choices:
                *most, last = map(repr, choices)
                raise ConfigError(f"{name} = {value!r}: give {', '.join(most)} or {last}.")
        return self


DEFAULT = SpanRules()
