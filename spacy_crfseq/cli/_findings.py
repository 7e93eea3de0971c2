"""The figures of a report on one component: scores, errors, probabilities, weights."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..analysis.bootstrap import Interval, Values, interval, prf, prf_by_label
from ..analysis.errors import FAMILIAR, KINDS, NOTHING, Familiarity, kinds_by_label, span_confusion
from ..errors import FormatError
from ..formats import read_lines
from ..schemes import Span
from ._judged import Judged, gold_spans, known_gold_tags

if TYPE_CHECKING:
    from spacy.tokens import Doc
    from spacy.training import Example

    from ..evaluation.weights import TemplateWeights
    from ..pipeline.component import CRFComponent
    from ..training.calibration import Bin, Calibration

MOST_CONFUSIONS = 30
LONGEST = 80
"""Tokens of a sentence that are shown."""
BEFORE = 10
"""Of a longer one, tokens shown before the first mistake."""


class Estimate(NamedTuple):
    """A score, None where nothing was there to divide by, and the interval that the bootstrap gives."""

    value: float | None
    low: float | None
    high: float | None


class Row(NamedTuple):
    """Scores of some spans, or tokens: of a label, or of all.

    gold, found, right (int): How many there are, were predicted, and both.
    """

    gold: int
    found: int
    right: int
    precision: Estimate
    recall: Estimate
    f1: Estimate


class Certainty(NamedTuple):
    """How far probabilities can be believed."""

    temperature: float
    whole: Calibration
    bins: list[Bin]


class Sentence(NamedTuple):
    """A sentence with mistakes.

    text (int): Which text of the file it is in, from 1.
    doc (Doc): Its tokens, or some of them.
    cut (bool): Whether these are some of them.
    gold (list[Span]): Of a tagger, those tokens that are wrong.
    found (list): Likewise, each with its probability, None where there are none.
    wrong (int): Gold spans not found, and found ones that are not right.
    probability (float | None): That the whole labelling is right.
    """

    text: int
    doc: Doc
    cut: bool
    gold: list[Span]
    found: list[tuple[Span, float | None]]
    wrong: int
    probability: float | None


class Findings(NamedTuple):
    """What a report tells of a component.

    unit (str): "spans", or "tokens" of a tagger.
    texts, tokens (int): What was judged.
    accuracy (Estimate): Share of tokens with the right tag.
    whole (Row): Of all labels together.
    labels (dict[str, Row]): Of each.
    kinds (dict[str, dict[str, int]]): Of each label, how many spans are of each kind; empty for taggers.
    tags (list[str]): All tags.
    tag_confusion (NDArray): Gold tags (rows) predicted as tags (columns).
    confusions (list): Most frequent ones: gold label, predicted label ("" for nothing), how often.
    familiar (dict[str, Row] | None): Of what was seen in training, and of what was not; None if nothing tells.
    certainty (Certainty | None): None without probabilities.
    templates (list[TemplateWeights]): Weights by template.
    transitions (tuple): Names of labels, weights from each (rows, then the start) to each (columns, then the end); nan
        where the scheme forbids it.
    curve (list[dict]): Iterations of the training log.
    worst (list[Sentence]): Sentences with most mistakes.
    """

    name: str
    unit: str
    texts: int
    tokens: int
    accuracy: Estimate
    whole: Row
    labels: dict[str, Row]
    kinds: dict[str, dict[str, int]]
    tags: list[str]
    tag_confusion: NDArray[np.int64]
    confusions: list[tuple[str, str, int]]
    familiar: dict[str, Row] | None
    certainty: Certainty | None
    templates: list[TemplateWeights]
    transitions: tuple[list[str], NDArray[np.float64]]
    curve: list[dict[str, Any]]
    worst: list[Sentence]

    def as_json(self) -> dict[str, Any]:
        """Return the figures in a form that JSON knows."""
        names, weights = self.transitions
        return {
            "unit": self.unit,
            "texts": self.texts,
            "tokens": self.tokens,
            "accuracy": self.accuracy._asdict(),
            "all": _row_json(self.whole),
            "labels": {label: _row_json(row) for label, row in self.labels.items()},
            "errors": self.kinds,
            "tags": self.tags,
            "tag_confusion": self.tag_confusion.tolist(),
            "confusions": [{"gold": a or None, "found": b or None, "count": n} for a, b, n in self.confusions],
            "familiar": self.familiar and {name: _row_json(row) for name, row in self.familiar.items()},
            "calibration": self.certainty
            and {
                "temperature": self.certainty.temperature,
                **{name: _finite(value) for name, value in self.certainty.whole._asdict().items()},
                "bins": [part._asdict() for part in self.certainty.bins],
            },
            "templates": [row._asdict() for row in self.templates],
            "transitions": {
                "labels": names,
                "weights": [[_finite(value) for value in row] for row in weights.tolist()],
            },
            "log": self.curve,
            "worst": [
                {
                    "text": one.text,
                    "words": [token.text for token in one.doc],
                    "gold": [list(span) for span in one.gold],
                    "found": [[*span, p] for span, p in one.found],
                    "probability": one.probability,
                }
                for one in self.worst
            ],
        }


def findings(
    pipe: CRFComponent,
    judged: Judged,
    *,
    known: Familiarity | None,
    curve: list[dict[str, Any]],
    n_worst: int,
    n_samples: int,
) -> Findings:
    """Return the figures of a component.

    known (Familiarity | None): What the training corpus holds.
    """
    from ..evaluation.weights import weights_by_template

    counts, n_texts = judged.counts, len(judged.docs)
    tags, table = judged.tag_confusion()
    pairs = [pair for each in judged.pairs for pair in each]
    return Findings(
        name=pipe.name,
        unit=judged.unit,
        texts=n_texts,
        tokens=int(judged.token_counts[:, 1].sum()),
        accuracy=_estimates(interval(judged.token_counts, _share, n_samples))[0],
        whole=_rows(counts.sum(1, keepdims=True), n_samples)[0],
        labels=dict(zip(judged.labels, _rows(counts, n_samples), strict=True)),
        kinds={} if judged.plain else {label: dict(found) for label, found in kinds_by_label(pairs).items()},
        tags=tags,
        tag_confusion=table,
        confusions=_table_confusions(tags, table) if judged.plain else _confusions(span_confusion(pairs)),
        familiar=None if known is None else _familiar(judged, known, n_samples),
        certainty=_certainty(judged),
        templates=weights_by_template(pipe.crf, pipe.method.features.plans()),
        transitions=_transitions(pipe),
        curve=curve,
        worst=_worst(judged, n_worst),
    )


def corpus_familiarity(pipe: CRFComponent, examples: Iterable[Example]) -> Familiarity:
    """Return the texts of the gold spans of a corpus, or of a tagger the words, with their labels."""
    plain = pipe.annotation.scheme is None

    def pairs() -> Iterable[tuple[str, str]]:
        for example in examples:
            words = [token.text for token in example.reference]
            for span in gold_spans(known_gold_tags(pipe, example), plain=plain):
                yield _text(words, span), span.label

    return Familiarity.of(pairs())


def read_log(path: Path, component: str) -> list[dict[str, Any]]:
    """Return what the log of `fit` tells of a component.

    RAISES FormatError: If the file is no such log.
    """
    entries = []
    for number, line in read_lines(path, "utf8"):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except ValueError as error:
            raise FormatError(
                path, number, f"no JSON ({error}). --train takes the log.jsonl that fit writes."
            ) from error
        if not isinstance(entry, dict) or not {"component", "iteration", "objective"} <= entry.keys():
            raise FormatError(path, number, "no iteration of a training. --train takes the log.jsonl that fit writes.")
        if entry["component"] == component:
            entries.append(entry)
    return entries


def _estimates(found: Interval) -> list[Estimate]:
    columns = (np.atleast_1d(part).tolist() for part in found)
    return [Estimate(*map(_finite, each)) for each in zip(*columns, strict=True)]


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _share(counts: Values) -> Values:
    with np.errstate(invalid="ignore", divide="ignore"):
        share: Values = counts[..., :1] / counts[..., 1:]
    return share


def _rows(counts: NDArray[np.int64], n_samples: int) -> list[Row]:
    """Return the scores of each of L labels; counts [N, L, 3]."""
    n_labels = counts.shape[1]
    if not n_labels:
        return []
    score: Callable[[Values], Values] = prf if n_labels == 1 else prf_by_label
    estimates = _estimates(interval(counts.reshape(len(counts), -1), score, n_samples))
    totals = counts.sum(0).tolist()
    return [Row(gold, found, right, *estimates[3 * i : 3 * i + 3]) for i, (right, found, gold) in enumerate(totals)]


def _row_json(row: Row) -> dict[str, Any]:
    counts = {"gold": row.gold, "found": row.found, "right": row.right}
    return {**counts, **{name: getattr(row, name)._asdict() for name in ("precision", "recall", "f1")}}


def _confusions(table: Counter[tuple[str, str]]) -> list[tuple[str, str, int]]:
    wrong = sorted((-n, a, b) for (a, b), n in table.items() if a != b)
    return [(a, b, -n) for n, a, b in wrong]


def _table_confusions(tags: Sequence[str], table: NDArray[np.int64]) -> list[tuple[str, str, int]]:
    places = np.argwhere(table > 0).tolist()
    found = Counter({(tags[i], tags[j]): int(table[i, j]) for i, j in places})
    return _confusions(found)[:MOST_CONFUSIONS]


def _text(words: Sequence[str], span: Span) -> str:
    return " ".join(words[span.start : span.end])


def _familiar(judged: Judged, known: Familiarity, n_samples: int) -> dict[str, Row]:
    """Return the scores of spans, or words, by whether the training corpus has them."""
    counts = np.zeros((len(judged.docs), len(FAMILIAR), 3), np.int64)
    for i, (doc, gold, found) in enumerate(zip(judged.docs, judged.gold, judged.found, strict=True)):
        words = [token.text for token in doc]
        for place, spans in enumerate((set(gold) & set(found), found, gold)):
            for span in spans:
                counts[i, FAMILIAR.index(known.status(_text(words, span), span.label)), place] += 1
    return dict(zip(FAMILIAR, _rows(counts, n_samples), strict=True))


def _certainty(judged: Judged) -> Certainty | None:
    from ..training.calibration import calibration, reliability

    if not judged.sure:
        return None
    p, right = judged.certainties()
    return Certainty(judged.answers.posterior.temperature, calibration(p, right), reliability(p, right))


def _transitions(pipe: CRFComponent) -> tuple[list[str], NDArray[np.float64]]:
    views, n = pipe.crf.views, len(pipe.tags)
    rules = pipe.annotation.constraints(pipe.tags)
    weights = np.full((n + 1, n + 1), np.nan)
    weights[:n, :n] = np.where(rules.step, views.transitions, np.nan)
    weights[n, :n] = np.where(rules.start, views.start, np.nan)
    weights[:n, n] = np.where(rules.end, views.end, np.nan)
    return list(pipe.tags), weights


def _worst(judged: Judged, number: int) -> list[Sentence]:
    """Return the sentences with most mistakes, first those that the model was surest of."""
    answers, offsets = judged.answers, judged.answers.offsets
    sure = answers.posterior.log_probabilities(answers.all_labels) if judged.sure else np.zeros(len(offsets) - 1)
    homes = (np.searchsorted(answers.doc_offsets, offsets[:-1], side="right") - 1).tolist()
    ranked = []
    for n, (begin, end) in enumerate(pairwise(offsets.tolist())):
        home = homes[n]
        first = int(answers.doc_offsets[home])
        wrong = _wrong(judged, home, begin - first, end - first)
        if wrong:
            ranked.append((-wrong, -float(sure[n]), n, home, begin - first, end - first))
    return [
        _sentence(judged, home, begin, end, -wrong, float(np.exp(-cost)) if judged.sure else None)
        for wrong, cost, _, home, begin, end in sorted(ranked)[:number]
    ]


def _wrong(judged: Judged, home: int, begin: int, end: int) -> int:
    """Return how many spans of a stretch of a text are on one side only; of a tagger, how many tokens are wrong."""
    gold, found = (_within(spans[home], begin, end) for spans in (judged.gold, judged.found))
    return len(set(gold) - set(found)) if judged.plain else len(set(gold) ^ set(found))


def _within(spans: Sequence[Span], begin: int, end: int) -> list[Span]:
    return [span for span in spans if begin <= span.start and span.end <= end]


def _sentence(judged: Judged, home: int, begin: int, end: int, wrong: int, probability: float | None) -> Sentence:
    gold, found = _within(judged.gold[home], begin, end), _within(judged.found[home], begin, end)
    odd = set(gold) ^ set(found)
    whole = end - begin
    begin, doc = part_of(judged.docs[home], begin, end, min(span.start for span in odd))
    end = begin + len(doc)
    p_of = dict(zip(judged.found[home], judged.probabilities[home], strict=True))

    def shown(spans: Sequence[Span]) -> list[Span]:
        return [span for span in _within(spans, begin, end) if not judged.plain or span in odd]

    def moved(span: Span) -> Span:
        return Span(span.start - begin, span.end - begin, span.label)

    marked = [(moved(span), p_of[span] if judged.sure else None) for span in shown(found)]
    return Sentence(home + 1, doc, len(doc) < whole, [moved(span) for span in shown(gold)], marked, wrong, probability)


def part_of(doc: Doc, begin: int, end: int, first: int) -> tuple[int, Doc]:
    """Return the tokens from `begin` to `end` bare; of many, those around `first`, and where they begin."""
    from spacy.tokens import Doc

    if end - begin > LONGEST:
        begin = max(begin, first - BEFORE)
        end = min(end, begin + LONGEST)
    words, spaces = [token.text for token in doc[begin:end]], [bool(token.whitespace_) for token in doc[begin:end]]
    return begin, Doc(doc.vocab, words=words, spaces=spaces)


def main_score(found: Findings) -> tuple[Estimate, str]:
    """Return the score that counts, and its name."""
    return (found.whole.f1, "F1") if found.unit == "spans" else (found.accuracy, "accuracy")


def kind_totals(kinds: dict[str, dict[str, int]]) -> dict[str, int]:
    """Return how many spans of all labels are of each kind."""
    return {kind: sum(found.get(kind, 0) for found in kinds.values()) for kind in KINDS}


def shown_label(label: str) -> str:
    """Return a label of a table of spans, or words for nothing."""
    return "nothing" if label == NOTHING else label
