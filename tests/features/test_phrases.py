"""Lists of phrases: the longest matches, whatever the tokenizer does, from every source."""

import json
import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import spacy
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.matcher import PhraseMatcher
from spacy.tokens import Doc

from spacy_crfseq import kernels
from spacy_crfseq.errors import ConfigError, CrfError
from spacy_crfseq.features import phrases as module
from spacy_crfseq.features.phrases import Phrases

NLP = spacy.blank("en")


def values(phrases: Phrases, *docs: Doc) -> list[set[str]]:
    """Return the values at each token."""
    strings: dict[int, str] = {}
    phrase_sets = phrases.read("X", docs, strings)["X"]
    assert phrase_sets.keys.tolist() == [
        sum(part) % 2**64 for part in _split(phrase_sets.values.tolist(), phrase_sets.ptr.tolist())
    ]
    return [
        {strings[value] for value in part} for part in _split(phrase_sets.values.tolist(), phrase_sets.ptr.tolist())
    ]


def _split(values: list[int], ptr: list[int]) -> list[list[int]]:
    return [values[a:b] for a, b in pairwise(ptr)]


def naive(lists: dict[str, list[str]], words: Sequence[str]) -> list[set[str]]:
    """Return the same by trying all phrases everywhere."""
    result: list[set[str]] = [set() for _ in words]
    for name, phrases in lists.items():
        t = 0
        while t < len(words):
            ends = [
                e
                for e in range(t + 1, len(words) + 1)
                for phrase in phrases
                if "".join(words[t:e]) == phrase.replace(" ", "") != "" and e - t >= len(phrase.split())
            ]
            end = max(ends, default=t)
            for i in range(t, end):
                place = "S" if end == t + 1 else "B" if i == t else "E" if i == end - 1 else "I"
                result[i].add(f"{name}-{place}")
            t = max(end, t + 1)
    return result


PHRASES = st.lists(st.text("ab ", min_size=1, max_size=5).map(str.strip), min_size=1, max_size=5)


@settings(deadline=None)
@given(st.fixed_dictionaries({"A": PHRASES, "B": PHRASES}), st.lists(st.text("ab", min_size=1, max_size=2), max_size=9))
def test_the_longest_match_of_each_list_counts(lists: dict[str, list[str]], words: list[str]) -> None:
    phrases = Phrases(lists={**lists, "C": ["zz"]})
    expected = naive(lists, words)
    assert values(phrases, Doc(NLP.vocab, words), Doc(NLP.vocab, words)) == expected * 2


@pytest.mark.parametrize(
    "words",
    [
        ["The", "U.S.", "and", "New", "York-based", "O'Neill"],
        ["The", "U.S", ".", "and", "New", "York", "-", "based", "O'", "Neill"],
        ["The", "U", ".", "S", ".", "and", "New", "York", "\n", "-based", "O", "'", "Neill"],
    ],
    ids=" ".join,
)
def test_tokenisation_does_not_matter(words: list[str]) -> None:
    result = values(Phrases(lists={"X": ["U.S.", "new york-based", "O'Neill", "a nd"]}), Doc(NLP.vocab, words))
    matched = "".join(word for word, there in zip(words, result, strict=True) if there)
    assert matched.replace("\n", "") == "U.S.NewYork-basedO'Neill"
    assert not values(Phrases(lists={"X": ["u.s."]}, lower=False), Doc(NLP.vocab, words))[1]


