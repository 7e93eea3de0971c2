"""The tags that sources of all kinds give: spans, tokens outside and tokens of which nothing is known."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import spacy
from spacy.tokens import Doc, DocBin, Span, SpanGroup

from spacy_crfseq import registry
from spacy_crfseq.corpora.layouts import Asked
from spacy_crfseq.errors import CrfError
from spacy_crfseq.tools.aggregate.given_texts import read_given
from spacy_crfseq.tools.aggregate.source_settings import parse_source
from spacy_crfseq.tools.aggregate.source_tags import SourceTags, read_source_tags
from spacy_crfseq.votes import ABSTAIN
from tests.pipeline.helpers import WEAK, blank, examples, pipe_of

NLP = spacy.blank("en")
TEXTS = ["Ada saw New York", "Oslo saw Bob", "Bob left"]
WORDS = [text.split() for text in TEXTS]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("texts.txt").write_text("\n".join(TEXTS))
    columns("texts.iob", {})
    columns("gold.iob", {"Ada": "B-PER", "New": "B-LOC", "York": "I-LOC", "Oslo": "B-LOC", "Bob": "B-PER"})
    return tmp_path


def columns(name: str, tags: dict[str, str], texts: list[list[str]] = WORDS) -> None:
    Path(name).write_text("\n".join("".join(f"{word} {tags.get(word, 'O')}\n" for word in words) for words in texts))


def records(name: str, texts: Iterable[tuple[str, list[Any]]]) -> None:
    Path(name).write_text("".join(json.dumps({"text": text, "spans": spans}) + "\n" for text, spans in texts))


def source_tags(source: str, texts: str = "texts.txt", skip_invalid: bool = False) -> SourceTags:
    given = read_given(NLP, Path(texts), None)
    return read_source_tags(NLP, parse_source(source), given, Asked(skip_invalid=skip_invalid))


def tags(source: str, texts: str = "texts.txt") -> str:
    """Return the tags of a source: "." outside, "?" unknown, else by name."""
    result = source_tags(source, texts)
    shown = ["." if name == "O" else name for name in result.names]
    return " ".join("?" if tag == ABSTAIN else shown[tag] for tag in result.tags)


ALL = "U-PER . B-LOC L-LOC U-LOC . U-PER U-PER ."


def test_a_file_says_that_the_rest_is_outside_and_has_the_labels_that_it_gives() -> None:
    assert tags("gold.iob") == ALL
    assert source_tags("gold.iob").labels == {"PER", "LOC"}
    assert source_tags("gold.iob,labels=PER,MISC").labels == {"PER", "LOC", "MISC"}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ("outside=unknown", "U-PER ? B-LOC L-LOC U-LOC ? U-PER U-PER ?"),
        ("map=PER:NAME,LOC:NAME", "U-NAME . B-NAME L-NAME U-NAME . U-NAME U-NAME ."),
        ("map=LOC:O", "U-PER . . . . . U-PER U-PER ."),
        ("map=LOC:", "U-PER . ? ? ? . U-PER U-PER ."),
        ("map=LOC:O,outside=unknown", "U-PER ? ? ? ? ? U-PER U-PER ?"),
        ("trim=new,oslo", "U-PER . . U-LOC . . U-PER U-PER ."),
        ("trim=York,NEW,of,outside=unknown", "U-PER ? ? ? U-LOC ? U-PER U-PER ?"),
        ("trim=new,oslo,map=LOC:", "U-PER . ? ? ? . U-PER U-PER ."),
        ("trim=new,oslo,map=LOC:O", "U-PER . . . . . U-PER U-PER ."),
        ("trim=york", "U-PER . U-LOC . U-LOC . U-PER U-PER ."),
    ],
)
def test_labels_are_renamed_outside_or_unknown_and_spans_lose_words_at_their_ends(settings: str, expected: str) -> None:
    assert tags(f"gold.iob,{settings}") == expected


def test_texts_without_positions_are_looked_up_in_the_words_of_the_texts() -> None:
    mentions = [("Ada saw New York", [{"text": "new york", "label": "LOC"}]), ("Oslo saw Bob", []), ("Bob left", [])]
    records("llm.jsonl", mentions)
    assert tags("llm.jsonl,match=all") == ". . B-LOC L-LOC . . . . ."
    columns("apart.iob", {}, [["Ada", "saw", "New", "Yo", "rk"], *WORDS[1:]])
    mentions[0] = ("Ada saw New Yo rk", [{"text": "Yo rk", "label": "LOC"}])
    records("llm.jsonl", mentions)
    assert tags("llm.jsonl,match=first", "apart.iob") == ". . . B-LOC L-LOC . . . . ."
    columns("joined.iob", {}, [["Ada", "saw", "New-York"], *WORDS[1:]])  # the tokenizer of English makes three tokens
    mentions[0] = ("Ada saw New-York", [{"text": "New-York", "label": "LOC"}])
    records("llm.jsonl", mentions)
    assert tags("llm.jsonl,match=all", "joined.iob") == ". . U-LOC . . . . ."


def test_spans_with_a_low_score_are_unknown() -> None:
    spans = [
        {"start": 0, "end": 3, "label": "PER", "score": 0.9},
        {"start": 8, "end": 16, "label": "LOC", "score": 0.2},
    ]
    records("scored.jsonl", [(TEXTS[0], spans), (TEXTS[1], []), (TEXTS[2], [])])
    with pytest.warns(UserWarning, match=r"scored.jsonl: 1 span below min_score"):
        assert tags("scored.jsonl,min_score=0.5") == "U-PER . ? ? . . . . ."


def test_a_source_with_some_texts_in_another_order_says_nothing_of_the_others() -> None:
    columns("some.iob", {"Bob": "B-PER"}, [WORDS[2], WORDS[0]])
    assert tags("some.iob,texts=some") == ". . . . ? ? ? U-PER ."
    columns("more.iob", {"Bob": "B-PER"}, [WORDS[2], ["Eve", "left"]])
    with pytest.warns(UserWarning, match="1 of its 2 texts are not among those to label"):
        assert tags("more.iob,texts=some") == "? ? ? ? ? ? ? U-PER ."


def test_texts_with_the_same_words_get_their_own_tags_in_turn() -> None:
    texts = [["Bob", "left"]] * 3
    columns("same.iob", {}, texts)
    Path("two.iob").write_text("Bob B-PER\nleft O\n\nBob O\nleft O\n")
    assert tags("two.iob,texts=some", "same.iob") == "U-PER . . . . ."


def test_span_groups_are_read_as_spans_of_files_are() -> None:
    docs = [NLP.make_doc(text) for text in TEXTS]
    docs[0].spans["gliner"] = SpanGroup(
        docs[0],
        attrs={"silent": [[1, 2]], "scores": [0.9, 0.8, 0.3]},
        spans=[Span(docs[0], 0, 1, "PER"), Span(docs[0], 2, 4, "LOC"), Span(docs[0], 3, 4, "LOC")],
    )
    docs[1].spans["gliner"] = []
    DocBin(docs=docs).to_disk("groups.spacy")
    assert tags("groups.spacy,spans=gliner") == "U-PER ? B-LOC L-LOC . . . ? ?"


def test_a_list_of_phrases_says_nothing_elsewhere() -> None:
    Path("places.txt").write_text("New York\nOslo\n\nbob\n")
    assert tags("places.txt,map=places:LOC") == "? ? B-LOC L-LOC U-LOC ? ? ? ?"
    assert source_tags("places.txt,map=places:LOC").labels == {"LOC"}


def test_names_of_faker_are_people_places_and_else_unknown() -> None:
    pytest.importorskip("faker")
    Path("texts.txt").write_text("Michael Smith saw Germany and Smith .")
    result = tags("@spacy_crfseq.NameLists.v1,map=person:PER,city:LOC,state:LOC,country:LOC")
    assert result == "B-PER L-PER ? U-LOC ? ? ?"


@registry.sources("tests.capitals.v1")
def capitals(label: str = "NAME", least: int = 1, wrong: str = "") -> Callable[[Doc], list[Any]]:
    def find(doc: Doc) -> list[Any]:
        other = {"": doc, "doc": doc.copy(), "triples": doc}[wrong]
        spans = [Span(other, t.i, t.i + 1, label) for t in doc if t.text[0].isupper() and len(t) >= least]
        return [(span.start, span.end, span.label_) for span in spans] if wrong == "triples" else spans

    return find


def test_a_registered_function_finds_spans_in_docs_and_says_nothing_elsewhere() -> None:
    assert tags("@tests.capitals.v1,least=4,map=NAME:X") == "? ? ? U-X U-X ? ? ? ?"
    assert tags("@tests.capitals.v1,least=4,label=LOC,outside=known") == ". . . U-LOC U-LOC . . . ."


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained crf_ner that is sure of nothing."""
    nlp = blank("crf_ner", **WEAK)
    nlp.initialize(lambda: examples(nlp, "crf_ner"))
    pipe_of(nlp).fit()
    folder = tmp_path_factory.mktemp("model") / "weak"
    nlp.to_disk(folder)
    return folder


