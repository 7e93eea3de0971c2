"""``crfseq debug-data``: contents and errors of a corpus, and the cost of training on it.

Files are read to the end with all errors collected.  A config is set up as in `fit`; its features are examined template
by template, and its optimizers run on samples.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from spacy import util

from ...cli import options
from ...corpora import DOCBIN, SPAN_COLUMNS, Preset, Sentence, guess, layouts
from ...corpora.annotations import Notes, read_annotations
from ...corpora.layouts import Format
from ...corpora.splitting import PARTED, SPACES, WORDS
from ...corpora.xml import XMLForm, check_corpus
from ...errors import ConfigError, CrfError, DataError, FormatError
from ...pipeline.project import load_config
from ...pipeline.texts import load_docs
from ...schemes import encode
from .corpus import KEPT, PLAIN, CorpusCounts, Finding, Places, count, findings_of, overlap_findings
from .features import Component, Expense, aside, look_at_config, set_up_on
from .label_errors import Suspects, TokensOfFile, find_suspects

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc

LABELS = ("tag", "pos", "chunk", "ent")
"""Columns with labels, if no config names those to learn."""
COLUMN_OF = {"crf_tagger": "tag", "crf_chunker": "chunk", "crf_ner": "ent"}
"""The column that components of a factory learn by default."""
ERRORS = 10
"""Errors of a file that are shown."""
LABEL_ROWS = 50
CORPUS_ROWS = (
    "sequences", "tokens", "distinct words", "tokens of a sentence, median", "95 % have at most", "longest",
    "repeated sentences",
)  # fmt: skip
TEMPLATE = 32
"""Characters of a template's name, so that the table fits into a terminal."""
MARKS = {"good": "ok  ", "warn": "warn", "fail": "FAIL"}
"""Plain marks for output that is not a terminal."""


@dataclass
class Report:
    """All findings; `parts` and `errors` of each of the files."""

    layout: Preset
    files: dict[str, Path]
    parts: dict[str, CorpusCounts] = field(default_factory=dict)
    errors: dict[str, Places] = field(default_factory=dict)
    components: dict[str, Component] = field(default_factory=dict)
    expense: Expense | None = None
    findings: list[Finding] = field(default_factory=list)
    suspects: Suspects | None = None

    @property
    def failed(self) -> bool:
        """Whether training cannot work."""
        return any(finding.severity == "fail" for finding in self.findings)

    def as_json(self) -> dict[str, Any]:
        """Return the report as values for JSON."""
        return {
            "layout": {"name": self.layout.name, "columns": self.layout.columns, "scheme": self.layout.scheme},
            "files": {name: str(path) for name, path in self.files.items()},
            "parts": {name: part.as_json() for name, part in self.parts.items()},
            "errors": {name: vars(errors) for name, errors in self.errors.items()},
            "components": {name: component.as_json() for name, component in self.components.items()},
            "cost": self.expense and self.expense._asdict(),
            "label_errors": self.suspects and self.suspects.as_json(),
            "findings": [finding._asdict() for finding in self.findings],
            "ok": not self.failed,
        }


class CorpusReading(NamedTuple):
    """How a config reads a corpus: layout, whether invalid tags are errors, columns to learn, key of the chunks.

    nlp: The language and the tokenizer of the config.
    parts: What its readers take of the files for train and dev.
    is_cut: Whether it cuts dev from the training file.
    """

    layout: Preset | None = None
    strict: bool = False
    labels: tuple[str, ...] = ()
    key: str = "chunks"
    nlp: Mapping[str, Any] = {"lang": "xx"}
    parts: tuple[str, str] = ("all", "all")
    is_cut: bool = False

    def blank(self) -> Language:
        """Return the language and the tokenizer of the config as a pipeline."""
        return util.load_model_from_config({"nlp": {**self.nlp, "pipeline": []}}, auto_fill=True)


def debug_data(
    file: Path,
    dev: Path | None = None,
    config_path: Path | None = None,
    layout: Format = None,
    cost: bool = True,
    cross_validate: int | None = None,
    number: int = 20,
    *,
    overrides: dict[str, Any] | None = None,
) -> Report:
    """Examine a corpus.

    RAISES CrfError: If a file or config does not exist or the layout is unknown; errors in the files are in the report.
    """
    if cross_validate is not None and config_path is None:
        raise ConfigError("--cross-validate trains the components of a config; give --config FILE.")
    source = _source(config_path, overrides or {}) if config_path else CorpusReading()
    said = layouts.asked(layout)
    is_export = layouts.layout_by_ending(file) == layouts.ANNOTATIONS.name  # which readers of columns read, too
    preset = said.layout() or (None if is_export else said.encoded(source.layout)) or options.show_layout(file, said)
    of_dev = dev or (file if source.is_cut else None)
    report = Report(preset, {"train": file, **({"dev": of_dev} if of_dev else {})})
    findings = report.findings
    for (name, path), part in zip(report.files.items(), source.parts, strict=False):
        counts, errors, of_file = _look_at_file(path, preset, source, part)
        if name == "dev" and dev is None:  # a part of the training file, whose errors are in the report
            errors = Places()
        else:
            findings += of_file
            findings += _of_tokens(path, preset, source) if preset.form is not None and config_path is not None else []
        report.parts[name], report.errors[name] = counts, errors
        if counts.lengths:
            findings += findings_of(counts, strict=source.strict, trainable=name == "train")
        elif not errors.count:
            findings.append(Finding("fail", f"{path}: no sentence in the file{' for dev' * (dev is None)}."))
    if all(report.parts[name].lengths for name in report.files) and of_dev:
        findings += overlap_findings(report.parts["train"], report.parts["dev"])
    if config_path is None:
        return report
    if report.failed:
        text = f"{config_path}: features and cost were not examined; fix the failures first."
        findings.append(Finding("warn", text))
        return report
    try:
        with aside():
            setup = set_up_on(config_path, overrides or {}, file, dev)
            report.components, report.expense = look_at_config(setup, cost)
            findings += [one for name, component in report.components.items() for one in component.findings(name)]
            if cross_validate is not None:
                setup = set_up_on(config_path, overrides or {}, file, dev)
                report.suspects = find_suspects(setup, cross_validate, number, _tokens_of(file, preset, source))
    except CrfError as error:
        findings.append(Finding("fail", f"{config_path}: {error}"))
    return report


