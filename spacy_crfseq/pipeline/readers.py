"""Corpus readers for spaCy's training configs: columns, CoNLL-U, XML, attribute files, annotation exports, raw text.

A file is parsed once per vocabulary; each call then yields the same reference docs with new predicted docs.
"""

# No `from __future__ import annotations`: spaCy validates a config with the evaluated annotations.

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from itertools import groupby, islice
from operator import attrgetter
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from zlib import crc32

from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import minibatch
from spacy.vocab import Vocab

from ..corpora import (
    CRFSUITE,
    CUSTOM,
    DOCBIN,
    PRESETS,
    TOKEN_COLUMNS,
    Preset,
    Sentence,
    check_columns,
    get_preset,
    layouts,
    read,
)
from ..corpora.columns import DOCSTART
from ..corpora.crfsuite import WORD, read_crfsuite
from ..corpora.groups import group_of
from ..corpora.guessing import find_layout
from ..corpora.layouts import (
    ANNOTATIONS,
    COLUMNS,
    SPAN_LAYOUTS,
    TEXTS,
    Asked,
    layout_by_ending,
    read_spans,
    span_layout,
)
from ..corpora.lines import FilePart, Invalid, OnError, check_file, checked, cut, in_bytes
from ..corpora.paths import corpus_files, resolve
from ..corpora.spans import Notes, SpanRules, Tokenize, without_scores
from ..corpora.splitting import SPACES
from ..corpora.tags import SHOWN
from ..corpora.xml import XMLForm
from ..errors import ConfigError, DataError, FormatError
from ..schemes import SPAN_SCHEMES, scheme_named
from .doc_builder import SPANS, CorpusSettings, DocBuilder, Gold, LabelledText, Starts, bare, check_setting
from .evidence import register_extensions
from .overrides import spacy_command
from .tasks import Annotation
from .texts import chunks_key, load_docs, missing_columns, predicted_labels, read_parts, unit_of

PASSAGE = 25
"""Sentences of a passage."""
BLANK = (b"\n", b"\r\n")
MARKS = {
    "conllu": (b"# newdoc\n", b"# newdoc\r\n", b"# newdoc id ="),
    CUSTOM: tuple(DOCSTART.encode() + end for end in (b" ", b"\t", b"\n", b"\r\n")),
}
"""The beginnings of the first line of a document, by the layouts whose files can be cut."""
Sentences = Callable[[Language, FilePart, OnError, Notes], Iterator[Sentence]]
"""Reads the sentences of a part of a corpus, but those with errors, which the function receives, as the notes do what
of annotated spans is left out.
"""


