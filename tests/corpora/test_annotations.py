"""Exports of Prodigy, doccano and Label Studio, as these tools write them, through the commands that read gold."""

import json
import re
from collections.abc import Callable, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import spacy

from spacy_crfseq.corpora.spans import Notes, SpanRules, read_annotations
from spacy_crfseq.errors import ConfigError, FormatError
from spacy_crfseq.pipeline.readers import create_annotation_reader, create_conll_reader, create_text_reader
from tests.commands import Corpus, Run, worked

TEXT = "Ada met Bo in New York."
SPANS = [(0, 3, "PER"), (8, 10, "PER"), (14, 22, "LOC")]
TAGS = ["B-PER", "O", "B-PER", "O", "B-LOC", "I-LOC", "O"]
Spans = Sequence[tuple[int, int, str]]


# A text and its spans, as each tool exports them.


def prodigy(text: str, spans: Spans, **keys: Any) -> dict[str, Any]:
    entries = [{"start": s, "end": e, "token_start": 0, "token_end": 0, "label": label} for s, e, label in spans]
    hashes = {"_input_hash": 1, "_task_hash": -2, "_is_binary": False, "_view_id": "ner_manual", "answer": "accept"}
    return {"text": text, "meta": {}, "tokens": [], "spans": entries, **hashes, **keys}


def doccano(text: str, spans: Spans, **keys: Any) -> dict[str, Any]:
    return {"id": 7, "text": text, "label": [list(span) for span in spans], "Comments": [], **keys}


def relations(text: str, spans: Spans) -> dict[str, Any]:
    entries = [{"id": i, "label": label, "start_offset": s, "end_offset": e} for i, (s, e, label) in enumerate(spans)]
    return {"id": 7, "text": text, "entities": entries, "relations": [{"id": 0, "from_id": 0, "to_id": 1, "type": "x"}]}


def studio(text: str, spans: Spans, data: dict[str, Any] | None = None, **keys: Any) -> dict[str, Any]:
    result: list[dict[str, Any]] = [
        {"value": {"start": s, "end": e, "text": text[s:e], "labels": [label]}, "id": "x", "from_name": "label",
         "to_name": "text", "type": "labels", "origin": "manual"} for s, e, label in spans
    ]  # fmt: skip
    result.append({"type": "choices", "value": {"choices": ["good"]}, "from_name": "c", "to_name": "text"})
    done = {"id": 9, "completed_by": 1, "result": result, "was_cancelled": False, "ground_truth": False, **keys}
    return {"id": 1, "annotations": [done], "predictions": [], "data": {"text": text, **(data or {})}, "project": 1}


def json_min(text: str, spans: Spans, data: dict[str, Any] | None = None) -> dict[str, Any]:
    entries = [{"start": s, "end": e, "text": text[s:e], "labels": [label]} for s, e, label in spans]
    fields = {"annotator": 1, "annotation_id": 9, "created_at": "2021-03-09T21:52:49Z", "updated_at": "2021"}
    return {**(data or {}), "text": text, "id": 1, "label": entries, **fields, "lead_time": 4.2}


TOOLS: dict[str, Callable[..., dict[str, Any]]] = {
    "prodigy": prodigy, "doccano": doccano, "relations": relations, "studio": studio, "json_min": json_min,
}  # fmt: skip


def write(folder: Path, *records: Any, array: bool = False, name: str = "a.jsonl") -> Path:
    path = folder / name
    lines = [json.dumps(record, ensure_ascii=False) for record in records]
    path.write_text(json.dumps(records, indent=2) if array else "\n".join(lines), encoding="utf8")
    return path


ENGLISH = spacy.blank("en")


def tokens(text: str) -> tuple[list[str], list[bool]]:
    doc = ENGLISH(text)
    return [token.text for token in doc], [bool(token.whitespace_) for token in doc]


def read(folder: Path, *records: Any, notes: Notes | None = None) -> list[list[str]]:
    return [s.columns["ent"] for s in read_annotations(write(folder, *records), tokens, notes)]


