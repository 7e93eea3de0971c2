"""The results of ``crfseq top`` and their page: the largest weights, transitions, and weights by template."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ...pages import frame
from ...pages.charts import heat_map
from ...pages.weights import GROUPS, Group, weights_of

if TYPE_CHECKING:
    from ...evaluation.weights import TemplateWeights
    from ...types import Floats


class Top(NamedTuple):
    """The largest weights of a model.

    by_label (bool): Whether a group is a label; else it is a template.
    transitions (Floats | None): From the label of the row to that of the column, with another row for the start and
        another column for the end if these are learned; nan where there is none. None for a single label or template.
    templates (list[TemplateWeights]): Empty for a single label or template.
    """

    model: str
    component: str
    groups: list[Group]
    by_label: bool
    labels: list[str]
    transitions: Floats | None
    templates: list[TemplateWeights]
    has_texts: bool

    @property
    def steps(self) -> tuple[list[str], list[str]]:
        """The names of the rows and columns of `transitions`."""
        size = 0 if self.transitions is None else len(self.transitions)
        return [*self.labels, "start"][:size], [*self.labels, "end"][:size]

    def advice(self) -> str:
        """Return how many features have no name and what to do, or an empty string if all have one."""
        weights = [one for group in self.groups for one in (*group.positive, *group.negative)]
        nameless = sum(not one.known for one in weights)
        if not nameless:
            return ""
        what = "Give texts in which they occur, such as the training corpus, with --texts"
        if self.has_texts:
            what = "They do not occur in the texts given: give the training corpus with --texts"
        return (
            f"{nameless:,} of the {len(weights):,} weights shown have no name: the model keeps those of its largest "
            f"weights. {what}, or train with keep_names = true."
        )

    def to_json(self) -> dict[str, Any]:
        """Return lists and dictionaries that JSON can hold."""
        steps = None
        if self.transitions is not None:
            before, after = self.steps
            steps = {
                name: {other: value for other, value in zip(after, row, strict=True) if value == value}
                for name, row in zip(before, self.transitions.tolist(), strict=True)
            }
        signs = ("positive", "negative")
        weights = {
            group.title: {sign: [one._asdict() for one in getattr(group, sign)] for sign in signs}
            for group in self.groups
        }
        templates = [one._asdict() for one in self.templates]
        names = {"model": self.model, "component": self.component}
        return {**names, "weights": weights, "transitions": steps, "templates": templates}


def template_cells(row: TemplateWeights) -> tuple[str, ...]:
    """Return a template and its counts as the cells of a table."""
    name = GROUPS.get(row.kind, row.template) + (" (with the label before)" if row.kind == "bigram" else "")
    return name, *(f"{n:,}" for n in row[2:5]), f"{100 * row.density:.1f}", f"{row.squares:,.1f}"


def top_page(found: Top) -> str:
    """Return the page as HTML."""
    parts = []
    if found.transitions is not None:
        chart = heat_map(*found.steps, found.transitions, diverging=True, row="from", column="to")
        about = "What the transition from the label of the row to that of the column adds to the score."
        parts.append(frame.section("Transitions", chart, about))
    if found.templates:
        header = ("template", "features", "weights", "nonzero", "%", "sum of squares")
        table = frame.table(header, [template_cells(row) for row in found.templates], range(1, 6))
        about = "How many features each template has in the model, and how many of their weights are not zero."
        parts.append(frame.section("Weights by template", table, about))
    parts += [frame.section(one.title, weights_of(one, with_label=not found.by_label)) for one in found.groups]
    about = f"{found.model}. {found.advice()}".strip()
    return frame.page(f"The largest weights of {found.component}", "".join(parts), about=about)
