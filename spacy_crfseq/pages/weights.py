"""The largest weights of labels or templates, with the names of their features."""

from __future__ import annotations

from typing import NamedTuple

from . import frame

GROUPS = {"transitions": "(transitions)", "boundaries": "(start and end)", "potentials": "(added potentials)"}
"""Names of weights that belong to no template."""


class NamedWeight(NamedTuple):
    """A weight with names: of its feature, or its template if no name is `known`; `before` is a pair's first label."""

    label: str
    before: str
    attribute: str
    known: bool
    weight: float

    def words(self, with_label: bool) -> str:
        """Return the names of the feature and the labels."""
        label = f"{self.before} -> {self.label}" if self.before else self.label
        return f"{self.attribute}  {label}".lstrip() if with_label or self.before else self.attribute


class Group(NamedTuple):
    """The largest weights of a label, or of a template; largest absolute value first."""

    title: str
    positive: list[NamedWeight]
    negative: list[NamedWeight]


def weights_of(group: Group, *, with_label: bool) -> frame.Markup:
    """Return the largest weights for and against a label, or of a template, side by side."""
    return frame.columns(
        *(
            frame.table(("weight", title), [(f"{w.weight:+.3f}", w.words(with_label)) for w in weights], (0,))
            for title, weights in (("for", group.positive), ("against", group.negative))
        )
    )
