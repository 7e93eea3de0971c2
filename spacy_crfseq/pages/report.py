"""The page of ``crfseq report``: the figures of components as charts, tables and marked sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..evaluation.errors import BOTH, BOUNDARY, KINDS, LABEL, MISSED, NOTHING, RIGHT, SPURIOUS
from ..evaluation.report import Estimate, Findings, Row, Sentence, kind_totals, shown_label
from . import charts, frame
from .charts import Bar, Series
from .frame import Markup
from .marks import STYLE, Marker, TextStyle, article, rounded, side
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
    RIGHT: "right", LABEL: "wrong label", BOUNDARY: "wrong boundary", BOTH: "both wrong", MISSED: "missed",
    SPURIOUS: "spurious",
}  # fmt: skip

Section = tuple[str, str, str]
NONE = ("", "", "")


class Subject(NamedTuple):
    """What a page is about."""

    model: str
    file: str
    corpus: str
    style: TextStyle
    n_samples: int


def report_page(subject: Subject, components: Sequence[Findings]) -> str:
    """Return the page as HTML."""
    several = len(components) > 1
    body = "".join(_component(found, subject, f"{found.name}: " if several else "") for found in components)
    names = ", ".join(found.name for found in components)
    texts, tokens = components[0].texts, max(found.tokens for found in components)
    links = [frame.text(found.name) for found in components]
    rows = [
        (Markup(f'<a href="#{link}">{link}</a>'), found.main_score[1], _cell(found.main_score[0]))
        for link, found in zip(links, components, strict=True)
    ]
    overview = frame.table(("Component", "Score", ""), rows, {2}) if several else ""
    return frame.page(
        f"How good {names} {'are' if several else 'is'}",
        overview + body,
        about=f"{subject.model} on {subject.file}: {texts:,} texts, {tokens:,} tokens. Behind a score: the middle 95 % "
        f"of {subject.n_samples:,} samples of the texts, drawn with replacement.",
        lang=subject.style.lang,
        direction=subject.style.direction,
        style=STYLE + "td small { color: var(--soft); margin-inline-start: .4em; }\n"
        "@media (max-width: 40rem) { td small { display: block; margin: 0; } "
        "th, td { padding-inline: .4rem; } td:first-child { white-space: normal; min-width: 4.5rem; } }\n",
    )


def _component(found: Findings, subject: Subject, prefix: str) -> str:
    sections = (
        _errors(found), _confusions(found), _familiar(found, subject), _certainty(found), _curve(found),
        _weights(found), _worst(found, subject),
    )  # fmt: skip
    parts = [frame.section(f"{prefix}{title}", body, about) for title, body, about in sections if title]
    return frame.section(f"{prefix}Scores", _scores(found), anchor=found.name) + "".join(parts)


def _scores(found: Findings) -> str:
    whole = found.whole
    values = [("Accuracy of tags", found.accuracy)]
    if found.unit == "spans":
        values = [("F1", whole.f1), ("Precision", whole.precision), ("Recall", whole.recall), *values]
    entries: list[tuple[str, ...]] = [(name, _percent(value.value), _interval(value)) for name, value in values]
    entries.append((f"Gold {found.unit}", f"{whole.gold:,}"))
    rows = sorted(found.labels.items(), key=lambda item: -item[1].gold)
    few, more = rows[:MOST_LABELS], len(rows) - MOST_LABELS
    chart = charts.bar_chart([_bar(name, row.f1) for name, row in few], unit="%")
    caption = "F1 by label, the most frequent first" + (f"; {more} rarer ones are left out" if more > 0 else "")
    table: str = _score_table("Label", [*few, ("all", whole)])
    if len(rows) > MANY_LABELS:
        table = frame.folded("As a table", table)
    return frame.facts(entries) + frame.figure(chart, caption) + table


def _bar(name: str, score: Estimate) -> Bar:
    value, low, high = (None if part is None else round(100 * part, 1) for part in score)
    return Bar(name, float("nan") if value is None else value, None, low, high)


def _score_table(first: str, rows: Sequence[tuple[str, Row]]) -> Markup:
    cells = []
    for name, row in rows:
        counts = (f"{n:,}" for n in (row.gold, row.found, row.right))
        cells.append((name, *map(_cell, (row.f1, row.precision, row.recall)), *counts))
    # a narrow window shows the first columns
    return frame.table((first, "F1", "Precision", "Recall", "Gold", "Found", "Right"), cells, range(1, 7))


def _cell(score: Estimate) -> Markup:
    interval = _interval(score)
    return Markup(_percent(score.value) + (f"<small>{interval}</small>" if interval else ""))


def _percent(value: float | None) -> str:
    return NO_SCORE if value is None else f"{100 * value:.1f}"


def _interval(score: Estimate) -> str:
    return "" if score.low is None else f"{_percent(score.low)} to {_percent(score.high)}"


def _errors(found: Findings) -> Section:
    if not found.kinds:
        return NONE
    totals = kind_totals(found.kinds)
    chart = charts.bar_chart([Bar(KIND_WORDS[kind], totals[kind]) for kind in KINDS if kind != RIGHT], unit="spans")
    each = (*found.kinds.items(), ("all", totals))
    rows = [(label, *(f"{kinds.get(kind, 0):,}" for kind in KINDS)) for label, kinds in each]
    table = frame.table(("Label", *(KIND_WORDS[kind].capitalize() for kind in KINDS)), rows, range(1, 7))
    return (
        "Kinds of errors",
        frame.figure(chart) + table,
        "Each gold span is paired with at most one that was found: with the same stretch and label (right), the same "
        "stretch (wrong label), an overlapping one of the same label (wrong boundary) or of another (both wrong), or "
        "none (missed). What was found and is in no pair is spurious. After Manning (2006).",
    )


def _confusions(found: Findings) -> Section:
    if not found.confusions:
        return NONE
    left = ""
    if found.unit == "spans":
        labels = [*found.labels, NOTHING]
        counts = Counter({(a, b): n for a, b, n in found.confusions})
        table = np.array([[counts[a, b] for b in labels] for a in labels])
        # those with this label and other boundaries count as right
        right = [row.right + found.kinds.get(label, {}).get(BOUNDARY, 0) for label, row in found.labels.items()]
        np.fill_diagonal(table, [*right, 0])
        left = frame.figure(_confusion_map([shown_label(label) for label in labels], table), "Of spans")
    kept = _strongest(found.tag_confusion.sum(0) + found.tag_confusion.sum(1) - 2 * np.diag(found.tag_confusion))
    left_out = len(found.tags) - len(kept)
    caption = "Of the tags of tokens" + (f", without {left_out} that are mistaken less often" if left_out else "")
    tags = _confusion_map([found.tags[i] for i in kept], found.tag_confusion[np.ix_(kept, kept)])
    heat = frame.figure(tags, caption)
    rows = [(shown_label(a), shown_label(b), f"{n:,}") for a, b, n in found.confusions[:MOST_CONFUSIONS]]
    frequent = frame.table(("Gold", "Predicted", "Times"), rows, {2})
    left += frame.figure(frequent, "The most frequent confusions")
    return (
        "Confusion",
        frame.columns(left, heat) if len(kept) <= MOST_BESIDE else left + heat,
        "How often a gold label (row) was predicted as another (column). The diagonal has no colour"
        + ("; of spans, it counts those with wrong boundaries, too." if found.kinds else "."),
    )


def _strongest(strength: NDArray[Any]) -> list[int]:
    return sorted(np.argsort(-strength, kind="stable")[:MOST_LABELS].tolist())


def _confusion_map(names: Sequence[str], table: NDArray[np.int64]) -> Markup:
    colors = table.astype(np.float64)
    np.fill_diagonal(colors, np.nan)
    shown = [[f"{n:,}" if n else "" for n in row] for row in table.tolist()]
    return charts.heat_map(names, names, colors, diverging=False, row="gold", column="predicted", shown=shown)


def _familiar(found: Findings, subject: Subject) -> Section:
    what = "spans" if found.unit == "spans" else "words"
    title = f"Seen and unseen {what}"
    if found.familiar is None:
        about = f"Which {what} the model met in training is shown where the training corpus is given by --corpus."
        return title, "", about
    shared = sum(row.gold for row in found.familiar.values())
    each = found.familiar.items()
    rows = [(f"{name} ({row.gold / shared:.0%} of gold)" if shared else name, row) for name, row in each]
    chart = charts.bar_chart([_bar(name, row.recall) for name, row in each], unit="%")
    about = f"By the text of {what} in {subject.corpus}, letter by letter."
    return title, frame.figure(chart, "Recall") + _score_table("", rows), about


def _certainty(found: Findings) -> Section:
    title, certainty = "Probabilities", found.certainty
    if certainty is None:
        return title, "", "The model is normalised at each token and has none of spans and sentences."
    whole = certainty.whole
    if not whole.total:
        return title, "", "Nothing is found in the file, so nothing says how good they are."
    values = {
        "Mean probability": whole.predicted,
        "Share that is right": whole.correct,
        "Expected calibration error": whole.error,
        "Brier score": whole.brier,
        "Temperature": certainty.temperature,
    }
    rows = [
        (f"{part.low:.1f} to {part.high:.1f}", f"{part.total:,}", f"{part.predicted:.3f}", f"{part.correct:.3f}")
        for part in certainty.bins
    ]
    bins = frame.table(("Probability", found.unit.capitalize(), "Mean", "Right"), rows, {1, 2, 3})
    facts = frame.facts([(name, f"{value:.3f}") for name, value in values.items()])
    what = "spans" if found.unit == "spans" else "tags"
    return (
        title,
        facts + frame.columns(charts.reliability(certainty.bins), bins),
        f"Of the {what} found with probability 0.8, eight in ten should be right: on the dashed line they are. "
        "Below it the model is too sure of itself, above it not sure enough; crfseq calibrate corrects both.",
    )


def _curve(found: Findings) -> Section:
    title, log = "Training", found.curve
    if not log:
        return title, "", "The learning curve is shown where the log.jsonl of fit is given by --train."
    scores = [{**entry, "score": 100 * entry["score"]} for entry in log if entry.get("score") is not None]
    dev = [Series("dev score", _points(scores, "iteration", "score"), right=True)] if scores else []
    objective = Series("objective", _points(log, "iteration", "objective"))
    figures = [charts.line_chart([objective, *dev], x="iteration", y="objective")]
    if norms := _points(log, "iteration", "grad_norm"):
        curve = Series("gradient norm", norms)
        figures.append(charts.line_chart([curve], x="iteration", y="gradient norm", log_y=True))
    if scores:
        curve = Series("dev score", _points(scores, "seconds", "score"))
        figures.append(charts.line_chart([curve], x="seconds", y="dev score"))
    last, best, about = log[-1], [entry for entry in log if entry.get("best")], ""
    entries = [("Iterations", f"{last['iteration']:,}"), ("Last objective", f"{last['objective']:,.1f}")]
    if last.get("seconds") is not None:
        entries.append(("Seconds", f"{last['seconds']:.1f}"))
    if best and scores:
        entries.append(("Best iteration", f"{best[-1]['iteration']:,}"))
        about = "model-best holds the weights of the best iteration, by the score on the dev corpus of the training."
    return title, frame.facts(entries) + frame.columns(*map(frame.figure, figures)), about


def _points(log: Sequence[dict[str, float]], x: str, y: str) -> list[tuple[float, float]]:
    return [(entry[x], entry[y]) for entry in log if entry.get(x) is not None and entry.get(y) is not None]


def _weights(found: Findings) -> Section:
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
    size = np.abs(weights[:-1, :-1])
    kept = _strongest(np.nansum(size, axis=0) + np.nansum(size, axis=1))
    around, few = [*kept, len(names)], [names[i] for i in kept]
    table = weights[np.ix_(around, around)]
    heat = charts.heat_map([*few, "start"], [*few, "end"], table, diverging=True, row="from", column="to")
    note = f", {len(names) - len(kept)} weaker labels left out" if len(kept) < len(names) else ""
    left = frame.figure(charts.bar_chart(bars, unit="weights"), caption)
    right = frame.figure(heat, f"Of one label after another; empty cells are forbidden{note}")
    return "Weights", frame.columns(left, right) if len(around) <= MOST_BESIDE else left + right, ""


def _worst(found: Findings, subject: Subject) -> Section:
    if not found.worst:
        return "Sentences", "", "There is no mistake."
    counts = Counter(span.label for one in found.worst for span in one.gold)
    counts.update(span.label for one in found.worst for span, _ in one.found)
    marker = Marker(counts, subject.style)
    what, marked = "spans", "gold above predicted"
    if found.unit == "tokens":
        what, marked = "tags", "of wrong tokens, the gold tag above, the predicted one below"
    order = ", then those that the model was surest of" if found.certainty is not None else ""
    return (
        "Sentences",
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
