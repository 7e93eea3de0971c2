"""The page of ``crfseq report``: the figures of components as charts, tables and marked sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..evaluation.errors import BOTH, BOUNDARY, KINDS, LABEL, MISSED, NOTHING, RIGHT, SPURIOUS
from ..evaluation.report import Estimate, Findings, Row, Sentence, kind_totals, shown_label
from . import charts, frame
from .charts import Bar, Series
from .frame import Markup
from .marks import STYLE, Marker, article, rounded, side
from .top import GROUPS

MOST_LABELS = 30
"""Labels that a chart or a table shows."""
MANY_LABELS = 12
"""Labels from which on a table of their scores is folded, since a chart has them."""
MOST_TEMPLATES = 40
MOST_CONFUSIONS = 12
MOST_BESIDE = 20
"""Columns of a heat map that has a place beside something else."""
NO_SCORE = "\u2013"

KIND_WORDS = {
    RIGHT: "right",
    LABEL: "wrong label",
    BOUNDARY: "wrong boundary",
    BOTH: "both wrong",
    MISSED: "missed",
    SPURIOUS: "spurious",
}


class Subject(NamedTuple):
    """What a page is about.

    model, file (str): Their names.
    corpus (str): The training corpus; empty if there is none.
    lang, direction (str): Of the texts.
    colors (Mapping[str, str]): Of labels, as `Marker` has them.
    """

    model: str
    file: str
    corpus: str
    lang: str
    direction: str
    colors: Mapping[str, str]
    n_samples: int


def report_page(subject: Subject, components: Sequence[Findings]) -> str:
    """Return the page as HTML."""
    several = len(components) > 1
    body = "".join(_component(found, subject, f"{found.name}: " if several else "") for found in components)
    names = ", ".join(found.name for found in components)
    texts, tokens = components[0].texts, max(found.tokens for found in components)
    return frame.page(
        f"How good {names} {'are' if several else 'is'}",
        (_overview(components) if several else "") + body,
        about=f"{subject.model} on {subject.file}: {texts:,} texts, {tokens:,} tokens. Behind a score: the middle 95 % "
        f"of {subject.n_samples:,} samples of the texts, drawn with replacement.",
        lang=subject.lang,
        direction=subject.direction,
        style=STYLE + "td small { color: var(--soft); margin-inline-start: .4em; }\n"
        "@media (max-width: 40rem) { td small { display: block; margin: 0; } "
        "th, td { padding-inline: .4rem; } td:first-child { white-space: normal; min-width: 4.5rem; } }\n",
    )


def _overview(components: Sequence[Findings]) -> str:
    rows = []
    for found in components:
        name, (score, what) = frame.text(found.name), found.main_score
        rows.append((Markup(f'<a href="#{name}">{name}</a>'), what, _cell(score)))
    return frame.table(("Component", "Score", ""), rows, {2})


def _component(found: Findings, subject: Subject, prefix: str) -> str:
    parts = [
        frame.section(f"{prefix}Scores", _scores(found), anchor=found.name),
        _errors(found, prefix),
        _confusions(found, prefix),
        _familiar(found, subject, prefix),
        _certainty(found, prefix),
        _curve(found, prefix),
        _weights(found, prefix),
        _worst(found, subject, prefix),
    ]
    return "".join(parts)


# Scores


def _scores(found: Findings) -> str:
    whole = found.whole
    values = [("Accuracy of tags", found.accuracy)]
    if found.unit == "spans":
        values = [("F1", whole.f1), ("Precision", whole.precision), ("Recall", whole.recall), *values]
    entries: list[tuple[str, ...]] = [(name, *_fact(value)) for name, value in values]
    entries.append((f"Gold {found.unit}", f"{whole.gold:,}"))
    rows = sorted(found.labels.items(), key=lambda item: -item[1].gold)
    few, more = rows[:MOST_LABELS], len(rows) - MOST_LABELS
    chart = charts.bar_chart([_f1_bar(name, row) for name, row in few], unit="%")
    caption = "F1 by label, the most frequent first" + (f"; {more} rarer ones are left out" if more > 0 else "")
    table: str = _score_table("Label", [*few, ("all", whole)])
    if len(rows) > MANY_LABELS:
        table = frame.folded("As a table", table)
    return frame.facts(entries) + frame.figure(chart, caption) + table


def _fact(value: Estimate) -> tuple[str, str]:
    return _percent(value.value), f"{_percent(value.low)} to {_percent(value.high)}" if value.low is not None else ""


def _f1_bar(name: str, row: Row) -> Bar:
    value, low, high = (None if part is None else round(100 * part, 1) for part in row.f1)
    return Bar(name, float("nan") if value is None else value, None, low, high)


def _score_table(first: str, rows: Sequence[tuple[str, Row]]) -> Markup:
    return frame.table(
        (first, "F1", "Precision", "Recall", "Gold", "Found", "Right"),  # a narrow window shows the first
        [
            (
                name,
                *map(_cell, (row.f1, row.precision, row.recall)),
                f"{row.gold:,}",
                f"{row.found:,}",
                f"{row.right:,}",
            )
            for name, row in rows
        ],
        range(1, 7),
    )


def _cell(value: Estimate) -> Markup:
    if value.value is None or value.low is None:
        return Markup(_percent(value.value))
    return Markup(f"{_percent(value.value)}<small>{_percent(value.low)} to {_percent(value.high)}</small>")


def _percent(value: float | None) -> str:
    return NO_SCORE if value is None else f"{100 * value:.1f}"


# Errors


def _errors(found: Findings, prefix: str) -> str:
    if not found.kinds:
        return ""
    totals = kind_totals(found.kinds)
    chart = charts.bar_chart([Bar(KIND_WORDS[kind], totals[kind]) for kind in KINDS if kind != RIGHT], unit="spans")
    table = frame.table(
        ("Label", *(KIND_WORDS[kind].capitalize() for kind in KINDS)),
        [
            *((label, *(f"{kinds.get(kind, 0):,}" for kind in KINDS)) for label, kinds in found.kinds.items()),
            ("all", *(f"{totals[kind]:,}" for kind in KINDS)),
        ],
        range(1, 7),
    )
    return frame.section(
        f"{prefix}Kinds of errors",
        frame.figure(chart) + table,
        "Each gold span is paired with at most one that was found: with the same stretch and label (right), the same "
        "stretch (wrong label), an overlapping one of the same label (wrong boundary) or of another (both wrong), or "
        "none (missed). What was found and is in no pair is spurious. After Manning (2006).",
    )


def _confusions(found: Findings, prefix: str) -> str:
    if not found.confusions:
        return ""
    parts = []
    if found.unit == "spans":
        labels = [*found.labels, NOTHING]
        counts = Counter({(a, b): n for a, b, n in found.confusions})
        table = np.array([[counts[a, b] for b in labels] for a in labels])
        right = [row.right + _stretched(found, label) for label, row in found.labels.items()]
        np.fill_diagonal(table, [*right, 0])
        parts.append(frame.figure(_confusion_map([shown_label(label) for label in labels], table), "Of spans"))
    kept = _most_confused(found.tag_confusion)
    names = [found.tags[i] for i in kept]
    left_out = len(found.tags) - len(kept)
    caption = "Of the tags of tokens" + (f", without {left_out} that are mistaken less often" if left_out else "")
    parts.append(frame.figure(_confusion_map(names, found.tag_confusion[np.ix_(kept, kept)]), caption))
    frequent = frame.table(
        ("Gold", "Predicted", "Times"),
        [(shown_label(a), shown_label(b), f"{n:,}") for a, b, n in found.confusions[:MOST_CONFUSIONS]],
        {2},
    )
    return frame.section(
        f"{prefix}Confusion",
        _beside(len(kept), "".join([*parts[:-1], frame.figure(frequent, "The most frequent confusions")]), parts[-1]),
        "How often a gold label (row) was predicted as another (column). The diagonal has no colour"
        + ("; of spans, it counts those with wrong boundaries, too." if found.kinds else "."),
    )


def _beside(n_columns: int, left: str, heat_map: str) -> str:
    """Return a part with a heat map of so many columns at its side, below it if it is wide."""
    return frame.columns(left, heat_map) if n_columns <= MOST_BESIDE else left + heat_map


def _stretched(found: Findings, label: str) -> int:
    """Return how many spans of a label were found with it and with other boundaries."""
    return found.kinds.get(label, {}).get(BOUNDARY, 0)


def _most_confused(table: NDArray[np.int64]) -> list[int]:
    """Return the labels that take part in most confusions, in their own order."""
    wrong = table.sum(0) + table.sum(1) - 2 * np.diag(table)
    return sorted(np.argsort(-wrong, kind="stable")[:MOST_LABELS].tolist())


def _confusion_map(names: Sequence[str], table: NDArray[np.int64]) -> Markup:
    colors = table.astype(np.float64)
    np.fill_diagonal(colors, np.nan)
    shown = [[f"{n:,}" if n else "" for n in row] for row in table.tolist()]
    return charts.heat_map(names, names, colors, diverging=False, row="gold", column="predicted", shown=shown)


# Words and probabilities


def _familiar(found: Findings, subject: Subject, prefix: str) -> str:
    what = "spans" if found.unit == "spans" else "words"
    title = f"{prefix}Seen and unseen {what}"
    if found.familiar is None:
        about = f"Which {what} the model met in training is told where the training corpus is given by --corpus."
        return frame.section(title, "", about)
    rows = list(found.familiar.items())
    shared = sum(row.gold for _, row in rows)
    about = f"By the text of {what} in {subject.corpus}, letter by letter."
    names = [(f"{name} ({row.gold / shared:.0%} of gold)" if shared else name, row) for name, row in rows]
    bars = [
        Bar(name, float("nan") if row.recall.value is None else round(100 * row.recall.value, 1),
            None, *(None if end is None else round(100 * end, 1) for end in row.recall[1:]))
        for name, row in rows
    ]  # fmt: skip
    return frame.section(
        title, frame.figure(charts.bar_chart(bars, unit="%"), "Recall") + _score_table("", names), about
    )


def _certainty(found: Findings, prefix: str) -> str:
    title = f"{prefix}Probabilities"
    if found.certainty is None:
        return frame.section(title, "", "The model is normalised at each token and has none of spans and sentences.")
    if not found.certainty.whole.total:
        return frame.section(title, "", "Nothing is found in the file, so nothing tells how good they are.")
    whole, what = found.certainty.whole, "spans" if found.unit == "spans" else "tags"
    entries = [
        ("Mean probability", f"{whole.predicted:.3f}"),
        ("Share that is right", f"{whole.correct:.3f}"),
        ("Expected calibration error", f"{whole.error:.3f}"),
        ("Brier score", f"{whole.brier:.3f}"),
        ("Temperature", f"{found.certainty.temperature:.3f}"),
    ]
    bins = frame.table(
        ("Probability", found.unit.capitalize(), "Mean", "Right"),
        [
            (f"{part.low:.1f} to {part.high:.1f}", f"{part.total:,}", f"{part.predicted:.3f}", f"{part.correct:.3f}")
            for part in found.certainty.bins
        ],
        {1, 2, 3},
    )
    return frame.section(
        title,
        frame.facts(entries) + frame.columns(charts.reliability(found.certainty.bins), bins),
        f"Of the {what} found with probability 0.8, eight in ten should be right: on the dashed line they are. "
        "Below it the model is too sure of itself, above it not sure enough; crfseq calibrate mends both.",
    )


# The model


def _curve(found: Findings, prefix: str) -> str:
    title, log = f"{prefix}Training", found.curve
    if not log:
        return frame.section(title, "", "The learning curve is shown where the log.jsonl of fit is given by --train.")
    scores = [(entry, entry["score"]) for entry in log if entry.get("score") is not None]
    objective = Series("objective", _points(log, "iteration", "objective"))
    dev = Series("dev score", [(e["iteration"], 100 * s) for e, s in scores], right=True)
    figures = [charts.line_chart([objective, *([dev] if scores else [])], x="iteration", y="objective")]
    norms = _points(log, "iteration", "grad_norm")
    if norms:
        figures.append(
            charts.line_chart([Series("gradient norm", norms)], x="iteration", y="gradient norm", log_y=True)
        )
    if scores:
        by_time = Series("dev score", [(e["seconds"], 100 * s) for e, s in scores if e.get("seconds") is not None])
        figures.append(charts.line_chart([by_time], x="seconds", y="dev score"))
    last = log[-1]
    entries = [("Iterations", f"{last['iteration']:,}"), ("Last objective", f"{last['objective']:,.1f}")]
    if last.get("seconds") is not None:
        entries.append(("Seconds", f"{last['seconds']:.1f}"))
    best = [entry for entry in log if entry.get("best")]
    if best and scores:
        entries.append(("Best iteration", f"{best[-1]['iteration']:,}"))
    about = "model-best holds the weights of the best iteration, by the score on the dev corpus of the training."
    return frame.section(
        title, frame.facts(entries) + frame.columns(*map(frame.figure, figures)), about if best and scores else ""
    )


def _points(log: Sequence[dict[str, float]], x: str, y: str) -> list[tuple[float, float]]:
    return [(entry[x], entry[y]) for entry in log if entry.get(x) is not None and entry.get(y) is not None]


def _weights(found: Findings, prefix: str) -> str:
    rows = sorted(found.templates, key=lambda row: -row.weights)
    bars = [
        Bar(row.template or GROUPS.get(row.kind, row.kind), row.weights, row.nonzero)
        for row in rows[:MOST_TEMPLATES]
        if row.weights
    ]
    total, nonzero = sum(row.weights for row in rows), sum(row.nonzero for row in rows)
    share = f"{nonzero:,} of {total:,} weights are not zero ({nonzero / total:.1%})" if total else "No weights"
    more = len(rows) - MOST_TEMPLATES
    caption = f"{share}. By template, the largest first{f'; {more} are left out' if more > 0 else ''}"
    names, weights = found.transitions
    kept = list(range(len(names)))[:MOST_LABELS]
    if len(names) > MOST_LABELS:
        strong = np.nansum(np.abs(weights[:-1, :-1]), axis=0) + np.nansum(np.abs(weights[:-1, :-1]), axis=1)
        kept = sorted(np.argsort(-strong, kind="stable")[:MOST_LABELS].tolist())
    around = [*kept, len(names)]
    few = [names[i] for i in kept]
    table = weights[np.ix_(around, around)]
    heat = charts.heat_map([*few, "start"], [*few, "end"], table, diverging=True, row="from", column="to")
    note = f", {len(names) - len(kept)} weaker labels left out" if len(kept) < len(names) else ""
    return frame.section(
        f"{prefix}Weights",
        _beside(
            len(around),
            frame.figure(charts.bar_chart(bars, unit="weights"), caption),
            frame.figure(heat, f"Of one label after another; empty cells are forbidden{note}"),
        ),
    )


# Sentences


def _worst(found: Findings, subject: Subject, prefix: str) -> str:
    if not found.worst:
        return frame.section(f"{prefix}Sentences", "", "There is no mistake.")
    counts = Counter(span.label for one in found.worst for span in one.gold)
    counts.update(span.label for one in found.worst for span, _ in one.found)
    marker = Marker(counts, subject.colors, subject.direction)
    what = "spans" if found.unit == "spans" else "tags"
    order = ", then those that the model was surest of" if found.certainty is not None else ""
    marked = (
        "of wrong tokens, the gold tag above, the predicted one below" if what == "tags" else "gold above predicted"
    )
    return frame.section(
        f"{prefix}Sentences",
        marker.key(counts) + "\n".join(_article(marker, one, what) for one in found.worst),
        f"The {len(found.worst)} with most wrong {what}{order}: {marked}; the fuller the colour, the more probable.",
    )


def _article(marker: Marker, one: Sentence, what: str) -> Markup:
    sure = f", probability {rounded(one.probability)}" if one.probability is not None else ""
    part = ", in part" if one.cut else ""
    found = [(*span, p) for span, p in one.found]
    return article(
        Markup(f"text {one.text:,}, {one.wrong} wrong {what}{sure}{part}"),
        side("gold", marker.marked(one.tokens, [(*span, None) for span in one.gold])),
        side("predicted", marker.marked(one.tokens, found)),
    )
