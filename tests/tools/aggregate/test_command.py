"""``crfseq aggregate``: from files and pipelines to labels with probabilities, what it shows, and what it refuses."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy
from spacy.tokens import DocBin
from spacy.training import Corpus

from spacy_crfseq.pipeline.evidence import WEIGHT_KEY
from spacy_crfseq.pipeline.soft_labels import read_soft_labels
from spacy_crfseq.pipeline.source_votes import sourced_texts
from spacy_crfseq.tools.aggregate.em import HiddenMarkov
from spacy_crfseq.tools.aggregate.label_model import Majority
from spacy_crfseq.tools.aggregate.source_settings import parse_source
from spacy_crfseq.tools.aggregate.texts import aggregate
from spacy_crfseq.votes import MethodSettings
from tests.commands import Run, refused, worked

SENTENCES = [
    [("Ada", "B-PER"), ("saw", "O"), ("Oslo", "B-LOC")],
    [("Oslo", "B-LOC"), ("saw", "O"), ("Bob", "B-PER"), ("Lee", "I-PER")],
    [("Bob", "B-PER"), ("left", "O")],
] * 20


def write(path: Path, change: Any = lambda word, tag: tag, sentences: Any = SENTENCES) -> Path:
    lines = ("".join(f"{word} {change(word, tag)}\n" for word, tag in sentence) for sentence in sentences)
    path.write_text("\n".join(lines), encoding="utf8")
    return path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with texts, a careful source, one without places, and one that takes Bob for a place."""
    monkeypatch.chdir(tmp_path)
    write(Path("texts.iob"), lambda *_: "O")
    write(Path("careful.iob"))
    write(Path("people.iob"), lambda _, tag: tag if "PER" in tag else "O")
    write(Path("wrong.iob"), lambda word, tag: "B-LOC" if word == "Ada" else tag)
    nlp = spacy.blank("en")
    nlp.add_pipe("entity_ruler").add_patterns(
        [{"label": "GPE", "pattern": "Oslo"}, {"label": "DATE", "pattern": "left"}]
    )  # type: ignore[attr-defined]
    nlp.to_disk("ruler")
    return tmp_path


COMMAND = "aggregate texts.iob -o out.spacy --source careful=careful.iob --source people=people.iob"


def docs_of(path: str) -> list[Any]:
    return list(DocBin().from_disk(path).get_docs(spacy.blank("en").vocab))


def test_sources_of_all_kinds_become_labels_with_probabilities(folder: Path, run: Run) -> None:
    line = "aggregate texts.iob -o out.spacy --labels PER,LOC --weigh --source careful=careful.iob"
    line = f"{line} --source wrong=wrong.iob --source ruler=ruler,map=GPE:LOC"
    result = worked(run(*line.split()), "out.spacy: 60 texts")
    assert "ruler" in result.stdout
    docs = docs_of("out.spacy")
    assert [(ent.text, ent.label_) for ent in docs[1].ents] == [("Oslo", "LOC"), ("Bob Lee", "PER")]
    soft = read_soft_labels(docs[0], "crf_ner")
    assert {*soft} == {0, 2}  # "saw" is surely outside
    assert ("U-PER", max(share for *_, share in soft[0])) in [pair[1:] for pair in soft[0]]
    assert all(sum(share for *_, share in pairs) == pytest.approx(1) for pairs in soft.values())
    assert 0 < docs[0].user_data[WEIGHT_KEY] < 1


def test_a_component_learns_from_the_output(folder: Path, run: Run) -> None:
    worked(run(*f"{COMMAND} --source wrong=wrong.iob".split()))
    nlp = spacy.blank("en")
    nlp.add_pipe("crf_ner", config={"loss": {"@crf_losses": "spacy_crfseq.CrossEntropy.v1"}})
    examples = list(Corpus("out.spacy")(nlp))
    nlp.initialize(lambda: examples)
    for _ in range(3):
        nlp.update(examples)
    assert [(ent.text, ent.label_) for ent in nlp("Oslo saw Bob Lee").ents] == [("Oslo", "LOC"), ("Bob Lee", "PER")]


def test_the_report_is_printed_as_json_and_gold_texts_are_counted(folder: Path, run: Run) -> None:
    write(Path("gold.iob"), sentences=SENTENCES[:2])
    result = worked(run(*f"{COMMAND} --gold gold.iob --json".split()))
    report = json.loads(result.stdout)
    rows = {(row["source"], row["label"]): row for row in report["gold"]}
    assert rows["people", "LOC"]["precision"] is None
    assert rows["people", "LOC"]["recall"] is None  # a label that it does not have
    assert rows["careful", "all"]["recall"] == 1
    assert {row["source"] for row in report["estimated"]} == {"careful", "people"}


