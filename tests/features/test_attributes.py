"""Attribute plug-ins: what they add to a feature set, and what they may not."""

import gzip
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import Doc

from spacy_crfseq.corpora.word_classes import read_classes, read_lookups
from spacy_crfseq.errors import ConfigError, FormatError, ModelFileError
from spacy_crfseq.features import word_classes
from spacy_crfseq.features.documents import DocumentWords
from spacy_crfseq.features.sets import FeatureSet
from spacy_crfseq.features.token_sets import TokenSets, make_token_sets
from spacy_crfseq.features.word_classes import ClassTable, WordClasses
from spacy_crfseq.pipeline.prediction import read_docs, with_docs
from tests.pipeline.helpers import blank, examples, pipe_of


class Classes:
    """A word attribute with data to be stored."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.known = {"rome": "city"}

    def templates(self, block: str) -> Sequence[str]:
        return [f"{self.name or block}[-1..1]"]

    def functions(self, block: str) -> Mapping[str, Callable[[str], str | None]]:
        return {self.name or block: lambda text: self.known.get(text.lower())}

    def to_state(self) -> Any:
        return self.known

    def from_state(self, state: Any) -> None:
        self.known = dict(state)


class Places:
    """A Doc attribute: the position of a token in its Doc; `n_short` values are missing."""

    def __init__(self, n_short: int = 0) -> None:
        self.n_short = n_short

    def templates(self, block: str) -> Sequence[str]:
        return [f"{block}[0]"]

    def names(self, block: str) -> Sequence[str]:
        return [block]

    def read(self, block: str, docs: Sequence[Any], strings: Any = None) -> Mapping[str, TokenSets]:
        values = [token.i + 100 for doc in docs for token in doc][self.n_short :]
        return {block: make_token_sets([1] * len(values), values)}


def test_attributes_are_added_to_a_feature_set() -> None:
    result = FeatureSet(("LOWER[0]",)).with_attributes({"city": Classes(), "place": Places()})
    assert result.templates == ("LOWER[0]", "CITY[-1..1]", "PLACE[0]")
    assert result.functions["CITY"]("Rome") == "city"
    assert [len(plan.templates) for plan in result.plans()] == [5, 0]
    assert result.set_names == {"PLACE"}


@pytest.mark.parametrize(("blocks", "message"), [
    ({"city": Classes("CITY"), "other": Classes("LOWER")}, "LOWER"),
    ({"city": Classes("CITY"), "other": Classes("CITY")}, "CITY"),
    ({"shape": Places()}, "rename the block 'shape'"),
    ({"my-list": Places()}, r"\[attributes.my-list\]: rename"),
    *(({name: Classes()}, "letters, digits and underscores") for name in ("my-classes", "a b", "4", "")),
])  # fmt: skip
def test_names_that_are_taken_or_no_names_are_refused(blocks: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        FeatureSet(("LOWER[0]",)).with_attributes(blocks)


def test_values_are_read_for_every_token() -> None:
    docs = [spacy.blank("en")("To Rome"), spacy.blank("en")("and back again")]
    features = FeatureSet(("LOWER[0]",)).with_attributes({"place": Places(1)})
    with pytest.raises(ConfigError, match=r"'place' \(Places\) have values for {'PLACE': 4} tokens of 5"):
        with_docs(read_docs(docs, ()), docs, features)


def _component(*blocks: str) -> Any:
    nlp = spacy.blank("en")
    nlp.add_pipe("crf_ner")
    pipe: Any = nlp.get_pipe("crf_ner")
    pipe.method = pipe.method._replace(attributes={block: Classes() for block in blocks})
    return nlp


def test_a_model_stores_the_data_of_its_attributes() -> None:
    nlp, again = _component("city"), _component("city")
    doc = nlp.make_doc("He saw Rome today")
    doc.ents = [doc.char_span(7, 11, "LOC")]
    example = spacy.training.Example(nlp.make_doc(doc.text), doc)
    pipe, other = nlp.get_pipe("crf_ner"), again.get_pipe("crf_ner")
    pipe.method.attributes["city"].known["today"] = "day"
    nlp.initialize(lambda: [example])
    pipe.fit()
    other.from_bytes(pipe.to_bytes())
    assert other.method.attributes["city"].known == {"rome": "city", "today": "day"}
    assert any("CITY[0]=city" in name for largest in other.doc_model.largest_names() for name in largest.values())
    with pytest.raises(ModelFileError, match=r"\['city'\], but the config names \['town'\]"):
        _component("town").get_pipe("crf_ner").from_bytes(pipe.to_bytes())


# --- attributes from the other occurrences of a word, against a plain search ----------------------------------------


NLP = spacy.blank("en")
WORDS = ["Rome", "rome", "ROME", "News", "the", "The", "met", ".", "7", "York"]
DOCS = st.lists(st.lists(st.tuples(st.sampled_from(WORDS), st.booleans()), max_size=12), max_size=3)


def _doc(rows: list[tuple[str, bool]]) -> Doc:
    starts: Any = [i == 0 or starts for i, (_, starts) in enumerate(rows)]
    return Doc(NLP.vocab, words=[word for word, _ in rows], sent_starts=starts)


def _counts(word: str) -> bool:
    return word.lower() != "the" and any(char.isalpha() for char in word)


def _expected(doc: Doc, i: int, window: int, most: int) -> set[str]:
    near = set[str]()
    word = doc[i].text
    same = [j for j in range(len(doc)) if doc[j].text.lower() == word.lower()] if _counts(word) else []
    rank = same.index(i) if same else 0
    for step in range(most):
        at = rank + (step // 2 + 1) * (1 if step % 2 == 0 else -1)
        if not 0 <= at < len(same):
            continue
        other = same[at]
        sent = next(sent for sent in doc.sents if sent.start <= other < sent.end)
        around = range(max(sent.start, other - window), min(sent.end, other + window + 1))
        near |= {f"{j - other:+d} {doc[j].lower_}" for j in around if j != other}
    return near


@given(DOCS, st.integers(1, 3), st.integers(1, 5))
def test_values_are_those_of_a_search(rows: list[list[tuple[str, bool]]], window: int, most: int) -> None:
    docs, strings = [_doc(row) for row in rows], dict[int, str]()
    plugin = DocumentWords(window, most)
    (sets,) = plugin.read("DOC", docs, strings).values()
    result = [[strings[v] for v in sets.values[b:e].tolist()] for b, e in zip(sets.ptr, sets.ptr[1:], strict=False)]
    assert list(map(sorted, result)) == [
        sorted(_expected(doc, i, window, most)) for doc in docs for i in range(len(doc))
    ]


def test_words_around_end_with_the_doc_even_if_its_first_word_begins_no_sentence() -> None:
    first, part = (Doc(NLP.vocab, words=text.split()) for text in ("x y Rome", "z Rome won Rome"))
    part = part[1:].as_doc()  # spaCy knows of no sentence that begins there
    assert part.to_array("SENT_START")[0] == 0
    (alone,), (both,) = (DocumentWords().read("DOC", docs).values() for docs in ([part], [first, part]))
    assert both.keys.tolist()[3:] == alone.keys.tolist()
    assert alone.keys.any()


# --- word classes: files, fallbacks, what a model stores ------------------------------------------------------------


BROWN = "0010\trome\t7\n00111101\tParis\t5\n1\tthe\t90\n"


@pytest.fixture
def lookups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package as `spacy-lookups-data` is, with tables for two languages; paths are stored from the lowest bit up."""
    package = tmp_path / "spacy_lookups_data"
    (package / "data").mkdir(parents=True)
    (package / "__init__.py").touch()
    tables: dict[str, Any] = {
        "qq_lexeme_cluster": {"Rome": 0b100, "the": 0b1011, "\n\n": 0, "rare": 0},
        "qq_lemma_index": {"verb": ["walk", "bake", "e"], "noun": ["walk", "New York", ""], "adv": []},
        "qq_lemma_rules": {"verb": [["ing", ""], ["ing", "e"], ["k", "k"]], "verb_part": [["x"]]},
        "qq_lemma_exc": {"verb": {"woke": ["wake"], "walk": []}, "det": {"a": ["a"]}},
        "rr_lemma_index": {"noun": ["walk"]},
        "ss_lemma_rules": {"noun": [["s", ""]]},
    }
    for name, table in tables.items():
        (package / "data" / f"{name}.json.gz").write_bytes(gzip.compress(json.dumps(table).encode()))
    word_classes._of_lookups.cache_clear()
    monkeypatch.delitem(sys.modules, package.name, raising=False)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("lookups")
