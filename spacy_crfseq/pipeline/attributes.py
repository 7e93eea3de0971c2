"""Attributes that come with a text instead of being computed from it: files of CRFsuite.

They stand on the Doc, ``doc._.crf_attributes``: a list of strings for each token.  The reader of attribute files puts
them there, and so can anybody else; the token function `noted_attributes` gives them to templates::

    [components.crf_tagger.features]
    @crf_features = "spacy_crfseq.Templates.v1"
    templates = ["GIVEN[0]"]

    [components.crf_tagger.features.token_functions.GIVEN]
    @crf_features = "spacy_crfseq.Attributes.v1"
"""

# No `from __future__ import annotations`: spaCy checks a config against the annotations as they are.

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from spacy.language import Language
from spacy.tokens import Doc, Token
from spacy.training import Example

from ..errors import ConfigError, DataError
from ..formats import AttributeSentence, Sentence, read_crfsuite
from .readers import CorpusReader, Layout, check_setting

EXTENSION = "crf_attributes"
_KEY: Any = ("._.", EXTENSION, None, None)
"""Where spaCy keeps the extension attribute of a Doc; it travels with the Doc."""
_COLUMNS = ("tag", "pos", "morph", "ent", "chunk")
NO_WORD = "_"
"""The text of a token whose attributes do not tell its word."""


def register_extension() -> None:
    """Make ``doc._.crf_attributes`` known to spaCy."""
    if not Doc.has_extension(EXTENSION):
        Doc.set_extension(EXTENSION, default=None)


def noted(doc: Doc) -> Sequence[Sequence[str]] | None:
    """Return the attributes of each token of a Doc, None where it has none; a stored Doc has tuples."""
    attributes: Sequence[Sequence[str]] | None = doc.user_data.get(_KEY)
    return attributes


def hash_of(doc: Doc) -> int:
    """Return a hash of the attributes of a Doc."""
    return hash(tuple(map(tuple, noted(doc) or ())))


def noted_attributes(sequence: Sequence[Token], i: int) -> Sequence[str]:
    """Return the attributes that a token has on its Doc; a token function.

    RAISES DataError: If the Doc has none, or not for each token.
    """
    token = sequence[i]
    attributes = noted(token.doc)
    if attributes is None or len(attributes) != len(token.doc):
        has = "no attributes" if attributes is None else f"attributes for {len(attributes)} tokens"
        raise DataError(
            f"The doc {token.doc.text[:40]!r} of {len(token.doc)} tokens has {has}. Set doc._.{EXTENSION} to a list of "
            "strings for each token, or read the corpus by spacy_crfseq.CRFsuiteReader.v1."
        )
    return attributes[token.i]


def create_attributes() -> Callable[[Sequence[Token], int], Sequence[str]]:
    """Return the token function that gives the attributes noted on a Doc (``spacy_crfseq.Attributes.v1``)."""
    register_extension()
    return noted_attributes


def create_crfsuite_reader(
    path: Path | None,
    column: str = "tag",
    scheme: str = "IOB2",
    word: str = "w[0]=",
    chunks_key: str = "chunks",
    on_invalid: str = "error",
    limit: int = 0,
) -> "CRFsuiteReader":
    """Create a reader of an attribute file of CRFsuite (``spacy_crfseq.CRFsuiteReader.v1``).

    path (Path): The file.
    column (str): What its labels are: tag, pos, morph, ent (into doc.ents) or chunk (into doc.spans).
    scheme (str): How ent and chunk are tagged: IOB2, BILUO or IOB1.
    word (str): The beginning of the attribute whose rest is the word, as CRFsuite's own examples name it; the text of
        a token without one is "_".  For people to read: features are the attributes alone.
    chunks_key (str): The key of the chunks in doc.spans.
    on_invalid (str): On tags that break the scheme: "error", or "conlleval" to read them as the CoNLL scorer does.
    limit (int): The most sequences to read, 0 for all.

    Raises ConfigError on settings that cannot work; the reader raises FormatError naming file and line.
    """
    register_extension()
    if path is None:
        raise ConfigError("spacy_crfseq.CRFsuiteReader.v1 got no path. Give the file under [paths] in the config.")
    check_setting("column", column, _COLUMNS)
    layout = Layout(Path(path), ("word", column), scheme, (), "sentence", chunks_key, on_invalid, limit)
    return CRFsuiteReader(layout, word)


class CRFsuiteReader:
    """An attribute file as examples; its sequences are read once."""

    def __init__(self, layout: Layout, word: str) -> None:
        self._layout, self._word = layout, word
        self._sentences: list[AttributeSentence] | None = None
        self._docs = CorpusReader(self._words, layout)

    def __call__(self, nlp: Language) -> Iterator[Example]:
        """Return an iterator over the examples; both docs of each have the attributes.

        Raises FormatError, at once, on a line that cannot be read.
        """
        examples = self._docs(nlp)
        return map(_with_attributes, examples, self._read())

    def _read(self) -> list[AttributeSentence]:
        if self._sentences is None:
            self._sentences = list(read_crfsuite(self._layout.path))
        return self._sentences

    def _words(self) -> Iterator[Sentence]:
        column = self._layout.columns[1]
        for number, sentence in enumerate(self._read()):
            words = [_word_of(attributes, self._word) for attributes in sentence.attributes]
            yield Sentence(words, {column: sentence.labels}, None, sentence.line, number, {})


def _word_of(attributes: Sequence[str], prefix: str) -> str:
    named = (name[len(prefix) :] for name in attributes if name.startswith(prefix))
    return next(named, "") or NO_WORD


def _with_attributes(example: Example, sentence: AttributeSentence) -> Example:
    for doc in (example.predicted, example.reference):
        doc.user_data[_KEY] = sentence.attributes
    return example
