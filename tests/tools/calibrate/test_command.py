"""``crfseq calibrate``: what it counts, what it writes, and what it refuses."""

import json
import math
import shutil
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc, DocBin

from spacy_crfseq.errors import ConfigError
from spacy_crfseq.pipeline.corpus_reader import read_examples
from spacy_crfseq.reliability import Curves, curved, fit_curve, perfect_error, reliability
from spacy_crfseq.schemes import TagSpan
from spacy_crfseq.tools._pages.calibration import calibration
from spacy_crfseq.tools._pages.judged import Judged
from spacy_crfseq.tools.calibrate import calibrate, fit_types
from tests.commands import Corpus, Run, refused, worked
from tests.pipeline import helpers

NAMES = ["crf_tagger", "crf_chunker", "crf_ner"]


def settings(model: Path, component: str) -> dict[str, Any]:
    stored: dict[str, Any] = json.loads((model / component / "cfg").read_text())
    return stored


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def copy(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained / "model-best", tmp_path / "model"))


@pytest.fixture
def ner(trained: Path, tmp_path: Path) -> Path:
    """The entity recognizer alone, which is quicker."""
    nlp = spacy.load(trained / "model-best", exclude=["crf_tagger", "crf_chunker"])
    nlp.to_disk(tmp_path / "ner")
    return tmp_path / "ner"


def test_only_what_was_fitted_is_replaced(run: Run, trained: Path, copy: Path, corpus: Corpus) -> None:
    result = worked(run("calibrate", copy, corpus.dev, "--format conll2003"))
    old, new = contents(trained / "model-best"), contents(copy)
    assert old.keys() == new.keys()
    assert {name for name in old if old[name] != new[name]} == {f"{name}/cfg" for name in NAMES}
    nlp = spacy.load(copy)
    for name in NAMES:
        before, after = settings(trained / "model-best", name), settings(copy, name)
        assert before.pop("temperature") == 1.0
        fitted = after.pop("temperature")
        assert fitted == pytest.approx(helpers.pipe_of(nlp, name).cfg["temperature"])
        assert fitted != 1.0
        assert after.pop("calibration", {}).keys() <= {"*"}
        assert before == after
        assert f"Saved the temperature of {', '.join(NAMES)}" in result.stdout


def test_a_new_folder(run: Run, trained: Path, corpus: Corpus, tmp_path: Path, monkeypatch: Any) -> None:
    model = trained / "model-best"
    before = contents(model)
    worked(run("calibrate", model, corpus.dev, "-f conll2003 -p crf_ner -o", tmp_path / "new"))
    assert contents(model) == before
    assert settings(tmp_path / "new", "crf_ner")["temperature"] != 1.0
    assert settings(tmp_path / "new", "crf_tagger")["temperature"] == 1.0
    after = contents(tmp_path / "new")
    assert {name for name in {**before, **after} if before.get(name) != after.get(name)} == {"crf_ner/cfg"}
    curve = [-3.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0]

    def fitted(judged: Judged, *, by_type: bool) -> tuple[Curves, Curves | None, Judged]:
        types = Curves({"PER": tuple(curve)}, 1.0, 0.1, 1)
        return Curves({}, 0.0, 1.0, 1), types if by_type else None, judged

    module = import_module("spacy_crfseq.tools.calibrate")
    usual = module.fit_types
    monkeypatch.setattr(module, "fit_types", fitted)
    both = "-f conll2003 -p crf_ner -p crf_tagger --by-type --force -o"
    assert "Curves for PER gain 1.0 nats" in worked(run("calibrate", model, corpus.dev, both, tmp_path / "new")).stdout
    assert settings(tmp_path / "new", "crf_ner")["calibration"] == {"PER": curve}
    assert "calibration" not in settings(tmp_path / "new", "crf_tagger"), "tags of a token sum to one"
    assert list(tmp_path.iterdir()) == [tmp_path / "new"]
    worked(run("calibrate", tmp_path / "new", corpus.dev, "-f conll2003 -p crf_ner"))
    curves = settings(tmp_path / "new", "crf_ner").get("calibration", {})
    assert "PER" not in curves, "it is of the temperature before"
    monkeypatch.setattr(module, "fit_types", usual)
    few = worked(run("calibrate", model, corpus.dev, both, tmp_path / "new")).stdout
    assert "No curve for types: no type has 100 spans or more" in few


