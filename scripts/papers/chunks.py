"""Sokolovska (2010) on CoNLL-2000, and what its experiments share with those on CoNLL-2003 (`names`).

Patterns of features, thresholds on trained weights, and sparse models.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from scripts.papers import _harness
from scripts.papers._harness import Options, Results, Row, experiment
from scripts.papers.figures import draw_lines, drawn
from scripts.papers.page import Section, against, by, columns, found, paper_cells, paper_rows, section, shown, table
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
PRODUCT = "product"
"""The pattern of products of all observations."""


def read_columns(nlp: Language, path: Path, columns: Sequence[str], limit: int = 0) -> list[Any]:
    """Return the sentences of a file as examples of a tagger whose tags are the labels; `limit` sentences, 0 for all.

    columns (Sequence[str]): Names of its columns: word, label, and names of `OBSERVATIONS`.
    """
    from itertools import islice

    from spacy.tokens import Doc
    from spacy.training import Example

    from spacy_crfseq.corpora.columns import read_columns as sentences_of

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
                self._nlp,
                options.corpus(file),
                self.settings["reader"]["columns"],
                options.few(200 if part == "train" else 50),
            )
            for part, file in self.settings["files"].items()
        }

    @property
    def tested(self) -> list[str]:
        """Names of the parts that are not trained on."""
        return [part for part in self.parts if part != "train"]

    def task(self, pattern: str, **component: Any) -> Task:
        """Return a task for a pattern of features, some settings of the component changed."""
        chosen = {**self.settings["patterns"], PRODUCT: self.settings["product"]["pattern"]}[pattern]
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


def run_patterns(name: str, options: Options) -> list[Row]:
    """Return a row for each pattern, and one for each threshold on the weights of the largest."""
    corpus, rows = Corpus(name, options), []
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


def run_sparse(name: str, options: Options) -> list[Row]:
    """Return a row for each rho1 of a path: what remains of each pattern, and the words with the heaviest weights.

    The error on a part, if the config names it, is noted after each iteration.
    """
    corpus = Corpus(name, options)
    sparse = corpus.settings["sparse"]
    task, watched = corpus.task(LARGEST, keep_names=True), sparse.get("watched")

    def error(theta: Floats) -> Row:
        return {"error": round(100 - task.score(watched, theta), 3)}

    rows = []
    for rho1, trained in _along(corpus, task, sparse["rho1"], error if watched else None):
        row = corpus.row(task, trained, rho1=rho1, **({"trace": trained.trace} if watched else {}))
        rows.append({**row, "kept": kept(task), "words": heaviest(task, sparse["words"])})
    return rows


def run_product(name: str, options: Options) -> list[Row]:
    """Return a row for each rho1 of a path, of the model that has products of all observations alone."""
    corpus = Corpus(name, options)
    task = corpus.task(PRODUCT)
    return [
        corpus.row(task, trained, rho1=rho1)
        for rho1, trained in _along(corpus, task, corpus.settings["product"]["rho1"])
    ]


def _along(
    corpus: Corpus, task: Task, path: Sequence[float], watch: Callable[[Floats], Row] | None = None
) -> Iterator[tuple[float, Trained]]:
    """Yield the models of a path of falling rho1, each begun where the last one ended."""
    theta = None
    for rho1 in path:
        method = changed(corpus.settings["methods"]["L1"], regularizer={"rho1": rho1})
        trained = task.fit(method, start=theta, watch=watch)
        theta = trained.theta
        yield rho1, trained


def kept(task: Task) -> dict[str, list[int]]:
    """Return, for each pattern of features, how many weights there are and how many are not zero."""
    from spacy_crfseq.tools._pages.weights import weights_by_template

    pipe = task.pipe
    found = weights_by_template(pipe.crf, pipe.doc_model.features.plans())
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


for _name, _title, _minutes in (("chunks", "CoNLL-2000", (7, 2, 4)), ("names", "CoNLL-2003", (5, 3, 2))):
    for _run, _about, _rows, _time in (
        (f"{_name}-patterns", "patterns of features under an L2 norm, and thresholds", run_patterns, _minutes[0]),
        (f"{_name}-sparse", "what an L1 norm leaves of each pattern, along rho1", run_sparse, _minutes[1]),
        (f"product-{_name}", "products of all observations under an L1 norm", run_product, _minutes[2]),
    ):
        experiment(_run, f"{_title}, {_about}", _time)(partial(_rows, _name))


# The page


def patterns_section(name: str, results: Results) -> Section:
    """Return errors and weights of each pattern, beside the published errors."""
    rows, published = by(found(results, f"{name}-patterns"), "pattern"), paper_cells(name)
    settings = _harness.config(name)

    def beside(part: str) -> dict[str, Any]:
        return {
            f"{part} error %, published": lambda row: published[row["pattern"], part],
            f"{part} error %, ours": f"errors.{part}",
        }

    chosen: dict[str, Any] = {"pattern": lambda row: settings["patterns"][row["pattern"]]["name"], "weights": "weights"}
    for part in settings["files"]:
        chosen |= beside(part)
    chosen |= {f"{part} F1": f"f1.{part}" for part in settings["files"] if part != "train"}
    text = columns(rows.values(), {**chosen, "iterations": "iterations", "optimality": "optimality"})
    errors = {pattern: row["errors"] for pattern, row in rows.items()}
    far = [abs(errors[pattern][part] - theirs) for (pattern, part), theirs in published.items() if pattern in errors]

    def in_order(part: str) -> bool:
        theirs = [published[pattern, part] for pattern in sorted(errors, key=lambda pattern: errors[pattern][part])]
        return theirs == sorted(theirs)

    return Section(text, {"rows": rows, "errors": errors, "far": far, "in_order": in_order})


def thresholds_section(name: str, results: Results) -> Section:
    """Return the scores without the weights up to a size, beside the published ones."""
    rows, published = by(found(results, f"{name}-patterns"), "threshold"), paper_cells(f"{name}-thresholds")
    scores = [column for size, column in published if size == 0.0 and column != "active"]
    titles = ["weights left", *(score.replace("f1", "F1") for score in scores)]
    lines = []
    for size, row in rows.items():
        both = [int(published[size, "active"]), row["active"]["all"]]
        both += [one for score in scores for one in (published[size, score], score_of(row, score))]
        lines.append([f"up to {size:g}" if size else "none", *both])
    text = table(["set to zero", *(f"{one}, {whose}" for one in titles for whose in ("published", "ours"))], lines)

    def score(size: float, name: str) -> float:
        return score_of(rows[size], name)

    return Section(text, {"score": score, "active": {size: row["active"]["all"] for size, row in rows.items()}})


def score_of(row: Row, name: str) -> float:
    """Return a score of a row by part and kind, such as "test f1"."""
    part, kind = name.split()
    return float(row["scores"][part][kind])


def kept_section(name: str, choose: Callable[[list[Row]], Row], results: Results) -> Section:
    """Return what an L1 norm leaves of each pattern of features, beside the published numbers."""
    row, published = choose(found(results, f"{name}-sparse")), paper_cells(f"{name}-sparse")
    titles = ("weights", "left", "share left")
    head = ["pattern", *(f"{title}, {whose}" for title in titles for whose in ("published", "ours"))]
    lines = []
    for pattern, (all_, left) in row["kept"].items():
        theirs = [int(published[pattern, column]) for column in ("all", "left")]
        share = [f"{100 * one:.2f} %" for one in (theirs[1] / theirs[0], left / all_)]
        lines.append([pattern, theirs[0], all_, theirs[1], left, *share])
    names = {
        "ratios": [left / published[pattern, "left"] for pattern, (_, left) in row["kept"].items()],
        "order": sorted(row["kept"], key=lambda pattern: row["kept"][pattern][1] / row["kept"][pattern][0]),
        "published_order": sorted(row["kept"], key=lambda one: published[one, "left"] / published[one, "all"]),
        "common": _published_words(name) & set(row["words"]),
        "row": row,
    }
    return Section(table(head, lines), names)


def words_section(name: str, choose: Callable[[list[Row]], Row], results: Results) -> Section:
    """Return the words with the heaviest weights; bold are those that the thesis lists."""
    words, theirs = choose(found(results, f"{name}-sparse"))["words"], _published_words(name)
    ours = ", ".join(f"**{word}**" if word in theirs else word for word in words)
    both = len(theirs & set(words))
    head = f"the {len(words)} heaviest words, {both} of them (bold) among the {len(theirs)} of the thesis"
    return Section(table([head], [[ours]]))


def _published_words(name: str) -> set[str]:
    return set(paper_rows("heaviest-words")[name].split())


PUBLISHED_RHO1 = 0.1
"""rho1 of table 7.4, on CoNLL-2003."""

for _name, _choose in (
    ("chunks", lambda rows: rows[0]),
    ("names", lambda rows: by(rows, "rho1")[PUBLISHED_RHO1]),
):
    section(f"{_name}-patterns")(partial(patterns_section, _name))
    section(f"{_name}-thresholds", f"{_name}-patterns")(partial(thresholds_section, _name))
    section(f"{_name}-sparse")(partial(kept_section, _name, _choose))
    section(f"{_name}-words", f"{_name}-sparse")(partial(words_section, _name, _choose))


@section("chunks-scores", "chunks-sparse")
def scores_section(results: Results) -> Section:
    """Figure 7.10."""
    row = found(results, "chunks-sparse")[0]
    text = (
        f"The error on the test part is {shown(row['errors']['test'])} %, the F1 {shown(row['f1']['test'])}. "
        f"OWL-QN stopped after {row['iterations']} iterations, optimality {shown(row['optimality'])}."
    )
    trace = row.get("trace", [])
    return Section(text, {"trace": trace, "course": [note["error"] for note in trace]})


@drawn("chunks-convergence", panels=2)
def draw_convergence(axes: Any, results: Results) -> bool:
    """Draw the error and the weights left after each iteration (figure 7.10)."""
    (trace, *_) = [*(row["trace"] for row in found(results, "chunks-sparse") if "trace" in row), []]
    for panel, key, title in zip(axes, ("error", "active"), ("test error, %", "weights left"), strict=True):
        points = [(note["iteration"], note[key]) for note in trace]
        draw_lines(panel, {key: points}, yscale="log", xlabel="iteration", ylabel=title)
    return bool(trace)


@section("product")
def product_section(results: Results) -> Section:
    """The first experiment of section 7.3.3."""
    lines, least = [], dict[tuple[str, str], tuple[float, float, float]]()
    for name, title in (("chunks", "CoNLL-2000"), ("names", "CoNLL-2003")):
        rows, sparse = found(results, f"product-{name}"), found(results, f"{name}-sparse")
        parts = [part for part in _harness.config(name)["files"] if part != "train"]
        published = {part: paper_cells("product")[name, part] for part in parts}
        lines += [
            [title, row["rho1"], part, against(published[part], row["errors"][part]), row["f1"][part],
             row["errors"]["train"], row["active"]["all"], row["size"], row["iterations"], row["optimality"]]
            for row in rows for part in parts
        ]  # fmt: skip
        for part in parts:
            ours, single = (min((row["errors"][part] for row in of), default=math.nan) for of in (rows, sparse))
            least[title, part] = ours, single, published[part]
    head = ["corpus", "rho1", "part", "error %", "F1", "training error %", "weights left", "weights"]
    return Section(table([*head, "iterations", "optimality"], lines), {"least": least})
