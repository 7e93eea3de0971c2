"""Rows of the page's tables: Hall, McDonald & Petrov (2011), table 2."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from scripts.papers._harness import Results, Row
from scripts.papers.pages.gaps import Gap, mean, scores_of, spread
from scripts.papers.runs.tuned_tagger import AGAIN, ERRORS, ERRORS_F1, FIRST, GOLD, NOUNS, NOUNS_F1
from scripts.papers.tables import Section, paper_column, section

NAMES = {
    "FIRST": FIRST, "AGAIN": AGAIN, "NOUNS": NOUNS, "NOUNS_F1": NOUNS_F1, "ERRORS": ERRORS, "ERRORS_F1": ERRORS_F1,
    "mean": mean,
}  # fmt: skip


def _line(rows: Sequence[Row], gap: Gap, lesson: str) -> Row:
    """Return scores and seconds of a lesson over all seeds, and its gains over other taggers."""

    def gain(before: str) -> str:
        return "" if lesson in (FIRST, before) else spread(gap.gains(lesson, before))

    timed = scores_of([row for row in rows if "seconds" in row], lesson, "seconds")
    return {
        "known": lesson,
        **{score: spread(scores_of(rows, lesson, score)) for score in ("tags", "entities", "dev entities")},
        "gain": gain(FIRST),
        "gain over rounds": gain(AGAIN),
        "seconds": f"{mean(timed):.1f}" if timed else "",
    }


@section("tagger-for-names")
def names(rows: list[Row], _: Results) -> Section:
    """Return a row for each lesson of a tagger that knows another corpus."""
    published, gap, lines = paper_column("tagger-for-names", "F1"), Gap(rows, AGAIN, GOLD, "entities"), []
    for lesson in dict.fromkeys(row["known"] for row in rows):
        theirs = published.get(lesson)
        higher = f"{theirs - published[FIRST]:+.2f}" if theirs and lesson != FIRST else ""
        lines.append({**_line(rows, gap, lesson), "published": {"F1": theirs}, "published gain": higher})
    nouns = partial(scores_of, rows, score="tags")
    return Section(lines, {**NAMES, "gap": gap, "losses": (NOUNS, NOUNS_F1), "nouns": nouns})


@section("tagger-for-entities")
def entities(rows: list[Row], _: Results) -> Section:
    """Return a row for each lesson, with the share of the gap to gold tags that it closes."""
    gap, dev = (Gap(rows, AGAIN, GOLD, score) for score in ("entities", "dev entities"))
    lines = []
    for lesson in dict.fromkeys(row["known"] for row in rows):
        line = _line(rows, gap, lesson)
        if lesson == GOLD:
            line["tags"] = ""
        if lesson not in (FIRST, AGAIN, GOLD):
            share, seeds = gap.told(lesson)
            line |= {"gap": share, "seeds": seeds, "dev gap": f"{dev.share(lesson):.0%}"}
        lines.append(line)
    tags = partial(scores_of, rows, score="tags")
    return Section(lines, {**NAMES, "gap": gap, "dev": dev, "losses": (ERRORS, ERRORS_F1), "tags": tags})
