"""``crfseq debug-data``: contents and errors of a corpus, and the cost of training on it.

Files are read to the end with all errors collected.  A config is set up as in `fit`; its features are examined template
by template, and its optimizers run on samples.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from ...cli.inputs import show_layout
from ...corpora import DOCBIN, SPAN_COLUMNS, Preset, guess, layouts
from ...corpora.guessing import end_alike
from ...corpora.layouts import Format
from ...corpora.paths import corpus_files
from ...corpora.spans import DOUBTFUL, Notes, without_scores
from ...corpora.splitting import PARTED, SPACES, WORDS
from ...corpora.xml import XMLForm
from ...errors import ConfigError, CrfError, count_of
from .corpus import KEPT, PLAIN, CorpusCounts, Finding, Unreadable, count, findings_of, overlap_findings
from .cost import Expense
from .features import Component, aside, look_at_config, set_up_on
from .label_errors import Suspects, find_suspects, tokens_of_file
from .reading import CorpusReading, place_of, reading_of, sentences_of

LABELS = ("tag", "pos", "chunk", "ent")
"""Columns with labels, if no config names those to learn."""


@dataclass(frozen=True)
class Report:
    """All findings.

    files, parts, errors: By the names "train" and "dev": the file, its counts, and the lines that cannot be read.
    components, expense: Of the components of a config, and the cost of their training.
    suspects: Likely annotation errors by models that were trained on other folds.
    source_suspects: Those of a file .spacy by the spans of sources in it.
    """

    layout: Preset
    files: Mapping[str, Path]
    parts: Mapping[str, CorpusCounts]
    errors: Mapping[str, Unreadable]
    findings: Sequence[Finding]
    components: Mapping[str, Component] = field(default_factory=dict)
    expense: Expense | None = None
    suspects: Suspects | None = None
    source_suspects: Suspects | None = None

    @property
    def failed(self) -> bool:
        """Whether training cannot work."""
        return any(finding.severity == "fail" for finding in self.findings)

    def with_findings(self, findings: Sequence[Finding]) -> Report:
        """Return the report with further findings."""
        return replace(self, findings=[*self.findings, *findings])

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
            "source_errors": self.source_suspects and self.source_suspects.as_json(),
            "findings": [finding._asdict() for finding in self.findings],
            "ok": not self.failed,
        }


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

    file, dev (Path): The training and the development file; without the latter, that of the config if it is another.
    config_path (Path | None): A config, to examine its features.
    layout (str | Asked | None): Layout of the files, if their ending or first lines do not tell.
    cost (bool): With a config, estimate the time of training.
    cross_validate (int | None): With a config, the number of folds to find annotation errors with.
    number (int): Number of likely errors to return for each component, and of those that sources show.
    overrides (dict | None): Of the config.
    RAISES CrfError: If a file or config does not exist or the layout is unknown; errors in the files are in the report.
    """
    if cross_validate is not None and config_path is None:
        raise ConfigError("--cross-validate trains the components of a config; give --config FILE.")
    if cross_validate is not None:
        from ...training.dataset import check_folds

        check_folds(cross_validate)
    reading = reading_of(config_path, overrides or {}) if config_path else CorpusReading()
    preset, unread = _layout_of(file, layout, reading.layout), list[Finding]()
    if dev is None and reading.dev is not None:
        dev, unread = _dev_of_config(reading.dev, file, config_path)
    of_dev = dev or (file if reading.is_cut else None)
    files = {"train": file, **({"dev": of_dev} if of_dev else {})}
    presets = {"train": preset, "dev": preset if dev is None else _layout_of_dev(dev, file, preset, layout, reading)}
    report = _look_at_files(files, presets, reading, is_cut=dev is None, has_tokenizer=config_path is not None)
    report = report.with_findings(unread)
    if preset.name == DOCBIN and not report.errors["train"].count:
        from .source_errors import find_source_suspects  # no command needs features to start

        report = replace(report, source_suspects=find_source_suspects(file, number))
    if config_path is None:
        return report
    if report.failed:
        text = f"{config_path}: features and cost were not examined; fix the failures first."
        return report.with_findings([Finding("warn", text)])
    findings: list[Finding] = []
    components, expense, suspects = dict[str, Component](), None, None
    try:
        with aside():
            components, expense = look_at_config(set_up_on(config_path, overrides or {}, file, dev), cost)
            findings += [finding for name, component in components.items() for finding in component.findings(name)]
            if cross_validate is not None:
                setup = set_up_on(config_path, overrides or {}, file, dev)
                suspects = find_suspects(setup, cross_validate, number, tokens_of_file(file, preset, reading))
    except CrfError as error:
        findings.append(Finding("fail", f"{config_path}: {error}"))
    return replace(report.with_findings(findings), components=components, expense=expense, suspects=suspects)


