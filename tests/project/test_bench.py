"""The benchmark command lists what it has, and its report shows made-up results; nothing is timed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bench import report
from bench._harness import Options, Skip, load, save

ROOT = Path(__file__).parents[2]
TEMPLATE = ROOT / "bench" / "performance.md.in"
MACHINE = {"cpu": "Engine", "cores": 2, "system": "Linux", "python": "3.12", "packages": {"numpy": "2.0"}}


def row(**values: object) -> dict[str, object]:
    defaults = {"unit": "s", "peer": [], "against": "", "kind": "times", "target": None, "note": ""}
    return {"label": "work", **defaults, **values}


def entry(*rows: dict[str, object], subject: str = "training") -> dict[str, object]:
    return {
        "subject": subject,
        "about": "Text.",
        "date": "2030-01-01",
        "machine": MACHINE,
        "rows": list(rows),
        "seconds": 1,
    }


def test_the_command_lists_its_benchmarks() -> None:
    command = [sys.executable, str(ROOT / "bench" / "run.py"), "--list"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert {"train-chunks", "tagging-raw", "memory", "machine"} <= set(done.stdout.split())


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


def test_the_page_is_filled_from_results() -> None:
    results = {
        "lbfgs-xpos": entry(row(ours=[2.0], peer=[8.0], against="CRFsuite", note="objective 7")),
        "threads": {**entry(), "skipped": "there is one core"},
    }
    page = report.render(TEMPLATE.read_text(encoding="utf8"), results)
    assert "| work (1) | 2 s | CRFsuite | 8 s | 4 x |" in page
    assert "1. Objective 7." in page
    assert "Not run: there is one core." in page
    assert "Engine, 2 cores" in page
    assert "`memory`: not run yet." in page
    assert "<!--" not in page


def test_results_are_kept_in_pieces(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    save(file, "a", entry(row(ours=[1.0])))
    save(file, "b", entry())
    save(file, "a", entry())  # a run that was passed over takes no figures away
    assert [len(one["rows"]) for one in load(file).values()] == [1, 0]


def test_a_missing_corpus_is_said(tmp_path: Path) -> None:
    with pytest.raises(Skip, match="CRFSEQ_DATA"):
        Options(None, 1, 1, True).corpus("conll2000", "train.txt")
    with pytest.raises(Skip, match=r"conll2000/train\.txt is not"):
        Options(tmp_path, 1, 1, True).corpus("conll2000", "train.txt")
