"""Paths of corpora and texts: a file, a folder, a pattern, or several with commas, for every command that reads any."""

import itertools
import re
from pathlib import Path
from typing import Any

import pytest
import spacy
from spacy.tokens import Doc, DocBin

from spacy_crfseq.corpora.paths import corpus_files, joined, resolve
from spacy_crfseq.errors import ConfigError, FormatError
from tests.commands import Corpus, Run, refused, worked, write_config

GOLD = [
    "evaluate M F", "evaluate M D --corpus F", "report M F -o page.html --samples 9",
    "calibrate M F --recall 0.2 -o new",
    "evaluate M F --against M --samples 9", "debug-data F", "debug-data D --dev F",
    "init-config c.cfg --lang en --train F --dev F", "convert F made.conll --to conll2003",
    "fit C -o training --paths.train F --paths.dev F", "weigh F --target D -o weighed.spacy",
    "propose-features M F --raw D -o features.txt", "aggregate all.conll --source a=all.conll -o labels.spacy --gold F",
]  # fmt: skip
"""Commands that read an annotated corpus F; M is a model, D a file, C a config."""
TEXTS = [
    "active M F -n 99", "explain M F --limit 99 -t 0", "explain M -n 99 --texts F", "tag M F -o tagged",
    "tag M F --html page.html", "word-classes F -o words.tsv --sizes 4 --min-count 1",
    "word-classes D -o words.tsv --sizes 4 --min-count 1 --coverage F", "weigh D --target F -o weighed.spacy",
    "propose-features M D --raw F -o features.txt", "aggregate F --source a=all.conll -o labels.spacy",
]  # fmt: skip
"""Commands that read texts F."""
CLASSES = "init-config c.cfg --lang en --train D --raw F"
"""Calls word-classes."""
FORMS = {"folder": "parts", "pattern": "parts/*.conll", "folders": "part?", "commas": "parts/b.conll,parts/a.conll"}


