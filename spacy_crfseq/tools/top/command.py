"""``crfseq top``: the largest weights of a model by label or template, its transitions, and weights by template."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from spacy.util import minibatch
from tqdm import tqdm
from wasabi.tables import table as text_table

from ...corpora.layouts import Asked, Format
from ...corpora.outputs import check_output_file
from ...errors import ConfigError, suggest
from ...files import write_text
from ...pipeline.select import load_pipeline, one_crf_of, run_between
from ...cli import options
from ...cli.app import crfseq_cli
from ...cli.console import cut, cut_name, printer, reported_errors
from ...cli.judging import read_file

if TYPE_CHECKING:
    from spacy.language import Language

    from ...evaluation.weights import TemplateWeights, Weight
    from .page import Group, NamedWeight, Top
    from ...pipeline.component import CRFComponent
    from ...pipeline.feature_names import BothActive
    from ...pipeline.texts import Text
    from ...types import Floats

SHOWN, ON_PAGE = 5, 15
"""Number of weights of each sign in the terminal and on a page."""
CELL = 7
"""Width of a transition in the terminal."""
BATCH = 100
"""Number of texts read at a time."""
NAMELESS = "(no name)"
"""Follows the template of a feature whose name is not known."""


@crfseq_cli.command("top")
def top_cli(
    model: options.Model,
    component: Annotated[
        str | None, typer.Option("--component", "-p", help="CRF component to show [the only one]")
    ] = None,
    label: Annotated[
        str | None, typer.Option("--label", "-l", help="Only weights of this label: a tag, or a type with all its tags")
    ] = None,
    template: Annotated[
        str | None, typer.Option("--template", "-t", help='Only weights of this template, such as "LOWER[-1]"')
    ] = None,
    number: Annotated[int | None, options.number(f"Weights of each sign [{SHOWN}; on a page {ON_PAGE}]")] = None,
    texts: Annotated[
        Path | None, typer.Option(help="File of texts in which to find names of features, such as the training corpus")
    ] = None,
    format_: options.TextFormat = None,
    columns: options.Columns = None,
    scheme: options.Scheme = None,
    encoding: options.Encoding = None,
    output: options.PageInstead = None,
    as_json: options.AsJson = False,
    code: options.Code = None,
) -> None:
    """Show the largest weights of each label, the transitions, and the number of weights of each template.

    A model stores its features as hashes, and the names of those with the largest weights, or of all of them if it was
    trained with keep_names = true. Other names are found in the vocabulary of the pipeline and in the --texts given.

    \b
    Example:
      python -m spacy crfseq top training/model-best --component crf_ner
      python -m spacy crfseq top training/model-best -p crf_ner --label LOC \\
          --number 10 --texts train.conll --format conll2003
      python -m spacy crfseq top training/model-best -p crf_tagger -o weights.html
    """
    said = Asked(format_, columns, scheme, encoding)
    with reported_errors(code=code):
        check_output_file(output, texts)
        shown = number or (SHOWN if output is None else ON_PAGE)
        found = top(
            model, component=component, label=label, template=template, number=shown, texts=texts, format_name=said
        )
        if output is not None:
            from .page import top_page

            write_text(output, top_page(found))
        if as_json:
            print(json.dumps(found.to_json(), indent=2, ensure_ascii=False))
            return
        if output is not None:
            printer().good(f"Saved {output}")
        else:
            print("\n".join(_lines(found)))
        if advice := found.advice():
            printer().info(advice)


def top(
    model: str | Path,
    *,
    component: str | None = None,
    label: str | None = None,
    template: str | None = None,
    number: int = SHOWN,
    texts: Path | None = None,
    format_name: Format = None,
) -> Top:
    """Return the largest weights of a pipeline's CRF, `number` of each sign in each group.

    RAISES CrfError: If there is no such component, label or template, or the file cannot be read.
    """
    from ...evaluation.weights import entries, largest_weights, weights_by_template
    from .page import Top
    from ...pipeline.labels import numbers_of

    nlp = load_pipeline(model)
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
    groups = _named(nlp, name, found, texts, format_name)
    whole = label is None and template is None
    rows = weights_by_template(crf, pipe.doc_model.features.plans()) if whole else []
    steps = _transitions(pipe) if whole else None
    return Top(str(model), name, groups, template is None, tags, steps, rows, texts is not None)


def label_groups(nlp: Language, component: str, number: int) -> list[Group]:
    """Return the largest weights of each label of a CRF, `number` of each sign."""
    from ...evaluation.weights import entries, largest_weights

    pipe: Any = nlp.get_pipe(component)
    weights = entries(pipe.crf)
    each = enumerate(pipe.tags)
    found = [(tag, largest_weights(pipe.crf, number, labels=[one], weights=weights)) for one, tag in each]
    return _named(nlp, component, found, None, None)


def _named(
    nlp: Language,
    component: str,
    found: Sequence[tuple[str, tuple[list[Weight], list[Weight]]]],
    texts: Path | None,
    format_name: Format,
) -> list[Group]:
    """Return groups of weights with the names of their features."""
    from .page import Group, NamedWeight

    pipe: Any = nlp.get_pipe(component)
    shown = [one for _, signs in found for sign in signs for one in sign]
    names, tags = _names(nlp, component, shown, texts, format_name), pipe.tags

    def named(sign: list[Weight]) -> list[NamedWeight]:
        return [NamedWeight(tags[w.label], tags[w.before] if w.block else "", *names[w[:2]], w.weight) for w in sign]

    return [Group(title, named(positive), named(negative)) for title, (positive, negative) in found]


def _templates_of(pipe: CRFComponent, text: str) -> list[tuple[str, tuple[int, int]]]:
    from ...features.attributes import BUILT_IN
    from ...features.templates import parse

    plans = pipe.doc_model.features.plans()
    known = {part.attribute for plan in plans for one in plan.templates for part in one.parts}
    if pipe.crf.templates is None:
        raise ConfigError(
            f"--template {text}: this model was stored without the templates of its attributes, by an earlier release. "
            "Train it again."
        )
    each = ((block, number, one.name) for block, plan in enumerate(plans) for number, one in enumerate(plan.templates))
    places = {(block, name): (block, number) for block, number, name in each}
    names = [one.name for one in parse([text], known | BUILT_IN)]
    missing = [name for name in names if not any((block, name) in places for block in (0, 1))]
    if missing:
        raise ConfigError(
            f"--template {text}: the model has no template {missing[0]!r}. "
            f"{suggest(missing[0], {name for _, name in places})}"
        )
    return [(name, places[block, name]) for name in names for block in (0, 1) if (block, name) in places]


def _names(
    nlp: Language, component: str, weights: Sequence[Weight], texts: Path | None, format_name: Format
) -> dict[tuple[int, int], tuple[str, bool]]:
    given = None if texts is None else read_file(nlp, texts, format_name)  # a wrong name is an error, needed or not
    pipe: Any = nlp.get_pipe(component)
    keys, needed = pipe.crf.keys, {w[:2] for w in weights}
    if known := pipe.doc_model.feature_names:
        return {(block, number): (known[block * len(keys[0]) + number], True) for block, number in needed}
    names = dict.fromkeys(needed, (NAMELESS, False))
    if (templates := pipe.crf.templates) is not None:
        plans = pipe.doc_model.features.plans()
        names = {(b, i): (f"{plans[b].templates[templates[b][i]].name} {NAMELESS}", False) for b, i in needed}
    wanted = np.zeros(len(keys[0]), np.bool_), np.zeros(len(keys[1]), np.bool_)
    largest = pipe.doc_model.largest_names()
    for block, number in needed:
        if name := largest[block].get(int(keys[block][number])):
            names[block, number] = name, True
        else:
            wanted[block][number] = True
    if not any(missing.any() for missing in wanted):
        return names
    reader = pipe.doc_model.feature_reader()

    def sources() -> Iterator[BothActive]:
        yield from reader.active_strings()
        if texts is not None and given is not None:
            for batch in _batches(nlp, component, given, texts.name):
                yield reader.active(batch)

    for block, number, name in reader.find(sources(), wanted):
        names[block, number] = name, True
    return names


def _batches(nlp: Language, component: str, texts: Iterator[Text], file: str) -> Iterator[list[Any]]:
    docs = (text.doc for text in texts)
    with tqdm(unit=" texts", disable=None, leave=False, delay=2, desc=f"Names from {file}") as bar:
        for batch in minibatch(docs, BATCH):
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


def _lines(found: Top) -> list[str]:
    wide = get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
    lines: list[str] = []
    for group in found.groups:
        lines += ["", group.title, *_side_by_side(group, wide, with_label=not found.by_label)]
    if found.transitions is not None:
        lines += ["", "Transitions, from the label of the row to that of the column", ""]
        lines += _transition_lines(*found.steps, found.transitions, wide)
    if found.templates:
        lines += ["", "Weights by template", "", *_template_lines(found.templates, wide)]
    return [*lines, ""]


def _side_by_side(group: Group, wide: int, *, with_label: bool) -> list[str]:
    words = [one.words(with_label) for one in (*group.positive, *group.negative)]
    if not words:
        return ["  no weight other than zero"]
    room = min(max(map(len, words)), max(16, (wide - 2 * 12) // 2))

    def cell(one: NamedWeight | None) -> str:
        return f"{one.weight:+8.3f}  {cut_name(one.words(with_label), room):{room}}" if one else " " * (10 + room)

    return ["  ".join(map(cell, pair)).rstrip() for pair in zip_longest(group.positive, group.negative)]


def _transition_lines(before: Sequence[str], after: Sequence[str], weights: Floats, wide: int) -> list[str]:
    from .page import Group, NamedWeight

    margin = max(map(len, before))
    if margin + (CELL + 1) * len(after) <= min(wide, 200):
        cells = [[cut(name, CELL) for name in after]]
        cells += [["." if value != value else f"{value:.2f}" for value in row] for row in weights.tolist()]
        rows = zip(["", *before], cells, strict=True)
        return [f"{name:{margin}}" + "".join(f" {cell:>{CELL}}" for cell in row) for name, row in rows]
    order = np.argsort(-np.abs(np.nan_to_num(weights)).ravel(), kind="stable")
    places = np.stack(np.unravel_index(order, weights.shape), axis=1).tolist()
    all_of = [NamedWeight(after[j], before[i], "", True, float(weights[i, j])) for i, j in places]
    best = [[one for one in all_of if sign * one.weight > 0][: 4 * SHOWN] for sign in (1, -1)]
    lines = _side_by_side(Group("", *best), wide, with_label=False)
    return [*lines, "", "  The largest ones; for all of them, write a page: --output page.html"]


def _template_lines(rows: Sequence[TemplateWeights], wide: int) -> list[str]:
    from .page import template_cells

    header = ("template", "features", "weights", "nonzero", "%", "squares")
    data = [template_cells(row) for row in rows]
    room = max(20, wide - sum(max(len(row[i]) for row in [header, *data]) + 2 for i in range(1, 6)))
    cells = [(cut(row[0], room), *row[1:]) for row in data]
    shown = text_table(cells, header=header, aligns=("l", *"rrrrr"), divider=True, spacing=2, max_col=10**6)
    return str(shown).strip("\n").split("\n")
