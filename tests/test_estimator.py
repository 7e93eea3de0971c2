"""The estimator: the same model as CRFsuite, its errors, its place in scikit-learn, and storage."""

from __future__ import annotations

import inspect
import pickle
import re
import shutil
import subprocess
import sys
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_crfseq import CRF
from spacy_crfseq.errors import ConfigError, DataError, ModelFileError, NotFittedError
from spacy_crfseq.estimator import attribute_model, inputs
from spacy_crfseq.features import interned
from spacy_crfseq.features.entries import attribute_of, entries_in
from spacy_crfseq.features.interned import AttributeCodes, Bags, GrowingAttributes, group
from spacy_crfseq.losses.softmax_margin import SoftmaxMargin
from spacy_crfseq.optimizers.adagrad import AdaGrad
from spacy_crfseq.regularizers.l1 import L1
from tests.features.test_token_sets import ENTRIES

CHECKS = (
    "estimator_cloneable", "estimator_repr", "estimators_unfitted", "get_params_invariance",
    "mixin_order", "no_attributes_set_in_init", "parameters_default_constructible", "set_params", "valid_tag_types",
)  # fmt: skip
"""The checks of scikit-learn that apply to sequences; the others fit arrays."""
ALGORITHMS = ("lbfgs", "l2sgd", "ap", "pa", "arow")
EXACT = {"precision": "float64", "n_threads": 1}
Sequences = list[list[Any]]


