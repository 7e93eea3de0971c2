"""The reader of attribute files of CRFsuite; `features.noted` has the token function that knows what it notes."""

# No `from __future__ import annotations`: spaCy checks a config against the annotations as they are.

from collections.abc import Iterator
from pathlib import Path

from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example

from ..corpora import Sentence
from ..corpora.crfsuite import WORD, AttributeSentence, read_crfsuite, sentence_of
from ..errors import ConfigError
from ..features.noted import EXTENSION, KEY
from .readers import CorpusReader, Layout, check_setting

_COLUMNS = ("tag", "pos", "morph", "ent", "chunk")


def register_extension() -> None:
    """Make ``doc._.crf_attributes`` known to spaCy."""
    if not Doc.has_extension(EXTENSION):
        Doc.set_extension(EXTENSION, default=None)


def create_crfsuite_reader(
    path: Path | None,
    column: str = "tag",
    scheme: str = "IOB2",
    word: str = WORD,
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
        return (sentence_of(sentence, column, self._word) for sentence in self._read())


def _with_attributes(example: Example, sentence: AttributeSentence) -> Example:
    for doc in (example.predicted, example.reference):
        doc.user_data[KEY] = sentence.attributes
    return example