def test_figures(run: Run, ner: Path, corpus: Corpus) -> None:
    nlp = spacy.load(ner)
    pipe = helpers.pipe_of(nlp, "crf_ner")
    result = worked(run("calibrate", ner, corpus.dev, "-f conll2003 --bins 4 --json"))
    figures = json.loads(result.stdout)["crf_ner"]
    assert figures["unit"] == "spans"
    for when in ("before", "after"):
        probabilities, right, labels = [], [], []
        temperature = figures[when]["temperature"]
        for example in read_examples(nlp, corpus.dev, "conll2003"):
            gold = {(ent.start, ent.end, ent.label_) for ent in example.reference.ents}
            words = [token.text for token in example.reference]
            for *span, probability in pipe.posterior([Doc(nlp.vocab, words=words)], temperature=temperature).spans()[0]:
                probabilities.append(probability)
                right.append(tuple(span) in gold)
                labels.append(span[2])
        expected = calibration(probabilities, right, 4)._asdict()
        assert {name: figures[when][name] for name in expected} == pytest.approx(expected)
        assert sum(part["total"] for part in figures[when]["bins"]) == len(right)
        assert figures[when]["perfect"] == perfect_error(reliability(probabilities, right, 4))._asdict()
        assert {label: row["total"] for label, row in figures[when]["labels"].items()} == {
            label: labels.count(label) for label in set(labels)
        }
    assert figures["after"]["log_loss"] < figures["before"]["log_loss"]
    assert figures["after"]["total"] == figures["before"]["total"]
    assert settings(ner, "crf_ner")["temperature"] == figures["after"]["temperature"]


def test_a_component_that_is_too_sure(ner: Path, corpus: Corpus) -> None:
    first = calibrate(ner, corpus.dev, "conll2003").results["crf_ner"]
    nlp = spacy.load(ner)
    pipe = helpers.pipe_of(nlp, "crf_ner")
    pipe.set_parameters(3 * pipe.crf.theta)
    assert pipe.cfg["temperature"] == 1.0, "it was fitted to other parameters"
    nlp.to_disk(ner)
    second = calibrate(ner, corpus.dev, "conll2003").results["crf_ner"]
    assert second.before.temperature == 1.0
    assert second.after.temperature == pytest.approx(3 * first.after.temperature, rel=0.1)
    assert second.after.whole.error < second.before.whole.error
    assert second.after.whole.predicted == pytest.approx(first.after.whole.predicted, abs=0.02)


