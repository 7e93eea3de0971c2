"""``crfseq weigh``: weights of labelled texts, so that they represent the texts of a target."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import signature
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from ...cli import options
from ...cli.app import command
from ...cli.console import cut, printer, table
from ...corpora.layouts import Asked
from ...corpora.outputs import check_output_file
from ...errors import ConfigError, count_of, suggest
from .files import WeighedTexts, weigh, write_weighted

if TYPE_CHECKING:
    from .weightings import Weighting

SHOWN, BAR, TEXT = 5, 40, 88
"""Number of texts shown at each end; widths of the longest bar and of a text."""
BINS = (0, 0.1, 0.25, 0.5, 0.8, 1.25, 2, 4, 10, np.inf)
"""Bounds of the histogram's rows; weights have the mean 1."""
NAMES = {"ratio": "DensityRatio", "clusters": "Clusters", "counts": "ExactCounts"}
BY_HELP = f"Weighting: {', '.join(NAMES)}, or the name of another function in crf_weightings"
K_HELP = "For --by clusters: their number; repeat it to choose by likelihood"


def make_weighting(by: str, settings: dict[str, Any]) -> Weighting:
    """Return a registered weighting, by a short or a full name.

    settings: Its settings; None for a default.
    RAISES ConfigError: If it is unknown, or has no such setting.
    """
    from ... import registry

    registered = registry.weightings.get_all()
    name = f"spacy_crfseq.{NAMES[by]}.v1" if by in NAMES else by
    if name not in registered:
        raise ConfigError(f"--by {by}: unknown weighting. {suggest(by, [*NAMES, *registered])}")
    accepted = signature(registered[name]).parameters
    said = {key: value for key, value in settings.items() if value is not None}
    if wrong := [key for key in said if key not in accepted]:
        raise ConfigError(f"--by {by} has no setting {wrong[0]!r}. It has: {', '.join(accepted)}.")
    weighting: Weighting = registry.weightings.get(name)(**said)
    return weighting


@command("weigh", "Raw text")
def weigh_cli(
    train: Annotated[Path, typer.Argument(metavar="TRAIN", help="Labelled texts; each sentence or Doc gets a weight")],
    target: Annotated[Path, typer.Option("--target", "-t", help=f"Texts of the target. {options.TEXTS_FILE}")],
    by: Annotated[str, typer.Option(help=BY_HELP)] = "ratio",
    k: Annotated[list[int] | None, typer.Option("--k", "-k", min=1, help=K_HELP, show_default="10")] = None,
    observation: Annotated[
        str | None,
        typer.Option(help="For --by counts: what is counted, text, length or shape", show_default="text"),
    ] = None,
    flatten: Annotated[
        float | None,
        typer.Option(help="Power to which weights are raised: 1 keeps them, 0 makes them equal", show_default="1"),
    ] = None,
    cap: Annotated[
        float | None,
        typer.Option(help="Largest weight, as a multiple of the mean; 0 is none", show_default="0"),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="For --by clusters: seed of the starts", show_default="0")
    ] = None,
    number: Annotated[int, options.number("Texts to show at each end")] = SHOWN,
    lang: options.Lang = "en",
    format: options.GoldFormat = None,
    columns: options.Columns = None,
    scheme: options.Scheme = None,
    encoding: options.Encoding = None,
    skip_invalid: options.SkipInvalid = False,
    target_format: Annotated[
        str | None,
        typer.Option(help="Layout of the target", show_default="by its ending, else its first lines"),
    ] = None,
    output: Annotated[Path | None, options.output("Copy of TRAIN with weights; .spacy for any layout")] = None,
    force: options.Force = False,
    code: options.Code = None,
) -> None:
    """Weigh labelled texts so that they represent the texts of a target.

    Shows how far the weights spread, their effective sample size, (sum w)^2 / sum w^2, and the texts with the largest
    and the smallest weight. Give both files in the same units, such as sentences. A model is not always better with
    weights: compare both on texts of the target.

    --output writes TRAIN with a column "weight", a key "weight" (JSONL) or doc._.crf_weight (.spacy), which 'fit' and
    'spacy train' respect. Or let the reader spacy_crfseq.WeightedReader.v1 do the same in a config.

    Example:
      python -m spacy crfseq weigh train.conll --target news.txt
      python -m spacy crfseq weigh train.conll --target news.txt --by clusters \\
          -k 5 -k 10 -k 20 --output weighted.conll
    """
    check_output_file(output, train, target, force=force)
    own = {"k": k, "observation": observation, "seed": seed, "flatten": flatten, "cap": cap}
    layout, weighting = Asked(format, columns, scheme, encoding, skip_invalid=skip_invalid), make_weighting(by, own)
    weighed = weigh(
        train,
        target,
        weighting,
        layout=layout,
        target_layout=Asked(target_format, skip_invalid=skip_invalid),
        lang=lang,
    )
    to_read = "" if output is None else write_weighted(output, train, weighed, lang)
    print("\n".join(_lines(weighed, number)))
    if output is not None:
        printer().good(f"Saved {count_of(len(weighed.examples), 'weighted text')} to {output}{to_read}")


def _lines(weighed: WeighedTexts, number: int) -> Iterator[str]:
    values = weighed.weights.values
    yield f"{count_of(len(values), 'labelled text')}, {count_of(weighed.n_target, 'text')} of the target"
    yield f"{weighed.weights.note}"
    size = weighed.weights.effective_size
    yield f"Effective sample size: {size:,.1f} ({size / len(values):.1%})"
    yield ""
    counts = np.histogram(values, BINS)[0]
    names = [f"{low:g} to {high:g}" for low, high in pairwise(BINS[:-1])] + [f"{BINS[-2]:g} or more"]
    bars = ["#" * int(np.ceil(BAR * count / counts.max())) for count in counts]
    rows = [(name, f"{count:,}", bar) for name, count, bar in zip(names, counts.tolist(), bars, strict=True)]
    yield table(rows, header=("Weight", "Texts", ""), aligns=("l", "r", "l")).strip("\n")
    order = np.argsort(-values, kind="stable")
    for title, chosen in (("Largest", order[:number]), ("Smallest", order[::-1][:number])):
        yield ""
        shown = [(f"{values[i]:.3g}", cut(" ".join(weighed.examples[i].text.split()), TEXT)) for i in chosen.tolist()]
        yield table(shown, header=(title, "Text"), aligns=("r", "l")).strip("\n")
