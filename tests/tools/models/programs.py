"""Sequences and attributes of other programs' models, and pipelines that models become."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import spacy
from spacy.language import Language
from spacy.tokens import Doc

from spacy_crfseq import registry
from spacy_crfseq.corpora.saved_models import NamedWeights, SavedModel
from spacy_crfseq.tools.models.exported import exported_model, write_exported
from spacy_crfseq.tools.models.imported import import_model, settings_for
from tests.pipeline.helpers import examples, pipe_of

WORDS = ["Ada", "saw", "the", "Élan", "of", "Oslo", "42", "x"]
LABELS = ["O", "B-X", "I-X"]
PATTERNS = 'u:w=%x[0,0]\nu:bag=%X[-1,0]\nu:bag=%X[1,0]\n*:t=%x[0,1]/%x[-1,1]\nu:end=%m[0,0,".?.?$"]\nu\nb\n'
"""Patterns of Wapiti that two columns, word and tag, suffice for."""

WAPITI = """\
#mdl#2#7
#rdr#3/1/0
1:b,
11:u:w=%x[0,0],
12:*:p=%X[-1,1],
#qrk#2
1:A,
2:Ü,
#qrk#4
1:b,
7:u:w=x,y,
6:u:w=é,
6:*:p=dt,
0=0x1p-1
3=-0x1.8p+0
4=0x1p+0
7=7.552876e-02
8=10
12=-0x1p+0
13=0
"""
"""A model in Wapiti's format; anystyle's build of Wapiti writes decimal numbers."""


def attributes(sentence: Sequence[Any], i: int) -> dict[str, Any]:
    """Every kind of value: text, truth values, numbers, lists, dictionaries, and an attribute that occurs twice."""
    word = str(sentence[i])
    around = {"word": str(sentence[i - 1]), "length": len(word) / 10} if i else {}
    return {
        "bias": 1, "word": word, "title": word.istitle(), "zero": 0.0, "none": False, "length": len(word) / 4, "two": 2,
        "before": around, "parts": [word[:1], word[-1:]], "before:word": word == "x", "minus": -0.5, "word:x": True,
    }  # fmt: skip


@registry.features("tests.imported.v1")
def create_attributes() -> Any:
    return attributes


@registry.features("tests.columns.v1")
def create_columns() -> Any:
    return lambda sentence, i: [sentence[i].text, f"{len(sentence[i])}É"]


def sequences(rng: Any, number: int) -> list[list[str]]:
    return [rng.choice(WORDS, rng.integers(1, 6)).tolist() for _ in range(number)]


def imported(model: SavedModel, labels: str = "tag", function: str = "tests.imported.v1") -> tuple[Language, Any]:
    nlp = spacy.blank("xx")
    return nlp, import_model(nlp, model, labels, settings_for(model, function))


def as_dict(table: NamedWeights) -> dict[tuple[str, int], float]:
    cells = zip(table.rows.tolist(), table.columns.tolist(), strict=True)
    return {(table.names[row], column): value for (row, column), value in zip(cells, table.values, strict=True)}


def docs_of(nlp: Language, factory: str) -> list[Doc]:
    return [example.predicted for example in examples(nlp, factory)]


def exported(nlp: Language, path: Path, factory: str, docs: list[Doc] | None = None) -> Any:
    """Write the last component to a file, and return what was written."""
    result = docs_of(nlp, factory) if docs is None else docs
    model = exported_model(pipe_of(nlp), result, wapiti=".wapiti" in path.suffixes)
    assert write_exported(path, model)[0] == path
    return model
