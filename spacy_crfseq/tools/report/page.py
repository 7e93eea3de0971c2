"""The charts on the page of ``crfseq report``, and how much they show; `page.html` has the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._pages.html import Markup, heat_map
from . import EXAMPLES as EXAMPLES
from . import Findings, Sentence
from .errors import BOTH, BOUNDARY, LABEL, MISSED, NOTHING, RIGHT, SPURIOUS

MOST_LABELS = 30
"""Number of labels in a chart or a table."""
MOST_TEMPLATES = 40
MOST_CONFUSIONS = 12
MOST_BESIDE = 20
"""Heat maps with at most this many columns share a row with something else."""
KIND_WORDS = {
    RIGHT: "right", LABEL: "wrong label", BOUNDARY: "wrong boundary", BOTH: "both wrong", MISSED: "missed",
    SPURIOUS: "spurious",
}  # fmt: skip


def confusion_maps(found: Findings) -> tuple[list[tuple[Markup, str]], bool]:
    """Return heat maps of spans and tags, with captions, and whether the first leaves space for a list next to it."""
    maps, plain, anchors = [], found.unit != "spans", found.anchors
    if not plain:
        labels = [*found.labels, NOTHING]
        counts = {(a, b): n for a, b, n in found.confusions}
        # spans with the right label and wrong boundaries count as right here
        counts |= {(a, a): row.right + found.kinds.get(a, {}).get(BOUNDARY, 0) for a, row in found.labels.items()}
        table = np.array([[counts.get((a, b), 0) for b in labels] for a in labels])
        maps.append((_confusion_map(labels, table, anchors), "Of spans"))
    table = found.tag_confusion
    kept = _strongest(table.sum(0) + table.sum(1) - 2 * np.diag(table))
    left_out = len(found.tags) - len(kept)
    caption = "Of the tags of tokens" + (f", without {left_out} that are confused less often" if left_out else "")
    tags = [found.tags[i] for i in kept]
    maps.append((_confusion_map(tags, table[np.ix_(kept, kept)], anchors if plain else {}), caption))
    return maps, not plain or len(kept) <= MOST_BESIDE


def _strongest(strength: NDArray[Any]) -> list[int]:
    return sorted(np.argsort(-strength, kind="stable")[:MOST_LABELS].tolist())


def _confusion_map(labels: Sequence[str], table: NDArray[np.int64], anchors: Mapping[tuple[str, str], str]) -> Markup:
    names, colors = [label or "nothing" for label in labels], table.astype(np.float64)
    np.fill_diagonal(colors, np.nan)
    shown = [[f"{n:,}" if n else "" for n in row] for row in table.tolist()]
    pairs = {(i, j): (a, b) for i, a in enumerate(labels) for j, b in enumerate(labels)}
    links = {place: anchors[pair] for place, pair in pairs.items() if pair in anchors}
    how = {"row": "gold", "column": "predicted", "shown": shown, "links": links}
    drawn: Markup = heat_map(names, names, colors.tolist(), diverging=False, **how)
    return drawn


def transition_map(found: Findings) -> tuple[Markup, int]:
    """Return a heat map of the transitions between the labels with the largest, and how many labels it leaves out."""
    tags, weights = found.transitions
    size = np.abs(weights[:-1, :-1])
    kept = _strongest(np.nansum(size, axis=0) + np.nansum(size, axis=1))
    around, few = [*kept, len(tags)], [tags[i] for i in kept]
    table = weights[np.ix_(around, around)].tolist()
    drawn = heat_map([*few, "start"], [*few, "end"], table, diverging=True, row="from", column="to")
    return drawn, len(tags) - len(kept)


def label_counts(sentences: Sequence[Sentence]) -> dict[str, int]:
    """Return how often each label is marked in sentences."""
    labels = [span.label for one in sentences for span in (*one.gold, *(span for span, _ in one.found))]
    return {label: labels.count(label) for label in set(labels)}
