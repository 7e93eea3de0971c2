"""``crfseq show``: a page with the predictions of a component, shaded by probability."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from math import exp
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

from spacy.util import minibatch
from tqdm import tqdm

from ...cli import options
from ...cli.app import command
from ...cli.console import count_of, printer, reported_errors
from ...cli.judging import first_texts
from ...corpora.layouts import TEXTS, Asked, Format, asked, layout_by_ending
from ...corpora.outputs import check_output_file
from ...files import write_text
from ...pipeline.select import load_pipeline, one_crf_of, run_between
from .._pages.judged import Tokens, tokens_of

if TYPE_CHECKING:
    from spacy.language import Language

    from ...pipeline.component import CRFComponent
    from ...pipeline.texts import Text
    from .._pages.html import TextStyle

BATCH = 100
"""Number of texts processed at a time."""


class Entry(NamedTuple):
    """A text, its predicted spans (start, end, label, probability), and the probability of the whole labelling."""

    number: int
    tokens: Tokens
    spans: Sequence[tuple[int, int, str, float]]
    probability: float


@command("show", "Look", "visualize", "render")
def show_cli(
    model: options.Model,
    source: options.TextOrFile,
    output: Annotated[Path, options.output("HTML file to write")],
    format_: options.TextFormat = None,
    columns: options.Columns = None,
    scheme: options.Scheme = None,
    encoding: options.Encoding = None,
    component: options.OneComponent = None,
    number: Annotated[int, options.number("Texts to show, from the first on")] = 100,
    code: options.Code = None,
) -> None:
    """Make a page that shows entities or chunks, each shaded by its probability.

    The page is one file without external requests. A .txt file has one text per line; a .jsonl file a JSON object with
    "text" in each; a .spacy file is a DocBin. Give the --format of others; of a corpus, the words are shown.

    \b
    Example:
      python -m spacy crfseq show training/model-best news.txt \\
          --component crf_ner --output page.html
      python -m spacy crfseq show training/model-best "Ada lives in Oslo." \\
          -p crf_ner -o page.html
    """
    said = Asked(format_, columns, scheme, encoding)
    with reported_errors(code=code):
        shown = show(model, source, output, said, component=component, number=number)
        rest = "; the file has more" if shown.more else ""
        printer().good(f"Saved {output}: {count_of(shown.texts, 'text')}, {count_of(shown.spans, 'span')}{rest}")


class Shown(NamedTuple):
    """The number of texts and spans on a page, and whether there are more texts."""

    texts: int
    spans: int
    more: bool


def show(
    model: str | Path,
    source: str | Path,
    output: Path,
    format_name: Format = None,
    *,
    component: str | None = None,
    number: int = 100,
) -> Shown:
    """Write a page with the predictions for a text, or for the first texts of a file.

    RAISES CrfError: If there is no such component, it has no probabilities, or there is no text.
    """
    from .._pages.html import text_style

    check_output_file(output, source)
    nlp = load_pipeline(model)
    name, pipe = one_crf_of(nlp, component, str(model), spans_first=True)
    kept, more = first_texts(nlp, source, format_name, number)
    entries: list[Entry] = []
    with tqdm(total=len(kept), disable=None, leave=False, file=sys.stderr, desc=name, delay=1) as bar:
        for batch in minibatch(kept, BATCH):
            entries += _entries(nlp, name, pipe, batch)
            bar.update(len(batch))
    # what the number of a text counts
    kind = asked(format_name).name or layout_by_ending(Path(source), TEXTS)
    unit = "line" if kind in ("txt", "jsonl") else "text"
    write_text(output, show_page(str(model), name, entries, text_style(nlp), unit))
    return Shown(len(kept), sum(len(entry.spans) for entry in entries), more)


def _entries(nlp: Language, name: str, pipe: CRFComponent, texts: Sequence[Text]) -> list[Entry]:
    docs = run_between(nlp, [text.doc for text in texts], None, name)
    answers = pipe.posterior(docs, preset=True)
    whole = answers.log_probabilities().tolist()
    return [
        Entry(text.line, tokens_of(doc), spans, exp(min(0.0, logarithm)))
        for text, doc, spans, logarithm in zip(texts, docs, answers.spans(), whole, strict=True)
    ]


def show_page(model: str, component: str, entries: Sequence[Entry], style: TextStyle, unit: str = "text") -> str:
    """Return the page as HTML; `unit` is what the number of a text counts."""
    from .._pages.html import render

    counts = Counter(label for entry in entries for _, _, label, _ in entry.spans)
    names = {"model": model, "component": component, "unit": unit, "style": style}
    return render("tools/show/page.html", entries=entries, counts=counts, **names)
