"""The scores of label sequences are those of sklearn-crfsuite."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_crfseq import metrics
from spacy_crfseq.errors import DataError

LABELS = st.sampled_from(["O", "B-PER", "I-PER"])
TEXTS = st.lists(st.lists(st.tuples(LABELS, LABELS), max_size=4), max_size=5)
SETTINGS: dict[str, dict[str, Any]] = {
    "flat_accuracy_score": {},
    "flat_precision_score": {"average": "macro", "zero_division": 0},
    "flat_recall_score": {"average": "weighted", "labels": ["B-PER", "I-PER"], "zero_division": 0},
    "flat_f1_score": {"average": None, "labels": ["B-PER"], "zero_division": 0},
    "flat_fbeta_score": {"beta": 2.0, "average": "micro", "zero_division": 0},
    "flat_classification_report": {"labels": ["B-PER", "O"], "digits": 3, "zero_division": 0},
    "sequence_accuracy_score": {},
}


@pytest.fixture
def theirs() -> Any:
    return pytest.importorskip("sklearn_crfsuite.metrics", reason="sklearn-crfsuite is not installed")


def test_every_score_of_sklearn_crfsuite_is_there(theirs: Any) -> None:
    assert {name for name in vars(theirs) if name.endswith(("_score", "_report"))} == SETTINGS.keys()


@pytest.mark.parametrize("name", SETTINGS)
def test_scores_are_those_of_sklearn_crfsuite(name: str, theirs: Any) -> None:
    @given(TEXTS.filter(lambda texts: any(texts)))
    def check(texts: list[list[tuple[str, str]]]) -> None:
        gold, actual = ([[pair[side] for pair in text] for text in texts] for side in (0, 1))
        if len({len(text) for text in gold}) == 1 and name == "sequence_accuracy_score":
            return  # an array of labels there, not of lists
        expected = getattr(theirs, name)(gold, actual, **SETTINGS[name])
        found_score = getattr(metrics, name)(gold, actual, **SETTINGS[name])
        assert found_score == (expected if isinstance(expected, str) else pytest.approx(expected))

    check()


def test_sequences_are_counted_where_all_have_one_length() -> None:
    assert metrics.sequence_accuracy_score([["A", "B"], ["A", "A"]], [["A", "B"], ["A", "B"]]) == 0.5
    assert metrics.sequence_accuracy_score([], []) == 0.0


@pytest.mark.parametrize("name", SETTINGS)
def test_different_numbers_of_sequences_are_refused(name: str) -> None:
    with pytest.raises(DataError, match=re.escape("y_true has 1 sequences, but y_pred has 2.")):
        getattr(metrics, name)([["A"]], [["A"], ["B"]], **SETTINGS[name])
