"""The encoder against the readable extraction of `tests.reference`."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_crfseq.features.attributes import BUILT_IN, TOKEN_COLUMNS
from spacy_crfseq.features.encoded import Encoded, Ids, Renumbering, concatenate, take_sequences
from spacy_crfseq.features.encoder import CollectedFeatures, FrozenEncoder
from spacy_crfseq.features.index import Growable, Packed
from spacy_crfseq.features.templates import Plan, make_plan, parse
from spacy_crfseq.potentials import layout
from spacy_crfseq.potentials.layout import make_layout
from tests import reference
from tests.problems import (
    BIGRAM_TEMPLATES,
    TEMPLATES,
    Sentence,
    Vocabulary,
    all_allowed,
    columns_of,
    frozen_encoder,
    growing_encoder,
    ids_of_tokens,
    random_sentences,
    training_problem,
)

WORDS = st.text(alphabet="abAB1-.é", min_size=1, max_size=4)
SENTENCES = st.lists(
    st.lists(st.tuples(WORDS, st.sampled_from(["N", "V", ""])), max_size=5).map(
        lambda pairs: Sentence(tuple(word for word, _ in pairs), tuple(tag for _, tag in pairs))
    ),
    max_size=4,
)
PARTS = st.builds("{}[{}]".format, st.sampled_from([*reference.TEXT_VALUES, "TAG", "POS"]), st.integers(-3, 3))
TEMPLATE_LISTS = st.lists(
    st.lists(PARTS, min_size=1, max_size=3).map("|".join) | st.sampled_from(["LOWER[-1..1]", "TAG[-2..0]"]), max_size=8
)


def names_of_tokens(features: CollectedFeatures, ids: Ids, vocabulary: Vocabulary) -> list[list[str]]:
    names = features.names(vocabulary.text_of)
    assert len(names) == len(set(names)) == len(features.keys)
    return [sorted(names[a] for a in token) for token in ids_of_tokens(ids)]


def expected_names(sentences: Sequence[Sentence], templates: Sequence[str]) -> list[list[str]]:
    columns = [{"TAG": sentence.tags, "POS": sentence.tags} for sentence in sentences]
    sets = [reference.attribute_sets(s.words, tags, templates) for s, tags in zip(sentences, columns, strict=True)]
    return [sorted(names) for sentence in sets for names in sentence]


class Frozen(NamedTuple):
    """The encoder that a growing one has become, with some of its features."""

    vocabulary: Vocabulary
    features: tuple[CollectedFeatures, CollectedFeatures]
    encoder: FrozenEncoder
    renumbered: Renumbering

    def encode(self, sentences: Sequence[Sentence]) -> Encoded:
        return self.encoder.encode(columns_of(self.vocabulary, self.encoder, sentences))

    def state_names(self, encoded: Encoded) -> list[list[str]]:
        return names_of_tokens(self.features[0], encoded.unigrams, self.vocabulary)


class Growing:
    """A growing encoder, and the vocabulary behind it."""

    def __init__(self, templates: Sequence[str], bigram_templates: Sequence[str] = ()) -> None:
        self.vocabulary = Vocabulary()
        self.encoder = growing_encoder(self.vocabulary, templates, bigram_templates)

    def encode(self, sentences: Sequence[Sentence]) -> Encoded:
        return self.encoder.encode(columns_of(self.vocabulary, self.encoder, sentences))

    def state_names(self, encoded: Encoded) -> list[list[str]]:
        return names_of_tokens(self.encoder.features[0], encoded.unigrams, self.vocabulary)

    def frozen(self, features: tuple[CollectedFeatures, CollectedFeatures] | None = None) -> Frozen:
        features = features or self.encoder.features
        return Frozen(self.vocabulary, features, *self.encoder.frozen((features[0].keys, features[1].keys)))


@given(SENTENCES, TEMPLATE_LISTS, TEMPLATE_LISTS)
def test_attributes_equal_the_readable_extraction(
    sentences: list[Sentence], templates: list[str], bigram_templates: list[str]
) -> None:
    growing = Growing(templates, bigram_templates)
    encoded = growing.encode(sentences)
    assert growing.state_names(encoded) == expected_names(sentences, templates)
    pairs = names_of_tokens(growing.encoder.features[1], encoded.bigrams, growing.vocabulary)
    assert pairs == expected_names(sentences, bigram_templates)
    assert np.diff(encoded.offsets).tolist() == [len(sentence.words) for sentence in sentences]


@given(SENTENCES, SENTENCES, TEMPLATE_LISTS, st.integers(1, 3))
def test_rare_attributes_are_dropped_and_unknown_ones_ignored(
    seen: list[Sentence], others: list[Sentence], templates: list[str], min_count: int
) -> None:
    growing = Growing(templates)
    encoded = growing.encode(seen)
    frozen = growing.frozen(growing.encoder.frequent([encoded], min_count))
    expected = expected_names(seen, templates)
    counts = Counter(name for names in expected for name in names)
    kept = {name for name, count in counts.items() if count >= min_count}
    features = frozen.features[0]
    names = features.names(growing.vocabulary.text_of)
    assert set(names) == kept
    assert [features.plan.templates[n].name for n in features.templates] == [name.partition("=")[0] for name in names]
    renumbered = frozen.renumbered(encoded)
    assert frozen.state_names(renumbered) == [[name for name in names if name in kept] for names in expected]
    assert growing.state_names(encoded) == expected  # which has not changed
    for sentences in (others, seen):
        frequent = [[name for name in token if name in kept] for token in expected_names(sentences, templates)]
        assert frozen.state_names(further := frozen.encode(sentences)) == frequent
    assert frozen.state_names(concatenate([renumbered, further]))[: len(expected)] == frozen.state_names(renumbered)


@given(SENTENCES, SENTENCES, TEMPLATE_LISTS, st.integers(1, 2))
def test_a_growing_encoder_goes_on_beside_the_frozen_ones_made_of_it(
    seen: list[Sentence], others: list[Sentence], templates: list[str], min_count: int
) -> None:
    growing, whole = Growing(templates, templates), Growing(templates, templates)
    encoded = growing.encode(seen)
    frozen = growing.frozen(growing.encoder.frequent([encoded], min_count))
    frozen.encode(others)  # drops features, which the growing one is still to collect
    growing.encode(others)
    assert growing.state_names(growing.encode(others)) == expected_names(others, templates)
    whole.encode(seen), whole.encode(others)
    assert [features.keys.tolist() for features in growing.encoder.features] == [
        features.keys.tolist() for features in whole.encoder.features
    ]
    names = set(frozen.features[0].names(growing.vocabulary.text_of))
    frozen_names = [[name for name in token if name in names] for token in expected_names(others, templates)]
    assert frozen.state_names(frozen.encode(others)) == frozen_names


def test_every_token_of_a_word_counts_and_the_first_feature_stays() -> None:
    growing = Growing(["LOWER[0]", "BRIEF_SHAPE[0]"])
    encoded = growing.encode([Sentence(("a", "a", "b"), ("", "", ""))])
    assert growing.encoder.features[0].names(growing.vocabulary.text_of)[0] == "LOWER[0]=a"
    frozen = growing.frozen(growing.encoder.frequent([encoded], 2))
    assert frozen.state_names(frozen.renumbered(encoded)) == [["BRIEF_SHAPE[0]=x", "LOWER[0]=a"]] * 2 + [
        ["BRIEF_SHAPE[0]=x"]
    ]


@pytest.mark.parametrize("tags", [("N", ""), ("", "V"), ("N", "V"), ("", "")])
def test_a_column_that_is_not_set_hides_no_other(tags: tuple[str, str]) -> None:
    names = ["TAG[-1]|TAG[0]", "TAG[-1]", "TAG[0]"]
    growing, sentences = Growing(names), [Sentence(("a", "b"), tags)]
    assert [len(slot.templates) for slot in growing.encoder.unigrams.plan.column_slots] == [3]
    assert growing.state_names(growing.encode(sentences)) == expected_names(sentences, names)


def test_features_get_the_ids_of_their_keys() -> None:
    growing, words = Growing(["LOWER[0]", "SUFFIX2[0]"]), [Sentence((word,), ("",)) for word in ("ab", "cd")]
    encoded = growing.encode(words)
    keys = growing.encoder.keys
    frozen, renumbered = growing.encoder.frozen((keys[0][[1, 0, 3, 2]], keys[1]))  # the second word, then the first
    assert ids_of_tokens(encoded.unigrams) == [[0, 2], [1, 3]]
    for text in (renumbered(encoded), frozen.encode(columns_of(growing.vocabulary, frozen, words))):
        assert ids_of_tokens(text.unigrams) == [[1, 3], [0, 2]]


def test_texts_of_different_caches_cannot_be_joined() -> None:
    sentences = [Sentence(("a",), ("",))]
    parts = [Growing(["LOWER[0]", "BRIEF_SHAPE[0]"]).encode(sentences) for _ in range(2)]
    with pytest.raises(ValueError, match="one encoder with the same caches"):
        concatenate(parts)


def test_words_and_their_values_stay_in_step_when_a_function_fails() -> None:
    growing, whole = Growing(["LOWER[0]", "BRIEF_SHAPE[0]"]), Growing(["LOWER[0]", "BRIEF_SHAPE[0]"])
    first, second = [Sentence(("ab",), ("",))], [Sentence(("C", "ab", "d"), ("", "", ""))]
    growing.encode(first)
    read = growing.encoder._lexicon._values_of

    def fail(orths: Sequence[int]) -> np.ndarray:
        raise KeyError(orths[0])

    growing.encoder._lexicon._values_of = fail
    with pytest.raises(KeyError):
        growing.encode(second)
    growing.encoder._lexicon._values_of = read
    assert growing.state_names(growing.encode(second)) == expected_names(second, ["LOWER[0]", "BRIEF_SHAPE[0]"])
    whole.encode(first)
    assert growing.encoder.unigrams.index.size == (whole.encode(second), whole.encoder.unigrams.index.size)[1]


@given(SENTENCES, TEMPLATE_LISTS)
def test_a_stored_encoder_gives_the_same_ids(sentences: list[Sentence], templates: list[str]) -> None:
    growing = Growing(templates, ["TAG[0]"])
    encoded = growing.encode(sentences)
    again = frozen_encoder(growing.vocabulary, templates, ["TAG[0]"], growing.encoder.keys)
    encoded_again = again.encode(columns_of(growing.vocabulary, again, sentences))
    assert ids_of_tokens(encoded_again.unigrams) == ids_of_tokens(encoded.unigrams)
    assert ids_of_tokens(encoded_again.bigrams) == ids_of_tokens(encoded.bigrams)


@given(SENTENCES, TEMPLATE_LISTS, st.randoms(use_true_random=False))
def test_keys_do_not_depend_on_the_order_of_templates(sentences: list[Sentence], templates: list[str], random) -> None:
    keys = []
    for _ in range(2):
        growing = Growing(templates)
        growing.encode(sentences)
        features = growing.encoder.features[0]
        keys.append(dict(zip(features.names(growing.vocabulary.text_of), features.keys.tolist(), strict=True)))
        templates = random.sample(templates, len(templates))
    assert keys[0] == keys[1]


@given(SENTENCES, SENTENCES, TEMPLATE_LISTS)
def test_parts_can_be_encoded_one_after_another(
    first: list[Sentence], second: list[Sentence], templates: list[str]
) -> None:
    whole, parts = Growing(templates, templates), Growing(templates, templates)
    together = whole.encode(first + second)
    joined = concatenate([parts.encode(first), parts.encode(second)])
    assert joined.offsets.tolist() == together.offsets.tolist()
    assert parts.state_names(joined) == whole.state_names(together)
    assert names_of_tokens(parts.encoder.features[1], joined.bigrams, parts.vocabulary) == names_of_tokens(
        whole.encoder.features[1], together.bigrams, whole.vocabulary
    )


@given(SENTENCES, st.data())
def test_sequences_can_be_taken_in_any_order(sentences: list[Sentence], data: st.DataObject) -> None:
    encoded = Growing(TEMPLATES, BIGRAM_TEMPLATES).encode(sentences)
    chosen = data.draw(st.lists(st.integers(0, len(sentences) - 1), max_size=5)) if sentences else []
    taken, tokens = take_sequences(encoded, np.array(chosen, np.int64))
    expected = [t for n in chosen for t in range(encoded.offsets[n], encoded.offsets[n + 1])]
    assert tokens.tolist() == expected
    assert np.diff(taken.offsets).tolist() == [len(sentences[n].words) for n in chosen]
    for whole, part in ((encoded.unigrams, taken.unigrams), (encoded.bigrams, taken.bigrams)):
        all_ids = ids_of_tokens(whole)
        assert ids_of_tokens(part) == [all_ids[t] for t in expected]


def test_a_word_that_looks_like_padding_is_not_padding() -> None:
    first, second = ids_of_tokens(Growing(["ORTH[-1]"]).encode([Sentence(("_B-1", "x"), ("", ""))]).unigrams)
    assert first != second


def test_min_count_where_nothing_was_ever_seen() -> None:
    growing = Growing(["HAS_DIGIT[0]", "TAG[0]"])
    encoded = growing.encode([Sentence(("a", "b"), ("", ""))])
    frozen = growing.frozen(growing.encoder.frequent([encoded], 2))
    assert ids_of_tokens(frozen.renumbered(encoded).unigrams) == [[], []]
    assert len(frozen.features[0].keys) == 0


@pytest.mark.parametrize("bigram_templates", [(), BIGRAM_TEMPLATES])
def test_a_small_cache_changes_no_score(bigram_templates: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    training = training_problem(n_sequences=20, bigram_templates=bigram_templates)
    encoder = frozen_encoder(training.vocabulary, TEMPLATES, bigram_templates, training.encoder.keys)
    model = training.model(training.random_theta(np.random.default_rng(1)))
    text = random_sentences(np.random.default_rng(2), 30)

    def emissions() -> np.ndarray:
        parts = (encoder.encode(columns_of(training.vocabulary, encoder, [sentence])) for sentence in text)
        scores = [model.posterior(part, all_allowed(len(model.labels))).source.scores((0, 1)) for part in parts]
        return np.concatenate([np.append(scored.emissions.ravel(), scored.transitions.ravel()) for scored in scores])

    expected = emissions()
    store = encoder.unigrams.tables.store
    monkeypatch.setattr(FrozenEncoder, "MAX_CACHED", 5)
    np.testing.assert_array_equal(emissions(), expected)
    assert encoder.unigrams.tables.store is not store  # the bound was met


def test_texts_of_encoders_for_training_share_a_store_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """The layout of a model is made from it."""
    monkeypatch.setattr(FrozenEncoder, "MAX_CACHED", 1)
    growing = Growing(TEMPLATES)
    sentences = random_sentences(np.random.default_rng(0), 5)
    frozen = growing.frozen()
    for encode in (growing.encode, frozen.encode):
        parts = [encode([sentence]) for sentence in sentences]
        assert len({id(part.unigrams.store) for part in parts}) == 1
    whole = concatenate([growing.encode([sentence]) for sentence in sentences])
    sizes = growing.encoder.unigrams.index.size, growing.encoder.bigrams.index.size
    gold = np.zeros(whole.n_tokens, np.int32)
    observed = make_layout(whole, gold, 2, sizes, support="observed", boundaries=True)
    assert observed.unigrams.n_rows == sizes[0]
    for many, as_many in ((2 * sizes[0], 2 * sizes[0]), (2 * sizes[0] - 1, observed.unigrams.size)):
        monkeypatch.setattr(layout, "MANY_WEIGHTS", many)
        assert make_layout(whole, gold, 2, sizes, support="auto", boundaries=True).unigrams.size == as_many


# --- arrays that grow or are packed: what was put in stays, whoever is looking --------------------------------------


def test_growing_keeps_what_is_there() -> None:
    rows, expected = Growable(np.int32, 3), np.arange(30_000, dtype=np.int32).reshape(-1, 3)
    for part in np.array_split(expected, 77):
        rows.append(part)
    np.testing.assert_array_equal(rows.array, expected)
    assert rows.resize(10_002, -2)[10_000:].tolist() == [[-2] * 3] * 2
    rows.trim()
    assert len(rows.reserve(0)) == rows.size == 10_002
    np.testing.assert_array_equal(rows.array[:10_000], expected)


def test_a_view_outlives_growth_and_trimming() -> None:
    numbers = Growable(np.int64)
    numbers.append(np.arange(10))
    view = numbers.array
    numbers.append(np.arange(100_000))
    second = numbers.array
    numbers.trim()
    assert view.tolist() == list(range(10))
    np.testing.assert_array_equal(second, numbers.array)


@given(st.lists(st.lists(st.tuples(st.integers(-1, 300), st.integers(-1, 2**31 - 2)), max_size=4), max_size=4))
def test_packed_rows_are_what_was_appended(parts: list[list[tuple[int, int]]]) -> None:
    rows = np.array([row for part in parts for row in part], np.int32).reshape(-1, 2)
    packed = Packed(2)
    for part in parts:
        packed.append(np.array(part, np.int32).reshape(-1, 2))
    np.testing.assert_array_equal(packed[:], rows)
    order = np.random.default_rng(0).permutation(len(rows))
    np.testing.assert_array_equal(packed[order], rows[order])
    other = packed.copy()
    other.append(rows)
    np.testing.assert_array_equal(packed[:], rows)
    np.testing.assert_array_equal(other[:], np.concatenate([rows, rows]))


def test_small_numbers_take_one_byte() -> None:
    packed = Packed(3)
    packed.append(np.array([[-1, 254, 255], [0, 1, 65_534]], np.int32))
    assert packed.bytes.array.shape == (2, 4)


# --- slots of a plan: every template in exactly one, and in the right kind ------------------------------------------


PARTS_OF_PLAN = st.builds(
    "{}[{}]".format, st.sampled_from(["LOWER", "SHAPE", "IS_TITLE", "TAG", "POS"]), st.integers(-2, 2)
)
TEMPLATES_OF_PLAN = st.lists(st.lists(PARTS_OF_PLAN, min_size=1, max_size=3).map("|".join), max_size=12)


def plan_of(texts: list[str]) -> Plan:
    return make_plan(parse(texts, BUILT_IN))


@given(TEMPLATES_OF_PLAN)
def test_every_template_is_in_exactly_one_slot_of_its_kind(texts: list[str]) -> None:
    plan = plan_of(texts)
    placed = Counter(n for slot in (*plan.lexeme_slots, *plan.column_slots) for n in slot.templates)
    placed += Counter(plan.single_slots)
    assert placed == Counter(range(len(plan.templates)))
    assert plan.templates == tuple(parse(texts, BUILT_IN))
    offsets = [slot.key for slot in plan.lexeme_slots]
    assert len(offsets) == len(set(offsets))
    for slot in plan.lexeme_slots:
        for n in slot.templates:
            assert {part.offset for part in plan.templates[n].parts} == {slot.key}
            assert not {part.attribute for part in plan.templates[n].parts} & set(TOKEN_COLUMNS)
    for slot in plan.column_slots:
        assert slot.key in slot.templates
        assert len(slot.templates) > 1
        key = plan.templates[slot.key].parts
        assert {part.attribute for part in key} <= set(TOKEN_COLUMNS)
        assert all(set(plan.templates[n].parts) <= set(key) for n in slot.templates)
    used = {part.attribute for template in plan.templates for part in template.parts}
    assert {*plan.columns, *plan.lexical} == used
    assert set(plan.columns) <= set(TOKEN_COLUMNS)
    assert not set(plan.lexical) & set(TOKEN_COLUMNS)
    assert plan.width == max([1, *(abs(part.offset) for template in plan.templates for part in template.parts)])


def test_a_chunker_has_few_slots() -> None:
    plan = plan_of(["LOWER[-2..2]", "TAG[-2..2]", "TAG[-1]|TAG[0]", "TAG[-2]|TAG[-1]|TAG[0]", "LOWER[-1]|LOWER[0]"])
    assert [len(slot.templates) for slot in plan.lexeme_slots] == [1] * 5
    assert [len(slot.templates) for slot in plan.column_slots] == [5]  # the trigram, its bigram and its three tags
    assert {plan.templates[number].name for number in plan.single_slots} == {
        "TAG[1]", "TAG[2]", "LOWER[-1]|LOWER[0]",
    }  # fmt: skip
