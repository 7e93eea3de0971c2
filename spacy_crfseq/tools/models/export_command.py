"""``crfseq export-model``: a model of CRFsuite or Wapiti from a CRF of a pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from spacy.util import minibatch

from ...cli import options
from ...cli.app import command
from ...cli.console import printer
from ...cli.inputs import read_file
from ...corpora.lines import ZIPPED
from ...corpora.outputs import check_output_file
from ...errors import ConfigError, count_of
from ...pipeline.select import load_pipeline, model_folder, one_crf_of, run_between

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc

PROGRAMS = {".crfsuite": False, ".wapiti": True}
"""Whether a model that ends so is one of Wapiti."""


def export_model(
    model: str | Path,
    output: Path,
    component: str | None = None,
    texts: Path | None = None,
    encoding: str = "utf8",
    force: bool = False,
) -> str:
    """Write a CRF of a pipeline as a model of another program; return a description of what was exported.

    texts (Path | None): Texts in which the features occur; None for the corpus that the pipeline was trained on.

    RAISES CrfError: If there is no such component, or the format cannot hold it.
    """
    from .exported import BATCH, exported_model, module_files, write_exported

    model_folder(model)
    ending = Path(output.stem).suffix if output.suffix == ZIPPED else output.suffix
    if ending not in PROGRAMS or (output.suffix == ZIPPED and not PROGRAMS[ending]):
        raise ConfigError(f"{output}: a pipeline becomes a model that ends in .crfsuite, .wapiti or .wapiti.gz.")
    for path in (output, *([] if PROGRAMS[ending] else module_files(output))):
        check_output_file(path, model, force=force)
    nlp = load_pipeline(model)
    name, pipe = one_crf_of(nlp, component, str(model), spans_first=True)
    docs = (doc for batch in minibatch(_texts_of(nlp, texts), BATCH) for doc in run_between(nlp, batch, None, name))
    exported = exported_model(pipe, docs, wapiti=PROGRAMS[ending])
    others = write_exported(output, exported, encoding)[1:]
    for note in exported.notes:
        printer().warn(note)
    attributes = f" (attributes: {', '.join(path.name for path in others)})" if others else ""
    return f"{name} with {count_of(len(exported.model.labels), 'label')}{attributes}"


def _texts_of(nlp: Language, texts: Path | None) -> Iterator[Doc]:
    """Yield the texts of a file, or of the training corpus that the config of a pipeline names, if it is there."""
    from ...pipeline.terms import reader_of

    if texts is not None:
        yield from (text.doc for text in read_file(nlp, texts))
        return
    corpus = nlp.config.interpolate().get("corpora", {}).get("train") or {}
    if corpus.get("path") and Path(str(corpus["path"])).exists():
        yield from (example.predicted for example in reader_of("", "corpora.train", nlp)(nlp))


@command("export-model", "Use")
def export_model_cli(
    model: options.Model,
    output: Annotated[Path, typer.Argument(metavar="OUTPUT", help="Model ending in .crfsuite, .wapiti or .wapiti.gz")],
    component: options.OneComponent = None,
    texts: Annotated[
        Path | None,
        typer.Option(help="Texts in which the features occur", show_default="the corpus that it was trained on"),
    ] = None,
    encoding: Annotated[str, typer.Option(help="Of a model of CRFsuite")] = "utf8",
    force: options.Force = False,
    code: options.Code = None,
) -> None:
    """Write a CRF of a pipeline as a model of CRFsuite or Wapiti, which predicts the same labels there.

    If its features are templates, a model of CRFsuite comes with a Python module without dependencies, whose function
    items(words) returns the attributes. For Wapiti, they must be a template file. Leave tokens out that are white
    space: they are no items. What a format cannot hold is named, with the setting to train with instead.

    Example:
      python -m spacy crfseq export-model training/model-best model.crfsuite \\
          --component crf_ner
    """
    said = export_model(model, output, component=component, texts=texts, encoding=encoding, force=force)
    printer().good(f"Exported {said}: {output}")
