"""A tokenizer whose tokens are the matches of a regular expression, by default the runs without white space::

    [nlp.tokenizer]
    @tokenizers = "spacy_crfseq.RegexTokenizer.v1"
    pattern = "\\\\S+"

(No deferred annotations here: spaCy validates a config with the evaluated annotations.)
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import srsly
from spacy.language import Language
from spacy.tokens import Doc
from spacy.vocab import Vocab

from ...corpora.splitting import SPACES, Splitter
from ...errors import CrfError, DataError, ModelFileError
from ...files import collecting


def create_regex_tokenizer(pattern: str = SPACES, between: str = "words") -> Callable[[Language], "RegexTokenizer"]:
    """Create a tokenizer whose tokens are matches of a pattern (``spacy_crfseq.RegexTokenizer.v1``).

    pattern (str): A regular expression; by default, tokens are what is between white space.  In a config, write a
        dollar sign as ``\\\\x24``: spaCy doubles $ when it saves one.
    between (str): Which text between matches becomes tokens of its own: "words", each run without white space;
        "nothing", which leaves such text out; or "everything", white space beyond a single space as well.

    With "words", doc.text is the text if white space in it is single spaces between tokens; other white space becomes
    one space or, before the first token, none, because tokens of white space would be part of the sequences that a
    CRF labels.  With "everything", doc.text is always the text.
    Raises ConfigError on a pattern that cannot be read or that matches the empty text.
    """
    splitter = Splitter(pattern, between)
    return lambda nlp: RegexTokenizer(nlp.vocab, splitter.pattern, splitter.between)


class RegexTokenizer:
    """A tokenizer of a pipeline; see `create_regex_tokenizer`."""

    def __init__(self, vocab: Vocab, pattern: str = SPACES, between: str = "words") -> None:
        self.vocab, self.split = vocab, Splitter(pattern, between)

    def __repr__(self) -> str:
        return f"RegexTokenizer(pattern={self.split.pattern!r}, between={self.split.between!r})"

    def __call__(self, text: str) -> Doc:
        """Return the Doc of a text."""
        words, spaces = self.split(text)
        return Doc(self.vocab, words=words, spaces=spaces)

    def pipe(self, texts: Iterable[str], batch_size: int = 1000) -> Iterator[Doc]:
        """Yield the Doc of each text."""
        return map(self, texts)

    def explain(self, text: str) -> list[tuple[str, str]]:
        """Return the tokens of a text, each after what made it: "MATCH", or "BETWEEN" matches."""
        return [("MATCH" if self.split.matches(word) else "BETWEEN", word) for word in self.split(text)[0]]

    def to_bytes(self, **kwargs: Any) -> bytes:
        """Return the settings as bytes."""
        data: bytes = srsly.msgpack_dumps({"pattern": self.split.pattern, "between": self.split.between})
        return data

    def from_bytes(self, bytes_data: bytes, **kwargs: Any) -> "RegexTokenizer":
        """Take over settings.  RAISES DataError: If the bytes are those of something else."""
        try:
            with collecting():
                settings = srsly.msgpack_loads(bytes_data)
            self.split = Splitter(settings["pattern"], settings["between"])
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"These are not the settings of a RegexTokenizer: {error}.") from error
        return self

    def to_disk(self, path: Path | str, **kwargs: Any) -> None:
        """Write the settings to a file."""
        Path(path).write_bytes(self.to_bytes())

    def from_disk(self, path: Path | str, **kwargs: Any) -> "RegexTokenizer":
        """Take over the settings in a file.  RAISES ModelFileError: If it holds something else."""
        try:
            return self.from_bytes(Path(path).read_bytes())
        except CrfError as error:
            raise ModelFileError(f"{path}: {error}") from error
