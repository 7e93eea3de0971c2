"""Review of an annotated corpus: planted errors come first, and only what is corrected changes in the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import spacy
from spacy.tokens import DocBin

from spacy_crfseq.errors import ConfigError
from spacy_crfseq.schemes import encode
from spacy_crfseq.tools.annotate.command import annotate
from spacy_crfseq.tools.annotate.journal import Pins
from spacy_crfseq.tools.annotate.project import Project
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


@pytest.mark.parametrize("name", ["corpus.conll", "corpus.conllu", "corpus.spacy"])
def test_planted_errors_come_first_and_all_else_stays(name: str, tmp_path: Path) -> None:
    path, folder, more = tmp_path / name, tmp_path / "new", {}
    if name == "corpus.spacy":
        nlp, docs = spacy.blank("en"), []
        for number, words in enumerate(TEXTS):
            docs.append(spacy.tokens.Doc(nlp.vocab, words=words, tags=["T"] * len(words)))
            docs[-1].set_ents([docs[-1].char_span(docs[-1][s].idx, docs[-1][e - 1].idx + len(docs[-1][e - 1]), label)
                               for s, e, label in gold(words)[number in WRONG :]])  # fmt: skip
        DocBin(docs=docs).to_disk(path)
    else:
        make = columns if name == "corpus.conll" else conllu
        path.write_bytes(make(WRONG).encode())
        config = tmp_path / "pos.cfg"
        config.write_text('[nlp]\nlang = "xx"\npipeline = ["crf_tagger"]\n[components]\n[components.crf_tagger]\n'
                          'factory = "crf_tagger"\nattr = "pos"\n')  # fmt: skip
        more = {"layout": "conll2002"} if name == "corpus.conll" else {"config": config, "task": "tags"}
    shown = review(annotate([path], folder, review=True, **more))
    assert all(note.startswith("Annotated ") for note in shown)
    if name == "corpus.spacy":
        docs = list(DocBin().from_disk(folder / name).get_docs(nlp.vocab))
        assert [[(e.start, e.end, e.label_) for e in doc.ents] for doc in docs] == [gold(words) for words in TEXTS]
        assert {token.tag_ for doc in docs for token in doc} == {"T"}
    else:
        assert (folder / name).read_bytes() == make(()).encode()
    again = annotate([path], folder, review=True, **more)  # goes on, without training
    assert len(again.state.decisions) == 3
    again.undo("b", "u")
    again.start()
    assert again.settle()
    again.close()
    assert (folder / name).read_bytes() != path.read_bytes()


def test_what_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_text("Ada B-PER\n\n")
    for texts, more, message in (
        ([path], {"layout": "conll2000"}, "no column 'ent'"),
        ([path, path], {}, "one corpus"),
        ([path], {"output": tmp_path}, "is read by this command"),
        ([path], {}, "only 1 different"),
    ):
        with pytest.raises((ConfigError, ValueError), match=message):
            annotate(texts, **{"output": tmp_path / "new", "layout": "iob", "review": True, **more})
