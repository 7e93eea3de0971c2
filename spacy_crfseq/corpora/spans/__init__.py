"""Annotated spans in files: exports of annotation tools, answers of models, data sets.  Each text is one `Sentence`.

Each format is a function from a record, or from a file, to an `Annotated` (`json_formats.py`, `brat.py`,
`inception.py`, `tables.py`); `placing.py` puts its spans on tokens, the same way for all of them, and
`Notes` collects what is lost.
"""

from .reading import FORMATS, Tokenize, read_annotations, without_scores
from .records import DOUBTFUL, INCORRECT, Notes
from .rules import SpanRules

__all__ = ["DOUBTFUL", "FORMATS", "INCORRECT", "Notes", "SpanRules", "Tokenize", "read_annotations", "without_scores"]
