"""The results of a sweep as a page."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ...pages.charts import Series, line_chart
from ...pages.frame import columns, figure, page, section, table
from .results import EFFECTS, Result, cells, effect_cells, effects
from .search import Combination, show, varying


def make_page(
    component: str, file: str, results: Sequence[Result], skipped: Mapping[str, Sequence[Combination]]
) -> str:
    """Return a page with a table of results, scores by training time, and scores by each numeric setting."""
    header, rows = cells(results)
    good = [result for result in results if result.score is not None]
    parts = [section("Results", table(header, rows, [1, *range(len(header) - 5, len(header))]), "Best first.")]
    found = effects(good)
    if found:
        what, shares = effect_cells(found)
        parts.append(section("What matters", table(what, shares, [1, 2, 4, 6]), EFFECTS))
    x, y = "seconds of training", "dev score, %"
    charts = [
        figure(
            line_chart(series, x=x, y=y, log_x=_wide(series)),
            f"What a score costs, by {key}; numbers are those of the table",
        )
        for key, series in _by_time(good)
    ]
    charts += [
        figure(line_chart(series, x=key, y=y, log_x=_wide(series)), f"The best score by {key}{of}")
        for key, of, series in _along(good)
    ]
    parts.append(section("Scores", columns(*charts)))
    failed = [[str(Combination(result.settings, {})), result.error or ""] for result in results if result.score is None]
    left_out = [[str(one), reason] for reason, all_ in skipped.items() for one in all_]
    for title, lines in (("Failed", failed), ("Skipped", left_out)):
        if lines:
            parts.append(section(title, table(("Combination", "Reason"), lines)))
    return page(f"Sweep of {component}", "".join(parts), about=f"{file}, {len(good)} trained")


def _by_time(results: Sequence[Result]) -> Iterator[tuple[str, list[Series]]]:
    """Yield each setting that is not numeric, with the time and score of all results by its values."""
    if not results:
        return
    for key in _words(results) or [""]:
        clouds: dict[str, list[tuple[int, float, float]]] = {}
        for number, result in sorted(enumerate(results, start=1), key=lambda pair: pair[1].seconds):
            name = show(result.settings[key]) if key in result.settings else "-"
            clouds.setdefault(name, []).append((number, result.seconds, 100 * (result.score or 0.0)))
        yield (
            key or "combination",
            [
                Series(name, [point[1:] for point in points], joined=False, labels=[str(point[0]) for point in points])
                for name, points in clouds.items()
            ],
        )


def _along(results: Sequence[Result]) -> Iterator[tuple[str, str, list[Series]]]:
    """Yield each numeric setting with at least three values, with the best scores by it and by another setting."""
    numeric = [key for key in list(varying([result.settings for result in results])) if key not in _words(results)]
    for key in numeric:
        having = [result for result in results if key in result.settings]
        if len({result.settings[key] for result in having}) < 3:
            continue
        for other in _words(results) or [""]:
            curves: dict[str, dict[float, float]] = {}
            for result in having:
                name = show(result.settings[other]) if other in result.settings else "dev score"
                curve = curves.setdefault(name, {})
                at = float(result.settings[key])
                curve[at] = max(curve.get(at, -math.inf), 100 * (result.score or 0.0))
            yield key, f" and {other}" * bool(other), [Series(name, sorted(c.items())) for name, c in curves.items()]


def _words(results: Sequence[Result]) -> list[str]:
    return [
        key
        for key in list(varying([result.settings for result in results]))
        if not all(type(result.settings[key]) in (int, float) for result in results if key in result.settings)
    ]


def _wide(series: Iterable[Series]) -> bool:
    places: list[float] = [x for one in series for x, _ in one.points]
    return min(places) > 0 and max(places) >= 10 * min(places)
