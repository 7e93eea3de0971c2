"""Review of an annotated corpus: planted errors come first, and only what is corrected changes in the file."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import DocBin

from spacy_crfseq.corpora import PRESETS
from spacy_crfseq.corpora.guessing import find_layout
from spacy_crfseq.corpora.layouts import Asked, Preset
from spacy_crfseq.errors import ConfigError, DataError
from spacy_crfseq.pipeline.white_space import words_of
from spacy_crfseq.schemes import TagSpan, encode
from spacy_crfseq.tools.annotate.command import FirstPipeline, annotate
from spacy_crfseq.tools.annotate.journal import Decision, Pins
from spacy_crfseq.tools.annotate.learning import Learner, blank
from spacy_crfseq.tools.annotate.pool import TextFile
from spacy_crfseq.tools.annotate.project import Project
from spacy_crfseq.tools.annotate.review import AnnotatedFile
from tests.pipeline.test_white_space import with_space
from tests.tools.annotate.conftest import gold, sentences

TEXTS = [text.split() for text in sentences(200)]
WRONG = (3, 30, 60)
"""Texts in which the first entity is not annotated."""
TEXTS[30] = TEXTS[29]  # a copy, annotated otherwise


def columns(wrong: tuple[int, ...]) -> str:
    lines = ["-DOCSTART- -X- O", ""]
    for number, words in enumerate(TEXTS):
        tags = encode(gold(words)[number in wrong :], len(words), "IOB2")
        lines += [f"{word}\tX  {tag}" for word, tag in zip(words, tags, strict=True)] + [""]
    return "\r\n".join(lines)


def conllu(wrong: tuple[int, ...]) -> str:
    blocks = []
    for number, words in enumerate(TEXTS):
        right = {span.start: "PROPN" for span in gold(words)[number in wrong :]}
        rows = [[str(i + 1), word, "_", right.get(i, "NOUN"), *"______"] for i, word in enumerate(words)]
        rows.insert(0, ["1-2", "".join(words[:2]), *"________"])
        blocks.append(f"# text = {' '.join(words)}\n" + "".join("\t".join(row) + "\n" for row in rows))
    return "\n".join(blocks) + "\n"


def review(project: Project) -> list[str]:
    """Take the first offer for each of the texts with planted errors; return the texts as they come."""
    shown = []
    project.start()
    for number in range(len(WRONG)):
        item: Any = project.next("a")
        decoding, _ = project.decode(item, Pins())
        first = max(decoding.offers, key=lambda offer: offer.probability)
        spans = [span[:3] for span in decoding.spans if span.start >= first.end or span.end <= first.start]
        pins = Pins(tuple(sorted([*spans, first[:3]]))).as_json()
        told = {"by_user": [], "predicted": [], "model": 0, "seconds": 1, "actions": 1, "reviewed": True}
        project.accept("a", {"key": item.key, "pins": pins, "id": f"r{number}", **told})
        shown.append(project.note(item))
    assert project.advice() == "Of the last 3 texts, you have corrected 3."
    project.close()
    return shown


@pytest.mark.parametrize("name", ["corpus.conll", "corpus.conllu", "corpus.spacy", "breaks.spacy"])
def test_planted_errors_come_first_and_all_else_stays(name: str, tmp_path: Path) -> None:
    path, folder, more = tmp_path / name, tmp_path / "new", {}
    if path.suffix == ".spacy":
        nlp, docs = spacy.blank("en"), []
        for number, words in enumerate(TEXTS):
            docs.append(spacy.tokens.Doc(nlp.vocab, words=words, tags=["T"] * len(words)))
            docs[-1].set_ents([docs[-1].char_span(docs[-1][s].idx, docs[-1][e - 1].idx + len(docs[-1][e - 1]), label)
                               for s, e, label in gold(words)[number in WRONG :]])  # fmt: skip
            if name == "breaks.spacy":
                docs[-1] = with_space(docs[-1], ["", *["\n"] * len(words)])
        DocBin(docs=docs).to_disk(path)
    else:
        make = columns if name == "corpus.conll" else conllu
        path.write_bytes(make(WRONG).encode())
        config = tmp_path / "pos.cfg"
        config.write_text('[nlp]\nlang = "xx"\npipeline = ["crf_tagger"]\n[components]\n[components.crf_tagger]\n'
                          'factory = "crf_tagger"\nattr = "pos"\n')  # fmt: skip
        more = {"layout": "conll2002"} if name == "corpus.conll" else {"first": FirstPipeline("tags", config=config)}
    shown = review(annotate([path], folder, review=True, **more))
    assert all(note.startswith("Annotated ") for note in shown)
    if path.suffix == ".spacy":
        docs = list(DocBin().from_disk(folder / name).get_docs(nlp.vocab))
        ents = [[(e.start, e.end, e.label_) for e in doc.ents] for doc in words_of(docs)]
        assert ents == [gold(words) for words in TEXTS]
        assert {token.tag_ for doc in docs for token in doc if not token.is_space} == {"T"}
    else:
        assert (folder / name).read_bytes() == make(()).encode()
    again = annotate([path], folder, review=True, **more)  # goes on, without training
    assert len(again.state.decisions) == 3
    again.undo("b", "u")
    again.start()
    assert again.settle()
    again.close()
    assert (folder / name).read_bytes() != path.read_bytes()


@pytest.mark.parametrize(("texts", "more", "message"), [
    (["a.conll"], {"layout": "conll2000"}, "no column 'ent'"),
    (["a.conll", "b.conll"], {}, "one corpus"),
    (["a.conll"], {"output": Path()}, "is read by this command"),
    (["a.conll"], {}, "only 1 different"),
])  # fmt: skip
def test_corpora_that_cannot_be_reviewed_are_refused(
    texts: list[str], more: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in texts:
        Path(name).write_text("Ada B-PER\n\n")
    with pytest.raises((ConfigError, ValueError), match=message):
        annotate([Path(name) for name in texts], **{"output": Path("new"), "layout": "iob", "review": True, **more})


# The corpus, without the models that find errors


def corpus_of(path: Path, task: str = "entities", layout: Any = None) -> AnnotatedFile:
    learner = Learner(blank(task, "xx"))
    return AnnotatedFile(learner, TextFile(path, find_layout(path, Asked(layout)).layout))


def corrected(corpus: AnnotatedFile, number: int, spans: Any, **more: Any) -> dict[str, Decision]:
    """Return a decision on a text."""
    old = corpus.decisions[number]
    return {old.key: old._replace(pins=Pins(tuple(TagSpan(*span) for span in spans), **more))}


ENCODINGS = ["utf8", "latin-1", "utf-16", "utf-16-be", "utf-32", "utf-8-sig"]
LABELS = st.sampled_from(["PER", "LOC", "Åö"])


@st.composite
def annotations(draw: Any, size: int) -> list[TagSpan]:
    """Draw spans of a text."""
    spans, at = list[TagSpan](), 0
    while at < size:
        length = draw(st.integers(0, 3))
        if length and at + length <= size:
            spans.append(TagSpan(at, at + length, draw(LABELS)))
        at += max(length, 1)
    return spans


@given(st.data())
def test_only_the_fields_of_corrected_spans_change(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("columns")
    sizes = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=4))
    old = [data.draw(annotations(size)) for size in sizes]
    new = [data.draw(annotations(size)) for size in sizes]
    scheme, encoding = data.draw(st.sampled_from(["IOB1", "IOB2", "BILUO"])), data.draw(st.sampled_from(ENCODINGS))
    end, mark = data.draw(st.sampled_from(["\n", "\r\n"])), data.draw(st.sampled_from(["", "\ufeff"]))
    blanks = data.draw(st.lists(st.sampled_from([" ", "\t", "  \t "]), min_size=1, max_size=5))
    if encoding not in ("utf8", "utf-16-be"):
        mark = ""  # the encoding has one of its own, or none
    rows = []
    for number, (size, spans) in enumerate(zip(sizes, old, strict=True)):
        tags = encode(spans, size, scheme)
        rows += [["w\xa0é", f"X{number}", tag, blanks[i % len(blanks)]] for i, tag in enumerate(tags)] + [[]]
    lines = [f"{row[0]}{row[3]}{row[1]}{row[3]}{row[2]}" if row else "" for row in rows]
    path = folder / data.draw(st.sampled_from(["a.conll", "a.conll.gz"]))
    content = (mark + end.join(lines)).encode(encoding)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    layout = Preset("columns", ("word", "tag", "ent"), scheme, encoding, "ent")
    corpus = AnnotatedFile(Learner(blank("entities", "xx")), TextFile(path, layout))
    assert [list(decision.pins.spans) for decision in corpus.decisions] == old
    corpus.write(folder / "same", {})
    assert (folder / "same").read_bytes() == content
    decisions = {}
    for number, spans in enumerate(new):
        decisions |= corrected(corpus, number, spans)
    corpus.write(folder / "out", decisions)
    again = AnnotatedFile(Learner(blank("entities", "xx")), TextFile(folder / "out", layout))
    assert [list(decision.pins.spans) for decision in again.decisions] == new
    written = (folder / "out").read_bytes().decode(encoding).removeprefix("\ufeff").replace("\r", "").split("\n")
    at = 0
    for number, size in enumerate(sizes):
        stays = set(old[number]) & set(new[number])
        kept = {t for span in stays for t in range(span.start, span.end)}
        kept |= {t for t in range(size) if all(not s.start <= t < s.end for s in (*old[number], *new[number]))}
        for token in range(size):
            before, after = lines[at + token], written[at + token]
            assert before[: -len(rows[at + token][2])] == after[: len(before) - len(rows[at + token][2])]
            if token in kept and scheme != "IOB1":  # there, B- says that the same type ends right before
                assert before == after
        at += size + 1


def test_tokens_of_conllu_that_nobody_touched_keep_their_bytes(tmp_path: Path) -> None:
    def block(tag: str) -> str:
        rows = ["1\tThe\t_\tDET\tDT\t_\t0\troot\t_\t_", "2-3\tdogs'\t_\t_\t_\t_\t_\t_\t_\t_",
                f"2\tdog\t_\tNOUN\t{tag}\t_\t0\troot\t_\t_", "3\t's\t\tPART\t_\t_\t0\troot\t_\t_",
                "3.1\tempty\t_\t_\t_\t_\t_\t_\t0:x\t_", "4\tbarks\t_\t_\t\t_\t0\troot\t_\t_"]  # fmt: skip
        return "# text = x\r\n" + "".join(f"{row}\r\n" for row in rows) + "\r\n"

    path = tmp_path / "a.conllu"
    path.write_bytes(b"\xef\xbb\xbf" + (block("VB") + block("NN")).encode())
    corpus = corpus_of(path, "tags")
    assert corpus.decisions[0].pins.unknown == (2, 3)
    corpus.write(tmp_path / "out", corrected(corpus, 0, [(0, 1, "DT"), (1, 2, "NN")], unknown=(2, 3)))
    assert (tmp_path / "out").read_bytes() == b"\xef\xbb\xbf" + (block("NN") + block("NN")).encode()
    corpus.write(tmp_path / "out", corrected(corpus, 0, [(0, 1, "DT"), (1, 2, "VB"), (3, 4, "V")], unknown=(2,)))
    assert b"\t_\t_\tV\t_\t0" in (tmp_path / "out").read_bytes()


def test_stray_tags_of_a_corrected_text_stay_where_they_are_right(tmp_path: Path) -> None:
    path = tmp_path / "a.iob"
    path.write_text("a I-X\nb O\nc I-Y\nd B-Y\ne I-Z\n\n")
    corpus = corpus_of(path, layout="iob")
    spans = corpus.decisions[0].pins.spans
    corpus.write(tmp_path / "out", corrected(corpus, 0, [*spans[:3], (4, 5, "X")]))
    assert (tmp_path / "out").read_text() == "a I-X\nb O\nc I-Y\nd B-Y\ne I-X\n\n"
    corpus.write(tmp_path / "out", corrected(corpus, 0, [*spans[:3], (4, 5, "Y")]))
    assert (tmp_path / "out").read_text() == "a I-X\nb O\nc I-Y\nd B-Y\ne B-Y\n\n"
    corpus.write(tmp_path / "out", corrected(corpus, 0, spans[1:], unknown=(0,)))
    assert (tmp_path / "out").read_text() == "a -\nb O\nc I-Y\nd B-Y\ne I-Z\n\n"


def test_a_label_that_the_encoding_lacks_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.iob"
    path.write_bytes("é B-X\n\n".encode("latin-1"))
    corpus = AnnotatedFile(
        Learner(blank("entities", "xx")), TextFile(path, PRESETS["iob"]._replace(encoding="latin-1"))
    )
    with pytest.raises(DataError, match=r"latin-1|iso8859"):
        corpus.write(tmp_path / "out", corrected(corpus, 0, [(0, 1, "€")]))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("stored", [False, True])
def test_docs_that_nobody_corrected_keep_all_that_they_hold(stored: bool, tmp_path: Path) -> None:
    nlp, docs = spacy.blank("xx"), []
    for number in range(4):
        doc = spacy.tokens.Doc(nlp.vocab, words=["Ada", "in", "Oslo", "now"], spaces=[True, True, False, False])
        first = spacy.tokens.Span(doc, 0, 1, "PER", kb_id="Q7259", span_id="id1")
        doc.set_ents([first, spacy.tokens.Span(doc, 2, 3, "LOC")], missing=[doc[3:4]], default="outside")
        doc.spans["other"] = [spacy.tokens.Span(doc, 0, 3, "ALL")]
        doc.cats, doc.user_data["mine"] = {"news": 0.5}, number
        docs.append(doc)
    path, out = tmp_path / "a.spacy", tmp_path / "out.spacy"
    DocBin(docs=docs, store_user_data=stored).to_disk(path)
    corpus = corpus_of(path)
    corpus.write(out, {})
    assert DocBin().from_disk(out).to_bytes() == DocBin().from_disk(path).to_bytes()
    unknown = corpus.decisions[0].pins.unknown
    corpus.write(out, corrected(corpus, 2, [(0, 1, "PER"), (1, 3, "LOC")], unknown=unknown))
    before, after = DocBin().from_disk(path), DocBin().from_disk(out)
    for name in ("tokens", "spaces", "cats", "span_groups", "user_data", "flags"):
        for number in (0, 1, 3):
            assert repr(getattr(before, name)[number]) == repr(getattr(after, name)[number])
    doc = list(after.get_docs(nlp.vocab))[2]
    assert [(e.start, e.end, e.label_, e.kb_id_, e.id_) for e in doc.ents] == [
        (0, 1, "PER", "Q7259", "id1"), (1, 3, "LOC", "", "")]  # fmt: skip
    assert [token.ent_iob for token in doc] == [3, 3, 1, 0]
    assert (doc.text, doc.cats, len(doc.spans["other"])) == (docs[2].text, {"news": 0.5}, 1)
    assert doc.user_data.get("mine") == (2 if stored else None)


def moved(path: Path) -> tuple[str, str]:
    """Write a corpus; return it, and with its second half before the first one and two words changed."""
    tagged = [zip(words, encode(gold(words), len(words), "IOB2"), strict=True) for words in TEXTS[:40]]
    blocks = ["\n".join(f"{word} {tag}" for word, tag in pairs) for pairs in tagged]
    path.write_text("\n\n".join(blocks) + "\n")
    changed = [*blocks[20:], blocks[0].replace("B-PER", "O").replace("B-LOC", "O"), *blocks[1:20]]
    return "\n\n".join(blocks) + "\n", "\n\n".join(changed) + "\n"


def test_nothing_is_written_of_a_corpus_that_has_changed_and_decisions_follow_the_texts(tmp_path: Path) -> None:
    path, out = tmp_path / "a.iob", tmp_path / "out"
    before, after = moved(path)
    corpus = corpus_of(path, layout="iob")
    decisions = {**corrected(corpus, 0, []), **corrected(corpus, 31, [(0, 1, "NEW")])}
    path.write_text(after)
    with pytest.raises(DataError, match=r"a\.iob: the file has changed since"):
        corpus.write(out, decisions)
    assert not out.exists()
    again = corpus_of(path, layout="iob")
    again.write(out, decisions)
    lines = list(zip(after.split("\n"), out.read_text().split("\n"), strict=True))
    assert next(new for old, new in lines if old != new).endswith("B-NEW")
    moved_to = after.split("\n\n").index(before.split("\n\n")[31])
    changed = [number for number, (old, new) in enumerate(lines) if old != new]
    begin = sum(block.count("\n") + 2 for block in after.split("\n\n")[:moved_to])
    assert begin <= changed[0] <= changed[-1] < begin + before.split("\n\n")[31].count("\n") + 1
    path.write_text(before)
    with pytest.raises(DataError, match="has changed"):
        again.write(out, decisions)


def test_a_page_says_what_is_not_written(tmp_path: Path) -> None:
    path, folder = tmp_path / "corpus.conll", tmp_path / "new"
    path.write_bytes(columns(WRONG).encode())
    project = annotate([path], folder, review=True, layout="conll2002")
    project.start()
    assert project.settle()
    written = (folder / path.name).read_bytes()
    path.write_bytes(columns(()).encode())
    item: Any = project.next("a")
    told = {"by_user": [], "predicted": [], "model": None, "seconds": 1, "actions": 1, "reviewed": True}
    project.accept("a", {"key": item.key, "pins": {"spans": []}, "id": "1", **told})
    assert project.settle()
    assert "has changed since the command has read it" in project.summary()["trouble"]
    with pytest.raises(DataError, match="has changed"):
        project.close()
    assert (folder / path.name).read_bytes() == written
    again = annotate([path], folder, review=True, layout="conll2002")
    assert again.advice().endswith("(or annotated otherwise there): 1.")
    again.close()
    (folder / "suspects.json").write_text('{"corpus": 3, "texts": [{"key": []}')
    annotate([path], folder, review=True, layout="conll2002").close()
    path.rename(tmp_path / "other.conll")
    with pytest.raises(ConfigError, match=r"begun with review corpus\.conll, not other\.conll"):
        annotate([tmp_path / "other.conll"], folder, review=True, layout="conll2002")
