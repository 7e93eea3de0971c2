"""``crfseq active``: choose the texts whose annotation would teach a model most, for an annotation tool.

Entropies are in nats.  Settles & Craven (2008), "An analysis of active learning strategies for sequence labeling
tasks", section 3.1.
"""

from __future__ import annotations

import heapq
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from spacy.util import minibatch
from tqdm import tqdm

from ...cli.inputs import read_file
from ...corpora.layouts import Format
from ...errors import ConfigError, DataError, suggest
from ...pipeline.select import load_pipeline, one_crf_of, run_between

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from ...pipeline.doc_posterior import DocPosterior, Scored
    from ...pipeline.texts import Text

Values = NDArray[np.float64]
BATCH = 128
CANDIDATES = 10
"""With --diversity, this many times the texts to keep are candidates."""


class Chosen(NamedTuple):
    """The tasks, most useful text first; the number of texts seen; whether Ctrl-C ended the search early."""

    tasks: list[dict[str, Any]]
    seen: int
    interrupted: bool


def active(
    model: str | Path,
    texts: Path,
    layout: Format = None,
    by: str = "entropy",
    component: str | None = None,
    number: int = 100,
    diversity: float = 0.0,
    nbest: int = 10,
) -> Chosen:
    """Return the texts of a file that a component is least certain about.

    by (str): The name of one of `MEASURES`.
    diversity (float): The weight of `diverse`.
    RAISES CrfError: On an unknown measure or component, one without probabilities, or a file that cannot be read.
    """
    if by not in MEASURES:
        raise ConfigError(f"--by {by}: unknown measure. {suggest(by, MEASURES)}")
    nlp = load_pipeline(model)
    name, pipe = one_crf_of(nlp, component, str(model), spans_first=True)
    best, interrupted = Best(CANDIDATES * number if diversity else number), False
    try:
        with tqdm(disable=None, leave=False, file=sys.stderr, unit=" texts") as bar:
            for batch in minibatch(read_file(nlp, texts, layout), BATCH):
                docs = run_between(nlp, [text.doc for text in batch], None, name)
                answers = pipe.posterior(docs, preset=True)
                values = MEASURES[by](answers, nbest)

                def make() -> list[tuple[dict[str, Any], NDArray[np.uint64]]]:
                    metas = [
                        {**text.meta, "score": value, "measure": by, "line": text.line, **_file_of(text)}
                        for text, value in zip(batch, values.tolist(), strict=True)  # noqa: B023
                    ]
                    words = [np.asarray(doc.to_array("LOWER"), np.uint64) for doc in docs]  # noqa: B023
                    return list(zip(map(task_of, docs, answers.spans(), metas), words, strict=True))  # noqa: B023

                best.add(values, make)
                bar.update(len(batch))
    except KeyboardInterrupt:
        interrupted = True
    if not best.seen and not interrupted:
        raise DataError(f"{texts} holds no text.")
    kept = best.items()
    tasks = [task for _, (task, _) in kept]
    if diversity and kept:
        of_texts = [words for _, (_, words) in kept]
        tasks = [tasks[i] for i in diverse([value for value, _ in kept], of_texts, number, diversity)]
    return Chosen(tasks, best.seen, interrupted)


def as_lines(tasks: Iterable[dict[str, Any]]) -> str:
    """Return tasks as JSONL."""
    return "".join(json.dumps(task, ensure_ascii=False, allow_nan=False) + "\n" for task in tasks)


def _each(measure: Callable[[Any], Any], items: Iterable[Any]) -> NDArray[np.float64]:
    return np.array([float(measure(item)) for item in items])


def _logs(answers: DocPosterior, n: int) -> Iterator[list[float]]:
    return ([labelling.log_probability for labelling in labellings] for labellings in answers.nbest(n))


MEASURES: Mapping[str, Callable[[DocPosterior, int], NDArray[np.float64]]] = {
    "entropy": lambda answers, _: answers.entropies(),
    "least-confidence": lambda answers, _: least_confidence(answers.log_probabilities()),
    "margin": lambda answers, _: _each(margin, _logs(answers, 2)),
    "token-entropy": lambda answers, _: _each(lambda p: token_entropies(p).mean(), answers.word_marginals()),
    "total-token-entropy": lambda answers, _: _each(lambda p: token_entropies(p).sum(), answers.word_marginals()),
    "nbest-entropy": lambda answers, nbest: _each(list_entropy, _logs(answers, nbest)),
}
"""Each maps a posterior and the length of an N-best list to a value per Doc: the larger, the more useful the text."""


