"""The template language: what is read, and what is refused with which message."""

from functools import partial
from typing import Any

import pytest

from spacy_crfseq.errors import ConfigError
from spacy_crfseq.features import sets
from spacy_crfseq.features.attributes import BUILT_IN
from spacy_crfseq.features.items import TEXT_FUNCTIONS
from spacy_crfseq.features.templates import MAX_OFFSET, make_plan, parse, seeds_of
from tests import reference

GOOD = {
    "LOWER": ["LOWER[0]"],
    "LOWER[0]": ["LOWER[0]"],
    "ORTH[+1]": ["ORTH[1]"],
    "ORTH[-2]": ["ORTH[-2]"],
    " ORTH [ -1 .. 1 ] ": ["ORTH[-1]", "ORTH[0]", "ORTH[1]"],
    "ORTH[2..2]": ["ORTH[2]"],
    "TAG[-1]|TAG[0]": ["TAG[-1]|TAG[0]"],
    "PREFIX3 | SHAPE[-1]": ["PREFIX3[0]|SHAPE[-1]"],
    "TAG[1..1]|TAG": ["TAG[1]|TAG[0]"],
    f"TAG[{-MAX_OFFSET}]|TAG[{MAX_OFFSET}]": [f"TAG[{-MAX_OFFSET}]|TAG[{MAX_OFFSET}]"],
}
BAD = {
    "": "cannot read the part ''",
    "LOWER[": "cannot read the part",
    "LOWER[a]": "cannot read the part",
    "LOWER[0": "cannot read the part",
    "LOWER[0]]": "cannot read the part",
    "LOWER[1...2]": "cannot read the part",
    "LOWER[1.5]": "cannot read the part",
    "LOWER[0]||TAG[0]": "cannot read the part ''",
    "LOWER[0] TAG[0]": "cannot read the part",
    "LOWR[0]": "unknown attribute 'LOWR'. Did you mean 'LOWER'?",
    "lower[0]": "unknown attribute 'lower'",
    "LOWER[1..-1]": "is empty; write the smaller offset first",
    "LOWER[-1..1]|TAG[0]": "cannot be used in a conjunction",
    f"LOWER[{MAX_OFFSET + 1}]": f"offsets beyond {MAX_OFFSET}",
    f"LOWER[-{MAX_OFFSET + 1}..0]": f"offsets beyond {MAX_OFFSET}",
    17: "must be a string",
    None: "must be a string",
}


@pytest.mark.parametrize(("text", "names"), GOOD.items())
def test_good_templates(text: str, names: list[str]) -> None:
    assert [template.name for template in parse([text], BUILT_IN)] == names


@pytest.mark.parametrize(("text", "message"), BAD.items())
def test_bad_templates(text: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(["LOWER", text], BUILT_IN)
    assert message in str(caught.value)
    assert repr(text) in str(caught.value)


def test_repetitions_count_once() -> None:
    templates = parse(["LOWER[-1..1]", "LOWER", "LOWER[0]|TAG", "LOWER[1]"], BUILT_IN)
    assert [template.name for template in templates] == ["LOWER[-1]", "LOWER[0]", "LOWER[1]", "LOWER[0]|TAG[0]"]


def test_seeds_tell_templates_apart() -> None:
    templates = parse(["LOWER[-2..2]", "ORTH[-2..2]", "LOWER|ORTH", "ORTH|LOWER"], BUILT_IN)
    seeds = seeds_of(make_plan(templates))
    assert len(set(seeds)) == len(templates)
    assert all(0 < seed < 2**64 for seed in seeds)


def test_names_of_the_user_are_known_where_they_are_given() -> None:
    with pytest.raises(ConfigError, match="unknown attribute 'CITY'"):
        parse(["CITY"], BUILT_IN)
    assert [template.name for template in parse(["CITY"], BUILT_IN | {"CITY"})] == ["CITY[0]"]


@pytest.mark.parametrize("name", sorted(set(TEXT_FUNCTIONS) & set(reference.TEXT_VALUES)))
@pytest.mark.parametrize("word", ["a", "The", "U.S.", "1990-95", "ÉTÉ", "x-", "McX", "..."])
def test_values_of_words(name: str, word: str) -> None:
    assert TEXT_FUNCTIONS[name](word) == reference.TEXT_VALUES[name](word)


@pytest.mark.parametrize(
    ("name", "fires", "does_not"),
    [
        ("INITIAL_LOWER", ["a", "aB"], ["A", "1a", "-"]),
        ("INITIAL_UPPER", ["A", "Ab"], ["a", "1A"]),
        ("INITIAL_DIGIT", ["1", "1st"], ["a1", "-1"]),
        ("ALL_CAPS", ["USA", "U.S."], ["Usa", "1"]),
        ("CAP_WITH_DOT", ["Mr.", "U.S."], ["mr.", "Mr"]),
        ("HAS_HYPHEN", ["a-b", "-"], ["ab"]),
        ("HAS_DIGIT", ["a1"], ["a"]),
    ],
)
def test_spelling_classes(name: str, fires: list[str], does_not: list[str]) -> None:
    function = TEXT_FUNCTIONS[name]
    assert [function(word) for word in fires] == ["1"] * len(fires)
    assert [function(word) for word in does_not] == [None] * len(does_not)


@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_affixes_are_absent_on_shorter_words(length: int) -> None:
    for kind, expected in (("PREFIX", "abcd"[:length]), ("SUFFIX", "abcd"[-length:])):
        function = TEXT_FUNCTIONS[f"{kind}{length}"]
        assert function("abcd"[: length - 1]) is None
        assert function("aBcD") == expected


@pytest.mark.parametrize(
    ("default", "large"),
    [
        (sets.tagging, sets.large_tagging),
        (sets.large_tagging, partial(sets.large_tagging, pairs=True)),
        (sets.chunking, sets.large_chunking),
        (sets.entities, sets.large_entities),
    ],
)
def test_large_sets_have_the_templates_of_the_default_and_others(default: Any, large: Any) -> None:
    few, many = default().plans()[0].templates, large().plans()[0].templates
    assert list(many[: len(few)]) == list(few)
    assert len(set(many)) == len(many) > len(few)
