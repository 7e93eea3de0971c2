"""Readers and writers of annotated corpora: plain Python, no spaCy."""

from ._lines import OnError, Sentence, check_file, read_lines
from .columns import check_columns, check_scheme, parse_columns, read_columns, sentence_lines, write_columns
from .conllu import UPOS, parse_conllu, read_conllu
from .guess import CUSTOM, guess
from .presets import PRESETS, Preset, get_preset, read_preset

__all__ = [
    "CUSTOM",
    "PRESETS",
    "UPOS",
    "OnError",
    "Preset",
    "Sentence",
    "check_columns",
    "check_file",
    "check_scheme",
    "get_preset",
    "guess",
    "parse_columns",
    "parse_conllu",
    "read_columns",
    "read_conllu",
    "read_lines",
    "read_preset",
    "sentence_lines",
    "write_columns",
]
