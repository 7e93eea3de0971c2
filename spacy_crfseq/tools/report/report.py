"""The results in a report on a component: scores, errors, probabilities, weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...evaluation.bootstrap import Interval, interval
from ...evaluation.calibration import Certainty
from ...evaluation.errors import FAMILIAR, NOTHING, Familiarity, kinds_by_label, pair_spans, span_confusion
from ...evaluation.judged import Judged, Tokens, moved, shown_part, within
from ...prf import accuracy, finite, rates_by_label
from ...schemes import Span

if TYPE_CHECKING:
    from ...evaluation.weights import TemplateWeights

MOST_CONFUSIONS = 30
EXAMPLES = 3
"""Number of sentences for each confusion."""


class Estimate(NamedTuple):
    """A score, None if its denominator is zero, and its bootstrap interval."""

    value: float | None
    low: float | None
    high: float | None


class Row(NamedTuple):
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


class Sentence(NamedTuple):
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
    gold: list[Span]
    found: list[tuple[Span, float | None]]
    wrong: int
    probability: float | None
    same: list[int]

    @property
    def odd(self) -> set[Span]:
        """The missed and the wrong spans."""
        return set(self.gold) ^ {span for span, _ in self.found}

    def as_json(self) -> dict[str, Any]:
        """Return the words and the spans for JSON."""
        spans = {"gold": [list(span) for span in self.gold], "found": [[*span, p] for span, p in self.found]}
        names = {"text": self.text, "same": self.same, "words": self.tokens.words}
        return {**names, **spans, "probability": self.probability}


class Findings(NamedTuple):
    """The results on a component.

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
    transitions: Names of labels, and weights from each (rows, then the start) to each (columns, then the end); nan if
        the scheme forbids the transition.
    curve: Iterations of the training log.
    worst: Sentences with most errors, equal ones once.
    """

    name: str
    unit: str
    texts: int
    tokens: int
    accuracy: Estimate
    sequence_accuracy: Estimate
    whole: Row
    labels: dict[str, Row]
    kinds: dict[str, dict[str, int]]
    tags: list[str]
    tag_confusion: NDArray[np.int64]
    confusions: list[tuple[str, str, int]]
    examples: dict[tuple[str, str], list[Sentence]]
    familiar: dict[str, Row] | None
    certainty: Certainty | None
    templates: list[TemplateWeights]
    transitions: tuple[list[str], NDArray[np.float64]]
    curve: list[dict[str, Any]]
    worst: list[Sentence]

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
                {"gold": a or None, "found": b or None, "count": n, "texts": [one.text for one in self.examples[a, b]]}
                for a, b, n in self.confusions
            ],
            "familiar": self.familiar and {name: row.as_json() for name, row in self.familiar.items()},
            "calibration": self.certainty and self.certainty.as_json(),
            "templates": [row._asdict() for row in self.templates],
            "transitions": {"labels": names, "weights": [[finite(value) for value in row] for row in weights.tolist()]},
            "log": self.curve,
            "worst": [one.as_json() for one in self.worst],
        }


class Weights(NamedTuple):
    """Weights of a model; see `Findings`."""

    templates: list[TemplateWeights]
    transitions: tuple[list[str], NDArray[np.float64]]


class Sequences(NamedTuple):
    """The N sequences of M texts.

    offsets [N + 1], text_offsets [M + 1]: Token offsets.
    log_probabilities [N]: Log-probabilities of the predicted labels; 0 if there are none.
    """

    offsets: NDArray[Any]
    text_offsets: NDArray[Any]
    log_probabilities: NDArray[np.float64]


def findings(
    name: str,
    judged: Judged,
    sequences: Sequences,
    weights: Weights,
    *,
    known: Familiarity | None,
    curve: list[dict[str, Any]],
    n_worst: int,
    n_samples: int,
) -> Findings:
    """Return the results on a component.

    known: Texts and labels of the training corpus.
    curve: Iterations of the training log.
    n_worst, n_samples: Number of sentences to show, and of bootstrap samples.
    """
    tags, table = judged.tag_confusion()
    by_tag = Counter({(tags[i], tags[j]): n for i, row in enumerate(table.tolist()) for j, n in enumerate(row)})
    pairs = judged.pairs()
    confusions = _confusions(by_tag if judged.plain else span_confusion(pairs), MOST_CONFUSIONS)
    (whole,) = _rows(judged.counts.sum(1, keepdims=True), n_samples)
    return Findings(
        name=name,
        unit=judged.unit,
        texts=len(judged.texts),
        tokens=int(judged.token_counts[:, 1].sum()),
        accuracy=_estimates(interval(judged.token_counts, accuracy, n_samples))[0],
        sequence_accuracy=_estimates(interval(_Places(judged, sequences).counts(), accuracy, n_samples))[0],
        whole=whole,
        labels=dict(zip(judged.labels, _rows(judged.counts, n_samples), strict=True)),
        kinds={} if judged.plain else {label: dict(found) for label, found in kinds_by_label(pairs).items()},
        tags=tags,
        tag_confusion=table,
        confusions=confusions,
        examples=_examples(judged, sequences, confusions),
        familiar=None if known is None else _familiar(judged, known, n_samples),
        certainty=judged.certainty(),
        templates=weights.templates,
        transitions=weights.transitions,
        curve=curve,
        worst=_worst(judged, sequences, n_worst),
    )


def _estimates(found: Interval) -> list[Estimate]:
    columns = (np.atleast_1d(part).tolist() for part in found)
    return [Estimate(*map(finite, each)) for each in zip(*columns, strict=True)]


def _rows(counts: NDArray[np.int64], n_samples: int) -> list[Row]:
    if not counts.shape[1]:
        return []
    estimates = _estimates(interval(counts.reshape(len(counts), -1), rates_by_label, n_samples))
    totals = counts.sum(0).tolist()
    return [Row(gold, found, right, *estimates[3 * i : 3 * i + 3]) for i, (right, found, gold) in enumerate(totals)]


def _confusions(table: Counter[tuple[str, str]], most: int) -> list[tuple[str, str, int]]:
    wrong = ((a, b, n) for (a, b), n in table.items() if a != b and n)
    return sorted(wrong, key=lambda row: (-row[2], *row[:2]))[:most]


def _familiar(judged: Judged, known: Familiarity, n_samples: int) -> dict[str, Row]:
    counts = known.counts([text.words for text in judged.texts], judged.gold, judged.found)
    rows = dict(zip(FAMILIAR, _rows(counts, n_samples), strict=True))
    return {name: row for name, row in rows.items() if row.gold or row.found}


class _Places:
    """The sequences of the evaluated texts, and sentences made of them."""

    def __init__(self, judged: Judged, sequences: Sequences) -> None:
        self._judged, self._log_probabilities = judged, sequences.log_probabilities
        offsets, starts = sequences.offsets, sequences.text_offsets
        self._offsets, self._starts = offsets, starts
        homes = np.searchsorted(starts, offsets[:-1], side="right") - 1
        firsts = starts[homes]
        each = homes.tolist(), (offsets[:-1] - firsts).tolist(), (offsets[1:] - firsts).tolist()
        self.all = list(zip(*each, strict=True))

    def of(self, text: int, token: int) -> int:
        """Return the number of the sequence that contains a token of a text."""
        return int(np.searchsorted(self._offsets, self._starts[text] + token, side="right")) - 1

    def mistakes(self, number: int) -> int:
        """Return the number of missed and wrong spans, or a tagger's wrong tokens."""
        return self._judged.mistakes(*self.all[number])

    def counts(self) -> NDArray[np.int64]:
        """Return numbers of sequences without mistakes, and of those with known tags, of each text [N, 2]."""
        table = np.zeros((len(self._judged.texts), 2), np.int64)
        for number, (text, begin, end) in enumerate(self.all):
            if set(self._judged.gold_tags[text][begin:end]) != {None}:
                table[text] += not self.mistakes(number), 1
        return table

    def cost(self, number: int) -> float:
        """Return the negative log-probability of the predicted labels."""
        return -float(self._log_probabilities[number])

    def content(self, number: int) -> tuple[Any, ...]:
        """Return words, annotation and predictions, which are the same for equal sentences."""
        text, begin, end = self.all[number]
        sides = (self._judged.gold[text], self._judged.found[text])
        spans = (tuple(moved(span, begin) for span in within(side, begin, end)) for side in sides)
        return (tuple(self._judged.texts[text].words[begin:end]), *spans)

    def sentence(self, number: int, same: Sequence[int] = (), shown: Span | None = None) -> Sentence:
        """Return a sequence as a sentence; a long one is cut around a span, or around its first error.

        same (Sequence[int]): The sequences equal to it.
        """
        judged, (home, begin, end) = self._judged, self.all[number]
        gold, found = judged.gold[home], judged.found[home]
        odd = set(within(gold, begin, end)) ^ set(within(found, begin, end))
        first, last = shown_part(begin, end, shown.start if shown else min(span.start for span in odd))
        sure = judged.temperature is not None
        p_of = dict(zip(found, judged.probabilities[home], strict=True)) if sure else {}

        def part(spans: Sequence[Span]) -> list[tuple[Span, float | None]]:
            here = [span for span in within(spans, first, last) if not judged.plain or span in odd]
            return [(moved(span, first), p_of.get(span)) for span in here]

        return Sentence(
            text=home + 1,
            tokens=judged.texts[home].part(first, last),
            cut=last - first < end - begin,
            gold=[span for span, _ in part(gold)],
            found=part(found),
            wrong=self.mistakes(number),
            probability=float(np.exp(-self.cost(number))) if sure else None,
            same=sorted({self.all[other][0] + 1 for other in same} - {home + 1}),
        )


