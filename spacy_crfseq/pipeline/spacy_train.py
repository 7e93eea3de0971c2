"""What a config of ``spacy train`` names beside components and corpora.

A logger, a batcher for batch optimizers, scorers and the model card.  A sequence is a sentence, or a whole Doc without
sentence starts; it is right if all its tokens with known gold annotation are, and does not count if it has none.

The logger shows the progress of a CRF: objective, gradient, active features.  Its columns follow those of spaCy's
ConsoleLogger; on a terminal, live curves appear below the table.  Its file has the form of the log of ``crfseq fit``.
(No deferred annotations here: spaCy validates a config with the evaluated annotations.)
"""

import dataclasses
import json
import math
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from io import StringIO
from pathlib import Path
from time import monotonic, perf_counter
from typing import IO, Any, TypeVar

import numpy as np
from spacy import util
from spacy.attrs import ENT_IOB, ENT_TYPE, IDS
from spacy.language import Language
from spacy.scorer import MISSING_VALUES, Scorer, get_ner_prf
from spacy.tokens import Doc
from spacy.training import Example
from tqdm import tqdm

from ..errors import ConfigError, DataError
from ..prf import SEQUENCES, finite
from ..types import StepReport

Item = TypeVar("Item")
LogStep = Callable[[dict[str, Any] | None], None]
CONSOLE = "spacy.ConsoleLogger.v3"


def create_logger(path: str | None = None, curve: bool = True) -> Callable[..., tuple[LogStep, Callable[[], None]]]:
    """Create a logger for spaCy (registered as ``spacy_crfseq.Logger.v1``).

    path (str | None): File for one JSON object per component and evaluation, as in the log of ``crfseq fit``.  An
        existing file is replaced.
    curve (bool): Draw curves below the table, on a terminal.
    RAISES ConfigError: If the path is a folder, or the file cannot be written.
    """
    if path is not None and Path(path).is_dir():
        raise ConfigError(f"[training.logger] path = {path!r} is a folder. Give a file, such as log.jsonl.")

    def set_up(
        nlp: Language, stdout: IO[str] = sys.stdout, stderr: IO[str] = sys.stderr
    ) -> tuple[LogStep, Callable[[], None]]:
        logger = Logger(nlp, stdout, stderr, path, curve)
        return logger.step, logger.close

    return set_up


class Logger:
    """Logs one training run of the trained components of a pipeline."""

    def __init__(self, nlp: Language, stdout: IO[str], stderr: IO[str], path: str | None, curve: bool) -> None:
        from .component import CRFComponent

        self._stdout = stdout
        self._pipes = {name: pipe for name, pipe in nlp.pipeline if isinstance(pipe, CRFComponent)}
        self._spacy = StringIO()
        make = util.registry.get("loggers", CONSOLE)
        self._log_step, self._finalize = make(progress_bar=None)(nlp, self._spacy, stderr)
        self._alone = next(iter(self._pipes.values())) if len(self._pipes) == 1 else None
        self._curve = LiveCurve(stderr if curve else StringIO())
        self._file = self._open(path)
        self._began = perf_counter()
        own = [] if self._alone is None else [(name, 11) for name in _figures(self._alone, None, 0)]
        self._columns = [*own, ("seconds", 8)]  # several components get one line each instead
        head, line = self._spoken()
        self._write(head, [name.upper() for name, _ in self._columns])
        self._write(line, ["-" * width for _, width in self._columns])

    def step(self, info: dict[str, Any] | None) -> None:
        """Log a step of spaCy's training loop; `info` is None if it was not evaluated."""
        if info is None:
            self._draw(None)
            return
        seconds = perf_counter() - self._began
        reports = {name: pipe.training.figures(restart=True) for name, pipe in self._pipes.items()}
        active = {name: pipe.doc_model.n_active for name, pipe in self._pipes.items()}
        self._log_step(info)
        self._curve.hide()
        shown = {name: _figures(pipe, reports[name], active[name]) for name, pipe in self._pipes.items()}
        own = [] if self._alone is None else shown[self._alone.name].values()
        for line in self._spoken():
            self._write(line, [*own, f"{seconds:.2f}"])
        if self._alone is None:
            for name, figures in shown.items():
                words = "  ".join(f"{key} {value}" for key, value in figures.items())
                print(f"{'':11}  {name}  {words}", file=self._stdout, flush=True)
        best = info["score"] == max(info["checkpoints"])[0]
        for name, report in reports.items():
            if report is not None and self._file is not None:
                score = info["other_scores"].get(self._pipes[name].annotation.score_name)
                self._file.write(log_line(name, info["step"] + 1, seconds, report, active[name], score, best))
                self._file.flush()
        self._draw(info["score"])

    def close(self) -> None:
        """Remove the curves and close the file."""
        self._curve.hide()
        self._finalize()
        if self._file is not None:
            self._file.close()

    def _open(self, path: str | None) -> IO[str] | None:
        if path is None:
            return None
        try:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            return Path(path).open("w", encoding="utf8")
        except OSError as error:
            raise ConfigError(f"[training.logger] path = {path!r} cannot be written ({error.strerror}).") from error

    def _spoken(self) -> list[str]:
        """Return the lines that spaCy's logger has written since the last call."""
        lines = self._spacy.getvalue().splitlines()
        self._spacy.seek(0)
        self._spacy.truncate()
        return lines

    def _write(self, line: str, cells: list[str]) -> None:
        filled = [f"{cell:>{width}}" for cell, (_, width) in zip(cells, self._columns, strict=True)]
        print("  ".join([line, *filled]), file=self._stdout, flush=True)

    def _draw(self, score: float | None) -> None:
        if not self._curve.live:
            return
        for name, pipe in self._pipes.items():
            report = pipe.training.figures()
            if report is not None and math.isfinite(report.value):
                self._curve.add(f"{name} objective", report.value, log=True)
        if score is not None:
            self._curve.add("score", 100 * score)
        self._curve.show("")