def test_sources_that_abstain_from_all_gold_texts_are_named(folder: Path, run: Run) -> None:
    write(Path("gold.iob"), sentences=[[("Eve", "B-PER"), ("saw", "O"), ("Rome", "B-LOC")]])
    line = "aggregate texts.iob,gold.iob -o out.spacy --gold gold.iob --source careful=careful.iob,texts=some"
    worked(run(*line.split()), "No gold text has labels of careful:")
    write(Path("all.iob"), sentences=[[("Eve", "O"), ("saw", "O"), ("Rome", "O")], *SENTENCES])  # and misses these
    result = worked(run(*line.split(), "--force", "--source", "all=all.iob"), "No gold text has labels of careful:")
    assert "careful, all" not in result.stdout


def test_figures_of_a_source_that_is_alone_are_marked_as_assumed(folder: Path, run: Run) -> None:
    line = "aggregate texts.iob -o out.spacy --source careful=careful.iob"
    worked(run(*line.split()), "(assumed)", "Assumed: hardly any other source")
    report = json.loads(worked(run(*line.split(), "--json --force")).stdout)
    assert {row["label"] for row in report["estimated"] if row["assumed"]} == {"O", "LOC", "PER", "all"}
    both = worked(run(*line.split(), "--force --source wrong=wrong.iob"))
    assert "assumed" not in both.stdout


def test_a_source_that_abstains_says_nothing_outside_its_spans(folder: Path, run: Run) -> None:
    report = json.loads(worked(run(*f"{COMMAND},outside=unknown --json".split())).stdout)
    votes = {(row["source"], row["label"]): row["votes"] for row in report["estimated"]}
    assert votes["people", "O"] == 0
    assert votes["careful", "O"] > 0


