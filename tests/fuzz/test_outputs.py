"""Death, full disks and second writers at each file operation of each command that writes.

Afterwards inputs are as they were, whatever has its final name is complete, and the same command works again.
"""

import errno
import json
import os
import random
import shutil
import signal
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import spacy
from spacy.tokens import DocBin

from spacy_crfseq.corpora import outputs
from tests.commands import write_config, write_corpus
from tests.fuzz.forked import Ended, Fault, ended, run, start
from tests.fuzz.oracle import CASES

PATHS = "--paths.train train.conll --paths.dev dev.conll"
COMMANDS = {
    "fit": f"fit ner.cfg -o out {PATHS}",
    "tag": "tag model texts.txt -o tagged --to jsonl",
    "tag to parts": "tag model texts.txt -o tagged --to spacy",
    "convert": "convert dev.conll dev.spacy --from conll2003 --to spacy",
    "convert to columns": "convert dev.conll dev.iob --from conll2003 --to iob",
    "prune": "prune model out",
    "calibrate": "calibrate model dev.conll -f conll2003 -p crf_ner -o out",
    "calibrate in place": "calibrate model dev.conll -f conll2003 -p crf_ner",
    "sweep": f"sweep sweep.cfg -o out {PATHS}",
    "find-regularization": f"find-regularization ner.cfg -o out --steps 2 {PATHS}",
    "propose-features": "propose-features model train.conll -f conll2003 -p crf_ner -r texts.txt -o features.tsv",
    "report": "report model dev.conll -f conll2003 -o page.html",
    "tag to a page": "tag model texts.txt -p crf_ner --html page.html",
    "explain": "explain model texts.txt -p crf_ner -o page.html",
    "explain a model": "explain model -p crf_ner -o page.html",
    "evaluate": "evaluate model dev.conll -f conll2003 -o page.json --against model --html page.html",
    "active": "active model texts.txt -p crf_ner -o page.jsonl",
    "init-config": "init-config new.cfg --task ner --lang en --format conll2003 --train train.conll --dev dev.conll",
}
IN_PLACE = COMMANDS["calibrate in place"]
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Inputs of the commands, in a folder: corpora, texts, configs and a model."""
    folder = tmp_path_factory.mktemp("inputs")
    write_corpus(folder / "train.conll", 20, 1)
    write_corpus(folder / "dev.conll", 8, 2)
    (folder / "texts.txt").write_text("Ada sees a dog in Oslo .\n\nMary sold the old map .\n" * 3)
    write_config(folder / "ner.cfg", "crf_ner")
    write_config(folder / "other.cfg", "crf_tagger")
    text = (folder / "ner.cfg").read_text()
    (folder / "dev.txt").write_text("Bo sees Lima .\n")
    (folder / "sweep.cfg").write_text(text + "\n[sweep]\n\n[sweep.grid]\nregularizer.rho = [1, 2]\n")
    done = run(f"fit ner.cfg -o first {PATHS}".split(), folder)
    assert done.code == 0, done.stderr
    (folder / "first" / "model-best").rename(folder / "model")
    shutil.rmtree(folder / "first")
    return folder


class Place:
    """A copy of the inputs in which a command is run."""

    def __init__(self, inputs: Path, folder: Path) -> None:
        self.folder = Path(shutil.copytree(inputs, folder / "work"))
        self.before = contents(self.folder)

    def run(self, command: str, fault: Fault = Fault()) -> Ended:  # noqa: B008
        return run(command.split(), self.folder, fault)

    def check(self, in_place: bool = False) -> None:
        """Inputs are as they were, and what has its final name is complete."""
        now = contents(self.folder)
        for path, data in self.before.items():
            if not in_place or path.parts[0] != "model":
                assert now.get(path) == data, path
        for folder in [path for path in self.folder.rglob("config.cfg") if not hidden(path.relative_to(self.folder))]:
            assert spacy.load(folder.parent)("Ada sees a dog in Oslo .") is not None
        for path, data in now.items():
            if (
                path not in self.before
                and not hidden(path)
                and not (self.folder / path.parts[0] / "config.cfg").exists()
            ):
                check_complete(self.folder / path, data)


def hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def contents(folder: Path) -> dict[Path, bytes]:
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def check_complete(path: Path, data: bytes) -> None:
    if path.suffix == ".html":
        assert data.rstrip().endswith(b"</html>"), path
    elif path.suffix == ".jsonl":
        lines = data.splitlines(keepends=True)
        kept = [line for line in lines if line.endswith(b"\n") or path.name not in LOGS]
        assert all(json.loads(line) is not None for line in kept), path
    elif path.suffix == ".spacy":
        assert list(DocBin().from_bytes(data).get_docs(spacy.blank("xx").vocab))
    elif path.suffix in (".iob", ".conll"):
        assert data.endswith(b"\n\n"), path
    elif path.name == "new.cfg":
        assert spacy.util.load_config(path)


@pytest.fixture
def place(inputs: Path, tmp_path: Path) -> Iterator[Any]:
    """Makes a new copy of the inputs with each call."""
    numbers = iter(range(10**9))

    def make() -> Place:
        folder = tmp_path / str(next(numbers))
        shutil.rmtree(tmp_path / str(int(folder.name) - 1), ignore_errors=True)
        folder.mkdir()
        return Place(inputs, folder)

    return make


@pytest.fixture(scope="module")
def operations(inputs: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Tells how many file operations a command has; it works."""

    @cache
    def count(command: str) -> int:
        whole = Place(inputs, tmp_path_factory.mktemp("whole"))
        done = whole.run(command)
        assert done.code == 0, done.stderr
        whole.check(in_place=command == IN_PLACE)
        return done.operations

    return count


