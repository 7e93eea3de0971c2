"""Corpus readers for spaCy's training configs: column files, CoNLL-U and attribute files, without conversion to DocBin.

A file is parsed once per vocabulary; each call then yields the same reference docs with new predicted docs.
"""

# No `from __future__ import annotations`: spaCy validates a config with the evaluated annotations.

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from itertools import chain, groupby, islice
from operator import attrgetter
from pathlib import Path
from random import Random
from zlib import crc32

from spacy.language import Language
from spacy.training import Example
from spacy.util import minibatch
from spacy.vocab import Vocab

from ..corpora import Preset, Sentence, check_columns, get_preset, read_columns, read_conllu
from ..corpora.annotations import Notes, Tokenize, read_annotations
from ..corpora.crfsuite import WORD, AttributeSentence, read_crfsuite, sentence_of
from ..corpora.layouts import COLUMNS, Asked, find_layout, layout_by_ending
from ..corpora.lines import in_bytes
from ..corpora.parts import BLANK, DOCUMENT, LINE, NEWDOC, Mark, Part, cut, files_of
from ..corpora.presets import ANNOTATIONS, TEXTS
from ..corpora.splitting import SPACES
from ..corpora.xml import XMLForm, read_xml
from ..errors import ConfigError, FormatError
from ..features.noted import KEY
from ..schemes import READABLE_SCHEMES
from .evidence import register_extensions
from .gold_docs import ATTRIBUTES, SPANS, CorpusLayout, DocBuilder, Entry, Portion, Starts, check_setting, example_of
from .tasks.base import Annotation
from .texts import read_texts

PASSAGE = 25
"""Sentences of a passage."""


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
) -> "CorpusReader":
    """Create a reader of a column file (``spacy_crfseq.ConllReader.v1``).

    path (Path): The file; or a folder or a pattern such as train-*.conll, whose files are one corpus.
    columns (list[str]): What each column holds: word, tag, pos (a UPOS tag, "_" is missing), lemma, morph ("_" is
        no features), ent (into doc.ents, "-" is missing), chunk (into doc.spans), weight (of the sentence: a number at
        its first token, "_" or the same at the others; into doc._.crf_weight), or "_" to ignore it.
    scheme (str): How ent and chunk are tagged: IOB2, BILUO or IOB1.
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
        they have no sentence start, else they share a doc with it.  For training, so that a model also expects texts
        whose sentences are unknown.  Sentences of two documents or with weights stay apart.
    twice (bool): Yield each doc with all sentence starts, too, before the joined form: more accurate, in twice the
        time.

    A file that ends in .jsonl or .json is read as `create_annotation_reader` does, if columns are word and ent alone.
    Raises ConfigError on invalid settings; the reader raises FormatError with file and line.
    """
    for name in columns:
        check_setting("columns", name, COLUMNS)
    if path is not None and layout_by_ending(Path(path)) == ANNOTATIONS.name:
        others = [name for name in columns if name not in (*ANNOTATIONS.columns, "_")]
        if others:
            raise ConfigError(
                f"{path}: exports of annotation tools hold entities (ent), but the reader's columns name "
                f"{', '.join(others)}. Give a column file, or train crf_ner alone."
            )
        return create_annotation_reader(path, limit, weight, encoding)
    check_columns(columns)
    check_setting("scheme", scheme, READABLE_SCHEMES)
    if scheme == "plain" and not set(SPANS).isdisjoint(columns):
        raise ConfigError("scheme = 'plain' marks no spans, but columns holds ent or chunk. Give IOB2 or BILUO.")
    layout = CorpusLayout(
        _given(path), tuple(columns), scheme, tuple(given), unit, chunks_key, on_invalid, limit, weight, joined, twice
    )
    read = partial(read_columns, columns=columns, encoding=encoding)
    return CorpusReader(
        lambda _, part: read(part.path, data=_bytes(part)), layout, DOCUMENT if in_bytes(encoding) else None
    )


