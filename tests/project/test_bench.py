"""The benchmark command lists what it has, and its page shows its results; nothing is timed."""

import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from bench import _harness, report
from scripts import kit
from scripts.kit import Options, Skip, Study, command, fill, load, save, table
from tests.project import study_runs

ROOT = Path(__file__).parents[2]
RUN = [sys.executable, str(ROOT / "bench" / "run.py")]


def row(**values: object) -> dict[str, object]:
    defaults = {"unit": "s", "peer": [], "against": "", "kind": "times", "target": None, "note": ""}
    return {"label": "work", **defaults, **values}


def test_the_command_lists_its_benchmarks() -> None:
    done = subprocess.run([*RUN, "--list"], capture_output=True, text=True, check=True)
    assert set(load(ROOT / "bench" / "results")) <= set(done.stdout.split())


def test_the_tables_are_what_the_command_makes_of_its_results(tmp_path: Path) -> None:
    subprocess.run([*RUN, "--report", "--pages", str(tmp_path)], capture_output=True, check=True)
    for page in ("performance.md", "scaling.md", "annotate.md"):
        made, there = ((folder / page).read_text(encoding="utf8").splitlines() for folder in (tmp_path, ROOT / "docs"))
        assert [line for line in made if line.startswith("|")] == [line for line in there if line.startswith("|")]


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ({"ours": [1.0, 2.0], "peer": [8.0, 20.0], "target": 6}, ("9 x", "8-10", "6 x")),
        ({"unit": "words/s", "ours": [50.0], "peer": [100.0], "kind": "share", "target": 45}, ("50 %", "", "45 %")),
        ({"unit": "MB", "ours": [120.0], "kind": "value", "target": 200}, ("120 MB", "", "at most 200 MB")),
    ],
    ids=["times", "share", "value"],
)
def test_ratios_are_formed_round_by_round(values: dict[str, object], shown: tuple[str, str, str]) -> None:
    assert report.shown(row(**values)) == shown


def test_each_run_has_a_file_of_results(tmp_path: Path) -> None:
    for name, seconds in (("b", 1), ("a", 2), ("b", 3)):
        save(tmp_path / "new", name, {"seconds": seconds})
    assert load(tmp_path / "new") == {"a": {"seconds": 2}, "b": {"seconds": 3}}
    assert [file.name for file in sorted((tmp_path / "new").iterdir())] == ["a.json", "b.json"]


def test_one_run_that_fails_loses_no_other_and_the_command_fails_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (*kit.ONE_THREAD, kit.CLOCK):  # which the command sets
        monkeypatch.setenv(name, "1")
    study = Study([], kit.ROOT / "unused", lambda results, folder: None)
    for number, work in enumerate((study_runs.killed, study_runs.wrong, study_runs.missing, study_runs.done)):
        study.run(work.__name__, minutes=9 - number)(work)
    app = typer.Typer()
    app.command()(command(study, lambda name, entry: f"{name} is there"))
    result = CliRunner().invoke(app, ["--output", str(tmp_path / "results"), "--pages", str(tmp_path)])
    assert result.exit_code == 1
    assert {name: entry["rows"] for name, entry in load(tmp_path / "results").items()} == {"done": [{"seed": 0}]}
    last = result.stderr.splitlines()[-1]
    for text in ("killed (failed: BrokenProcessPool)", "wrong (failed: ValueError)", "missing (skipped)"):
        assert text in last
    assert "a figure is wrong" in result.stderr
    assert "done is there" in result.stdout


def test_a_run_is_named_by_its_name_or_page_or_the_begin_of_several() -> None:
    study = Study([], Path(), lambda results, folder: None, {"page": ["tag-b", "memory", "gone"], "memory": ["tag-a"]})
    for name in ("memory", "memory-scale", "tag-a", "tag-b"):
        study.run(name, minutes=1)(lambda options: [])
    result = {"memory": ["memory"], "tag": ["tag-a", "tag-b"], "page": ["tag-b", "memory"], "ta": []}
    assert {name: study.named(name) for name in result} == result


def test_no_round_begins_after_the_patience_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(0, 1000, 20))
    monkeypatch.setattr(_harness, "clock", lambda: next(now))
    assert _harness.in_turn(5, {"a": lambda: 1.0, "b": lambda: 2.0}) == {"a": [1.0] * 2, "b": [2.0] * 2}


def test_markers_of_a_page_are_filled_by_their_kind() -> None:
    assert fill("A <!-- big: a-b --> <!-- c -->", {"big": str.upper}) == "A A-B <!-- c -->"
    with pytest.raises(KeyError, match="none"):
        fill("<!-- none: a -->", {})


def test_short_rows_of_a_table_are_filled_up_and_long_ones_refused() -> None:
    assert table(["a", "b"], [["1"]], "lr") == "| a | b |\n| --- | ---: |\n| 1 |  |"
    assert table(["a"], []) == "Not run yet."
    with pytest.raises(ValueError, match="2 cells under 1 headers"):
        table(["a"], [["1", "2"]])


def test_a_missing_corpus_is_named(tmp_path: Path) -> None:
    with pytest.raises(Skip, match="CRFSEQ_DATA"):
        Options(None).corpus("conll2000", "train.txt")
    with pytest.raises(Skip, match=r"conll2000/train\.txt is not"):
        Options(tmp_path).corpus("conll2000", "train.txt")
