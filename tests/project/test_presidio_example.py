"""The recognizer in examples/presidio: Presidio's results have the probabilities of the model."""

import importlib
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import spacy
from spacy.tokens import Doc, DocBin, Span
from spacy.tokens.underscore import Underscore

from spacy_crfseq.errors import ConfigError
from tests.pipeline.helpers import pipe_of, trained
from tests.project.pages import ROOT, blocks, read

pytest.importorskip("presidio_analyzer", reason="presidio-analyzer is not installed")
FOLDER = ROOT / "examples" / "presidio"
TEXT = "Bob met Ada in Oslo."


@pytest.fixture
def recognizer(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(FOLDER))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module("crf_recognizer").CRFRecognizer


@pytest.fixture
def model(tmp_path: Path) -> Path:
    nlp = trained("crf_ner")
    nlp.to_disk(tmp_path / "model")
    return tmp_path / "model"


def engine_of(model: Path) -> Any:
    from presidio_analyzer.nlp_engine import SpacyNlpEngine

    engine = SpacyNlpEngine(models=[{"lang_code": "en", "model_name": str(model)}])
    engine.load()
    return engine


@pytest.mark.parametrize("own", [False, True], ids=["the pipeline of the engine", "a pipeline of its own"])
def test_scores_are_probabilities(own: bool, recognizer: Any, model: Path) -> None:
    from presidio_analyzer import AnalyzerEngine, RecognizerRegistry

    engine = engine_of(model)
    registry = RecognizerRegistry(recognizers=[recognizer(model if own else None)], supported_languages=["en"])
    results = AnalyzerEngine(registry=registry, nlp_engine=engine).analyze(TEXT, language="en")
    doc = spacy.load(model)(TEXT)
    names = {"PER": "PERSON", "LOC": "LOCATION"}
    expected = {(names[ent.label_], ent.start_char, ent.end_char): ent._.crf_score for ent in doc.ents}
    assert {(result.entity_type, result.start, result.end): result.score for result in results} == pytest.approx(
        expected
    )
    assert len(expected) >= 2
    assert 0.85 not in expected.values()


def test_only_what_is_asked_for_and_supported_is_reported(recognizer: Any, model: Path) -> None:
    own = recognizer(model, entities={"PER": "NAME"}, supported_entities=["NAME"])
    assert {result.entity_type for result in own.analyze(TEXT, ["NAME", "LOC"])} == {"NAME"}
    assert own.analyze(TEXT, ["LOC"]) == []
    assert {"NAME", "LOC"} <= set(recognizer(model, entities={"PER": "NAME"}).supported_entities)
    assert recognizer().analyze(TEXT, ["PERSON"]) == []


def test_entities_of_a_ruler_have_another_score(recognizer: Any, model: Path) -> None:
    nlp = spacy.load(model)
    ruler: Any = nlp.add_pipe("entity_ruler", first=True)
    ruler.add_patterns([{"label": "LOC", "pattern": "Oslo"}])
    nlp.to_disk(model.parent / "ruled")
    results = recognizer(model.parent / "ruled", other_score=0.5).analyze(TEXT, ["PERSON", "LOCATION"])
    assert {result.entity_type: result.score for result in results}["LOCATION"] == 0.5
    assert all(result.score != 0.5 for result in results if result.entity_type == "PERSON")


def test_labels_have_the_names_that_presidio_gives_them(recognizer: Any) -> None:
    from presidio_analyzer.nlp_engine import ner_model_configuration

    entities = sys.modules[recognizer.__module__].ENTITIES
    assert entities.items() <= ner_model_configuration.MODEL_TO_PRESIDIO_ENTITY_MAPPING.items()


def test_comparison_with_the_recognizer_of_presidio(
    recognizer: Any, model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert recognizer is not None  # its folder can be imported from
    nlp, plain = spacy.load(model), spacy.blank("en")
    ruler: Any = plain.add_pipe("entity_ruler")
    ruler.add_patterns([{"label": "PERSON", "pattern": "Ada"}, {"label": "PERSON", "pattern": "Oslo"}])
    plain.to_disk(tmp_path / "plain")
    doc = spacy.blank("en")(TEXT)
    doc.ents = [Span(doc, 0, 1, "PER"), Span(doc, 2, 3, "PER")]
    DocBin(docs=[doc]).to_disk(tmp_path / "gold.spacy")
    scores = [ent._.crf_score for ent in nlp("Ada ran").ents]
    cases = '[("Ada ran", 1, ((0, 3),), 0), ("Bob", 1, ((0, 2),), 1)]'
    (tmp_path / "cases.py").write_text(f'@mark("text, number, places, entity", {cases})\ndef test(): ...\n')
    arguments = [model, tmp_path / "plain", "--gold", tmp_path / "gold.spacy", "--tests", tmp_path / "cases.py"]
    monkeypatch.setattr(sys, "argv", ["compare.py", *map(str, arguments)])
    importlib.import_module("compare").main()
    lines, own = capsys.readouterr().out.splitlines(), f"{tmp_path / 'plain'}: "
    assert f"{own}of 2 cases, 1 from 0, 1 from 0.3, 1 from 0.5, 1 from 0.7, 1 from 0.85, 0 from 0.95" in lines
    assert f"{own}from 0.85, recall 50.0, precision 50.0" in lines
    assert f"{own}from 0.95, recall 0.0, precision 0.0" in lines
    assert f"of 2 cases, {sum(score >= 0 for score in scores)} from 0, " in lines[0]


def test_an_engine_without_a_crf_is_refused_in_words(recognizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from presidio_analyzer.nlp_engine import NlpArtifacts

    monkeypatch.setattr(Underscore, "span_extensions", {})  # as in a process that has made no component
    module = importlib.reload(sys.modules[recognizer.__module__])
    doc = Doc(spacy.blank("en").vocab, ["My", "name", "is", "Ada"])
    doc.ents = [Span(doc, 3, 4, "PERSON")]
    artifacts = NlpArtifacts(doc.ents, doc, [token.idx for token in doc], [], None, "en")
    assert module.CRFRecognizer().analyze(doc.text, ["LOCATION"], artifacts) == []
    with pytest.raises(ConfigError, match="crf_ner"):
        module.CRFRecognizer().analyze(doc.text, ["PERSON"], artifacts)


def test_the_code_of_the_readme_runs(
    recognizer: Any, model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nlp = spacy.load(model)
    pipe_of(nlp).cfg["cover"] = {"*": 0.01}
    (model.parent / "training").mkdir()
    nlp.to_disk(model.parent / "training" / "hiding")
    monkeypatch.chdir(model.parent)
    (code,) = blocks("python", read(FOLDER / "README.md"))
    exec(code.replace("Ruth Calder opened a library in March.", TEXT), {})
    assert "PERSON 0 3" in capsys.readouterr().out
