"""Sokolovska (2010) on CoNLL-2000, and what its experiments share with those on CoNLL-2003 (`names`).

Patterns of features, thresholds on trained weights, and sparse models.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from scripts.papers import _harness
from scripts.papers._harness import Options, Results, Row, experiment
from scripts.papers.page import PUBLISHED, Check, Table, checks, found, section, shown, table
from scripts.papers.tasks import Examples, Task, Trained, changed

if TYPE_CHECKING:
    from pathlib import Path

    from spacy.language import Language

    from spacy_crfseq.types import Floats

OBSERVATIONS = {"part": "LEMMA", "chunk": "NORM"}
"""The token attribute that holds each observation beside the word, so that templates can read it."""
SYMBOLS = {"ORTH": "x1", "LEMMA": "x2", "NORM": "x3"}
"""The thesis's names of the observations."""
PATTERNS = {"unigram": "(y,{})", "bigram": "(y',y,{})"}
LARGEST = "all"
"""The pattern whose weights are cut, and that sparse models select from."""


def read_columns(nlp: Language, path: Path, columns: Sequence[str], limit: int = 0) -> list[Any]:
    """Return the sentences of a file as examples of a tagger whose tags are the labels; `limit` sentences, 0 for all.

    columns (Sequence[str]): Names of its columns: word, label, and names of `OBSERVATIONS`.
    """
    from itertools import islice

    from spacy.tokens import Doc
    from spacy.training import Example

    from spacy_crfseq.corpora import read_columns as sentences_of

    made = []
    for sentence in islice(sentences_of(path, columns), limit or None):
        given = Doc(nlp.vocab, words=list(sentence.words))
        for name in set(columns) & set(OBSERVATIONS):
            values = [nlp.vocab.strings.add(value) for value in sentence.columns[name]]
            given.from_array([OBSERVATIONS[name]], np.array(values, np.uint64)[:, None])
        labels = list(sentence.columns["label"])
        made.append(Example(given, Doc(nlp.vocab, words=list(sentence.words), tags=labels)))
    return made


class Scores(NamedTuple):
    """Accuracy of labels; precision, recall and F1 of the spans that they mark, read as by conlleval; in per cent."""

    accuracy: float
    precision: float
    recall: float
    f1: float


class Corpus:
    """A corpus of the thesis: everything to train on, parts to score on, and tasks for patterns of features."""

    def __init__(self, name: str, options: Options) -> None:
        import spacy

        self.settings = _harness.config(name)
        self.quick = options.quick
        self._nlp = spacy.blank("en")
        self.parts: dict[str, Examples] = {
            part: read_columns(
                self._nlp, options.corpus(file), self.settings["reader"]["columns"], options.few(200 if part == "train" else 50)
            )
            for part, file in self.settings["files"].items()
        }

    @property
    def tested(self) -> list[str]:
        """Names of the parts that are not trained on."""
        return [part for part in self.parts if part != "train"]

    def task(self, pattern: str, **component: Any) -> Task:
        """Return a task for a pattern of features, some settings of the component changed."""
        chosen = self.settings["patterns"][pattern]
        features = {"@crf_features": "spacy_crfseq.Templates.v1", "templates": chosen["templates"]}
        if chosen["bigram_templates"]:
            features["bigram_templates"] = chosen["bigram_templates"]
        block = {**self.settings["component"], "transitions": chosen["transitions"], **component}
        return Task(self._nlp, block, features, self.parts["train"], self.parts, quick=self.quick)

    def scores(self, task: Task, part: str, theta: Floats) -> Scores:
        """Return the scores of a model on a part."""
        from spacy_crfseq.prf import prf
        from spacy_crfseq.schemes import decode_lenient

        task.pipe.set_parameters(theta)
        right = tokens = 0
        spans = np.zeros(3, np.int64)
        docs = task.pipe.pipe(example.predicted.copy() for example in self.parts[part])
        for doc, example in zip(docs, self.parts[part], strict=True):
            found, gold = ([token.tag_ for token in one] for one in (doc, example.reference))
            right += sum(a == b for a, b in zip(found, gold, strict=True))
            tokens += len(gold)
            ours, wanted = set(decode_lenient(found)), set(decode_lenient(gold))
            spans += len(ours & wanted), len(ours), len(wanted)
        return Scores(*(round(100 * score, 3) for score in (right / tokens, *prf(*spans.tolist()))))

    def row(self, task: Task, trained: Trained, **more: Any) -> Row:
        """Return the columns of a run: errors on all parts, scores on those that are tested."""
        errors = {"train": round(100 - task.score("train", trained.theta), 3)}
        scores = {part: self.scores(task, part, trained.theta) for part in self.tested}
        errors |= {part: round(100 - score.accuracy, 3) for part, score in scores.items()}
        f1 = {part: score.f1 for part, score in scores.items()}
        return task.row(trained, weights=n_weights(task), errors=errors, f1=f1, **more)


