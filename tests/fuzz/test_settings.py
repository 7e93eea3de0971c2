"""Settings of every kind of plug-in with values of any kind, parts that may not fit: trained or refused."""

import inspect
import math
import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy
from confection import ConfigValidationError
from hypothesis import given
from hypothesis import strategies as st
from spacy import util

from spacy_crfseq import registry
from spacy_crfseq.errors import CrfError
from spacy_crfseq.pipeline.settings import METHOD
from tests.fuzz.oracle import attempt, cases
from tests.pipeline.helpers import FACTORIES, bare_doc, blank, examples, pipe_of

KINDS = {
    "loss": "crf_losses", "regularizer": "crf_regularizers", "optimizer": "crf_optimizers", "decoder": "crf_decoders",
    "features": "crf_features",
}  # fmt: skip
OWN = {
    "crf_tagger": ("attr", "overwrite"),
    "crf_chunker": ("spans_key", "scheme", "threshold", "incorrect_spans_key"),
    "crf_ner": ("scheme", "threshold", "incorrect_spans_key"),
}
NUMBERS = [0, 1, 2, -1, 7, 2**31, 2**63, 2**64, 10**30, -(2**63), 0.0, 0.5, 1.0, 1.5, -0.5, 1e-300, 5e-324, 1e38, 1e300]
VALUES = [
    *NUMBERS, math.nan, math.inf, -math.inf, None, True, False, "", " ", "0", "1", "nan", "x" * 300, "é\u202e\0", "all",
    "float64", "IOB2", "pos", "morph", "PR", [], [1], ["a"], [""], [None], {}, {"a": 1}, {"": ""},
]  # fmt: skip
"""Values that a setting may be given."""


WITH_SETTINGS = [f"spacy_crfseq.{name}.v1" for name in ("CRFsuiteItems", "Gazetteer", "TemplateFile", "WapitiPatterns")]
"""Features that need settings."""


def plugins(kind: str) -> dict[str, tuple[str, ...]]:
    """Return the functions of a registry and the names of their settings."""
    functions = registry.ALL[KINDS[kind]].get_all()
    names = sorted(name for name in functions if name.startswith("spacy_crfseq.") and name not in WITH_SETTINGS)
    return {name: tuple(inspect.signature(functions[name]).parameters) for name in names}


PLUGINS = {kind: plugins(kind) for kind in KINDS}
PARTS = st.fixed_dictionaries(
    {}, optional={kind: st.sampled_from([*plugins_of_kind]) for kind, plugins_of_kind in PLUGINS.items()}
)


@st.composite
def configs(draw: Any, factory: str) -> dict[str, Any]:
    """Draw parts for a component, and odd values of some of its settings and of those of its parts."""
    config: dict[str, Any] = {}
    for kind, name in draw(PARTS).items():
        config[kind] = {f"@{KINDS[kind]}": name}
        for setting in draw(st.lists(st.sampled_from(PLUGINS[kind][name] or ("none",)), max_size=2)):
            config[kind][setting] = draw(st.sampled_from(VALUES))
    for setting in draw(st.lists(st.sampled_from([*METHOD, *OWN[factory]]), max_size=2)):
        config[setting] = draw(st.sampled_from(VALUES))
    return config


