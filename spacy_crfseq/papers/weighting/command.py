"""``crfseq weigh``: weights of labelled texts, so that they represent the texts of a target."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
import typer
from wasabi.tables import table

from ...cli import options
from ...cli.app import command
from ...cli.console import count_of, cut, printer
from ...corpora import DOCBIN, Preset
from ...corpora.annotations import parse_object
from ...corpora.columns import DOCSTART
from ...corpora.layouts import ANNOTATIONS, TEXTS_FILE_HELP, Asked, Format, layout_by_ending
from ...corpora.lines import read_lines
from ...corpora.outputs import check_output_file
from ...errors import ConfigError, suggest
from ...files import replacing

if TYPE_CHECKING:
    from spacy.training import Example

    from .weightings import Weighting, Weights

SHOWN, BAR, TEXT = 5, 40, 88
"""Number of texts shown at each end; widths of the longest bar and of a text."""
BINS = (0, 0.1, 0.25, 0.5, 0.8, 1.25, 2, 4, 10, np.inf)
"""Bounds of the histogram's rows; weights have the mean 1."""
NAMES = {"ratio": "DensityRatio", "clusters": "Clusters", "counts": "ExactCounts"}
BY_HELP = f"Weighting: {', '.join(NAMES)}, or the name of another function in crf_weightings"


class Weighed(NamedTuple):
    """Labelled texts, their layout, their weights, the number of texts of the target, how to read the output."""

    examples: list[Example]
    layout: Preset
    weights: Weights
    n_target: int
    columns: str


def make_weighting(by: str, settings: dict[str, Any]) -> Weighting:
    """Return a registered weighting, by a short or a full name.

    settings: Its settings; None for a default.
    RAISES ConfigError: If it is unknown, or has no such setting.
    """
    from inspect import signature

    from ... import registry

    known = registry.weightings.get_all()
    name = f"spacy_crfseq.{NAMES[by]}.v1" if by in NAMES else by
    if name not in known:
        raise ConfigError(f"--by {by}: unknown weighting. {suggest(by, [*NAMES, *known])}")
    accepted = signature(known[name]).parameters
    said = {key: value for key, value in settings.items() if value is not None}
    if wrong := [key for key in said if key not in accepted]:
        raise ConfigError(f"--by {by} has no setting {wrong[0]!r}. It has: {', '.join(accepted)}.")
    weighting: Weighting = registry.weightings.get(name)(**said)
    return weighting


def weigh(
    train: Path,
    target: Path,
    by: str = "ratio",
    k: list[int] | None = None,
    observation: str | None = None,
    flatten: float | None = None,
    cap: float | None = None,
    seed: int | None = None,
    lang: str = "en",
    layout: Format = None,
    target_format: str | None = None,
    output: Path | None = None,
    force: bool = False,
) -> Weighed:
    """Return the labelled texts of a file and their weights, and write a copy with these if there is an output.

    RAISES CrfError: If a file cannot be read, or the texts have too little in common.
    """
    import spacy

    from ...pipeline.readers import read_gold
    from ...pipeline.texts import read_texts
    from .reader import weigh as weigh_texts
    from .reader import words_of

    check_output_file(output, train, target, force=force)
    own = {"k": k, "observation": observation, "seed": seed, "flatten": flatten, "cap": cap}
    weighting, nlp, preset = make_weighting(by, own), spacy.blank(lang), options.show_layout(train, layout)
    target_layout = options.show_layout(target, target_format, texts=True)
    examples = read_gold(nlp, train, preset, []).examples
    aims = [words_of(text.doc) for text in read_texts(nlp, target, target_layout)]
    weights = weigh_texts(weighting, [words_of(example.reference) for example in examples], aims)
    weighed = Weighed(examples, preset, weights, len(aims), "")
    return weighed if output is None else weighed._replace(columns=write_weighted(output, train, weighed, lang))


def _lines(weighed: Weighed, number: int) -> Iterator[str]:
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


# Files with weights