def create_conll_reader(
    path: Path | None,
    columns: list[str] = ["word", "tag", "chunk"],  # noqa: B006
    scheme: str = "IOB2",
    given: list[str] = [],  # noqa: B006
    unit: str = "sentence",
    chunks_key: str = "chunks",
    on_invalid: str = "error",
    encoding: str = "utf8",
    limit: int = 0,
    weight: float = 1.0,
    joined: float = 0.0,
    twice: bool = False,
    apart: float = 0.0,
    group: str = "",
    skip_invalid: bool = False,
) -> "CorpusReader":
    """Create a reader of a column file (``spacy_crfseq.ConllReader.v1``).

    path (Path): The file; or a folder, a pattern such as train-*.conll, or several of these, comma-separated, whose
        files are one corpus.
    columns (list[str]): What each column holds: word, tag, pos (a UPOS tag, "_" is missing), lemma, morph ("_" is
        no features), ent (into doc.ents, "-" is missing), chunk (into doc.spans), weight (of the sentence: a number at
        its first token, "_" or the same at the others; into doc._.crf_weight), or "_" to ignore it.
    scheme (str): How ent and chunk are tagged: IOB2, IOB1, BILUO, IOBES, BMES or BMEWO.  Tags have their prefix before
        the type (B-PER), after it (PER-B), or alone (B), where the type is SPAN.
    given (list[str]): Columns that the predicted doc also has because they are an input of the task, such as the
        automatic part-of-speech tags of CoNLL-2000.
    unit (str): "sentence" makes each a doc, "document" all up to the next -DOCSTART- line, with sentence starts on
        both docs; a file without such lines is one doc.  "passage" makes a doc of up to 25 sentences in a row, which
        stand in for documents where the file marks none.
    chunks_key (str): The key of the chunks in doc.spans.
    on_invalid (str): Tags that violate the scheme are an "error", or read as the CoNLL scorer does ("conlleval"), with
        one warning per file.
    encoding (str): The encoding of the file.
    limit (int): The maximum number of docs, 0 for all.
    weight (float): Weight of each doc in training; 2 is like having it twice, 0 like omitting it.
    joined (float): Share of the sentences, drawn by a fixed seed, that are joined to the one before them: in documents
        they have no sentence start, else they share a doc with it.  For training, as the next two, so that a model
        also expects texts whose sentences are unknown.  Sentences of two documents or with weights stay apart.
    twice (bool): Yield each doc with all sentence starts, too, before the joined form: more accurate, twice as slow.
    apart (float): Share of the docs whose sentences `DocumentWords` and `DocumentLabels` read as docs of their own.
    group (str): The group of each text, which folds keep together: a column, "document" or "file"; of CoNLL-U also the
        key of a comment, of JSON a key of the record (into doc._.crf_group).  No doc has sentences of two groups.
    skip_invalid (bool): Leave out what cannot be read, with a warning that counts it; else it is an error.

    A file that ends as one of annotated spans (.jsonl, .json, .ann, .parquet, .arrow) is read as
    `create_annotation_reader` does, if columns are word and ent alone.
    Raises ConfigError on invalid settings; the reader raises FormatError with file and line.
    """
    for name in columns:
        check_setting("columns", name, COLUMNS)
    if path is not None and layout_by_ending(Path(path), SPAN_LAYOUTS):
        others = [name for name in columns if name not in (*ANNOTATIONS.columns, "_")]
        if others:
            raise ConfigError(
                f"{path}: annotated spans are entities (ent), but the reader's columns name "
                f"{', '.join(others)}. Give a column file, or train crf_ner alone."
            )
        return create_annotation_reader(path, limit, weight, encoding, group=group, skip_invalid=skip_invalid)
    check_columns(columns)
    if scheme != "plain":
        scheme = scheme_named(scheme)
    elif not set(SPANS).isdisjoint(columns):
        raise ConfigError(
            f"scheme = 'plain' marks no spans, but columns holds ent or chunk. Give {' or '.join(SPAN_SCHEMES)}."
        )
    layout = Preset(CUSTOM, tuple(columns), scheme, encoding, "", skip_invalid=skip_invalid)
    rest = limit, weight, joined, twice, apart, group
    return CorpusReader(CorpusSettings(_given(path), layout, tuple(given), unit, chunks_key, on_invalid, *rest))


def create_conllu_reader(
    path: Path | None,
    given: list[str] = [],  # noqa: B006
    unit: str = "sentence",
    limit: int = 0,
    weight: float = 1.0,
    encoding: str = "utf8",
    joined: float = 0.0,
    twice: bool = False,
    group: str = "",
    skip_invalid: bool = False,
) -> "CorpusReader":
    """Create a reader of a CoNLL-U file (``spacy_crfseq.ConlluReader.v1``).

    Sets tag, pos, morph and lemma, and head and dep in docs where each sentence's heads make a tree.

    unit (str): "sentence" makes each a doc, "document" all up to the next ``# newdoc``, "passage" up to 25 sentences.
    The other settings and the errors are those of `create_conll_reader`.
    """
    layout = PRESETS["conllu"]._replace(encoding=encoding, skip_invalid=skip_invalid)
    settings = CorpusSettings(
        _given(path), layout, tuple(given), unit, limit=limit, weight=weight, joined=joined, twice=twice, group=group
    )
    return CorpusReader(settings)


def create_crfsuite_reader(
    path: Path | None,
    column: str = "tag",
    scheme: str = "IOB2",
    word: str = WORD,
    chunks_key: str = "chunks",
    on_invalid: str = "error",
    limit: int = 0,
    weight: float = 1.0,
    encoding: str = "utf8",
    skip_invalid: bool = False,
) -> "CorpusReader":
    """Create a reader of an attribute file of CRFsuite (``spacy_crfseq.CRFsuiteReader.v1``).

    column (str): What its labels are: tag, pos, morph, ent (into doc.ents) or chunk (into doc.spans).
    word (str): The beginning of the attribute whose rest is the word, as CRFsuite's own examples name it; the text of
        a token without one is "_".  For people to read: features are the attributes alone.
    The other settings and the errors are those of `create_conll_reader`.
    """
    path = _given(path)
    check_setting("column", column, ("tag", "pos", "morph", "ent", "chunk"))
    layout = Preset(CRFSUITE, ("word", column), scheme_named(scheme), encoding, column, skip_invalid=skip_invalid)
    settings = CorpusSettings(path, layout, (), "sentence", chunks_key, on_invalid, limit, weight)
    return CorpusReader(settings, lambda _, part, note, __: read_crfsuite(part.path, column, word, encoding, note))


