"""``crfseq explain``: what it says in the terminal, as JSON and on a page, and what it refuses."""

import json
import re
from pathlib import Path

import pytest

from spacy_crfseq.cli.console import cut_name
from spacy_crfseq.cli.program import crfseq_cli
from spacy_crfseq.tools.explain.command import SURE, explain
from tests.commands import Run, refused, worked
from tests.html import Page

TEXT = "Ada sees a dog in Oslo ."


def tokens_of(html: str) -> list[str]:
    return re.findall(r'class="token"[^>]*>([^<]*)<small>', html)


@pytest.mark.parametrize("component", ["crf_tagger", "crf_chunker", "crf_ner"])
def test_a_text(run: Run, trained: Path, component: str) -> None:
    model = trained / "model-best"
    result = worked(run("explain", model, TEXT, "--component", component))
    (actual,) = explain(model, TEXT, component=component).texts
    heads = re.findall(r"^(\S+)  (\S+) [<>]?\d\.\d\d   (.*)$", result.stdout, re.MULTILINE)
    words, labels, _ = zip(*heads, strict=True)
    assert (list(words), list(labels)) == (actual.explanation.words, actual.explanation.labels)
    assert [rest for *_, rest in heads] == [token.against_rival() for token in actual.explanation.tokens]
    shown = re.findall(r"^ +([+-]\d+\.\d\d)  ([#█]*) +(\S.*)$", result.stdout, re.MULTILINE)
    assert len(shown) == 6 * len(heads)  # five, and the sum of the others


def test_json(run: Run, trained: Path, tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text(f"{TEXT}\n\nBo paints .\n")
    result = run("explain", trained / "model-best", tmp_path / "texts.txt", "-p crf_ner --json")
    first, second = json.loads(result.stdout)
    assert (first["text"], first["line"], second["line"]) == (TEXT, 1, 3)
    assert first["words"] == TEXT.split()
    for token in first["tokens"]:
        assert sum(c["difference"] for c in token["contributions"]) == pytest.approx(token["margin"])
        own = [c["weight"] for c in token["contributions"] if c["token"] == token["token"]]
        assert sum(own) == pytest.approx(token["score"])
    assert sum(token["score"] for token in first["tokens"]) == pytest.approx(first["score"])
    both = run("explain", trained / "model-best", TEXT, "-p crf_ner --json -o", tmp_path / "page.html")
    assert json.loads(both.stdout) == [first]
    assert (tmp_path / "page.html").exists()
    few = run("explain", trained / "model-best", TEXT, "-p crf_ner --json -n 2")
    assert {len(token["contributions"]) for token in json.loads(few.stdout)[0]["tokens"]} == {2}


def test_a_page(run: Run, trained: Path, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    (tmp_path / "texts.txt").write_text(f"{TEXT}\n<b> & Ada\n")
    result = run("explain", trained / "model-best", tmp_path / "texts.txt", "-p crf_ner -n 2 -o", out)
    assert f"Saved {out}: 2 texts" in result.stdout
    html = out.read_text(encoding="utf8")
    page = Page(html)
    assert tokens_of(html)[:7] == TEXT.split()
    assert page.seen.count("article") == len(tokens_of(html))  # a card for each
    assert all(link.startswith("#t") for link in page.links)
    for link in page.links:
        assert f'id="{link[1:]}"' in html
    assert html.count('<li class="for"') + html.count('<li class="against"') == 2 * page.seen.count("article")
    assert "<b> &" not in html
    sizes = [float(size) for size in re.findall(r"--size: ([0-9.]+)%", html)]
    assert max(sizes) == 50.0
    assert min(sizes) >= 0


def test_sure_tokens_are_folded(run: Run, trained: Path, tmp_path: Path) -> None:
    """Their cards are in a part to unfold, unless they were asked for."""
    out, text = tmp_path / "page.html", "Ada sees Xq a Xq Oslo Xq ."
    (result,) = explain(trained / "model-best", text, component="crf_ner").texts
    sure = [token.probability >= SURE for token in result.explanation.tokens]
    assert set(sure) == {True, False}
    worked(run("explain", trained / "model-best", text, "-p crf_ner -o", out))
    html = out.read_text(encoding="utf8")
    assert Page(html).seen.count("details") == 1
    shown, folded = html.split("<details>")
    assert f"{sum(sure)} tokens with a probability of at least 0.95" in folded
    assert (shown.count("<article"), folded.count("<article")) == (len(sure) - sum(sure), sum(sure))
    worked(run("explain", trained / "model-best", text, "-p crf_ner -t Ada -t Oslo -o", out))
    assert "<details>" not in out.read_text(encoding="utf8")


def test_a_terminal_only_names_tokens_that_are_surely_outside(
    trained: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["explain", str(trained / "model-best"), TEXT, "-p", "crf_ner"]
    (result,) = explain(trained / "model-best", TEXT, component="crf_ner").texts
    sure = [token for token in result.explanation.tokens if token.label == "O" and token.probability >= 0.95]
    told = [token for token in result.explanation.tokens if token not in sure]
    assert sure
    assert told
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    crfseq_cli(command, standalone_mode=False)
    text = capsys.readouterr().out
    assert text.count("margin") == len(told)
    assert "--token WORD" in text
    crfseq_cli([*command, "--token", sure[0].text], standalone_mode=False)
    text = capsys.readouterr().out
    assert "margin" in text
    assert "--token WORD" not in text


def test_of_a_feature_the_value_is_kept() -> None:
    assert cut_name("SHAPE[0]=Xx", 20) == "SHAPE[0]=Xx"
    assert cut_name("BRIEF_SHAPE[-1]|BRIEF_SHAPE[0]=x|Xx", 22) == "BRIEF_SHAPE[-1...=x|Xx"
    assert cut_name("BRIEF_SHAPE[-1]|LOWER[0] (no name)", 24) == "BRIEF_SHAPE... (no name)"
    assert cut_name("LOWER[0]=" + "x" * 40, 20) == "LOWER[0]=xxxxxxxx..."
    assert cut_name("O -> U-ORG, not B-ORG -> L-ORG", 12) == "O -> U-OR..."
    assert all(len(cut_name("SUFFIX3[0]|LOWER[1]=abcdef", room)) <= room for room in range(3, 40))


@pytest.mark.parametrize(("arguments", "message"), [
    ((TEXT, "-p", "crf_ner", "-t", "Rome"), "--token Rome: no such token. Give a word as it is split here"),
    ((TEXT, "-p", "crf_ner", "-t", "7"), "or a number from 0 to 6: Ada sees a dog"),
    ((TEXT, "-p", "crf_ner", "-l", "LOCATION"), "no label 'LOCATION'"),
])  # fmt: skip
def test_unusable_input_is_refused_with_its_reason(
    run: Run, trained: Path, arguments: tuple[str, ...], message: str
) -> None:
    refused(run("explain", trained / "model-best", *arguments), message)
