"""Models of Wapiti: what their file holds, the same answers as a component, and a component as its model."""

from __future__ import annotations

import gzip
import itertools
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc

from spacy_crfseq.corpora import saved_models
from spacy_crfseq.corpora.saved_models import SavedModel, read_saved_model, read_wapiti_model, write_wapiti_model
from spacy_crfseq.errors import ConfigError, DataError, FormatError, ModelFileError
from spacy_crfseq.features.template_file import WapitiPatterns
from spacy_crfseq.tools.models.exported import EDGES
from spacy_crfseq.tools.models.imported import import_pipeline
from spacy_crfseq.tools.models.settings import ImportSettings
from tests.commands import Run, worked, write_models
from tests.pipeline.helpers import inputs, pipe_of, registered, templates, trained
from tests.tools.models.programs import LABELS, PATTERNS, WAPITI, as_dict, attributes, exported, imported, sequences


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> SavedModel:
    path = tmp_path_factory.mktemp("models") / "model.wapiti"
    path.write_text(WAPITI, encoding="utf8")
    return read_wapiti_model(path)


def test_names_and_weights_are_read(model: SavedModel) -> None:
    assert (model.labels, model.patterns) == (["A", "Ü"], ["b", "u:w=%x[0,0]", "*:p=%X[-1,1]"])
    assert model.transitions.tolist() == [[0.5, 0.0], [0.0, -1.5]]
    assert as_dict(model.attributes) == {
        ("u:w=x,y", 0): 1.0, ("u:w=é", 1): 0.07552876, ("*:p=dt", 0): 10.0,
    }  # fmt: skip
    assert as_dict(model.pairs) == {("*:p=dt", 2): -1.0, ("*:p=dt", 3): 0.0}


def test_a_model_is_written_as_it_was_read(model: SavedModel, tmp_path: Path) -> None:
    write_wapiti_model(tmp_path / "one.wapiti", model)
    again = read_wapiti_model(tmp_path / "one.wapiti")
    assert again[::4] == model[::4]
    assert again.transitions.tolist() == model.transitions.tolist()
    assert as_dict(again.attributes) == as_dict(model.attributes)
    assert as_dict(again.pairs) == {("*:p=dt", 2): -1.0}
    text = (tmp_path / "one.wapiti").read_text(encoding="utf8")
    assert text.startswith("#mdl#2#6\n#rdr#3/1/0\n1:b,\n11:u:w=%x[0,0],\n")
    assert "=0x1.4p+3\n" in text
    assert "=-0x1.8p+0\n" in text
    write_wapiti_model(tmp_path / "two.wapiti.gz", again)
    assert gzip.decompress((tmp_path / "two.wapiti.gz").read_bytes()).decode() == text
    write_wapiti_model(tmp_path / "three", model._replace(patterns=["u:w=%x[0,3]"], labels=["\\xc3", "O"]))
    data = (tmp_path / "three").read_bytes()
    assert b"#rdr#2/3/0\n11:u:w=%x[0,3],\n1:b,\n#qrk#2\n1:\xc3,\n" in data  # a pattern for transitions, a cut character


@pytest.mark.parametrize(("old", "new", "message"), [
    ("#mdl#2#", "#mdl#1#", "maxent or memm"), ("/0\n", "/1\n", "maxent or memm"), ("#mdl#2#7", "#mdl#2#9", "7 of 9"),
    ("0x1p-1", "nan", "no finite"), ("13=0", "14=0", "not there"), ("u:w=é", "x:w=é", "none of u, b"),
    ("1:A", "1:B", "twice"), ("1:A", "0:", "is empty"), ("0x1p-1", "0x1p99999", "too large"),
])  # fmt: skip
def test_a_file_that_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "model"
    path.write_text(WAPITI.replace("2:Ü", "1:B").replace(old, new, 1), encoding="utf8")
    with pytest.raises(ModelFileError, match=message):
        read_wapiti_model(path)


def test_a_packed_model_of_any_size_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved_models, "LEAST", 1 << 10)
    path = tmp_path / "model.gz"
    path.write_bytes(gzip.compress(WAPITI.encode() + b" " * (1 << 20)))
    with pytest.raises(ModelFileError, match="it is packed, and has more than"):
        read_wapiti_model(path)


ALL_MACROS = ["b", "*", "u:w=%x[0,0]", "u:w=%x[-1,0]", "*:p=%X[-5,0]", 'u:m=%m[0,0,".?.?$"]/%t[6,0,"\\p"]', "b:%X[0,1]"]


def observations(words: list[str], i: int) -> list[str]:
    """Return the observations of the patterns at a token, by Wapiti's rules: markers beyond the ends, and bytes."""

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
    result = {
        observation for words in sequences(rng, 30) for i in range(len(words)) for observation in observations(words, i)
    }
    names = list(dict.fromkeys(["b", "*", *sorted(result)[::2]]))
    sizes = {"u": 3, "b": 9, "*": 12}
    weights = {name: rng.normal(size=sizes[name[0]]) for name in names}
    flat = np.concatenate(list(weights.values()))

    def strings(texts: Sequence[str]) -> str:
        return "".join(f"{len(text.encode())}:{text},\n" for text in texts)

    lines = "".join(f"{number}={value.hex()}\n" for number, value in enumerate(flat.tolist()))
    path.write_text(
        f"#mdl#2#{len(flat)}\n#rdr#{len(ALL_MACROS)}/1/0\n{strings(ALL_MACROS)}#qrk#3\n{strings(LABELS)}#qrk#{len(names)}\n"
        f"{strings(names)}{lines}",
        encoding="utf8",
    )
    return weights