def test_tables_of_lookups() -> None:
    assert read_lookups("qq") == {"Rome": "001", "the": "1101"}
    with pytest.raises(ConfigError, match=r"word classes for qq, not for 'en'.*crfseq word-classes"):
        read_lookups("en")
    assert read_lookups("rr", "parts_of_speech") == {"walk": "noun"}
    assert read_lookups("qq", "parts_of_speech") == {
        "walk": "noun/verb/verb-irregular", "bake": "verb", "e": "verb", "walking": "verb-ing", "baking": "verb-ing",
        "bakeing": "verb-ing", "eing": "verb-ing", "woke": "verb-irregular", "a": "det-irregular",
    }  # fmt: skip
    with pytest.raises(ConfigError, match=r"parts of speech for qq, rr, not for 'ss'"):
        WordClasses(lookups="ss", table="parts_of_speech").class_of("walk")


@pytest.mark.usefixtures("lookups")
def test_a_model_contains_parts_of_speech(monkeypatch: pytest.MonkeyPatch) -> None:
    both = {"lookups": "qq"}, {"lookups": "qq", "table": "parts_of_speech"}
    blocks = {f"b{i}": {"@crf_attributes": "spacy_crfseq.WordClasses.v1", **block} for i, block in enumerate(both)}
    nlp = blank("crf_ner", attributes=blocks)
    nlp.initialize(lambda: examples(nlp))
    assert word_classes._of_lookups.cache_info().currsize == 2
    monkeypatch.setattr("spacy_crfseq.corpora.word_classes.find_spec", lambda name: None)
    word_classes._of_lookups.cache_clear()
    plugin = pipe_of(blank("crf_ner", attributes=blocks).from_bytes(nlp.to_bytes())).method.attributes["b1"]
    assert [plugin.class_of(word) for word in ("Walking", "E", "ing")] == ["verb-ing", "verb", None]
    assert (plugin.templates("P"), [*plugin.functions("P")]) == (["P[-1..1]"], ["P"])
    with pytest.raises(ConfigError, match="pip install spacy-lookups-data"):
        WordClasses(lookups="en").class_of("the")


