"""Labels and keys that are nearly right: those that no model shares, that differ by case, or that are not read."""

import json
import logging
import warnings
from pathlib import Path
from typing import Any

import pytest
import spacy
from spacy.tokens import Doc, DocBin

from spacy_crfseq.corpora.tags import alike
from tests.commands import Run, worked


def write(path: Path, *records: Any) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def record(name: str, label: str) -> dict[str, Any]:
    return {"text": f"{name} ran", "entities": [[0, len(name), label]]}


@pytest.mark.parametrize("command", ["evaluate M F", "calibrate M F -o new", "report M F -o page.html --samples 9"])
@pytest.mark.parametrize(("label", "warned"), [("person", True), ("PER", False)])
def test_a_file_that_shares_no_label_with_the_model_is_warned_of(
    command: str, label: str, warned: bool, run: Run, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = write(tmp_path / "a.jsonl", record("Ada", label), record("Ada", label))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run(*command.replace("M", str(model)).replace("F", str(path)).split())
    said = [str(warning.message) for warning in caught if "no label of ent" in str(warning.message)]
    assert said == [f"{path}: no label of ent is one of the model: the file has person, the model PER. Give them one "
                    "name."] * warned  # fmt: skip


def test_labels_are_alike_if_only_case_and_white_space_differ() -> None:
    assert alike(["PER", "LOC", "per", "P ER", "ORG", "loc", "PERS"]) == ["LOC", "loc", "P ER", "PER", "per"]


INIT = "init-config c.cfg --lang xx --task ner --train a.jsonl --dev a.jsonl --goal fast"


def test_init_config_and_fit_warn_of_labels_that_are_alike(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    write(Path("a.jsonl"), *[record("Ada", "PER")] * 3, *[record("Bo", "per")] * 3)
    with pytest.warns(UserWarning, match="a.jsonl: ent: labels differ by case or white space only: 'PER', 'per'"):
        worked(run(*INIT.split()))
    monkeypatch.setattr(spacy.util.logger, "propagate", True)
    with caplog.at_level(logging.WARNING), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        worked(run(*["fit", "c.cfg", "-o", "out"]))
    assert "[crf_ner] Labels differ by case or white space only: 'PER', 'per'. Write them alike." in caplog.text


def test_debug_data_warns_of_labels_that_differ_by_white_space(run: Run, tmp_path: Path) -> None:
    docs = [
        Doc(spacy.blank("xx").vocab, words=["a"], ents=[f"B-{label}"]) for label in ("PER", "PER ") for _ in "12345"
    ]
    DocBin(docs=docs).to_disk(tmp_path / "a.spacy")
    result = run("debug-data", str(tmp_path / "a.spacy"))
    assert "labels differ by case or white space only: 'PER', 'PER '" in result.stdout


SPANS = [{"start": 0, "end": 3, "entity_group": "PER"}]


@pytest.mark.parametrize(
    ("also", "named"),
    [
        ({"output": SPANS}, '"output"'),
        ({"preds": [[0, 3, "PER"]]}, '"preds"'),
        ({"result": {"entities": [[0, 3, "PER"]]}}, '"result"'),
        ({"response": json.dumps(SPANS)}, '"response"'),
        ({"answer_text": "```json\n[]```"}, '"answer_text"'),
        ({"gold": {"PER": {"start": 0}}, "llm": SPANS}, '"gold" and "llm"'),
        ({"tokens_": [1, 2, 3], "lang": "en", "scores": [0.5], "tags": ["news"]}, ""),
    ],
)
def test_keys_that_may_hold_spans_are_named_where_a_record_has_none(
    also: dict[str, Any], named: str, run: Run, tmp_path: Path
) -> None:
    records = [{"text": "Ada ran", **also}] * 2
    result = run("debug-data", str(write(tmp_path / "a.jsonl", *records)))
    said = f'2 not annotated, with {named}, which are not read (rename what has spans to "entities")'
    assert (said if named else "2 not annotated.") in result.stdout


@pytest.mark.parametrize(
    ("entities", "said"),
    [(["Ada"], "Positions are missing: give start, end and label"), ([["Ada", "PER"]], "Positions are missing: give")],
)
def test_texts_without_labels_or_positions_are_told_from_labels_of_texts(
    entities: Any, said: str, run: Run, tmp_path: Path
) -> None:
    assert said in run("debug-data", str(write(tmp_path / "a.jsonl", {"text": "Ada ran", "entities": entities}))).stdout


def test_a_few_names_that_end_inside_of_tokens_have_no_short_ends(run: Run, tmp_path: Path) -> None:
    case = {"text": "Olgas Buch", "entities": [{"start": 0, "end": 4, "label": "PER"}]}
    said = run("debug-data", str(write(tmp_path / "a.jsonl", case, *[record("Ada", "PER")] * 9))).stdout
    assert "'Olga' (0-4, PER) does not match the tokens 'Olgas'" in " ".join(said.split())
    assert "short" not in said


@pytest.mark.parametrize("n", [2, 30])
@pytest.mark.parametrize("text", ["", "Olga"])
def test_ends_that_are_one_short_are_named_as_such(n: int, text: str, run: Run, tmp_path: Path) -> None:
    """Whether some spans of a file are lost or all."""
    short = {"start": 8, "end": 11, "label": "PER", "text": text}
    records = [{"text": "Ada met Olga.", "entities": [short]}] * n
    result = run("debug-data", str(write(tmp_path / "a.jsonl", *records, record("Ada", "PER"))))
    assert f"The ends of {n} of them are one short: give the number of the character behind" in result.stdout
    cut = {"text": "Ada met Olga.", "entities": [{"start": 8, "end": 10, "label": "PER"}]}
    assert "one short" not in run("debug-data", str(write(tmp_path / "a.jsonl", *[cut] * n))).stdout