def test_an_imported_model_gives_wapitis_answers(tmp_path: Path) -> None:
    weights = wapiti_model(tmp_path / "model")
    nlp, _ = imported(read_wapiti_model(tmp_path / "model"), function="tests.columns.v1")
    nlp.to_disk(tmp_path / "pipeline")
    nlp = spacy.load(tmp_path / "pipeline")
    pipe: Any = nlp.get_pipe("crf_tagger")
    for words in sequences(np.random.default_rng(5), 12):
        scores, labellings = [], list(itertools.product(range(3), repeat=len(words)))
        own = [
            [weights[observation] for observation in observations(words, i) if observation in weights]
            for i in range(len(words))
        ]
        for labels in labellings:
            score = sum(weights[y] for i, y in enumerate(labels) for weights in own[i] if len(weights) != 9)
            for i, (before, y) in enumerate(itertools.pairwise(labels), 1):
                score += sum(weights[len(weights) - 9 :][3 * before + y] for weights in own[i] if len(weights) > 3)
            scores.append(score)
        p = np.exp(np.array(scores) - np.logaddexp.reduce(scores))
        expected = [[p[[labels[i] == y for labels in labellings]].sum() for y in range(3)] for i in range(len(words))]
        np.testing.assert_allclose(pipe.marginals(Doc(nlp.vocab, words=words)), expected, atol=1e-12)


@pytest.mark.parametrize(("pairs", "expected"), [(False, ["u:a", "*c"]), (True, ["b:d", "*c"])])
def test_a_function_returns_the_attributes_of_labels_or_of_pairs(pairs: bool, expected: list[str]) -> None:
    function = WapitiPatterns([], function=lambda sentence, i: ["u:a", "b:d", "*c"], pairs=pairs)
    assert function(["x"], 0) == expected


def test_patterns_read_columns_and_can_be_pickled() -> None:
    doc = Doc(spacy.blank("xx").vocab, words=["Ab"], tags=["NN"])
    read = pickle.loads(pickle.dumps(WapitiPatterns(["u:%x[0,0]%x[0,1]%X[0,3]"], ["word", "tag", "_", "suffix1"])))
    assert read(list(doc), 0) == ["u:AbNNb"]
    assert read.reads == ("TAG",)
    with pytest.raises(DataError, match="has 1 columns, but a pattern uses more"):
        WapitiPatterns(["u:%x[0,1]"], ["word"])(list(doc), 0)


@pytest.mark.parametrize(("arguments", "error", "message"), [
    ((["u:%x[0,1]"], ["lema"]), ConfigError, "Did you mean 'lemma'"),
    ((["u:%x[0,0]"], ["word"], attributes), ConfigError, "columns must be empty"),
    ((["u:%x[@1,0]"], ["word"]), FormatError, "absolute position"),
])  # fmt: skip
def test_patterns_that_are_refused(arguments: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        WapitiPatterns(*arguments)


@pytest.mark.parametrize("of_tokens", [False, True])
@pytest.mark.parametrize("name", ["model.wapiti", "model.wapiti.gz"])
def test_an_exported_component_gives_the_same_answers_again(name: str, of_tokens: bool, tmp_path: Path) -> None:
    """As a pipeline computes them from a model of Wapiti, which has a test of its own."""
    (tmp_path / "patterns").write_text(PATTERNS)
    features = registered("features", "TemplateFile", path=str(tmp_path / "patterns"), columns=["word", "tag"])
    if of_tokens:
        patterns = [line.replace("$", "%d") for line in PATTERNS.split("\n") if line]
        own = registered("features", "WapitiPatterns", patterns=patterns, columns=["word", "tag"])
        functions = {"WAPITI": own, "WAPITI_PAIRS": {**own, "pairs": True}}
        features = templates("WAPITI[0]", bigram_templates=["WAPITI_PAIRS[0]"], token_functions=functions)
    nlp = trained("crf_chunker", features=features, precision="float64", boundaries=not of_tokens)
    pipe_of(nlp).cfg["temperature"] = 1.5
    exported(nlp, tmp_path / name, "crf_chunker")
    model = read_saved_model(tmp_path / name)
    assert model is not None
    assert model.patterns == PATTERNS.split() + EDGES
    again = spacy.blank("xx")
    import_pipeline(again, model, ImportSettings("chunk", columns=["word", "tag"]))
    first, other = (pipe_of(pipeline).posterior(inputs(pipeline, "crf_chunker")) for pipeline in (nlp, again))
    assert pipe_of(nlp).tags == pipe_of(again).tags
    np.testing.assert_allclose(np.concatenate(first.marginals()), np.concatenate(other.marginals()), atol=1e-9)
    exported(again, tmp_path / f"again.{name}", "crf_chunker", [])
    assert (tmp_path / f"again.{name}").read_bytes() == (tmp_path / name).read_bytes()


def test_the_command_makes_a_pipeline_of_a_model(run: Run, tmp_path: Path) -> None:
    write_models(tmp_path)
    worked(run("import-model", tmp_path / "model.wapiti", tmp_path / "out", "--columns", "word", "--no-numbers"))
    assert [token.tag_ for token in spacy.load(tmp_path / "out")("x y")] == ["B", "A"]
