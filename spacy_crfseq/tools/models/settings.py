"""The settings of an import, without what they need to run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

FACTORIES = {"tag": "crf_tagger", "ent": "crf_ner", "chunk": "crf_chunker"}
"""The component for what labels annotate."""


class ImportSettings(NamedTuple):
    """Settings of a model of another program in a pipeline.

    labels (str): What its labels annotate, a key of `FACTORIES`.
    features (str | None): Token function, as in `settings_for`.
    columns (Sequence[str]): Names of the columns of a model of Wapiti, instead of a function.
    numbers (bool): Whether attributes of CRFsuite may have values other than 0 and 1.
    scheme (str | None): The scheme of labels of spans; None for the one whose prefixes they have.
    """

    labels: str = "tag"
    features: str | None = None
    columns: Sequence[str] = ()
    numbers: bool = True
    scheme: str | None = None


AS_TAGGER = ImportSettings()
