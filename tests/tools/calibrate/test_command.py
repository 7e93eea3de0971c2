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
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import Doc, DocBin

from spacy_crfseq.errors import ConfigError, DataError
from spacy_crfseq.pipeline.doc_posterior import calibrated
from spacy_crfseq.pipeline.readers import read_examples
from spacy_crfseq.schemes import TagSpan
from spacy_crfseq.tools._pages.calibration import calibration, log_losses
from spacy_crfseq.tools._pages.judged import Judged
from spacy_crfseq.tools.calibrate import (
    FEW,
    FLATTEST,
    ByType,
    calibrate,
    fit_curve,
    fit_temperature,
    fit_types,
    golden_section,
)
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


def test_only_the_temperature_is_replaced(run: Run, trained: Path, copy: Path, corpus: Corpus) -> None:
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
    types = ByType({"PER": (0.1, 0.9)}, 1.0, 0.1, 1)
    monkeypatch.setattr(import_module("spacy_crfseq.tools.calibrate"), "fit_types", lambda judged: types)
    both = "-f conll2003 -p crf_ner -p crf_tagger --by-type --force -o"
    assert "Curves for PER gain 1.0 nats" in worked(run("calibrate", model, corpus.dev, both, tmp_path / "new")).stdout
    assert settings(tmp_path / "new", "crf_ner")["calibration"] == {"PER": [0.1, 0.9]}
    assert "calibration" not in settings(tmp_path / "new", "crf_tagger"), "tags of a token sum to one"
    assert list(tmp_path.iterdir()) == [tmp_path / "new"]
    worked(run("calibrate", tmp_path / "new", corpus.dev, "-f conll2003 -p crf_ner"))
    assert "calibration" not in settings(tmp_path / "new", "crf_ner"), "curves are of the temperature before"
    none = ByType({}, 0.0, 0.0, 0)
    monkeypatch.setattr(import_module("spacy_crfseq.tools.calibrate"), "fit_types", lambda judged: none)
    few = worked(run("calibrate", model, corpus.dev, both, tmp_path / "new")).stdout
    assert "No curves: no type has 100 spans or more" in few
    assert "nats" not in few


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
        assert {label: each["total"] for label, each in figures[when]["labels"].items()} == {
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


def softmax(scores: np.ndarray) -> np.ndarray:
    exp = np.exp(scores - scores.max(1, keepdims=True))
    return exp / exp.sum(1, keepdims=True)


class Drawn:
    """Predictions of a model whose scores are `truth` times too large."""

    def __init__(self, truth: float, size: int = 20000, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.scores = truth * rng.normal(size=(size, 4))
        labels = (softmax(self.scores / truth).cumsum(1) > rng.random((size, 1))).argmax(1)
        self.right = labels == self.scores.argmax(1)

    def at(self, temperature: float) -> np.ndarray:
        return softmax(self.scores / temperature).max(1)


@pytest.mark.parametrize("truth", [0.2, 0.7, 1.0, 1.6, 6.0])
def test_a_temperature_is_found_again(truth: float) -> None:
    drawn = Drawn(truth)
    found = fit_temperature(drawn.at, drawn.right)
    assert found == pytest.approx(truth, rel=0.05)
    before, after = (calibration(drawn.at(t), drawn.right) for t in (1.0, found))
    assert after.error < 0.02
    assert after.log_loss <= before.log_loss
    if not 0.5 < truth < 1.5:
        assert before.error > 0.1
    with pytest.raises(DataError, match="no predictions"):
        fit_temperature(lambda _: [], [])


@given(st.lists(st.tuples(st.floats(-8, 8), st.booleans()), min_size=1, max_size=8))
def test_small_samples_give_sober_temperatures(pairs: list[tuple[float, bool]]) -> None:
    """All right, all wrong, or sure and wrong: the temperature stays in range."""
    scores, right = (np.array(column, float) for column in zip(*pairs, strict=True))
    found = fit_temperature(lambda temperature: 0.5 + 0.5 * np.tanh(scores / temperature / 2), right)
    assert math.exp(-3) <= found <= math.exp(3)


@given(st.floats(-3, 3), st.floats(0.1, 4))
def test_golden_section(lowest: float, width: float) -> None:
    found = golden_section(lambda x: abs(x - lowest) ** 1.5, lowest - width, lowest + 2 * width, 1e-6)
    assert found == pytest.approx(lowest, abs=1e-5)


def judged_spans(biases: dict[str, float], size: int) -> Judged:
    """Spans whose true log-odds are those of the reported probability plus the bias of the type."""
    rng = np.random.default_rng(0)
    odds, labels = rng.normal(1, 2, size), rng.choice(list(biases), size, p=[0.495, 0.495, 0.01])
    right = rng.random(size) < 1 / (1 + np.exp(-odds - [biases[label] for label in labels]))
    tags = [[f"B-{label}" if each else "O"] for label, each in zip(labels, right, strict=True)]
    spans = [[(TagSpan(0, 1, str(label)), 1 / (1 + math.exp(-each)))] for label, each in zip(labels, odds, strict=True)]
    return Judged([], tags, tags, spans, plain=False, temperature=1.0)


def test_types_get_curves_if_these_do_better_elsewhere() -> None:
    judged = judged_spans({"UP": 1.0, "DOWN": -1.0, "RARE": 3.0}, 5000)
    labels, (old, right) = np.array([spans[0].label for spans in judged.found]), judged.certainties()
    curves, gain, error, tried, held_out = fit_types(judged)
    assert gain > 10 * error
    assert tried == 2
    assert curves == {"UP": pytest.approx((1.0, 1.0), abs=0.15), "DOWN": pytest.approx((-1.0, 1.0), abs=0.15)}
    assert held_out is not None
    new, _ = judged.with_probabilities(held_out).certainties()
    np.testing.assert_array_equal(new, held_out)
    np.testing.assert_array_equal(new == old, labels == "RARE")
    up, first = labels == "UP", (labels == "UP") & (np.arange(5000) < 250)
    np.testing.assert_allclose(new[first], calibrated(old[first], *fit_curve(old[up & ~first], right[up & ~first])))
    assert calibration(new[up], right[up]).error < 0.03 < calibration(old[up], right[up]).error
    unclear = judged_spans({"UP": 0.4, "DOWN": -0.4, "RARE": 0.0}, 1000)
    curves, gain, error, _, held_out = fit_types(unclear)
    assert (curves, held_out) == ({}, None)
    assert error < gain < 2 * error


@given(st.lists(st.tuples(st.floats(-12, 12), st.booleans()), max_size=8))
def test_a_curve_is_the_best_and_rises(pairs: list[tuple[float, bool]]) -> None:
    p, right = np.array([1 / (1 + math.exp(-x)) for x, _ in pairs]), np.array([y for _, y in pairs], bool)
    (a, b), costs = fit_curve(p, right), []
    for x, y in [(a, b), (a + 0.02, b), (a - 0.02, b), (a, b + 0.02), (a, b - 0.02)]:
        costs.append(log_losses(calibrated(p, x, y), right).sum() + 8 * x**2 + (y - 1) ** 2 / 0.045)
    assert b == FLATTEST or costs[0] < min(costs) + 1e-3
    assert pairs or (a, b) == (0, 1)
    assert fit_curve(np.full(50, 0.999), np.zeros(50, bool))[1] == FLATTEST


@pytest.mark.parametrize("size", [FEW - 1, FEW, FEW + 1])
def test_a_type_has_a_curve_from_enough_spans_on(size: int) -> None:
    right = np.arange(size) % 10 > 0
    tags = [["B-PER" if each else "O"] for each in right]
    curves, gain, error, tried, _ = fit_types(
        Judged([], tags, tags, [[(TagSpan(0, 1, "PER"), 0.3)]] * size, plain=False, temperature=1.0)
    )
    assert (tried, bool(curves), gain > 2 * error) == ((0, False, False) if size < FEW else (1, True, True))


@given(
    st.integers(0, 2**32 - 1), st.integers(1, 400), st.integers(1, 60), st.sampled_from([0.1, 1.0, 4.0, 40.0])
)  # fmt: skip
def test_curves_of_any_text(seed: int, size: int, n_texts: int, scale: float) -> None:
    """Reported probabilities are probabilities, and in the order of the exact ones of their type and fold."""
    rng = np.random.default_rng(seed)
    p = 1 / (1 + np.exp(-np.clip(scale * rng.standard_normal(size), -700, 700)))
    right, labels = rng.random(size) < rng.choice([0.0, 0.5, 1.0, 2.0]) * p, rng.choice(["A", "B"], size)
    text = np.sort(rng.integers(0, n_texts, size))
    spans = [
        [(TagSpan(place, place + 1, str(labels[i])), float(p[i])) for place, i in enumerate(np.flatnonzero(text == n))]
        for n in range(n_texts)
    ]
    tags = [[f"B-{labels[i]}" if right[i] else "O" for i in np.flatnonzero(text == n)] for n in range(n_texts)]
    judged = Judged([], tags, tags, spans, plain=False, temperature=1.0)
    curves, gain, error, _, held_out = fit_types(judged)
    after = p if held_out is None else held_out
    assert np.isfinite([gain, error]).all()
    assert ((after >= 0) & (after <= 1)).all()
    for a, b in curves.values():
        grid = calibrated(np.linspace(0, 1, 101), a, b)
        assert (np.diff(grid) >= 0).all()
        assert np.isfinite(grid).all()
        assert ((grid >= 0) & (grid <= 1)).all()
    assert (held_out is None) == (not curves)
