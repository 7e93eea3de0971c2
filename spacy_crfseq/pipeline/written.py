"""Annotated Docs as text: JSON Lines, CoNLL columns and CoNLL-U, with probabilities if the Doc has them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate
from math import isnan
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from ..corpora import DOCBIN, PRESETS, SPAN_COLUMNS, TOKEN_COLUMNS, Sentence, sentence_lines
from ..corpora.columns import MISSING_ENTITY
from ..corpora.layouts import COLUMN_FILES, check_choice
from ..errors import ConfigError, DataError
from ..schemes import OUTSIDE, decode_lenient, encode
from .texts import chunks_key, predicted_columns

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc, Token

    from .texts import Document

COLUMNS = "conll"
TARGETS = ("jsonl", COLUMNS, *(name for name in PRESETS if name != "xml"), DOCBIN)
EMPTY = "_"
FIELD_OF, HEAD, MISC = {"lemma": 2, "pos": 3, "tag": 4, "morph": 5}, 6, 9
"""Numbers of columns of CoNLL-U."""
DIGITS = 6

Write = Callable[["Doc", "Document"], str]


class Form(NamedTuple):
    """The annotation to write for each Doc.

    columns (tuple[str, ...]): The columns that the pipeline sets or was given, in the order of files.
    key (str): The key of doc.spans of the chunk column.
    homes (tuple[str, ...]): Keys of doc.spans that hold a copy of the entities, with scores.
    taggers (Mapping[str, str]): For a token column the component that stores its scores.
    given (tuple[str, ...]): The columns among `columns` that are those of the file.
    """

    columns: tuple[str, ...]
    key: str
    homes: tuple[str, ...]
    taggers: Mapping[str, str]
    given: tuple[str, ...] = ()


def form_of(nlp: Language, given: Sequence[str]) -> Form:
    """Return the annotation that a pipeline sets; `given` are columns that it reads from the file."""
    from .component import CRFComponent
    from .tasks import Entities

    crfs = {name: pipe for name, pipe in nlp.pipeline if isinstance(pipe, CRFComponent)}
    predicted = predicted_columns(nlp)
    written = predicted | set(given)
    return Form(
        tuple(name for name in (*TOKEN_COLUMNS, *SPAN_COLUMNS) if name in written),
        chunks_key(nlp),
        tuple(name for name, pipe in crfs.items() if isinstance(pipe.annotation, Entities)),
        {str(pipe.cfg["attr"]): name for name, pipe in crfs.items() if "attr" in pipe.cfg},
        tuple(name for name in given if name not in predicted),
    )


def check_tags(to: str, scheme: str) -> None:
    """RAISES ConfigError: If tags of another scheme than IOB2 are asked for in a format that has no tags of spans."""
    if scheme != "IOB2" and to not in (COLUMNS, *COLUMN_FILES):
        raise ConfigError(f"--to-scheme {scheme}: only columns have tags of a scheme. Use --to {COLUMNS}.")


def check_target(to: str, form: Form, scores: bool, scheme: str = "IOB2") -> None:
    """Check that a format can hold what is to be written.

    RAISES ConfigError: On an unknown format, or one that has no tags of another scheme than IOB2, no room for scores,
        or needs chunks nobody predicts.
    """
    check_choice("--to", to, TARGETS, " format")
    check_tags(to, scheme)
    if to not in PRESETS or to == "conllu":
        return
    if scores:
        raise ConfigError(f"--to {to}: its files cannot hold --scores. Use --to {COLUMNS}, conllu or jsonl.")
    if "chunk" in PRESETS[to].columns and "chunk" not in form.columns:
        raise ConfigError(f"--to {to}: the pipeline predicts no chunks. Use --to {COLUMNS}, iob, conll2002 or jsonl.")


def make_write(to: str, form: Form, scores: bool, scheme: str = "IOB2") -> Write:
    """Return a function that gives the lines of a Doc, the last one ended, in a format other than DocBin.

    scheme (str): That of the tags of spans in columns.
    """
    if to == "jsonl":
        return _Json(form)
    if to == "conllu":
        return _Conllu(form)
    return ColumnWriter(form, ("word", *form.columns) if to == COLUMNS else PRESETS[to].columns, scores, scheme)


def _marked_sentences(doc: Doc) -> list[tuple[int, int]]:
    """Return the bounds of the sentences, none if they are not set."""
    # Doc.has_annotation would create an object for each token
    marked = doc.to_array("SENT_START")[1:].any()
    return [(sentence.start, sentence.end) for sentence in doc.sents] if marked else []


def sentences_of(doc: Doc) -> list[tuple[int, int]]:
    """Return the bounds of the sentences; the whole Doc is one if they are not set."""
    return _marked_sentences(doc) or [(0, len(doc))]


def _scores(form: Form, doc: Doc, name: str) -> list[float | None]:
    """Return the probability of each token's value in a column, of spans of each token in one; None for none."""
    scores: list[float | None] = [None] * len(doc)
    if name in SPAN_COLUMNS:
        for key in form.homes if name == "ent" else (form.key,):
            for start, end, _, score in _scored_spans(doc, key):
                scores[start:end] = [score] * (end - start)
        return scores
    stored = _token_scores(doc, form.taggers.get(name, ""))
    return scores if stored is None else [None if isnan(score) else score for score in stored]


