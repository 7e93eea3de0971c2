"""The page on labels from models: its commands run as shown, one after another, and so does its config."""

import json
import shlex
from pathlib import Path

import pytest
import spacy
from thinc.api import Config
from typer.testing import CliRunner

from spacy_crfseq.cli.program import crfseq_cli
from spacy_crfseq.corpora.layouts import read_preset
from spacy_crfseq.pipeline import calibration
from spacy_crfseq.schemes import decode_lenient
from tests.project.pages import DOCS, ROOT, blocks, read

PAGE = read(DOCS / "labels-from-models.md")
RESULTS = ROOT / "scripts" / "labels"
OLD_NAMES = {"PER": "person", "LOC": "city"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files of the page, made of the bundled corpus."""
    monkeypatch.chdir(tmp_path)
    corpus = ROOT / "assets" / "corpus"
    Path("gold.conll").write_bytes((corpus / "dev.conll").read_bytes())
    sentences, texts, answers = list(read_preset(corpus / "train.conll", "conll2003"))[:150], [], []
    for number, sentence in enumerate(sentences):
        spans = [span for span in decode_lenient(sentence.columns["ent"]) if span.label in OLD_NAMES]
        entities = [{"text": " ".join(sentence.words[a:b]), "label": OLD_NAMES[label]} for a, b, label in spans]
        texts.append(" ".join(sentence.words))
        answers.append({"text": texts[-1], "entities": entities[: 1 if number % 5 == 0 else None]})
    Path("news.txt").write_text("\n".join(texts), encoding="utf8")
    Path("answers.jsonl").write_text("\n".join(map(json.dumps, answers)), encoding="utf8")
    Path("rules.jsonl").write_text('{"label": "LOC", "pattern": [{"TEXT": {"REGEX": "^[A-Z].*(ford|ton)$"}}]}\n')
    nlp = spacy.blank("en")
    patterns = [{"label": "GPE", "pattern": "Norwick"}, {"label": "PERSON", "pattern": "Jordan May"}]
    nlp.add_pipe("entity_ruler").add_patterns(patterns)  # type: ignore[attr-defined]
    nlp.to_disk("en_core_web_sm")
    return tmp_path


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_commands_and_the_config_of_the_page_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "FEW", 1)  # the page calibrates on more texts
    monkeypatch.setattr(calibration, "WRONG", 0)
    from_here = PAGE[PAGE.index("## Sources become labels") :]  # commands above need corpora
    lines = "\n".join(blocks("bash", from_here)).replace("\\\n", " ").splitlines()
    commands = [shlex.split(line)[4:] for line in lines if line.startswith("python -m spacy crfseq ")]
    assert [arguments[0] for arguments in commands] == ["aggregate", "init-config", "fit", "evaluate", "calibrate"]
    for arguments in commands:
        result = CliRunner().invoke(crfseq_cli, arguments)
        assert result.exit_code == 0, (arguments, result.output)
    assert spacy.load("calibrated").pipe_names == ["crf_ner"]
    config = Config().from_disk("student.cfg")
    config["corpora"]["train"] = Config().from_str("[corpora]\n\n" + blocks("ini", PAGE)[0])["corpora"]["train"]
    config["components"]["crf_ner"]["loss"] = {"@crf_losses": "spacy_crfseq.CrossEntropy.v1"}
    config.to_disk("one-step.cfg")
    result = CliRunner().invoke(crfseq_cli, ["fit", "one-step.cfg", "--output", "again"])
    assert result.exit_code == 0, result.output
    first, again = (
        spacy.load(f"{name}/model-best")("Jordan May came to Norwick.").ents for name in ("student", "again")
    )
    assert [(ent.text, ent.label_) for ent in first] == [(ent.text, ent.label_) for ent in again]


def test_the_scores_of_sources_are_those_that_the_script_has_stored() -> None:
    """The page has them on the test part, of sources that it joins into one row in any order."""
    for lang, title in (("en", "| English |"), ("es", "| Spanish |")):
        start = PAGE.index(title)
        cells = PAGE[start : PAGE.index("\n\n", start)].replace("*", "").replace("|", ",").replace(",", " ").split()
        stored = [json.loads(path.read_text("utf8"))["test"] for path in RESULTS.glob(f"{lang}-*.json")]
        assert len(stored) == 6
        for scores in [*stored, *(source for result in stored for source in result.get("sources", {}).values())]:
            for value in (scores["f"], scores["p"], scores["r"]):
                shown = f"{100 * value:.1f}"
                assert shown in cells, (lang, scores, shown)
                cells.remove(shown)
