"""Columns of annotated files: those that a pipeline predicts, and those that it needs as input."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..corpora import TOKEN_COLUMNS, Preset
from ..corpora.layouts import corpus_block

if TYPE_CHECKING:
    from spacy.language import Language

_ASSIGNED = {
    "token.tag": "tag", "token.pos": "pos", "token.morph": "morph", "token.lemma": "lemma",
    "doc.ents": "ent", "doc.spans": "chunk",
}  # fmt: skip


def predicted_columns(nlp: Language) -> set[str]:
    """Return which columns of corpus files a pipeline predicts."""
    from .component import CRFComponent

    columns = set()
    for name, pipe in nlp.pipeline:
        if isinstance(pipe, CRFComponent):
            columns.add(pipe.annotation.column)
        else:
            columns.update(_ASSIGNED[key] for key in nlp.get_pipe_meta(name).assigns if key in _ASSIGNED)
    return columns


def chunks_key(nlp: Language) -> str:
    """Return the key of doc.spans of the pipeline's first chunker."""
    settings = [getattr(pipe, "cfg", None) or {} for _, pipe in nlp.pipeline]
    return str(next((cfg["spans_key"] for cfg in settings if "spans_key" in cfg), "chunks"))


def missing_columns(nlp: Language, layout: Preset) -> list[str]:
    """Return the columns of a file that features of a pipeline read but none of its components sets.

    Those of an XML file are all to be predicted.
    """
    columns = layout.columns if layout.form is None else ()
    predicted = predicted_columns(nlp)
    reads = {column.lower() for _, pipe in nlp.pipeline for column in getattr(pipe, "reads", ())}
    return [name for name in TOKEN_COLUMNS if name in reads and name in columns and name not in predicted]


def unit_of(nlp: Language) -> str:
    """Return what a Doc was in training, by the config of the pipeline: sentence, passage or document.

    A pipeline without features of the whole document reads sentences instead of documents.
    """
    from ..features.protocol import WordAttributes
    from .component import CRFComponent

    block = corpus_block(nlp.config.interpolate(), "train_corpus")
    of_sentences = str(block.get("@readers", "")).startswith("spacy_crfseq.Conll")
    unit = str(block.get("unit", "sentence" if of_sentences else "document"))
    pipes = [pipe for _, pipe in nlp.pipeline if isinstance(pipe, CRFComponent)]
    of_words = all(isinstance(plugin, WordAttributes) for pipe in pipes for plugin in pipe.method.attributes.values())
    return "sentence" if unit == "document" and of_words else unit
