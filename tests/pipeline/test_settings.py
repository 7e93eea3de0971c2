"""The config of a pipeline says what its components do: every setting of every factory, loaded, changed and saved."""

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy
from spacy.language import Language

from spacy_crfseq.errors import ConfigError, ModelFileError
from spacy_crfseq.pipeline.component import CRFComponent
from spacy_crfseq.pipeline.settings import Method
from tests import forks
from tests.pipeline.helpers import FACTORIES, blank, inputs, pipe_of, predictions, registered, templates, trained

BLOCKS: dict[str, dict[str, Any]] = {
    "loss": registered("losses", "Hinge"),
    "regularizer": registered("regularizers", "L1", rho=1.0),
    "optimizer": registered("optimizers", "LBFGS"),
    "decoder": registered("decoders", "MaxExpectedF1"),
}
PLAIN: dict[str, Any] = {
    "support": "all", "min_count": 2, "max_features": 7, "boundaries": False, "transitions": False,
    "tag_dictionary_size": 3, "tag_dictionary_min_count": 5, "precision": "float64", "inner_iterations": 2,
    "keep_names": True, "once": ["*"], "order": ["*"], "n_threads": 1,
}  # fmt: skip
OWN: dict[str, tuple[Any, Callable[[CRFComponent], Any]]] = {
    "threshold": (0.9, lambda pipe: pipe.cfg["threshold"]),
    "scores": (True, lambda pipe: pipe.cfg["scores"]),
    "spans_key": ("other", lambda pipe: pipe.annotation.spans_key),  # type: ignore[attr-defined]
    "overwrite": (True, lambda pipe: pipe.annotation.overwrite),  # type: ignore[attr-defined]
    "incorrect_spans_key": ("wrong", lambda pipe: pipe.annotation.incorrect_spans_key),  # type: ignore[attr-defined]
}
OF_TRAINING: dict[str, Any] = {
    "features": templates("LOWER[-1]"),
    "attributes": {"more": registered("attributes", "DocumentWords")},
    "potentials": {"more": registered("potentials", "Values")},
    "attr": "morph",
    "scheme": {"crf_chunker": "BILUO", "crf_ner": "IOB2"},
}
"""Settings that a model is made of; another value in the config is refused."""
WITHOUT_A_VALUE = {"terms", "scorer"}
"""Texts of training, and a function for `nlp.evaluate`."""


def settings_of(factory: str) -> list[str]:
    return list(blank(factory).get_factory_meta(factory).default_config)


EVERY = [(factory, name) for factory in FACTORIES for name in settings_of(factory) if name not in WITHOUT_A_VALUE]


def in_config(nlp: Language, factory: str, name: str) -> Any:
    return nlp.config["components"][factory][name]


def loaded(nlp: Language, folder: Path, factory: str, **settings: Any) -> Language:
    nlp.to_disk(folder)
    return spacy.load(folder, config={"components": {factory: settings}} if settings else {})


@pytest.fixture(scope="module")
def models() -> dict[str, bytes]:
    return {factory: pickle.dumps(trained(factory)) for factory in FACTORIES}


@pytest.fixture
def nlp(request: pytest.FixtureRequest, models: dict[str, bytes]) -> Language:
    restored: Language = pickle.loads(models[request.node.callspec.params["factory"]])
    return restored


def seen(pipe: CRFComponent, name: str) -> Any:
    """Return a setting as the component has it: for a plug-in, the name of its class."""
    value = OWN[name][1](pipe) if name in OWN else getattr(pipe.method, name)
    return type(value).__name__ if name in BLOCKS else value


def copies(nlp: Language, folder: Path, factory: str) -> list[Language]:
    """Return a pipeline as it is after all that spaCy may do with it."""
    other = spacy.blank("xx")
    other.add_pipe(factory, source=nlp)
    return [
        loaded(nlp, folder / "saved", factory), loaded(other, folder / "sourced", factory), other,
        spacy.blank("xx").from_config(nlp.config).from_bytes(nlp.to_bytes()),
        pickle.loads(pickle.dumps(nlp)), copy.deepcopy(nlp),
    ]  # fmt: skip


