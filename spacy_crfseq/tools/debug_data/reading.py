"""Reading a corpus as a config reads it: sentence by sentence, with the place of each token, to the end of the file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from spacy import util

from ...corpora import DOCBIN, OnError, Preset, Sentence, layouts
from ...corpora.paths import corpus_files
from ...corpora.spans import Notes
from ...errors import DataError, FormatError
from ...pipeline.configs import load_config
from ...pipeline.texts import load_docs
from ...schemes import encode
from .corpus import CANDIDATES, Unreadable

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc

COLUMN_OF = {"crf_tagger": "tag", "crf_chunker": "chunk", "crf_ner": "ent"}
"""The column that components of a factory learn by default."""


class CorpusReading(NamedTuple):
    """How a config reads a corpus: layout, whether invalid tags are errors, columns to learn, key of the chunks.

    nlp: The language and the tokenizer of the config.
    parts: What its readers take of the files for train and dev.
    is_cut: Whether it cuts dev from the training file.
    weights: The weight that each of the two readers gives to all texts.
    dev_layout: The layout that its reader for dev reads, None if it is not known.
    dev: The files that it names for dev, None if there are none.
    """

    layout: Preset | None = None
    strict: bool = False
    labels: tuple[str, ...] = ()
    key: str = "chunks"
    nlp: Mapping[str, Any] = {"lang": "xx"}
    parts: tuple[str, str] = ("all", "all")
    is_cut: bool = False
    weights: tuple[float, float] = (1.0, 1.0)
    dev_layout: Preset | None = None
    dev: Path | None = None

    def blank(self) -> Language:
        """Return the language and the tokenizer of the config as a pipeline."""
        return util.load_model_from_config({"nlp": {**self.nlp, "pipeline": []}}, auto_fill=True)


def reading_of(config_path: Path, overrides: dict[str, Any]) -> CorpusReading:
    """Return how a config reads its corpora.  Raises CrfError if it cannot be read itself."""
    config = load_config(config_path, overrides).interpolate()
    block, dev_block = layouts.corpus_block(config, "train_corpus"), layouts.corpus_block(config, "dev_corpus")
    labels, key = [], "chunks"
    for name in config.get("nlp", {}).get("pipeline", []):
        settings = config.get("components", {}).get(name, {})
        factory = settings.get("factory")
        if factory in COLUMN_OF:
            labels.append(settings.get("attr") or COLUMN_OF[factory])
        if factory == "crf_chunker":
            key = settings.get("spans_key", key)
    strict = block.get("on_invalid", "error") == "error" and "spacy_crfseq.ConllReader" in block.get("@readers", "")
    nlp = {name: value for name, value in config.get("nlp", {}).items() if name in ("lang", "tokenizer")}
    parts = str(block.get("part", "all")), str(dev_block.get("part", "all"))
    is_cut = parts == ("train", "dev") and block.get("path") == dev_block.get("path")
    weights = float(block.get("weight", 1)), float(dev_block.get("weight", 1))
    layout, dev = layouts.reader_layout(block), layouts.reader_layout(dev_block)
    path = None if is_cut or not dev_block.get("path") else Path(dev_block["path"])
    return CorpusReading(layout, strict, tuple(labels), key, nlp, parts, is_cut, weights, dev, path)


def sentences_of(
    path: Path, layout: Preset, reading: CorpusReading, errors: Unreadable, notes: dict[Path, Notes] | None = None
) -> Iterator[Sentence]:
    """Yield the sentences of the files of a path, and collect their errors and, by file, notes on what is odd.

    RAISES CrfError: If there is no such file.
    """

    documents = last = 0
    notes = {} if notes is None else notes
    for file in corpus_files(path):
        notes[file] = Notes()
        try:
            for sentence in _sentences_of(file, layout, reading, errors.note, notes[file]):
                last = documents + sentence.document
                yield sentence._replace(file=str(file), document=last)
        except FormatError as error:  # of the file as a whole
            errors.note(error)
        documents = last + 1


def _sentences_of(
    path: Path, layout: Preset, reading: CorpusReading, note: OnError, notes: Notes
) -> Iterator[Sentence]:
    """Yield the sentences of a file."""
    if layout.name == DOCBIN:
        return _of_docs(path, reading.key, note)
    if layout.spans is not None:
        from ...pipeline.corpus_reader import tokenizer_of

        spans = layouts.read_spans(path, layout, tokenizer_of(reading.blank()), notes, note)
        return map(_with_candidates, spans)
    return _of_columns(path, layout, note)


def _with_candidates(sentence: Sentence) -> Sentence:
    """Return a sentence with a column of the labels that its tokens may have, if there are several."""
    if not sentence.alternatives:
        return sentence
    noted = [""] * len(sentence.words)
    for start, end, labels in sentence.alternatives:
        noted[start:end] = [" ".join(labels)] * (end - start)
    return sentence._replace(columns={**sentence.columns, CANDIDATES: noted})


def place_of(path: Path, layout: Preset, sentence: Sentence, token: int) -> str:
    """Return the place of a token: file and line, or the number of the Doc."""
    between, line = ", doc " if layout.name == DOCBIN else ":", sentence.line_of(token)
    return f"{sentence.file or path}{between}{line}" if line else str(path)


def _of_columns(path: Path, layout: Preset, note: OnError) -> Iterator[Sentence]:
    from spacy.vocab import Vocab

    from ...pipeline.doc_builder import CorpusSettings, DocBuilder

    builder = DocBuilder(Vocab(), CorpusSettings(path, layout))
    for sentence in layouts.read_layout(path, layout, note):
        try:
            builder.check(sentence)
        except FormatError as error:
            note(error)
        else:
            yield sentence


def _of_docs(path: Path, key: str, note: OnError) -> Iterator[Sentence]:
    from spacy.vocab import Vocab

    for number, doc in enumerate(load_docs(path, Vocab(), note), start=1):
        try:
            columns = _columns_of(doc, key)
        except DataError as error:
            note(FormatError(path, 0, f"doc {number}: {error}"))
            continue
        if not len(doc):
            continue
        words = [token.text for token in doc]
        starts = [i for i, token in enumerate(doc) if i == 0 or token.is_sent_start]
        for start, end in zip(starts, [*starts[1:], len(doc)], strict=True):
            cut = {name: values[start:end] for name, values in columns.items()}
            yield Sentence(words[start:end], cut, None, number, number, {}, on_one_line=True)


def _columns_of(doc: Doc, key: str) -> dict[str, list[str]]:
    from ...pipeline.evidence import weight_of

    n = len(doc)

    def tags_of(spans: Any) -> list[str]:
        return encode([(span.start, span.end, span.label_) for span in spans], n, "BILUO")

    return {
        "tag": [token.tag_ for token in doc],
        "pos": [token.pos_ for token in doc],
        "morph": [str(token.morph) for token in doc],
        "chunk": tags_of(doc.spans[key]) if key in doc.spans else [""] * n,
        "ent": ["" if token.ent_iob == 0 else tag for token, tag in zip(doc, tags_of(doc.ents), strict=True)],
        CANDIDATES: _candidates_of(doc),
        "weight": [str(weight_of(doc))] * n,
    }


def _candidates_of(doc: Doc) -> list[str]:
    """Return the labels that each token may have, as any component notes them; an empty string for none."""
    from ...pipeline.evidence import KEY as NOTES
    from ...pipeline.evidence import read_evidence

    labels = [""] * len(doc)
    for component in doc.user_data.get(NOTES, {}):
        noted = read_evidence(doc, component)
        for start, end, names in noted.spans:
            labels[start:end] = [" ".join(names)] * (end - start)
        for token, allowed in noted.allowed.items():
            labels[token] = " ".join(allowed)
    return labels