def _figures(pipe: Any, report: StepReport | None, active: int) -> dict[str, str]:
    """Return the figures of a component; online methods do not compute the gradient of the objective."""
    figures = {"objective": "-" if report is None else f"{report.value:.2f}"}
    if not pipe.method.optimizer.online:
        figures["|gradient|"] = "-" if report is None else f"{report.grad_norm:.4g}"
    return {**figures, "active": str(active)}


def log_line(
    component: str,
    iteration: int,
    seconds: float,
    report: StepReport,
    active: int | None,
    score: float | None,
    best: bool,
) -> str:
    """Return the line of an iteration, counted from 1; `best` marks the best model so far."""
    entry = {
        "component": component,
        "iteration": iteration,
        "seconds": round(seconds, 4),
        "objective": finite(report.value),
        "loss": finite(report.loss),
        "grad_norm": finite(report.grad_norm),
        "active": active,
        "score": None if score is None else finite(score),
        "best": bool(best),
    }
    return json.dumps(entry, allow_nan=False) + "\n"


def create_full_batch() -> Callable[[Iterable[Item]], Iterator[list[Item]]]:
    """Return a batcher that yields all items as one batch (``spacy_crfseq.full_batch.v1``)."""
    return full_batch


def full_batch(items: Iterable[Item]) -> Iterator[list[Item]]:
    """Yield all items as one batch.  RAISES DataError: If there are none, where spaCy would wait forever."""
    batch = list(items)
    if not batch:
        raise DataError(
            "spacy_crfseq.full_batch.v1 got no examples: the training corpus is empty. "
            "Check [corpora.train] and --paths.train."
        )
    yield batch


# Curves in one line of a terminal, updated while a model is trained; nothing is shown in piped output

BLOCKS, ASCII = "▁▂▃▄▅▆▇█", "_.-~=+*#"
WIDEST, NARROWEST = 32, 6
PAUSE = 0.1
"""Seconds between two updates, so that they cost almost nothing."""


