"""A package of somebody else's brings a loss by nothing but an entry point."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PYPROJECT = """\
[project]
name = "scaled-loss"
version = "1.0"

[project.entry-points.spacy_crf_losses]
"tests.ScaledLog.v1" = "scaled_loss:ScaledLog"
"""
ENTRY_POINTS = """\
[spacy_crf_losses]
tests.ScaledLog.v1 = scaled_loss:ScaledLog
"""
METADATA = "Metadata-Version: 2.1\nName: scaled-loss\nVersion: 1.0\n"
PLUGIN = '''\
"""The sequential log-loss times a factor."""
from dataclasses import dataclass

from spacy_crfseq.losses.sequential_log import SequentialLog


@dataclass(frozen=True)
class ScaledLog:
    factor: float = 2.0

    def __call__(self, scores, batch, grad):
        return SequentialLog()(scores, batch._replace(weights=batch.weights * self.factor), grad)
'''
SCRIPT = """\
import sys
import spacy
from spacy.training import Example
from spacy.util import load_config_from_str, load_model_from_config

CONFIG = '''
[nlp]
lang = "en"
pipeline = ["crf_ner"]

[components]

[components.crf_ner]
factory = "crf_ner"

[components.crf_ner.optimizer]
@crf_optimizers = "spacy_crfseq.LBFGS.v1"

[components.crf_ner.loss]
@crf_losses = "NAME"
'''
TEXTS = [("Anna saw Oslo", [(0, 4, "PER"), (9, 13, "LOC")]), ("rain", [])]

def train(name, strength):
    config = load_config_from_str(CONFIG.replace("NAME", name))
    config["components"]["crf_ner"]["regularizer"] = {"@crf_regularizers": "spacy_crfseq.L2.v1", "rho": strength}
    nlp = load_model_from_config(config, auto_fill=True)
    corpus = [Example.from_dict(nlp.make_doc(text), {"entities": ents}) for text, ents in TEXTS]
    nlp.initialize(lambda: corpus)
    nlp.get_pipe("crf_ner").fit()
    return nlp

nlp = train("tests.ScaledLog.v1", 2.0)
assert nlp.config["components"]["crf_ner"]["loss"]["factor"] == 2.0
plain = train("spacy_crfseq.SequentialLog.v1", 1.0)
# twice the loss and twice the penalty: the same optimum
a, b = (other.get_pipe("crf_ner").crf.theta for other in (nlp, plain))
assert abs(a - b).max() < 1e-3, abs(a - b).max()
nlp.to_disk(sys.argv[1])
print([ent.text for ent in spacy.load(sys.argv[1])("Anna saw Oslo").ents])
"""


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    """Return a folder laid out as an installer leaves it: the module, and its metadata beside it."""
    site = tmp_path / "site"
    metadata = site / "scaled_loss-1.0.dist-info"
    for path, text in {
        tmp_path / "scaled-loss" / "pyproject.toml": PYPROJECT,
        site / "scaled_loss.py": PLUGIN,
        metadata / "METADATA": METADATA,
        metadata / "entry_points.txt": ENTRY_POINTS,
    }.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return site


def run(script: str, *arguments: str, site: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **({"PYTHONPATH": str(site)} if site else {})}
    command = [sys.executable, "-W", "error", "-c", script, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_a_loss_of_another_package(plugin: Path, tmp_path: Path) -> None:
    done = run(SCRIPT, str(tmp_path / "model"), site=plugin)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "['Anna', 'Oslo']"


def test_without_the_package(plugin: Path, tmp_path: Path) -> None:
    """The error names what is missing and what is there."""
    done = run(SCRIPT, str(tmp_path / "model"))
    assert done.returncode == 1
    assert "RegistryError" in done.stderr or "RegistryError" in done.stdout
    for text in ("tests.ScaledLog.v1", "crf_losses", "spacy_crfseq.SequentialLog.v1"):
        assert text in done.stderr


def test_a_pipeline_that_needs_the_package(plugin: Path, tmp_path: Path) -> None:
    assert run(SCRIPT, str(tmp_path / "model"), site=plugin).returncode == 0
    done = run("import sys, spacy; spacy.load(sys.argv[1])", str(tmp_path / "model"))
    assert done.returncode == 1
    assert "tests.ScaledLog.v1" in done.stderr