def html(text: str, *spans: tuple[int, int, str, str], key: str = "hypertextlabels") -> dict[str, Any]:
    """Return a task whose text is HTML; spans are in the text between tags, with a text as the page shows it."""
    values = [
        {"start": "/p[1]/text()[1]", "end": "/p[1]/text()[1]", "startOffset": 0, "endOffset": 1, "text": shown,
         "globalOffsets": {"start": start, "end": end}, key: [label]} for start, end, label, shown in spans
    ]  # fmt: skip
    return {"data": {"html": text}, "annotations": [{"result": [{"type": key, "value": value} for value in values]}]}


HEAD = "<!DOCTYPE html>\n<html><head><title>No text</title></head>\n"
ADA, BO, NEW_YORK = (0, 3, "PER", "Ada"), (8, 10, "PER", "Bo"), (14, 22, "LOC", "New York")


@pytest.mark.parametrize(
    ("task", "words", "tags"),
    [
        (html("<p><b>Ada</b> met<br>Bo in New York.</p>", ADA, BO, NEW_YORK), "Ada met Bo in New York .", TAGS),
        (html("<b>Ada</b> met <i>Bo</i> in New<br/>York.", ADA, BO, (14, 22, "LOC", "New\\nYork"), key="labels"),
         "Ada met Bo in New York .", TAGS),
        (html("<td>Ada</td><td>met</td> <td>Bo</td><p>&#65;l</p>", (0, 3, "PER", "Ada"), (7, 9, "PER", "Bo"),
              (9, 11, "PER", "Al")), "Ada met Bo Al", ["B-PER", "O", "B-PER", "B-PER"]),
        (html("AT&amp;T met Bo", (9, 11, "PER", "Bo")), "AT&T met Bo", ["O", "O", "B-PER"]),
        (html(f"{HEAD}<body><p>Ada</p><script>if (a < b) run()</script>\r\n<p>met Bo</p></body>", ADA,
              (24, 26, "PER", "Bo")), "Ada met Bo", ["B-PER", "O", "B-PER"]),
        (html("<head><title>No text</title></head><p>Ada</p><p>met Bo</p>", ADA, (7, 9, "PER", "Bo")), "Ada met Bo",
         ["B-PER", "O", "B-PER"]),
        (html("<p>\U0001f600</p><p>Bo</p>", (2, 4, "PER", "Bo")), "\U0001f600 Bo", ["O", "B-PER"]),
        (html("<p>Nobody</p>here"), "Nobody here", ["O", "O"]),
        (studio("<b> met Bo", [(8, 10, "PER")]), "< b > met Bo", ["O", "O", "O", "O", "B-PER"]),
        (studio("<p>Nobody here", []), "Nobody here", ["O", "O"]),
        (studio("<!-- x --><B>Nobody</B> here", []), "Nobody here", ["O", "O"]),
        (studio("<user> hello", []), "< user > hello", ["O"] * 4),
        (json_min("<name>Ada</name>", []), "< name > Ada</name >", ["O"] * 5),
        (studio("<time> is over", []), "< time > is over", ["O"] * 5),
        (json_min("1 < 2 and 3 > 2", []), "1 < 2 and 3 > 2", ["O"] * 7),
    ],
)  # fmt: skip
def test_spans_in_html_are_in_the_text_between_its_tags(
    task: dict[str, Any], words: str, tags: list[str], tmp_path: Path
) -> None:
    notes, path = Notes(), write(tmp_path, task)
    (sentence,) = read_annotations(path, tokens, notes)
    visible = [i for i, word in enumerate(sentence.words) if not word.isspace()]
    assert " ".join(sentence.words[i] for i in visible) == words
    assert [sentence.columns["ent"][i] for i in visible] == tags
    assert not notes.spans
    (example,) = create_text_reader(path)(ENGLISH)
    assert "".join(example.predicted.text.split()) == "".join(words.split())


