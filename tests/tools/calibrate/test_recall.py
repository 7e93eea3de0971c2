"""``crfseq calibrate --recall``: what is covered, what is stored, and what is refused."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc

from spacy_crfseq.errors import ConfigError, DataError
from spacy_crfseq.pipeline import calibration
from spacy_crfseq.pipeline.corpus_reader import read_examples
from spacy_crfseq.schemes import TagSpan
from spacy_crfseq.tools._pages.coverage import coverage
from spacy_crfseq.tools.calibrate import CalibrationSettings, calibrate
from spacy_crfseq.tools.calibrate.recall import read_recalls
from spacy_crfseq.tools.evaluate import evaluate
from tests.commands import Corpus, Run, refused, worked
from tests.pipeline import helpers


@pytest.fixture(scope="module")
def weak(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An entity recognizer that leaves out entities it is unsure of."""
    nlp = spacy.load(trained / "model-best", exclude=["crf_tagger", "crf_chunker"])
    pipe = helpers.pipe_of(nlp, "crf_ner")
    theta = 0.4 * pipe.crf.theta
    pipe.crf.at(theta).views.transitions[..., pipe.tags.index("O")] += 3.5
    pipe.set_parameters(theta)
    folder = tmp_path_factory.mktemp("weak")
    nlp.to_disk(folder)
    return folder


@pytest.fixture
def model(weak: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(weak, tmp_path / "model"))


def covered_by(model: Path, file: Path) -> tuple[dict[str, int], dict[str, int]]:
    """Return the numbers of gold spans, and of those all of whose tokens are in entities, by label."""
    nlp = spacy.load(model)
    total, hits = dict[str, int](), dict[str, int]()
    for example in read_examples(nlp, file, "conll2003"):
        doc = nlp(Doc(nlp.vocab, words=[token.text for token in example.reference]))
        for span in example.reference.ents:
            total[span.label_] = total.get(span.label_, 0) + 1
            hit = all(doc[i].ent_type for i in range(span.start, span.end))
            hits[span.label_] = hits.get(span.label_, 0) + hit
    return total, hits


def test_the_lower_end_of_the_interval_reaches_the_wanted_share(model: Path, corpus: Corpus) -> None:
    total, before = covered_by(model, corpus.dev)
    done = calibrate(model, corpus.dev, "conll2003", settings=CalibrationSettings(recall=["0.8"])).results["crf_ner"]
    assert done.recalls is not None
    stored = json.loads((model / "crf_ner" / "cfg").read_text())["cover"]
    assert stored == done.recalls.thresholds
    assert stored.keys() == {"*"}
    _, after = covered_by(model, corpus.dev)
    assert sum(after.values()) > sum(before.values())
    for when, hits in ((done.recalls.before, before), (done.recalls.after, after)):
        assert {row.label: row.recall for row in when.labels} == pytest.approx(
            {**{label: hits[label] / total[label] for label in total}, "all": sum(hits.values()) / sum(total.values())}
        )
    assert done.recalls.after.labels[-1].low >= 0.8
    higher = (
        calibrate(model, corpus.dev, "conll2003", settings=CalibrationSettings(recall=["0.85"]))
        .results["crf_ner"]
        .recalls
    )
    assert higher is not None
    assert higher.thresholds["*"] < stored["*"]
    assert higher.before == done.recalls.before, "what was stored before is not in use"
    metrics = evaluate(model, corpus.dev, "conll2003").metrics["ents_covered"]
    assert metrics["labels"]["all"]["recall"] == higher.after.labels[-1].recall
    calibrate(model, corpus.dev, "conll2003")
    assert "cover" not in json.loads((model / "crf_ner" / "cfg").read_text()), "it was of another temperature"
    assert "ents_covered" not in evaluate(model, corpus.dev, "conll2003").metrics


def test_a_label_has_a_threshold_of_its_own(run: Run, model: Path, corpus: Corpus) -> None:
    result = worked(run("calibrate", model, corpus.dev, "-f conll2003 --recall LOC=0.7 --recall PER=0.7"))
    assert re.search(r"Thresholds for recall: LOC 0\.\d+\. Spans whose words", result.stdout), "PER needs none"
    nlp = spacy.load(model)
    stored = helpers.pipe_of(nlp, "crf_ner").cfg["cover"]
    assert stored["LOC"] < 1 == stored["PER"]
    shown = worked(run("evaluate", model, corpus.dev, "-f conll2003")).stdout
    assert re.search(r"covered +spans +% +95 % interval\n", shown)
    figures = json.loads(worked(run("calibrate", model, corpus.dev, "-f conll2003 --recall LOC=0.7 --json")).stdout)
    recall = figures["crf_ner"]["recall"]
    assert recall["after"]["labels"]["LOC"]["low"] >= 0.7 > recall["before"]["labels"]["LOC"]["low"]