def test_a_crf_says_only_that_of_which_it_is_sure_enough(model: Path) -> None:
    nlp = spacy.load(model)
    docs = [Doc(nlp.vocab, words) for words in WORDS]
    answers = pipe_of(nlp).posterior(docs)
    least = 0.8
    expected = []
    for doc, spans, shares in zip(docs, answers.spans(), answers.marginals(), strict=True):
        for i in range(len(doc)):
            inside = [span for span in spans if span.start <= i < span.end]
            share = inside[0].probability if inside else shares[i, answers.tags.index("O")]
            expected.append(share >= least)
    assert 0 < sum(expected) < len(expected)
    result = source_tags(f"{model},min_score={least}")
    assert [tag != ABSTAIN for tag in result.tags] == expected
    assert result.labels == {"PER", "LOC", "ORG"}
    assert "?" not in tags(str(model))


@pytest.mark.parametrize(
    ("source", "messages"),
    [
        ("nobody", ["nobody: no such folder", "no package of this name"]),
        ("none.iob", ["none.iob"]),
        ("short.iob", ["short.iob: it has other words", "at text 3, the end instead of 'Bob'", "texts=some"]),
        ("other.iob", ["at text 1, 'Eve' instead of 'Ada'"]),
        ("split.iob", ["at text 1, 'NewYork' instead of 'New'"]),
        ("other.iob,texts=some", ["other.iob: none of its 1 texts is among those to label"]),
        ("nan.jsonl,min_score=.5", ["nan.jsonl:1", "expected a number as the score"]),
        ("big.jsonl,min_score=.5", ["big.jsonl:1", "is no probability from 0 to 1"]),
        ("gold.iob,match=all", ["--match is for annotated spans"]),
        ("gold.iob,spans=x", ["gold.iob: spans=x is a key of doc.spans, which only files .spacy have"]),
        ("groups.spacy,spans=y", ["groups.spacy: no doc has spans under the key 'y'"]),
        ("groups.spacy,spans=x,min_score=.5", ["groups.spacy, doc 1: min_score needs a score of each span"]),
        ("groups.spacy,spans=nan,min_score=.5", ["groups.spacy, doc 1", "the score nan", "is no probability"]),
        ("groups.spacy,spans=tag", ["groups.spacy, doc 1", "'I-PER' is a tag of tokens"]),
        ("ruler,match=all", ["ruler: match is not a setting of a pipeline"]),
        ("ruler,labels=PER", ["ruler: labels is not a setting of a pipeline"]),
        ("ruler,min_score=.5", ["min_score needs probabilities, and the component 'entity_ruler' gives none"]),
        ("ruler,map=GPA:LOC", ["map=GPA: it has no such label. Did you mean 'GPE'"]),
        ("gold.iob,map=loc:PLACE", ["gold.iob: map=loc: no span has this label. Did you mean 'LOC'"]),
        ("places.txt,map=place:LOC", ["map=place: it has no such label. Did you mean 'places'"]),
        ("@tests.capitals.v1,map=NAMES:PER", ["map=NAMES: no span has this label. Did you mean 'NAME'"]),
        ("blank", ["blank: no component of this pipeline sets doc.ents"]),
        ("places.txt,min_score=.5", ["min_score is not a setting of a list of phrases"]),
        ("empty.txt", ["there is no phrase in empty.txt"]),
        ("bad.jsonl", ["bad.jsonl: the entity ruler cannot use these patterns"]),
        ("rules.jsonl,texts=some", ["texts is not a setting of patterns of an entity ruler"]),
        ("@tests.capital.v1", ["no such function in crf_sources. Did you mean '@tests.capitals.v1'"]),
        ("@tests.capitals.v1,size=3", ["it cannot be made with these settings", "'size'"]),
        ("@tests.capitals.v1,least=x", ["tests.capitals.v1: least must be a whole number"]),
        ("@tests.capitals.v1,min_score=.5", ["min_score is not a setting of a function"]),
        ("@tests.capitals.v1,wrong=doc", ["of text 1: it must return Spans of the Doc"]),
        ("@tests.capitals.v1,wrong=triples", ["returns (0, 1, 'NAME') of text 1: it must return Spans"]),
        ("@tests.capitals.v1,label=", ["@tests.capitals.v1, text 1: a span has no label"]),
    ],
)
def test_sources_that_cannot_be_read_are_refused(source: str, messages: list[str]) -> None:
    columns("short.iob", {}, [*WORDS[:2]])
    columns("other.iob", {}, [["Eve", "saw", "New", "York"]])
    columns("split.iob", {}, [["Ada", "saw", "NewYork"], *WORDS[1:]])
    for name, score in (("nan", float("nan")), ("big", 2.0)):
        records(f"{name}.jsonl", [(TEXTS[0], [{"start": 0, "end": 3, "label": "PER", "score": score}])])
    doc = NLP.make_doc(TEXTS[0])
    doc.spans["x"] = [Span(doc, 0, 1, "PER")]
    doc.spans["tag"] = [Span(doc, 0, 1, "I-PER")]
    doc.spans["nan"] = SpanGroup(doc, attrs={"scores": [float("nan")]}, spans=[Span(doc, 0, 1, "PER")])
    DocBin(docs=[doc]).to_disk("groups.spacy")
    nlp = spacy.blank("en")
    nlp.to_disk("blank")
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "GPE", "pattern": "Oslo"}])  # type: ignore[attr-defined]
    nlp.to_disk("ruler")
    for name, text in (("places.txt", "Oslo"), ("empty.txt", "\n")):
        Path(name).write_text(text)
    Path("bad.jsonl").write_text('{"label": "PER", "pattern": [{"NONE": 1}]}\n')
    Path("rules.jsonl").write_text('{"label": "PER", "pattern": "Bob"}\n')
    with pytest.raises(CrfError) as error:
        source_tags(source)
    assert [message for message in messages if message not in str(error.value)] == []


def test_a_label_of_a_map_that_a_file_does_not_give_is_warned_of() -> None:
    with pytest.warns(UserWarning, match="no span has the label 'PERSON' of map; there are LOC, PER"):
        source_tags("gold.iob,map=PERSON:PER")


def test_a_source_lacks_the_texts_that_cannot_be_read_and_are_skipped() -> None:
    records("some.jsonl", [(text, [[0, 3, "PER"]]) for text in TEXTS])
    lines = Path("some.jsonl").read_text().split("\n")
    Path("some.jsonl").write_text("\n".join([lines[0], lines[1][:-1], *lines[2:]]))
    with pytest.raises(CrfError, match=r"some\.jsonl"):
        source_tags("some.jsonl")
    with pytest.warns(UserWarning, match=r"some\.jsonl"):
        result = source_tags("some.jsonl", skip_invalid=True)
    assert result.tags.tolist() == [1, 0, 0, 0, ABSTAIN, ABSTAIN, ABSTAIN, 1, 0]
