"""``crfseq word-classes``: learn classes of words from raw text, for the attributes `spacy_crfseq.WordClasses.v1`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...cli import options
from ...cli.app import command
from ...corpora.layouts import Asked
from ...corpora.word_classes import sizes_of
from . import ClassSettings, word_classes


@command("word-classes", "Raw text", "cluster", "brown")
def word_classes_cli(
    raw: Annotated[list[Path], typer.Argument(metavar="RAW", help=f"{options.TEXTS_FILE}; also .gz")],
    output: Annotated[Path, options.output("File for the classes: path, word and count, tab-separated")],
    sizes: Annotated[str, typer.Option(help="Comma-separated numbers of classes, such as 100,320,1000")] = "500",
    min_count: Annotated[int, typer.Option(min=1, help="Least number of times that a word with a class occurs")] = 5,
    max_words: Annotated[int, typer.Option(min=1, help="Most words with a class; the most frequent ones")] = 1_000_000,
    passes: Annotated[
        int, typer.Option(min=1, help="Most times to look at each word, for each number of classes")
    ] = 20,
    coverage: Annotated[
        list[Path] | None, typer.Option(help="Text to show the coverage of, too; repeat it for several")
    ] = None,
    lang: options.Lang = "en",
    format: options.TextFormat = None,
    columns: options.Columns = None,
    encoding: options.Encoding = None,
    skip_invalid: options.SkipInvalid = False,
    n_threads: Annotated[int, typer.Option(min=0, help="Threads; 0 is one for each core")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Continue a run that was stopped or killed")] = False,
    force: options.Force = False,
    code: options.Code = None,
) -> None:
    """Learn classes of words from raw text: words that occur in similar contexts.

    Words are moved between classes as long as a bigram model of classes fits the text better. Then the classes are
    merged two by two into a binary tree, whose paths are written: a prefix of a path is a coarser class. Models that
    know the classes of words do better on words that the training corpus lacks; give them the output as the path of
    spacy_crfseq.WordClasses.v1. Take text of the same kind as the texts to annotate, the more the better, and the
    training corpus.

    With several --sizes, the output has the most classes, and files such as FILE-100.tsv in its folder have fewer, each
    improved on its own. The memory grows with the number of different pairs of words, not with the length of the text.
    Results do not depend on the number of threads. Ctrl-C keeps the state; --resume continues.

    Example:
      python -m spacy crfseq word-classes news/ train.conll -o classes.tsv
      python -m spacy crfseq word-classes news/ --sizes 100,320,1000 \\
          --coverage dev.conll --output classes.tsv
    """
    settings = ClassSettings(sizes_of(sizes), min_count, max_words, passes, n_threads)
    layout = Asked(format, columns, encoding=encoding, skip_invalid=skip_invalid)
    word_classes(raw, output, settings, coverage=coverage or (), lang=lang, layout=layout, resume=resume, force=force)
