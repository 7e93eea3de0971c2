"""A word list as an attribute: fires on words that are in a file, one word a line.

In a config the gazetteer stands under the name that templates use::

    [components.crf_ner.features]
    @crf_features = "spacy_crfseq.Templates.v1"
    templates = ["LOWER[-1..1]", "CITY[-1..1]"]

    [components.crf_ner.features.functions]

    [components.crf_ner.features.functions.CITY]
    @crf_features = "spacy_crfseq.Gazetteer.v1"
    path = "assets/cities.txt"
"""

from __future__ import annotations

from pathlib import Path

from ..errors import ConfigError


class Gazetteer:
    """Function of a word's text: "1" where the word is listed, else None.

    path (Path | str): UTF-8 file, one word a line; blank lines are skipped.
    lower (bool): Compare lower-cased.
    RAISES ConfigError: If the file cannot be read.
    """

    def __init__(self, path: Path | str, lower: bool = True) -> None:
        self.path, self.lower = Path(path), lower
        try:
            lines = self.path.read_text(encoding="utf8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"Gazetteer: cannot read the word list {self.path} ({error}).") from error
        self.words = frozenset(self._key(line.strip()) for line in lines if line.strip())

    def _key(self, word: str) -> str:
        return word.lower() if self.lower else word

    def __call__(self, text: str) -> str | None:
        """Return "1" if `text` is listed."""
        return "1" if self._key(text) in self.words else None
