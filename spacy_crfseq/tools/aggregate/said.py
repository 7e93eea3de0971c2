"""What a source says of the tokens of texts, whatever it is: a file, a pipeline, patterns, a list or a function."""

from __future__ import annotations

import json
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import spacy
from spacy.tokens import Doc, Span
from spacy.util import is_package

from ... import registry
from ...cli.inputs import layout_of, read_file
from ...corpora import layouts
from ...corpora.columns import MISSING_ENTITY
from ...corpora.layouts import DOCBIN, Asked, layout_by_ending
from ...corpora.spans import Notes, SpanRules
from ...corpora.spans.placing import sentence_of, tokens_of
from ...corpora.spans.records import Annotated, CharSpan
from ...errors import ConfigError, DataError, suggest
from ...features.phrases import Phrases
from ...pipeline.component import CRFComponent
from ...pipeline.readers import read_gold
from ...pipeline.select import load_pipeline, run_between
from ...pipeline.soft_labels import SILENT
from ...pipeline.texts import load_docs
from ...schemes import OUTSIDE, decode_lenient, encode
from ...types import Bools, Ints, Offsets
from .source_settings import FUNCTION, UNSURE, SourceSettings
from .unsure import unsure_tokens
from .votes import ABSTAIN

if TYPE_CHECKING:
    from spacy.language import Language

SCHEME = "BILUO"
UNKNOWN = ""
"""The tag of a token of which a source says nothing."""
SourceFunction: TypeAlias = Callable[[Doc], Iterable[Span]]
"""What a function of the registry `crf_sources` returns: it finds spans in a Doc, which may overlap.

An attribute `labels`, if it has one, names all their labels.
"""


class GivenTexts(NamedTuple):
    """Texts and their words, one after another.

    offsets (Offsets): [N + 1] the tokens of each.
    """

    docs: list[Doc]
    words: list[str]
    offsets: Offsets


class Said(NamedTuple):
    """What a source says.

    names (Sequence[str]): Tags in the scheme `SCHEME` by the new names of labels; first that of tokens outside.
    tags (Ints): [T] their numbers, `ABSTAIN` where the source says nothing.
    labels (frozenset[str]): The labels that it has, whether it gives them or not.
    other (int): What a label says that nobody learns: 0, outside of all spans, or `ABSTAIN`.
    unsure (Bools | None): [T] where the source says nothing because it may not know the words; None for nowhere.
    """

    names: Sequence[str]
    tags: Ints
    labels: frozenset[str]
    other: int = 0
    unsure: Bools | None = None


class _Tagged(NamedTuple):
    """Tags of some texts in a source's own labels, `UNKNOWN` where it says nothing.

    labels (Sequence[str] | None): All labels that it has; None if only those are known that it gives.
    abstains (bool): Whether it usually says nothing outside of its spans.
    """

    words: list[list[str]]
    tags: list[list[str]]
    labels: Sequence[str] | None = None
    abstains: bool = False


def read_given(nlp: Language, path: Path, layout: layouts.Format) -> GivenTexts:
    """Return the texts of a file.  RAISES CrfError: If it cannot be read, or holds none."""
    docs = [text.doc for text in read_file(nlp, path, layout)]
    if not docs:
        raise DataError(f"{path} holds no texts.")
    words = [token.text for doc in docs for token in doc]
    return GivenTexts(docs, words, np.cumsum([0, *map(len, docs)]))


def read_said(
    nlp: Language, source: SourceSettings, texts: GivenTexts, layout: layouts.Format = None, *, is_file: bool = False
) -> Said:
    """Return what a source says of texts.

    nlp (Language): Its tokenizer splits texts that a file has without words.
    layout: Of files whose settings and names do not say it.
    is_file (bool): The source is an annotated file, whatever its name.
    RAISES CrfError: If a file cannot be read, a setting does not fit the source, or it has other texts or words.
    """
    tagged = (_of_file if is_file else _tagged)(nlp, source, texts, layout)
    if source.texts == "some":
        tags = tags_of_some(tagged.words, tagged.tags, texts, source.place)
    else:
        _check_words(source.place, [*chain.from_iterable(tagged.words)], texts)
        tags = [*chain.from_iterable(tagged.tags)]
    given = {tag[2:] for tag in set(tags) if tag not in (OUTSIDE, UNKNOWN)}
    _check_map(source, given if tagged.labels is None else tagged.labels, certain=tagged.labels is not None)
    abstains = source.outside == "unknown" if source.outside else tagged.abstains
    unsure = _unsure(tags, texts) if source.outside == UNSURE else None
    if unsure is not None:
        tags = [UNKNOWN if unknown else tag for tag, unknown in zip(tags, unsure, strict=True)]
    return _numbered(tags, source, {*given, *(tagged.labels or ())}, abstains)._replace(unsure=unsure)


