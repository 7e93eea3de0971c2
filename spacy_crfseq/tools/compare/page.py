"""The page of ``crfseq compare``: differences with their intervals, and texts that two pipelines label differently."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from ...evaluation.judged import moved, shown_part, within
from ...pages import charts, frame
from ...pages.charts import Bar
from ...pages.frame import Markup
from ...pages.marks import STYLE, Marker, TextStyle, article, side
from .comparison import Change, Comparison, Line


def compare_page(
    about: tuple[str, str, str],
    components: Sequence[Comparison],
    doubts: Sequence[str],
    style: TextStyle,
    *,
    n_shown: int,
    n_samples: int,
) -> str:
    """Return the page as HTML."""
    first, second, file = about
    warned = "".join(f"<p><strong>{frame.text(f'Warning: {doubt}')}</strong></p>" for doubt in doubts)
    return frame.page(
        "Two pipelines compared",
        warned + "".join(_component(one, n_shown, style) for one in components),
        about=f"A is {first}, B is {second}, on {file}: {components[0].texts:,} texts. Scores "
        f"are in per cent; intervals are the middle 95 % of {n_samples:,} samples of the texts. p is the probability "
        "of a difference at least as large by chance (paired bootstrap, Berg-Kirkpatrick et al. 2012, two-sided, not "
        "corrected for the number of labels).",
        lang=style.lang,
        direction=style.direction,
        style=STYLE,
    )


def _component(one: Comparison, n_shown: int, style: TextStyle) -> str:
    rows = one.rows()
    cells = [[cell.replace("-", "\u2212") for cell in line.cells()] for _, _, line in rows]
    more = len(one.labels) + 1 - len(rows)
    caption = "B minus A, in points" + (f"; {more} rarer labels are left out" if more else "")
    a, b, *change, p = cells[0]
    parts = [
        frame.facts([(f"{one.score} of A", a), (f"{one.score} of B", b), ("Difference", *change), ("p", p)]),
        frame.figure(charts.bar_chart([_bar(name, line) for name, _, line in rows], unit="points"), caption),
        frame.table(
            ("", "Gold", "A", "B", "B \u2212 A", "95 %", "p"),
            [(name, n, *row) for (name, n, _), row in zip(rows, cells, strict=True)],
            range(1, 7),
        ),
        Markup(f"<p>{frame.text(one.in_words())}</p>"),
    ]
    body = frame.section(one.name, "".join(parts))
    for title, how_many, changes in one.changes(n_shown):
        about = f"{how_many}. Spans on which they disagree are marked."
        marker = Marker(Counter(span.label for change in changes for span in change.odd), style)
        texts = "".join(_article(marker, change) for change in changes)
        body = Markup(body + frame.section(f"{one.name}: {title} in B", texts, about))
    return body


def _bar(name: str, line: Line) -> Bar:
    value, low, high = (round(100 * v, 2) for v in (line.difference, line.low, line.high))
    return Bar(name, value, None, low, high) if np.isfinite(low) else Bar(name, value)


def _article(marker: Marker, change: Change) -> Markup:
    begin, end = shown_part(0, len(change.tokens.words), min(span.start for span in change.odd))
    what = f"{abs(change.fewer)} {'fewer' if change.fewer > 0 else 'more'} mistakes"
    tokens = change.tokens.part(begin, end)
    sides = [
        side(name, marker.marked(tokens, [(*moved(span, begin), None) for span in within(spans, begin, end)]))
        for name, spans in change.sides()
    ]
    return article(f"text {change.number:,}, {what}", *sides)
