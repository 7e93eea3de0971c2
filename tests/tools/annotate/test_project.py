"""A project: which texts go out, decisions of several pages, sessions, and what is refused."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spacy_crfseq.cli.fit import fit
from spacy_crfseq.errors import ConfigError, DataError
from spacy_crfseq.files import digest
from spacy_crfseq.tools.annotate.command import annotate
from spacy_crfseq.tools.annotate.journal import Pins
from spacy_crfseq.tools.annotate.project import ConflictError, Project
from tests.commands import posix
from tests.tools.annotate.conftest import entry, gold, work

Open = Callable[..., Project]


def test_each_fifth_text_is_held_out_and_shown_without_predictions(opened: Open) -> None:
    project = opened()
    project.start()
    kinds = []
    for number in range(40):
        item = project.next("a")
        assert item is not None
        assert project.next("a") is item
        kinds.append(item.held_out)
        project.accept("a", entry(item, number))
        if number % 10 == 9:
            assert project.settle()
        if item.held_out:
            assert project.decode(item, Pins())[0].spans == []
    assert kinds == [number % 5 == 4 for number in range(40)]
    assert project.settle()
    assert project.model is not None
    assert project.model.texts == 32
    item = project.next("a")
    assert item is not None
    spans = project.decode(item, Pins())[0].spans
    assert [span[:3] for span in spans] == [tuple(span) for span in gold([token.text for token in item.doc])]
    summary = project.summary()
    assert summary["held_out"] == 8
    assert summary["f1"] > 0.9
    assert summary["curve"][-1][0] == 32
    assert {row["name"] for row in summary["labels"]} == {"PER", "LOC"}
    assert summary["left"] == 80


def test_the_same_folder_goes_on_and_undoes_what_was_before(opened: Open) -> None:
    project = opened()
    work(project, 7)
    before = project.state
    project.close()
    again = opened(labels=())
    assert again.state.decisions == before.decisions
    assert again.state.labels == ["PER", "LOC"]
    for left in range(6, -1, -1):
        item = again.undo("a", f"undo{left}")
        assert item is not None
        assert item.decision is not None
        assert len(again.state.decisions) == left
        assert again.undo("a", f"undo{left}") is item  # the request has come twice
    assert again.undo("a", "more") is None


def test_skipped_texts_stay_away_until_undone(opened: Open) -> None:
    project = opened()
    first = project.next("a")
    assert first is not None
    project.skip("a", first.key, "s")
    project.skip("a", first.key, "s")
    assert len(project.state.skipped) == 1
    keys = set()
    for number in range(119):
        item = project.next("a")
        assert item is not None
        keys.add(item.key)
        project.accept("a", entry(item, number))
    assert first.key not in keys
    assert len(keys) == 119
    assert project.next("a") is None
    for number in range(119):
        project.undo("a", f"u{number}")
    item = project.undo("a", "last")
    assert item is not None
    assert item.key == first.key


def test_two_pages_have_different_texts_and_do_not_overwrite_each_other(opened: Open) -> None:
    project = opened()
    first, two = project.next("a"), project.next("b")
    assert first is not None
    assert two is not None
    assert first.key != two.key
    with pytest.raises(ConflictError):
        project.accept("a", entry(two, 0))
    project.accept("b", entry(two, 1))
    project.accept("b", entry(two, 1))  # sent twice
    assert len(project.state.decisions) == 1
    item = project.undo("a", "u")
    assert item is not None
    assert item.key == two.key
    other = project.next("b")
    assert other is not None
    assert other.key != item.key
    with pytest.raises(ConflictError):
        project.accept("b", entry(two, 2))


def test_only_known_labels_are_accepted_and_new_ones_can_be_added(opened: Open) -> None:
    project = opened(labels=("PER",))
    item = project.next("a")
    assert item is not None
    bad = {**entry(item, 0), "pins": Pins.of({"spans": [[0, 1, "LOC"]]}, len(item.doc)).as_json()}
    with pytest.raises(DataError, match="'LOC' is not among the labels"):
        project.accept("a", bad)
    project.add_labels(["LOC", "LOC"])
    project.accept("a", bad)
    assert project.state.labels == ["PER", "LOC"]


def test_a_label_that_is_added_later_can_be_used_before_the_next_training(opened: Open) -> None:
    project = opened()
    project.start()
    work(project, 8)
    assert project.settle()
    project.add_labels(["NEW"])
    item = project.next("a")
    assert item is not None
    assert not item.held_out
    result, _ = project.decode(item, Pins.of({"spans": [[0, 1, "NEW"]]}, len(item.doc)))
    assert (0, 1, "NEW") in [span[:3] for span in result.spans]


def test_a_skipped_text_that_has_left_its_file_can_be_reopened(opened: Open, texts: Path) -> None:
    project = opened()
    work(project, 2)
    item = project.next("a")
    assert item is not None
    project.skip("a", item.key, "s")
    project.close()
    texts.write_text("Another text altogether .\n")
    again = opened()
    reopened = again.undo("b", "u")
    assert reopened is not None
    assert (reopened.key, [t.text for t in reopened.doc]) == (item.key, [t.text for t in item.doc])
    again.accept("b", entry(reopened, 7))
    assert len(again.state.decisions) == 3
    for number in range(3):
        assert again.undo("b", f"more{number}") is not None
    assert again.undo("b", "none") is None


def test_texts_that_are_added_when_all_are_done_are_shown(opened: Open, texts: Path) -> None:
    texts.write_text("Ada met Bo .\n")
    project = opened()
    work(project, 1)
    assert project.next("a") is None
    with texts.open("a") as file:
        file.write("Bo came to Oslo .\n")
    item = project.next("a")
    assert item is not None
    assert item.doc[0].text == "Bo"
    texts.unlink()
    project.skip("a", item.key, "s")
    assert project.next("a") is None
    assert "texts.txt" in project.summary()["trouble"]


def test_the_given_pipeline_predicts_from_the_first_text_on(opened: Open, texts: Path) -> None:
    teacher = opened("teacher")
    teacher.start()
    work(teacher, 20)
    assert teacher.settle()
    teacher.close()
    folder = teacher.folder / "model-best"
    before = digest(folder)
    project = opened(model=str(folder))
    for started in (False, True):
        if started:
            project.start()
            assert project.settle()
        assert project.summary()["model"] == 0
        item = project.next("a")
        assert item is not None
        decoding, model = project.decode(item, Pins())
        assert model == 0
        assert [span[:3] for span in decoding.spans] == [tuple(s) for s in gold([token.text for token in item.doc])]
    assert not (project.folder / "model-best").exists()  # nothing has been learned
    project.add_labels(["NEW"])
    project.decode(item, Pins())
    work(project, 2)
    assert project.settle()
    assert project.summary()["model"] == 2
    for number in range(2):
        project.undo("a", f"u{number}")
    assert project.settle()
    assert project.summary()["model"] == 0
    assert digest(folder) == before
    assert project.trouble == ""


@pytest.mark.parametrize("call", ["next", "accept", "skip", "undo", "add_labels", "summary"])
def test_requests_wait_while_another_one_writes(call: str, opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    project = opened()
    work(project, 1)
    item, other = project.next("a"), project.next("b")
    assert item is not None
    assert other is not None
    writes, goes_on, add = threading.Event(), threading.Event(), project.journal.add

    def slow(data: Any) -> None:
        writes.set()
        assert goes_on.wait(20)
        add(data)

    monkeypatch.setattr(project.journal, "add", slow)
    first = threading.Thread(target=project.accept, args=("a", entry(item, 1)))
    first.start()
    assert writes.wait(20)
    calls: dict[str, Callable[[], object]] = {
        "next": lambda: project.next("a"), "accept": lambda: project.accept("b", entry(other, 2)),
        "skip": lambda: project.skip("b", other.key, "s"), "undo": lambda: project.undo("b", "u"),
        "add_labels": lambda: project.add_labels(["NEW"]), "summary": project.summary,
    }  # fmt: skip
    done = threading.Event()
    second = threading.Thread(target=lambda: (calls[call](), done.set()))
    second.start()
    assert not done.wait(0.2)
    goes_on.set()
    first.join()
    second.join()
    assert done.is_set()


def test_a_refused_request_changes_nothing(opened: Open) -> None:
    project = opened()
    item = project.next("a")
    assert item is not None
    before, good = project.journal.path.read_bytes(), entry(item, 0)
    pins: list[Any] = [{"spans": [[0, 99, "PER"]]}, {"wrong": [[0, 1, "X"]]}, {"choices": [[0, ["X"]]]}]
    others: list[Any] = [{"seconds": "x"}, {"predicted": [[0, 1, "PER", math.nan]]}, {"by_user": 3}]
    for bad in (*({"pins": pinned} for pinned in pins), *others):
        with pytest.raises(DataError):
            project.accept("a", {**good, **bad})
        assert project.journal.path.read_bytes() == before
        assert project.state.decisions == {}
        assert project.next("a") is item
    project.accept("a", good)
    assert list(project.state.decisions) == [item.key]


@posix
def test_a_second_process_is_refused_and_so_are_other_settings(opened: Open) -> None:
    project = opened()
    with pytest.raises(ConfigError, match="another process"):
        opened()
    project.close()
    with pytest.raises(ConfigError, match="begun with task entities, not chunks"):
        opened(task="chunks")
    assert opened().state.labels == ["PER", "LOC"]


def test_new_lines_of_a_file_become_texts(opened: Open, texts: Path) -> None:
    project = opened()
    project.start()
    work(project, 3)
    assert project.settle()
    with texts.open("a") as file:
        file.write("Ada came to Oslo and Lima too .\n")
    work(project, 1, first=3)
    assert project.settle()
    assert len(project.pool) == 121


def test_phrases_are_proposed_before_there_is_a_model(opened: Open, tmp_path: Path) -> None:
    phrases = tmp_path / "patterns.jsonl"
    phrases.write_text('{"label": "LOC", "pattern": "Oslo"}\n{"label": "PER", "pattern": "Ada"}\n')
    project = opened(patterns=phrases)
    doc = project.learner.nlp.make_doc("Ada met Bo in oslo")
    item = project.next("a")
    assert item is not None
    spans = project.decode(item._replace(doc=doc), Pins(outside=(0,)))[0].spans
    assert [span[:3] for span in spans] == [(4, 5, "LOC")]
    project.start()
    work(project, 8)
    assert project.settle()
    assert project.trouble == ""
    assert project.model is not None


def test_a_failure_in_the_background_is_reported(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    project = opened()
    monkeypatch.setattr(project.learner, "train", lambda *_: 1 / 0)
    project.start()
    work(project, 2)
    assert project.settle()
    assert "could not be trained" in project.summary()["trouble"]
    assert project.model is None
    assert len(project.state.decisions) == 2


def test_classes_of_words_are_learned_from_the_texts_and_the_model_is_still_that_of_fit(
    texts: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "project"
    with texts.open("a") as file:  # enough words for the classes
        file.writelines(" ".join(f"w{(7 * i + k) % 300}" for k in range(9)) + "\n" for i in range(300))
    project = annotate([texts], folder, "PER,LOC")
    project.start()
    work(project, 10)
    for _ in range(600):
        if project._classes is None:
            break
        time.sleep(0.1)
    log = (folder / "classes.log").read_text() if (folder / "classes.log").exists() else ""
    assert project._classes is None, log
    work(project, 2, first=10)
    assert project.settle()
    project.close()
    assert "words" in project.learner.nlp.config["components"]["crf_ner"]["attributes"]
    fit(folder / "config.cfg", tmp_path / "fit")
    name = "model-best/crf_ner/model"
    assert (folder / name).read_bytes() == (tmp_path / "fit" / name).read_bytes()
    again = annotate([texts], folder, None)
    again.start()
    assert again.settle()
    assert again._classes is None
    again.close()
    assert (folder / name).read_bytes() == (tmp_path / "fit" / name).read_bytes()
