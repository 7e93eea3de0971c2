"""Markup in texts, labels and names: all pages show it as text, and nothing of it becomes a tag or an attribute."""

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import spacy
from hypothesis import example, given
from hypothesis import strategies as st
from spacy.tokens import Doc, DocBin
from typer.testing import CliRunner

from spacy_crfseq.cli.program import crfseq_cli
from tests.fuzz.oracle import attempt, cases, survived
from tests.pipeline.helpers import LBFGS, pipe_of

COMMANDS = {
    "report": "report model gold.spacy -o page.html",
    "evaluate": "evaluate model gold.spacy --against model --html page.html --samples 10",
    "tag": "tag model gold.spacy -p crf_ner --html page.html",
    "explain": "explain model gold.spacy -p crf_ner -o page.html",
    "explain a model": "explain model -p crf_ner -o page.html",
    "top with texts": "top model -p crf_ner --texts gold.spacy -o page.html",
}
MARKUP = [
    "<zz>", "<zz zz='1'>", "<script zz=1>zz</script>", '"><zz>', "' zz='1", '" zz="1', " zz=1 ", "</title><zz>",
    "</style><zz>", "--><zz>", "]]><zz>", "</svg><zz>", "</text><zz>", "</td>", "<", ">", '"', "'", "a b", "a\nb",
    "a\tb", "<!--", "<![CDATA[", "${zz}", "`", "x" * 300, "\xe9", "\u202e", "\x1b[31m", "-", "=", "|", "O",
    "javascript:zz", "url(zz)",
]  # fmt: skip
TEXTS = st.one_of(
    st.sampled_from(MARKUP), st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=6)
)


class Seen(HTMLParser):
    """The tags and attributes of a page; raises if one is not closed in turn."""

    VOID = ("meta", "link", "br", "img", "wbr", "input", "hr", "col")

    def __init__(self, html: str) -> None:
        super().__init__()
        self.seen, self.open = set[tuple[str, str]](), list[str]()
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.seen.update((tag, name) for name, _ in [("", ""), *attrs])
        assert all(value.startswith("#") for name, value in attrs if name in ("href", "src", "action"))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.seen.update((tag, name) for name, _ in [("", ""), *attrs])

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def write(folder: Path, labels: list[str], words: list[str]) -> bool:
    """Write a model and a corpus with these labels and words."""
    nlp = spacy.blank("xx")
    docs = []
    for i, word in enumerate([*words, *words]):
        tokens = ["the", word, "saw", words[i % len(words) - 1], "."]
        doc = Doc(nlp.vocab, words=tokens)
        doc.ents = [spacy.tokens.Span(doc, 1, 2, labels[i % len(labels)])]  # type: ignore[assignment]
        docs.append(doc)
    nlp.add_pipe("crf_ner", config={"optimizer": LBFGS, "keep_names": True})
    examples = [spacy.training.Example(Doc(nlp.vocab, words=[t.text for t in doc]), doc) for doc in docs]
    nlp.initialize(lambda: examples)
    pipe_of(nlp).fit()
    nlp.to_disk(folder / "model")
    DocBin(docs=docs[::-1] + docs[:1]).to_disk(folder / "gold.spacy")
    return True


def page_of(command: str) -> str:
    Path("page.html").unlink(missing_ok=True)
    result = CliRunner().invoke(crfseq_cli, COMMANDS[command].split())
    return Path("page.html").read_text(encoding="utf8") if survived(result) else ""


@cases(1)
@given(st.lists(TEXTS, min_size=1, max_size=3, unique=True), st.lists(TEXTS, min_size=1, max_size=3))
@example(["<zz>", "' zz='1", "a\nb"], ['"><zz>', "</title><zz>", "</svg>"])
def test_pages(tmp_path_factory: Any, labels: list[str], words: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("pages"))
        if not attempt(lambda: write(Path(), labels, words)):
            return  # spaCy or the component do not take such a label
        for command in COMMANDS:
            page = page_of(command)
            if page:
                seen = {name for pair in Seen(page).seen for name in pair}
                assert not {"zz", "script"} & seen, command
                assert not any(name.startswith("on") for name in seen), command
                assert "&amp;lt;" not in page
