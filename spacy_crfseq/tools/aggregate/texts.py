"""Texts whose spans several sources have labelled: votes for a label model, and Docs with what it makes of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...chain import Chain
from ...corpora import layouts
from ...errors import ConfigError, DataError, suggest
from ...pipeline.evidence import WEIGHT_KEY
from ...pipeline.soft_labels import SILENT, soft_labels, write_soft_labels
from ...pipeline.source_votes import LABEL_MODEL, SCHEME, SourcedTexts
from ...schemes import OUTSIDE, decode_lenient, spans_of, tag_table, tags_of, transition_table
from ...types import MISSING, Bools, Floats, Ints, Offsets
from ...votes import ABSTAIN, MethodSettings, Votes, make_votes
from .em import HiddenMarkov
from .given_texts import GivenTexts, read_given
from .label_model import LabelModel, LabelModelMethod
from .source_report import Copies, SourceRow, find_copies, gold_report, report
from .source_settings import SourceSettings
from .source_tags import SourceTags, read_source_tags

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc


LISTED = 10
"""Words of a source that are listed."""


class Noted(NamedTuple):
    """Settings of the notes on texts, besides their best labels.

    component (str): The component that is to learn the probabilities.
    weigh (bool): Whether a text has the weight exp(-H), H being the entropy of its labellings, instead of 1.
    min_probability (float | None): Note no probabilities; labels that are less probable are unknown instead.
    label_model (MethodSettings | None): Name and settings of the label model, for `annotate` and `debug-data`.
    """

    component: str = "crf_ner"
    weigh: bool = False
    min_probability: float | None = None
    label_model: MethodSettings | None = None


class Repeated(NamedTuple):
    """Words whose votes of a source are left out, the most frequent first, see `Votes.repeated`."""

    source: str
    words: list[str]

    def __str__(self) -> str:
        more = f" and {len(self.words) - LISTED:,} more" if len(self.words) > LISTED else ""
        return (
            f"{self.source!r} labels words again and again that other sources put outside of spans. Its labels of "
            f"these words are left out: {', '.join(self.words[:LISTED])}{more}."
        )


class Aggregated(NamedTuple):
    """Texts with the labels that a label model has found.

    rows (list[SourceRow]): Of each source and label, as the model estimates.
    gold_rows (list[SourceRow]): The same, counted against gold labels; empty without them.
    copies (list[Copies]): Sources that may copy each other.
    repeated (list[Repeated]): Votes that are left out.
    docs (list[Doc]): With the best labels as entities, probabilities noted for a component, and the spans of each
        source in doc.spans.
    model (LabelModel): What was learned.
    """

    rows: list[SourceRow]
    gold_rows: list[SourceRow]
    copies: list[Copies]
    repeated: list[Repeated]
    docs: list[Doc]
    model: LabelModel


def aggregate(
    nlp: Language,
    texts: Path,
    sources: Mapping[str, SourceSettings],
    method: LabelModelMethod | None = None,
    *,
    labels: Sequence[str] = (),
    layout: layouts.Format = None,
    gold: Path | None = None,
    noted: Noted | None = None,
) -> Aggregated:
    """Return the texts of a file with the labels that a label model makes of several sources.

    nlp (Language): Its tokenizer splits raw texts.
    sources (Mapping[str, SourceSettings]): By their names, see `parse_source`.
    method (LabelModelMethod | None): How the label model is made; a hidden Markov model by default.
    labels (Sequence[str]): Labels to learn; none for all that sources give.  A source whose span has another label says
        that the tokens are in none of those to learn.
    layout: Of the texts, and of files of sources that do not say it.
    gold (Path | None): Some of the texts with gold labels, which the model learns from.
    RAISES ConfigError: If there is no source, or a setting of one cannot be.
    RAISES CrfError: If a file cannot be read.
    RAISES DataError: If a source has other texts or other tokens, or none has labelled anything.
    """
    noted = noted or Noted()
    if not sources:
        raise ConfigError("There is no source. Give --source NAME=FILE, or NAME=PIPELINE, once for each.")
    if noted.min_probability is not None and not 0 <= noted.min_probability <= 1:
        raise ConfigError(f"min_probability = {noted.min_probability:g}: give a number from 0 to 1.")
    given = read_given(nlp, texts, layout)
    by_source = {name: read_source_tags(nlp, source, given, layout) for name, source in sources.items()}
    gold_tags = None if gold is None else _read_gold(nlp, gold, given, layout)
    types = _types(by_source, gold_tags, labels)
    tags = tags_of(types, SCHEME)
    votes = _votes(by_source, given, tags)
    gold_numbers = None if gold_tags is None else _numbers(gold_tags, tags, MISSING)
    if not votes.labels.any():
        raise DataError("No source has labelled a span" + (" with these labels." if labels else "."))
    rules = transition_table(tags, SCHEME)
    repeated = votes.repeated(given.words, rules.outside, rules.start, gold_numbers)
    believed = votes.without(repeated)
    model = (method or HiddenMarkov())(believed, rules, gold_numbers)
    groups = np.array([0, *(place for place in range(1, len(types) + 1) for _ in "BILU")], np.int32)
    names = [OUTSIDE, *types]
    _note_sources(given, votes, tags, noted.label_model)
    unknown = _open_tokens(by_source, votes, gold_numbers)
    chains = SourcedTexts(believed, tuple(tags)).chains(model, gold_numbers)
    shares = np.concatenate([*_written_labels(given, chains, tags, noted, unknown)])
    return Aggregated(
        report(votes, shares, groups, names, gold_numbers),
        [] if gold_numbers is None else gold_report(votes, gold_numbers, groups, names),
        find_copies(model, believed, gold_numbers),
        _repeated(votes, repeated, given.words),
        given.docs,
        model,
    )


def _read_gold(nlp: Language, gold: Path, texts: GivenTexts, layout: layouts.Format) -> SourceTags:
    """Return the gold labels of all words, `ABSTAIN` in texts that the gold file does not have."""
    return read_source_tags(nlp, SourceSettings(str(gold), texts="some"), texts, layout, is_file=True)


def _types(by_source: Mapping[str, SourceTags], gold: SourceTags | None, labels: Sequence[str]) -> list[str]:
    """Return the labels to learn.  RAISES DataError: If no source has one of them, or gold labels have another."""
    has = frozenset[str]().union(*(source.labels for source in by_source.values()))
    if strange := [label for label in labels if label not in has.union(gold.labels if gold else ())]:
        raise DataError(f"No source has the label {strange[0]!r} to learn. {suggest(strange[0], has)}")
    types = list(labels) or sorted({name[2:] for source in by_source.values() for name in source.names[1:]})
    if gold and not labels and (strange := sorted(gold.labels.difference(types))):
        raise DataError(
            f"Gold texts have the label {strange[0]!r}, but no source does. {suggest(strange[0], types)} If a source "
            f"has another name for it, give the source map=OTHER:{strange[0]}; else name the labels to learn."
        )
    return types


def _numbers(source: SourceTags, tags: Sequence[str], unsaid: int) -> Ints:
    """Return the tags of a source [T] as numbers; `unsaid` where it says nothing."""
    numbers = {tag: number for number, tag in enumerate(tags)}
    table = np.array([*(numbers.get(name, source.other) for name in source.names), ABSTAIN], np.int32)
    result: Ints = table[source.tags]  # the last one where it abstains
    return np.where(result == ABSTAIN, np.int32(unsaid), result)


def _votes(by_source: Mapping[str, SourceTags], texts: GivenTexts, tags: Sequence[str]) -> Votes:
    tokens, labels = list[Offsets](), list[Ints]()
    for source in by_source.values():
        numbers = _numbers(source, tags, ABSTAIN)
        tokens.append(np.flatnonzero(numbers != ABSTAIN))
        labels.append(numbers[tokens[-1]])
    by = np.repeat(np.arange(len(by_source)), [*map(len, tokens)])
    has = np.array([[tag == OUTSIDE or tag[2:] in source.labels for tag in tags] for source in by_source.values()])
    return make_votes(texts.offsets, np.concatenate(tokens), by, np.concatenate(labels), [*by_source], len(tags), has)


def _repeated(votes: Votes, repeated: Bools, words: Sequence[str]) -> list[Repeated]:
    counts = [Counter[str]() for _ in votes.names]
    for source, token in zip(votes.sources[repeated].tolist(), votes.tokens[repeated].tolist(), strict=True):
        counts[source][words[token]] += 1
    return [
        Repeated(name, [word for word, _ in of_source.most_common()])
        for name, of_source in zip(votes.names, counts, strict=True)
        if of_source
    ]


def _note_sources(texts: GivenTexts, votes: Votes, tags: Sequence[str], method: MethodSettings | None) -> None:
    """Set the spans of each source in doc.spans, with the ranges of tokens of which it says nothing.

    method (MethodSettings | None): Noted with them.

    A text of which it says nothing at all has no such spans.
    """
    from spacy.tokens import Span, SpanGroup

    table = tag_table(tuple(tags), SCHEME)
    note = {} if method is None else {LABEL_MODEL: [method.name, dict(method.settings)]}
    made = dict[tuple[int, int, int], Span]()  # those that several sources have found are made once
    offsets, same_text = texts.offsets, np.ones(len(texts.words) + 1, np.bool_)
    same_text[offsets] = False  # as the token before
    for number, name in enumerate(votes.names):
        chosen = votes.sources == number
        labels = np.full(len(texts.words), ABSTAIN, np.int32)
        labels[votes.tokens[chosen]] = votes.labels[chosen]
        spans = spans_of(labels, texts.offsets, table)
        places = list(zip(spans.start.tolist(), spans.end.tolist(), spans.type.tolist(), strict=True))
        of_text = np.searchsorted(spans.sequence, np.arange(len(texts.docs) + 1)).tolist()
        silent = labels == ABSTAIN
        before, after = np.append(False, silent), np.append(silent, False)
        starts = np.flatnonzero(after & ~(before & same_text))
        ranges = list(zip(starts.tolist(), np.flatnonzero(before & ~(after & same_text)).tolist(), strict=True))
        ranges_of = np.searchsorted(starts, offsets).tolist()
        says = np.diff(np.append(0, np.cumsum(~silent))[offsets]) > 0
        for text in np.flatnonzero(says).tolist():
            doc, first = texts.docs[text], int(offsets[text])
            own = places[of_text[text] : of_text[text + 1]]
            for a, b, kind in own:
                if (a, b, kind) not in made:
                    made[a, b, kind] = Span(doc, a - first, b - first, table.types[kind])
            quiet = [[a - first, b - first] for a, b in ranges[ranges_of[text] : ranges_of[text + 1]]]
            doc.spans[name] = SpanGroup(
                doc, name=name, attrs={SILENT: quiet, **note}, spans=[made[place] for place in own]
            )


def _open_tokens(by_source: Mapping[str, SourceTags], votes: Votes, gold: Ints | None) -> Bools:
    """Return the tokens [T] of which no source says anything because one may not know the words.

    A label model that sees only votes would put most of them outside of spans.  A student that sums out their labels
    sees the words, too.
    """
    unsure = [source.unsure for source in by_source.values() if source.unsure is not None]
    unknown = np.diff(votes.ptr) == 0 if gold is None else (np.diff(votes.ptr) == 0) & (gold == MISSING)
    result: Bools = unknown & np.logical_or.reduce(unsure) if unsure else np.zeros_like(unknown)
    return result


def _written_labels(
    texts: GivenTexts,
    chains: Iterable[tuple[int, Chain]],
    tags: Sequence[str],
    noted: Noted,
    open_tokens: Bools,
) -> Iterator[Floats]:
    """Set the best labels as entities of the Docs, note probabilities and weights, and yield the marginals.

    open_tokens (Bools): [T] those whose labels stay unknown.
    """
    from spacy.tokens import Span

    for first, chain in chains:
        shares, pairs, best, entropies = chain.marginals(), chain.pair_marginals(), chain.viterbi(), chain.entropy()
        of_part = open_tokens[texts.offsets[first] :][: len(best)]
        sure = ~of_part & (np.take_along_axis(shares, best[:, None], 1)[:, 0] >= (noted.min_probability or 0))
        names, is_sure = [tags[label] for label in best.tolist()], sure.tolist()
        told = dict[int, dict[int, Sequence[tuple[str, str, float]]]]()  # of each text
        if noted.min_probability is None:
            text_of = (np.searchsorted(chain.offsets, np.arange(len(best)), side="right") - 1 + first).tolist()
            for token, rows in soft_labels(tags, shares, pairs).items():
                if not of_part[token]:
                    told.setdefault(text_of[token], {})[token] = rows
        for number, (begin, end) in enumerate(pairwise(chain.offsets.tolist()), start=first):
            doc, named = texts.docs[number], names[begin:end]
            spans = decode_lenient(named)
            kept = [Span(doc, *span) for span in spans if all(is_sure[begin + span.start : begin + span.end])]
            doubtful = [doc[a:b] for a, b, _ in spans if not all(is_sure[begin + a : begin + b])]
            unknown = [doc[i : i + 1] for i, tag in enumerate(named) if tag == OUTSIDE and not is_sure[begin + i]]
            doc.set_ents(kept, missing=[*doubtful, *unknown], default="outside")
            if noted.min_probability is None:
                soft = {token - begin: rows for token, rows in told.get(number, {}).items()}
                write_soft_labels(doc, noted.component, soft)
            if noted.weigh:
                doc.user_data[WEIGHT_KEY] = float(np.exp(-entropies[number - first]))
        yield shares