def test_sources_agree(tmp_path: Path) -> None:
    doc = NLP("Ada saw New York-based O'Neill in the U.S.")
    phrases = {"GPE": ["New York", "U.S."], "PER": ["Ada", "O'Neill"]}
    expected = values(Phrases(lists=phrases), doc)
    assert expected[2] == {"GPE-B"}
    assert sum(map(bool, expected)) == 5
    for name, texts in phrases.items():
        (tmp_path / f"{name}.txt").write_text("\n".join([*texts, "", ""]))
    (tmp_path / ".hidden").write_bytes(b"\xff")
    tokens = [{"LOWER": "new"}, {"TEXT": "York"}], [{"ORTH": "U.S."}]
    patterns: list[dict[str, Any]] = [{"label": "GPE", "pattern": pattern} for pattern in tokens]
    patterns += [{"label": "PER", "pattern": name} for name in phrases["PER"]]
    (tmp_path / "few").mkdir()
    (tmp_path / "few" / "all.jsonl").write_text("\n".join(map(json.dumps, patterns)))
    ruler = spacy.blank("en").add_pipe("entity_ruler")
    ruler.add_patterns(patterns)
    matcher = PhraseMatcher(NLP.vocab, attr="LOWER")
    for name, texts in phrases.items():
        matcher.add(name, [NLP(text) for text in texts])
    sources = [
        Phrases(path=str(tmp_path)),
        Phrases(path=[str(tmp_path / "few")]),
        Phrases(str(tmp_path / "GPE.txt"), {"PER": str(tmp_path / "PER.txt")}),
        Phrases.of(ruler),
        Phrases.of(matcher),
    ]
    assert [values(source, doc) for source in sources] == [expected] * len(sources)
    with pytest.raises(ConfigError, match="compares LOWER; with lower = False"):
        Phrases.of(matcher, lower=False)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"label": "A", "pattern": "x"}\n\n{"label": "A"', r"p\.jsonl:3: not JSON"),
        ('{"label": "A"}', r"p\.jsonl:1: the line is no pattern"),
        ('{"label": "A", "pattern": [{"LOWER": "x", "OP": "+"}]}', r"p\.jsonl:1: .* is more than a text"),
        ('{"label": "A", "pattern": [{"LOWER": {"IN": []}}]}', r"p\.jsonl:1: .* is more than a text"),
        ('{"label": "A", "pattern": [{"LOWER": "x"}]}', r"p\.jsonl:1: .* compares LOWER, but lower = false"),
        ("\n", r"no phrase in .*p\.jsonl"),
        (b"\xff", r"p\.jsonl:1: byte 0 of the file is not utf8"),
        (None, r"p\.jsonl: no such file"),
    ],
)
def test_bad_files(content: str | bytes | None, said: str, tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(CrfError, match=said):
        Phrases(path=str(path), lower=False).read("X", [NLP("x")])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "give path"),
        ({"lists": {"A": 1}}, "'A' must be"),
        ({"lists": ["x"]}, "a block of lists"),
        ({"path": 5}, "path must be"),
        ({"path": "x", "window": 17}, "from 0 to 16"),
    ],
)
def test_bad_settings(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Phrases(**given)


def test_threads_may_share_lists() -> None:
    texts = [" ".join(f"w{random.Random(i + j).randrange(3000)}" for j in range(200)) for i in range(40)]
    docs = [NLP(text) for text in texts]
    lists = {"X": [f"w{i}" for i in range(0, 3000, 3)]}
    expected = [values(Phrases(lists=lists), doc) for doc in docs]
    shared = Phrases(lists=lists)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda doc: values(shared, doc), docs)) == expected


def test_tables_are_small_and_checked() -> None:
    phrases = Phrases(lists={"X": [f"phrase number {i}" for i in range(5000)]})
    state = phrases.to_state()
    assert sum(state[name].nbytes for name in ("bits", "keys", "entries")) < 30 * 5000
    for broken in ({"keys": state["keys"][:1]}, {"names": []}, {"bits": state["bits"][:0]}):
        with pytest.raises(ValueError, match=r"wrong shapes|unknown lists"):
            Phrases(path="x").from_state({**state, **broken})


def test_hashes_of_words_are_forgotten_when_they_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WORDS", 4)
    phrases = Phrases(lists={"A": ["x y", "z"]})
    for number in range(9):
        assert values(phrases, Doc(NLP.vocab, [f"w{number}", "x", "y", "z"])) == [set(), {"A-B"}, {"A-E"}, {"A-S"}]
        assert phrases._index.size <= 4 + 4


def test_words_and_their_hashes_stay_in_step_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    phrases, doc = Phrases(lists={"A": ["x y"]}), Doc(NLP.vocab, ["a", "x", "y"])
    values(phrases, Doc(NLP.vocab, ["a"]))

    def fail(*_: Any) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(kernels.hashing, "hash_texts", fail)
        with pytest.raises(MemoryError):
            values(phrases, doc)
    assert values(phrases, doc) == [set(), {"A-B"}, {"A-E"}]
