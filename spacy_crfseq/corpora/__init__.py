"""Texts and annotated corpora in files: plain Python, no spaCy."""

from .columns import SPAN_COLUMNS, check_columns, check_scheme, sentence_lines, write_columns
from .conllu import UPOS
from .guessing import guess
from .layouts import CRFSUITE, CUSTOM, DOCBIN, PRESETS, TOKEN_COLUMNS, Preset, get_preset, read
from .lines import OnError, Sentence, check_file, read_lines

__all__ = [
    "CRFSUITE", "CUSTOM", "DOCBIN", "PRESETS", "SPAN_COLUMNS", "TOKEN_COLUMNS", "UPOS", "OnError", "Preset", "Sentence",
    "check_columns", "check_file", "check_scheme", "get_preset", "guess", "read", "read_lines", "sentence_lines",
    "write_columns",
]  # fmt: skip