def create_xml_reader(
    path: Path | None,
    sequence: str = "",
    nested: str = "innermost",
    other: str | None = "O",
    ignore: list[str] = [],  # noqa: B006
    attributes: list[str] = [],  # noqa: B006
    join: bool = False,
    pattern: str = SPACES,
    between: str = "words",
    part: str = "all",
    chunks_key: str = "chunks",
    limit: int = 0,
    weight: float = 1.0,
    encoding: str = "",
    rename: dict[str, str] = {},  # noqa: B006
    group: str = "",
    skip_invalid: bool = False,
) -> "CorpusReader":
    """Create a reader of XML elements whose children are labelled segments (``spacy_crfseq.XMLReader.v1``).

    Each sequence becomes a doc, with its text: the label of each token as its tag, for `crf_tagger`; segments in
    doc.ents, for `crf_ner`; and segments in doc.spans[chunks_key], for `crf_chunker`.

    sequence (str): The name of the elements that are sequences; by default, the outermost ones that hold segments.
    nested (str): Where elements in a sequence hold others, the label is the name of the "innermost" or the "outermost";
        "error" rejects them.
    other (str | None): The label of text outside of segments; null for text that is not annotated.
    ignore (list[str]): Elements that are no labels; their text belongs to the element around them.
    attributes (list[str]): XML attributes that are part of a label: level makes <title level="a"> title-a.
    join (bool): Adjacent segments of one label are one span; as plain labels they are the same.
    pattern, between (str): How text becomes tokens, as in RegexTokenizer.  A token never crosses a segment's end.
    rename (dict[str, str]): New names of labels, after `attributes`; one for several merges them, "O" is no segment.
    part (str): "train" leaves out each tenth sequence, "dev" takes only these, "all" takes all: for a corpus without
        development data.
    encoding (str): The encoding of the file; by default, the one that the file declares.
    The other settings and the errors are those of `create_conll_reader`.
    """
    check_setting("part", part, ("all", "train", "dev"))
    form = XMLForm(sequence, nested, other, tuple(ignore), tuple(attributes), join, pattern, between, rename)
    form.check()
    layout = PRESETS["xml"]._replace(encoding=encoding, form=form, skip_invalid=skip_invalid)
    settings = CorpusSettings(_given(path), layout, chunks_key=chunks_key, limit=limit, weight=weight, group=group)
    return CorpusReader(settings, lambda nlp, *of: part_of(_sentences(layout, nlp, *of), part, settings.path))


def part_of(sentences: Iterator[Sentence], part: str, path: Path) -> Iterator[Sentence]:
    """Yield the sentences of "train", "dev" (each tenth of a file) or "all"; a folder may have many small files."""
    for file, group in groupby(sentences, key=attrgetter("file")):
        start = 1 if Path(file) == path else 1 + crc32(Path(file).name.encode())
        for number, sentence in enumerate(group, start):
            if part == "all" or (number % 10 == 0) == (part == "dev"):
                yield sentence


def create_annotation_reader(
    path: Path | None,
    limit: int = 0,
    weight: float = 1.0,
    encoding: str = "utf8",
    format: str | None = None,
    outside: str = "known",
    min_score: float = 0.0,
    match: str = "none",
    alternatives: str = "best",
    group: str = "",
    skip_invalid: bool = False,
) -> "CorpusReader":
    """Create a reader of annotated spans in texts (``spacy_crfseq.AnnotationReader.v1``).

    Entities are stored in doc.ents, spans rejected in Prodigy in doc.spans["incorrect"]: set incorrect_spans_key =
    "incorrect" in crf_ner to learn from those.  The pipeline's tokenizer is used; spans that do not match its tokens
    are missing annotation, and a warning lists them.  Of spans that overlap, the one with the highest score is kept,
    else the longest; the labels of spans with the same start and end are candidates, of which one is right.  A number
    under "weight", or under "weight" in "meta", weights a text in training (doc._.crf_weight).

    format (str | None): jsonl, brat, webanno or parquet; None for that of the ending.
    outside (str): "known" if text outside of spans is in no entity, "unknown" if only some entities are annotated.
    min_score (float): Spans with a lower score are unknown, both as entities and as text in none.
    match (str): How spans that come as texts without positions are looked up: "all" marks all occurrences of a text,
        "first" the first one (the next one if it is given again), and "order" the first one after the span before;
        "none" refuses them.
    alternatives (str): Which labels of spans with the same start and end are candidates: "best", those that have the
        highest score, or "all".
    The settings and the errors are those of `create_conll_reader`.
    """
    path, rules = _given(path), SpanRules(outside, min_score, match, alternatives).check()
    layout = span_layout(path, format)._replace(encoding=encoding, spans=rules, skip_invalid=skip_invalid)
    return CorpusReader(CorpusSettings(path, layout, limit=limit, weight=weight, group=group))


