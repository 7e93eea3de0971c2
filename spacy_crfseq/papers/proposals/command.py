"""``crfseq propose-features``: features whose labels a person may know, for the loss GeneralizedExpectation."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from spacy.util import minibatch
from tqdm import tqdm
from wasabi.tables import table as text_table

from ...cli import options
from ...cli.app import command
from ...cli.console import count_of, printer, reported_errors
from ...cli.judging import gold_tags_of, layout_of, read_file
from ...corpora.layouts import Asked, Format
from ...corpora.outputs import check_output_file
from ...errors import DataError
from ...files import write_text
from ...pipeline.gold_files import read_gold
from ...pipeline.select import load_pipeline, one_crf_of
from ...schemes import split_tag

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc

    from .proposals import Proposal

BATCH = 200
"""Texts read at a time."""


@command("propose-features", "Raw text")
def propose_features_cli(
    model: Annotated[str, typer.Argument(metavar="CONFIG|MODEL", help="Config file, or trained pipeline")],
    labelled: Annotated[Path, typer.Argument(metavar="LABELLED", help="Annotated file")],
    raw: Annotated[
        list[Path] | None, typer.Option("--raw", "-r", help="File of texts without labels; repeat it for several")
    ] = None,
    component: options.OneComponent = None,
    templates: Annotated[
        list[str] | None,
        typer.Option("--template", "-t", help='Template of features, such as "SHAPE" or "LOWER[-1..1]" [LOWER]'),
    ] = None,
    number: Annotated[int, options.number("Features for each label")] = 6,
    min_count: Annotated[
        int, typer.Option(min=1, help="Tokens with a feature, in the labelled and in all other texts")
    ] = 3,
    format_: options.GoldFormat = None,
    columns: options.Columns = None,
    scheme: options.Scheme = None,
    encoding: options.Encoding = None,
    raw_format: Annotated[str | None, typer.Option(help="Layout of the files of --raw")] = None,
    output: Annotated[Path | None, options.output("File of labelled features to write, for you to edit")] = None,
    force: options.Force = False,
    as_json: options.AsJson = False,
    code: options.Code = None,
) -> None:
    """Propose features to label: words that predict a label and occur in texts without labels.

    Lists the features of highest mutual information with a label in the labelled texts: the label that most of its
    tokens have, the share of these tokens, and the number of tokens in labelled and in raw texts. The file of --output
    is read by the loss spacy_crfseq.GeneralizedExpectation.v1. Its shares are a little lower than those found, because
    few labelled tokens are not certain evidence. Edit them: what you know is worth more than what is counted here.

    \b
    Example:
      python -m spacy crfseq propose-features config.cfg train.conll \\
          -p crf_ner --raw news.txt --output features.tsv
      python -m spacy crfseq propose-features training/model-best train.conll \\
          -p crf_ner -t LOWER -t SHAPE -n 4
    """
    said = Asked(format_, columns, scheme, encoding)
    with reported_errors(code=code):
        check_output_file(output, labelled, force=force)
        found = propose_features(
            model, labelled, raw or [], said, raw_format,
            component=component, templates=templates or ["LOWER"], number=number, min_count=min_count,
        )  # fmt: skip
        if output is not None:
            from .proposals import as_file

            write_text(output, as_file(found))
        if as_json:
            print(json.dumps([one._asdict() for one in found], indent=2, ensure_ascii=False))
            return
        rows = [(one.label, one.feature, f"{one.share:.0%}", f"{one.labelled:,}", f"{one.raw:,}") for one in found]
        print(
            text_table(rows, header=("Label", "Feature", "Share", "Labelled", "Raw"), aligns=("l", "l", "r", "r", "r"))
        )
        if output is not None:
            printer().good(f"Saved {count_of(len(found), 'feature')} to {output}")


def propose_features(
    model: str | Path,
    labelled: Path,
    raw: Sequence[Path] = (),
    format_name: Format = None,
    raw_format: Format = None,
    *,
    component: str | None = None,
    templates: Sequence[str] = ("LOWER",),
    number: int = 6,
    min_count: int = 3,
) -> list[Proposal]:
    """Return candidates for labelled features, `number` for each label.

    model (str | Path): A config, or a trained pipeline, whose component the features are for.
    RAISES CrfError: If there is no such component, a file cannot be read, or no feature occurs `min_count` times.
    """
    from .proposals import propose

    nlp = _pipeline(model)
    _, pipe = one_crf_of(nlp, component, str(model), spans_first=True)
    examples = read_gold(nlp, labelled, layout_of(labelled, format_name, nlp)).examples
    tags = [tag for example in examples for tag in gold_tags_of(pipe, example)]
    if not any(tags):
        raise DataError(f"{labelled} holds no labels for the component {pipe.name!r}. Choose another with --component.")
    labels = [tag and (split_tag(tag)[1] or tag) for tag in tags] if pipe.annotation.scheme else tags
    docs = [example.predicted for example in examples]
    texts = _raw_docs(nlp, raw, raw_format)
    found = propose(docs, labels, texts, templates=templates, per_label=number, min_count=min_count)
    if not found:
        raise DataError(f"No feature occurs {min_count} times and predicts a label. Give more text, or --min-count 1.")
    return found


def _pipeline(model: str | Path) -> Language:
    from spacy.util import load_model_from_config

    from ...pipeline.project import load_config

    if not Path(model).is_file():
        return load_pipeline(model)
    return load_model_from_config(load_config(Path(model), {}), auto_fill=True)


def _raw_docs(nlp: Language, files: Sequence[Path], layout: Format) -> Iterator[list[Doc]]:
    texts = chain.from_iterable(read_file(nlp, file, layout) for file in files)
    with tqdm(disable=None if files else True, leave=False, file=sys.stderr, unit=" texts") as bar:
        for batch in minibatch(texts, BATCH):
            yield [text.doc for text in batch]
            bar.update(len(batch))