def _token_scores(doc: Doc, component: str) -> list[float] | None:
    from .evidence import SCORES_KEY

    scores = doc.user_data.get(SCORES_KEY, {}).get(component)
    return scores.tolist() if scores is not None and len(scores) == len(doc) else None


def _scored_spans(doc: Doc, key: str) -> Iterator[tuple[int, int, str, float | None]]:
    """Yield start, end, label and probability of the spans in a group."""
    if key not in doc.spans:
        return
    group = doc.spans[key]
    scores = group.attrs.get("scores")
    values = [None] * len(group) if scores is None or len(scores) != len(group) else map(float, scores)
    for span, score in zip(group, values, strict=True):
        yield span.start, span.end, span.label_, score


def _tags(form: Form, doc: Doc, name: str) -> list[str]:
    """Return IOB2 tags; overlapping spans are dropped, white space is ignored, and spans are cut at sentence ends."""
    if name == "ent":
        spans = [(span.start, span.end, span.label_) for span in doc.ents]
        tags = [MISSING_ENTITY if iob == 0 else "O" for iob in doc.to_array("ENT_IOB").tolist()]
    else:
        spans = [(start, end, label) for start, end, label, _ in _scored_spans(doc, form.key)]
        tags = ["O"] * len(doc)
    borders = {start for start, _ in sentences_of(doc)}
    last = 0
    for start, end, label in sorted(spans):
        if start < last:
            continue
        last, prefix = end, "B"
        for i in range(start, end):
            prefix = "B" if i in borders else prefix
            tags[i] = f"{prefix}-{label}"
            prefix = prefix if doc[i].is_space else "I"
    return tags


class _AttributeTexts:
    """A cache of the texts of a token attribute by their keys; `finish` is applied to each text."""

    LARGEST = 10_000

    def __init__(self, name: str, finish: Callable[[str], str] = str) -> None:
        self._get, self._finish = attrgetter("morph" if name == "morph" else f"{name}_"), finish
        self._attribute, self._texts = name.upper(), dict[int, str]()

    def of(self, doc: Doc) -> list[str]:
        keys, texts = doc.to_array(self._attribute).tolist(), self._texts
        if len(texts) > self.LARGEST:  # lemmas
            texts.clear()
        for i, key in enumerate(keys):
            if key not in texts:
                texts[key] = self._finish(str(self._get(doc[i])))
        return [texts[key] for key in keys]


