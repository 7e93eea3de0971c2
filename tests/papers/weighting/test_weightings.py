"""The contract of every registered weighting; a new one is tested by being registered.  Then all against formulas."""

import sys
import zlib
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import registry as registry_of_reader

import spacy_crfseq.pipeline.factories  # noqa: F401  (makes the registries known to spaCy)
from spacy_crfseq import registry
from spacy_crfseq.errors import ConfigError, DataError
from spacy_crfseq.papers.weighting.reader import create_weighted_reader
from spacy_crfseq.papers.weighting.weightings import (
    Clusters,
    DensityRatio,
    ExactCounts,
    Weighting,
    Weights,
    count_words,
    fit_mixture,
    length_class,
    normalised,
)

WEIGHTINGS: dict[str, Callable[..., Weighting]] = registry.weightings.get_all()
EVERY = pytest.mark.parametrize("make", WEIGHTINGS.values(), ids=WEIGHTINGS)
SPORT = [["GENOA", "2", "LAZIO", str(n)] for n in range(3)]
PROSE = [["the", "minister", "said", "so"], ["a", "minister", "spoke", "again"], ["he", "said", "the", "same", "again"]]


@EVERY
def test_texts_like_the_target_get_more_weight(make: Callable[..., Weighting]) -> None:
    labelled = SPORT * 8 + PROSE * 2
    ratios = make()(labelled, SPORT * 2 + PROSE * 8)
    assert len(ratios.values) == len(labelled)
    assert ratios.values.mean() == pytest.approx(1)
    assert (ratios.values >= 0).all()
    assert ratios.values[24:].mean() > 1.1 * ratios.values[:24].mean()
    assert 0 < ratios.effective_size < len(labelled)
    assert ratios.note
    of_text: dict[tuple[str, ...], set[float]] = {}
    for text, weight in zip(labelled, ratios.values.tolist(), strict=True):
        of_text.setdefault(tuple(text), set()).add(weight)
    assert all(len(weights) == 1 for weights in of_text.values())
    np.testing.assert_array_equal(ratios.values, make()(labelled, SPORT * 2 + PROSE * 8).values)


@EVERY
def test_the_same_texts_get_nearly_equal_weights(make: Callable[..., Weighting]) -> None:
    np.testing.assert_allclose(make()(SPORT + PROSE, SPORT + PROSE).values, 1, atol=0.02)


@EVERY
@pytest.mark.parametrize("settings", [{"flatten": 1.5}, {"flatten": -1.0}, {"cap": 1.0}, {"cap": float("nan")}])
def test_settings_out_of_range_are_refused(make: Callable[..., Weighting], settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(settings))):
        make(**settings)


@EVERY
@pytest.mark.parametrize("sides", [([], SPORT), (SPORT, [])])
def test_a_side_without_texts_is_refused(make: Callable[..., Weighting], sides: Any) -> None:
    with pytest.raises(DataError, match="there are no"):
        make()(*sides)


@EVERY
def test_texts_without_words_have_weights_too(make: Callable[..., Weighting]) -> None:
    assert np.isfinite(make()([[], *PROSE], [[], *SPORT, *PROSE]).values).all()


@pytest.mark.parametrize(
    ("make", "settings"),
    [
        (ExactCounts, {"observation": "words"}),
        (Clusters, {"k": 0}),
        (Clusters, {"k": []}),
        (Clusters, {"k": [2, 0.5]}),
        (Clusters, {"restarts": 0}),
        (Clusters, {"smoothing": 0.0}),
        (DensityRatio, {"rho": 0.0}),
        (DensityRatio, {"folds": 1}),
    ],
)
def test_own_settings_out_of_range_are_refused(make: Callable[..., Weighting], settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(settings))):
        make(**settings)


def test_exact_counts_are_those_of_the_formula() -> None:
    """(4.18), times the number of labelled texts: q(X_i) N / #{j: X_j = X_i}; the target alone has d."""
    a, b, c, d = ([letter] for letter in "abcd")
    weights = ExactCounts()([a, a, a, b, c], [a, b, b, d])
    ratio = np.array([0.25 / 3, 0.25 / 3, 0.25 / 3, 0.5, 0])
    np.testing.assert_allclose(weights.values, ratio / ratio.mean())
    assert "25.0% of the target" in weights.note
    assert "20.0% of the labelled texts" in weights.note
    np.testing.assert_allclose(ExactCounts(flatten=0.0)([a, a, b, c], [a, b]).values, [4 / 3, 4 / 3, 4 / 3, 0])
    assert ExactCounts(observation="length")([a, [*"ab"]], [b, c, [*"xy"]]).values.tolist() == pytest.approx(
        [4 / 3, 2 / 3]
    )
    with pytest.raises(DataError, match="All weights are 0"):
        ExactCounts()([a], [b])


