"""Tables of the page: Hall, McDonald & Petrov (2011), table 1."""

from __future__ import annotations

from scripts.papers._harness import Results
from scripts.papers.page import Section, found, paper_rows, section, table
from scripts.papers.pages.gaps import Gap, mean, scores_of, spread
from scripts.papers.runs.questions import ALL, MORE, NOTHING, TAG, VERB


@section("questions")
def questions_section(results: Results) -> Section:
    """Table 1."""
    lines, gaps, falls = [], dict[str, Gap](), dict[str, float]()
    for name, attr in (("own", "tag"), ("universal", "pos")):
        rows = found(results, f"questions-{attr}")
        gap = gaps[name] = Gap(rows, NOTHING, ALL, "questions")
        for knowledge in dict.fromkeys(row["known"] for row in rows):
            line = [name, knowledge, paper_rows("questions").get(knowledge) if name == "own" else None]
            line += [
                spread(scores_of(rows, knowledge, score)) for score in ("questions", "main verbs", "as verbs", "others")
            ]
            if knowledge in (VERB, TAG):
                line += [*gap.told(knowledge), f"{gap._replace(most=MORE).share(knowledge):.0%}"]
            lines.append(line)
        if rows:
            falls[name] = mean(scores_of(rows, NOTHING, "others")) - mean(scores_of(rows, TAG, "others"))
    head = [
        "tags", "known of questions", "published", "questions", "main verbs", "tagged as verbs", "other sentences",
        "share of the gap", "by seed", "share of the gap to other questions' tags",
    ]  # fmt: skip
    return Section(table(head, lines), {**gaps, "falls": falls, "TAG": TAG, "VERB": VERB})
