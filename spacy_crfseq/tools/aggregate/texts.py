"""Texts whose spans several sources have labelled: votes for a label model, and Docs with what it makes of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.util import is_package

from ...chain import Chain
from ...cli.inputs import layout_of, read_file
from ...corpora import layouts
from ...errors import ConfigError, DataError
from ...pipeline.evidence import WEIGHT_KEY
from ...pipeline.select import load_pipeline
from ...pipeline.soft_labels import soft_labels, write_soft_labels
from ...schemes import OUTSIDE, decode_lenient, encode, transition_table
from ...threads import shards
from ...types import MISSING, Floats, Ints, Offsets
from .label_model import Aggregation, LabelModel, learn
from .sources import Copies, SourceRow, find_copies, gold_shares, report
from .votes import ABSTAIN, Votes, votes_of_table

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc

SCHEME = "BILUO"
UNKNOWN = ""
"""The tag of a token of which a source says nothing."""


class SourceSettings(NamedTuple):
    """What the sources are, and how their labels are read.

    places (Mapping[str, str]): By the names of the sources, annotated files over the same texts, pipelines, or files
        .jsonl with patterns of an entity ruler, which say nothing outside of their spans.
    renamed (Mapping[str, str]): New names of labels.
    labels (Sequence[str]): Labels to learn; none for all that occur.  Spans of others are left out.
    abstaining (Sequence[str]): Sources that say nothing of tokens outside their spans, such as short lists.
    """

    places: Mapping[str, str]
    renamed: Mapping[str, str] = {}
    labels: Sequence[str] = ()
    abstaining: Sequence[str] = ()


class Aggregated(NamedTuple):
    """Texts with the labels that a label model has found.

    rows (list[SourceRow]): Of each source and label, as the model estimates.
    gold_rows (list[SourceRow]): The same, counted against gold labels; empty without them.
    copies (list[Copies]): Sources that may copy each other.
    docs (list[Doc]): With the best labels as entities, and probabilities noted for a component.
    model (LabelModel): What was learned.
    """

    rows: list[SourceRow]
    gold_rows: list[SourceRow]
    copies: list[Copies]
    docs: list[Doc]
    model: LabelModel


class _GivenTexts(NamedTuple):
    """Texts and their words, one after another."""

    docs: list[Doc]
    words: list[str]
    offsets: Offsets


def aggregate(
    nlp: Language,
    texts: Path,
    sources: SourceSettings,
    method: Aggregation | None = None,
    *,
    layout: layouts.Format = None,
    gold: Path | None = None,
    component: str = "crf_ner",
    weigh: bool = False,
) -> Aggregated:
    """Return the texts of a file with the labels that a label model makes of several sources.

    nlp (Language): Its tokenizer splits raw texts.
    layout: Of the texts and of the files of sources, if their names do not say it.
    gold (Path | None): Some of the texts with gold labels, which the model learns from.
    component (str): The component that is to learn the probabilities.
    weigh (bool): Whether a text has the weight exp(-H), H being the entropy of its labellings, instead of 1.
    RAISES ConfigError: If there is no source, or one of another name is to abstain.
    RAISES CrfError: If a file cannot be read.
    RAISES DataError: If a source has other texts or other tokens, or none has labelled anything.
    """
    if not sources.places:
        raise ConfigError("There is no source. Give --source NAME=FILE, or NAME=PIPELINE, once for each.")
    if strange := [name for name in sources.abstaining if name not in sources.places]:
        raise ConfigError(f"--abstain {strange[0]}: no source has this name, only {', '.join(sources.places)}.")
    given = _read_texts(nlp, texts, layout)
    said = {name: list(_renamed(tags, sources)) for name, tags in _said(nlp, given, sources, layout)}
    types = sources.labels or sorted({tag[2:] for tags in said.values() for tag in tags if tag[1:2] == "-"})
    if not any(tag not in (OUTSIDE, UNKNOWN) for tags in said.values() for tag in tags):
        raise DataError("No source has labelled a span" + (" with these labels." if sources.labels else "."))
    tags = [OUTSIDE, *(f"{letter}-{type_}" for type_ in types for letter in "BILU")]
    votes = votes_of_table(_numbers(said.values(), tags), given.offsets, list(said), len(tags))
    known = None if gold is None else _gold_labels(nlp, gold, given, sources, tags, layout)
    model = learn(votes, transition_table(tags, SCHEME), method, known)
    groups = np.array([0, *(place for place in range(1, len(types) + 1) for _ in "BILU")], np.int32)
    names = [OUTSIDE, *types]
    shares = np.concatenate([*_written_labels(given, _chains(model, votes, known), tags, component, weigh)])
    return Aggregated(
        report(votes, shares, groups, names),
        [] if known is None else report(votes, gold_shares(known, len(tags)), groups, names),
        find_copies(model, votes, known),
        given.docs,
        model,
    )


def _read_texts(nlp: Language, path: Path, layout: layouts.Format) -> _GivenTexts:
    docs = [text.doc for text in read_file(nlp, path, layout)]
    if not docs:
        raise DataError(f"{path} holds no texts.")
    words = [token.text for doc in docs for token in doc]
    return _GivenTexts(docs, words, np.cumsum([0, *map(len, docs)]))


def _said(
    nlp: Language, texts: _GivenTexts, sources: SourceSettings, layout: layouts.Format
) -> Iterator[tuple[str, list[str]]]:
    """Yield the name of each source, and its tags of all words, `UNKNOWN` where it says nothing."""
    for name, place in sources.places.items():
        is_pipeline = (Path(place) / "config.cfg").is_file() or is_package(place)
        is_ruler = not is_pipeline and _has_patterns(Path(place))
        if is_pipeline or is_ruler:
            docs = _predicted(_ruler(nlp.lang or "xx", Path(place)) if is_ruler else load_pipeline(place), texts)
        else:
            docs = _annotated(nlp, Path(place), layout)
        words = [token.text for doc in docs for token in doc]
        _check_words(f"The source {name!r}, {place}", words, texts)
        tags = [tag for doc in docs for tag in _tags(doc)]
        abstains = is_ruler or name in sources.abstaining
        yield name, [UNKNOWN if abstains and tag == OUTSIDE else tag for tag in tags]


def _annotated(nlp: Language, path: Path, layout: layouts.Format) -> list[Doc]:
    from ...pipeline.readers import read_gold

    return [example.reference for example in read_gold(nlp, path, layout_of(path, layout, nlp), ()).examples]


def _has_patterns(path: Path) -> bool:
    """Whether a file has patterns of an entity ruler, as its first line shows."""
    if path.suffix != ".jsonl" or not path.is_file():
        return False
    with path.open(encoding="utf8", errors="replace") as lines:
        try:
            first = json.loads(next(lines, ""))
        except ValueError:
            return False
    return isinstance(first, dict) and "pattern" in first and "text" not in first


def _ruler(lang: str, path: Path) -> Language:
    """Return a pipeline of an entity ruler; RAISES ConfigError: If it cannot use the patterns."""
    import spacy

    nlp = spacy.blank(lang)
    try:
        nlp.add_pipe("entity_ruler").from_disk(path)  # type: ignore[attr-defined]
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path}: the entity ruler cannot use these patterns: {error}") from error
    return nlp


def _predicted(pipeline: Language, texts: _GivenTexts) -> list[Doc]:
    """Return the texts as a pipeline annotates them."""
    from spacy.tokens import Doc

    copies = (
        Doc(pipeline.vocab, [token.text for token in doc], [bool(token.whitespace_) for token in doc])
        for doc in texts.docs
    )
    return list(pipeline.pipe(copies))


def _check_words(source: str, words: Sequence[str], texts: _GivenTexts) -> None:
    """Raise DataError unless a source has the words of the texts."""
    pairs = enumerate(zip(words, texts.words, strict=False))
    token = next((place for place, (one, other) in pairs if one != other), min(len(words), len(texts.words)))
    if token == len(words) == len(texts.words):
        return
    own, other = (repr(list_[token]) if token < len(list_) else "the end" for list_ in (words, texts.words))
    text = int(np.searchsorted(texts.offsets, token, side="right"))
    raise DataError(f"{source}, has other words than the texts: at text {text}, {own} instead of {other}.")


def _tags(doc: Doc) -> list[str]:
    """Return the tags of a Doc's entities, `UNKNOWN` for tokens of which nothing is said."""
    tags = encode(((span.start, span.end, span.label_) for span in doc.ents), len(doc), SCHEME)
    return [tag if token.ent_iob else UNKNOWN for tag, token in zip(tags, doc, strict=True)]


