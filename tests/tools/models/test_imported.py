"""Components with the weights of other programs: the same labels and probabilities, and all that a component can do."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example

from spacy_crfseq import CRF, registry
from spacy_crfseq.corpora.saved_models import (
    NO_WEIGHTS,
    SavedModel,
    read_crfsuite_model,
    read_saved_model,
    read_wapiti_model,
    write_crfsuite_model,
    write_wapiti_model,
)
from spacy_crfseq.errors import ConfigError, DataError, FormatError, ModelFileError, NotFittedError
from spacy_crfseq.features.entries import CRFsuiteItems
from spacy_crfseq.features.template_file import WapitiPatterns
from spacy_crfseq.tools.models.imported import import_model, import_pipeline, model_of, settings_for

WORDS = ["Ada", "saw", "the", "Élan", "of", "Oslo", "42", "x"]
LABELS = ["O", "B-X", "I-X"]


def attributes(sentence: Sequence[Any], i: int) -> dict[str, Any]:
    """Every kind of value: text, truth values, numbers, lists, dictionaries, and an attribute that occurs twice."""
    word = str(sentence[i])
    around = {"word": str(sentence[i - 1]), "length": len(word) / 10} if i else {}
    return {
        "bias": 1, "word": word, "title": word.istitle(), "zero": 0.0, "none": False, "length": len(word) / 4, "two": 2,
        "before": around, "parts": [word[:1], word[-1:]], "before:word": word == "x", "minus": -0.5, "word:x": True,
    }  # fmt: skip


@registry.features("tests.imported.v1")
def create_attributes() -> Any:
    return attributes


@registry.features("tests.columns.v1")
def create_columns() -> Any:
    return lambda sentence, i: [sentence[i].text, f"{len(sentence[i])}É"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pycrfsuite = pytest.importorskip("pycrfsuite")
    path = tmp_path_factory.mktemp("imported") / "model.crfsuite"
    trainer = pycrfsuite.Trainer(verbose=False, params={"max_iterations": 30, "c2": 0.01})
    rng = np.random.default_rng(0)
    for words in sequences(rng, 60):
        trainer.append([attributes(words, i) for i in range(len(words))], rng.choice(LABELS, len(words)).tolist())
    trainer.train(str(path))
    return path


def sequences(rng: Any, number: int) -> list[list[str]]:
    return [rng.choice(WORDS, rng.integers(1, 6)).tolist() for _ in range(number)]


def imported(model: SavedModel, labels: str = "tag", function: str = "tests.imported.v1") -> tuple[Language, Any]:
    nlp = spacy.blank("xx")
    return nlp, import_model(nlp, model, labels, settings_for(model, function))


def test_crfsuite_gives_the_same_answers(model: Path, tmp_path: Path) -> None:
    import pycrfsuite

    nlp, pipe = imported(read_crfsuite_model(model))
    nlp.to_disk(tmp_path / "pipeline")
    nlp = spacy.load(tmp_path / "pipeline")
    pipe, tagger = nlp.get_pipe("crf_tagger"), pycrfsuite.Tagger()
    tagger.open(str(model))
    for words in [*sequences(np.random.default_rng(1), 40), ["unseen"]]:
        items = [attributes(words, i) for i in range(len(words))]
        labels = tagger.tag(items)
        doc = Doc(nlp.vocab, words=words, tags=["NN"] * len(words))
        np.testing.assert_allclose(
            pipe.marginals(doc), [[tagger.marginal(y, i) for y in pipe.tags] for i in range(len(words))], atol=1e-12
        )
        assert [token.tag_ for token in pipe(doc)] == labels
    assert "WORD2FEATURES[0]=word:Ada" in pipe.doc_model.feature_names


def test_a_chunker_predicts_valid_tags_only(model: Path) -> None:
    nlp, pipe = imported(read_crfsuite_model(model), "chunk")
    for words in sequences(np.random.default_rng(2), 20):
        best = pipe.posterior([Doc(nlp.vocab, words=words)]).all_labels
        tags = [pipe.tags[number] for number in best]
        assert all(tag != "I-X" or before != "O" for before, tag in itertools.pairwise(["O", *tags]))


def test_it_can_be_trained_further(model: Path) -> None:
    nlp, pipe = imported(read_crfsuite_model(model))
    before = pipe.crf.theta.copy()
    docs = [Doc(nlp.vocab, words=["Ada", "saw", "Oslo"]) for _ in range(3)]
    examples = [Example(doc, Doc(nlp.vocab, words=["Ada", "saw", "Oslo"], tags=["I-X", "B-X", "I-X"])) for doc in docs]
    pipe.fit(examples)
    assert [token.tag_ for token in nlp("Ada saw Oslo")] == ["I-X", "B-X", "I-X"]
    assert len(pipe.crf.theta) == len(before)


def test_noted_attributes_and_numbers(model: Path) -> None:
    read = read_crfsuite_model(model)
    nlp = spacy.blank("xx")
    pipe = import_model(nlp, read, "tag", settings_for(read))
    plain = import_model(spacy.blank("xx"), read, "tag", settings_for(read, numbers=False))
    doc = Doc(nlp.vocab, words=["_", "_"])
    doc._.crf_attributes = [["bias", "word:Ada", "new"], ["bias", ("length", 0.5)]]
    weights = np.zeros((len(read.attributes.names), 3))
    weights[read.attributes.rows, read.attributes.columns] = read.attributes.values
    of = dict(zip(read.attributes.names, weights, strict=True))
    expected = [of["bias"] + of["word:Ada"], of["bias"] + 0.5 * of["length"]]
    np.testing.assert_allclose(pipe.model.predict([doc])[0], expected, atol=1e-14)
    with pytest.raises(DataError, match=r"'length' has the value 0.5"):
        plain(doc)


@pytest.mark.parametrize("module", ["spacy_crfseq", "sklearn_crfsuite"])
def test_an_estimator_comes_to_spacy(module: str) -> None:
    rng = np.random.default_rng(6)
    X = [[attributes(words, i) for i in range(len(words))] for words in sequences(rng, 30)]
    y = [rng.choice(LABELS, len(each)).tolist() for each in X]
    crf = pytest.importorskip(module).CRF(c2=0.1, max_iterations=20)
    with pytest.raises(NotFittedError):
        model_of(crf)
    nlp, pipe = imported(model_of(crf.fit(X, y)))
    for words in sequences(rng, 10):
        expected = crf.predict_marginals([[attributes(words, i) for i in range(len(words))]])[0]
        found = pipe.marginals(Doc(nlp.vocab, words=words)).tolist()
        for one, other in zip(found, expected, strict=True):
            assert dict(zip(pipe.tags, one, strict=True)) == pytest.approx(other, abs=1e-4)


def test_items_are_those_of_python_crfsuite() -> None:
    pycrfsuite = pytest.importorskip("pycrfsuite")
    for words in sequences(np.random.default_rng(3), 20):
        found = [CRFsuiteItems(attributes)(words, i) for i in range(len(words))]
        mine = [dict((name, 1.0) if isinstance(name, str) else name for name in each) for each in found]
        theirs = pycrfsuite.ItemSequence([attributes(words, i) for i in range(len(words))]).items()
        for one, other in zip(mine, theirs, strict=True):
            assert one.keys() == {name for name, value in other.items() if value}
            once = {name: value for name, value in other.items() if value and name[-1] != "x" and name != "before:word"}
            assert {name: one[name] for name in once} == once  # `items` shows one of several values
    assert CRFsuiteItems(lambda sentence, i: ["a", "a", "b", ("c", 0.5), ("d", {"e"})])([], 0) == [
        ("a", 2.0), "b", ("c", 0.5), "d:e",
    ]  # fmt: skip
    for wrong in ("text", 1, {"a": object()}, [1], {1: 2}):
        with pytest.raises(DataError):
            CRFsuiteItems(lambda sentence, i, wrong=wrong: wrong)([], 0)
    with pytest.raises(ConfigError, match="must be a token function"):
        CRFsuiteItems(1)  # type: ignore[arg-type]


PATTERNS = ["b", "*", "u:w=%x[0,0]", "u:w=%x[-1,0]", "*:p=%X[-5,0]", 'u:m=%m[0,0,".?.?$"]/%t[6,0,"\\p"]', "b:%X[0,1]"]


def observations(words: list[str], i: int) -> list[str]:
    """What the patterns stand for at a token, by Wapiti's rules: markers beyond the ends, and bytes."""

    def at(k: int) -> str:
        ends = ["_x-1", "_x-2", "_x-3", "_x-4", "_x-#"], ["_x+1", "_x+2", "_x+3", "_x+4", "_x+#"]
        return ends[0][min(-k - 1, 4)] if k < 0 else words[k] if k < len(words) else ends[1][min(k - len(words), 4)]

    lower = at(i - 5).encode().lower().decode()
    last = words[i].encode()[-2:].decode("utf8", "backslashreplace")
    column = f"{len(words[i])}É".encode().lower().decode()
    return ["b", "*", f"u:w={at(i)}", f"u:w={at(i - 1)}", f"*:p={lower}", f"u:m={last}/true", f"b:{column}"]


