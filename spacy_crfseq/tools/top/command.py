"""``crfseq top``: the largest weights of a model by label or template, its transitions, and weights by template."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from shutil import get_terminal_size

import numpy as np
from wasabi.tables import table as text_table

from ...cli import options
from ...cli.app import command
from ...cli.console import cut, cut_name, printer
from ...types import Floats
from .._pages.weights import Group, NamedWeight
from . import SHOWN, Top, top

CELL = 7
"""Width of a transition in the terminal."""


@command("top", "Look", "weights", calls=top)
def _print(found: Top, output: Path | None, as_json: options.AsJson = False) -> None:
    if as_json:
        print(json.dumps(found.to_json(), indent=2, ensure_ascii=False))
        return
    if output is not None:
        printer().good(f"Saved {output}")
    else:
        print("\n".join(_lines(found)))
    if advice := found.advice():
        printer().info(advice)


def _lines(found: Top) -> list[str]:
    wide = get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
    lines: list[str] = []
    for group in found.groups:
        lines += ["", group.title, *_side_by_side(group, wide, with_label=not found.by_label)]
    if found.transitions is not None:
        lines += ["", "Transitions, from the label of the row to that of the column", ""]
        lines += _transition_lines(*found.steps, found.transitions, wide)
    if found.templates:
        lines += ["", "Weights by template", "", *_template_lines(found.rows(), wide)]
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


def _template_lines(rows: Sequence[tuple[str, ...]], wide: int) -> list[str]:
    header = ("template", "features", "weights", "nonzero", "%", "squares")
    room = max(20, wide - sum(max(len(row[i]) for row in [header, *rows]) + 2 for i in range(1, 6)))
    cells = [(cut(row[0], room), *row[1:]) for row in rows]
    shown = text_table(cells, header=header, aligns=("l", *"rrrrr"), divider=True, spacing=2, max_col=10**6)
    return str(shown).strip("\n").split("\n")
