"""Functions that a config of ``spacy train`` names, in addition to components and corpora.

A logger, a batcher for batch optimizers, and functions that return the scorers and the callbacks that fill in the model
card and calibrate.

The logger shows the progress of a CRF: objective, gradient, active features.  Its columns follow those of spaCy's
ConsoleLogger; on a terminal, live curves appear below the table.  Its file has the form of the log of ``crfseq fit``.
(No deferred annotations here: spaCy validates a config with the evaluated annotations.)
"""

import math
import sys
from collections.abc import Callable, Iterable, Iterator
from io import StringIO
from pathlib import Path
from time import perf_counter
from typing import IO, Any, TypeVar

from spacy import util
from spacy.language import Language
from spacy.training import Example

from ..errors import ConfigError, DataError
from ..types import StepReport
from .model_card import fill_card
from .run_log import LiveCurve, log_line
from .scorers import chunker_score, ner_score, tagger_score

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


def create_tagger_scorer() -> Callable[..., dict[str, Any]]:
    """Return the tagger's scorer (registered as ``spacy_crfseq.tagger_scorer.v1``)."""
    return tagger_score


def create_chunker_scorer() -> Callable[..., dict[str, Any]]:
    """Return the chunker's scorer (registered as ``spacy_crfseq.chunker_scorer.v1``)."""
    return chunker_score


def create_ner_scorer() -> Callable[..., dict[str, Any]]:
    """Return the entity recognizer's scorer (registered as ``spacy_crfseq.ner_scorer.v1``)."""
    return ner_score


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


class Calibrate:
    """A callback that calibrates the CRFs of a pipeline on its dev corpus before it is saved.

    then (Callable | None): Another callback, called afterwards.
    """

    def __init__(self, then: Callable[[Language], Language] | None = None) -> None:
        self.then = then

    def __call__(self, nlp: Language) -> Language:
        """Fit the calibration of each CRF that is trained, and note it in its cfg.

        RAISES ConfigError: If the config of the pipeline names no dev corpus.
        """
        from .component import CRFComponent
        from .evaluator import Evaluator
        from .select import run_between
        from .terms import reader_of

        settings = nlp.config.interpolate()["training"]
        read = reader_of("[training] dev_corpus", settings["dev_corpus"], nlp)
        examples, before = list(read(nlp)), None
        docs = [example.predicted for example in examples]
        for name, pipe in nlp.pipeline:
            if not isinstance(pipe, CRFComponent) or name in settings["frozen_components"]:
                continue
            docs, before = run_between(nlp, docs, before, name), name
            predicted = [Example(doc, example.reference) for doc, example in zip(docs, examples, strict=True)]
            words = pipe.posterior(docs, preset=True, temperature=1.0).word_posterior
            evaluator = Evaluator(pipe.doc_model, predicted)
            evaluator.adapt(words)
            if fitted := evaluator.calibration(words):
                pipe.cfg.update(fitted.settings)
                util.logger.info("[%s] %s", name, fitted)
        return nlp if self.then is None else self.then(nlp)


def create_calibrate(then: Callable[[Language], Language] | None = None) -> Callable[[Language], Language]:
    """Return a callback that calibrates on the dev corpus (registered as ``spacy_crfseq.Calibrate.v1``).

    Use it for ``[training.before_to_disk]``.  It fits a temperature for the probabilities of each CRF that is trained,
    and a curve for those of its spans, see `calibrate`.  Predictions stay the same, except those of decoders that
    measure the F-measure to expect, as `MaxExpectedF1` does.  ``spacy train`` saves the pipeline at each evaluation,
    and tags the dev corpus a second time then; ``crfseq fit`` does not.

    then (Callable | None): A block with another callback, which is called afterwards.
    """
    return Calibrate(then)
