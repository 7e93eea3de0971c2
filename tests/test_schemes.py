"""Tag schemes: hand-written tables, round trips, and the array reading against the readable one."""

import re
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_crfseq.errors import ConfigError, DataError
from spacy_crfseq.schemes import (
    SPAN_SCHEMES,
    TagSpan,
    TagTable,
    count_spans,
    decode_lenient,
    describe_invalid,
    encode,
    find_invalid,
    may_follow,
    named_tags,
    recoded,
    span_f1,
    spans_of,
    split_tag,
    tags_of,
    transition_table,
    types_in,
)
from spacy_crfseq.tools._pages.spans import NEW, OTHER, SEEN, UNSEEN, Familiarity, span_counts

TYPES = ("A", "B-x", "O")


@st.composite
def span_lists(draw: st.DrawFn) -> tuple[list[TagSpan], int]:
    """Spans that do not overlap, in order, and a sequence length that holds them."""
    spans, position = [], 0
    span = st.tuples(st.integers(0, 2), st.integers(1, 4), st.sampled_from(TYPES))
    for gap, width, label in draw(st.lists(span, max_size=6)):
        spans.append(TagSpan(position + gap, position + gap + width, label))
        position += gap + width
    return spans, position + draw(st.integers(0, 2))


EXAMPLE = [TagSpan(0, 1, "A"), TagSpan(1, 4, "A"), TagSpan(4, 6, "B"), TagSpan(7, 8, "A")]
TABLE = {
    "IOB1": "I-A B-A I-A I-A I-B I-B O I-A",
    "IOB2": "B-A B-A I-A I-A B-B I-B O B-A",
    "BILUO": "U-A B-A I-A L-A B-B L-B O U-A",
    "IOBES": "S-A B-A I-A E-A B-B E-B O S-A",
    "BMES": "S-A B-A M-A E-A B-B E-B O S-A",
    "BMEWO": "W-A B-A M-A E-A B-B E-B O W-A",
}


@pytest.mark.parametrize("scheme", SPAN_SCHEMES)
def test_example_table(scheme: str) -> None:
    assert encode(reversed(EXAMPLE), 8, scheme) == TABLE[scheme].split()
    assert decode_lenient(TABLE[scheme].split()) == EXAMPLE
    assert find_invalid(TABLE[scheme].split(), scheme) is None


def test_split_tag() -> None:
    result = [split_tag(tag) for tag in ("O", "B-NP", "U-a-b-", "I-O", "E-A", "S-A", "M-A", "W-A")]
    assert result[:4] == [("O", ""), ("B", "NP"), ("U", "a-b-"), ("I", "O")]
    assert result[4:] == [("L", "A"), ("U", "A"), ("I", "A"), ("U", "A")]


@pytest.mark.parametrize("tag", ["", "B", "B-", "NP", "X-NP", "-", "O-NP", "BI-NP", "b-NP"])
def test_split_tag_refuses(tag: str) -> None:
    with pytest.raises(DataError, match="neither"):
        split_tag(tag)


@pytest.mark.parametrize(
    ("tags", "scheme", "index"),
    [
        ("O I-A", "IOB2", 1), ("I-A", "IOB2", 0), ("B-A I-B", "IOB2", 1), ("B-A U-A", "IOB2", 1), ("O ?", "IOB2", 1),
        ("B-A O", "BILUO", 1), ("B-A I-A", "BILUO", 1), ("U-A L-A", "BILUO", 1), ("B-A L-B", "BILUO", 1),
        ("B-A I-A B-A", "BILUO", 2), ("O L-A", "IOB1", 1), ("I-A B-B B-B O I-A", "IOB1", None),
        ("what ever", "plain", None),
    ],
)  # fmt: skip
def test_find_invalid(tags: str, scheme: str, index: int | None) -> None:
    assert find_invalid(tags.split(), scheme) == index


