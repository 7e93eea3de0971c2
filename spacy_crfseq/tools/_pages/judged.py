"""Predictions of components with the gold annotation of the same texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...errors import CrfError, DataError
from ...schemes import OUTSIDE, TagSpan, decode_lenient
from ...threads import cached_property
from .spans import span_counts

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc
    from spacy.training import Example

    from ...pipeline.component import CRFComponent
    from ...pipeline.doc_posterior import DocPosterior

Result = TypeVar("Result")

LONGEST = 80
"""Maximum number of tokens shown of a text."""
BEFORE = 10
"""Number of tokens shown before the first mistake of a longer text."""


class Tokens(NamedTuple):
    """The words of a text, or of a part of it, and whether a space follows each."""

    words: list[str]
    spaces: list[bool]

    def part(self, begin: int, end: int) -> Tokens:
        """Return the tokens from `begin` up to `end`."""
        return Tokens(self.words[begin:end], self.spaces[begin:end])


@dataclass
class Judged:
    """Predictions of a component for N texts, and the gold annotation.

    Spans that touch a token with an unknown gold tag are left out.  A tagger's spans are its tokens.

    scored: The predicted spans of each text with their probabilities, nan without.
    plain: Whether labels are tags of tokens that do not form spans.
    temperature: Temperature of the probabilities; None without probabilities.
    known [S]: Which of the predicted spans are judged.
    gold, found: Spans of each text; `probabilities` are those of `found`.
    """

    texts: Sequence[Tokens]
    gold_tags: list[list[str | None]]
    tags: list[list[str]]
    scored: list[list[tuple[TagSpan, float]]]
    plain: bool
    temperature: float | None

    def __post_init__(self) -> None:
        self.gold = [spans_of_tags(tags, plain=self.plain) for tags in self.gold_tags]
        self.found: list[list[TagSpan]] = []
        self.probabilities: list[list[float]] = []
        flags: list[bool] = []
        for scored, gold in zip(self.scored, self.gold_tags, strict=True):
            judged = [None not in gold[span.start : span.end] for span, _ in scored]
            kept = [scored_ for scored_, is_known in zip(scored, judged, strict=True) if is_known]
            self.found.append([span for span, _ in kept])
            self.probabilities.append([p for _, p in kept])
            flags += judged
        self.known = np.array(flags, np.bool_)

    @property
    def unit(self) -> str:
        """The unit of counts: "spans" or "tokens"."""
        return "tokens" if self.plain else "spans"

    @cached_property
    def labels(self) -> list[str]:
        """The labels, gold or found."""
        return sorted({span.label for spans in (*self.gold, *self.found) for span in spans})

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """Numbers of correct, predicted and gold spans of each text and label [N, L, 3]."""
        return span_counts(self.gold, self.found, self.labels)

    @cached_property
    def word_tags(self) -> list[list[tuple[str | None, str]]]:
        """The gold and the predicted tag of the tokens of each text that are no white space."""
        texts = zip(self.gold_tags, self.tags, self.texts, strict=True)
        return [
            [(a, b) for a, b, word in zip(gold, tags, text.words, strict=True) if not word.isspace()]
            for gold, tags, text in texts
        ]

    @cached_property
    def token_counts(self) -> NDArray[np.int64]:
        """Numbers of correct words, and of words with a known gold tag, of each text [N, 2]."""
        texts = self.word_tags
        return np.array([(sum(a == b for a, b in text), sum(a is not None for a, _ in text)) for text in texts])

    def certainties(self) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Return the probability of each found span of all texts, and whether it is correct."""
        right = [
            span in gold for gold, predicted in zip(map(set, self.gold), self.found, strict=True) for span in predicted
        ]
        return np.array([p for of_text in self.probabilities for p in of_text]), np.array(right, np.bool_)

    def with_probabilities(self, probabilities: NDArray[np.float64]) -> Judged:
        """Return the same predictions with other probabilities [S] of the found spans."""
        ends = np.cumsum([len(spans) for spans in self.found])
        changed = copy(self)
        changed.probabilities = [of_text.tolist() for of_text in np.split(probabilities, ends[:-1])]
        return changed

    def mistakes(self, text: int, begin: int = 0, end: int | None = None) -> int:
        """Return the number of spans of a text, or a part of it, on only one side; for a tagger, of wrong tokens."""
        end = len(self.tags[text]) if end is None else end
        gold, predicted = (set(within(spans[text], begin, end)) for spans in (self.gold, self.found))
        return len(gold - predicted) if self.plain else len(gold ^ predicted)


