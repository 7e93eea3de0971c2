"""Annotated files to score pipelines on: with the columns and in the units that the pipelines read."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example

from ..corpora import DOCBIN, TOKEN_COLUMNS, Preset, layouts
from ..corpora.paths import resolve
from ..corpora.tags import SHOWN
from ..errors import CrfError, DataError, first_of
from .corpus_reader import CorpusReader
from .doc_builder import SPANS, CorpusSettings, bare
from .texts import chunks_key, load_docs, missing_columns, predicted_labels, unit_of


class GoldFile(NamedTuple):
    """The documents of an annotated file.

    columns (tuple[str, ...]): What it annotates: `TOKEN_COLUMNS` and `SPAN_COLUMNS`.
    given (tuple[str, ...]): Columns of the predicted documents in addition to the words.
    n_unusable (int): Annotated spans that do not match the tokens, which count as not annotated.
    """

    examples: list[Example]
    columns: tuple[str, ...]
    given: tuple[str, ...]
    n_unusable: int = 0


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
    key, columns, n_unusable = chunks_key(nlp), layouts.file_columns(layout), 0
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
        reader = CorpusReader(CorpusSettings(path, layout, tuple(seen), unit, key, "conlleval"))
        examples, n_unusable = list(reader.stream(nlp)), reader.n_unusable
    if not examples:
        raise DataError(f"{path} holds no documents.")
    if _learned_in_refit(nlp, path):
        warnings.warn(
            f"{path}: the model learned from these texts (fit --refit), so scores and probabilities are too good.",
            stacklevel=3,
        )
    for column, labels in predicted_labels(nlp).items():
        there = {label for example in examples for label in _labels_in(example.reference, column, key)}
        if column in columns and there and labels.isdisjoint(there):
            file, model = (", ".join(first_of(sorted(names), SHOWN)) for names in (there, labels))
            both = f"the file has {file}, the model {model}"
            warnings.warn(
                f"{path}: no label of {column} is one of the model: {both}. Give them one name.", stacklevel=3
            )
    return GoldFile(examples, columns, tuple(seen), n_unusable)


def _learned_in_refit(nlp: Language, path: Path) -> bool:
    """Whether a pipeline was trained on files of its dev corpus, too, some of which are those of a path."""
    if not nlp.meta.get("refit"):
        return False
    dev = layouts.corpus_block(nlp.config.interpolate(), "dev_corpus").get("path")
    try:
        return not {file.resolve() for file in resolve(path)}.isdisjoint(file.resolve() for file in resolve(str(dev)))
    except CrfError:  # the dev corpus is on another machine
        return False


def _labels_in(doc: Doc, column: str, key: str) -> Iterable[str]:
    if column in SPANS:
        spans = doc.ents if column == "ent" else doc.spans.get(key, ())
        return (span.label_ for span in spans)
    return filter(None, (token.tag_ for token in doc)) if column == "tag" else ()


def holds(doc: Any, column: str, key: str) -> bool:
    """Whether a Doc has the annotation of a column; chunks under their key of doc.spans."""
    attribute = "ENT_IOB" if column == "ent" else column.upper()
    return key in doc.spans if column == "chunk" else bool(doc.has_annotation(attribute))
