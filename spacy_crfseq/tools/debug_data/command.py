"""``crfseq debug-data``: contents and errors of a corpus, and the cost of training on it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ...cli import options
from ...cli.app import command
from ...cli.console import FAILED, cut, print_json, printer
from ...corpora.layouts import Asked, shown_scheme
from ...errors import count_of
from . import Report, debug_data
from .corpus import PLAIN, overlap
from .features import Component
from .label_errors import Suspects

LABEL_ROWS = 50
"""Number of labels that are shown."""
CORPUS_ROWS = (
    "sequences", "tokens", "distinct words", "tokens of a sentence, median", "95 % have at most", "longest",
    "repeated sentences",
)  # fmt: skip
TEMPLATE = 32
"""Characters of a template's name, so that the table fits into a terminal."""
MARKS = {"good": "ok  ", "warn": "warn", "fail": "FAIL"}
"""Plain marks for output that is not a terminal."""


@command("debug-data", "Begin", "debug", "check", context_settings=options.OVERRIDES)
def debug_data_cli(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help=f"Training file{options.PATHS}")],
    dev: Annotated[
        Path | None, typer.Option("--dev", "-d", help="Development file", show_default="that of --config")
    ] = None,
    config_path: Annotated[
        Path | None, typer.Option("--config", help="Config, to examine its features, estimate the cost and split texts")
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
    cost: Annotated[bool, typer.Option(help="With --config: estimate the time of training")] = True,
    cross_validate: Annotated[
        int | None, typer.Option(metavar="K", help="With --config: find annotation errors with K folds")
    ] = None,
    number: Annotated[int, options.number("Likely errors to list for each component")] = 20,
    as_json: options.AsJson = False,
    code: options.Code = None,
    verbose: options.Verbose = False,
) -> None:
    """Examine a corpus before training: labels, errors, overlap with dev, features, cost.

    The report ends with what to fix: FAIL if training cannot work (exit code 1), warn if results will suffer. Malformed
    lines are counted and listed by reason, the first three of each; --json has the first thousand.

    --dev compares the two files: sentences that both have, and whether their labels agree; labels in dev only, which
    can never be predicted; new words; and spans seen in training with the same label, with another, or not at all.

    With --config, further options override its settings, as in 'fit': --paths.raw raw.txt.

    The cost is that of 'crfseq fit' on this machine without scoring on dev: two or three iterations run on all data,
    and their number is extrapolated from two samples.

    --cross-validate K finds annotation errors: it trains K models, each on all but a K-th of the file, and lists the
    places in the rest where the model gives another annotation a much higher probability (Northcutt et al. 2021). Of
    the first fifty, about half are errors in English CoNLL-2003 and a third in Spanish CoNLL-2002, by our own count;
    the others are hard cases. It takes as long as K trainings.

    If a file .spacy has spans of sources in doc.spans, as 'aggregate' writes them, places are listed where these
    contradict the entities: at least two sources speak of them, and a label model finds another labelling likelier.

    Example:
      python -m spacy crfseq debug-data train.conll --dev dev.conll \\
          --format conll2003
      python -m spacy crfseq debug-data train.conll --dev dev.conll \\
          --config config.cfg
      python -m spacy crfseq debug-data train.conll --config config.cfg \\
          --cross-validate 5 -n 50
    """
    report = debug_data(
        file,
        dev=dev,
        config_path=config_path,
        layout=Asked(format, columns, scheme, encoding, rename, outside, min_score, match, alternatives, skip_invalid),
        cost=cost,
        cross_validate=cross_validate,
        number=number,
        overrides=options.config_overrides(ctx, config_path),
    )
    if as_json:
        print_json(report.as_json())
    else:
        _print_report(printer(), report)
    if report.failed:
        raise typer.Exit(FAILED)


def _print_report(say: Any, report: Report) -> None:
    _print_corpus(say, report)
    _print_weights(say, report)
    for name in report.parts["train"].columns:
        _print_labels(say, report, name)
    for name, component in report.components.items():
        _print_component(say, name, component)
    if report.expense is not None:
        _print_cost(say, report)
    if report.suspects is not None:
        _print_suspects(say, report.suspects)
    if report.source_suspects is not None:
        _print_suspects(say, report.source_suspects)
    for name, errors in report.errors.items():
        if errors.count > 1:
            say.divider(f"{report.files[name]}: {errors.count:,} lines cannot be read")
            print(*errors.by_reason(), sep="\n")
    say.divider("What to fix")
    for severity in ("fail", "warn", "good"):
        for finding in report.findings:
            if finding.severity == severity:
                if sys.stdout.isatty():
                    getattr(say, severity)(finding.text)
                else:
                    print(MARKS[severity], finding.text)
                print(*(f"       {place}\n" for place in finding.places), sep="", end="")