def create_conllu_reader(
    path: Path | None,
    given: list[str] = [],  # noqa: B006
    unit: str = "sentence",
    limit: int = 0,
    weight: float = 1.0,
    encoding: str = "utf8",
    joined: float = 0.0,
    twice: bool = False,
) -> "CorpusReader":
    """Create a reader of a CoNLL-U file (``spacy_crfseq.ConlluReader.v1``).

    Sets tag, pos, morph and lemma, and head and dep in docs where each sentence's heads make a tree.

    unit (str): "sentence" makes each a doc, "document" all up to the next ``# newdoc``, "passage" up to 25 sentences.
    The other settings and the errors are those of `create_conll_reader`.
    """
    layout = CorpusLayout(
        _given(path), tuple(ATTRIBUTES), "plain", tuple(given), unit,
        limit=limit, weight=weight, joined=joined, twice=twice,
    )  # fmt: skip
    return CorpusReader(
        lambda _, part: read_conllu(part.path, encoding=encoding, data=_bytes(part)),
        layout,
        NEWDOC if in_bytes(encoding) else None,
    )


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
) -> "CRFsuiteReader":
    """Create a reader of an attribute file of CRFsuite (``spacy_crfseq.CRFsuiteReader.v1``).

    column (str): What its labels are: tag, pos, morph, ent (into doc.ents) or chunk (into doc.spans).
    word (str): The beginning of the attribute whose rest is the word, as CRFsuite's own examples name it; the text of
        a token without one is "_".  For people to read: features are the attributes alone.
    The other settings and the errors are those of `create_conll_reader`.
    """
    path = _given(path)
    check_setting("column", column, ("tag", "pos", "morph", "ent", "chunk"))
    layout = CorpusLayout(path, ("word", column), scheme, (), "sentence", chunks_key, on_invalid, limit, weight)
    return CRFsuiteReader(layout, word, encoding)


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
    xml = get_preset("xml")
    layout = CorpusLayout(
        _given(path), xml.columns, xml.scheme, chunks_key=chunks_key, limit=limit, weight=weight
    )  # fmt: skip
    return CorpusReader(
        lambda _, file: part_of(read_xml(file.path, form, encoding=encoding), part, layout.path), layout
    )


def part_of(sentences: Iterator[Sentence], part: str, path: Path) -> Iterator[Sentence]:
    """Yield the sentences of "train", "dev" (each tenth of a file) or "all"; a folder may have many small files."""
    for file, group in groupby(sentences, key=attrgetter("file")):
        start = 1 if Path(file) == path else 1 + crc32(Path(file).name.encode())
        for number, sentence in enumerate(group, start):
            if part == "all" or (number % 10 == 0) == (part == "dev"):
                yield sentence


def create_annotation_reader(
    path: Path | None, limit: int = 0, weight: float = 1.0, encoding: str = "utf8"
) -> "CorpusReader":
    """Create a reader of an export of Prodigy, doccano or Label Studio (``spacy_crfseq.AnnotationReader.v1``).

    Entities are stored in doc.ents, spans rejected in Prodigy in doc.spans["incorrect"]: set incorrect_spans_key =
    "incorrect" in crf_ner to learn from those.  The pipeline's tokenizer is used; spans that do not match its tokens
    are missing annotation, and a warning lists them.  A number under "weight", or under "weight" in "meta", weights a
    text in training (doc._.crf_weight).
    The settings and the errors are those of `create_conll_reader`.
    """
    layout = CorpusLayout(_given(path), ANNOTATIONS.columns, ANNOTATIONS.scheme, limit=limit, weight=weight)
    return CorpusReader(lambda nlp, part: annotated_sentences(nlp, part.path, encoding), layout)


def create_text_reader(
    path: Path | None,
    format: str | None = None,
    encoding: str | None = None,
    limit: int = 0,
) -> "TextReader":
    """Create a reader of texts without annotation (``spacy_crfseq.TextReader.v1``), for terms of an objective.

    path (Path): A file, also packed (.gz), or a folder, of which all files are read.
    format (str | None): Layout of the files: txt (a text per line), jsonl (a "text" in each line), spacy, or that of a
        corpus, such as conll2003 or conllu, of which the words are read; None finds it by the ending, else by the
        first lines.
    encoding (str | None): Of the files; None for utf8, or that of the format.
    limit (int): The maximum number of texts, 0 for all.
    Raises ConfigError on invalid settings; the reader raises FormatError with file and line.
    """
    asked = Asked(format, encoding=encoding)
    asked.layout(TEXTS)
    if path is None:
        raise ConfigError("spacy_crfseq.TextReader.v1 has no path. Give the file or folder in its block of [corpora].")
    if limit < 0:
        raise ConfigError(f"spacy_crfseq.TextReader.v1: limit must be 0 (all) or more, but {limit} was given.")
    return TextReader(Path(path), asked, limit)