def wapiti_model(path: Path) -> dict[str, np.ndarray]:
    """Write a model with random weights for all observations of some sequences, and return these by observation."""
    rng = np.random.default_rng(4)
    found = {one for words in sequences(rng, 30) for i in range(len(words)) for one in observations(words, i)}
    names = list(dict.fromkeys(["b", "*", *sorted(found)[::2]]))
    sizes = {"u": 3, "b": 9, "*": 12}
    weights = {name: rng.normal(size=sizes[name[0]]) for name in names}
    flat = np.concatenate(list(weights.values()))

    def strings(texts: Sequence[str]) -> str:
        return "".join(f"{len(text.encode())}:{text},\n" for text in texts)

    lines = "".join(f"{number}={value.hex()}\n" for number, value in enumerate(flat.tolist()))
    path.write_text(
        f"#mdl#2#{len(flat)}\n#rdr#{len(PATTERNS)}/1/0\n{strings(PATTERNS)}#qrk#3\n{strings(LABELS)}#qrk#{len(names)}\n"
        f"{strings(names)}{lines}",
        encoding="utf8",
    )
    return weights


def test_wapiti_gives_the_same_answers(tmp_path: Path) -> None:
    weights = wapiti_model(tmp_path / "model")
    nlp, _ = imported(read_wapiti_model(tmp_path / "model"), function="tests.columns.v1")
    nlp.to_disk(tmp_path / "pipeline")
    nlp = spacy.load(tmp_path / "pipeline")
    pipe: Any = nlp.get_pipe("crf_tagger")
    for words in sequences(np.random.default_rng(5), 12):
        scores, labellings = [], list(itertools.product(range(3), repeat=len(words)))
        own = [[weights[one] for one in observations(words, i) if one in weights] for i in range(len(words))]
        for labels in labellings:
            score = sum(each[y] for i, y in enumerate(labels) for each in own[i] if len(each) != 9)
            for i, (before, y) in enumerate(itertools.pairwise(labels), 1):
                score += sum(each[len(each) - 9 :][3 * before + y] for each in own[i] if len(each) > 3)
            scores.append(score)
        p = np.exp(np.array(scores) - np.logaddexp.reduce(scores))
        expected = [[p[[labels[i] == y for labels in labellings]].sum() for y in range(3)] for i in range(len(words))]
        np.testing.assert_allclose(pipe.marginals(Doc(nlp.vocab, words=words)), expected, atol=1e-12)


