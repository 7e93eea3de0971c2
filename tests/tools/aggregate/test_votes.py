"""Labels that sources do not have: what votes accept, and what the report counts."""

from typing import Any

import numpy as np
import pytest

from spacy_crfseq.errors import DataError
from spacy_crfseq.tools.aggregate.source_report import gold_report, report
from spacy_crfseq.types import MISSING
from spacy_crfseq.votes import ABSTAIN, votes_of_table

PEOPLE = [[True, True, False]]
"""A source that has no label 2."""
NOTHING = [ABSTAIN] * 40
BOTH = [[True] * 3] * 2


def test_a_label_that_a_source_does_not_have_is_outside_to_it() -> None:
    gold = np.array([0, 1, 2, 2], np.int32)
    votes = votes_of_table([[0, 1, 0, 1]], [0, 4], ["people"], 3, PEOPLE)
    rows = {row.label: row for row in gold_report(votes, gold, np.arange(3), ["O", "PER", "LOC"])}
    assert (rows["O"].precision, rows["O"].recall) == (1.0, pytest.approx(2 / 3))  # one place was taken for a person
    assert (rows["PER"].precision, rows["PER"].recall) == (0.5, 1.0)
    assert np.isnan([rows["LOC"].precision, rows["LOC"].recall]).all()
    assert rows["all"].recall == 1.0


def test_the_same_votes_of_sources_with_other_labels_are_no_copies() -> None:
    """A source says nothing of labels that it does not have, so the other one says more."""
    table, names = [[0, 1, 0]] * 2, ["people", "all"]
    assert votes_of_table(table, [0, 3], names, 3, BOTH).originals().tolist() == [0, 0]
    assert votes_of_table(table, [0, 3], names, 3, [*PEOPLE, [True] * 3]).originals().tolist() == [0, 1]


@pytest.mark.parametrize(
    ("table", "knows", "message"),
    [
        ([[0, 2]], PEOPLE, "'people' gives token 1 a label that it has not"),
        ([[0, 1]], [[True, True]], r"must be a table of truth values \[1, 3\]"),
        ([[0, 1]], [[1, 1, 0]], "must be a table of truth values"),
        ([[ABSTAIN, 3]], None, "must be from 0 to 2"),
    ],
)
def test_votes_for_labels_that_cannot_be_are_refused(table: object, knows: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        votes_of_table(table, [0, 2], ["people"], 3, knows)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("second", "knows", "n_gold", "assumed"),
    [
        (NOTHING, BOTH, 0, True),
        ([0] * 40, BOTH, 0, False),  # it says that there is no place
        ([0] * 40, [[True] * 3, [True, True, False]], 0, True),  # it has no label for places
        ([0] * 4 + NOTHING[4:], BOTH, 0, True),
        ([0] * 5 + NOTHING[5:], BOTH, 0, False),
        (NOTHING, BOTH, 29, True),
        (NOTHING, BOTH, 30, False),
    ],
)
def test_precision_and_recall_are_assumed_where_a_source_is_alone(
    second: list[int], knows: list[list[bool]], n_gold: int, assumed: bool
) -> None:
    votes = votes_of_table([[2] * 40, second], [0, 40], ["list", "other"], 3, knows)
    gold = np.where(np.arange(40) < n_gold, 2, MISSING).astype(np.int32)
    shares, groups, labels = np.full((40, 3), 1 / 3), np.arange(3, dtype=np.int32), ["O", "PER", "LOC"]
    rows = {(row.source, row.label): row.assumed for row in report(votes, shares, groups, labels, gold)}
    assert (rows["list", "LOC"], rows["list", "PER"]) == (assumed, False)
    assert not any(row.assumed for row in gold_report(votes, gold, groups, labels))


OUTSIDE = np.array([True, False, False])


def repeated(rows: list[list[int]], words: str, **settings: Any) -> list[str]:
    """Return the sources and words of votes that repeat a decision."""
    table, knows = np.array(rows), settings.pop("knows", None)
    votes = votes_of_table(table, [0, table.shape[1]], ["model", "list", "rule"][: len(rows)], 3, knows)
    outside = settings.pop("outside", OUTSIDE)
    dropped = votes.repeated(words.split(), outside, settings.pop("begins", ~outside), **settings)
    assert votes.without(dropped).n_tokens == votes.n_tokens
    where = zip(votes.sources[dropped].tolist(), votes.tokens[dropped].tolist(), strict=True)
    return sorted({f"{votes.names[source]} {words.split()[token]}" for source, token in where})


def test_labels_that_a_list_gives_a_word_again_and_again_against_others_are_one_decision() -> None:
    words, silent = "El Rey " * 20, [ABSTAIN, ABSTAIN] * 20
    model, lists = [0, 0] * 10 + [0, 1] * 10, [1, 1] * 20
    assert repeated([model, lists], words) == ["list El"]  # half of the others are found by the model, too
    assert repeated([silent, lists], words) == []  # nobody else speaks
    assert repeated([model, lists[:14] + silent[:26]], words) == []  # seldom
    assert repeated([model, [1, 0] * 20], words) == []  # it speaks of all words, as models do
    assert repeated([model, lists, [2, ABSTAIN] * 20], words) == []  # a rule says a span, too
    assert repeated([model, [1, 1] * 10 + [2, 1] * 10], words) == ["list El"]
    sixth, quarter = ([0] * n + [2] * (12 - n) for n in (10, 9))  # a sixth and a quarter are spans to the model, too
    assert repeated([sixth, [1] * 12], "El " * 12) == ["list El"]
    assert repeated([quarter, [1] * 12], "El " * 12) == []
    assert repeated([[0, 0] * 20, lists], words, knows=[[True, False, True], [True] * 3]) == []  # without the label


def test_names_of_several_words_go_as_a_whole() -> None:
    words = " ".join(f"New X{i}" for i in range(20))
    begins = np.array([False, True, False])  # 2 goes on with the name that 1 begins
    new = [f"list X{i}" for i in range(20)]
    assert repeated([[0, 0] * 20, [1, 2] * 20], words, begins=begins) == ["list New", *sorted(new)]
    assert repeated([[0, 0] * 20, [1, 2] * 3 + [ABSTAIN, 1] * 17], words, begins=begins) == []
    assert repeated([[0, 0] * 20, [1, 2] * 20], "New York " * 20, begins=begins) == ["list New", "list York"]


@pytest.mark.parametrize(("true", "expected"), [(1, []), (0, ["list El"])])
def test_gold_labels_say_whether_a_list_is_right(true: int, expected: list[str]) -> None:
    gold = np.array([true] * 20, np.int32)
    assert repeated([[0] * 20, [1] * 20], "El " * 20, gold=gold) == expected
    assert repeated([[ABSTAIN] * 20, [1] * 20], "El " * 20, gold=gold) == expected
    last = {"gold": (gold == 0).astype(np.int32), "outside": np.array([False, True, False])}
    assert repeated([[1] * 20, [0] * 20], "El " * 20, **last) == expected


def test_votes_of_no_token_and_of_no_source_repeat_nothing() -> None:
    assert repeated([[]], "") == []
    assert repeated([[ABSTAIN] * 3], "a b c") == []