def test_a_recall_that_needs_no_threshold_is_shown_of_other_texts_and_changes_nothing(
    run: Run, model: Path, corpus: Corpus
) -> None:
    before = covered_by(model, corpus.train)
    calibrated = worked(run("calibrate", model, corpus.dev, "-f conll2003 --recall 0.3"))
    assert "Thresholds for recall: none is needed; 1 is stored, which adds no words." in calibrated.stdout
    assert "Saved the temperature of crf_ner to" in calibrated.stdout, "not of thresholds"
    shown = worked(run("evaluate", model, corpus.train, "-f conll2003")).stdout
    assert re.search(r"covered +spans +% +95 % interval\n", shown)
    assert covered_by(model, corpus.train) == before


def test_a_copy_in_which_nothing_is_fitted_is_called_one(
    run: Run, model: Path, corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibration, "FEW", 10_000)
    shown = worked(run("calibrate", model, corpus.dev, "-f conll2003 --recall 0.3 --output", tmp_path / "copy")).stdout
    assert f"Saved a copy with the same predictions to {tmp_path / 'copy'}" in " ".join(shown.split())
    assert "Saved the" not in shown


def test_thresholds_that_are_not_asked_for_again_are_removed_with_a_warning(
    run: Run, model: Path, corpus: Corpus
) -> None:
    nlp = spacy.load(model)
    helpers.pipe_of(nlp, "crf_ner").cfg["cover"] = {"LOC": 0.5, "PER": 1.0}
    nlp.to_disk(model)
    warning = "Warning: crf_ner had thresholds for recall, LOC 0.5, which are removed. Give --recall for these, too"
    for options, warns in (("-f conll2003 --recall PER=0.3", True), ("-f conll2003", False)):  # PER gets 1, so none
        assert (warning in worked(run("calibrate", model, corpus.dev, options)).stderr) is warns
    helpers.pipe_of(nlp, "crf_ner").cfg["cover"] = {"LOC": 0.5}
    nlp.to_disk(model)
    assert warning in worked(run("calibrate", model, corpus.dev, "-f conll2003 --json")).stderr


def test_probabilities_of_spans_stay_the_same(model: Path) -> None:
    nlp = spacy.load(model)
    pipe, doc = helpers.pipe_of(nlp, "crf_ner"), nlp.make_doc("Anna met Bob in Oslo\n .")
    shares = 1 - pipe.marginals(doc)[:, pipe.tags.index("O")]
    sets = []
    for least in (0.9, 0.3, 0.01):
        pipe.cfg["cover"] = {"*": least}
        ents = nlp(doc.copy()).ents
        sets.append({i for ent in ents for i in range(ent.start, ent.end)})
        assert {i for i in np.flatnonzero(shares >= least).tolist() if not doc[i].is_space} <= sets[-1]
        for ent in ents:
            expected = pipe.posterior([doc]).probability(ent.start, pipe.annotation.tags_of_span(len(ent), ent.label_))
            assert ent._.crf_score == pytest.approx(expected)
    assert sets[0] <= sets[1] <= sets[2]
    assert sets[0] < sets[2]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"threshold": 0.5}, "threshold = 0.5 drops spans that the thresholds for recall put there"),
        ({"once": ["*"]}, "a threshold for recall is not possible: once and order limit its labels"),
    ],
)
def test_settings_that_contradict_a_threshold_for_recall(model: Path, settings: Any, message: str) -> None:
    nlp = spacy.load(model, config={"components": {"crf_ner": settings}})
    helpers.pipe_of(nlp, "crf_ner").cfg["cover"] = {"*": 0.5}
    with pytest.raises(ConfigError, match=re.escape(message)):
        nlp("Anna met Bob in Oslo.")


@pytest.mark.parametrize(
    ("few", "wrong", "lacking"),
    [
        (10_000, 0, "calibration needs 10000 predicted spans; there are "),
        (1, 10_000, "calibration needs 10000 mistakes; there are "),
    ],
)
def test_a_threshold_needs_neither_predictions_nor_mistakes(
    run: Run, model: Path, corpus: Corpus, monkeypatch: pytest.MonkeyPatch, few: int, wrong: int, lacking: str
) -> None:
    nlp = spacy.load(model)
    kept = {"temperature": 1.5, "calibration": {"*": [-3.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0]}}
    helpers.pipe_of(nlp, "crf_ner").cfg.update(kept)
    nlp.to_disk(model)
    monkeypatch.setattr(calibration, "FEW", few)
    monkeypatch.setattr(calibration, "WRONG", wrong)
    refused(run("calibrate", model, corpus.dev, "-f conll2003"), f"Component 'crf_ner': {lacking}")
    shown = worked(run("calibrate", model, corpus.dev, "-f conll2003 --recall 0.8")).stdout
    assert f"Temperature 1.500 and curves stay as they are: {lacking}" in " ".join(shown.split())
    assert "Saved the thresholds of crf_ner" in shown
    stored = json.loads((model / "crf_ner" / "cfg").read_text())
    assert {name: stored[name] for name in kept} == kept
    assert 0 < stored["cover"]["*"] < 1


