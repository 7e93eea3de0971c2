"""Sokolovska (2010) on CoNLL-2000, and what its experiments share with those on CoNLL-2003 (`names`).

Patterns of features, thresholds on trained weights, and sparse models.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from scripts.papers._harness import Options, Row
from scripts.papers.corpora import Examples, read_columns
from scripts.papers.corpus import Corpus
from scripts.papers.task import Task, Trained, token_error

if TYPE_CHECKING:
    from spacy.language import Language

    from spacy_crfseq.types import Floats

SYMBOLS = {"ORTH": "x1", "LEMMA": "x2", "NORM": "x3"}
"""The thesis's names of the observations."""
PATTERNS = {"unigram": "(y,{})", "bigram": "(y',y,{})"}
LARGEST = "all"
"""The pattern whose weights are cut, and that sparse models select from."""
PRODUCT = "product"
"""The pattern of products of all observations."""


class Scores(NamedTuple):
    """Accuracy of labels; precision, recall and F1 of the spans that they mark, read as by conlleval; in per cent."""

    accuracy: float
    precision: float
    recall: float
    f1: float


class ThesisCorpus(Corpus):
    """A corpus of the thesis with its patterns of features."""

    def __init__(self, name: str, options: Options) -> None:
        super().__init__(name, options, read_tags)

    def pattern_task(self, pattern: str, **component: Any) -> Task:
        """Return a task for a pattern of features, some settings of the component changed."""
        patterns = {**self.settings["patterns"], PRODUCT: self.settings["product"]["pattern"]}
        return self.task(patterns[pattern], **component)

    def scores(self, task: Task, part: str, theta: Floats) -> Scores:
        """Return the scores of a model on a part."""
        from spacy_crfseq.prf import prf
        from spacy_crfseq.schemes import decode_lenient

        texts, spans = task.tags(part, theta), np.zeros(3, np.int64)
        for text in texts:
            gold, ours = ({*decode_lenient([str(tag) for tag in tags])} for tags in text)
            spans += len(ours & gold), len(ours), len(gold)
        shares = (*prf(*spans.tolist()),)
        return Scores(round(100 - token_error(texts), 3), *(round(100 * share, 3) for share in shares))

    def row(self, task: Task, trained: Trained, **more: Any) -> Row:
        """Return the columns of a run: errors on all parts, scores on those that are tested."""
        errors = {"train": round(100 - task.score("train", trained.theta), 3)}
        scores = {part: self.scores(task, part, trained.theta) for part in self.tested}
        errors |= {part: round(100 - score.accuracy, 3) for part, score in scores.items()}
        f1 = {part: score.f1 for part, score in scores.items()}
        return task.row(trained, weights=n_weights(task), errors=errors, f1=f1, **more)


def read_tags(nlp: Language, options: Options, settings: Mapping[str, Any]) -> dict[str, Examples]:
    """Return the parts of a corpus whose tags are the labels."""
    columns = settings["reader"]["columns"]
    return {
        part: read_columns(nlp, options.corpus(file), columns, options.few(200 if part == "train" else 50))
        for part, file in settings["files"].items()
    }


def n_weights(task: Task) -> int:
    """Return the number of weights that are learnt."""
    layout = task.layout
    return int(layout.unigrams.size + layout.bigrams.size + np.count_nonzero(layout.trainable()))


def patterns(options: Options, corpus: str) -> list[Row]:
    """Return a row for each pattern, and one for each threshold on the weights of the largest."""
    thesis, rows = ThesisCorpus(corpus, options), list[Row]()
    for pattern in thesis.settings["patterns"]:
        task = thesis.pattern_task(pattern)
        trained = task.fit(thesis.settings["methods"]["L2"])
        rows.append(thesis.row(task, trained, pattern=pattern))
        if pattern == LARGEST:
            rows += [_cut(thesis, task, trained.theta, size) for size in (0.0, *thesis.settings["thresholds"]["sizes"])]
    return rows


def _cut(corpus: ThesisCorpus, task: Task, theta: Floats, size: float) -> Row:
    """Set weights up to a size to zero."""
    left = np.where(np.abs(theta) > size, theta, theta.dtype.type(0))
    scores = {part: corpus.scores(task, part, left)._asdict() for part in corpus.tested}
    return {"threshold": size, "active": task.active(left), "scores": scores}


def sparse(options: Options, corpus: str) -> list[Row]:
    """Return a row for each rho1 of a path: what remains of each pattern, and the words with the heaviest weights.

    The error on a part, if the config names it, is noted after each iteration.
    """
    thesis = ThesisCorpus(corpus, options)
    path = thesis.settings["sparse"]
    task, watched = thesis.pattern_task(LARGEST, keep_names=True), path.get("watched")

    def error(theta: Floats) -> Row:
        return {"error": round(100 - task.score(watched, theta), 3)}

    rows = []
    for rho1, trained in task.along(thesis.settings["methods"]["L1"], path["rho1"], error if watched else None):
        row = thesis.row(task, trained, rho1=rho1, **({"trace": trained.trace} if watched else {}))
        rows.append({**row, "kept": kept(task), "words": heaviest(task, path["words"])})
    return rows


def product(options: Options, corpus: str) -> list[Row]:
    """Return a row for each rho1 of a path, of the model that has products of all observations alone."""
    thesis = ThesisCorpus(corpus, options)
    task = thesis.pattern_task(PRODUCT)
    path = task.along(thesis.settings["methods"]["L1"], thesis.settings["product"]["rho1"])
    return [thesis.row(task, trained, rho1=rho1) for rho1, trained in path]


def kept(task: Task) -> dict[str, list[int]]:
    """Return, for each pattern of features, how many weights there are and how many are not zero."""
    from spacy_crfseq.tools._pages.weights import weights_by_template

    pipe = task.pipe
    counted = weights_by_template(pipe.crf, pipe.doc_model.features.plans())
    return {
        PATTERNS[counts.kind].format(SYMBOLS[counts.template.partition("[")[0]]): [counts.weights, counts.nonzero]
        for counts in counted
        if counts.template
    }


def heaviest(task: Task, number: int) -> dict[str, float]:
    """Return the words with the largest sums of absolute weights (y,x1), and these sums."""
    crf, names = task.pipe.crf, task.pipe.doc_model.feature_names
    sums = np.abs(crf.views.unigrams.reshape(-1, crf.layout.n_labels)).sum(axis=1)
    word = "ORTH[0]="
    best = [row for row in np.argsort(-sums, kind="stable").tolist() if names[row].startswith(word)][:number]
    return {names[row][len(word) :]: round(float(sums[row]), 2) for row in best}