def _unsure(tags: Sequence[str], texts: GivenTexts) -> Bools:
    """Return the tokens that a source may not know, see `unsure_tokens`."""
    spans = np.array([tag not in (OUTSIDE, UNKNOWN) for tag in tags], np.bool_)
    starts = np.array([tag[:1] in ("B", "U") for tag in tags], np.bool_) & spans
    return unsure_tokens(texts.words, spans, starts, texts.offsets)


def _numbered(tags: Sequence[str], source: SourceSettings, own_labels: Iterable[str], abstains: bool) -> Said:
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
    return Said(names, np.array([numbers[tag] for tag in tags], np.int32), frozenset(has), other)


def _check_map(source: SourceSettings, labels: Iterable[str], *, certain: bool) -> None:
    """Raise ConfigError if labels are renamed that a source does not have; warn if a file does not give them."""
    strange = [label for label in source.map if label not in {*labels}]
    if strange and (certain or not source.is_function):
        if certain:
            raise ConfigError(f"{source.place}: map={strange[0]}: it has no such label. {suggest(strange[0], labels)}")
        listed = ", ".join(sorted(labels)) or "none"
        warnings.warn(f"{source.place}: no span has the label {strange[0]!r} of map; there are {listed}.", stacklevel=4)


# Kinds of sources


def _tagged(nlp: Language, source: SourceSettings, texts: GivenTexts, layout: layouts.Format) -> _Tagged:
    place = Path(source.place)
    if source.is_function:
        source.refuse("a function", "labels")
        return _of_function(nlp, source, texts)
    if _is_pipeline(source.place):
        source.refuse("a pipeline", "min_score")
        return _of_pipeline(load_pipeline(source.place), texts, source)
    if place.suffix == ".txt":
        source.refuse("a list of phrases")
        return _of_phrases(nlp, place, texts)
    if _has_patterns(place):
        source.refuse("patterns of an entity ruler")
        return _of_pipeline(_ruler(nlp.lang or "xx", place), texts, source)._replace(abstains=True)
    if source.spans:
        source.refuse("spans of a file .spacy", "spans", "labels", "min_score", "texts")
        return _of_span_groups(nlp, source, layouts.asked(layout).skip_invalid)
    return _of_file(nlp, source, texts, layout)


def _is_pipeline(place: str) -> bool:
    """Whether a place is that of a pipeline, or can be nothing else."""
    path = Path(place)
    is_name = not path.suffix and not path.exists() and not set(place) & {*"*?[,/"}
    return (path / "config.cfg").is_file() or is_package(place) or is_name


def _of_file(nlp: Language, source: SourceSettings, texts: GivenTexts, layout: layouts.Format) -> _Tagged:
    path, own = Path(source.place), source.layout
    by_name = layout_by_ending(path) is not None or own.name is not None
    given = {name: value for name, value in own._asdict().items() if value not in (None, False)}
    if source.min_score:
        given["min_score"] = source.min_score
    of_texts = layouts.asked(layout)
    asked = Asked(skip_invalid=of_texts.skip_invalid) if by_name else of_texts
    found = layout_of(path, asked._replace(**given), nlp)
    reader = _with_words_of(nlp, texts) if found.spans is not None else nlp
    docs = [example.reference for example in read_gold(reader, path, found, ()).examples]
    return _Tagged([*map(_words, docs)], [*map(_tags, docs)])


