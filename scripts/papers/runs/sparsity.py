"""Sokolovska (2010), section 6.1: which weights of an L2 model matter, on NetTalk and on CoNLL-2000."""

from __future__ import annotations

import numpy as np

from scripts.papers._harness import Options, Row
from scripts.papers.corpus import Corpus

OBSERVATIONS = ("words", "tags")
MOST = 600
"""Observations in the figure."""


def hierarchy(options: Options) -> list[Row]:
    """Return a row for each threshold: how many weights of (y,x) remain, and of how many words and tags."""
    corpus = Corpus("hierarchy", options)
    settings, train = corpus.settings, corpus.parts["train"]
    task = corpus.task({"features": settings["features"]})
    theta = task.fit(settings["methods"]["SGD"]).theta
    templates, _ = task.features_of([example.predicted for example in train])
    weights = task.layout.views(theta).unigrams.reshape(-1, len(task.labels))
    rows = []
    for threshold in (0.0, *settings["screening"]["thresholds"]):
        smaller = np.where(np.abs(theta) > threshold, theta, 0)
        row: Row = {"threshold": threshold, "active": task.active(smaller), "F1": round(task.score("test", smaller), 2)}
        for name, template in zip(OBSERVATIONS, templates, strict=True):
            kept = (np.abs(weights[np.unique(template.features)]) > threshold).sum(axis=1)
            sizes = np.sort(kept[kept > 0])[::-1]
            row[name] = {"weights": int(sizes.sum()), "observations": len(sizes), "single": int((sizes == 1).sum())}
            row[name]["sizes"] = " ".join(map(str, sizes[:MOST])) if threshold else ""
        rows.append(row)
    return rows