def _print_corpus(say: Any, report: Report) -> None:
    whole = {name: part for name, part in report.parts.items() if part.lengths}
    if not whole:
        return
    say.divider("Corpus")
    cells = []
    for part in whole.values():
        figures = len(part.lengths), part.tokens, len(part.words), *part.quantiles(), part.longest[0], part.repeated
        cells.append([f"{figure:,.0f}" for figure in figures])
    rows: list[tuple[str, ...]] = list(zip(CORPUS_ROWS, *cells, strict=True))
    if len(whole) == 2:
        shared = overlap(whole["train"], whole["dev"])
        rows.append(("tokens of words not in train", "", f"{100 * shared.unseen_words:.1f} %"))
        for name, (same, other, never) in shared.seen_spans.items():
            total = max(1, same + other + never)
            for text, number in ((f"{name} spans seen in train", same), ("seen as another type only", other)):
                rows.append((text, "", f"{100 * number / total:.0f} %"))
    say.table(rows, header=("", *whole), aligns=("l", *"r" * len(whole)), divider=True)


def _print_weights(say: Any, report: Report) -> None:
    weighted = {name: part.sources for name, part in report.parts.items() if part.is_weighted}
    if not weighted:
        return
    say.divider("Weights of texts in training")
    rows = [
        (name, source, f"{of.texts:,}", f"{of.tokens:,}", f"{of.weight:,.2f}")
        for name, sources in weighted.items()
        for source, of in sources.items()
    ]
    header = ("", "source", "texts", "tokens", "sum of weights")
    say.table(rows, header=header, aligns=("l", "l", "r", "r", "r"), divider=True)


def _print_labels(say: Any, report: Report, name: str) -> None:
    columns = {part: counts.columns[name] for part, counts in report.parts.items() if name in counts.columns}
    train = columns["train"]
    labels = list(dict.fromkeys(label for column in columns.values() for label, _ in column.labels.most_common()))
    scheme = "" if train.scheme == PLAIN else f", tags in {shown_scheme(train.scheme)}"
    say.divider(f"{name}: {count_of(len(labels), 'label')}{scheme}")
    rows = [(label, *(f"{column.labels[label]:,}" for column in columns.values())) for label in labels[:LABEL_ROWS]]
    say.table(rows, header=(train.unit, *columns), aligns=("l", *"r" * len(columns)), divider=True)
    if len(labels) > LABEL_ROWS:
        print(f"... and {len(labels) - LABEL_ROWS} more")
    for part, column in columns.items():
        labelled, candidates, unknown = column.tokens.values()
        print(f"{part}: {count_of(labelled, 'token')} known, {unknown:,} unknown, {candidates:,} with candidates")


def _print_component(say: Any, name: str, component: Component) -> None:
    say.divider(
        f"{name}: {count_of(len(component.templates), 'template')}, {count_of(component.attributes, 'attribute')}"
    )
    dead, room = set(component.dead()), TEMPLATE if sys.stdout.isatty() else sys.maxsize
    rows = [
        (
            cut(use.name, room),
            f"{use.features:,}",
            f"{100 * use.once / max(1, use.features):.0f} %",
            f"{100 * use.tokens / max(1, component.n_tokens):.0f} %",
            "no effect" if use.name in dead else "",
        )
        for use in component.templates
    ]
    header = ("template", "attributes", "on one token", "fires on", "")
    say.table(rows, header=header, aligns=("l", "r", "r", "r", "l"), divider=True)
    for term in component.terms:
        counts = f"{count_of(term.sentences, 'sentence')}, {count_of(term.tokens, 'token')}"
        what = f"{term.corpus}, {term.weight:g} * {term.loss}"
        print(f"Term {term.name} ({what}): {counts}, {100 * term.unknown:.1f} % not in train")


def _print_cost(say: Any, report: Report) -> None:
    assert report.expense is not None
    say.divider("Cost of crfseq fit here")
    rows = [("reading and encoding", "", "", f"{report.expense.encoding:.1f} s")]
    for name, component in report.components.items():
        cost = component.cost
        if cost is not None:
            count = f"{'at most' if cost.bounded else 'about'} {count_of(cost.iterations, 'iteration')}"
            times = f"{cost.iteration_seconds:.2f} s", f"{cost.seconds:.1f} s"
            rows.append((f"{name}, {count_of(cost.n_parameters, 'weight')}", count, *times))
    memory = "" if report.expense.megabytes is None else f"{report.expense.megabytes:,.0f} MB of memory"
    rows.append(("together", memory, "", f"{report.expense.encoding + report.expense.training:.0f} s"))
    say.table(rows, aligns=("l", "r", "r", "r"))


def _print_suspects(say: Any, suspects: Suspects) -> None:
    for name, worst in suspects.worst.items():
        by = "" if suspects.folds else " by the sources in doc.spans"
        say.divider(f"{name}: likely annotation errors{by}, most suspicious first")
        for suspect in worst:
            odds = f"({suspect.p_gold:.2g}), predicted {suspect.predicted} ({suspect.p_predicted:.2f})"
            print(f"{suspect.where}: annotated {suspect.gold} {odds}", f"    {suspect.text}", sep="\n")
        trained = f"{suspects.folds} trainings, " if suspects.folds else ""
        who = "a model that was not trained on them disagrees" if suspects.folds else "the sources disagree"
        print(f"{len(worst):,} of {suspects.counts[name]:,} places where {who} ({trained}{suspects.seconds:.0f} s).")
