"""Sets of attributes from token functions: what their values mean, and the encoder that reads them."""

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_crfseq.errors import ConfigError, DataError
from spacy_crfseq.features.encoded import Encoded
from spacy_crfseq.features.encoder import Columns, FrozenEncoder, GrowingEncoder, new_lexicon
from spacy_crfseq.features.entries import names_in
from spacy_crfseq.features.index import HashIndex
from spacy_crfseq.features.sets import FeatureSet
from spacy_crfseq.features.templates import make_plan, parse
from spacy_crfseq.features.token_sets import make_token_sets
from tests.problems import Vocabulary, ids_of_tokens

NAMES = st.text(alphabet="abé.", max_size=3)
ATOMS = NAMES | st.booleans() | st.sampled_from([0, 1, 1.0, 0.0])
ENTRIES = st.dictionaries(NAMES, ATOMS | st.lists(NAMES, max_size=2) | st.dictionaries(NAMES, ATOMS, max_size=2))
TEXTS = st.lists(st.lists(st.lists(st.sampled_from("abcd"), unique=True, max_size=3), max_size=4), max_size=4)
Text = list[list[list[str]]]


@given(ENTRIES)
def test_dictionaries_mean_what_they_mean_in_python_crfsuite(entries: dict[str, Any]) -> None:
    pycrfsuite = pytest.importorskip("pycrfsuite", reason="python-crfsuite is not installed")
    (attributes,) = pycrfsuite.ItemSequence([entries]).items()
    names = [name.replace("=", ":") for name in names_in(entries)]
    assert sorted(set(names)) == sorted(name for name, value in attributes.items() if value)


def test_lists_and_nothing() -> None:
    assert list(names_in(["b", "a", "b"])) == ["b", "a", "b"]
    assert set(names_in(frozenset({"a"}))) == {"a"}
    assert list(names_in(None)) == list(names_in({})) == []
    assert list(names_in({"a": None, "b": np.True_, "c": np.float32(0)})) == ["b"]


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ("word", "'word' (str) was given, but a dictionary or a list of strings is needed"),
        (3, "3 (int) was given"),
        (["a", 3], "the name 3 (int) is not a string."),
        (["a", (["b"], 1.0)], "the name ['b'] (list) is not a string."),
        ({"a": ["b", None]}, "the name None (NoneType) under 'a' is not a string."),
        ({3: "a"}, "the name 3 (int) is not a string."),
        ({"length": 10**400}, "'length' has the value"),
        ({"length": 7}, "'length' has the value 7, but a feature is present or absent"),
        ({"share": 0.5}, "str(0.5)"),
        (
            {"a": object},
            "'a' has the value <class 'object'> (type), but a string, a finite number",
        ),
    ],
)
def test_values_that_are_no_set_of_names_are_refused(returned: Any, message: str) -> None:
    with pytest.raises(DataError, match=re.escape(message)):
        names_in(returned)


class Growing:
    """An encoder of texts whose tokens are their sets."""

    def __init__(self, templates: list[str], keys: Any = None) -> None:
        plans = make_plan(parse(templates, {"F"}), {"F"}), make_plan([])
        self.vocabulary = Vocabulary()
        lexicon = new_lexicon(*plans, self.vocabulary.values_of([]))
        index = None if keys is None else (HashIndex(keys[0]), HashIndex(keys[1]))
        self.encoder: Any = GrowingEncoder(*plans, lexicon) if index is None else FrozenEncoder(*plans, lexicon, index)

    def encode(self, text: Text) -> Encoded:
        tokens = [names for sequence in text for names in sequence]
        sets = make_token_sets([len(names) for names in tokens], [self.vocabulary.add(n) for s in tokens for n in s])
        offsets = np.cumsum([0, *map(len, text)])
        orths = np.ones(len(tokens), np.uint64)
        return self.encoder.encode(Columns(orths, np.zeros((len(tokens), 0), np.uint64), offsets, {"F": sets}))

    def names(self) -> list[str]:
        names: list[str] = self.encoder.features[0].names(self.vocabulary.text_of)
        return names


def expected(text: Text, offsets: list[int]) -> list[list[str]]:
    """Return the sorted names of the attributes of each token."""
    return [
        sorted(f"F[{k}]={name}" for k in offsets if 0 <= i + k < len(sequence) for name in sequence[i + k])
        for sequence in text
        for i in range(len(sequence))
    ]


@given(TEXTS, TEXTS, st.sampled_from([["F[0]"], ["F[-1..1]"], ["F[-2]", "F[3]"]]), st.integers(1, 2))
def test_the_encoder_knows_each_tokens_set(seen: Text, other: Text, templates: list[str], min_count: int) -> None:
    offsets = {"F[0]": [0], "F[-1..1]": [-1, 0, 1], "F[-2]": [-2, 3]}[templates[0]]
    growing = Growing(templates)
    encoded = growing.encode(seen)
    names = growing.names()
    assert [sorted(names[a] for a in token) for token in ids_of_tokens(encoded.unigrams)] == expected(seen, offsets)
    numbers = [parse(templates, {"F"}).index(parse([name.split("=")[0]], {"F"})[0]) for name in names]
    assert growing.encoder.features[0].templates.tolist() == numbers

    counts = [sum(name in token for token in expected(seen, offsets)) for name in names]
    kept = {name for name, count in zip(names, counts, strict=True) if count >= min_count}
    features = growing.encoder.frequent([encoded], min_count)
    names = features[0].names(growing.vocabulary.text_of)
    assert set(names) == kept
    again = Growing(templates, (features[0].keys, features[1].keys))
    growing.encoder, _ = growing.encoder.frozen((features[0].keys, features[1].keys))
    for encoder in (growing, again):
        for text in (other, seen):
            ids = ids_of_tokens(encoder.encode(text).unigrams)
            kept_names = [[name for name in token if name in kept] for token in expected(text, offsets)]
            assert [sorted(names[a] for a in token) for token in ids] == kept_names


def test_the_order_of_names_does_not_matter() -> None:
    growing = Growing(["F[0]"])
    bags = growing.encode([[["a", "b"], ["b", "a"], ["a"]]]).unigrams.expanded()[0][:, 0].tolist()
    assert bags[0] == bags[1] != bags[2]


def nothing(sequence: Any, i: int) -> None:
    return None


@pytest.mark.parametrize(
    ("templates", "functions", "token_functions", "message"),
    [
        (["F[0]|LOWER[0]"], {}, {"F": nothing}, "cannot be used in a conjunction"),
        (["F[0]|F[1]"], {}, {"F": nothing}, "cannot be used in a conjunction"),
        (["LOWER[0]"], {}, {"F": nothing}, "Token functions ['F'] are in no template; add 'F[0]'"),
        (["LOWER[0]"], {}, {"LOWER": nothing}, "have the names of built-in attributes"),
        (["F[0]"], {"F": str.upper}, {"F": nothing}, "have the names of token functions"),
        (["F[0]"], {}, {"F": "nothing"}, "must be callable"),
    ],
)
def test_feature_sets_that_cannot_work(templates: Any, functions: Any, token_functions: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        FeatureSet(tuple(templates), (), functions, token_functions)