def _renamed(tags: Sequence[str], sources: SourceSettings) -> Iterator[str]:
    """Yield the tags with the new names of their labels; those of other labels than are wanted are outside."""
    for tag in tags:
        label = sources.renamed.get(tag[2:], tag[2:])
        if tag in (OUTSIDE, UNKNOWN):
            yield tag
        else:
            yield f"{tag[:2]}{label}" if not sources.labels or label in sources.labels else OUTSIDE


def _numbers(said: Iterable[Sequence[str]], tags: Sequence[str]) -> NDArray[np.int64]:
    numbers = {UNKNOWN: ABSTAIN, **{tag: number for number, tag in enumerate(tags)}}
    return np.array([[numbers[tag] for tag in row] for row in said])


def _gold_labels(
    nlp: Language, gold: Path, texts: _GivenTexts, sources: SourceSettings, tags: Sequence[str], layout: layouts.Format
) -> Ints:
    """Return the gold labels of all words, `MISSING` in texts that the gold file does not have."""
    docs = _annotated(nlp, gold, layout)
    known = {tuple(token.text for token in doc): list(_renamed(_tags(doc), sources)) for doc in docs}
    numbers = {UNKNOWN: MISSING, **{tag: number for number, tag in enumerate(tags)}}
    labels, matched = np.full(len(texts.words), MISSING, np.int32), 0
    for first, last in pairwise(texts.offsets.tolist()):
        of_text = known.get(tuple(texts.words[first:last]))
        if of_text is not None:
            unknown = [tag for tag in of_text if tag not in numbers]
            if unknown:
                raise DataError(f"{gold}: no source has the label {unknown[0][2:]!r}. Name the labels by --labels.")
            labels[first:last] = [numbers[tag] for tag in of_text]
            matched += 1
    if not matched:
        raise DataError(f"{gold}: none of its {len(docs)} texts is among those to label.")
    return labels


