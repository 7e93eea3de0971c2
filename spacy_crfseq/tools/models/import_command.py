"""``crfseq import-model``: a pipeline from a trained model of CRFsuite or Wapiti."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...cli import options
from ...cli.app import command
from ...cli.console import printer
from ...corpora.outputs import check_output_pipeline
from ...corpora.saved_models import read_saved_model
from ...errors import ConfigError
from ...files import replace_folder
from ...schemes import MODEL_SCHEMES
from .settings import AS_TAGGER, ImportSettings

if TYPE_CHECKING:
    from spacy.language import Language


def import_model(
    source: Path,
    output: Path,
    settings: ImportSettings = AS_TAGGER,
    *,
    nlp: Language | None = None,
    encoding: str = "utf8",
    force: bool = False,
) -> str:
    """Save a pipeline with the predictions of a model; return a description of it.

    settings (ImportSettings): What the labels annotate, and where attributes or columns come from.
    nlp (Language | None): A pipeline without components, to which the model is added; None for a blank one of English.
    encoding (str): Of the model.
    force (bool): Replace a pipeline that is there.
    RAISES CrfError: If the file is no such model or cannot be read, or a function does not fit it.
    """
    import spacy

    from ...pipeline.model_card import fill_card
    from .imported import import_pipeline

    check_output_pipeline(output, source, force=force)
    model = None if source.is_dir() else read_saved_model(source, encoding)
    if model is None:
        raise ConfigError(f"{source} is no trained model of CRFsuite or Wapiti.")
    nlp = spacy.blank("en") if nlp is None else nlp
    said = import_pipeline(nlp, model, settings)
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
    import spacy

    pattern = {"@tokenizers": "spacy_crfseq.RegexTokenizer.v1", "pattern": tokens, "between": "nothing"}
    said = import_model(
        source,
        output,
        ImportSettings(labels, features, columns.split(",") if columns else (), numbers, scheme),
        nlp=spacy.blank(lang, config={"nlp": {"tokenizer": pattern}} if tokens else {}),
        encoding=encoding,
        force=force,
    )
    printer().good(f"Imported {said}: {output}")
