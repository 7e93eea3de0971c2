"""Files of labelled features, the tokens that have them, and the loss that knows their shares of labels."""

import logging
from pathlib import Path

import numpy as np
import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import Doc

from spacy_crfseq.errors import ConfigError, FormatError
from spacy_crfseq.papers.labelled_features.expectation import Expectation
from spacy_crfseq.papers.labelled_features.feature_file import FeatureSets, read_features
from spacy_crfseq.papers.labelled_features.loss import GeneralizedExpectation
from tests import reference
from tests.problems import Problem, problems

NLP = spacy.blank("en")
TAGS = ["B-PER", "I-PER", "B-LOC", "O"]


def written(folder: Path, text: str) -> Path:
    path = folder / "features.tsv"
    path.write_text(text, encoding="utf8")
    return path


def test_a_file(tmp_path: Path) -> None:
    text = "# institutions\n\nuniversity\tORG=0.8\nSHAPE[0]=dddd  DATE=0.5..0.9 O=0.1\n#nlp TAG=Y=0.5\n"
    result = {feature.name: feature.shares for feature in read_features(written(tmp_path, text))}
    assert result == {
        "university": {"ORG": (0.8, 0.8)},
        "SHAPE[0]=dddd": {"DATE": (0.5, 0.9), "O": (0.1, 0.1)},
        "#nlp": {"TAG=Y": (0.5, 0.5)},
    }


def test_a_file_of_mallet(tmp_path: Path) -> None:
    """With colons, as its reader wants them, and with equals signs, as its manual has them."""
    for sign in ":=":
        text = "puck hockey:0.9 baseball:0.1\nW=bat baseball:0.5,0.75\n".replace(":", sign)
        result = [feature.shares for feature in read_features(written(tmp_path, text))]
        assert result == [{"hockey": (0.9, 0.9), "baseball": (0.1, 0.1)}, {"baseball": (0.5, 0.75)}]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no labelled feature"),
        ("one", ":1: a feature without a share"),
        ("# x\none A", ":2: 'A' is no share"),
        ("one A=a", ":1: 'A=a' is no share"),
        ("one A=1.5", "from 0 to 1"),
        ("one A=0.8..0.2", "the lower one first"),
        ("one A=0.8 A=0.1", "listed twice"),
        ("one A=0.8 B=0.3", "add up to 1.1"),
        ("one A=0.8\ntwo A=0.1\nOne A=0.2", ":3: the feature 'One' is in line 1"),
        ("LOWER=one A=0.8\none A=0.2", ":2: the feature 'one' is in line 1"),
        ("one A=0.8\nLOWER[-1..1]=a A=0.2", ":2: Labelled feature 'LOWER\\[-1..1\\]=a': a window is several"),
        ("LOWER[=a A=0.2", ":1: Template 'LOWER\\['"),
    ],
)
def test_lines_that_are_refused(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=message):
        read_features(written(tmp_path, text))


def features_of(names: list[str], docs: list[Doc]) -> list[set[str]]:
    sets = FeatureSets(names)
    return [{names[feature] for feature in sets.sets[number]} for number in sets.numbers_of(docs)]


def test_features_of_tokens() -> None:
    names = ["UNIVERSITY", "ORTH[-1]=the", "SHAPE=Xxxxx", "LOWER[-1]|LOWER[0]=the|university", "ORTH[1]=_B+1", "TAG=NN"]
    names += ["SUFFIX2=ty", "IS_TITLE=1", "e=mc2"]
    doc = Doc(NLP.vocab, words=["the", "University", "e=mc2", "the"], sent_starts=[True, False, True, False])
    doc[2].tag_ = "NN"
    tagged = Doc(NLP.vocab, words=["university"])
    assert features_of(names, [doc, Doc(NLP.vocab), tagged]) == [
        set(),
        {"UNIVERSITY", "ORTH[-1]=the", "SHAPE=Xxxxx", "LOWER[-1]|LOWER[0]=the|university", "ORTH[1]=_B+1", "SUFFIX2=ty",
         "IS_TITLE=1"},
        {"TAG=NN", "e=mc2"},
        {"ORTH[1]=_B+1"},
        {"UNIVERSITY", "ORTH[1]=_B+1", "SUFFIX2=ty"},
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["LOWER[-1..1]=a", "LOWER[0]|TAG[0]=a", "LOWER[=a"])
def test_features_that_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="LOWER"):
        FeatureSets([name])


