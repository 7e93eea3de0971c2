"""Parquet and Arrow files, as `datasets` of Hugging Face writes them: each row is a record, as a line of JSON is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...errors import FormatError
from .json_formats import read_values
from .records import Item
from .tagged import TagColumns, names_of

FEATURES = b"huggingface"
"""Key of a schema's description of the data set."""
INSTALL = "Parquet and Arrow are read with pyarrow: run pip install 'spacy-crfseq[formats]'."


def read_table(path: Path, encoding: str) -> Iterator[Item]:
    """Yield the annotated texts of a Parquet or Arrow file."""
    del encoding  # the format has one
    try:
        import pyarrow
        from pyarrow import ipc, parquet
    except ImportError:
        yield FormatError(path, 0, INSTALL)
        return

    try:
        if path.suffix == ".parquet":
            file: Any = parquet.ParquetFile(path)
            schema, batches = file.schema_arrow, file.iter_batches()
        else:
            mapped = pyarrow.memory_map(str(path))
            try:
                opened: Any = ipc.open_stream(mapped)
                batches = iter(opened)
            except pyarrow.ArrowInvalid:
                opened = ipc.open_file(mapped)
                batches = (opened.get_batch(i) for i in range(opened.num_record_batches))
            schema = opened.schema
        described = (schema.metadata or {}).get(FEATURES, b"{}")
        columns = TagColumns(path, names_of(json.loads(described)))
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        yield FormatError(path, 0, f"this is no Parquet or Arrow file, or it is damaged ({error}).")
        return
    yield from read_values(path, _rows(path, batches), columns)


def _rows(path: Path, batches: Any) -> Iterator[tuple[int, Any] | FormatError]:
    """Yield the rows, by their numbers from 1."""
    from pyarrow import ArrowException

    number = 0
    try:
        for batch in batches:
            batch.validate(full=True)  # else damaged offsets are followed out of the file's memory
            for row in batch.to_pylist():
                number += 1
                yield number, {key: value for key, value in row.items() if value is not None}
    except (ArrowException, OSError, ValueError) as error:
        yield FormatError(path, number + 1, f"the file is damaged here ({error}).", ends=True)