@pytest.mark.parametrize(("factory", "name"), EVERY)
def test_a_setting_of_the_config_wins_when_a_model_is_loaded_and_stays(
    nlp: Language, factory: str, name: str, tmp_path: Path
) -> None:
    if name in OF_TRAINING:
        value = OF_TRAINING[name]
        with pytest.raises((ModelFileError, ConfigError), match=r"config|features"):
            loaded(nlp, tmp_path, factory, **{name: value[factory] if name == "scheme" else value})
        return
    if name in BLOCKS:
        value = BLOCKS[name]
        wanted = next(iter(value.values())).split(".")[1]
    else:
        wanted = value = OWN[name][0] if name in OWN else PLAIN[name]
    if name == "order":
        value = wanted = [pipe_of(nlp).labels[0]]
    assert seen(pipe_of(nlp), name) != wanted, "another value than the default"
    changed = loaded(nlp, tmp_path, factory, **{name: value})
    for copied in (changed, loaded(changed, tmp_path, factory)):
        assert seen(pipe_of(copied), name) == wanted
        written = in_config(copied, factory, name)
        assert (written | value if name in BLOCKS else value) == written  # a block has its defaults, too
    if name == "precision":
        assert pipe_of(changed).crf.theta.dtype == value


@pytest.mark.parametrize("named", [(), ("loss", "regularizer"), ("optimizer", "decoder")])
def test_settings_stay_whatever_spacy_does_with_a_pipeline(
    nlp: Language, factory: str, named: tuple[str, ...], tmp_path: Path
) -> None:
    blocks = {name: BLOCKS[name] for name in named}
    plain = {name: value for name, value in PLAIN.items() if name not in ("tag_dictionary_size", "once", "order")}
    if not blocks:  # others do not go with a decoder or a loss of the blocks
        plain |= {name: value for name, (value, _) in OWN.items() if name in settings_of(factory)}
        plain |= {"once": ["*"], "order": [pipe_of(nlp).labels[0]]}
    changed = loaded(nlp, tmp_path, factory, **plain, **blocks)
    expected = predictions(changed, factory)
    for copied in (changed, *copies(changed, tmp_path, factory)):
        for name, value in plain.items():
            assert seen(pipe_of(copied), name) == in_config(copied, factory, name) == value
        for name, block in blocks.items():
            assert seen(pipe_of(copied), name) == next(iter(block.values())).split(".")[1]
            assert block.items() <= in_config(copied, factory, name).items()
        assert predictions(copied, factory) == expected


def test_a_change_of_a_setting_reaches_the_configs_of_all_pipelines_that_have_the_component(
    nlp: Language, factory: str, tmp_path: Path
) -> None:
    other = spacy.blank("xx")
    other.add_pipe(factory, source=nlp, name="sourced")
    pipe = pipe_of(nlp)
    values = PLAIN | {"order": [pipe.labels[0]]}
    assert values.keys() == {key for key, kind in Method.__annotations__.items() if kind in (bool, int, str, list[str])}
    del values["tag_dictionary_size"]  # which does not go with `once` and `order`
    pipe.method = pipe.method._replace(**values)
    values |= {key: OWN[key][0] for key in ("threshold", "scores") if key in settings_of(factory)}
    pipe.cfg.update({key: value for key, value in values.items() if key in OWN})
    for changed, name in ((nlp, factory), (other, "sourced"), (loaded(nlp, tmp_path, factory), factory)):
        assert {key: in_config(changed, name, key) for key in values} == values
        of_pipe = pipe_of(changed)
        assert {key: of_pipe.cfg.get(key, getattr(of_pipe.method, key, None)) for key in values} == values


