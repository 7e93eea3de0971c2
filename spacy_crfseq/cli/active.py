"""``crfseq active``: rank raw texts by how much their labelling would teach a model, for an annotation tool.

Settles & Craven (2008), "An analysis of active learning strategies for sequence labeling tasks".
"""

from __future__ import annotations

import heapq
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray
from tqdm import tqdm

from ..corpora.layouts import TEXTS_FILE_HELP as HELP
from ..corpora.layouts import Asked, Format
from ..corpora.outputs import STDOUT, check_output_file
from ..errors import ConfigError, DataError, suggest
from ..evaluation import active as measures
from ..files import write_text
from ..pipeline.select import load_pipeline, one_crf_of, run_between
from . import _options as options
from ._app import crfseq_cli
from ._console import INTERRUPTED, printer, reported_errors
from ._judging import in_batches, read_file

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from ..pipeline.doc_posterior import DocPosterior, Scored

BATCH = 128


@crfseq_cli.command("active")
def active_cli(
    model: options.Model,
    texts: Annotated[Path, typer.Argument(metavar="TEXTS", help=HELP)],
    format_: options.TextFormat = None,
    columns: options.Columns = None,
    encoding: options.Encoding = None,
    by: Annotated[
        str,
        typer.Option(
            help="Measure: entropy (of the labelling), least-confidence, margin, token-entropy (mean), "
            "total-token-entropy, nbest-entropy"
        ),
    ] = "entropy",
    component: options.OneComponent = None,
    number: Annotated[int, options.number("Texts to keep")] = 100,
    nbest: Annotated[int, typer.Option(min=2, help="Labellings that nbest-entropy looks at")] = 10,
    output: Annotated[str, options.output("JSONL file, or - for stdout")] = STDOUT,
    force: options.Force = False,
    code: options.Code = None,
) -> None:
    """Choose the texts whose annotation would teach the model most.

    Writes them, the most useful first, as JSONL that annotation tools such as Prodigy read: text, tokens, predicted
    spans with their probabilities as "score", and under "meta" the line of the text, the measure and its value.
    Only token-entropy, a mean over tokens, does not favour long texts. Memory is bounded by -n. Ctrl-C writes the best
    so far.

    \b
    Example:
      python -m spacy crfseq active training/model-best news.txt -p crf_ner \\
          --by margin -n 200 --output to_annotate.jsonl
    """
    said = Asked(format_, columns, encoding=encoding)
    with reported_errors(code=code):
        check_output_file(output, texts, force=force)
        chosen = active(
            model,
            texts,
            said,
            by=by,
            component=component,
            number=number,
            nbest=nbest,
        )
        lines = "".join(json.dumps(task, ensure_ascii=False, allow_nan=False) + "\n" for task in chosen.tasks)
        if output == STDOUT:
            sys.stdout.write(lines)
        else:
            write_text(Path(output), lines)
            printer().good(f"Saved {len(chosen.tasks):,} of {chosen.seen:,} texts to {output}")
    if chosen.interrupted:
        print(f"\nInterrupted: the choice is among the first {chosen.seen:,} texts.", file=sys.stderr)
        raise typer.Exit(INTERRUPTED)


class Chosen(NamedTuple):
    """Tasks, the most useful text first; how many texts were seen; whether an interrupt ended the search early."""

    tasks: list[dict[str, Any]]
    seen: int
    interrupted: bool