def generated(n: int, seed: int = 0, values: bool = False) -> tuple[Sequences, list[list[str]]]:
    """Return n sequences of words with a few features, of all kinds if `values`, and noisy labels."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        words = ["abcdefgh"[k] * (1 + k % 3) for k in rng.integers(0, 8, rng.integers(0, 6))]
        X.append([])
        for i, word in enumerate(words):
            token = {"bias": 1.0, "word": word, "first": word[0], "long": len(word) > 2, "BOS": i == 0}
            token |= {"-1:word": words[i - 1]} if i else {}
            if values:
                token |= {"length": len(word) / 2, "share": rng.random(), "in": {"x": 0.5, "y": [word, "z"]}}
            X[-1].append(token)
        y.append([f"L{(len(word) + rng.integers(0, 2)) % 3}" for word in words])
    return X, y


X, Y = generated(40)


@pytest.fixture
def peer() -> Any:
    return pytest.importorskip("sklearn_crfsuite", reason="sklearn-crfsuite is not installed").CRF


@pytest.mark.parametrize(
    ("values", "settings"),
    [
        (False, {"c2": 0.1}),
        (False, {"c1": 0.3, "c2": 0.05, "all_possible_transitions": True}),
        (False, {"c2": 0.5, "min_freq": 4}),
        (True, {"c2": 0.1, "all_possible_states": True, "all_possible_transitions": True}),
        (True, {"c1": 0.2, "c2": 0.1}),
        (True, {"c2": 0.5, "min_freq": 3.5}),
    ],
)
def test_the_model_is_that_of_crfsuite(peer: Any, values: bool, settings: dict[str, Any]) -> None:
    train, test = generated(40, 0, values), generated(8, 1, True)[0]
    settings |= {"epsilon": 1e-6, "delta": 1e-8, "max_iterations": 500}
    ours, theirs = CRF(**settings, **EXACT).fit(*train), peer(**settings).fit(*train)
    loss = theirs.training_log_.last_iteration["loss"]
    assert ours.training_log_.last_iteration["loss"] == pytest.approx(loss, rel=1e-4)
    assert ours.classes_ == theirs.classes_
    for own, other in (
        (ours.state_features_, theirs.state_features_),
        (ours.transition_features_, theirs.transition_features_),
    ):
        assert {key for key, weight in own.items() if abs(weight) > 0.02} <= other.keys()
        assert all(own.get(key, 0) == pytest.approx(weight, abs=0.02) for key, weight in other.items())
    marginals, expected = (model.predict_marginals(test) for model in (ours, theirs))
    for tokens, others in zip(marginals, expected, strict=True):
        for token, other in zip(tokens, others, strict=True):
            assert token == pytest.approx(other, abs=0.01)
    assert ours.predict_single(test[3]) == list(ours.predict(test)[3])
    assert len(ours.attributes_) == ours.num_attributes_
    assert ours.training_log_.iterations[0]["num"] == 1


def test_probabilities_sum_to_one_as_python_floats() -> None:
    train = generated(40, 0, values=False)
    for rows in CRF(max_iterations=5).fit(*train).predict_marginals(train[0]):
        assert [sum(row.values()) for row in rows] == pytest.approx([1] * len(rows), abs=1e-12)


def test_the_settings_are_those_of_sklearn_crfsuite(peer: Any) -> None:
    theirs = {name: parameter.default for name, parameter in inspect.signature(peer).parameters.items()}
    ours = {name: parameter.default for name, parameter in inspect.signature(CRF).parameters.items()}
    assert list(ours.items())[: len(theirs)] == list(theirs.items())
    assert repr(CRF(c1=0.1, optimizer=AdaGrad()))[:30] == "CRF(c1=0.1, optimizer=AdaGrad("


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_learns(algorithm: str, capsys: pytest.CaptureFixture[str]) -> None:
    X, Y = generated(30)
    Y = [[f"L{len(token['word'])}" for token in tokens] for tokens in X]
    crf = CRF(algorithm, max_iterations=12, verbose=True, random_state=3).fit(X, Y, X[:5], Y[:5])
    assert crf.score(X, Y) == 1.0
    assert crf.training_log_.last_iteration["item_accuracy_float"] == 1.0
    assert len(capsys.readouterr().out.splitlines()) == len(crf.training_log_.iterations) <= 12


def test_lists_of_strings_and_plug_ins() -> None:
    names = [[[f"{key}={value}" for key, value in token.items()] for token in tokens] for tokens in X]
    crf = CRF(optimizer=AdaGrad(max_iterations=3), regularizer=L1(rho=0.5), random_state=1).fit(names, Y)
    again = CRF(optimizer=AdaGrad(max_iterations=3), regularizer=L1(rho=0.5), random_state=1).fit(names, Y)
    assert crf.state_features_ == again.state_features_
    assert "word=a" in crf.attributes_
    nothing = CRF(c1=1e6).fit(names, Y)
    assert nothing.attributes_ == []
    assert list(map(len, nothing.predict(names))) == list(map(len, names))


@pytest.mark.parametrize(
    ("settings", "arguments", "message"),
    [
        ({}, ([], []), "X has no tokens"),
        ({}, ([[{}]], []), "X has 1 sequence, but y has 0."),
        ({}, ([[{}], [{}, {}]], [["a"], ["a"]]), "X[1] has 2 tokens, but y[1] has 1 label."),
        ({}, ([[{}], [{}, {}]], [["a"], ["a", 3]]), "y[1][1] is 3 (int), but labels must be strings."),
        ({}, ([[{}]], None), "y is None (NoneType), but must be a list of sequences."),
        ({}, ([[{}]], ["a"]), "y[0] is 'a' (str), but must be a list of labels"),
        ({}, ([{"a": 1}], [["a"]]), "X[0] is {'a': 1} (dict), but X must be a list of sequences"),
        ({}, ([["a"]], [["a"]]), "X[0][0]: 'a' (str) was given, but a dictionary or a list of strings is needed"),
        ({}, ([[{"a": 1}, {"a": float("nan")}]], [["a"] * 2]), "X[0][1]: 'a' has the value nan (float)"),
        ({}, ([[{"a": object}]], [["a"]]), "X[0][0]: 'a' has the value <class 'object'> (type)"),
        ({}, ([[{"a": np.zeros(2)}]], [["a"]]), "X[0][0]: 'a' has the value array([0., 0.]) (ndarray)"),
        ({}, ([[{3: "a"}]], [["a"]]), "X[0][0]: the name 3 (int) is not a string."),
        ({}, ([[{"a": ["b", 3]}]], [["a"]]), "X[0][0]: the name 3 (int) under 'a' is not a string."),
        ({}, ([[[{"a": "b"}]]], [["a"]]), "X[0][0]: the name {'a': 'b'} (dict) is not a string."),
        ({}, ([[["b", 3]]], [["a"]]), "X[0][0]: the name 3 (int) is not a string."),
        ({}, ([[{}]], [["a"]], [[{}]]), "Pass both X_dev and y_dev, or none of them."),
        ({}, ([[{}]], [["a"]], [["a"]], [["a"]]), "X_dev[0][0]: 'a' (str) was given"),
        ({}, ([[{}]], [["a"]], [[{}]], [[]]), "X_dev[0] has 1 token, but y_dev[0] has 0 labels."),
        (
            {},
            (X, Y, None, None, [1.0]),
            "sample_weight must have a number for each of 40 sequences, but has the shape (1,)",
        ),
        ({}, (X, Y, None, None, ["1"] * 40), "sample_weight must have a number for each of 40 sequences"),
        (
            {},
            (X, Y, None, None, [1.0, -2.0] * 20),
            "sample_weight[1] is -2.0, but weights must be numbers of 0 or more",
        ),
        ({}, (X, Y, None, None, [1.0, float("nan")] * 20), "sample_weight[1] is nan"),
        ({}, (X, Y, None, None, [0.0] * 40), "All of sample_weight is 0"),
        ({"algorithm": "lbgfs"}, (X, Y), "there is no algorithm 'lbgfs'. Did you mean 'lbfgs'?"),
        ({"algorithm": "ap", "c2": 1.0}, (X, Y), "the algorithm 'ap' has no setting 'c2'; it has max_iterations"),
        ({"algorithm": "pa", "error_sensitive": False}, (X, Y), "error_sensitive true"),
        ({"num_memories": 3, "optimizer": AdaGrad()}, (X, Y), "num_memories has no meaning with"),
        ({"optimizer": AdaGrad}, (X, Y), "must be an object, such as AdaGrad()"),
        ({"c2": -1.0}, (X, Y), "L2"),
        ({"trainer_cls": object}, (X, Y), "trainer_cls"),
        ({"max_iterations": 1.5}, (X, Y), "max_iterations must be a whole number of at least 0, but 1.5 was given"),
        ({"n_threads": -1}, (X, Y), "n_threads must be a whole number"),
        ({"random_state": "text"}, (X, Y), "random_state must be a whole number"),
        ({"precision": "float16"}, (X, Y), "precision must be float32 or float64"),
    ],
)
def test_mistakes_are_named(settings: dict[str, Any], arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises((ConfigError, DataError), match=re.escape(message)):
        CRF(**settings).fit(*arguments)


class Counted(list[Any]):
    """A sequence to which there can be weak references."""


@pytest.mark.parametrize("kind", [dict, list])
def test_few_sequences_of_an_iterator_are_in_memory(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "TOKENS_AT_ONCE", 20)
    X, Y = generated(200, values=kind is dict)
    lists, living, most = [list(map(kind, tokens)) for tokens in X], list[weakref.ref[Counted]](), 0

    def sequences() -> Iterator[Counted]:
        nonlocal most
        for tokens in X:
            living.append(weakref.ref(sequence := Counted(map(kind, tokens))))
            yield sequence
            del sequence
            most = max(most, sum(reference() is not None for reference in living))

    crf, again = CRF(max_iterations=5, **EXACT).fit(sequences(), iter(Y)), CRF(max_iterations=5, **EXACT).fit(lists, Y)
    assert crf.state_features_ == again.state_features_
    assert crf.predict(sequences()).tolist() == again.predict(lists).tolist()
    assert 0 < most < 40


def test_settings_without_effect_cause_a_warning() -> None:
    with pytest.warns(UserWarning, match="linesearch='Backtracking' has no effect"):
        CRF(linesearch="Backtracking", max_iterations=1).fit(X, Y)
    with pytest.raises(ConfigError, match="Did you mean 'c1'"):
        CRF().set_params(C1=3)


def test_values_that_training_did_not_have() -> None:
    tokens = [[{"a": True, "b": "x"}, {"a": False, "b": "y"}]] * 2
    crf = CRF(c2=0.1, **EXACT).fit(tokens, [["p", "q"]] * 2)
    weights = crf.state_features_
    half = crf.predict_marginals_single([{"a": 0.5, "new": 0.25, "b:x": 2}])[0]
    odds = 0.5 * (weights["a", "p"] - weights["a", "q"]) + 2 * (weights["b:x", "p"] - weights.get(("b:x", "q"), 0))
    assert np.log(half["p"] / half["q"]) == pytest.approx(odds, abs=1e-6)
    assert crf.predict([]).tolist() == []
    fitted = CRF().fit(np.array([[{"a": "x"}]] * 3, object), np.array([["O"]] * 3))
    assert (fitted.classes_, fitted.predict_single([{}])) == (["O"], ["O"])
    assert crf.predict([[], [{}]]).tolist()[0] == []
    assert CRF().fit([[{"a": True}, {"never": False}]], [["p", "q"]]).predict_single([{"a": True}]) == ["p"]


@given(ENTRIES)
def test_entries_mean_what_they_mean_in_python_crfsuite(entries: dict[str, Any]) -> None:
    pycrfsuite = pytest.importorskip("pycrfsuite", reason="python-crfsuite is not installed")
    (expected,) = pycrfsuite.ItemSequence([entries]).items()
    actual = list(map(attribute_of, entries_in(entries)))
    assert dict(actual) == expected
    attributes = GrowingAttributes()
    numbers, values = attributes.read([[entries]]).decoded()
    assert [(list(attributes.names)[a], value) for a, value in zip(numbers, values, strict=True)] == actual


@given(st.lists(st.lists(st.sampled_from("abcdef"), max_size=4), min_size=1, max_size=6), st.integers(1, 3))
def test_the_sets_of_a_token_have_its_attributes(tokens: list[list[str]], most: int) -> None:
    attributes = GrowingAttributes()
    text = attributes.read([tokens])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interned, "MOST_KINDS", most)
        bags = Bags(group(text, attributes.kinds))
    names = list(attributes.names)
    for _ in range(2):
        ids = bags.encode(text, np.array([0, len(tokens)])).unigrams
        ptr, members = ids.store.ptr, ids.store.ids
        result = [[names[a] for bag in row for a in members[ptr[bag] : ptr[bag + 1]]] for row in ids.columns]
        assert list(map(sorted, result)) == list(map(sorted, tokens))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_sequences_without_weight_are_not_learned_from(algorithm: str) -> None:
    X = [[{"word": word}] for word in "ab" * 10]
    right = [[word.upper()] for word in "ab" * 10]
    wrong = [[word.upper()] for word in "ba" * 10]
    weights = [1.0] * 20 + [0.0] * 20
    crf = CRF(algorithm, max_iterations=10, random_state=0).fit(X + X, right + wrong, sample_weight=weights)
    assert crf.score(X, right) == 1.0


def test_a_weight_of_two_counts_like_the_same_sequence_twice() -> None:
    weights = np.arange(len(X)) % 3
    repeated = [i for i, weight in enumerate(weights) for _ in range(weight)]
    more = {"c2": 0.3, "all_possible_states": True, "all_possible_transitions": True, "epsilon": 1e-7, "delta": 1e-9}
    weighted = CRF(**more, **EXACT).fit(X, Y, sample_weight=iter(weights))
    again = CRF(**more, **EXACT).fit([X[i] for i in repeated], [Y[i] for i in repeated])
    assert weighted.state_features_ == pytest.approx(
        {key: again.state_features_.get(key, 0.0) for key in weighted.state_features_}, abs=1e-3
    )


def test_costs_by_label_are_class_weights() -> None:
    X, Y = [[{"word": "a"}]] * 10, [["RARE"]] * 4 + [["O"]] * 6
    plain, costly = (CRF(loss=SoftmaxMargin(0.0, costs)).fit(X, Y) for costs in (None, {"RARE": 3.0}))
    assert (plain.predict_single(X[0]), costly.predict_single(X[0])) == (["O"], ["RARE"])


def test_the_log_has_the_scores_of_crfsuite(peer: Any) -> None:
    (X, y), (X_dev, y_dev) = generated(40), generated(12, 3)
    y_dev[-1] = ["only here"] * len(y_dev[-1])
    # after one step, both predict the same
    ours, theirs = (kind(c2=0.1, max_iterations=30).fit(X, y, X_dev, y_dev).training_log_ for kind in (CRF, peer))
    assert ours.featgen_num_features == theirs.featgen_num_features
    own, other = ours.last_iteration, theirs.last_iteration
    assert own["item_accuracy"] == other["item_accuracy"]
    assert own["instance_accuracy"] == other["instance_accuracy"]
    for name in ("item_accuracy_float", "instance_accuracy_float", "avg_precision", "avg_recall", "avg_f1"):
        assert own[name] == pytest.approx(other[name], abs=1e-6)
    assert own["scores"].keys() == other["scores"].keys()
    for label, score in own["scores"].items():
        assert score._asdict() == pytest.approx(other["scores"][label]._asdict(), abs=1e-4)
    assert ours.training_seconds >= 0


def test_the_contents_of_a_model_are_those_of_its_file_in_python_crfsuite(tmp_path: Path) -> None:
    pycrfsuite = pytest.importorskip("pycrfsuite", reason="python-crfsuite is not installed")
    crf = CRF(c1=0.1).fit(*generated(20, values=True))
    ours, theirs = crf.tagger_.info(), pycrfsuite.Tagger()
    theirs.open(crf.modelfile.name)
    info = theirs.info()
    assert (ours.labels, ours.attributes) == (info.labels, info.attributes)
    assert ours.transitions == pytest.approx(info.transitions, abs=1e-5)
    assert ours.state_features == pytest.approx(info.state_features, abs=1e-5)
    assert {name: ours.header[name] for name in ("num_labels", "num_attrs")}.items() <= info.header.items()


def test_the_file_of_a_model(tmp_path: Path) -> None:
    assert CRF().modelfile.name is None
    crf = CRF(max_iterations=3).fit(X, Y)
    first = Path(crf.modelfile.name)
    assert CRF(model_filename=crf.modelfile.name).state_features_ is None, "a file is read when it is asked for"
    assert CRF(model_filename=crf.modelfile.name).labels() == crf.labels()
    copy = pickle.loads(pickle.dumps(crf))
    assert copy.modelfile.name != crf.modelfile.name == str(first)
    second = crf.fit(X, Y).modelfile.name
    assert not first.exists()
    assert second != str(first)
    del crf
    assert not Path(second).exists()
    kept = CRF(max_iterations=3, keep_tempfiles=True).fit(X, Y).modelfile.name
    assert Path(kept).exists()
    shutil.rmtree(Path(kept).parent)
    assert CRF(model_filename=tmp_path / "model").modelfile.name == str(tmp_path / "model")


@pytest.mark.parametrize(("name", "begin"), [("model", b"lCRF"), ("model.crfsuite", b"lCRF"), ("model.msgpack", b"")])
def test_the_ending_of_a_file_decides_its_format(name: str, begin: bytes, tmp_path: Path) -> None:
    crf = CRF(max_iterations=3, model_filename=str(tmp_path / name)).fit(X, Y)
    assert (tmp_path / name).read_bytes().startswith(begin)
    assert (tmp_path / name).read_bytes().startswith(b"lCRF") == bool(begin)
    crf.save(tmp_path / f"again.{name}")
    assert (tmp_path / f"again.{name}").read_bytes() == (tmp_path / name).read_bytes()
    assert CRF(model_filename=str(tmp_path / name)).predict(X).tolist() == crf.predict(X).tolist()


def test_a_name_that_the_file_cannot_hold_does_not_lose_the_training(tmp_path: Path) -> None:
    crf = CRF(max_iterations=3, model_filename=str(tmp_path / "model"))
    with pytest.raises(ModelFileError, match="CRFsuite cannot hold this model"):
        crf.fit([[["a\0b"], ["c"]]], [["A", "B"]])
    assert crf.predict_single([["c"]]) == ["B"]
    crf.save(tmp_path / "model.msgpack")
    assert CRF(model_filename=tmp_path / "model.msgpack").predict_single([["a\0b"]]) == ["A"]


def test_storage(tmp_path: Path) -> None:
    path = tmp_path / "model.msgpack"
    crf = CRF(c1=0.1, model_filename=str(path)).fit(*generated(20, values=True))
    test = generated(5, 1, values=True)[0]
    for other in (pickle.loads(pickle.dumps(crf)), CRF(model_filename=str(path))):
        assert list(map(list, other.predict(test))) == list(map(list, crf.predict(test)))
        assert other.state_features_ == crf.state_features_
    assert 0 < crf.size_ == path.stat().st_size
    assert pickle.loads(pickle.dumps(CRF(c1=3))).c1 == 3
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ModelFileError, match=r"model.msgpack: no model of spacy_crfseq\.CRF or CRFsuite"):
        CRF(model_filename=str(path)).predict(test)


def test_a_model_of_crfsuite(peer: Any, tmp_path: Path) -> None:
    theirs = peer(model_filename=str(tmp_path / "model.crfsuite"), c2=0.1).fit(*generated(20, values=True))
    ours, test = CRF(model_filename=str(tmp_path / "model.crfsuite")), generated(5, 1, values=True)[0]
    for tokens, others in zip(ours.predict_marginals(test), theirs.predict_marginals(test), strict=True):
        for token, other in zip(tokens, others, strict=True):
            assert token == pytest.approx(other, abs=1e-6)
    assert ours.state_features_ == pytest.approx(theirs.state_features_, abs=1e-5)
    assert pickle.loads(pickle.dumps(ours)).classes_ == theirs.classes_
    ours.save(tmp_path / "saved")
    assert (tmp_path / "saved").read_bytes() == (tmp_path / "model.crfsuite").read_bytes()


def test_a_model_for_crfsuite(peer: Any, tmp_path: Path) -> None:
    (X, y), test = generated(30, values=True), generated(5, 1, values=True)[0]
    odd: dict[str, Any] = {"": True, "é\t": "日本", ":": "", "x" * 300: -0.25}
    X, test = ([[{**token, **odd} for token in tokens] for tokens in sentences] for sentences in (X, test))
    y = [[label.replace("L2", "").replace("L1", "Ö é") for label in labels] for labels in y]
    ours = CRF(c1=0.05, precision="float64").fit(X, y)
    ours.save(tmp_path / "model")
    theirs = peer(model_filename=str(tmp_path / "model"))
    assert [*ours.predict(test)] == [*theirs.predict(test)]
    for tokens, others in zip(ours.predict_marginals(test), theirs.predict_marginals(test), strict=True):
        for token, other in zip(tokens, others, strict=True):
            assert token == pytest.approx(other, abs=1e-9)
    assert CRF(model_filename=str(tmp_path / "model")).labels() == ours.labels()
    with pytest.raises(ValueError, match="not fitted yet, and model_filename names no file"):
        CRF(model_filename="none").save(tmp_path / "none")


def test_scikit_learn(peer: Any) -> None:
    sklearn = pytest.importorskip("sklearn")
    from sklearn.model_selection import RandomizedSearchCV, cross_val_predict, cross_val_score
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import FunctionTransformer
    from sklearn.utils import estimator_checks
    from sklearn.utils.validation import check_is_fitted

    crf = CRF(max_iterations=5, n_threads=1)
    for check in CHECKS:
        getattr(estimator_checks, f"check_{check}")("CRF", crf)
    for failing in (lambda: crf.predict(X), lambda: check_is_fitted(crf)):
        with pytest.raises(sklearn.exceptions.NotFittedError):
            failing()
    search = RandomizedSearchCV(crf, {"c1": [0.0, 0.1], "c2": [0.1, 1.0]}, cv=2, n_iter=3, random_state=0).fit(X, Y)
    assert search.best_estimator_.score(X, Y) > 0.5
    assert repr(pickle.loads(pickle.dumps(crf))) == repr(crf)
    assert len(cross_val_predict(crf, X, Y, cv=3)) == len(X)
    pipeline = Pipeline([("copy", FunctionTransformer(list)), ("crf", crf)]).set_params(crf__c2=0.3)
    assert min(cross_val_score(pipeline, X, Y, cv=2)) > 0.4
    assert min(cross_val_score(crf, X, Y, cv=2, params={"sample_weight": np.ones(len(X))})) > 0.4


ALONE = """\
import pickle, sys
from spacy_crfseq import CRF
try:
    CRF().predict([[{}]])
