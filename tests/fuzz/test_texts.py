"""Texts of any characters, in the pipeline and in all commands that read texts: answered or refused in words."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import Doc
from typer.testing import CliRunner

from spacy_crfseq.cli.program import crfseq_cli
from spacy_crfseq.tools.explain import explain
from tests.fuzz.oracle import attempt, cases, survived
from tests.pipeline.helpers import FACTORIES

FAMILY = "\U0001f469\u200d\U0001f467\u200d\U0001f466"
ODD = [
    "", " ", "\n", "\t\n ", "\u200b", "\u200d", "\ufeff", "\u202eabc", "\u05e9\u05dc\u05d5\u05dd", "e\u0301\u0302",
    FAMILY, "\x00", "\x1b[31m", "\x85", "\u2028", "x" * 3000, "a " * 300, "Anna", "New York", ".", "\u0130stanbul \xdf",
    "\U0010ffff", "\ufffe", "-DOCSTART-", "_", "# text", "<b>", '"', "\\", "\r", "1" * 9, "\ud800", "a\udfffb",
]  # fmt: skip
TEXTS = st.one_of(st.sampled_from(ODD), st.text(max_size=20), st.lists(st.sampled_from(ODD), max_size=4).map(" ".join))


def docs_of(draw: Any, nlp: Any, text: str) -> Doc:
    """Return the tokens of a text, perhaps with sentence starts, spaces or entities of another's."""
    doc = nlp.make_doc(text)
    words = [token.text for token in doc]
    how = draw(st.sampled_from(["plain", "starts", "words", "blocked"]))
    if how == "starts":
        starts: Any = draw(st.lists(st.sampled_from([True, False, None]), min_size=len(words), max_size=len(words)))
        return Doc(nlp.vocab, words=words, sent_starts=starts)
    if how == "words":
        return Doc(nlp.vocab, words=words, spaces=None)
    if how == "blocked" and words:
        at = draw(st.integers(0, len(words) - 1))
        doc.set_ents([], blocked=[doc[at : at + 1]], default="unmodified")
    return doc


def ask(draw: Any, nlp: Any, doc: Doc) -> None:
    """Ask everything that there is to ask about a Doc."""
    pipe = nlp.get_pipe(draw(st.sampled_from(FACTORIES)))
    size = len(doc)
    if draw(st.booleans()):
        tags = st.lists(st.sampled_from([*pipe.tags, "no such tag"]), max_size=2)
        allowed = draw(st.dictionaries(st.integers(-1, size), tags, max_size=2))
        attempt(lambda: pipe.clamp(doc, allowed=allowed))
    temperature = draw(st.sampled_from([None, 1.0, 0.0, 1e9, 0.5]))
    answers = attempt(lambda: pipe.posterior([doc], temperature=temperature))
    marginals = answers and attempt(answers.marginals)
    if not marginals:
        return  # what is known has been refused, or cannot be
    assert marginals[0].shape == (size, len(answers.tags))
    assert np.allclose(marginals[0].sum(1), 1, atol=1e-3)
    assert all(0 <= span.probability <= 1.001 for span in answers.spans()[0])
    assert (answers.entropies() > -1e-3).all()
    assert answers.sample(2, seed=1)[0].shape == (2, size)
    outcome = attempt(lambda: pipe.nbest(doc, draw(st.sampled_from([1, 3, 0, -1]))))
    assert all(len(alternative.tags) == size and 0 <= alternative.probability <= 1.001 for alternative in outcome or ())
    attempt(lambda: explain(pipe, doc))


@cases(20)
@given(data=st.data(), text=TEXTS)
def test_docs(data: st.DataObject, text: str, nlp: Any) -> None:
    doc = attempt(lambda: docs_of(data.draw, nlp, text)) if not surrogates(text) else None
    if doc is None:
        return
    for _, pipe in nlp.pipeline:
        doc = pipe(doc)
    assert all(token.ent_iob != 0 for token in doc)
    ask(data.draw, nlp, doc)


def surrogates(text: str) -> bool:
    return any("\ud800" <= sign <= "\udfff" for sign in text)  # spaCy has no tokens of them


COMMANDS = [
    *(f"tag model {{}} -o out --to {form} --overwrite" for form in ("jsonl", "conll", "conllu", "spacy")),
    "active model {} -p crf_ner -o picked.jsonl",
    "tag model {} -p crf_ner --html page.html",
    "explain model {} -p crf_ner -o page.html",
    "explain model -p crf_ner --texts {} -o page.html",
]


def test_a_name_cannot_steer_the_terminal(folder: Path) -> None:
    result = CliRunner().invoke(crfseq_cli, ["tag", "model", "a\x1b[31m", "-o", "out"])
    assert not survived(result)
    assert "a\\x1b[31m" in result.stderr


@cases(3)
@given(
    texts=st.lists(TEXTS, max_size=4), kind=st.sampled_from(["txt", "jsonl", "text"]), command=st.sampled_from(COMMANDS)
)
def test_commands(texts: list[str], kind: str, command: str, nlp: Any, folder: Path) -> None:
    name = f"texts.{kind}"
    if kind == "txt":
        Path(name).write_bytes("".join(f"{text}\n" for text in texts).encode("utf8", "surrogatepass"))
    elif kind == "jsonl":
        Path(name).write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    else:
        name = (texts or [""])[0]
    arguments = [name if argument == "{}" else argument for argument in command.split()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spacy, "load", lambda _: nlp)
        survived(CliRunner().invoke(crfseq_cli, arguments))


@pytest.fixture(scope="module")
def folder(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("texts")
    (folder / "model").symlink_to(model)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield folder
