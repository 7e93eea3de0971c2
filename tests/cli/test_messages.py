"""Messages of commands at the edges: interrupted early, nothing to resume, a count of one, no development data."""

import json
from pathlib import Path

import numpy as np
import pytest

from spacy_crfseq.pipeline.pipeline_training import PipelineTraining
from spacy_crfseq.schemes import transition_table
from tests.commands import Run, refused, worked

INIT = "init-config c.cfg --lang xx --task ner --goal fast --train a.jsonl --dev a.jsonl"
RECORD = json.dumps({"text": "Ada", "entities": [[0, 3, "PER"]]}) + "\n"


@pytest.fixture
def config(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("a.jsonl").write_text(RECORD)
    worked(
        run(
            *[
                "init-config",
                "c.cfg",
                "--lang",
                "xx",
                "--task",
                "ner",
                "--goal",
                "fast",
                "--train",
                "a.jsonl",
                "--dev",
                "a.jsonl",
            ]
        )
    )
    return "c.cfg"


def test_ctrl_c_before_the_first_iteration_says_once_that_nothing_is_saved(
    config: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    worked(run("fit", config, "-o", "out"))
    before = sorted(Path("out").rglob("*"))

    def interrupted(_: PipelineTraining) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(PipelineTraining, "encode", interrupted)
    result = run("fit", config, "-o", "out", "--force")
    assert result.exit_code == 130
    said = (result.stdout + result.stderr).count("Interrupted")
    assert (said, "nothing was trained or saved, and earlier models stay" in result.stdout) == (1, True)
    assert sorted(Path("out").rglob("*")) == before


def test_resume_without_a_checkpoint_says_whether_a_run_is_complete_and_changes_nothing(config: str, run: Run) -> None:
    refused(run("fit", config, "-o", "out", "--resume"), "There is no checkpoint out/checkpoint to resume from")
    worked(run("fit", config, "-o", "out"))
    before = {file: file.read_bytes() for file in Path("out").rglob("*") if file.is_file()}
    for more in ((), ("--force",)):
        refused(
            run("fit", config, "-o", "out", "--resume", *more), "out has the models of a run that has ended", "--force"
        )
    assert before == {file: file.read_bytes() for file in Path("out").rglob("*") if file.is_file()}


def test_init_config_names_no_file_of_development_data_that_is_not_there(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.jsonl").write_text(RECORD)
    result = worked(run(*["init-config", "c.cfg", "--lang", "xx", "--train", "a.jsonl"]))
    assert "dev.jsonl" not in result.stdout + Path("c.cfg").read_text()
    assert "evaluate training/model-best DEV" in result.stdout
    assert "DEV is a file of development data" in result.stdout


def test_only_the_scheme_is_shown_as_detected_where_columns_are_given(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.conll").write_text("Ada S-PER\nran O\n\n" * 5)
    result = worked(run(*["convert", "a.conll", "b.spacy", "--columns", "word,ent"]))
    assert "a.conll: detected tags in IOBES, as --scheme IOBES says." in result.stderr
    assert "--columns" not in result.stderr


def test_a_count_of_one_is_singular(config: str, run: Run) -> None:
    result = run("debug-data", "a.jsonl")
    assert "ent: 1 label," in result.stdout
    assert "train: 1 token known, 0 unknown" in result.stdout
    assert "Converted 1 sentence:" in worked(run(*["convert", "a.jsonl", "a.conll"])).stdout
    assert "Converted 1 doc:" in worked(run(*["convert", "a.jsonl", "a.spacy"])).stdout
    fitted = worked(run("fit", config, "-o", "out")).output
    assert "Encoded 1 document, 1 token" in fitted


def test_calibrate_and_fit_ask_for_as_many_mistakes_and_say_so(config: str, run: Run) -> None:
    Path("a.jsonl").write_text(RECORD * 120)
    lacking = "calibration needs 10 mistakes; there are 120 predicted spans, 0 of them wrong"
    Path("b.jsonl").write_text(RECORD.replace("Ada", "Bob") * 120)
    assert lacking in worked(run("fit", config, "-o", "out", "--paths.train", "b.jsonl")).stdout
    before = {file: file.read_bytes() for file in Path("out").rglob("*") if file.is_file()}
    for output in ((), ("-o", "new")):
        refused(run("calibrate", "out/model-best", "a.jsonl", *output), lacking)
    assert before == {file: file.read_bytes() for file in Path("out").rglob("*") if file.is_file()}
    assert not Path("new").exists()


@pytest.mark.parametrize(("name", "scheme"), [("BIO", "IOB2"), ("bioes", "IOBES"), ("bilou", "BILUO")])
def test_transition_tables_are_found_by_other_names_of_schemes(name: str, scheme: str) -> None:
    labels = [
        "O",
        "B-X",
        "I-X",
        *(["E-X", "S-X"] if scheme == "IOBES" else ["L-X", "U-X"] if scheme == "BILUO" else []),
    ]
    for actual, expected in zip(transition_table(labels, name), transition_table(labels, scheme), strict=True):
        assert np.array_equal(actual, expected)


@pytest.mark.parametrize("command", ["convert a.iob b.iob --lang zz", "init-config b.cfg --train a.iob --lang zz"])
def test_an_unknown_language_is_refused_with_what_to_give(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.iob").write_text("Ada B-PER\n")
    refused(run(*command.split()), "Can't import language zz", "or es,")


def test_a_corpus_in_place_of_a_config_is_refused_with_what_to_do(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "Ada"}\n')
    refused(run("fit", tmp_path / "a.jsonl", "--output", tmp_path / "out"), "a.jsonl is no config", "init-config")