# JSON Lines

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class _Json:
    """Doc.to_json's form, so that Doc.from_json reads it, with scores, and with the other keys of the input."""

    def __init__(self, form: Form) -> None:
        self._form = form
        self._texts = {name: _AttributeTexts(name, _encode) for name in form.columns if name in TOKEN_COLUMNS}

    def __call__(self, doc: Doc, document: Document) -> str:
        places = doc.to_array(["IDX", "LENGTH"]).reshape(len(doc), 2)
        starts, ends = places[:, 0].tolist(), places.sum(1).tolist()
        entry = {**document.entry, "text": _text(doc, ends, document)}
        if "ent" in self._form.columns:
            scores = {(s, e, label): p for key in self._form.homes for s, e, label, p in _scored_spans(doc, key)}
            ents = [(ent.start, ent.end, ent.label_) for ent in doc.ents]
            entry["ents"] = [_span(starts, ends, *ent, scores.get(ent)) for ent in ents]
        spans = {
            key: [{**_span(starts, ends, *span), "kb_id": ""} for span in _scored_spans(doc, key)]
            for key in doc.spans
            if key not in self._form.homes
        }
        if spans:
            entry["spans"] = spans
        if sentences := _marked_sentences(doc):
            entry["sents"] = [{"start": starts[first], "end": ends[last - 1]} for first, last in sentences]
        entry.pop("tokens", None)
        return f'{_encode(entry)[:-1]},"tokens":[{",".join(self._tokens(doc, starts, ends))}]}}\n'

    def _tokens(self, doc: Doc, starts: list[int], ends: list[int]) -> Iterable[str]:
        """Return the tokens as JSON, formatted by hand for speed: they are most of the output."""
        template = '{"id":%d,"start":%d,"end":%d'
        columns: list[Iterable[Any]] = [range(len(doc)), starts, ends]
        for name, texts in self._texts.items():
            template += f',"{name}":%s'
            columns.append(texts.of(doc))
        for name, component in self._form.taggers.items():
            scores = _token_scores(doc, component)
            if scores is not None:
                template += "%s"
                columns.append(["" if isnan(score) else f',"{name}_score":{score:.{DIGITS}f}' for score in scores])
        template += "}"
        return (template % token for token in zip(*columns, strict=True))


def _text(doc: Doc, ends: Sequence[int], document: Document) -> str:
    size = ends[-1] + len(doc[-1].whitespace_) if ends else 0
    return document.text if not document.sentences and len(document.text) == size else doc.text


def _span(starts: list[int], ends: list[int], start: int, end: int, label: str, score: float | None) -> dict[str, Any]:
    entry = {"start": starts[start], "end": ends[end - 1], "label": label}
    return entry if score is None else {**entry, "score": round(score, DIGITS)}


class ColumnWriter:
    """A token a line, spans as tags of a scheme; with scores, a column of probabilities for each other one, at the end.

    Entities that are unknown stay so in all schemes.
    """

    def __init__(self, form: Form, columns: Sequence[str], scores: bool, scheme: str = "IOB2") -> None:
        self._form, self._columns, self._scheme = form, tuple(columns), scheme
        self.names = (*columns, *(f"{name} score" for name in columns[1:] if scores))
        self._scored = tuple(name for name in columns if name != "word") if scores else ()
        self._texts = {name: _AttributeTexts(name) for name in columns if name in TOKEN_COLUMNS}

    def __call__(self, doc: Doc, document: Document) -> str:
        """Return the lines of a Doc."""
        return "".join(line for sentence in self.sentences(doc) for line in sentence_lines(sentence, self.names))

    def sentences(self, doc: Doc) -> Iterator[Sentence]:
        """Yield the sentences of a Doc, without white space and without those that have nothing else."""
        columns = {name: self._column(doc, name) for name in self._columns[1:]}
        for name in self._scored:
            columns[f"{name} score"] = [_number(score) for score in _scores(self._form, doc, name)]
        words = [token.text for token in doc]
        for start, end in sentences_of(doc):
            kept = [i for i in range(start, end) if not words[i].isspace()]
            if kept:
                parts = {name: [values[i] for i in kept] for name, values in columns.items()}
                if self._scheme != "IOB2":
                    parts.update({name: _recoded(parts[name], self._scheme) for name in SPAN_COLUMNS if name in parts})
                yield Sentence([words[i] for i in kept], parts, None, 0)

    def _column(self, doc: Doc, name: str) -> list[str]:
        if name not in self._form.columns:
            return [MISSING_ENTITY if name == "ent" else EMPTY] * len(doc)
        if name in SPAN_COLUMNS:
            return _tags(self._form, doc, name)
        return [value or EMPTY for value in self._texts[name].of(doc)]


def _recoded(tags: Sequence[str], scheme: str) -> list[str]:
    """Return IOB2 tags of a sentence in another scheme."""
    plain = [OUTSIDE if tag in (MISSING_ENTITY, EMPTY) else tag for tag in tags]
    new = encode(decode_lenient(plain), len(tags), scheme)
    return [tag if tag in (MISSING_ENTITY, EMPTY) else other for tag, other in zip(tags, new, strict=True)]


def _number(score: float | None) -> str:
    return EMPTY if score is None else f"{score:.{DIGITS}f}"


