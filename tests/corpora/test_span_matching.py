"""Spans that come as texts without positions: where they are put, and what is said of those that have no place."""

import json
from pathlib import Path
from typing import Any

import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st

from spacy_crfseq.corpora.spans import Notes, SpanRules, read_annotations
from spacy_crfseq.corpora.spans.matching import match_spans
from spacy_crfseq.corpora.spans.records import NOWHERE, CharSpan
from spacy_crfseq.errors import FormatError
from spacy_crfseq.pipeline.corpus_reader import tokenizer_of
from spacy_crfseq.pipeline.readers import create_annotation_reader

TOKENIZE = tokenizer_of(spacy.blank("xx"))
TWICE = "Paris met Bo in Paris, not in New Paris."


def mention(text: str, label: str = "X") -> CharSpan:
    return CharSpan(NOWHERE, NOWHERE, label, text)


def places(text: str, mode: str, *phrases: str) -> tuple[list[tuple[int, int]], list[str]]:
    matches = match_spans(text, [mention(phrase) for phrase in phrases], mode)
    assert all(text[span.start : span.end] == span.text for span in matches.spans)
    return sorted((span.start, span.end) for span in matches.spans), [reason for _, reason in matches.unmatched]


@pytest.mark.parametrize(
    ("text", "phrase", "place"),
    [
        ("Ada met Bo", " Ada\n", "Ada"),
        ("Ada met Bo", "ADA", "Ada"),
        ("in Besançon, where", "Besancon", "Besançon"),
        ("in Besanc\u0327on, where", "Besançon", "Besanc\u0327on"),
        ("at Caffe\u0301 Roma", "Caffè", "Caffe\u0301"),
        ("the \u201cNew\n  York\u201d of", '"New York"', "\u201cNew\n  York\u201d"),
        ("O\u2019Neill came", "O'Neill", "O\u2019Neill"),
        ("O\u00b4Neill came", "O'Neill", "O\u00b4Neill"),
        ("Jean\u2011Luc came", "Jean-Luc", "Jean\u2011Luc"),
        ("Straße", "STRASSE", "Straße"),
        ("他在北京工作", "北京", "北京"),
        ("Mon\u00adtreal is", "Montreal", "Mon\u00adtreal"),
        ("to sail or Sail", "Sail", "Sail"),
    ],
)
def test_a_phrase_is_found_however_it_is_written(text: str, phrase: str, place: str) -> None:
    start = text.index(place)
    assert places(text, "all", phrase) == ([(start, start + len(place))], [])


@pytest.mark.parametrize(
    ("mode", "phrases", "matches", "reasons"),
    [
        ("all", ["Paris"], [(0, 5), (16, 21), (34, 39)], []),
        ("all", ["Paris", "New Paris"], [(0, 5), (16, 21), (30, 39)], []),
        ("all", ["Paris", "Paris"], [(0, 5), (16, 21), (34, 39)], []),
        ("all", ["New", "New Paris"], [(30, 39)], ["only within a longer span"]),
        ("first", ["Paris", "Bo"], [(0, 5), (10, 12)], []),
        ("first", ["Bo", "Paris", "Paris"], [(0, 5), (10, 12), (16, 21)], []),
        ("first", ["Bo", "Bo"], [(10, 12)], ["given more often than it is in the text"]),
        ("order", ["Bo", "Paris"], [(10, 12), (16, 21)], []),
        ("order", ["New Paris", "Bo"], [(30, 39)], ["only before the end of the span before it"]),
        ("order", ["Eve", "Paris"], [(0, 5)], ["not in the text of the record"]),
        *(
            (mode, ["Par", ""], [], ["only inside of words", "not in the text of the record"])
            for mode in ("all", "first", "order")
        ),
    ],
)
def test_modes_choose_among_occurrences(
    mode: str, phrases: list[str], matches: list[tuple[int, int]], reasons: list[str]
) -> None:
    assert places(TWICE, mode, *phrases) == (matches, reasons)


@given(st.text("aÄß \u0301\u00ad-'B", max_size=12), st.lists(st.text("aÄß \u0301\u00ad-'B", max_size=4), max_size=4))
def test_every_mention_has_a_place_or_a_reason(text: str, phrases: list[str]) -> None:
    mentions = [mention(phrase, str(number)) for number, phrase in enumerate(phrases)]
    for mode in ("all", "first", "order"):
        result = match_spans(text, mentions, mode)
        assert all(0 <= span.start < span.end <= len(text) for span in result.spans)
        with_place, without = {span.label for span in result.spans}, {span.label for span, _ in result.unmatched}
        assert not with_place & without
        assert with_place | without == {span.label for span in mentions}


def test_of_one_text_with_two_labels_nothing_is_known_unless_the_order_tells_them_apart(tmp_path: Path) -> None:
    spans = [{"text": "Paris", "label": "PER"}, {"text": "Paris", "label": "LOC"}]
    tags = {mode: tags_of(tmp_path, "Paris met Paris", spans, mode) for mode in ("all", "order", "first")}
    assert tags == {"all": "- O -", "order": "B-PER O B-LOC", "first": "B-PER O B-LOC"}


def tags_of(folder: Path, text: str, spans: Any, mode: str) -> str:
    path = folder / "a.jsonl"
    path.write_text(json.dumps({"text": text, "entities": spans}))
    (sentence,) = read_annotations(path, TOKENIZE, Notes(), rules=SpanRules(match=mode))
    return " ".join(sentence.columns["ent"])


@pytest.mark.parametrize(
    "spans",
    [
        [{"text": "Bo", "label": "PER"}, {"start": 0, "end": 3, "label": "PER"}],
        [{"entity": "Bo", "type": "PER"}, {"name": "ada", "label": "PER"}],
        [{"word": "Bo", "entity_group": "PER", "score": 0.9, "start": None}, {"mention": "Ada", "tag": "PER"}],
        {"PER": ["Ada", "Bo"], "LOC": []},
    ],
)
def test_records_of_all_kinds_may_have_texts_alone(spans: Any, tmp_path: Path) -> None:
    assert tags_of(tmp_path, "Ada met Bo", spans, "all") == "B-PER O B-PER"


def test_characters_above_u_ffff_do_not_move_a_text(tmp_path: Path) -> None:
    assert tags_of(tmp_path, "\U0001f600 Ada met Bo", [{"text": "Bo", "label": "PER"}], "first") == "O O O B-PER"


def test_a_reader_warns_of_texts_without_a_place_by_reason(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"text": "Ada met Bo", "entities": {"PER": ["Ada", "Eve", "Ad"]}}))
    with pytest.warns(
        UserWarning, match="2 spans left out that came as a text: 1 not in the text of the record, 1 only inside"
    ):
        (example,) = create_annotation_reader(path, match="all")(spacy.blank("xx"))
    assert [ent.text for ent in example.reference.ents] == ["Ada"]


def test_a_file_of_which_most_texts_have_no_place_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text((json.dumps({"text": "Ada met Bo", "entities": {"PER": ["Eve", "Ada"]}}) + "\n") * 3)
    assert len(list(read_annotations(path, TOKENIZE, rules=SpanRules(match="all")))) == 3
    path.write_text((json.dumps({"text": "Ada met Bo", "entities": {"PER": ["Eve"]}}) + "\n") * 11)
    with pytest.raises(
        FormatError, match="11 of 11 spans that came as texts have no place, such as line 1: 'Eve' is not"
    ):
        list(read_annotations(path, TOKENIZE, rules=SpanRules(match="all")))