def test_a_change_reaches_configs_that_garbage_collections_leave_out() -> None:
    program = (
        "import gc\n"
        "import importlib\n"
        "import spacy\n"
        "from spacy_crfseq.pipeline import cfg\n"
        "importlib.reload(cfg)\n"  # which tests/conftest.py changes
        "nlp = spacy.blank('xx')\n"
        "pipe = nlp.add_pipe('crf_ner')\n"
        "gc.freeze()\n"
        "pipe.cfg['threshold'] = 0.5\n"
        "assert nlp.config['components']['crf_ner']['threshold'] == 0.5\n"
        "assert gc.get_freeze_count()\n"
    )
    done = forks.run(["-c", program])
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda cfg: pickle.loads(pickle.dumps(cfg))])
def test_a_copy_of_the_settings_is_without_the_component(pipeline: Language, copied: Callable[[Any], Any]) -> None:
    pipe = pipe_of(pipeline)
    settings = copied(pipe.cfg)
    assert settings == pipe.cfg
    settings["scores"] = True
    assert not pipe.cfg["scores"]


def test_components_share_no_calibration() -> None:
    first, second = (pipe_of(trained("crf_ner")) for _ in range(2))
    for pipe in (first, second):
        pipe.set_parameters(pipe.crf.theta)
    first.cfg["calibration"]["PER"] = (-4.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0)
    assert not second.cfg["calibration"]
    assert not pipe_of(trained("crf_ner")).cfg["calibration"]


def test_a_threshold_given_at_loading_is_that_of_the_predictions(tmp_path: Path) -> None:
    nlp = trained("crf_ner")
    docs = inputs(nlp, "crf_ner")
    assert any(doc.ents for doc in nlp.pipe(doc.copy() for doc in docs))
    strict = loaded(nlp, tmp_path, "crf_ner", threshold=1.0)
    assert not any(doc.ents for doc in strict.pipe(doc.copy() for doc in docs))


@pytest.mark.parametrize(
    ("factory", "key", "value", "message"),
    [
        ("crf_ner", "threshold", 7, "threshold is a probability"),
        ("crf_ner", "threshold", "0.5", "threshold must be a number"),
        ("crf_ner", "scores", 2, "scores must be true or false"),
        ("crf_ner", "treshold", 0.5, "no setting 'treshold'. Did you mean 'threshold'"),
        ("crf_ner", "scheme", "IOB2", "scheme cannot change"),
        ("crf_chunker", "spans_key", "x", "spans_key cannot change"),
        ("crf_tagger", "overwrite", True, "overwrite cannot change"),
        ("crf_tagger", "threshold", 0.5, "no setting 'threshold'"),
        ("crf_ner", "temperature", 0.0, "temperature cannot be 0.0"),
        ("crf_ner", "calibration", {"PER": [1.0]}, "calibration cannot be"),
        ("crf_ner", "cover", {"PER": 0.0}, "cover cannot be"),
        ("crf_ner", "cover", 0.1, "cover cannot be"),
    ],
)
def test_settings_that_cannot_be_are_refused_by_name(factory: str, key: str, value: Any, message: str) -> None:
    cfg = pipe_of(blank(factory)).cfg
    before = dict(cfg)
    for change in (
        lambda: cfg.update({key: value}),
        lambda: cfg.__setitem__(key, value),
        lambda: cfg.__ior__({key: value}),
    ):
        with pytest.raises(ConfigError, match=message):
            change()
    for remove in (cfg.clear, cfg.popitem, lambda: cfg.pop("scores"), lambda: cfg.__delitem__("scores")):
        with pytest.raises(ConfigError, match="cannot be removed"):
            remove()
    assert cfg == before


def test_a_threshold_of_numpy_is_saved_as_a_number(tmp_path: Path) -> None:
    nlp = trained("crf_ner")
    pipe_of(nlp).cfg["threshold"] = np.float32(0.5)
    assert in_config(loaded(nlp, tmp_path, "crf_ner"), "crf_ner", "threshold") == 0.5