class _Conllu:
    """CoNLL-U: spans as Ent=B-PER and Chunk=B-NP in the last column, probabilities next to them as EntScore=0.97.

    A sentence that comes from CoNLL-U keeps its lines, but for the columns of words that the pipeline sets.
    """

    FIELDS = ("lemma", "pos", "tag", "morph")

    def __init__(self, form: Form) -> None:
        self._form = form
        self._texts = {name: _AttributeTexts(name) for name in self.FIELDS if name in form.columns}
        self._keys = {f"{name.capitalize()}{end}" for name in form.columns for end in ("", "Score")}

    def __call__(self, doc: Doc, document: Document) -> str:
        columns = {name: texts.of(doc) for name, texts in self._texts.items()}
        notes: list[list[str]] = [[] for _ in doc]
        for name in self._form.columns:
            if name in SPAN_COLUMNS:
                for note, tag in zip(notes, _tags(self._form, doc, name), strict=True):
                    note += [f"{name.capitalize()}={tag}"] if tag != "O" else []
            for note, score in zip(notes, _scores(self._form, doc, name), strict=True):
                note += [] if score is None else [f"{name.capitalize()}Score={_number(score)}"]
        sentences = document.sentences
        if sentences and all(sentence.source for sentence in sentences):
            bounds = list(accumulate((len(sentence.words) for sentence in sentences), initial=0))
            if [token.text for token in doc] == [word for sentence in sentences for word in sentence.words]:
                return "".join(map(partial(self._updated, doc, columns, notes), bounds, sentences))
        return "".join(self._sentence(doc, start, end, columns, notes) for start, end in sentences_of(doc))

    def _updated(
        self, doc: Doc, columns: Mapping[str, list[str]], notes: Sequence[list[str]], start: int, sentence: Sentence
    ) -> str:
        """Return the lines of a sentence, whose first token is `start`, with the annotation of the pipeline."""
        assert sentence.source is not None
        lines = list(sentence.source.lines)
        changed = [name for name in self._texts if name not in self._form.given]
        numbers = range(start, start + len(sentence.words))
        parsed = doc.has_annotation("DEP")
        for i, place in zip(numbers, sentence.source.words, strict=True):
            line = lines[place].rstrip("\r\n")
            fields = line.split("\t")
            for name in changed:
                fields[FIELD_OF[name]] = columns[name][i] or EMPTY
            if parsed:
                fields[HEAD : HEAD + 2] = _arc(doc[i], {token: token - start + 1 for token in numbers})
            fields[MISC] = self._misc(fields[MISC], notes[i])
            lines[place] = "\t".join(fields) + lines[place][len(line) :]
        return "".join(lines)

    def _misc(self, misc: str, notes: Sequence[str]) -> str:
        """Return the last column with notes in place of earlier ones under their keys."""
        parts = [] if misc == EMPTY else misc.split("|")
        kept = [part for part in parts if part.partition("=")[0] not in self._keys]
        return misc if len(kept) == len(parts) and not notes else "|".join([*kept, *notes]) or EMPTY

    def _sentence(
        self, doc: Doc, start: int, end: int, columns: Mapping[str, list[str]], notes: Sequence[list[str]]
    ) -> str:
        kept = [token for token in doc[start:end] if not token.is_space]
        if not kept:
            return ""
        numbers = {token.i: number for number, token in enumerate(kept, start=1)}
        parsed = doc.has_annotation("DEP")
        rows, text = [], ""
        for token in kept:
            if not token.text or set(token.text) & set("\t\r\n"):
                raise DataError(f"Word {token.text!r} cannot be written: empty or with white space.")
            behind = token.i + 1
            apart = bool(token.whitespace_) or behind == len(doc) or doc[behind].is_space
            text += token.text + (" " if apart else "")
            misc = [*notes[token.i], *([] if apart else ["SpaceAfter=No"])]
            values = [columns[name][token.i] if name in columns else "" for name in self.FIELDS]
            arc = _arc(token, numbers) if parsed else ["", ""]
            fields = [str(numbers[token.i]), token.text, *values, *arc, "", "|".join(misc)]
            rows.append("\t".join(field or EMPTY for field in fields) + "\n")
        return f"# text = {text.strip()}\n{''.join(rows)}\n"


def _arc(token: Token, numbers: Mapping[int, int]) -> list[str]:
    """Return the columns HEAD and DEPREL of a token, given the ids of the words of its sentence."""
    head = "0" if token.head.i == token.i else str(numbers.get(token.head.i, 0))
    return [head, token.dep_]
