"""``crfseq aggregate``: from files and pipelines to labels with probabilities, what it shows, and what it refuses."""

import json
from pathlib import Path
from typing import Any

import pytest
import spacy
from spacy.tokens import DocBin
from spacy.training import Corpus

from spacy_crfseq.pipeline.evidence import WEIGHT_KEY
from spacy_crfseq.pipeline.soft_labels import read_soft_labels
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
    line = "aggregate texts.iob -o out.spacy --map GPE=LOC --labels PER,LOC --weigh --source careful=careful.iob"
    result = worked(run(*f"{line} --source wrong=wrong.iob --source ruler=ruler".split()), "out.spacy: 60 texts")
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
    assert rows["people", "LOC"]["recall"] == 0
    assert rows["careful", "all"]["recall"] == 1
    assert {row["source"] for row in report["estimated"]} == {"careful", "people"}


def test_a_source_that_abstains_says_nothing_outside_its_spans(folder: Path, run: Run) -> None:
    report = json.loads(worked(run(*f"{COMMAND} --abstain people --json".split())).stdout)
    votes = {(row["source"], row["label"]): row["votes"] for row in report["estimated"]}
    assert votes["people", "O"] == 0
    assert votes["careful", "O"] > 0


def test_patterns_are_a_source_that_says_nothing_outside_its_spans(folder: Path, run: Run) -> None:
    lines = [{"label": "PER", "pattern": "Bob Lee"}, {"label": "LOC", "pattern": [{"LOWER": "oslo"}]}]
    Path("rules.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    report = json.loads(worked(run(*f"{COMMAND} --source rules=rules.jsonl --json".split())).stdout)
    votes = {row["label"]: row["votes"] for row in report["estimated"] if row["source"] == "rules"}
    assert votes == {"O": 0, "LOC": 40, "PER": 40, "all": 80}


@pytest.mark.parametrize(
    ("more", "messages"),
    [
        ("--source people=careful.iob", ["'people' is given twice"]),
        ("--source people.iob", ["give a name, an equals sign and a value, such as rules=rules.conll"]),
        ("--source other=short.iob", ["'other', short.iob, has other words", "text 60", "the end instead of 'left'"]),
        ("--source other=changed.iob", ["at text 1, 'Eve' instead of 'Ada'"]),
        ("--abstain nobody", ["--abstain nobody: no source has this name, only careful, people"]),
        ("--labels DATE", ["No source has labelled a span with these labels"]),
        ("--gold new.iob", ["none of its 1 texts is among those to label"]),
        ("--gold types.iob", ["no source has the label 'ORG'"]),
        ("--model best", ["--model best: unknown"]),
        ("--model majority --previous", ["Only in a label model of the kind hmm"]),
        ("--source ruler=none.iob", ["none.iob"]),
        ("--source ruler=bad.jsonl", ["bad.jsonl: the entity ruler cannot use these patterns"]),
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