def chosen(seed: str, few: int) -> Iterator[tuple[str, random.Random]]:
    """Yield commands and generators of chance: a few, or as many as are asked for."""
    rng = random.Random(seed)
    for number in range(CASES or few):
        command = COMMANDS[[*COMMANDS][number % len(COMMANDS)] if CASES else rng.choice([*COMMANDS])]
        yield command, random.Random(f"{seed}{number}" if not CASES else None)


def refused(done: Ended) -> None:
    assert done.code == 1, done
    assert "Traceback" not in done.stderr, done.stderr
    assert len(done.stderr.split()) > 3


def survived(place: Place, command: str, fault: Fault) -> None:
    done = place.run(command, fault)
    if fault.closed:
        assert "Traceback" not in done.stderr, done.stderr
    elif fault.errno or fault.limit >= 0:
        if done.code:
            refused(done)
    else:
        assert done.code == -signal.SIGKILL
    place.check(in_place=command == IN_PLACE)
    again = place.run(command)
    assert again.code == 0 or "--force to replace it" in again.stderr, again.stderr
    place.check(in_place=command == IN_PLACE)


def attack(name: str, few: int, place: Any, operations: Any, kinds: list[Any]) -> None:
    faults = []
    for command, rng in chosen(name, few):
        fault = rng.choice(kinds)(rng.randrange(operations(command)), rng)
        try:
            survived(place(), command, fault)
        except Exception as error:
            faults.append(f"{command}: {fault}: {error}")
    assert not faults, "\n\n".join(faults)


def test_death(place: Any, operations: Any) -> None:
    attack("death", 1, place, operations, [lambda at, rng: Fault(at)])


def test_full_and_read_only_disks(place: Any, operations: Any) -> None:
    numbers = [errno.ENOSPC, errno.EROFS, errno.EACCES]
    refuses = lambda at, rng: Fault(at, rng.choice(numbers))  # noqa: E731
    full = lambda at, rng: Fault(limit=rng.choice([0, 10, 100, 1000, 3000]))  # noqa: E731
    closed = lambda at, rng: Fault(closed=True)  # noqa: E731
    attack("disk", 1, place, operations, [refuses, refuses, full, full, closed])


LOGS = ("log.jsonl", "study.log", "path.jsonl")
"""Files that grow; the last line may be cut, and is dropped when they are read."""
WRITERS = ["fit", "tag", "prune", "calibrate", "sweep", "find-regularization", "convert", "tag to a page"]
OTHERS = {"ner.cfg": "other.cfg", "dev.conll": "train.conll", "texts.txt": "dev.txt"}


def test_two_writers(place: Any, operations: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one process waits before a file operation, another does the same with other inputs."""
    monkeypatch.setattr(outputs, "PATIENCE", 0.0)
    rng = random.Random(None if CASES else "writers")
    for number in range(CASES or 1):
        command = COMMANDS[WRITERS[number % len(WRITERS)] if CASES else rng.choice(WRITERS[:1])]
        at = rng.randrange(operations(command))
        target = place()
        waiting = start(command.split(), target.folder, Fault(at, stops=True))
        assert os.WIFSTOPPED(os.waitpid(waiting.pid, os.WUNTRACED)[1])
        arguments = command.split()
        arguments[1:] = [OTHERS.get(name, name) for name in arguments[1:]]
        try:
            second = run(arguments, target.folder)
            os.kill(waiting.pid, signal.SIGCONT)
            first = ended(waiting)
            for done in (first, second):
                if done.code:
                    refused(done)
            assert not (first.code and second.code)
            target.check()
            names = {tuple(spacy.load(path.parent).pipe_names) for path in target.folder.glob("out/*/meta.json")}
            assert len(names) <= 1, names
        except Exception as error:
            raise AssertionError(f"{command}: the other ran before file operation {at}") from error