def test_labels_are_tags_or_the_sums_of_theirs(tmp_path: Path) -> None:
    path = written(tmp_path, "one\tPER=0.8 O=0.1\n")
    loss = GeneralizedExpectation(path)
    loss.read([Doc(NLP.vocab, words=["one"])], [])  # texts may be read before the labels are known
    loss, totals = loss.bind(TAGS, "IOB2"), np.array([[0.3, 0.2, 0.1, 0.4]])
    expected = 0.8 * np.log(0.8 / 0.5) + 0.1 * np.log(0.1 / 0.4) + 0.1 * np.log(0.1 / 0.1)
    assert loss.value_at(totals)[0] == pytest.approx(expected)
    with pytest.raises(ConfigError, match=r"tsv:1: the component has no label 'PER'"):
        GeneralizedExpectation(path).bind(TAGS, None)


def test_settings_that_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="KL, L2"):
        GeneralizedExpectation("x", distance="L1")
    ranges = GeneralizedExpectation(written(tmp_path, "one\tA=0.1..0.2\n"))
    with pytest.raises(FormatError, match='ranges need distance = "L2"'):
        ranges.bind(["A", "B"], None)
    with pytest.raises(FormatError, match="no such file"):
        GeneralizedExpectation(tmp_path / "none").bind(["A"], None)
    with pytest.raises(FormatError, match="not to 1"):
        GeneralizedExpectation(written(tmp_path, "one\tA=0.1 B=0.2\n")).bind(["A", "B"], None)


def test_features_that_never_occur_are_named_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    loss = GeneralizedExpectation(written(tmp_path, "one\tA=0.5\nabsent\tA=0.5\n")).bind(["A", "B"], None)
    loss.read([Doc(NLP.vocab, words=["one"])], [])
    with caplog.at_level(logging.WARNING, "spacy_crfseq"):
        for _ in range(2):
            loss.value_at(np.array([[1.0, 1.0], [0, 0]]))
    (record,) = caplog.records
    assert "1 of 2 labelled features never occur in the text without labels: absent." in record.getMessage()


NAMES = ["A", "B", "C", "D"]


@pytest.mark.parametrize("distance", ["KL", "L2"])
@given(problems())
def test_generalized_expectation_equals_the_enumeration(distance: str, problem: Problem) -> None:
    n_labels, n_tokens = problem.scores.emissions.shape[1], problem.batch.n_tokens
    if n_labels < 3:
        return
    features = [("one", {(0,): 0.6}), ("SHAPE=xxx", {(0,): 0.2, (1,): 0.3})]
    path = Path(__file__).parent / "shares.tsv"
    loss = GeneralizedExpectation(path, distance).bind(NAMES[:n_labels], None)
    words = [("one", "two", "three")[t % 3] for t in range(n_tokens)]
    inputs = loss.read([Doc(NLP.vocab, words=words)], [])
    gradient = problem.scores.zeros_like()
    value = loss(problem.scores, problem.batch._replace(inputs=inputs), gradient)
    expected, own = 0.0, np.zeros((n_tokens, n_labels))
    for (_, wanted), having in zip(features, ({"one"}, {"one", "two"}), strict=True):
        has = np.array([word in having for word in words], np.int64)
        totals = reference.expected_labels(problem.scores, problem.batch, has, 2)[1]
        if totals.sum() == 0:
            continue
        if distance == "KL":
            added, slope = reference.kl_divergence(wanted, totals)
        else:
            p = totals / totals.sum()
            added = sum((p[k] - share) ** 2 for (k,), share in wanted.items())
            slope = np.array([2 * (p[k] - wanted[(k,)]) if (k,) in wanted else 0.0 for k in range(n_labels)])
        expected += added
        own += has[:, None] * slope / totals.sum()
    _, wanted_gradient = reference.covariance_loss(problem.scores, problem.batch, own)
    assert value == pytest.approx(expected, abs=1e-9)
    for array, other in zip(gradient, wanted_gradient, strict=True):
        np.testing.assert_allclose(array, other, atol=1e-9)