@contextmanager
def within(seconds: int) -> Iterator[None]:
    """Raise TimeoutError where something takes longer."""

    def stop(*_: Any) -> None:
        raise TimeoutError(f"{seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def train(factory: str, config: dict[str, Any]) -> Any:
    """Train for three iterations at the most and return the pipeline."""
    nlp = blank(factory, **config)
    corpus = examples(nlp, factory)
    nlp.initialize(lambda: corpus)

    def stop_early(progress: Any) -> None:
        if progress.iteration >= 3:
            raise KeyboardInterrupt

    pipe_of(nlp).fit(callback=stop_early)
    return nlp


def check(factory: str, config: dict[str, Any]) -> None:
    with within(120), warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        nlp = attempt(lambda: train(factory, config))
        if nlp is None:
            return
        pipe = pipe_of(nlp)
        assert np.isfinite(pipe.crf.theta).all()
        docs = [bare_doc(nlp, ["Anna", "saw", "Oslo"]), bare_doc(nlp, []), bare_doc(nlp, ["x"])]
        before = attempt(lambda: [doc.to_json() for doc in nlp.pipe(docs)])
        again = blank(factory, **config).from_bytes(nlp.to_bytes())
        after = [doc.to_json() for doc in again.pipe(bare_doc(again, [t.text for t in doc]) for doc in docs)]
        assert before == after


VALID = {
    "support": ["observed", "all"],
    "precision": ["float32", "float64"],
    "transitions": [True, False],
    "boundaries": [True, False],
    "max_features": [0, 5],
    "min_count": [1, 2],
    "tag_dictionary_size": [0, 3],
    "tag_dictionary_min_count": [1],
    "keep_names": [False, True],
    "scores": [False, True],
    "n_threads": [1, 2],
}
METHODS = st.fixed_dictionaries({}, optional={name: st.sampled_from(values) for name, values in VALID.items()})


@cases(5)
@given(parts=PARTS, method=METHODS, factory=st.sampled_from(FACTORIES))
def test_combinations(parts: dict[str, str], method: dict[str, Any], factory: str) -> None:
    check(factory, {**{kind: {f"@{KINDS[kind]}": name} for kind, name in parts.items()}, **method})


FOUND: list[dict[str, Any]] = [
    {"loss": {"@crf_losses": "spacy_crfseq.Hinge.v1", "cost": "1"}},
    {"loss": {"@crf_losses": "spacy_crfseq.PointwiseExp.v1", "cap": ""}},
    {"regularizer": {"@crf_regularizers": "spacy_crfseq.L2.v1", "rho": "0.5"}},
    {"optimizer": {"@crf_optimizers": "spacy_crfseq.AdaGrad.v1", "max_iterations": "10"}},
    {"optimizer": {"@crf_optimizers": "spacy_crfseq.LBFGS.v1", "history": 2**63}},
    {"optimizer": {"@crf_optimizers": "spacy_crfseq.SGD.v1", "seed": "0"}},
    {"features": {"@crf_features": "spacy_crfseq.TemplateFile.v1", "path": "a", "columns": 0}},
    {"features": {"@crf_features": "spacy_crfseq.TemplateFile.v1", "path": 0}},
    {"min_count": "1"},
    {"threshold": "0.5"},
    {"max_features": 2**63},
    {"decoder": {"@scorers": "spacy_crfseq.tagger_scorer.v1"}},
    {"loss": {"@scorers": "spacy_crfseq.tagger_scorer.v1"}},
]


@pytest.mark.parametrize("config", FOUND, ids=str)
def test_settings_of_impossible_types_are_refused(config: dict[str, Any]) -> None:
    with pytest.raises((CrfError, ConfigValidationError)):
        blank("crf_ner", **config)


READERS = {
    "readers": [
        "spacy_crfseq.XMLReader.v1",
        "spacy_crfseq.ConllReader.v1",
        "spacy_crfseq.ConlluReader.v1",
        "spacy_crfseq.CRFsuiteReader.v1",
    ],
    "loggers": ["spacy_crfseq.Logger.v1"],
    "callbacks": ["spacy_crfseq.Calibrate.v1", "spacy_crfseq.ModelCard.v1"],
    "crf_features": WITH_SETTINGS,
    "crf_attributes": sorted(registry.attributes.get_all()),
    "crf_costs": [
        f"spacy_crfseq.{name}.v1" for name in ("EntityAgreement", "EntityTags", "F1", "Hamming", "RequiredLabel")
    ],
    "crf_weightings": [f"spacy_crfseq.{name}.v1" for name in ("Clusters", "DensityRatio", "ExactCounts")],
    "crf_label_models": sorted(registry.label_models.get_all()),
}


@cases(12)
@given(data=st.data(), kind=st.sampled_from([*READERS]))
def test_other_functions(data: st.DataObject, kind: str, corpus: Path) -> None:
    name = data.draw(st.sampled_from(READERS[kind]))
    block: dict[str, Any] = {f"@{kind}": name}
    settings = inspect.signature(util.registry.get(kind, name)).parameters
    for setting in data.draw(st.lists(st.sampled_from([*settings] or ["none"]), max_size=3)):
        block[setting] = data.draw(st.sampled_from(VALUES))
    if "path" in settings:
        block.setdefault("path", str(corpus))

    def use() -> Any:
        made = util.registry.resolve({"block": block})["block"]
        return list(made(spacy.blank("xx"))) if kind == "readers" else made

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        attempt(use)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("settings") / "corpus.conll"
    path.write_text("Ada NNP B-NP\nsees VBZ B-VP\n\n")
    return path


@cases(12)
@given(data=st.data(), factory=st.sampled_from(FACTORIES))
def test_components(data: st.DataObject, factory: str) -> None:
    check(factory, data.draw(configs(factory)))
