"""The files of a corpus as examples, whatever their layout, and texts without annotation.

A file is parsed once per vocabulary; each call then yields the same reference docs with new predicted docs.
"""

from __future__ import annotations

import sys
import warnings
from array import array
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

from ..corpora import CRFSUITE, CUSTOM, Preset, Sentence, get_preset, read
from ..corpora.columns import DOCSTART
from ..corpora.crfsuite import WORD, read_crfsuite
from ..corpora.groups import group_of
from ..corpora.guessing import find_layout
from ..corpora.layouts import Asked, read_spans
from ..corpora.leaks import COMPARED, key_of
from ..corpora.lines import FilePart, Invalid, OnError, check_file, checked, cut, in_bytes
from ..corpora.paths import corpus_files, resolve
from ..corpora.spans import Notes, Tokenize, without_scores
from ..errors import FormatError
from .doc_builder import CorpusSettings, DocBuilder, Gold, LabelledText, Starts
from .evidence import register_extensions
from .overrides import spacy_command
from .tasks import Annotation
from .texts import read_parts

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


def tokenizer_of(nlp: Language) -> Tokenize:
    """Return a function from a text to a pipeline's tokens, and whether a space follows each."""

    def tokenize(text: str) -> tuple[list[str], list[bool]]:
        doc = nlp.make_doc(text)
        return [token.text for token in doc], [bool(token.whitespace_) for token in doc]

    return tokenize


def read_sentences(
    layout: Preset, nlp: Language, part: FilePart, on_error: OnError, notes: Notes
) -> Iterator[Sentence]:
    """Return an iterator over the sentences of a part of a file, as its layout says; `on_error` receives the errors."""
    if layout.spans is not None:
        return read_spans(part.path, layout, tokenizer_of(nlp), notes, on_error)
    if layout.name == CRFSUITE:
        return read_crfsuite(part.path, layout.score, WORD, layout.encoding, on_error)
    check_file(part.path)
    stream = part.open()
    return checked(read(part.path, layout, stream), part.path, on_error, empty="no sentence" if stream is None else "")


def part_of(sentences: Iterator[Sentence], part: str, path: Path) -> Iterator[Sentence]:
    """Yield the sentences of "train", "dev" (each tenth of a file) or "all"; a folder may have many small files."""
    for file, group in groupby(sentences, key=attrgetter("file")):
        start = 1 if Path(file) == path else 1 + crc32(Path(file).name.encode())
        for number, sentence in enumerate(group, start):
            if part == "all" or (number % 10 == 0) == (part == "dev"):
                yield sentence


class CorpusReader:
    """The files of a corpus as examples.  Docs are cached per vocabulary, which is kept alive.

    sentences (Callable | None): Reads a file or a part of it; by default, as the layout says.
    n_unusable (int): Spans of the files, once these are read, that do not match the tokens.
    """

    def __init__(self, settings: CorpusSettings, sentences: Sentences | None = None) -> None:
        register_extensions()
        layout = settings.layout
        of_sentences = layout.form is not None or layout.spans is not None
        self._settings = replace(settings, unit="sentence") if of_sentences else settings
        self._sentences: Sentences = sentences or partial(read_sentences, settings.layout)
        self._part: FilePart | None = None
        self._warned: set[Path] = set()
        # A Vocab takes no weak references; the stored one keeps its id from being used again.
        self._built: dict[int, tuple[Vocab, list[Gold]]] = {}
        self._keys: array[int] | None = None
        self.n_unusable = 0

    def note_keys(self) -> array[int] | None:
        """Return an array that the keys of the sentences (see `leaks`) join as they are read, before any are joined.

        There is none for attribute files, which may have no words.
        """
        self._keys = None if self._settings.layout.name == CRFSUITE else array("q")
        return self._keys

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

    def part(self, part: FilePart | None) -> CorpusReader:
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
            sentences = self._sentences(nlp, part, note, notes)
            yield part, note, sentences if self._keys is None else _noting(sentences, self._keys)
            min_score = rules.min_score if rules and number == len(parts) and self._part is None else 0
            if wrong := without_scores(Path(self._settings.path), min_score, all_notes):
                raise wrong
            self.n_unusable = sum(len(of_part.spans) for of_part in all_notes)
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

    def _each(self, nlp: Language, invalid: Invalid, make: Callable[[_Work], Iterator[Any]]) -> Iterator[Any]:
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


def _noting(sentences: Iterator[Sentence], keys: array[int]) -> Iterator[Sentence]:
    for sentence in sentences:
        if len(sentence.words) >= COMPARED:
            keys.append(key_of(sentence.words))
        yield sentence


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

    def part(self, part: FilePart | None) -> TextReader:
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