def test_weights_are_flattened_and_capped() -> None:
    ratio = np.array([1.0, 4.0, 16.0, 0.0])
    root = np.array([1.0, 2.0, 4.0, 0.0])
    np.testing.assert_allclose(normalised(ratio, 0.5, 0.0, "").values, root / root.mean())
    capped = np.minimum(ratio / ratio.mean(), 2)
    np.testing.assert_allclose(normalised(ratio, 1.0, 2.0, "").values, capped / capped.mean())
    weights = normalised(ratio, 1.0, 0.0, "")
    assert weights.effective_size == pytest.approx(21**2 / 273)


def test_em_raises_the_likelihood_and_finds_the_kinds() -> None:
    bags = count_words(SPORT * 5 + PROSE * 5)
    runs = [fit_mixture(bags, 2, 1e-3, np.random.default_rng(1), n, 0.0)[1] for n in range(1, 12)]
    assert all(after >= before - 1e-9 for before, after in pairwise(runs))
    weights = Clusters(k=[1, 2])(SPORT * 9 + PROSE, SPORT + PROSE * 9)
    assert "k = 2 of 1, 2" in weights.note
    np.testing.assert_allclose(weights.values, [1 / 9] * 27 + [9.0] * 3)


def test_a_part_without_the_other_side_says_nothing() -> None:
    weights = DensityRatio(folds=2)(PROSE, [["same"]] * 9)  # the target is in one part, as its texts are equal
    assert np.isfinite(weights.values).all()
    assert weights.values.mean() == pytest.approx(1)


def test_without_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.linear_model", None)
    with pytest.raises(ConfigError, match=r"spacy-crfseq\[weighting\]"):
        DensityRatio()(SPORT, PROSE)


def test_the_number_of_clusters_is_chosen_on_texts_held_out() -> None:
    rng = np.random.default_rng(0)
    texts = [[f"w{chr(97 + i)}" for i in rng.integers(0, 20, 6)] for _ in range(60)]  # of one kind
    assert "k = 1 of 1, 12" in Clusters(k=[1, 12], restarts=1)(texts[:40], texts[40:]).note


def test_density_ratios_are_those_of_a_logistic_regression() -> None:
    """Newton's method on a dense table of words and classes of length; both sides have the same mass."""
    rng = np.random.default_rng(1)

    def text(most: int) -> list[str]:
        return [f"w{chr(97 + i)}" for i in rng.integers(0, 5, rng.integers(1, most))]

    labelled, target = [text(30) for _ in range(40)], [text(8) for _ in range(20)]
    texts, rho, folds = [*labelled, *target], 0.5, 3
    words = sorted({word for doc in texts for word in doc})
    classes = sorted({length_class(doc) for doc in texts})
    table = np.array([
        [*(word in doc for word in words), *(length_class(doc) == c for c in classes), True] for doc in texts
    ], float)  # fmt: skip
    sign = np.repeat([-1.0, 1.0], [40, 20])
    mass = np.repeat([60 / 80, 60 / 40], [40, 20])
    parts = np.array([zlib.crc32("\0".join(doc).encode()) % folds for doc in texts])
    penalty = np.diag([rho] * (table.shape[1] - 1) + [0.0])
    odds = np.zeros(60)
    for part in range(folds):
        x, y, m = table[parts != part], sign[parts != part], mass[parts != part]
        theta = np.zeros(table.shape[1])
        for _ in range(50):
            p = 1 / (1 + np.exp(-y * (x @ theta)))
            slope = x.T @ (-m * y * (1 - p)) + penalty @ theta
            theta -= np.linalg.lstsq((x.T * (m * p * (1 - p))) @ x + penalty, slope, rcond=None)[0]
        odds[parts == part] = table[parts == part] @ theta
    expected = np.exp(odds[:40])
    actual = DensityRatio(rho=rho, folds=folds)(labelled, target)
    np.testing.assert_allclose(actual.values, expected / expected.mean(), rtol=1e-4)


# --- the reader that weights another one, and the weighted estimator that it and the components make ----------------


Q = {"ab": 0.4, "ac": 0.3, "db": 0.2, "dc": 0.1}
SAMPLE = {"ab": (30, 2), "ac": (3, 5), "db": (2, 9), "dc": (20, 4)}
"""How often each word has label 1 and label 0."""


def write(path: Path, words: list[str]) -> Path:
    path.write_text("".join(f"{word}\n\n" for word in words))
    return path


def block(corpus: Path, target: Path) -> dict[str, Any]:
    name = "spacy_crfseq.ConllReader.v1"
    return {
        "@readers": "spacy_crfseq.WeightedReader.v1",
        "corpus": {"@readers": name, "path": str(corpus), "columns": ["word", "tag"]},
        "target": {"@readers": name, "path": str(target), "columns": ["word"]},
        "weighting": {"@crf_weightings": "spacy_crfseq.ExactCounts.v1"},
    }


