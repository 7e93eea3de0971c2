"""The hash table against a dict, mixing against its definition, shifts against list arithmetic."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spacy_crfseq.features.index import HashIndex
from spacy_crfseq.kernels import hashing

KEYS = st.integers(0, 2**64 - 1) | st.integers(0, 5) | st.sampled_from([k << 40 for k in range(8)])
MASK = 2**64 - 1


def as_keys(values: list[int]) -> np.ndarray:
    return np.array(values, np.uint64)


def plain_mix(a: int, b: int) -> int:
    h = ((a ^ (b * 0x9E3779B97F4A7C15 & MASK)) + 0x2545F4914F6CDD1D) & MASK
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        h = (h ^ (h >> 33)) * factor & MASK
    h ^= h >> 33
    return h or 1


@given(KEYS, KEYS)
def test_mix(a: int, b: int) -> None:
    assert int(hashing.mix(np.uint64(a), np.uint64(b))) == plain_mix(a, b)


def mixed(seed: int, values: list[int]) -> int:
    """Return the key of these values, 0 where one is absent."""
    for value in values:
        seed = plain_mix(seed, value) if value and seed else 0
    return seed


def padded(values: list[int], lengths: list[int], pads: list[int], distance: int) -> list[int]:
    """Return the value `distance` tokens further on for every token; pads hold four before and four after."""
    result, first = [], 0
    for length in lengths:
        line = [*pads[3::-1], *values[first : first + length], *pads[4:]]
        result += [line[4 + t + distance] for t in range(length)]
        first += length
    return result


LENGTHS = st.lists(st.integers(0, 6), max_size=5)
DISTANCES = st.integers(-4, 4)


def offsets_of(lengths: list[int]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


@given(st.lists(st.tuples(KEYS, KEYS)), st.integers(1, 2**64 - 1))
def test_keys_of_values(values: list[tuple[int, int]], seed: int) -> None:
    keys = np.full(len(values), seed, np.uint64)
    for part in (0, 1):
        hashing.mix_values(as_keys([key[part] for key in values]), keys)
    assert keys.tolist() == [mixed(seed, list(key)) for key in values]


@given(LENGTHS, st.lists(DISTANCES, min_size=1, max_size=4), st.randoms())
def test_ids_of_words(lengths: list[int], distances: list[int], random) -> None:
    table = np.array([[random.choice([-2, -1, 5]) for _ in distances] for _ in range(13)], np.int32)
    words = [random.randrange(8, 13) for _ in range(sum(lengths))]
    columns = np.array([i // 2 if i % 2 else -1 - i // 2 for i in range(len(distances))], np.int64)
    bags, attrs = np.zeros((len(words), 2), np.int32), np.zeros((len(words), 2), np.int32)
    offsets = offsets_of(lengths)
    arguments = np.array(words, np.int32), offsets, np.array(distances, np.int64), 4, table, columns, bags, attrs
    n_unknown = hashing.lexeme_ids(*arguments, -2)
    expected = [
        [int(table[word, i]) for word in padded(words, lengths, list(range(8)), distance)]
        for i, distance in enumerate(distances)
    ]
    for i, column in enumerate(columns.tolist()):
        assert (bags[:, column] if column >= 0 else attrs[:, -1 - column]).tolist() == expected[i]
    assert n_unknown == sum(ids.count(-2) for ids in expected)


@given(st.lists(st.lists(KEYS, max_size=60), max_size=4), st.lists(KEYS, max_size=20))
def test_index_numbers_keys_as_a_dict_does(batches: list[list[int]], wanted: list[int]) -> None:
    index, numbers = HashIndex(), {}
    for batch in batches:
        before = dict(numbers)
        for key in batch:
            if key:
                numbers.setdefault(key, len(numbers))
        ids, new = index.add(as_keys(batch))
        assert ids.tolist() == [numbers.get(key, -1) for key in batch]
        first_seen = {key: batch.index(key) for key in batch if key and key not in before}
        assert np.flatnonzero(new).tolist() == sorted(first_seen.values())
    assert index.find(as_keys(wanted))[0].tolist() == [numbers.get(key, -1) for key in wanted]
    assert index.keys.tolist() == list(numbers)
    assert HashIndex(index.keys).keys.tolist() == list(numbers)


def test_index_grows_past_many_chunks() -> None:
    keys = np.random.default_rng(0).integers(1, 2**64, 200_000, np.uint64, endpoint=False)
    index, numbers = HashIndex(), np.arange(len(keys))
    ids, new = index.add(np.concatenate([keys, keys[::-1]]))
    assert (ids == np.concatenate([numbers, numbers[::-1]])).all()
    assert new.sum() == index.size == len(keys)


def test_look_up_counts_the_unknown() -> None:
    keys, slots, ids = as_keys([5, 9]), np.zeros(8, np.int32), np.empty(4, np.int32)
    hashing.rehash(2, keys, slots)
    assert hashing.look_up(as_keys([9, 0, 4, 5]), keys, slots, ids) == 1
    assert ids.tolist() == [1, -1, -1, 0]


@given(LENGTHS, DISTANCES)
def test_shift(lengths: list[int], distance: int) -> None:
    offsets = offsets_of(lengths)
    values = np.arange(100, 100 + offsets[-1], dtype=np.int32)
    ids = np.empty_like(values)
    hashing.shift(values, offsets, distance, 4, ids)
    assert ids.tolist() == padded(values.tolist(), lengths, list(range(8)), distance)
