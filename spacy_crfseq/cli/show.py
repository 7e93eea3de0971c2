"""``crfseq show``: a page on which displaCy marks what a component predicts, shaded by how sure it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from itertools import islice
from math import exp, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import spacy
import typer

from ..errors import DataError
from ..files import replacing
from ._app import crfseq_cli
from ._components import one_crf_of, run_between
from ._console import load_code, printer, reported_errors
from ._texts import FORMAT_HELP, Text, texts_of

if TYPE_CHECKING:
    from spacy.language import Language

    from ..pipeline.answers import Scored

PALETTE = ("#feca74", "#8db9ff", "#f59ab5", "#8fd694", "#c887fb", "#ffe066", "#7aecec", "#ff9561", "#aa9cfc", "#c9b79c")
"""Colours of labels that displaCy has none for, as far as they are free."""
SAME = {"PER": "PERSON"}
"""Labels by other names."""
PALEST = 0.12
"""What is left of a colour where the probability is next to nothing."""
LEGEND = (0.3, 0.5, 0.7, 0.9, 0.99, 1.0)

SPAN = (
    '<mark style="background: linear-gradient(rgba(255,255,255,{veil}) 0 0), {bg}" title="{label}, '
    'probability {exact}">{text}<b>{label} <i>{score}</i></b>{kb_link}</mark>'
)
"""displaCy's template of an entity: the veil lets its colour through as far as the model is sure."""

STYLE = """
:root { color-scheme: light; }
body { margin: 0 auto; max-width: 52rem; padding: 1.5rem 1rem 4rem; color: #1d2129; background: #fff;
  font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.25rem; line-height: 1.3; margin: 0 0 .25rem; }
header { border-bottom: 1px solid #d9dce1; padding-bottom: 1rem; margin-bottom: 1rem; }
header p { margin: .25rem 0 .75rem; color: #545b66; }
ul { display: flex; flex-wrap: wrap; gap: .375rem; list-style: none; margin: 0 0 .5rem; padding: 0; }
li { border: 1px solid rgba(0, 0, 0, .18); border-radius: .3rem; padding: .05rem .5rem; font-size: .8125rem;
  font-variant-numeric: tabular-nums; }
li.name { border-color: transparent; padding-inline-start: 0; color: #545b66; min-width: 4.5rem; }
article { padding: .5rem 0; border-bottom: 1px solid #eceef1; }
small { color: #6b7280; font-size: .75rem; font-variant-numeric: tabular-nums; }
.entities { line-height: 2.1 !important; }
mark { color: inherit; padding: .2em .3em; border-radius: .3em; outline: 1px solid rgba(0, 0, 0, .18);
  outline-offset: -1px; -webkit-box-decoration-break: clone; box-decoration-break: clone; }
mark b { font-size: .6875em; margin-inline-start: .5em; white-space: nowrap; letter-spacing: .02em; }
mark i { font-style: normal; font-weight: 400; font-variant-numeric: tabular-nums; }
"""

PAGE = """<!DOCTYPE html>
<html lang="{lang}" dir="{dir}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<header>
<h1>{title}</h1>
<p>{about}</p>
<ul><li class="name">Probability</li>{shades}</ul>
<ul><li class="name">Labels</li>{labels}</ul>
</header>
<main>
{articles}
</main>
</body>
</html>
"""


@crfseq_cli.command("show")
def show_cli(
    model: Annotated[str, typer.Argument(help="Folder or package name of a trained pipeline")],
    source: Annotated[str, typer.Argument(metavar="FILE|TEXT", help="File of texts, or a text itself")],
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML file to write")],
    format_: Annotated[str | None, typer.Option("--format", "-f", help=FORMAT_HELP)] = None,
    component: Annotated[
        str | None, typer.Option("--component", "-p", help="CRF component to show [the only one that predicts spans]")
    ] = None,
    number: Annotated[int, typer.Option("--number", "-n", min=1, help="Texts to show, from the first on")] = 100,
    code: Annotated[
        Path | None, typer.Option("--code", "-c", help="Python file with registered functions to import")
    ] = None,
) -> None:
    """Make a page that shows entities or chunks, each shaded by its probability.

    The page is one file and asks nothing of the net. A .txt file has one text a line; a .jsonl file a JSON object with
    "text" in each; a .spacy file is a DocBin. Give the --format of others; of a corpus, the words are shown.

    \b
    Example:
      python -m spacy crfseq show training/model-best news.txt --output page.html
      python -m spacy crfseq show training/model-best "Ada lives in Oslo." -o page.html
    """
    with reported_errors():
        load_code(code)
        shown = show(model, source, output, format_, component=component, number=number)
        rest = "; the file has more" if shown.more else ""
        printer().good(f"Saved {output}: {shown.texts:,} texts, {shown.spans:,} spans{rest}")