@pytest.mark.parametrize(
    ("tags", "scheme", "index", "message"),
    [
        ("O I-A", "IOB2", 1, "tag 'I-A' may not follow 'O' in IOB2"),
        ("I-A", "IOB2", 0, "tag 'I-A' may not be the first"),
        ("O B-A", "BILUO", 1, "tag 'B-A' may not be the last"),
        ("O L-A", "IOB2", 1, "tag 'L-A' is not an IOB2 tag"),
        ("O L-A", "BMES", 1, "tag 'L-A' is not a BMES tag"),
    ],
)
def test_invalid_tags_are_described(tags: str, scheme: str, index: int, message: str) -> None:
    assert find_invalid(tags.split(), scheme) == index
    assert describe_invalid(tags.split(), index, scheme).startswith(message)


@pytest.mark.parametrize(
    ("tags", "spans"),
    [
        ("O I-A I-B", [(1, 2, "A"), (2, 3, "B")]),
        ("I-A I-A B-A", [(0, 2, "A"), (2, 3, "A")]),
        ("B-A L-A I-A O", [(0, 2, "A"), (2, 3, "A")]),
        ("B-A U-A L-A", [(0, 1, "A"), (1, 2, "A"), (2, 3, "A")]),
        ("B-A I-B I-A", [(0, 1, "A"), (1, 2, "B"), (2, 3, "A")]),
        ("", []),
    ],
)
def test_decode_lenient(tags: str, spans: list[tuple[int, int, str]]) -> None:
    assert decode_lenient(tags.split()) == [TagSpan(*span) for span in spans]


@pytest.mark.parametrize(
    "spans", [[(0, 2, "A"), (1, 3, "A")], [(0, 4, "A")], [(-1, 1, "A")], [(1, 1, "A")], [(0, 1, "")]]
)
def test_encode_refuses(spans: list[tuple[int, int, str]]) -> None:
    with pytest.raises(DataError):
        encode(spans, 3, "IOB2")


def test_scheme_names_are_checked() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'BILUO'"):
        tags_of(["A"], "BILOU")
    for call in (lambda: encode([], 1, "plain"), lambda: TagTable(["A"], "plain")):
        with pytest.raises(ConfigError, match="no spans"):
            call()


def test_tags_of() -> None:
    assert tags_of(["A", "B"], "IOB2") == ["O", "B-A", "I-A", "B-B", "I-B"]
    assert tags_of(["A"], "BILUO") == ["O", "B-A", "I-A", "L-A", "U-A"]
    assert tags_of(["NN", "VB"], "plain") == ["NN", "VB"]


@pytest.mark.parametrize(("labels", "scheme"), [(["O", "L-A"], "IOB2"), (["O", "NN"], "BILUO")])
def test_labels_are_checked(labels: list[str], scheme: str) -> None:
    for build in (transition_table, TagTable):
        with pytest.raises(DataError, match=labels[1]):
            build(labels, scheme)


@pytest.mark.parametrize("scheme", [*SPAN_SCHEMES, "plain"])
def test_transition_tables_agree_with_pairs_of_tags(scheme: str) -> None:
    labels = tags_of(TYPES, scheme)
    table = transition_table(labels, scheme)
    assert table.step.tolist() == [[may_follow(a, b, scheme) for b in labels] for a in labels]
    assert table.start.tolist() == [may_follow("O", label, scheme) for label in labels]
    assert table.end.tolist() == [may_follow(label, "O", scheme) for label in labels]


def test_transition_table_biluo() -> None:
    table = transition_table(["O", "B-A", "I-A", "L-A", "U-A"], "BILUO")
    free, inside = [1, 1, 0, 0, 1], [0, 0, 1, 1, 0]
    assert table.start.astype(int).tolist() == free
    assert table.step.astype(int).tolist() == [free, inside, inside, free, free]
    assert table.end.astype(int).tolist() == [1, 0, 0, 1, 1]
    none = [0] * 5
    assert table.inside.astype(int).tolist() == [none, inside, inside, none, none]
    assert table.outside.astype(int).tolist() == [1, 0, 0, 0, 0]


