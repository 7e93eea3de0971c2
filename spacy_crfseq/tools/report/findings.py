"""The results on a trained component: scores, errors, probabilities, weights, and the sentences with most mistakes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...prf import accuracy, finite, rates_by_label
from ...schemes import TagSpan
from .._pages.bootstrap import Interval, interval
from .._pages.calibration import certainty
from .._pages.html import Markup, heat_map
from .._pages.judged import Judged, Tokens, moved, shown_part, within
from .._pages.spans import FAMILIAR, Familiarity
from .._pages.weights import weights_by_template
from .kinds import (
    BOTH,
    BOUNDARY,
    LABEL,
    MISSED,
    NOTHING,
    RIGHT,
    SPURIOUS,
    confusion,
    kinds_by_label,
    pair_spans,
    span_confusion,
)

if TYPE_CHECKING:
    from ...pipeline.component import CRFComponent
    from ...pipeline.doc_posterior import DocPosterior
    from .._pages.html import Side

MOST_CONFUSIONS = 30
EXAMPLES = 3
"""Number of sentences for each confusion."""


class Estimate(NamedTuple):
    """A score, None if its denominator is zero, and its bootstrap interval."""

    value: float | None
    low: float | None
    high: float | None


class ScoredCounts(NamedTuple):
    """Scores of some spans or tokens: the number of gold, predicted and correct ones, and rates."""

    gold: int
    found: int
    right: int
    precision: Estimate
    recall: Estimate
    f1: Estimate

    def as_json(self) -> dict[str, Any]:
        """Return the figures for JSON."""
        return {name: v._asdict() if isinstance(v, Estimate) else v for name, v in self._asdict().items()}


class ErroneousSentence(NamedTuple):
    """A sentence with errors.

    text: Number of its text in the file, from 1; `same`: Texts with equal sentences and errors.
    tokens, cut: Its tokens, or a part of them; whether they are a part.
    gold, found: Spans, or the wrong tokens of a tagger; predicted ones with their probabilities, if there are any.
    wrong: Number of missed and wrong spans.
    probability: Probability of the whole labelling.
    """

    text: int
    tokens: Tokens
    cut: bool
    gold: list[TagSpan]
    found: list[tuple[TagSpan, float | None]]
    wrong: int
    probability: float | None
    same: list[int]

    @property
    def odd(self) -> set[TagSpan]:
        """The missed and the wrong spans."""
        return set(self.gold) ^ {span for span, _ in self.found}

    def sides(self, unit: str) -> list[Side]:
        """Return gold and predicted spans, and notes on the missed and the wrong ones; a tagger's are all wrong."""
        odd = self.odd if unit == "spans" else set()
        gold, predicted = [(*span, None) for span in self.gold], [(*span, p) for span, p in self.found]
        return [("gold", gold, dict.fromkeys(odd, "missed")), ("predicted", predicted, dict.fromkeys(odd, "wrong"))]

    def as_json(self) -> dict[str, Any]:
        """Return the words and the spans for JSON."""
        spans = {"gold": [list(span) for span in self.gold], "found": [[*span, p] for span, p in self.found]}
        names = {"text": self.text, "same": self.same, "words": self.tokens.words}
        return {**names, **spans, "probability": self.probability}


