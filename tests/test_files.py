"""Files and folders appear whole or not at all, and an interrupted replacement is put back."""

import os
from pathlib import Path

import pytest

from spacy_crfseq import files
from spacy_crfseq.files import digest, replace_folder, replacing, restore_folder, write_text

DEAD = 2**22 + 1
"""No process has this number: it is above the largest of Linux."""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def write_new(folder: Path) -> None:
    folder.mkdir()
    write_text(folder / "a.txt", "new")


def test_a_file_that_fails_leaves_the_old_one_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"

    def fail() -> None:
        with replacing(path) as temporary:
            temporary.write_text("half")
            raise ZeroDivisionError

    write_text(path, "old")
    with pytest.raises(ZeroDivisionError):
        fail()
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_a_folder_that_fails_leaves_the_old_one_and_nothing_else(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        write_new(folder)
        raise ZeroDivisionError

    replace_folder(tmp_path / "model", write_new)
    with pytest.raises(ZeroDivisionError):
        replace_folder(tmp_path / "model", fail)
    assert names(tmp_path) == ["model"]
    assert (tmp_path / "model" / "a.txt").read_text() == "new"


def test_the_old_folder_comes_back_where_the_new_one_cannot_be_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, move = tmp_path / "model", files.move
    replace_folder(path, write_new)
    (path / "a.txt").write_text("old")

    def refuse_new(source: Path, target: Path) -> None:
        if source.name.endswith(".part") and source.is_dir():
            raise OSError(28, "No space left on device")
        move(source, target)

    monkeypatch.setattr(files, "move", refuse_new)
    with pytest.raises(OSError, match="No space left"):
        replace_folder(path, write_new)
    assert (path / "a.txt").read_text() == "old"
    assert names(tmp_path) == ["model"]


def test_a_folder_that_a_killed_process_moved_aside_comes_back(tmp_path: Path) -> None:
    aside = tmp_path / f".model.{DEAD}.old"
    aside.mkdir()
    restore_folder(tmp_path / "model")
    assert names(tmp_path) == ["model"]


@pytest.mark.parametrize("foreign", [False, True])
def test_a_folder_that_a_living_process_moved_aside_stays(
    foreign: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(process: int, signal: int) -> None:
        raise PermissionError(1, "Operation not permitted")  # of a process of another user

    if foreign:
        monkeypatch.setattr(os, "kill", refuse)
    (tmp_path / f".model.{os.getpid()}.old").mkdir()
    restore_folder(tmp_path / "model")
    assert names(tmp_path) == [f".model.{os.getpid()}.old"]


def test_a_folder_in_its_place_is_never_replaced_by_an_old_one(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    write_new(tmp_path / f".model.{DEAD}.old")
    restore_folder(tmp_path / "model")
    assert names(tmp_path) == [f".model.{DEAD}.old", "model"]
    assert names(tmp_path / "model") == []


def test_a_digest_depends_on_names_and_contents_and_not_on_the_place(tmp_path: Path) -> None:
    def make(name: str, *rows: tuple[str, str]) -> str:
        for file, text in rows:
            write_text(tmp_path / name / file, text)
        return digest(tmp_path / name)

    first = make("first", ("a", "x"), ("b/c", "y"))
    assert make("same", ("a", "x"), ("b/c", "y"), ("b/__pycache__/d.pyc", "z")) == first
    others = [
        make("renamed", ("a", "x"), ("b/d", "y")), make("swapped", ("a", "y"), ("b/c", "x")),
        make("cut", ("a", "xy"), ("b/c", "")), make("fewer", ("a", "x")),
    ]  # fmt: skip
    assert len({first, *others}) == 5
