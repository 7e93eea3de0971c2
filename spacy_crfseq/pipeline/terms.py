"""The texts of terms: those that a user gives, or the corpora that the config names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial, reduce
from itertools import chain
from operator import getitem
from typing import TYPE_CHECKING, Any, TypeAlias

from spacy import util
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example

from ..errors import ConfigError, DataError, suggest
from .doc_builder import bare

if TYPE_CHECKING:
    from .doc_model import DocModel

ANNOTATED = 128
"""Texts that an earlier component annotates at a time."""
Texts: TypeAlias = Iterable[Doc] | Iterable[Example] | Callable[[], Iterable[Doc] | Iterable[Example]]
"""The texts of a term, or a function that returns them."""
ReadTexts: TypeAlias = Callable[[], Iterator[Example]]
"""A function that reads the texts of a term."""


def find_texts(model: DocModel, given: Mapping[str, Texts], nlp: Language | None) -> dict[str, ReadTexts]:
    """Return a function for each term that reads its texts: those given, else those of its corpus in the config.

    Terms without either are left out.
    RAISES ConfigError: If there is no such term or corpus.
    """
    from ..training.compatibility import is_unlabelled

    component, settings, readers = model.name, model.method.each_term(model.name), dict[str, ReadTexts]()
    for name in given:
        if name not in settings:
            raise ConfigError(
                f"Component {component!r} has no term {name!r}. {suggest(name, settings)} Terms are blocks such as "
                f"[components.{component}.terms.{name}] with a loss."
            )
    for name, term in settings.items():
        texts = given.get(name)
        if texts is None and term.corpus is not None and nlp is not None:
            reader = reader_of(f"[components.{component}.terms.{name}]", term.corpus, nlp)
            texts = partial(getattr(reader, "stream", reader), nlp)
        if texts is not None:
            readers[name] = partial(_examples, component, name, texts, is_unlabelled(term.loss))
    return readers


def begin_texts(model: DocModel, nlp: Language) -> dict[str, ReadTexts]:
    """Read the first text of each term from its corpus in the config, so that its errors come before any training.

    Returns functions that read the texts: the first call continues, so that a teacher is loaded once for both.
    RAISES CrfError: If a reader cannot read the first text, or has none.
    """
    terms, begun = model.method.each_term(model.name), dict[str, ReadTexts]()
    for name, read in find_texts(model, {}, nlp).items():
        examples = read()
        first = next(examples, None)
        if first is None:
            raise no_text(model.name, name, terms[name].corpus)
        begun[name] = partial(_continued, [chain([first], examples)], read)
    return begun


def _continued(begun: list[Iterator[Example]], read: ReadTexts) -> Iterator[Example]:
    return begun.pop() if begun else read()


def no_text(component: str, term: str, corpus: str | None) -> DataError:
    """Return the error of a term without a text."""
    source = f"[{corpus}] and its path" if corpus else "the texts given for it"
    return DataError(f"Component {component!r}: the term {term!r} has no text. Check {source}.")


def reader_of(where: str, corpus: str, nlp: Language) -> Callable[[Language], Iterator[Example]]:
    """Return the reader of a corpus of a pipeline's config.

    where (str): The block or the setting that names it.
    RAISES ConfigError: If there is none.
    """
    config, (section, *names) = nlp.config.interpolate(), corpus.split(".")
    if names and util.registry.is_promise(config.get(section, {})):  # one function returns all readers
        reader: Callable[[Language], Iterator[Example]] = util.resolve_dot_names(config, [corpus])[0]
        return reader
    try:
        block = reduce(getitem, corpus.split("."), config)
    except (KeyError, TypeError):
        names = [f"corpora.{name}" for name in config.get("corpora", {})]
        raise ConfigError(
            f"{where}: corpus = {corpus!r} is not in the config. {suggest(corpus, names)} Add a block [{corpus}] with "
            '@readers = "spacy_crfseq.TextReader.v1" and a path.'
        ) from None
    name = corpus.rpartition(".")[2]  # for messages
    reader = util.registry.resolve({name: block})[name]
    if not callable(reader):
        raise ConfigError(f"{where}: corpus = {corpus!r} is no reader of a corpus; it has no @readers.")
    return reader


def _examples(component: str, name: str, texts: Texts, unlabelled: bool) -> Iterator[Example]:
    """Yield the texts of a term as examples; of a Doc, the annotation is gold unless the loss is `unlabelled`."""
    for text in texts() if callable(texts) else texts:
        if isinstance(text, Example):
            yield text
        elif isinstance(text, Doc):
            yield Example(text if unlabelled else bare(text), text)
        else:
            raise DataError(
                f"Component {component!r}: the texts of the term {name!r} must be Docs or Examples, but one is a "
                f"{type(text).__name__}. Call nlp.make_doc on each text."
            )


def annotated(pipe: Any, examples: Iterable[Example]) -> Iterator[Example]:
    """Yield examples with the predictions of a component on copies of their predicted Docs."""
    for batch in util.minibatch(examples, ANNOTATED):
        docs: Any = [example.predicted.copy() for example in batch]
        for example, doc in zip(batch, pipe.pipe(docs) if hasattr(pipe, "pipe") else map(pipe, docs), strict=True):
            yield Example(doc, example.reference)