@pytest.fixture
def files(corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that components cannot be judged by, and a folder that is no pipeline, in the current folder."""
    monkeypatch.chdir(tmp_path)
    gold = corpus.dev.read_text()
    Path("dev.conll").write_text(gold)
    lines = [" ".join([*line.split()[:2], "-"]) if line else "" for line in gold.splitlines()]
    Path("blind.conll").write_text("\n".join(lines) + "\n")
    Path("dull.conll").write_text("the DT O\ndog NN O\n\n. . O\n\n")
    Path("empty.spacy").write_bytes(DocBin().to_bytes())
    Path("precious").mkdir()
    Path("precious", "work.txt").write_text("of years")


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(("file", "options", "message"), [
    ("none.conll", "-f conll2003", "none.conll: no such file"),
    ("dev.conll", "-f conll2003 --given tagg", "'tagg' is not known"),
    ("dev.conll", "-f conll2003 -o precious", "is not a pipeline"),
    ("blind.conll", "-f conll2002 -p crf_ner", "'crf_ner': the file holds no gold annotation for it"),
    ("dull.conll", "-f conll2002 -p crf_ner", "'crf_ner' predicts no spans in the 2 documents"),
    ("empty.spacy", "--given tagg", "Did you mean 'tag'?"),
    ("empty.spacy", "-p crf_ner", "holds no documents"),
])  # fmt: skip
def test_files_and_options_that_do_not_fit_are_refused(
    file: str, options: str, message: str, run: Run, copy: Path
) -> None:
    before = contents(copy)
    refused(run("calibrate", copy, file, options), message)
    assert contents(copy) == before


@pytest.mark.parametrize(("model", "message"), [("spacy", "Give --output"), ("none", "none: no such folder")])
def test_a_model_that_is_no_folder_is_refused(model: str, message: str, corpus: Corpus) -> None:
    with pytest.raises(ConfigError, match=message):
        calibrate(model, corpus.dev, "conll2003")


@pytest.mark.usefixtures("files")
def test_of_several_components_those_without_gold_annotation_are_unchanged_and_named(run: Run, copy: Path) -> None:
    result = worked(run("calibrate", copy, "blind.conll", "-f conll2002"))
    assert "crf_ner is unchanged. Component 'crf_ner': the file holds no gold" in result.stderr
    assert "crf_chunker is unchanged" in result.stderr
    assert settings(copy, "crf_ner")["temperature"] == 1.0 != settings(copy, "crf_tagger")["temperature"]


def judged_spans(biases: dict[str, float], size: int) -> Judged:
    """Spans whose true log-odds are those of the reported probability plus the bias of the type."""
    rng = np.random.default_rng(0)
    odds, labels = rng.normal(1, 2, size), rng.choice(list(biases), size, p=[0.495, 0.495, 0.01])
    right = rng.random(size) < 1 / (1 + np.exp(-odds - [biases[label] for label in labels]))
    tags = [[f"B-{label}" if is_right else "O"] for label, is_right in zip(labels, right, strict=True)]
    spans = [
        [(TagSpan(0, 1, str(label)), 1 / (1 + math.exp(-log_odds)))]
        for label, log_odds in zip(labels, odds, strict=True)
    ]
    return Judged([], tags, tags, spans, plain=False, temperature=1.0)


def test_types_get_curves_if_these_do_better_elsewhere() -> None:
    judged = judged_spans({"UP": 1.0, "DOWN": -1.0, "RARE": 3.0}, 5000)
    labels, (old, right) = np.array([spans[0].label for spans in judged.found]), judged.certainties()
    _, types, after = fit_types(judged, by_type=True)
    assert types is not None
    assert types.gain > 10 * types.error
    assert (types.tried, {*types.curves}) == (2, {"UP", "DOWN"})
    for label, bias in (("UP", 1.0), ("DOWN", -1.0)):
        there = curved(np.array([0.2, 0.5, 0.9]), types.curves[label])
        odds = np.log([0.25, 1.0, 9.0]) + bias
        np.testing.assert_allclose(there, 1 / (1 + np.exp(-odds)), atol=0.05)
    new, rare = after.certainties()[0], labels == "RARE"
    np.testing.assert_array_equal(new[rare], fit_types(judged, by_type=False)[2].certainties()[0][rare])
    up, first = labels == "UP", (labels == "UP") & (np.arange(5000) < 250)
    np.testing.assert_allclose(new[first], curved(old[first], fit_curve(old[up & ~first], right[up & ~first])))
    assert calibration(new[up], right[up]).error < 0.03 < calibration(old[up], right[up]).error
    _, unclear, _ = fit_types(judged_spans({"UP": 0.2, "DOWN": -0.2, "RARE": 0.0}, 1000), by_type=True)
    assert unclear is not None
    assert unclear.curves == {}
    assert fit_types(judged, by_type=False)[1] is None
