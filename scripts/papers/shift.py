"""Weights of examples on real data: entities under covariate shift, each weighting beside training without weights.

Section 5.2 of Sokolovska (2010) weights documents by clusters; this takes the same weights to sequences.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from scripts.papers._harness import Options, Results, Row, config, experiment
from scripts.papers.page import Section, found, section, table
from scripts.papers.tasks import Task, read, resolve

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from spacy.training import Example

UNBIASED, BIASED, TRUE = "unbiased sentences", "no weights", "true shares of the kinds"
SPORTS = slice(1, 4)
"""Where a headline of a report on sports has its dash: SOCCER - ..."""


def documents(path: Any) -> list[int]:
    """Return the number of the document of each sentence."""
    from spacy_crfseq.corpora.layouts import read_preset

    return [sentence.document for sentence in read_preset(path, "conll2003")]


def is_sport(headline: list[str]) -> bool:
    """Whether a headline is that of a report on sports, by its form."""
    return headline[0].isupper() and "-" in headline[SPORTS]


def drawn_sentences(
    rng: np.random.Generator, prose: NDArray[np.bool_], sizes: dict[str, Any], shift: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return numbers of sentences of the target, of unbiased and of biased training sentences, all of them different
    ones from the target.
    """
    order = rng.permutation(len(prose))
    target, rest = order[: sizes["target"]], order[sizes["target"] :]
    unbiased = rest[: sizes["train"]]
    if not shift:
        return target, unbiased, unbiased
    many = round(sizes["share"] * sizes["train"])
    biased = np.concatenate([rest[prose[rest]][:many], rest[~prose[rest]][: sizes["train"] - many]])
    return target, unbiased, biased


@experiment("shift", "English entities from biased sentences, with weights by texts of the target", 6)
def shift(options: Options) -> list[Row]:
    """Return a row for each run, seed and way to train."""
    import spacy

    settings = config("shift")
    nlp = spacy.blank("en")
    train, dev, test = (read(nlp, options, settings, part, options.few(400)) for part in ("train", "dev", "test"))
    of_document = documents(options.corpus(settings["files"]["train"]))[: len(train)]
    words = [[token.text for token in example.reference] for example in train]
    headlines = {document: words[i] for i, document in reversed(list(enumerate(of_document)))}
    prose = np.array([not is_sport(headlines[document]) for document in of_document])
    sizes = {**settings["sizes"], **({"train": 100, "target": 200} if options.quick else {})}
    weightings = resolve(settings["weightings"])
    rows: list[Row] = []
    for run in settings["runs"].values():
        for seed in range(options.few(1, run["seeds"])):
            rng = np.random.default_rng([options.seed, seed])
            target, unbiased, biased = drawn_sentences(rng, prose, sizes, run["shift"])
            about = {"features": run["features"], "shift": run["shift"], "draw": seed}
            kinds = prose[biased].mean(), prose[target].mean()
            parts = {"dev": dev, "test": test}
            for numbers, weighted in ((unbiased, False), (biased, True))[not run["shift"] :]:
                weights = {BIASED if weighted else UNBIASED: np.ones(len(numbers))}
                if weighted:
                    texts, aims = ([words[i] for i in chosen] for chosen in (numbers, target))
                    weights |= {name: one(texts, aims).values for name, one in weightings.items()}
                    true = np.where(prose[numbers], kinds[1] / kinds[0], (1 - kinds[1]) / (1 - kinds[0]))
                    weights |= {TRUE: true} if run["shift"] else {}
                examples = [train[i] for i in numbers]
                rows += _trained(settings, run["features"], examples, parts, weights, about, quick=options.quick)
    return rows


def _trained(
    settings: dict[str, Any],
    features: str,
    examples: list[Example],
    parts: dict[str, list[Example]],
    weights: dict[str, NDArray[np.float64]],
    about: Row,
    *,
    quick: bool,
) -> list[Row]:
    import spacy

    nlp = spacy.blank("en", vocab=examples[0].reference.vocab)
    task = Task(nlp, settings["component"], settings["features"][features], examples, parts, quick=quick)
    rows = []
    for name, values in weights.items():
        task.data = task.data._replace(weights=values)
        trained = task.fit(settings["methods"]["L-BFGS"])
        score = {part: round(task.score(part, trained.theta), 2) for part in parts}
        size = float(values.sum() ** 2 / (values**2).sum())
        rows.append({**about, "method": name, "effective size": round(size), **score})
    return rows


# The page


class Means(NamedTuple):
    """Averages over the draws of a run: F1 on both parts, the deviation of that on testb, and the effective size."""

    dev: float
    test: float
    deviation: float
    size: float


def _means(results: Results, features: str, shifted: bool) -> dict[str, Means]:
    """Return the averages of each method."""
    groups: dict[str, list[Row]] = {}
    for row in found(results, "shift"):
        if (row["features"], row["shift"]) == (features, shifted):
            groups.setdefault(row["method"], []).append(row)
    means = {}
    for name, rows in groups.items():
        dev, test, size = (np.array([row[key] for row in rows]) for key in ("dev", "test", "effective size"))
        means[name] = Means(*map(float, (dev.mean(), test.mean(), test.std(), size.mean())))
    return means


def gap_closed(means: dict[str, Means], method: str) -> float:
    """Return the share of the gap between biased and unbiased training that a method closes on testb, in per cent."""
    low, high = means[BIASED].test, means[UNBIASED].test
    return 100 * (means[method].test - low) / (high - low)


def _section(features: str, shifted: bool, results: Results) -> Section:
    means = _means(results, features, shifted)
    lines = []
    for name, one in means.items():
        closed = [f"{gap_closed(means, name):.0f} %"] if shifted and name not in (UNBIASED, BIASED) else []
        lines.append([name, round(one.size), one.dev, one.test, one.deviation, *closed])
    head = ["training", "effective size", "testa", "testb", "+/-", *(["gap closed, testb"] if shifted else [])]
    return Section(table(head, lines))


section("shift-spelling", "shift")(partial(_section, "spelling", True))
section("shift-none", "shift")(partial(_section, "spelling", False))
section("shift-words", "shift")(partial(_section, "words", True))


@section("shift")
def shift_section(results: Results) -> Section:
    """The weighting with the highest F1 on testa."""
    shifted, none = (_means(results, "spelling", shifted) for shifted in (True, False))
    best = max((name for name in shifted if name not in (UNBIASED, BIASED, TRUE)), key=lambda name: shifted[name].dev)
    text = f"The highest F1 on testa under shift has *{best}*."
    return Section(text, {"best": best, "closed": gap_closed(shifted, best), "none": none})