def create_text_reader(
    path: Path | None,
    format: str | None = None,
    encoding: str | None = None,
    limit: int = 0,
    skip_invalid: bool = False,
) -> "TextReader":
    """Create a reader of texts without annotation (``spacy_crfseq.TextReader.v1``), for terms of an objective.

    path (Path): A file, also packed (.gz), a folder, a pattern, or several of these, comma-separated.
    format (str | None): Layout of the files: txt (a text per line), jsonl (a "text" in each line), spacy, or that of a
        corpus, such as conll2003 or conllu, of which the words are read; None finds it by the ending, else by the
        first lines.
    encoding (str | None): Of the files; None for utf8, or that of the format.
    limit (int): The maximum number of texts, 0 for all.
    skip_invalid (bool): Leave out what cannot be read, with a warning that counts it; else it is an error.
    Raises ConfigError on invalid settings; the reader raises FormatError with file and line.
    """
    asked = Asked(format, encoding=encoding, skip_invalid=skip_invalid)
    asked.layout(TEXTS)
    if path is None:
        raise ConfigError("spacy_crfseq.TextReader.v1 has no path. Give the file or folder in its block of [corpora].")
    if limit < 0:
        raise ConfigError(f"spacy_crfseq.TextReader.v1: limit must be 0 (all) or more, but {limit} was given.")
    return TextReader(Path(path), asked, limit)


def tokenizer_of(nlp: Language) -> Tokenize:
    """Return a function from a text to a pipeline's tokens, and whether a space follows each."""

    def tokenize(text: str) -> tuple[list[str], list[bool]]:
        doc = nlp.make_doc(text)
        return [token.text for token in doc], [bool(token.whitespace_) for token in doc]

    return tokenize


def read_examples(
    nlp: Language,
    path: Path,
    layout: str | Preset,
    *,
    given: Sequence[str] = (),
    unit: str = "sentence",
    chunks_key: str = "chunks",
    on_invalid: str = "conlleval",
    limit: int = 0,
) -> Iterator[Example]:
    """Return examples of a file, read as they are taken.

    layout (str | Preset): How the file is laid out, or the name of a preset.
    RAISES ConfigError: If there is no such preset.
    """
    preset = get_preset(layout) if isinstance(layout, str) else layout
    return CorpusReader(CorpusSettings(path, preset, tuple(given), unit, chunks_key, on_invalid, limit)).stream(nlp)


def _sentences(layout: Preset, nlp: Language, part: FilePart, on_error: OnError, notes: Notes) -> Iterator[Sentence]:
    if layout.spans is not None:
        return read_spans(part.path, layout, tokenizer_of(nlp), notes, on_error)
    if layout.name == CRFSUITE:
        return read_crfsuite(part.path, layout.score, WORD, layout.encoding, on_error)
    check_file(part.path)
    stream = part.open()
    return checked(read(part.path, layout, stream), part.path, on_error, empty="no sentence" if stream is None else "")


