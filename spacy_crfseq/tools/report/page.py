"""The page of ``crfseq report``: results of components as charts, tables and marked sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...evaluation.errors import BOTH, BOUNDARY, KINDS, LABEL, MISSED, NOTHING, RIGHT, SPURIOUS
from ...pages import charts, frame
from ...pages.charts import Bar, Series
from ...pages.frame import Markup
from ...pages.marks import STYLE, Marker, TextStyle, article, articles, rounded, side
from ...pages.weights import GROUPS, Group, weights_of
from .report import EXAMPLES, Estimate, Findings, Row, Sentence, kind_totals, shown_label

MOST_LABELS = 30
"""Number of labels in a chart or a table."""
MOST_TEMPLATES = 40
MOST_CONFUSIONS = 12
MOST_SAME = 8
"""Number of texts listed that have the same sentence."""
MOST_BESIDE = 20
"""Heat maps with at most this many columns share a row with something else."""
NO_SCORE = "\u2013"

REPORT_STYLE = """
body { max-width: 80rem; } th, td { padding-inline: .4rem; } .columns { column-gap: 1.5rem; }
td:first-child { white-space: normal; min-width: 4.5rem; }
td small { color: var(--soft); margin-inline-start: .4em; font-size: .75rem; }
@media (max-width: 40rem) { td small { display: block; margin: 0; } }
"""

KIND_WORDS = {
    RIGHT: "right", LABEL: "wrong label", BOUNDARY: "wrong boundary", BOTH: "both wrong", MISSED: "missed",
    SPURIOUS: "spurious",
}  # fmt: skip

Section = tuple[str, str, str]
NONE = ("", "", "")


class Subject(NamedTuple):
    """The subject of a page; `made`: Date and versions."""

    model: str
    file: str
    corpus: str
    style: TextStyle
    n_samples: int
    made: str = ""


def report_page(
    subject: Subject, components: Sequence[Findings], largest: Mapping[str, Sequence[Group]] = MappingProxyType({})
) -> str:
    """Return the page as HTML; `largest` has the largest weights of each component, by label."""
    several = len(components) > 1
    parts = {found.name: _parts(found, subject, largest.get(found.name, ())) for found in components}
    links = frame.contents(
        [
            (name if several else "", [(title, _anchor(name, title)) for title, _, _ in of_one])
            for name, of_one in parts.items()
        ]
    )
    body = "".join(
        frame.section(f"{name}: {title}" if several else title, html, about, anchor=_anchor(name, title))
        for name, of_one in parts.items()
        for title, html, about in of_one
    )
    names = ", ".join(found.name for found in components)
    texts, tokens = components[0].texts, max(found.tokens for found in components)
    rows = [(found.name, found.main_score[1], _cell(found.main_score[0])) for found in components]
    overview = frame.table(("Component", "Score", ""), rows, {2}) if several else ""
    return frame.page(
        f"Report on {names}",
        overview + links + body,
        about=f"{subject.model} on {subject.file}: {texts:,} texts, {tokens:,} tokens. Beside a score: its interval, "
        f"the middle 95\N{NO-BREAK SPACE}% of {subject.n_samples:,} samples of the texts, drawn with replacement.",
        note=subject.made,
        lang=subject.style.lang,
        direction=subject.style.direction,
        style=STYLE + REPORT_STYLE,
    )


def _parts(found: Findings, subject: Subject, largest: Sequence[Group]) -> list[Section]:
    """Return the sections about a component: title, HTML, and how to read it."""
    sections = (
        ("Scores", _scores(found), ""), _errors(found), _confusions(found, subject), _familiar(found, subject),
        _certainty(found), _curve(found), _weights(found, largest), _worst(found, subject),
    )  # fmt: skip
    return [one for one in sections if one[0]]


def _anchor(component: str, title: str) -> str:
    return f"{component}-{title.lower().replace(' ', '-')}"


def _scores(found: Findings) -> str:
    whole = found.whole
    values = [("Accuracy of tags", found.accuracy), ("Sequence accuracy", found.sequence_accuracy)]
    if found.unit == "spans":
        values = [("F1", whole.f1), ("Precision", whole.precision), ("Recall", whole.recall), *values]
    entries: list[tuple[str, ...]] = [(name, _percent(value.value), _interval(value)) for name, value in values]
    entries.append((f"Gold {found.unit}", f"{whole.gold:,}"))
    rows = sorted(found.labels.items(), key=lambda item: -item[1].gold)
    few, more = rows[:MOST_LABELS], len(rows) - MOST_LABELS
    chart = charts.bar_chart([_bar(name, row.f1) for name, row in few], unit="%")
    caption = "F1 by label, the most frequent first" + (f"; {more} rarer labels are left out" if more > 0 else "")
    table = _score_table("Label", [*few, ("all", whole)])
    return frame.facts(entries) + frame.columns(frame.figure(chart, caption), table)


def _bar(name: str, score: Estimate) -> Bar:
    value, low, high = (None if part is None else round(100 * part, 1) for part in score)
    return Bar(name, float("nan") if value is None else value, None, low, high)


def _score_table(first: str, rows: Sequence[tuple[str, Row]]) -> Markup:
    cells = []
    for name, row in rows:
        counts = (f"{n:,}" for n in (row.gold, row.found, row.right))
        cells.append((name, *map(_cell, (row.f1, row.precision, row.recall)), *counts))
    # the first columns are those that a narrow window shows
    return frame.table((first, "F1", "Precision", "Recall", "Gold", "Found", "Right"), cells, range(1, 7))


def _cell(score: Estimate) -> Markup:
    interval = _interval(score)
    return Markup(_percent(score.value) + (f"<small>{interval}</small>" if interval else ""))


def _percent(value: float | None) -> str:
    return NO_SCORE if value is None else f"{100 * value:.1f}"


def _interval(score: Estimate) -> str:
    return "" if score.low is None else f"{_percent(score.low)}\u2013{_percent(score.high)}"


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
        frame.columns(frame.figure(chart), table),
        "Each gold span is paired with at most one predicted span: one with the same tokens and label (right), with "
        "these tokens (wrong label), an overlapping one with the same label (wrong boundary) or another (both wrong), "
        "or none (missed). Predicted spans without a partner are spurious. After Manning (2006).",
    )


def _confusions(found: Findings, subject: Subject) -> Section:
    if not found.confusions:
        return NONE
    anchors = {(a, b): f"{found.name}-confusion-{i}" for i, (a, b, _) in enumerate(found.confusions)}
    spans, maps = found.unit == "spans", []
    if spans:
        labels = [*found.labels, NOTHING]
        counts = Counter({(a, b): n for a, b, n in found.confusions})
        table = np.array([[counts[a, b] for b in labels] for a in labels])
        # spans with the right label and wrong boundaries count as right here
        right = [row.right + found.kinds.get(label, {}).get(BOUNDARY, 0) for label, row in found.labels.items()]
        np.fill_diagonal(table, [*right, 0])
        maps.append(frame.figure(_confusion_map(labels, table, anchors), "Of spans"))
    kept = _strongest(found.tag_confusion.sum(0) + found.tag_confusion.sum(1) - 2 * np.diag(found.tag_confusion))
    left_out = len(found.tags) - len(kept)
    caption = "Of the tags of tokens" + (f", without {left_out} that are confused less often" if left_out else "")
    few = found.tag_confusion[np.ix_(kept, kept)]
    tags = _confusion_map([found.tags[i] for i in kept], few, {} if spans else anchors)
    maps.append(frame.figure(tags, caption))
    listed, wide = _confused(found, subject, anchors), "" if spans or len(kept) <= MOST_BESIDE else maps.pop()
    return (
        "Confusion",
        wide + frame.columns(*maps[:1], listed) + "".join(maps[1:]),
        "How often a gold label (row) was predicted as another (column); a cell leads to its sentences. The diagonal "
        "has no colour" + ("; of spans, it includes those with wrong boundaries." if found.kinds else "."),
    )


def _confused(found: Findings, subject: Subject, anchors: Mapping[tuple[str, str], str]) -> Markup:
    """Return the most frequent confusions, each with a folded list of sentences."""
    items = []
    for a, b, n in found.confusions:
        sentences = found.examples[a, b]
        marker = _marker(sentences, subject)
        words = f"{a} predicted as {b}" if a and b else f"{a} not found" if a else f"{b} found where there is nothing"
        body = "".join(_article(marker, one, found.unit) for one in sentences)
        items.append(frame.folded(f"{words}: {n:,}", body, anchor=anchors[a, b]))
    some, rest = articles(items[:MOST_CONFUSIONS]), articles(items[MOST_CONFUSIONS:])
    more = frame.folded(f"{len(items) - MOST_CONFUSIONS} more", rest) if items[MOST_CONFUSIONS:] else ""
    return frame.figure(some + more, f"The most frequent confusions, with up to {EXAMPLES} sentences each")


def _strongest(strength: NDArray[Any]) -> list[int]:
    return sorted(np.argsort(-strength, kind="stable")[:MOST_LABELS].tolist())


def _confusion_map(labels: Sequence[str], table: NDArray[np.int64], anchors: Mapping[tuple[str, str], str]) -> Markup:
    names, colors = [shown_label(label) for label in labels], table.astype(np.float64)
    np.fill_diagonal(colors, np.nan)
    shown = [[f"{n:,}" if n else "" for n in row] for row in table.tolist()]
    places = {(i, j): (a, b) for i, a in enumerate(labels) for j, b in enumerate(labels)}
    links = {place: anchors[pair] for place, pair in places.items() if pair in anchors}
    return charts.heat_map(
        names, names, colors, diverging=False, row="gold", column="predicted", shown=shown, links=links
    )


def _familiar(found: Findings, subject: Subject) -> Section:
    what = "spans" if found.unit == "spans" else "words"
    title = f"Seen and unseen {what}"
    if found.familiar is None:
        about = f"Give the training corpus by --corpus to see which {what} the model met in training."
        return title, "", about
    shared = sum(row.gold for row in found.familiar.values())
    each = found.familiar.items()
    rows = [(f"{name} ({row.gold / shared:.0%} of gold)" if shared else name, row) for name, row in each]
    chart = charts.bar_chart([_bar(name, row.recall) for name, row in each], unit="%")
    about = f"By the exact text of {what} and by the words in {subject.corpus}."
    return title, frame.columns(frame.figure(chart, "Recall"), _score_table("", rows)), about


def _certainty(found: Findings) -> Section:
    title, certainty = "Probabilities", found.certainty
    if certainty is None:
        return title, "", "The model is normalised at each token, so it has no probabilities of spans and sentences."
    whole = certainty.whole
    if not whole.total:
        return title, "", "Nothing is predicted in the file, so they cannot be judged."
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
        f"Of the {what} predicted with probability 0.8, eight in ten should be right: on the dashed line they are. "
        "Below it the model is overconfident, above it underconfident; crfseq calibrate corrects both.",
    )


def _curve(found: Findings) -> Section:
    title, log = "Training", found.curve
    if not log:
        return title, "", "Give the log.jsonl of fit by --train to see the learning curve."
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
        about = "model-best has the weights of the iteration with the best score on the dev corpus of the training."
    return title, frame.facts(entries) + frame.columns(*map(frame.figure, figures)), about


def _points(log: Sequence[dict[str, float]], x: str, y: str) -> list[tuple[float, float]]:
    return [(entry[x], entry[y]) for entry in log if entry.get(x) is not None and entry.get(y) is not None]


def _weights(found: Findings, largest: Sequence[Group]) -> Section:
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
    tags, weights = found.transitions
    size = np.abs(weights[:-1, :-1])
    kept = _strongest(np.nansum(size, axis=0) + np.nansum(size, axis=1))
    around, few = [*kept, len(tags)], [tags[i] for i in kept]
    table = weights[np.ix_(around, around)]
    heat = charts.heat_map([*few, "start"], [*few, "end"], table, diverging=True, row="from", column="to")
    note = f", {len(tags) - len(kept)} weaker labels left out" if len(kept) < len(tags) else ""
    parts = [frame.figure(charts.bar_chart(bars, unit="weights"), caption)]
    labels = "".join(frame.folded(group.title, weights_of(group, with_label=False)) for group in largest)
    if labels:
        parts.append(frame.figure(labels, "The largest weights for and against each label"))
    steps = frame.figure(heat, f"Of transitions between labels; empty cells are forbidden{note}")
    return "Weights", frame.columns(*parts) + steps, ""


def _worst(found: Findings, subject: Subject) -> Section:
    if not found.worst:
        return "Sentences", "", "There are no errors."
    counts = _label_counts(found.worst)
    marker = _marker(found.worst, subject)
    what, marked = "spans", "gold above, predicted below"
    if found.unit == "tokens":
        what, marked = "tags", "wrong tokens with their gold tag above and the predicted tag below"
    order = ", then those whose labelling has the highest probability" if found.certainty is not None else ""
    return (
        "Sentences",
        marker.key(counts, wrong="wrong or missed" if found.unit == "spans" else "")
        + articles(_article(marker, one, found.unit) for one in found.worst),
        f"The {len(found.worst)} sentences with most wrong {what}{order}; equal ones appear once. Shown: {marked}. "
        "The stronger the colour, the more probable.",
    )


def _label_counts(sentences: Sequence[Sentence]) -> Counter[str]:
    counts = Counter(span.label for one in sentences for span in one.gold)
    counts.update(span.label for one in sentences for span, _ in one.found)
    return counts


def _marker(sentences: Sequence[Sentence], subject: Subject) -> Marker:
    return Marker(_label_counts(sentences), subject.style)


def _article(marker: Marker, one: Sentence, unit: str) -> Markup:
    spans, what = unit == "spans", "span" if unit == "spans" else "tag"
    sure = f", probability {rounded(one.probability)}" if one.probability is not None else ""
    part = ", in part" if one.cut else ""
    same = f"; the same in {', '.join(f'{n:,}' for n in one.same[:MOST_SAME])}" if one.same else ""
    more = f" and {len(one.same) - MOST_SAME:,} more" if len(one.same) > MOST_SAME else ""
    odd = one.odd if spans else set()  # for a tagger, only wrong tokens are marked at all
    found = [(*span, p) for span, p in one.found]
    gold = marker.marked(one.tokens, [(*span, None) for span in one.gold], dict.fromkeys(odd, "missed"))
    return article(
        Markup(f"text {one.text:,}, {one.wrong} wrong {what}{'' if one.wrong == 1 else 's'}{sure}{part}{same}{more}"),
        side("gold", gold),
        side("predicted", marker.marked(one.tokens, found, dict.fromkeys(odd, "wrong"))),
    )