def test_spans_in_html_that_have_paths_alone_are_looked_up_or_refused(tmp_path: Path) -> None:
    task = html("<p>Ada</p><p>met Bo</p>", ADA, BO)
    for region in task["annotations"][0]["result"]:
        del region["value"]["globalOffsets"]
    path = write(tmp_path, task)
    with pytest.raises(FormatError, match=r"positions are missing: .*--match all"):
        list(read_annotations(path, tokens))
    (sentence,) = read_annotations(path, tokens, rules=SpanRules(match="all"))
    assert [tag for tag in sentence.columns["ent"] if tag != "O"] == ["B-PER", "B-PER"]


@pytest.mark.parametrize("create", [create_annotation_reader, create_text_reader])
def test_html_that_the_parser_gives_up_is_a_record_that_cannot_be_read(
    create: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def give_up(*_: object) -> int:
        raise AssertionError("unknown status keyword 'foo' in marked section")  # newer versions of Python read it

    monkeypatch.setattr(HTMLParser, "parse_html_declaration", give_up)
    path = write(tmp_path, html("<p>Ada</p>", ADA), html("<p>Ada <![foo[ b ]]></p>", ADA))
    with pytest.raises(FormatError, match=r"a.jsonl:2: this HTML cannot be read: .*'foo'.* Remove .*\"<!\["):
        list(create(path)(ENGLISH))
    with pytest.warns(UserWarning, match="1 error, left out"):
        assert len(list(create(path, skip_invalid=True)(ENGLISH))) == 1


@pytest.mark.parametrize("array", [False, True])
@pytest.mark.parametrize("tool", TOOLS)
def test_exports_are_known_by_their_content(tool: str, array: bool, tmp_path: Path) -> None:
    path = write(tmp_path, TOOLS[tool](TEXT, SPANS), TOOLS[tool]("Nobody here", []), array=array)
    first, second = read_annotations(path, tokens)
    assert (first.columns["ent"], second.columns["ent"]) == (TAGS, ["O", "O"])
    assert [first.line_of(3), second.line] != [first.line, first.line]
    assert first.line_of(3) == first.line


def test_answers_of_prodigy(tmp_path: Path) -> None:
    notes, binary = Notes(), {"_view_id": "ner", "_is_binary": True}
    path = write(
        tmp_path,
        prodigy(TEXT, SPANS[:1], **binary),
        prodigy(TEXT, SPANS[1:2], answer="reject", **binary),
        prodigy(TEXT, SPANS, answer="reject"),
        prodigy(TEXT, SPANS, answer="ignore"),
        {"text": TEXT, "spans": [], "meta": {"measure": "entropy"}},
    )
    accepted, rejected = read_annotations(path, tokens, notes)
    assert accepted.columns["ent"] == ["B-PER", *"------"]
    assert rejected.columns == {"ent": [*"-------"], "incorrect": ["O", "O", "B-PER", "O", "O", "O", "O"]}
    assert notes.skipped == {"rejected": 1, "ignored": 1, "not annotated": 1}


def test_one_annotation_of_several_in_label_studio(tmp_path: Path) -> None:
    task = studio(TEXT, [])
    cancelled, truth = studio(TEXT, SPANS[:1], was_cancelled=True), studio(TEXT, SPANS, ground_truth=True)
    task["annotations"] = [*cancelled["annotations"], *truth["annotations"], *task["annotations"]]
    notes = Notes()
    assert read(tmp_path, task, cancelled, {"data": {"text": TEXT}}, notes=notes) == [TAGS]
    assert notes.skipped == {"cancelled": 1, "not annotated": 1}
    text_elsewhere = studio(TEXT, SPANS)
    text_elsewhere["data"] = {"body": TEXT, "n": 3}
    assert read(tmp_path, text_elsewhere) == [TAGS]


PREDICTED = [{"start": 0, "end": 3, "label": "PER", "score": 0.4}]
STUDIO = [{"value": {"start": 0, "end": 3, "labels": ["PER"]}}]


@pytest.mark.parametrize(
    ("record", "tags"),
    [
        ({"data": {"text": "Ada ran"}, "predictions": [{"result": []}, {"score": 0.4, "result": STUDIO}]}, "- O"),
        ({"data": {"text": "Ada ran"}, "predictions": [{"result": STUDIO}, {"result": []}]}, "O O"),
        ({"text": "Ada ran", "annotation": None, "prediction": PREDICTED}, "- O"),
        ({"fields": {"text": "Ada ran"}, "suggestions": {"ner": {"value": PREDICTED, "score": None}}}, "- O"),
        ({"fields": {"text": "Ada ran"}, "suggestions": {"ner": {"value": PREDICTED, "score": 0.6}}}, "B-PER O"),
    ],
)
def test_predictions_stand_in_for_an_empty_annotation_and_are_counted(
    record: dict[str, Any], tags: str, tmp_path: Path
) -> None:
    notes, path = Notes(), write(tmp_path, record)
    (sentence,) = read_annotations(path, tokens, notes, rules=SpanRules(min_score=0.5))
    assert (" ".join(sentence.columns["ent"]), notes.predicted) == (tags, 1)
    assert any("1 text without annotation, read with predictions" in said for said, _ in notes.messages(path))


@pytest.mark.parametrize(
    "record",
    [
        {**studio(TEXT, SPANS), "predictions": [{"result": STUDIO}]},
        {"text": TEXT, "annotation": SPANS, "prediction": PREDICTED},
        {"fields": {"text": TEXT}, "suggestions": {"ner": {"value": PREDICTED}},
         "responses": {"ner": [{"value": [{"start": s, "end": e, "label": label} for s, e, label in SPANS]}]}},
    ],
)  # fmt: skip
def test_annotation_counts_and_not_predictions_where_there_are_both(record: dict[str, Any], tmp_path: Path) -> None:
    notes = Notes()
    assert read(tmp_path, record, notes=notes) == [TAGS]
    assert notes.predicted == 0


def test_predictions_of_a_task_whose_annotation_was_cancelled_are_not_read(tmp_path: Path) -> None:
    notes = Notes()
    cancelled = {**studio(TEXT, SPANS, was_cancelled=True), "predictions": [{"result": STUDIO}]}
    assert read(tmp_path, cancelled, studio(TEXT, SPANS), notes=notes) == [TAGS]
    assert notes.skipped == {"cancelled": 1}


@pytest.mark.parametrize("kind", ["responses", "suggestions"])
def test_other_questions_and_discarded_responses_of_argilla_are_no_spans(kind: str, tmp_path: Path) -> None:
    answers: dict[str, Any] = {
        "ner": {"value": [{"start": s, "end": e, "label": label} for s, e, label in SPANS]},
        "topics": {"value": ["sports", "news"]},
        "order": {"value": [{"value": "sports", "rank": 1}]},
    }
    record = {"fields": {"text": TEXT}, "responses": {}, "suggestions": answers}
    if kind == "responses":
        discarded = {"value": [{"start": 0, "end": 1, "label": "LOC"}], "status": "discarded"}
        record |= {"responses": {name: [answer, discarded] for name, answer in answers.items()}, "suggestions": {}}
    assert read(tmp_path, record) == [TAGS]


def test_the_text_of_a_span_may_have_other_quotes_and_spaces_than_its_record(tmp_path: Path) -> None:
    text = "\u2018Ada\u00a0B\u2019 \u2013 ran"
    assert read(tmp_path, {"text": text, "entities": [{"start": 0, "end": 7, "label": "PER", "text": "'Ada B'"}]}) == [
        ["B-PER", *["I-PER"] * (len(tokens(text[:7])[0]) - 1), *["O"] * len(tokens(text[8:])[0])]
    ]


def test_characters_as_javascript_counts_them(tmp_path: Path) -> None:
    text = "\U0001f4a9 Ada ran"
    record = json_min(text, [])
    record["label"] = [{"start": 3, "end": 6, "text": "Ada", "labels": ["PER"]}]
    assert read(tmp_path, record) == [["O", "B-PER", "O"]]


PAIR = "\U0001f692\U0001f692\U0001f692 Al Al Bo"
"""The words Al are three characters apart, as Python's positions and those in UTF-16 are."""


def counted(tool: str, text: str, *spans: tuple[int, int], in_utf16: bool) -> dict[str, Any]:
    """Return a record whose spans come with their text, in Python's positions or in UTF-16."""
    units = [len(text[:i].encode("utf-16-le")) // 2 for i in range(len(text) + 1)]
    record = TOOLS[tool](text, [(*span, "PER") for span in spans])
    entries = {"studio": lambda: [r["value"] for r in record["annotations"][0]["result"][:-1]]}.get(
        tool, lambda: record["spans" if tool == "prodigy" else "label"]
    )()
    for span, (start, end) in zip(entries, spans, strict=True):
        span["text"] = text[start:end]
        if in_utf16:
            span |= {"start": units[start], "end": units[end]}
    return record


@pytest.mark.parametrize("in_utf16", [False, True])
@pytest.mark.parametrize("tool", ["prodigy", "studio", "json_min"])
def test_all_spans_of_a_file_decide_how_it_counts_characters(tool: str, in_utf16: bool, tmp_path: Path) -> None:
    first, second = (4, 6), (7, 9)
    unsure = [counted(tool, PAIR, span, in_utf16=in_utf16) for span in ((first,) if in_utf16 else (second,))]
    sure = counted(tool, PAIR, (10, 12), in_utf16=in_utf16)  # Bo occurs once
    notes, where = Notes(), 3 if in_utf16 else 4
    tags, _ = read(tmp_path, *unsure, sure, notes=notes)
    assert [i for i, tag in enumerate(tags) if tag == "B-PER"] == [where]
    assert not notes.messages(tmp_path)


@pytest.mark.parametrize("tool", ["prodigy", "studio", "json_min"])
def test_spans_that_may_be_at_two_places_are_said(tool: str, tmp_path: Path) -> None:
    notes, path = Notes(), tmp_path / "a.jsonl"
    (tags,) = read(tmp_path, counted(tool, PAIR, (7, 9), in_utf16=False), notes=notes)  # or the other Al, in UTF-16
    usual = 4 if tool == "prodigy" else 3
    assert [i for i, tag in enumerate(tags) if tag == "B-PER"] == [usual]
    ((text, places),) = notes.messages(path)
    assert "1 span may be at two places" in text
    assert places[0].startswith(f"{path}:1: 'Al' (")
    both = [counted(tool, PAIR, (10, 12), in_utf16=in_utf16) for in_utf16 in (False, True)]
    notes = Notes()
    *others, tags = read(tmp_path, *both, counted(tool, PAIR, (7, 9), in_utf16=False), notes=notes)
    assert others == [["O"] * 5 + ["B-PER"]] * 2
    assert [line for line, _ in notes.doubtful] == [3]


@pytest.mark.parametrize("tool", ["prodigy", "studio"])
def test_spans_without_text_count_as_their_tool_does(tool: str, tmp_path: Path) -> None:
    record = counted(tool, PAIR, (10, 12), in_utf16=tool == "studio")
    for region in record["annotations"][0]["result"] if tool == "studio" else record["spans"]:
        region.get("value", region).pop("text", None)
    notes = Notes()
    assert read(tmp_path, record, notes=notes) == [["O"] * 5 + ["B-PER"]]
    assert not notes.messages(tmp_path)


@pytest.mark.parametrize(
    ("spans", "tags", "said"),
    [
        ([(0, 2, "PER"), SPANS[2]], ["-", "O", "O", "O", "B-LOC", "I-LOC", "O"], "'Ad' (0-2, PER) does not match the"),
        ([(4, 13, "LOC"), (8, 17, "ORG")], ["O", "-", "-", "-", "-", "O", "O"], "of the same score and length"),
        ([(0, 4, "PER")], ["-", "O", "O", "O", "O", "O", "O"], "'Ada ' (0-4, PER)"),
        ([(20, 99, "LOC")], ["O", "O", "O", "O", "O", "-", "-"], "is outside the 23 characters of the text"),
    ],
)
def test_spans_that_do_not_fit_are_missing_and_reported(
    spans: Spans, tags: list[str], said: str, tmp_path: Path
) -> None:
    notes = Notes()
    assert read(tmp_path, doccano(TEXT, spans), notes=notes) == [tags]
    ((text, places),) = notes.messages(tmp_path / "a.jsonl")
    assert re.search(r"[12] spans? cannot be used", text)
    assert said in places[0]
    assert f"{tmp_path / 'a.jsonl'}:1: " in places[0]


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"text": TEXT, "label": ["good"]}, "two numbers of characters and a label, but found 'good'"),
        ({"text": TEXT, "label": "good"}, "expected a list of spans"),
        ({"text": 3, "label": []}, 'no string under "text"'),
        (prodigy(TEXT, [("0", 3, "PER")]), "but found {'start': '0'"),
        ({"data": {"text": TEXT}, "annotations": [{"result": [{"value": {"hypertextlabels": ["PER"]}}]}]},
         "of HTML cannot be learnt"),
        ({"data": {"text": TEXT}, "annotations": [{"result": [{"value": {"paragraphlabels": ["PER"]}}]}]},
         "turns of a dialogue"),
        ({"data": {"text": TEXT}, "annotations": 5}, "expected a list"),
        (prodigy(TEXT, [], answer=["accept"]) | {"spans": 3}, "expected a list"),
        ([1], "expected an object"),
        ("{", "no JSON"),
    ],
)  # fmt: skip
def test_records_that_cannot_be_read_are_refused_with_their_line(record: Any, said: str, tmp_path: Path) -> None:
    path = write(tmp_path, doccano(TEXT, SPANS), record)
    if record == "{":
        path.write_text(path.read_text().replace('"{"', "{"))
    with pytest.raises(FormatError, match=r"a\.jsonl:2: ") as error:
        list(read_annotations(path, tokens))
    assert said in str(error.value)
    errors: list[Any] = []
    assert len(list(read_annotations(path, tokens, None, errors.append))) == 1
    assert len(errors) == 1


