"""A source of labels for texts without any: the names of Faker, as `aggregate` takes them.

    python -m spacy crfseq aggregate texts.txt -o labels.spacy --source model=training/model-best \\
        --source names=@spacy_crfseq.NameLists.v1,map=person:PER,city:LOC,state:LOC,country:LOC
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from ...schemes import TagSpan
from . import NameLists

if TYPE_CHECKING:
    from spacy.tokens import Doc, Span

PLACES = ("city", "state", "country")


class NameSpans:
    """Finds people, cities, states and countries in a Doc by Faker's names, with the case of the lists.

    A "person" is a first name and what follows it of first and last names.  A name alone is none: too many of them are
    words.  Spans may overlap.

    RAISES ConfigError: At the first Doc, without Faker.
    """

    labels = ("person", *PLACES)

    def __init__(self) -> None:
        self._names = NameLists(lower=False)

    def __call__(self, doc: Doc) -> Iterator[Span]:
        """Yield the spans in a Doc."""
        from spacy.tokens import Span

        places = self._names.places(doc)
        for place in places:
            if place.label in PLACES:
                yield Span(doc, *place)
        for start, end in _people(places):
            yield Span(doc, start, end, "person")


def _people(places: list[TagSpan]) -> Iterator[tuple[int, int]]:
    """Yield the tokens of names of people, from and to."""
    first, last = (
        {i for place in places if place.label == name for i in range(*place[:2])} for name in ("first", "last")
    )
    # tokens in a row have the same number less their place
    for _, row in groupby(enumerate(sorted(first | last)), key=lambda pair: pair[1] - pair[0]):
        tokens = [token for _, token in row]
        begin = next((token for token in tokens if token in first), tokens[-1])
        if begin < tokens[-1]:
            yield begin, tokens[-1] + 1
