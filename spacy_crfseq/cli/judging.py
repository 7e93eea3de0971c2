"""What commands that judge a pipeline share: reading files, running components, comparing with gold annotation."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ..corpora import Preset
from ..corpora.layouts import Format, asked, trained_layout
from ..corpora.presets import RAW
from ..errors import CrfError, DataError
from ..evaluation.judged import Judged, Tokens, spans_of_tags
from ..pipeline.select import run_between
from ..pipeline.texts import Text, read_texts
from ..schemes import Span
from .options import show_layout

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc
    from spacy.training import Example

    from ..pipeline.component import CRFComponent
    from ..pipeline.doc_posterior import DocPosterior

Result = TypeVar("Result")


def for_each_component(
    nlp: Language,
    pipes: Mapping[str, CRFComponent],
    examples: Sequence[Example],
    work: Callable[[CRFComponent, list[Doc]], Result],
    *,
    required: bool,
    skipped: type[CrfError] = CrfError,
) -> tuple[dict[str, Result], dict[str, str]]:
    """Apply `work` to each component and its input Docs; return the results, and reasons for skipped components.

    required (bool): Raise errors of the kind `skipped`, as for a single component, instead of skipping components.
    """
    results: dict[str, Result] = {}
    reasons: dict[str, str] = {}
    docs, before = [example.predicted for example in examples], None
    for name, pipe in pipes.items():
        docs = run_between(nlp, docs, before, name)
        before = name
        try:
            results[name] = work(pipe, docs)
        except skipped as error:
            if required or len(pipes) == 1:
                raise
            reasons[name] = str(error)
    return results, reasons


def judge(
    pipe: CRFComponent, examples: Sequence[Example], docs: Sequence[Doc], answers: DocPosterior | None = None
) -> tuple[Judged, DocPosterior]:
    """Return predictions of a component beside the gold annotation, and its posterior.

    RAISES DataError: If there is no gold annotation for it.
    """
    from ..training.compatibility import is_local

    gold = [gold_tags_of(pipe, example) for example in examples]
    if all(tag is None for tags in gold for tag in tags):
        what = ", ".join(f"{key} = {value!r}" for key, value in pipe.annotation.settings().items())
        raise DataError(
            f"Component {pipe.name!r}: the file holds no gold annotation for it ({what}). Check the layout, or use "
            "another file."
        )
    answers = answers or pipe.posterior(docs, preset=True)
    plain, sure = pipe.annotation.scheme is None, not is_local(pipe.method.loss)
    tags = [[answers.tags[label] for label in labels.tolist()] for labels in answers.labels]
    if sure:
        scored = [[(Span(start, end, label), p) for start, end, label, p in spans] for spans in answers.spans()]
    else:
        scored = [[(span, float("nan")) for span in spans_of_tags(of_doc, plain=plain)] for of_doc in tags]
    temperature = answers.distribution.temperature if sure else None
    return Judged([tokens_of(doc) for doc in docs], gold, tags, scored, plain, temperature), answers


def layout_of(path: Path, layout: Format, nlp: Language, *, texts: bool = False) -> Preset:
    """Return the layout of a file for a trained pipeline, as `show_layout` does."""
    return show_layout(path, layout, trained_layout(nlp.config.interpolate()), texts=texts)


def read_file(nlp: Language, path: Path, layout: Format = None) -> Iterator[Text]:
    """Yield the texts of a file with the layout that `layout_of` finds; RAISES CrfError: If it cannot be read."""
    return read_texts(nlp, path, layout_of(path, layout, nlp, texts=True))


def first_texts(nlp: Language, source: str | Path, layout: Format, number: int) -> tuple[list[Text], bool]:
    """Return the first texts of a file, or `source` itself as a text, and whether there are more.

    layout: Options on the layout; if any is set, `source` is a file.
    RAISES CrfError: If there is no text, or the file cannot be read.
    """
    texts = read_file(nlp, Path(source), layout) if is_file(source, layout) else _given_text(nlp, str(source))
    found = list(islice(texts, number + 1))
    if not found:
        raise DataError(f"{str(source)!r} holds no text.")
    return found[:number], len(found) > number


def _given_text(nlp: Language, text: str) -> Iterator[Text]:
    if not text.isprintable() and any("\ud800" <= sign <= "\udfff" for sign in text):
        raise DataError("The text is not in the encoding of this terminal. Write it to a file in UTF-8.")
    return iter([Text(nlp.make_doc(text), 1, {})] if text.strip() else [])


FILES = (".conll", ".conllu", ".gz", ".iob", ".json", ".tsv", ".xml")
"""Endings of file names, besides those of raw texts."""


def is_file(source: str | Path, layout: Format) -> bool:
    """Whether an argument is the name of a file and not a text."""
    text = str(source)
    if any(asked(layout)):
        return True
    if len(text) >= 256 or not text.strip():
        return False
    path = Path(text)
    if path.suffix[1:] in RAW or path.exists():
        return True
    return not any(map(str.isspace, text)) and (os.sep in text or path.suffix in FILES)


def tokens_of(doc: Doc) -> Tokens:
    """Return the tokens of a Doc as values."""
    return Tokens([token.text for token in doc], [bool(token.whitespace_) for token in doc])


def gold_tags_of(pipe: CRFComponent, example: Example) -> list[str | None]:
    """Return the gold tag of each token of an example, None if unknown."""
    from ..pipeline.labels import gold_tags, known_tags

    return known_tags(gold_tags(pipe.annotation, example, pipe.name))