class Findings:
    """The results on a component.

    familiarity: Texts and labels of the training corpus, None without one.
    curve: Iterations of the training log.
    n_worst, n_samples: Number of sentences to show, and of bootstrap samples.

    unit: "spans", or "tokens" of a tagger.
    texts, tokens: Number of evaluated texts and tokens.
    accuracy, sequence_accuracy: Share of tokens with the right tag, and of sequences whose known tokens all have it.
    whole, labels: Scores over all labels, and by label.
    kinds: Number of spans by label and kind of error; empty for taggers.
    tag_confusion: How often each gold tag (row) was predicted as each tag (column).
    confusions: The most frequent ones: gold label, predicted label ("" for none), count.
    examples: Some sentences for each of these confusions.
    familiar: Scores of spans or words seen in training and of unseen ones; None without a training corpus.
    certainty: Calibration of the probabilities; None if there are none.
    transitions: Weights from each label (rows, then the start) to each label (columns, then the end); nan if the
        scheme forbids the transition.
    worst: Sentences with most errors, equal ones once.
    """

    def __init__(
        self, pipe: CRFComponent, judged: Judged, answers: DocPosterior, familiarity: Familiarity | None,
        curve: list[dict[str, Any]], n_worst: int, n_samples: int,
    ) -> None:  # fmt: skip
        sentences = _Sentences(judged, answers)
        pairs = [pair for texts in zip(judged.gold, judged.found, strict=True) for pair in pair_spans(*texts)]
        self.name, self.unit, self.curve = pipe.name, judged.unit, curve
        self.texts, self.tokens = len(judged.texts), int(judged.token_counts[:, 1].sum())
        self.accuracy = _estimates(interval(judged.token_counts, accuracy, n_samples))[0]
        self.sequence_accuracy = _estimates(interval(sentences.counts(), accuracy, n_samples))[0]
        (self.whole,) = _rows(judged.counts.sum(1, keepdims=True), n_samples)
        self.labels = dict(zip(judged.labels, _rows(judged.counts, n_samples), strict=True))
        self.kinds = {} if judged.plain else {label: dict(kinds) for label, kinds in kinds_by_label(pairs).items()}
        self.tags, self.tag_confusion = tags, table = _tag_confusion(judged)
        by_tag = Counter({(tags[i], tags[j]): int(table[i, j]) for i, j in zip(*np.nonzero(table), strict=True)})
        counts = by_tag if judged.plain else span_confusion(pairs)
        wrong = sorted(((a, b, n) for (a, b), n in counts.items() if a != b), key=lambda row: (-row[2], *row[:2]))
        self.confusions = wrong[:MOST_CONFUSIONS]
        self.examples = sentences.examples(self.confusions)
        self.familiar = None if familiarity is None else _familiar(judged, familiarity, n_samples)
        self.certainty = certainty(judged)
        self.templates = weights_by_template(pipe.crf, pipe.doc_model.features.plans())
        self.transitions = list(pipe.tags), _transitions(pipe)
        self.worst = sentences.worst(n_worst)

    @property
    def anchors(self) -> dict[tuple[str, str], str]:
        """The names of the places on the page that show the confusions."""
        return {(a, b): f"{self.name}-confusion-{i}" for i, (a, b, _) in enumerate(self.confusions)}

    @property
    def main_score(self) -> tuple[Estimate, str]:
        """The main score and its name."""
        return (self.whole.f1, "F1") if self.unit == "spans" else (self.accuracy, "accuracy")

    def as_json(self) -> dict[str, Any]:
        """Return the figures for JSON."""
        names, weights = self.transitions
        return {
            **{name: getattr(self, name) for name in ("unit", "texts", "tokens")},
            "accuracy": self.accuracy._asdict(),
            "sequence_accuracy": self.sequence_accuracy._asdict(),
            "all": self.whole.as_json(),
            "labels": {label: row.as_json() for label, row in self.labels.items()},
            "errors": self.kinds,
            "tags": self.tags,
            "tag_confusion": self.tag_confusion.tolist(),
            "confusions": [
                {
                    "gold": a or None,
                    "found": b or None,
                    "count": n,
                    "texts": [sentence.text for sentence in self.examples[a, b]],
                }
                for a, b, n in self.confusions
            ],
            "familiar": self.familiar and {name: row.as_json() for name, row in self.familiar.items()},
            "calibration": self.certainty and self.certainty.as_json(),
            "templates": [row._asdict() for row in self.templates],
            "transitions": {"labels": names, "weights": [[finite(value) for value in row] for row in weights.tolist()]},
            "log": self.curve,
            "worst": [sentence.as_json() for sentence in self.worst],
        }


def _transitions(pipe: CRFComponent) -> NDArray[np.float64]:
    views, n, rules = pipe.crf.views, len(pipe.tags), pipe.annotation.constraints(pipe.tags)
    steps = np.full((n + 1, n + 1), np.nan)
    steps[:n, :n] = np.where(rules.step, views.transitions, np.nan)
    steps[n, :n] = np.where(rules.start, views.start, np.nan)
    steps[:n, n] = np.where(rules.end, views.end, np.nan)
    return steps


def _tag_confusion(judged: Judged) -> tuple[list[str], NDArray[np.int64]]:
    pairs = [pair for pairs in judged.word_tags for pair in pairs]
    gold, predicted = [a for a, _ in pairs], [b for _, b in pairs]
    names = sorted({tag for tag in (*gold, *predicted) if tag is not None})
    number: dict[str | None, int] = {None: -1, **{name: i for i, name in enumerate(names)}}
    return names, confusion([number[tag] for tag in gold], [number[tag] for tag in predicted], len(names))


def _estimates(scores: Interval) -> list[Estimate]:
    columns = (np.atleast_1d(part).tolist() for part in scores)
    return [Estimate(*map(finite, figures)) for figures in zip(*columns, strict=True)]


