"""Functions of a token in its sentence, as sklearn-crfsuite's users write them, in a pipeline."""

import pickle
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Token
from spacy.training import Example

from spacy_crfseq import registry
from spacy_crfseq.errors import ConfigError, DataError, FormatError
from spacy_crfseq.pipeline.readers import create_conll_reader
from spacy_crfseq.tools.explain import explain
from spacy_crfseq.weights_file import weights_to_bytes
from tests import reference
from tests.pipeline.helpers import (
    bare_doc,
    blank,
    examples,
    initialize,
    initialized,
    inputs,
    pipe_of,
    predictions,
    templates,
    trained,
    triples,
)

CODE = '''
from spacy_crfseq import registry

def word2features(sentence, i):
    """A function as it stands in many tutorials, but for Token.text."""
    word = sentence[i].text
    features = {
        "bias": 1.0, "word.lower()": word.lower(), "word[-3:]": word[-3:], "word.istitle()": word.istitle(),
        "word.isdigit()": word.isdigit(), "postag": sentence[i].tag_ or None,
    }
    if i > 0:
        features.update({"-1:word.lower()": sentence[i - 1].text.lower()})
    else:
        features["BOS"] = True
    if i == len(sentence) - 1:
        features["EOS"] = True
    return features

@registry.features("tests.word2features.v1")
def create():
    return word2features
'''