def _worst(judged: Judged, sequences: Sequences, number: int) -> list[Sentence]:
    # among equally many errors, the most probable labelling first
    places = _Places(judged, sequences)
    wrong = {i: n for i in range(len(places.all)) if (n := places.mistakes(i))}
    ranked = sorted(wrong, key=lambda i: (-wrong[i], places.cost(i), places.all[i]))
    alike: dict[tuple[Any, ...], list[int]] = {}
    for i in ranked:
        alike.setdefault(places.content(i), []).append(i)
    return [places.sentence(first, same) for first, *same in list(alike.values())[:number]]


def _examples(
    judged: Judged, sequences: Sequences, confusions: Sequence[tuple[str, str, int]]
) -> dict[tuple[str, str], list[Sentence]]:
    places = _Places(judged, sequences)
    found: dict[tuple[str, str], dict[tuple[Any, ...], Sentence]] = {(a, b): {} for a, b, _ in confusions}
    for text, pairs in enumerate(_confused(judged)):
        for key, span in pairs:
            if len(found.get(key, ())) < EXAMPLES and key in found:
                number = places.of(text, span.start)
                found[key].setdefault(places.content(number), places.sentence(number, shown=span))
    return {key: list(sentences.values()) for key, sentences in found.items()}


def _confused(judged: Judged) -> Iterator[list[tuple[tuple[str, str], Span]]]:
    """Yield the confusions in each text: gold label, predicted label, and a span."""
    for gold, found, tags in zip(judged.gold, judged.found, judged.tags, strict=True):
        if judged.plain:
            tokens = ((span, tags[span.start]) for span in gold)
            yield [((span.label, tag), span) for span, tag in tokens if span.label != tag]
            continue
        pairs = ((a or b, a, b) for _, a, b in pair_spans(gold, found))
        yield [
            ((a.label if a else NOTHING, b.label if b else NOTHING), span)
            for span, a, b in pairs
            if span and (a is None or b is None or a.label != b.label)
        ]


def kind_totals(kinds: dict[str, dict[str, int]]) -> Counter[str]:
    """Return the number of spans by kind of error, over all labels."""
    return sum(map(Counter, kinds.values()), Counter())


def shown_label(label: str) -> str:
    """Return a label as shown in tables of spans."""
    return "nothing" if label == NOTHING else label