@pytest.fixture
def brown(tmp_path: Path) -> Path:
    path = tmp_path / "classes.txt"
    path.write_text(BROWN, encoding="utf8")
    return path


@pytest.mark.parametrize(("text", "expected"), [
    (BROWN, {"rome": "0010", "Paris": "00111101", "the": "1"}),
    ("\ufeffrome\t17\r\nParis\t17\r\n\r\nthe\t3\r\n", {"rome": "17", "Paris": "17", "the": "3"}),
    ("c1 rome\nc1 paris\nc2 the\n", {"rome": "c1", "paris": "c1", "the": "c2"}),
    ("rome\t01\n1\t10\n", {"rome": "01", "1": "10"}),
])  # fmt: skip
def test_formats_are_recognized(tmp_path: Path, text: str, expected: dict[str, str]) -> None:
    plain, packed = tmp_path / "a.txt", tmp_path / "b.gz"
    plain.write_bytes(text.encode())
    packed.write_bytes(gzip.compress(text.encode()))
    assert read_classes(plain) == read_classes(str(packed)) == expected


@pytest.mark.parametrize(("data", "message"), [
    (b"01\trome\n10\t\n", ":2: no word and class"),
    (b"rome\n", ":1: no word and class"),
    (b"\n\n", "no word in the file"),
    (b"01\trome\n10\tthe\n11\trome\n", ":3: the word 'rome' is in class 01 already"),
    (b"01\trome\n10\tcaf\xe9\n", ":2: byte 14 is not UTF-8"),
    (b"\x1f\x8bnothing", "cannot be read"),
])  # fmt: skip
def test_wrong_files(brown: Path, data: bytes, message: str) -> None:
    brown.write_bytes(data)
    with pytest.raises(FormatError, match=message):
        WordClasses(brown).class_of("rome")


