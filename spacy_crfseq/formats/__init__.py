"""Readers and writers of annotated corpora: plain Python, no spaCy."""

from ._lines import OnError, Sentence, check_file, read_lines
from .columns import check_columns, check_scheme, read_columns, write_columns
from .conllu import UPOS, read_conllu
from .crfsuite import AttributeSentence, read_crfsuite, sentence_of
from .guess import CUSTOM, guess
from .presets import PRESETS, Preset, get_preset, read_preset
from .template_files import Macro, TemplateLine, format_template_line, parse_template_lines, read_template_file

__all__ = [
    "CUSTOM",
    "PRESETS",
    "UPOS",
    "AttributeSentence",
    "Macro",
    "OnError",
    "Preset",
    "Sentence",
    "TemplateLine",
    "check_columns",
    "check_file",
    "check_scheme",
    "format_template_line",
    "get_preset",
    "guess",
    "parse_template_lines",
    "read_columns",
    "read_conllu",
    "read_crfsuite",
    "read_lines",
    "read_preset",
    "read_template_file",
    "sentence_of",
    "write_columns",
]