class Best:
    """Keeps the texts with the largest values so far; among equal ones, the first."""

    def __init__(self, size: int) -> None:
        self.seen = 0
        self._size = size
        self._heap: list[tuple[float, int, Any]] = []

    def add(self, values: NDArray[np.float64], make: Callable[[], Sequence[Any]]) -> None:
        """Add texts; `make` returns what to keep of each, and is only called if one of them is kept."""
        made: Sequence[Any] | None = None
        for i, value in enumerate(values.tolist()):
            entry = value, -self.seen - i
            if len(self._heap) >= self._size and entry < self._heap[0][:2]:
                continue
            made = make() if made is None else made
            heapq.heappush(self._heap, (*entry, made[i]))
            if len(self._heap) > self._size:
                heapq.heappop(self._heap)
        self.seen += len(values)

    def items(self) -> list[tuple[float, Any]]:
        """Return the values and what was kept for them, largest value first."""
        return [(value, item) for value, _, item in sorted(self._heap, key=lambda entry: entry[:2], reverse=True)]


def task_of(doc: Doc, spans: Sequence[Scored], meta: dict[str, Any]) -> dict[str, Any]:
    """Return a text and its spans in Prodigy's format, in which "token_end" is the index of the last token."""
    tokens = [
        {"text": t.text, "start": t.idx, "end": t.idx + len(t), "id": t.i, "ws": bool(t.whitespace_)} for t in doc
    ]
    names = ("start", "end", "token_start", "token_end", "label", "score")
    predicted = [
        dict(zip(names, (tokens[a]["start"], tokens[b - 1]["end"], a, b - 1, label, round(p, 6)), strict=True))
        for a, b, label, p in spans
    ]
    return {"text": doc.text, "tokens": tokens, "spans": predicted, "meta": meta}


def least_confidence(log_probability: ArrayLike) -> Values:
    """Return 1 - P(y*), the probability that the predicted labelling is wrong, given log P(y*) of any shape."""
    values: Values = -np.expm1(np.minimum(np.asarray(log_probability, np.float64), 0))
    return values


def margin(log_probabilities: ArrayLike) -> float:
    """Return 1 - (P(y1) - P(y2)) of the two best labellings (Scheffer et al. 2001).

    log_probabilities: [k] of the most probable labellings, best first; k is 1 if there is only one labelling.
    """
    best = np.exp(np.asarray(log_probabilities, np.float64)[:2])
    return float(1 - best[0] + best[1:].sum())


def token_entropies(marginals: ArrayLike) -> Values:
    """Return the entropy of each token's label [T], of marginals [T, L]."""
    p = np.asarray(marginals, np.float64)
    terms = np.zeros_like(p)
    np.log(p, out=terms, where=p > 0)
    entropies: Values = np.maximum(-(p * terms).sum(1), 0)
    return entropies


def list_entropy(log_probabilities: ArrayLike) -> float:
    """Return the entropy of the k most probable labellings, renormalised to sum to one (N-best sequence entropy)."""
    logs = np.asarray(log_probabilities, np.float64)
    p = np.exp(logs - logs.max())
    p /= p.sum()
    return float(token_entropies(p[None])[0])


def diverse(values: ArrayLike, words: Sequence[NDArray[np.uint64]], number: int, weight: float) -> list[int]:
    """Return texts of large values that differ from each other, in the order of their choice.

    Each step takes the text with the largest ``value * (1 - similarity) ** weight``, where similarity is the largest
    cosine with a text already chosen.  This is maximal marginal relevance (Carbonell & Goldstein 1998) with a product
    instead of a sum, so that values need no common scale.  Time is proportional to `number` times the words of all
    texts.

    values: [N] measures, at least 0.
    words: [N] hashes of the words of each text, not empty; the cosine weights them by inverse document frequency.
    weight: 0 ignores similarity.
    """
    bags = [np.unique(of_text) for of_text in words]
    sizes = np.array([len(bag) for bag in bags])
    _, columns, counts = np.unique(np.concatenate(bags), return_inverse=True, return_counts=True)
    starts, rarity = np.cumsum(sizes) - sizes, np.log1p(len(bags) / counts)[columns]
    rarity /= np.repeat(np.sqrt(np.add.reduceat(rarity**2, starts)), sizes)
    left, nearest, chosen = np.maximum(np.asarray(values, np.float64), 0), np.zeros(len(bags)), list[int]()
    row = np.zeros(len(counts))
    for _ in range(min(number, len(bags))):
        gains = left * (1 - nearest) ** weight
        gains[chosen] = -1
        best = int(np.argmax(gains))
        chosen.append(best)
        words_of = slice(starts[best], starts[best] + sizes[best])
        row[columns[words_of]] = rarity[words_of]
        nearest = np.clip(np.maximum(nearest, np.add.reduceat(row[columns] * rarity, starts)), 0, 1)
        row[columns[words_of]] = 0
    return chosen


def _file_of(text: Text) -> dict[str, str]:
    return {"file": text.file} if text.file else {}
