"""Components of a pipeline asked about an annotated file: their predictions as values to judge."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ..errors import CrfError, DataError
from ..evaluation.judged import Judged, Tokens, spans_of_tags
from ..pipeline.select import run_between
from ..pipeline.texts import Text, texts_of
from ..schemes import Span

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc
    from spacy.training import Example

    from ..pages.marks import TextStyle
    from ..pipeline.component import CRFComponent
    from ..pipeline.doc_posterior import DocPosterior

Item = TypeVar("Item")
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
    """Return what `work` makes of each component and the Docs as it meets them, and why components were left out.

    required (bool): Raise errors of the kind `skipped`, as for an only component, instead of leaving components out.
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
    """Return what a component predicts for Docs beside the gold annotation, and its answers.

    RAISES DataError: If the gold annotation has nothing for it.
    """
    from ..training.compatibility import is_local

    gold = [gold_tags_of(pipe, example) for example in examples]
    if all(tag is None for tags in gold for tag in tags):
        what = ", ".join(f"{key} = {value!r}" for key, value in pipe.annotation.settings().items())
        raise DataError(
            f"Component {pipe.name!r}: the file holds no gold annotation for it ({what}). Check --format, or give a "
            "file that does."
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


def text_style(nlp: Language) -> TextStyle:
    """Return how texts of a pipeline look, in displaCy's colours and those that a user has registered."""
    from spacy.displacy.render import EntityRenderer

    from ..pages.marks import TextStyle

    direction = str(nlp.vocab.writing_system.get("direction", "ltr"))
    return TextStyle(nlp.lang or "", direction, dict(EntityRenderer().colors))


def made_of(nlp: Language) -> str:
    """Return the date, and the versions of the package, spaCy and a pipeline."""
    from spacy.about import __version__ as spacy_version

    from .. import __version__

    model = " ".join(filter(None, (nlp.meta.get("name"), nlp.meta.get("version"))))
    return (
        f"Made on {date.today().isoformat()} by spacy_crfseq {__version__} with spaCy {spacy_version}; "
        f"pipeline {nlp.lang}_{model}."
    )


def in_batches(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Yield items in lists of `size`, the last one shorter."""
    stream = iter(items)
    while batch := list(islice(stream, size)):
        yield batch


def first_texts(nlp: Language, source: str | Path, format_name: str | None, number: int) -> tuple[list[Text], bool]:
    """Return the first texts of a source, as `texts_of` has it, and whether there are more.

    RAISES DataError: If there is none.
    """
    found = list(islice(texts_of(nlp, source, format_name), number + 1))
    if not found:
        raise DataError(f"{str(source)!r} holds no text.")
    return found[:number], len(found) > number


def tokens_of(doc: Doc) -> Tokens:
    """Return the tokens of a Doc as values."""
    return Tokens([token.text for token in doc], [bool(token.whitespace_) for token in doc])


def gold_tags_of(pipe: CRFComponent, example: Example) -> list[str | None]:
    """Return the gold tag of each token of an example, None where it is not known."""
    from ..pipeline.gold import gold_tags, known_tags

    return known_tags(gold_tags(pipe.annotation, example, pipe.name))