def test_docs_keep_their_text_and_wrong_spans(tmp_path: Path) -> None:
    text = "Ada  met\nBo ."
    records = prodigy(text, [(0, 3, "PER")]), prodigy(TEXT, SPANS[:1], answer="reject", _view_id="ner")
    nlp = spacy.blank("en")
    first, second = create_annotation_reader(write(tmp_path, *records))(nlp)
    assert first.reference.text == first.predicted.text == text
    assert [(ent.text, ent.label_) for ent in first.reference.ents] == [("Ada", "PER")]
    assert "incorrect" not in first.reference.spans
    assert [span.text for span in second.reference.spans["incorrect"]] == ["Ada"]
    assert not second.reference.has_annotation("ENT_IOB")
    with pytest.raises(ConfigError, match="the reader's columns name tag"):
        create_conll_reader(tmp_path / "a.jsonl", ["word", "tag", "ent"])
    by_columns = create_conll_reader(tmp_path / "a.jsonl", ["word", "_", "ent"])
    assert len(list(by_columns(nlp))) == 2


# The way there and back: texts that `active` chose, imported into each tool, annotated and exported.


def imported(tool: str, task: dict[str, Any], spans: Spans) -> dict[str, Any]:
    """Return the export of a tool for a task that it was given."""
    if tool == "prodigy":
        return {**task, **{k: v for k, v in prodigy(task["text"], spans).items() if k not in ("meta", "tokens")}}
    if tool == "doccano":  # keys beside text and label become meta data, which the export has at the top
        return {**{k: v for k, v in task.items() if k != "text"}, **doccano(task["text"], spans)}
    return TOOLS[tool](task["text"], spans, data=task)


