"""Sokolovska (2010) on CoNLL-2003: patterns, thresholds, sparse models along rho1, and cruder ways to have few features."""

from __future__ import annotations

from scripts.papers._harness import Options, Row, experiment
from scripts.papers.chunks import LARGEST, Corpus, run_patterns, run_sparse

CUT_OFF, INFORMATION = "count cut-off", "mutual information"


@experiment("names-patterns", "CoNLL-2003, patterns of features under an L2 norm, and thresholds", 4)
def patterns(options: Options) -> list[Row]:
    """Return the rows of tables 3.5, 3.8 and 6.2."""
    return run_patterns(Corpus("names", options))


@experiment("names-sparse", "CoNLL-2003, what an L1 norm leaves of each pattern, along rho1", 4)
def sparse(options: Options) -> list[Row]:
    """Return the rows of tables 7.4 and 7.6, and of figures 7.9 and 7.11."""
    return run_sparse(Corpus("names", options))


@experiment("names-selection", "CoNLL-2003, fewer features by count cut-offs and mutual information", 4)
def selection(options: Options) -> list[Row]:
    """Return the rows of figures 7.17 and 7.18 for models that are trained on a part of the features."""
    from spacy_crfseq.training.selection import most_informative

    corpus = Corpus("names", options)
    method, settings = corpus.settings["methods"]["L2"], corpus.settings["selection"]
    rows = []
    for least in settings["counts"]:
        task = corpus.task(LARGEST, min_count=least)
        rows.append(corpus.row(task, task.fit(method), how=CUT_OFF, setting=least))
    task = corpus.task(LARGEST)
    for number in settings["information"]:
        part = most_informative(task.layout, task.data, options.few(number // 100, number))
        rows.append(corpus.row(task, task.fit(method, layout=part), how=INFORMATION, setting=number))
    return rows
