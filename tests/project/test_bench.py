"""The benchmark command lists what it has, and its page shows its results; nothing is timed."""

import subprocess
import sys
from pathlib import Path

import pytest

from bench import report
from bench._harness import Options, Skip, load, save

ROOT = Path(__file__).parents[2]
RUN = [sys.executable, str(ROOT / "bench" / "run.py")]


def row(**values: object) -> dict[str, object]:
    defaults = {"unit": "s", "peer": [], "against": "", "kind": "times", "target": None, "note": ""}
    return {"label": "work", **defaults, **values}


def test_the_command_lists_its_benchmarks() -> None:
    done = subprocess.run([*RUN, "--list"], capture_output=True, text=True, check=True)
    assert set(load(ROOT / "bench" / "results.json")) <= set(done.stdout.split())


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


def test_results_are_kept_in_pieces(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    for name in ("a", "b", "a"):
        save(file, name, {"date": "2030-01-01", "seconds": 1, "rows": [row(ours=[1.0])]})
    assert list(load(file)) == ["a", "b"]


def test_a_missing_corpus_is_said(tmp_path: Path) -> None:
    with pytest.raises(Skip, match="CRFSEQ_DATA"):
        Options(None, 1, 1, True).corpus("conll2000", "train.txt")
    with pytest.raises(Skip, match=r"conll2000/train\.txt is not"):
        Options(tmp_path, 1, 1, True).corpus("conll2000", "train.txt")
