"""``crfseq init-config``: write a complete, commented config that is ready to train."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ...cli import options
from ...cli.app import command
from ...cli.console import printer
from ...corpora import layouts
from ...corpora.layouts import Asked
from ...corpora.outputs import STDOUT
from . import GOALS, Wanted, left_out, make_config


@command("init-config", "Begin", "init", "new")
def init_config_cli(
    output: Annotated[Path, typer.Argument(metavar="FILE", help="Config to write, or - for stdout", allow_dash=True)],
    task: Annotated[
        str | None,
        typer.Option(
            "--task",
            "-t",
            help="ner, chunker, tagger, several separated by commas, or all",
            show_default="the usual one for the layout",
        ),
    ] = None,
    lang: Annotated[
        str | None, typer.Option("--lang", "-l", help="Language code", show_default="guessed from the training file")
    ] = None,
    format: options.GoldFormat = None,
    columns: options.Columns = None,
    scheme: options.Scheme = None,
    encoding: options.Encoding = None,
    rename: options.Rename = None,
    outside: options.Outside = None,
    min_score: options.MinScore = None,
    match: options.Match = None,
    alternatives: options.Alternatives = None,
    skip_invalid: options.SkipInvalid = False,
    goal: Annotated[
        str | None, typer.Option("--goal", "-g", help=f"Training goal: {', '.join(GOALS)}", show_default="fast")
    ] = None,
    train: Annotated[
        Path | None, typer.Option(help="Training file, for the config and to guess the layout from")
    ] = None,
    dev: Annotated[Path | None, typer.Option(help="Development file, for the config")] = None,
    raw: Annotated[
        list[Path] | None,
        typer.Option(help="Raw text to learn word classes from, next to the config; repeat it for several"),
    ] = None,
    vectors: Annotated[
        str | None,
        typer.Option(help="Word vectors to learn word classes from: spaCy pipeline, file or package", metavar="WHAT"),
    ] = None,
    lists: Annotated[
        Path | None, typer.Option(help="Folder of lists of names or phrases, NAME.txt with one on each line")
    ] = None,
    force: options.Force = False,
    code: options.Code = None,
) -> None:
    """Write a config that is ready for 'crfseq fit' or 'spacy train'.

    Run interactively, it prompts for anything you omit: the files first, from which it proposes the rest.

    Goals: fast is AdaGrad, a few epochs. accurate averages three runs of it, chooses the spans with the highest
    expected F1, and, for entities, reads the labels of a word elsewhere in the document, or in 25 sentences if the
    training file marks no documents (-DOCSTART-); training takes two to four times as long. Both use word classes if
    the package spacy-lookups-data is installed: of the language (en, de, es) or, for entities in other languages of
    Latin letters, German and Spanish ones, because most names are the same; for English tags also the parts of speech
    that a word can have; and for entities the lists of names of the package Faker. small is OWL-QN with an L1
    penalty, which leaves most weights zero, for 'crfseq prune' to remove.

    --raw learns word classes from your text and the training file, once for each text, and writes them next to the
    config; they join those of the package. --vectors learns them from word vectors that somebody has trained, in
    the same way: of a spaCy pipeline with vectors, a file or a package, see 'vector-classes --help'. --lists reads
    phrases of yours, such as names of people or products.

    If labels in a training file .spacy have probabilities, as those of 'aggregate', the loss CrossEntropy learns these.

    Score on the test part with both packages, CPU seconds of 'fit', megabytes:
                         fast             accurate
      CoNLL-2003 en F1   88.04   7 s  8   90.61  34 s 12
      CoNLL-2002 es F1   82.34   9 s  8   83.37  28 s 12
      CoNLL-2000 F1      94.24   5 s 10   94.60  23 s 10
      EWT XPOS accuracy  95.35   6 s  9   95.57  22 s 10

    Example:
      python -m spacy crfseq init-config ner.cfg --task ner --goal fast \\
          --train train.conll --dev dev.conll --raw news/
      python -m spacy crfseq init-config - --task all --format conll2003 \\
          --goal accurate
    """
    asked = Asked(format, columns, scheme, encoding, rename, outside, min_score, match, alternatives, skip_invalid)
    wanted = Wanted(task, lang, asked, goal, train, dev)
    settings, text = make_config(output, wanted, raw=raw or (), vectors=vectors, lists=lists, force=force)
    if str(output) == STDOUT:
        print(text, end="")
        return
    if lang is None and train is not None and not sys.stdin.isatty():
        printer().info(f"The language seems to be {settings.lang!r}. If it is another one, give --lang CODE.")
    read_as = layouts.described(settings.layout)
    printer().good(f"Saved {output}: {', '.join(settings.tasks)}, {settings.lang}, {settings.goal}, {read_as}")
    for advice in left_out(settings):
        printer().info(advice)
    for line in text.splitlines():
        if line.startswith("#   python"):
            print(f"  {line[4:]}")
    if train is not None and dev is None and " DEV" in text:
        made = f"convert {train} FILE --split 80,20{'' if settings.lang == 'en' else f' --lang {settings.lang}'}"
        printer().info(f"DEV is a file of development data. Without one, {made} makes two.")