def test_wapiti_without_patterns_and_errors() -> None:
    for pairs, expected in ((False, ["u:a", "*c"]), (True, ["b:d", "*c"])):
        function = WapitiPatterns([], function=lambda sentence, i: ["u:a", "b:d", "*c"], pairs=pairs)
        assert function(["x"], 0) == expected
    doc = Doc(spacy.blank("xx").vocab, words=["Ab"], tags=["NN"])
    found = pickle.loads(pickle.dumps(WapitiPatterns(["u:%x[0,0]%x[0,1]%X[0,3]"], ["word", "tag", "_", "suffix1"])))
    assert found(list(doc), 0) == ["u:AbNNb"]
    assert found.reads == ("TAG",)
    with pytest.raises(DataError, match="has 1 columns, but a pattern uses more"):
        WapitiPatterns(["u:%x[0,1]"], ["word"])(list(doc), 0)
    with pytest.raises(ConfigError, match="Did you mean 'lemma'"):
        WapitiPatterns(["u:%x[0,1]"], ["lema"])
    with pytest.raises(ConfigError, match="columns must be empty"):
        WapitiPatterns(["u:%x[0,0]"], ["word"], attributes)
    with pytest.raises(FormatError, match="absolute position"):
        WapitiPatterns(["u:%x[@1,0]"], ["word"])