@pytest.mark.parametrize("tool", ["prodigy", "studio"])
def test_texts_that_active_chooses_come_back_annotated_through_every_command(
    tool: str, trained: Path, corpus: Corpus, run: Run, tmp_path: Path
) -> None:
    texts = tmp_path / "texts.jsonl"
    model = trained / "model-best"
    lines = [
        "Ada sees a dog in Oslo .",
        "Bo finds an old map in Lima .",
        "the train paints a dog .",
        "Ines sold a map .",
    ]
    texts.write_text("".join(json.dumps({"text": line}) + "\n" for line in lines))
    chosen = worked(run("active", model, texts, "-p crf_ner -n 4"))
    tasks = [json.loads(line) for line in chosen.stdout.splitlines()]
    assert len(tasks) == 4
    names = {"Ada": "PER", "Bo": "PER", "Ines": "PER", "Oslo": "LOC", "Lima": "LOC"}

    def spans_of(text: str) -> list[tuple[int, int, str]]:
        return [(text.index(word), text.index(word) + len(word), names[word]) for word in text.split() if word in names]

    records = [imported(tool, task, spans_of(task["text"])) for task in tasks]
    array = tool in ("studio", "json_min")
    gold = write(tmp_path, *records, array=array, name="gold.json" if array else "gold.jsonl")
    worked(run("evaluate", model, gold), "5 phrases")
    back = tmp_path / "back.iob"
    worked(run("convert", gold, back, "--lang xx"), "Converted 4 sentences")
    assert (
        sorted(line.split()[1] for line in back.read_text().splitlines() if "B-" in line)
        == ["B-LOC"] * 2 + ["B-PER"] * 3
    )
    config = tmp_path / "ner.cfg"
    worked(run("init-config", config, "--lang xx", "--train", gold, "--dev", gold), "jsonl")
    assert 'incorrect_spans_key = "incorrect"' in config.read_text()  # of rejected spans
    worked(run("debug-data", gold, "--config", config, "--no-cost"), "PER", "LOC")
    worked(run("fit", config, "--output", tmp_path / "out"))
    nlp = spacy.load(tmp_path / "out" / "model-best")
    assert nlp.get_pipe("crf_ner").cfg is not None
    assert [ent.text for ent in nlp(lines[0]).ents] == ["Ada", "Oslo"]
    worked(run("report", model, gold, "-p crf_ner --output", tmp_path / "r.html"))
    worked(run("calibrate", model, gold, "-p crf_ner --recall 0.2 --output", tmp_path / "calibrated"))


