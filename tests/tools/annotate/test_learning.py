"""Learning: the same model as `fit` on the folder, partial annotation, scores, and a user's time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy
from spacy.training import Example

from spacy_crfseq.cli.fit import fit
from spacy_crfseq.pipeline.labels import gold_tags
from spacy_crfseq.schemes import TagSpan
from spacy_crfseq.tools.annotate.journal import Decision, Pins, TextTokens
from spacy_crfseq.tools.annotate.learning import PRIOR, Learner, blank, expected_gain, time_model
from spacy_crfseq.tools.annotate.project import Project
from tests.tools.annotate.conftest import gold, sentences, work


def decisions(n: int, task: str = "entities") -> list[Decision]:
    made = []
    for i, text in enumerate(sentences(n)):
        words = text.split()
        spans = gold(words)
        if task in ("tags", "fields"):
            there = {span.start: span.label for span in spans}
            spans = [TagSpan(t, t + 1, there.get(t, "X")) for t in range(len(words))]
        unknown = (len(words) - 1,) if i % 5 == 0 and task != "tags" else ()
        spans = [span for span in spans if span.start not in unknown]
        choices = {0: ("PER", "LOC")} if i % 7 == 1 else {}
        spans = [span for span in spans if span.start not in choices]
        wrong = (TagSpan(1, 2, "LOC"),) if i % 6 == 2 and task in ("entities", "chunks") else ()
        spaces = None if i % 2 else (True,) * len(words)
        made.append(
            Decision(f"{i:016x}", TextTokens(tuple(words), spaces), Pins(tuple(spans), (), unknown, choices, wrong))
        )
    return made


@pytest.mark.parametrize("task", ["entities", "chunks", "tags", "fields"])
def test_the_model_in_the_folder_is_that_of_fit(task: str, tmp_path: Path) -> None:
    learner = Learner(blank(task, "en"), runs=task == "fields")
    learned, labels = decisions(60, task), ["PER", "LOC", "NONE", "X"]
    pipe = learner.train(learned, labels)
    learner.save(tmp_path / "project", pipe, learned[:50], learned[50:])
    pipe = learner.train(learned[:50], labels)
    learner.save(tmp_path / "project", pipe, learned[:50], learned[50:])
    fit(tmp_path / "project/config.cfg", tmp_path / "fit")
    name = f"model-best/{learner.name}/model"
    assert (tmp_path / "project" / name).read_bytes() == (tmp_path / "fit" / name).read_bytes()
    texts = sentences(40, seed=9)
    here, there = spacy.load(tmp_path / "project/model-best"), spacy.load(tmp_path / "fit/model-best")
    for first, other in zip(here.pipe(texts), there.pipe(texts), strict=True):
        assert first.to_json() == other.to_json()


def test_a_trained_pipeline_goes_on_as_fit_from_it_does(tmp_path: Path) -> None:
    first = Learner(blank("entities", "en"))
    first.save(tmp_path / "first", first.train(decisions(40), ["PER", "LOC"]), decisions(40), [])
    model = str(tmp_path / "first/model-best")
    learner = Learner(spacy.load(model), model=model)
    new = [d._replace(pins=Pins((TagSpan(0, 1, "NEW"),))) for d in decisions(12)]
    pipe = learner.train(new, ["NEW"])
    assert pipe.labels == ("LOC", "NEW", "PER")
    learner.save(tmp_path / "second", pipe, new, [])
    pipe = learner.train(new, ["NEW"])  # the pipeline that it comes from has not changed
    learner.save(tmp_path / "second", pipe, new, [])
    fit(tmp_path / "second/config.cfg", tmp_path / "fit", start=model)
    assert (tmp_path / "second/model-best/crf_ner/model").read_bytes() == (
        tmp_path / "fit/model-best/crf_ner/model"
    ).read_bytes()


@pytest.mark.parametrize("task", ["entities", "chunks"])
def test_tokens_without_a_pin_have_missing_labels(task: str) -> None:
    learner = Learner(blank(task, "xx"))
    pins = Pins((TagSpan(0, 2, "PER"),), (), (3,), {4: ("PER", "LOC")}, (TagSpan(5, 6, "LOC"),))
    decision = Decision("", TextTokens(tuple("a b c d e f g".split())), pins)  # noqa: SIM905
    gold_doc = learner.gold(decision)
    tags: list[Any] = gold_tags(learner.pipe.annotation, Example(learner.doc(decision.text), gold_doc), learner.name)
    assert tags[:2] == ["B-PER", "L-PER" if task == "entities" else "I-PER"]
    assert [tag == "O" or getattr(tag, "labels", None) == ("O",) for tag in tags] == [0, 0, 1, 0, 0, 0, 1]
    assert tags[3] is None
    assert tags[4].labels == ("LOC", "PER")
    assert tags[5].wrong == (("LOC", 1),)


def test_tags_of_tokens(tmp_path: Path) -> None:
    learner = Learner(blank("tags", "xx"))
    pins = Pins((TagSpan(0, 1, "X"),), (), (1,), {2: ("X", "Y")}, (TagSpan(3, 4, "Y"),))
    decision = Decision("", TextTokens(("a", "b", "c", "d")), pins)
    example = Example(learner.doc(decision.text), learner.gold(decision))
    tags: list[Any] = gold_tags(learner.pipe.annotation, example, learner.name)
    assert tags[:2] == ["X", None]
    assert tags[2].labels == ("X", "Y")
    assert tags[3].barred == ("Y",)


def test_scores_are_those_of_the_texts_held_out() -> None:
    learner = Learner(blank("entities", "xx"))
    learned = decisions(80)
    pipe = learner.train(learned, ["PER", "LOC"])
    scored = learner.scored(pipe, learned[:30], ["PER", "LOC", "NONE"])
    assert scored.f1 is not None
    assert scored.f1 > 0.9
    assert scored.low is not None
    assert scored.high is not None
    assert scored.low <= scored.f1 <= scored.high
    assert scored.by_label["NONE"] is None
    assert learner.scored(pipe, [], ["PER"]).f1 is None
    none = [learned[0]._replace(pins=Pins(unknown=tuple(range(len(learned[0].text.words)))))]
    assert learner.scored(pipe, none, ["PER"]).f1 is None


def test_the_gain_of_more_texts_is_read_off_a_power_law() -> None:
    curve = [{"texts": n, "f1": 0.9 - 2.0 * n**-0.5, "held_out": 40} for n in range(20, 400, 20)]
    gain = expected_gain(curve, 50)
    assert gain is not None
    assert gain == pytest.approx(2.0 * (380**-0.5 - 430**-0.5), rel=0.05)
    assert expected_gain(curve[:4]) is None
    assert expected_gain([{**point, "f1": None} for point in curve]) is None
    assert expected_gain([{**point, "f1": 0.5} for point in curve]) == pytest.approx(0, abs=1e-9)


def test_the_time_of_a_user_is_learned_and_begins_as_the_prior() -> None:
    assert np.array_equal(time_model([]), PRIOR)
    rng = np.random.default_rng(0)
    truth = np.array([3.0, 0.4, 1.5, 6.0])
    rows = []
    for _ in range(300):
        tokens, spans, actions = rng.integers(5, 60), rng.integers(0, 8), rng.integers(1, 9)
        seconds = truth @ [1, tokens, spans, actions] + rng.normal(0, 1)
        rows.append((float(tokens), float(spans), float(actions), float(max(seconds, 0.1))))
    model = time_model(rows)
    assert model[1:] == pytest.approx(truth[1:], rel=0.35)
    few = time_model(rows[:3])
    assert np.abs(np.log(few / PRIOR)).max() < 2
    pause = time_model([*rows[:50], (10.0, 1.0, 2.0, 4000.0)])
    assert pause == pytest.approx(time_model(rows[:50]), rel=0.5)


def test_a_session_leaves_what_fit_needs(opened: Callable[..., Project], tmp_path: Path) -> None:
    project = opened()
    project.start()
    work(project, 12)
    assert project.settle()
    project.close()
    fit(tmp_path / "project/config.cfg", tmp_path / "fit")
    assert (tmp_path / "project/model-best/crf_ner/model").read_bytes() == (
        tmp_path / "fit/model-best/crf_ner/model"
    ).read_bytes()