class Shown(NamedTuple):
    """What is on a page.

    more (bool): Whether there are texts that had no place on it.
    """

    texts: int
    spans: int
    more: bool


class Entry(NamedTuple):
    """A text, the spans predicted in it, and the probability that all of them are right and none is missing."""

    text: Text
    spans: list[Scored]
    probability: float


def show(
    model: str | Path,
    source: str | Path,
    output: Path,
    format_name: str | None = None,
    *,
    component: str | None = None,
    number: int = 100,
) -> Shown:
    """Write a page with the predictions for a text, or for the first texts of a file.

    format_name (str | None): As `read_texts` has it; if given, the source is a file.
    component (str | None): The CRF to ask; None for the only one, or the only one that predicts spans.
    RAISES CrfError: If there is no such component, it has no probabilities, or there is no text.
    """
    nlp = spacy.load(model)
    name, pipe = one_crf_of(nlp, component, str(model), spans_first=True)
    texts = list(islice(texts_of(nlp, source, format_name), number + 1))
    if not texts:
        raise DataError(f"{str(source)!r} holds no text.")
    kept = texts[:number]
    docs = run_between(nlp, [text.doc for text in kept], None, name)
    answers = pipe.ask(docs, preset=True)
    whole = answers.log_probabilities().tolist()
    entries = [
        Entry(text._replace(doc=doc), spans, exp(min(0.0, logarithm)))
        for text, doc, spans, logarithm in zip(kept, docs, answers.spans(), whole, strict=True)
    ]
    with replacing(output) as temporary:
        temporary.write_text(page(nlp, name, str(model), entries), encoding="utf8")
    return Shown(len(kept), sum(len(entry.spans) for entry in entries), len(texts) > number)


# The page


def page(nlp: Language, component: str, model: str, entries: Sequence[Entry]) -> str:
    """Return the page as HTML."""
    from spacy.displacy.render import EntityRenderer

    counts = Counter(span.label for entry in entries for span in entry.spans)
    renderer = EntityRenderer({"template": SPAN})
    colors = _colors(renderer.colors, counts)
    renderer.colors = {label.upper(): color for label, color in colors.items()}
    direction = nlp.vocab.writing_system.get("direction", "ltr")
    return PAGE.format(
        lang=escape(nlp.lang or ""),
        dir=direction,
        style=STYLE,
        title=f"How sure {escape(component)} is",
        about=f"{escape(model)}: {len(entries):,} texts, {sum(counts.values()):,} predictions. The fuller the colour, "
        "the more probable. Beside a label: the probability of exactly this stretch and label; above a text: that its "
        "whole labelling is right.",
        shades="".join(f'<li style="{_background("#8d99a6", p)}">{p:g}</li>' for p in LEGEND),
        labels="".join(
            f'<li style="background: {colors[label]}">{escape(label)} {counts[label]:,}</li>'
            for label in sorted(counts)
        ),
        articles="\n".join(_article(renderer, entry, direction) for entry in entries),
    )


def _article(renderer: Any, entry: Entry, direction: str) -> str:
    doc = entry.text.doc
    marks = [
        {
            "start": doc[start].idx,
            "end": doc[end - 1].idx + len(doc[end - 1]),
            "label": label,
            "params": {
                "label": escape(label),
                "veil": f"{1 - strength(p):.3f}",
                "score": _rounded(p),
                "exact": f"{p:.4f}",
            },
        }
        for start, end, label, p in entry.spans
    ]
    parsed = {"text": doc.text, "ents": marks, "settings": {"direction": direction}}
    return (
        f"<article><small>line {entry.text.line}, probability {_rounded(entry.probability)}</small>"
        f"{renderer.render([parsed])}</article>"
    )


def _colors(known: dict[str, str], labels: Iterable[str]) -> dict[str, str]:
    """Return a colour for each label: displaCy's, or one of ours."""
    names = {label: SAME.get(label.upper(), label.upper()) for label in sorted(labels)}
    colors = {label: known[name] for label, name in names.items() if name in known}
    free = [color for color in PALETTE if color not in colors.values()] or PALETTE
    others = [label for label in names if label not in colors]
    return {**colors, **{label: free[i % len(free)] for i, label in enumerate(others)}}


def strength(probability: float) -> float:
    """Return how much of a colour is left: differences near 1 show, as 0.9 and 0.99 differ more than 0.5 and 0.59."""
    return max(PALEST, 1 - sqrt(max(0.0, 1 - probability)))


def _rounded(probability: float) -> str:
    return f"{probability:.2f}" if probability < 0.995 else "&gt;0.99"  # nothing is certain


def _background(color: str, probability: float) -> str:
    return f"background: linear-gradient(rgba(255,255,255,{1 - strength(probability):.3f}) 0 0), {color}"
