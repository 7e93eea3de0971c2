"""Weights of the labelled texts of a file, and copies of the file that have them."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ...cli.inputs import read_file, show_layout
from ...corpora import DOCBIN, Preset
from ...corpora.columns import DOCSTART
from ...corpora.layouts import ANNOTATIONS, Format, layout_by_ending
from ...corpora.lines import read_lines
from ...corpora.paths import corpus_files
from ...corpora.spans.json_values import parse_object
from ...errors import ConfigError
from ...files import replacing

if TYPE_CHECKING:
    from spacy.training import Example

    from .weightings import Weighting, Weights


class WeighedTexts(NamedTuple):
    """Labelled texts, their layout, their weights, and the number of texts of the target."""

    examples: list[Example]
    layout: Preset
    weights: Weights
    n_target: int


def weigh(
    train: Path,
    target: Path,
    weighting: Weighting,
    *,
    layout: Format = None,
    target_layout: Format = None,
    lang: str = "en",
) -> WeighedTexts:
    """Return the labelled texts of a file and their weights.

    target (Path): Texts like those that the model is for; their labels are ignored.
    RAISES CrfError: If a file cannot be read, or the texts have too little in common.
    """
    import spacy

    from ...pipeline.gold_file import read_gold
    from .reader import weigh_texts, words_of

    nlp, preset = spacy.blank(lang), show_layout(train, layout)
    texts = read_file(nlp, target, target_layout)
    examples = read_gold(nlp, train, preset, []).examples
    aims = [words_of(text.doc) for text in texts]
    weights = weigh_texts(weighting, [words_of(example.reference) for example in examples], aims)
    return WeighedTexts(examples, preset, weights, len(aims))


def write_weighted(output: Path, train: Path, weighed: WeighedTexts, lang: str = "en") -> str:
    """Write a copy of the labelled texts with weights, multiplied by those that they had.

    RETURNS (str): Options with which to read a column file; empty for other files.
    RAISES ConfigError: If the layout has no place for weights.
    """
    from ...pipeline.evidence import WEIGHT_KEY, weight_of

    for example, value in zip(weighed.examples, weighed.weights.values.tolist(), strict=True):
        example.reference.user_data[WEIGHT_KEY] = float(f"{weight_of(example.reference) * value:.6g}")
    if layout_by_ending(output) == DOCBIN or weighed.layout.name == DOCBIN:
        from ...pipeline.texts import write_docs

        write_docs(output, (example.reference for example in weighed.examples))
        return ""
    if weighed.layout.name == "conllu" or (weighed.layout.spans and weighed.layout.name != ANNOTATIONS.name):
        raise ConfigError(f"{train}: {weighed.layout.name} has no place for weights. Give --output FILE.spacy.")
    weights, is_jsonl = (
        [weight_of(example.reference) for example in weighed.examples],
        weighed.layout.name == ANNOTATIONS.name,
    )
    lines = (
        _with_keys(train, weighed.layout, weights, lang) if is_jsonl else _with_column(train, weighed.layout, weights)
    )
    with replacing(output) as temporary, temporary.open("w", encoding="utf8", newline="\n") as file:
        file.writelines(lines)
    if is_jsonl:
        return ""
    columns = weighed.layout.columns
    columns = columns if "weight" in columns else (*columns, "weight")
    return f" (--columns {','.join(columns)} --scheme {weighed.layout.scheme})"


def _with_keys(path: Path, layout: Preset, weights: Sequence[float], lang: str) -> Iterator[str]:
    """Yield the objects of a JSONL file with their weights; objects without annotated text are left out."""
    import spacy

    from ...pipeline.corpus_reader import CorpusReader
    from ...pipeline.doc_builder import CorpusSettings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they were shown when the file was read
        files, reader = corpus_files(path), CorpusReader(CorpusSettings(path, layout))
        at = [(Path(sentence.file), sentence.line) for sentence in reader.sentences(spacy.blank(lang))]
    by_line = dict(zip(at, weights, strict=True))
    for file in files:
        for number, line in read_lines(file, layout.encoding):
            if line.lstrip().startswith("["):
                raise ConfigError(f"{file}: a JSON array cannot be written with weights. Give --output FILE.spacy.")
            if (file, number) in by_line:
                entry = {**parse_object(file, number, line), "weight": by_line[file, number]}
                yield json.dumps(entry, ensure_ascii=False) + "\n"


def _lines_of(files: Sequence[Path], encoding: str) -> Iterator[str]:
    """Yield the lines of files, with a blank one between two files, which the first may lack."""
    for number, file in enumerate(files):
        if number:
            yield ""
        yield from (line for _, line in read_lines(file, encoding))


def _with_column(path: Path, layout: Preset, weights: Sequence[float]) -> Iterator[str]:
    """Yield the lines of a column file with the weight at the first token of each sentence, "_" at the others."""
    place = layout.columns.index("weight") if "weight" in layout.columns else len(layout.columns)
    left, begun = iter(weights), False
    for line in _lines_of(corpus_files(path), layout.encoding):
        fields = [field for field in line.replace("\t", " ").split(" ") if field]
        if fields and fields[0] != DOCSTART:
            fields[place : place + 1] = ["_" if begun else f"{next(left):g}"]
            begun = True
        else:
            fields += ["_"] * bool(fields and place == len(layout.columns))
            begun = False
        yield ("\t" if "\t" in line else " ").join(fields) + "\n"
