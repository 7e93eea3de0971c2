"""What components and posteriors show of themselves: a line in a terminal, a table in a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

MOST_LABELS, MOST_DOCS, MOST_SPANS = 12, 20, 8
"""What is named at most: labels of a component, Docs of a posterior, spans of a Doc."""


def facts(pipe: Any) -> list[tuple[str, str]]:
    """Return what a `CRFComponent`, which imports this module, is: name and value of each fact."""
    model, method = pipe.doc_model, pipe.method
    plugins = (method.loss, method.regularizer, method.optimizer)
    found = [("labels", _listed(pipe.labels, MOST_LABELS)), ("state", "not trained")]
    if model.has_weights:
        layout, active = model.crf.layout, model.n_active
        n_features = layout.unigrams.n_rows + layout.bigrams.n_rows
        found[1] = ("state", "trained" if active else "initialized, all weights are zero")
        found.append(("size", f"{n_features:,} features, {layout.size:,} weights, {active:,} of them not zero"))
    found.append(("templates", f"{sum(len(plan.templates) for plan in model.features.plans())}"))
    found.append(("method", ", ".join(type(one).__name__ for one in plugins)))
    return found


def line(pipe: Any) -> str:
    """Return the facts about a component in one line."""
    return f"<CRFComponent {pipe.name!r}: {'; '.join(f'{name}: {value}' for name, value in facts(pipe))}>"


def posterior_table(answers: Any) -> str:
    """Return a `DocPosterior` as HTML: for each Doc its predictions and their probabilities, where there are any."""
    rows = []
    sure = answers.has_probabilities
    logarithms = answers.log_probabilities() if sure else [0.0] * len(answers)
    spans = answers.spans()[:MOST_DOCS] if sure else [[] for _ in range(min(len(answers), MOST_DOCS))]
    for number, (labels, found) in enumerate(zip(answers.labels, spans, strict=False)):
        words = [f"{start}\N{EN DASH}{end} {label} {p:.2f}" for start, end, label, p in found]
        if not sure:
            words = [answers.tags[label] for label in labels.tolist()]
        whole = f"{np.exp(logarithms[number]):.3f}" if sure else ""
        rows.append((str(number), str(len(labels)), _listed(words, MOST_SPANS), whole))
    more = f", the first {MOST_DOCS} shown" if len(answers) > MOST_DOCS else ""
    return table(f"DocPosterior, {len(answers):,} Docs{more}", rows, ("Doc", "tokens", "predictions", "probability"))


def table(title: str, rows: Sequence[Sequence[str]], header: Sequence[str] = ()) -> str:
    """Return a small table as HTML; all text is escaped."""
    head = f"<tr>{''.join(f'<th>{escape(name)}</th>' for name in header)}</tr>" if header else ""
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><caption>{escape(title)}</caption>{head}{body}</table>"


def _listed(names: Sequence[str], most: int) -> str:
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return (", ".join(names[:most]) + more) or "none"
