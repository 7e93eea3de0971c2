"""Sokolovska (2010), section 5.2, on CoNLL-2003: sports reports told from others, documents weighted by clusters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from scripts.papers._harness import Options, Row, Skip
from scripts.papers.cells import ORDINARY, WEIGHTED
from scripts.papers.runs.simulation import MARKS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from spacy_crfseq.papers.weighting.weightings import WordCounts

    Array = NDArray[np.float64]


def documents(
    options: Options,
    clusters: int,
    vocabulary: int,
    drawn: Sequence[int],
    strengths: Sequence[float],
    replications: int,
    trials: int,
) -> list[Row]:
    """Return a row for each size and estimator: errors of the replications on the documents that are not drawn.

    clusters, vocabulary (int): Number of multinomials, and of the most frequent words that they count.
    drawn (Sequence[int]): Numbers of documents to train on.
    strengths (Sequence[float]): Candidates, of which one is chosen on other draws than those of the replications.
    replications, trials (int): Number of draws that are shown, and of those to choose on.
    """
    from spacy_crfseq.papers.weighting.weightings import by_class, fit_mixture

    try:
        import sklearn  # noqa: F401
        from scipy.sparse import csr_array
    except ImportError as error:
        raise Skip("scikit-learn is not installed (pip install -e '.[papers]')") from error

    bags, labels = _documents(options, vocabulary)
    counts = csr_array((bags.counts, (bags.texts, bags.words)), shape=(len(labels), bags.n_words))
    mixture, _ = fit_mixture(bags, clusters, 0.1, np.random.default_rng(options.seed), 50, 1e-4)
    cluster = mixture.joint(bags).argmax(axis=0)
    rows = []
    for n in drawn:
        wrong: dict[tuple[str, float], list[float]] = {}
        for replication in range(options.few(4, replications + trials)):
            rng = np.random.default_rng([options.seed, n, replication])
            chosen = np.isin(np.arange(len(labels)), rng.permutation(len(labels))[:n])
            weights = {ORDINARY: np.ones(n), WEIGHTED: by_class(cluster[chosen], cluster, "clusters")[0]}
            for estimator, mass in weights.items():
                for rho in strengths:
                    error = _error(counts, labels, chosen, mass, rho)
                    wrong.setdefault((estimator, rho), []).append(error)
        for estimator in (ORDINARY, WEIGHTED):
            tried = options.few(2, trials)
            rho = min(strengths, key=lambda strength: np.mean(wrong[estimator, strength][:tried]))
            shown = wrong[estimator, rho][tried:]
            spread = {"mean": float(np.mean(shown)), "deviation": float(np.std(shown))}
            percentiles = np.percentile(shown, MARKS).tolist()
            rows.append({"n": n, "estimator": estimator, "rho n": rho, **spread, "percentiles": percentiles})
    return rows


def _documents(options: Options, vocabulary: int) -> tuple[WordCounts, NDArray[np.int64]]:
    """Return the reports of CoNLL-2003 without headlines, as bags, and their labels: 1 for sports, -1 for others."""
    from scripts.papers.runs.shift import is_sport
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
    frequent = np.argsort(-bags.per_word(bags.counts), kind="stable")[:vocabulary]
    number = np.full(bags.n_words, -1)
    number[frequent] = np.arange(len(frequent))
    kept = number[bags.words] >= 0
    return (
        bags._replace(
            texts=bags.texts[kept], words=number[bags.words[kept]], counts=bags.counts[kept], n_words=len(frequent)
        ),
        np.array(labels),
    )


def _error(counts: Any, labels: NDArray[np.int64], chosen: NDArray[np.bool_], mass: Array, rho: float) -> float:
    """Return the per cent of wrong labels that a weighted logistic regression on some documents gives the others."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=len(mass) / rho, tol=1e-6, max_iter=1000)
    model.fit(counts[chosen], labels[chosen], mass / mass.sum())
    return 100 * (1 - float(model.score(counts[~chosen], labels[~chosen])))
