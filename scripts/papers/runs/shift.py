"""Weights of examples on real data: entities under covariate shift, each weighting beside training without weights.

Section 5.2 of Sokolovska (2010) weights documents by clusters; this takes the same weights to sequences.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from scripts.papers._harness import Options, Row, resolve
from scripts.papers.corpora import read_parts
from scripts.papers.corpus import Corpus

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


def shift(options: Options) -> list[Row]:
    """Return a row for each run, seed and way to train."""
    corpus = Corpus("shift", options, partial(read_parts, few=400))
    settings, train = corpus.settings, corpus.parts["train"]
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
            for numbers, weighted in ((unbiased, False), (biased, True))[not run["shift"] :]:
                weights = {BIASED if weighted else UNBIASED: np.ones(len(numbers))}
                if weighted:
                    texts, aims = ([words[i] for i in chosen] for chosen in (numbers, target))
                    weights |= {name: weighting(texts, aims).values for name, weighting in weightings.items()}
                    true = np.where(prose[numbers], kinds[1] / kinds[0], (1 - kinds[1]) / (1 - kinds[0]))
                    weights |= {TRUE: true} if run["shift"] else {}
                examples = [train[i] for i in numbers]
                rows += _trained(corpus, run["features"], examples, weights, about)
    return rows


def _trained(
    corpus: Corpus, features: str, examples: list[Example], weights: dict[str, NDArray[np.float64]], about: Row
) -> list[Row]:
    task = corpus.task({"features": corpus.settings["features"][features]}, examples)
    rows = []
    for name, values in weights.items():
        task.data = task.data._replace(weights=values)
        trained = task.fit(corpus.settings["methods"]["L-BFGS"])
        score = {part: round(task.score(part, trained.theta), 2) for part in corpus.tested}
        size = float(values.sum() ** 2 / (values**2).sum())
        rows.append({**about, "method": name, "effective size": round(size), **score})
    return rows
