"""The page for those who come from other programs: its code runs, and says what it says."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import spacy
from spacy import registry
from spacy.cli.package import package
from spacy.tokens import Doc
from spacy.training import Example
from thinc.api import Config

from spacy_crfseq.corpora.saved_models import read_saved_model
from spacy_crfseq.features.attributes import BUILT_IN
from spacy_crfseq.tools.annotate import command
from spacy_crfseq.tools.annotate.project import Project
from spacy_crfseq.tools.models.imported import import_pipeline
from tests.commands import invoke, worked, write_models
from tests.features.test_template_file import CRFPP_CHUNKING
from tests.pipeline.helpers import pipe_of
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


KEPT = "Keep your program, change its trainer"
NAMES = "".join(
    f"A{'d' * i}a\tB-X\nsaw\tO\nBo\tB-X\n\nCy\tB-X\nr{'a' * i}n\tO\n\nIn\tO\nM{'a' * i}y\tO\n\n" for i in range(25)
)
"""Entities, enough to calibrate an imported model, and words in their form, which it mistakes for entities."""


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
    first = "A project of labelled XML, step by step"
    assert list(SECTIONS) == [first, KEPT, "sklearn-crfsuite", "CRFsuite", "CRF++", "Wapiti", "spacy-crfsuite"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # files that `spacy package` leaves open
def test_labelled_xml(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The files that the section names, its commands in their order, and its settings in the config."""
    text = SECTIONS["A project of labelled XML, step by step"]
    (example,), (features, *use) = blocks("xml", text), blocks("python", text)
    start, *names, end = example.splitlines()
    (folder / "labeled.xml").write_text(
        "\n".join([start, *(line.replace("King", f"K{'i' * i}ng") for line in names for i in range(20)), end])
    )
    (folder / "new.txt").write_text("Ada King\nKing, Ada\n")
    (folder / "names.py").write_text(features)
    first, *others = ("\n" + block.replace("\\\n", " ") for block in blocks("bash", text))
    commands = [line for block in others for line in block.splitlines() if line]
    for line in filter(None, first.splitlines()):
        worked(invoke(*shlex.split(line)[4:]))
    config = (folder / "names.cfg").read_text()
    for block in blocks("ini", text):
        for section in re.findall(r"^\[(.+)\]$", block, re.MULTILINE):
            config = re.sub(rf"^\[{re.escape(section)}\]\n(?:(?!\[).*\n)*", "", config, flags=re.MULTILINE)
        config += f"\n{block}"
    (folder / "names.cfg").write_text(config)
    for line in commands:
        words = shlex.split(line)[3:]
        if line.startswith("mkdir"):
            (folder / line.split()[-1]).mkdir()
        elif words[0] == "crfseq":
            worked(invoke(*words[1:]))
        else:
            package(Path(words[1]), Path(words[2]), code_paths=[Path("names.py")], name="names", create_sdist=False)
    assert (folder / "packages" / "en_names-0.0.0" / "en_names" / "names.py").exists()
    capsys.readouterr()
    collected: dict[str, Any] = {}
    exec(compile("\n".join(use), "use", "exec"), collected)
    assert collected["nlp"].config["components"]["crf_tagger"]["once"] == ["*"]
    assert capsys.readouterr().out.splitlines()[0] == "[('Ada', 'given'), ('King', 'last')]"
    assert spacy.load("training/model-best").config["components"]["crf_tagger"]["boundaries"] is False