def test_a_model_that_predicts_nothing_gets_a_threshold(run: Run, model: Path, corpus: Corpus) -> None:
    nlp = spacy.load(model)
    pipe = helpers.pipe_of(nlp, "crf_ner")
    theta = pipe.crf.theta.copy()
    views, outside = pipe.crf.at(theta).views, pipe.tags.index("O")
    views.transitions[..., outside] += 6
    views.start[outside] += 6
    pipe.set_parameters(theta)
    nlp.to_disk(model)
    refused(run("calibrate", model, corpus.dev, "-f conll2003"), "predicts no spans")
    figures = json.loads(worked(run("calibrate", model, corpus.dev, "-f conll2003 --recall 0.8 --json")).stdout)
    assert figures["crf_ner"]["recall"]["after"]["labels"]["all"]["low"] >= 0.8
    assert figures["crf_ner"]["after"]["perfect"]["mean"] is None


@pytest.mark.parametrize(
    ("recall", "message"),
    [
        (["1.0"], "--recall 1.0: give a share between 0 and 1, such as 0.99, or of a label: PER=0.99"),
        (["99"], "--recall 99: give a share"),
        (["nan"], "--recall nan: give a share"),
        (["PER="], "--recall PER=: give a share"),
        (["many"], "--recall many: give a share"),
        (["0.9", "0.99"], "--recall 0.99: there is another one for all"),
        (["PER=0.9", "PER=0.99"], "--recall PER=0.99: there is another one for PER"),
    ],
)
def test_shares_that_cannot_be_read(recall: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        read_recalls(recall)


def test_shares_are_read_by_label() -> None:
    assert read_recalls(["0.99", "PER=0.9", "A=B=0.5"]) == {"*": 0.99, "PER": 0.9, "A=B": 0.5}


def test_a_recall_that_no_threshold_reaches_is_refused_and_nothing_written(
    run: Run, model: Path, corpus: Corpus
) -> None:
    before = (model / "crf_ner" / "cfg").read_text()
    for options, message in (
        ("--recall PRE=0.9", "no label 'PRE'. Did you mean 'PER'?"),
        ("--recall 0.99999", "--recall 0.99999: with the lowest possible threshold, 51 of 51 spans"),
        ("--recall 0.99999", "it would take 368,887 texts with such spans; the file has"),
        ("--recall PER=0.99999", "--recall PER=0.99999: with the lowest possible threshold, 23 of 23 spans"),
    ):
        refused(run("calibrate", model, corpus.dev, "-f conll2003", options), message)
    nlp = spacy.load(model)
    nlp.config["components"]["crf_ner"]["threshold"] = 0.5
    helpers.pipe_of(nlp, "crf_ner").cfg["threshold"] = 0.5
    nlp.to_disk(model.parent / "strict")
    refused(run("calibrate", model.parent / "strict", corpus.dev, "-f conll2003 --recall 0.8"), "threshold = 0.5 drops")
    assert (model / "crf_ner" / "cfg").read_text() == before


def test_a_tagger_has_no_spans_to_cover(trained: Path, corpus: Corpus, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="its tags mark no spans"):
        calibrate(
            trained / "model-best", corpus.dev, "conll2003", tmp_path / "new", component=["crf_tagger"],
            settings=CalibrationSettings(recall=["0.9"]),
        )  # fmt: skip


def test_a_label_without_spans_in_the_file(model: Path, tmp_path: Path, corpus: Corpus) -> None:
    text = re.sub(r"[BI]-LOC$", "O", corpus.dev.read_text(), flags=re.MULTILINE)
    (tmp_path / "dev.conll").write_text(text)
    with pytest.raises(DataError, match="the file has no spans of 'LOC'"):
        calibrate(model, tmp_path / "dev.conll", "conll2003", settings=CalibrationSettings(recall=["LOC=0.9"]))


def test_coverage_counts_spans_whose_words_are_all_in_spans() -> None:
    gold = [[TagSpan(0, 2, "PER"), TagSpan(3, 4, "LOC")], [TagSpan(0, 1, "PER")], []]
    actual = [[TagSpan(0, 1, "LOC"), TagSpan(1, 3, "ORG")], [TagSpan(0, 1, "PER"), TagSpan(2, 3, "PER")], []]
    result = coverage(gold, actual)
    assert [(row.label, row.spans, row.recall) for row in result.labels] == [
        ("LOC", 1, 0.0), ("PER", 2, 1.0), ("all", 3, pytest.approx(2 / 3))
    ]  # fmt: skip
    assert (result.words, result.precision) == (5, 0.6)
    assert result.labels[-1].low <= 2 / 3 <= result.labels[-1].high
    json.dumps(result.as_json(), allow_nan=False)