def test_prefixes_and_fallbacks(brown: Path) -> None:
    functions = WordClasses(brown, prefixes=[2, 6, 0]).functions("C")
    values = {word: [function(word) for function in functions.values()] for word in ("Rome", "Paris", "the", "x")}
    assert list(functions) == ["C2", "C6", "C"]
    assert values == {
        "Rome": ["00", "0010", "0010"], "Paris": ["00", "001111", "00111101"], "the": ["1", "1", "1"], "x": [None] * 3,
    }  # fmt: skip
    brown.write_text("Rome 10\nParis 10\nthe 9\n", encoding="utf8")
    functions = WordClasses(brown, prefixes=[1, 0]).functions("C")
    assert {name: function("Rome") for name, function in functions.items()} == {"C1": None, "C": "10"}, "not paths"


def test_only_seen_words_are_kept(brown: Path) -> None:
    plugin = WordClasses(brown, keep="seen")
    (learnt,), (predicted,) = (
        [function for name, function in functions.items() if name == "C"]
        for functions in (plugin.functions_of_training("C"), plugin.functions("C"))
    )
    assert [learnt(word) for word in ("Rome", "Oslo")] == ["0010", None]
    assert [predicted(word) for word in ("Rome", "Paris")] == ["0010", None], "as in the stored model"
    again = WordClasses("gone.txt", keep="seen")
    again.from_state(plugin.to_state())
    assert [again.class_of(word) for word in ("Rome", "rome", "Paris")] == ["0010", "0010", None]
    assert again.to_state() == plugin.to_state()
    assert [learnt("Paris"), predicted("Paris")] == ["00111101"] * 2, "words of every later reading are added"
    again.see(plugin.seen)
    again.forget()
    plugin.forget()
    assert [predicted("Rome"), learnt("Rome"), predicted("Rome")] == [None, "0010", "0010"]
    assert [again.class_of("Rome"), again.class_of("Paris")] == ["0010", None], "a stored model keeps its own words"


classes = st.dictionaries(st.text(min_size=1), st.sampled_from(["0", "01", "110", "x"]))


@given(classes, st.text())
def test_state_round_trip(words: dict[str, str], other: str) -> None:
    table = ClassTable.of(words)
    again = ClassTable.from_state(table.to_state())
    assert {word: again.find(word) for word in words} == words
    assert again.find(other) == words.get(other)


def test_a_state_without_names_is_refused() -> None:
    state = ClassTable.of({"a": "01"}).to_state()
    with pytest.raises(ValueError, match="not there"):
        ClassTable.from_state({**state, "names": []})


@pytest.mark.parametrize(("plugin", "settings", "message"), [
    (DocumentWords, {"window": 0}, "at least 1"),
    (WordClasses, {}, "either path"),
    (WordClasses, {"path": "a", "lookups": "en"}, "either path"),
    (WordClasses, {"path": "a", "prefixes": [-1]}, "prefixes"),
    (WordClasses, {"path": "a", "prefixes": []}, "prefixes"),
    (WordClasses, {"path": "a", "prefixes": 4}, "prefixes"),
    (WordClasses, {"path": "a", "window": 99}, "window"),
    (WordClasses, {"path": "a", "keep": "few"}, "keep"),
    (WordClasses, {"lookups": "en", "table": "lemmas"}, "table must be 'clusters' or 'parts_of_speech'"),
])  # fmt: skip
def test_settings_that_are_not_possible_are_refused(plugin: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        plugin(**settings)
