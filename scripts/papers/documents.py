"""Sokolovska (2010), section 5.2, on CoNLL-2003: sports reports told from others, documents weighted by clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from scripts.papers._harness import Options, Results, Row, experiment
from scripts.papers.page import Section, by, columns, found, section
from scripts.papers.semi import MARKS, ORDINARY, WEIGHTED

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from spacy_crfseq.papers.weighting.weightings import WordCounts

    Array = NDArray[np.float64]

COMPONENTS, VOCABULARY, REPLICATIONS, TRIALS = 10, 1500, 50, 10
DRAWN = (50, 300)
STRENGTHS_OF_DOCUMENTS = (0.01, 0.1, 1.0, 10.0, 100.0)


@experiment("documents", "Section 5.2 on CoNLL-2003: documents weighted by clusters, n = 50 and 300", 1)
def documents(options: Options) -> list[Row]:
    """Return a row for each size and estimator: errors of the replications on the documents that are not drawn."""
    from spacy_crfseq.papers.weighting.weightings import by_class, fit_mixture

    bags, labels = _documents(options)
    mixture, _ = fit_mixture(bags, COMPONENTS, 0.1, np.random.default_rng(options.seed), 50, 1e-4)
    cluster = mixture.joint(bags).argmax(axis=0)
    rows = []
    for n in DRAWN:
        wrong: dict[tuple[str, float], list[float]] = {}
        for replication in range(options.few(4, REPLICATIONS + TRIALS)):
            rng = np.random.default_rng([options.seed, n, replication])
            chosen = np.isin(np.arange(len(labels)), rng.permutation(len(labels))[:n])
            weights = {ORDINARY: np.ones(n), WEIGHTED: by_class(cluster[chosen], cluster, "clusters")[0]}
            for estimator, mass in weights.items():
                for rho in STRENGTHS_OF_DOCUMENTS:
                    theta = fitted(Logistic(bags.of(chosen), labels[chosen], mass / mass.sum(), rho / n))
                    error = float((scores(bags.of(~chosen), theta) * labels[~chosen] <= 0).mean())
                    wrong.setdefault((estimator, rho), []).append(100 * error)
        for estimator in (ORDINARY, WEIGHTED):
            trials = options.few(2, TRIALS)  # the strength is chosen on other draws than those that are shown
            rho = min(STRENGTHS_OF_DOCUMENTS, key=lambda one: np.mean(wrong[estimator, one][:trials]))
            shown = wrong[estimator, rho][trials:]
            spread = {"mean": float(np.mean(shown)), "deviation": float(np.std(shown))}
            percentiles = np.percentile(shown, MARKS).tolist()
            rows.append({"n": n, "estimator": estimator, "rho n": rho, **spread, "percentiles": percentiles})
    return rows


def _documents(options: Options) -> tuple[WordCounts, NDArray[np.int64]]:
    """Return the reports of CoNLL-2003 without headlines, as bags, and their labels: 1 for sports, -1 for others."""
    from scripts.papers.shift import is_sport
    from spacy_crfseq.corpora.layouts import read_preset
    from spacy_crfseq.papers.weighting.weightings import count_words

    texts: list[list[str]] = []
    labels: list[int] = []
    for part in ("train", "testa", "testb")[: options.few(1, 3)]:
        last = -1
        for sentence in read_preset(options.corpus(f"conll2003/eng.{part}"), "conll2003"):
            if sentence.document != last:
                last = sentence.document
                labels.append(1 if is_sport(sentence.words) else -1)
                texts.append([])
                continue
            texts[-1] += sentence.words
    bags = count_words(texts)
    frequent = np.argsort(-bags.per_word(bags.counts), kind="stable")[:VOCABULARY]
    number = np.full(bags.n_words, -1)
    number[frequent] = np.arange(len(frequent))
    kept = number[bags.words] >= 0
    return (
        bags._replace(
            texts=bags.texts[kept], words=number[bags.words[kept]], counts=bags.counts[kept], n_words=len(frequent)
        ),
        np.array(labels),
    )


class Logistic(NamedTuple):
    """The objective of a weighted logistic regression on counts, for a batch optimizer; the last parameter is the bias.

    sign, mass (NDArray): [N] 1 or -1 for the class of each text, and its weight.
    rho (float): Strength of the squared norm, not that of the bias.
    """

    bags: WordCounts
    sign: NDArray[np.int64]
    mass: Array
    rho: float
    n_threads: int = 1
    approachable: bool = False

    def value_and_grad(self, theta: Array, out: Array) -> tuple[float, float, Array]:
        """Return objective, loss alone, and the gradient [words + 1] in `out`."""
        margin = self.sign * scores(self.bags, theta)
        loss = float(self.mass @ np.logaddexp(0.0, -margin))
        slope = -self.mass * self.sign * 0.5 * (1.0 - np.tanh(margin / 2))
        out[:-1] = self.bags.per_word(self.bags.counts * slope[self.bags.texts]) + self.rho * theta[:-1]
        out[-1] = slope.sum()
        return loss + 0.5 * self.rho * float(theta[:-1] @ theta[:-1]), loss, out


def scores(bags: WordCounts, theta: Array) -> Array:
    """Return the log odds [N] of class 1."""
    odds: Array = bags.per_text(bags.counts * theta[bags.words]) + theta[-1]
    return odds


def fitted(objective: Any) -> Array:
    """Return the parameters [words + 1] that L-BFGS finds."""
    from spacy_crfseq.optimizers.lbfgs import LBFGS

    optimizer = LBFGS(max_iterations=100)
    state = optimizer.start(np.zeros(objective.bags.n_words + 1))
    while not optimizer.iterate(objective, state).converged:
        pass
    return optimizer.export(state)


# The page


@section("documents")
def documents_section(results: Results) -> Section:
    """Figure 5.6."""
    rows = found(results, "documents")
    text = columns(rows, {"estimator": "estimator", "n": "n", "rho n": "rho n", "error %": "mean", "+/-": "deviation"})
    return Section(text, {"run": by(rows, "estimator", "n")})
