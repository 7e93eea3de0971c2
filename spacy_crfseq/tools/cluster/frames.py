"""Frames of texts to frames of annotation: for dask.dataframe, dask.bag and Spark, which bring the workers.

annotate = FrameAnnotator("model-best", keep=["id"])
frame.map_partitions(annotate, meta=annotate(frame._meta))                   # a dask.dataframe
frame.mapInPandas(annotate.each, schema=f"id long, {annotate.schema}")       # a DataFrame of Spark
bag.map_partitions(annotate.entries)                                         # a dask.bag of strings
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import ConfigError
from ...files import digest
from ...pipeline.bulk import Settings, tagger_of
from ...pipeline.select import model_folder

if TYPE_CHECKING:
    from pandas import DataFrame


DTYPES = {"string": "str", "long": "int64", "double": "float64"}
"""Types of Spark's schemas in pandas."""


class FrameAnnotator:
    """Annotates frames of pandas: a row of the result is a span, or a token.  It can be pickled.

    Each process loads the model once.  Start workers with one thread each, because threads take turns.

    model: Folder or package of the pipeline; workers must have it, too.
    column: The column of texts; a missing text has no rows.
    keep: Columns to repeat in each row of the result, such as an id; its index is that of the text's row.
    tokens: Columns of tokens that the pipeline sets ("tag", "pos", "morph", "lemma"), for a row per token with
        "token", "start", "end" and these; if empty, rows are spans: "layer" ("ents", or the key in doc.spans),
        "label", "start", "end" (characters of the text) and "span" (its text).
    scores: Add probabilities: the column "score" of spans, "tag_score" of the column "tag".
    RAISES ConfigError: If there is no such pipeline.
    """

    def __init__(
        self, model: str | Path, column: str = "text", *, keep: Sequence[str] = (), tokens: Sequence[str] = (),
        scores: bool = False,
    ) -> None:  # fmt: skip
        folder = model_folder(model)
        self._settings = Settings(str(folder.absolute() if Path(model).is_dir() else model), "jsonl", scores)
        self._key = f"{folder} {digest(folder)} {scores}"
        self._column, self._keep, self._tokens = column, list(keep), list(tokens)
        places = {"start": "long", "end": "long"}
        if tokens:
            self._types = {"token": "string", **places, **dict.fromkeys(tokens, "string")}
        else:
            self._types = {"layer": "string", "label": "string", **places, "span": "string"}
        if scores:
            self._types |= dict.fromkeys([f"{name}_score" for name in tokens] or ["score"], "double")

    @property
    def schema(self) -> str:
        """The columns of the result after those that are kept, as Spark writes schemas."""
        return ", ".join(f"`{name}` {kind}" for name, kind in self._types.items())

    def __call__(self, frame: DataFrame) -> DataFrame:
        """Return the annotation of a frame; of an empty one, an empty one with its columns and types.

        RAISES ConfigError: If a column is missing, or the pipeline does not set it.
        """
        import pandas as pd

        for name in (self._column, *self._keep):
            if name not in frame.columns:
                raise ConfigError(f"The frame has no column {name!r} (it has {', '.join(map(str, frame.columns))}).")
        texts = frame[self._column]
        there = [i for i, text in enumerate(texts) if isinstance(text, str)]
        rows, places = list[dict[str, Any]](), list[int]()
        for i, entry in zip(there, self.entries([texts.iloc[i] for i in there]), strict=True):
            new_rows = self._rows(entry)
            rows += new_rows
            places += [i] * len(new_rows)
        kept = frame[self._keep].iloc[places]
        columns = {name: [row.get(name) for row in rows] for name in self._types}
        dtypes = {name: DTYPES[kind] for name, kind in self._types.items()}
        return pd.concat([kept, pd.DataFrame(columns, kept.index).astype(dtypes)], axis=1)

    def each(self, frames: Iterable[DataFrame]) -> Iterator[DataFrame]:
        """Annotate one frame after another, as Spark's mapInPandas asks for."""
        return map(self, frames)

    def entries(self, texts: Iterable[str]) -> list[dict[str, Any]]:
        """Return the annotation of texts in the form of Doc.to_json."""
        texts = list(texts)
        if not texts:
            return []
        with tagger_of(self._settings, self._key) as tagger:
            return tagger.entries(texts)

    def _rows(self, entry: dict[str, Any]) -> list[dict[str, Any]]:
        text, tokens = entry["text"], entry["tokens"]
        if self._tokens:
            if tokens and (missing := [name for name in self._tokens if name not in tokens[0]]):
                raise ConfigError(f"tokens: the pipeline does not set {', '.join(missing)}.")
            return [{**token, "token": text[token["start"] : token["end"]]} for token in tokens]
        layers = {"ents": entry.get("ents", []), **entry.get("spans", {})}
        return [
            {**span, "layer": layer, "span": text[span["start"] : span["end"]]}
            for layer, spans in layers.items()
            for span in spans
        ]
