"""Words that a source may not know."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import spacy

from spacy_crfseq.pipeline.soft_labels import read_soft_labels
from spacy_crfseq.tools.aggregate.source_settings import parse_source
from spacy_crfseq.tools.aggregate.texts import aggregate
from spacy_crfseq.tools.aggregate.unsure import unsure_tokens

TEXTS = (
    "the man met Ada in Rome",
    "The man saw Bob in Rome",
    "a man saw Sir Bob",
    "so the met Zoe",
)
SPANS = {(0, 3), (0, 5), (1, 3), (1, 5), (2, 4)}
"""Text and token of the spans of the source, each of one token."""


@pytest.fixture
def unsure() -> dict[tuple[int, int], bool]:
    words = [text.split() for text in TEXTS]
    offsets = np.cumsum([0, *map(len, words)])
    places = [(i, j) for i, text in enumerate(words) for j in range(len(text))]
    inside = np.array([place in SPANS for place in places])
    result = unsure_tokens([word for text in words for word in text], inside, inside, offsets)
    return dict(zip(places, result.tolist(), strict=True))


def test_an_unlabelled_word_written_like_labelled_words_is_unsure(unsure: dict[tuple[int, int], bool]) -> None:
    assert unsure[3, 3]  # Zoe
    assert unsure[2, 3]  # Sir


def test_a_span_beside_an_unsure_word_is_unsure(unsure: dict[tuple[int, int], bool]) -> None:
    assert unsure[2, 4]  # Bob, of Sir Bob
    assert not any(unsure[place] for place in SPANS - {(2, 4)})


def test_words_of_rarely_labelled_shapes_are_outside_also_where_a_text_begins(
    unsure: dict[tuple[int, int], bool],
) -> None:
    assert [place for place, is_unsure in unsure.items() if is_unsure] == [(2, 3), (2, 4), (3, 3)]


def test_a_word_that_the_source_mostly_labels_is_outside_elsewhere() -> None:
    words, places, rome = ["Rome", "fell"] * 10, np.arange(21), np.array([True, False] * 10)
    inside = rome.copy()
    inside[0] = False
    assert not unsure_tokens(words, inside, inside, places).any()
    inside[8:] = False
    assert unsure_tokens(words, inside, inside, places).tolist() == (rome & ~inside).tolist()


def test_a_shape_that_most_words_have_says_nothing() -> None:
    """Without capitals, unlabelled words are not taken for names, however many spans there are."""
    lower = [word.lower() for text in TEXTS for word in text.split()]
    inside = np.arange(len(lower)) % 3 == 0
    assert not unsure_tokens(lower, inside, inside, np.arange(len(lower) + 1)).any()


def test_no_texts_have_no_unsure_words() -> None:
    nothing = np.zeros(0, np.bool_)
    assert not len(unsure_tokens([], nothing, nothing, np.zeros(1, np.int64)))


def test_aggregate_leaves_words_unknown_of_which_only_an_unsure_source_could_speak(tmp_path: Path) -> None:
    lines = ("Ada B-PER\nsaw O\nBob B-PER\n", "Zoe O\nsaw O\nAda B-PER\n")
    texts = tmp_path / "texts.iob"
    texts.write_text("\n".join([lines[0]] * 4 + [lines[1]]), encoding="utf8")
    result = aggregate(spacy.blank("en"), texts, {"kb": parse_source(f"{texts},outside=unsure")})
    assert [token.ent_iob_ for token in result.docs[-1]] == ["", "O", "B"]
    assert 0 not in read_soft_labels(result.docs[-1], "crf_ner")
    aggregated = aggregate(spacy.blank("en"), texts, {"kb": parse_source(str(texts))})
    assert aggregated.docs[-1][0].ent_iob_ != ""


@pytest.mark.parametrize(("missed", "warned"), [(2, True), (60, False)], ids=["few", "many"])
def test_a_source_that_seems_to_miss_few_spans_is_warned_of(
    tmp_path: Path, recwarn: pytest.WarningsRecorder, missed: int, warned: bool
) -> None:
    names = [f"Na{'m' * (number % 9)}{chr(97 + number % 26)}e" for number in range(160)]
    lines = [f"the O\nman O\nmet O\n{name} {'O' if n < missed else 'B-PER'}\n" for n, name in enumerate(names)]
    texts = tmp_path / "texts.iob"
    texts.write_text("\n".join(lines), encoding="utf8")
    aggregate(spacy.blank("en"), texts, {"kb": parse_source(f"{texts},outside=unsure")})
    messages = [str(warning.message) for warning in recwarn if "outside=unsure is for" in str(warning.message)]
    assert len(messages) == warned
    assert (
        not warned or f"{texts}: outside=unsure is for sources that miss many spans. This one labels 9" in messages[0]
    )
