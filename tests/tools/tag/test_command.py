"""``crfseq tag``: formats in and out, broken lines, finished files that are skipped, processes, odd characters."""

import gzip
import json
import multiprocessing
import os
import pickle
import subprocess
from pathlib import Path
from typing import Any

import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Doc, DocBin

from spacy_crfseq.corpora.columns import read_columns
from spacy_crfseq.corpora.conllu import read_conllu
from spacy_crfseq.errors import FormatError
from spacy_crfseq.schemes import decode_lenient, encode
from spacy_crfseq.tools.tag import RECORDS, InputFile, TagCounts, TagReport, TagSettings, tagger
from spacy_crfseq.tools.tag import tag as tag_files
from tests import forks
from tests.commands import Run, refused, worked
from tests.pipeline import helpers

TEXTS = ["Ada sees a dog in Oslo .", "the old map", "Mary paints a letter in Lima ."]
BROKEN = ["{no", '{"text": 1}', "[]", '{"text": "a \\ud800 b"}']


@pytest.fixture(scope="module")
def model(trained: Path) -> Path:
    return trained / "model-best"


@pytest.fixture(scope="module")
def nlp(model: Path) -> Language:
    return spacy.load(model)


def tag(model: object, files: list[Path], output: Path, **settings: Any) -> TagReport:
    return tag_files(TagSettings(str(model), **settings), files, output)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf8").split("\n") if line]


def write_texts(path: Path, size: int) -> Path:
    path.write_text("".join(f"{TEXTS[i % 3]} Word{i}\n" for i in range(size)), encoding="utf8")
    return path


def expected(nlp: Language, text: str) -> dict[str, Any]:
    doc = nlp(text)
    return {
        "ents": [(span.start_char, span.end_char, span.label_) for span in doc.ents],
        "chunks": [(span.start_char, span.end_char, span.label_) for span in doc.spans["chunks"]],
        "tokens": [(token.idx, token.idx + len(token), token.tag_) for token in doc],
    }


def labels_of(entry: dict[str, Any]) -> dict[str, Any]:
    triples = lambda spans: [(s["start"], s["end"], s["label"]) for s in spans]  # noqa: E731
    return {
        "ents": triples(entry["ents"]),
        "chunks": triples(entry["spans"]["chunks"]),
        "tokens": [(token["start"], token["end"], token["tag"]) for token in entry["tokens"]],
    }


