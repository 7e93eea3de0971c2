"""Gold annotation that other tokens cannot hold: the tokenizer of a pipeline joins words that the corpus keeps apart.

spaCy aligns the tokens of the two Docs of an example, and drops what fits no predicted tokens.  Those tokens count as
not annotated; this module counts and describes them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from spacy.tokens import Span
from spacy.training import Example

from ..errors import count_of, first_of
from .evidence import Tags, about
from .tasks import Annotation

SHOWN = 10
"""Labels that a message names."""
ADVICE = (
    "To learn from the tokens of the corpus, set gold_preproc = true in the blocks of spacy.Corpus.v1, or give "
    "[nlp.tokenizer] rules that make them; raw text is tokenized by [nlp.tokenizer] in any case."
)


class Unaligned:
    """The gold spans (of a tagger, the tokens) that predicted tokens cannot hold.

    counts: Their number by label.
    first: A sentence on the first one.
    """

    def __init__(self) -> None:
        self.counts, self.first = Counter[str](), ""

    def add(self, annotation: Annotation, example: Example, tags: Tags) -> None:
        """Count the lost annotation of an example whose Docs have other tokens, given the tags of predicted tokens."""
        to_predicted = example.alignment.y2x
        for span, label in _gold_spans(annotation, example):
            places = to_predicted[span.start : span.end]
            if all(tags[place] is None for place in places):
                self.counts[label] += 1
                self.first = self.first or _described(example, span, label, places)

    def message(self, left: Collection[str]) -> str:
        """Return a message that counts lost annotation by label, gives an example and advice; empty if none is lost.

        left (Collection[str]): The labels that the predicted tokens have.
        """
        if not self.counts:
            return ""
        counts = [f"{label} {count:,}" for label, count in self.counts.most_common(SHOWN)]
        more = [count_of(len(self.counts) - SHOWN, "more label")] if len(self.counts) > SHOWN else []
        gone = self.gone(left)
        names = ", ".join(first_of([*map(repr, gone)], SHOWN))
        return " ".join([
            "the pipeline's tokenizer joins or cuts tokens of the corpus so that they cannot hold this annotation:",
            f"{', '.join([*counts, *more])}.",
            *([f"Nothing is left of {names}, which cannot be learned."] if gone else []),
            f"{self.first} The tokens there count as not annotated. {ADVICE}",
        ])  # fmt: skip

    def gone(self, left: Collection[str]) -> list[str]:
        """Return the labels of which nothing is left."""
        return [label for label in self.counts if label not in left]


def _gold_spans(annotation: Annotation, example: Example) -> list[tuple[Span, str]]:
    reference = example.reference
    if annotation.scheme is not None:
        return [(span, span.label_) for span in annotation.spans_in(reference)]
    tags = ((token, annotation.tag_of(token)) for token in reference)
    return [(reference[token.i : token.i + 1], tag) for token, tag in tags if tag]


def _described(example: Example, span: Span, label: str, places: Sequence[int]) -> str:
    predicted = example.predicted
    tokens = " ".join(predicted[int(place)].text for place in dict.fromkeys(places))
    return f"{about(example.reference, 'In')}, {span.text!r} ({label}) is not a sequence of the tokens {tokens!r}."
