"""The package in `plugin_package` adds plug-ins by entry points alone; they train, and pipelines with them are stored.

They train in a process of its own, which looks entry points up as a user's does.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import catalogue
import pytest
import spacy

PACKAGE = Path(__file__).parent / "plugin_package"
BASE = {"optimizer": {"@crf_optimizers": "spacy_crfseq.LBFGS.v1"}}
PLUGINS = {
    "plain": {},
    "loss": {
        "loss": {"@crf_losses": "crf_plugin.ScaledLog.v1"},
        "regularizer": {"@crf_regularizers": "spacy_crfseq.L2.v1", "rho": 2.0},
    },
    "optimizer": {"optimizer": {"@crf_optimizers": "crf_plugin.GradientDescent.v1"}},
    "features": {
        "features": {
            "@crf_features": "spacy_crfseq.Templates.v1",
            "templates": ["VOWELS"],
            "functions": {"VOWELS": {"@crf_features": "crf_plugin.Vowels.v1"}},
        }
    },
    "potential": {
        "features": {"@crf_features": "spacy_crfseq.Templates.v1", "templates": ["ORTH"]},
        "potentials": {"capital": {"@crf_potentials": "crf_plugin.Capital.v1"}},
    },
}
TRAIN = """
import json, sys
import spacy
from spacy.training import Example

TEXTS = [("Anna saw Oslo", [(0, 4, "PER"), (9, 13, "LOC")]), ("hmm", [])]
results = {}
for name, config in json.loads(sys.argv[2]).items():
    nlp = spacy.blank("en")
    pipe = nlp.add_pipe("crf_ner", config=config)
    corpus = [Example.from_dict(nlp.make_doc(text), {"entities": ents}) for text, ents in TEXTS]
    nlp.initialize(lambda: corpus)
    pipe.fit()
    nlp.to_disk(f"{sys.argv[1]}/{name}")
    again = spacy.load(f"{sys.argv[1]}/{name}")
    results[name] = {
        "config": nlp.config["components"]["crf_ner"],
        "theta": pipe.crf.theta.tolist(),
        "labels": list(again.get_pipe("crf_ner").tags),
        "found": [[(ent.text, ent.label_) for ent in each("Anna saw Oslo").ents] for each in (nlp, again)],
        "unseen": [ent.text for ent in again("umma HAD oppo").ents],
        "capital": [ent.text for ent in again("Bern lies").ents],
    }
print(json.dumps(results))
"""


def run(script: str, *arguments: str, site: Path) -> Any:
    """Run a script in a new process where warnings are errors, and return what it printed."""
    command = [sys.executable, "-W", "error", "-c", script, *arguments]
    environment = os.environ | {"PYTHONPATH": str(site)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def results(models: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Install the package as an installer does, the module and its metadata beside it, and train with its plug-ins."""
    site = tmp_path_factory.mktemp("site")
    shutil.copy(PACKAGE / "crf_plugin.py", site)
    metadata = site / "crf_plugin-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: crf-plugin\nVersion: 1.0\n")
    _, *groups = (PACKAGE / "pyproject.toml").read_text().split("[project.entry-points.")
    (metadata / "entry_points.txt").write_text("".join(f"[{group}" for group in groups).replace('"', ""))
    return run(TRAIN, str(models), json.dumps({name: {**BASE, **PLUGINS[name]} for name in PLUGINS}), site=site)


@pytest.mark.parametrize("name", PLUGINS)
def test_pipelines_learn_and_are_stored(results: dict[str, Any], name: str) -> None:
    assert results[name]["found"] == [[["Anna", "PER"], ["Oslo", "LOC"]]] * 2


def test_plugins_of_another_package_change_weights_features_and_scores(results: dict[str, Any]) -> None:
    theta = results["plain"]["theta"]
    assert results["loss"]["theta"] == pytest.approx(theta, abs=1e-3)  # twice the loss and twice the penalty
    assert results["loss"]["config"]["loss"]["factor"] == 2.0
    assert results["optimizer"]["theta"] == pytest.approx(theta, abs=1e-2)
    assert results["features"]["unseen"] == ["umma", "oppo"]  # words that are known by their vowels alone
    potential = results["potential"]
    added = potential["theta"][-len(potential["labels"]) :]
    assert min(added[1:]) > added[potential["labels"].index("O")] + 0.1  # a capital speaks for names
    assert potential["capital"] == ["Bern"]  # an unknown word, known by its capital alone


def test_without_the_package(results: dict[str, Any], models: Path) -> None:
    """The error names what is missing and what is there; the package is not installed for this process."""
    errors = {}
    for name in PLUGINS:
        try:
            spacy.load(models / name)
        except catalogue.RegistryError as error:
            errors[name] = str(error)
    assert set(errors) == set(PLUGINS) - {"plain"}
    assert all("crf_plugin." in error for error in errors.values())
    assert all("spacy_crfseq." in errors[name] for name in errors if name != "potential")  # it is the only potential
