"""``crfseq aggregate``: labels with probabilities from many doubtful sources."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...cli import options
from ...cli.app import command
from ...cli.console import advise, print_json, printer
from ...corpora.layouts import Asked
from ...corpora.outputs import check_output_file
from ...corpora.paths import resolve
from ...errors import ConfigError

if TYPE_CHECKING:
    from .source_report import SourceRow
    from .texts import Aggregated


@command("aggregate", "Begin", "weak supervision", "sources", "crowd")
def aggregate_cli(
    texts: Annotated[Path, typer.Argument(metavar="TEXTS", help=options.TEXTS_FILE)],
    source: Annotated[
        list[str],
        typer.Option(
            "--source", "-s", metavar="NAME=SOURCE", help="A source, with its settings after commas; repeat it"
        ),
    ],
    output: Annotated[Path, options.output("File .spacy for the texts with their labels")],
    labels: Annotated[
        str | None, typer.Option(help="Labels to learn, separated by commas", show_default="all that a source gives")
    ] = None,
    gold: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Some of the texts with gold labels, to learn from")
    ] = None,
    label_model: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="hmm, dawid-skene, majority or another function of crf_label_models, and its settings"
        ),
    ] = "hmm",
    weigh: Annotated[bool, typer.Option("--weigh", help="Give doubtful texts a smaller weight in training")] = False,
    min_probability: Annotated[
        float | None,
        typer.Option(
            min=0, max=1, help="Note no probabilities: labels that are less probable are unknown, for any loss"
        ),
    ] = None,
    component: Annotated[str, typer.Option("--component", "-p", help="Component that is to learn")] = "crf_ner",
    lang: options.Lang = "en",
    format: options.GoldFormat = None,
    columns: options.Columns = None,
    scheme: options.Scheme = None,
    encoding: options.Encoding = None,
    skip_invalid: options.SkipInvalid = False,
    as_json: options.AsJson = False,
    force: options.Force = False,
    code: options.Code = None,
) -> None:
    """Make one set of entity labels, with probabilities, of what many doubtful sources say about the same texts.

    A source is an annotated file over the texts, in any layout; a pipeline, which labels them; a file .jsonl with
    patterns of an entity ruler; a file .txt, a list with one phrase per line, whose label is its name; or @ and the
    name of a function of the registry crf_sources, such as @spacy_crfseq.NameLists.v1. The label model learns how far
    to trust each source for each label, from where the sources agree: without gold labels, or with some (--gold). The
    output has the best labels as entities, the spans of each source in doc.spans[NAME], and notes the probabilities of
    all labels for the loss spacy_crfseq.CrossEntropy.v1, by which a component learns them.

    Settings of a source follow after commas, and may be lists:
      map=person:PER,city:LOC  new names of labels; x:O is no span to learn, "x:" means that nothing is known there
      trim=the,'s              words that spans do not begin or end with, in any case
      outside=unknown          it says nothing outside of its spans, as patterns, lists and functions do by default
      outside=unsure           it misses many spans: it says nothing of words written like those that it labels
      labels=PER,LOC           labels that it could have given; it says nothing of those that it does not have
      match=all, min_score=.6  of spans without positions; spans with a lower score are unknown, in a CRF all tokens
      texts=some               it has only some of the texts, or another order
      spans=KEY                of a file .spacy: spans in doc.spans[KEY] instead of entities
      format, scheme, encoding of a file, if it is not that of the texts

    Label models: hmm is a hidden Markov model, in which each source has its own errors; hmm,previous=true lets what a
    source says depend on what it said before. dawid-skene sees single tokens; for majority, all sources count the same.

    Shown for each source and label, by tokens: votes, their share of all tokens, precision and recall as the model
    estimates them, and conflicts, the share of its votes where another source says something else. Where hardly any
    other source speaks of the same tokens, precision and recall are assumed. With --gold, the same against gold labels.
    Sources that copy each other are named: their errors would count twice.

    Example:
      python -m spacy crfseq aggregate raw.conll -o labels.spacy --source llm=labels.jsonl,match=all,map=person:PER \\
          --source model=training/model-best --labels PER,LOC,ORG
    """
    import spacy

    from ...pipeline.texts import write_docs
    from .label_model import parse_method
    from .source_settings import parse_source
    from .texts import Noted, aggregate

    resolve(texts)
    named = parse_method(label_model)
    method = named.made()
    sources = {name: parse_source(text) for name, text in _named(source).items()}
    files = [given.place for given in sources.values() if not given.is_function]
    check_output_file(output, texts, *files, *([gold] if gold else []), force=force)
    if output.suffix != ".spacy":
        raise ConfigError(f"{output}: the labels are written as a DocBin. Give a name that ends in .spacy.")
    result = aggregate(
        spacy.blank(lang),
        texts,
        sources,
        method,
        labels=[name.strip() for name in labels.split(",") if name.strip()] if labels else (),
        layout=Asked(format, columns, scheme, encoding, skip_invalid=skip_invalid),
        gold=gold,
        noted=Noted(component, weigh, min_probability, named),
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
    if any(row.assumed for row in result.rows):
        message.warn(
            "Assumed: hardly any other source speaks of these words, so their errors stay unknown. --gold with some of "
            "the texts shows them."
        )
    if silent := _silent(result.gold_rows):
        message.warn(
            f"No gold text has labels of {', '.join(silent)}: gold labels do not show what these sources miss or get "
            "wrong. Let them label the gold texts, too."
        )
    for pair in result.copies[:LISTED]:
        message.warn(str(pair))
    if (more := len(result.copies) - LISTED) > 0:
        message.warn(f"So may {more:,} more pairs of sources.")
    for words in result.repeated:
        message.warn(str(words))
    if not result.model.converged:
        message.warn("The label model has not converged: its estimates may still change.")
    message.good(f"{output}: {len(result.docs):,} texts")
    advise(f"init-config CONFIG --train {output} --dev DEV", "fit CONFIG --output MODEL")


LISTED = 10
"""Pairs of sources that may copy each other that are listed, the most alike first."""
HEADER = ("Source", "Label", "Votes", "Coverage", "Precision", "Recall", "Conflicts")


def _silent(rows: Sequence[SourceRow]) -> list[str]:
    """Return the sources of a report against gold labels that abstain from all tokens that have these."""
    told = {row.source for row in rows if not (isnan(row.precision) and isnan(row.recall))}
    return [source for source in dict.fromkeys(row.source for row in rows) if source not in told]


def _cells(row: SourceRow) -> list[str]:
    def percent(share: float, interval: tuple[float, float] | None = None) -> str:
        if share != share:
            return "-"
        low, high = interval or (0, 0)
        told = "assumed" if row.assumed else f"{100 * low:.1f}-{100 * high:.1f}"
        return f"{100 * share:.1f}" + (f" ({told})" if interval else "")

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
        "repeated": [words._asdict() for words in result.repeated],
        "converged": result.model.converged,
    }


def _defined(row: dict[str, Any]) -> dict[str, Any]:
    return {name: None if value != value else value for name, value in row.items()}


def _named(texts: list[str]) -> dict[str, str]:
    """Return the names of sources and what they are.

    RAISES ConfigError: If one is not of the form NAME=SOURCE, or a name comes twice.
    """
    named: dict[str, str] = {}
    for text in texts:
        name, sign, source = text.partition("=")
        if not (name and sign and source) or "," in name:  # else the name of the first setting is part of it
            raise ConfigError(f"--source {text}: give a name, an equals sign and a source, such as rules=rules.conll.")
        if name in named:
            raise ConfigError(f"--source {text}: {name!r} is given twice.")
        named[name] = source
    return named
