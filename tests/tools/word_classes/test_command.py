"""``crfseq word-classes``: the files that it writes, what it resumes, and what it refuses."""

import gzip
import random
from pathlib import Path
from typing import Any

import pytest

from spacy_crfseq.tools.word_classes.learning import Exchange
from tests.commands import Run, refused, sentence, worked

OPTIONS = "--sizes 3,6 --min-count 2 --n-threads 2 --output"


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    """A folder of raw text, a part of it packed, and of columns."""
    rng = random.Random(1)
    folder = tmp_path / "raw"
    folder.mkdir()
    texts = ["  ".join(line.split()[0] for line in sentence(rng)) + "\n" for _ in range(60)]
    (folder / "a.txt").write_text("".join(texts[:40]))
    with gzip.open(folder / "b.txt.gz", "wt") as file:
        file.writelines(texts[40:])
    (folder / "c.iob").write_text("\n".join(f"{line.split()[0]} O" for line in sentence(rng)) + "\n\n")
    return folder


def read(path: Path) -> dict[str, str]:
    """Return the path of each word."""
    lines = [line.split("\t") for line in path.read_text(encoding="utf8").splitlines()]
    assert [bits for bits, _, _ in lines] == sorted(bits for bits, _, _ in lines)
    assert all(set(bits) <= {"0", "1"} and int(n) >= 2 for bits, _, n in lines)
    return {word: bits for bits, word, _ in lines}


def test_all_sizes_are_written_and_coverage_is_shown(raw: Path, tmp_path: Path, run: Run) -> None:
    other = tmp_path / "other.txt"
    other.write_text("the dog unknown\n")
    result = worked(run("word-classes", raw, OPTIONS, tmp_path / "c.tsv", "--coverage", other), "Saved")
    assert f"{other} 3 66.7% 3 66.7%" in " ".join(result.stdout.split())
    fine, coarse = read(tmp_path / "c.tsv"), read(tmp_path / "c-3.tsv")
    assert fine.keys() == coarse.keys() >= {"the", "dog", ".", "Oslo"}
    assert " " not in fine
    assert (len(set(fine.values())), len(set(coarse.values()))) == (6, 3)
    assert list(tmp_path.glob(".*")) == []
    refused(run("word-classes", raw, OPTIONS, tmp_path / "c.tsv"), "exists", "--force")
    worked(run("word-classes", raw, OPTIONS, tmp_path / "d.gz"), "Saved")
    assert gzip.decompress((tmp_path / "d.gz").read_bytes()) == (tmp_path / "c.tsv").read_bytes()


def test_a_run_that_is_stopped_is_resumed(raw: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, parts = tmp_path / "whole.tsv", tmp_path / "parts.tsv"
    worked(run("word-classes", raw, OPTIONS, whole))
    one_pass, left = Exchange.pass_over, [1, 0, 1, 0]

    def stopped(self: Exchange, *args: Any) -> int:
        if left:
            left[0] -= 1
            if left[0] < 0:
                del left[0]
                raise KeyboardInterrupt
        return one_pass(self, *args)

    monkeypatch.setattr(Exchange, "pass_over", stopped)
    for number in range(2):
        result = run("word-classes", raw, OPTIONS, parts, *["--resume"] * number)
        assert result.exit_code == 130
        assert "--resume" in result.stderr
        assert not parts.exists()
    refused(run("word-classes", raw, OPTIONS, parts), "--resume", "--force")
    refused(run("word-classes", raw / "a.txt", OPTIONS, parts, "--resume"), "other texts", silent=False)
    checkpoint = tmp_path / ".parts.tsv.checkpoint"
    sound = checkpoint.read_bytes()
    for damaged in (sound[:-4], sound + bytes(4), sound[:-1] + b"\x7f", sound[:-1] + b"\xff", b"{}\n", b"damaged"):
        checkpoint.write_bytes(damaged)
        refused(run("word-classes", raw, OPTIONS, parts, "--resume"), "damaged", "--force", silent=False)
    checkpoint.write_bytes(sound)
    left.clear()
    worked(run("word-classes", raw, OPTIONS, parts, "--resume"))
    assert parts.read_text() == whole.read_text()
    assert parts.with_stem("parts-3").read_text() == whole.with_stem("whole-3").read_text()
    refused(run("word-classes", raw, OPTIONS, parts, "--resume"), "no run")


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ("--sizes 3,x", ["--sizes 3,x", "such as"]),
        ("--sizes 1", ["from 2"]),
        ("--sizes 500", ["500 classes are too many", "5 times", "--min-count"]),
        ("--min-count 1000", ["no word occurs 1000 times"]),
        ("--columns word,what", ["unknown column 'what'"]),
        ("--coverage missing.txt", ["missing.txt: no such file"]),
    ],
)
def test_options_that_cannot_work_are_refused(
    options: str, parts: list[str], raw: Path, tmp_path: Path, run: Run
) -> None:
    refused(run("word-classes", raw / "a.txt", options, "--output", tmp_path / "c.tsv"), *parts)
    assert not (tmp_path / "c.tsv").exists()