def _rows(counts: NDArray[np.int64], n_samples: int) -> list[ScoredCounts]:
    if not counts.shape[1]:
        return []
    estimates = _estimates(interval(counts.reshape(len(counts), -1), rates_by_label, n_samples))
    totals = counts.sum(0).tolist()
    return [
        ScoredCounts(gold, predicted, right, *estimates[3 * i : 3 * i + 3])
        for i, (right, predicted, gold) in enumerate(totals)
    ]


def _familiar(judged: Judged, familiarity: Familiarity, n_samples: int) -> dict[str, ScoredCounts]:
    counts = familiarity.counts([text.words for text in judged.texts], judged.gold, judged.found)
    rows = dict(zip(FAMILIAR, _rows(counts, n_samples), strict=True))
    return {name: row for name, row in rows.items() if row.gold or row.found}


class _Sentences:
    """The sequences of the evaluated texts: text, first and last token, and log-probability of the predicted labels."""

    def __init__(self, judged: Judged, answers: DocPosterior) -> None:
        self._judged, self._offsets, self._starts = judged, answers.offsets, answers.doc_offsets
        texts = np.searchsorted(self._starts, self._offsets[:-1], side="right") - 1
        begins, ends = (side - self._starts[texts] for side in (self._offsets[:-1], self._offsets[1:]))
        self.all = list(zip(texts.tolist(), begins.tolist(), ends.tolist(), strict=True))
        self._logarithms = np.zeros(len(self.all))
        if judged.temperature is not None:
            self._logarithms = answers.distribution.log_probabilities(answers.all_labels)

    def counts(self) -> NDArray[np.int64]:
        """Return numbers of sequences without mistakes, and of those with known tags, of each text [N, 2]."""
        table = np.zeros((len(self._judged.texts), 2), np.int64)
        for text, begin, end in self.all:
            if set(self._judged.gold_tags[text][begin:end]) != {None}:
                table[text] += not self._judged.mistakes(text, begin, end), 1
        return table

    def worst(self, n_shown: int) -> list[ErroneousSentence]:
        """Return the sentences with most mistakes; among equally many, those with the most probable labels first."""
        wrong = {i: n for i, place in enumerate(self.all) if (n := self._judged.mistakes(*place))}
        alike: dict[tuple[Any, ...], list[int]] = {}
        for i in sorted(wrong, key=lambda i: (-wrong[i], -self._logarithms[i], self.all[i])):
            alike.setdefault(self._content(i), []).append(i)
        return [self._sentence(first, same) for first, *same in list(alike.values())[:n_shown]]

    def examples(self, confusions: Sequence[tuple[str, str, int]]) -> dict[tuple[str, str], list[ErroneousSentence]]:
        """Return some sentences for each confusion, equal ones once."""
        shown: dict[tuple[str, str], dict[tuple[Any, ...], ErroneousSentence]] = {(a, b): {} for a, b, _ in confusions}
        for text, pair, span in self._confused():
            if len(shown.get(pair, ())) < EXAMPLES and pair in shown:
                number = int(np.searchsorted(self._offsets, self._starts[text] + span.start, side="right")) - 1
                shown[pair].setdefault(self._content(number), self._sentence(number, shown=span))
        return {pair: list(sentences.values()) for pair, sentences in shown.items()}

    def _confused(self) -> Iterator[tuple[int, tuple[str, str], TagSpan]]:
        """Yield confusions: the number of the text, gold and predicted label, and a span."""
        judged = self._judged
        for text, (gold, predicted, tags) in enumerate(zip(judged.gold, judged.found, judged.tags, strict=True)):
            if judged.plain:
                yield from ((text, (s.label, tags[s.start]), s) for s in gold if s.label != tags[s.start])
                continue
            for _, a, b in pair_spans(gold, predicted):
                labels = a.label if a else NOTHING, b.label if b else NOTHING
                if (span := a or b) and labels[0] != labels[1]:
                    yield text, labels, span

    def _content(self, number: int) -> tuple[Any, ...]:
        """Return words, annotation and predictions, which are the same for equal sentences."""
        text, begin, end = self.all[number]
        sides = (self._judged.gold[text], self._judged.found[text])
        spans = (tuple(moved(span, begin) for span in within(side, begin, end)) for side in sides)
        return (tuple(self._judged.texts[text].words[begin:end]), *spans)

    def _sentence(self, number: int, same: Sequence[int] = (), shown: TagSpan | None = None) -> ErroneousSentence:
        """Return a sequence as a sentence; a long one is cut around a span, or around its first error."""
        judged, (text, begin, end) = self._judged, self.all[number]
        gold, predicted = judged.gold[text], judged.found[text]
        odd = set(within(gold, begin, end)) ^ set(within(predicted, begin, end))
        first, last = shown_part(begin, end, shown.start if shown else min(span.start for span in odd))
        sure = judged.temperature is not None
        probability = dict(zip(predicted, judged.probabilities[text], strict=True)) if sure else {}

        def part(spans: Sequence[TagSpan]) -> list[tuple[TagSpan, float | None]]:
            kept = [span for span in within(spans, first, last) if not judged.plain or span in odd]
            return [(moved(span, first), probability.get(span)) for span in kept]

        return ErroneousSentence(
            text=text + 1,
            tokens=judged.texts[text].part(first, last),
            cut=last - first < end - begin,
            gold=[span for span, _ in part(gold)],
            found=part(predicted),
            wrong=judged.mistakes(text, begin, end),
            probability=float(np.exp(self._logarithms[number])) if sure else None,
            same=sorted({self.all[other][0] + 1 for other in same} - {text + 1}),
        )


