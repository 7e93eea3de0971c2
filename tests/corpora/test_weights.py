"""The blocks of docs/partial-annotation.md for two sources, in a config as init-config writes it."""

import json
from pathlib import Path

import pytest
import spacy

from tests.commands import Run, worked
from tests.project.pages import DOCS, blocks, read

SECTION = read(DOCS / "partial-annotation.md").partition("### Two sources, two weights")[2].partition("\n#")[0]
NAMES = ["Ada", "Ines", "Karl", "Olga"]


def record(name: str, label: str, **also: object) -> str:
    spans = [{"start": 0, "end": len(name), "label": label, "score": 0.9}]
    return json.dumps({"text": f"{name} called", "entities": spans, **also}) + "\n"


@pytest.fixture
def config(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a config whose sources contradict each other: gold says PER of each name, silver LOC."""
    monkeypatch.chdir(tmp_path)
    Path("gold.jsonl").write_text("".join(record(name, "PER") for name in NAMES) + record("Rome", "LOC"))
    Path("silver.jsonl").write_text("".join(record(name, "LOC", source="llm") for name in NAMES))
    worked(
        run("init-config", "ner.cfg", "--train", "gold.jsonl", "--dev", "gold.jsonl", "--lang", "en", "--task", "ner")
    )
    path, (of_terms, of_corpora) = Path("ner.cfg"), blocks("ini", SECTION)
    text = path.read_text().replace("[components.crf_ner.terms]\n", f"[components.crf_ner.terms]\n\n{of_terms}", 1)
    path.write_text(f"{text}\n{of_corpora}")
    return path


@pytest.mark.parametrize(
    ("options", "label"), [([], "PER"), (["--components.crf_ner.terms.silver.weight", "3"], "LOC")]
)
def test_the_source_of_the_larger_weight_wins(options: list[str], label: str, config: Path, run: Run) -> None:
    worked(run("fit", str(config), "--output", "out", *options))
    doc = spacy.load("out/model-last")("Ada called")
    assert [ent.label_ for ent in doc.ents] == [label]


def test_debug_data_shows_the_weights_of_sources(config: Path, run: Run) -> None:
    result = worked(run("debug-data", "gold.jsonl,silver.jsonl", "--config", str(config), "--no-cost",
                        "--corpora.train.weight", "0.5"))  # fmt: skip
    rows = [line.split() for line in result.stdout.splitlines()]
    assert ["train", "gold.jsonl", "5", "10", "2.50"] in rows
    assert ["train", "llm", "4", "8", "2.00"] in rows


def test_debug_data_shows_no_weights_where_all_are_one(config: Path, run: Run) -> None:
    assert "Weights" not in run("debug-data", "gold.jsonl").stdout


@pytest.mark.parametrize("corpus", ["train", "silver"])
def test_a_corpus_without_any_weight_is_an_error(corpus: str, config: Path, run: Run) -> None:
    result = run("fit", str(config), "--output", "out", f"--corpora.{corpus}.weight", "0")
    assert result.exit_code == 1
    name = "training corpus" if corpus == "train" else "term 'silver'"
    assert f"all texts of the {name} have the weight 0" in result.stderr


def test_debug_data_fails_on_a_corpus_without_any_weight(config: Path, run: Run) -> None:
    Path("none.jsonl").write_text(record("Ada", "PER", weight=0))
    result = run("debug-data", "none.jsonl")
    assert result.exit_code == 1
    assert "FAIL all texts have the weight 0" in result.stdout


def test_groups_of_train_need_none_in_dev(config: Path, run: Run) -> None:
    """And the config says what the setting is for."""
    assert "its texts stay together in folds" in config.read_text()
    labels = {"Rome": "LOC", "Lima": "LOC", **dict.fromkeys(NAMES, "PER")}
    Path("train.jsonl").write_text("".join(record(name, label, source=name) for name, label in labels.items()))
    worked(run("fit", str(config), "-o", "out", "--paths.train", "train.jsonl", "--corpora.train.group", "source"))
    worked(run("fit", str(config), "--paths.train", "train.jsonl", "--group", "source", "--cross-validate", "2"))