def spans_of_tags(tags: Sequence[str | None], *, plain: bool) -> list[TagSpan]:
    """Return the spans that the tags of a text form; for plain tags, its tokens."""
    if plain:
        return [TagSpan(i, i + 1, tag) for i, tag in enumerate(tags) if tag is not None]
    return decode_lenient([tag or OUTSIDE for tag in tags])


def within(spans: Sequence[TagSpan], begin: int, end: int) -> list[TagSpan]:
    """Return the spans within a part of a text."""
    return [span for span in spans if begin <= span.start and span.end <= end]


def moved(span: TagSpan, begin: int) -> TagSpan:
    """Return a span relative to token `begin`."""
    return TagSpan(span.start - begin, span.end - begin, span.label)


def shown_part(begin: int, end: int, first: int) -> tuple[int, int]:
    """Return the bounds of the tokens to show from `begin` to `end`: if there are many, those around token `first`."""
    if end - begin <= LONGEST:
        return begin, end
    begin = max(begin, first - BEFORE)
    return begin, min(end, begin + LONGEST)


def for_each_component(
    nlp: Language,
    pipes: Mapping[str, CRFComponent],
    examples: Sequence[Example],
    work: Callable[[CRFComponent, list[Doc]], Result],
    *,
    required: bool,
    skipped: type[CrfError] = CrfError,
) -> tuple[dict[str, Result], dict[str, str]]:
    """Apply `work` to each component and its input Docs; return the results, and reasons for skipped components.

    required (bool): Raise errors of the kind `skipped`, as for a single component, instead of skipping components.
    """
    from ...pipeline.select import run_between

    results: dict[str, Result] = {}
    reasons: dict[str, str] = {}
    docs, before = [example.predicted for example in examples], None
    for name, pipe in pipes.items():
        docs = run_between(nlp, docs, before, name)
        before = name
        try:
            results[name] = work(pipe, docs)
        except skipped as error:
            if required or len(pipes) == 1:
                raise
            reasons[name] = str(error)
    return results, reasons


def judge(
    pipe: CRFComponent, examples: Sequence[Example], docs: Sequence[Doc], answers: DocPosterior | None = None
) -> tuple[Judged, DocPosterior]:
    """Return predictions of a component beside the gold annotation, and its posterior.

    RAISES DataError: If there is no gold annotation for it.
    """
    from ...cli.inputs import gold_tags_of
    from ...training.compatibility import is_local

    gold = [gold_tags_of(pipe, example) for example in examples]
    if all(tag is None for tags in gold for tag in tags):
        what = ", ".join(f"{key} = {value!r}" for key, value in pipe.annotation.settings().items())
        raise DataError(
            f"Component {pipe.name!r}: the file holds no gold annotation for it ({what}). Check the layout, or use "
            "another file."
        )
    answers = answers or pipe.posterior(docs, preset=True)
    plain, sure = pipe.annotation.scheme is None, not is_local(pipe.method.loss)
    tags = [[answers.tags[label] for label in labels.tolist()] for labels in answers.labels]
    if sure:
        scored = [[(TagSpan(start, end, label), p) for start, end, label, p in spans] for spans in answers.spans()]
    else:
        scored = [[(span, float("nan")) for span in spans_of_tags(of_doc, plain=plain)] for of_doc in tags]
    temperature = answers.distribution.temperature if sure else None
    return Judged([tokens_of(doc) for doc in docs], gold, tags, scored, plain, temperature), answers


def tokens_of(doc: Doc) -> Tokens:
    """Return the tokens of a Doc as values."""
    return Tokens([token.text for token in doc], [bool(token.whitespace_) for token in doc])
