"""The page of ``crfseq compare``: differences with their intervals, and texts that two pipelines label differently."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..pages import charts, frame
from ..pages.charts import Bar
from ..pages.frame import Markup
from ..schemes import Span
from ._findings import part_of
from ._marks import STYLE, Marker, article, side
from .compare import Change, Compared, Comparison, Line, line_cells, only_words

if TYPE_CHECKING:
    from spacy.language import Language


def compare_page(
    models: tuple[str, str], file: str, done: Compared, n_shown: int, n_samples: int, nlp: Language
) -> str:
    """Return the page as HTML."""
    doubts = "".join(f"<p><strong>{frame.text(f'Mind: {doubt}')}</strong></p>" for doubt in done.doubts)
    direction = nlp.vocab.writing_system.get("direction", "ltr")
    return frame.page(
        "Two pipelines compared",
        doubts + "".join(_component(one, n_shown, direction) for one in done.components),
        about=f"A is {models[0]}, B is {models[1]}, on {file}: {done.components[0].texts:,} texts. Scores are in "
        f"per cent, intervals are the middle 95 % of {n_samples:,} samples of the texts; p tells how often chance "
        "alone makes a difference as large (paired bootstrap, Berg-Kirkpatrick et al. 2012, both directions; not "
        "corrected for the number of labels).",
        lang=nlp.lang or "",
        direction=direction,
        style=STYLE,
    )


def _component(one: Comparison, n_shown: int, direction: str) -> str:
    few = [(label, f"{one.gold[label]:,}", one.labels[label]) for label in one.frequent()]
    rows = [(f"{one.score}, all", "", one.whole), *few]
    table = frame.table(
        ("", "Gold", "A", "B", "B \u2212 A", "95 %", "p"),
        [(name, n, *_cells(line)) for name, n, line in rows],
        range(1, 7),
    )
    bars = [_bar(name, line) for name, _, line in rows]
    more = len(one.labels) - len(few)
    caption = "B less A, in points" + (f"; {more} rarer labels are left out" if more else "")
    cells = _cells(one.whole)
    parts = [
        frame.facts(
            [
                (f"{one.score} of A", cells[0]),
                (f"{one.score} of B", cells[1]),
                ("Difference", *cells[2:4]),
                ("p", cells[4]),
            ]
        ),
        frame.figure(charts.bar_chart(bars, unit="points"), caption),
        table,
        Markup(f"<p>{frame.text(only_words(one))}</p>"),
    ]
    body = frame.section(one.name, "".join(parts))
    for title, changes in (("better", one.better), ("worse", one.worse)):
        if changes[:n_shown]:
            how_many = f"{len(changes):,} of {one.texts:,} texts, the largest changes first"
            about = f"{how_many}. What they do not agree on is marked."
            texts = _texts(changes[:n_shown], direction)
            body = Markup(body + frame.section(f"{one.name}: {title} in B", texts, about))
    return body


def _cells(line: Line) -> list[str]:
    return [cell.replace("-", "\u2212") for cell in line_cells(line)]


def _bar(name: str, line: Line) -> Bar:
    value, low, high = (round(100 * v, 2) for v in (line.difference, line.low, line.high))
    return Bar(name, value, None, low, high) if np.isfinite(low) else Bar(name, value)


def _texts(changes: Sequence[Change], direction: str) -> str:
    articles: list[tuple[Change, list[tuple[str, list[Span]]]]] = [(c, list(_sides(c))) for c in changes]
    counts = Counter(span.label for _, sides in articles for _, spans in sides for span in spans)
    marker = Marker(counts, direction)
    return "".join(_article(marker, change, sides) for change, sides in articles)


def _sides(change: Change) -> Iterator[tuple[str, list[Span]]]:
    for name, spans in (("gold", change.gold), ("A", change.first), ("B", change.second)):
        yield name, [span for span in spans if span in change.odd]


def _article(marker: Marker, change: Change, sides: Sequence[tuple[str, list[Span]]]) -> Markup:
    begin, doc = part_of(change.doc, 0, len(change.doc), min(span.start for span in change.odd))
    what = f"{abs(change.fewer)} {'fewer' if change.fewer > 0 else 'more'} mistakes"
    marked = [
        side(
            name,
            marker.marked(
                doc,
                [
                    (span.start - begin, span.end - begin, span.label, None)
                    for span in spans
                    if span.start >= begin and span.end <= begin + len(doc)
                ],
            ),
        )
        for name, spans in sides
    ]
    return article(f"text {change.number:,}, {what}", *marked)
