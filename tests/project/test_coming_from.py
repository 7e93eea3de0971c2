"""The page for those who come from other programs: its code runs, and says what it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from spacy import registry
from thinc.api import Config

from spacy_crfseq.features.attributes import BUILT_IN
from tests.features.test_template_file import CRFPP_CHUNKING
from tests.project.pages import DOCS, ROOT, blocks, read

PAGE = read(DOCS / "coming-from.md")
WAPITI = """\
*
u:word-1=%X[-1,0]
u:word=%x[ 0,0]
u:word+1=%X[ 1,0]
*:tag=%x[0,1]
u:suffix=%m[0,0,".?.?$"]
u:capital=%t[0,0,"^\\u"]
"""
ATTRIBUTES = "B-NP\tw[0]=He\tpos=PRP\nB-VP\tw[0]=ran\tpos=VBD\n\nB-NP\tw[0]=the\tpos=DT\nI-NP\tw[0]=dog\tpos=NN\n"


SECTIONS = {part.splitlines()[0]: part for part in re.split(r"^## ", PAGE, flags=re.MULTILINE) if "```python" in part}
"""The parts that hold code, by their headings."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the page names."""
    lines = read(ROOT / "assets" / "corpus" / "train.conll").splitlines()
    rows = [line.split("\t")[:3] for line in lines[2:600] if not line.startswith("-DOCSTART-")]
    (tmp_path / "train.data").write_text("\n".join(" ".join(row) for row in rows) + "\n", encoding="utf8")
    (tmp_path / "train.crfsuite").write_text(ATTRIBUTES)
    (tmp_path / "template").write_text(CRFPP_CHUNKING)
    (tmp_path / "pattern.txt").write_text(WAPITI)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_section(title: str, names: dict[str, Any]) -> None:
    """Run the code of a section with these names; skip the test if it needs sklearn-crfsuite, which is not there."""
    for code in blocks("python", SECTIONS[title]):
        if "import sklearn_crfsuite" in code:
            pytest.importorskip("sklearn_crfsuite", reason="sklearn-crfsuite is not installed")
        exec(compile(code, title, "exec"), names)


def test_every_section_is_run_here() -> None:
    assert list(SECTIONS) == ["sklearn-crfsuite", "CRFsuite", "CRF++", "Wapiti", "spacy-crfsuite"]


def test_sklearn_crfsuite(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    run_section("sklearn-crfsuite", names)
    theirs, estimator, ours = map(float, capsys.readouterr().out.split())
    assert ours == pytest.approx(theirs, rel=1e-3)
    assert estimator == pytest.approx(theirs, rel=1e-4)
    said = re.search(r"All three print ([\d.]+)\.", PAGE)
    assert said
    assert round(ours, 2) == float(said[1])
    assert [ent.label_ for ent in names["pipe"](names["examples"][0].predicted).ents] == ["PER", "LOC"]


def test_sklearn_crfsuite_on_conll2002(data_folder: Path) -> None:
    """The file holds a sentence that begins with I-LOC."""
    lines = read(data_folder / "conll2002" / "esp.train").splitlines()[220_988:222_000]
    parts = "\n".join(lines).strip().split("\n\n")
    sents = [[tuple(line.split(" ")) for line in part.split("\n")] for part in parts]
    names: dict[str, Any] = {"sents": sents}
    with pytest.warns(UserWarning, match=r"'San Sebastián.*, token 0 \('San'\): I-LOC continues no entity"):
        exec(compile(blocks("python", SECTIONS["sklearn-crfsuite"])[2], "after", "exec"), names)
    assert names["nlp"].evaluate(names["examples"])["ents_f"] > 0.9


def test_crfsuite(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_section("CRFsuite", {})
    assert capsys.readouterr().out == "[('He', 'NP'), ('ran', 'VP')]\n[('the dog', 'NP')]\n"


def test_crfpp_and_wapiti(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    run_section("CRF++", names)
    assert names["pipe"].method.features.templates[5] == "ORTH[-1]|ORTH[0]"
    assert float(capsys.readouterr().out) > 0
    run_section("Wapiti", names)
    before, after = map(int, re.findall(r"weights=(\d+)", capsys.readouterr().out))
    assert 0 < after < before / 10


def test_spacy_crfsuite(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from spacy.training import Example

    run_section("spacy-crfsuite", {"Example": Example})
    assert capsys.readouterr().out == "[('mexican', 'cuisine'), ('north', 'location')]\n"


def test_configs_resolve(folder: Path) -> None:
    for text in blocks("ini", PAGE):
        config = Config().from_str("[paths]\ntrain = train.crfsuite\n[corpora]\n" + text)
        assert registry.resolve(config)["corpora"]["train"]


def test_names_of_plugins_exist() -> None:
    """What the tables call by its name alone is registered under that name."""
    known = {
        name.split(".")[1]
        for kind in (
            "crf_losses",
            "crf_regularizers",
            "crf_optimizers",
            "crf_decoders",
            "crf_features",
            "crf_potentials",
        )
        for name in registry.get_registry_names() and getattr(registry, kind).get_all()
        if name.startswith("spacy_crfseq.")
    }
    named = set(re.findall(r"`([A-Z][A-Za-z0-9]*[a-z0-9])(?:\([^`]*\))?`", PAGE))
    others = {"True", "False", "None", *BUILT_IN}
    assert named - others <= known
