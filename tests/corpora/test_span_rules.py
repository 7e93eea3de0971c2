"""Rules on annotated spans: what is known outside of them, scores, overlaps, and files that are mostly of no use."""

import json
import re
import struct
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import spacy

from spacy_crfseq.corpora.spans import Notes, SpanRules, read_annotations
from spacy_crfseq.errors import ConfigError, FormatError
from spacy_crfseq.pipeline.corpus_reader import tokenizer_of
from spacy_crfseq.pipeline.readers import create_annotation_reader, create_conll_reader
from tests.commands import Run, refused, worked

TOKENIZE = tokenizer_of(spacy.blank("xx"))
TEXT = "Ada met Bo in New York"


def write(path: Path, *records: Any) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def span(start: int, end: int, label: str, score: float | None = None) -> dict[str, Any]:
    return {"start": start, "end": end, "label": label, "score": score}


@pytest.mark.parametrize(
    ("spans", "rules", "tags"),
    [
        ([span(0, 3, "PER")], SpanRules("known"), "B-PER O O O O O"),
        ([span(0, 3, "PER")], SpanRules("unknown"), "B-PER - - - - -"),
        ([span(0, 3, "PER", 0.4), span(8, 10, "PER", 0.5)], SpanRules("known", 0.5), "- O B-PER O O O"),
        ([span(0, 3, "PER", 0.4), span(0, 10, "ORG", 0.6)], SpanRules("known", 0.5), "B-ORG I-ORG I-ORG O O O"),
        ([span(14, 22, "LOC", 0.8), span(14, 17, "ORG", 0.9)], SpanRules(), "O O O O B-ORG -"),
        ([span(14, 22, "LOC", 0.9), span(14, 17, "ORG", 0.9)], SpanRules(), "O O O O B-LOC I-LOC"),
        ([span(14, 22, "LOC", 0.9), span(14, 17, "ORG")], SpanRules(), "O O O O B-ORG -"),
        ([span(14, 22, "LOC"), span(14, 22, "LOC")], SpanRules(), "O O O O B-LOC I-LOC"),
    ],
)
def test_tokens_outside_of_spans_are_known_or_not_by_the_rules(
    spans: list[Any], rules: SpanRules, tags: str, tmp_path: Path
) -> None:
    notes = Notes()
    path = write(tmp_path / "a.jsonl", {"text": TEXT, "entities": spans})
    (sentence,) = read_annotations(path, TOKENIZE, notes, rules=rules)
    assert " ".join(sentence.columns["ent"]) == tags
    lost = len({tuple(span.values()) for span in spans}) - tags.count("B-")
    assert len(notes.spans) + len(notes.overlapping) + notes.unsure == lost


LABELS = [span(14, 22, "LOC", 0.8), span(14, 22, "ORG", 0.7), span(14, 22, "PER", 0.8)]


@pytest.mark.parametrize(
    ("spans", "rules", "tags", "labels"),
    [
        ([span(0, 3, "PER"), span(0, 3, "LOC")], SpanRules("unknown"), "- - - - - -", [(0, 1, ("LOC", "PER"))]),
        (LABELS, SpanRules(), "O O O O - -", [(4, 6, ("LOC", "PER"))]),
        (LABELS[:2], SpanRules(), "O O O O B-LOC I-LOC", []),
        (LABELS, SpanRules(alternatives="all"), "O O O O - -", [(4, 6, ("LOC", "ORG", "PER"))]),
        (LABELS[:2], SpanRules("known", 0.75, alternatives="all"), "O O O O B-LOC I-LOC", []),
        ([*LABELS, span(8, 22, "X", 0.9)], SpanRules(), "O O B-X I-X I-X I-X", []),
        ([*LABELS, span(8, 22, "X", 0.7)], SpanRules(), "O O - - - -", [(4, 6, ("LOC", "PER"))]),
        ([span(0, 3, "PER", 0.5), span(0, 3, "PER")], SpanRules(), "B-PER O O O O O", []),
    ],
)
def test_several_labels_of_one_place_are_candidates_or_the_best_of_them(
    spans: list[Any], rules: SpanRules, tags: str, labels: list[Any], tmp_path: Path
) -> None:
    notes = Notes()
    path = write(tmp_path / "a.jsonl", {"text": TEXT, "entities": spans})
    (sentence,) = read_annotations(path, TOKENIZE, notes, rules=rules)
    assert (" ".join(sentence.columns["ent"]), sentence.alternatives) == (tags, labels)
    assert len(notes.alternatives) == len(labels)


