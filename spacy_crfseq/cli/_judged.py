"""A component's predictions beside the gold annotation of the same texts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..analysis.errors import Pair, confusion, pair_spans, span_counts
from ..errors import DataError
from ..schemes import OUTSIDE, Span, decode_lenient

if TYPE_CHECKING:
    from spacy.tokens import Doc
    from spacy.training import Example

    from ..pipeline.answers import Answers
    from ..pipeline.component import CRFComponent


class Judged:
    """What a component predicts for some texts, and what is right.

    Whatever touches a token whose gold tag is not known is left out.  A tagger's spans are its tokens.

    docs (list[Doc]): N texts, as the component meets them.
    plain (bool): Whether labels are tags of tokens and make up no spans.
    sure (bool): Whether there are probabilities.
    gold, found (list[list[Span]]): Of each text.
    probabilities (list[list[float]]): Of each found span; nan where there are none.
    gold_tags (list[list[str | None]]), tags (list[list[str]]): Of each token of each text, gold and predicted.
    """

    def __init__(self, pipe: CRFComponent, examples: Sequence[Example], docs: Sequence[Doc]) -> None:
        """Ask a component about texts, which components before it have annotated.

        RAISES DataError: If the gold annotation has nothing for it.
        """
        from ..training.compatibility import is_local

        self.docs, self.plain = list(docs), pipe.annotation.scheme is None
        self.gold_tags = _gold_tags(pipe, examples)
        self.answers: Answers = pipe.ask(docs, preset=True)
        self.sure = not is_local(pipe.method.loss)
        names = self.answers.tags
        self.tags = [[names[label] for label in labels.tolist()] for labels in self.answers.labels]
        self.gold = [gold_spans(tags, plain=self.plain) for tags in self.gold_tags]
        self.found: list[list[Span]] = []
        self.probabilities: list[list[float]] = []
        for scored, known in zip(self._scored(), self.gold_tags, strict=True):
            kept = [(span, p) for span, p in scored if None not in known[span.start : span.end]]
            self.found.append([span for span, _ in kept])
            self.probabilities.append([p for _, p in kept])

    def _scored(self) -> list[list[tuple[Span, float]]]:
        if not self.sure:
            return [[(span, float("nan")) for span in gold_spans(tags, plain=self.plain)] for tags in self.tags]
        return [[(Span(start, end, label), p) for start, end, label, p in scored] for scored in self.answers.spans()]

    @property
    def unit(self) -> str:
        """What is counted: "spans" or "tokens"."""
        return "tokens" if self.plain else "spans"

    @cached_property
    def labels(self) -> list[str]:
        """The labels that there are, gold or found."""
        return sorted({span.label for spans in (*self.gold, *self.found) for span in spans})

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """Of each text and label, how many spans are right, found, and gold [N, L, 3]."""
        return span_counts(self.gold, self.found, self.labels)

    @cached_property
    def token_counts(self) -> NDArray[np.int64]:
        """Of each text, the tokens with the right tag, and all whose gold tag is known [N, 2]."""
        each = zip(self.gold_tags, self.tags, strict=True)
        return np.array(
            [
                (sum(a == b for a, b in zip(gold, tags, strict=True)), sum(tag is not None for tag in gold))
                for gold, tags in each
            ]
        )

    @cached_property
    def pairs(self) -> list[list[Pair]]:
        """Gold and found spans in pairs, of each text."""
        return [pair_spans(gold, found) for gold, found in zip(self.gold, self.found, strict=True)]

    def tag_confusion(self) -> tuple[list[str], NDArray[np.int64]]:
        """Return all tags, and how often a gold one (row) was predicted as one (column)."""
        gold = [tag for tags in self.gold_tags for tag in tags]
        found = [tag for tags in self.tags for tag in tags]
        names = sorted({*(tag for tag in gold if tag is not None), *found})
        number: dict[str | None, int] = {None: -1, **{name: i for i, name in enumerate(names)}}
        table = confusion([number[tag] for tag in gold], [number[tag] for tag in found], len(names))
        return names, table

    def certainties(self) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Return the probability of each found span of all texts, and whether it is right."""
        gold = map(set, self.gold)
        right = [span in there for there, found in zip(gold, self.found, strict=True) for span in found]
        return np.array([p for each in self.probabilities for p in each]), np.array(right, np.bool_)


def gold_spans(tags: Sequence[str | None], *, plain: bool) -> list[Span]:
    """Return the spans that the tags of a text make up; of plain tags, its tokens."""
    if plain:
        return [Span(i, i + 1, tag) for i, tag in enumerate(tags) if tag is not None]
    return decode_lenient([tag or OUTSIDE for tag in tags])


def known_gold_tags(pipe: CRFComponent, example: Example) -> list[str | None]:
    """Return the gold tag of each token of an example, None where it is not known."""
    from ..pipeline.gold import gold_tags, known_tags

    return known_tags(gold_tags(pipe.annotation, example, pipe.name))


def no_gold(pipe: CRFComponent) -> DataError:
    """Return the error that a file has no gold annotation for a component."""
    what = ", ".join(f"{key} = {value!r}" for key, value in pipe.annotation.settings().items())
    return DataError(
        f"Component {pipe.name!r}: the file holds no gold annotation for it ({what}). Check --format, or give a "
        "file that does."
    )


def _gold_tags(pipe: CRFComponent, examples: Sequence[Example]) -> list[list[str | None]]:
    gold = [known_gold_tags(pipe, example) for example in examples]
    if all(tag is None for tags in gold for tag in tags):
        raise no_gold(pipe)
    return gold