def n_weights(task: Task) -> int:
    """Return the number of weights that are learnt."""
    layout = task.layout
    return int(layout.unigrams.size + layout.bigrams.size + np.count_nonzero(layout.trainable()))


def run_patterns(corpus: Corpus) -> list[Row]:
    """Return a row for each pattern, and one for each threshold on the weights of the largest."""
    rows = []
    for pattern in corpus.settings["patterns"]:
        task = corpus.task(pattern)
        trained = task.fit(corpus.settings["methods"]["L2"])
        rows.append(corpus.row(task, trained, pattern=pattern))
        if pattern == LARGEST:
            rows += [_cut(corpus, task, trained.theta, size) for size in (0.0, *corpus.settings["thresholds"]["sizes"])]
    return rows


def _cut(corpus: Corpus, task: Task, theta: Floats, size: float) -> Row:
    """Set weights up to a size to zero."""
    left = np.where(np.abs(theta) > size, theta, theta.dtype.type(0))
    scores = {part: corpus.scores(task, part, left)._asdict() for part in corpus.tested}
    return {"threshold": size, "active": task.active(left), "scores": scores}


def run_sparse(corpus: Corpus) -> list[Row]:
    """Return a row for each rho1 of a path: what remains of each pattern, and the words with the heaviest weights."""
    sparse = corpus.settings["sparse"]
    task = corpus.task(LARGEST, keep_names=True)
    rows, theta = [], None
    for rho1 in sparse["rho1"]:
        trained = task.fit(changed(corpus.settings["methods"]["L1"], regularizer={"rho1": rho1}), start=theta)
        theta = trained.theta
        row = corpus.row(task, trained, rho1=rho1)
        rows.append({**row, "kept": kept(task), "words": heaviest(task, sparse["words"])})
    return rows


def kept(task: Task) -> dict[str, list[int]]:
    """Return, for each pattern of features, how many weights there are and how many are not zero."""
    from spacy_crfseq.evaluation.weights import weights_by_template

    pipe = task.pipe
    found = weights_by_template(pipe.crf, pipe.method.features.plans())
    return {
        PATTERNS[one.kind].format(SYMBOLS[one.template.partition("[")[0]]): [one.weights, one.nonzero]
        for one in found
        if one.template
    }


def heaviest(task: Task, number: int) -> dict[str, float]:
    """Return the words with the largest sums of absolute weights (y,x1), and these sums."""
    crf, names = task.pipe.crf, task.pipe.doc_model.feature_names
    sums = np.abs(crf.views.unigrams.reshape(-1, crf.layout.n_labels)).sum(axis=1)
    word = "ORTH[0]="
    best = [row for row in np.argsort(-sums, kind="stable").tolist() if names[row].startswith(word)][:number]
    return {names[row][len(word) :]: round(float(sums[row]), 2) for row in best}


@experiment("chunks-patterns", "CoNLL-2000, patterns of features under an L2 norm, and thresholds", 12)
def patterns(options: Options) -> list[Row]:
    """Return the rows of tables 3.5, 3.7 and 6.1."""
    return run_patterns(Corpus("chunks", options))


@experiment("chunks-sparse", "CoNLL-2000, what an L1 norm leaves of each pattern", 4)
def sparse(options: Options) -> list[Row]:
    """Return the rows of tables 7.3 and 7.5."""
    return run_sparse(Corpus("chunks", options))
