"""``crfseq propose-features``: features whose labels a person may know, for the loss GeneralizedExpectation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...cli import options
from ...cli.app import command
from ...cli.console import print_json, printer, table
from ...corpora.layouts import Asked
from ...corpora.outputs import check_output_file
from ...errors import count_of
from ...files import write_text
from .proposals import ProposalSettings, as_file, propose_features


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
        typer.Option(
            "--template", "-t", help='Template of features, such as "SHAPE" or "LOWER[-1..1]"', show_default="LOWER"
        ),
    ] = None,
    number: Annotated[int, options.number("Features for each label")] = 6,
    min_count: Annotated[
        int, typer.Option(min=1, help="Tokens with a feature, in the labelled and in all other texts")
    ] = 3,
    format: options.GoldFormat = None,
    columns: options.Columns = None,
    scheme: options.Scheme = None,
    encoding: options.Encoding = None,
    skip_invalid: options.SkipInvalid = False,
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

    Example:
      python -m spacy crfseq propose-features config.cfg train.conll \\
          -p crf_ner --raw news.txt --output features.tsv
      python -m spacy crfseq propose-features training/model-best train.conll \\
          -p crf_ner -t LOWER -t SHAPE -n 4
    """
    check_output_file(output, labelled, force=force)
    layout = Asked(format, columns, scheme, encoding, skip_invalid=skip_invalid)
    proposals = propose_features(
        model, labelled, raw or (), component=component,
        settings=ProposalSettings(templates or ("LOWER",), number, min_count),
        layout=layout, raw_layout=Asked(raw_format, skip_invalid=skip_invalid),
    )  # fmt: skip
    if output is not None:
        write_text(output, as_file(proposals))
    if as_json:
        print_json([proposal._asdict() for proposal in proposals])
        return
    rows = [
        (proposal.label, proposal.feature, f"{proposal.share:.0%}", f"{proposal.labelled:,}", f"{proposal.raw:,}")
        for proposal in proposals
    ]
    print(table(rows, header=("Label", "Feature", "Share", "Labelled", "Raw"), aligns=("l", "l", "r", "r", "r")))
    if output is not None:
        printer().good(f"Saved {count_of(len(proposals), 'feature')} to {output}")
