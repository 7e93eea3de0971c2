"""Figures as SVG files that are the same for the same results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from scripts.papers._harness import Results, say

COLOURS = ("#0b6e99", "#d1495b", "#4f772d", "#8d5a97", "#e09f3e", "#555555")
"""Distinct in print and for most eyes."""
STYLE = {
    "axes.edgecolor": "#888888",
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 10,
    "figure.facecolor": "white",
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "grid.color": "#e5e5e5",
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
    "savefig.bbox": "tight",
    "svg.fonttype": "none",
    "svg.hashsalt": "papers",
}

Draw = Callable[[Any, Results], bool]
FIGURES: dict[str, tuple[int, Draw]] = {}


def drawn(name: str, panels: int = 1) -> Callable[[Draw], Draw]:
    """Register a function that draws on axes (a list where there are several); it returns whether there was data."""

    def register(draw_one: Draw) -> Draw:
        FIGURES[name] = panels, draw_one
        return draw_one

    return register


@contextmanager
def _canvas(panels: int) -> Iterator[tuple[Any, Any]]:
    import matplotlib as mpl

    mpl.use("svg")
    from cycler import cycler
    from matplotlib import pyplot as plt

    with mpl.rc_context({**STYLE, "axes.prop_cycle": cycler(color=COLOURS)}):
        fig, axes = plt.subplots(1, panels, figsize=(4.2 * panels + 0.6, 3.2), layout="constrained")
        yield fig, axes
        plt.close(fig)


def draw_lines(
    axes: Any, lines: Mapping[str, Sequence[tuple[Any, Any]]], mark: str = "-", *, legend: bool = True, **settings: Any
) -> bool:
    """Draw a line through the points (x, y) of each name; return whether there is any.

    legend (bool): Name the lines, if there are several.
    settings: Labels and scales of the axes.
    """
    for name, points in lines.items():
        axes.plot([x for x, _ in points], [y for _, y in points], mark, label=name)
    axes.set(**settings)
    if legend and len(lines) > 1:
        axes.legend()
    return bool(lines)


def draw_maps(axes: Any, maps: Mapping[str, tuple[Mapping[str, str], str]], x: str, y: str, signed: str = "") -> bool:
    """Draw maps, a panel each, from their rows and the names of their columns; return whether there is any.

    x, y (str): What columns and rows are.
    signed (str): The title of the map whose values are drawn, not their sizes.
    """
    for panel, (title, (rows, columns)) in zip(axes, maps.items(), strict=False):
        _draw_map(panel, rows, columns, title, signed=title == signed)
        panel.set(xlabel=x, ylabel=y)
    return bool(maps)


def _draw_map(axes: Any, rows: Mapping[str, str], columns: str, title: str, *, signed: bool = False) -> None:
    """Draw a table of numbers as shades of grey: sizes, with negative numbers marked by a green dot.

    signed (bool): Draw values instead, from blue for negative numbers to red.
    """
    from scripts.papers.weights import expanded

    values = expanded(rows)
    most = float(np.abs(values).max()) or 1.0
    shades = {"cmap": "RdBu_r", "vmin": -most} if signed else {"cmap": "Greys", "vmin": 0}
    axes.imshow(values if signed else np.abs(values), aspect="auto", interpolation="none", vmax=most, **shades)
    if not signed:
        down, along = np.nonzero(values < 0)
        axes.plot(along, down, "s", color=COLOURS[2], markersize=2.5)
    axes.grid(visible=False)
    axes.set_xticks(range(len(columns)), list(columns), fontsize=min(9, 200 / len(columns)))
    axes.set_yticks(range(len(rows)), list(rows), fontsize=min(9, 170 / len(rows)))
    axes.set_title(title)


def draw(results: Results, folder: Path) -> None:
    """Write all figures for which there are results; say so where matplotlib is missing."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        say("matplotlib is not installed (pip install -e '.[papers]'): figures stay as they are")
        return
    for name, (panels, draw_one) in FIGURES.items():
        with _canvas(panels) as (fig, axes):
            if draw_one(axes, results):
                folder.mkdir(parents=True, exist_ok=True)
                fig.savefig(folder / f"{name}.svg", metadata={"Date": None, "Creator": None})
