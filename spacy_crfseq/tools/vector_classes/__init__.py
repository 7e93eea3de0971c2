"""``crfseq vector-classes``: classes of words by their vectors, for the attributes `spacy_crfseq.WordClasses.v1`.

Words of similar vectors have the same class.  Turian, Ratinov & Bengio (2010), "Word representations: a simple and
general method for semi-supervised learning", use vectors as they are; Guo, Che, Wang & Liu (2014), "Revisiting
embedding features for simple semi-supervised learning", find that clusters of several sizes are better features.
"""

from __future__ import annotations

import gzip
import sys
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from ...cli.console import printer
from ...corpora.outputs import check_output_file
from ...errors import DataError, count_of
from ...files import replacing
from ...pipeline.word_vectors import read_vectors, vector_files
from ...types import Floats, Ints
from .kmeans import PASSES, kmeans


def vector_classes(
    what: str, output: Path, sizes: Sequence[int], *, n_words: int, seed: int = 0, force: bool = False
) -> None:
    """Cluster the vectors of words, the centres of these clusters, and so on, and write the classes as paths.

    what (str): See `vector_files`.
    sizes (Sequence[int]): Numbers of classes, the largest first.
    n_words (int): The most words with a class.
    RAISES CrfError: If there are no such vectors, fewer than classes, or the output exists without `force`.
    """
    files = vector_files(what)
    inputs = files[0].iterdir() if files[0].is_dir() else files
    check_output_file(output, *inputs, force=force)
    vectors = read_vectors(files, n_words)
    if len(vectors.rows) < sizes[0]:
        raise DataError(f"{what}: {sizes[0]:,} classes of {len(vectors.rows):,} vectors are too many. Lower --sizes.")
    with tqdm(
        total=len(vectors.rows) * PASSES, disable=None, leave=False, file=sys.stderr, unit=" vectors", unit_scale=True
    ) as bar:
        names = paths(vectors.rows, sizes, seed, bar.update)
    lines = sorted((names[row], place) for place, row in enumerate(vectors.places.tolist()))
    opened: Any = gzip.open if output.suffix == ".gz" else open
    with replacing(output) as temporary, opened(temporary, "wt", encoding="utf8", newline="\n") as file:
        file.writelines(f"{path}\t{vectors.words[place]}\t1\n" for path, place in lines)
    printer().good(f"Saved {count_of(len(lines), 'word')} with a class each to {output}")


def widths(sizes: Sequence[int]) -> list[int]:
    """Return the bits of a path that number the classes of each size, the smallest size first."""
    return list(accumulate((size - 1).bit_length() for size in reversed(sizes)))


def paths(rows: Floats, sizes: Sequence[int], seed: int, show: Any = lambda n: None) -> list[str]:
    """Return the path of each row [R]: the number of its class in bits, for each size from the smallest, see `widths`.

    Vectors count by their direction.
    """
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    centres: Floats = rows / np.where(lengths > 0, lengths, 1)
    of_rows: Ints = np.arange(len(rows), dtype=np.int32)
    columns = []
    for size in sizes:
        nearest, centres = kmeans(centres, size, seed, show)
        of_rows = nearest[of_rows]
        columns.append([f"{number:0{(size - 1).bit_length()}b}" for number in of_rows.tolist()])
    return ["".join(bits) for bits in zip(*reversed(columns), strict=True)]
