"""Sources by their kinds: annotated files, pipelines, patterns, lists of phrases, functions; each as tags of texts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import spacy
from spacy.tokens import Doc, Span
from spacy.util import is_package

from ... import registry
from ...cli.inputs import layout_of
from ...corpora import layouts
from ...corpora.columns import MISSING_ENTITY
from ...corpora.layouts import DOCBIN, Asked, layout_by_ending
from ...corpora.spans import Notes, SpanRules
from ...corpora.spans.placing import sentence_of, tokens_of
from ...corpora.spans.records import Annotated, CharSpan
from ...errors import ConfigError, DataError, suggest
from ...features.phrases import Phrases
from ...pipeline.component import CRFComponent
from ...pipeline.gold_file import read_gold
from ...pipeline.select import load_pipeline, run_between
from ...pipeline.soft_labels import SILENT
from ...pipeline.source_votes import SCHEME
from ...pipeline.texts import load_docs
from ...schemes import OUTSIDE, decode_lenient, encode
from .given_texts import UNKNOWN, GivenTexts, words_of
from .source_settings import FUNCTION, SourceSettings

if TYPE_CHECKING:
    from spacy.language import Language

SourceFunction: TypeAlias = Callable[[Doc], Iterable[Span]]
"""The type of functions that those of the registry `crf_sources` return: it finds spans in a Doc, which may overlap.

