"""Refusals of models of other programs: components that a format cannot hold, and commands, each with its message."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from spacy.tokens import Doc

from spacy_crfseq.errors import ConfigError, DataError
from tests.commands import Run, refused, write_models
from tests.pipeline.helpers import blank, examples, initialize, registered, templates, trained
from tests.tools.models.programs import PATTERNS, docs_of, exported

LINEAR = {"boundaries": False}
VALUES = {**LINEAR, "potentials": {"values": registered("potentials", "Values")}}
GIVEN = registered("features", "Attributes")
ITEMS = registered("features", "CRFsuiteItems", function=GIVEN)
WAPITI_PATTERNS = registered("features", "WapitiPatterns", patterns=["u:%x[0,0]"], columns=["word"])


@pytest.mark.parametrize(("settings", "kind", "message"), [
    ({"features": templates("LOWER[0]", bigram_templates=["LOWER[0]"])}, "crfsuite", "bigram_templates = "),
    ({"features": templates("LIKE_NUM[0]", "LOWER[0]")}, "crfsuite", "'LIKE_NUM'"),
    ({"tag_dictionary_size": 5, "tag_dictionary_min_count": 1}, "crfsuite", "tag_dictionary_size = 0"),
    ({"attributes": {"words": registered("attributes", "DocumentWords")}}, "crfsuite", "attributes of documents"),
    ({"features": templates("OWN[0]", token_functions={"OWN": WAPITI_PATTERNS}), **LINEAR}, "crfsuite",
     "CRFsuiteItems"),
    ({}, "wapiti", "TemplateFile"),
    ({"loss": registered("losses", "LocalLog"), "decoder": registered("decoders", "LocalViterbi")}, "crfsuite",
     "normalised at each token"),
    ({"once": ["*"]}, "crfsuite", "once or order"),
    ({"order": ["NNP", "VBZ"]}, "crfsuite", "once or order"),
])  # fmt: skip
def test_a_component_that_a_format_cannot_hold(
    settings: dict[str, Any], kind: str, message: str, tmp_path: Path
) -> None:
    nlp = trained("crf_tagger", **settings)
    with pytest.raises(ConfigError, match=message):
        exported(nlp, tmp_path / f"model.{kind}", "crf_tagger")
    assert not list(tmp_path.iterdir())


def words(doc: Doc) -> list[list[Any]]:
    return [[f"w={token.text}"] for token in doc]


def values_at_times(doc: Doc) -> list[list[Any]]:
    """Return attributes with a name that has weights of its own, after training, where it has values."""
    return [[("w", 0.5) if i % 2 else "w", token.text] for i, token in enumerate(doc)]


@pytest.mark.parametrize(("functions", "names", "note", "settings", "kind", "message"), [
    ({"GIVEN": GIVEN}, ["GIVEN[0]"], values_at_times, VALUES, "crfsuite",
     "'w' has other weights with the value 1 than with others"),
    ({"GIVEN": WAPITI_PATTERNS}, ["GIVEN[0]"], values_at_times, VALUES, "wapiti",
     "the potential values.*no potentials"),
    ({"GIVEN": GIVEN}, ["GIVEN[0]"], words, {}, "crfsuite", "first and last labels.*boundaries = false"),
    # a program that computes the attributes of a token knows nothing of functions and offsets
    ({"ONE": ITEMS, "OTHER": ITEMS}, ["ONE[0]", "OTHER[0]"], words, LINEAR, "crfsuite",
     "two features have the name 'w=Anna'"),
    ({"ONE": ITEMS}, ["ONE[-1]"], words, LINEAR, "crfsuite", "the attributes .*'ONE'"),
])  # fmt: skip
def test_given_attributes_that_a_format_cannot_hold(
    functions: dict[str, Any],
    names: list[str],
    note: Callable[[Doc], list[list[Any]]],
    settings: dict[str, Any],
    kind: str,
    message: str,
    tmp_path: Path,
) -> None:
    nlp = blank("crf_tagger", features=templates(*names, token_functions=functions), **settings)
    corpus = examples(nlp)
    for example in corpus:
        example.predicted._.crf_attributes = note(example.predicted)
    initialize(nlp, corpus, fit=True)
    with pytest.raises((ConfigError, DataError), match=message):
        exported(nlp, tmp_path / f"model.{kind}", "crf_tagger", [example.predicted for example in corpus])
    assert not list(tmp_path.iterdir())


def test_texts_that_lack_names_of_features(tmp_path: Path) -> None:
    (tmp_path / "patterns").write_text(PATTERNS)
    features = registered("features", "TemplateFile", path=str(tmp_path / "patterns"), columns=["word", "tag"])
    nlp = trained("crf_ner", features=features)
    with pytest.raises(DataError, match=r"occur in none of the texts.*keep_names = true"):
        exported(nlp, tmp_path / "model.wapiti", "crf_ner", docs_of(nlp, "crf_ner")[:1])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with models, one of which is cut, and an empty folder."""
    folder = tmp_path_factory.mktemp("models")
    write_models(folder)
    (folder / "cut.crfsuite").write_bytes((folder / "model.crfsuite").read_bytes()[:-5])
    (folder / "empty").mkdir()
    return folder


@pytest.mark.parametrize(("command", "parts"), [
    ("import-model model.crfsuite out --features tests.unknown.v1", ["has no 'tests.unknown.v1'"]),
    ("import-model model.crfsuite out --features spacy_crfseq.Tagging.v1", ["must be a token function"]),
    ("import-model model.crfsuite out --labels entity", ["--labels"]),
    ("import-model model.crfsuite out --columns word", ["--columns are for models of Wapiti"]),
    ("import-model features.py out --features f", ["no trained model"]),
    ("import-model empty out", ["no trained model"]),
    ("import-model model.wapiti out --columns wrod", ["'word'"]),
    ("import-model model.wapiti out --columns word --labels ent", ["'A'", "--labels tag"]),
    ("import-model cut.crfsuite out", ["cut.crfsuite", "copy it again"]),
    ("export-model empty out.wapiti", ["is not a pipeline"]),
    ("convert model.crfsuite out", ["is a trained model. To make a pipeline of it, use import-model"]),
])  # fmt: skip
def test_a_command_that_is_refused(
    command: str, parts: list[str], folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    before = sorted(folder.iterdir())
    refused(run(*command.split()), *parts)
    assert sorted(folder.iterdir()) == before
