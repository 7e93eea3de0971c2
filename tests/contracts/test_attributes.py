"""The contract of every plug-in of `crf_attributes`: readable templates, values with texts, a state."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import srsly

from spacy_crfseq import registry
from spacy_crfseq.features.protocol import DocAttributes, LabelAttributes, WordAttributes
from spacy_crfseq.features.sets import FeatureSet
from spacy_crfseq.pipeline.prediction import read_docs, with_labels
from spacy_crfseq.types import Stateful
from tests.pipeline.helpers import bare_doc, blank, examples, inputs, pipe_of, predictions

FILES = {"classes.txt": "0010\tbank\t7\n0011\tOslo\t5\n1\tthe\t90\n", "phrases.txt": "New York\nOslo\n"}
SETTINGS: dict[str, dict[str, Any]] = {
    "spacy_crfseq.WordClasses.v1": {"path": "classes.txt"},
    "spacy_crfseq.Phrases.v1": {"path": "phrases.txt"},
}
"""The settings of a plug-in that cannot do without any; each file named in them is one of `FILES`."""
NAMES = sorted(name for name in registry.attributes.get_all() if name.startswith("spacy_crfseq."))


@pytest.fixture(params=NAMES)
def block(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """The block of a config that makes a plug-in, with its files in a folder."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf8")
    if "NameLists" in request.param:
        pytest.importorskip("faker")
    settings = SETTINGS.get(request.param, {})
    paths = {key: str(tmp_path / value) for key, value in settings.items() if value in FILES}
    return {"@crf_attributes": request.param, **settings, **paths}


def make(block: dict[str, Any]) -> Any:
    settings = {key: value for key, value in block.items() if key[0] != "@"}
    return registry.attributes.get(block["@crf_attributes"])(**settings)


def values_of(plugin: Any, docs: list[Any]) -> dict[str, Any]:
    """Return the values of each attribute at all tokens."""
    if isinstance(plugin, WordAttributes):
        functions = plugin.functions("MINE").items()
        return {name: [function(token.text) for doc in docs for token in doc] for name, function in functions}
    if isinstance(plugin, LabelAttributes):
        labels = np.arange(sum(map(len, docs)), dtype=np.int32) % 2
        read = plugin.read_labels("MINE", docs, labels, ["O", "B-PER"])
    else:
        read = plugin.read("MINE", docs)
    return {name: [values.tolist() for values in sets] for name, sets in read.items()}


def test_templates_use_the_attributes_of_the_block(block: dict[str, Any]) -> None:
    plugin = make(block)
    assert isinstance(plugin, WordAttributes | DocAttributes | LabelAttributes)
    result = FeatureSet(("LOWER[0]",)).with_attributes({"mine": plugin})
    own = {*result.functions, *result.set_names}
    assert own
    assert all(name.startswith("MINE") for name in own)
    read = {part.attribute for template in result.plans()[0].templates for part in template.parts}
    assert own <= read


def test_values_are_read_at_every_token_and_have_texts(block: dict[str, Any]) -> None:
    nlp = blank("crf_ner")
    docs = [bare_doc(nlp, []), *inputs(nlp, "crf_ner"), bare_doc(nlp, [])]
    features = FeatureSet(("LOWER[0]",)).with_attributes({"mine": make(block)})
    strings: dict[int, str] = {}
    result = read_docs(docs, (), features=features, strings=strings)
    for sets in result.text.sets.values():
        assert len(sets.keys) == sum(len(doc) for doc in docs)
        assert set(sets.values.tolist()) <= strings.keys()
    for function in features.functions.values():
        assert {function(token.text) for doc in docs for token in doc} - {None, ""}
    labels = np.zeros(sum(len(doc) for doc in docs), np.int32)
    for sets in with_labels(result, docs, features, labels, ["O"], strings).text.sets.values():
        assert len(sets.keys) == len(labels)
        assert set(sets.values.tolist()) <= strings.keys()
    for nothing in ([], [bare_doc(nlp, [])]):
        assert all(len(sets.keys) == 0 for sets in read_docs(nothing, (), features=features).text.sets.values())


def test_a_trained_pipeline_needs_no_file(block: dict[str, Any], tmp_path: Path) -> None:
    nlp = blank("crf_ner", attributes={"mine": block})
    corpus = examples(nlp)
    nlp.initialize(lambda: corpus)
    pipe_of(nlp).fit()
    before, data = predictions(nlp, "crf_ner"), nlp.to_bytes()
    for name in FILES:
        (tmp_path / name).unlink()
    again = blank("crf_ner", attributes={"mine": block}).from_bytes(data)
    assert predictions(again, "crf_ner") == before
    assert pipe_of(again).to_bytes() == pipe_of(nlp).to_bytes()


def test_plugins_can_be_sent_to_other_processes(block: dict[str, Any]) -> None:
    plugin, docs = make(block), inputs(blank("crf_ner"), "crf_ner")
    values = values_of(plugin, docs)
    assert values_of(pickle.loads(pickle.dumps(plugin)), docs) == values


def test_the_state_restores_the_plugin(block: dict[str, Any], tmp_path: Path) -> None:
    plugin = make(block)
    if not isinstance(plugin, Stateful):
        pytest.skip("it has no state")
    nlp = blank("crf_ner")
    docs = inputs(nlp, "crf_ner")
    values = values_of(plugin, docs)
    state = srsly.msgpack_dumps(plugin.to_state())
    for name in FILES:
        (tmp_path / name).unlink()
    again = make(block)
    again.from_state(srsly.msgpack_loads(state))
    assert values_of(again, docs) == values
    assert srsly.msgpack_dumps(again.to_state()) == state
    for damaged in (None, 1, [], {}, {"names": 1}):
        with pytest.raises((ValueError, TypeError, KeyError)):
            make(block).from_state(damaged)
