"""``crfseq show``: a page with the predictions of a component, shaded by probability."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from math import exp
from pathlib import Path
from typing import Annotated, NamedTuple

from spacy.util import minibatch
from tqdm import tqdm

from ...cli import options
from ...cli.app import command
from ...cli.console import count_of, printer
from ...cli.options import first_texts
from ...corpora.layouts import TEXTS, asked, layout_by_ending
from ...corpora.outputs import check_page
from ...files import write_text
from ...pipeline.select import load_pipeline, one_crf_of, run_between
from .._pages.judged import Tokens, tokens_of

BATCH = 100
"""Number of texts processed at a time."""


class Entry(NamedTuple):
    """A text, its predicted spans (start, end, label, probability), and the probability of the whole labelling."""

    number: int
    tokens: Tokens
    spans: Sequence[tuple[int, int, str, float]]
    probability: float


class Shown(NamedTuple):
    """The number of texts and spans on a page, and whether there are more texts."""

    texts: int
    spans: int
    more: bool


def show(
    model: options.Model,
    source: options.TextOrFile,
    output: Annotated[Path, options.output("HTML file to write")],
    layout: options.TextLayout = None,
    component: options.OneComponent = None,
    number: Annotated[int, options.number("Texts to show, from the first on")] = 100,
) -> Shown:
    """Make a page that shows entities or chunks, each shaded by its probability.

    The page is one file without external requests. A .txt file has one text per line; a .jsonl file a JSON object with
    "text" in each; a .spacy file is a DocBin. Give the --format of others; of a corpus, the words are shown.

    \b
    Example:
      python -m spacy crfseq show training/model-best news.txt \\
          --component crf_ner --output page.html
      python -m spacy crfseq show training/model-best "Ada lives in Oslo." \\
          -p crf_ner -o page.html
    \f
    Write a page with the predictions for a text, or for the first texts of a file.

    RAISES CrfError: If there is no such component, it has no probabilities, or there is no text.
    """
    from .._pages.html import render, text_style

    check_page(output, source)
    nlp = load_pipeline(model)
    name, pipe = one_crf_of(nlp, component, str(model), spans_first=True)
    kept, more = first_texts(nlp, source, layout, number)
    entries: list[Entry] = []
    with tqdm(total=len(kept), disable=None, leave=False, file=sys.stderr, desc=name, delay=1) as bar:
        for batch in minibatch(kept, BATCH):
            docs = run_between(nlp, [text.doc for text in batch], None, name)
            answers = pipe.posterior(docs, preset=True)
            each = zip(batch, docs, answers.spans(), answers.log_probabilities().tolist(), strict=True)
            entries += [Entry(text.line, tokens_of(doc), spans, exp(min(0.0, log))) for text, doc, spans, log in each]
            bar.update(len(batch))
    # what the number of a text counts
    kind = asked(layout).name or layout_by_ending(Path(source), TEXTS)
    counts = Counter(label for entry in entries for _, _, label, _ in entry.spans)
    page = render(
        "tools/show/page.html", model=str(model), component=name, entries=entries, counts=counts, style=text_style(nlp),
        unit="line" if kind in ("txt", "jsonl") else "text",
    )  # fmt: skip
    write_text(output, page)
    return Shown(len(kept), counts.total(), more)


@command("show", "Look", "visualize", "render", calls=show)
def _print(shown: Shown, output: Path) -> None:
    rest = "; the file has more" if shown.more else ""
    printer().good(f"Saved {output}: {count_of(shown.texts, 'text')}, {count_of(shown.spans, 'span')}{rest}")
