"""``crfseq import-model``: a pipeline from a trained model of CRFsuite or Wapiti."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...cli import options
from ...cli.app import command
from ...cli.console import printer
from ...corpora import layouts
from ...corpora.outputs import check_output_pipeline
from ...corpora.saved_models import read_saved_model
from ...errors import ConfigError
from ...files import replace_folder
from ...schemes import MODEL_SCHEMES


def import_model(
    source: Path,
    output: Path,
    labels: str = "tag",
    features: str | None = None,
    columns: str | None = None,
    numbers: bool = True,
    tokens: str | None = None,
    scheme: str | None = None,
    lang: str = "en",
    encoding: str = "utf8",
    force: bool = False,
) -> str:
    """Save a pipeline with the predictions of a model; return a description of it.

    The settings are those of the command.

    RAISES CrfError: If the file is no such model or cannot be read, or a function does not fit it.
    """
    import spacy

    from ...pipeline.model_card import fill_card
    from .imported import FACTORIES, import_pipeline

    layouts.check_choice("--labels", labels, FACTORIES)
    check_output_pipeline(output, source, force=force)
    model = None if source.is_dir() else read_saved_model(source, encoding)
    if model is None:
        raise ConfigError(f"{source} is no trained model of CRFsuite or Wapiti.")
    pattern = {"@tokenizers": "spacy_crfseq.RegexTokenizer.v1", "pattern": tokens, "between": "nothing"}
    nlp = spacy.blank(lang, config={"nlp": {"tokenizer": pattern}} if tokens else {})
    names = columns.split(",") if columns else ()
    said = import_pipeline(nlp, model, labels, features, names, scheme=scheme, numbers=numbers)
    replace_folder(output, fill_card(nlp).to_disk)
    return said


@command("import-model", "Begin")
def import_model_cli(
    source: Annotated[Path, typer.Argument(metavar="MODEL", help="Model of CRFsuite, or of Wapiti, also packed (.gz)")],
    output: Annotated[Path, typer.Argument(metavar="OUTPUT", help="Folder for the pipeline")],
    labels: Annotated[str, typer.Option(help="What the labels annotate: tag, chunk or ent")] = "tag",
    features: Annotated[
        str | None, typer.Option(help="Registered token function that returns attributes, or columns")
    ] = None,
    columns: Annotated[str | None, typer.Option(help="Of Wapiti: columns of its training file, instead")] = None,
    numbers: Annotated[
        bool, typer.Option(help="Of CRFsuite: allow values other than 0 and 1; without them, tagging is faster")
    ] = True,
    tokens: Annotated[
        str | None,
        typer.Option(help="Regular expression of tokens, all else is left out", show_default="rules of --lang"),
    ] = None,
    scheme: Annotated[
        str | None,
        typer.Option(
            "--scheme",
            "-s",
            help=f"Tag scheme of the labels of ent and chunk: {', '.join(MODEL_SCHEMES)}",
            show_default="by the labels",
        ),
    ] = None,
    lang: options.Lang = "en",
    encoding: Annotated[str, typer.Option(help="Of the model")] = "utf8",
    force: options.Force = False,
    code: options.Code = None,
) -> None:
    """Make a pipeline of a trained model of CRFsuite or Wapiti, with the same labels, scores and predictions.

    It is a crf_tagger; with --labels ent or chunk, a crf_ner or crf_chunker that predicts valid tags only. --features
    names a token function of the registry crf_features in the file --code: for CRFsuite one that returns attributes as
    for python-crfsuite, given a sequence of tokens and a number; for Wapiti one that returns the columns of its
    training file, unless --columns names them. Without a function, the pipeline reads doc._.crf_attributes.

    Example:
      python -m spacy crfseq import-model model.crfsuite pipeline \\
          --features my_project.word2features.v1 --code features.py
      python -m spacy crfseq import-model model.wapiti pipeline --columns word,tag
    """
    said = import_model(
        source,
        output,
        labels=labels,
        features=features,
        columns=columns,
        numbers=numbers,
        tokens=tokens,
        scheme=scheme,
        lang=lang,
        encoding=encoding,
        force=force,
    )
    printer().good(f"Imported {said}: {output}")