class CorpusReader:
    """The files of a corpus as examples.  Docs are cached per vocabulary, which is kept alive.

    sentences (Callable | None): Reads a file or a part of it; by default, as the layout says.
    """

    def __init__(self, settings: CorpusSettings, sentences: Sentences | None = None) -> None:
        register_extensions()
        layout = settings.layout
        of_sentences = layout.form is not None or layout.spans is not None
        self._settings = replace(settings, unit="sentence") if of_sentences else settings
        self._sentences: Sentences = sentences or partial(_sentences, settings.layout)
        self._part: FilePart | None = None
        self._warned: set[Path] = set()
        # A Vocab takes no weak references; the stored one keeps its id from being used again.
        self._built: dict[int, tuple[Vocab, list[Gold]]] = {}

    def parts(self, size: int) -> list[FilePart | None]:
        """Return parts of about `size` bytes, which hold all docs in order; only None, all, where `limit` counts them.

        Files are cut between sentences or documents; into none where passages or joined sentences go on.
        """
        settings, layout = self._settings, self._settings.layout
        if settings.limit:
            return [None]
        mark = MARKS.get(layout.name)
        if settings.unit == "passage" or settings.joined or (mark and not in_bytes(layout.encoding)):
            mark = None
        elif mark and settings.unit == "sentence":
            mark = BLANK
        return [part for file in corpus_files(settings.path) for part in cut(file, size, mark)]

    def part(self, part: FilePart | None) -> "CorpusReader":
        """Return the reader of a part."""
        if part is None:
            return self
        other = copy(self)
        other._settings, other._part, other._built = replace(self._settings, path=part.path), part, {}
        return other

    def __call__(self, nlp: Language) -> Iterator[Example]:
        """Return an iterator over the examples; raises FormatError, at once, on a line that cannot be read."""
        vocab = nlp.vocab
        if id(vocab) not in self._built:
            try:
                self._built[id(vocab)] = vocab, list(self._gold(nlp))
            except FormatError as error:
                if not spacy_command():
                    raise
                raise SystemExit(f"\u2718 {error}") from None  # as spaCy's commands report what their files lack
        return _examples(self._built[id(vocab)][1])

    def sentences(self, nlp: Language) -> Iterator[Sentence]:
        """Yield the sentences of all files."""
        invalid = self._invalid()

        def read() -> Iterator[Sentence]:
            documents = last = 0
            for part, _, sentences in self._read(nlp, invalid):
                for sentence in sentences:
                    last = documents + sentence.document
                    yield sentence._replace(file=sentence.file or str(part.path), document=last)
                documents = last + 1

        return invalid.passing(read())

    def _read(self, nlp: Language, invalid: Invalid) -> Iterator[tuple[FilePart, OnError, Iterator[Sentence]]]:
        """Yield the parts, what receives their errors, and their sentences; and warn of what these leave out.

        RAISES FormatError: Behind the last one, if a least score is asked for, but no span has a score.
        """
        parts, rules, all_notes = self._parts(), self._settings.layout.spans, list[Notes]()
        for number, part in enumerate(parts, start=1):
            notes, note = Notes(), partial(_note, invalid, part)
            all_notes.append(notes)
            yield part, note, self._sentences(nlp, part, note, notes)
            min_score = rules.min_score if rules and number == len(parts) and self._part is None else 0
            if wrong := without_scores(Path(self._settings.path), min_score, all_notes):
                raise wrong
            for text, places in notes.messages(part.path):
                warnings.warn("\n  ".join([text, *places]), stacklevel=1)  # one place, shown once for several passes

    def stream(self, nlp: Language) -> Iterator[Example]:
        """Return an iterator over the examples that streams the files and caches nothing."""
        return _examples(self._gold(nlp))

    def portions(
        self, nlp: Language, size: int, columns: Sequence[str], annotation: Annotation
    ) -> Iterator[LabelledText | list[Example]]:
        """Yield `size` sentences at a time, as arrays where no docs are needed (`DocBuilder.labelled`); keep nothing.

        columns (Sequence[str]): Token attributes of the predicted docs, such as "TAG".
        """
        inputs, parts, limit = [name.lower() for name in columns], self._parts(), self._settings.limit
        if not DocBuilder(nlp.vocab, self._settings).suits(inputs, annotation) or (len(parts) > 1 and limit):
            yield from minibatch(self.stream(nlp), size)
            return

        def encode(work: _Work) -> Iterator[LabelledText | list[Example]]:
            for chunk in minibatch(islice(work.sentences, limit or None), size):
                try:
                    labelled = work.builder.labelled(chunk, inputs, annotation)
                except FormatError:  # of one or more sentences, whose docs tell
                    labelled = None
                yield labelled or list(_examples(work.gold(([sentence], [None]) for sentence in chunk)))

        invalid = self._invalid()
        yield from invalid.passing(self._each(nlp, invalid, encode))

    def _gold(self, nlp: Language) -> Iterator[Gold]:
        invalid = self._invalid()
        docs = self._each(nlp, invalid, lambda work: work.gold(self._docs(work.sentences, work.builder.path)))
        return invalid.passing(islice(docs, self._settings.limit or None))

    def _invalid(self) -> Invalid:
        return Invalid(self._settings.layout.skip_invalid, partly=self._part is not None)

    def _parts(self) -> list[FilePart]:
        return [self._part] if self._part else [FilePart(file) for file in corpus_files(self._settings.path)]

    def _each(self, nlp: Language, invalid: Invalid, make: Callable[["_Work"], Iterator[Any]]) -> Iterator[Any]:
        """Yield the texts of the sentences of each file, note their errors, and warn of invalid tags at its end."""
        for part, note, sentences in self._read(nlp, invalid):
            builder = DocBuilder(nlp.vocab, replace(self._settings, path=part.path))
            yield from make(_Work(builder, sentences, note))
            if builder.invalid and part.path not in self._warned:
                self._warned.add(part.path)
                single = builder.invalid == 1
                held = "a sentence holds" if single else f"{builder.invalid:,} sentences, the first at this line, hold"
                where = f"{part.path}:{part.line_in_file(builder.first_invalid)}"
                what = f"{held} tags that are not valid {self._settings.layout.scheme}"
                how = f"{'it is' if single else 'they are'} read as conlleval does"
                warnings.warn(f"{where}: {what}; {how}.", stacklevel=3)

    def _docs(self, sentences: Iterator[Sentence], path: Path) -> Iterator[tuple[list[Sentence], list[Starts]]]:
        """Yield the sentences of each doc, and its forms."""
        settings, draw = self._settings, Random(0).random

        def whole(sentence: Sentence) -> tuple[int, str]:
            return sentence.document, group_of(sentence, settings.group, path) if settings.group else ""

        def forms(n: int, starts: Starts) -> list[Starts]:
            return [*([[True] * n] if settings.twice else []), starts]

        if settings.unit != "sentence":
            most = PASSAGE if settings.unit == "passage" else sys.maxsize
            for _, group in groupby(enumerate(sentences), key=lambda item: (whole(item[1]), item[0] // most)):
                doc = [sentence for _, sentence in group]
                yield doc, forms(len(doc), [i == 0 or draw() >= settings.joined for i in range(len(doc))])
            return
        if not settings.joined:  # a stream is read as it goes
            yield from (([sentence], forms(1, None)) for sentence in sentences)
            return
        run = list(islice(sentences, 1))
        for sentence in sentences:
            if whole(run[0]) != whole(sentence) or "weight" in sentence.columns or draw() >= settings.joined:
                yield run, forms(len(run), None)
                run = []
            run.append(sentence)
        if run:
            yield run, forms(len(run), None)


class _Work(NamedTuple):
    """The sentences of a part of a corpus, what makes docs of them, and what receives errors."""

    builder: DocBuilder
    sentences: Iterator[Sentence]
    note: OnError

    def gold(self, docs: Iterable[tuple[list[Sentence], list[Starts]]]) -> Iterator[Gold]:
        """Yield the gold docs of sentences, but those with values that cannot be read."""
        for sentences, forms in docs:
            try:
                yield from self.builder.gold(sentences, forms)
            except FormatError as error:
                self.note(error)


def _note(invalid: Invalid, part: FilePart, error: FormatError) -> None:
    invalid(part.in_file(error))


def _examples(gold: Iterable[Gold]) -> Iterator[Example]:
    """Return an iterator over examples with new predicted docs."""
    return (Example(predicted(), reference) for reference, predicted in gold)


class TextReader:
    """The texts of a file or folder as examples without gold annotation, read as they are taken."""

    def __init__(self, path: Path, asked: Asked, limit: int) -> None:
        self._path, self._asked, self._limit = path, asked, limit
        self._part: FilePart | None = None

    def parts(self, size: int) -> list[FilePart | None]:
        """Return parts of about `size` bytes of plain text and JSON Lines, and other files as a whole."""
        if self._limit:
            return [None]
        layouts = {file: self._layout(file) for file in resolve(self._path)}
        can_cut = {
            file: layout.name in ("txt", "jsonl") and in_bytes(layout.encoding or "utf8")
            for file, layout in layouts.items()
        }
        return [part for file in layouts for part in cut(file, size, b"" if can_cut[file] else None)]

    def part(self, part: FilePart | None) -> "TextReader":
        """Return the reader of a part."""
        other = copy(self)
        other._part = part
        return other

    def __call__(self, nlp: Language) -> Iterator[Example]:
        """Return an iterator over the examples, both docs of which are the same."""
        return (Example(doc, doc) for doc in self.read(nlp))

    def read(self, nlp: Language, others: Sequence[Language] = ()) -> Iterator[Doc]:
        """Return an iterator over the texts; `others` as of `read_parts`."""
        parts = [FilePart(file) for file in resolve(self._path)] if self._part is None else [self._part]
        texts = read_parts(nlp, [(part, self._layout(part.path)) for part in parts], others)
        return (text.doc for text in islice(texts, self._limit or None))

    def _layout(self, file: Path) -> Preset:
        return find_layout(file, self._asked, texts=True).layout


def _given(path: Path | None) -> Path:
    if path is None:
        raise ConfigError(
            "A corpus reader has no path. Give the file on the command line with --paths.train FILE or "
            "--paths.dev FILE, or under [paths] in the config."
        )
    return Path(path)


# Annotated files, to score pipelines on


class GoldFile(NamedTuple):
    """The documents of an annotated file.

    columns (tuple[str, ...]): What it annotates: `TOKEN_COLUMNS` and `SPAN_COLUMNS`.
    given (tuple[str, ...]): Columns of the predicted documents in addition to the words.
    """

    examples: list[Example]
    columns: tuple[str, ...]
    given: tuple[str, ...]


def read_gold(
    nlp: Language, path: Path, layout: Preset, given: Sequence[str] | None = None, *, documents: bool = False,
    others: Sequence[Language] = (),
) -> GoldFile:  # fmt: skip
    """Return an annotated file: its sentences, or marked documents or passages if the pipeline was trained on those.

    given (Sequence[str] | None): Columns that the pipeline sees; None for those that features read and nothing sets.
    documents (bool): Read documents where the file marks them, whatever the pipeline was trained on.
    others (Sequence[Language]): Pipelines that read the same texts: the units are the largest that one of them needs.
    RAISES CrfError: If the file cannot be read, or holds nothing.
    """
    key, columns = chunks_key(nlp), layouts.file_columns(layout)
    seen = missing_columns(nlp, layout) if given is None else list(given)
    if layout.name == DOCBIN:
        for name in seen:
            layouts.check_choice("--given", name, TOKEN_COLUMNS, " column")
        docs = load_docs(path, nlp.vocab, skip_invalid=layout.skip_invalid)
        examples = [Example(bare(doc, seen), doc) for doc in docs]
        columns = tuple(c for c in columns if any(holds(example.reference, c, key) for example in examples))
    else:
        usual = {unit_of(pipeline) for pipeline in (nlp, *others)}
        marked = (documents or "document" in usual) and layouts.marks_documents(path, layout)
        unit = "document" if marked else "passage" if "passage" in usual else "sentence"
        examples = list(read_examples(nlp, path, layout, given=seen, unit=unit, chunks_key=key))
    if not examples:
        raise DataError(f"{path} holds no documents.")
    for column, labels in predicted_labels(nlp).items():
        there = {label for example in examples for label in _labels_in(example.reference, column, key)}
        if column in columns and there and labels.isdisjoint(there):
            both = f"the file has {_some(there)}, the model {_some(labels)}"
            warnings.warn(
                f"{path}: no label of {column} is one of the model: {both}. Give them one name.", stacklevel=3
            )
    return GoldFile(examples, columns, tuple(seen))


def _labels_in(doc: Doc, column: str, key: str) -> Iterable[str]:
    if column in SPANS:
        spans = doc.ents if column == "ent" else doc.spans.get(key, ())
        return (span.label_ for span in spans)
    return filter(None, (token.tag_ for token in doc)) if column == "tag" else ()


def _some(labels: Iterable[str]) -> str:
    return ", ".join([*sorted(labels)[:SHOWN], *(["..."] if len(set(labels)) > SHOWN else [])])


def holds(doc: Any, column: str, key: str) -> bool:
    """Whether a Doc has the annotation of a column; chunks under their key of doc.spans."""
    attribute = "ENT_IOB" if column == "ent" else column.upper()
    return key in doc.spans if column == "chunk" else bool(doc.has_annotation(attribute))
