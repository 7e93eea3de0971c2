"""A comparison of two pipelines on the same texts: scores, whether they differ by more than chance, what changed.

Intervals and p values are those of the paired bootstrap (Koehn 2004), in the form of Berg-Kirkpatrick, Burkett & Klein
(2012); `tools/_pages/bootstrap.py` has the formula.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from ...cli.console import table
from ...corpora import Preset
from ...errors import ConfigError, DataError
from ...pipeline.select import crfs_of
from ...prf import Values, accuracy, for_json, rates_by_label
from ...schemes import TagSpan
from .._pages import bootstrap
from .._pages.charts import Bar
from .._pages.judged import Judged, Tokens, for_each_component, judge, moved, shown_part, within
from .._pages.spans import span_counts

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc

    from ...pipeline.component import CRFComponent
    from .._pages.html import Side, TextStyle

SHOWN, SAMPLES = 5, 1000
"""Texts to show that got better, and that got worse; samples of the bootstrap."""
TOKENISED = 200
"""Number of texts on which the tokenizers are compared."""
MOST_WORDS = 40
"""Number of words of a text shown in a terminal."""


class Compared(NamedTuple):
    """The names of two pipelines, the results of `compare`, doubts about them, how to show the texts, and samples."""

    first: str
    second: str
    components: list[Comparison]
    doubts: list[str]
    style: TextStyle
    samples: int

    def to_json(self, number: int) -> dict[str, Any]:
        """Return the figures for JSON, with `number` texts that got better, and that got worse."""
        return {
            "first": self.first,
            "second": self.second,
            "doubts": self.doubts,
            "components": {component.name: component.as_json(number) for component in self.components},
        }


def compare(
    first: tuple[str, Language],
    second: tuple[str, Language],
    file: Path,
    preset: Preset,
    *,
    component: Sequence[str] | None = None,
    given: Sequence[str] | None = None,
    samples: int = SAMPLES,
) -> Compared:
    """Compare two pipelines, with their names, on an annotated file: the second against the first.

    component (Sequence[str] | None): CRF components to compare; None for all that both have.
    samples (int): Of the bootstrap, for intervals and p values.
    RAISES CrfError: If there is nothing to compare.
    """
    from .._pages.html import text_style

    models, pipelines = (first[0], second[0]), (first[1], second[1])
    pipes = [crfs_of(dict(nlp.pipeline), component or [], model) for nlp, model in zip(pipelines, models, strict=True)]
    shared = [name for name in pipes[0] if name in pipes[1]]
    if not shared:
        raise ConfigError(
            f"{models[0]} and {models[1]} share no CRF component: they have {', '.join(pipes[0])} and "
            f"{', '.join(pipes[1])}. Rename one of them (in config.cfg and its folder)."
        )
    wanted = [{name: of[name] for name in shared} for of in pipes]
    judged, docs = _judge_both(pipelines, wanted, file, preset, given)
    doubts = [
        f"only {model} has {', '.join(own)}; not compared."
        for of, model in zip(pipes, models, strict=True)
        if (own := [name for name in of if name not in shared])
    ]
    doubts += [*filter(None, [bootstrap.doubt(len(docs))]), *_different_tokens(pipelines, docs)]
    components = []
    for name in shared:
        if name in judged[0] and name in judged[1]:
            doubts += _different_tasks(pipes[0][name], pipes[1][name])
            components.append(compare_judged(name, judged[0][name], judged[1][name], samples))
    if not components:
        raise DataError(f"{file} holds no gold annotation for {', '.join(shared)}. Check --format and --component.")
    return Compared(*models, components, doubts, text_style(pipelines[1]), samples)


def _judge_both(
    pipelines: Sequence[Language], pipes: Sequence[dict[str, CRFComponent]], file: Path, layout: Preset, given: Any
) -> tuple[list[dict[str, Judged]], list[Doc]]:
    """Return the predictions of components for which the file has gold annotation, and its texts."""
    from ...pipeline.gold_file import read_gold

    judged: list[dict[str, Judged]] = []
    docs: list[Doc] = []
    with tqdm(total=2 * len(pipes[0]), disable=None, leave=False, file=sys.stderr, delay=1) as bar:

        def work(pipe: CRFComponent, docs: list[Doc]) -> Judged:
            bar.set_description(pipe.name)
            bar.update()
            return judge(pipe, gold.examples, docs)[0]

        for nlp, of in zip(pipelines, pipes, strict=True):
            with warnings.catch_warnings():
                if judged:  # the warnings about the file have been shown
                    warnings.simplefilter("ignore")
                gold = read_gold(nlp, file, layout, given, others=pipelines)
            docs = docs or [example.reference for example in gold.examples]
            judged.append(for_each_component(nlp, of, gold.examples, work, required=False, skipped=DataError)[0])
    return judged, docs


def _different_tokens(pipelines: Sequence[Language], docs: Sequence[Doc]) -> list[str]:
    texts = [doc.text for doc in docs[:TOKENISED]]
    own, other = ([[token.text for token in nlp.make_doc(text)] for text in texts] for nlp in pipelines)
    differ = sum(a != b for a, b in zip(own, other, strict=True))
    doubt = (
        f"the pipelines tokenize {differ} of the first {len(texts)} texts differently. Here both get the tokens of the "
        "file; on raw text they differ more."
    )
    return [doubt] if differ else []


def _different_tasks(first: CRFComponent, second: CRFComponent) -> list[str]:
    settings = [{**pipe.annotation.settings(), "scheme": None} for pipe in (first, second)]
    doubts = []
    if settings[0] != settings[1]:
        texts = " and ".join(
            ", ".join(f"{k} = {v!r}" for k, v in values.items() if v is not None) for values in settings
        )
        doubts.append(f"{first.name} predicts different things: {texts}.")
    labels, other = set(first.labels), set(second.labels)
    for own, which in ((labels - other, "A"), (other - labels, "B")):
        if own:
            doubts.append(f"only {which} predicts {', '.join(sorted(own))} ({first.name}).")
    return doubts


def comparison_lines(done: Compared, number: int) -> Iterator[str]:
    """Yield the lines about a comparison in the terminal, with `number` texts that got better, and that got worse."""
    yield f"A is {done.first}, B is {done.second}"
    header = ("", "gold", "A", "B", "B - A", "95 %", "p")
    for component in done.components:
        rows = component.rows()
        yield f"\n{component.name}"
        yield table(rows, header=header, aligns=("l", *"rrrrrr"), divider=True).rstrip("\n")
        if (more := len(component.labels) + 1 - len(rows)) > 0:
            yield f"{more} rarer labels are left out; --json has them."
        yield component.in_words()
        for title, how_many, changes in component.changes(number):
            yield f"\n{title.capitalize()} in B: {how_many}"
            for change in changes:
                yield from _change_lines(change)


def _change_lines(change: Change) -> list[str]:
    """Return the part of a text around a change, and below it what gold, A and B have there."""
    words = change.tokens.words
    begin = max(0, min(span.start for span in change.odd) - 5)
    end = begin + MOST_WORDS
    shown = " ".join(words[begin:end])
    head = f"  text {change.number}: {'... ' if begin else ''}{shown}{' ...' if end < len(words) else ''}"
    return [head, *(f"    {name:<4} {_spans_words(words, odd, end)}" for name, odd in change.sides())]


def _spans_words(words: Sequence[str], odd: Sequence[TagSpan], end: int) -> str:
    named = [f"{' '.join(words[span.start : span.end])} [{span.label}]" for span in odd if span.start < end]
    return ", ".join([*named, *([f"{len(odd) - len(named)} more"] if len(named) < len(odd) else [])]) or "nothing"


MOST_LABELS = 30
"""Number of labels in a table."""


class Line(NamedTuple):
    """Two scores of the same spans and their difference, as shares; nan if there is nothing to score.

    p: Probability of a difference as large by chance.
    """

    first: float
    second: float
    difference: float
    low: float
    high: float
    p: float

    def cells(self) -> list[str]:
        """Return A, B, their difference, its interval, and p as text; scores in per cent."""
        a, b = (_percent(score, "") for score in (self.first, self.second))
        if not np.isfinite(self.difference):
            return [a, b, "-", "-", "-"]
        interval = f"{_percent(self.low, '+')} to {_percent(self.high, '+')}"
        return [a, b, _percent(self.difference, "+"), interval, f"{self.p:.3f}"]

    def bar(self, name: str) -> Bar:
        """Return the difference as a bar, in points, with its interval if there is one."""
        value, low, high = (round(100 * v, 2) for v in (self.difference, self.low, self.high))
        return Bar(name, value, None, low, high) if np.isfinite(low) else Bar(name, value)


def _percent(share: float, sign: str) -> str:
    return f"{100 * share + 0.0:{sign}.2f}" if np.isfinite(share) else "-"


class Change(NamedTuple):
    """A text that one of the two labels better.

    number: Index of the text in the file, from 1.
    fewer: Number of mistakes that the second avoids.
    odd: Spans that gold, first and second do not share.
    """

    number: int
    fewer: int
    tokens: Tokens
    gold: list[TagSpan]
    first: list[TagSpan]
    second: list[TagSpan]
    odd: frozenset[TagSpan]

    def sides(self) -> list[tuple[str, list[TagSpan]]]:
        """Return the spans that are not shared, with their owners."""
        sides = (("gold", self.gold), ("A", self.first), ("B", self.second))
        return [(name, [span for span in spans if span in self.odd]) for name, spans in sides]

    def part(self) -> tuple[Tokens, list[Side]]:
        """Return the tokens to show on a page, and the spans in them that are not shared."""
        begin, end = shown_part(0, len(self.tokens.words), min(span.start for span in self.odd))
        sides = [(name, [moved(s, begin) for s in within(spans, begin, end)]) for name, spans in self.sides()]
        return self.tokens.part(begin, end), [(name, [(*span, None) for span in spans], {}) for name, spans in sides]

    def as_json(self) -> dict[str, Any]:
        """Return the text and all its spans for JSON."""
        spans = {name: [list(span) for span in getattr(self, name)] for name in ("gold", "first", "second")}
        return {"text": self.number, "fewer_mistakes": self.fewer, "words": self.tokens.words, **spans}


class Comparison(NamedTuple):
    """The comparison of a component of two pipelines.

    unit: "spans" or "tokens".
    score: Score of all labels together: "F1", or "accuracy" for a tagger.
    whole, labels, gold: Scores of all labels together; F1 of each; gold spans of each.
    only_first, only_second: Gold spans that one found and the other did not.
    texts_first, texts_second: Number of texts without mistakes in one and with mistakes in the other.
    better, worse: Texts in which the second makes fewer mistakes, and more; with the largest changes first.
    """

    name: str
    unit: str
    score: str
    texts: int
    whole: Line
    labels: dict[str, Line]
    gold: dict[str, int]
    only_first: int
    only_second: int
    texts_first: int
    texts_second: int
    better: list[Change]
    worse: list[Change]

    def lines(self) -> list[tuple[str, str, Line]]:
        """Return name, number of gold spans and scores of all labels together, then of the most frequent ones."""
        few = sorted(self.labels, key=lambda label: -self.gold[label])[:MOST_LABELS]
        of_labels = [(label, f"{self.gold[label]:,}", self.labels[label]) for label in few]
        return [(f"{self.score}, all", "", self.whole), *of_labels]

    def rows(self) -> list[list[str]]:
        """Return the lines as the cells of a table."""
        return [[name, n, *line.cells()] for name, n, line in self.lines()]

    def changes(self, n_shown: int) -> list[tuple[str, str, list[Change]]]:
        """Return improved and worsened texts to show: the kind, their number, and some of them."""
        return [
            (title, f"{len(changes):,} of {self.texts:,} texts, the largest changes first", changes[:n_shown])
            for title, changes in (("better", self.better), ("worse", self.worse))
            if changes[:n_shown]
        ]

    def in_words(self) -> str:
        """Return the number of examples that only one labelled correctly."""
        return (
            f"Gold {self.unit} that only A got right: {self.only_first:,}; only B: {self.only_second:,}. "
            f"Texts that only A got right as a whole: {self.texts_first:,}; only B: {self.texts_second:,}."
        )

    def as_json(self, n_shown: int) -> dict[str, Any]:
        """Return the figures for JSON, with some of the texts."""
        numbers = ("unit", "score", "texts", "only_first", "only_second", "texts_first", "texts_second")
        return {
            **{name: getattr(self, name) for name in numbers},
            "all": for_json(self.whole),
            "labels": {label: {"gold": self.gold[label], **for_json(line)} for label, line in self.labels.items()},
            "n_better": len(self.better),
            "n_worse": len(self.worse),
            "better": [change.as_json() for change in self.better[:n_shown]],
            "worse": [change.as_json() for change in self.worse[:n_shown]],
        }


def compare_judged(name: str, first: Judged, second: Judged, n_samples: int) -> Comparison:
    """Return the comparison of two predictions, with `n_samples` for the intervals."""

    def f1_by_label(counts: Values) -> Values:
        return rates_by_label(counts)[..., 2::3]

    labels = sorted({*first.labels, *second.labels})
    counts = [span_counts(side.gold, side.found, labels) for side in (first, second)]
    whole = [side.token_counts for side in (first, second)] if first.plain else [of_texts.sum(1) for of_texts in counts]
    of_labels = _lines([of_texts.reshape(len(of_texts), -1) for of_texts in counts], f1_by_label, n_samples)
    sides = [zip(side.gold, side.found, strict=True) for side in (first, second)]
    right = [[set(gold) & set(overlapping) for gold, overlapping in side] for side in sides]
    n_texts = len(first.texts)
    wrong = [np.array([side.mistakes(i) for i in range(n_texts)], np.int64) for side in (first, second)]
    changes = []
    for i, fewer in enumerate((wrong[0] - wrong[1]).tolist()):
        if fewer:
            gold, a, b = spans = first.gold[i], first.found[i], second.found[i]
            odd = frozenset({*gold, *a, *b} - (set(gold) & set(a) & set(b)))
            changes.append(Change(i + 1, fewer, first.texts[i], *spans, odd))
    return Comparison(
        name=name,
        unit=first.unit,
        score="accuracy" if first.plain else "F1",
        texts=n_texts,
        whole=_lines(whole, accuracy if first.plain else f1_by_label, n_samples)[0],
        labels=dict(zip(labels, of_labels, strict=True)),
        gold=dict(zip(labels, counts[0].sum(0)[:, 2].tolist(), strict=True)),
        only_first=sum(len(a - b) for a, b in zip(*right, strict=True)),
        only_second=sum(len(b - a) for a, b in zip(*right, strict=True)),
        texts_first=int(((wrong[0] == 0) & (wrong[1] > 0)).sum()),
        texts_second=int(((wrong[1] == 0) & (wrong[0] > 0)).sum()),
        better=sorted(
            (change for change in changes if change.fewer > 0), key=lambda change: (-change.fewer, change.number)
        ),
        worse=sorted(
            (change for change in changes if change.fewer < 0), key=lambda change: (change.fewer, change.number)
        ),
    )


def _lines(counts: Sequence[NDArray[np.int64]], score: bootstrap.Score, n_samples: int) -> list[Line]:
    difference = bootstrap.compare(counts[0], counts[1], score, n_samples)
    scores = [score(of_texts.sum(0).astype(np.float64)) for of_texts in counts]
    return [Line(*map(float, figures)) for figures in zip(*scores, *difference, strict=True)]