def test_columns_that_a_program_computes(folder: Path) -> None:
    for code in blocks("python", SECTIONS["CRF++"]):
        if "references" in code:
            exec(compile(code, "columns", "exec"), {})
    (block,) = (block for block in blocks("ini", PAGE) if "references.columns.v1" in block)
    lines = 'U1:%x[-1,1]/%x[0,2]\nU2:%t[0,2,"^\\u"]\nU3:%x[-1,4]/%x[0,4]\nB:%x[0,3]\nU4:%x[0,3]\nB\n'
    (folder / "references.template").write_text(lines)
    settings = Config().from_str(f"[components]\n[components.crf_tagger]\n{block}")["components"]["crf_tagger"]
    nlp = spacy.blank("en")
    pipe = nlp.add_pipe("crf_tagger", config=settings)
    docs = [Doc(nlp.vocab, words=["Ada", "(1843)"], tags=["who", "year"])]
    nlp.initialize(lambda: [Example(nlp.make_doc(doc.text), doc) for doc in docs])
    pipe.fit([Example(Doc(nlp.vocab, words=["Ada", "(1843)"]), docs[0])])
    assert [token.tag_ for token in pipe(Doc(nlp.vocab, words=["Bo", "(1850)"]))] == ["who", "year"]


def test_keep_your_program(folder: Path) -> None:
    """The models are those that were trained; other programs read them in `tests/tools/models`."""
    names: dict[str, Any] = {}
    run_section(KEPT, names)
    assert getattr(read_saved_model(Path("model.crfsuite")), "labels", None) == ["NAME", "O"]
    worked(invoke("export-model", "trained", "model.wapiti"))
    saved, nlp = read_saved_model(Path("model.wapiti")), spacy.blank("xx")
    assert saved is not None
    assert (saved.attributes.values != 0).all()
    import_pipeline(nlp, saved)
    docs = [example.predicted for example in names["examples"](nlp, "train.data")]
    expected = [[token.tag_ for token in doc] for doc in names["nlp"].pipe(doc.copy() for doc in docs)]
    assert [[token.tag_ for token in doc] for doc in nlp.pipe(docs)] == expected


def test_commands_for_an_imported_model_work_one_after_another(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_models(folder)
    (folder / "labeled.iob").write_text(NAMES)
    (folder / "new.txt").write_text("Ada saw Bo\nit ran\n")
    offered = []

    def shown(project: Project, port: int) -> None:
        project.start()
        assert project.settle()
        offered.append(project.next("tab"))
        project.close()

    monkeypatch.setattr(command, "serve", shown)
    (commands,) = (block for block in blocks("bash", PAGE) if "calibrate" in block)
    for line in commands.splitlines():
        worked(invoke(*shlex.split(line)[4:]))
    assert pipe_of(spacy.load("calibrated")).cfg["temperature"] != 1
    assert len(read(folder / "chosen.jsonl").splitlines()) == 2
    assert len(offered) == 2


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
    assert names["pipe"].doc_model.features.templates[5] == "ORTH[-1]|ORTH[0]"
    assert float(capsys.readouterr().out) > 0
    run_section("Wapiti", names)
    before, after = map(int, re.findall(r"weights=(\d+)", capsys.readouterr().out))
    assert 0 < after < before / 10


def test_spacy_crfsuite(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from spacy.training import Example

    run_section("spacy-crfsuite", {"Example": Example})
    assert capsys.readouterr().out == "[('mexican', 'cuisine'), ('north', 'location')]\n"


def test_configs_resolve(folder: Path) -> None:
    for text in (text for text in blocks("ini", PAGE) if text.startswith("[corpora")):
        config = Config().from_str("[paths]\ntrain = train.crfsuite\n[corpora]\n" + text)
        assert registry.resolve(config)["corpora"]["train"]


def test_names_of_plugins_exist() -> None:
    """Plug-ins that the tables call by their names alone are registered under these names."""
    kinds = ["losses", "regularizers", "optimizers", "decoders", "features", "potentials", "attributes"]
    registries = [getattr(registry, kind) for kind in ("readers", "tokenizers", *(f"crf_{kind}" for kind in kinds))]
    names = {
        name.split(".")[1] for registry in registries for name in registry.get_all() if name.startswith("spacy_crfseq.")
    }
    named = set(re.findall(r"`([A-Z][A-Za-z0-9]*[a-z0-9])(?:\([^`]*\))?`", PAGE))
    others = {"Tagger", "True", "False", "None", "RepeatedLabelError", *BUILT_IN}
    assert named - others <= names