def test_patterns_are_a_source_that_says_nothing_outside_its_spans(folder: Path, run: Run) -> None:
    lines = [{"label": "PER", "pattern": "Bob Lee"}, {"label": "LOC", "pattern": [{"LOWER": "oslo"}]}]
    Path("rules.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    report = json.loads(worked(run(*f"{COMMAND} --source rules=rules.jsonl --json".split())).stdout)
    votes = {row["label"]: row["votes"] for row in report["estimated"] if row["source"] == "rules"}
    assert votes == {"O": 0, "LOC": 40, "PER": 40, "all": 80}


def test_the_spans_of_each_source_are_in_the_output_and_can_be_sources_again(folder: Path, run: Run) -> None:
    worked(run(*f"{COMMAND},outside=unknown --labels PER,LOC".split()))
    doc = docs_of("out.spacy")[1]
    careful, people = (doc.spans[name] for name in ("careful", "people"))
    assert [(span.text, span.label_) for span in careful] == [("Oslo", "LOC"), ("Bob Lee", "PER")]
    assert [(span.text, span.label_) for span in people] == [("Bob Lee", "PER")]
    assert (careful.attrs["silent"], people.attrs["silent"]) == ([], [[0, 2]])
    again = "--source careful=out.spacy,spans=careful --source people=out.spacy,spans=people"
    worked(run(*f"aggregate texts.iob -o again.spacy --labels PER,LOC {again}".split()))
    for first, second in zip(docs_of("out.spacy"), docs_of("again.spacy"), strict=True):
        assert first.to_json() == second.to_json()


@pytest.mark.parametrize(("option", "method", "expected"), [
    ("", MethodSettings("spacy_crfseq.HMM.v1"), HiddenMarkov()),
    ("--label-model majority,noise=.2", MethodSettings("spacy_crfseq.Majority.v1", {"noise": 0.2}), Majority(noise=.2)),
])  # fmt: skip
def test_what_learns_from_the_output_uses_the_same_label_model(
    option: str, method: MethodSettings, expected: Any, folder: Path, run: Run
) -> None:
    worked(run(*f"{COMMAND},outside=unknown {option}".split()))
    texts = sourced_texts(docs_of("out.spacy"))
    assert texts is not None
    assert texts.method == method
    for values, wanted in zip(texts.learn()[:2], expected(texts.votes, texts.rules)[:2], strict=True):
        np.testing.assert_array_equal(values, wanted)


def test_hard_labels_are_unknown_where_there_is_doubt(folder: Path, run: Run) -> None:
    line = "aggregate texts.iob -o out.spacy --source a=careful.iob --source b=wrong.iob"
    worked(run(*f"{line} --label-model majority --min-probability 0.6".split()), "out.spacy: 60 texts")
    docs = docs_of("out.spacy")
    assert not read_soft_labels(docs[0], "crf_ner")
    assert [token.ent_iob_ for token in docs[0]] == ["", "O", "B"]
    nlp = spacy.blank("en")
    nlp.add_pipe("crf_ner")  # its loss needs no probabilities
    nlp.initialize(lambda: Corpus("out.spacy")(nlp))


@pytest.mark.parametrize("n", [1, 1000])
def test_one_source_and_a_thousand_are_aggregated(folder: Path, n: int) -> None:
    write(Path("texts.iob"), lambda *_: "O", SENTENCES[:3])
    write(Path("careful.iob"), sentences=SENTENCES[:3])
    sources = {f"s{i}": parse_source("careful.iob,format=iob") for i in range(n)}
    result = aggregate(spacy.blank("en"), Path("texts.iob"), sources)
    assert [(ent.text, ent.label_) for ent in result.docs[1].ents] == [("Oslo", "LOC"), ("Bob Lee", "PER")]
    assert len(result.docs[0].spans) == n


def test_sources_that_say_nothing_or_always_the_same_do_no_harm(folder: Path, run: Run) -> None:
    write(Path("outside.iob"), lambda *_: "O")
    write(Path("people.iob"), lambda *_: "B-PER")
    write(Path("some.iob"), sentences=SENTENCES[:2])
    more = "--source never=outside.iob,outside=unknown --source outside=outside.iob --source some=some.iob,texts=some"
    line = f"aggregate texts.iob -o out.spacy --source a=careful.iob --source b=careful.iob {more}"
    worked(run(*line.split()))
    for doc, sentence in zip(docs_of("out.spacy"), SENTENCES, strict=True):
        assert [token.ent_iob_ == "O" for token in doc] == [tag == "O" for _, tag in sentence]
        assert "never" not in doc.spans


@pytest.mark.parametrize(
    ("more", "messages"),
    [
        ("--source people=careful.iob", ["'people' is given twice"]),
        ("--source people.iob", ["give a name, an equals sign and a source, such as rules=rules.conll"]),
        ("--source people.jsonl,match=all", ["give a name, an equals sign and a source"]),
        ("--source @f.v1,outside=known", ["give a name, an equals sign and a source"]),
        ("--source other=short.iob", ["short.iob: it has other words", "text 60", "the end instead of 'left'"]),
        ("--source other=changed.iob", ["at text 1, 'Eve' instead of 'Ada'"]),
        ("--labels DATE", ["No source has the label 'DATE' to learn", "LOC, PER"]),
        ("--gold new.iob", ["none of its 1 texts is among those to label"]),
        ("--gold types.iob", ["Gold texts have the label 'ORG', but no source does", "LOC, PER", "map=OTHER:ORG"]),
        ("--label-model best", ["--label-model best: unknown"]),
        ("--label-model majority,previous=true", ["Majority.v1 cannot be made with the settings previous = True"]),
        ("--source ruler=none.iob", ["none.iob"]),
        ("--source ruler=bad.jsonl", ["bad.jsonl: the entity ruler cannot use these patterns"]),
        ("--source other=careful.iob,match=all", ["--match is for annotated spans"]),
        ("--source other=careful.iob,mach=all", ["unknown setting 'mach'. Did you mean 'match'"]),
        ("-o out.conll", ["ends in .spacy"]),
    ],
)
def test_refused_and_nothing_is_written(folder: Path, run: Run, more: str, messages: list[str]) -> None:
    write(Path("short.iob"), sentences=[*SENTENCES[:-1], SENTENCES[-1][:1]])
    write(Path("changed.iob"), sentences=[[("Eve", "O"), *SENTENCES[0][1:]], *SENTENCES[1:]])
    write(Path("new.iob"), sentences=[[("Eve", "O")]])
    write(Path("types.iob"), sentences=[[(word, "B-ORG") for word, _ in SENTENCES[0]]])
    Path("bad.jsonl").write_text('{"label": "PER", "pattern": [{"NONE": 1}]}\n')
    before = sorted(folder.iterdir())
    refused(run(*COMMAND.split(), *more.split()), *messages)
    assert sorted(folder.iterdir()) == before


def test_an_older_output_is_kept_unless_it_is_to_be_replaced(folder: Path, run: Run) -> None:
    worked(run(*COMMAND.split()))
    refused(run(*COMMAND.split()), "out.spacy exists")
    worked(run(*COMMAND.split(), "--force"))


def test_words_of_a_list_that_others_put_outside_of_spans_again_and_again_are_named(folder: Path, run: Run) -> None:
    Path("places.txt").write_text("Oslo\nsaw\n", encoding="utf8")
    result = worked(run(*f"{COMMAND} --source places=places.txt,map=places:LOC".split()), "out.spacy: 60 texts")
    assert "'places' labels words again and again that other sources put outside" in " ".join(result.stdout.split())
    assert "left out: saw." in result.stdout
    docs = docs_of("out.spacy")
    assert [(span.text, span.label_) for span in docs[0].spans["places"]] == [("saw", "LOC"), ("Oslo", "LOC")]
    assert [(ent.text, ent.label_) for ent in docs[0].ents] == [("Ada", "PER"), ("Oslo", "LOC")]
