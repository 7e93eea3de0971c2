"""Documents as Docs: a pipeline whose features read documents gets those that a corpus marks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import spacy
from spacy.language import Language

from spacy_crfseq.corpora import PRESETS, Preset
from spacy_crfseq.corpora.layouts import marks_documents
from spacy_crfseq.features.token_sets import TokenSets, make_token_sets
from spacy_crfseq.pipeline.gold_files import read_gold
from spacy_crfseq.pipeline.texts import Document, read_documents, read_texts

IOB = "a O\n\nb B-X\n\n-DOCSTART- O\n\nc O\nd O\n\ne O\n"
FILES = {
    "iob": IOB.replace("a", "-DOCSTART- O\n\na", 1),
    "conllu": "".join(
        f"{mark}1\t{word}\t_\tX\tT\t_\t0\t_\t_\tSpaceAfter=No\n\n"
        for mark, word in (("# newdoc id = 1\n", "a"), ("", "b"), ("#newdoc\n", "c"), ("", "d"))
    ),
}


class Length:
    """A Doc attribute: the number of its tokens."""

    def templates(self, block: str) -> Sequence[str]:
        return [f"{block}[0]"]

    def names(self, block: str) -> Sequence[str]:
        return [block]

    def read(self, block: str, docs: Sequence[Any], strings: Any = None) -> Mapping[str, TokenSets]:
        values = [len(doc) for doc in docs for _ in doc]
        return {block: make_token_sets([1] * len(values), values)}


def pipeline(*, reads: bool) -> Language:
    nlp = spacy.blank("xx")
    pipe: Any = nlp.add_pipe("crf_ner")
    pipe.method = pipe.method._replace(attributes={"doc_size": Length()} if reads else {})
    return nlp


def file(tmp_path: Path, text: str, name: str = "iob") -> tuple[Path, Preset]:
    path = tmp_path / f"a.{name}"
    path.write_text(text)
    return path, PRESETS[name]


def words(nlp: Language, path: Path, layout: Preset) -> list[str]:
    """Return the words of Docs, with a bar before each sentence; gold Docs and texts are the same."""

    def marked(docs: Any) -> list[str]:
        return [" ".join("|" * bool(t.is_sent_start) + t.text for t in doc) for doc in docs]

    found = marked(example.predicted for example in read_gold(nlp, path, layout).examples)
    assert marked(text.doc for text in read_texts(nlp, path, layout)) == found
    return found


@pytest.mark.parametrize("name", FILES)
def test_documents_are_read_where_features_need_them(tmp_path: Path, name: str) -> None:
    path, layout = file(tmp_path, FILES[name], name)
    second = "|c d |e" if name == "iob" else "|c |d"
    nlp = pipeline(reads=True)
    assert words(nlp, path, layout) == ["|a |b", second]
    assert len(words(pipeline(reads=False), path, layout)) == 4
    nlp.config["corpora"]["train"] = {"@readers": "spacy_crfseq.ConllReader.v1"}
    assert len(words(nlp, path, layout)) == 4  # as in training


def test_without_marks_a_text_is_a_sentence(tmp_path: Path) -> None:
    path, layout = file(tmp_path, "a O\n\nb O\n")
    assert not marks_documents(path, layout)
    assert words(pipeline(reads=True), path, layout) == ["|a", "|b"]


def test_documents_stream_with_errors(tmp_path: Path) -> None:
    path, layout = file(tmp_path, FILES["iob"].replace("d O", "d") + "\n-DOCSTART- O\n\nf O\n")
    found = list(read_documents(path, layout, join=True))
    texts = [[one.words for one in text.sentences] for text in found if isinstance(text, Document)]
    assert texts == [[["a"], ["b"]], [["e"]], [["f"]]]
    assert len(found) == 4
