"""Sokolovska (2010) on CoNLL-2000, and what its experiments share with those on CoNLL-2003 (`names`).

Patterns of features, thresholds on trained weights, and sparse models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from scripts.papers import _harness
from scripts.papers._harness import Options, Results, Row, experiment
from scripts.papers.figures import drawn
from scripts.papers.page import (
    Check,
    Table,
    against,
    checks,
    figure,
    found,
    paper_cells,
    paper_rows,
    section,
    shown,
    table,
)
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


def run_sparse(corpus: Corpus, watched: str | None = None) -> list[Row]:
    """Return a row for each rho1 of a path: what remains of each pattern, and the words with the heaviest weights.

    watched (str | None): Part whose error is noted after each iteration.
    """
    sparse = corpus.settings["sparse"]
    task = corpus.task(LARGEST, keep_names=True)

    def error(theta: Floats) -> Row:
        return {"error": round(100 - task.score(str(watched), theta), 3)}

    rows = []
    for rho1, trained in _along(corpus, task, sparse["rho1"], error if watched else None):
        row = corpus.row(task, trained, rho1=rho1, **({"trace": trained.trace} if watched else {}))
        rows.append({**row, "kept": kept(task), "words": heaviest(task, sparse["words"])})
    return rows


def run_product(corpus: Corpus) -> list[Row]:
    """Return a row for each rho1 of a path, of the model that has products of all observations alone."""
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


@experiment("chunks-patterns", "CoNLL-2000, patterns of features under an L2 norm, and thresholds", 7)
def patterns(options: Options) -> list[Row]:
    """Return the rows of tables 3.5, 3.7 and 6.1."""
    return run_patterns(Corpus("chunks", options))


@experiment("chunks-sparse", "CoNLL-2000, what an L1 norm leaves of each pattern", 2)
def sparse(options: Options) -> list[Row]:
    """Return the rows of tables 7.3 and 7.5, and of figure 7.10."""
    return run_sparse(Corpus("chunks", options), watched="test")


@experiment("product-chunks", "CoNLL-2000, products of word and part of speech under an L1 norm", 4)
def product(options: Options) -> list[Row]:
    """Return the rows of the first experiment of section 7.3.3."""
    return run_product(Corpus("chunks", options))


@experiment("product-names", "CoNLL-2003, products of word, part of speech and chunk under an L1 norm", 2)
def product_of_names(options: Options) -> list[Row]:
    """Return the rows of the first experiment of section 7.3.3."""
    return run_product(Corpus("names", options))


# The page


def patterns_table(results: Results, name: str) -> str:
    """Return a table of patterns: weights, and errors on each part beside the published ones."""
    rows = {row["pattern"]: row for row in found(results, f"{name}-patterns") if "pattern" in row}
    titles, parts = _config(name)["patterns"], _config(name)["files"]
    head = ["pattern", "weights"]
    head += [f"{part} error %, {whose}" for part in parts for whose in ("published", "ours")]
    head += [*(f"{part} F1" for part in parts if part != "train"), "iterations", "optimality"]
    content = []
    for pattern, row in rows.items():
        errors = [one for part in parts for one in (paper_cells(name)[pattern, part], row["errors"][part])]
        line = [titles[pattern]["name"], row["weights"], *errors, *row["f1"].values()]
        content.append([*line, row["iterations"], row["optimality"]])
    return table(Table(head, content))


def pattern_checks(results: Results, name: str) -> list[Check]:
    """Return what is expected of all patterns: levels, and their order."""
    rows = {row["pattern"]: row["errors"] for row in found(results, f"{name}-patterns") if "pattern" in row}
    published = paper_cells(name)
    tested = [part for part in _config(name)["files"] if part != "train"]

    def in_order(part: str) -> bool:
        ours = sorted(some(rows), key=lambda pattern: rows[pattern][part])
        theirs = [published[pattern, part] for pattern in ours]
        return theirs == sorted(theirs)

    return [
        Check(
            "each error is within half a point of the published one",
            lambda: all(
                abs(some(rows)[pattern][part] - theirs) <= 0.5 for (pattern, part), theirs in published.items()
            ),
        ),
        *(
            Check(f"the patterns have the published order on {part}", lambda part=part: in_order(part))
            for part in tested
        ),
    ]


def thresholds_table(results: Results, name: str) -> str:
    """Return a table of thresholds: weights left, accuracy and F1 beside the published ones."""
    rows = [row for row in found(results, f"{name}-patterns") if "threshold" in row]
    published = paper_cells(f"{name}-thresholds")
    scores = [column for size, column in published if size == 0.0 and column != "active"]
    names = ["weights left", *(score.replace("f1", "F1") for score in scores)]
    head = ["set to zero", *(f"{one}, {whose}" for one in names for whose in ("published", "ours"))]
    content = []
    for row in rows:
        size = row["threshold"]
        both = [int(published[size, "active"]), row["active"]["all"]]
        both += [one for score in scores for one in (published[size, score], score_of(row, score))]
        content.append([f"up to {size:g}" if size else "none", *both])
    return table(Table(head, content))


def score_of(row: Row, name: str) -> float:
    """Return a score of a row by part and kind, such as "test f1"."""
    part, kind = name.split()
    return float(row["scores"][part][kind])


def kept_table(row: Row, name: str) -> str:
    """Return a table of what an L1 norm leaves of each pattern of features, beside the published numbers."""
    published = paper_cells(f"{name}-sparse")
    head = [f"{what}, {whose}" for what in ("weights", "left", "share left") for whose in ("published", "ours")]
    content = []
    for pattern, (all_, left) in row["kept"].items():
        theirs = [int(published[pattern, column]) for column in ("all", "left")]
        share = [f"{100 * one:.2f} %" for one in (theirs[1] / theirs[0], left / all_)]
        content.append([pattern, theirs[0], all_, theirs[1], left, *share])
    return table(Table(["pattern", *head], content))


def words_text(row: Row, name: str) -> str:
    """Return a table of the words with the heaviest weights; bold are those that the thesis lists."""
    theirs = set(paper_rows("heaviest-words")[name].split())
    ours = ", ".join(f"**{word}**" if word in theirs else word for word in row["words"])
    both = len(theirs & set(row["words"]))
    head = f"the {len(row['words'])} heaviest words, {both} of them (bold) among the {len(theirs)} of the thesis"
    return table(Table([head], [[ours]]))


def kept_checks(row: Row, name: str) -> list[Check]:
    """Return what is expected of the weights that an L1 norm leaves."""
    published = paper_cells(f"{name}-sparse")
    patterns = list(dict.fromkeys(pattern for pattern, _ in published))

    def ratio(pattern: str) -> float:
        return float(row["kept"][pattern][1] / published[pattern, "left"])

    def shares() -> list[str]:
        return sorted(patterns, key=lambda pattern: row["kept"][pattern][1] / row["kept"][pattern][0])

    return [
        Check(
            "of each pattern, between half and twice the published number of weights is left",
            lambda: all(0.5 <= ratio(pattern) <= 2 for pattern in patterns),
        ),
        Check(
            "the patterns have the published order by the share that is left",
            lambda: shares() == sorted(patterns, key=lambda one: published[one, "left"] / published[one, "all"]),
        ),
        Check(
            "at least a third of the thesis's heaviest words are among ours",
            lambda: len(set(paper_rows("heaviest-words")[name].split()) & set(row["words"])) >= len(row["words"]) / 3,
        ),
    ]


@section("chunks-patterns")
def patterns_section(results: Results) -> str:
    """Tables 3.5, 3.7 and 6.1."""
    rows = {row["pattern"]: row for row in found(results, "chunks-patterns") if "pattern" in row}
    cut = {row["threshold"]: row for row in found(results, "chunks-patterns") if "threshold" in row}
    wanted = [
        *pattern_checks(results, "chunks"),
        Check(
            "(y',y) + (y,x1) + (y,x2) generalizes better than (y',y,x1) + (y',y,x2), with a twentieth of the weights",
            lambda: (
                rows["chain"]["errors"]["test"] < rows["bigrams"]["errors"]["test"]
                and 20 * rows["chain"]["weights"] < rows["bigrams"]["weights"]
            ),
        ),
    ]
    dropped = [
        Check(
            "one weight in 200 is enough for the F1 of all, within 0.2 points",
            lambda: (
                200 * cut[0.25]["active"]["all"] < cut[0.0]["active"]["all"]
                and score_of(cut[0.25], "test f1") > score_of(cut[0.0], "test f1") - 0.2
            ),
        ),
        Check(
            "F1 falls with each further step",
            lambda: all(
                score_of(cut[a], "test f1") > score_of(cut[b], "test f1")
                for a, b in ((0.25, 0.5), (0.5, 0.75), (0.75, 1))
            ),
        ),
    ]
    between = "Table 6.1: the weights of the last pattern up to a size are set to zero."
    parts = [patterns_table(results, "chunks"), checks(wanted), between, thresholds_table(results, "chunks")]
    return "\n\n".join([*parts, checks(dropped)])


@section("chunks-sparse")
def sparse_section(results: Results) -> str:
    """Tables 7.3 and 7.5."""
    row = found(results, "chunks-sparse")[0]
    scores = (
        f"The error on the test part is {shown(row['errors']['test'])} %, the F1 {shown(row['f1']['test'])}. "
        f"OWL-QN stopped after {row['iterations']} iterations, optimality {shown(row['optimality'])}."
    )
    trace = row.get("trace", [])
    course = [note["error"] for note in trace]
    wanted = [
        *kept_checks(row, "chunks"),
        Check(
            "the error is stable after 30 iterations: it changes by less than 0.3 points until the last one",
            lambda: max(course[29:]) - min(course[29:]) < 0.3,
        ),
        Check(
            "weights left become fewer after the first iterations, as published",
            lambda: trace[-1]["active"] < max(note["active"] for note in trace) / 2,
        ),
    ]
    picture = figure("chunks-convergence", "Test error and weights left after each iteration") if trace else ""
    parts = [kept_table(row, "chunks"), scores, words_text(row, "chunks"), checks(wanted), picture]
    return "\n\n".join(filter(None, parts))


@drawn("chunks-convergence", panels=2)
def draw_convergence(axes: Any, results: Results) -> bool:
    """Draw the error and the weights left after each iteration (figure 7.10)."""
    rows = [row for row in found(results, "chunks-sparse") if "trace" in row]
    for row in rows:
        for panel, key in zip(axes, ("error", "active"), strict=True):
            panel.plot([note["iteration"] for note in row["trace"]], [note[key] for note in row["trace"]])
    axes[0].set(yscale="log", xlabel="iteration", ylabel="test error, %")
    axes[1].set(yscale="log", xlabel="iteration", ylabel="weights left")
    return bool(rows)


@section("product")
def product_section(results: Results) -> str:
    """The first experiment of section 7.3.3."""
    content, wanted = [], []
    for name, title in (("chunks", "CoNLL-2000"), ("names", "CoNLL-2003")):
        parts = [part for part in _config(name)["files"] if part != "train"]
        published = {part: paper_cells("product")[name, part] for part in parts}
        rows = found(results, f"product-{name}")
        content += [
            [title, row["rho1"], part, against(published[part], row["errors"][part]), row["f1"][part],
             row["errors"]["train"], row["active"]["all"], row["size"], row["iterations"], row["optimality"]]
            for row in rows for part in parts
        ]  # fmt: skip
        wanted += [
            Check(
                f"{title}, {part}: no rho1 comes within a fifth of the error of single observations",
                lambda name=name, part=part, rows=rows: (
                    min(row["errors"][part] for row in some(rows))
                    > 1.2 * min(row["errors"][part] for row in some(found(results, f"{name}-sparse")))
                ),
            )
            for part in parts
        ]
        wanted += [
            Check(
                f"{title}, {part}: the least error is within two points of the published one",
                lambda part=part, rows=rows, published=published: (
                    abs(min(row["errors"][part] for row in some(rows)) - published[part]) <= 2
                ),
            )
            for part in parts
        ]
    head = ["corpus", "rho1", "part", "error %", "F1", "training error %", "weights left", "weights"]
    return f"{table(Table([*head, 'iterations', 'optimality'], content))}\n\n{checks(wanted)}"


def _config(name: str) -> dict[str, Any]:
    return _harness.config(name)


def some(rows: Any) -> Any:
    """Return rows.  Raises ValueError where there are none."""
    if not rows:
        raise ValueError("no rows")
    return rows