@pytest.fixture(scope="module")
def features(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The block of a config that names the function above, which stands in a module of its own."""
    folder = tmp_path_factory.mktemp("code")
    (folder / "token_function_code.py").write_text(CODE)
    sys.path.insert(0, str(folder))
    import token_function_code  # noqa: F401

    return block("tests.word2features.v1")


def block(function: str) -> dict[str, Any]:
    return templates("F[0]", token_functions={"F": {"@crf_features": function}})


def features_of(function: Callable[[Sequence[Token], int], Any]) -> dict[str, Any]:
    """Register a function, and return the block of a config that names it."""
    name = f"tests.token_function_{id(function)}"
    registry.features(name, func=lambda: function)
    return block(name)


def test_a_pipeline_learns_stores_and_shares_its_work(factory: str, features: dict[str, Any], tmp_path: Path) -> None:
    nlp = trained(factory, features=features)
    expected = predictions(nlp, factory)
    if factory == "crf_ner":
        assert expected[0]["ents"] == [(0, 1, "PER"), (3, 5, "LOC")]
    nlp.to_disk(tmp_path / "model")
    assert predictions(spacy.load(tmp_path / "model"), factory) == expected
    pipe = pickle.loads(pickle.dumps(pipe_of(nlp)))
    assert weights_to_bytes(pipe.crf) == weights_to_bytes(pipe_of(nlp).crf)
    docs = list(nlp.pipe(inputs(nlp, factory) * 3, n_process=2, batch_size=4))
    assert [triples(doc.ents) for doc in docs] == [e["ents"] for e in expected] * 3


def test_a_name_that_is_there_twice_counts_once() -> None:
    once = trained("crf_ner", features=features_of(lambda sentence, i: [f"w={sentence[i].text}"]))
    twice = trained("crf_ner", features=features_of(lambda sentence, i: [f"w={sentence[i].text}"] * 2))
    assert weights_to_bytes(pipe_of(once).crf) == weights_to_bytes(pipe_of(twice).crf)


def test_explanations(features: dict[str, Any]) -> None:
    """Their contributions are named without names in the model, and sum to the score."""
    more = {**features, "templates": ["F[-1..0]", "SHAPE[0]"], "bigram_templates": ["F[0]"]}
    nlp = trained("crf_ner", features=more)
    doc = bare_doc(nlp, ["Bob", "saw", "Quux"])
    explanation = explain(pipe_of(nlp), doc)
    first = explanation.tokens[0]
    assert {"F[0]=word.lower()=bob", "F[0]=BOS", "SHAPE[0]=Xxx"} <= {
        contribution.name for contribution in first.contributions
    }
    assert "F[0]=word.lower()=quux" in explanation.tokens[2].unknown
    assert "F[-1]=BOS" in {
        contribution.name for contribution in explanation.tokens[1].contributions if contribution.token == 1
    }
    scores = pipe_of(nlp).posterior([doc]).distribution.source.scores((0, 1))
    labels = [pipe_of(nlp).tags.index(label) for label in explanation.labels]
    total = reference.path_score(reference.sequence(scores, 0, len(doc)), labels)
    assert explanation.score == pytest.approx(total, abs=1e-4)
    assert explanation.score == pytest.approx(sum(contribution.score for contribution in explanation.tokens), abs=1e-4)


def test_sequences_are_sentences() -> None:
    seen = []
    features = features_of(lambda sentence, i: seen.append([token.text for token in sentence]) or ["x"])
    nlp = trained("crf_ner", features=features)
    doc = bare_doc(nlp, ["a", "b", "c"])
    for token, start in zip(doc, (True, False, True), strict=True):
        token.is_sent_start = start
    seen.clear()
    nlp(doc)
    assert seen == [["a", "b"], ["a", "b"], ["c"]]


def test_columns_that_a_function_says_to_read() -> None:
    """They are known to commands, and their attributes to a model whose tagger sets them in training only."""

    def tags(sentence: Sequence[Token], i: int) -> list[str]:
        return [f"tag={sentence[i].tag_}"] if sentence[i].tag_ else []

    def names_of(nlp: spacy.language.Language) -> set[str]:
        return set(pipe_of(initialize(nlp, examples(nlp))).doc_model.feature_names)

    silent = blank("crf_ner", features=features_of(tags), keep_names=True)
    assert pipe_of(silent).reads == set()
    assert names_of(silent) == set()
    tags.reads = ("TAG",)  # type: ignore[attr-defined]
    nlp = blank("crf_ner", features=features_of(tags), keep_names=True)
    assert pipe_of(nlp).reads == {"TAG"}
    assert {"F[0]=tag=NNP", "F[0]=tag=VBZ"} < names_of(nlp)
    ids = pipe_of(nlp).training.corpus.data.encoded.unigrams.plain()
    assert not ids.expanded()[0].any()  # no input, as long as nobody sets them
    tags.reads = ("TGA",)  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match=r"declares reading 'TGA'. Did you mean 'TAG'"):
        blank("crf_ner", features=features_of(tags))


def test_values_of_a_token_function_that_are_no_features_are_refused() -> None:
    nlp = blank("crf_ner", features=features_of(lambda sentence, i: {"length": len(sentence[i].text)}))
    message = "Component 'crf_ner': Token function 'F' at the token 'Anna': 'length' has the value 4, but a feature"
    with pytest.raises(DataError, match=re.escape(message)):
        initialize(nlp, examples(nlp))
    with pytest.raises(DataError, match=r"'Anna' \(str\) was given"):
        initialized("crf_ner", features=features_of(lambda sentence, i: sentence[i].text))


def test_a_function_that_keeps_a_state(tmp_path: Path) -> None:
    """Like a gazetteer, its state goes into the model."""

    class Words:
        def __init__(self) -> None:
            self.words = ["Anna"]

        def __call__(self, sentence: Sequence[Token], i: int) -> list[str]:
            return ["known"] if sentence[i].text in self.words else ["other"]

        def to_state(self) -> list[str]:
            return self.words

        def from_state(self, state: list[str]) -> None:
            self.words = state

    function = Words()
    nlp = trained("crf_ner", features=features_of(function))
    nlp.to_disk(tmp_path / "model")
    function.words = []
    spacy.load(tmp_path / "model")
    assert function.words == ["Anna"]


# --- template files in a component: the same objective as hand-written templates, and models without their file -----


ROOT = Path(__file__).parents[2]


def template_file(folder: Path, text: str) -> dict[str, Any]:
    path = folder / "template"
    path.write_text(text, encoding="utf8")
    return {"@crf_features": "spacy_crfseq.TemplateFile.v1", "path": str(path), "columns": ["word", "tag"]}


def objective(file: Path, columns: list[str], limit: int, features: dict[str, Any] | None) -> float:
    """Train by the config of CRF++'s task, perhaps with other features, and return the objective at the end."""
    config = spacy.util.load_config(ROOT / "configs" / "chunk_conll2000.cfg")
    settings = config["components"]["crf_chunker"]
    settings.pop("factory")
    if features:
        settings["features"] = features
    nlp = spacy.blank("en")
    nlp.add_pipe("crf_chunker", config=dict(settings))
    nlp.initialize(lambda: read(nlp, file, columns, limit))
    result = pipe_of(nlp).fit()
    assert result.history[-1].report.converged
    return result.history[-1].report.value


def read(nlp: Language, file: Path, columns: list[str], limit: int) -> list[Example]:
    return list(create_conll_reader(file, columns, "IOB2", ["tag"], on_invalid="conlleval", limit=limit)(nlp))


def test_a_trained_pipeline_does_not_need_the_file(tmp_path: Path) -> None:
    text = 'U0:%X[0,0]\n*:1%m[0,0,"^.?.?"]\nU2:%x[-1,0]/%t[0,0,"^\\u"]\n*\n'
    nlp = trained("crf_ner", features=template_file(tmp_path, text))
    expected = predictions(nlp, "crf_ner")
    assert expected[0]["ents"] == [(0, 1, "PER"), (3, 5, "LOC")]
    nlp.to_disk(tmp_path / "model")
    for other in ("U0:%x[9,9]\n", None):
        (tmp_path / "template").write_text(other) if other else (tmp_path / "template").unlink()
        again = spacy.load(tmp_path / "model")
        assert predictions(again, "crf_ner") == expected
        assert weights_to_bytes(pipe_of(again).crf) == weights_to_bytes(pipe_of(nlp).crf)


def test_refusals_when_training_begins(tmp_path: Path) -> None:
    nlp = blank("crf_ner", features=template_file(tmp_path, "U0:%x[0,0]\n"))
    with pytest.raises(ConfigError, match=r"\[components.crf_ner\].*Write transitions = false"):
        nlp.initialize(lambda: examples(nlp))
    nlp = blank("crf_ner", features=template_file(tmp_path, "U0:%x[0,5]\nB\n"))
    with pytest.raises(FormatError, match=r"template:1: there is no column 5"):
        nlp.initialize(lambda: examples(nlp))


def test_lines_with_common_weights_and_computed_columns_train_as_a_token_function_does(tmp_path: Path) -> None:
    @registry.features("test_template_file.columns")
    def create_columns() -> Any:
        return {"end": lambda text: text[-1:]}

    @registry.features("test_template_file.bag")
    def create_bag() -> Any:
        return lambda sentence, i: [
            f"u:{sentence[i - 1].text if i else '_x-1'}", f"u:{sentence[i].text}", f"e:{sentence[i].text[-1:]}",
        ]  # fmt: skip

    file = template_file(tmp_path, "U:%x[-1,0]\nU:%x[0,0]\nUe:%x[0,1]\nB\n")
    columns = {"columns": ["word", "end"], "functions": {"@crf_features": "test_template_file.columns"}}
    block = {"BAG": {"@crf_features": "test_template_file.bag"}}
    hand = {"@crf_features": "spacy_crfseq.Templates.v1", "templates": ["BAG[0]"], "token_functions": block}
    models = [
        trained("crf_tagger", features=features, optimizer={"@crf_optimizers": "spacy_crfseq.LBFGS.v1"})
        for features in ({**file, **columns}, hand)
    ]
    theta, other = (np.sort(pipe_of(model).crf.theta) for model in models)
    assert theta == pytest.approx(other, abs=1e-3)
    (tmp_path / "template").unlink()
    again = blank("crf_tagger", features={**file, **columns}).from_bytes(models[0].to_bytes())
    assert predictions(again, "crf_tagger") == predictions(models[0], "crf_tagger")