An attribute `labels`, if it has one, names all their labels.
"""


class TaggedTexts(NamedTuple):
    """Texts of a source with tags of its own labels, in the scheme `SCHEME`.

    tags (Sequence[Sequence[str]]): Of the tokens of each text, `UNKNOWN` where the source says nothing.
    labels (Sequence[str] | None): All labels that it has; None if only those are known that it gives.
    abstains (bool): Whether it usually says nothing outside of its spans.
    """

    docs: Sequence[Doc]
    tags: Sequence[list[str]]
    labels: Sequence[str] | None = None
    abstains: bool = False


def tagged_texts(nlp: Language, source: SourceSettings, texts: GivenTexts, layout: layouts.Format) -> TaggedTexts:
    """Return the texts of a source, which its place tells the kind of.

    RAISES ConfigError: If a setting is not one of its kind.
    """
    place = Path(source.place)
    if source.is_function:
        source.refuse("a function", "labels")
        return _tagged_by_function(nlp, source, texts)
    if _is_pipeline(source.place):
        source.refuse("a pipeline", "min_score")
        return _tagged_by_pipeline(load_pipeline(source.place), texts, source)
    if place.suffix == ".txt":
        source.refuse("a list of phrases")
        return _tagged_by_phrases(nlp, place, texts)
    if _has_patterns(place):
        source.refuse("patterns of an entity ruler")
        return _tagged_by_pipeline(_ruler(nlp.lang or "xx", place), texts, source)._replace(abstains=True)
    if source.spans:
        source.refuse("spans of a file .spacy", "spans", "labels", "min_score", "texts")
        return _tagged_by_span_groups(nlp, source, layouts.asked(layout).skip_invalid)
    return tagged_by_file(nlp, source, texts, layout)


def _is_pipeline(place: str) -> bool:
    """Whether a place is that of a pipeline, or can be nothing else."""
    path = Path(place)
    is_name = not path.suffix and not path.exists() and not set(place) & {*"*?[,/"}
    return (path / "config.cfg").is_file() or is_package(place) or is_name


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


def tagged_by_file(nlp: Language, source: SourceSettings, texts: GivenTexts, layout: layouts.Format) -> TaggedTexts:
    """Return the texts of an annotated file, whose layout is that of the given texts where nothing else says it."""
    path, own = Path(source.place), source.layout
    by_name = layout_by_ending(path) is not None or own.name is not None
    given = {name: value for name, value in own._asdict().items() if value not in (None, False)}
    if source.min_score:
        given["min_score"] = source.min_score
    of_texts = layouts.asked(layout)
    asked = Asked(skip_invalid=of_texts.skip_invalid) if by_name else of_texts
    chosen = layout_of(path, asked._replace(**given), nlp)
    reader = _with_words_of(nlp, texts) if chosen.spans is not None else nlp
    docs = [example.reference for example in read_gold(reader, path, chosen, ()).examples]
    return TaggedTexts(docs, [*map(_tags_of_entities, docs)])


def _with_words_of(nlp: Language, texts: GivenTexts) -> Language:
    """Return a pipeline that splits the texts into the words that they have, and others as before."""
    by_text = {doc.text.rstrip(): doc for doc in texts.docs}

    def split(text: str) -> Doc:
        doc = by_text.get(text)
        if doc is None:
            return nlp.make_doc(text)
        spaces = [bool(token.whitespace_) for token in doc]
        return Doc(nlp.vocab, words_of(doc), [*spaces[:-1], False])

    return type(nlp)(nlp.vocab, create_tokenizer=lambda _: split)


def _tagged_by_span_groups(nlp: Language, source: SourceSettings, skip_invalid: bool | None) -> TaggedTexts:
    """Return the Docs of a file with the spans under a key of doc.spans; unknown in Docs without it."""
    path, docs, tags, there = Path(source.place), list[Doc](), list[list[str]](), False
    if layout_by_ending(path) != DOCBIN:
        raise ConfigError(f"{path}: spans={source.spans} is a key of doc.spans, which only files .spacy have.")
    for number, doc in enumerate(load_docs(path, nlp.vocab, skip_invalid=skip_invalid), start=1):
        docs.append(doc)
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
    return TaggedTexts(docs, tags)


def _tagged_by_pipeline(pipeline: Language, texts: GivenTexts, source: SourceSettings) -> TaggedTexts:
    """Return the texts with the entities of a pipeline; with `min_score`, only those that a CRF is sure of."""
    setters = [name for name in pipeline.pipe_names if "doc.ents" in pipeline.get_pipe_meta(name).assigns]
    if not setters:
        raise ConfigError(f"{source.place}: no component of this pipeline sets doc.ents.")
    pipes = dict(pipeline.pipeline)
    labels = sorted({label for name in setters for label in pipes[name].labels})  # type: ignore[attr-defined]
    docs, last = texts.copies(pipeline.vocab), setters[-1]
    if not source.min_score:
        docs = list(pipeline.pipe(docs))
        return TaggedTexts(docs, [*map(_tags_of_entities, docs)], labels)
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
    return TaggedTexts(docs, tags, labels)


def _ruler(lang: str, path: Path) -> Language:
    """Return a pipeline of an entity ruler; RAISES ConfigError: If it cannot use the patterns."""
    nlp = spacy.blank(lang)
    try:
        nlp.add_pipe("entity_ruler").from_disk(path)  # type: ignore[attr-defined]
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path}: the entity ruler cannot use these patterns: {error}") from error
    return nlp


def _tagged_by_phrases(nlp: Language, path: Path, texts: GivenTexts) -> TaggedTexts:
    """Return the texts with the phrases of a list, whose label is the name of the file."""
    phrases, docs = Phrases(str(path), lower=False), texts.copies(nlp.vocab)
    tags = [_tags_of_spans(doc, (Span(doc, *place) for place in phrases.places(doc)), str(path)) for doc in docs]
    return TaggedTexts(docs, tags, [path.stem], abstains=True)


def _tagged_by_function(nlp: Language, source: SourceSettings, texts: GivenTexts) -> TaggedTexts:
    """Return the texts with the spans of a function of the registry `crf_sources`."""
    name = source.place.removeprefix(FUNCTION)
    if name not in registry.sources.get_all():
        functions = [f"{FUNCTION}{other}" for other in registry.sources.get_all()]
        raise ConfigError(f"{source.place}: no such function in crf_sources. {suggest(source.place, functions)}")
    try:
        function = registry.sources.get(name)(**source.more)
    except TypeError as error:
        raise ConfigError(f"{source.place}: it cannot be made with these settings: {error}") from error
    docs, tags = texts.copies(nlp.vocab), list[list[str]]()
    for number, doc in enumerate(docs, start=1):
        words, spans = words_of(doc), list(function(doc))
        if strange := [span for span in spans if not isinstance(span, Span) or span.doc is not doc]:
            raise DataError(f"{source.place} returns {strange[0]!r} of text {number}: it must return Spans of the Doc.")
        if words_of(doc) != words:
            raise DataError(f"{source.place} has changed the words of text {number}.")
        tags.append(_tags_of_spans(doc, spans, f"{source.place}, text {number}"))
    return TaggedTexts(docs, tags, getattr(function, "labels", None), abstains=True)


# Spans as tags


def _tags_of_entities(doc: Doc) -> list[str]:
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
    tokens = tokens_of(words_of(doc), [bool(token.whitespace_) for token in doc])
    try:
        sentence = sentence_of(Annotated(doc.text, places), tokens, SpanRules(min_score=min_score), (0, 0), Notes())
    except DataError as error:
        raise DataError(f"{where}: {error}") from None
    kept_tags = [OUTSIDE if tag == MISSING_ENTITY else tag for tag in sentence.columns["ent"]]
    tags = encode(decode_lenient(kept_tags), len(doc), SCHEME)
    return [
        UNKNOWN if kept == MISSING_ENTITY else tag
        for kept, tag in zip(sentence.columns["ent"], tags, strict=True)
    ]  # fmt: skip
