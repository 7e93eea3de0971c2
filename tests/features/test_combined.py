"""Attribute plug-ins: what they add to a feature set, and what they may not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import spacy

from spacy_crfseq.errors import ConfigError, ModelFileError
from spacy_crfseq.features.sets import FeatureSet
from spacy_crfseq.features.token_sets import TokenSets, make_token_sets
from spacy_crfseq.pipeline.prediction import read_docs


class Classes:
    """A word attribute with data to be stored."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.known = {"rome": "city"}

    def templates(self, block: str) -> Sequence[str]:
        return [f"{self.name or block}[-1..1]"]

    def functions(self, block: str) -> Mapping[str, Callable[[str], str | None]]:
        return {self.name or block: lambda text: self.known.get(text.lower())}

    def to_state(self) -> Any:
        return self.known

    def from_state(self, state: Any) -> None:
        self.known = dict(state)


class Places:
    """A Doc attribute: the position of a token in its Doc; `n_short` values are missing."""

    def __init__(self, n_short: int = 0) -> None:
        self.n_short = n_short

    def templates(self, block: str) -> Sequence[str]:
        return [f"{block}[0]"]

    def names(self, block: str) -> Sequence[str]:
        return [block]

    def read(self, block: str, docs: Sequence[Any], strings: Any = None) -> Mapping[str, TokenSets]:
        values = [token.i + 100 for doc in docs for token in doc][self.n_short :]
        return {block: make_token_sets([1] * len(values), values)}


def test_attributes_are_added_to_a_feature_set() -> None:
    found = FeatureSet(("LOWER[0]",)).with_attributes({"city": Classes(), "place": Places()})
    assert found.templates == ("LOWER[0]", "CITY[-1..1]", "PLACE[0]")
    assert found.functions["CITY"]("Rome") == "city"
    assert [len(plan.templates) for plan in found.plans()] == [5, 0]
    assert found.set_names == {"PLACE"}


@pytest.mark.parametrize("name", ["LOWER", "CITY"])
def test_names_are_unique(name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        FeatureSet(("LOWER[0]",)).with_attributes({"city": Classes("CITY"), "other": Classes(name)})
    for block, message in (("shape", "rename the block 'shape'"), ("my-list", r"\[attributes.my-list\]: rename")):
        with pytest.raises(ConfigError, match=message):
            FeatureSet(("LOWER[0]",)).with_attributes({block: Places()})


def test_values_are_read_for_every_token() -> None:
    docs = [spacy.blank("en")("To Rome"), spacy.blank("en")("and back again")]
    features = FeatureSet(("LOWER[0]",)).with_attributes({"place": Places(1)})
    with pytest.raises(ConfigError, match=r"'place' \(Places\) have values for {'PLACE': 4} tokens of 5"):
        read_docs(docs, (), features=features)


def _component(*blocks: str) -> Any:
    nlp = spacy.blank("en")
    nlp.add_pipe("crf_ner")
    pipe: Any = nlp.get_pipe("crf_ner")
    pipe.method = pipe.method._replace(attributes={block: Classes() for block in blocks})
    return nlp


def test_a_model_stores_the_data_of_its_attributes() -> None:
    nlp, again = _component("city"), _component("city")
    doc = nlp.make_doc("He saw Rome today")
    doc.ents = [doc.char_span(7, 11, "LOC")]
    example = spacy.training.Example(nlp.make_doc(doc.text), doc)
    pipe, other = nlp.get_pipe("crf_ner"), again.get_pipe("crf_ner")
    pipe.method.attributes["city"].known["today"] = "day"
    nlp.initialize(lambda: [example])
    pipe.fit()
    other.from_bytes(pipe.to_bytes())
    assert other.method.attributes["city"].known == {"rome": "city", "today": "day"}
    assert any("CITY[0]=city" in name for found in other.doc_model.largest_names() for name in found.values())
    with pytest.raises(ModelFileError, match=r"\['city'\], but the config names \['town'\]"):
        _component("town").get_pipe("crf_ner").from_bytes(pipe.to_bytes())


@pytest.mark.parametrize("name", ["my-classes", "a b", "4", ""])
def test_the_name_of_a_block_must_be_that_of_an_attribute(name: str) -> None:
    with pytest.raises(ConfigError, match="letters, digits and underscores"):
        FeatureSet(("LOWER[0]",)).with_attributes({name: Classes()})