def annotated_sentences(nlp: Language, path: Path, encoding: str = "utf8") -> Iterator[Sentence]:
    """Yield the texts of an export in the pipeline's tokens, see `read_annotations`; warn of what is left out."""
    notes = Notes()
    yield from read_annotations(path, tokenizer_of(nlp), notes, encoding=encoding)
    for text, places in notes.messages(path):
        warnings.warn("\n  ".join([text, *places]), stacklevel=4)


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
    if preset.name == ANNOTATIONS.name:
        return create_annotation_reader(path, limit, encoding=preset.encoding).stream(nlp)
    if preset.form is not None:
        read = partial(read_xml, form=preset.form, encoding=preset.encoding)
        return CorpusReader(
            lambda _, part: read(part.path),
            CorpusLayout(path, preset.columns, preset.scheme, chunks_key=chunks_key, limit=limit),
        ).stream(nlp)
    if preset.name == "conllu":
        return create_conllu_reader(path, list(given), unit, limit, encoding=preset.encoding).stream(nlp)
    columns = list(preset.columns)
    reader = create_conll_reader(
        path, columns, preset.scheme, list(given), unit, chunks_key, on_invalid, preset.encoding, limit
    )
    return reader.stream(nlp)


Read = Callable[[Language, Part], Iterator[Sentence]]
"""Reads the sentences of a part of a corpus."""


def _bytes(part: Part) -> bytes | None:
    return None if part.is_whole else part.read()