def test_spans_that_touch_do_not_overlap(tmp_path: Path) -> None:
    notes = Notes()
    path = write(tmp_path, prodigy(TEXT, [(14, 22, "LOC"), (22, 23, "END")]))
    (sentence,) = read_annotations(path, tokens, notes)
    assert sentence.columns["ent"] == ["O", "O", "O", "O", "B-LOC", "I-LOC", "B-END"]
    assert not notes.spans


def test_a_span_is_kept_rather_than_shorter_ones_within_it(tmp_path: Path) -> None:
    notes = Notes()
    path = write(tmp_path, prodigy(TEXT, [(0, 22, "ALL"), (4, 7, "VERB"), (8, 10, "PER")]))
    (sentence,) = read_annotations(path, tokens, notes)
    assert sentence.columns["ent"] == ["B-ALL", *["I-ALL"] * 5, "O"]
    assert (len(notes.spans), len(notes.overlapping)) == (0, 2)


@pytest.mark.parametrize("weight", [float("inf"), float("nan"), -0.5])
@pytest.mark.parametrize("place", ["record", "meta"])
def test_weights_are_finite_and_not_negative(place: str, weight: float, tmp_path: Path) -> None:
    keys: dict[str, Any] = {"weight": weight} if place == "record" else {"meta": {"weight": weight}}
    with pytest.raises(FormatError, match='"weight" must be a number'):
        list(read_annotations(write(tmp_path, prodigy(TEXT, SPANS, **keys)), tokens))