@pytest.fixture(scope="module")
def model(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("small") / "model"
    spacy.load(trained / "model-best", exclude=["crf_tagger", "crf_chunker"]).to_disk(folder)
    return folder


@pytest.fixture
def call(run: Run, model: Path, corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run a command on a path, in a folder with a corpus as one file and as two in a folder."""
    monkeypatch.chdir(tmp_path)
    sentences = [text for text in corpus.dev.read_text(encoding="utf8").split("\n\n") if text][:12]
    for name, part in (("all.conll", sentences), ("parts/a.conll", sentences[:5]), ("parts/b.conll", sentences[5:])):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text("".join(f"{text}\n\n" for text in part), encoding="utf8")
    Path("parts/.hidden").write_text("x")
    Path("parts/.tag").mkdir()
    Path("parts/.tag/a.conll.json").write_text("x")  # of an output of `tag`
    config = write_config(tmp_path / "config.cfg", "crf_ner")
    names: dict[str, Any] = {"M": model, "D": corpus.dev, "C": config}

    def call(command: str, path: str) -> Any:
        layout = "--format conll2003" if not command.startswith(("fit", "init-config")) else ""
        return run(*({**names, "F": path}.get(word, word) for word in command.split()), *layout.split())

    return call


def without_names(text: str) -> str:
    """Return output without times and names of files."""
    text = re.sub(r"Training crf_ner.*?(?=ents_p)", "", text, flags=re.DOTALL)  # a table with times
    text = re.sub(r", \"line\": .*|line \d+:|\S*(all\.conll|parts\S*|part\?)(:\d+:)?'?", "", text)
    return re.sub(r"seconds=[\d.]+|[\d.,]+ (s|tokens/s|MB)\b|\s+", " ", text)


@pytest.mark.parametrize(("command", "form"), list(zip([*GOLD, *TEXTS], itertools.cycle(FORMS), strict=False)))
def test_a_corpus_in_files_is_read_as_one(command: str, form: str, call: Any, tmp_path: Path) -> None:
    outputs = {}
    for name, path in {"file": "all.conll", form: FORMS[form]}.items():
        before = set(tmp_path.iterdir())
        outputs[name] = worked(call(command, path)).stdout
        for made in set(tmp_path.iterdir()) - before:
            made.rename(made.with_name(f"{name}-{made.name}"))
    if "-o tagged" in command:  # an output for each file
        return
    whole = without_names(outputs.pop("file"))
    assert {name: without_names(text) for name, text in outputs.items()} == dict.fromkeys(outputs, whole)


@pytest.mark.parametrize("command", [*GOLD, *TEXTS, CLASSES])
def test_a_pattern_without_files_is_named(command: str, call: Any) -> None:
    refused(call(command, "parts/*.iob"), "parts/*.iob: there is no file of this pattern", silent=False)
    refused(call(command, "all.conll,none.txt"), "none.txt: no such file", silent=False)


@pytest.mark.parametrize("command", GOLD)
def test_files_of_several_kinds_are_named(command: str, call: Any) -> None:
    Path("parts/LICENSE.md").write_text("x")
    said = "parts: there are files of 2 kinds: .conll (a.conll), .md (LICENSE.md). Give a pattern of one kind"
    refused(call(command, "parts"), said, silent=False)


def test_the_files_of_a_path_are_sorted_and_there_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in/deep").mkdir(parents=True)
    Path("in/.tag").mkdir()
    for name in ("b.txt", "a,b.txt", "in/c.txt", "in/deep/a.txt", "in/.d.txt", "in/.tag/c.txt"):
        Path(name).write_text("x")
    Path("link.txt").symlink_to("b.txt")
    assert resolve("in/c.txt,in,b.txt") == sorted(map(Path, ("b.txt", "in/c.txt", "in/deep/a.txt")))
    assert len(resolve("link.txt,b.txt")) == 1
    assert resolve("a,b.txt") == [Path("a,b.txt")]
    assert resolve("**/*.txt") == sorted(map(Path, ("a,b.txt", "b.txt", "in/c.txt", "in/deep/a.txt")))
    assert resolve(tmp_path / "in*") == [tmp_path / "in/c.txt", tmp_path / "in/deep/a.txt"]
    assert resolve("in/.tag") == resolve("in/.t*/*") == [Path("in/.tag/c.txt")], "where they are asked for"
    assert resolve("-") == [Path("-")]
    assert joined([Path("b.txt"), Path("in")]) == Path("b.txt,in")
    with pytest.raises(ConfigError, match=r"a,b\.txt: a comma stands between files"):
        joined([Path("a,b.txt"), Path("b.txt")])
    with pytest.raises(FormatError, match=r"none: no such file or folder"):
        resolve("b.txt,none")
    Path("in/e.iob").write_text("x")
    with pytest.raises(ConfigError, match=r"in: there are files of 2 kinds: \.iob \(e\.iob\), \.txt \(c\.txt\)"):
        corpus_files("b.txt,in")
    Path("in/LICENSE").write_text("x")
    with pytest.raises(ConfigError, match=r"such as in/\*\*/\*\.(iob|txt)\.$"):
        corpus_files("in")
    assert corpus_files("in/e.iob,b.txt") == [Path("b.txt"), Path("in/e.iob")]  # as the user says


def test_a_config_names_no_pattern_to_the_reader_of_spacy(run: Run, tmp_path: Path) -> None:
    for name in ("a", "b"):
        DocBin(docs=[Doc(spacy.blank("xx").vocab, words=["Ada"], ents=["B-PER"])]).to_disk(tmp_path / f"{name}.spacy")
    refused(
        run("init-config", tmp_path / "c.cfg", "--lang xx --train", tmp_path / "*.spacy"), "takes a file or a folder"
    )
    worked(run("init-config", tmp_path / "c.cfg", "--lang xx --train", tmp_path / "a.spacy"))


def test_a_text_of_brat_without_annotation_is_named(tmp_path: Path) -> None:
    for name in ("a.ann", "a.txt", "x.txt"):
        (tmp_path / name).touch()
    with pytest.raises(FormatError, match=r"x\.txt: there is no x\.ann beside it"):
        corpus_files(tmp_path)
    (tmp_path / "x.ann").touch()
    assert [file.name for file in corpus_files(tmp_path)] == ["a.ann", "x.ann"]


def test_outputs_of_commands_are_a_corpus_in_their_folder(run: Run, model: Path, call: Any, tmp_path: Path) -> None:
    made = (
        "tag M F -o tagged --to iob", "tag M F -o docs --to spacy", "convert F joined/out.conll --to conll2003",
        "convert F split/out.conll --to conll2003 --split 50,50",
        "aggregate all.conll --source a=all.conll -o labels/out.spacy --gold F",
    )  # fmt: skip
    for command in made:
        worked(call(command, "parts"))
    for folder in ("tagged", "docs", "joined", "split", "labels"):
        assert corpus_files(folder), sorted(tmp_path.glob(f"{folder}/**/*"))
        worked(run("init-config", f"{folder}.cfg", "--lang en --task ner --train", folder))