def _of_span_groups(nlp: Language, source: SourceSettings, skip_invalid: bool | None) -> _Tagged:
    path, words, tags, there = Path(source.place), list[list[str]](), list[list[str]](), False
    if layout_by_ending(path) != DOCBIN:
        raise ConfigError(f"{path}: spans={source.spans} is a key of doc.spans, which only files .spacy have.")
    for number, doc in enumerate(load_docs(path, nlp.vocab, skip_invalid=skip_invalid), start=1):
        words.append(_words(doc))
        there = there or source.spans in doc.spans
        if source.spans not in doc.spans:
            tags.append([UNKNOWN] * len(doc))
            continue
        group = doc.spans[source.spans]
        scores = group.attrs.get("scores") if source.min_score else None
        if source.min_score and (scores is None or len(scores) != len(group)):
            raise DataError(f"{path}, doc {number}: min_score needs a score of each span in doc.spans, under 'scores'.")
        of_doc = _tags_of_spans(doc, group, f"{path}, doc {number}", scores, source.min_score)
        for start, end in group.attrs.get(SILENT, ()):
            of_doc[start:end] = [UNKNOWN] * (min(end, len(doc)) - start)
        tags.append(of_doc)
    if not there:
        raise DataError(f"{path}: no doc has spans under the key {source.spans!r}.")
    return _Tagged(words, tags)


def _of_pipeline(pipeline: Language, texts: GivenTexts, source: SourceSettings) -> _Tagged:
    setters = [name for name in pipeline.pipe_names if "doc.ents" in pipeline.get_pipe_meta(name).assigns]
    if not setters:
        raise ConfigError(f"{source.place}: no component of this pipeline sets doc.ents.")
    pipes = dict(pipeline.pipeline)
    labels = sorted({label for name in setters for label in pipes[name].labels})  # type: ignore[attr-defined]
    docs, last = _copies(pipeline, texts), setters[-1]
    if not source.min_score:
        docs = list(pipeline.pipe(docs))
        return _Tagged([*map(_words, docs)], [*map(_tags, docs)], labels)
    crf = pipes[last]
    if not isinstance(crf, CRFComponent):
        raise ConfigError(
            f"{source.place}: min_score needs probabilities, and the component {last!r} gives none; crf_ner does."
        )
    docs = run_between(pipeline, docs, None, last)
    answers = crf.posterior(docs)
    outside = [answers.tags.index(OUTSIDE)] if OUTSIDE in answers.tags else []
    tags = list[list[str]]()
    for doc, spans, shares in zip(docs, answers.spans(), answers.marginals(), strict=True):
        of_doc = encode(((*span[:3],) for span in spans if span.probability >= source.min_score), len(doc), SCHEME)
        sure = shares[:, outside].sum(1) >= source.min_score
        tags.append([UNKNOWN if tag == OUTSIDE and not sure[i] else tag for i, tag in enumerate(of_doc)])
    return _Tagged([*map(_words, docs)], tags, labels)


def _of_phrases(nlp: Language, path: Path, texts: GivenTexts) -> _Tagged:
    phrases, docs = Phrases(str(path), lower=False), _copies(nlp, texts)
    tags = [_tags_of_spans(doc, (Span(doc, *place) for place in phrases.places(doc)), str(path)) for doc in docs]
    return _Tagged([*map(_words, docs)], tags, [path.stem], abstains=True)


def _of_function(nlp: Language, source: SourceSettings, texts: GivenTexts) -> _Tagged:
    name = source.place.removeprefix(FUNCTION)
    if name not in registry.sources.get_all():
        known = [f"{FUNCTION}{other}" for other in registry.sources.get_all()]
        raise ConfigError(f"{source.place}: no such function in crf_sources. {suggest(source.place, known)}")
    try:
        function = registry.sources.get(name)(**source.more)
    except TypeError as error:
        raise ConfigError(f"{source.place}: it cannot be made with these settings: {error}") from error
    docs, tags = _copies(nlp, texts), list[list[str]]()
    for number, doc in enumerate(docs, start=1):
        words, spans = _words(doc), list(function(doc))
        if strange := [span for span in spans if not isinstance(span, Span) or span.doc is not doc]:
            raise DataError(f"{source.place} returns {strange[0]!r} of text {number}: it must return Spans of the Doc.")
        if _words(doc) != words:
            raise DataError(f"{source.place} has changed the words of text {number}.")
        tags.append(_tags_of_spans(doc, spans, f"{source.place}, text {number}"))
    return _Tagged([*map(_words, docs)], tags, getattr(function, "labels", None), abstains=True)


# Spans as tags


def _words(doc: Doc) -> list[str]:
    return [token.text for token in doc]


def _tags(doc: Doc) -> list[str]:
    """Return the tags of a Doc's entities, `UNKNOWN` for tokens of which nothing is said."""
    tags = encode(((span.start, span.end, span.label_) for span in doc.ents), len(doc), SCHEME)
    return [tag if token.ent_iob else UNKNOWN for tag, token in zip(tags, doc, strict=True)]


