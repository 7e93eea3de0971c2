"""The results of a sweep as a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from .._pages.html import Series, columns, figure, line_chart, page, section, table
from .results import IMPORTANCE, Result, importance_rows, is_number, result_rows
from .search import Combination, varying


def make_page(
    component: str, file: str, results: Sequence[Result], skipped: Mapping[str, Sequence[Combination]]
) -> str:
    """Return a page with a table of results, what matters, and the scores by the time of training."""
    header, rows = result_rows(results)
    parts = [section("Results", table(header, rows, [1, *range(len(header) - 5, len(header))]), "Best first.")]
    what, shares = importance_rows(results)
    if shares:
        parts.append(section("What matters", table(what, shares, [1, 3, 5]), IMPORTANCE))
    scored = [result for result in results if result.score is not None]
    parts.append(section("Scores", columns(*_charts(scored))))
    failed = [[str(Combination(result.settings, {})), result.error or ""] for result in results if result.score is None]
    left_out = [[str(combination), reason] for reason, several in skipped.items() for combination in several]
    for title, lines in (("Failed", failed), ("Skipped", left_out)):
        if lines:
            parts.append(section(title, table(("Combination", "Reason"), lines)))
    return page(f"Sweep of {component}", "".join(parts), about=f"{file}, {len(scored)} trained")


def _charts(scored: Sequence[Result]) -> Iterator[str]:
    """Yield a chart for each setting that is not a number: time and score of all results, by its values."""
    keys = [
        key
        for key in varying([result.settings for result in scored])
        if not all(is_number(result.settings.get(key, 0)) for result in scored)
    ]
    for key in keys or [""] * bool(scored):
        clouds: dict[str, list[tuple[str, float, float]]] = {}
        for number, result in enumerate(scored, start=1):
            point = str(number), result.seconds, 100 * (result.score or 0.0)
            clouds.setdefault(result.shown(key), []).append(point)
        series = [
            Series(name, [point[1:] for point in points], joined=False, labels=[point[0] for point in points])
            for name, points in clouds.items()
        ]
        seconds = [result.seconds for result in scored]
        wide = min(seconds) > 0 and max(seconds) >= 10 * min(seconds)
        chart = line_chart(series, x="seconds of training", y="dev score, %", log_x=wide)
        yield figure(chart, f"What a score costs, by {key or 'combination'}; numbers are those of the table")
