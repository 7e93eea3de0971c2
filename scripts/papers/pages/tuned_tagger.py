"""Tables of the page: Hall, McDonald & Petrov (2011), table 2."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from scripts.papers._harness import Results, Row
from scripts.papers.page import Section, found, paper_rows, section, table
from scripts.papers.pages.gaps import Gap, mean, scores_of, spread
from scripts.papers.runs.tuned_tagger import AGAIN, ERRORS, ERRORS_F1, FIRST, GOLD, NOUNS, NOUNS_F1

NAMES = {
    "FIRST": FIRST, "AGAIN": AGAIN, "NOUNS": NOUNS, "NOUNS_F1": NOUNS_F1, "ERRORS": ERRORS, "ERRORS_F1": ERRORS_F1,
    "mean": mean,
}  # fmt: skip


def _line(rows: Sequence[Row], gap: Gap, lesson: str, *befores: str) -> list[str]:
    """Return tags, F1 and gains over other taggers."""
    gains = ["" if lesson in (FIRST, before) else spread(gap.gains(lesson, before)) for before in befores]
    return [*(spread(scores_of(rows, lesson, score)) for score in ("tags", "entities")), *gains]


def _seconds(rows: Sequence[Row], lesson: str) -> str:
    seconds = scores_of([row for row in rows if "seconds" in row], lesson, "seconds")
    return f"{mean(seconds):.1f}" if seconds else ""


@section("tagger-for-names")
def names_section(results: Results) -> Section:
    """Table 2, entities: the tags of another corpus."""
    rows, published = found(results, "tagger-for-names"), paper_rows("tagger-for-names")
    gap, lines = Gap(rows, AGAIN, GOLD, "entities"), []
    for lesson in dict.fromkeys(row["known"] for row in rows):
        theirs = published.get(lesson)
        higher = f"{theirs - published[FIRST]:+.2f}" if theirs and lesson != FIRST else ""
        on_dev = spread(scores_of(rows, lesson, "dev entities"))
        lines.append([lesson, theirs, higher, *_line(rows, gap, lesson, FIRST, AGAIN), on_dev, _seconds(rows, lesson)])
    head = [
        "the tagger learns from", "published, F1", "over no adaptation", "proper nouns", "ours, F1",
        "over no adaptation", "over more rounds", "on testa", "seconds",
    ]  # fmt: skip
    names = {**NAMES, "gap": gap, "losses": (NOUNS, NOUNS_F1), "nouns": partial(scores_of, rows, score="tags")}
    return Section(table(head, lines), names)


@section("tagger-for-entities")
def entities_section(results: Results) -> Section:
    """Table 2, entities: a recognizer that judges alone."""
    rows = found(results, "tagger-for-entities")
    gap, dev = (Gap(rows, AGAIN, GOLD, score) for score in ("entities", "dev entities"))
    lines = []
    for lesson in dict.fromkeys(row["known"] for row in rows):
        tags, *others = _line(rows, gap, lesson, AGAIN)
        shares = [""] * 3 if lesson in (FIRST, AGAIN, GOLD) else [*gap.told(lesson), f"{dev.share(lesson):.0%}"]
        lines.append([lesson, "" if lesson == GOLD else tags, *others, *shares, _seconds(rows, lesson)])
    head = ["the tagger learns from", "tags", "entities", "over more rounds", "share of the gap", "by seed"]
    names = {
        **NAMES,
        "gap": gap,
        "dev": dev,
        "losses": (ERRORS, ERRORS_F1),
        "tags": partial(scores_of, rows, score="tags"),
    }
    return Section(table([*head, "share on testa", "seconds"], lines), names)
