"""``crfseq tag --html``: marks, labels and probabilities on the page, which is whole by itself, and refusals."""

import re
from pathlib import Path
from typing import Any

import pytest
from spacy.language import Language

from spacy_crfseq.tools._pages.html import TextStyle, render, strength
from spacy_crfseq.tools._pages.judged import Tokens
from spacy_crfseq.tools.tag.page import Entry
from tests.commands import Run, refused, worked
from tests.html import Page
from tests.pipeline import helpers

TEXT = "Anna saw New York in Oslo ."
ADDRESS = "Anna saw a//b/ ./ in Oslo ."
"""A text that is no path: nothing in it is normalised."""


class Marked(Page):
    """A page whose marks and texts without them are kept."""

    def __init__(self, html: str) -> None:
        self.marks: list[dict[str, Any]] = []
        self.texts: list[str] = []
        super().__init__(html)
        assert self.links == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        super().handle_starttag(tag, attrs)
        if tag == "mark":
            self.marks.append({**dict(attrs), "text": "", "label": ""})
        if tag == "article":
            self.texts.append("")

    def handle_data(self, data: str) -> None:
        if "b" in self.open:
            self.marks[-1]["label"] += data
        elif "article" in self.open and "small" not in self.open:
            self.texts[-1] += data
            if "mark" in self.open:
                self.marks[-1]["text"] += data


def page_of(entry: Entry, style: TextStyle, model: str = "model", component: str = "ner") -> str:
    counts, names = {label: 1 for _, _, label, _ in entry.spans}, {"model": model, "component": component}
    return render("tools/tag/page.html", entries=[entry], counts=counts, style=style, unit="text", **names)


@pytest.fixture(scope="module")
def nlp() -> Language:
    return helpers.trained("crf_ner")


@pytest.fixture(scope="module")
def model(nlp: Language, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page") / "model"
    nlp.to_disk(folder)
    return folder


def test_a_text(run: Run, nlp: Language, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    worked(run("tag", model, TEXT, "--html", out), f"Saved {out}: 1 text, 3 spans")
    page = Marked(out.read_text(encoding="utf8"))
    doc = nlp.make_doc(TEXT)
    spans = helpers.pipe_of(nlp).posterior([doc]).spans()[0]
    assert [mark["text"] for mark in page.marks] == [doc[span.start : span.end].text for span in spans]
    for mark, span in zip(page.marks, spans, strict=True):
        label, score = mark["label"].split()
        assert label == span.label
        assert mark["title"] == f"{label}, probability {span.probability:.4f}"
        assert score == (">0.99" if span.probability >= 0.995 else f"{span.probability:.2f}")
        share = float(re.findall(r"--p: ([0-9.]+)%", mark["style"])[0])
        assert share == pytest.approx(100 * strength(span.probability), abs=0.1)
    assert " ".join(page.texts[0].split()) == TEXT


def test_a_text_with_slashes_stays_as_it_is(run: Run, model: Path, tmp_path: Path) -> None:
    worked(run("tag", model, ADDRESS, "--html", tmp_path / "page.html"))
    page = Marked((tmp_path / "page.html").read_text(encoding="utf8"))
    assert " ".join(page.texts[0].split()) == ADDRESS


def test_foreign_signs_are_escaped() -> None:
    words = ["<b>", "Tom", "&", "Ann", "</article>"]
    entry = Entry(1, Tokens(words, [True] * 5), [(1, 4, "<i>&{x}", 0.5)], 0.25)
    html = page_of(entry, TextStyle(), model="{0}<model>", component="<ner>")
    page = Marked(html)
    assert page.marks[0]["text"] == "Tom & Ann"
    assert page.marks[0]["label"] == "<i>&{x} 0.50"
    assert page.texts[0].split() == ["<b>", "Tom", "&", "Ann", "</article>"]
    assert "<ner>" not in html
    assert "{0}&lt;model&gt;" in html


@pytest.mark.parametrize(("source", "message"), [
    ("none.txt", "no such file"),
    ("   ", "holds no text"),
])  # fmt: skip
def test_unusable_input_is_refused_with_its_reason(
    source: str, message: str, run: Run, model: Path, tmp_path: Path
) -> None:
    path = tmp_path / source if "." in source else source
    refused(run("tag", model, path, "--html", tmp_path / "p.html"), message)
    assert not (tmp_path / "p.html").exists()


@pytest.mark.parametrize(("options", "message"), [
    ("a.txt", "Give --output FOLDER for the annotated files, or --html FILE"),
    ("a.txt -o out --html p.html", "--html writes a page of one file or text"),
    ("a.txt b.txt --html p.html", "--html writes a page of one file or text"),
    ("a.txt -o out -p ner", "--component is for a page"),
    ("a.txt -o out -n 3", "--number is for a page"),
])  # fmt: skip
def test_options_that_do_not_go_together(options: str, message: str, run: Run, model: Path) -> None:
    refused(run("tag", model, *options.split()), message)