def test_raw_text(run: Run, nlp: Language, model: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\ufeff" + "\r\n\n".join(TEXTS), encoding="utf8")
    with gzip.open(tmp_path / "b.txt.gz", "wt") as file:
        file.write("\n".join(TEXTS))
    worked(
        run("tag", model, tmp_path / "a.txt", tmp_path / "b.txt.gz", "--output", tmp_path / "out"),
        "Tagged 2 files: 6 texts",
    )
    for name in ("a.jsonl", "b.jsonl"):
        entries = lines(tmp_path / "out" / name)
        assert [entry["text"] for entry in entries] == TEXTS
        assert [labels_of(entry) for entry in entries] == [expected(nlp, text) for text in TEXTS]
        again = Doc(nlp.vocab).from_json(entries[0])
        assert helpers.annotation(again)["ents"] == helpers.annotation(nlp(TEXTS[0]))["ents"]


def test_the_speed_is_of_the_time_after_loading(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def load(settings: TagSettings) -> tagger.Tagger:
        now[0] += 100
        return tagger.Tagger(settings)

    def write(file: InputFile, *_: object) -> TagCounts:
        now[0] += 2
        return TagCounts(1, 60)

    for name, replacement in {"perf_counter": lambda: now[0], "Tagger": load, "_write_output": write}.items():
        monkeypatch.setattr(f"spacy_crfseq.tools.tag.{name}", replacement)
    report = tag(model, [write_texts(tmp_path / "a.txt", 1)], tmp_path / "out")
    assert (report.seconds, report.tagging, report.speed) == (102, 2, 30)
    assert "30 tokens/s after loading" in report.summary()


def test_json_keeps_what_it_does_not_know(run: Run, model: Path, tmp_path: Path) -> None:
    entry = {"id": 7, "meta": {"source": "x"}, "text": "Ada\n\nsees\u2028Oslo .\r"}
    (tmp_path / "a.jsonl").write_text(json.dumps(entry) + '\n\n{"text": ""}\n', encoding="utf8")
    out = tmp_path / "out.jsonl"
    assert run("tag", model, tmp_path / "a.jsonl", "-o", out).exit_code == 0
    first, second = lines(out)
    assert {key: first[key] for key in entry} == entry
    assert (second["text"], second["tokens"]) == ("", [])
    assert run("tag", model, tmp_path / "a.jsonl", "-o", tmp_path / "docs", "--to spacy").exit_code == 0
    docs = list(DocBin().from_disk(tmp_path / "docs" / "a.spacy").get_docs(spacy.blank("xx").vocab))
    assert [doc.text for doc in docs] == [entry["text"], ""]
    assert docs[0].user_data["meta"] == {"id": 7, "meta": {"source": "x"}}


def test_scores(run: Run, nlp: Language, model: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\n".join(TEXTS))
    for to in ("jsonl", "conll", "conllu"):
        worked(run("tag", model, tmp_path / "a.txt", "-o", tmp_path, "--scores --to", to))
    columns = list(read_columns(tmp_path / "a.conll", ["word", "tag", "chunk", "ent", "p_tag", "p_chunk", "p_ent"]))
    rows = list(read_conllu(tmp_path / "a.conllu"))
    for text, entry, sentence, row in zip(TEXTS, lines(tmp_path / "a.jsonl"), columns, rows, strict=True):
        doc = nlp(text)
        for name, spans in (("crf_ner", entry["ents"]), ("crf_chunker", entry["spans"]["chunks"])):
            answers = helpers.pipe_of(nlp, name).posterior([doc])
            assert [span["score"] for span in spans] == pytest.approx(
                [span.probability for span in answers.spans()[0]], abs=2e-6
            )
        tagged = [span.probability for span in helpers.pipe_of(nlp, "crf_tagger").posterior([doc]).spans()[0]]
        assert [token["tag_score"] for token in entry["tokens"]] == pytest.approx(tagged, abs=2e-6)
        assert [float(value) for value in sentence.columns["p_tag"]] == pytest.approx(tagged, abs=2e-6)
        outside = [tag == "O" for tag in sentence.columns["ent"]]
        assert [value == "_" for value in sentence.columns["p_ent"]] == outside
        assert row.columns["tag"] == sentence.columns["tag"]
    p_tag, p_chunk, p_ent = (columns[0].columns[f"p_{name}"][0] for name in ("tag", "chunk", "ent"))
    first = (tmp_path / "a.conllu").read_text().split("\n")[1]
    assert first.endswith(f"\tTagScore={p_tag}|Chunk=B-NP|ChunkScore={p_chunk}|Ent=B-PER|EntScore={p_ent}")


@pytest.mark.parametrize(("name", "first"), [
    ("a.jsonl", b"{"), ("a.conll", b"Ada "), ("a.iob", b"Ada "), ("a.conllu", b"# "), ("new", None),
])  # fmt: skip
def test_the_ending_of_the_output_is_its_layout(name: str, first: bytes | None, model: Path, tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("Ada sees Oslo .")
    tag(model, [tmp_path / "b.txt"], tmp_path / name)
    if first is None:
        assert lines(tmp_path / name / "b.jsonl")
    else:
        assert (tmp_path / name).read_bytes().startswith(first)


def test_columns_can_be_read_again(run: Run, nlp: Language, model: Path, corpus: Any, tmp_path: Path) -> None:
    out = tmp_path / "out.conll"
    assert run("tag", model, corpus.dev, "-f conll2003 -o", out, "--to conll2003").exit_code == 0
    names = ["word", "tag", "chunk", "ent"]
    words = [sentence.words for sentence in read_columns(corpus.dev, names)]
    assert [sentence.words for sentence in read_columns(out, names)] == words
    score = run("evaluate", model, out, "--format conll2003 --json")
    assert json.loads(score.stdout)["ents_f"] == 1.0
    worked(run("convert", out, tmp_path / "out.iob", "--from conll2003 --to iob"))
    # the same by way of a DocBin, whose words are read
    assert run("convert", corpus.dev, tmp_path / "dev.spacy", "--from conll2003 --to spacy").exit_code == 0
    assert run("tag", model, tmp_path / "dev.spacy", "-o", tmp_path / "again.conll", "--to conll2003").exit_code == 0
    assert (tmp_path / "again.conll").read_bytes() == out.read_bytes()


def test_spans_have_the_tags_of_a_scheme(run: Run, nlp: Language, model: Path, tmp_path: Path) -> None:
    source = write_texts(tmp_path / "a.txt", 3)
    tag(model, [source], tmp_path / "iob2.conll")
    two = read_columns(tmp_path / "iob2.conll", ("word", "tag", "chunk", "ent"))
    options = ["--output", tmp_path / "iobes.conll", "--to", "conll", "--to-scheme", "bioes"]
    worked(run("tag", model, source, *options))
    for sentence, other in zip(
        two, read_columns(tmp_path / "iobes.conll", ("word", "tag", "chunk", "ent")), strict=True
    ):
        for name in ("chunk", "ent"):
            spans = decode_lenient(sentence.columns[name])
            assert list(other.columns[name]) == encode(spans, len(sentence.words), "IOBES")
    assert "S-PER" in (tmp_path / "iobes.conll").read_text(encoding="utf8")
    refused(
        run("tag", model, source, "-o", tmp_path / "b", "--to-scheme", "IOBES"), "only columns have tags of a scheme"
    )
    refused(
        run("tag", model, source, "-o", tmp_path / "b", "--to", "iobes"),
        "--to iobes: a scheme of tags, not",
        "--to-scheme IOBES",
    )


def test_standard_streams(model: Path) -> None:
    done = command(model, "-", "--output", "-", "--to", "iob", stdin="\n".join(TEXTS))
    assert (done.returncode, done.stderr.count("\n")) == (0, 1), done.stderr
    assert done.stdout.startswith("Ada O\n" if "Ada O" in done.stdout[:6] else "Ada B-PER\n")
    assert done.stdout.count("\n\n") == 3
    assert "3 texts" in done.stderr


def command(*arguments: object, stdin: str | None = None, **options: Any) -> subprocess.CompletedProcess[str]:
    return forks.run(["-m", "spacy", "crfseq", "tag", *arguments], stdin, **options)


def test_ctrl_c_says_how_to_continue(run: Run, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(tagger.Tagger, "annotate", interrupt)
    (tmp_path / "a.txt").write_text("Ada\n")
    result = run("tag", model, tmp_path / "a.txt", "-o", tmp_path / "out")
    assert result.exit_code == 130
    assert "To continue, run the same command again" in result.stderr
    assert "To continue" not in run("tag", model, tmp_path / "a.txt", "-o", "-").stderr


def test_broken_lines(run: Run, model: Path, tmp_path: Path) -> None:
    whole = [json.dumps({"text": text}) for text in TEXTS]
    data = "\n".join([whole[0], *BROKEN, *whole[1:]]).encode() + b"\n\xff\n"
    (tmp_path / "a.jsonl").write_bytes(data)
    result = run("tag", model, tmp_path / "a.jsonl", "-o", tmp_path / "out")
    assert result.exit_code == 3
    assert "5 malformed lines skipped" in result.stdout
    told = result.stderr.splitlines()
    assert [line.split(": ")[0].rsplit("/")[-1] for line in told] == [f"a.jsonl:{n}" for n in (2, 3, 4, 5, 8)]
    assert "half a character" in told[3]
    assert "is not utf8" in told[4]
    assert [entry["text"] for entry in lines(tmp_path / "out" / "a.jsonl")] == TEXTS
    again = run("tag", model, tmp_path / "a.jsonl", "-o", tmp_path / "out")
    assert again.exit_code == 3
    assert "1 complete already; 5 malformed lines skipped, 5 of them earlier" in again.stdout
    strict = run("tag", model, tmp_path / "a.jsonl", "-o", tmp_path / "strict", "--strict")
    refused(strict, "a.jsonl:2: no JSON")
    assert not (tmp_path / "strict" / "a.jsonl").exists()


UNWRITABLE = ['"\\ud800"', "1" * 30, "[" * 700 + "]" * 700]


@pytest.mark.parametrize(("to", "left_out"), [("jsonl", [2]), ("spacy", [2, 3, 4])])
def test_a_text_that_an_output_cannot_hold_is_a_broken_line(
    run: Run, model: Path, tmp_path: Path, to: str, left_out: list[int]
) -> None:
    data = "".join(f'{{"text": "Ada sees.", "id": {number}}}\n' for number in ("1", *UNWRITABLE, '"\\ud83d\\ude00"'))
    (tmp_path / "a.jsonl").write_text(data)
    result = run("tag", model, tmp_path / "a.jsonl", "-o", tmp_path / "out", "--to", to)
    assert result.exit_code == 3, result.stderr
    told = [line.split(": ")[0].rsplit("/")[-1] for line in result.stderr.splitlines()]
    assert told == [f"a.jsonl:{n}" for n in left_out]
    assert f"{5 - len(left_out)} texts" in result.stdout
    if to == "jsonl":
        assert [entry["id"] for entry in lines(tmp_path / "out" / "a.jsonl")][::3] == [1, "\U0001f600"]


def test_a_damaged_packed_file(run: Run, model: Path, tmp_path: Path) -> None:
    whole = gzip.compress("\n".join(TEXTS).encode())
    for cut, message in ((whole[:-20], "cut short"), (whole[:10] + b"\xff" * 400, "is damaged")):
        (tmp_path / "a.txt.gz").write_bytes(cut)
        refused(run("tag", model, tmp_path / "a.txt.gz", "-o", tmp_path / "out", "--overwrite"), message)
        assert not (tmp_path / "out" / "a.jsonl").exists()


def test_a_text_that_a_component_cannot_do(run: Run, model: Path, tmp_path: Path) -> None:
    code = tmp_path / "code.py"
    code.write_text(
        "from spacy.language import Language\n\n@Language.component('picky')\ndef picky(doc):\n"
        "    if 'map' in doc.text:\n        raise RuntimeError('no maps')\n    return doc\n"
    )
    spacy.util.import_file("picky_code", code)
    nlp = spacy.load(model)
    nlp.add_pipe("picky")
    nlp.to_disk(tmp_path / "model")
    (tmp_path / "a.txt").write_text("\n".join(TEXTS))
    result = run("tag", tmp_path / "model", tmp_path / "a.txt", "-o", tmp_path / "out", "--code", code)
    assert result.exit_code == 3
    assert "a.txt:2: cannot be annotated: no maps" in result.stderr
    assert [entry["text"] for entry in lines(tmp_path / "out" / "a.jsonl")] == [TEXTS[0], TEXTS[2]]


@pytest.mark.parametrize(("arguments", "message"), [
    (["none.txt", "-o", "out"], "no such file"),
    (["a.txt", "-o", "out", "--to", "conl"], "Did you mean 'conll'?"),
    (["a.txt", "-o", "out", "-f", "jsn"], "Did you mean 'jsonl'?"),
    (["a.txt", "-o", "out", "--to", "conll2003", "--scores"], "cannot hold --scores"),
    (["a.txt", "a.jsonl", "-o", "out"], "would both be written to"),
    (["a.jsonl", "-o", "."], "would replace this input"),
    (["a.txt", "-", "-o", "out"], "must be the only file"),
    (["a.txt", "-o", "-", "--to", "spacy"], "cannot be written to standard output"),
    (["a.txt", "b.txt", "-o", "a.jsonl"], "is a file, but 2 files"),
    (["a.txt", "b.txt", "-o", "new.jsonl"], "is a file, but 2 files"),
    (["a.txt", "-o", "notes.md"], "notes.md is a file, but its ending is not that of --to jsonl"),
    (["b.txt", "-o", "full"], "exists, and no earlier run of this command has made it"),
])  # fmt: skip
def test_unusable_input_is_refused_with_its_reason(
    run: Run, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.txt", "b.txt", "a.jsonl", "notes.md"):
        Path(name).touch()
    Path("full").mkdir()
    Path("full", "b.jsonl").touch()
    refused(run("tag", model, *arguments), message)
    assert not Path("out").exists() or not [path for path in Path("out").iterdir() if path.is_file()]


def make_small(patch: pytest.MonkeyPatch) -> None:
    """Let portions and memory zones be small."""
    patch.setattr(tagger, "PART_TEXTS", 8)
    patch.setattr(tagger, "FIRST_STRINGS", 10)
    patch.setattr(tagger, "ZONE_STRINGS", 10)
    patch.setattr(tagger, "RENEW_STRINGS", 60)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    make_small(monkeypatch)


class Killed(BaseException):
    """An exception in place of a signal that no code can catch."""


@pytest.mark.parametrize("to", ["jsonl", "conll", "spacy"])
def test_a_run_that_was_killed_goes_on_with_the_file_that_it_was_at(
    model: Path, tmp_path: Path, to: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tagger, "PART_TEXTS", 8)
    files = [write_texts(tmp_path / f"{name}.txt", size) for name, size in (("a", 20), ("b", 30), ("c", 5))]
    tag(model, files, tmp_path / "whole", to=to)
    annotate, parts = tagger.Tagger.annotate, iter(range(5))  # three of a.txt, and two of four of b.txt

    def limited(self: Any, part: Any) -> Any:
        if next(parts, None) is None:
            raise Killed
        return annotate(self, part)

    with monkeypatch.context() as patch:
        patch.setattr(tagger.Tagger, "annotate", limited)
        with pytest.raises(Killed):
            tag(model, files, tmp_path / "out", to=to)
    (ending,) = {path.suffix for path in (tmp_path / "whole").iterdir() if path.is_file()}
    assert [*contents(tmp_path / "out")] == [f"a{ending}"]  # and nothing that is not complete
    (tmp_path / "out" / f".b{ending}.99999999.part").touch()  # as a process leaves it that has no time to clear up
    done = tag(model, files, tmp_path / "out", to=to)
    assert (done.files, done.complete, done.new.texts, done.counts.texts) == (2, 1, 35, 55)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
    again = tag(model, files, tmp_path / "out", to=to)
    assert (again.files, again.complete, again.counts.texts) == (0, 3, 55)


def test_an_output_without_a_readable_record_is_refused(run: Run, model: Path, tmp_path: Path) -> None:
    arguments = [write_texts(tmp_path / "a.txt", 2), "--output", tmp_path / "out"]
    worked(run("tag", model, *arguments))
    (tmp_path / "out" / RECORDS / "a.jsonl.json").write_text('{"made_from"')
    refused(run("tag", model, *arguments), "a.jsonl.json cannot be read. Use --force")
    worked(run("tag", model, *arguments, "--force"), "2 texts")
    worked(run("tag", model, *arguments), "1 file complete already")


def test_all_files_of_a_folder(run: Run, model: Path, tmp_path: Path) -> None:
    (tmp_path / "in" / "more").mkdir(parents=True)
    for name in ("b.txt", "a.jsonl", "more/c.txt"):
        text = json.dumps({"text": TEXTS[0]}) if name.endswith("jsonl") else TEXTS[0]
        (tmp_path / "in" / name).write_text(f"{text}\n")
    worked(run("tag", model, tmp_path / "in", "--output", tmp_path / "out"), "Tagged 3 files: 3 texts")
    assert [*contents(tmp_path / "out")] == ["a.jsonl", "b.jsonl", "c.jsonl"]
    assert len({*contents(tmp_path / "out").values()}) == 1
    (tmp_path / "empty").mkdir()
    refused(run("tag", model, tmp_path / "empty", "--output", tmp_path / "out"), "there is no file in this folder")


def test_an_input_without_a_text_has_an_output(run: Run, model: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch()
    for to in ("jsonl", "spacy"):
        worked(run("tag", model, tmp_path / "a.txt", "-o", tmp_path / "out", "--to", to), "1 file: 0 texts")
    assert (tmp_path / "out" / "a.jsonl").read_bytes() == b""
    assert len(DocBin().from_disk(tmp_path / "out" / "a.spacy")) == 0


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


def test_an_input_is_known_by_its_content(run: Run, model: Path, tmp_path: Path) -> None:
    """Not by its size and time, which a copy may keep, and which a file may have that says the same."""
    source = write_texts(tmp_path / "a.txt", 5)
    arguments = [source, "--output", tmp_path / "out"]
    worked(run("tag", model, *arguments))
    os.utime(source)
    worked(run("tag", model, *arguments), "1 file complete already")
    status, text = source.stat(), source.read_text()
    source.write_text(text[::-1])
    os.utime(source, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert source.stat().st_size == status.st_size
    refused(run("tag", model, *arguments), "the file has changed")


def test_an_output_that_was_changed_is_kept(run: Run, model: Path, tmp_path: Path) -> None:
    """A record is written before its output, so one that is not its own may be of a user or of an earlier run."""
    source, output = write_texts(tmp_path / "a.txt", 5), tmp_path / "out" / "a.jsonl"
    arguments = [source, "--output", tmp_path / "out"]
    worked(run("tag", model, *arguments))
    output.write_text("mine")
    refused(run("tag", model, *arguments), "is not as this command has written it")
    assert output.read_text() == "mine"
    worked(run("tag", model, *arguments, "--force"), "5 texts")


def test_other_settings_are_noticed(run: Run, model: Path, tmp_path: Path, nlp: Language) -> None:
    source = write_texts(tmp_path / "a.txt", 5)
    arguments = [source, "--output", tmp_path / "out"]
    assert run("tag", model, *arguments).exit_code == 0
    refused(run("tag", model, *arguments, "--scores"), "--scores has changed from False to True")
    other = spacy.load(model)
    other.remove_pipe("crf_tagger")
    other.to_disk(tmp_path / "model")
    assert "the model has changed" in run("tag", tmp_path / "model", *arguments).stderr
    write_texts(source, 6)
    assert "the file has changed" in run("tag", model, *arguments).stderr
    worked(run("tag", model, *arguments, "--overwrite"), "6 texts")
    assert "1 file complete already" in run("tag", model, *arguments).stdout
    (tmp_path / "out" / "a.jsonl").unlink()
    assert "6 texts" in run("tag", model, *arguments).stdout
    assert len(lines(tmp_path / "out" / "a.jsonl")) == 6


@pytest.mark.usefixtures("small")
def test_zones_and_a_pipeline_loaded_anew_change_nothing(
    model: Path, nlp: Language, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tagger.gc, "unfreeze", lambda: None)  # else it looks through what all tests have made
    source = write_texts(tmp_path / "a.txt", 60)
    tag(model, [source], tmp_path / "out")
    entries = lines(tmp_path / "out" / "a.jsonl")
    texts = source.read_text().splitlines()
    assert [labels_of(entry) for entry in entries] == [expected(nlp, text) for text in texts]


def test_two_processes(run: Run, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [write_texts(tmp_path / f"{name}.txt", 20 + i) for i, name in enumerate("abc")]
    with files[1].open("ab") as file:
        file.write(b"\xff\n")
    tag(model, files, tmp_path / "one")
    for method in {"fork", "spawn"} & {*multiprocessing.get_all_start_methods()}:
        monkeypatch.setattr(multiprocessing, "get_all_start_methods", lambda method=method: [method])
        done = run("tag", model, *files, "-o", tmp_path / method, "-j", "2")
        assert done.exit_code == 3, done.stderr
        assert "3 files: 63 texts" in done.stdout
        assert "b.txt:22: byte" in done.stderr
        assert contents(tmp_path / method) == contents(tmp_path / "one")
    again = pickle.loads(pickle.dumps(FormatError("a.txt", 3, "bad.")))
    assert (str(again), again.line) == ("a.txt:3: bad.", 3)
