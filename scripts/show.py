"""Tag a raw text with a trained pipeline: a table in the terminal and, if asked for, an HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import spacy
import typer
from spacy import displacy
from spacy.tokens import Doc
from wasabi import msg, table


def show(
    model: Annotated[str, typer.Argument(help="Pipeline to use: a folder or an installed package.")],
    text: Annotated[Path, typer.Argument(help="UTF-8 text file; paragraphs are separated by blank lines.")],
    html: Annotated[Path | None, typer.Option(help="Also write a page that shows entities and chunks.")] = None,
) -> None:
    """Tag a raw text and show tags, chunks and entities."""
    nlp = spacy.load(model)
    paragraphs = [part.strip() for part in text.read_text(encoding="utf8").split("\n\n") if part.strip()]
    docs = list(nlp.pipe(paragraphs))
    for doc in docs:
        print_doc(doc)
    if html is not None:
        html.parent.mkdir(parents=True, exist_ok=True)
        html.write_text(page(docs), encoding="utf8")
        msg.good(f"Wrote {html}")


def print_doc(doc: Doc) -> None:
    """Print one row per token: word, tag, chunk, entity."""
    chunks = {span.start: span for span in doc.spans.get("chunks", [])}
    rows = []
    for token in doc:
        chunk = f"[{chunks[token.i].label_}" if token.i in chunks else ""
        entity = token.ent_type_ if token.ent_iob_ == "B" else "." if token.ent_iob_ == "I" else ""
        rows.append((token.text, token.tag_, chunk, entity))
    print(table(rows, header=("word", "tag", "chunk", "entity"), divider=True))
    for entity in doc.ents:
        print(f"  {entity.label_:8} {entity.text}")
    print()


def page(docs: list[Doc]) -> str:
    """Return a page with the entities of all docs and, below each, its chunks."""
    parts = []
    for doc in docs:
        parts.append(displacy.render(doc, style="ent", page=False))
        if doc.spans.get("chunks"):
            parts.append(displacy.render(doc, style="span", page=False, options={"spans_key": "chunks"}))
    style = "max-width: 60rem; margin: 2rem auto; padding: 0 1rem; font-family: sans-serif; line-height: 1.6"
    viewport = '<meta name="viewport" content="width=device-width, initial-scale=1">'
    head = f'<!doctype html><html lang="en"><meta charset="utf-8">{viewport}<title>Tagged text</title>'
    return f'{head}<body style="{style}">{"".join(parts)}</body></html>'


if __name__ == "__main__":
    typer.run(show)