def _dev_of_config(dev: Path, file: Path, config_path: Path | None) -> tuple[Path | None, list[Finding]]:
    """Return the dev corpus of a config to compare a file with; None, and why, if it is not there or has the file."""
    try:
        files = {path.resolve() for path in corpus_files(dev)}
    except CrfError as error:
        return None, [Finding("warn", f"The dev corpus of {config_path} was not read: {error}")]
    if files.isdisjoint(path.resolve() for path in corpus_files(file)):
        return dev, []
    return None, [Finding("good", f"{file} is in the dev corpus of {config_path}, so it was not compared with that.")]


def _layout_of(file: Path, layout: Format, configured: Preset | None) -> Preset:
    """Return the layout of a file: the given one, that of the config, or a guess, which is shown."""
    asked = layouts.asked(layout)
    if configured is not None and configured.skip_invalid:
        asked = asked._replace(skip_invalid=True)
    ending = layouts.layout_by_ending(corpus_files(file)[0])
    has_spans = ending in layouts.SPAN_LAYOUTS and (configured is None or configured.spans is None)
    # which readers of columns read, too
    return asked.layout() or (None if has_spans else asked.encoded(configured)) or show_layout(file, asked)


def _layout_of_dev(dev: Path, train: Path, of_train: Preset, layout: Format, reading: CorpusReading) -> Preset:
    """Return the layout of development data: that of the config, or of the training data where the files end alike."""
    configured = reading.dev_layout
    if configured is not None:
        own = _layout_of(dev, layout, configured)
        is_ruled = own.spans is not None and configured.spans is not None
        return own._replace(spans=configured.spans) if is_ruled else own.complete
    return (of_train if end_alike(train, dev) else _layout_of(dev, layout, None)).complete


def _look_at_files(
    files: Mapping[str, Path],
    presets: Mapping[str, Preset],
    reading: CorpusReading,
    *,
    is_cut: bool,
    has_tokenizer: bool,
) -> Report:
    """Return a report on files.

    presets: The layout of each.
    is_cut: Whether dev is a part of the training file, whose errors are in the report already.
    has_tokenizer: Whether the tokenizer is that of a config.
    """
    parts, errors, findings = dict[str, CorpusCounts](), dict[str, Unreadable](), list[Finding]()
    for (name, path), part, weight in zip(files.items(), reading.parts, reading.weights, strict=False):
        layout = presets[name]
        parts[name], errors[name], of_file = _look_at_file(path, layout, reading, part, weight)
        if name == "dev" and is_cut:
            errors[name] = Unreadable()
        else:
            findings += of_file
            findings += _of_tokens(path, layout, reading) if layout.form is not None and has_tokenizer else []
        if parts[name].lengths:
            findings += findings_of(parts[name], strict=reading.strict, trainable=name == "train")
        elif not errors[name].count:
            findings.append(Finding("fail", f"{path}: no sentence in the file{' for dev' * is_cut}."))
    if "dev" in parts and all(part.lengths for part in parts.values()):
        findings += overlap_findings(parts["train"], parts["dev"])
    return Report(presets["train"], files, parts, errors, findings)