def test_transition_table_without_labels_and_plain() -> None:
    assert transition_table([], "IOB2").step.shape == (0, 0)
    table = transition_table(["NN", "B", ""], "plain")
    assert all(part.all() for part in (table.start, table.step, table.end))
    assert not table.inside.any()
    assert not table.outside.any()


@given(span_lists(), st.sampled_from(SPAN_SCHEMES))
def test_encode_decode_round_trip(example: tuple[list[TagSpan], int], scheme: str) -> None:
    spans, length = example
    tags = encode(spans, length, scheme)
    assert len(tags) == length
    assert find_invalid(tags, scheme) is None
    assert decode_lenient(tags) == spans


LABELS = tags_of(TYPES, "BILUO")
SEQUENCES = st.lists(st.lists(st.integers(-1, len(LABELS) - 1), max_size=8), max_size=5)


def flatten(sequences: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    ids = np.array([i for sequence in sequences for i in sequence], dtype=np.int32)
    return ids, np.cumsum([0, *map(len, sequences)], dtype=np.int64)


def slow_spans(sequences: list[list[int]]) -> list[tuple[int, int, int, str]]:
    """Every span with its sequence number, counted over all tokens."""
    result, base = [], 0
    for n, sequence in enumerate(sequences):
        tags = ["O" if i < 0 else LABELS[i] for i in sequence]
        result += [(n, base + start, base + end, label) for start, end, label in decode_lenient(tags)]
        base += len(sequence)
    return result


@given(
    st.lists(st.sampled_from(["O", *(f"{p}-{t}" for p in "BILUESMW" for t in ("A", "B-x"))])),
    st.sampled_from(SPAN_SCHEMES),
)
def test_recoded_tags_are_those_of_the_spans(tags: list[str], scheme: str) -> None:
    assert recoded(tags, scheme) == encode(decode_lenient(tags), len(tags), scheme)


@given(SEQUENCES)
def test_arrays_agree_with_decode_lenient(sequences: list[list[int]]) -> None:
    table = TagTable(LABELS, "BILUO")
    spans = spans_of(*flatten(sequences), table)
    fast = [(n, start, end, table.types[kind]) for n, start, end, kind in zip(*spans, strict=True)]
    assert fast == slow_spans(sequences)
    assert all(column.dtype == np.int64 for column in spans)


@given(SEQUENCES, st.randoms(use_true_random=False))
def test_span_f1_agrees_with_sets(sequences: list[list[int]], random: Random) -> None:
    other = [[i if random.random() < 0.7 else -1 for i in sequence] for sequence in sequences]
    predicted, offsets = flatten(sequences)
    table = TagTable(LABELS, "BILUO")
    score = span_f1(predicted, flatten(other)[0], offsets, table)
    actual, wanted = set(slow_spans(sequences)), set(slow_spans(other))
    right = len(actual & wanted)
    counts = count_spans(predicted, flatten(other)[0], offsets, table)
    sets = actual & wanted, actual, wanted
    assert counts.tolist() == [[sum(span[-1] == kind for span in spans) for spans in sets] for kind in table.types]
    assert score == pytest.approx(
        (right / max(len(actual), 1), right / max(len(wanted), 1), 2 * right / max(len(actual) + len(wanted), 1))
    )


def test_a_span_of_another_type_is_not_right() -> None:
    table = TagTable(["O", "B-PER", "B-LOC"], "IOB2")
    score = span_f1(np.array([1, 0, 2]), np.array([1, 0, 1]), np.array([0, 3]), table)
    assert score == (0.5, 0.5, 0.5)


def test_tag_table_arrays() -> None:
    table = TagTable(["I-A", "O", "B-B"], "IOB2")
    prefix, kind = table.take(np.array([0, 1, 2, -1]))
    assert (prefix.tolist(), kind.tolist(), table.types) == ([2, 0, 1, 0], [0, -1, 1, -1], ["A", "B"])
    assert (prefix.dtype, kind.dtype) == (np.int8, np.int32)


@pytest.mark.parametrize(("ids", "offsets"), [([2], [0, 1]), ([-2], [0, 1]), ([0, 0], [0, 1]), ([0], [])])
def test_spans_of_refuses(ids: list[int], offsets: list[int]) -> None:
    with pytest.raises(DataError):
        spans_of(np.array(ids), np.array(offsets, dtype=np.int64), TagTable(["O", "B-A"], "IOB2"))


def test_may_follow_refuses_foreign_tags_on_both_sides() -> None:
    assert not may_follow("L-A", "O", "IOB2")
    assert not may_follow("O", "L-A", "IOB2")


def test_a_sequence_never_goes_on_with_the_span_of_the_one_before() -> None:
    table = TagTable(["O", "B-A", "I-A"], "IOB2")
    spans = spans_of(np.array([1, 2, 2], np.int32), np.array([0, 1, 3]), table)
    assert (spans.start.tolist(), spans.end.tolist()) == ([0, 1], [1, 3])


# --- counts of spans by label, and by whether they were seen --------------------------------------------------------


@st.composite
def lists_of_spans(draw):
    """Return spans that do not overlap, in the order of the text."""
    spans, at = [], 0
    for gap, size, label in draw(
        st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4), st.sampled_from("AB")), max_size=5)
    ):
        spans.append(TagSpan(at + gap, at + gap + size, label))
        at += gap + size
    return spans


