"""A page with the predictions of a component for a few texts, shaded by probability (``crfseq tag --html``)."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from math import exp
from pathlib import Path
from typing import NamedTuple

from spacy.util import minibatch
from tqdm import tqdm

from ...cli.inputs import first_texts
from ...corpora.layouts import TEXTS, Format, asked, layout_by_ending
from ...corpora.outputs import check_page
from ...errors import count_of
from ...files import write_text
from ...pipeline.select import load_pipeline, one_crf_of, run_between
from .._pages.judged import Tokens, tokens_of

ON_PAGE = 100
"""Number of texts on a page, if no other is asked for."""
BATCH = 100
"""Number of texts processed at a time."""


class Entry(NamedTuple):
    """The place of a text, its predicted spans (start, end, label, probability), and that of the whole labelling."""

    place: str
    tokens: Tokens
    spans: Sequence[tuple[int, int, str, float]]
    probability: float


class Shown(NamedTuple):
    """The number of texts and spans on a page, and whether there are more texts."""

    texts: int
    spans: int
    more: bool

    def in_words(self) -> str:
        """Return these numbers in words."""
        rest = "; the file has more" if self.more else ""
        return f"{count_of(self.texts, 'text')}, {count_of(self.spans, 'span')}{rest}"


def show(
    model: str, source: str, output: Path, layout: Format = None, component: str | None = None, number: int = ON_PAGE
) -> Shown:
    """Write a page with the predictions for a text, or for the first texts of a file.

    source (str): A file, or a text.
    component (str | None): The component whose spans are shown; None for the only one that predicts spans.
    RAISES CrfError: If there is no such component, it has no probabilities, or there is no text.
    """
    from .._pages.html import render, text_style

    check_page(output, source)
    nlp = load_pipeline(model)
    name, pipe = one_crf_of(nlp, component, str(model), spans_first=True)
    kept, more = first_texts(nlp, source, layout, number)
    # what the number of a text counts
    kind = asked(layout).name or layout_by_ending(Path(source), TEXTS)
    unit = "line" if kind in ("txt", "jsonl") else "text"
    entries: list[Entry] = []
    with tqdm(total=len(kept), disable=None, leave=False, file=sys.stderr, desc=name, delay=1) as bar:
        for batch in minibatch(kept, BATCH):
            docs = run_between(nlp, [text.doc for text in batch], None, name)
            answers = pipe.posterior(docs, preset=True)
            rows = zip(batch, docs, answers.spans(), answers.log_probabilities().tolist(), strict=True)
            entries += [
                Entry(text.place if text.file else f"{unit} {text.line}", tokens_of(doc), spans, exp(min(0.0, log)))
                for text, doc, spans, log in rows
            ]
            bar.update(len(batch))
    counts = Counter(label for entry in entries for _, _, label, _ in entry.spans)
    page = render(
        "tools/tag/page.html", model=str(model), component=name, entries=entries, counts=counts, style=text_style(nlp),
    )  # fmt: skip
    write_text(output, page)
    return Shown(len(kept), counts.total(), more)