def _look_at_file(
    path: Path, layout: Preset, source: CorpusReading, part: str
) -> tuple[CorpusCounts, Places, list[Finding]]:
    """Return what a part of a file holds, its errors, and the findings on what cannot be read."""
    from ...pipeline.readers import part_of

    check_corpus(path)
    errors, notes = Places(), Notes()
    columns = LABELS if layout.form is None else LABELS[:1]  # whose columns are the same labels
    wanted = source.labels or tuple(name for name in columns if name in layout.columns)
    scheme = layout.scheme if layout.scheme != PLAIN else "IOB2"
    schemes = {name: scheme if name in SPAN_COLUMNS else PLAIN for name in wanted}
    sentences = part_of(_sentences(path, layout, source, errors, notes), part, path)
    counts = count(sentences, schemes, partial(_place_of, path, layout))
    used = {name: column for name, column in counts.columns.items() if column.labels or column.unreadable.count}
    if not source.labels and used:  # a layout may hold columns that this file lacks
        counts.columns = used
    findings = [Finding("warn", text, tuple(places)) for text, places in notes.messages(path, KEPT)]
    return counts, errors, findings + _of_errors(path, layout, errors)


def _place_of(path: Path, layout: Preset, sentence: Sentence, token: int) -> str:
    between, line = ", doc " if layout.name == DOCBIN else ":", sentence.line_of(token)
    return f"{sentence.file or path}{between}{line}" if line else str(path)


def _sentences(
    path: Path, layout: Preset, source: CorpusReading, errors: Places, notes: Notes | None = None
) -> Iterator[Sentence]:
    def note(error: CrfError) -> None:
        errors.add(str(error))

    try:
        if layout.name == DOCBIN:
            yield from _of_docs(path, source.key, note)
        elif layout.name == layouts.ANNOTATIONS.name:
            from ...pipeline.readers import tokenizer_of

            yield from read_annotations(path, tokenizer_of(source.blank()), notes, note, encoding=layout.encoding)
        else:
            yield from layouts.read_layout(path, layout, note)
    except FormatError as error:  # of the file as a whole
        note(error)


def _tokens_of(path: Path, layout: Preset, source: CorpusReading) -> TokensOfFile:
    """Return the words of a file with their places."""
    words, places = list[str](), list[str]()
    for sentence in _sentences(path, layout, source, Places()):
        words += sentence.words
        places += [_place_of(path, layout, sentence, i) for i in range(len(sentence.words))]
    return TokensOfFile(words, places, str(path))


def _of_docs(path: Path, key: str, note: Callable[[CrfError], None]) -> Iterator[Sentence]:
    from spacy.vocab import Vocab

    for number, doc in enumerate(load_docs(path, Vocab()), start=1):
        try:
            columns = _columns_of(doc, key)
        except DataError as error:
            note(FormatError(path, 0, f"doc {number}: {error}"))
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


def _of_errors(path: Path, layout: Preset, errors: Places) -> list[Finding]:
    if not errors.count:
        return []
    text = f"{path}: {errors.count:,} lines cannot be read, listed above." if errors.count > 1 else errors.first[0]
    seems = guess(path) if layout.name != DOCBIN else None
    alike = seems is None or (seems.name, len(seems.columns)) == (layout.name, len(layout.columns))
    if seems is not None and errors.count > 1 and not alike:
        read, like = layouts.as_options(layout), layouts.as_options(seems)
        text += f" It was read as {read}, but looks like {like} ({' '.join(seems.columns)})."
    return [Finding("fail", text)]


def _of_tokens(path: Path, layout: Preset, source: CorpusReading) -> list[Finding]:
    """Warn if the tokenizer of the config makes other tokens of a text than the labelled ones in XML."""
    assert layout.form is not None
    nlp = source.blank()

    def differing(form: XMLForm, tokens_of: Callable[[str], list[str]]) -> list[str]:
        sentences = layouts.read_layout(path, layout._replace(form=form), lambda _: None)
        return [_place_of(path, layout, one, 0) for one in sentences if tokens_of(one.text) != one.words]

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


def _source(config_path: Path, overrides: dict[str, Any]) -> CorpusReading:
    config = load_config(config_path, overrides).interpolate()
    block, dev_block = layouts.corpus_block(config, "train_corpus"), layouts.corpus_block(config, "dev_corpus")
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
    parts = str(block.get("part", "all")), str(dev_block.get("part", "all"))
    is_cut = parts == ("train", "dev") and block.get("path") == dev_block.get("path")
    return CorpusReading(layouts.reader_layout(block), strict, tuple(labels), key, nlp, parts, is_cut)