MOST_LABELS = 30
"""Number of labels in a chart or a table."""
MOST_TEMPLATES = 40
MOST_CONFUSIONS = 12
MOST_BESIDE = 20
"""Heat maps with at most this many columns share a row with something else."""
KIND_WORDS = {
    RIGHT: "right", LABEL: "wrong label", BOUNDARY: "wrong boundary", BOTH: "both wrong", MISSED: "missed",
    SPURIOUS: "spurious",
}  # fmt: skip


def confusion_maps(findings: Findings) -> tuple[list[tuple[Markup, str]], bool]:
    """Return heat maps of spans and tags, with captions, and whether the first leaves space for a list next to it."""
    maps, plain, anchors = [], findings.unit != "spans", findings.anchors
    if not plain:
        labels = [*findings.labels, NOTHING]
        counts = {(a, b): n for a, b, n in findings.confusions}
        # spans with the right label and wrong boundaries count as right here
        counts |= {(a, a): row.right + findings.kinds.get(a, {}).get(BOUNDARY, 0) for a, row in findings.labels.items()}
        table = np.array([[counts.get((a, b), 0) for b in labels] for a in labels])
        maps.append((_confusion_map(labels, table, anchors), "Of spans"))
    table = findings.tag_confusion
    kept = _strongest(table.sum(0) + table.sum(1) - 2 * np.diag(table))
    left_out = len(findings.tags) - len(kept)
    caption = "Of the tags of tokens" + (f", without {left_out} that are confused less often" if left_out else "")
    tags = [findings.tags[i] for i in kept]
    maps.append((_confusion_map(tags, table[np.ix_(kept, kept)], anchors if plain else {}), caption))
    return maps, not plain or len(kept) <= MOST_BESIDE


def _strongest(strength: NDArray[Any]) -> list[int]:
    return sorted(np.argsort(-strength, kind="stable")[:MOST_LABELS].tolist())


def _confusion_map(labels: Sequence[str], table: NDArray[np.int64], anchors: Mapping[tuple[str, str], str]) -> Markup:
    names, colors = [label or "nothing" for label in labels], table.astype(np.float64)
    np.fill_diagonal(colors, np.nan)
    shown = [[f"{n:,}" if n else "" for n in row] for row in table.tolist()]
    pairs = {(i, j): (a, b) for i, a in enumerate(labels) for j, b in enumerate(labels)}
    links = {place: anchors[pair] for place, pair in pairs.items() if pair in anchors}
    how = {"row": "gold", "column": "predicted", "shown": shown, "links": links}
    drawn: Markup = heat_map(names, names, colors.tolist(), diverging=False, **how)
    return drawn


def transition_map(findings: Findings) -> tuple[Markup, int]:
    """Return a heat map of the transitions between the labels with the largest, and how many labels it leaves out."""
    tags, weights = findings.transitions
    size = np.abs(weights[:-1, :-1])
    kept = _strongest(np.nansum(size, axis=0) + np.nansum(size, axis=1))
    around, few = [*kept, len(tags)], [tags[i] for i in kept]
    table = weights[np.ix_(around, around)].tolist()
    drawn = heat_map([*few, "start"], [*few, "end"], table, diverging=True, row="from", column="to")
    return drawn, len(tags) - len(kept)


def label_counts(sentences: Sequence[ErroneousSentence]) -> dict[str, int]:
    """Return how often each label is marked in sentences."""
    labels = [span.label for sentence in sentences for span in (*sentence.gold, *(span for span, _ in sentence.found))]
    return {label: labels.count(label) for label in set(labels)}
