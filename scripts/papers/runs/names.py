"""Sokolovska (2010) on CoNLL-2003: sparse models along rho1, and other ways to fewer features."""

from __future__ import annotations

from scripts.papers._harness import Options, Row
from scripts.papers.runs.chunks import LARGEST, ThesisCorpus

CUT_OFF, INFORMATION = "count cut-off", "mutual information"


def selection(options: Options) -> list[Row]:
    """Return the rows of figures 7.17 and 7.18 for models that are trained on a part of the features."""
    from spacy_crfseq.training.selection import most_informative

    corpus = ThesisCorpus("names", options)
    method, settings = corpus.settings["methods"]["chosen"], corpus.settings["selection"]
    rows = []
    for least in settings["counts"]:
        task = corpus.pattern_task(LARGEST, min_count=least)
        rows.append(corpus.row(task, task.fit(method), how=CUT_OFF, setting=least))
    task = corpus.pattern_task(LARGEST)
    for number in settings["information"]:
        part = most_informative(task.layout, task.data, options.few(number // 100, number))
        rows.append(corpus.row(task, task.fit(method, layout=part), how=INFORMATION, setting=number))
    return rows
