"""Counts of spans: by label, and by whether a training corpus has them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...schemes import TagSpan

SEEN, OTHER = "seen with this label", "seen with another label"
NEW, UNSEEN = "unseen, of seen words", "unseen, with an unseen word"
FAMILIAR = (SEEN, OTHER, NEW, UNSEEN)


def span_counts(
    gold: Sequence[Iterable[TagSpan]],
    predicted: Sequence[Iterable[TagSpan]],
    labels: Sequence[str],
    label_of: Callable[[int, TagSpan], str] = lambda _, span: span.label,
) -> NDArray[np.int64]:
    """Return for each of N texts and L labels the numbers of correct, predicted and gold spans [N, L, 3].

    label_of (Callable): Maps the index of a text and a span in it to the label of the span.
    """
    counts = np.zeros((len(gold), len(labels), 3), np.int64)
    number = {label: i for i, label in enumerate(labels)}
    for i, (there, guessed) in enumerate(zip(gold, predicted, strict=True)):
        for place, spans in enumerate((set(there) & set(guessed), set(guessed), set(there))):
            for span in spans:
                counts[i, number[label_of(i, span)], place] += 1
    return counts


class Familiarity(NamedTuple):
    """The labels of each word or span text in a training corpus, and its words."""

    labels: Mapping[str, frozenset[str]]
    words: frozenset[str]

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str]], words: Iterable[str] = ()) -> Familiarity:
        """Collect pairs of texts, words with a space between them, and labels; `words` are those outside of spans."""
        labels: dict[str, set[str]] = {}
        for text, label in pairs:
            labels.setdefault(text, set()).add(label)
        inside = (word for text in labels for word in text.split(" "))
        return cls(
            {text: frozenset(labels_of_text) for text, labels_of_text in labels.items()}, frozenset((*words, *inside))
        )

    def status(self, text: str, label: str) -> str:
        """Return which of `FAMILIAR` applies to a text with a label."""
        labels = self.labels.get(text)
        if labels is not None:
            return SEEN if label in labels else OTHER
        return NEW if self.words.issuperset(text.split(" ")) else UNSEEN

    def counts(
        self, words: Sequence[Sequence[str]], gold: Sequence[Iterable[TagSpan]], predicted: Sequence[Iterable[TagSpan]]
    ) -> NDArray[np.int64]:
        """Return `span_counts` [N, 4, 3] with `FAMILIAR` instead of labels, given the words of N texts."""
        return span_counts(gold, predicted, FAMILIAR, lambda i, span: self.status(text_of(words[i], span), span.label))


def text_of(words: Sequence[str], span: TagSpan) -> str:
    """Return the words of a span without white space, as used by `Familiarity`."""
    return " ".join(word for word in words[span.start : span.end] if not word.isspace())
