"""Sokolovska (2010) on NetTalk: feature patterns, training methods, thresholds, and block descent along rho1."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from scripts.papers._harness import Options, Row, Skip
from scripts.papers.corpora import Examples, as_examples, read_nettalk, split_words
from scripts.papers.corpus import Corpus
from scripts.papers.task import Task, changed
from scripts.papers.weights import compact, weights_of

if TYPE_CHECKING:
    from spacy.language import Language

CONFUSED = ("(y',y,x)", "(y,x) + (y',y,x)")
"""Patterns whose errors are listed."""
ALPHABET = "abcdefghijklmnopqrstuvwxyz"
MOST = 20
"""Number of confusions and words that are listed."""
MARGINS = (0, 2, 5, 8, 10)
"""Wrong symbols of a word, or differences in score, above which words are counted."""
THRESHOLDS = (0.0, 0.25, 0.5, 1.0, 2.0)
MAPPED = (0.25, 2.0)
"""Thresholds at which the kept weights of each phoneme and letter are counted."""


def read_split(nlp: Language, options: Options, settings: Mapping[str, Any]) -> dict[str, Examples]:
    """Return NetTalk split by words."""
    pairs = read_nettalk(options.corpus(settings["files"]["all"]))[:: options.few(80, 1)]
    shares = settings["split"]["train"], settings["split"]["dev"]
    parts = (as_examples(nlp, part) for part in split_words(pairs, shares, options.seed))
    return dict(zip(("train", "dev", "test"), parts, strict=True))


def _errors(task: Task, theta: Any, parts: Sequence[str] = ("train", "dev", "test")) -> Row:
    return {f"{part} error": round(100 - task.score(part, theta), 2) for part in parts}


def _of_both(options: Options) -> tuple[dict[str, Any], Task]:
    """Return the settings, and the task of (y,x) + (y',y,x) without y0."""
    corpus = Corpus("nettalk", options, read_split)
    return corpus.settings, corpus.task(corpus.settings["model"])


def patterns(options: Options) -> list[Row]:
    """Return a row for each pattern."""
    corpus, rows = Corpus("nettalk", options, read_split), []
    for pattern in corpus.settings["patterns"].values():
        name = pattern["name"]
        try:
            task = corpus.task(pattern)
            trained = task.fit(corpus.settings["training"])
            row = task.row(trained, pattern=name, **_errors(task, trained.theta))
            rows.append({**row, **(_mistakes(task, trained.theta) if name in CONFUSED else {})})
        except Skip as reason:
            rows.append({"pattern": name, "skipped": str(reason)})
    return rows


def _mistakes(task: Task, theta: Any, part: str = "test") -> Row:
    """Return the most frequent confusions on a part, words by their errors, and the worst words."""
    texts, margins = task.tags(part, theta), task.margins(part, theta)
    confusions = Counter(
        (predicted, gold) for text in texts for gold, predicted in zip(*text, strict=True) if predicted != gold
    )
    wrong = Counter(text.errors() for text in texts)
    worst = sorted(range(len(texts)), key=lambda word: -margins[word] if margins[word] > 0 else 0.0)[:MOST]
    words = [example.reference.text.replace(" ", "") for example in task.parts[part]]
    return {
        "confusions": [[*pair, count] for pair, count in confusions.most_common(MOST)],
        "words by margin": {str(least): sum(margin > least for margin in margins) for least in MARGINS},
        "words by errors": {str(errors): count for errors, count in sorted(wrong.items())},
        "worst words": [
            [words[word], *("".join(map(str, tags)) for tags in texts[word]), round(margins[word], 2)] for word in worst
        ],
    }


def methods(options: Options) -> list[Row]:
    """Return a row for each method, with its course, and rows for the L2 model without its smallest weights."""
    settings, task = _of_both(options)
    rows = []
    for name, method in settings["methods"].items():
        try:
            trained = task.fit(method, watch=lambda theta: _errors(task, theta, ("test",)))
        except Skip as reason:
            rows.append({"method": name, "skipped": str(reason)})
            continue
        rows.append(task.row(trained, method=name, **_errors(task, trained.theta), trace=trained.trace))
        if name == "L-BFGS":
            rows += _screened(task, trained.theta)
    return rows


def norms(options: Options) -> list[Row]:
    """Return a row for each strength of the norm."""
    settings, task = _of_both(options)
    rows = []
    for rho in settings["norms"]["rho"]:
        trained = task.fit(changed(settings["methods"]["SGD"], regularizer={"rho": rho}))
        rows.append(task.row(trained, rho=rho, **_errors(task, trained.theta)))
    return rows


def _screened(task: Task, theta: Any) -> list[Row]:
    """Return rows for the weights above some thresholds, for the positive ones, and for sizes by phoneme and letter."""
    rows: list[Row] = []
    kept = [(threshold, np.where(np.abs(theta) > threshold, theta, 0)) for threshold in THRESHOLDS]
    for threshold, smaller in [*kept, ("positive", np.maximum(theta, 0))]:
        weights = weights_of(task, smaller, ALPHABET)
        orphans = int(np.count_nonzero(weights.bigrams * weights.orphans()[:, None]))
        active = task.active(smaller)
        counts = {"active": active["all"], "unigrams": active["state"], "bigrams": active["pair"], "orphans": orphans}
        rows.append({"method": "threshold", "threshold": threshold, **counts, **_errors(task, smaller)})
    whole = weights_of(task, theta, ALPHABET)
    maps = {"unigrams": np.abs(whole.unigrams), "bigrams": np.abs(whole.bigrams).sum(axis=1)}
    for threshold in MAPPED:
        left = whole.kept(threshold)
        sign = np.where(left.unigrams == 0, -1, 1)  # negative where the weight of (y,x) is not kept
        maps[f"kept {threshold:g}"] = left.bigrams.sum(axis=1) * sign
    for name, values in maps.items():
        rows.append({"method": "map", "map": name, "phonemes": "".join(task.labels), "rows": compact(ALPHABET, values)})
    return rows


def path(options: Options) -> list[Row]:
    """Return a row for each value of a falling rho1, begun where the last one ended, with the time of its sweeps.

    The first sweep builds the method's tables, and the optimality is measured after the last one: neither is timed.
    """
    settings, task = _of_both(options)
    rows = []
    for rho1, trained in task.along(settings["path"]["method"], settings["path"]["rho1"], lambda _: {}):
        sweeps = np.diff([note["seconds"] for note in trained.trace])[:-1]
        sweep = round(float(np.median(sweeps)), 3) if len(sweeps) else None
        rows.append(task.row(trained, rho1=rho1, sweep=sweep, **_errors(task, trained.theta)))
    return rows


def weights(options: Options) -> list[Row]:
    """Return rows for the weights of (y,x), and for the summed sizes of those of (y',y,x)."""
    settings, task = _of_both(options)
    strengths = settings["weights"]
    method = changed(settings["path"]["method"], regularizer=strengths)
    tables = weights_of(task, task.fit(method).theta, ALPHABET)
    maps = {"unigrams": tables.unigrams, "bigrams": np.abs(tables.bigrams).sum(axis=1)}
    return [
        {"map": name, **strengths, "phonemes": "".join(task.labels), "rows": compact(ALPHABET, values)}
        for name, values in maps.items()
    ]
