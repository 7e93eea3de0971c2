"""Terms of an objective in addition to the training corpus: where their texts come from, and these as numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial, reduce
from operator import getitem
from typing import Any, NamedTuple

from spacy import util
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example

from ..errors import ConfigError, DataError, suggest
from ..training.compatibility import is_unlabelled, needs_labels, part_name
from ..training.dataset import Dataset
from ..training.terms import Term
from .encode import EncodedCorpus
from .examples import bare
from .settings import TermSettings

TRAIN = "the training corpus"
"""In place of the name of a term."""
ANNOTATED = 128
"""Texts that an earlier component annotates at a time."""
Texts = Iterable[Doc] | Iterable[Example] | Callable[[], Iterable[Doc] | Iterable[Example]]
"""The texts of a term, or a function that returns them."""


class TermData(NamedTuple):
    """The texts of a term, or the training corpus under the name `TRAIN`.

    found (EncodedCorpus): Its texts as they were compiled.
    data (Dataset): The same with gold labels as numbers of the model's tags; all are missing where the loss ignores
        them.
    """

    name: str
    settings: TermSettings
    found: EncodedCorpus
    data: Dataset

    @property
    def labelled(self) -> bool:
        """Whether the loss learns from gold labels."""
        return not is_unlabelled(self.settings.loss)

    def term(self) -> Term:
        """Return the term of the objective."""
        return Term(self.data, self.settings.loss, self.settings.weight, name=self.name, sample=self.data)


def find_texts(
    component: str, settings: Mapping[str, TermSettings], given: Mapping[str, Texts], nlp: Language | None
) -> dict[str, Callable[[], Iterator[Example]]]:
    """Return a function for each term that reads its texts: those given, else those of its corpus in the config.

    Terms without either are left out.
    RAISES ConfigError: If there is no such term or corpus.
    """
    for name in given:
        if name not in settings:
            raise ConfigError(
                f"Component {component!r} has no term {name!r}. {suggest(name, settings)} Terms are blocks such as "
                f"[components.{component}.terms.{name}] with a loss."
            )
    found: dict[str, Callable[[], Iterator[Example]]] = {}
    for name, term in settings.items():
        if name in given:
            found[name] = partial(_examples, component, name, given[name], is_unlabelled(term.loss))
        elif term.corpus is not None and nlp is not None:
            reader = reader_of(f"[components.{component}.terms.{name}]", term.corpus, nlp)
            read = partial(getattr(reader, "stream", reader), nlp)
            found[name] = partial(_examples, component, name, read, is_unlabelled(term.loss))
    return found


def reader_of(where: str, corpus: str, nlp: Language) -> Callable[[Language], Iterator[Example]]:
    """Return the reader of a corpus of a pipeline's config.

    where (str): The block that names it.
    RAISES ConfigError: If there is none.
    """
    config = nlp.config.interpolate()
    try:
        block = reduce(getitem, corpus.split("."), config)
    except (KeyError, TypeError):
        known = [f"corpora.{name}" for name in config.get("corpora", {})]
        raise ConfigError(
            f"{where}: corpus = {corpus!r} is not in the config. {suggest(corpus, known)} Add a block [{corpus}] with "
            '@readers = "spacy_crfseq.TextReader.v1" and a path.'
        ) from None
    reader: Callable[[Language], Iterator[Example]] = util.registry.resolve({"corpus": block})["corpus"]
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


def frozen_annotators(nlp: Language, component: str) -> list[Any]:
    """Return the components before another that annotate in training, and are trained already."""
    settings, names = nlp.config.interpolate().get("training") or {}, nlp.component_names
    before = names[: names.index(component)] if component in names else []
    chosen = set(settings.get("annotating_components", ())).intersection(settings.get("frozen_components", ()))
    return [nlp.get_pipe(name) for name in before if name in chosen]


def annotated(pipe: Any, examples: Iterable[Example]) -> Iterator[Example]:
    """Yield examples with the predictions of a component on copies of their predicted Docs."""
    for batch in util.minibatch(examples, ANNOTATED):
        docs: Any = [example.predicted.copy() for example in batch]
        for example, doc in zip(batch, pipe.pipe(docs) if hasattr(pipe, "pipe") else map(pipe, docs), strict=True):
            yield Example(doc, example.reference)


def no_texts(component: str, name: str, settings: TermSettings) -> DataError:
    """Return an error that says that the texts of a term are empty."""
    source = f"[{settings.corpus}] and its path" if settings.corpus else "the texts given for it"
    return DataError(f"Component {component!r}: the term {name!r} has no text. Check {source}.")


def check_found(component: str, name: str, settings: TermSettings, found: EncodedCorpus) -> None:
    """RAISES DataError: If the texts of a term hold nothing that its loss learns from."""
    if not found.data.encoded.n_tokens:
        raise no_texts(component, name, settings)
    if needs_labels(settings.loss) and not found.tags:
        raise DataError(
            f"Component {component!r}: the loss {part_name(settings.loss)} of the term {name!r} needs gold labels, but "
            "its texts have none for this component. Use a loss for texts without labels, for example "
            "spacy_crfseq.Entropy.v1, or a reader of an annotated corpus."
        )


def check_complete(component: str, settings: Mapping[str, TermSettings], there: Iterable[str]) -> None:
    """RAISES DataError: If a term has no texts."""
    for name in settings.keys() - set(there):
        example: Any = f'terms={{"{name}": docs}}'
        raise DataError(
            f"Component {component!r}: the term {name!r} has no texts. Name their corpus under [components.{component}."
            f"terms.{name}], which 'crfseq fit' reads for any component and 'spacy train' for those it initializes; in "
            f"Python, call fit({example}). To train without terms, set pipe.method = pipe.method._replace(terms={{}})."
        )