except (ValueError, AttributeError) as error:
    print(type(error).__name__)
crf = pickle.loads(open(sys.argv[1], "rb").read())
print(crf.predict_single([{"word": "a"}]), sorted({"spacy", "thinc", "sklearn"} & set(sys.modules)))
"""


def test_neither_spacy_nor_scikit_learn_is_imported(tmp_path: Path) -> None:
    crf = CRF(max_iterations=3).fit(X, Y)
    (tmp_path / "crf.pickle").write_bytes(pickle.dumps(crf))
    command = [sys.executable, "-c", ALONE, str(tmp_path / "crf.pickle")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    label = crf.predict_single([{"word": "a"}])
    assert done.stdout.splitlines() == [NotFittedError.__name__, f"{label} []"], done.stderr


def test_values_belong_to_the_labels_that_their_attributes_occur_with() -> None:
    """Each attribute with values has a row of weights for some labels only."""
    X = [[{"a": 0.5}], [{"b": 1.5}], [{"c": 2.5}]] * 5
    Y = [["A"], ["B"], ["C"]] * 5
    crf = CRF(c2=0.01, **EXACT).fit(X, Y)
    assert crf.score(X, Y) == 1.0
    assert {(name, label) for (name, label), weight in crf.state_features_.items() if weight > 0.1} == {
        ("a", "A"), ("b", "B"), ("c", "C")
    }  # fmt: skip


def test_labels_of_the_held_out_part_are_labels() -> None:
    crf = CRF(max_iterations=3).fit([[["a"]], [["b"]]], [["A"], ["B"]], [[["a"], ["b"]]], [["A", "C"]])
    assert crf.classes_ == ["A", "B", "C"]
    assert crf.training_log_.last_iteration["item_accuracy_float"] == 0.5


def test_the_weights_of_a_model_of_crfsuite_may_be_in_any_order(tmp_path: Path) -> None:
    crf, path = CRF(max_iterations=5).fit(X, Y), tmp_path / "model.crfsuite"
    crf.save(path)
    data, size = bytearray(path.read_bytes()), 20
    begin = data.index(b"FEAT") + 12
    n = len(crf.state_features_)
    features = np.frombuffer(bytes(data[begin : begin + n * size]), f"V{size}")
    data[begin : begin + n * size] = features[np.random.default_rng(0).permutation(n)].tobytes()
    path.write_bytes(data)
    other = CRF(model_filename=str(path))
    assert other.labels() == crf.labels()
    assert other.state_features_ == crf.state_features_


def test_sets_of_attributes_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server gets new ones with every text."""
    crf = CRF(max_iterations=3).fit(X, Y)
    monkeypatch.setattr(attribute_model, "MOST_BAGS", 20)
    names, sizes = list(crf.attributes_), []
    for number in range(2 ** min(8, len(names))):
        crf.predict([[[name for i, name in enumerate(names[:8]) if number >> i & 1]]])
        sizes.append(crf._model.bags.store.size)
    assert 20 <= max(sizes) <= 25


