"""``crfseq debug-data``: contents and errors of a corpus, and the cost of training on it.

Files are read to the end with all errors collected.  A config is set up as in `fit`; its features are examined template
by template, and its optimizers run on samples.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from spacy import util

from ..corpora import DOCBIN, Preset, Sentence, guess
from ..corpora.annotations import Notes, read_annotations
from ..corpora.layouts import Asked, Format, as_options, asked, corpus_block, layout_by_ending, reader_layout
from ..corpora.presets import ANNOTATIONS, read_layout
from ..corpora.splitting import PARTED, SPACES, WORDS
from ..corpora.xml import XMLForm, check_corpus
from ..errors import ConfigError, CrfError, DataError, FormatError
from ..evaluation.corpus import KEPT, PLAIN, Part, count
from ..evaluation.corpus_findings import Finding, findings_of, overlap_findings
from ..pipeline.project import load_config
from ..pipeline.texts import load_docs
from ..schemes import encode
from . import options
from ._debug_report import Errors, Report, print_report
from ._prospects import Component, findings_of_components, look_at_config
from ._suspects import find_suspects
from .app import command
from .console import FAILED
from .options import OVERRIDES, training

if TYPE_CHECKING:
    from spacy.tokens import Doc

LABELS = ("tag", "pos", "chunk", "ent")
"""Columns with labels, if no config names those to learn."""
SPANS = ("chunk", "ent")
COLUMN_OF = {"crf_tagger": "tag", "crf_chunker": "chunk", "crf_ner": "ent"}
"""The column that components of a factory learn by default."""


@command("debug-data", "Begin", "debug", "check", context_settings=OVERRIDES)
def debug_data_cli(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Training file")],
    dev: Annotated[Path | None, typer.Option("--dev", "-d", help="Development file")] = None,
    config: Annotated[
        Path | None, typer.Option("--config", help="Config, to examine its features and estimate the cost of training")
    ] = None,
    format_: options.GoldFormat = None,
    columns: options.Columns = None,
    scheme: options.Scheme = None,
    encoding: options.Encoding = None,
    rename: options.Rename = None,
    cost: Annotated[bool, typer.Option(help="With --config: estimate the time of training")] = True,
    cross_validate: Annotated[
        int | None, typer.Option(metavar="K", help="With --config: find annotation errors with K folds")
    ] = None,
    number: Annotated[int, options.number("With --cross-validate: places to list for each component")] = 20,
    as_json: options.AsJson = False,
    code: options.Code = None,
) -> None:
    """Examine a corpus before training: labels, errors, overlap with dev, features, cost.

    The report ends with what to fix: FAIL if training cannot work (exit code 1), warn if results will suffer. It lists
    every malformed line, not just the first.

    With --config, further options override its settings, as in 'fit': --paths.raw raw.txt.

    The cost is that of 'crfseq fit' on this machine without scoring on dev: two or three iterations run on all data,
    and their number is extrapolated from two samples.

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
    with training(ctx, config, code) as overrides:
        asked_for = Asked(format_, columns, scheme, encoding, rename)
        report = debug_data(file, dev, How(config, asked_for, cost, cross_validate, number, overrides))
        if as_json:
            print(json.dumps(report.as_json(), indent=2))
        else:
            print_report(report)
    if report.failed:
        raise typer.Exit(FAILED)


class How(NamedTuple):
    """Settings; see the help of the command."""

    config: Path | None = None
    layout: Format = None
    cost: bool = True
    folds: int | None = None
    number: int = 20
    overrides: dict[str, Any] | None = None


class Source(NamedTuple):
    """How a config reads a corpus: layout, whether invalid tags are errors, columns to learn, key of the chunks.

    nlp: The language and the tokenizer of the config.
    parts: What its readers take of the files for train and dev.
    is_cut: Whether it cuts dev from the training file.
    """

    layout: Preset | None = None
    strict: bool = False
    labels: tuple[str, ...] | None = None
    key: str = "chunks"
    nlp: Mapping[str, Any] = {"lang": "xx"}
    parts: tuple[str, str] = ("all", "all")
    is_cut: bool = False