def test_a_range_costs_nothing_within_it(tmp_path: Path) -> None:
    loss = GeneralizedExpectation(written(tmp_path, "one\tA=0.2..0.4 B=0.5\n"), "L2").bind(["A", "B", "C"], None)
    loss.read([Doc(NLP.vocab, words=["one"])], [])
    for totals, expected, slope in (
        ([3.0, 5.0, 2.0], 0.0, [0, 0, 0]),
        ([1.0, 6.0, 3.0], 0.02, [-0.02, 0.02, 0]),
        ([5.0, 5.0, 0.0], 0.01, [0.02, 0, 0]),
    ):
        value, slopes = loss.value_at(np.array([totals]))
        assert value == pytest.approx(expected)
        np.testing.assert_allclose(slopes[0], slope, atol=1e-12)


# --- the loss that knows shares of labels, against the enumeration of all labellings --------------------------------


@pytest.mark.parametrize("shares", [{}, {"A": 2}, {"A": "x"}, {"A": 0.7, "B": 0.4}, {"A": True}, [0.1]])
def test_shares_that_are_refused(shares: object) -> None:
    with pytest.raises(ConfigError, match="proportions"):
        Expectation(shares)  # type: ignore[arg-type]


def test_rounded_shares_are_scaled() -> None:
    totals = np.array([[0.0, 0], [0.25, 0.75]])
    exact, rounded = (
        Expectation(shares).bind(["A", "B"], None) for shares in ({"A": 0.4, "B": 0.6}, {"A": 0.402, "B": 0.603})
    )
    assert rounded.value_at(totals)[0] == pytest.approx(exact.value_at(totals)[0], rel=1e-12)


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ({"PER": 0.1, "B-PER": 0.1}, "'PER' and 'B-PER' both contain 'B-PER'"),
        ({"LOCC": 0.1}, r"Did you mean 'LOC'\?"),
        ({"PER": 0.5, "LOC": 0.2, "O": 0.2}, "must add up to 1"),
    ],
)
def test_labels_that_are_refused(shares: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Expectation(shares).bind(["B-PER", "I-PER", "B-LOC", "O"], "IOB2")


def test_a_temperature_that_is_refused() -> None:
    with pytest.raises(ConfigError, match="temperature"):
        Expectation({"A": 0.5}, temperature=0)


@given(problems(scales=(1.0, 3.0)), st.sampled_from([1.0, 0.5, 2.0]))
def test_expectation_equals_the_enumeration(problem: Problem, temperature: float) -> None:
    n_labels = problem.scores.emissions.shape[1]
    if n_labels < 3:
        return
    annealed = type(problem.scores)(*(array / temperature for array in problem.scores))
    kinds = np.ones(problem.batch.n_tokens, np.int32)
    totals = reference.expected_labels(annealed, problem.batch, kinds, 2)[1]
    loss = Expectation({"A": 0.3, "C": 0.5}, temperature).bind(NAMES[:n_labels], None)
    gradient = problem.scores.zeros_like()
    value = loss(problem.scores, problem.batch, gradient)
    if totals.sum() == 0:
        assert value == 0
        return
    expected, slope = reference.kl_divergence({(0,): 0.3, (2,): 0.5}, totals)
    own = np.tile(slope / totals.sum() / temperature, (problem.batch.n_tokens, 1))
    _, wanted = reference.covariance_loss(annealed, problem.batch, own)
    assert value == pytest.approx(expected, abs=1e-9)
    for array, other in zip(gradient, wanted, strict=True):
        np.testing.assert_allclose(array, other, atol=1e-9)
