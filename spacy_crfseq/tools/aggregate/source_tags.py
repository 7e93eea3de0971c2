"""The tags that a source gives the tokens of texts, in the labels to learn."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...corpora import layouts
from ...errors import ConfigError, near, suggest
from ...pipeline.source_votes import SCHEME
from ...schemes import OUTSIDE, decode_lenient, encode
from ...types import Bools, Ints
from ...votes import ABSTAIN
from .given_texts import UNKNOWN, GivenTexts, check_words, tags_of_some, words_of
from .source_kinds import tagged_by_file, tagged_texts
from .source_settings import UNSURE, SourceSettings
from .unsure import unsure_tokens

if TYPE_CHECKING:
    from spacy.language import Language

MISSPELT = 0.8
"""Share of the letters that a label of `map` has in common with one that a file gives, if it is that one, misspelt."""
COMPLETE = 0.85
"""Share of the words written like those in its spans that a source labels from which on it may miss few."""
MANY = 100
"""Words in spans from which on this share says something."""


class SourceTags(NamedTuple):
    """The tags of a source.

    names (Sequence[str]): Tags in the scheme `SCHEME` by the new names of labels; first that of tokens outside.
    tags (Ints): [T] their numbers, `ABSTAIN` where the source says nothing.
    labels (frozenset[str]): The labels that it has, whether it gives them or not.
    other (int): The number for labels that nobody learns: 0, outside of all spans, or `ABSTAIN`.
    unsure (Bools | None): [T] where the source says nothing because it may not know the words; None for nowhere.
    """

    names: Sequence[str]
    tags: Ints
    labels: frozenset[str]
    other: int = 0
    unsure: Bools | None = None


def read_source_tags(
    nlp: Language, source: SourceSettings, texts: GivenTexts, layout: layouts.Format = None, *, is_file: bool = False
) -> SourceTags:
    """Return the tags that a source gives the tokens of texts.

    nlp (Language): Its tokenizer splits texts that a file has without words.
    layout: Of files whose settings and names do not say it.  If what is invalid in it is skipped, a source may lack
        texts.
    is_file (bool): The source is an annotated file, whatever its name.
    RAISES CrfError: If a file cannot be read, a setting does not fit the source, or it has other texts or words.
    """
    tagged = (tagged_by_file if is_file else tagged_texts)(nlp, source, texts, layout)
    words = [*map(words_of, tagged.docs)]
    flat = [*chain.from_iterable(words)]
    if source.texts == "some" or (layouts.asked(layout).skip_invalid and flat != texts.words):
        tags = tags_of_some(words, tagged.tags, texts, source.place)
    else:
        check_words(source.place, flat, texts)
        tags = [*chain.from_iterable(tagged.tags)]
    given = {tag[2:] for tag in set(tags) if tag not in (OUTSIDE, UNKNOWN)}
    _check_map(source, given if tagged.labels is None else tagged.labels, certain=tagged.labels is not None)
    if source.trim:
        tags = _trimmed(tags, texts.words, source)
    abstains = source.outside == "unknown" if source.outside else tagged.abstains
    unsure = _unsure(tags, texts, source.place) if source.outside == UNSURE else None
    if unsure is not None:
        tags = [UNKNOWN if unknown else tag for tag, unknown in zip(tags, unsure, strict=True)]
    return _numbered(tags, source, {*given, *(tagged.labels or ())}, abstains)._replace(unsure=unsure)


def _trimmed(tags: Sequence[str], words: Sequence[str], source: SourceSettings) -> list[str]:
    """Return tags of the same spans without the words at their ends that a source trims.

    Spans of a label without a new name stay whole, as nothing is known of any of their words.
    """
    result, edges = list(tags), {word.lower() for word in source.trim}
    for start, end, label in decode_lenient([tag or OUTSIDE for tag in tags]):
        if not source.renamed(label):
            continue
        kept = [place for place in range(start, end) if words[place].lower() not in edges]
        first, last = (kept[0], kept[-1] + 1) if kept else (start, start)
        result[start:end] = [OUTSIDE] * (end - start)
        result[first:last] = encode([(0, last - first, label)] if kept else [], last - first, SCHEME)
    return result


def _unsure(tags: Sequence[str], texts: GivenTexts, place: str) -> Bools:
    """Return the tokens that a source may not know, see `unsure_tokens`; warn of one that seems to miss few."""
    spans = np.array([tag not in (OUTSIDE, UNKNOWN) for tag in tags], np.bool_)
    starts = np.array([tag[:1] in ("B", "U") for tag in tags], np.bool_) & spans
    unsure = unsure_tokens(texts.words, spans, starts, texts.offsets)
    n_labelled, n_missed = int(spans.sum()), int((unsure & ~spans).sum())
    if n_labelled >= MANY and n_labelled >= COMPLETE * (n_labelled + n_missed):
        share = 100 * n_labelled / (n_labelled + n_missed)
        message = (
            f"{place}: outside=unsure is for sources that miss many spans. This one labels {share:.0f} % of the words "
            "that are written like those in its spans. If most of the others are in no span, a model without "
            "outside=unsure is better: train both, and compare them on gold texts."
        )
        warnings.warn(message, stacklevel=5)
    return unsure


def _numbered(tags: Sequence[str], source: SourceSettings, own_labels: Iterable[str], abstains: bool) -> SourceTags:
    """Return tags by the new names of their labels."""
    other = ABSTAIN if abstains else 0
    names, numbers = [OUTSIDE], {UNKNOWN: ABSTAIN, OUTSIDE: other}
    for tag in dict.fromkeys(tags):
        if tag in numbers:
            continue
        label = source.renamed(tag[2:])
        if label in (OUTSIDE, ""):
            numbers[tag] = other if label else ABSTAIN
            continue
        if (renamed := tag[:2] + label) not in names:
            names.append(renamed)
        numbers[tag] = names.index(renamed)
    has = {source.renamed(label) for label in own_labels}.union(source.labels) - {OUTSIDE, ""}
    return SourceTags(names, np.array([numbers[tag] for tag in tags], np.int32), frozenset(has), other)


def _check_map(source: SourceSettings, labels: Collection[str], *, certain: bool) -> None:
    """Check that a source has the labels that `map` renames.

    labels (Collection[str]): Those that it has, or, if that is not `certain`, those that it has given.
    RAISES ConfigError: If it certainly has not, or has given a label that may have been meant.  A file that has not
        given a label for another reason is warned of.
    """
    settled = {*source.map, *source.map.values()}
    for label in sorted({*source.map}.difference(labels)):
        meant = near(label, labels, MISSPELT) or ""
        if certain or (meant and meant not in settled):
            what = "it has no such label" if certain else "no span has this label"
            raise ConfigError(f"{source.place}: map={label}: {what}. {suggest(label, labels)}")
        if not source.is_function:
            listed = ", ".join(sorted(labels)) or "none"
            message = f"{source.place}: no span has the label {label!r} of map; there are {listed}."
            warnings.warn(message, stacklevel=4)
