"""``crfseq convert``: convert a corpus to another layout."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...cli import options
from ...cli.app import command
from ...cli.console import printer
from ...corpora import DOCBIN
from ...corpora.layouts import Asked
from ...errors import ConfigError, count_of
from ...pipeline.configs import load_config
from ...schemes import SPAN_SCHEMES
from . import SOURCES, TARGETS, convert, corpus_of, files_of, shares_of, target_layout


@command("convert", "Begin")
def convert_cli(
    source: Annotated[Path, typer.Argument(metavar="INPUT", help=f"Corpus to read{options.PATHS}")],
    target: Annotated[Path, typer.Argument(metavar="OUTPUT", help="File to write")],
    format: Annotated[
        str | None,
        typer.Option(
            "--from",
            "--format",
            "-f",
            help=f"Layout of INPUT: {', '.join(SOURCES)}",
            show_default="by its ending, else its first lines",
            rich_help_panel="Layout of the file",
        ),
    ] = None,
    columns: options.Columns = None,
    scheme: options.Scheme = None,
    encoding: options.Encoding = None,
    rename: options.Rename = None,
    outside: options.Outside = None,
    min_score: options.MinScore = None,
    match: options.Match = None,
    alternatives: options.Alternatives = None,
    skip_invalid: options.SkipInvalid = False,
    labels: Annotated[
        str,
        typer.Option(
            help="What the labels of an attribute file of CRFsuite annotate: tag, chunk or ent",
            rich_help_panel="Layout of the file",
        ),
    ] = "tag",
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            "-t",
            help=f"Layout of OUTPUT: {', '.join(TARGETS)}; or its columns, such as word,tag",
            show_default="by its ending; of .conll, the columns that the input has",
        ),
    ] = None,
    to_scheme: Annotated[str, typer.Option(help=f"Tag scheme of spans in OUTPUT: {', '.join(SPAN_SCHEMES)}")] = "IOB2",
    on_invalid: Annotated[
        str,
        typer.Option(help="Tags that violate the scheme: error, or conlleval to read them as the CoNLL scorer does"),
    ] = "error",
    unit: Annotated[
        str, typer.Option("--unit", "-u", help="What becomes one Doc of a DocBin file: sentence or document")
    ] = "sentence",
    document_start: Annotated[
        str | None,
        typer.Option(
            metavar="REGEX", help="Begin a document at each sentence in whose text this matches, with -DOCSTART-"
        ),
    ] = None,
    lang: options.Lang = "en",
    config: Annotated[
        Path | None,
        typer.Option(help="Config with the reader and the tokenizer of INPUT: XML, exports of annotation tools"),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(metavar="SHARES", help="Write OUTPUT-train, -dev and -test, in shares: 80,10,10"),
    ] = None,
    group: Annotated[str | None, options.group("--split")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of --split")] = 0,
    force: options.Force = False,
    code: options.Code = None,
) -> None:
    """Convert a corpus: columns, CoNLL-U, XML, attribute files, exports of annotation tools, DocBin.

    conll2000 holds word, tag and chunk; conll2002 word, tag and ent; conll2003 word, tag, chunk and ent; iob word and
    ent; jsonl, brat, webanno and parquet, texts with ent, which the rules of --lang tokenize. Give
    --columns for other column files, with "_" for columns to ignore. In xml, the children of an element label its
    words: with a tag for each word, and with spans. --to word,tag writes these columns, as in the training files of
    CRF++ and Wapiti. Columns that the layout of OUTPUT does not have are dropped. Docs from attribute files keep their
    attributes as doc._.crf_attributes. OUTPUT appears only when it is complete.

    --split keeps copies of a text, or marked documents, in one part. With --group, all texts of a source, bank or
    patient are in one: scores on the test part are then those to expect on others.

    --document-start marks documents in a file without marks, by what their first sentences have in common, such as
    place and date of news. In the text of a sentence, spaces are between all words.

    XML is split into tokens as init-config does, or as the corpus of --config, which may be that of a trained pipeline.

    Example:
      python -m spacy crfseq convert train.conll train.spacy \\
          --from conll2003
      python -m spacy crfseq convert train.conll train.iob --from conll2003 \\
          --to iob --to-scheme BILUO
      python -m spacy crfseq convert train.conll train.spacy \\
          --columns word,tag,_,ent
      python -m spacy crfseq convert train.crfsuite train.spacy \\
          --from crfsuite
      python -m spacy crfseq convert annotated.jsonl train.spacy --lang es
      python -m spacy crfseq convert labeled.xml train.txt --to word,tag
      python -m spacy crfseq convert esp.train train.conll --from conll2002 \\
          --document-start '\\d+ \\w+ \\( EFE(COM)? \\)'
      python -m spacy crfseq convert train.conll my.conll --from conll2003 \\
          --to conll2003 --split 80,10,10
    """
    import spacy

    shares = shares_of(split)
    if group is not None and not shares:
        raise ConfigError("--group keeps texts together in parts: give --split SHARES, too.")
    read_by = load_config(config, {}).interpolate() if config else {}
    asked = Asked(format, columns, scheme, encoding, rename, outside, min_score, match, alternatives, skip_invalid)
    corpus = corpus_of(source, asked, labels=labels, unit=unit, on_invalid=on_invalid, config=read_by)
    layout = target_layout(target, to, to_scheme, corpus)  # a model is no corpus, whatever OUTPUT is called
    block = read_by.get("nlp", {})
    tokenizer = {"nlp": {"tokenizer": block["tokenizer"]}} if block.get("tokenizer") else {}
    nlp = spacy.blank(block.get("lang", lang), config=tokenizer)
    count = convert(
        corpus, target, layout, nlp, shares=shares, seed=seed, group=group, document_start=document_start, force=force
    )
    number = count_of(count, "doc" if layout.name == DOCBIN else "sentence")
    printer().good(f"Converted {number}: {', '.join(map(str, files_of(target, shares)))}")