def _chains(model: LabelModel, votes: Votes, gold: Ints | None) -> Iterator[tuple[tuple[int, int], Chain]]:
    """Yield parts of the texts and the distributions of their labels; pairs of labels take the most memory."""
    for part in shards(votes.offsets, votes.n_labels**2):
        scores, offsets, _ = model.lattice(votes, gold, part)
        yield part, Chain(scores.emissions, scores.transitions[0], scores.start, scores.end, offsets=offsets)


def _written_labels(
    texts: _GivenTexts,
    chains: Iterable[tuple[tuple[int, int], Chain]],
    tags: Sequence[str],
    component: str,
    weigh: bool,
) -> Iterator[Floats]:
    """Set the best labels as entities of the Docs, note all probabilities and weights, and yield the marginals."""
    from spacy.tokens import Span

    for (first, _), chain in chains:
        shares, pairs, best, entropies = chain.marginals(), chain.pair_marginals(), chain.viterbi(), chain.entropy()
        for number, (begin, end) in enumerate(pairwise(chain.offsets.tolist()), start=first):
            doc, named = texts.docs[number], [tags[label] for label in best[begin:end]]
            doc.set_ents([Span(doc, *span) for span in decode_lenient(named)], default="outside")
            write_soft_labels(doc, component, soft_labels(tags, shares[begin:end], pairs[begin:end]))
            if weigh:
                doc.user_data[WEIGHT_KEY] = float(np.exp(-entropies[number - first]))
        yield shares