@pytest.mark.parametrize(("kind", "callee"), [(Bags, "encode"), (AttributeCodes, "read")])
def test_texts_are_read_by_a_thread_at_a_time(kind: Any, callee: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Because estimators remember what they read."""
    crf, method, inside, most, second = CRF(max_iterations=3).fit(X, Y), getattr(kind, callee), [0], [0], Event()

    def slowly(*args: Any) -> Any:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        if inside[0] > 1:
            second.set()
        second.wait(0.3)  # for another thread, which a lock keeps out
        inside[0] -= 1
        return method(*args)

    monkeypatch.setattr(kind, callee, slowly)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(crf.predict, [X[:3], X[3:6]]))
    assert most == [1]


def test_an_attribute_whose_values_sum_to_less_than_zero_has_no_weight(peer: Any) -> None:
    """The frequency of an attribute is the sum of its values; below 0, CRFsuite leaves it out."""
    X, Y = [[{"x": -1.0, "both": -1.0}, {"y": 2.0, "both": 1.5}, {}]], [["A", "A", "B"]]
    for settings in ({}, {"all_possible_states": True}, {"min_freq": 0.5}):
        ours, theirs = (kind(c2=0.1, **settings, **more).fit(X, Y) for kind, more in ((CRF, EXACT), (peer, {})))
        assert ours.state_features_.keys() == theirs.state_features_.keys()
        assert ours.state_features_ == pytest.approx(theirs.state_features_, abs=1e-3)