class CorpusReader:
    """The files of a corpus as examples; `read` opens them.  Docs are cached per vocabulary, which is kept alive.

    mark (Mark | None): What the line begins with where a document does, in files that may be cut between sentences.
    """

    def __init__(self, read: Read, layout: CorpusLayout, mark: Mark | None = None) -> None:
        register_extensions()
        self._read, self._layout, self._mark = read, layout, mark
        self._part: Part | None = None
        self._warned: set[Path] = set()
        # A Vocab takes no weak references; the stored one keeps its id from being used again.
        self._built: dict[int, tuple[Vocab, list[Entry]]] = {}

    def parts(self, size: int) -> list[Part | None]:
        """Return parts of about `size` bytes, which hold all docs in order; only None, all, where `limit` counts them.

        Files are cut between sentences or documents; into none where passages or joined sentences go on.
        """
        layout = self._layout
        if layout.limit:
            return [None]
        whole = layout.unit == "passage" or layout.joined
        mark = self._mark if layout.unit == "document" else BLANK
        mark = None if whole or self._mark is None else mark
        return [part for file in files_of(layout.path) for part in cut(file, size, mark)]

    def part(self, part: Part | None) -> "CorpusReader":
        """Return the reader of a part."""
        if part is None:
            return self
        other = CorpusReader(self._read, replace(self._layout, path=part.path), self._mark)
        other._part, other._warned = part, self._warned
        return other

    def _files(self) -> "list[CorpusReader]":
        """Return the readers of all files."""
        return [self] if self._part else [self.part(Part(file)) for file in files_of(self._layout.path)]

    def __call__(self, nlp: Language) -> Iterator[Example]:
        """Return an iterator over the examples; raises FormatError, at once, on a line that cannot be read."""
        vocab = nlp.vocab
        if id(vocab) not in self._built:
            try:
                self._built[id(vocab)] = vocab, list(self._entries(nlp))
            except FormatError as error:
                main = getattr(sys.modules["__main__"], "__spec__", None)
                if main is None or main.name != "spacy.__main__" or "crfseq" in sys.argv[1:2]:
                    raise
                raise SystemExit(f"\u2718 {error}") from None  # as spaCy's commands report what their files lack
        return map(example_of, self._built[id(vocab)][1])

    def stream(self, nlp: Language) -> Iterator[Example]:
        """Return an iterator over the examples that streams the files and caches nothing."""
        return map(example_of, self._entries(nlp))

    def portions(
        self, nlp: Language, size: int, columns: Sequence[str], annotation: Annotation
    ) -> Iterator[Portion | list[Example]]:
        """Yield `size` sentences at a time, as arrays where no docs are needed (`DocBuilder.portion`); keep nothing."""
        files, layout = self._files(), self._layout
        if layout.unit != "sentence" or layout.joined or layout.twice or (len(files) > 1 and layout.limit):
            yield from minibatch(self.stream(nlp), size)
            return
        for one in files:
            yield from one._portions(nlp, size, columns, annotation)

    def _portions(
        self, nlp: Language, size: int, columns: Sequence[str], annotation: Annotation
    ) -> Iterator[Portion | list[Example]]:
        builder, part = DocBuilder(nlp.vocab, self._layout), self._part or Part(self._layout.path)
        with part.numbered():
            for chunk in minibatch(islice(self._read(nlp, part), self._layout.limit or None), size):
                entries = (entry for sentence in chunk for entry in builder.entries([sentence], [None]))
                yield builder.portion(chunk, columns, annotation) or list(map(example_of, entries))
        self._warn(builder, part)

    def _entries(self, nlp: Language) -> Iterator[Entry]:
        """Read all files, and warn of invalid tags at the end of each."""
        entries = chain.from_iterable(one._own_entries(nlp) for one in self._files())
        yield from islice(entries, self._layout.limit or None)

    def _own_entries(self, nlp: Language) -> Iterator[Entry]:
        builder, part = DocBuilder(nlp.vocab, self._layout), self._part or Part(self._layout.path)
        with part.numbered():
            for sentences, forms in self._docs(self._read(nlp, part)):
                yield from builder.entries(sentences, forms)
        self._warn(builder, part)

    def _warn(self, builder: DocBuilder, part: Part) -> None:
        if builder.invalid and self._layout.path not in self._warned:
            self._warned.add(self._layout.path)
            warnings.warn(builder.warning(part), stacklevel=3)

    def _docs(self, sentences: Iterator[Sentence]) -> Iterator[tuple[list[Sentence], list[Starts]]]:
        """Yield the sentences of each doc, and its forms."""
        layout, draw = self._layout, Random(0).random

        def forms(n: int, starts: Starts) -> list[Starts]:
            return [*([[True] * n] if layout.twice else []), starts]

        if layout.unit != "sentence":
            most = PASSAGE if layout.unit == "passage" else sys.maxsize
            for _, group in groupby(enumerate(sentences), key=lambda one: (one[1].document, one[0] // most)):
                doc = [sentence for _, sentence in group]
                yield doc, forms(len(doc), [i == 0 or draw() >= layout.joined for i in range(len(doc))])
            return
        if not layout.joined:  # a stream is read as it goes
            yield from (([sentence], forms(1, None)) for sentence in sentences)
            return
        run = list(islice(sentences, 1))
        for sentence in sentences:
            if sentence.document != run[0].document or "weight" in sentence.columns or draw() >= layout.joined:
                yield run, forms(len(run), None)
                run = []
            run.append(sentence)
        yield run, forms(len(run), None)


class TextReader:
    """The texts of a file or folder as examples without gold annotation, read as they are taken."""

    def __init__(self, path: Path, asked: Asked, limit: int) -> None:
        self._path, self._asked, self._limit = path, asked, limit
        self._part: Part | None = None

    def parts(self, size: int) -> list[Part | None]:
        """Return parts of about `size` bytes of plain text and JSON Lines, and other files as a whole."""
        if self._limit:
            return [None]
        return [part for file in self._files() for part in cut(file, size, self._mark(file))]

    def part(self, part: Part | None) -> "TextReader":
        """Return the reader of a part."""
        other = copy(self)
        other._part = part
        return other

    def __call__(self, nlp: Language) -> Iterator[Example]:
        """Return an iterator over the examples, both docs of which are the same."""
        parts = [Part(file) for file in self._files()] if self._part is None else [self._part]
        layouts = [self._layout(part.path) for part in parts]
        texts = chain.from_iterable(read_texts(nlp, *one) for one in zip(parts, layouts, strict=True))
        return (Example(text.doc, text.doc) for text in islice(texts, self._limit or None))

    def _mark(self, file: Path) -> Mark | None:
        layout = self._layout(file)
        return LINE if layout.name in ("txt", "jsonl") and in_bytes(layout.encoding or "utf8") else None

    def _layout(self, file: Path) -> Preset:
        return find_layout(file, self._asked, texts=True).layout

    def _files(self) -> list[Path]:
        return files_of(self._path)


class CRFsuiteReader:
    """An attribute file as examples; its sequences are read once."""

    def __init__(self, layout: CorpusLayout, word: str, encoding: str) -> None:
        self._layout, self._word, self._encoding = layout, word, encoding
        self._sentences: list[AttributeSentence] | None = None
        self._docs = CorpusReader(self._words, layout)

    def __call__(self, nlp: Language) -> Iterator[Example]:
        """Return an iterator over the examples, both docs of which have the attributes."""
        return map(_with_attributes, self._docs(nlp), self._read())

    def _read(self) -> list[AttributeSentence]:
        if self._sentences is None:
            self._sentences = list(read_crfsuite(self._layout.path, self._encoding))
        return self._sentences

    def _words(self, nlp: Language, part: Part) -> Iterator[Sentence]:
        column = self._layout.columns[1]
        return (sentence_of(sentence, column, self._word) for sentence in self._read())


def _with_attributes(example: Example, sentence: AttributeSentence) -> Example:
    for doc in (example.predicted, example.reference):
        doc.user_data[KEY] = sentence.attributes
    return example


def _given(path: Path | None) -> Path:
    if path is None:
        raise ConfigError(
            "A corpus reader has no path. Give the file on the command line with --paths.train FILE or "
            "--paths.dev FILE, or under [paths] in the config."
        )
    return Path(path)