WEBANNO = "#FORMAT=WebAnno TSV 3.3\n#T_SP=a.NamedEntity|value\n\n"


@pytest.mark.parametrize(
    ("files", "format", "match"),
    [
        ({"a.jsonl": {"text": "Bo ran", "label": [[0, 2, "PER"], [0, 2, "LOC"]]}}, "jsonl", "none"),
        ({"a.jsonl": {"text": "Bo ran", "entities": {"PER": ["Bo"], "LOC": ["Bo"]}}}, "jsonl", "all"),
        ({"a.jsonl": {"tokenized_text": ["Bo", "ran"], "ner": [[0, 0, "PER"], [0, 0, "LOC"]]}}, "jsonl", "none"),
        ({"a.jsonl": {"data": {"text": "Bo ran"}, "annotations": [{"result": [
            {"value": {"start": 0, "end": 2, "labels": ["PER", "LOC"]}}]}]}}, "jsonl", "none"),
        ({"a.ann": "T1\tPER 0 2\tBo\nT2\tLOC 0 2\tBo\n", "a.txt": "Bo ran"}, "brat", "none"),
        ({"a.tsv": f"{WEBANNO}1-1\t0-2\tBo\tPER[1]|LOC[2]\n1-2\t3-6\tran\t_\n"}, "webanno", "none"),
    ],
)  # fmt: skip
def test_several_labels_of_one_place_are_candidates_in_each_format(
    files: dict[str, Any], format: str, match: str, tmp_path: Path
) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(content if isinstance(content, str) else json.dumps(content))
    path = tmp_path / next(iter(files))
    (sentence,) = read_annotations(path, TOKENIZE, format=format, rules=SpanRules(match=match))
    assert sentence.columns["ent"] == ["-", "O"]
    assert sentence.alternatives == [(0, 1, ("LOC", "PER"))]


