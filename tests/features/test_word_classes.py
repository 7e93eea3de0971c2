"""Word classes from malformed files and damaged states: an error that says so, or classes that can be asked for."""

import gzip
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spacy_crfseq.errors import CrfError
from spacy_crfseq.features.word_classes import ClassTable, WordClasses

TEXTS = st.text(st.sampled_from("01\t\n\r \x85\u2028\x00é家aB9.-\ufeff"), max_size=40).map(str.encode)
DATA = TEXTS | st.binary(max_size=30) | st.builds(lambda text, n: gzip.compress(text)[:n], TEXTS, st.integers(0, 80))
VALUES = st.sampled_from([None, -1, 0, 1, 2, 5, "x", b"", b"abc", [], ["a"], [1, 2], {}, 1e300])


@given(data=DATA, prefix=st.integers(0, 5))
@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_file_has_classes_or_is_refused(data: bytes, prefix: int, tmp_path: Path) -> None:
    file = tmp_path / "classes.tsv"
    file.write_bytes(data)
    classes = WordClasses(file, prefixes=[prefix])
    try:
        found = [function(word) for word in ("a", "", "é", "家") for function in classes.functions("x").values()]
    except CrfError:
        return
    stored = WordClasses(file, prefixes=[prefix])
    stored.from_state(classes.to_state())
    assert found == [function(word) for word in ("a", "", "é", "家") for function in stored.functions("x").values()]


@given(key=st.sampled_from(["n", "gaps", "numbers", "names"]), value=VALUES, size=st.integers(1, 3))
def test_a_damaged_state_has_classes_or_is_refused(key: str, value: object, size: int) -> None:
    state = ClassTable.of({"a": "01", "b": "1", "c": "11"}).to_state()
    if size == 1:
        state = ClassTable.of({"a": "01"}).to_state()
    try:
        table = ClassTable.from_state({**state, key: value})
    except (ValueError, TypeError, KeyError):
        return
    assert all(isinstance(table.find(word), str | None) for word in "abcd")


def test_a_state_without_names_is_refused() -> None:
    state = ClassTable.of({"a": "01"}).to_state()
    with pytest.raises(ValueError, match="not there"):
        ClassTable.from_state({**state, "names": []})