def _tags_of_spans(
    doc: Doc, spans: Iterable[Span], where: str, scores: Sequence[float] | None = None, min_score: float = 0.0
) -> list[str]:
    """Return the tags of spans of a Doc, which may overlap, by the rules for annotated spans in files.

    RAISES DataError: If a span has no label or one that is a tag, or a score is no probability; `where` says where.
    """
    spans = list(spans)
    if any(not span.label_ for span in spans):
        raise DataError(f"{where}: a span has no label.")
    places = [
        CharSpan(span.start_char, span.end_char, span.label_, "", None if scores is None else float(scores[number]))
        for number, span in enumerate(spans)
    ]
    tokens = tokens_of(_words(doc), [bool(token.whitespace_) for token in doc])
    try:
        sentence = sentence_of(Annotated(doc.text, places), tokens, SpanRules(min_score=min_score), (0, 0), Notes())
    except DataError as error:
        raise DataError(f"{where}: {error}") from None
    known = [OUTSIDE if tag == MISSING_ENTITY else tag for tag in sentence.columns["ent"]]
    tags = encode(decode_lenient(known), len(doc), SCHEME)
    return [
        UNKNOWN if kept == MISSING_ENTITY else tag
        for kept, tag in zip(sentence.columns["ent"], tags, strict=True)
    ]  # fmt: skip


def _copies(pipeline: Language, texts: GivenTexts) -> list[Doc]:
    """Return Docs of the texts for a pipeline, without any annotation."""
    return [Doc(pipeline.vocab, _words(doc), [bool(token.whitespace_) for token in doc]) for doc in texts.docs]


def _with_words_of(nlp: Language, texts: GivenTexts) -> Language:
    """Return a pipeline that splits the texts into the words that they have, and others as before."""
    known = {doc.text.rstrip(): doc for doc in texts.docs}

    def split(text: str) -> Doc:
        doc = known.get(text)
        if doc is None:
            return nlp.make_doc(text)
        spaces = [bool(token.whitespace_) for token in doc]
        return Doc(nlp.vocab, _words(doc), [*spaces[:-1], False])

    return type(nlp)(nlp.vocab, create_tokenizer=lambda _: split)


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
    nlp = spacy.blank(lang)
    try:
        nlp.add_pipe("entity_ruler").from_disk(path)  # type: ignore[attr-defined]
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path}: the entity ruler cannot use these patterns: {error}") from error
    return nlp


# Texts of a source beside those that were given


def _check_words(source: str, words: Sequence[str], texts: GivenTexts) -> None:
    """Raise DataError unless a source has the words of the texts."""
    pairs = enumerate(zip(words, texts.words, strict=False))
    token = next((place for place, (one, other) in pairs if one != other), min(len(words), len(texts.words)))
    if token == len(words) == len(texts.words):
        return
    own, other = (repr(list_[token]) if token < len(list_) else "the end" for list_ in (words, texts.words))
    text = int(np.searchsorted(texts.offsets, token, side="right"))
    raise DataError(
        f"{source}: it has other words than the texts: at text {text}, {own} instead of {other}. If it has only some "
        "of the texts, or another order, say so by the setting texts=some."
    )


def tags_of_some(
    words: Sequence[Sequence[str]], tags: Sequence[list[str]], texts: GivenTexts, source: str
) -> list[str]:
    """Return the tags of all words, `UNKNOWN` in texts that are not among those with these words and tags.

    Of texts with the same words, each gets the next tags, and the last tags go on.
    RAISES DataError: If there are none of the texts.
    """
    there: dict[tuple[str, ...], list[list[str]]] = defaultdict(list)
    for of_text, its_tags in zip(reversed(words), reversed(tags), strict=True):
        there[tuple(of_text)].append(its_tags)
    result, matched = list[str](), set[tuple[str, ...]]()
    for doc in texts.docs:
        key = tuple(_words(doc))
        if key not in there:
            result += [UNKNOWN] * len(doc)
            continue
        matched.add(key)
        result += there[key].pop() if len(there[key]) > 1 else there[key][0]
    if not matched:
        raise DataError(f"{source}: none of its {len(words):,} texts is among those to label.")
    if missing := sum(tuple(of_text) not in matched for of_text in words):
        warnings.warn(f"{source}: {missing:,} of its {len(words):,} texts are not among those to label.", stacklevel=3)
    return result