@pytest.mark.parametrize(
    ("records", "rules", "said"),
    [
        ([{"text": TEXT, "entities": [[1, 3, "PER"]]}] * 12, SpanRules(), "12 of 12 spans cannot be used, such as"),
        ([{"text": TEXT, "entities": [{"text": "Ada", "label": "PER"}]}], SpanRules(), "The positions are missing"),
        ([{"text": TEXT, "entities": {"PER": ["Ada"]}}], SpanRules(), "The positions are missing"),
        ([{"tokens": ["Ada"], "ner_tags": [1]}], SpanRules(), "nothing says which. Write them to labels.txt"),
        ([{"tokens": ["Ada"], "ner_tags": ["B-PER", "O"]}], SpanRules(), "1 word, but 2 tags"),
        ([{"tokens": ["Ada"], "ner_tags": ["NOUN"]}], SpanRules(), "is no tag of spans"),
        ([{"tokens": ["Ada", ""], "ner_tags": ["B-PER", "O"]}], SpanRules(), "Words must not be empty"),
        ([{"tokens": ["Ada"], "ner": [[0, 1, "PER"]]}], SpanRules(), "are not among the 1 words"),
        (
            [{"text": TEXT, "entities": [span(0, 3, "PER", float("nan"))]}],
            SpanRules(),
            "a number as the score",
        ),
        ([[span(0, 3, "PER")]], SpanRules(), "a span without its text"),
        ([{"source": "gpt", "meta": {"id": 3}, "entities": []}], SpanRules(), 'no string under "text"'),
        ([{"text": None, "entities": [], "source": "llama"}], SpanRules(), 'no string under "text"'),
        ([{"id": "doc-3", "spans": [], "answer": "accept"}], SpanRules(), 'no string under "text"'),
        ([{"data": {"text": None, "id": "a"}, "annotations": [{"result": []}]}], SpanRules(), 'string under "text"'),
        ([{"text": TEXT, "entities": [[0, 3, "PER"]], "ents": []}], SpanRules(), 'under "entities" and "ents"'),
        ([{"text": TEXT, "label": [[0, 3, "A"]], "ner": [[0, 3, "B"]]}], SpanRules(), 'under "label" and "ner"'),
        ([{"text": TEXT, "entities": [span(0, 3, "O")]}], SpanRules(), "'O' is a tag of tokens"),
        ([{"text": TEXT, "spans": [span(0, 3, "I-PER")]}], SpanRules(), "'I-PER' is a tag of tokens"),
        (
            [{"text": TEXT, "entities": [span(0, 3, "PER", 93)]}],
            SpanRules("known", 0.5),
            "93 of the span 0-3 (PER) is no",
        ),
        ([{"text": TEXT, "entities": [span(0, 3, "PER", -1)]}], SpanRules("known", 0.5), "-1 of the span 0-3 (PER) is"),
        ([{"text": TEXT, "entities": None}], SpanRules(), "texts left out: 1 not annotated"),
        ([{"text": TEXT, "predictions": None}], SpanRules(), "texts left out: 1 not annotated"),
        ([{"tokens": ["Ada"], "entities": None}], SpanRules(), "texts left out: 1 not annotated"),
        ([{"text": TEXT, "entities": [[0, 3, "PER "]]}], SpanRules(), "without space around it"),
        ([{"text": TEXT, "entities": [span(0, 3, "")]}], SpanRules(), "A label must be a string, not empty"),
        ([{"text": TEXT, "entities": [{"start": "0", "end": 3, "label": "A"}]}], SpanRules(), "must be whole numbers"),
        ([{"text": TEXT, "entities": [[0.0, 3.0, "PER"]]}], SpanRules(), "must be whole numbers"),
    ],
)
def test_files_that_are_of_no_use_are_refused(records: Any, rules: SpanRules, said: str, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"a\.jsonl") as error:
        list(read_annotations(write(tmp_path / "a.jsonl", *records), TOKENIZE, rules=rules))
    assert said in str(error.value)


@pytest.mark.parametrize("key", ["score", "confidence", "probability", "prob"])
def test_scores_are_read_under_each_key_and_spans_without_one_are_counted(key: str, tmp_path: Path) -> None:
    notes = Notes()
    spans = [{**span(0, 3, "PER"), key: 0.4}, span(8, 10, "PER")]
    path = write(tmp_path / "a.jsonl", {"text": TEXT, "entities": spans})
    (sentence,) = read_annotations(path, TOKENIZE, notes, rules=SpanRules("known", 0.5))
    assert " ".join(sentence.columns["ent"]) == "- O B-PER O O O"
    assert (notes.unsure, notes.unscored) == (1, 1)
    assert any("1 span without a score" in message for message, _ in notes.messages(path))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"outside": "O"}, "outside = 'O': give 'known' or 'unknown'"),
        ({"min_score": 2.0}, "must be a number from 0 to 1"),
        ({"match": "best"}, "give 'none', 'all', 'first' or 'order'"),
        ({"alternatives": "some"}, "alternatives = 'some': give 'best' or 'all'"),
        ({"format": "csv"}, "format csv: unknown"),
    ],
)
def test_settings_of_the_reader_that_cannot_be_are_refused(settings: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=said):
        create_annotation_reader(tmp_path / "a.jsonl", **settings)


def test_spans_of_a_file_without_scores_are_certain_and_a_note_counts_them(tmp_path: Path) -> None:
    path, notes = write(tmp_path / "a.jsonl", {"text": TEXT, "entities": [[0, 3, "PER"], [8, 10, "PER"]]}), Notes()
    (sentence,) = read_annotations(path, TOKENIZE, notes, rules=SpanRules("known", 0.5))
    assert " ".join(sentence.columns["ent"]) == "B-PER O B-PER O O O"
    assert [text for text, _ in notes.messages(path)] == [
        f"{path}: 2 spans without a score, certain despite min_score."
    ]


