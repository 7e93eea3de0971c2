"""Figures as SVG files that are the same for the same results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

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