def active(
    model: str | Path,
    texts: Path,
    format_name: Format = None,
    *,
    by: str = "entropy",
    component: str | None = None,
    number: int = 100,
    nbest: int = 10,
) -> Chosen:
    """Return the texts of a file that a component is least sure about.

    RAISES CrfError: If there is no such measure or component, it has no probabilities, or the file cannot be read.
    """
    if by not in MEASURES:
        raise ConfigError(f"--by {by}: unknown measure. {suggest(by, MEASURES)}")
    nlp = load_pipeline(model)
    name, pipe = one_crf_of(nlp, component, str(model), spans_first=True)
    best = Best(number)
    interrupted = False
    try:
        with tqdm(disable=None, leave=False, file=sys.stderr, unit=" texts") as bar:
            for batch in in_batches(read_file(nlp, texts, format_name), BATCH):
                docs = run_between(nlp, [text.doc for text in batch], None, name)
                answers = pipe.posterior(docs, preset=True)
                values = MEASURES[by](answers, nbest)

                def tasks() -> list[dict[str, Any]]:
                    metas = [
                        {**text.meta, "score": value, "measure": by, "line": text.line}
                        for text, value in zip(batch, values.tolist(), strict=True)  # noqa: B023
                    ]
                    return list(map(task_of, docs, answers.spans(), metas))  # noqa: B023

                best.add(values, tasks)
                bar.update(len(batch))
    except KeyboardInterrupt:
        interrupted = True
    if not best.seen and not interrupted:
        raise DataError(f"{texts} holds no text.")
    return Chosen(best.tasks(), best.seen, interrupted)


def _each(measure: Callable[[Any], Any], items: Iterable[Any]) -> NDArray[np.float64]:
    return np.array([float(measure(item)) for item in items])


def _logs(answers: DocPosterior, n: int) -> Iterator[list[float]]:
    return ([labelling.log_probability for labelling in labellings] for labellings in answers.nbest(n))


MEASURES: Mapping[str, Callable[[DocPosterior, int], NDArray[np.float64]]] = {
    "entropy": lambda answers, _: answers.entropies(),
    "least-confidence": lambda answers, _: measures.least_confidence(answers.log_probabilities()),
    "margin": lambda answers, _: _each(measures.margin, _logs(answers, 2)),
    "token-entropy": lambda answers, _: _each(lambda p: measures.token_entropies(p).mean(), answers.marginals()),
    "total-token-entropy": lambda answers, _: _each(lambda p: measures.token_entropies(p).sum(), answers.marginals()),
    "nbest-entropy": lambda answers, nbest: _each(measures.list_entropy, _logs(answers, nbest)),
}
"""Functions from answers and the length of an N-best list to a value for each Doc, larger where it would teach more."""


class Best:
    """The texts of the largest values so far; of equal ones, the first."""

    def __init__(self, size: int) -> None:
        self.seen = 0
        self._size = size
        self._heap: list[tuple[float, int, dict[str, Any]]] = []

    def add(self, values: NDArray[np.float64], tasks: Callable[[], Sequence[dict[str, Any]]]) -> None:
        """Take in texts; `tasks` makes what is to be kept of them, and is called only if one of them is."""
        made: Sequence[dict[str, Any]] | None = None
        for i, value in enumerate(values.tolist()):
            entry = value, -self.seen - i
            if len(self._heap) >= self._size and entry < self._heap[0][:2]:
                continue
            made = tasks() if made is None else made
            heapq.heappush(self._heap, (*entry, made[i]))
            if len(self._heap) > self._size:
                heapq.heappop(self._heap)
        self.seen += len(values)

    def tasks(self) -> list[dict[str, Any]]:
        """Return what was kept, the largest values first."""
        return [task for *_, task in sorted(self._heap, reverse=True)]


def task_of(doc: Doc, spans: Sequence[Scored], meta: dict[str, Any]) -> dict[str, Any]:
    """Return a text with its spans as Prodigy reads them, where "token_end" is the number of the last token."""
    tokens = [
        {"text": t.text, "start": t.idx, "end": t.idx + len(t), "id": t.i, "ws": bool(t.whitespace_)} for t in doc
    ]
    found = [
        {
            "start": tokens[start]["start"],
            "end": tokens[end - 1]["end"],
            "token_start": start,
            "token_end": end - 1,
            "label": label,
            "score": round(probability, 6),
        }
        for start, end, label, probability in spans
    ]
    return {"text": doc.text, "tokens": tokens, "spans": found, "meta": meta}
