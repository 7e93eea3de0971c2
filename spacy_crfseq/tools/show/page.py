"""The page of ``crfseq show``: texts with predicted spans, shaded by probability."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from ...evaluation.judged import Tokens
from ...pages import frame
from ...pages.marks import STYLE, Marker, TextStyle, article, rounded


class Entry(NamedTuple):
    """A text, its predicted spans (start, end, label, probability), and the probability of the whole labelling."""

    number: int
    tokens: Tokens
    spans: Sequence[tuple[int, int, str, float]]
    probability: float


def show_page(model: str, component: str, entries: Sequence[Entry], style: TextStyle, unit: str = "text") -> str:
    """Return the page as HTML."""
    counts = Counter(label for entry in entries for _, _, label, _ in entry.spans)
    marker = Marker(counts, style)
    articles = (
        article(
            frame.Markup(f"{unit} {entry.number}, probability {rounded(entry.probability)}"),
            marker.marked(entry.tokens, entry.spans),
        )
        for entry in entries
    )
    return frame.page(
        f"Predictions of {component} and their probabilities",
        "\n".join([marker.key(counts), *articles]),
        about=f"{model}: {len(entries):,} texts, {sum(counts.values()):,} predictions. The stronger the colour, "
        "the more probable. Beside a label: the probability of exactly this span and label; above a text: that of "
        "the whole labelling.",
        lang=style.lang,
        direction=style.direction,
        style=STYLE + "body { max-width: 52rem; }\n",
    )