def debug_data(file: Path, dev: Path | None = None, how: How | None = None) -> Report:
    """Examine a corpus.

    RAISES CrfError: If a file or config does not exist or the layout is unknown; errors in the files are in the report.
    """
    from ..pipeline.readers import part_of

    how = how or How()
    if how.folds is not None and how.config is None:
        raise ConfigError("--cross-validate trains the components of a config; give --config FILE.")
    source = _source(how.config, how.overrides) if how.config else Source()
    said = asked(how.layout)
    is_export = layout_by_ending(file) == ANNOTATIONS.name  # which readers of columns read, too
    layout = said.layout() or (None if is_export else said.encoded(source.layout))
    layout = layout or options.show_layout(file, said)
    of_dev = dev or (file if source.is_cut else None)
    files = {"train": file, **({"dev": of_dev} if of_dev else {})}
    parts, broken = {}, {}
    findings: list[Finding] = []
    for (name, path), part in zip(files.items(), source.parts, strict=False):
        check_corpus(path)
        broken[name] = Errors()
        notes = Notes()
        sentences = part_of(_sentences(path, layout, source, broken[name], notes), part, path)
        parts[name] = _count(sentences, layout, source)
        if name == "dev" and dev is None:  # a part of the training file, whose errors are known
            broken[name] = Errors()
        else:
            findings += [Finding("warn", text, tuple(places)) for text, places in notes.messages(path, KEPT)]
            findings += _of_errors(path, layout, broken[name])
            findings += _of_tokens(path, layout, source) if layout.form is not None and how.config is not None else []
        if parts[name].lengths:
            between = ", doc " if layout.name == DOCBIN else ":"
            where = lambda line, file: f"{file or path}{between}{line}" if line else str(path)  # noqa: B023, E731
            findings += findings_of(parts[name], where, strict=source.strict, trainable=name == "train")
        elif not broken[name].count:
            findings.append(Finding("fail", f"{path}: no sentence in the file{' for dev' * (dev is None)}."))
    if all(parts[name].lengths for name in files) and of_dev:
        findings += overlap_findings(parts["train"], parts["dev"])
    components: dict[str, Component] = {}
    expense = suspects = None
    if how.config and any(finding.severity == "fail" for finding in findings):
        findings.append(Finding("warn", f"{how.config}: features and cost were not examined; fix the failures first."))
    elif how.config:
        try:
            components, expense = look_at_config(how.config, how.overrides, file, dev, how.cost)
            findings += findings_of_components(components)
            if how.folds is not None:
                given, places = (how.config, how.overrides, file, dev), _places(file, layout, source)
                suspects = find_suspects(*given, how.folds, how.number, places)
        except CrfError as error:
            findings.append(Finding("fail", f"{how.config}: {error}"))
    return Report(layout, files, parts, broken, components, expense, findings, suspects)


def _count(sentences: Iterator[Sentence], layout: Preset, source: Source) -> Part:
    labels = LABELS if layout.form is None else LABELS[:1]  # whose columns are the same labels
    wanted = source.labels or tuple(name for name in labels if name in layout.columns)
    scheme = layout.scheme if layout.scheme != PLAIN else "IOB2"
    schemes = {name: scheme if name in SPANS else PLAIN for name in wanted}
    part = count(sentences, schemes)
    used = {name: column for name, column in part.columns.items() if column.labels}
    if source.labels is None and used:  # a layout may hold columns that this file lacks
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
            yield from read_annotations(path, tokenizer_of(nlp), notes, broken, encoding=layout.encoding)
        else:
            yield from read_layout(path, layout, broken)
    except FormatError as error:  # of the file as a whole
        broken(error)


def _places(path: Path, layout: Preset, source: Source) -> list[str]:
    """Return the file and line of each token of a file."""
    between = ", doc " if layout.name == DOCBIN else ":"
    sentences = _sentences(path, layout, source, Errors())
    return [f"{one.file or path}{between}{one.line_of(i)}" for one in sentences for i in range(len(one.words))]


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


def _of_tokens(path: Path, layout: Preset, source: Source) -> list[Finding]:
    """Warn if the tokenizer of the config makes other tokens of a text than the labelled ones in XML."""
    assert layout.form is not None
    nlp = util.load_model_from_config({"nlp": {**source.nlp, "pipeline": []}}, auto_fill=True)

    def differing(form: XMLForm, tokens_of: Callable[[str], list[str]]) -> list[str]:
        sentences = read_layout(path, layout._replace(form=form), lambda _: None)
        return [f"{one.file}:{one.line}" for one in sentences if tokens_of(one.text) != one.words]

    places = differing(layout.form, lambda text: [token.text for token in nlp.make_doc(text)])
    if not places:
        return []
    forms = [layout.form._replace(pattern=pattern) for pattern in (SPACES, WORDS, PARTED)]
    left = {form.pattern: len(differing(form, lambda text: form.check()(text)[0])) for form in forms}  # noqa: B023
    best = min(left, key=left.__getitem__)
    text = (
        f"{path}: of {len(places):,} sequences, the tokenizer makes other tokens than the labels have, so raw text "
        "will be labelled worse. "
    )
    advice = (
        "Correct labels that end inside a token, or give [nlp.tokenizer] and the readers a pattern that ends there."
    )
    if left[best] < len(places):
        advice = (
            f"Give [nlp.tokenizer] and the readers pattern = {json.dumps(best)}: {left[best]:,} sequences are left."
        )
    return [Finding("warn", text + advice, tuple(places[:KEPT]))]


def _source(config_path: Path, overrides: dict[str, Any] | None) -> Source:
    config = load_config(config_path, overrides or {}).interpolate()
    block = corpus_block(config, "train_corpus")
    labels, key = [], "chunks"
    for name in config.get("nlp", {}).get("pipeline", []):
        settings = config.get("components", {}).get(name, {})
        factory = settings.get("factory")
        if factory in COLUMN_OF:
            labels.append(settings.get("attr") or COLUMN_OF[factory])
        if factory == "crf_chunker":
            key = settings.get("spans_key", key)
    strict = block.get("on_invalid", "error") == "error" and "spacy_crfseq.ConllReader" in block.get("@readers", "")
    nlp = {name: value for name, value in config.get("nlp", {}).items() if name in ("lang", "tokenizer")}
    blocks = block, corpus_block(config, "dev_corpus")
    train, dev = (str(one.get("part", "all")) for one in blocks)
    is_cut = (train, dev) == ("train", "dev") and blocks[0].get("path") == blocks[1].get("path")
    return Source(reader_layout(block), strict, tuple(labels) or None, key, nlp, (train, dev), is_cut)
