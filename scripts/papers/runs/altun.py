"""Altun, Hofmann & Johnson (2002) and Altun, Johnson & Hofmann (2003): losses, the perceptron and boosting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scripts.papers._harness import Options, Row, Skip, say
from scripts.papers.corpus import Corpus
from scripts.papers.task import Task, Trained, changed, token_error

LOSSES = ("SequentialLog", "SequentialExp", "PointwiseLog", "PointwiseExp")
CAPPED = ("SequentialExp-30", "PointwiseExp-30")
BOUNDS = ("loose", "tight", "exact")
FEATURES = ("S1", "S2", "S3")


class SearchedCorpus(Corpus):
    """A corpus on which methods are compared, each with its best rho."""

    def __init__(self, name: str, options: Options) -> None:
        super().__init__(name, options)
        self._solved: dict[str, Trained] = {}

    def features_task(self, features: str, sentences: int | None = None, **component: Any) -> Task:
        """Return the task of a feature set on the first sentences of the training part, all for None."""
        self._solved.clear()
        block = {"features": self.settings["features"][features]}
        return self.task(block, self.parts["train"][:sentences], **component)

    def row(self, task: Task, name: str, method: Mapping[str, Any], *, search: bool = True, **more: Any) -> Row:
        """Train by a method, with the best rho on the dev part if it has one; return scores and token errors.

        A method with `begin` starts from the solution of another one on the same task.
        """
        try:
            rho = method["regularizer"].get("rho")
            if rho is None or not search:
                trained = task.fit(method, patience_on=None if rho else "dev")
                more |= {"rho": rho} if rho else {}
            else:
                trained, choice = self._best(task, method, float(rho))
                more |= choice
        except Skip as reason:
            return {"method": name, "skipped": str(reason)}
        self._solved[name] = trained
        scores = {part: round(task.score(part, trained.theta), 2) for part in ("dev", "test")}
        return task.row(
            trained, method=name, **scores, error=round(token_error(task.tags("test", trained.theta)), 2), **more
        )

    def _best(self, task: Task, method: Mapping[str, Any], rho: float) -> tuple[Trained, Row]:
        """Return the run with the best rho, where smaller and larger values are worse, unless `most` is reached."""
        factor, most = self.settings["search"]["factor"], 2 if self.quick else self.settings["search"]["most"]
        runs: dict[float, tuple[float, Trained]] = {}

        def at(value: float, start: Trained | None = None) -> None:
            trained = task.fit(changed(method, regularizer={"rho": value}), start=start and start.theta)
            runs[value] = task.score("dev", trained.theta), trained
            say(f"        rho {value:g}: {runs[value][0]:.2f} on dev, {trained.seconds:.1f} s")

        def best() -> float:
            return max(runs, key=lambda value: runs[value][0])

        at(rho, self._solved.get(method.get("begin", "")))
        while len(runs) < most:
            if best() == min(runs):
                at(min(runs) / factor, runs[min(runs)][1])
            elif best() == max(runs):
                at(max(runs) * factor, runs[max(runs)][1])
            else:
                break
        seconds = round(sum(trained.seconds for _, trained in runs.values()), 1)
        return runs[best()][1], {"rho": best(), "grid": sorted(runs), "all seconds": seconds}


def compared(
    options: Options,
    corpus: str,
    methods: str,
    features: str,
    sentences: Sequence[int | None] = (None,),
    only: Sequence[str] = (),
    dictionary: Mapping[str, Any] | None = None,
) -> list[Row]:
    """Return a row for each method, or for `only` some, and each number of sentences, and rows with a tag dictionary.

    methods (str): Their block in the settings of the corpus.
    sentences (Sequence): How many of the first ones to train on; all for None.
    dictionary (Mapping): Settings of the tag dictionary; none for None.
    """
    searched, rows = SearchedCorpus(corpus, options), list[Row]()
    blocks = searched.settings[methods]
    for number in sentences:
        task = searched.features_task(features, number)
        of = {"sentences": number} if number else {}
        rows += [searched.row(task, name, blocks[name], **of) for name in only or blocks]
    if dictionary is not None:
        task = searched.features_task(features, **dictionary)
        for row in [row for row in rows if row["method"] in LOSSES]:
            method = changed(blocks[row["method"]], regularizer={"rho": row["rho"]})
            rows.append(searched.row(task, row["method"], method, search=False, dictionary=True))
    return rows


def gradients(options: Options) -> list[Row]:
    """Return a row for each feature set and optimizer, with its course."""
    corpus, rows = SearchedCorpus("entities", options), []
    for features in FEATURES:
        task = corpus.features_task(features)
        for name, optimizer in corpus.settings["gradients"].items():
            trained = task.fit(
                {**corpus.settings["methods"]["SequentialLog"], "optimizer": optimizer}, watch=lambda _: {}
            )
            test = round(task.score("test", trained.theta), 2)
            rows.append(task.row(trained, features=features, method=name, test=test) | {"trace": trained.trace})
    return rows