def logistic(weight: dict[str, float], rho: float) -> np.ndarray:
    """Return the log odds of label 1 by Newton's method: one parameter for each first and each last letter."""
    x = np.array([[word[0] == "a", word[0] == "d", word[1] == "b", word[1] == "c"] for word in Q], float)
    positives, zeros = (np.array([weight[word] * SAMPLE[word][side] for word in Q]) for side in (0, 1))
    theta = np.zeros(4)
    for _ in range(50):
        g = 1 / (1 + np.exp(-x @ theta))
        slope = (
            x.T @ ((positives + zeros) * g - positives) + rho / 2 * theta
        )  # two labels share each difference of weights
        curvature = (x.T * ((positives + zeros) * g * (1 - g))) @ x + rho / 2 * np.eye(4)
        theta = theta - np.linalg.solve(curvature, slope)
    return x @ theta


def test_the_tagger_is_the_weighted_estimator(tmp_path: Path) -> None:
    """(4.18) on one-token sequences: a config's reader, weighting and component against a logistic regression."""
    gold = [f"{word} {label}" for word, (n_ones, zeros) in SAMPLE.items() for label in ["1"] * n_ones + ["0"] * zeros]
    train = write(tmp_path / "train.conll", gold)
    raw = write(tmp_path / "raw.conll", [word for word, share in Q.items() for _ in range(round(100 * share))])
    reader = registry_of_reader.resolve({"reader": block(train, raw)})["reader"]
    nlp = spacy.blank("xx")
    templates = {"@crf_features": "spacy_crfseq.Templates.v1", "templates": ["PREFIX1", "SUFFIX1"]}
    tight = {"@crf_optimizers": "spacy_crfseq.LBFGS.v1", "tolerance": 0.0, "gradient_tolerance": 1e-10}
    pipe: Any = nlp.add_pipe(
        "crf_tagger",
        config={
            "features": templates, "transitions": False, "boundaries": False, "precision": "float64",
            "regularizer": {"@crf_regularizers": "spacy_crfseq.L2.v1", "rho": 0.5}, "optimizer": tight,
        },
    )  # fmt: skip
    nlp.initialize(lambda: reader(nlp))
    for _ in range(2):  # weights are set again, not multiplied
        examples = list(reader(nlp))
    pipe.fit(examples)
    n = len(gold)
    expected = logistic({word: Q[word] * n / sum(SAMPLE[word]) for word in Q}, 0.5)
    for word, odds in zip(Q, expected, strict=True):
        marginals = dict(zip(pipe.tags, pipe.posterior([Doc(nlp.vocab, words=[word])]).marginals()[0][0], strict=True))
        assert np.log(marginals["1"] / marginals["0"]) == pytest.approx(odds, abs=1e-8)


def test_a_file_of_weights_is_multiplied(tmp_path: Path) -> None:
    (tmp_path / "train.conll").write_text("a N 3\n\nb N 1\n\n")
    settings = block(tmp_path / "train.conll", write(tmp_path / "raw.conll", ["a", "b", "b", "b"]))
    settings["corpus"]["columns"] = ["word", "tag", "weight"]
    reader = registry_of_reader.resolve({"reader": settings})["reader"]
    nlp = spacy.blank("xx")
    for _ in range(2):
        assert [example.reference._.crf_weight for example in reader(nlp)] == pytest.approx([1.5, 1.5])


def corpus(*texts: str) -> Any:
    def read(nlp: Language) -> Iterator[Example]:
        for text in texts:
            doc = nlp.make_doc(text)
            yield Example(doc, doc.copy())

    return read


def test_uneven_weights_are_warned_of() -> None:
    reader = create_weighted_reader(corpus("a", *["b"] * 99), corpus(*["a"] * 99, "b"), ExactCounts())
    with pytest.warns(UserWarning, match=r"as if only 1 of them.*`flatten`"):
        list(reader(spacy.blank("en")))
    mixed = create_weighted_reader(corpus("a b", "a c"), corpus("a b " * 40), lambda _, __: Weights(np.ones(2)))
    with pytest.warns(UserWarning, match=r"2.0 tokens on average, those of the target 80.0"):
        list(mixed(spacy.blank("en")))


@pytest.mark.parametrize("values", [[1.0], [1.0, -1.0], [np.nan, 1.0], [0.0, 0.0]])
def test_weights_of_a_plugin_that_are_no_numbers_are_refused(values: list[float]) -> None:
    reader = create_weighted_reader(corpus("a", "b"), corpus("a"), lambda _, __: Weights(np.array(values)))
    with pytest.raises(DataError, match="a weighting returns a number of at least 0"):
        reader(spacy.blank("en"))