@pytest.mark.parametrize(("outside", "warned"), [("known", False), ("unknown", True)])
def test_training_warns_if_no_token_is_known_to_be_outside(
    outside: str, warned: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    reader = create_annotation_reader(
        write(tmp_path / "a.jsonl", {"text": TEXT, "entities": [span(0, 3, "PER")]}), outside=outside
    )
    nlp = spacy.blank("xx")
    nlp.add_pipe("crf_ner")
    with caplog.at_level("WARNING", "spacy"):
        nlp.initialize(lambda: list(reader(nlp)))
    assert ("No token of the training texts is known to be outside" in caplog.text) == warned


def test_rules_are_refused_for_files_without_spans(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "a.conll"
    path.write_text("Ada B-PER\nmet O\n\n")
    refused(run("debug-data", path, "--columns word,ent --min-score 0.5"), "--min-score is for annotated spans")
    refused(run("init-config", tmp_path / "a.cfg", "--outside unknown --train", path), "--outside is for annotated")
    refused(run("debug-data", path, "--columns word,ent --alternatives all"), "--alternatives is for annotated spans")


def test_a_config_is_written_with_the_rules_and_only_for_a_corpus_that_can_be_read(tmp_path: Path, run: Run) -> None:
    good = {"text": TEXT, "entities": [span(0, 3, "PER", 0.9), span(8, 10, "PER", 0.2)]}
    path, config = write(tmp_path / "a.jsonl", good), tmp_path / "a.cfg"
    options = "--lang xx --outside unknown --min-score 0.5 --alternatives all"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the span below the score
        worked(run("init-config", config, options, "--train", path, "--dev", path))
    train, dev = config.read_text().split("[corpora.dev]")
    assert 'outside = "unknown"\n' in train
    assert "min_score = 0.5\n" in train
    assert 'alternatives = "all"\n' in train
    assert 'outside = "known"\nmin_score = 0.0\nalternatives = "best"\n' in dev
    write(path, good, *[{"text": TEXT, "entities": [{"text": "Ada", "label": "PER"}]}] * 3)
    refused(run("init-config", tmp_path / "b.cfg", "--lang xx --train", path), "a.jsonl:2:", "positions are missing")
    assert not (tmp_path / "b.cfg").exists()
    write(path, {"text": TEXT, "entities": []})
    refused(run("init-config", tmp_path / "b.cfg", "--lang xx --train", path), "nothing is annotated")


def test_a_folder_of_texts_and_their_files_is_one_corpus(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.txt").write_text(f"{TEXT}.\r\nBo")
        (tmp_path / f"{name}.ann").write_text("T1\tPER 0 3\tAda\nT2\tLOC 14 17;18 22\tNew York\nT3\tPER 25 27\tBo\n")
    (tmp_path / "annotation.conf").write_text("[entities]\n")
    examples = list(create_annotation_reader(tmp_path, format="brat")(spacy.blank("xx")))
    assert [[ent.text for ent in example.reference.ents] for example in examples] == [["Ada", "New York", "Bo"]] * 2


def test_readers_of_columns_read_spans_by_their_ending(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", {"text": TEXT, "entities": [[0, 3, "PER"]], "source": "x"})
    (example,) = create_conll_reader(path, ["word", "ent"])(spacy.blank("xx"))
    assert [ent.text for ent in example.reference.ents] == ["Ada"]


@pytest.mark.parametrize("outside", ["known", "unknown"])
def test_a_corpus_without_a_token_outside_is_warned_of(outside: str, tmp_path: Path, run: Run) -> None:
    path = write(tmp_path / "a.jsonl", {"text": TEXT, "entities": [[0, 3, "PER"]]})
    said = worked(run("debug-data", path, "--outside", outside)).stdout
    assert ("no token is known to be outside of spans" in said) == (outside == "unknown")


def test_a_file_without_an_annotated_text_is_named_once_with_what_it_has(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", {"text": TEXT, "answers": [[0, 3, "PER"]]})
    with pytest.raises(FormatError, match=r"no annotated text in the file.* left out: 1 not annotated") as raised:
        list(read_annotations(path, TOKENIZE))
    assert str(raised.value).count(str(path)) == 1


def test_without_pyarrow_tables_are_refused_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(FormatError, match="no Parquet or Arrow file"):
        list(read_annotations(tmp_path / "a.parquet", TOKENIZE, format="parquet"))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(FormatError, match=r"pip install 'spacy-crfseq\[formats\]'"):
        list(read_annotations(tmp_path / "a.parquet", TOKENIZE, format="parquet"))


def test_offsets_of_arrow_beyond_the_end_of_the_file_are_refused(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    batch, path = pyarrow.record_batch({"text": [TEXT], "spans": [[span(0, 3, "PER")]]}), tmp_path / "a.arrow"
    with pyarrow.OSFile(str(path), "wb") as file, pyarrow.ipc.new_stream(file, batch.schema) as stream:
        stream.write_batch(batch)
    before, offsets, after = path.read_bytes().rpartition(struct.pack("<ii", 0, len(TEXT)))
    assert offsets
    path.write_bytes(before + struct.pack("<ii", 0, 1 << 30) + after)
    with pytest.raises(FormatError, match=r"a\.arrow:1: the file is damaged here"):
        list(read_annotations(path, TOKENIZE, format="parquet"))


def of_scores(folder: Path, *scores: float | None) -> Path:
    spans = [span(0, 3, "PER", score) for score in scores]
    return write(folder / "a.jsonl", *({"text": TEXT, "entities": [entity]} for entity in spans))


@pytest.mark.parametrize(
    ("scores", "said"),
    [
        ([0.2, 0.9, None], "warn.*2 spans with a score from 0.2 to 0.9, 1 of them below 0.5.*give --min-score 0.5"),
        ([0.9], "ok.*1 span with a score from 0.9 to 0.9, 0 of them below 0.5"),
        ([0.9, 97], "warn.*2 spans with a score from 0.9 to 97. These are no probabilities: --min-score needs scores"),
        ([-1, 0.9], "warn.*2 spans with a score from -1 to 0.9. These are no probabilities"),
        ([None], None),
    ],
)
def test_debug_data_says_what_the_scores_of_a_file_are(
    scores: list[float | None], said: str | None, run: Run, tmp_path: Path
) -> None:
    result = worked(run("debug-data", str(of_scores(tmp_path, *scores))))
    lines = [line for line in result.stdout.splitlines() if "with a score" in line]
    assert len(lines) == (said is not None)
    assert said is None or re.match(said, lines[0])


@pytest.mark.parametrize("command", ["init-config - --lang en --train F", "convert F b.spacy", "debug-data F"])
def test_a_least_score_for_a_corpus_without_scores_is_an_error(
    command: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    of_scores(tmp_path, None)
    result = run(*command.replace("F", "a.jsonl").split(), "--min-score", "0.5")
    said = "a.jsonl: min_score = 0.5 is set, but none of the 1 span has a score"
    assert result.exit_code == 1
    assert said in (result.stdout if command.startswith("debug") else result.stderr)
    assert "keys score, confidence, probability, prob" in result.stdout + result.stderr
    Path("b.jsonl").write_text(of_scores(tmp_path, 0.9).read_text())
    of_scores(tmp_path, None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        worked(run(*command.replace("F", "a.jsonl,b.jsonl").split(), "--min-score", "0.5"))


def test_the_least_score_of_debug_data_is_not_for_dev(run: Run, tmp_path: Path) -> None:
    train = write(tmp_path / "b.jsonl", {"text": TEXT, "entities": [span(0, 3, "PER", 0.4), span(8, 10, "PER", 0.9)]})
    result = worked(run("debug-data", str(train), "--dev", str(of_scores(tmp_path, None)), "--min-score", "0.5"))
    assert "train: 5 tokens known, 1 unknown" in result.stdout
    assert "dev: 6 tokens known" in result.stdout
