"""``crfseq fit --resume``: a run that was killed ends as one that was not."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import spacy

from spacy_crfseq.errors import ModelFileError
from spacy_crfseq.pipeline.project import CHECKPOINT
from spacy_crfseq.training.checkpoint import Checkpoint
from tests.commands import Run, refused, worked

NAMES = ("crf_tagger", "crf_ner")
COMPONENTS = """
[components.crf_tagger.optimizer]
@crf_optimizers = "spacy_crfseq.LBFGS.v1"
max_iterations = 12

[components.crf_ner.optimizer]
@crf_optimizers = "spacy_crfseq.SGD.v1"
max_iterations = 80
tolerance = 0.0
rate = 0.001
"""
FIT = """
import sys
from pathlib import Path
from spacy_crfseq.cli.fit import fit
config, output, train, dev = sys.argv[1:]
fit(Path(config), Path(output), overrides={"paths.train": train, "paths.dev": dev}, patience=0, checkpoint_every=0.0)
"""


def iterations(folder: Path) -> list[tuple[str, int, float]]:
    lines = map(json.loads, (folder / "log.jsonl").read_text().splitlines())
    return [(line["component"], line["iteration"], line["objective"]) for line in lines]


@pytest.fixture(scope="module")
def killed(
    configure: Callable[..., Path], corpus: Any, paths: list[str], run: Run, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Path]:
    """A folder with the config, and the output of a run that was killed while it trained the second component."""
    folder = tmp_path_factory.mktemp("killed")
    training = 'annotating_components = ["crf_tagger"]'
    config = configure(folder / "c.cfg", *NAMES, components=COMPONENTS, training=training)
    output = folder / "out"
    child = subprocess.Popen([sys.executable, "-c", FIT, config, output, corpus.train, corpus.dev])
    until = time.monotonic() + 60
    while time.monotonic() < until and child.poll() is None:
        if (output / CHECKPOINT).exists() and len(iterations(output)) > 20:
            child.kill()
            break
        time.sleep(0.005)
    assert child.wait() == -9
    assert not (output / "model-best").exists()
    return config, output


def test_a_killed_run_ends_as_one_that_was_not(
    killed: tuple[Path, Path], run: Run, paths: list[str], tmp_path: Path
) -> None:
    config, output = killed
    args = ("--patience 0", *paths)
    refused(run("fit", config, "--output", output, *args), "checkpoint", "--resume", "--force", silent=False)
    other = run("fit", config, "--output", output, "--resume --components.crf_ner.optimizer.batch_size 3", *args)
    refused(other, "components.crf_ner.optimizer.batch_size", "3", silent=False)
    refused(run("fit", config, "--output", output, "--resume --cross-validate 3", *args), "--resume", silent=False)
    worked(run("fit", config, "--output", output, "--resume", *args))
    worked(run("fit", config, "--output", tmp_path / "whole", *args))
    assert not (output / CHECKPOINT).exists()
    assert iterations(output) == iterations(tmp_path / "whole")
    for model in ("model-best", "model-last"):
        one, other = (spacy.load(folder / model) for folder in (output, tmp_path / "whole"))
        for name in NAMES:
            assert one.get_pipe(name).to_bytes() == other.get_pipe(name).to_bytes()
        assert one.meta["performance"] == other.meta["performance"]


def test_resume_without_a_checkpoint_is_refused(run: Run, train_on: Run, tmp_path: Path) -> None:
    refused(train_on("fit", "crf_ner", args=["--resume"]), "no checkpoint", str(tmp_path / "out"), silent=False)


def test_a_short_run_leaves_no_checkpoint(train_on: Run, tmp_path: Path) -> None:
    worked(train_on("fit", "crf_ner", args=["--patience 1"]))
    assert not (tmp_path / "out" / CHECKPOINT).exists()


class Harmful:
    def __reduce__(self) -> tuple[Any, ...]:
        """What a checkpoint of an earlier release ran: a type of the package led to any function of any module."""
        return eval, ("print('run')",)


@pytest.mark.parametrize("content", [pickle.dumps(Harmful()), pickle.dumps([1]), b"", b"\x80\x05foreign"])
def test_foreign_files_are_refused_and_not_run(content: bytes, tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "checkpoint").write_bytes(content)
    with pytest.raises(ModelFileError, match="checkpoint"):
        Checkpoint.load(tmp_path / "checkpoint")
    assert capsys.readouterr().out == ""