@given(st.lists(st.tuples(lists_of_spans(), lists_of_spans()), max_size=4))
def test_counts_by_label(texts):
    counts = span_counts([gold for gold, _ in texts], [predicted for _, predicted in texts], "AB")
    for i, (gold, predicted) in enumerate(texts):
        for j, label in enumerate("AB"):
            of_gold, of_found = ([span for span in spans if span.label == label] for spans in (gold, predicted))
            right = sum(span in of_found for span in of_gold)
            assert counts[i, j].tolist() == [right, len(of_found), len(of_gold)]


def test_spans_are_counted_by_familiarity():
    familiarity = Familiarity.of([("Oslo", "LOC"), ("Oslo", "ORG"), ("Ada", "PER")], ["Bank", "of"])
    assert familiarity.status("Oslo", "ORG") == familiarity.status("Ada", "PER") == SEEN
    assert familiarity.status("Ada", "LOC") == OTHER
    assert familiarity.status("Bank of Oslo", "ORG") == NEW
    assert familiarity.status("Bank of Rome", "LOC") == UNSEEN
    words, gold, predicted = (
        [["Rome", "of", "Ada"]],
        [[TagSpan(0, 1, "LOC"), TagSpan(2, 3, "PER")]],
        [[TagSpan(2, 3, "PER")]],
    )
    assert familiarity.counts(words, gold, predicted).tolist() == [[[1, 1, 1], [0, 0, 0], [0, 0, 0], [0, 0, 1]]]


@pytest.mark.parametrize(
    ("labels", "types"),
    [
        (["O", "B-A", "I-A", "U-x-"], ["O", "A", "A", "x-"]),
        (["N-sg", "V-sg", "O"], ["N-sg", "V-sg", "O"]),
        (["B-sg", "L-sg"], ["B-sg", "L-sg"]),
        (["O", "B-", "B-A"], ["O", "B-", "B-A"]),
    ],
)
def test_only_tags_of_spans_have_types(labels: list[str], types: list[str]) -> None:
    assert types_in(labels) == types


@pytest.mark.parametrize(
    ("name", "scheme", "hint"),
    [
        ("PRE", "BILUO", "Did you mean 'PER'? Known: LOC, PER."),
        ("BOER", "BILUO", "Known: LOC, PER."),
        ("B-PRE", "BILUO", "Did you mean 'B-PER'? Known: LOC, PER."),
        ("B-PRE", "plain", "Did you mean 'B-PER'? Known: B-PER, O, U-LOC."),
    ],
)
def test_a_name_that_is_no_label_gets_a_list_of_labels_alone(name: str, scheme: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"no label {name!r}. {hint}")):
        named_tags([name], ["O", "B-PER", "U-LOC"], scheme, "here")