def _look_at_file(
    path: Path, layout: Preset, reading: CorpusReading, part: str, weight: float
) -> tuple[CorpusCounts, Unreadable, list[Finding]]:
    """Return the counts of a part of a file, its errors, and the findings on what cannot be read."""
    from ...pipeline.corpus_reader import part_of

    corpus_files(path)
    errors, notes = Unreadable(), dict[Path, Notes]()
    columns = LABELS if layout.form is None else LABELS[:1]  # whose columns are the same labels
    wanted = reading.labels or tuple(name for name in columns if name in layout.columns)
    scheme = layout.scheme if layout.scheme != PLAIN else "IOB2"
    schemes = {name: scheme if name in SPAN_COLUMNS else PLAIN for name in wanted}
    sentences = part_of(sentences_of(path, layout, reading, errors, notes), part, path)
    counts = count(sentences, schemes, partial(place_of, path, layout), weight)
    if not reading.labels:  # a layout may hold columns that this file lacks
        counts = counts.without_empty_columns()
    messages = [message for file, own in notes.items() for message in own.messages(file, KEPT)]
    findings = [Finding("warn", text, tuple(places)) for text, places in messages]
    if layout.spans is not None:
        if wrong := without_scores(path, layout.spans.min_score, notes.values()):
            findings.append(Finding("fail", str(wrong)))
        scored = [(file, own) for file, own in notes.items() if own.n_scored and not layout.spans.min_score]
        findings += [_of_scores(file, own) for file, own in scored]
    return counts, errors, findings + _of_errors(path, layout, errors, is_empty=not counts.lengths)


def _of_scores(path: Path, notes: Notes) -> Finding:
    """Return a description of the scores of spans in a file that is read without a least score."""
    text = f"{path}: {count_of(notes.n_scored, 'span')} with a score from {notes.lowest:g} to {notes.highest:g}"
    if notes.lowest < 0 or notes.highest > 1:
        return Finding("warn", f"{text}. These are no probabilities: --min-score needs scores from 0 to 1.")
    text += f", {notes.n_doubtful:,} of them below {DOUBTFUL:g}."
    if not notes.n_doubtful:
        return Finding("good", text)
    advice = f"Without min_score, all are certain: give --min-score {DOUBTFUL:g}, in a config min_score = {DOUBTFUL:g}."
    return Finding("warn", f"{text} {advice}")


def _of_errors(path: Path, layout: Preset, errors: Unreadable, *, is_empty: bool) -> list[Finding]:
    if not errors.count:
        return []
    text = f"{path}: {errors.count:,} lines cannot be read, listed above." if errors.count > 1 else errors.first[0]
    if layout.skip_invalid and not errors.n_ends:
        if is_empty:
            return [Finding("fail", f"{text} Without what cannot be read, no annotated text is left.")]
        return [Finding("warn", f"{text} What cannot be read is left out (skip_invalid).")]
    seems = guess(path) if layout.name != DOCBIN else None
    alike = seems is None or (seems.name, len(seems.columns)) == (layout.name, len(layout.columns))
    if seems is not None and errors.count > 1 and not alike:
        read, like = layouts.as_options(layout), layouts.as_options(seems)
        text += f" It was read as {read}, but looks like {like} ({' '.join(seems.columns)})."
    return [Finding("fail", text)]


def _of_tokens(path: Path, layout: Preset, reading: CorpusReading) -> list[Finding]:
    """Warn if the tokenizer of the config makes other tokens of a text than the labelled ones in XML."""
    assert layout.form is not None
    nlp = reading.blank()

    def differing(form: XMLForm, tokens_of: Callable[[str], list[str]]) -> list[str]:
        sentences = layouts.read_layout(path, layout._replace(form=form), lambda _: None)
        return [
            place_of(path, layout, sentence, 0) for sentence in sentences if tokens_of(sentence.text) != sentence.words
        ]

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
