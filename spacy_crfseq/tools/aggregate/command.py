"""``crfseq aggregate``: labels with probabilities from many doubtful sources."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...cli import options
from ...cli.app import command
from ...cli.console import advise, print_json, printer
from ...corpora.layouts import Asked, check_choice
from ...corpora.outputs import check_output_file
from ...corpora.paths import resolve
from ...errors import ConfigError

if TYPE_CHECKING:
    from .sources import SourceRow
    from .texts import Aggregated


@command("aggregate", "Begin", "weak supervision", "sources", "crowd")
def aggregate_cli(
    texts: Annotated[Path, typer.Argument(metavar="TEXTS", help=options.TEXTS_FILE)],
    source: Annotated[
        list[str],
        typer.Option(
            "--source",
            "-s",
            metavar="NAME=SOURCE",
            help="Annotated file over the same texts, pipeline, or patterns; repeat it",
        ),
    ],
    output: Annotated[Path, options.output("File .spacy for the texts with their labels")],
    map_: Annotated[
        list[str] | None, typer.Option("--map", metavar="OLD=NEW", help="New name of a label; repeat it for several")
    ] = None,
    labels: Annotated[
        str | None, typer.Option(help="Labels to learn, separated by commas", show_default="all that a source gives")
    ] = None,
    abstain: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Source that says nothing outside its spans, such as a short list; repeat it"
        ),
    ] = None,
    gold: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Some of the texts with gold labels, to learn from")
    ] = None,
    model: Annotated[str, typer.Option(help="Label model: hmm, dawid-skene, majority")] = "hmm",
    previous: Annotated[
        bool, typer.Option("--previous", help="Of hmm: let what a source says depend on what it said before")
    ] = False,
    weigh: Annotated[bool, typer.Option("--weigh", help="Give doubtful texts a smaller weight in training")] = False,
    component: Annotated[str, typer.Option("--component", "-p", help="Component that is to learn")] = "crf_ner",
    lang: options.Lang = "en",
    format: options.GoldFormat = None,
    columns: options.Columns = None,
    scheme: options.Scheme = None,
    encoding: options.Encoding = None,
    as_json: options.AsJson = False,
    force: options.Force = False,
    code: options.Code = None,
) -> None:
    """Make one set of entity labels, with probabilities, of what many doubtful sources say about the same texts.

    A source is an annotated file with the words of the texts, in any layout, a pipeline, which tags them, or a file
    .jsonl with patterns of an entity ruler, which says nothing outside of its spans, as those of --abstain. The label
    model learns how far to trust each source for each label, from where the sources agree: without gold labels, or with
    some (--gold). The output has the best labels as entities, and notes the probabilities of all others for the loss
    spacy_crfseq.CrossEntropy.v1, by which a component learns them.

    Shown for each source and label, by tokens: votes, their share of all tokens, precision and recall as the model
    estimates them, and conflicts, the share of its votes where another source says something else. With --gold, the
    same against gold labels. Sources that copy each other are named: their errors would count twice.

    Example:
      python -m spacy crfseq aggregate raw.conll -o labels.spacy --source rules=rules.conll \\
          --source model=training/model-best --labels PER,LOC,ORG
    """
    import spacy

    from ...pipeline.texts import write_docs
    from .label_model import KINDS, Aggregation
    from .texts import SourceSettings, aggregate

    resolve(texts)
    check_choice("--model", model, KINDS)
    places = _pairs("--source", source)
    check_output_file(output, texts, *places.values(), *([gold] if gold else []), force=force)
    if output.suffix != ".spacy":
        raise ConfigError(f"{output}: the labels are written as a DocBin. Give a name that ends in .spacy.")
    names = tuple(name.strip() for name in labels.split(",") if name.strip()) if labels else ()
    result = aggregate(
        spacy.blank(lang),
        texts,
        SourceSettings(places, _pairs("--map", map_ or []), names, abstain or ()),
        Aggregation(model, previous),  # type: ignore[arg-type]
        layout=Asked(format, columns, scheme, encoding),
        gold=gold,
        component=component,
        weigh=weigh,
    )
    write_docs(output, result.docs)
    if as_json:
        print_json(rows_of(result))
        return
    message = printer()
    for title, rows in (("estimated", result.rows), ("against gold labels", result.gold_rows)):
        if rows:
            message.divider(title)
            message.table([_cells(row) for row in rows], header=HEADER, aligns=["l", "l", *"rrrrr"])
    for pair in result.copies:
        message.warn(str(pair))
    if not result.model.converged:
        message.warn("The label model has not converged: its estimates may still change.")
    message.good(f"{output}: {len(result.docs):,} texts")
    advise("fit CONFIG --paths.train " + str(output) + " with the loss spacy_crfseq.CrossEntropy.v1")


HEADER = ("Source", "Label", "Votes", "Coverage", "Precision", "Recall", "Conflicts")


def _cells(row: SourceRow) -> list[str]:
    def percent(share: float, interval: tuple[float, float] | None = None) -> str:
        if share != share:
            return "-"
        low, high = interval or (0, 0)
        return f"{100 * share:.1f}" + (f" ({100 * low:.1f}-{100 * high:.1f})" if interval else "")

    return [
        row.source,
        row.label,
        f"{row.votes:,}",
        percent(row.coverage),
        percent(row.precision, row.precision_interval),
        percent(row.recall, row.recall_interval),
        percent(row.conflicts),
    ]


def rows_of(result: Aggregated) -> dict[str, Any]:
    """Return the report as values of JSON, None where a share is not defined."""
    return {
        "estimated": [_defined(row._asdict()) for row in result.rows],
        "gold": [_defined(row._asdict()) for row in result.gold_rows],
        "copies": [pair._asdict() for pair in result.copies],
        "converged": result.model.converged,
    }


def _defined(row: dict[str, Any]) -> dict[str, Any]:
    return {name: None if value != value else value for name, value in row.items()}


def _pairs(option: str, texts: list[str]) -> dict[str, str]:
    """Return the names and the values of an option.

    RAISES ConfigError: If one is not of the form NAME=VALUE, or a name comes twice.
    """
    pairs: dict[str, str] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not (name and sign and value):
            raise ConfigError(f"{option} {text}: give a name, an equals sign and a value, such as {_EXAMPLES[option]}.")
        if name in pairs:
            raise ConfigError(f"{option} {text}: {name!r} is given twice.")
        pairs[name] = value
    return pairs


_EXAMPLES = {"--source": "rules=rules.conll", "--map": "GPE=LOC"}
