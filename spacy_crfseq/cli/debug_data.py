"""``crfseq debug-data``: what is in a corpus, what is wrong with it, and what training on it will cost.

Files are read with every error noted and nothing raised; a config is set up as `fit` does it, its features are looked
at template by template, and its optimizers are tried on samples.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from spacy import util

from ..corpora import CUSTOM, DOCBIN, Preset, Sentence, check_file, get_preset, guess, read_columns, read_conllu
from ..corpora.annotations import Notes, read_annotations
from ..corpora.layouts import COLUMNS_HELP, FORMAT_HELP, SCHEME_HELP, as_options, corpus_layout, told_by_ending
from ..corpora.presets import ANNOTATIONS, DOCS
from ..errors import ConfigError, CrfError, DataError, FormatError
from ..evaluation.corpus import KEPT, PLAIN, Part, count, overlap
from ..evaluation.corpus_findings import Finding, findings_of, overlap_findings
from ..pipeline.texts import load_docs
from ..schemes import encode
from . import _options as options
from ._app import crfseq_cli
from ._console import FAILED, reported_errors
from ._debug_report import Errors, Report, print_report
from ._prospects import Component, findings_of_components, look_at_config
from ._suspects import find_suspects

if TYPE_CHECKING:
    from spacy.tokens import Doc

LABELS = ("tag", "pos", "chunk", "ent")
"""Columns that hold labels, where no config says which are learnt."""
SPANS = ("chunk", "ent")
COLUMN_OF = {"crf_tagger": "tag", "crf_chunker": "chunk", "crf_ner": "ent"}
"""What the components of a factory learn, unless their settings say otherwise."""


@crfseq_cli.command("debug-data")
def debug_data_cli(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Training file")],
    dev: Annotated[Path | None, typer.Option("--dev", "-d", help="Development file")] = None,
    config: Annotated[
        Path | None, typer.Option("--config", help="Config, to look at its features and at what training costs")
    ] = None,
    format_: Annotated[
        str | None, typer.Option("--format", "-f", help=f"{FORMAT_HELP}, else what the config says")
    ] = None,
    columns: Annotated[str | None, typer.Option(help=COLUMNS_HELP)] = None,
    scheme: Annotated[str | None, typer.Option(help=SCHEME_HELP)] = None,
    cost: Annotated[bool, typer.Option(help="With --config: try how long training takes")] = True,
    cross_validate: Annotated[
        int | None, typer.Option(metavar="K", help="With --config: find annotation errors with K folds")
    ] = None,
    number: Annotated[int, options.number("With --cross-validate: places to list for each component")] = 20,
    as_json: options.AsJson = False,
    code: options.Code = None,
) -> None:
    """Look into a corpus before training: labels, mistakes, what dev shares with it, features, costs.

    Ends with a list of what to fix: FAIL where training cannot work, which is also the exit code 1, warn where it works
    worse than it could. All broken lines are reported, not the first only.

    The cost is that of 'crfseq fit' on this machine: two or three iterations are run on all data, and their number is
    extrapolated from two samples; without scoring on dev.

    --cross-validate K finds annotation errors: it trains K models, each on all but a K-th of the file, and lists the
    places in the rest where the model gives another annotation a much higher probability (Northcutt et al. 2021). Of
    the first fifty, about half are errors in English CoNLL-2003 and a third in Spanish CoNLL-2002, by our own count;
    the others are hard cases. It takes as long as K trainings.

    \b
    Example:
      python -m spacy crfseq debug-data train.conll --dev dev.conll \\
          --format conll2003
      python -m spacy crfseq debug-data train.conll --dev dev.conll \\
          --config config.cfg
      python -m spacy crfseq debug-data train.conll --config config.cfg \\
          --cross-validate 5 -n 50
    """
    with reported_errors(config, code):
        report = debug_data(file, dev, How(config, format_, columns, scheme, cost, cross_validate, number))
        if as_json:
            print(json.dumps(report.as_json(), indent=2))
        else:
            print_report(report)
    if report.failed:
        raise typer.Exit(FAILED)


class How(NamedTuple):
    """How to look at a corpus; see the help of the command."""

    config: Path | None = None
    format_name: str | None = None
    columns: str | None = None
    scheme: str | None = None
    cost: bool = True
    folds: int | None = None
    number: int = 20


class Source(NamedTuple):
    """How a config reads a corpus: its layout, whether it refuses invalid tags, columns learnt, the key of chunks.

    nlp: The language and the tokenizer of the config.
    """

    layout: Preset | None = None
    strict: bool = False
    labels: tuple[str, ...] | None = None
    key: str = "chunks"
    nlp: Mapping[str, Any] = {"lang": "xx"}


def debug_data(file: Path, dev: Path | None = None, how: How | None = None) -> Report:
    """Look into a corpus.

    RAISES CrfError: If there is no such file or config, or nothing says the layout; what is wrong in the files is in
        the report.
    """
    how = how or How()
    if how.folds is not None and how.config is None:
        raise ConfigError("--cross-validate trains the components of a config; give --config FILE.")
    source = _source(how.config) if how.config else Source()
    told = told_by_ending(file) == ANNOTATIONS.name  # whatever reader the config has
    explicit = how.format_name or how.columns or source.layout is None or told
    layout = corpus_layout(file, how.format_name, how.columns, how.scheme) if explicit else source.layout
    assert layout is not None
    files = {"train": file, **({"dev": dev} if dev else {})}
    parts, broken = {}, {}
    findings: list[Finding] = []
    for name, path in files.items():
        check_file(path)
        broken[name] = Errors()
        notes = Notes()
        parts[name] = _count(_sentences(path, layout, source, broken[name], notes), layout, source)
        findings += [Finding("warn", text, tuple(places)) for text, places in notes.messages(path, KEPT)]
        findings += _of_errors(path, layout, broken[name])
        if parts[name].lengths:
            between = ", doc " if layout.name == DOCBIN else ":"
            where = lambda line: f"{path}{between}{line}" if line else str(path)  # noqa: B023, E731
            findings += findings_of(parts[name], where, strict=source.strict, trainable=name == "train")
        elif not broken[name].count:
            findings.append(Finding("fail", f"{path}: no sentence in the file."))
    if all(parts[name].lengths for name in files) and dev:
        findings += overlap_findings(overlap(parts["train"], parts["dev"]))
    components: dict[str, Component] = {}
    expense = suspects = None
    if how.config and any(finding.severity == "fail" for finding in findings):
        findings.append(Finding("warn", f"{how.config}: features and costs were not examined; correct the rest."))
    elif how.config:
        try:
            components, expense = look_at_config(how.config, file, dev, how.cost)
            findings += findings_of_components(components)
            if how.folds is not None:
                suspects = find_suspects(how.config, file, dev, how.folds, how.number, _places(file, layout, source))
        except CrfError as error:
            findings.append(Finding("fail", f"{how.config}: {error}"))
    return Report(layout, files, parts, broken, components, expense, findings, suspects)


def _count(sentences: Iterator[Sentence], layout: Preset, source: Source) -> Part:
    wanted = source.labels or tuple(name for name in LABELS if name in layout.columns)
    scheme = layout.scheme if layout.scheme != PLAIN else "IOB2"
    schemes = {name: scheme if name in SPANS else PLAIN for name in wanted}
    part = count(sentences, schemes)
    used = {name: column for name, column in part.columns.items() if column.labels}
    if source.labels is None and used:  # what a format may hold and this file does not is no mistake
        part.columns = used
    return part


def _sentences(
    path: Path, layout: Preset, source: Source, broken: Errors, notes: Notes | None = None
) -> Iterator[Sentence]:
    try:
        if layout.name == DOCBIN:
            yield from _of_docs(path, source.key, broken)
        elif layout.name == ANNOTATIONS.name:
            from ..pipeline.readers import tokenizer_of

            nlp = util.load_model_from_config({"nlp": {**source.nlp, "pipeline": []}}, auto_fill=True)
            yield from read_annotations(path, tokenizer_of(nlp), notes, broken)
        elif layout.name == "conllu":
            yield from read_conllu(path, broken)
        else:
            yield from read_columns(path, layout.columns, encoding=layout.encoding, on_error=broken)
    except FormatError as error:  # of the file as a whole
        broken(error)


def _places(path: Path, layout: Preset, source: Source) -> list[str]:
    """Return the file and line of each token of a file."""
    between = ", doc " if layout.name == DOCBIN else ":"
    sentences = _sentences(path, layout, source, Errors())
    return [f"{path}{between}{sentence.line_of(i)}" for sentence in sentences for i in range(len(sentence.words))]


def _of_docs(path: Path, key: str, broken: Errors) -> Iterator[Sentence]:
    from spacy.vocab import Vocab

    for number, doc in enumerate(load_docs(path, Vocab()), start=1):
        try:
            columns = _columns_of(doc, key)
        except DataError as error:
            broken(FormatError(path, 0, f"doc {number}: {error}"))
            continue
        if not len(doc):
            continue
        words = [token.text for token in doc]
        starts = [i for i, token in enumerate(doc) if i == 0 or token.is_sent_start]
        for start, end in zip(starts, [*starts[1:], len(doc)], strict=True):
            cut = {name: values[start:end] for name, values in columns.items()}
            yield Sentence(words[start:end], cut, None, number, number, {}, on_one_line=True)


def _columns_of(doc: Doc, key: str) -> dict[str, list[str]]:
    n = len(doc)

    def tags_of(spans: Any) -> list[str]:
        return encode([(span.start, span.end, span.label_) for span in spans], n, "BILUO")

    return {
        "tag": [token.tag_ for token in doc],
        "pos": [token.pos_ for token in doc],
        "morph": [str(token.morph) for token in doc],
        "chunk": tags_of(doc.spans[key]) if key in doc.spans else [""] * n,
        "ent": ["" if token.ent_iob == 0 else tag for token, tag in zip(doc, tags_of(doc.ents), strict=True)],
    }


def _of_errors(path: Path, layout: Preset, broken: Errors) -> list[Finding]:
    if not broken.count:
        return []
    text = f"{path}: {broken.count:,} lines cannot be read, listed above." if broken.count > 1 else broken.first[0]
    seems = guess(path) if layout.name != DOCBIN else None
    alike = seems is None or (seems.name, len(seems.columns)) == (layout.name, len(layout.columns))
    if seems is not None and broken.count > 1 and not alike:
        text += f" It was read as {as_options(layout)}, but looks like {as_options(seems)} ({' '.join(seems.columns)})."
    return [Finding("fail", text)]


def _source(config_path: Path) -> Source:
    if not config_path.is_file():
        raise ConfigError(f"{config_path}: no such config file (looked from {Path.cwd()}).")
    config = util.load_config(config_path, interpolate=False)
    block: Any = config
    for name in config.get("training", {}).get("train_corpus", "corpora.train").split("."):
        block = block.get(name, {})
    labels, key = [], "chunks"
    for name in config.get("nlp", {}).get("pipeline", []):
        settings = config.get("components", {}).get(name, {})
        factory = settings.get("factory")
        if factory in COLUMN_OF:
            labels.append(settings.get("attr") or COLUMN_OF[factory])
        if factory == "crf_chunker":
            key = settings.get("spans_key", key)
    columns = tuple(block.get("columns", ("word", "tag", "chunk")))
    scheme, encoding = block.get("scheme", "IOB2"), block.get("encoding", "utf8")
    layouts = {
        "spacy_crfseq.ConllReader.v1": Preset(CUSTOM, columns, scheme, encoding, columns[-1]),
        "spacy_crfseq.ConlluReader.v1": get_preset("conllu"),
        "spacy_crfseq.AnnotationReader.v1": ANNOTATIONS,
        "spacy.Corpus.v1": DOCS,
    }
    strict = block.get("on_invalid", "error") == "error" and "spacy_crfseq.ConllReader" in block.get("@readers", "")
    nlp = {name: value for name, value in config.get("nlp", {}).items() if name in ("lang", "tokenizer")}
    return Source(layouts.get(block.get("@readers")), strict, tuple(labels) or None, key, nlp)
