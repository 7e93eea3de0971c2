"""Labels that sources do not have: what votes accept, and what the report counts."""

import numpy as np
import pytest

from spacy_crfseq.errors import DataError
from spacy_crfseq.tools.aggregate.source_report import gold_shares, report
from spacy_crfseq.tools.aggregate.votes import ABSTAIN, votes_of_table

PEOPLE = [[True, True, False]]
"""A source that has no label 2."""


def test_a_label_that_a_source_does_not_have_is_outside_to_it() -> None:
    gold = np.array([0, 1, 2, 2], np.int32)
    votes = votes_of_table([[0, 1, 0, 1]], [0, 4], ["people"], 3, PEOPLE)
    rows = {row.label: row for row in report(votes, gold_shares(gold, 3), np.arange(3), ["O", "PER", "LOC"])}
    assert (rows["O"].precision, rows["O"].recall) == (1.0, pytest.approx(2 / 3))  # one place was taken for a person
    assert (rows["PER"].precision, rows["PER"].recall) == (0.5, 1.0)
    assert np.isnan([rows["LOC"].precision, rows["LOC"].recall]).all()
    assert rows["all"].recall == 1.0


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
