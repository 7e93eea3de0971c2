"""Rows of the page's table: Hall, McDonald & Petrov (2011), table 1."""

from __future__ import annotations

from scripts.papers._harness import Results, Row
from scripts.papers.pages.gaps import Gap, mean, scores_of, spread
from scripts.papers.runs.questions import ALL, MORE, NOTHING, TAG, VERB
from scripts.papers.tables import Section, paper_column, section, stored


@section("questions")
def questions(_: list[Row], results: Results) -> Section:
    """Return a row for all seeds of each set of tags and knowledge of questions."""
    lines, gaps, falls = list[Row](), dict[str, Gap](), dict[str, float]()
    published = paper_column("questions", "accuracy")
    for name, attr in (("own", "tag"), ("universal", "pos")):
        rows = stored(results, f"questions-{attr}")
        gap = gaps[name] = Gap(rows, NOTHING, ALL, "questions")
        for knowledge in dict.fromkeys(row["known"] for row in rows):
            scores = ("questions", "main verbs", "as verbs", "others")
            line: Row = {score: spread(scores_of(rows, knowledge, score)) for score in scores}
            if knowledge in (VERB, TAG):
                share, seeds = gap.told(knowledge)
                line |= {"gap": share, "seeds": seeds, "more": f"{gap._replace(most=MORE).share(knowledge):.0%}"}
            theirs = published.get(knowledge) if name == "own" else None
            lines.append({"tags": name, "known": knowledge, "published": theirs, **line})
        if rows:
            falls[name] = mean(scores_of(rows, NOTHING, "others")) - mean(scores_of(rows, TAG, "others"))
    return Section(lines, {**gaps, "falls": falls, "TAG": TAG, "VERB": VERB})