def sparkline(values: Sequence[float], width: int, *, log: bool = False, levels: str = BLOCKS) -> str:
    """Return a curve of at most `width` characters; of values that share a character, the last counts.

    log (bool): Use logarithmic heights if all values are positive.
    levels (str): Characters from the lowest to the highest.
    """
    n = len(values)
    chosen = [values[(i + 1) * n // width - 1] for i in range(width)] if n > width else list(values)
    heights = [value if math.isfinite(value) else math.nan for value in chosen]
    numbers = [height for height in heights if not math.isnan(height)]
    if not numbers:
        return ""
    if log and min(numbers) > 0:
        heights, numbers = [math.log(height) for height in heights], [math.log(height) for height in numbers]
    low, span, top = min(numbers), max(numbers) - min(numbers), len(levels) - 1
    return "".join(
        " " if math.isnan(height) else levels[round(top * (height - low) / span) if span else 0] for height in heights
    )


class LiveCurve:
    """Curves of an objective and a score at the bottom of a terminal.

    stream (IO): Stream to draw on.
    live (bool): Whether it is a terminal; else nothing is drawn or stored.
    """

    def __init__(self, stream: IO[str]) -> None:
        self._stream, self.live = stream, stream.isatty()
        try:
            BLOCKS.encode(getattr(stream, "encoding", None) or "ascii")
            self._levels = BLOCKS
        except (UnicodeEncodeError, LookupError):
            self._levels = ASCII
        self._curves: dict[str, tuple[list[float], bool]] = {}
        self._bar: Any = None
        self._drawn = 0.0

    def add(self, name: str, value: float, *, log: bool = False) -> None:
        """Add a point to a curve."""
        if self.live:
            self._curves.setdefault(name, ([], log))[0].append(value)

    def show(self, title: str) -> None:
        """Draw the curves, unless they were drawn a moment ago."""
        now = monotonic()
        if not self.live or (self._bar is not None and now - self._drawn < PAUSE):
            return
        if self._bar is None:
            self._bar = tqdm(leave=False, file=self._stream, bar_format="{desc}")
        self._bar.set_description_str(self._text(title))
        self._drawn = now

    def hide(self) -> None:
        """Remove the curves, so that something else can be printed."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def _text(self, title: str) -> str:
        """Return all curves after their last values, limited to the width of the terminal; the values always fit."""
        ends = [(name, points, log, f"{points[-1]:,.4g}") for name, (points, log) in self._curves.items() if points]
        words = len(title) + sum(len(name) + len(end) + 4 for name, _, _, end in ends)
        room = (shutil.get_terminal_size().columns - words - 1) // max(1, len(ends))
        if room < NARROWEST:
            return "  ".join([title, *(f"{name} {end}" for name, _, _, end in ends)]).strip()
        parts = [f"{name} {end} {sparkline(points, min(WIDEST, room), log=log, levels=self._levels)}"
                 for name, points, log, end in ends]  # fmt: skip
        return "  ".join([title, *parts]).strip()


# Scorers of the components: spaCy's own `Scorer`, and the accuracy of whole sequences


def create_tagger_scorer() -> Callable[..., dict[str, Any]]:
    """Return the tagger's scorer (registered as ``spacy_crfseq.tagger_scorer.v1``)."""
    return tagger_score


def create_chunker_scorer() -> Callable[..., dict[str, Any]]:
    """Return the chunker's scorer (registered as ``spacy_crfseq.chunker_scorer.v1``)."""
    return chunker_score


def create_ner_scorer() -> Callable[..., dict[str, Any]]:
    """Return the entity recognizer's scorer (registered as ``spacy_crfseq.ner_scorer.v1``)."""
    return ner_score


def tagger_score(examples: Iterable[Example], *, attr: str = "tag", **kwargs: Any) -> dict[str, Any]:
    """Return the accuracy ``{attr}_acc`` of the token attribute `attr`, and that of sequences.

    White space does not count: spaCy would take that of gold Docs for words that are not predicted.
    """
    examples, missing = list(examples), {*kwargs.get("missing_values", MISSING_VALUES), None}

    def value(token: Any, name: str) -> Any:
        return None if token.is_space else token.morph.key if name == "morph" else getattr(token, name)

    scores: dict[str, Any] = Scorer.score_token_attr(examples, attr, getter=value, missing_values=missing)
    return {**scores, f"{attr}_{SEQUENCES}": _of_sequences(examples, lambda doc: doc.to_array([IDS[attr.upper()]]))}


def ner_score(examples: Iterable[Example], **kwargs: Any) -> dict[str, Any]:
    """Return precision, recall and F1 of the entities, as ``ents_f``, and the accuracy of sequences."""
    examples, attributes = list(examples), [ENT_IOB, ENT_TYPE]
    scores: dict[str, Any] = get_ner_prf(examples, **kwargs)
    return {**scores, f"ents_{SEQUENCES}": _of_sequences(examples, lambda doc: doc.to_array(attributes))}


def chunker_score(examples: Iterable[Example], *, spans_key: str = "chunks", **kwargs: Any) -> dict[str, Any]:
    """Return precision, recall and F1 of ``doc.spans[spans_key]``, as ``spans_{spans_key}_f``, and of sequences."""
    prefix, examples = "spans_", list(examples)

    def spans_of(doc: Doc, key: str) -> Any:
        return doc.spans.get(key[len(prefix) :], [])

    def labels(doc: Doc) -> Any:
        table = np.zeros((len(doc), 2), np.uint64)
        table[:, 0] = 2 if spans_key in doc.spans else 0  # as ENT_IOB: outside, or unknown
        for span in doc.spans.get(spans_key, []):
            table[span.start : span.end] = 1, span.label
            table[span.start, 0] = 3
        return table

    scores: dict[str, Any] = Scorer.score_spans(
        examples,
        attr=f"{prefix}{spans_key}",
        getter=spans_of,
        has_annotation=lambda doc: spans_key in doc.spans,
        labeled=True,
        allow_overlap=False,
    )
    return {**scores, f"{prefix}{spans_key}_{SEQUENCES}": _of_sequences(examples, labels)}


def _of_sequences(examples: Iterable[Example], labels: Callable[[Doc], Any]) -> float | None:
    """Return the share of sequences without an error; None if none is annotated, or tokens differ.

    labels: Function from a Doc to values [T, n] of its tokens, the first of which is 0 where they are unknown.
    """
    right = total = 0
    for example in examples:
        n_tokens = len(example.reference)
        if n_tokens != len(example.predicted):
            return None
        if not n_tokens:
            continue
        gold, predicted = (labels(doc).reshape(n_tokens, -1) for doc in (example.reference, example.predicted))
        starts = [token.i for token in example.reference if token.i == 0 or token.is_sent_start]
        known = gold[:, 0] != 0
        wrong = known & (gold != predicted).any(1)
        known, wrong = (np.logical_or.reduceat(tokens, starts) for tokens in (known, wrong))
        total, right = total + int(known.sum()), right + int((known & ~wrong).sum())
    return right / total if total else None


def scores_alone(nlp: Language, known: Mapping[str, dict[str, Any] | None]) -> dict[str, Any] | None:
    """Return the scores of a pipeline of one component from those by `Evaluator.scores`, None if they are not known.

    Where there are others, a component may see what they write, which `Evaluator` does not.
    """
    (name, pipe), *others = nlp.pipeline
    scores_ = known.get(name) if getattr(pipe, "scorer", None) in (tagger_score, ner_score, chunker_score) else None
    if scores_ is None or others:
        return None
    of_tokens = hasattr(nlp.tokenizer, "score")
    return {name: value for name, value in scores_.items() if of_tokens or not name.startswith("token_")}


# The model card: the description and notes in a pipeline's meta, which ``spacy package`` shows in a README

HEADING = "### How it works"
"""The first line of generated notes, which may be replaced."""
TASKS = {"crf_tagger": "tags", "crf_chunker": "chunks", "crf_ner": "named entities"}


def create_model_card(
    description: str = "", author: str = "", email: str = "", url: str = "", license: str = "",
    sources: list[dict[str, str]] | None = None,
) -> Callable[[Language], Language]:  # fmt: skip
    """Return a callback that fills a pipeline's model card (registered as ``spacy_crfseq.ModelCard.v1``).

    Use it for ``[training.before_to_disk]``.  ``crfseq fit`` and the other training commands always write the notes.
    Empty settings leave the meta unchanged.

    description (str): One sentence about the pipeline.
    author, email, url (str): Author and address of the pipeline.
    license (str): Licence, such as "MIT".
    sources (list[dict[str, str]] | None): Corpora and other data, each with "name", "url", "license" and "author".
    """
    given = {"description": description, "author": author, "email": email, "url": url, "license": license}

    def callback(nlp: Language) -> Language:
        nlp.meta.update({name: value for name, value in {**given, "sources": sources}.items() if value})
        return fill_card(nlp)

    return callback


def fill_card(nlp: Language) -> Language:
    """Write description and notes to the meta of a pipeline with CRFs, unless they exist; return the pipeline."""
    from .component import CRFComponent

    crfs = {name: pipe for name, pipe in nlp.pipeline if isinstance(pipe, CRFComponent) and pipe.labels}
    if not crfs:
        return nlp
    if not nlp.meta.get("description"):
        tasks = dict.fromkeys(TASKS.get(nlp.get_pipe_meta(name).factory, name) for name in crfs)
        nlp.meta["description"] = f"Linear-chain conditional random fields for {_listed([*tasks])}; runs on a CPU."
    if not nlp.meta.get("notes") or nlp.meta["notes"].startswith(HEADING):
        from jinja2 import StrictUndefined, Template

        text = Path(__file__).with_name("model_card.md").read_text(encoding="utf8")
        card = Template(text, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)
        nlp.meta["notes"] = card.render(heading=HEADING, crfs=crfs, plugin=_plugin, listed=_listed, nlp=nlp)
    return nlp


def _plugin(plugin: Any) -> str:
    """Return the name of a plug-in and the settings that differ from its defaults."""
    name = type(plugin).__name__
    if not dataclasses.is_dataclass(plugin):
        return name
    settings = [
        f"{field.name}={_value(getattr(plugin, field.name))}"
        for field in dataclasses.fields(plugin)
        if field.repr and getattr(plugin, field.name) != field.default
    ]
    return f"{name}({', '.join(settings)})" if settings else name


def _value(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else re.sub(r"[|\n]", " ", str(value))


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
