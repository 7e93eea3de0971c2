"""``crfseq top``: the largest weights of a model by label and by template, its transitions, and what templates hold."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
import spacy
import typer
from tqdm import tqdm
from wasabi.tables import table as text_table

from ..errors import ConfigError, suggest
from ..files import replacing
from ._app import crfseq_cli
from ._components import one_crf_of, run_between
from ._console import CodeOption, cut, cut_name, load_code, printer, reported_errors
from ._outputs import check_output_file
from ._texts import FORMAT_HELP, read_texts

if TYPE_CHECKING:
    from spacy.language import Language

    from ..evaluation.weights import TemplateWeights, Weight
    from ..pipeline.component import CRFComponent
    from ..pipeline.feature_names import BothActive
    from ..types import Floats

SHOWN, ON_PAGE = 5, 15
"""Weights of each sign in the terminal and on a page."""
CELL = 7
"""Width of a transition in the terminal."""
BATCH = 100
"""Texts that are read at a time."""
NAMELESS = "(no name)"
"""Stands behind the template of an attribute whose name is not known."""


@crfseq_cli.command("top")
def top_cli(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Folder or package name of a trained pipeline")],
    component: Annotated[
        str | None, typer.Option("--component", "-p", help="CRF component to look into [the only one]")
    ] = None,
    label: Annotated[
        str | None, typer.Option("--label", "-l", help="Weights of this label only: a tag, or a type with all its tags")
    ] = None,
    template: Annotated[
        str | None, typer.Option("--template", "-t", help='Weights of this template only, such as "LOWER[-1]"')
    ] = None,
    number: Annotated[
        int | None, typer.Option("--number", "-n", min=1, help=f"Weights of each sign [{SHOWN}; on a page {ON_PAGE}]")
    ] = None,
    texts: Annotated[
        Path | None, typer.Option(help="File of texts to find names of attributes in, such as the training corpus")
    ] = None,
    format_: Annotated[str | None, typer.Option("--format", "-f", help=FORMAT_HELP)] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="HTML file to write instead")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON")] = False,
    code: CodeOption = None,
) -> None:
    """Show the largest weights of each label, the transitions, and what each template holds.

    A model stores hashes. Names come from the model if it was trained with keep_names = true; otherwise from the words
    that the pipeline knows, and those of features over several tokens from the --texts given.

    \b
    Example:
      python -m spacy crfseq top training/model-best --component crf_ner
      python -m spacy crfseq top training/model-best -p crf_ner --label LOC \\
          --number 10 --texts train.conll --format conll2003
      python -m spacy crfseq top training/model-best -p crf_tagger -o weights.html
    """
    with reported_errors():
        load_code(code)
        check_output_file(output, texts)
        shown = number or (SHOWN if output is None else ON_PAGE)
        found = top(
            model, component=component, label=label, template=template, number=shown, texts=texts, format_name=format_
        )
        if output is not None:
            write_page(output, found)
        if as_json:
            print(json.dumps(found.to_json(), indent=2, ensure_ascii=False))
            return
        if output is not None:
            printer().good(f"Saved {output}")
        else:
            print("\n".join(_lines(found)))
        if advice := found.advice():
            printer().info(advice)


class NamedWeight(NamedTuple):
    """A weight in words.

    before (str): The label before, of a feature of label pairs; else empty.
    attribute (str): Its name, such as ``LOWER[-1]=the``.
    known (bool): Whether the name has been found; else the template stands there, as far as that is known.
    """

    label: str
    before: str
    attribute: str
    known: bool
    weight: float


class Group(NamedTuple):
    """The largest weights of a label, or of a template.

    title (str): The label or template.
    positive, negative (list[NamedWeight]): Largest absolute value first.
    """

    title: str
    positive: list[NamedWeight]
    negative: list[NamedWeight]


class Top(NamedTuple):
    """What a model has learnt.

    groups (list[Group]): Of all labels, or of what was asked for.
    by_label (bool): Whether a group is a label; else it is a template.
    labels (list[str]): All labels.
    transitions (Floats | None): From the label of a row to that of a column; one more row for the start and one more
        column for the end, where the model learns their scores.  Nan for scores that are not learnt.  None where a part
        of the model was asked for.
    templates (list[TemplateWeights]): All templates; empty where a part of the model was asked for.
    has_texts (bool): Whether texts were given to find names in.
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
        """Return how many attributes have no name, and what to do; empty where all have one."""
        weights = [one for group in self.groups for one in (*group.positive, *group.negative)]
        nameless = sum(not one.known for one in weights)
        if not nameless:
            return ""
        what = (
            "They do not occur in the texts given: give the training corpus by --texts"
            if self.has_texts
            else "Give texts that have them, such as the training corpus, by --texts"
        )
        return (
            f"{nameless:,} of the {len(weights):,} weights shown have no name: the model holds hashes only. {what}, "
            "or train with keep_names = true."
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
        return {
            "model": self.model,
            "component": self.component,
            "weights": {
                group.title: {
                    sign: [one._asdict() for one in getattr(group, sign)] for sign in ("positive", "negative")
                }
                for group in self.groups
            },
            "transitions": steps,
            "templates": [one._asdict() for one in self.templates],
        }


def top(
    model: str | Path,
    *,
    component: str | None = None,
    label: str | None = None,
    template: str | None = None,
    number: int = SHOWN,
    texts: Path | None = None,
    format_name: str | None = None,
) -> Top:
    """Return the largest weights of a pipeline's CRF, `number` of each sign in each group.

    label (str | None): A tag, or a type for all its tags; None for all labels.
    template (str | None): A template; weights of all labels are then in one group.
    texts (Path | None): File to find names of attributes in, as `read_texts` has it.
    RAISES CrfError: If there is no such component, label or template, or the file cannot be read.
    """
    from ..evaluation.weights import entries, largest_weights, weights_by_template
    from ..pipeline.labels import numbers_of

    nlp = spacy.load(model)
    name, pipe = one_crf_of(nlp, component, str(model))
    crf = pipe.crf
    tags = list(pipe.tags)
    chosen = list(range(len(tags))) if label is None else numbers_of([label], pipe.annotation, tags)
    weights = entries(crf)
    if template is None:
        found = [(tags[one], largest_weights(crf, number, labels=[one], weights=weights)) for one in chosen]
    else:
        labels = None if label is None else chosen
        found = [
            (title, largest_weights(crf, number, labels=labels, template=place, weights=weights))
            for title, place in _templates_of(pipe, template)
        ]
    shown = [one for _, signs in found for sign in signs for one in sign]
    names = _names(nlp, name, pipe, shown, texts, format_name)

    def named(sign: list[Weight]) -> list[NamedWeight]:
        return [NamedWeight(tags[w.label], tags[w.before] if w.block else "", *names[w[:2]], w.weight) for w in sign]

    groups = [Group(title, named(positive), named(negative)) for title, (positive, negative) in found]
    whole = label is None and template is None
    rows = weights_by_template(crf, pipe.method.features.plans()) if whole else []
    steps = _transitions(pipe) if whole else None
    return Top(str(model), name, groups, template is None, tags, steps, rows, texts is not None)


def _templates_of(pipe: CRFComponent, text: str) -> list[tuple[str, tuple[int, int]]]:
    """Return the templates that a text names, windows opened: title, block and place in its list."""
    from ..features.attributes import BUILT_IN
    from ..features.templates import parse

    features = pipe.method.features
    plans = features.plans()
    known = {part.attribute for plan in plans for one in plan.templates for part in one.parts}
    if pipe.crf.templates is None:
        raise ConfigError(
            f"--template {text}: this model was stored without the templates of its attributes, by an earlier release. "
            "Train it again."
        )
    places = {
        (block, one.name): (block, number)
        for block, plan in enumerate(plans)
        for number, one in enumerate(plan.templates)
    }
    names = [one.name for one in parse([text], known | BUILT_IN)]
    missing = [name for name in names if not any((block, name) in places for block in (0, 1))]
    if missing:
        raise ConfigError(
            f"--template {text}: the model has no template {missing[0]!r}. "
            f"{suggest(missing[0], {name for _, name in places})}"
        )
    return [(name, places[block, name]) for name in names for block in (0, 1) if (block, name) in places]


def _names(
    nlp: Language,
    component: str,
    pipe: CRFComponent,
    weights: Sequence[Weight],
    texts: Path | None,
    format_name: str | None,
) -> dict[tuple[int, int], tuple[str, bool]]:
    """Return the names of the attributes of some weights, by block and number, and whether they have been found."""
    crf, needed = pipe.crf, {w[:2] for w in weights}
    if pipe.doc_model.attribute_names:
        sizes = 0, len(crf.keys[0])
        return {
            (block, number): (pipe.doc_model.attribute_names[sizes[block] + number], True) for block, number in needed
        }
    names = {one: (_nameless(pipe, *one), False) for one in needed}
    wanted = tuple(np.zeros(len(keys), np.bool_) for keys in crf.keys)
    for block, number in needed:
        wanted[block][number] = True
    reader = pipe.doc_model.attribute_reader()

    def sources() -> Iterator[BothActive]:
        yield from reader.active_strings()
        if texts is not None:
            for batch in _batches(nlp, component, texts, format_name):
                yield reader.active(batch)

    for block, number, name in reader.find(sources(), (wanted[0], wanted[1])):
        names[block, number] = name, True
    return names


def _nameless(pipe: CRFComponent, block: int, number: int) -> str:
    templates = pipe.crf.templates
    if templates is None:
        return NAMELESS
    return f"{pipe.method.features.plans()[block].templates[templates[block][number]].name} {NAMELESS}"


def _batches(nlp: Language, component: str, texts: Path, format_name: str | None) -> Iterator[list[Any]]:
    docs = (text.doc for text in read_texts(nlp, texts, format_name))
    with tqdm(unit=" texts", disable=None, leave=False, delay=2, desc=f"Names from {texts.name}") as bar:
        while batch := list(islice(docs, BATCH)):
            yield run_between(nlp, batch, None, component)
            bar.update(len(batch))


def _transitions(pipe: CRFComponent) -> Floats:
    crf = pipe.crf
    n, views, steps = crf.layout.n_labels, crf.views, crf.layout.steps
    inner = np.where(True if steps is None else steps, views.transitions, np.nan).astype(np.float64)
    if not crf.layout.boundaries:
        return inner
    out = np.full((n + 1, n + 1), np.nan)
    out[:n, :n], out[n, :n], out[:n, n] = inner, views.start, views.end
    return out


# The terminal


def _lines(found: Top) -> list[str]:
    """Return what is shown, no wider than the terminal; in full where it goes elsewhere."""
    wide = get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
    lines: list[str] = []
    for group in found.groups:
        lines += ["", group.title]
        lines += _pairs(group, wide, with_label=not found.by_label)
    if found.transitions is not None:
        lines += ["", "Transitions, from the label of the row to that of the column", ""]
        lines += _transition_lines(found, wide)
    if found.templates:
        lines += ["", "Weights by template", "", *_template_lines(found.templates, wide)]
    return [*lines, ""]


def _pairs(group: Group, wide: int, *, with_label: bool) -> list[str]:
    """Return positive and negative weights side by side."""
    left, right = ([_words(one, with_label) for one in side] for side in (group.positive, group.negative))
    if not left and not right:
        return ["  no weight other than zero"]
    room = min(max(map(len, [*left, *right])), max(16, (wide - 2 * 12) // 2))
    lines = []
    for i in range(max(len(left), len(right))):
        cells = []
        for side, words in ((group.positive, left), (group.negative, right)):
            if i < len(words):
                cells.append(f"{side[i].weight:+8.3f}  {cut_name(words[i], room):{room}}")
            else:
                cells.append(" " * (10 + room))
        lines.append("  ".join(cells).rstrip())
    return lines


def _words(one: NamedWeight, with_label: bool) -> str:
    label = f"{one.before} -> {one.label}" if one.before else one.label
    return f"{one.attribute}  {label}".lstrip() if with_label or one.before else one.attribute


def _transition_lines(found: Top, wide: int) -> list[str]:
    assert found.transitions is not None
    names = found.steps
    margin = max(map(len, names[0]))
    if margin + (CELL + 1) * len(names[1]) <= min(wide, 200):
        header = " " * margin + "".join(f" {cut(name, CELL):>{CELL}}" for name in names[1])
        rows = [
            f"{name:{margin}}" + "".join(f" {_cell(value):>{CELL}}" for value in row)
            for name, row in zip(names[0], found.transitions.tolist(), strict=True)
        ]
        return [header, *rows]
    order = np.argsort(-np.abs(np.nan_to_num(found.transitions)).ravel(), kind="stable")
    places = np.stack(np.unravel_index(order, found.transitions.shape), axis=1).tolist()
    all_of = [NamedWeight(names[1][j], names[0][i], "", True, float(found.transitions[i, j])) for i, j in places]
    best = [[one for one in all_of if sign * one.weight > 0][: 4 * SHOWN] for sign in (1, -1)]
    lines = _pairs(Group("", *best), wide, with_label=False)
    return [*lines, "", "  The largest; a page has them all: --output page.html"]


def _cell(value: float) -> str:
    return "." if value != value else f"{value:.2f}"


def _template_lines(rows: Sequence[TemplateWeights], wide: int) -> list[str]:
    header = ("template", "attributes", "weights", "nonzero", "%", "squares")
    data = [_template_cells(row) for row in rows]
    room = max(20, wide - sum(max(len(row[i]) for row in [header, *data]) + 2 for i in range(1, 6)))
    cells = [(cut(row[0], room), *row[1:]) for row in data]
    shown = text_table(cells, header=header, aligns=("l", *"rrrrr"), divider=True, spacing=2, max_col=10**6)
    return str(shown).strip("\n").split("\n")


def _template_cells(row: TemplateWeights) -> tuple[str, ...]:
    name = {"transitions": "(transitions)", "boundaries": "(start and end)"}.get(row.kind, row.template)
    return (
        f"{name} (with the label before)" if row.kind == "pair" else name,
        f"{row.attributes:,}",
        f"{row.weights:,}",
        f"{row.nonzero:,}",
        f"{100 * row.density:.1f}",
        f"{row.squares:,.1f}",
    )


# The page


def write_page(output: Path, found: Top) -> None:
    """Write a page with the weights."""
    with replacing(output) as temporary:
        temporary.write_text(page(found), encoding="utf8")


def page(found: Top) -> str:
    """Return the page as HTML."""
    from ..pages import frame
    from ..pages.charts import heat_map

    parts = []
    if found.transitions is not None:
        chart = heat_map(*found.steps, found.transitions, diverging=True, row="from", column="to")
        about = "What a step from the label of the row to that of the column adds to the score."
        parts.append(frame.section("Transitions", chart, about))
    if found.templates:
        header = ("template", "attributes", "weights", "nonzero", "%", "sum of squares")
        parts.append(
            frame.section(
                "Weights by template",
                frame.table(header, [_template_cells(row) for row in found.templates], range(1, 6)),
                "How many values each template has in the model, and what is left of their weights.",
            )
        )
    for group in found.groups:
        sides = [
            _side(title, side, with_label=not found.by_label)
            for title, side in (("for", group.positive), ("against", group.negative))
        ]
        parts.append(frame.section(group.title, frame.columns(*sides)))
    about = f"{found.model}: the largest weights of its features. {found.advice()}".strip()
    return frame.page(f"What {found.component} has learnt", "".join(parts), about=about)


def _side(title: str, weights: Iterable[NamedWeight], *, with_label: bool) -> str:
    from ..pages.frame import table

    rows = [(f"{one.weight:+.3f}", _words(one, with_label)) for one in weights]
    return table(("weight", title), rows, (0,))