def write_weighted(output: Path, train: Path, weighed: Weighed, lang: str = "en") -> str:
    """Write a copy of the labelled texts with weights, multiplied by those that they had; return how to read it.

    RAISES ConfigError: If the layout has no place for weights.
    """
    from ...pipeline.evidence import WEIGHT_KEY, weight_of

    for example, value in zip(weighed.examples, weighed.weights.values.tolist(), strict=True):
        example.reference.user_data[WEIGHT_KEY] = float(f"{weight_of(example.reference) * value:.6g}")
    if layout_by_ending(output) == DOCBIN or weighed.layout.name == DOCBIN:
        from spacy.tokens import DocBin

        with replacing(output) as temporary:
            docs = [example.reference for example in weighed.examples]
            DocBin(docs=docs, store_user_data=True).to_disk(temporary)
        return ""
    if weighed.layout.name == "conllu":
        raise ConfigError(f"{train}: CoNLL-U has no place for weights. Give --output FILE.spacy.")
    weights, is_jsonl = [weight_of(example.reference) for example in weighed.examples], weighed.layout is ANNOTATIONS
    lines = (
        _with_keys(train, weighed.layout, weights, lang) if is_jsonl else _with_column(train, weighed.layout, weights)
    )
    with replacing(output) as temporary, temporary.open("w", encoding="utf8", newline="\n") as file:
        file.writelines(lines)
    if is_jsonl:
        return ""
    held = weighed.layout.columns
    return f" (--columns {','.join(held if 'weight' in held else (*held, 'weight'))} --scheme {weighed.layout.scheme})"


def _with_keys(path: Path, layout: Preset, weights: Sequence[float], lang: str) -> Iterator[str]:
    """Yield the objects of a JSONL file with a weight each; those that hold no annotated text are left out."""
    import spacy

    from ...pipeline.readers import annotated_sentences

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they were shown when the file was read
        at = [sentence.line for sentence in annotated_sentences(spacy.blank(lang), path, layout.encoding)]
    by_line = dict(zip(at, weights, strict=True))
    for number, line in read_lines(path, layout.encoding):
        if line.lstrip().startswith("["):
            raise ConfigError(f"{path}: a JSON array cannot be written with weights. Give --output FILE.spacy.")
        if number in by_line:
            entry = {**parse_object(path, number, line), "weight": by_line[number]}
            yield json.dumps(entry, ensure_ascii=False) + "\n"


def _with_column(path: Path, layout: Preset, weights: Sequence[float]) -> Iterator[str]:
    """Yield the lines of a column file with the weight at the first token of each sentence, "_" at the others."""
    place = layout.columns.index("weight") if "weight" in layout.columns else len(layout.columns)
    left, begun = iter(weights), False
    for _, line in read_lines(path, layout.encoding):
        fields = [field for field in line.replace("\t", " ").split(" ") if field]
        if fields and fields[0] != DOCSTART:
            fields[place : place + 1] = ["_" if begun else f"{next(left):g}"]
            begun = True
        else:
            fields += ["_"] * bool(fields and place == len(layout.columns))
            begun = False
        yield ("\t" if "\t" in line else " ").join(fields) + "\n"


@command("weigh", "Raw text")
def weigh_cli(
    train: Annotated[
        Path, typer.Argument(metavar="TRAIN", help="Labelled texts: a sentence or a Doc each has a weight")
    ],
    target: Annotated[Path, typer.Option("--target", "-t", help=f"Texts of the target. {TEXTS_FILE_HELP}")],
    by: Annotated[str, typer.Option(help=BY_HELP)] = "ratio",
    k: Annotated[
        list[int] | None,
        typer.Option(
            "--k",
            "-k",
            min=1,
            help="For --by clusters: their number; repeat it to choose by likelihood",
            show_default="10",
        ),
    ] = None,
    observation: Annotated[
        str | None, typer.Option(help="For --by counts: what is counted, text, length or shape", show_default="text")
    ] = None,
    flatten: Annotated[
        float | None,
        typer.Option(help="Power to which weights are raised: 1 keeps them, 0 makes them equal", show_default="1"),
    ] = None,
    cap: Annotated[
        float | None, typer.Option(help="Largest weight, as a multiple of the mean; 0 is none", show_default="0")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="For --by clusters: seed of the starts", show_default="0")
    ] = None,
    lang: options.Lang = "en",
    format: options.GoldFormat = None,
    columns: options.Columns = None,
    scheme: options.Scheme = None,
    encoding: options.Encoding = None,
    target_format: Annotated[
        str | None, typer.Option(help="Layout of the target", show_default="by its ending, else by its first lines")
    ] = None,
    output: Annotated[Path | None, options.output("Copy of TRAIN with weights; .spacy for any layout")] = None,
    force: options.Force = False,
    number: Annotated[int, options.number("Texts to show at each end")] = SHOWN,
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
    weighed = weigh(
        train,
        target,
        by=by,
        k=k,
        observation=observation,
        flatten=flatten,
        cap=cap,
        seed=seed,
        lang=lang,
        layout=Asked(format, columns, scheme, encoding),
        target_format=target_format,
        output=output,
        force=force,
    )
    print("\n".join(_lines(weighed, number)))
    if output is not None:
        printer().good(f"Saved {count_of(len(weighed.examples), 'weighted text')} to {output}{weighed.columns}")