def test_training_goes_on_from_an_imported_model(model: Path) -> None:
    saved = read_crfsuite_model(model)
    (nlp, old), pipe = imported(saved), imported(saved)[1]
    texts = sequences(np.random.default_rng(3), 5)
    docs = [Doc(nlp.vocab, words=words) for words in texts]
    gold = [Doc(nlp.vocab, words=words, tags=["B-X"] * len(words)) for words in texts]
    examples = [Example(*each) for each in zip(docs, gold, strict=True)]
    before = [old.marginals(doc) for doc in docs]
    pipe.start_from(old)
    pipe.initialize(lambda: examples)
    for doc, expected in zip(docs, before, strict=True):
        np.testing.assert_allclose(pipe.marginals(doc), expected, atol=1e-9)
    pipe.fit()
    label = pipe.tags.index("B-X")
    assert sum(pipe.marginals(doc)[:, label].sum() for doc in docs) > sum(one[:, label].sum() for one in before)


@pytest.mark.parametrize("patterns", [None, [], ["b"], ["u:%x[0,0]", "b"], ["*:t=%x[0,0]"]])
@pytest.mark.parametrize("labels", [[], ["A"], ["A", "B"]])
@pytest.mark.parametrize("step", [0.0, 1.0])
def test_models_of_little_or_nothing(
    labels: list[str], patterns: list[str] | None, step: float, tmp_path: Path
) -> None:
    """Without attributes, without transitions, with one label: they work like others.  Without labels: refused."""
    model = SavedModel(labels, NO_WEIGHTS, NO_WEIGHTS, np.full((len(labels),) * 2, step), patterns)
    path = tmp_path / "model"
    if not labels:
        for make in (partial(write_wapiti_model if patterns else write_crfsuite_model, path), _imported):
            with pytest.raises(ModelFileError, match="no labels"):
                make(model)
        assert not list(tmp_path.iterdir())
        return
    (write_crfsuite_model if patterns is None else write_wapiti_model)(path, model)
    again = read_saved_model(path)
    assert again is not None
    nlp = _imported(again)
    docs = [nlp.make_doc(text) for text in ("a b", "")]
    for doc in docs:
        doc._.crf_attributes = [["a"] for _ in doc]
    assert [token.tag_ for token in nlp(docs[0])] == [labels[0]] * 2
    first, last = nlp.get_pipe("crf_tagger").posterior(docs).marginals()
    assert len(last) == 0
    np.testing.assert_allclose(first, 1 / len(labels))
    if patterns is None:
        assert list(CRF(model_filename=str(path)).predict([[["a"]], []])) == [[labels[0]], []]


def _imported(model: SavedModel) -> Language:
    nlp = spacy.blank("xx")
    import_pipeline(nlp, model, "tag", columns=() if model.patterns is None else ("word",))
    return nlp
